"""Logs of training runs: what each format says, and the fault where it cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.calibrate_question import calibrate
from planner.analysis.log_files import possible_batches, read_log
from planner.analysis.logged_steps import RunLog, compute_pace, count_warm_up_steps
from planner.errors import InputError

LAST = {
    "epoch": 1.0, "step": 60, "total_flos": 1e15, "train_loss": 1.2,
    "train_runtime": 420.0, "train_samples_per_second": 9.134, "train_steps_per_second": 0.1427,
}  # fmt: skip


def state(*entries: dict[str, Any], **top: Any) -> str:
    """A trainer_state.json with these log entries."""
    return json.dumps({"best_metric": None, "global_step": 60, "train_batch_size": 2, "log_history": entries, **top})


def logged(step: int, **more: Any) -> dict[str, Any]:
    return {"epoch": step / 60, "step": step, "loss": 1.2, "learning_rate": 1e-5, "grad_norm": 0.4, **more}


def read(folder: Path, text: str, name: str = "log") -> RunLog:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_log(str(path))


def refused(folder: Path, text: str) -> str:
    """The fault of a log, wherever in reading or timing it comes up, the file's name left out."""
    with pytest.raises(InputError) as caught:
        compute_pace(read(folder, text))
    return str(caught.value).removeprefix(str(folder / "log"))


def steps(*seconds: float, header: str = "step,seconds") -> str:
    return header + "\n" + "".join(f"{number},{one}\n" for number, one in enumerate(seconds, 1))


def test_a_trainer_state_tells_the_whole_run_and_its_batches(tmp_path: Path) -> None:
    """420 s over 60 steps, 3 s of them evaluation, 64 samples per step by the ratio of both rates, 2 per GPU."""
    log = read(tmp_path, state(logged(30), {"eval_loss": 1.0, "eval_runtime": 3.0, "step": 30}, logged(60), LAST))
    pace = compute_pace(log)
    assert pace is not None and pace.seconds == pytest.approx(6.95)
    assert (pace.spread, pace.steps) == (None, 60)
    assert (log.micro_batch, log.global_batch, log.peak_gib) == (2, 64, None)


