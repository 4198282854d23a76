"""The search for a timetable: a short one, a linear program, and one for the time that is left.

What a bound and a known timetable show to be in no timetable as good is left out before the next step.
"""

from __future__ import annotations

import math
import random
from dataclasses import field
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.time_index import bound_program
from planner.formulation.timetable_problem import objective_value, violations
from planner.formulation.timetable_reduction import reduce_by_columns, reduce_timetable
from planner.records import record
from planner.solvers.base import Termination
from planner.solvers.cp_sat_timetable import SearchLimits, solve_timetable
from planner.solvers.registry import run
from planner.solving.timetable.greedy import place_tasks

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.time_index import BoundProgram, Column
    from planner.formulation.timetable_problem import Schedule, Timetable


# Timetables made of the solution of the linear program over buckets of time, which tells who should run when.
#
# A task is drawn a column in proportion to its value there; tasks are placed in the order of these columns, each in the
# mode of its column where that still has a place. The best of some draws is a start for the search, or better.


DRAWS = 100
"""Timetables that are drawn; the first takes the largest value of each task."""
DRAW_SECONDS = 2.0
SMALLEST_VALUE = 1e-6


def rounded_timetable(problem: Timetable, bound: BoundProgram, values: Floats) -> Schedule | None:
    """Return the best of the timetables drawn from a solution of the linear program; None where none keeps its rules.

    The draws are the same for the same program, as far as they are reached within the time.
    """
    stop, draw, lots = perf_counter() + DRAW_SECONDS, random.Random(0), iter(values[len(bound.columns) :].tolist())
    bought = [0 if one.price is None else math.ceil(next(lots) - SMALLEST_VALUE) for one in problem.resources]
    weighted = [
        (one, value) for one, value in zip(bound.columns, values.tolist(), strict=False) if value > SMALLEST_VALUE
    ]
    by_task = {task: list(group) for task, group in groupby(weighted, key=lambda pair: pair[0].task)}
    if len(by_task) < len(problem.tasks):
        return None
    best: tuple[float, Schedule] | None = None
    for number in range(DRAWS):
        picked: list[Column] = [
            max(by_task[task], key=lambda pair: pair[1])[0]
            if number == 0
            else draw.choices([one for one, _ in by_task[task]], [value for _, value in by_task[task]])[0]
            for task in range(len(problem.tasks))
        ]
        order = [(one.first, task) for task, one in enumerate(picked)]
        found = place_tasks(problem, order.__getitem__, bought, [one.mode for one in picked])
        value = math.inf if found is None else objective_value(problem, found)
        # Lots that are rounded up may take more than a pool or a group of lots has.
        if found is not None and (best is None or value < best[0]) and not violations(problem, found):
            best = value, found
        if perf_counter() > stop:
            break
    return None if best is None else best[1]


FIRST_SECONDS = 5.0
"""Time of a search before the linear program: most timetables are proven in it."""
MAX_SHARE = 0.25
"""Most of the time that the linear program may take."""
RELAXATION_TOLERANCE = 1e-7
RELAXATION_UNITS = 1.0
"""A hundredth of a cent and less: left to the tolerances of the solver."""


