"""`trainer_state.json` read for the progress of a run: what a state that was cut short still says is used.

`trainer_state.py` reads the same file for the speed of one uninterrupted run and refuses what is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from planner.analysis.calibration.attempts import MAX_INTERVAL_SECONDS
from planner.analysis.calibration.line_logs import as_number
from planner.analysis.calibration.log_points import LogHistory, LogPoint
from planner.analysis.calibration.trainer_state import (
    TRAINER_STATE,
    largest_peak_gib,
    tokens_per_logged_step,
    whole_number,
)

_ENTRY = re.compile(r"\{[^{}]*\}")
_FIELD = re.compile(r'"(global_step|max_steps|train_batch_size)":\s*(\d+)')


def read_state_history(text: str, file: str) -> LogHistory | None:
    """Return what a state says, also one whose text ends too early; None where it is another file."""
    if '"log_history"' not in text:
        return None
    state, remarks = _state(text)
    found = state.get("log_history")
    entries = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    training = [one for one in entries if not any(str(key).startswith("eval_") for key in one)]
    points = tuple(_points(training))
    last = next((one for one in reversed(training) if "train_steps_per_second" in one), None)
    seconds = as_number(last.get("train_runtime")) if last else None
    peak = largest_peak_gib(training)
    return LogHistory(
        file,
        TRAINER_STATE,
        _with_end(points, state, text),
        total_steps=whole_number(state.get("max_steps")),
        whole=(points[-1].step, seconds) if points and seconds and 0 < seconds < MAX_INTERVAL_SECONDS else None,
        tokens_per_step=tokens_per_logged_step(state, training),
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
        for one in _ENTRY.finditer(text, text.index('"log_history"')):
            try:
                entries.append(json.loads(one[0]))
            except ValueError:
                continue
        fields: dict[str, Any] = {name: int(value) for name, value in _FIELD.findall(text)}
        return {**fields, "log_history": entries}, ("the file is cut short: its complete entries are used",)
    return (state, ()) if isinstance(state, Mapping) else ({}, ())


def _points(entries: list[Mapping[str, Any]]) -> list[LogPoint]:
    """Return the points of the logged steps; the summary at the end is none, its time is that of the whole run."""
    found = []
    for number, entry in enumerate(entries):
        step = as_number(entry.get("step"))
        if step is None or not 0 < step < 1e12 or "train_steps_per_second" in entry:
            continue
        elapsed = as_number(entry.get("train_runtime"))
        found.append(LogPoint(number + 1, int(step), elapsed=elapsed, loss=as_number(entry.get("loss"))))
    return found


def _with_end(points: tuple[LogPoint, ...], state: Mapping[str, Any], text: str) -> tuple[LogPoint, ...]:
    """Return the points with that of the last step, which need not be a logged one."""
    step = whole_number(state.get("global_step"))
    if step is None or (points and points[-1].step >= step):
        return points
    return (*points, LogPoint(text.count("\n") + 1, step))
