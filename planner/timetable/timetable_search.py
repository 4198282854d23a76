"""The search for a timetable: without search, a linear program, CP-SAT; and a bound for any guarantee on spot.

A timetable has modes for some guarantees of a job, and any other is allowed. Between two of them, of 2 h and of 4 h, a
run lasts at least 2 h, and costs no less than with 4 h: no guarantee costs less than a longer one. A mode that lasts
2 h at the dollars of 4 h stands for all of them. It takes nothing from budgets, whose dollars are not in order.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from planner.arrays import CandidateTable, Floats
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.formulation.solvers import Termination, run
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario
from planner.solving.prepare import PreparedScenario
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.modes import (
    BuiltTimetable,
    Guarantees,
    guarantees_of_job,
    modes_of,
    undominated_modes,
    without_reservations,
)
from planner.timetable.time_index import (
    BoundProgram,
    Column,
    bound_program,
    reduce_by_columns,
    reduce_timetable,
    start_range,
)
from planner.timetable.timetable_problem import (
    SAME_MINUTE,
    Mode,
    Period,
    Schedule,
    Timetable,
    lateness_cost,
    lots_from_pool,
    lots_in_period,
    minutes_down,
    minutes_up,
    objective_value,
    peak_use,
    period_spend,
    time_bounds,
    violations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# A timetable without search: one task after the other, in the cheapest mode that makes its deadline.
#
# It is where the program starts from, and the baseline that a plan is compared with: what a careful person does by
# hand.


Order = Literal["earliest due date", "cheapest first"]
ORDERS: tuple[Order, ...] = ("earliest due date", "cheapest first")


@dataclass
class _Board:
    """What the tasks that are placed hold, take from pools and spend."""

    problem: Timetable
    bought: list[int]
    held: list[list[tuple[int, int, int]]] = field(default_factory=list)  # per resource: start, end, amount
    used: list[int] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = [[] for _ in self.problem.resources]
        self.used = [lots_from_pool(self.problem, self.bought, pool) for pool in range(len(self.problem.pools))]
        self.spent = [lots_in_period(self.problem, self.bought, period) for period in self.problem.periods]

    def capacity(self, resource: int) -> int:
        """Return how much of a resource there is."""
        thing = self.problem.resources[resource]
        return thing.capacity if thing.price is None else self.bought[resource]

    def is_possible(self, mode: Mode) -> bool:
        """Return whether a mode fits on empty resources and the pools that are left."""
        return all(amount <= self.capacity(which) for which, amount in mode.needs) and all(
            self.used[which] + amount <= self.problem.pools[which].amount for which, amount in mode.uses
        )

    def fits(self, mode: Mode, start: int) -> bool:
        """Return whether a mode can run from `start` beside all that is placed."""
        end = start + mode.minutes
        for which, amount in mode.needs:
            others = [interval for interval in self.held[which] if interval[0] < end and start < interval[1]]
            limit = self.capacity(which) - amount
            points = [start, *(first for first, _, _ in others if first > start)]
            if any(sum(n for first, last, n in others if first <= at < last) > limit for at in points):
                return False
        return all(
            self.spent[number] + period_spend(mode, start, period) <= period.amount
            for number, period in enumerate(self.problem.periods)
        )

    def starts(self, mode: Mode, earliest: int) -> Iterator[int]:
        """Yield the starts worth trying, first ones first: now, and whenever something ends or a period begins."""
        times = {max(earliest, mode.earliest)}
        times |= {end for which, _ in mode.needs for _, end, _ in self.held[which]}
        for period in self.problem.periods if mode.spend else ():
            times |= {period.start, period.end}
            times |= self._affordable_start(mode, period)
        yield from sorted(at for at in times if at >= earliest and mode.may_start(at))

    def _affordable_start(self, mode: Mode, period: Period) -> set[int]:
        """Return the start from which on the rest of a period's budget pays for the part inside."""
        left = period.amount - self.spent[self.problem.periods.index(period)]
        if left < 0:
            return set()
        return {max(0, period.end - left * mode.minutes // mode.spend)}

    def place(self, mode: Mode, start: int) -> None:
        """Add a mode."""
        for which, amount in mode.needs:
            self.held[which].append((start, start + mode.minutes, amount))
        for which, amount in mode.uses:
            self.used[which] += amount
        for number, period in enumerate(self.problem.periods):
            self.spent[number] += period_spend(mode, start, period)


def greedy_timetable(
    problem: Timetable, order: Order = "earliest due date", bought: Sequence[int] | None = None
) -> Schedule | None:
    """Return a timetable of tasks placed one by one; None where a task has no place left.

    `bought` is how many of each lot there are; none by default. Each task takes the mode and the earliest start with
    the least dollars and lateness. `cheapest first` places the tasks with the cheapest modes before the others.
    """
    _, last = time_bounds(problem)
    cheapest = [min((mode.cost for mode in task.modes), default=0) for task in problem.tasks]

    def key(index: int) -> tuple[int, int, str]:
        task = problem.tasks[index]
        due = last[index] if task.due is None else min(last[index], task.due)
        return (due, cheapest[index], task.name) if order == ORDERS[0] else (cheapest[index], due, task.name)

    return place_tasks(problem, key, bought)


def place_tasks(
    problem: Timetable,
    key: Callable[[int], Any],
    bought: Sequence[int] | None = None,
    wanted: Sequence[int] | None = None,
) -> Schedule | None:
    """Return a timetable of tasks placed in the order of a key; None where a task has no place left.

    `wanted` names a mode of each task, which it takes wherever that has a place in time.
    """
    first, last = time_bounds(problem)
    counts = list(bought) if bought is not None else [0] * len(problem.resources)
    board = _Board(problem, counts)
    modes, starts = [-1] * len(problem.tasks), [0] * len(problem.tasks)
    for index in _sequence(problem, key):
        task = problem.tasks[index]
        ready = max(
            [first[index], *(starts[i] + problem.tasks[i].modes[modes[i]].minutes + lag for i, lag in task.after)]
        )
        place = None if wanted is None else _best_place(board, index, ready, last[index], (wanted[index],))
        place = place or _best_place(board, index, ready, last[index], range(len(task.modes)))
        if place is None:
            return None
        modes[index], starts[index] = place
        board.place(task.modes[modes[index]], starts[index])
    return without_spare(problem, Schedule(tuple(modes), tuple(starts), tuple(counts)))


def _sequence(problem: Timetable, key: Callable[[int], Any]) -> list[int]:
    """Return the tasks in the order in which they are placed; none before one that it waits for."""
    left, sequence = set(range(len(problem.tasks))), list[int]()
    while left:
        ready = [index for index in left if not any(other in left for other, _ in problem.tasks[index].after)]
        sequence.append(min(ready, key=key))
        left.remove(sequence[-1])
    return sequence


def _best_place(board: _Board, index: int, ready: int, last: int, places: Sequence[int]) -> tuple[int, int] | None:
    """Return which of some modes to take and its start: least cost, then earliest end; None where nothing fits."""
    task, problem = board.problem.tasks[index], board.problem
    best: tuple[int, int, int, int] | None = None
    options = [(place, task.modes[place]) for place in places]
    for place, mode in sorted(options, key=lambda item: (item[1].cost, item[1].minutes, item[0])):
        if best is not None and problem.objective == "cost" and mode.cost > best[0]:
            break
        if not board.is_possible(mode):
            continue
        for start in board.starts(mode, ready):
            if start > start_range(task, mode, ready, last)[1]:
                break
            if board.fits(mode, start):
                value = mode.cost + lateness_cost(task, start, mode.minutes) if problem.objective == "cost" else 0
                option = (value, start + mode.minutes, place, start)
                best = option if best is None else min(best, option)
                break
    return None if best is None else (best[2], best[3])


def without_spare(problem: Timetable, schedule: Schedule) -> Schedule:
    """Return the schedule with no more of each lot than it uses."""
    bought = tuple(
        0 if resource.price is None else peak_use(problem, schedule, number)
        for number, resource in enumerate(problem.resources)
    )
    return replace(schedule, bought=bought)


def best_greedy(problem: Timetable) -> Schedule | None:
    """Return the best of the greedy timetables in both orders, with none or some of each lot bought.

    Lots that alone cost more than the best timetable so far are not tried.
    """
    best: Schedule | None = None
    value = math.inf
    for lot, count in [(None, 0), *_lot_trials(problem)]:
        if lot is not None and (problem.resources[lot].price or 0) * count > value and problem.objective == "cost":
            continue
        bought = [count if number == lot else 0 for number in range(len(problem.resources))]
        for order in ORDERS:
            schedule = greedy_timetable(problem, order, bought)
            # Lots may take more than a pool has that no mode uses: a limit on what is paid at once.
            if (
                schedule is not None
                and objective_value(problem, schedule) < value
                and not violations(problem, schedule)
            ):
                best, value = schedule, objective_value(problem, schedule)
    return best


def _lot_trials(problem: Timetable) -> Iterator[tuple[int, int]]:
    """Yield lots with numbers of them."""
    for number, resource in enumerate(problem.resources):
        if resource.price is not None:
            for count in _some_counts(min(resource.capacity, len(problem.tasks))):
                yield number, count


def _some_counts(most: int) -> list[int]:
    """Return 1, 2, 4 ... and the most: enough to see about how many of a lot pay."""
    return sorted({min(most, 2**power) for power in range(most.bit_length() + 1)} - {0})


def baseline(problem: Timetable) -> tuple[str, Schedule] | None:
    """Return the better of the greedy timetables without anything reserved, and its name."""
    schedules = [(order, schedule) for order in ORDERS if (schedule := greedy_timetable(problem, order))]
    return min(schedules, key=lambda item: objective_value(problem, item[1]), default=None)


# The search for a timetable: a short one, a linear program, and one for the time that is left.
#
# What a bound and a known timetable show to be in no timetable as good is left out before the next step.


# Timetables made of the solution of the linear program over buckets of time, which tells who should run when.
#
# A task is drawn a column in proportion to its value there; tasks are placed in the order of these columns, each in the
# mode of its column where that still has a place. The best of some draws is a start for the search, or better.


DRAWS, MOST_PLACED = 100, 6_000
"""Timetables that are drawn, and tasks that are placed for them, at most; the first takes the largest value of each."""
SMALLEST_VALUE = 1e-6


def rounded_timetable(problem: Timetable, bound: BoundProgram, values: Floats) -> Schedule | None:
    """Return the best of the timetables drawn from a solution of the linear program; None where none keeps its rules.

    The draws are the same for the same program.
    """
    draw, lots = random.Random(0), iter(values[len(bound.columns) :].tolist())
    bought = [0 if resource.price is None else math.ceil(next(lots) - SMALLEST_VALUE) for resource in problem.resources]
    weighted = [
        (column, value) for column, value in zip(bound.columns, values.tolist(), strict=False) if value > SMALLEST_VALUE
    ]
    by_task = {task: list(group) for task, group in groupby(weighted, key=lambda pair: pair[0].task)}
    if len(by_task) < len(problem.tasks):
        return None
    best: tuple[float, Schedule] | None = None
    for number in range(max(1, min(DRAWS, MOST_PLACED // len(problem.tasks)))):
        picked: list[Column] = [
            max(by_task[task], key=lambda pair: pair[1])[0]
            if number == 0
            else draw.choices([column for column, _ in by_task[task]], [value for _, value in by_task[task]])[0]
            for task in range(len(problem.tasks))
        ]
        order = [(column.first, task) for task, column in enumerate(picked)]
        schedule = place_tasks(problem, order.__getitem__, bought, [column.mode for column in picked])
        value = math.inf if schedule is None else objective_value(problem, schedule)
        # Lots that are rounded up may take more than a pool or a group of lots has.
        if schedule is not None and (best is None or value < best[0]) and not violations(problem, schedule):
            best = value, schedule
    return None if best is None else best[1]


FIRST_WORK = 1.6
"""Work of a search before the linear program, about 5 s: most timetables are proven in it."""
MAX_SHARE = 0.25
"""Most of the time limit that the linear program may take."""
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
        self.work = 0.0  # of CP-SAT so far

    def improve(self, seconds: float, work: float = math.inf) -> None:
        """Search for a number of seconds, by a limit on the work of CP-SAT, or until the schedule is proven.

        `seconds` is what the time limit of the user leaves: of a step that is to end earlier the work is limited.
        """
        stop, most = perf_counter() + seconds, self.work + work
        if not self.is_begun:
            self.is_begun = True
            self._search(seconds, min(work, FIRST_WORK))
            if not self.is_done and perf_counter() < stop and self.work < most:
                self._relax(seconds * MAX_SHARE)
        if not self.is_done and (left := stop - perf_counter()) > 0 and self.work < most:
            self._search(left, most - self.work)

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
        best = better(self.problem, self.schedule, self.reduced.restored(schedule))
        if best is not self.schedule:
            self.schedule = best
            self.reduced = self.reduced.then(reduce_timetable(self.reduced.problem, self.known))

    @property
    def known(self) -> Schedule | None:
        """Return the best schedule as one of the reduced timetable."""
        return None if self.schedule is None else self.reduced.reduced(self.schedule)

    def _search(self, seconds: float, work: float) -> None:
        """Search with CP-SAT."""
        least = math.ceil(self.bound - 1e-6) if self.bound > 0 else None
        limits = SearchLimits(seconds, self.gap, self.known, least, work=None if math.isinf(work) else work)
        result = solve_timetable(self.reduced.problem, limits)
        self.work += result.work
        if result.termination is Termination.INFEASIBLE and self.schedule is None:
            self.bound = math.inf
            return
        self.bound = max(self.bound, result.bound)
        self.is_proven = result.termination is Termination.OPTIMAL
        self._take(result.schedule)

    def _relax(self, seconds: float) -> None:
        """Raise the bound by the linear program, round its solution, and leave out what costs too much there."""
        relaxation = linear_relaxation(self.reduced.problem, self.known, seconds)
        self.bound = max(self.bound, relaxation.bound)
        self._take(relaxation.schedule)
        known = self.known
        if known is None or not relaxation.columns:
            return
        room = objective_value(self.problem, self.reduced.restored(known)) - relaxation.bound + RELAXATION_UNITS
        fewer = reduce_by_columns(self.reduced.problem, relaxation.columns, (relaxation.reduced_costs <= room).tolist())
        self.reduced = self.reduced.then(fewer)


@dataclass(frozen=True)
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
    least = result.objective if result.is_proven else result.bound
    bound = 0.0 if least is None else max(0.0, least * (1 - RELAXATION_TOLERANCE) - RELAXATION_UNITS)
    if result.solution is None:
        return Relaxation(bound, known)
    schedule = better(problem, rounded_timetable(problem, made, result.solution), known)
    if result.reduced_costs is None:
        return Relaxation(bound, schedule)
    return Relaxation(bound, schedule, made.columns, result.reduced_costs[: len(made.columns)])


def better(problem: Timetable, one: Schedule | None, other: Schedule | None) -> Schedule | None:
    """Return the better of two schedules: a search that is stopped early may not have come as far as its hint."""
    schedules = [schedule for schedule in (one, other) if schedule is not None]
    return min(schedules, key=lambda schedule: objective_value(problem, schedule), default=None)


Span = tuple[float, float]
"""Minutes: longer than the first, and at most the second."""


@dataclass(frozen=True)
class AnyGuarantee:
    """What no timetable stays below, and per job the spans in which guarantees might cost less than those of modes."""

    bound: float  # in units of the objective
    spans: tuple[Span | None, ...]
    work: float  # of the search
    modes: int  # that were compared


def bound_of_any_guarantee(
    prepared: PreparedScenario, built: BuiltTimetable, seconds: float, work: float, gap: float
) -> AnyGuarantee:
    """Return what no timetable stays below, whatever its guarantees: in units of the objective, by the limits.

    It is at least what each job costs with all limits to itself.
    """
    assert built.least is not None
    nowhere = (None,) * len(built.problem.tasks)
    if built.problem.objective != "cost":
        return AnyGuarantee(built.least, nowhere, 0.0, 0)
    problem, spans, modes = with_any_guarantee(prepared, built)
    search = TimetableSearch(problem, None, gap)
    search.improve(seconds, work)
    bound = max(built.least, search.bound) if math.isfinite(search.bound) else built.least
    if search.schedule is None:
        return AnyGuarantee(bound, nowhere, search.work, modes)
    chosen = zip(spans, search.schedule.modes, strict=True)
    return AnyGuarantee(bound, tuple(of_modes[mode] for of_modes, mode in chosen), search.work, modes)


def with_any_guarantee(
    prepared: PreparedScenario, built: BuiltTimetable
) -> tuple[Timetable, list[list[Span | None]], int]:
    """Return the timetable with modes for every guarantee that a job may have, and the span of each mode.

    And how many modes were compared, most of which are dominated.
    """
    tasks, spans, compared = [], [], 0
    for index, task in enumerate(built.problem.tasks):
        pairs: list[tuple[Mode, Span | None]] = [(replace(mode, rank=0), None) for mode in task.modes]
        pairs += _modes_between(prepared, built, index)
        kept = undominated_modes([mode for mode, _ in pairs], deadline=task.deadline)
        tasks.append(replace(task, modes=tuple(pairs[at][0] for at in kept)))
        spans.append([pairs[at][1] for at in kept])
        compared += len(pairs)
    return replace(built.problem, tasks=tuple(tasks)), spans, compared


def further_guarantees(
    prepared: PreparedScenario, built: BuiltTimetable, schedule: Schedule, spans: Sequence[Span | None]
) -> tuple[Guarantees, ...]:
    """Return per job the guarantees that were added, and those that may cost less than a schedule of the modes.

    A job on spot may take what the others leave it before and after its run; and the middle of a span is tried.
    """
    further = []
    for index, (job, span) in enumerate(zip(prepared.scenario.jobs, spans, strict=True)):
        more = set(built.further[index])
        source = built.jobs[index].sources[schedule.modes[index]]
        if source.row in source.screened.spot:
            before, after = _room(built.problem, schedule, index)
            more.add(math.floor(after - before + SAME_MINUTE) + minutes_down(job.start_slack_hours))
        if span is not None:
            more.add(math.floor(sum(span) / 2))
        further.append(tuple(sorted(more)))
    return tuple(further)


def _room(problem: Timetable, schedule: Schedule, index: int) -> tuple[int, float]:
    """Return from when to when a task could hold what it holds, where the others stay."""
    task, mode, start = problem.tasks[index], schedule.mode(problem, index), schedule.starts[index]
    first = max([task.release, mode.earliest, *(schedule.end(problem, other) + lag for other, lag in task.after)])
    last = float(problem.horizon) if task.deadline is None else task.deadline
    for other, its in enumerate(problem.tasks):
        lags = [lag for waits_for, lag in its.after if waits_for == index]
        last = min([last, *(schedule.starts[other] - lag for lag in lags)])
        held = dict(schedule.mode(problem, other).needs)
        resources = problem.resources
        if other == index or all(held.get(at, 0) + amount <= resources[at].capacity for at, amount in mode.needs):
            continue
        if schedule.starts[other] < start:
            first = max(first, schedule.end(problem, other))
        else:
            last = min(last, schedule.starts[other])
    return first, last


def _modes_between(prepared: PreparedScenario, built: BuiltTimetable, index: int) -> Iterator[tuple[Mode, Span | None]]:
    """Yield for each guarantee of a job, and each of its rows, a mode for all guarantees down to the next shorter one.

    Where an unlimited offer costs no more on as few GPUs, other offers have no policy for the same guarantee. With a
    shorter one they may, so that such a row stands for theirs, too.
    """
    job, offers = prepared.scenario.jobs[index], prepared.market.offers
    levels = guarantees_of_job(prepared, index, built.further[index])
    shortest = [_shortest_minutes(prepared, index, screened) for _, screened in levels]
    of_job = min((float(minutes.min()) for minutes in shortest if len(minutes)), default=0.0)
    shorter = [60 * hours for hours, _ in levels[1:]]
    for (hours, screened), fastest, below in zip(levels, shortest, [*shorter, 0.0], strict=True):
        places = screened.table.offer
        is_free = np.asarray([_is_unlimited(offer, prepared.scenario) for offer in offers], dtype=bool)[places]
        varies = screened.table.share_low < screened.table.share_high
        varies[list(screened.spot)] = True
        rows = np.flatnonzero(is_free | varies)
        kept = np.asarray([minutes_up(offer.lead_hours + job.start_slack_hours) for offer in offers])[places]
        least = np.maximum(below - kept, np.where(is_free, of_job, fastest))[rows]
        modes = _modes_down_to(prepared, built, screened.table.rows(rows), least)
        for mode, minutes in zip(modes, least.tolist(), strict=True):
            yield mode, (max(below, minutes), 60 * hours) if screened.spot else None


def _is_unlimited(offer: Offer, scenario: Scenario) -> bool:
    """Return whether jobs may rent any number of machines of an offer at one time."""
    return offer.stock is None and offer.committed_hours is None and offer.provider not in scenario.limits.quota


def _shortest_minutes(prepared: PreparedScenario, index: int, screened: ScreenedCandidates) -> Floats:
    """Return the minutes (n,) of each row on demand, or of its least share on spot: no guarantee makes it faster."""
    uncut = without_reservations(prepared.candidates[index].table.rows(screened.rows), prepared)
    with np.errstate(invalid="ignore"):
        hours = np.fmin(uncut.late_hours(np.zeros(len(uncut))), uncut.late_hours(uncut.share_low))
    return np.asarray(60 * np.nan_to_num(hours), dtype=float)


def _modes_down_to(
    prepared: PreparedScenario, built: BuiltTimetable, table: CandidateTable, least_minutes: Floats
) -> Iterator[Mode]:
    """Yield each row as a mode that lasts and costs no more than any of its shares and guarantees down to some minutes.

    It holds no dollars, and neither waits for windows nor holds what may be closed at times. Who reserves its machine
    pays all of it, as in the comparison that leaves out other rows.
    """
    reserved = np.asarray([offer.is_reservation for offer in prepared.market.offers], dtype=bool)[table.offer]
    table = without_reservations(table, prepared, ~reserved)
    ends = [modes_of(prepared, table, share, built.shared) for share in (table.share_low, table.share_high)]
    dollars = {resource for limit, resource in built.shared.peaks if limit.is_of_dollars}
    for place, most, *modes in zip(table.offer.tolist(), least_minutes.tolist(), *ends, strict=True):
        offer = prepared.market.offers[place]
        is_free = bool(offer.available or offer.is_reservation)
        minutes = min([most, *(mode.minutes - mode.unused for mode in modes)])
        held = [dict(mode.needs) for mode in modes]
        needs = ((name, min(needed.get(name, 0) for needed in held)) for name in held[0] if name not in dollars)
        yield Mode(
            modes[0].label,
            max(1, math.floor(minutes)),
            min(mode.cost for mode in modes),
            () if is_free else tuple(needs),
            earliest=0 if is_free else min(mode.earliest for mode in modes),
            unused=0.0 if minutes >= 1 else 1.0,
        )
