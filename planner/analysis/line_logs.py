r"""Logs of lines: torchtitan, Megatron, NeMo, Transformers, LLaMA-Factory, torchtune, nanoGPT, Composer and LitGPT.

torchtitan: `[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss: 3.24  memory: 9.46GiB(65%) ...`.
Megatron: ` [2026-05-18 16:04:46] iteration 14/ 500 | ... | elapsed time per iteration (ms): 5123.4 | ...`.
NeMo: `Training epoch 0, iteration 1/249 | ... | global_step: 1 | ... | train_step_timing in s: 2.505`, or in its bar.
Transformers prints a mapping per logging step, as JSON or as Python writes it, with or without the step, and between
them the marks of a progress bar: `3%|2 | 14/500 [01:10<40:31, 5.0s/it]`. Any line may begin with a time stamp, as
`docker logs -t` adds it. Every rank may print the same line; the first of a step counts.
LLaMA-Factory's `trainer_log.jsonl` (src/llamafactory/train/callbacks.py, 0.9.5): `{"current_steps": 10, "total_steps":
120, "loss": 1.71, "elapsed_time": "0:01:40", ...}`; whole seconds since the process began to train, evaluation in them.
torchtune (torchtune/training/metric_logging.py, 0.6.1): `Step 14 | loss:1.62 lr:2e-05 tokens_per_second_per_gpu:1510.2
peak_memory_alloc:22.0`; GiB, and tokens whose labels are trained, of the one step that is logged. Its bar has the step
in its description: `1|14|Loss: 1.62:  2%|2 | 14/500 [01:10<40:31, 5.0s/it]`.
nanoGPT (train.py): `iter 10: loss 9.7421, time 402.11ms, mfu 41.20%`; one iteration, evaluation in it where a line
`step 10: train loss ...` stands before. llm.c and other scripts: `step 5 | loss: 9.5 | dt: 93.20ms`.
Composer (composer/loggers/console_logger.py, 0.32): `[batch=1/100]:`, then lines `\t Train time/batch: 0`; hours, GB.
LitGPT (litgpt/finetune/lora.py, 0.5.13): `Epoch 1 | iter 8 step 1 | loss train: 2.1, val: n/a | iter time: 410.00 ms
(step)`; seconds of one micro-batch.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planner.analysis.logged_steps import (
    MAX_INTERVAL_SECONDS,
    LogHistory,
    LogPoint,
    as_number,
    growth_per_step,
    micro_batch_history,
    once,
    stamp_seconds,
)
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
        match = _TITAN.search(line)
        if match is None:
            continue
        clock = stamp_seconds(line)
        if match[1]:
            before = points[-1].clock if points and points[-1].step == int(match[2]) else None
            paused = clock - before if clock is not None and before is not None else math.nan
            continue
        rate = grouped_number(match[5]) if match[5] else None
        loss = as_number(match[3])
        points.append(LogPoint(number, int(match[2]), clock=clock, loss=loss, rate=rate or None, paused=paused))
        paused = 0.0
        if match[4]:
            peaks.append(float(match[4]))
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
        if (match := _MEGATRON.search(line)) is not None:
            seconds = float(match[4]) / (1000.0 if match[3] == "ms" else 1.0)
            loss = as_number(match[5]) if match[5] else None
            points.append(LogPoint(number, int(match[1]), clock=stamp_seconds(line), seconds=seconds, loss=loss))
            totals.append(int(match[2]))
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
        match = _NEMO.search(line)
        step = as_number(match[1]) if match else None
        if match is None or step is None:
            continue
        loss, batch = _NEMO_LOSS.search(line), _NEMO_BATCH.search(line)
        seconds = as_number(match[2])
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


Rows = list[tuple[int, "Mapping[str, Any]"]]
"""Numbers of lines, with the mappings on them."""
LLAMA_FACTORY, TORCHTUNE, NANOGPT = "trainer_log.jsonl of LLaMA-Factory", "torchtune log", "console of nanoGPT"
COMPOSER, LITGPT = "console of Composer", "console of LitGPT"


_ELAPSED = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)")


def read_llama_factory(lines: Lines, file: str) -> LogHistory:
    """Return the steps of `trainer_log.jsonl`; rows without a loss are evaluations, or the end of the run."""
    logged = [(number, entry) for number, line in lines for entry in mappings_of(line) if "current_steps" in entry]
    rows = _of_first_rank(logged)
    points: list[LogPoint] = []
    tokens: list[tuple[float, float]] = []
    peaks: dict[str, list[float]] = {"allocated": [], "reserved": []}
    paused, last_seen = 0.0, None
    for place, (number, entry) in enumerate(rows):
        step, elapsed = as_number(entry["current_steps"]), _elapsed_seconds(entry.get("elapsed_time"))
        if step is None or not 0 < step < 1e12:
            continue
        for kind, figures in peaks.items():
            figure = as_number(entry.get(f"vram_{kind}"))
            figures += [figure] if figure else []
        if "loss" in entry:
            point = LogPoint(number, int(step), elapsed=elapsed, loss=as_number(entry["loss"]), paused=paused)
            points.append(point)
            paused, last_seen = 0.0, elapsed
            count = as_number(entry.get("total_tokens"))
            tokens += [(int(step), count)] if count else []
        elif place == len(rows) - 1 and (not points or step > points[-1].step):
            points.append(LogPoint(number, int(step)))  # its time holds the last save, too
        elif points and points[-1].step == step and elapsed is not None and last_seen is not None:
            paused, last_seen = paused + max(0.0, elapsed - last_seen), elapsed
        else:
            paused = math.nan
    totals = [as_number(entry.get("total_steps")) for _, entry in rows if "loss" in entry]
    return LogHistory(
        file, LLAMA_FACTORY, once(points),
        total_steps=int(totals[-1]) if totals and totals[-1] else None,
        tokens_per_step=growth_per_step(tokens),
        resolution_seconds=1.0,
        **peak_of(peaks),
    )  # fmt: skip


REPEATED_SHARE = 0.8
"""Share of the steps that are logged more than once where several ranks write: all but those of the end."""


def _of_first_rank(rows: Rows) -> Rows:
    """Return the rows in the order of their steps, the first of each step alone, where several ranks wrote them.

    Ranks that write one file do not wait for each other: 10, 20, 10, 30, 20. A run that was restarted repeats some
    steps as well, but goes back by all of those that it repeats at once. Rows of one process stay as they are.
    """
    steps = [as_number(entry["current_steps"]) or 0.0 for _, entry in rows if "loss" in entry]
    counts = Counter(steps)
    repeated = sum(count > 1 for count in counts.values())
    most_back = max((before - after for before, after in pairwise(steps)), default=0.0)
    span = max(steps, default=0.0) - min(steps, default=0.0)
    if repeated < REPEATED_SHARE * len(counts) or most_back > span / 2:
        return rows
    first: dict[tuple[float, bool], tuple[int, Mapping[str, Any]]] = {}
    for number, entry in rows:
        first.setdefault((as_number(entry["current_steps"]) or 0.0, "loss" not in entry), (number, entry))
    return [first[key] for key in sorted(first)]


def _elapsed_seconds(text: object) -> float | None:
    """Return the seconds of `0:01:40` or `1 day, 2:03:04`."""
    match = _ELAPSED.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((24 * days + hours) * 60 + minutes) * 60 + seconds)


_TUNE = re.compile(r"\bStep (\d+) \| ((?:[\w/.-]+:\S+ ?)+)")
_TUNE_BAR = re.compile(PREFIX + r"\s*(\d+)\|(\d+)\|Loss: ([^\s:]+):\s*\d+%\|[^|]*\|\s*\d+/\d+ \[((?:\d+:)?\d+:\d+)<")


def read_torchtune(lines: Lines, file: str) -> LogHistory:
    """Return the steps of torchtune, by its log file or its bar, whose time begins anew with each epoch."""
    points: list[LogPoint] = []
    peaks: dict[str, list[float]] = {"allocated": [], "reserved": []}
    epoch, before, last = None, 0.0, 0.0
    for number, line in lines:
        if (bar := _TUNE_BAR.search(line)) is not None:
            if epoch is not None and int(bar[1]) > epoch:
                before, last = before + last, 0.0
            epoch, last = int(bar[1]), bar_seconds(bar[4])
            points.append(LogPoint(number, int(bar[2]), elapsed=before + last, loss=as_number(bar[3])))
            continue
        match = _TUNE.search(line)
        entry = dict(part.split(":", 1) for part in match[2].split()) if match else {}
        rate = as_number(entry.get("tokens_per_second_per_gpu"))
        if match is None or ("loss" not in entry and rate is None):
            continue
        loss = as_number(entry.get("loss"))
        points.append(LogPoint(number, int(match[1]), clock=stamp_seconds(line), rate=rate or None, loss=loss))
        for kind, key in (("allocated", "peak_memory_alloc"), ("reserved", "peak_memory_reserved")):
            figure = as_number(entry.get(key))
            peaks[kind] += [figure] if figure else []
    return LogHistory(
        file, TORCHTUNE, once(points),
        resolution_seconds=BAR_SECONDS if epoch is not None else 0.0,
        remarks=(TRAINED_TOKENS,) if any(point.rate for point in points) else (),
        **peak_of(peaks),
    )  # fmt: skip


TRAINED_TOKENS = "torchtune counts the tokens whose labels are trained: prompts that are masked are not among them"


_NANO = re.compile(r"\biter (\d+): loss ([^\s,]+), time ([\d.,]+)ms\b")
_NANO_EVALUATION = re.compile(r"\bstep (\d+): train loss [^\s,]+, val loss\b")
_PLAIN = re.compile(
    r"\b(?:step|iter|iteration)\s*[:=]?\s*(\d+)(?:\s*/\s*(\d+))?\b.{0,300}?"
    r"(?:\b(?:dt|step[ _]time|iter[ _]time|time[ _/]per[ _]step|time/step)\s*[:=]?\s*([\d.,]+)\s*(ms|s|sec|seconds)\b"
    r"|\|\s*([\d.,]+) ms \|)",
    re.IGNORECASE,
)
_PLAIN_LOSS = re.compile(r"\b(?:train[ _])?loss\s*[:=]?\s*([-+.\deE]+|nan|inf)\b", re.IGNORECASE)


def read_nanogpt(lines: Lines, file: str) -> LogHistory:
    """Return the iterations of nanoGPT and of scripts after its pattern, each an optimizer step, counted from 0."""
    points: list[LogPoint] = []
    evaluated, total = None, None
    for number, line in lines:
        if (evaluation := _NANO_EVALUATION.search(line)) is not None:
            evaluated = int(evaluation[1])
        elif (match := _NANO.search(line)) is not None:
            seconds = grouped_number(match[3])
            timed = seconds / 1000.0 if seconds is not None and int(match[1]) != evaluated else None
            points.append(LogPoint(number, int(match[1]) + 1, seconds=timed, loss=as_number(match[2])))
        elif (plain := _PLAIN.search(line)) is not None and " | iter " not in line:
            figure = grouped_number(plain[3] or plain[5])
            unit = 1000.0 if plain[5] or plain[4].lower() == "ms" else 1.0
            loss = _PLAIN_LOSS.search(line)
            total = int(plain[2]) if plain[2] else total
            timed = figure / unit if figure is not None else None
            lost = as_number(loss[1]) if loss else None
            points.append(LogPoint(number, int(plain[1]), clock=stamp_seconds(line), seconds=timed, loss=lost))
    return LogHistory(file, NANOGPT, once(points), total_steps=total)


_BLOCK = re.compile(r"(?:\[epoch=(\d+)\])?\[(?:batch|ba)=(\d+)(?:/(\d+))?\]")
_TRAIN_FIGURE = re.compile(r"\bTrain ([\w/.-]+): ([-+.\deE]+|nan|inf)\b")
_HOUR_DIGIT = 1e-4
"""What Composer rounds its figures to."""
_COMPOSER_UNITS = (1.0, 60.0, 3600.0, 86400.0)
"""Seconds of the units that SpeedMonitor can count times in; hours unless it is told."""


def read_composer(lines: Lines, file: str) -> LogHistory:
    """Return the batches of Composer's console: a head and lines of figures, each batch an optimizer step."""
    blocks = _composer_blocks(lines)
    unit = _composer_unit(blocks)
    points: list[LogPoint] = []
    validated = 0.0
    for number, step, figures in blocks:
        hours = figures.get("time/total", figures.get("time/train"))
        validation = figures.get("time/val", 0.0) * unit
        alone = figures.get("throughput/batches_per_sec")
        points.append(
            LogPoint(
                number, step,
                elapsed=hours * unit if hours is not None else None,
                seconds=1.0 / alone if alone and hours is None else None,
                rate=figures.get("throughput/device/tokens_per_sec") or None,
                loss=figures.get("loss/train/total"),
                paused=max(0.0, validation - validated) if "time/total" in figures else 0.0,
            )
        )  # fmt: skip
        validated = max(validated, validation)
    micro = {figures.get("trainer/device_train_microbatch_size") for _, _, figures in blocks} - {None}
    peaks = {
        kind: [figures[key] * 1e9 / GIB for _, _, figures in blocks if figures.get(key)]
        for kind, key in (("allocated", "memory/peak_allocated_mem"), ("reserved", "memory/peak_reserved_mem"))
    }
    tokens = [(step, figures["time/token"]) for _, step, figures in blocks if figures.get("time/token") is not None]
    return LogHistory(
        file, COMPOSER, once(points),
        total_steps=_composer_total(lines),
        tokens_per_step=growth_per_step(tokens) if len(tokens) > 1 else None,
        micro_batch=int(size) if len(micro) == 1 and (size := micro.pop()) else None,
        gpus=_composer_gpus(blocks),
        resolution_seconds=_HOUR_DIGIT * unit,
        **peak_of(peaks),
    )  # fmt: skip


