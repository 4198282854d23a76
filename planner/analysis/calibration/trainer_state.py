"""`trainer_state.json` of Hugging Face, detection of the format of a log, and logs of an unfinished run.

Its `log_history` has an entry per logging step (`step`, `epoch`, `loss`, ...). Time is in the last entry alone
(`train_runtime`, `train_steps_per_second`, `train_samples_per_second`, of the whole run), unless input tokens were
counted: then every entry has `num_input_tokens_seen` and, in newer versions, the `train_runtime` so far.
With memory metrics on, the last entry has `before_init_mem_gpu` and `*_mem_gpu_*_delta` in bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.analysis.calibration.csv_logs import (
    MIN_TIMED_STEPS,
    REAL_TOKENS,
    STEP_COLUMNS,
    CsvTable,
    RunLog,
    fault,
    read_csv_history,
    read_litgpt_table,
    read_memory_use,
    read_step_times,
    read_table,
)
from planner.analysis.calibration.line_logs import (
    EVALUATIONS,
    MAX_INTERVAL_SECONDS,
    LogHistory,
    LogPoint,
    as_number,
    evaluation_seconds,
    growth_per_step,
    resumed_remarks,
    split_attempts,
)
from planner.analysis.calibration.tool_logs import read_line_log
from planner.documents.files import file_name, read_text
from planner.documents.tables import JsonDocument, parse_json
from planner.errors import InputError
from planner.units import GIB

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
            what = f"the run went on from a checkpoint: train_loss is {share:.2f} of the mean of the logged losses"
            raise _fault(document, ("log_history",), f"{what}, so train_runtime times its last part alone", ONE_RUN)
        # Not train_steps_per_second: it counts the steps that were asked for, also where the run ended early.
        evaluated, notes = _evaluated_seconds(list(entries.values()), last)
        whole = (round(_number(last, "step")), max(0.0, _number(last, "train_runtime") - evaluated))
    steps = tuple(seconds for _, seconds in intervals)
    if len(steps) < 2 and whole is None:
        fix = (
            "wait for the end of the run, or train with include_num_input_tokens_seen, which logs times during training"
        )
        what = "has no training time: neither train_runtime at the end nor times of single steps"
        raise _fault(document, ("log_history",), what, fix)
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
    found, step, seconds, paused = [], 0.0, 0.0, 0.0
    for number, entry in entries.items():
        if is_evaluation(entry):
            paused += evaluation_seconds(entry)
            continue
        here, now = _number(entry, "step"), _number(entry, "train_runtime")
        if not now or _number(entry, "train_steps_per_second"):
            continue
        if now < seconds:
            what = f"time goes back from {seconds:g} to {now:g} s at step {here:g}"
            raise _fault(document, ("log_history", number), what, ONE_RUN)
        if here > step and now - seconds > paused:  # not where evaluation is not timed
            found.append((round(here - step), (now - seconds - paused) / (here - step)))
        step, seconds, paused = here, now, 0.0
    return found


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
        found = growth_per_step(counts or [whole])
        if found is not None:
            return found, name
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
    each = whole_number(state.get("train_batch_size")) or 1
    return range(max(1, math.ceil(low / each)) * each, math.floor(high / each) * each + 1, each)


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
        what = f"steps go back from {before.last_step} to {after.first_step}"
        if after.first_step >= before.last_step:
            what = f"the time since the start goes back at step {after.first_step}, where the run was started again"
        raise fault(log.file, after.points[0].line, what, ONE_RUN)
    (attempt,) = attempts
    if not attempt.intervals and log.peak_gib is None and not any(point.rate for point in attempt.points):
        what = f"a {log.kind} that times no step, or none without an evaluation in it"
        raise fault(log.file, attempt.points[0].line, what, "let the run continue for longer, or log more often")
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


def read_history(path: str) -> LogHistory:
    """Return what a log says of the progress of its run; `InputError` where it says nothing that can be used."""
    text, file = read_text(path, MAX_LOG_BYTES, lossy=True), file_name(path)
    if not text.strip():
        raise fault(file, 1, "is empty", KNOWN_FORMATS)
    found = read_state_history(text, file) or read_line_log(text, file) or _csv(text, file)
    if found is None:
        table = None if text.lstrip()[0] in "{[" else read_table(text, file)
        raise fault(file, 1, _why_unknown(table), KNOWN_FORMATS)
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
