"""Bounds on a timetable by buckets of time, and a smaller timetable with the same optimum.

With `least[j,m] = cost[m] + lateness at the earliest start + sum_r price[r]*need[m,r]`, the least that task j in mode m
adds to the objective, mode m of task j is left out where one of these holds:

    price     sum_{i != j} min_n least[i,n] without lots + least[j,m] > the cost of the known timetable
    nothing   another mode n of j holds, uses and spends nothing, least[j,n] < least[j,m] without lots, and j neither
              waits for a task nor is waited for: n at its earliest start may replace m in every timetable

With an optimum z of the linear program over buckets of time, a column whose reduced cost is above the cost of the known
timetable less z is in no timetable as good: a mode keeps the starts from the first to the last column that is left.

A lot that no mode needs any more is not bought. Costs of equal timetables stay equal, so ties are broken as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Integers
from planner.formulation.program import INFINITY, Program, Rows, sparse_rows
from planner.timetable.timetable_problem import (
    Mode,
    Period,
    Schedule,
    Task,
    Timetable,
    is_tied,
    lateness_cost,
    latest_start,
    lot_groups,
    lots_in_period,
    objective_value,
    overlap,
    time_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# What modes cannot help holding and spending in a window of time: redundant rows that tighten the relaxation.


MAX_WINDOWS = 60
"""Most windows of one resource: all pairs of releases and deadlines cost more to build than they gain."""


@dataclass(frozen=True)
class EnergyRow:
    """sum_{j,m} coefficient[j,m]*x[j,m] <= minutes * capacity: no solution holds more in the window than there is."""

    resource: int
    minutes: int
    terms: tuple[tuple[int, int, int], ...]  # (task, mode, coefficient)


def least_overlap(task: Task, mode: Mode, first: int, last: int, start: int, end: int) -> int:
    """Return the minutes of a mode in [start, end) wherever it is placed between `first` and its end by `last`.

    The overlap of an interval that moves is smallest at one of its extreme places.
    """
    earliest, latest = start_range(task, mode, first, last)
    if latest < earliest:
        return 0
    return min(overlap(place, place + mode.minutes, start, end) for place in (earliest, latest))


def start_range(task: Task, mode: Mode, first: int, last: int) -> tuple[int, int]:
    """Return the earliest and the latest start of a mode of a task between `first` and its end by `last`."""
    latest, limit = last - mode.minutes, latest_start(mode, task.deadline)
    return max(first, mode.earliest), latest if limit is None else min(latest, limit)


def energy_rows(problem: Timetable) -> list[EnergyRow]:
    """Return redundant rows that tighten the relaxation of `capacity`: one for each resource and window that counts.

    Windows run from an earliest start to a latest end of the tasks. If there are too many, evenly spaced ones stay.
    """
    first, last = time_bounds(problem)
    rows: list[EnergyRow] = []
    for number in range(len(problem.resources)):
        users = [
            (index, place, mode, need)
            for index, task in enumerate(problem.tasks)
            for place, mode in enumerate(task.modes)
            for which, need in mode.needs
            if which == number and need
        ]
        if not users:
            continue
        ranges = [start_range(problem.tasks[index], mode, first[index], last[index]) for index, _, mode, _ in users]
        opens = min(earliest for earliest, _ in ranges)
        closes = max(latest + user[2].minutes for (_, latest), user in zip(ranges, users, strict=True))
        starts = _thin(sorted({max(first[index], opens) for index, *_ in users}))
        ends = _thin(sorted({min(last[index], closes) for index, *_ in users}))
        for start in starts:
            for end in (moment for moment in ends if moment > start):
                terms = tuple(
                    (index, place, need * inside)
                    for index, place, mode, need in users
                    if (inside := least_overlap(problem.tasks[index], mode, first[index], last[index], start, end))
                )
                if len({index for index, *_ in terms}) > 1 or (terms and problem.resources[number].price is not None):
                    rows.append(EnergyRow(number, end - start, terms))
    return rows


def periods_together(problem: Timetable, first: Sequence[int], last: Sequence[int]) -> list[tuple[frozenset[int], int]]:
    """Return tasks that spend all their money in consecutive periods, and what these periods allow together.

    A task between `first` and its end by `last` spends everything there wherever it starts: the sum over such tasks of
    `spend` is at most the sum of the amounts. Redundant, and without it a budget that is far too small takes minutes
    to refute: four runs of $200 with $2.50 a month.
    """
    runs = consecutive_periods(problem)
    amounts: dict[frozenset[int], int] = {}
    for start, end in sorted(set(zip(first, last, strict=True))):
        for run in runs:
            if not run[0].start <= start <= end <= run[-1].end:
                continue
            within = [period for period in run if period.start < end and period.end > start]
            if within:
                inside = zip(first, last, strict=True)
                tasks = [k for k, (a, b) in enumerate(inside) if within[0].start <= a and b <= within[-1].end]
                amounts[frozenset(tasks)] = sum(period.amount for period in within)
    return list(amounts.items())


def consecutive_periods(problem: Timetable) -> list[list[Period]]:
    """Return the periods in runs without a gap between them, each run in order of time."""
    runs: list[list[Period]] = []
    for period in sorted(problem.periods, key=lambda period: period.start):
        if runs and runs[-1][-1].end == period.start:
            runs[-1].append(period)
        else:
            runs.append([period])
    return runs


def _thin(values: list[int]) -> list[int]:
    """Return at most the square root of `MAX_WINDOWS` of the values, the first and the last among them."""
    most = int(MAX_WINDOWS**0.5)
    if len(values) <= most:
        return values
    return [values[round(k * (len(values) - 1) / (most - 1))] for k in range(most)]


# A lower bound on the cost of a timetable: a linear program over buckets of time.
#
# Column `y[j,m,k]`: task j runs in mode m and starts in bucket k, which is [s_k, s_(k+1)). It costs what its earliest
# start costs. With `held[j,m,k,q]` the least minutes that a start anywhere in bucket k has in the wider bucket q, which
# is [t_q, t_(q+1)); it is at one of the two ends of bucket k because the overlap of an interval that moves is
# quasi-concave:
#
#     once[j]        sum_{m,k} y[j,m,k] = 1
#     energy[r,q]    sum need[m,r]*held[j,m,k,q]*y[j,m,k] <= (t_(q+1) - t_q) * capacity[r], or bought[r]
#     pool[p]        sum use[m,p]*y[j,m,k] + sum_r use[r,p]*bought[r] <= pool[p]
#     period[n]      sum spend[m]*held[j,m,k,n]/minutes[m]*y[j,m,k] <= period[n]
#     follows[i,j]   sum (earliest end of i)*y[i,m,k] + lag <= sum (latest start of j)*y[j,m,k]
#
# Every timetable is a point of this program at no higher cost, on the grid of minutes and off it, so its optimum is a
# bound. Columns that no timetable better than a known one can use are left out.


MAX_ENTRIES = 1_000_000
"""Most coefficients of the energy rows: buckets are widened until there are about as many."""
STARTS_PER_BUCKET = 4
"""The bound loses as many minutes of a run as a bucket of starts is wide: dividing these gains more than narrow rows.