def _composer_blocks(lines: Lines) -> list[tuple[int, int, Mapping[str, float]]]:
    """Return the line, the step and the figures of each head; `time/batch` counts the batches before this one."""
    blocks: list[tuple[int, int, dict[str, float]]] = []
    for number, line in lines:
        head = _BLOCK.search(line)
        if head is not None:
            before = (int(head[1]) - 1) * int(head[3] or 0) if head[1] else 0
            blocks.append((number, before + int(head[2]), {}))
        if blocks and "Train " in line:
            figures = ((key, as_number(value)) for key, value in _TRAIN_FIGURE.findall(line))
            blocks[-1][2].update({key: value for key, value in figures if value is not None})
    stepped = [
        (number, int(figures["time/batch"]) + 1 if "time/batch" in figures else step, figures)
        for number, step, figures in blocks
        if figures
    ]
    return [block for block in stepped if block[1] > 0]


def _composer_total(lines: Lines) -> int | None:
    """Return the batches of the run; a head with the epoch counts those of one epoch."""
    heads = [head for _, line in lines if (head := _BLOCK.search(line)) is not None]
    return int(heads[-1][3]) if heads and heads[-1][3] and not heads[-1][1] else None


def _composer_unit(blocks: Sequence[tuple[int, int, Mapping[str, float]]]) -> float:
    """Return the unit of times in seconds: the one that agrees with the batches per second, if both are logged."""
    timed = [block for block in blocks if "time/train" in block[2]]
    rates = [block[2]["throughput/batches_per_sec"] for block in timed if block[2].get("throughput/batches_per_sec")]
    if len(timed) < 2 or not rates:
        return 3600.0
    (_, first, start), (_, last, end) = timed[0], timed[-1]
    grown = end["time/train"] - start["time/train"]
    if grown <= 0 or last <= first:
        return 3600.0
    seconds = (last - first) / rates[-1]
    return min(_COMPOSER_UNITS, key=lambda unit: abs(math.log(grown * unit / seconds)))


