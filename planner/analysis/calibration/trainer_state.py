"""`trainer_state.json` of Hugging Face, detection of the format of a log, and logs of an unfinished run.

Its `log_history` has an entry per logging step (`step`, `epoch`, `loss`, ...). Time is in the last entry alone
(`train_runtime`, `train_steps_per_second`, `train_samples_per_second`, of the whole run), unless input tokens were
counted: then every entry has `num_input_tokens_seen` and, in newer versions, the `train_runtime` so far.
With memory metrics on, the last entry has `before_init_mem_gpu` and `*_mem_gpu_*_delta` in bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.analysis.calibration.csv_logs import (
    MIN_TIMED_STEPS,
    RunLog,
    fault,
    read_csv_history,
    read_memory_use,
    read_step_times,
    read_table,
)
from planner.analysis.calibration.line_logs import (
    MAX_INTERVAL_SECONDS,
    LogHistory,
    LogPoint,
    as_number,
    read_line_log,
    split_attempts,
)
from planner.documents.files import file_name, read_text
from planner.documents.tables import JsonDocument, parse_json
from planner.errors import InputError
from planner.units import GIB

TRAINER_STATE = "trainer_state.json"
PEAK_KEY = "train_mem_gpu_peaked_delta"
MEMORY_PARTS = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta", PEAK_KEY)
AXOLOTL_PEAK = "memory/max_allocated (GiB)"
WHOLE_BATCH_SLACK = 0.02
"""Share by which the ratio of two rounded rates may miss a whole number."""
MIN_FIGURE, MAX_FIGURE = 1e-9, 1e15
"""A figure outside of these is not believed: it counts as not given."""
ONE_RUN = "give the state of one uninterrupted run"


def read_trainer_state(document: JsonDocument, fix: str) -> RunLog:
    """Return the log; `InputError` where it holds no time or goes backwards."""
    state = document.data
    if not isinstance(state, Mapping) or not isinstance(state.get("log_history"), list):
        raise _fault(document, (), "has no log_history", fix)
    entries = {n: entry for n, entry in enumerate(state["log_history"]) if isinstance(entry, Mapping)}
    steps_only = {n: entry for n, entry in entries.items() if not any(str(key).startswith("eval_") for key in entry)}
    if not steps_only:
        fix = "train for some steps with logging_steps set, then save the state"
        raise _fault(document, ("log_history",), "no training step is logged", fix)
    _check_order(steps_only, document)
    training = list(steps_only.values())
    last = next((entry for entry in reversed(training) if _number(entry, "train_steps_per_second")), None)
    steps = tuple(_interval_seconds(steps_only, document))
    whole = None
    if last is not None and _number(last, "train_runtime"):
        # Not train_steps_per_second: it counts the steps that were asked for, also where the run ended early.
        whole = (round(_number(last, "step")), _number(last, "train_runtime"))
    if len(steps) < MIN_TIMED_STEPS and whole is None:
        fix = (
            "wait for the end of the run, or train with include_num_input_tokens_seen, which logs times during training"
        )
        what = "has no training time: neither train_runtime at the end nor times of single steps"
        raise _fault(document, ("log_history",), what, fix)
    peak = largest_peak_gib(training)
    return RunLog(
        document.file,
        TRAINER_STATE,
        step_seconds=steps if len(steps) >= MIN_TIMED_STEPS else (),
        whole=whole,
        tokens_per_step=tokens_per_logged_step(state, training),
        micro_batch=whole_number(state.get("train_batch_size")),
        global_batch=_global_batch(last) if last is not None else None,
        peak_gib=peak,
        peak_kind="allocated" if peak is not None else None,
    )


def _check_order(entries: Mapping[int, Mapping[str, Any]], document: JsonDocument) -> None:
    before = 0.0
    for number, entry in entries.items():
        step = _number(entry, "step")
        if step < before:
            raise _fault(document, ("log_history", number), f"steps go back from {before:g} to {step:g}", ONE_RUN)
        before = step


def _interval_seconds(entries: Mapping[int, Mapping[str, Any]], document: JsonDocument) -> list[float]:
    """Return the seconds per step between entries with the time so far, without the summary at the end."""
    found, step, seconds = [], 0.0, 0.0
    for number, entry in entries.items():
        here, now = _number(entry, "step"), _number(entry, "train_runtime")
        if not now or _number(entry, "train_steps_per_second"):
            continue
        if now < seconds:
            what = f"time goes back from {seconds:g} to {now:g} s at step {here:g}"
            raise _fault(document, ("log_history", number), what, ONE_RUN)
        if here > step:
            found.append((now - seconds) / (here - step))
        step, seconds = here, now
    return found


TOKENS_SO_FAR = ("num_input_tokens_seen", "num_tokens", "tokens/total")
"""Tokens since the first step, the preferred name first: of Transformers, TRL and Axolotl."""


def tokens_per_logged_step(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the tokens of one optimizer step over all GPUs as the state counts them; None where it counts none."""
    for name in TOKENS_SO_FAR:
        for entry, count in (*((entry, "step") for entry in reversed(entries)), (document, "global_step")):
            tokens, steps = _number(entry, name), _number(entry, count)
            if tokens and steps:
                return tokens / steps
    return None


def _global_batch(last: Mapping[str, Any]) -> int | None:
    """Return the samples per step, where the two rounded rates give a whole number."""
    samples = _number(last, "train_samples_per_second")
    ratio = samples / _number(last, "train_steps_per_second") if samples else 0.0
    near = round(ratio)
    return near if near and abs(ratio / near - 1) < WHOLE_BATCH_SLACK else None


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
        step_seconds=tuple(interval.pace for interval in attempts[0].intervals),
        tokens_per_step=log.tokens_per_step,
        peak_gib=log.peak_gib,
        peak_kind=log.peak_kind,
    )


# `trainer_state.json` read for the progress of a run: what a state that was cut short still says is used.
#
# `trainer_state.py` reads the same file for the speed of one uninterrupted run and refuses what is not.


_ENTRY = re.compile(r"\{[^{}]*\}")
_FIELD = re.compile(r'"(global_step|max_steps|train_batch_size)":\s*(\d+)')


def read_state_history(text: str, file: str) -> LogHistory | None:
    """Return what a state says, also one whose text ends too early; None where it is another file."""
    if '"log_history"' not in text:
        return None
    state, remarks = _state(text)
    found = state.get("log_history")
    entries = [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []
    training = [entry for entry in entries if not any(str(key).startswith("eval_") for key in entry)]
    points = tuple(_points(training))
    last = next((entry for entry in reversed(training) if "train_steps_per_second" in entry), None)
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


# Logs of a run that still trains, whatever their format and their faults: what can be used of them.


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
        if line < 2 or not any(row.strip() for row in kept[1:]):
            raise
        remarks = (f"line {line} does not fit the header: what is before it is used",)
        table = read_table("\n".join(kept) + "\n", file)
    found = read_csv_history(table) if table is not None else None
    if found is None or not remarks:
        return found
    return LogHistory(**{**vars(found), "remarks": (*found.remarks, *remarks)})