Of 50 jobs that share everything 0.8 million coefficients gave a bound of $75.8 divided by four, $72.1 by two; and 1.0
million $76.5 where nothing was divided, in twice the time.
"""
MIN_BUCKETS, MAX_BUCKETS = 10, 400


@dataclass(frozen=True)
class Column:
    """A mode of a task that starts in one bucket: between `first` and `last`, both included."""

    task: int
    mode: int
    first: int
    last: int
    cost: int


@dataclass(frozen=True)
class BoundProgram:
    """The linear program; its variables are the columns, then a number bought of each lot in their order."""

    program: Program
    columns: tuple[Column, ...]


def bound_program(problem: Timetable, incumbent: int | None = None) -> BoundProgram | None:
    """Return the linear program whose optimum is a lower bound on the cost; None where a task has no column.

    Columns that no timetable of at most the cost `incumbent` uses are left out.
    """
    edges = bucket_edges(problem)
    starts = _starts(edges)
    columns = [column for index in range(len(problem.tasks)) for column in _columns(problem, index, starts)]
    columns = _below(columns, len(problem.tasks), incumbent)
    if len({column.task for column in columns}) < len(problem.tasks):
        return None
    lots = [number for number, resource in enumerate(problem.resources) if resource.price is not None]
    size, lot_column = len(columns) + len(lots), {number: len(columns) + k for k, number in enumerate(lots)}
    families = [
        _once_rows(problem, columns),
        *_energy_rows(problem, columns, edges, lot_column),
        *_pool_rows(problem, columns, lot_column),
        *_period_rows(problem, columns, lot_column),
        *_follow_rows(problem, columns),
        *_group_rows(problem, lot_column),
    ]
    upper = np.ones(size)
    upper[len(columns) :] = [problem.resources[number].capacity for number in lots]
    cost = np.array([column.cost for column in columns] + [problem.resources[n].price or 0 for n in lots], dtype=float)
    integer = np.zeros(size, dtype=bool)
    program = Program(np.zeros(size), upper, integer, cost, tuple(families), lambda column: f"y[{column}]")
    return BoundProgram(program, tuple(columns))


def bucket_edges(problem: Timetable) -> list[int]:
    """Return the edges of the buckets: evenly spaced, with the ends of periods, as many as keep the program small."""
    bounds = zip(problem.tasks, *time_bounds(problem), strict=True)
    ranges = [(*start_range(task, mode, *ends), mode) for task, *ends in bounds for mode in task.modes]
    count = MAX_BUCKETS
    while count > MIN_BUCKETS:
        width = max(1, problem.horizon // count)
        terms = (
            ((last - first) * STARTS_PER_BUCKET / width + 1) * (mode.minutes / width + 2) * len(mode.needs)
            for first, last, mode in ranges
            if first <= last
        )
        if sum(terms) <= MAX_ENTRIES:
            break
        count = count * 4 // 5
    edges = set(np.linspace(0, problem.horizon, max(count, MIN_BUCKETS) + 1).astype(int).tolist())
    edges |= {edge for period in problem.periods for edge in (period.start, period.end) if edge < problem.horizon}
    return sorted(edges)


def _starts(edges: list[int]) -> list[int]:
    """Return the edges of the buckets of starts: each bucket is divided."""
    parts = range(STARTS_PER_BUCKET)
    inside = {low + (high - low) * part // STARTS_PER_BUCKET for low, high in pairwise(edges) for part in parts}
    return sorted({*inside, edges[-1]})


def _columns(problem: Timetable, index: int, edges: list[int]) -> Iterator[Column]:
    """Yield the columns of a task; a mode that holds and spends nothing needs only its first bucket and what follows.

    Every bucket is kept where tasks wait for one another.
    """
    task = problem.tasks[index]
    first, last = (bounds[index] for bounds in time_bounds(problem))
    for place, mode in enumerate(task.modes):
        earliest, latest = start_range(task, mode, first, last)
        moves = is_tied(problem, index) or bool(mode.needs or mode.spend)
        for start, end in zip(edges, [*edges[1:], problem.horizon + 1], strict=True):
            low, high = max(start, earliest), min(end - 1, latest)
            if low > high:
                continue
            yield Column(index, place, low, high, mode.cost + lateness_cost(task, low, mode.minutes))
            if not moves:
                break


def _below(columns: list[Column], tasks: int, incumbent: int | None) -> list[Column]:
    """Return the columns that a timetable of at most the incumbent's cost may use."""
    if incumbent is None:
        return columns
    least = [min((column.cost for column in columns if column.task == task), default=0) for task in range(tasks)]
    room = incumbent - sum(least)
    return [column for column in columns if column.cost - least[column.task] <= room]


