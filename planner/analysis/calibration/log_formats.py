"""Detection of the format of a log from its content."""

from __future__ import annotations

import json

from planner.analysis.calibration.csv_table import read_table
from planner.analysis.calibration.memory_csv import is_memory_use, read_memory_use
from planner.analysis.calibration.run_log import RunLog, fault
from planner.analysis.calibration.step_time_csv import is_step_times, read_step_times
from planner.analysis.calibration.trainer_state import is_trainer_state, read_trainer_state

KNOWN_FORMATS = "give a trainer_state.json, a CSV with step and seconds, or a memory log of nvidia-smi or torch"


def read_log(path: str) -> RunLog:
    """Return the log of a run; `InputError` names what is wrong with it, and where."""
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise fault(path, 0, f"cannot be read: {why[:1].lower()}{why[1:]}", KNOWN_FORMATS) from None
    if not text.strip():
        raise fault(path, 0, "is empty", KNOWN_FORMATS)
    if text.lstrip()[0] in "{[":
        return _read_json(text, path)
    table = read_table(text, path)
    if table is not None and is_step_times(table):
        return read_step_times(table)
    if table is not None and is_memory_use(table):
        return read_memory_use(table)
    raise fault(path, 1, "unknown log format", KNOWN_FORMATS)


def _read_json(text: str, path: str) -> RunLog:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise fault(path, error.lineno, f"not valid JSON: {error.msg}", KNOWN_FORMATS) from None
    if not is_trainer_state(document):
        raise fault(path, 1, "has no log_history", KNOWN_FORMATS)
    return read_trainer_state(document, path)
