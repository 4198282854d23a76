"""Energy of modes in a window of time: what they hold times the minutes that they cannot be outside of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.formulation.timetable.problem import overlap, time_bounds

if TYPE_CHECKING:
    from planner.formulation.timetable.problem import Mode, Timetable

MAX_WINDOWS = 60
"""Most windows of one resource: all pairs of releases and deadlines cost more to build than they gain."""


@dataclass(frozen=True)
class EnergyRow:
    """sum_{j,m} coefficient[j,m]*x[j,m] <= minutes * capacity: no solution holds more in the window than there is."""

    resource: int
    minutes: int
    terms: tuple[tuple[int, int, int], ...]  # (task, mode, coefficient)


def least_overlap(mode: Mode, first: int, last: int, start: int, end: int) -> int:
    """Return the minutes of a mode in [start, end) wherever it is placed between `first` and its end by `last`.

    The overlap of an interval that moves is smallest at one of its extreme places.
    """
    earliest, latest = start_range(mode, first, last)
    if latest < earliest:
        return 0
    return min(overlap(place, place + mode.minutes, start, end) for place in (earliest, latest))


def start_range(mode: Mode, first: int, last: int) -> tuple[int, int]:
    """Return the earliest and the latest start of a mode between `first` and its end by `last`."""
    latest = last - mode.minutes
    return max(first, mode.earliest), latest if mode.latest is None else min(latest, mode.latest)


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
        ranges = [start_range(mode, first[index], last[index]) for index, _, mode, _ in users]
        opens = min(earliest for earliest, _ in ranges)
        closes = max(latest + user[2].minutes for (_, latest), user in zip(ranges, users, strict=True))
        starts = _thin(sorted({max(first[index], opens) for index, *_ in users}))
        ends = _thin(sorted({min(last[index], closes) for index, *_ in users}))
        for start in starts:
            for end in (one for one in ends if one > start):
                terms = tuple(
                    (index, place, need * inside)
                    for index, place, mode, need in users
                    if (inside := least_overlap(mode, first[index], last[index], start, end))
                )
                if len({index for index, *_ in terms}) > 1 or (terms and problem.resources[number].price is not None):
                    rows.append(EnergyRow(number, end - start, terms))
    return rows


def _thin(values: list[int]) -> list[int]:
    """Return at most the square root of `MAX_WINDOWS` of the values, the first and the last among them."""
    most = int(MAX_WINDOWS**0.5)
    if len(values) <= most:
        return values
    return [values[round(k * (len(values) - 1) / (most - 1))] for k in range(most)]
