"""Logs that are files of one format, CSV or `trainer_state.json` of Hugging Face, and which format a log has.

Names come in any case with blanks around, figures with their unit, and a last line may be cut short.
Exports: a chart of Weights & Biases (`"Step","run-1 - train/loss","run-1 - _timestamp"`) or its whole history
(`_step,_runtime,_timestamp,...`), a scalar of TensorBoard (`Wall time,Step,Value`), and `metrics.csv` of LitGPT.

The `log_history` of a state has an entry per logging step (`step`, `epoch`, `loss`, ...). Time is in the last entry
alone (`train_runtime`, `train_steps_per_second`, `train_samples_per_second`, of the whole run), unless input tokens
were counted: then every entry has `num_input_tokens_seen` and, in newer versions, the `train_runtime` so far.
With memory metrics on, the last entry has `before_init_mem_gpu` and `*_mem_gpu_*_delta` in bytes.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.analysis.line_logs import EVALUATIONS, evaluation_seconds, read_line_log
from planner.analysis.logged_steps import (
    MAX_INTERVAL_SECONDS,
    MAX_STEP_SECONDS,
    MIN_TIMED_STEPS,
    LogHistory,
    LogPoint,
    RunLog,
    as_number,
    fault,
    growth_per_step,
    micro_batch_history,
    resumed_remarks,
    split_attempts,
    stamp_seconds,
)
from planner.documents.files import file_name, read_text
from planner.documents.tables import JsonDocument, parse_json
from planner.errors import InputError
from planner.units import GIB, MIB

STEP_TIME_CSV = "CSV of step times"
STEP_COLUMNS = ("step", "global_step", "iteration", "iter")
_SECONDS = "seconds step_seconds step_time step_time_s step_time_seconds seconds_per_step duration_s"
_MILLISECONDS = "step_time_ms step_ms milliseconds"
UNIT_SECONDS = {**dict.fromkeys(_SECONDS.split(), 1.0), **dict.fromkeys(_MILLISECONDS.split(), 1e-3)}
"""Columns of seconds per step, with what one unit is in seconds."""
LATEST_SECONDS = 1e11
"""Later times, past the year 5000, count milliseconds."""
TIME_COLUMNS = ("elapsed_seconds", "elapsed", "timestamp", "time", "datetime", "wall_time")
REAL_TOKENS = "num_tokens"
"""Name of TRL for the tokens since the first step, without padding."""
TOKEN_COLUMNS = ("tokens", REAL_TOKENS, "tokens_per_step")


NVIDIA_SMI = "nvidia-smi log"
TORCH = "CSV of torch memory"
TORCH_UNITS = {"": 1.0, "_bytes": 1.0, "_mib": float(MIB), "_gib": float(GIB), "_mb": 1e6, "_gb": 1e9}
UNIT_BYTES = {
    f"max_memory_{kind}{ending}": (unit, kind)
    for kind in ("allocated", "reserved")
    for ending, unit in TORCH_UNITS.items()
} | {"memory.used [mib]": (float(MIB), "device")}
"""Columns of memory, the preferred one first: bytes per unit and kind."""
MIN_PEAK_BYTES, MAX_PEAK_BYTES = 64 * MIB, 2048.0 * GIB
"""Range of plausible peaks of one GPU: outside it, another unit is meant."""


KNOWN_COLUMNS = frozenset((*STEP_COLUMNS, *UNIT_SECONDS, *TIME_COLUMNS, *UNIT_BYTES, "wall time", "_step"))
"""Columns by which a text is known to be a table."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file; `names` in lower case, `lines` are the numbers of the rows in the file."""

    file: str
    names: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[Mapping[str, str], ...]

    def first(self, wanted: Iterable[str]) -> str | None:
        """Return the first of the names that the table has."""
        return next((name for name in wanted if name in self.names), None)

    def numbers(self, column: str, suffix: str = "") -> list[float]:
        """Return the cells as finite numbers without their unit; `InputError` names the first that is none."""
        figures = []
        for line, row in zip(self.lines, self.rows, strict=True):
            try:
                value = float(row[column].removesuffix(suffix).strip())
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                fix = "leave out rows without a measurement"
                raise fault(self.file, line, f"{row[column]!r} is not a number", fix, column)
            figures.append(value)
        return figures