def _composer_gpus(blocks: Sequence[tuple[int, int, Mapping[str, float]]]) -> int | None:
    for unit in ("tokens", "samples", "batches"):
        for _, _, figures in reversed(blocks):
            whole, device = (figures.get(f"throughput/{part}{unit}_per_sec") for part in ("", "device/"))
            if whole and device and abs(whole / device / max(1, round(whole / device)) - 1.0) < 0.02:
                return round(whole / device)
    return None


_LIT = re.compile(
    r"\biter (\d+) step (\d+) \|.{0,200}?\bloss train: ([^\s,]+).{0,200}?\biter time: ([\d.]+) ms( \(step\))?"
)


def read_litgpt(lines: Lines, file: str) -> LogHistory:
    """Return the steps of LitGPT's console, which times the micro-batch that is logged."""
    points, steps = [], []
    for number, line in lines:
        match = _LIT.search(line)
        seconds = as_number(match[4]) if match else None
        if match is None or seconds is None:
            continue
        points.append(LogPoint(number, int(match[1]), seconds=seconds / 1000.0, loss=as_number(match[3])))
        steps.append(int(match[2]))
    return micro_batch_history(file, LITGPT, points, _micro_batches_of_step(points, steps))


def _micro_batches_of_step(points: Sequence[LogPoint], steps: Sequence[int]) -> int | None:
    """Return the micro-batches of one optimizer step that agree with all rows; None where several do, or none."""
    rows = [(point.step, step) for point, step in zip(points, steps, strict=True)]
    exact = {done / step for done, step in rows} if rows and all(steps) else set()
    if len(exact) == 1 and (ratio := exact.pop()).is_integer():
        return int(ratio)
    last, count = max(rows, default=(0, 0))
    if not count:
        return None
    candidates = range(max(1, last // (count + 1)), last // count + 1)
    fitting = [per_step for per_step in candidates if all(done // per_step == step for done, step in rows)]
    return fitting[0] if len(fitting) == 1 else None


def read_line_log(text: str, file: str) -> LogHistory | None:
    """Return the log in the format that most of its lines are in; None where no line says a step."""
    lines = lines_of(text)
    readers: tuple[Callable[[Lines, str], LogHistory], ...] = (
        read_torchtitan, read_megatron, read_nemo, read_transformers,
        read_llama_factory, read_torchtune, read_nanogpt, read_composer, read_litgpt,
    )  # fmt: skip
    longest = max((reader(lines, file) for reader in readers), key=lambda history: len(history.points))
    return longest if longest.points else None