def _mode(problem: Timetable, column: Column) -> Mode:
    return problem.tasks[column.task].modes[column.mode]


def _held(mode: Mode, column: Column, start: int, end: int) -> int:
    """Return the least minutes in [start, end) over the starts of a column."""
    return min(overlap(at, at + mode.minutes, start, end) for at in (column.first, column.last))


def _rows(family: str, entries: list[tuple[int, int, float]], upper: list[float], lower: float = -INFINITY) -> Rows:
    """Return a family of rows from (row, column, coefficient)."""
    row, column, value = (np.array([entry[k] for entry in entries]) for k in range(3))
    ends = np.asarray(upper, dtype=float)
    return sparse_rows(
        family,
        row.astype(np.int64),
        column.astype(np.int64),
        value.astype(float),
        np.full(len(ends), lower) if lower == -INFINITY else ends,
        ends,
        str,
    )


def _once_rows(problem: Timetable, columns: list[Column]) -> Rows:
    entries = [(column.task, number, 1.0) for number, column in enumerate(columns)]
    return _rows("once", entries, [1.0] * len(problem.tasks), lower=1.0)


def _energy_rows(
    problem: Timetable, columns: list[Column], edges: list[int], lot_column: dict[int, int]
) -> Iterator[Rows]:
    """Yield the energy rows of every resource, in minutes of a bucket times what is held."""
    number, bucket, held = _held_minutes(problem, columns, np.asarray(edges))
    widths = np.diff(edges).astype(float)
    needs = [dict(mode.needs) for mode in (_mode(problem, column) for column in columns)]
    for resource, shared in enumerate(problem.resources):
        need = np.array([need.get(resource, 0) for need in needs])
        inside = need[number] > 0
        if not inside.any():
            continue
        row, column, value = bucket[inside], number[inside], (held * need[number])[inside].astype(float)
        upper = shared.capacity * widths
        if shared.price is not None:
            row = np.append(row, np.arange(len(widths)))
            column = np.append(column, np.full(len(widths), lot_column[resource]))
            value, upper = np.append(value, -widths), np.zeros(len(widths))
        yield sparse_rows(f"energy {shared.name}", row, column, value, np.full(len(widths), -INFINITY), upper, str)


