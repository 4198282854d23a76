"""CSV logs, for the speed and memory of a run and for its progress, and what any log says.

Names come in any case with blanks around, figures with their unit, and a last line may be cut short.
Exports: a chart of Weights & Biases (`"Step","run-1 - train/loss","run-1 - _timestamp"`) or its whole history
(`_step,_runtime,_timestamp,...`), a scalar of TensorBoard (`Wall time,Step,Value`), and `metrics.csv` of LitGPT.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import math
import re
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from planner.analysis.calibration.line_logs import LogHistory, LogPoint, as_number, growth_per_step, stamp_seconds
from planner.analysis.calibration.tool_logs import micro_batch_history
from planner.errors import Fault, InputError
from planner.results.run_results import StepTimes
from planner.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


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
        what = f"{pace.seconds:.3g} seconds per optimizer step"
        raise fault(log.file, 1, what, "give seconds; name a column step_time_ms where it counts milliseconds")
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
        what = f"only {len(kept)} timed steps" + (f" after {warm} of warm-up" if warm else "")
        raise fault(log.file, 1, what, f"at least {MIN_TIMED_STEPS} are needed: let the run continue for longer")
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
        found = []
        for line, row in zip(self.lines, self.rows, strict=True):
            try:
                value = float(row[column].removesuffix(suffix).strip())
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                fix = "leave out rows without a measurement"
                raise fault(self.file, line, f"{row[column]!r} is not a number", fix, column)
            found.append(value)
        return found


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
            what = f"{len(row)} cells, but the header has {len(header)}"
            raise fault(file, line, what, "give every row the cells of the header")
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
    charted = {name: found for name in table.names if (found := _CHARTED.fullmatch(name))}
    runs = sorted({found["run"] for found in charted.values()})
    is_wandb = bool(charted) or "_step" in table.names
    if not is_wandb and "wall time" not in table.names:
        return table
    if len(runs) > 1:
        what = f"charts of {len(runs)} runs: {', '.join(runs[:3])}"
        raise fault(table.file, 1, what, "export one run", "")
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
        what = "Step counts the calls of wandb.log, which are not optimizer steps where one in several is logged"
        fix = "export train/global_step too, or rename the column to global_step if each call is one step"
        raise fault(table.file, table.lines[0], what, fix, "step")


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
            what = f"step {after:g} follows step {before:g}"
            raise fault(table.file, line, what, "give one run, in the order of its steps", step or "")
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
        what = f"increases in every row, from {seconds[0]:g} to {seconds[-1]:g} s, like the time since the start"
        raise fault(table.file, table.lines[0], what, "name the column elapsed_seconds", column)


def _between(table: CsvTable, column: str, steps: Sequence[float]) -> list[float]:
    """Return the seconds per step between the time stamps of consecutive rows."""
    stamps = [_seconds(table, line, column, row[column]) for line, row in zip(table.lines, table.rows, strict=True)]
    found = []
    for line, (before, after), (first, last) in zip(
        table.lines[1:], itertools.pairwise(stamps), itertools.pairwise(steps), strict=True
    ):
        if after <= before:
            raise fault(table.file, line, "time does not increase", "give one run, in the order of its steps", column)
        found.append((after - before) / (last - first))
    return found


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
        what = f"a peak of {peak / GIB:.3g} GiB is implausible for a training run on one GPU"
        raise fault(table.file, table.lines[sizes.index(peak)], what, fix, column)
    name = NVIDIA_SMI if kind == "device" else TORCH
    return RunLog(table.file, name, peak_gib=peak / GIB, peak_kind=kind)


# CSV logs read for the progress of a run: rows without a figure are left out and counted.
#
# `csv_logs.py` reads the same files for the speed of one uninterrupted run and refuses what is not.


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
