"""Logs of single tools as they write them: the pace, the memory and the tokens that each states, and what it does not.

The forms are those of LLaMA-Factory 0.9.5, torchtune 0.6.1, Composer 0.32, LitGPT 0.5.13, nanoGPT, NeMo 2, torchtitan,
and of the exports of Weights & Biases and TensorBoard. The rows of LitGPT are from a run on a CPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.analysis.calibrate_question import calibrate
from planner.analysis.line_logs import read_line_log
from planner.analysis.log_files import read_history, read_log
from planner.analysis.logged_steps import compute_pace
from planner.analysis.run_progress import join_logs
from planner.errors import InputError
from tests.helpers import run_logs


def observed(folder: Path, text: str, **more: Any) -> dict[str, Any]:
    """What calibrate finds in a log, at 1,000 tokens per step unless the log or the caller says otherwise."""
    path = folder / "log"
    path.write_text(text, encoding="utf-8")
    found = calibrate([str(path)], gpu="A100", **{"tokens_per_step": 1000.0, **more})
    seconds = found.step_times.seconds if found.step_times else None
    return {**found.measured, "seconds": seconds, "notes": " / ".join(found.notes)}


def refused(folder: Path, text: str, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        observed(folder, text, **more)
    return str(caught.value)


def test_llama_factory_rounds_to_seconds_and_counts_evaluation(tmp_path: Path) -> None:
    """0.9 s per step logged one by one, 30 s of evaluation after step 60: no interval of 0 or 1 s, no evaluation."""
    rows = run_logs.llama_factory(range(1, 121), 0.9, evaluations={60: 30.0})
    found = observed(tmp_path, rows)
    assert found["seconds"] == pytest.approx(0.9, rel=0.05)
    assert "evaluation, 30 s in all, is left out" in found["notes"]


def test_llama_factory_counts_tokens_and_memory(tmp_path: Path) -> None:
    """Tokens grow by 4,096 with each step; the peak is what torch allocated."""
    rows = run_logs.llama_factory(range(10, 121, 10), 9.9, tokens=4096, vram=(31.25, 40.5))
    found = observed(tmp_path, rows, tokens_per_step=None)
    assert found["tokens_per_second"] == pytest.approx(4096 / 9.9, rel=0.01)
    assert (found["peak_vram_gib"], found["peak_kind"]) == (31.25, "allocated")


@pytest.mark.parametrize("first", [510, 1010])
def test_a_log_that_begins_in_the_middle_is_timed_by_its_own_steps(tmp_path: Path, first: int) -> None:
    """Resumed: `elapsed_time` is that of the new process, and its steps are those of the whole run."""
    rows = run_logs.llama_factory(range(first, first + 100, 10), 6.0, resumed_at=first - 10)
    found = observed(tmp_path, rows)
    assert found["seconds"] == pytest.approx(6.0) and "begins in the middle" in found["notes"]


def test_a_log_of_two_processes_is_refused_with_the_line_of_the_second(tmp_path: Path) -> None:
    """The steps go on, only the time since the start goes back."""
    rows = run_logs.llama_factory(range(10, 101, 10), 6.0)
    rows += run_logs.llama_factory(range(110, 201, 10), 6.0, resumed_at=100)
    assert ":11: the time since the start goes back at step 110" in refused(tmp_path, rows)


def test_ranks_that_write_one_file_out_of_step_are_one_run(tmp_path: Path) -> None:
    """Rows of a rank that lags by a step or two go back, where nothing was restarted: the first of each step counts."""
    rows = run_logs.llama_factory(range(10, 201, 10), 9.9, evaluations={60: 30.0}).splitlines()
    both = [*rows[:3], *(row for pair in zip(rows[3:], rows, strict=False) for row in pair), *rows[-3:]]
    steps = [json.loads(row)["current_steps"] for row in both]
    assert steps != sorted(steps)
    one, two = (observed(tmp_path, "\n".join(lines) + "\n") for lines in (rows, both))
    assert one == two and "evaluation, 30 s in all, is left out" in one["notes"]


def test_days_of_llama_factory_are_read(tmp_path: Path) -> None:
    """`1 day, 2:03:04`, as Python writes a time of more than a day."""
    rows = run_logs.llama_factory(range(1000, 10001, 1000), 30.0)
    assert "days, " in rows
    assert observed(tmp_path, rows)["seconds"] == pytest.approx(30.0)


def test_torchtune_states_a_rate_of_one_gpu(tmp_path: Path) -> None:
    """1,800 tokens/s on each of 4 GPUs, the first step slower; the note says which tokens count."""
    text = run_logs.torchtune(range(1, 41), 1800.0, alloc=22.0)
    found = observed(tmp_path, text, gpus=4, tokens_per_step=None)
    assert found["tokens_per_second"] == pytest.approx(7200.0) and found["seconds"] is None
    assert (found["peak_vram_gib"], found["peak_kind"]) == (22.0, "allocated")
    assert "prompts that are masked" in found["notes"]


def test_the_bar_of_torchtune_begins_anew_with_each_epoch(tmp_path: Path) -> None:
    """Its description has the step of the run."""
    text = run_logs.torchtune_bar(epochs=3, steps=40, pace=5.0)
    assert observed(tmp_path, text)["seconds"] == pytest.approx(5.0)
    log = read_line_log(text, "log")
    assert log is not None and log.points[-1].step == 120


def test_nanogpt_times_evaluation_with_its_iteration(tmp_path: Path) -> None:
    """Milliseconds; an iteration after a `step N: train loss` line holds the evaluation and is left out."""
    text = run_logs.nanogpt(range(0, 200, 10), 0.4, evaluations=range(0, 200, 50))
    found = observed(tmp_path, text)
    assert found["seconds"] == pytest.approx(0.4)
    always = run_logs.nanogpt(range(0, 200, 10), 0.4, evaluations=range(0, 200, 10))
    assert "times no step, or none without an evaluation in it" in refused(tmp_path, always)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("step {n:4} | loss: 9.5 | lr 6e-4 | norm: 1.2 | dt: 93.20ms | tok/sec: 5632.00\n", 0.0932),
        ("step {n}/32000 | train loss 7.36 | norm 0.4 | lr 1e-4 | 246.33 ms | 41% bf16 MFU | 2128000 tok/s\n", 0.24633),
        ("Iteration {n}: loss 3.2, step time: 1.25 s\n", 1.25),
        ("step {n:4} | loss: 9.5 | lr 6e-4 | norm: 1.2 | dt: 1,093.20ms | tok/sec: 5,632.00\n", 1.0932),
        ("iter {n}: loss 9.7421, time 12,402.11ms, mfu 41.20%\n", 12.40211),
    ],
)
def test_steps_with_a_time_and_its_unit_are_read(tmp_path: Path, line: str, seconds: float) -> None:
    """build-nanogpt, llm.c, and plain scripts."""
    assert observed(tmp_path, "".join(line.format(n=n) for n in range(1, 30)))["seconds"] == pytest.approx(seconds)


def test_composer_counts_batches_from_nought_and_hours(tmp_path: Path) -> None:
    """7.5 s per batch, on 8 GPUs by the ratio of its rates; validation is not in the time of training; GB, not GiB."""
    text = run_logs.composer(range(1, 41), 7.5, gpus=8, tokens=1_000_000, peak_gb=27.294)
    found = observed(tmp_path, text, gpus=8, tokens_per_step=None)
    assert found["seconds"] == pytest.approx(7.5, rel=0.01)
    assert found["tokens_per_second"] == pytest.approx(1_000_000 / 7.5, rel=0.01)
    assert found["peak_vram_gib"] == pytest.approx(27.294e9 / 2**30, rel=1e-3)
    assert "give --gpus 8" in refused(tmp_path, text, gpus=1)


@pytest.mark.parametrize("unit", [1.0, 60.0, 3600.0])
def test_the_unit_of_composer_is_the_one_that_agrees_with_its_rate(tmp_path: Path, unit: float) -> None:
    """SpeedMonitor may count seconds, minutes or hours under the same name."""
    text = run_logs.composer(range(1, 41), 7.5, unit=unit)
    assert observed(tmp_path, text, gpus=8)["seconds"] == pytest.approx(7.5, rel=0.01)


def test_nemo_counts_steps_from_nought(tmp_path: Path) -> None:
    """`train_step_timing in s`, printed or in the bar."""
    printed = "".join(
        f"Training epoch 0, iteration {n}/249 | lr: 2e-06 | global_batch_size: 8 | global_step: {n} | "
        f"reduced_train_loss: 1.315 | train_step_timing in s: {7.126 if n == 0 else 1.505}\n"
        for n in range(20)
    )
    found = observed(tmp_path, printed)
    assert found["seconds"] == pytest.approx(1.505) and found["global_batch"] == 8
    bar = "".join(
        f"Epoch 0: : {n}%|##| {n}/100 [10:48<00:00, reduced_train_loss=0.017, global_step={n}.00, "
        f"consumed_samples=25600.0, train_step_timing in s=3.130]\r"
        for n in range(20)
    )
    assert observed(tmp_path, bar)["seconds"] == pytest.approx(3.13)


LITGPT = "iter,iter_time,learning_rate,lengths,loss,step,time,tokens,total_tokens,val_loss,val_ppl\n"


def test_litgpt_counts_micro_batches_as_steps(tmp_path: Path) -> None:
    """CSVLogger writes the micro-batch over `step`: tokens per second hold, seconds of a step need the accumulation."""
    rows = "".join(
        f"{n},0.025,0.001,{64 * n},5.0,{n - 1},{10 + 0.5 * n},{64 * n},{64 * n},,\n" for n in range(4, 61, 4)
    )
    text = LITGPT.replace("time,tokens", "time,tokens").replace("iter,", "batches,iter,", 1)
    text += "".join(f"{row.split(',')[0]},{row}\n" for row in rows.splitlines()) + ",,,,,,19,,,,4.96,143.0\n"
    found = observed(tmp_path, text, tokens_per_step=None)
    assert found["tokens_per_second"] == pytest.approx(64 / 0.5) and "micro-batches" in found["notes"]
    assert "give --accumulation-steps" in refused(tmp_path, text)
    known = observed(tmp_path, text, accumulation_steps=4)
    assert known["seconds"] == pytest.approx(2.0) and known["tokens_per_second"] == pytest.approx(500.0)


def test_the_console_of_litgpt_says_how_many_micro_batches_make_a_step(tmp_path: Path) -> None:
    """Eight of 0.4 s."""
    text = "".join(
        f"Epoch 1 | iter {n} step {n // 8} | loss train: 2.100, val: n/a | iter time: {400 + 80 * (n % 8 == 0):.2f} ms"
        f"{' (step)' if n % 8 == 0 else ''} remaining time: 0:05:00\n"
        for n in range(1, 161)
    )
    assert observed(tmp_path, text)["seconds"] == pytest.approx(7 * 0.4 + 0.48)


def chart(times: str, scale: float = 1.0, other: str = "") -> str:
    """A chart of Weights & Biases as it is downloaded: 10.2 s per step, a point in ten steps."""
    head = f'"Step","run-1 - train/loss","run-1 - train/loss__MIN","run-1 - {times}"{other and f",{other}"}\n'
    more = ',"1.0"' if other else ""
    return head + "".join(f'"{n}","1.9","1.9","{(1763700000 + 10.2 * n) * scale}"{more}\n' for n in range(10, 101, 10))


@pytest.mark.parametrize(("times", "scale"), [("_timestamp", 1.0), ("_timestamp", 1000.0), ("_runtime", 1.0)])
def test_a_chart_of_weights_and_biases_is_a_table_of_steps(tmp_path: Path, times: str, scale: float) -> None:
    """Names of runs before the metrics, bounds beside them, time stamps in seconds or milliseconds."""
    assert observed(tmp_path, chart(times, scale))["seconds"] == pytest.approx(10.2)
    assert len(read_history(str(tmp_path / "log")).points) == 10


def test_steps_of_weights_and_biases_that_count_calls_are_refused(tmp_path: Path) -> None:
    """The Trainer logs in one step of ten: `Step` rises by one, `train/global_step` by ten."""
    calls = "".join(f'"{n}","1.9","{1763700000 + 102 * n}","{10 * n + 10}"\n' for n in range(10))
    head = '"Step","run-1 - train/loss","run-1 - _timestamp","run-1 - {}"\n'
    assert "counts the calls of wandb.log" in refused(tmp_path, head.format("train/epoch") + calls)
    assert observed(tmp_path, head.format("train/global_step") + calls)["seconds"] == pytest.approx(10.2)


def test_a_chart_of_two_runs_is_refused(tmp_path: Path) -> None:
    """With their names."""
    assert "charts of 2 runs: run-1, run-2" in refused(tmp_path, chart("_timestamp", other='"run-2 - train/loss"'))


def test_the_history_of_weights_and_biases_has_gaps(tmp_path: Path) -> None:
    """As pandas saves it: an index without a name, evaluation in rows of its own."""
    text = ",_step,_runtime,_timestamp,train/loss,train/global_step,eval/loss\n"
    for n in range(20):
        seen = f"1.5,{5 * n + 5}," if n % 5 else ",,1.2"
        text += f"{n},{n},{5.0 * n},{1763700000 + 5 * n}.5,{seen}\n"
    assert observed(tmp_path, text)["seconds"] == pytest.approx(1.0)


def test_a_scalar_of_tensorboard_is_a_table_of_steps(tmp_path: Path) -> None:
    """`Wall time` counts seconds since 1970; what the scalar is does not matter."""
    rows = "".join(f"{1763700000.1 + 10.2 * n},{n},1.9\n" for n in range(10, 101, 10))
    assert observed(tmp_path, "Wall time,Step,Value\n" + rows)["seconds"] == pytest.approx(10.2)


def test_a_table_without_times_says_so(tmp_path: Path) -> None:
    """Lightning's CSVLogger in other tools: no column of time."""
    text = "epoch,step,train_loss\n" + "".join(f"0,{n},1.5\n" for n in range(10))
    assert "has steps but no times: its columns are epoch, step, train_loss" in refused(tmp_path, text)
    with pytest.raises(InputError, match="has steps but no times"):
        read_history(str(tmp_path / "log"))