def _held_minutes(problem: Timetable, columns: list[Column], edges: Integers) -> tuple[Integers, Integers, Integers]:
    """Return (column, bucket, least minutes held) of the columns that hold something, where that is not 0.

    The overlap of a bucket with an interval that moves is smallest at one of the two ends of its starts.
    """
    modes = [_mode(problem, column) for column in columns]
    holding = np.flatnonzero([bool(mode.needs) for mode in modes])
    first, last, minutes = (
        np.array(values, dtype=np.int64)[holding]
        for values in (
            [column.first for column in columns],
            [column.last for column in columns],
            [mode.minutes for mode in modes],
        )
    )
    low = np.searchsorted(edges, first, side="right") - 1
    count = np.maximum(np.searchsorted(edges, last + minutes, side="left") - low, 0)
    count = np.minimum(count, len(edges) - 1 - low)
    place = np.repeat(np.arange(len(holding)), count)
    bucket = low[place] + np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    held = np.full(len(place), np.iinfo(np.int64).max)
    for at in (first, last):
        start = at[place]
        inside = np.minimum(start + minutes[place], edges[bucket + 1]) - np.maximum(start, edges[bucket])
        held = np.minimum(held, np.maximum(inside, 0))
    some = held > 0
    return holding[place[some]], bucket[some], held[some]


def _pool_rows(problem: Timetable, columns: list[Column], lot_column: dict[int, int]) -> Iterator[Rows]:
    for pool, shared in enumerate(problem.pools):
        entries = [
            (0, number, float(amount))
            for number, column in enumerate(columns)
            for which, amount in _mode(problem, column).uses
            if which == pool
        ]
        entries += [
            (0, lot_column[number], float(amount))
            for number, resource in enumerate(problem.resources)
            for which, amount in resource.uses
            if which == pool
        ]
        if entries:
            yield _rows(f"pool {shared.name}", entries, [float(shared.amount)])


def _period_rows(problem: Timetable, columns: list[Column], lot_column: dict[int, int]) -> Iterator[Rows]:
    for period in problem.periods:
        entries = []
        for number, column in enumerate(columns):
            mode = _mode(problem, column)
            if mode.spend and (held := _held(mode, column, period.start, period.end)):
                entries.append((0, number, mode.spend * held / mode.minutes))
        for number, place in lot_column.items():
            alone = [int(number == k) for k in range(len(problem.resources))]
            if price := lots_in_period(problem, alone, period):
                entries.append((0, place, float(price)))
        if entries:
            yield _rows(f"period {period.start}", entries, [float(period.amount)])


