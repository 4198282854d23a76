"""The points of a log cut into the attempts of a run, and the seconds between them."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.analysis.calibration.log_points import LogPoint

STALL_RATIO, STALL_SECONDS = 10.0, 300.0
"""A run stands still where steps take so many times their usual time, and so much longer in all: a guess."""


MAX_INTERVAL_SECONDS = 1e9
"""Longer times between two points, 30 years, are those of a clock that jumped."""


@record(frozen=True)
class Interval:
    """Steps between two points of one attempt, and the wall seconds that they took."""

    steps: int
    seconds: float

    @property
    def pace(self) -> float:
        """Seconds of one step."""
        return self.seconds / self.steps


@record(frozen=True)
class Attempt:
    """One process of a run, from its start or its last checkpoint until it ended."""

    points: tuple[LogPoint, ...]
    intervals: tuple[Interval, ...]
    stalls: tuple[Interval, ...] = ()
    """Intervals in which the run stood still, or the clock jumped forwards."""
    jumps_back: int = 0
    """Times that did not increase with the steps."""

    @property
    def first_step(self) -> int:
        """The first step that is logged."""
        return self.points[0].step

    @property
    def last_step(self) -> int:
        """The last step that is logged."""
        return self.points[-1].step


def split_attempts(points: Sequence[LogPoint]) -> tuple[Attempt, ...]:
    """Return the attempts in order: one ends where steps, or the time since the start of the process, go back."""
    groups: list[list[LogPoint]] = []
    for one in points:
        before = groups[-1][-1] if groups else None
        if before is None or one.step < before.step or _went_back(before.elapsed, one.elapsed):
            groups.append([])
        groups[-1].append(one)
    timed = [_timed(group, is_first=number == 0) for number, group in enumerate(groups)]
    usual = _usual_pace(one for found, _ in timed for one in found)
    return tuple(
        Attempt(
            points=tuple(group),
            intervals=tuple(one for one in found if not _is_stall(one, usual)),
            stalls=tuple(one for one in found if _is_stall(one, usual)),
            jumps_back=jumps,
        )
        for group, (found, jumps) in zip(groups, timed, strict=True)
    )


def _went_back(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def _timed(points: Sequence[LogPoint], is_first: bool) -> tuple[list[Interval], int]:
    """Return the intervals of an attempt, and how often its time did not increase."""
    found, jumps = [], 0
    first = points[0]
    if first.seconds is not None and 0 < first.seconds < MAX_INTERVAL_SECONDS:
        found.append(Interval(1, first.seconds))
    elif is_first and first.step and 0 < (first.elapsed or 0.0) < MAX_INTERVAL_SECONDS:
        found.append(Interval(first.step, first.elapsed or 0.0))
    for before, after in pairwise(points):
        steps, seconds = after.step - before.step, _between(before, after)
        if steps <= 0 or seconds is None:
            continue
        if not 0 < seconds < MAX_INTERVAL_SECONDS:
            jumps += 1
            continue
        found.append(Interval(steps, seconds))
    return found, jumps


def _between(before: LogPoint, after: LogPoint) -> float | None:
    """Return the seconds between two points: by the log's own time of a step, else by what times both."""
    if after.seconds is not None:
        return after.seconds * (after.step - before.step)
    for one, other in ((before.elapsed, after.elapsed), (before.clock, after.clock)):
        if one is not None and other is not None:
            return other - one
    return None


def _usual_pace(intervals: Iterable[Interval]) -> float | None:
    paces = [one.pace for one in intervals]
    return median(paces) if paces else None


def _is_stall(one: Interval, usual: float | None) -> bool:
    if usual is None:
        return False
    return one.pace > STALL_RATIO * usual and one.seconds - one.steps * usual > STALL_SECONDS