def test_torchtitan_validates_between_two_steps(tmp_path: Path) -> None:
    """Each 10 steps of 2 s a validation of 30 s, whose line is no step."""
    text, now = "", 0.0
    for step in range(10, 201, 10):
        now += 20.0
        text += run_logs.torchtitan([step], 1.0, start=now, first=step)
        now += 30.0
        text += run_logs.torchtitan([step], 1.0, start=now, first=step).replace("step:", "validate step:")
    assert observed(tmp_path, text)["seconds"] == pytest.approx(2.0)


def test_torchtitan_states_tokens_where_nobody_else_does(tmp_path: Path) -> None:
    """7,282 tokens per second of each device."""
    found = observed(tmp_path, run_logs.torchtitan(range(10, 200, 10), 12.0), gpus=8, tokens_per_step=None)
    assert found["tokens_per_second"] == pytest.approx(8 * 7282, rel=1e-3)


def test_the_console_of_the_trainer_times_its_evaluations(tmp_path: Path) -> None:
    """Each 10 steps of 3 s an evaluation of 60 s: Transformers prints its `eval_runtime`."""
    text, now = "", 0.0
    for step in range(1, 101):
        now += 3.0
        text += f"\r{step}%|#   | {step}/100 [{int(now // 60):02}:{int(now % 60):02}<9:59, 3.00s/it]"
        if step % 10 == 0:
            text += "\n{'loss': '1.2', 'epoch': '0.1'}\n{'eval_loss': '1.1', 'eval_runtime': '60.0'}\n"
            now += 60.0
    assert observed(tmp_path, text)["seconds"] == pytest.approx(3.0, rel=0.05)