def _follow_rows(problem: Timetable, columns: list[Column]) -> Iterator[Rows]:
    for index, task in enumerate(problem.tasks):
        for other, lag in task.after:
            entries = []
            for number, column in enumerate(columns):
                if column.task == other:
                    entries.append((0, number, float(column.first + _mode(problem, column).minutes)))
                elif column.task == index:
                    entries.append((0, number, -float(column.last)))
            yield _rows(f"follows {task.name}", entries, [-float(lag)])


def _group_rows(problem: Timetable, lot_column: dict[int, int]) -> Iterator[Rows]:
    for group, (capacity, members) in lot_groups(problem).items():
        yield _rows(f"group {group}", [(0, lot_column[number], 1.0) for number in members], [float(capacity)])


@dataclass(frozen=True)
class ReducedTimetable:
    """A timetable with some of the modes of another; `kept` has their places there, by task."""

    problem: Timetable
    kept: tuple[tuple[int, ...], ...]

    def restored(self, schedule: Schedule) -> Schedule:
        """Return a schedule of the reduced timetable as one of the whole timetable."""
        modes = (places[mode] for places, mode in zip(self.kept, schedule.modes, strict=True))
        return replace(schedule, modes=tuple(modes))

    def reduced(self, schedule: Schedule) -> Schedule | None:
        """Return a schedule of the whole timetable as one of the reduced; None where it uses what is left out."""
        pairs = list(zip(self.kept, schedule.modes, strict=True))
        if any(mode not in places for places, mode in pairs):
            return None
        return replace(schedule, modes=tuple(places.index(mode) for places, mode in pairs))

    def then(self, fewer: ReducedTimetable) -> ReducedTimetable:
        """Return what a reduction of the reduced timetable leaves of the whole one."""
        pairs = zip(self.kept, fewer.kept, strict=True)
        return replace(fewer, kept=tuple(tuple(places[mode] for mode in modes) for places, modes in pairs))


def reduce_timetable(problem: Timetable, known: Schedule | None) -> ReducedTimetable:
    """Return the timetable without the modes and lots that no timetable of at most the cost of `known` uses."""
    kept = [tuple(range(len(task.modes))) for task in problem.tasks]
    if problem.objective != "cost" or any(not task.modes for task in problem.tasks):
        return ReducedTimetable(problem, tuple(kept))
    alone = [_least_by_mode(problem, index) for index in range(len(problem.tasks))]
    kept = [_without_worse_than_nothing(problem, index, alone[index]) for index in range(len(problem.tasks))]
    if known is not None:
        kept = _modes_below(problem, kept, alone, objective_value(problem, known))
    return keep_modes(problem, kept)


def reduce_to_cost(problem: Timetable, most: int) -> ReducedTimetable:
    """Return the timetable without the modes and lots that no timetable of at most a cost uses.

    Unlike `reduce_timetable` it keeps what is worse than nothing, which the order of ties may prefer.
    """
    places = range(len(problem.tasks))
    alone = [_least_by_mode(problem, index) for index in places]
    return keep_modes(problem, _modes_below(problem, [tuple(range(len(costs))) for costs in alone], alone, most))


def reduce_to_rank(problem: Timetable, most: int) -> ReducedTimetable:
    """Return the timetable without the modes that no timetable uses whose ranks add up to at most a number."""
    best = [min(mode.rank for mode in task.modes) for task in problem.tasks]
    room = most - sum(best)
    kept = [
        tuple(place for place, mode in enumerate(task.modes) if mode.rank - least <= room)
        for task, least in zip(problem.tasks, best, strict=True)
    ]
    return keep_modes(problem, kept)


