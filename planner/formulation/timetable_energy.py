"""What modes cannot help holding and spending in a window of time: redundant rows that tighten the relaxation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.formulation.timetable_problem import overlap, time_bounds
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.formulation.timetable_problem import Mode, Period, Timetable

MAX_WINDOWS = 60
"""Most windows of one resource: all pairs of releases and deadlines cost more to build than they gain."""


@record(frozen=True)
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


def periods_together(problem: Timetable, first: Sequence[int], last: Sequence[int]) -> list[tuple[frozenset[int], int]]:
    """Return tasks that spend all their money in consecutive periods, and what these periods allow together.

    A task between `first` and its end by `last` spends everything there wherever it starts: the sum over such tasks of
    `spend` is at most the sum of the amounts. Redundant, and without it a budget that is far too small takes minutes
    to refute: four runs of $200 with $2.50 a month.
    """
    runs = consecutive_periods(problem)
    found: dict[frozenset[int], int] = {}
    for start, end in sorted(set(zip(first, last, strict=True))):
        for run in runs:
            if not run[0].start <= start <= end <= run[-1].end:
                continue
            within = [one for one in run if one.start < end and one.end > start]
            if within:
                inside = zip(first, last, strict=True)
                tasks = [k for k, (a, b) in enumerate(inside) if within[0].start <= a and b <= within[-1].end]
                found[frozenset(tasks)] = sum(one.amount for one in within)
    return list(found.items())


def consecutive_periods(problem: Timetable) -> list[list[Period]]:
    """Return the periods in runs without a gap between them, each run in order of time."""
    runs: list[list[Period]] = []
    for period in sorted(problem.periods, key=lambda one: one.start):
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