@given(pace=st.floats(0.05, 40.0), every=st.integers(1, 10))
def test_whole_seconds_of_a_bar_give_the_pace_of_its_steps(pace: float, every: int) -> None:
    """However short steps are against the second that a bar rounds to: within a twentieth."""
    log = read_line_log(run_logs.console(range(every, 80 * every + int(60 / pace), every), pace, 10**6), "log")
    assert log is not None
    from planner.analysis.logged_steps import split_attempts

    (attempt,) = split_attempts(log.points, log.resolution_seconds)
    seconds = sum(one.seconds for one in attempt.intervals) / sum(one.steps for one in attempt.intervals)
    assert seconds == pytest.approx(pace, rel=0.06) and not attempt.jumps_back


def trainer(steps: int, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "step": steps,
        "train_runtime": seconds,
        "train_samples_per_second": 0.8,
        "train_steps_per_second": 0.1,
        **more,
    }


def state(*entries: dict[str, Any], steps: int) -> str:
    return json.dumps({"global_step": steps, "max_steps": steps, "log_history": entries})


def test_evaluation_that_the_state_times_is_no_training(tmp_path: Path) -> None:
    """45 steps in 151.2 s, of which three evaluations take 32.4 s: 2.64 s a step, not 3.36."""
    entries: list[dict[str, Any]] = []
    for step in (15, 30, 45):
        entries += [{"step": step, "loss": 1.5}, {"step": step, "eval_loss": 1.4, "eval_runtime": 10.8}]
    text = state(*entries, trainer(45, 151.2, train_loss=1.5), {"step": 45, "eval_runtime": 99.0}, steps=45)
    found = observed(tmp_path, text)
    assert found["seconds"] == pytest.approx(2.64) and "evaluation, 32 s in all" in found["notes"]


