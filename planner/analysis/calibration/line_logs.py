"""Logs of lines: torchtitan, Megatron, NeMo, Transformers and TRL; what several formats of lines share.

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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.analysis.calibration.log_points import MAX_INTERVAL_SECONDS, LogHistory, LogPoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