def read_table(text: str, file: str) -> CsvTable | None:
    """Return the table; None where the first line is no header; `InputError` where a row does not fit the header."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [_column(cell) for cell in next(reader, [])]
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise fault(file, reader.line_num, f"cannot be read as CSV: {error}", "separate cells by commas") from None
    if len(header) > 1 and not header[0]:
        header[0] = "row"  # the index, as pandas writes it
    if not header or not all(header) or len(set(header)) < len(header):
        return None
    if rows and len(rows[-1][1]) < len(header) and not text.endswith("\n"):
        rows.pop()  # a run that is still writing, or was killed
    is_ours = any(name in KNOWN_COLUMNS or _CHARTED.fullmatch(name) for name in header)
    for line, row in rows:
        if len(row) != len(header):
            if not is_ours:
                return None
            problem = f"{len(row)} cells, but the header has {len(header)}"
            raise fault(file, line, problem, "give every row the cells of the header")
    if not rows:
        raise fault(file, 1, "has a header but no rows", "log some steps first")
    lines, cells = zip(*rows, strict=True)
    return exported_table(
        CsvTable(file, tuple(header), lines, tuple(dict(zip(header, row, strict=True)) for row in cells))
    )


def _column(cell: str) -> str:
    """Return the name of a column in lower case, and `Step Time (ms)` as the known name that has the same words."""
    name = cell.strip().casefold()
    words = "_".join(re.findall(r"[a-z0-9]+", name))
    return words if name not in KNOWN_COLUMNS and words in KNOWN_COLUMNS else name


_CHARTED = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__min|__max)?")
EXPORTED = {
    "wall time": "timestamp", "_timestamp": "timestamp", "_runtime": "elapsed_seconds",
    "relative time (process)": "elapsed_seconds", "relative time (wall)": "elapsed_seconds",
    "train/global_step": "global_step", "trainer/global_step": "global_step", "train/loss": "loss",
    "train/num_tokens": REAL_TOKENS,
}  # fmt: skip
"""Columns of exports by the names that are used here."""


def exported_table(table: CsvTable) -> CsvTable:
    """Return an export of Weights & Biases or TensorBoard under the names used here; any other table as it is.

    `InputError` for a chart of several runs, and for steps that count calls of `wandb.log`.
    """
    charted = {name: match for name in table.names if (match := _CHARTED.fullmatch(name))}
    runs = sorted({match["run"] for match in charted.values()})
    is_wandb = bool(charted) or "_step" in table.names
    if not is_wandb and "wall time" not in table.names:
        return table
    if len(runs) > 1:
        problem = f"charts of {len(runs)} runs: {', '.join(runs[:3])}"
        raise fault(table.file, 1, problem, "export one run", "")
    names = {name: (charted[name]["metric"] if name in charted else name) for name in table.names}
    names = {
        name: EXPORTED.get(metric, "step" if metric == "_step" else metric)
        for name, metric in names.items()
        if not (name in charted and charted[name]["bound"])
    }
    kept = {new: old for old, new in reversed(names.items())}
    if "global_step" in kept:
        kept.pop("step", None)
    needed = [name for name in ("step", "global_step", "timestamp", "elapsed_seconds") if name in kept]
    chosen = [
        (line, {new: row[old] for new, old in kept.items()})
        for line, row in zip(table.lines, table.rows, strict=True)
        if all(row[kept[name]] for name in needed)
    ]
    if not chosen:
        raise fault(table.file, 1, "no row has a step and a time", "export the time (_timestamp) with the loss")
    lines, rows = zip(*chosen, strict=True)
    export = CsvTable(table.file, tuple(kept), lines, rows)
    if is_wandb and "step" in kept:
        _check_counts_steps(export)
    return export


def _check_counts_steps(table: CsvTable) -> None:
    """Refuse steps of W&B that rise by one: they count calls of `wandb.log`, of which each may hold several steps."""
    steps = table.numbers("step")
    if len(steps) > 1 and all(after - before == 1 for before, after in itertools.pairwise(steps)):
        problem = "Step counts the calls of wandb.log, which are not optimizer steps where one in several is logged"
        fix = "export train/global_step too, or rename the column to global_step if each call is one step"
        raise fault(table.file, table.lines[0], problem, fix, "step")


def read_step_times(table: CsvTable) -> RunLog | None:
    """Return the log; `InputError` for rows that are no times, or that go backwards.

    None where the table has no column of times.
    """
    step, column, clock = (table.first(names) for names in (STEP_COLUMNS, UNIT_SECONDS, TIME_COLUMNS))
    if column is None and (step is None or clock is None):
        return None
    steps = table.numbers(step) if step else []
    for line, (before, after) in zip(table.lines[1:], itertools.pairwise(steps), strict=False):
        if after <= before:
            problem = f"step {after:g} follows step {before:g}"
            raise fault(table.file, line, problem, "give one run, in the order of its steps", step or "")
    if column is not None:
        seconds = [value * UNIT_SECONDS[column] for value in table.numbers(column)]
        for line, value in zip(table.lines, seconds, strict=True):
            if value <= 0:
                fix = "seconds of a step are positive; name a column of clock times timestamp"
                raise fault(table.file, line, f"{value:g} seconds for a step", fix, column)
        check_not_elapsed(table, column, seconds)
    else:
        seconds = _between(table, str(clock), steps)
    tokens = table.first(TOKEN_COLUMNS)
    gaps = [round(after - before) for before, after in itertools.pairwise(steps)]
    return RunLog(
        table.file,
        STEP_TIME_CSV,
        step_seconds=tuple(seconds),
        interval_steps=tuple(gaps) if column is None and min(gaps, default=0) >= 1 else (),
        tokens_per_step=_tokens_per_step(table.numbers(tokens), steps) if tokens else None,
    )


def _tokens_per_step(counts: Sequence[float], steps: Sequence[float]) -> float | None:
    """Return the mean tokens of a step, from those of each row or from those since the first step, which only grow."""
    growing = all(after > before for before, after in itertools.pairwise(counts))
    if steps and growing and len(counts) >= MIN_TIMED_STEPS and counts[-1] > counts[0] * len(counts) / 2:
        return growth_per_step(list(zip(steps, counts, strict=True)))
    return sum(counts) / len(counts)


def check_not_elapsed(table: CsvTable, column: str, seconds: Sequence[float]) -> None:
    """Refuse times that only grow, as much as a sum of steps would: they are not times of single steps."""
    growing = all(after > before for before, after in itertools.pairwise(seconds))
    if growing and len(seconds) >= MIN_TIMED_STEPS and seconds[-1] > seconds[0] * len(seconds) / 2:
        problem = f"increases in every row, from {seconds[0]:g} to {seconds[-1]:g} s, like the time since the start"
        raise fault(table.file, table.lines[0], problem, "name the column elapsed_seconds", column)


def _between(table: CsvTable, column: str, steps: Sequence[float]) -> list[float]:
    """Return the seconds per step between the time stamps of consecutive rows."""
    stamps = [_seconds(table, line, column, row[column]) for line, row in zip(table.lines, table.rows, strict=True)]
    paces = []
    for line, (before, after), (first, last) in zip(
        table.lines[1:], itertools.pairwise(stamps), itertools.pairwise(steps), strict=True
    ):
        if after <= before:
            raise fault(table.file, line, "time does not increase", "give one run, in the order of its steps", column)
        paces.append((after - before) / (last - first))
    return paces


def _seconds(table: CsvTable, line: int, column: str, text: str) -> float:
    """Return seconds since some fixed time, from a number or from a date and time."""
    number = as_number(text)
    if number is not None:
        return number / 1000.0 if number > LATEST_SECONDS else number
    try:
        return datetime.datetime.fromisoformat(text.replace("/", "-")).timestamp()
    except ValueError:
        stamped = stamp_seconds(text.replace("/", "-"))
        if stamped is not None:
            return stamped
        fix = "seconds, or a date and time such as 2026-11-21T10:00:00"
        raise fault(table.file, line, f"{text!r} is not a time", fix, column) from None


def read_memory_use(table: CsvTable) -> RunLog | None:
    """Return the highest figure of all rows and GPUs; `InputError` for one that is no memory of a GPU.

    None where the table has no column of memory.
    """
    column = table.first(UNIT_BYTES)
    if column is None:
        return None
    unit, kind = UNIT_BYTES[column]
    sizes = [value * unit for value in table.numbers(column, suffix="MiB" if unit == MIB else "")]
    peak = max(sizes)
    if not MIN_PEAK_BYTES <= peak <= MAX_PEAK_BYTES:
        fix = "name the unit in the column: max_memory_allocated is in bytes, max_memory_allocated_gib in GiB"
        problem = f"a peak of {peak / GIB:.3g} GiB is implausible for a training run on one GPU"
        raise fault(table.file, table.lines[sizes.index(peak)], problem, fix, column)
    name = NVIDIA_SMI if kind == "device" else TORCH
    return RunLog(table.file, name, peak_gib=peak / GIB, peak_kind=kind)


# CSV logs read for the progress of a run: rows without a figure are left out and counted.
#
# For the speed of one uninterrupted run the same files are read above, which refuses what is not.


UTILISATION_COLUMNS = ("utilization.gpu [%]", "utilization.gpu")
LOSS_COLUMNS = ("loss", "train_loss", "lm loss")
LITGPT_CSV = "metrics.csv of LitGPT"
SINCE_START = ("elapsed_seconds", "elapsed")
"""Columns of times that count from the start of the process."""


def read_csv_history(table: CsvTable) -> LogHistory | None:
    """Return what a table of step times, or of nvidia-smi, says of a run; None where it says neither.

    `InputError` where the column of seconds per step holds times since the start.
    """
    column, clock = table.first(UNIT_SECONDS), table.first(TIME_COLUMNS)
    step = table.first(STEP_COLUMNS)
    litgpt = read_litgpt_table(table)
    if litgpt is not None:
        return litgpt
    if column is None and (step is None or clock is None):
        return _memory_history(table)
    points, left_out = [], 0
    for number, (line, row) in enumerate(zip(table.lines, table.rows, strict=True), 1):
        seconds = as_number(row[column]) if column else None
        at = as_number(row[step]) if step else float(number)
        time = _time(row[clock]) if clock else None
        usable = seconds if column else time
        if at is None or not 0 <= at < 1e12 or usable is None or not math.isfinite(usable):
            left_out += 1
            continue
        points.append(
            LogPoint(
                line,
                int(at),
                clock=time if clock not in SINCE_START and (time or 0.0) > _FIRST_CLOCK else None,
                elapsed=time if clock in SINCE_START or (time or _FIRST_CLOCK) < _FIRST_CLOCK else None,
                seconds=seconds * UNIT_SECONDS[column] if seconds is not None and column else None,
                loss=_loss(table, row),
            )
        )
    if column:
        check_not_elapsed(table, column, [point.seconds for point in points if point.seconds is not None])
    remarks = (f"{left_out} rows without a usable step and time are left out",) if left_out else ()
    return LogHistory(table.file, STEP_TIME_CSV, tuple(points), remarks=remarks)


def read_litgpt_table(table: CsvTable) -> LogHistory | None:
    """Return the history of LitGPT's `metrics.csv`; None where the table has other columns.

    `time` is that since the start of the training at micro-batch `batches`, in a row of its own or in that of `iter`;
    without it `iter_time` is that of one micro-batch. Lightning's CSVLogger writes the micro-batch, or the one before,
    over the column `step`, so the file does not say how many make a step. Rows with `val_loss` end a validation.
    """
    if not {"iter", "step", "iter_time"} <= set(table.names):
        return None
    rows = [
        (line, {name: as_number(cell) for name, cell in row.items() if cell})
        for line, row in zip(table.lines, table.rows, strict=True)
    ]
    ends = {row["batches"]: row["time"] for _, row in rows if row.get("batches") and row.get("time")}
    points: list[LogPoint] = []
    tokens: list[tuple[float, float]] = []
    paused = 0.0
    for line, row in rows:
        iteration, seconds = row.get("iter"), row.get("iter_time")
        if "val_loss" in row:
            paused = math.nan
        if iteration is None or seconds is None or not 0 < seconds < MAX_STEP_SECONDS:
            continue
        end = ends.get(iteration)
        alone = None if ends else seconds
        loss = row.get("loss")
        points.append(LogPoint(line, int(iteration), elapsed=end, seconds=alone, loss=loss, paused=paused))
        paused = 0.0
        count = row.get("total_tokens")
        tokens += [(iteration, count)] if count else []
    return micro_batch_history(
        table.file, LITGPT_CSV, points, _accumulation([row for _, row in rows]), growth_per_step(tokens)
    )


def _accumulation(rows: Sequence[Mapping[str, float | None]]) -> int | None:
    """Return the micro-batches of a step where the column `step` was not written over by that of the micro-batch."""
    pairs = [(row["iter"], row["step"]) for row in rows if row.get("iter") and row.get("step")]
    ratios = {done / step for done, step in pairs if done and step}
    ratio = ratios.pop() if len(ratios) == 1 else 1.0
    return int(ratio) if ratio > 1 and ratio.is_integer() else None


_FIRST_CLOCK = 1e9
"""Seconds since the epoch in 2001: smaller figures count from the start of something else."""


def _loss(table: CsvTable, row: Mapping[str, str]) -> float | None:
    column = table.first(LOSS_COLUMNS)
    return as_number(row[column]) if column else None


def _time(text: str) -> float | None:
    number = as_number(text)
    if number is not None:
        return number / 1000.0 if number > LATEST_SECONDS else number
    return stamp_seconds(text.replace("/", "-"))


def _memory_history(table: CsvTable) -> LogHistory | None:
    """Return the peak of a memory log, and how busy the GPUs were where nvidia-smi says it."""
    memory = read_memory_use(table)
    busy = table.first(UTILISATION_COLUMNS)
    if memory is None and busy is None:
        return None
    shares = [as_number(row[busy].removesuffix("%")) for row in table.rows] if busy else []
    known = [share / 100.0 for share in shares if share is not None and 0.0 <= share <= 100.0]
    return LogHistory(
        table.file,
        memory.kind if memory else NVIDIA_SMI,
        peak_gib=memory.peak_gib if memory else None,
        peak_kind=memory.peak_kind if memory else None,
        utilisation=math.fsum(known) / len(known) if known else None,
    )


# `trainer_state.json` of Hugging Face.


TRAINER_STATE = "trainer_state.json"
PEAK_KEY = "train_mem_gpu_peaked_delta"
MEMORY_PARTS = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta", PEAK_KEY)
AXOLOTL_PEAK = "memory/max_allocated (GiB)"
RATE_STEP, RUNTIME_STEP = 1e-3, 1e-4
"""What Transformers rounds rates and the time of a run to (`speed_metrics` in trainer_utils.py)."""
MIN_FIGURE, MAX_FIGURE = 1e-9, 1e15
"""A figure outside of these is not believed: it counts as not given."""
ONE_RUN = "give the state of one uninterrupted run"


def read_trainer_state(document: JsonDocument, fix: str) -> RunLog:
    """Return the log; `InputError` where it holds no time or goes backwards."""
    state = document.data
    if not isinstance(state, Mapping) or not isinstance(state.get("log_history"), list):
        raise _fault(document, (), "has no log_history", fix)
    entries = {n: entry for n, entry in enumerate(state["log_history"]) if isinstance(entry, Mapping)}
    steps_only = {n: entry for n, entry in entries.items() if not is_evaluation(entry)}
    if not steps_only:
        fix = "train for some steps with logging_steps set, then save the state"
        raise _fault(document, ("log_history",), "no training step is logged", fix)
    _check_order(steps_only, document)
    training = list(steps_only.values())
    last = next((entry for entry in reversed(training) if _number(entry, "train_steps_per_second")), None)
    intervals = _intervals(entries, document)
    whole: tuple[int, float] | None = None
    notes: list[str] = []
    possible = range(0)
    if last is not None and _number(last, "train_runtime"):
        possible = possible_batches(last, state)
        if (share := trained_share(training)) < LEAST_TRAINED_SHARE:
            problem = f"the run went on from a checkpoint: train_loss is {share:.2f} of the mean of the logged losses"
            raise _fault(document, ("log_history",), f"{problem}, so train_runtime times its last part alone", ONE_RUN)
        # Not train_steps_per_second: it counts the steps that were asked for, also where the run ended early.
        evaluated, notes = _evaluated_seconds(list(entries.values()), last)
        whole = (round(_number(last, "step")), max(0.0, _number(last, "train_runtime") - evaluated))
    steps = tuple(seconds for _, seconds in intervals)
    if len(steps) < 2 and whole is None:
        fix = (
            "wait for the end of the run, or train with include_num_input_tokens_seen, which logs times during training"
        )
        problem = "has no training time: neither train_runtime at the end nor times of single steps"
        raise _fault(document, ("log_history",), problem, fix)
    peak = largest_peak_gib(training)
    tokens, counted_as = tokens_per_logged_step(state, training)
    return RunLog(
        document.file,
        TRAINER_STATE,
        step_seconds=steps if len(steps) >= MIN_TIMED_STEPS or whole is None else (),
        interval_steps=tuple(count for count, _ in intervals) if whole is None else (),
        whole=whole,
        notes=tuple(notes),
        tokens_per_step=tokens,
        counts_padding=counted_as != REAL_TOKENS,
        micro_batch=whole_number(state.get("train_batch_size")),
        global_batch=possible[0] if len(possible) == 1 else None,
        possible_batches=possible if len(possible) > 1 else None,
        peak_gib=peak,
        peak_kind="allocated" if peak is not None else None,
    )


def _check_order(entries: Mapping[int, Mapping[str, Any]], document: JsonDocument) -> None:
    before = 0.0
    for number, entry in entries.items():
        step = _number(entry, "step")
        if "step" in entry and step < before:
            raise _fault(document, ("log_history", number), f"steps go back from {before:g} to {step:g}", ONE_RUN)
        before = max(before, step)


def _intervals(entries: Mapping[int, Mapping[str, Any]], document: JsonDocument) -> list[tuple[int, float]]:
    """Return steps, and seconds of one, between entries with the time so far; neither the summary nor evaluation."""
    intervals, step, seconds, paused = [], 0.0, 0.0, 0.0
    for number, entry in entries.items():
        if is_evaluation(entry):
            paused += evaluation_seconds(entry)
            continue
        here, now = _number(entry, "step"), _number(entry, "train_runtime")
        if not now or _number(entry, "train_steps_per_second"):
            continue
        if now < seconds:
            problem = f"time goes back from {seconds:g} to {now:g} s at step {here:g}"
            raise _fault(document, ("log_history", number), problem, ONE_RUN)
        if here > step and now - seconds > paused:  # not where evaluation is not timed
            intervals.append((round(here - step), (now - seconds - paused) / (here - step)))
        step, seconds, paused = here, now, 0.0
    return intervals


def is_evaluation(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of the history is that of an evaluation, or of predictions as some scripts make them."""
    return any(str(key).startswith(EVALUATIONS) for key in entry)