@given(
    batch=st.integers(1, 4096),
    each=st.sampled_from([1, 2, 3, 8]),
    rows=st.integers(100, 10**6),
    pace=st.floats(0.05, 400.0),
    epochs=st.integers(1, 5),
    drops=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_rounded_rates_give_the_true_batch_or_none(
    batch: int, each: int, rows: int, pace: float, epochs: int, drops: bool
) -> None:
    """What Transformers prints of a run with so many samples per step is compatible with that number, always.

    Versions differ in what they do with the samples that do not fill the last step of an epoch: `drops`.
    """
    samples = batch * each
    whole, rest = divmod(rows, samples)
    of_epoch = whole + (1 if rest and not drops else 0)
    if of_epoch < 2:
        return
    total = of_epoch * epochs
    seconds = pace * total
    last = {
        "step": total, "epoch": float(epochs), "train_runtime": round(seconds, 4),
        "train_samples_per_second": round(rows * epochs / seconds, 3),
        "train_steps_per_second": round(total / seconds, 3),
    }  # fmt: skip
    found = possible_batches(last, {"max_steps": total, "train_batch_size": each})
    assert samples in found or not last["train_samples_per_second"]


def test_rates_that_are_rounded_too_coarsely_give_no_batch(tmp_path: Path) -> None:
    """0.749 / 0.023 is 32.6, but time and steps give 32; 0.032 samples per second, rounded so, fit several."""
    rates = {"step": 8712, "epoch": 3.0, "train_runtime": 371992.1593, "train_steps_per_second": 0.023}
    log = read(tmp_path, state(logged(30), {**LAST, **rates, "train_samples_per_second": 0.749}, max_steps=8712))
    assert (log.global_batch, log.possible_batches) == (32, None)
    rates = {"step": 500, "epoch": 1.0, "train_runtime": 1e6, "train_steps_per_second": 0.001}
    coarse = {**LAST, **rates, "train_samples_per_second": 0.032}
    log = read(tmp_path, state(logged(30), coarse, max_steps=500, train_batch_size=1))
    assert (log.global_batch, log.possible_batches) == (None, range(63, 66))
    found = calibrate([str(tmp_path / "log")], gpu="A100", tokens_per_step=1000.0)
    assert "global_batch" not in found.measured and any("fit 63 to 65 samples" in note for note in found.notes)


def test_predictions_during_training_are_evaluations(tmp_path: Path) -> None:
    """Scripts that predict after every epoch log it without a step; its time is in that of the run."""
    predicted = {"epoch": 0.5, "predict_runtime": 30.0, "predict_loss": 1.0}
    pace = compute_pace(read(tmp_path, state(logged(30), predicted, logged(60), LAST)))
    assert pace is not None and pace.seconds == pytest.approx(6.5)
    without_step = {"epoch": 0.5, "learning_rate": 1e-5}
    assert compute_pace(read(tmp_path, state(logged(30), without_step, logged(60), LAST))) is not None


def test_a_run_that_ended_early_is_timed_by_the_steps_that_it_took(tmp_path: Path) -> None:
    """`train_steps_per_second` counts the steps that were asked for, so it is not used."""
    pace = compute_pace(read(tmp_path, state(logged(20), {**LAST, "step": 20})))
    assert pace is not None and pace.seconds == pytest.approx(21.0)


def test_a_trainer_state_may_have_gradients_that_are_no_numbers(tmp_path: Path) -> None:
    """Runs in fp16 skip steps whose gradient overflows: Transformers writes NaN and Infinity, which change no pace."""
    odd = state(logged(10, grad_norm=float("nan")), logged(20, loss=float("inf")), LAST)
    assert "NaN" in odd and "Infinity" in odd
    assert compute_pace(read(tmp_path, odd)) == compute_pace(read(tmp_path, state(logged(10), logged(20), LAST)))


def test_a_trainer_state_that_counts_tokens_tells_every_interval(tmp_path: Path) -> None:
    """Every entry has the time so far: warm-up can be separated from the rest, and tokens per step are known."""
    timed = [
        logged(step, train_runtime=40.0 + 6.0 * step, num_input_tokens_seen=1000 * step) for step in range(5, 45, 5)
    ]
    log = read(tmp_path, state(*timed))
    pace = compute_pace(log)
    assert pace is not None and pace.seconds == pytest.approx(6.0) and pace.dropped == 1
    assert log.tokens_per_step == pytest.approx(1000)


def test_memory_metrics_of_the_trainer_are_added_up(tmp_path: Path) -> None:
    """Held before, allocated since and the peak above that, in bytes."""
    parts = {
        "before_init_mem_gpu": 2 * 2**30,
        "init_mem_gpu_alloc_delta": 0,
        "train_mem_gpu_alloc_delta": 2**30,
        "train_mem_gpu_peaked_delta": 5 * 2**30,
    }
    log = read(tmp_path, state(logged(30), {**LAST, **parts}))
    assert (log.peak_gib, log.peak_kind) == (8.0, "allocated")


@pytest.mark.parametrize(
    ("header", "rows", "seconds"),
    [
        ("step,seconds", [f"{n},{2.0 + n % 2 / 10}" for n in range(1, 11)], 2.05),
        ("Step, Step_Time_ms", [f"{n}, 850" for n in range(1, 8)], 0.85),
        ("Step,Step Time (ms)", [f"{n}, 850" for n in range(1, 8)], 0.85),
        ("Global Step,Elapsed Seconds", [f"{n},{100 + 3.5 * n}" for n in range(1, 8)], 3.5),
        ("step,elapsed_seconds", [f"{n},{100 + 3.5 * n}" for n in range(1, 8)], 3.5),
        ("step,timestamp", [f"{n * 10},2026-11-21T10:{n:02d}:30" for n in range(1, 8)], 6.0),
        ("step,timestamp", [f"{n * 10},2026-11-21 10:{n:02d}:30 UTC" for n in range(1, 8)], 6.0),
        ("seconds", ["4.5"] * 6, 4.5),
    ],
)
def test_step_times_come_in_several_spellings(tmp_path: Path, header: str, rows: list[str], seconds: float) -> None:
    """Seconds or milliseconds per step, time since the start, or clock times that several steps lie between."""
    pace = compute_pace(read(tmp_path, "\n".join([header, *rows]) + "\n"))
    assert pace is not None and pace.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "gib", "kind"),
    [
        ("timestamp, index, memory.used [MiB]\n10:00:01.1, 0, 8192 MiB\n10:00:02.1, 1, 9216 MiB\n", 9.0, "device"),
        ("memory.used [MiB]\n4096\n2048\n", 4.0, "device"),
        ("step,max_memory_allocated\n1,5368709120\n2,6442450944\n", 6.0, "allocated"),
        ("step,max_memory_reserved_gib,max_memory_allocated_gib\n1,9,7.5\n", 7.5, "allocated"),
        ("max_memory_reserved_mb\n8589.934592\n", 8.0, "reserved"),
    ],
)  # fmt: skip
def test_memory_logs_give_the_highest_figure_with_its_kind(tmp_path: Path, text: str, gib: float, kind: str) -> None:
    """Of all rows and cards; what torch calls allocated comes before what it reserved."""
    log = read(tmp_path, text)
    assert log.peak_gib == pytest.approx(gib) and log.peak_kind == kind and compute_pace(log) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: is empty; give a trainer_state.json"),
        ("hello there\nall is well\n", ":1: unknown log format"),
        ("loss,lr\n1,2\n", ":1: unknown log format"),
        ("step,seconds\n", ":1: has a header but no rows"),
        ("step,seconds\n1,2\n2,3,4\n", ":3: 3 cells, but the header has 2"),
        ("step,seconds\n1,2\n2,fast\n", ":3: seconds: 'fast' is not a number"),
        (steps(2, 2, 2), ":1: only 3 timed steps; at least 5 are needed"),
        ("step,seconds\n1,2\n2,2\n2,2\n", ":4: step: step 2 follows step 2; give one run"),
        ("step,elapsed\n1,10\n2,20\n3,15\n", ":4: elapsed: time does not increase"),
        ("step,timestamp\n1,noon\n2,20\n", ":2: timestamp: 'noon' is not a time"),
        (steps(2, -1, 2, 2, 2, 2), ":3: seconds: -1 seconds for a step"),
        (steps(*(1.1 * n for n in range(1, 12))), ":2: seconds: increases in every row"),
        (steps(*[86_400_000] * 6), ":1: 8.64e+07 seconds per optimizer step; give seconds"),
        ("max_memory_allocated\n7.5\n", ":2: max_memory_allocated: a peak of"),
        ("memory.used [MiB]\n9663676416\n", ":2: memory.used [mib]: a peak of"),
        ("{}", ":1: has no log_history"),
        ('{"log_history": [', ":1: not JSON"),
        (state(), ":1: log_history: no training step is logged"),
        ("[" * 100_000, ":1: nested too deeply"),
        ('{\n"global_step": 1e999}', ":2: 1e999 is not a finite number"),
        ('{\n"global_step": ' + "9" * 5000, ":2: a number of 5000 digits; at most 300"),
        (state(logged(10), logged(20)), ":1: log_history: has no training time"),
        (state(logged(20), logged(10), LAST), ":1: log_history.1: steps go back from 20 to 10"),
        (state(logged(3), {**LAST, "step": 3}), ":1: only 3 steps in all"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    """Empty, unknown, too short, backwards, of another unit: the file, the line and what would be right."""
    assert refused(tmp_path, text).startswith(message)


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    """No traceback for a wrong path or a picture."""
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    for name, message in (("absent", "no such file"), ("picture", "not UTF-8 text")):
        with pytest.raises(InputError, match=message):
            read_log(str(tmp_path / name))


def test_a_last_line_that_is_cut_short_is_left_out(tmp_path: Path) -> None:
    """A run that is still writing is no fault."""
    log = read(tmp_path, steps(2, 2, 2, 2, 2, 2) + "7")
    assert len(log.step_seconds) == 6


def test_warm_up_is_left_out_and_later_pauses_do_not_count() -> None:
    """Two slow first steps go; an evaluation in the middle stays and does not move the median."""
    seconds = (40.0, 12.0, *([6.0, 6.2] * 10), 90.0, *([6.1, 6.0] * 5))
    pace = compute_pace(RunLog("x", "y", step_seconds=seconds))
    assert pace is not None and pace.dropped == 2
    assert pace.seconds == pytest.approx(6.1, abs=0.1) and pace.spread is not None and pace.spread < 0.05


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    usual=st.floats(0.01, 100),
    noise=st.lists(st.floats(-0.02, 0.02), min_size=12, max_size=40),
    slow=st.lists(st.floats(1.5, 30), max_size=5),
)
def test_the_median_is_that_of_the_steps_after_the_warm_up(usual: float, noise: list[float], slow: list[float]) -> None:
    """However slow up to five first steps are, the pace is within the noise of the others."""
    seconds = tuple(usual * factor for factor in (*slow, *(1 + one for one in noise)))
    pace = compute_pace(RunLog("x", "y", step_seconds=seconds))
    assert pace is not None and abs(pace.seconds / usual - 1) <= 0.0201
    assert len(slow) <= count_warm_up_steps(seconds) <= len(seconds) // 2


