"""A smaller timetable with the same optimum, which leaves out what no timetable as good as a known one can use.

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

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.records import record
from planner.timetable.time_index import Column, start_range
from planner.timetable.timetable_problem import (
    Mode,
    Schedule,
    Timetable,
    is_tied,
    lateness_cost,
    objective_value,
    time_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@record(frozen=True)
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
        kept = _below(problem, kept, alone, objective_value(problem, known))
    return keep_modes(problem, kept)


def reduce_to_cost(problem: Timetable, most: int) -> ReducedTimetable:
    """Return the timetable without the modes and lots that no timetable of at most a cost uses.

    Unlike `reduce_timetable` it keeps what is worse than nothing, which the order of ties may prefer.
    """
    places = range(len(problem.tasks))
    alone = [_least_by_mode(problem, index) for index in places]
    return keep_modes(problem, _below(problem, [tuple(range(len(one))) for one in alone], alone, most))


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
    found: list[int | None] = []
    for mode in task.modes:
        earliest, latest = start_range(task, mode, first, last)
        found.append(None if latest < earliest else mode.cost + lateness_cost(task, earliest, mode.minutes))
    return found


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


def _below(
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
