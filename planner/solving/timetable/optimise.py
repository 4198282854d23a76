"""The best timetable: a greedy one as hint and baseline, the search, and a pass for the earliest ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner.errors import SolverError
from planner.formulation.timetable.problem import UNITS_PER_USD, Schedule, Timetable, objective_value, violations
from planner.formulation.timetable.time_index import bound_program
from planner.solvers.base import Termination
from planner.solvers.cp_sat_timetable import SearchLimits, TimetableResult, solve_timetable
from planner.solvers.registry import run
from planner.solving.timetable.build import ending_by
from planner.solving.timetable.greedy import baseline, best_greedy
from planner.solving.timetable.rounding import rounded_timetable

if TYPE_CHECKING:
    from planner.scenario.scenario import SolveOptions

DEFAULT_SECONDS = 60.0
"""Time limit of the search where none is given; a plan that is not proven by then states its gap."""
FIRST_SECONDS = 5.0
"""Time of a first search; what it does not prove gets a bound from the linear program."""
TIE_SECONDS = 5.0
"""Time limit of the pass that breaks ties: any timetable of the same cost is as good."""
PROVEN_GAP = 1e-7


@dataclass(frozen=True)
class SolvedTimetable:
    """A schedule with its proof; `bound` is in the units of the objective, None where nothing is proven."""

    termination: Termination
    schedule: Schedule | None
    bound: float | None
    baseline: tuple[str, float, float] | None  # name, dollars and last end (h) of the better timetable by a simple rule


def solve_schedule(problem: Timetable, options: SolveOptions) -> SolvedTimetable:
    """Return the best schedule within the time limit and the gap of the options."""
    seconds = DEFAULT_SECONDS if options.time_limit_seconds is None else options.time_limit_seconds
    stop = perf_counter() + seconds
    if any(not task.modes for task in problem.tasks):
        return SolvedTimetable(Termination.INFEASIBLE, None, None, None)
    simple = baseline(problem)
    named = None if simple is None else (simple[0], _dollars(problem, simple[1]), _last_hours(problem, simple[1]))
    hint = best_greedy(problem)
    gap = max(options.gap, PROVEN_GAP)
    first = solve_timetable(problem, SearchLimits(min(seconds, FIRST_SECONDS), gap, hint))
    schedule, bound = better(problem, first.schedule, hint), first.bound
    if first.termination in (Termination.FEASIBLE, Termination.NO_SOLUTION) and seconds > FIRST_SECONDS:
        relaxed, schedule = linear_relaxation(problem, schedule, seconds / 4)
        if relaxed == math.inf:
            return SolvedTimetable(Termination.INFEASIBLE, None, None, named)
        bound = max(bound, relaxed)
        least = math.ceil(bound - 1e-6)
        first = solve_timetable(problem, SearchLimits(stop - perf_counter(), gap, schedule, least))
        schedule, bound = better(problem, first.schedule, schedule), max(bound, first.bound)
    if schedule is None or first.termination is Termination.INFEASIBLE:
        return SolvedTimetable(first.termination, None, None, named)
    found = _break_ties(problem, schedule, max(0.1, min(TIE_SECONDS, stop - perf_counter())), options.gap)
    if broken := violations(problem, found):
        raise SolverError("the timetable breaks its own rules: " + "; ".join(broken[:5]))
    return SolvedTimetable(_termination(first), found, bound, named)


def better(problem: Timetable, one: Schedule | None, other: Schedule | None) -> Schedule | None:
    """Return the better of two schedules: a search that is stopped early may not have come as far as its hint."""
    found = [each for each in (one, other) if each is not None]
    return min(found, key=lambda each: objective_value(problem, each), default=None)


def linear_relaxation(problem: Timetable, incumbent: Schedule | None, seconds: float) -> tuple[float, Schedule | None]:
    """Return a lower bound on the cost by the linear program over buckets of time, and a schedule made of its solution.

    The bound is 0 where there is none in time, and infinite where not even the linear program has a solution; the
    schedule is the incumbent where none is better.
    """
    if problem.objective != "cost":
        return 0.0, incumbent
    made = bound_program(problem, None if incumbent is None else objective_value(problem, incumbent))
    if made is None:
        return 0.0, incumbent
    result = run(made.program, time_limit_seconds=seconds)
    found = result.objective if result.is_proven else result.bound
    if result.solution is not None:
        incumbent = better(problem, rounded_timetable(problem, made, result.solution), incumbent)
    if result.is_infeasible and incumbent is None:
        return math.inf, None
    # A hundredth of a cent is left to the tolerances of the solver.
    return 0.0 if found is None else max(0.0, found * (1 - 1e-7) - 1.0), incumbent


def _termination(first: TimetableResult) -> Termination:
    return Termination.OPTIMAL if first.termination is Termination.OPTIMAL else Termination.FEASIBLE


def _break_ties(problem: Timetable, schedule: Schedule, seconds: float, gap: float) -> Schedule:
    """Return a schedule with the same objective that is cheaper where time was minimised, and ends earlier."""
    if problem.objective == "last":
        problem = ending_by(problem, objective_value(problem, schedule))
        cheaper = solve_timetable(problem, SearchLimits(seconds, max(gap, PROVEN_GAP), schedule))
        schedule = cheaper.schedule or schedule
    most = objective_value(problem, schedule)
    earlier = solve_timetable(problem, SearchLimits(seconds, hint=schedule, most=most))
    return earlier.schedule or schedule


def _dollars(problem: Timetable, schedule: Schedule) -> float:
    """Return the cost of a schedule in dollars, whatever is minimised."""
    return objective_value(replace(problem, objective="cost"), schedule) / UNITS_PER_USD


def _last_hours(problem: Timetable, schedule: Schedule) -> float:
    """Return when the last job of a schedule ends, in hours."""
    return objective_value(replace(problem, objective="last"), schedule) / 60
