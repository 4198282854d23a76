"""Logs of a run that still trains, whatever their format and their faults: what can be used of them."""

from __future__ import annotations

from planner.analysis.calibration.csv_logs import read_table
from planner.analysis.calibration.csv_points import read_csv_history
from planner.analysis.calibration.line_logs import read_line_log
from planner.analysis.calibration.log_points import LogHistory
from planner.analysis.calibration.run_log import fault
from planner.analysis.calibration.state_points import read_state_history
from planner.documents.files import file_name, read_text
from planner.errors import InputError

MAX_LOG_BYTES = 200 * 2**20
"""Largest log that is read: weeks of console output."""
TRACKED_FORMATS = (
    "give a trainer_state.json, the console output of Transformers, TRL, torchtitan or Megatron, a CSV with step and "
    "seconds, or a log of nvidia-smi"
)


def read_history(path: str) -> LogHistory:
    """Return what a log says of the progress of its run; `InputError` where it says nothing that can be used."""
    text, file = read_text(path, MAX_LOG_BYTES, lossy=True), file_name(path)
    if not text.strip():
        raise fault(file, 1, "is empty", TRACKED_FORMATS)
    found = read_state_history(text, file) or read_line_log(text, file) or _csv(text, file)
    if found is None:
        raise fault(file, 1, "unknown log format", TRACKED_FORMATS)
    if not (found.points or found.peak_gib is not None or found.utilisation is not None):
        raise fault(file, 1, f"a {found.kind} without any step", "let the run log some steps first")
    return found


def _csv(text: str, file: str) -> LogHistory | None:
    """Return the history of a table; a row that does not fit the header cuts the table there."""
    remarks: tuple[str, ...] = ()
    try:
        table = read_table(text, file)
    except InputError as error:
        line = error.faults[0].line
        kept = text.split("\n")[: max(0, line - 1)]
        if line < 2 or not any(one.strip() for one in kept[1:]):
            raise
        remarks = (f"line {line} does not fit the header: what is before it is used",)
        table = read_table("\n".join(kept) + "\n", file)
    found = read_csv_history(table) if table is not None else None
    if found is None or not remarks:
        return found
    return LogHistory(**{**vars(found), "remarks": (*found.remarks, *remarks)})