def _evaluated_seconds(entries: Sequence[Mapping[str, Any]], last: Mapping[str, Any]) -> tuple[float, list[str]]:
    """Return the seconds of evaluation during training, and notes: entries after the summary are of a later one."""
    before = entries[: next(number for number, entry in enumerate(entries) if entry is last)]
    seconds = [evaluation_seconds(entry) for entry in before if is_evaluation(entry)]
    known = [second for second in seconds if not math.isnan(second)]
    notes = [f"evaluation, {math.fsum(known):,.0f} s in all, is left out"] if known else []
    if len(known) < len(seconds):
        notes.append(f"{len(seconds) - len(known)} evaluations without eval_runtime count as training")
    return math.fsum(known), notes


LEAST_TRAINED_SHARE = 0.95
"""A smaller share of the logged losses in `train_loss` shows that the run was resumed: 1 or more, but for rounding, if
not."""


def trained_share(entries: Sequence[Mapping[str, Any]]) -> float:
    """Return the sum of losses that `train_loss` is of over that of the logged ones; 1 where either is not known.

    Transformers divides the sum of the losses since the process started by all steps of the run, so the share is that
    of the last part in a run that went on from a checkpoint (`_inner_training_loop` of its Trainer). Steps after the
    last logged one can only add to it.
    """
    last = next((entry for entry in reversed(entries) if "train_loss" in entry), None)
    step, total = 0.0, 0.0
    for entry in entries:
        here, loss = _number(entry, "step"), as_number(entry.get("loss"))
        if loss is None or here <= step:
            continue
        if not 0 < loss < math.inf:
            return 1.0
        step, total = here, total + loss * (here - step)
    given = _number(last, "train_loss") * max(_number(last, "step"), step) if last is not None else 0.0
    return given / total if given and total else 1.0


