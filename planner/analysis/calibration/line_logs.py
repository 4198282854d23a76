"""Points of a log and the attempts in it; logs of lines: torchtitan, Megatron, NeMo, Transformers and TRL.

torchtitan: `[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss: 3.24  memory: 9.46GiB(65%) ...`.
Megatron: ` [2026-05-18 16:04:46] iteration 14/ 500 | ... | elapsed time per iteration (ms): 5123.4 | ...`.
NeMo: `Training epoch 0, iteration 1/249 | ... | global_step: 1 | ... | train_step_timing in s: 2.505`, or in its bar.
Transformers prints a mapping per logging step, as JSON or as Python writes it, with or without the step, and between
them the marks of a progress bar: `3%|2 | 14/500 [01:10<40:31, 5.0s/it]`. Any line may begin with a time stamp, as
`docker logs -t` adds it. Every rank may print the same line; the first of a step counts.
"""

from __future__ import annotations

import ast
import datetime
import json
import math
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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


TORCHTITAN, MEGATRON, NEMO, TRANSFORMERS = "torchtitan log", "Megatron log", "NeMo log", "console of Transformers"
MIB_PER_GIB = 1024.0
MAX_MAPPING = 10_000
"""Longest mapping of one logging step, in characters."""
BAR_SECONDS = 1.0
"""What a progress bar rounds its times to."""
PREFIX = (
    r"^(?:\[pod/[^\]]*\]\s*)?(?:[\w.-]+\s*\|\s+|\d+:\s+)?"
    r"(?:\S*\d{4}-\d\d-\d\d[T ]\S+\s+)?(?:\([^)]*\)\s*)?(?:\[[^\]]*\]:?\s*)?"
)
"""What stands before a line of a job: pod, service or task of kubectl, docker and srun; a time stamp; SkyPilot's
`(task, pid=7)`; torchrun's `[rank0]:`."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?")
_TITAN = re.compile(
    r"(\bvalidate )?\bstep:\s*(\d+)\s+(?:loss|global_avg_loss):\s*(\S+)(?:.{0,500}?\bmemory:\s*([\d.]+)GiB)?"
    r"(?:.{0,500}?\btps:\s*([\d,]+))?"
)
_MEGATRON = re.compile(
    r"\biteration\s+(\d+)\s*/\s*(\d+)\s*\|.{0,500}?elapsed time per iteration \((ms|s)\):\s*([\d.]+)"
    r"(?:.{0,500}?\blm loss:?\s*(\S+))?"
)
_MEGATRON_BATCH = re.compile(r"\bglobal batch size:\s*(\d+)")
_MEGATRON_MEMORY = re.compile(r"memory \(MB\).{0,500}?\bmax allocated:\s*([\d.]+)")
_NEMO = re.compile(r"\bglobal_step[:=]\s*([\d.]+).{0,500}?\btrain_step_timing in s[:=]\s*([\d.]+)")
_NEMO_LOSS = re.compile(r"\breduced_train_loss[:=]\s*([^\s|,\]]+)")
_NEMO_BATCH = re.compile(r"\bglobal_batch_size[:=]\s*(\d+)")
_BAR = re.compile(PREFIX + r"\s*\d+%\|[^|]*\|\s*(\d+)/(\d+) \[((?:\d+:)?\d+:\d+)<")
EVALUATIONS = ("eval_", "predict_", "test_")
"""How the names of an evaluation's figures begin in Transformers: `metric_key_prefix` of `evaluate` and `predict`."""
_EVALUATION = re.compile(rf"(?:{'|'.join(EVALUATIONS)})(?:.*_)?(loss|runtime)")

Lines = list[tuple[int, str]]
"""Numbers of lines in the file, with their text: those that a carriage return separates have the same number."""


def lines_of(text: str) -> Lines:
    """Return the lines of a log without colours and blanks."""
    return [
        (number, piece)
        for number, line in enumerate(_COLOURS.sub("", text).split("\n"), 1)
        for piece in line.split("\r")
        if piece.strip()
    ]