def test_a_state_that_counts_tokens_leaves_evaluation_out_of_its_intervals(tmp_path: Path) -> None:
    """An evaluation between any two entries, each 40 s, steps of 2 s."""
    entries: list[dict[str, Any]] = []
    for n in range(1, 11):
        entries.append({"step": 10 * n, "loss": 1.5, "train_runtime": 20.0 * n + 40.0 * (n - 1)})
        entries.append({"step": 10 * n, "eval_loss": 1.4, "eval_runtime": 40.0})
    assert observed(tmp_path, state(*entries, steps=100))["seconds"] == pytest.approx(2.0)


def test_the_whole_run_is_divided_by_its_own_steps(tmp_path: Path) -> None:
    """45 steps in 450 s, of which the last logged a loss at 40: 10 s each."""
    entries = [{"step": step, "loss": 1.7} for step in (10, 20, 30, 40)]
    (tmp_path / "state").write_text(state(*entries, trainer(45, 450.0, train_loss=1.7), steps=45))
    assert read_history(str(tmp_path / "state")).whole == (45, 450.0)


def test_a_state_of_a_resumed_run_times_its_last_part_alone(tmp_path: Path) -> None:
    """Half of 1,000 steps made before: `train_loss` is half of the logged losses, and 500 steps took the 1,000 s."""
    entries = [{"step": step, "loss": 2.0} for step in range(100, 1001, 100)]
    text = state(*entries, trainer(1000, 1000.0, train_loss=1.0), steps=1000)
    assert "went on from a checkpoint" in refused(tmp_path, text)
    log = read_history(str(tmp_path / "log"))
    assert log.whole is None and any("went on from a checkpoint" in one for one in log.remarks)


