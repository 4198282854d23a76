"""What any log says, whatever its format: points, the attempts of a run, its seconds per step without the warm-up."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from planner.errors import Fault, InputError
from planner.results.run_results import StepTimes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# The points of a log: what it says at one logged step, in the order of its lines, whatever its format.


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def once(points: list[LogPoint]) -> tuple[LogPoint, ...]:
    """Return the points without the repetitions of one step that follow one another, their figures joined."""
    kept: list[LogPoint] = []
    for point in points:
        if not kept or point.step != kept[-1].step:
            kept.append(point)
            continue
        before = kept[-1]
        missing = {
            name: getattr(point, name)
            for name in ("clock", "elapsed", "seconds", "loss", "rate")
            if getattr(before, name) is None
        }
        kept[-1] = replace(before, **missing)
    return tuple(kept)


def micro_batch_history(
    file: str, kind: str, points: Sequence[LogPoint], per_step: int | None, tokens: float | None = None
) -> LogHistory:
    """Return the history of points that count micro-batches, `per_step` of which make a step; None where it is unknown.

    `tokens`: of one micro-batch on all GPUs.
    """
    if per_step is None:
        return LogHistory(file, kind, once(list(points)), tokens_per_step=tokens, counts_micro_batches=True)
    grouped = group_micro_batches(points, per_step)
    return LogHistory(file, kind, once(grouped), tokens_per_step=tokens * per_step if tokens else None)


def group_micro_batches(points: Sequence[LogPoint], per_step: int) -> list[LogPoint]:
    """Return the points of optimizer steps from those of micro-batches, `per_step` of which make a step.

    Where the log says when a micro-batch ended, a step ends with its last one. Else a step takes the mean of its logged
    micro-batches, `per_step` times.
    """
    if any(point.is_timed for point in points):
        return _step_ends(points, per_step)
    steps: list[LogPoint] = []
    group: list[LogPoint] = []
    for point in points:
        if group and -(-point.step // per_step) != -(-group[0].step // per_step):
            steps.append(_mean_point(group, per_step))
            group = []
        group.append(point)
    return [*steps, _mean_point(group, per_step)] if group else steps


def _mean_point(group: Sequence[LogPoint], per_step: int) -> LogPoint:
    timed = [point.seconds for point in group if point.seconds is not None]
    seconds = per_step * math.fsum(timed) / len(timed) if timed else None
    return LogPoint(group[-1].line, -(-group[0].step // per_step), seconds=seconds, loss=group[-1].loss)


def _step_ends(points: Sequence[LogPoint], per_step: int) -> list[LogPoint]:
    """Return the points at which a step ends, in steps; all of them, rounded, where fewer than two are such."""
    whole = sum(point.step % per_step == 0 for point in points) >= 2
    ends, paused = [], 0.0
    for point in points:
        paused += point.paused
        if not whole or point.step % per_step == 0:
            ends.append(replace(point, step=max(1, round(point.step / per_step)), paused=paused))
            paused = 0.0
    return ends


# The points of a log cut into the attempts of a run, and the seconds between them.


STALL_RATIO, STALL_SECONDS = 10.0, 300.0
"""A run stands still where steps take so many times their usual time, and so much longer in all: a guess."""


LEAST_TICKS = 10.0
"""Shortest interval over what a log rounds its times to: it is off by a tenth at most, and the mean of all by less."""
RESUMED_RATIO = 2.0
"""A first interval that much faster than later ones holds steps of an earlier process."""
MAX_INTERVAL_SECONDS = 1e9
"""Longer times between two points, 30 years, are those of a clock that jumped."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    if _is_resumed(groups, first, [interval for intervals, _ in timed for interval in intervals][1:]):
        began_at, timed[0] = first[0].steps, (first[1:], jumps)
    usual = _usual_pace(interval for intervals, _ in timed for interval in intervals)
    return tuple(
        Attempt(
            points=tuple(group),
            intervals=tuple(interval for interval in intervals if not _is_stall(interval, usual)),
            stalls=tuple(interval for interval in intervals if _is_stall(interval, usual)),
            jumps_back=jumps,
            began_at=began_at if number == 0 else 0,
        )
        for number, (group, (intervals, jumps)) in enumerate(zip(groups, timed, strict=True))
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
    intervals, jumps = [], 0
    anchor = points[0]
    paused = 0.0
    if anchor.seconds is not None and 0 < anchor.seconds < MAX_INTERVAL_SECONDS:
        intervals.append(Interval(1, anchor.seconds))
    elif is_first and anchor.step and least_seconds < (anchor.elapsed or 0.0) < MAX_INTERVAL_SECONDS:
        intervals.append(Interval(anchor.step, anchor.elapsed or 0.0, anchor.paused))
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
            intervals.append(Interval(steps, seconds, 0.0 if after.seconds is not None else paused))
        anchor, paused = after, 0.0
    return intervals, jumps


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


def _is_stall(interval: Interval, usual: float | None) -> bool:
    if usual is None:
        return False
    return interval.pace > STALL_RATIO * usual and interval.seconds - interval.steps * usual > STALL_SECONDS


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


# Figures and times in the text of a log.


_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?")


def as_number(value: object) -> float | None:
    """Return a number, also one that is written as text, infinities and nan included; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value.strip(" |,") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None


def stamp_seconds(line: str) -> float | None:
    """Return the seconds since the epoch of the first time stamp of a line; one without a zone is local time."""
    match = _STAMP.search(line)
    if match is None:
        return None
    day, time, fraction, zone = match.groups()
    try:
        moment = datetime.datetime.fromisoformat(
            f"{day}T{time}{'+00:00' if zone in ('Z', 'UTC', 'GMT') else zone or ''}"
        )
        return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    except (ValueError, OverflowError, OSError):
        return None


# The content of a log, whatever its format, and its seconds per step without the warm-up.


MIN_TIMED_STEPS = 5
"""Fewest timed steps (or intervals of several steps) for a median."""
MAX_STEP_SECONDS, MIN_STEP_SECONDS = 6 * 3600.0, 1e-4
"""Range of plausible seconds of an optimizer step: outside it, another unit is meant."""
NORMAL_PER_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
WARM_UP_DEVIATIONS, WARM_UP_SHARE = 3.0, 0.05
"""A first step belongs to the warm-up where it is slower than later ones by the larger of the two."""


@dataclass(frozen=True)
class RunLog:
    """One log; None for what it does not state."""

    file: str
    kind: str  # the format, as users call it
    step_seconds: tuple[float, ...] = ()  # of single steps, or means of intervals, in order, without evaluation
    interval_steps: tuple[int, ...] = ()  # steps of each of them; left out: one each
    rates: tuple[float, ...] = ()  # tokens per second of one GPU, where the log states them
    whole: tuple[int, float] | None = None  # steps and seconds of the run, warm-up and pauses in it
    tokens_per_step: float | None = None  # as the log counts
    counts_padding: bool = True  # whether padding may be among them
    micro_batch: int | None = None
    global_batch: int | None = None
    possible_batches: range | None = None  # global batches, where rounded figures leave several possible
    peak_gib: float | None = None
    peak_kind: str | None = None  # allocated, reserved or device
    gpus: int | None = None
    counts_micro_batches: bool = False  # a step of this log is a micro-batch
    notes: tuple[str, ...] = ()


def compute_pace(log: RunLog) -> StepTimes | None:
    """Return the pace of a log, None without times; `InputError` where it is too short or of another unit."""
    if log.step_seconds:
        pace = _of_steps(log)
    elif log.whole is not None:
        steps, seconds = log.whole
        if steps < MIN_TIMED_STEPS:
            raise fault(log.file, 1, f"only {steps} steps in all", f"at least {MIN_TIMED_STEPS} are needed")
        pace = StepTimes(seconds=seconds / steps, spread=None, steps=steps, dropped=0)
    else:
        return None
    if not MIN_STEP_SECONDS <= pace.seconds <= MAX_STEP_SECONDS:
        problem = f"{pace.seconds:.3g} seconds per optimizer step"
        raise fault(log.file, 1, problem, "give seconds; name a column step_time_ms where it counts milliseconds")
    return pace


def compute_rate(log: RunLog) -> float:
    """Return the tokens per second of one GPU, warm-up left out; `InputError` where the log is too short."""
    pace = _of_steps(replace(log, step_seconds=tuple(1.0 / rate for rate in log.rates), interval_steps=()))
    return 1.0 / pace.seconds


def _of_steps(log: RunLog) -> StepTimes:
    warm = count_warm_up_steps(log.step_seconds)
    kept = log.step_seconds[warm:]
    if len(kept) < MIN_TIMED_STEPS and log.interval_steps:
        warm = min(1, len(log.step_seconds) - 1)  # too few to judge by: the first one holds the warm-up, if any does
        spans = list(zip(log.step_seconds, log.interval_steps, strict=True))[warm:]
        steps = sum(count for _, count in spans)
        if steps >= MIN_TIMED_STEPS and (warm or len(spans) > 1):
            seconds = math.fsum(second * count for second, count in spans) / steps
            return StepTimes(seconds=seconds, spread=None, steps=steps, dropped=log.interval_steps[0] * warm)
        kept = log.step_seconds[warm:]
    if len(kept) < MIN_TIMED_STEPS:
        problem = f"only {len(kept)} timed steps" + (f" after {warm} of warm-up" if warm else "")
        raise fault(log.file, 1, problem, f"at least {MIN_TIMED_STEPS} are needed: let the run continue for longer")
    middle, deviation = _median_deviation(kept)
    spread = deviation / middle if middle > 0 else 0.0
    return StepTimes(seconds=middle, spread=spread, steps=len(kept), dropped=warm)


def _median_deviation(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the median deviation from it in standard deviations of a normal distribution."""
    middle = median(seconds)
    return middle, NORMAL_PER_MAD * median(abs(second - middle) for second in seconds)


def count_warm_up_steps(seconds: Sequence[float]) -> int:
    """Return how many first steps are slower than the second half of the run; at most half of all.

    Compilation, allocation and full caches take some steps; later pauses are left to the median.
    """
    half = len(seconds) // 2
    usual, deviation = _median_deviation(seconds[half:])
    bound = usual + max(WARM_UP_DEVIATIONS * deviation, WARM_UP_SHARE * usual)
    return next((number for number, second in enumerate(seconds[:half]) if second <= bound), half)


def fault(file: str, line: int, what: str, fix: str, where: str = "") -> InputError:
    """Return an error with one fault of a log."""
    return InputError([Fault(file, line, where, what, fix)])
