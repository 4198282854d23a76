"""Detection of the format of a log from its content, for the speed and memory of one uninterrupted run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.calibration.attempts import split_attempts
from planner.analysis.calibration.csv_logs import read_memory_use, read_step_times, read_table
from planner.analysis.calibration.line_logs import read_line_log
from planner.analysis.calibration.run_log import RunLog, fault
from planner.analysis.calibration.trainer_state import ONE_RUN, read_trainer_state
from planner.documents.files import file_name, read_text
from planner.documents.json_file import parse_json

if TYPE_CHECKING:
    from planner.analysis.calibration.log_points import LogHistory

KNOWN_FORMATS = (
    "give a trainer_state.json, the console output of Transformers, torchtitan or Megatron, a CSV with step and "
    "seconds, or a memory log of nvidia-smi or torch"
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
    log = (read_step_times(table) or read_memory_use(table)) if table is not None else None
    if log is None:
        raise fault(file, 1, "unknown log format", KNOWN_FORMATS)
    return log


def _one_run(log: LogHistory) -> RunLog:
    """Return the log of lines of one attempt; `InputError` where there are several."""
    attempts = split_attempts(log.points)
    if len(attempts) > 1:
        before, after = attempts[0], attempts[1]
        what = f"steps go back from {before.last_step} to {after.first_step}"
        raise fault(log.file, after.points[0].line, what, ONE_RUN)
    return RunLog(
        log.file,
        log.kind,
        step_seconds=tuple(one.pace for one in attempts[0].intervals),
        tokens_per_step=log.tokens_per_step,
        peak_gib=log.peak_gib,
        peak_kind=log.peak_kind,
    )