class TimetableSearch:
    """A timetable with the best schedule and the best bound so far; both may be improved again and again.

    `bound` is infinite where no schedule exists, and `is_proven` says that the schedule is within the gap.
    """

    def __init__(self, problem: Timetable, known: Schedule | None, gap: float) -> None:
        self.problem, self.schedule, self.gap = problem, known, gap
        self.bound = -math.inf
        self.is_begun = False
        self.reduced = reduce_timetable(problem, known)
        self.is_proven = False

    def improve(self, seconds: float) -> None:
        """Search for a number of seconds, or until the schedule is proven."""
        stop = perf_counter() + seconds
        if not self.is_begun:
            self.is_begun = True
            self._search(min(seconds, FIRST_SECONDS))
            if not self.is_done and perf_counter() < stop:
                self._relax(seconds * MAX_SHARE)
        if not self.is_done and (left := stop - perf_counter()) > 0:
            self._search(left)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to search for."""
        return self.is_proven or self.bound == math.inf

    @property
    def termination(self) -> Termination:
        """Return what is known of the schedule."""
        if self.bound == math.inf:
            return Termination.INFEASIBLE
        if self.schedule is None:
            return Termination.NO_SOLUTION
        return Termination.OPTIMAL if self.is_proven else Termination.FEASIBLE

    def _take(self, schedule: Schedule | None) -> None:
        """Keep a schedule of the reduced timetable where it is better, and leave out what is now too expensive."""
        if schedule is None:
            return
        found = better(self.problem, self.schedule, self.reduced.restored(schedule))
        if found is not self.schedule:
            self.schedule = found
            self.reduced = self.reduced.then(reduce_timetable(self.reduced.problem, self.known))

    @property
    def known(self) -> Schedule | None:
        """Return the best schedule as one of the reduced timetable."""
        return None if self.schedule is None else self.reduced.reduced(self.schedule)

    def _search(self, seconds: float) -> None:
        """Search with CP-SAT."""
        least = math.ceil(self.bound - 1e-6) if self.bound > 0 else None
        result = solve_timetable(self.reduced.problem, SearchLimits(seconds, self.gap, self.known, least))
        if result.termination is Termination.INFEASIBLE and self.schedule is None:
            self.bound = math.inf
            return
        self.bound = max(self.bound, result.bound)
        self.is_proven = result.termination is Termination.OPTIMAL
        self._take(result.schedule)

    def _relax(self, seconds: float) -> None:
        """Raise the bound by the linear program, round its solution, and leave out what costs too much there."""
        found = linear_relaxation(self.reduced.problem, self.known, seconds)
        self.bound = max(self.bound, found.bound)
        self._take(found.schedule)
        known = self.known
        if known is None or not found.columns:
            return
        room = objective_value(self.problem, self.reduced.restored(known)) - found.bound + RELAXATION_UNITS
        fewer = reduce_by_columns(self.reduced.problem, found.columns, (found.reduced_costs <= room).tolist())
        self.reduced = self.reduced.then(fewer)


@record(frozen=True)
class Relaxation:
    """What the linear program shows: a bound, infinite where no timetable exists, and a schedule made of its solution.

    The reduced costs (columns,) are in units; without an optimum there are no columns.
    """

    bound: float
    schedule: Schedule | None
    columns: tuple[Column, ...] = ()
    reduced_costs: Floats = field(default_factory=lambda: np.zeros(0))


def linear_relaxation(problem: Timetable, known: Schedule | None, seconds: float) -> Relaxation:
    """Return what the linear program over buckets of time shows of the timetables that cost at most a known one.

    The bound is 0 where there is none in time; the schedule is the known one where none is better.
    """
    if problem.objective != "cost":
        return Relaxation(0.0, known)
    made = bound_program(problem, None if known is None else objective_value(problem, known))
    if made is None:
        return Relaxation(0.0, known)
    result = run(made.program, time_limit_seconds=seconds)
    if result.is_infeasible and known is None:
        return Relaxation(math.inf, None)
    found = result.objective if result.is_proven else result.bound
    bound = 0.0 if found is None else max(0.0, found * (1 - RELAXATION_TOLERANCE) - RELAXATION_UNITS)
    if result.solution is None:
        return Relaxation(bound, known)
    schedule = better(problem, rounded_timetable(problem, made, result.solution), known)
    if result.reduced_costs is None:
        return Relaxation(bound, schedule)
    return Relaxation(bound, schedule, made.columns, result.reduced_costs[: len(made.columns)])


def better(problem: Timetable, one: Schedule | None, other: Schedule | None) -> Schedule | None:
    """Return the better of two schedules: a search that is stopped early may not have come as far as its hint."""
    found = [each for each in (one, other) if each is not None]
    return min(found, key=lambda each: objective_value(problem, each), default=None)
