"""Logs of lines: torchtitan, Megatron, Transformers and TRL; the points of a log, and its attempts.

torchtitan: `[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss: 3.24  memory: 9.46GiB(65%) ...`.
Megatron: ` [2026-05-18 16:04:46] iteration 14/ 500 | ... | elapsed time per iteration (ms): 5123.4 | ...`.
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
from dataclasses import field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


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
    loss: float | None = None

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
    peak_gib: float | None = None
    peak_kind: str | None = None
    utilisation: float | None = None
    """Mean share of time in which the GPUs computed."""
    remarks: tuple[str, ...] = field(default=())
    """What is wrong with the log, and what was done about it."""


# The points of a log cut into the attempts of a run, and the seconds between them.


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
    for point in points:
        before = groups[-1][-1] if groups else None
        if before is None or point.step < before.step or _went_back(before.elapsed, point.elapsed):
            groups.append([])
        groups[-1].append(point)
    timed = [_timed(group, is_first=number == 0) for number, group in enumerate(groups)]
    usual = _usual_pace(interval for found, _ in timed for interval in found)
    return tuple(
        Attempt(
            points=tuple(group),
            intervals=tuple(interval for interval in found if not _is_stall(interval, usual)),
            stalls=tuple(interval for interval in found if _is_stall(interval, usual)),
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


TORCHTITAN, MEGATRON, TRANSFORMERS = "torchtitan log", "Megatron log", "console of Transformers"
MIB_PER_GIB = 1024.0
MAX_MAPPING = 10_000
"""Longest mapping of one logging step, in characters."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?")
_TITAN = re.compile(r"\bstep:\s*(\d+)\s+(?:loss|global_avg_loss):\s*(\S+)(?:.{0,500}?\bmemory:\s*([\d.]+)GiB)?")
_MEGATRON = re.compile(
    r"\biteration\s+(\d+)\s*/\s*(\d+)\s*\|.{0,500}?elapsed time per iteration \((ms|s)\):\s*([\d.]+)"
    r"(?:.{0,500}?\blm loss:?\s*(\S+))?"
)
_MEGATRON_MEMORY = re.compile(r"memory \(MB\).{0,500}?\bmax allocated:\s*([\d.]+)")
_BAR = re.compile(r"^\s*\d+%\|[^|]*\|\s*(\d+)/(\d+) \[((?:\d+:)?\d+:\d+)<")

_Lines = list[tuple[int, str]]


def read_line_log(text: str, file: str) -> LogHistory | None:
    """Return the log in the format that most of its lines are in; None where no line says a step."""
    lines = [
        (number, piece)
        for number, line in enumerate(_COLOURS.sub("", text).split("\n"), 1)
        for piece in line.split("\r")
        if piece.strip()
    ]
    readers: tuple[Callable[[_Lines, str], LogHistory], ...] = (_torchtitan, _megatron, _transformers)
    found = max((reader(lines, file) for reader in readers), key=lambda history: len(history.points))
    return found if found.points else None


def _torchtitan(lines: _Lines, file: str) -> LogHistory:
    points, peaks = [], []
    for number, line in lines:
        found = _TITAN.search(line)
        if found is None:
            continue
        points.append(LogPoint(number, int(found[1]), clock=stamp_seconds(line), loss=as_number(found[2])))
        if found[3]:
            peaks.append(float(found[3]))
    peak = max(peaks, default=None)
    return LogHistory(
        file, TORCHTITAN, _once(points), peak_gib=peak, peak_kind="reserved" if peak is not None else None
    )


def _megatron(lines: _Lines, file: str) -> LogHistory:
    points, totals, peaks = [], [], []
    for number, line in lines:
        if (found := _MEGATRON.search(line)) is not None:
            seconds = float(found[4]) / (1000.0 if found[3] == "ms" else 1.0)
            loss = as_number(found[5]) if found[5] else None
            points.append(LogPoint(number, int(found[1]), clock=stamp_seconds(line), seconds=seconds, loss=loss))
            totals.append(int(found[2]))
        elif (memory := _MEGATRON_MEMORY.search(line)) is not None:
            peaks.append(float(memory[1]) / MIB_PER_GIB)
    peak = max(peaks, default=None)
    return LogHistory(
        file,
        MEGATRON,
        _once(points),
        total_steps=totals[-1] if totals else None,
        peak_gib=peak,
        peak_kind="allocated" if peak is not None else None,
    )


def _transformers(lines: _Lines, file: str) -> LogHistory:
    """Return the points of mappings and of the bar of the training, which is the first one without a description."""
    points: list[LogPoint] = []
    total, unplaced, step = None, 0, 0
    for number, line in lines:
        bar = _BAR.search(line)
        if bar is not None:
            total = total if total is not None else int(bar[2])
            if int(bar[2]) == total and int(bar[1]):
                step = int(bar[1])
                points.append(LogPoint(number, step, clock=stamp_seconds(line), elapsed=_bar_seconds(bar[3])))
            continue
        for entry in _mappings(line):
            here = _step_of(entry) or step
            if "loss" not in entry:
                continue
            if not here:
                unplaced += 1
                continue
            elapsed = as_number(entry.get("train_runtime"))
            loss = as_number(entry["loss"])
            points.append(LogPoint(number, here, clock=stamp_seconds(line), elapsed=elapsed, loss=loss))
    remarks = (f"{unplaced} lines of losses without a step are left out",) if unplaced else ()
    return LogHistory(file, TRANSFORMERS, _once(points), total_steps=total, remarks=remarks)


def _mappings(line: str) -> Iterator[Mapping[str, Any]]:
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


def _bar_seconds(text: str) -> float:
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


def _once(points: list[LogPoint]) -> tuple[LogPoint, ...]:
    """Return the points without the repetitions of one step that follow one another, their figures joined."""
    found: list[LogPoint] = []
    for point in points:
        if not found or point.step != found[-1].step:
            found.append(point)
            continue
        before = found[-1]
        found[-1] = LogPoint(
            before.line,
            before.step,
            clock=before.clock if before.clock is not None else point.clock,
            elapsed=before.elapsed if before.elapsed is not None else point.elapsed,
            seconds=before.seconds if before.seconds is not None else point.seconds,
            loss=before.loss if before.loss is not None else point.loss,
        )
    return tuple(found)