@pytest.mark.parametrize(("made_before", "logged_every"), [(150, 10), (150, 90), (500, 10), (60, 10)])
def test_a_run_that_went_on_early_is_noticed_by_its_losses(tmp_path: Path, made_before: int, logged_every: int) -> None:
    """Of 1,000 steps whose losses fall from 3 to 1; a run in one piece is timed, whatever its last steps lost."""

    def loss(step: float) -> float:
        return 1.0 + 2.0 * 0.99**step

    def log(first: int) -> str:
        logged = range(logged_every, 1001, logged_every)
        entries = [
            {"step": end, "loss": sum(map(loss, range(end - logged_every, end))) / logged_every} for end in logged
        ]
        given = sum(map(loss, range(first, 1000))) / 1000
        return state(*entries, trainer(1000, 1000.0, train_loss=given), steps=1000)

    assert "went on from a checkpoint" in refused(tmp_path, log(made_before))
    assert observed(tmp_path, log(0))["seconds"] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["num_tokens", "tokens/total", "num_input_tokens_seen"])
@pytest.mark.parametrize("resumed_at", [(), (40,), (6, 44), (10, 20), (97,)])
def test_tokens_that_each_process_counts_anew_are_those_of_its_own_steps(
    tmp_path: Path, name: str, resumed_at: tuple[int, ...]
) -> None:
    """4,096 per step, logged every 10 steps, whatever checkpoints the run went on from."""
    entries = [
        {"step": step, "loss": 1.5, "train_runtime": 2.0 * step,
         name: 4096 * (step - max((at for at in resumed_at if at < step), default=0))}
        for step in range(10, 101, 10)
    ]  # fmt: skip
    (tmp_path / "state").write_text(state(*entries, steps=100))
    assert read_history(str(tmp_path / "state")).tokens_per_step == pytest.approx(4096)


