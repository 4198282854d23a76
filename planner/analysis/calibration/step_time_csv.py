"""A CSV of step times: a column of steps (optional), and one of seconds per step or of time stamps."""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING

from planner.analysis.calibration.run_log import MIN_TIMED_STEPS, RunLog, fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.calibration.csv_table import CsvTable

STEP_TIME_CSV = "CSV of step times"
STEP_COLUMNS = ("step", "global_step", "iteration", "iter")
_NAMES = "seconds step_seconds step_time step_time_s step_time_seconds seconds_per_step duration_s"
SECOND_COLUMNS = tuple(_NAMES.split())
MILLISECOND_COLUMNS = ("step_time_ms", "step_ms", "milliseconds")
UNIT_SECONDS = {**dict.fromkeys(SECOND_COLUMNS, 1.0), **dict.fromkeys(MILLISECOND_COLUMNS, 1e-3)}
"""Columns of seconds per step, with what one unit is in seconds."""
TIME_COLUMNS = ("elapsed_seconds", "elapsed", "timestamp", "time", "datetime", "wall_time")
TOKEN_COLUMNS = ("tokens", "num_tokens", "tokens_per_step")


def is_step_times(table: CsvTable) -> bool:
    """Return whether a table has a column of times."""
    return table.first(UNIT_SECONDS) is not None or (
        table.first(TIME_COLUMNS) is not None and table.first(STEP_COLUMNS) is not None
    )


def read_step_times(table: CsvTable) -> RunLog:
    """Return the log; `InputError` for rows that are no times, or that go backwards."""
    step = table.first(STEP_COLUMNS)
    steps = table.numbers(step) if step else []
    for line, (before, after) in zip(table.lines[1:], itertools.pairwise(steps), strict=False):
        if after <= before:
            what = f"step {after:g} follows step {before:g}"
            raise fault(table.file, line, what, "give one run, in the order of its steps", step or "")
    column = table.first(UNIT_SECONDS)
    if column is not None:
        seconds = [value * UNIT_SECONDS[column] for value in table.numbers(column)]
        for line, value in zip(table.lines, seconds, strict=True):
            if value <= 0:
                fix = "seconds of a step are positive; name a column of clock times timestamp"
                raise fault(table.file, line, f"{value:g} seconds for a step", fix, column)
        _check_not_elapsed(table, column, seconds)
    else:
        seconds = _between(table, str(table.first(TIME_COLUMNS)), steps)
    tokens = table.first(TOKEN_COLUMNS)
    return RunLog(
        table.file,
        STEP_TIME_CSV,
        step_seconds=tuple(seconds),
        tokens_per_step=sum(table.numbers(tokens)) / len(table.lines) if tokens else None,
    )


def _check_not_elapsed(table: CsvTable, column: str, seconds: Sequence[float]) -> None:
    """Refuse times that only grow, as much as a sum of steps would: they are not times of single steps."""
    growing = all(after > before for before, after in itertools.pairwise(seconds))
    if growing and len(seconds) >= MIN_TIMED_STEPS and seconds[-1] > seconds[0] * len(seconds) / 2:
        what = f"increases in every row, from {seconds[0]:g} to {seconds[-1]:g} s, like the time since the start"
        raise fault(table.file, table.lines[0], what, "name the column elapsed_seconds", column)


def _between(table: CsvTable, column: str, steps: Sequence[float]) -> list[float]:
    """Return the seconds per step between the time stamps of consecutive rows."""
    stamps = [_seconds(table, line, column, text) for line, text in zip(table.lines, table.texts(column), strict=True)]
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
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.datetime.fromisoformat(text.replace("/", "-")).timestamp()
    except ValueError:
        fix = "seconds, or a date and time such as 2026-11-21T10:00:00"
        raise fault(table.file, line, f"{text!r} is not a time", fix, column) from None
