"""CSV logs read for the progress of a run: rows without a figure are left out and counted.

`csv_logs.py` reads the same files for the speed of one uninterrupted run and refuses what is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.analysis.calibration.csv_logs import (
    NVIDIA_SMI,
    STEP_COLUMNS,
    STEP_TIME_CSV,
    TIME_COLUMNS,
    UNIT_SECONDS,
    CsvTable,
    check_not_elapsed,
    read_memory_use,
)
from planner.analysis.calibration.line_logs import as_number, stamp_seconds
from planner.analysis.calibration.log_points import LogHistory, LogPoint

if TYPE_CHECKING:
    from collections.abc import Mapping

UTILISATION_COLUMNS = ("utilization.gpu [%]", "utilization.gpu")
LOSS_COLUMNS = ("loss", "train_loss", "lm loss")
SINCE_START = ("elapsed_seconds", "elapsed")
"""Columns of times that count from the start of the process."""


def read_csv_history(table: CsvTable) -> LogHistory | None:
    """Return what a table of step times, or of nvidia-smi, says of a run; None where it says neither.

    `InputError` where the column of seconds per step holds times since the start.
    """
    column, clock = table.first(UNIT_SECONDS), table.first(TIME_COLUMNS)
    step = table.first(STEP_COLUMNS)
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


_FIRST_CLOCK = 1e9
"""Seconds since the epoch in 2001: smaller figures count from the start of something else."""


def _loss(table: CsvTable, row: Mapping[str, str]) -> float | None:
    column = table.first(LOSS_COLUMNS)
    return as_number(row[column]) if column else None


def _time(text: str) -> float | None:
    number = as_number(text)
    return number if number is not None else stamp_seconds(text.replace("/", "-"))


def _memory_history(table: CsvTable) -> LogHistory | None:
    """Return the peak of a memory log, and how busy the GPUs were where nvidia-smi says it."""
    memory = read_memory_use(table)
    busy = table.first(UTILISATION_COLUMNS)
    if memory is None and busy is None:
        return None
    shares = [as_number(row[busy].removesuffix("%")) for row in table.rows] if busy else []
    known = [one / 100.0 for one in shares if one is not None and 0.0 <= one <= 100.0]
    return LogHistory(
        table.file,
        memory.kind if memory else NVIDIA_SMI,
        peak_gib=memory.peak_gib if memory else None,
        peak_kind=memory.peak_kind if memory else None,
        utilisation=math.fsum(known) / len(known) if known else None,
    )