def test_few_logged_intervals_of_many_steps_are_enough(tmp_path: Path) -> None:
    """Three points of ten steps each: the first one holds the warm-up."""
    (tmp_path / "log").write_text(run_logs.llama_factory(range(10, 31, 10), 10.0))
    pace = compute_pace(read_log(str(tmp_path / "log")))
    assert pace is not None and (pace.seconds, pace.steps, pace.dropped) == (10.0, 20, 10)


def bar(step: int, total: int, seconds: int) -> str:
    """A line of the bar of a trainer, as `tqdm` writes it."""
    minutes = f"{seconds // 60:02d}:{seconds % 60:02d}"
    return f" 10%|#         | {step}/{total} [{minutes}<10:00,  1.00s/it]\n"


@pytest.mark.parametrize("before", [{}, {"eval_loss": 2.1, "eval_runtime": 100.0}])
def test_bars_before_the_training_are_not_the_training(tmp_path: Path, before: dict[str, float]) -> None:
    """worked: an evaluation (or a pass over the data) of 200 items in 100 s, then 8 steps of 26 s each."""
    text = "".join(bar(step, 200, step // 2) for step in range(20, 201, 20)) + (f"{before}\n" if before else "")
    for step in range(1, 9):
        text += bar(step, 708, 26 * step) + f"{{'loss': 2.0, 'epoch': 0.0{step}}}\n"
    assert observed(tmp_path, text)["seconds"] == pytest.approx(26.0, rel=0.02)


@pytest.mark.parametrize(
    "prefix", ["[pod/train-0/main] 2026-11-20T10:00:01.1Z ", "trainer-1  | ", "0: ", "(train, pid=7) "]
)
def test_what_a_launcher_writes_before_a_line_is_not_read(tmp_path: Path, prefix: str) -> None:
    """kubectl, docker compose, srun and SkyPilot."""
    lines = [bar(step, 708, 26 * step) + f"{{'loss': 2.0, 'epoch': 0.0{step}}}\n" for step in range(1, 6)]
    text = "".join(prefix + line for block in lines for line in block.splitlines(keepends=True))
    assert observed(tmp_path, text)["seconds"] == pytest.approx(26.0, rel=0.02)


def test_of_the_same_steps_in_two_logs_one_is_kept(tmp_path: Path) -> None:
    """Two ranks of one run are no restart; an attempt that logs no losses is one of its own."""
    ranks = [tmp_path / "r0.log", tmp_path / "r1.log"]
    for path in ranks:
        path.write_text(run_logs.torchtitan(range(10, 101, 10), 6.0))
    logs = [read_history(str(path)) for path in ranks]
    assert len(join_logs(logs).points) == len(logs[0].points)
    attempts = [tmp_path / "a1.err", tmp_path / "a2.err"]
    attempts[0].write_text("".join(bar(step, 708, 6 * step) for step in range(10, 151, 10)))
    attempts[1].write_text("".join(bar(step, 708, 6 * (step - 100)) for step in range(110, 301, 10)))
    logs = [read_history(str(path)) for path in attempts]
    assert len(join_logs(logs).points) == sum(len(log.points) for log in logs)