def reduce_by_columns(problem: Timetable, columns: Sequence[Column], is_left: Sequence[bool]) -> ReducedTimetable:
    """Return the timetable with the modes and starts of some of the columns of the linear program.

    A mode that holds nothing has one column for all its starts, which it keeps.
    """
    starts: dict[tuple[int, int], tuple[int, int]] = {}
    for column, left in zip(columns, is_left, strict=True):
        if left:
            low, high = starts.get((column.task, column.mode), (column.first, column.last))
            starts[column.task, column.mode] = min(low, column.first), max(high, column.last)
    kept = [
        tuple(place for place in range(len(task.modes)) if (index, place) in starts)
        for index, task in enumerate(problem.tasks)
    ]
    tasks = [
        replace(task, modes=tuple(_within(mode, starts.get((index, place))) for place, mode in enumerate(task.modes)))
        for index, task in enumerate(problem.tasks)
    ]
    return keep_modes(replace(problem, tasks=tuple(tasks)), kept)


def _within(mode: Mode, starts: tuple[int, int] | None) -> Mode:
    """Return a mode that holds something with starts within a range."""
    if starts is None or not (mode.needs or mode.spend):
        return mode
    latest = starts[1] if mode.latest is None else min(mode.latest, starts[1])
    return replace(mode, earliest=max(mode.earliest, starts[0]), latest=latest)


def keep_modes(problem: Timetable, kept: list[tuple[int, ...]]) -> ReducedTimetable:
    """Return the timetable with some modes of each task, and without the lots that none of these needs."""
    pairs = zip(problem.tasks, kept, strict=True)
    tasks = tuple(replace(task, modes=tuple(task.modes[place] for place in places)) for task, places in pairs)
    needed = {which for task in tasks for mode in task.modes for which, _ in mode.needs}
    resources = tuple(
        resource if resource.price is None or number in needed else replace(resource, capacity=0)
        for number, resource in enumerate(problem.resources)
    )
    return ReducedTimetable(replace(problem, tasks=tasks, resources=resources), tuple(kept))


def _least_by_mode(problem: Timetable, index: int) -> list[int | None]:
    """Return the least dollars and lateness of each mode of a task; None where it has no start."""
    task = problem.tasks[index]
    first, last = (bounds[index] for bounds in time_bounds(problem))
    costs: list[int | None] = []
    for mode in task.modes:
        earliest, latest = start_range(task, mode, first, last)
        costs.append(None if latest < earliest else mode.cost + lateness_cost(task, earliest, mode.minutes))
    return costs


def _without_worse_than_nothing(problem: Timetable, index: int, alone: list[int | None]) -> tuple[int, ...]:
    """Return the modes of a task that cost no more than its cheapest mode that holds nothing.

    Of equal cost a mode of better rank stays, and of equal rank a shorter one: it may end earlier.
    """
    task = problem.tasks[index]
    free = [
        (value, mode.rank, mode.minutes)
        for mode, value in zip(task.modes, alone, strict=True)
        if value is not None and not (mode.needs or mode.uses or mode.spend)
    ]
    if is_tied(problem, index) or not free:
        return tuple(range(len(task.modes)))
    best = min(free)
    return tuple(
        place
        for place, (mode, value) in enumerate(zip(task.modes, alone, strict=True))
        if value is not None and (value < best[0] or (value, mode.rank, mode.minutes) <= best)
    )


def _modes_below(
    problem: Timetable, kept: list[tuple[int, ...]], alone: list[list[int | None]], most: int
) -> list[tuple[int, ...]]:
    """Return the modes that a timetable of at most a cost may use: what one leaves out shortens the lists of others."""
    while True:
        least = [
            min((value for place in places if (value := alone[index][place]) is not None), default=0)
            for index, places in enumerate(kept)
        ]
        room = most - sum(least)
        fewer = [
            tuple(
                place
                for place in places
                if (value := alone[index][place]) is not None
                and value + _lots_usd(problem, problem.tasks[index].modes[place]) - least[index] <= room
            )
            for index, places in enumerate(kept)
        ]
        if fewer == kept:
            return kept
        kept = fewer


def _lots_usd(problem: Timetable, mode: Mode) -> int:
    """Return what the lots cost that a mode needs, in units."""
    return sum((problem.resources[which].price or 0) * amount for which, amount in mode.needs)
