"""The points of a log, its attempts, and the seconds between them."""

from __future__ import annotations

import math
from dataclasses import field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# The points of a log: what it says at one logged step, in the order of its lines, whatever its format.


@record(frozen=True)
class LogPoint:
    """What a log says at one step; None for what it does not state."""

    line: int
    step: int
    """Optimizer steps done."""
    clock: float | None = None
    """Seconds since the epoch."""
    elapsed: float | None = None
    """Seconds since the process began to train."""
    seconds: float | None = None
    """Seconds of one step, as the log computes them."""
    rate: float | None = None
    """Tokens per second of one GPU, as the log computes them."""
    paused: float = 0.0
    """Seconds of evaluation since the point before; nan where there was one of unknown length."""
    loss: float | None = None

    @property
    def is_timed(self) -> bool:
        """Whether the log says when the step ended."""
        return self.clock is not None or self.elapsed is not None

    @property
    def is_diverged(self) -> bool:
        """Whether the loss is no finite number."""
        return self.loss is not None and not math.isfinite(self.loss)


@record(frozen=True)
class LogHistory:
    """All that one log says of the progress of a run; nothing is checked yet."""

    file: str
    kind: str
    """The format, as users call it."""
    points: tuple[LogPoint, ...] = ()
    total_steps: int | None = None
    whole: tuple[int, float] | None = None
    """Steps and seconds of the run, where only its end is timed."""
    tokens_per_step: float | None = None
    micro_batch: int | None = None
    global_batch: int | None = None
    gpus: int | None = None
    """GPUs of the run, where two figures of the log have that ratio."""
    resolution_seconds: float = 0.0
    """What the log rounds its times to."""
    counts_micro_batches: bool = False
    """Whether points, `seconds` and `tokens_per_step` are of micro-batches: how many make a step is not in the log."""
    peak_gib: float | None = None
    peak_kind: str | None = None
    utilisation: float | None = None
    """Mean share of time in which the GPUs computed."""
    remarks: tuple[str, ...] = field(default=())
    """What is wrong with the log, and what was done about it."""


# The points of a log cut into the attempts of a run, and the seconds between them.


STALL_RATIO, STALL_SECONDS = 10.0, 300.0
"""A run stands still where steps take so many times their usual time, and so much longer in all: a guess."""


LEAST_TICKS = 10.0
"""Shortest interval over what a log rounds its times to: it is off by a tenth at most, and the mean of all by less."""
RESUMED_RATIO = 2.0
"""A first interval that much faster than later ones holds steps of an earlier process."""
MAX_INTERVAL_SECONDS = 1e9
"""Longer times between two points, 30 years, are those of a clock that jumped."""


@record(frozen=True)
class Interval:
    """Steps between two points of one attempt, and the wall seconds that they took."""

    steps: int
    seconds: float
    paused: float = 0.0
    """Seconds of evaluation among them; nan where they are not known."""

    @property
    def pace(self) -> float:
        """Seconds of one step, evaluation included."""
        return self.seconds / self.steps

    @property
    def training_pace(self) -> float:
        """Seconds of one step without evaluation; nan where it is not known."""
        return max(0.0, self.seconds - self.paused) / self.steps


@record(frozen=True)
class Attempt:
    """One process of a run, from its start or its last checkpoint until it ended."""

    points: tuple[LogPoint, ...]
    intervals: tuple[Interval, ...]
    stalls: tuple[Interval, ...] = ()
    """Intervals in which the run stood still, or the clock jumped forwards."""
    jumps_back: int = 0
    """Times that did not increase with the steps."""
    began_at: int = 0
    """Steps of an earlier process that the first attempt went on from, as its first interval shows."""

    @property
    def first_step(self) -> int:
        """The first step that is logged."""
        return self.points[0].step

    @property
    def last_step(self) -> int:
        """The last step that is logged."""
        return self.points[-1].step


def split_attempts(points: Sequence[LogPoint], resolution_seconds: float = 0.0) -> tuple[Attempt, ...]:
    """Return the attempts in order: one ends where steps, or the time since the start of the process, go back.

    `resolution_seconds`: times are rounded to it, so intervals span at least `LEAST_TICKS` of it.
    """
    groups: list[list[LogPoint]] = []
    for point in points:
        before = groups[-1][-1] if groups else None
        if before is None or point.step < before.step or _went_back(before.elapsed, point.elapsed):
            groups.append([])
        groups[-1].append(point)
    least = LEAST_TICKS * resolution_seconds
    timed = [_timed(group, number == 0, least) for number, group in enumerate(groups)]
    first, jumps = timed[0] if timed else ([], 0)
    began_at = 0
    if _is_resumed(groups, first, [interval for found, _ in timed for interval in found][1:]):
        began_at, timed[0] = first[0].steps, (first[1:], jumps)
    usual = _usual_pace(interval for found, _ in timed for interval in found)
    return tuple(
        Attempt(
            points=tuple(group),
            intervals=tuple(interval for interval in found if not _is_stall(interval, usual)),
            stalls=tuple(interval for interval in found if _is_stall(interval, usual)),
            jumps_back=jumps,
            began_at=began_at if number == 0 else 0,
        )
        for number, (group, (found, jumps)) in enumerate(zip(groups, timed, strict=True))
    )