TOKENS_SO_FAR = (REAL_TOKENS, "num_input_tokens_seen", "tokens/total")
"""Tokens since the first step, the preferred name first: of TRL, Transformers and Axolotl.

TRL counts `num_tokens` by the mask of attention, without padding (`sft_trainer.py` of 1.16); Transformers counts
whole rows, unless `include_num_input_tokens_seen` is `non_padding`, and Axolotl counts them always.
"""


def tokens_per_logged_step(
    document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> tuple[float | None, str]:
    """Return the tokens of one optimizer step over all GPUs as the state counts them, and its name for them.

    (None, "") where it counts none.
    """
    for name in TOKENS_SO_FAR:
        counts = [(_number(entry, "step"), tokens) for entry in entries if (tokens := _number(entry, name))]
        whole = (_number(document, "global_step"), _number(document, name))
        growth = growth_per_step(counts or [whole])
        if growth is not None:
            return growth, name
    return None, ""


def possible_batches(last: Mapping[str, Any], state: Mapping[str, Any]) -> range:
    """Return the numbers of samples per step that the rounded figures of the whole run leave possible.

    Transformers divides the samples and the steps that were asked for by the time. Samples that do not fill the last
    step of an epoch make that step smaller, or are left out, by version: either way the true number differs from the
    samples per step by less than one step of each epoch. Every step has the same number of whole micro-batches.
    """
    samples, seconds = _number(last, "train_samples_per_second"), _number(last, "train_runtime")
    rate, asked = _number(last, "train_steps_per_second"), _number(state, "max_steps") or _number(last, "step")
    steps_per_epoch = _number(last, "step") / (_number(last, "epoch") or 1.0)
    if not samples or not asked or steps_per_epoch <= 1:
        return range(0)
    half, half_second = RATE_STEP / 2, RUNTIME_STEP / 2
    fewest = most = asked
    if abs(asked / seconds - rate) > RATE_STEP:  # a run that ended early, of a state without max_steps
        fewest, most = max(1.0, (rate - half) * seconds), (rate + half) * seconds
    low = (samples - half) * (seconds - half_second) / most * steps_per_epoch / (steps_per_epoch + 1)
    high = (samples + half) * (seconds + half_second) / fewest * steps_per_epoch / (steps_per_epoch - 1)
    micro_batch = whole_number(state.get("train_batch_size")) or 1
    return range(
        max(1, math.ceil(low / micro_batch)) * micro_batch,
        math.floor(high / micro_batch) * micro_batch + 1,
        micro_batch,
    )


def largest_peak_gib(entries: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the peak of the first process: bytes before training, at its start and beyond it; or Axolotl's figure."""
    for entry in reversed(entries):
        parts = [_number(entry, name) for name in MEMORY_PARTS]
        if PEAK_KEY in entry and sum(parts) > 0:
            return sum(parts) / GIB
    return max((_number(entry, AXOLOTL_PEAK) for entry in entries), default=0.0) or None


def _number(entry: Mapping[str, Any], key: str) -> float:
    """Return the figure, 0 where there is none that can be believed."""
    value = entry.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0.0
    return float(value) if MIN_FIGURE <= value <= MAX_FIGURE else 0.0


def whole_number(value: object) -> int | None:
    """Return a positive whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _fault(document: JsonDocument, path: tuple[str | int, ...], what: str, fix: str) -> InputError:
    return InputError([document.fault(path, what, fix)])


# Detection of the format of a log from its content, for the speed and memory of one uninterrupted run.


KNOWN_FORMATS = (
    "give a trainer_state.json, trainer_log.jsonl of LLaMA-Factory, the console output of Transformers, TRL, Axolotl, "
    "torchtitan, torchtune, Megatron, NeMo, Composer (llm-foundry), LitGPT or nanoGPT, metrics.csv of LitGPT, a CSV "
    "from Weights & Biases or TensorBoard, a CSV with step and seconds, or a memory log of nvidia-smi or torch"
)


def read_log(path: str) -> RunLog:
    """Return the log of a run; `InputError` names what is wrong with it, and where."""
    text, file = read_text(path), file_name(path)
    if not text.strip():
        raise fault(file, 1, "is empty", KNOWN_FORMATS)
    lines = None if '"log_history"' in text else read_line_log(text, file)
    if lines is not None:
        return _one_run(lines)
    if text.lstrip()[0] in "{[":
        return read_trainer_state(parse_json(text, file, KNOWN_FORMATS, nan_is_nothing=True), KNOWN_FORMATS)
    table = read_table(text, file)
    if table is not None and (litgpt := read_litgpt_table(table)) is not None:
        return _one_run(litgpt)
    log = (read_step_times(table) or read_memory_use(table)) if table is not None else None
    if log is None:
        raise fault(file, 1, _why_unknown(table), KNOWN_FORMATS)
    return log


def _why_unknown(table: CsvTable | None) -> str:
    """Return what is missing in a file that no reader knows."""
    if table is not None and table.first(STEP_COLUMNS):
        return f"has steps but no times: its columns are {', '.join(table.names[:8])}"
    return "unknown log format"


def _one_run(log: LogHistory) -> RunLog:
    """Return the log of lines of one attempt; `InputError` where there are several."""
    attempts = split_attempts(log.points, log.resolution_seconds)
    if len(attempts) > 1:
        before, after = attempts[0], attempts[1]
        problem = f"steps go back from {before.last_step} to {after.first_step}"
        if after.first_step >= before.last_step:
            problem = f"the time since the start goes back at step {after.first_step}, where the run was started again"
        raise fault(log.file, after.points[0].line, problem, ONE_RUN)
    (attempt,) = attempts
    if not attempt.intervals and log.peak_gib is None and not any(point.rate for point in attempt.points):
        problem = f"a {log.kind} that times no step, or none without an evaluation in it"
        raise fault(log.file, attempt.points[0].line, problem, "let the run continue for longer, or log more often")
    timed = [interval for interval in attempt.intervals if interval.training_pace > 0]
    evaluated = math.fsum(interval.paused for interval in timed)
    notes = [*log.remarks, *resumed_remarks(attempts)]
    if evaluated > 0:
        notes.append(f"evaluation, {evaluated:,.0f} s in all, is left out")
    if len(timed) < len(attempt.intervals):
        notes.append(f"{len(attempt.intervals) - len(timed)} intervals with an evaluation of unknown length left out")
    return RunLog(
        log.file,
        log.kind,
        step_seconds=tuple(interval.training_pace for interval in timed),
        interval_steps=tuple(interval.steps for interval in timed),
        rates=tuple(point.rate for point in attempt.points if point.rate),
        tokens_per_step=log.tokens_per_step,
        micro_batch=log.micro_batch,
        global_batch=log.global_batch,
        peak_gib=log.peak_gib,
        peak_kind=log.peak_kind,
        gpus=log.gpus,
        counts_micro_batches=log.counts_micro_batches,
        notes=tuple(notes),
    )


# `trainer_state.json` read for the progress of a run: what a state that was cut short still says is used.
#
# For the speed of one uninterrupted run `read_trainer_state` reads the same file, and refuses what is not.


_ENTRY = re.compile(r"\{[^{}]*\}")
_FIELD = re.compile(r'"(global_step|max_steps|train_batch_size)":\s*(\d+)')


def read_state_history(text: str, file: str) -> LogHistory | None:
    """Return what a state says, also one whose text ends too early; None where it is another file."""
    if '"log_history"' not in text:
        return None
    state, remarks = _state(text)
    logged = state.get("log_history")
    entries = [entry for entry in logged if isinstance(entry, Mapping)] if isinstance(logged, list) else []
    training = [entry for entry in entries if not is_evaluation(entry)]
    points = _with_end(tuple(_points(training)), state, text)
    last = next((entry for entry in reversed(training) if "train_steps_per_second" in entry), None)
    seconds = as_number(last.get("train_runtime")) if last else None
    steps = round(_number(last, "step")) if last else 0
    if seconds is not None and trained_share(training) < LEAST_TRAINED_SHARE:
        seconds, remarks = None, (*remarks, "the run went on from a checkpoint: its train_runtime times the last part")
    peak = largest_peak_gib(training)
    return LogHistory(
        file,
        TRAINER_STATE,
        points,
        total_steps=whole_number(state.get("max_steps")),
        whole=(steps or points[-1].step, seconds)
        if points and seconds and 0 < seconds < MAX_INTERVAL_SECONDS
        else None,
        tokens_per_step=tokens_per_logged_step(state, training)[0],
        micro_batch=whole_number(state.get("train_batch_size")),
        peak_gib=peak,
        peak_kind="allocated" if peak is not None else None,
        remarks=remarks,
    )


def _state(text: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the state; of a text that is cut short the entries that are complete, and a remark."""
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        entries = []
        for match in _ENTRY.finditer(text, text.index('"log_history"')):
            try:
                entries.append(json.loads(match[0]))
            except ValueError:
                continue
        fields: dict[str, Any] = {name: int(value) for name, value in _FIELD.findall(text)}
        return {**fields, "log_history": entries}, ("the file is cut short: its complete entries are used",)
    return (state, ()) if isinstance(state, Mapping) else ({}, ())


def _points(entries: list[Mapping[str, Any]]) -> list[LogPoint]:
    """Return the points of the logged steps; the summary at the end is none, its time is that of the whole run."""
    points = []
    for number, entry in enumerate(entries):
        step = as_number(entry.get("step"))
        if step is None or not 0 < step < 1e12 or "train_steps_per_second" in entry:
            continue
        elapsed = as_number(entry.get("train_runtime"))
        points.append(LogPoint(number + 1, int(step), elapsed=elapsed, loss=as_number(entry.get("loss"))))
    return points


def _with_end(points: tuple[LogPoint, ...], state: Mapping[str, Any], text: str) -> tuple[LogPoint, ...]:
    """Return the points with that of the last step, which need not be a logged one."""
    step = whole_number(state.get("global_step"))
    if step is None or (points and points[-1].step >= step):
        return points
    return (*points, LogPoint(text.count("\n") + 1, step))


# Logs of a run that still trains, whatever their format and their faults: what can be used of them.


MAX_LOG_BYTES = 200 * 2**20
"""Largest log that is read: weeks of console output."""


def read_history(path: str) -> LogHistory:
    """Return what a log says of the progress of its run; `InputError` where it says nothing that can be used."""
    text, file = read_text(path, MAX_LOG_BYTES, lossy=True), file_name(path)
    if not text.strip():
        raise fault(file, 1, "is empty", KNOWN_FORMATS)
    history = read_state_history(text, file) or read_line_log(text, file) or _csv(text, file)
    if history is None:
        table = None if text.lstrip()[0] in "{[" else read_table(text, file)
        raise fault(file, 1, _why_unknown(table), KNOWN_FORMATS)
    if not (history.points or history.peak_gib is not None or history.utilisation is not None):
        raise fault(file, 1, f"a {history.kind} without any step", "let the run log some steps first")
    return history


def _csv(text: str, file: str) -> LogHistory | None:
    """Return the history of a table; a row that does not fit the header cuts the table there."""
    remarks: tuple[str, ...] = ()
    try:
        table = read_table(text, file)
    except InputError as error:
        line = error.faults[0].line
        kept = text.split("\n")[: max(0, line - 1)]
        if line < 2 or not any(row.strip() for row in kept[1:]):
            raise
        remarks = (f"line {line} does not fit the header: what is before it is used",)
        table = read_table("\n".join(kept) + "\n", file)
    history = read_csv_history(table) if table is not None else None
    if history is None or not remarks:
        return history
    return LogHistory(**{**vars(history), "remarks": (*history.remarks, *remarks)})