def test_a_padded_run_has_the_speed_of_its_real_tokens(tmp_path: Path) -> None:
    """TRL counts 4,000 real tokens of a step, and Transformers its rows of 8,192: at 2 s a step 2,000 a second.

    The file is that of an export: both counts are in it, and no scenario says how long samples are.
    """
    entries = [
        logged(step, num_tokens=4000.0 * step, num_input_tokens_seen=8192 * step, train_runtime=2.0 * step)
        for step in range(10, 61, 10)
    ]
    (tmp_path / "log").write_text(state(*entries))
    settings_of_run = {"method": "lora", "micro_batch": 2}
    found = calibrate([str(tmp_path / "log")], "A100-80GB", **settings_of_run)
    assert found.measured["tokens_per_second"] == pytest.approx(2000.0, rel=1e-3)
    assert any("4,000 tokens per step as counted in the log, without padding" in note for note in found.notes)
    (tmp_path / "log").write_text(state(*({k: v for k, v in one.items() if k != "num_tokens"} for one in entries)))
    padded = calibrate([str(tmp_path / "log")], "A100-80GB", **settings_of_run)
    assert padded.measured["tokens_per_second"] == pytest.approx(4096.0, rel=1e-3)
    assert any("possibly with padding" in note for note in padded.notes)


def test_a_chart_of_tokens_so_far_is_no_count_of_each_row(tmp_path: Path) -> None:
    """worked: 4,000 more in each step, logged every 10 steps of 2 s; a column of each row's tokens stays a mean."""
    rows = [f"{step},{1000 + 2 * step},{4000 * step}" for step in range(10, 101, 10)]
    text = "\n".join(
        ["train/global_step,_timestamp,train/num_tokens,_step", *(f"{row},{n}" for n, row in enumerate(rows))]
    )
    assert read(tmp_path, text + "\n").tokens_per_step == pytest.approx(4000.0)
    each = "\n".join(["step,seconds,num_tokens", *(f"{n},2.0,{3990 + n % 3 * 10}" for n in range(1, 10))])
    assert read(tmp_path, each + "\n").tokens_per_step == pytest.approx(4000.0)
