"""`trainer_state.json` of the Hugging Face Trainer.

Its `log_history` has an entry per logging step (`step`, `epoch`, `loss`, ...). Time is in the last entry alone
(`train_runtime`, `train_steps_per_second`, `train_samples_per_second`, of the whole run), unless input tokens were
counted: then every entry has `num_input_tokens_seen` and, in newer versions, the `train_runtime` so far.
With memory metrics on, the last entry has `before_init_mem_gpu` and `*_mem_gpu_*_delta` in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.analysis.calibration.run_log import MIN_TIMED_STEPS, RunLog
from planner.errors import InputError
from planner.units import GIB

if TYPE_CHECKING:
    from planner.documents.json_file import JsonDocument

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
    entries = {n: one for n, one in enumerate(state["log_history"]) if isinstance(one, Mapping)}
    steps_only = {n: one for n, one in entries.items() if not any(str(key).startswith("eval_") for key in one)}
    if not steps_only:
        fix = "train for some steps with logging_steps set, then save the state"
        raise _fault(document, ("log_history",), "no training step is logged", fix)
    _check_order(steps_only, document)
    training = list(steps_only.values())
    last = next((one for one in reversed(training) if _number(one, "train_steps_per_second")), None)
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
        for entry, count in (*((one, "step") for one in reversed(entries)), (document, "global_step")):
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