def read_torchtitan(lines: Lines, file: str) -> LogHistory:
    """Return the steps of a torchtitan log: its clock times them, and a validation ends at its own line."""
    points: list[LogPoint] = []
    peaks = []
    paused = 0.0
    for number, line in lines:
        found = _TITAN.search(line)
        if found is None:
            continue
        clock = stamp_seconds(line)
        if found[1]:
            before = points[-1].clock if points and points[-1].step == int(found[2]) else None
            paused = clock - before if clock is not None and before is not None else math.nan
            continue
        rate = grouped_number(found[5]) if found[5] else None
        loss = as_number(found[3])
        points.append(LogPoint(number, int(found[2]), clock=clock, loss=loss, rate=rate or None, paused=paused))
        paused = 0.0
        if found[4]:
            peaks.append(float(found[4]))
    return LogHistory(
        file, TORCHTITAN, once(points),
        resolution_seconds=_clock_resolution(points),
        **peak_of({"reserved": peaks}),
    )  # fmt: skip


def _clock_resolution(points: Sequence[LogPoint]) -> float:
    """Return 1 where all time stamps are whole seconds."""
    clocks = [point.clock for point in points if point.clock is not None]
    return 1.0 if clocks and all(clock.is_integer() for clock in clocks) else 0.0


def peak_of(peaks: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the largest GiB of the first kind of memory that has any, as fields of a history."""
    for kind, figures in peaks.items():
        if figures:
            return {"peak_gib": max(figures), "peak_kind": kind}
    return {}


def read_megatron(lines: Lines, file: str) -> LogHistory:
    """Return the steps of a Megatron log; its seconds are means of an interval without evaluation."""
    points, totals, peaks, batches = [], [], [], []
    for number, line in lines:
        if (found := _MEGATRON.search(line)) is not None:
            seconds = float(found[4]) / (1000.0 if found[3] == "ms" else 1.0)
            loss = as_number(found[5]) if found[5] else None
            points.append(LogPoint(number, int(found[1]), clock=stamp_seconds(line), seconds=seconds, loss=loss))
            totals.append(int(found[2]))
            batch = _MEGATRON_BATCH.search(line)
            batches.append(int(batch[1]) if batch else None)
        elif (memory := _MEGATRON_MEMORY.search(line)) is not None:
            peaks.append(float(memory[1]) / MIB_PER_GIB)
    kept, remarks = _of_one_batch(points, batches)
    return LogHistory(
        file, MEGATRON, once(kept),
        total_steps=totals[-1] if totals else None,
        global_batch=batches[-1] if batches else None,
        remarks=remarks,
        **peak_of({"allocated": peaks}),
    )  # fmt: skip


def _of_one_batch(points: Sequence[LogPoint], batches: Sequence[int | None]) -> tuple[list[LogPoint], tuple[str, ...]]:
    """Return the points without the times of steps whose global batch differs from that of the last."""
    if len(set(batches)) < 2:
        return list(points), ()
    pairs = zip(points, batches, strict=True)
    kept = [point if batch == batches[-1] else replace(point, seconds=None, clock=None) for point, batch in pairs]
    return kept, (f"the global batch changes during the run: only steps with the last one, {batches[-1]}, are timed",)


def read_nemo(lines: Lines, file: str) -> LogHistory:
    """Return the steps of NeMo's progress: printed or in its bar, counted from 0."""
    points, batches = [], []
    for number, line in lines:
        found = _NEMO.search(line)
        step = as_number(found[1]) if found else None
        if found is None or step is None:
            continue
        loss, batch = _NEMO_LOSS.search(line), _NEMO_BATCH.search(line)
        seconds = as_number(found[2])
        lost = as_number(loss[1]) if loss else None
        points.append(LogPoint(number, int(step) + 1, clock=stamp_seconds(line), seconds=seconds, loss=lost))
        batches.append(int(batch[1]) if batch else None)
    return LogHistory(file, NEMO, once(points), global_batch=batches[-1] if batches else None)


def read_transformers(lines: Lines, file: str) -> LogHistory:
    """Return the points of mappings and of the bar of the training, among those without a description."""
    points: list[LogPoint] = []
    total, has_begun, unplaced, step, paused = _training_total(lines), False, 0, 0, 0.0
    for number, line in lines:
        bar = _BAR.search(line)
        if bar is not None:
            if int(bar[2]) == total and not has_begun:
                has_begun, paused = True, 0.0  # the bar counts no evaluation before it
            if int(bar[2]) == total and int(bar[1]):
                seconds = bar_seconds(bar[3])
                if int(bar[1]) != step:
                    points.append(LogPoint(number, int(bar[1]), stamp_seconds(line), seconds, paused=paused))
                    paused = 0.0
                step = int(bar[1])
            continue
        for entry in mappings_of(line):
            here = _step_of(entry) or step
            if "loss" not in entry:
                paused += evaluation_seconds(entry)
                continue
            if not here:
                unplaced += 1
                continue
            elapsed = as_number(entry.get("train_runtime"))
            loss = as_number(entry["loss"])
            is_new = not points or points[-1].step != here
            points.append(
                LogPoint(number, here, stamp_seconds(line), elapsed, loss=loss, paused=paused if is_new else 0.0)
            )
            paused = 0.0 if is_new else paused
    remarks = (f"{unplaced} lines of losses without a step are left out",) if unplaced else ()
    return LogHistory(
        file, TRANSFORMERS, once(points),
        total_steps=total,
        resolution_seconds=BAR_SECONDS if total is not None else _clock_resolution(points),
        remarks=remarks,
    )  # fmt: skip


def _training_total(lines: Lines) -> int | None:
    """Return the steps of the bar under which losses are logged, else of the one that runs longest.

    Bars of data, and of an evaluation before the training, have no description either.
    """
    longest, last = dict[int, float](), 0
    logged, evaluated = set[int](), set[int]()
    for _, line in lines:
        if (bar := _BAR.search(line)) is not None:
            last = int(bar[2])
            longest[last] = max(longest.get(last, -1.0), bar_seconds(bar[3]) or 0.0)
        elif last:
            for entry in mappings_of(line):
                if "loss" in entry:
                    logged.add(last)
                elif evaluation_seconds(entry):
                    evaluated.add(last)
    trained = {size: seconds for size, seconds in longest.items() if size in logged or size not in evaluated}
    return max(trained, key=lambda size: (size in logged, trained[size]), default=None)


def evaluation_seconds(entry: Mapping[str, Any]) -> float:
    """Return the seconds of the evaluation that an entry logs: 0 where it logs none, nan where it does not time it."""
    keys = [str(key) for key in entry if _EVALUATION.fullmatch(str(key))]
    if not keys:
        return 0.0
    seconds = [as_number(entry[key]) for key in keys if key.endswith("_runtime")]
    known = [second for second in seconds if second is not None and 0 <= second < MAX_INTERVAL_SECONDS]
    return math.fsum(known) if known else math.nan


def mappings_of(line: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping that a line holds, as JSON or as Python writes it."""
    start, end = line.find("{"), line.rfind("}")
    if not 0 <= start < end < start + MAX_MAPPING:
        return
    value: Any = None
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(line[start : end + 1])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        break
    if isinstance(value, dict):
        yield value


def _step_of(entry: Mapping[str, Any]) -> int | None:
    value = as_number(next((entry[key] for key in ("step", "global_step") if key in entry), None))
    return int(value) if value is not None and 0 < value < 1e12 else None


def as_number(value: object) -> float | None:
    """Return a number, also one that is written as text, infinities and nan included; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value.strip(" |,") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None


def grouped_number(text: str) -> float | None:
    """Return a number that may have commas between its thousands, as in 1,234.5; None for anything else."""
    return as_number(text.replace(",", "")) if _GROUPED.fullmatch(text) else as_number(text)


_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")


def bar_seconds(text: str) -> float:
    """Return the seconds of `1:02:03` or `02:03`."""
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


def stamp_seconds(line: str) -> float | None:
    """Return the seconds since the epoch of the first time stamp of a line; one without a zone is local time."""
    found = _STAMP.search(line)
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    try:
        moment = datetime.datetime.fromisoformat(
            f"{day}T{time}{'+00:00' if zone in ('Z', 'UTC', 'GMT') else zone or ''}"
        )
        return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    except (ValueError, OverflowError, OSError):
        return None


def once(points: list[LogPoint]) -> tuple[LogPoint, ...]:
    """Return the points without the repetitions of one step that follow one another, their figures joined."""
    found: list[LogPoint] = []
    for point in points:
        if not found or point.step != found[-1].step:
            found.append(point)
            continue
        before = found[-1]
        missing = {
            name: getattr(point, name)
            for name in ("clock", "elapsed", "seconds", "loss", "rate")
            if getattr(before, name) is None
        }
        found[-1] = replace(before, **missing)
    return tuple(found)