def resumed_remarks(attempts: Sequence[Attempt]) -> list[str]:
    """Return what a reader must know of a run whose first log begins in the middle."""
    began = attempts[0].began_at if attempts else 0
    if not began:
        return []
    return [f"the log begins in the middle of the run: its first {began:,} steps, of an earlier process, are not timed"]


def _went_back(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def _is_resumed(groups: Sequence[Sequence[LogPoint]], first: Sequence[Interval], others: Sequence[Interval]) -> bool:
    """Whether the interval from step 0 is too fast to hold all of its steps: an earlier process made most of them.

    Steps of a warm-up are slower than later ones, never faster.
    """
    if not first or not others or not groups[0][0].step or first[0].steps != groups[0][0].step:
        return False
    return groups[0][0].seconds is None and first[0].pace < median(other.pace for other in others) / RESUMED_RATIO


def _timed(points: Sequence[LogPoint], is_first: bool, least_seconds: float) -> tuple[list[Interval], int]:
    """Return the intervals of an attempt, and how often its time did not increase."""
    found, jumps = [], 0
    anchor = points[0]
    paused = 0.0
    if anchor.seconds is not None and 0 < anchor.seconds < MAX_INTERVAL_SECONDS:
        found.append(Interval(1, anchor.seconds))
    elif is_first and anchor.step and least_seconds < (anchor.elapsed or 0.0) < MAX_INTERVAL_SECONDS:
        found.append(Interval(anchor.step, anchor.elapsed or 0.0, anchor.paused))
    for after in points[1:]:
        paused += after.paused
        steps, seconds = after.step - anchor.step, _between(anchor, after)
        if seconds is None and (after.is_timed or not anchor.is_timed):
            anchor, paused = after, 0.0
        if steps <= 0 or seconds is None:
            continue
        if not (0 < seconds < MAX_INTERVAL_SECONDS or 0 <= seconds < least_seconds):
            jumps += 1
        elif after.seconds is None and seconds < least_seconds:
            continue  # too short for what the log rounds to: the next point ends the interval
        else:
            found.append(Interval(steps, seconds, 0.0 if after.seconds is not None else paused))
        anchor, paused = after, 0.0
    return found, jumps


def _between(before: LogPoint, after: LogPoint) -> float | None:
    """Return the seconds between two points: by the log's own time of a step, else by what times both."""
    if after.seconds is not None:
        return after.seconds * (after.step - before.step)
    for earlier, later in ((before.elapsed, after.elapsed), (before.clock, after.clock)):
        if earlier is not None and later is not None:
            return later - earlier
    return None


def _usual_pace(intervals: Iterable[Interval]) -> float | None:
    paces = [interval.pace for interval in intervals]
    return median(paces) if paces else None


def _is_stall(one: Interval, usual: float | None) -> bool:
    if usual is None:
        return False
    return one.pace > STALL_RATIO * usual and one.seconds - one.steps * usual > STALL_SECONDS


# A count of the log, such as tokens so far, as an amount of one step.


RESTARTED_RATIO = 2.0
"""A count that grows that much slower than usual was begun anew between two entries: by a process that went on."""


def growth_per_step(counts: Sequence[tuple[float, float]]) -> float | None:
    """Return how much a count grows with each step, from pairs of step and count; a lone entry counts from step 0.

    TRL counts its tokens (`num_tokens`) anew in each process, while steps go on: what is between two entries of one
    process counts, so a count that goes back, or grows too slowly, is that of the next process.
    """
    grown = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(counts)]
    grown = [(steps, count) for steps, count in grown if steps > 0 and count > 0]
    if not grown:
        step, count = counts[0] if counts else (0.0, 0.0)
        return count / step if step > 0 and count > 0 else None
    least = median(count / steps for steps, count in grown) / RESTARTED_RATIO
    kept = [(steps, count) for steps, count in grown if count / steps >= least]
    return math.fsum(count for _, count in kept) / math.fsum(steps for steps, _ in kept)
