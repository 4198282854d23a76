"""Detection of the format of a log from its content."""

from __future__ import annotations

from planner.analysis.calibration.csv_logs import read_memory_use, read_step_times, read_table
from planner.analysis.calibration.run_log import RunLog, fault
from planner.analysis.calibration.trainer_state import read_trainer_state
from planner.documents.files import file_name, read_text
from planner.documents.json_file import parse_json

KNOWN_FORMATS = "give a trainer_state.json, a CSV with step and seconds, or a memory log of nvidia-smi or torch"


def read_log(path: str) -> RunLog:
    """Return the log of a run; `InputError` names what is wrong with it, and where."""
    text, file = read_text(path), file_name(path)
    if not text.strip():
        raise fault(file, 1, "is empty", KNOWN_FORMATS)
    if text.lstrip()[0] in "{[":
        return read_trainer_state(parse_json(text, file, KNOWN_FORMATS), KNOWN_FORMATS)
    table = read_table(text, file)
    log = (read_step_times(table) or read_memory_use(table)) if table is not None else None
    if log is None:
        raise fault(file, 1, "unknown log format", KNOWN_FORMATS)
    return log
