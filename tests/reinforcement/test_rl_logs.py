"""Logs of reinforcement learning against a plan: what each tool writes, factors by phase, the end of a run, lengths.

The logs are made by hand, from the keys that the sources of the tools have (see `rl_logs`); figures are made up.
"""

from __future__ import annotations

import json
import math
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import planner
from planner.analysis.rl_logs import attempts_of, measured_steps, read_rl_logs
from planner.cli import main
from planner.errors import InputError, ScenarioError
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.reinforcement.evaluated_rl import predicted_phases, spread_of
from planner.reinforcement.rl_calibration import phase_seconds, steps_of_plan
from planner.reinforcement.rl_step import AS_ESTIMATED, AnswerLengths, RlPhases, measured_factors, spread_before_cut
from planner.reinforcement.rl_tracking import _left_data, _progress, _with_market
from planner.scenario.rl_job import MeasuredRl, RlJob, RlWork
from planner.scenario.scenario import SolveOptions

if TYPE_CHECKING:
    from pathlib import Path

    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario

OFFERS = [
    {
        **{"provider": "one", "region": "eu", "gpu": "H100-80GB", "gpus": 2, "usd_per_hour": 5.0, "max_nodes": 1},
        **{"interconnect": "nvlink", "ram_gb": 800},
    },
    {
        **{"provider": "two", "region": "us", "gpu": "L40S", "gpus": 2, "usd_per_hour": 1.5, "max_nodes": 1},
        "ram_gb": 800,
    },
]
SEEN = {"gen": 60.0, "old_log_prob": 12.0, "ref": 8.0, "update_actor": 40.0, "update_weights": 4.0, "step": 130.0}


def scenario(**job: Any) -> Scenario:
    """Return a small job on two offers."""
    work = {"steps": 100, "prompts": 32, "answers": 8, "input_tokens": 300, "output_tokens": 600}
    own = {
        **{"name": "math", "kind": "rl", "architecture": "qwen2.5-1.5b"},
        "techniques": {"sharding": ["zero3"]},
        "rollout": {"placement": "colocated", "tensor_parallel": [1]},
        **job,
        "work": {**work, **job.get("work", {})},
    }
    return planner.build_scenario({"schema": 2, "name": "small", "jobs": [own], "offers": OFFERS})


@cache
def solved(placement: str = "colocated") -> Plan:
    """Return the plan of the small job."""
    return planner.solve(asked(placement), SolveOptions(as_of=date(2026, 11, 21)))


@cache
def asked(placement: str = "colocated") -> Scenario:
    """Return the small job with GPUs in turn, or apart and one step off the policy."""
    rollout = {"placement": placement, "tensor_parallel": [1]}
    return scenario(rollout=rollout, staleness=0 if placement == "colocated" else 1)


def verl_lines(steps: range, length: float = 600.0, **seconds: float) -> str:
    """Return the console of verl 0.8 with Ray's prefix: the first step is slower."""
    lines = []
    for step in steps:
        figures = {f"timing_s/{name}": value for name, value in {**SEEN, **seconds}.items()}
        figures["timing_s/step"] += 50.0 * (step == steps[0])
        figures |= {"response_length/mean": length, "response_length/max": 2048.0, "prompt_length/mean": 280.0}
        text = " - ".join(f"{key}:{value}" for key, value in {"actor/entropy": "np.float64(0.5)", **figures}.items())
        lines.append(f"\x1b[36m(TaskRunner pid=71)\x1b[0m step:{step} - {text}")
    return "\n".join(["Training Progress:   0%|          | 0/100 [00:00<?, ?it/s]", *lines]) + "\n"


def nemo_console() -> str:
    """Return the console of NeMo-RL over two epochs of two steps: the second counts its steps anew."""
    step = (
        "\n========================= Step {step}/2 =========================\n"
        "▶ Generating responses for batch of size 256...\n"
        "📊 Training Results:\n  • Loss: 0.0100\n  • Mean Generation Length: 612.5000\n\n⏱️  Timing:\n"
        "  • Total step time: 130.00s\n  • generation: 60.00s (46.2%)\n  • policy_training: 38.00s (29.2%)\n"
        "  • policy_and_reference_logprobs: 20.00s (15.4%)\n  • prepare_for_generation/total: 4.00s (3.1%)\n"
        "  • training_prep: 2.00s (1.5%)\n"
    )
    epochs = [f"\n========================= Epoch {n}/2 =========================\n" for n in (1, 2)]
    return "".join(epoch + "".join(step.format(step=n) for n in (1, 2)) for epoch in epochs)


def nemo_metrics() -> str:
    """Return the metrics of asynchronous NeMo-RL by name and step: the trainer waits 30 s for answers."""
    figures = {
        **{"timing/train/total_step_time": 100.0, "timing/train/exposed_generation": 30.0},
        **{"timing/train/policy_training": 40.0, "timing/train/policy_and_reference_logprobs": 20.0},
        **{"timing/train/weight_sync": 4.0, "train/mean_gen_tokens_per_sample": 600.0},
    }
    return json.dumps({key: {str(step): value for step in range(1, 6)} for key, value in figures.items()})


def trl_state(steps: int = 6, step_time: float = 130.0) -> str:
    """Return a trainer_state.json of TRL's GRPO: whole steps and lengths, no phases."""
    history: list[dict[str, Any]] = [
        {
            **{"completions/mean_length": 600.0, "completions/max_length": 2048.0, "loss": 0.0, "step": step},
            **{"num_tokens": 200000.0 * step, "step_time": step_time, "reward": 0.4},
        }
        for step in range(1, steps + 1)
    ]
    history.insert(2, {"eval_completions/mean_length": 10.0, "eval_loss": 0.0, "step": 2})
    summary = {"step": steps, "train_runtime": 900.0, "train_steps_per_second": 0.01}
    return json.dumps({"global_step": steps, "max_steps": 100, "log_history": [*history, summary]})


def trl_export() -> str:
    """Return the history of Weights & Biases of TRL: a row for each call that is profiled, without a step."""
    calls = "profiling/Time taken: GRPOTrainer.vLLM.generate,profiling/Time taken: GRPOTrainer.sync_weights"
    head = f"_step,train/global_step,train/step_time,train/completions/mean_length,{calls}\n"
    return head + "".join(
        f"{4 * n},,,,,4\n{4 * n + 1},,,,35,\n{4 * n + 2},,,,25,\n{4 * n + 3},{n + 1},130,600,,\n" for n in range(4)
    )


FORMATS = {
    "verl console": (verl_lines(range(1, 6)), 5),
    "verl file": (
        "".join(
            json.dumps({"step": n, "data": {f"timing_s/{name}": value for name, value in SEEN.items()}}) + "\n"
            for n in range(1, 4)
        ),
        3,
    ),
    "verl chart": (
        '"Step","run - timing_s/gen","run - timing_s/gen__MIN","run - timing_s/step"\n'
        + "".join(f'"{n}","60","1","130"\n' for n in range(1, 4)),
        3,
    ),
    "nemo console": (nemo_console(), 4),
    "trl state": (trl_state(), 6),
    "trl export": (trl_export(), 4),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_steps_their_seconds_and_the_phases_that_it_has(name: str, tmp_path: Path) -> None:
    text, steps = FORMATS[name]
    log = read_rl_logs([written(tmp_path, text)])
    seen = measured_steps(log)
    assert [step.step for step in log.steps] == list(range(1, steps + 1))
    assert len(attempts_of(log)) == 1
    assert (seen.seconds, seen.steps, seen.warm_up_steps) == (130.0, steps - 1, 1)
    whole = {"rollout": 60.0, "log_probabilities": 20.0, "training": 40.0, "new_weights": 4.0}
    there = {"verl chart": ("rollout",), "trl state": (), "trl export": ("rollout", "new_weights")}.get(name, whole)
    assert seen.phases == pytest.approx({phase: whole[phase] for phase in there})


def written(folder: Path, text: str, name: str = "run.log") -> str:
    """Return the path of a file with the text."""
    path = folder / name
    path.write_text(text)
    return str(path)


def test_earlier_verl_has_new_weights_within_the_rollout(tmp_path: Path) -> None:
    text = verl_lines(range(1, 4), reshard=3.0).replace("timing_s/update_weights:4.0 - ", "")
    seen = measured_steps(read_rl_logs([written(tmp_path, text)]))
    assert seen.phases == pytest.approx(
        {"rollout": 57.0, "log_probabilities": 20.0, "training": 40.0, "new_weights": 3.0}
    )


def test_steps_with_a_validation_count_only_where_there_are_no_others(tmp_path: Path) -> None:
    """Releases differ in whether the seconds of a step hold the validation after it."""
    text = verl_lines(range(1, 4)) + verl_lines(range(4, 5), testing=200.0, step=330.0)
    assert measured_steps(read_rl_logs([written(tmp_path, text)])).seconds == 130.0
    text = verl_lines(range(1, 4), testing=1.0)
    assert measured_steps(read_rl_logs([written(tmp_path, text)])).seconds == 130.0


def test_where_the_trainer_waits_for_answers_the_rollout_is_the_trainer_and_the_wait(tmp_path: Path) -> None:
    log = read_rl_logs([written(tmp_path, nemo_metrics())])
    assert log.waits
    assert phase_seconds(log, measured_steps(log))["rollout"] == 20.0 + 40.0 + 30.0
    fast = nemo_metrics().replace("30.0", "1.0")
    log = read_rl_logs([written(tmp_path, fast)])
    assert "rollout" not in phase_seconds(log, measured_steps(log))  # it is the shorter side


def test_optimizer_steps_of_trl_make_one_step_of_the_plan(tmp_path: Path) -> None:
    """Two updates for one sampling: a step of the plan takes both, and the first pair is the warm-up."""
    history = [
        {"completions/mean_length": 600.0, "step": n, "step_time": 100.0 if n % 2 else 20.0} for n in range(1, 8)
    ]
    log = read_rl_logs([written(tmp_path, json.dumps({"log_history": history}))])
    seen = measured_steps(log, updates=2)
    assert (seen.seconds, seen.steps) == (120.0, 4)


def test_a_restart_repeats_steps_and_two_files_of_one_run_are_joined(tmp_path: Path) -> None:
    text = verl_lines(range(1, 6)) + verl_lines(range(4, 9))
    log = read_rl_logs([written(tmp_path, text)])
    assert [len(attempt) for attempt in attempts_of(log)] == [5, 5]
    found = planner.track(solved(), asked(), [written(tmp_path, text)])
    assert (found.observed.steps, found.observed.restarts, found.observed.repeated_steps) == (8, 1, 2)
    two = [written(tmp_path, verl_lines(range(1, 6)), "a"), written(tmp_path, verl_lines(range(4, 9)), "b")]
    assert len(attempts_of(read_rl_logs(two))) == 2
    both = [written(tmp_path, trl_state(4), "state"), written(tmp_path, trl_export(), "export")]
    seen = measured_steps(read_rl_logs(both))
    assert (seen.longest, seen.phases["rollout"]) == (2048.0, 60.0)


def test_the_second_step_gives_the_ratio_of_each_phase_and_the_end(tmp_path: Path) -> None:
    (run,) = solved().reinforcement
    found = planner.track(solved(), asked(), [written(tmp_path, verl_lines(range(1, 3)))])
    by_phase = {phase.phase: phase for phase in found.phases}
    assert by_phase["rollout"].factor == pytest.approx(60.0 / run.phases["rollout"])
    assert by_phase["training"].measured == 40.0
    assert by_phase["fixed"].measured == pytest.approx(130.0 - 60.0 - 20.0 - 40.0 - 4.0)
    assert found.answers is not None
    assert (found.answers.mean, found.answers.longest, found.answers.planned_mean) == (600.0, 2048.0, 600.0)
    assert found.observed.timed_steps == 1
    slow = planner.track(solved(), asked(), [written(tmp_path, verl_lines(range(1, 30), gen=600.0, step=670.0))])
    assert slow.projected.hours.expected == pytest.approx(100 * 670.0 / 3600.0, rel=0.05)
    assert slow.projected.cost.expected == pytest.approx(
        slow.projected.hours.expected * run.pools[0].usd_per_hour, rel=0.05
    )
    for tracked in (found, slow):
        total = math.fsum(cause.hours for cause in tracked.causes)
        assert total == pytest.approx(tracked.projected.hours.expected - run.hours.expected)
        assert tracked.projected.cost.low < tracked.projected.cost.expected < tracked.projected.cost.high


def test_the_scores_of_verl_are_the_phase_of_a_reward_model_and_of_a_rule_the_rest(tmp_path: Path) -> None:
    """Its timer of rewards spans the passes of the model, too; by rule those seconds are bookkeeping."""
    log = written(tmp_path, verl_lines(range(1, 5), reward=3.0))
    by_model = scenario(reward={"model": "qwen2.5-1.5b", "placement": "shared"})
    plan = planner.solve(by_model, SolveOptions(as_of=date(2026, 11, 21)))
    (scores,) = (one for one in planner.track(plan, by_model, [log]).phases if one.phase == "reward")
    assert scores.measured == 3.0 and scores.factor == pytest.approx(3.0 / plan.reinforcement[0].phases["reward"])
    of_rule = {one.phase: one.measured for one in planner.track(solved(), asked(), [log]).phases}
    assert "reward" not in of_rule and of_rule["fixed"] == pytest.approx(6.0)


def test_a_budget_is_at_risk_where_the_cost_at_its_confidence_is_above_it(tmp_path: Path) -> None:
    """A budget between the likely cost and that at 90 % is at risk, as `solve` would not plan within it."""
    log = written(tmp_path, verl_lines(range(1, 3)))
    cost = planner.track(solved(), asked(), [log]).projected.cost
    late = cost.high + 0.2 * (cost.high - cost.expected)

    def notes(budget_usd: float) -> list[str]:
        found = planner.track(solved(), change_scenario(asked(), [f"limits.budget_usd={budget_usd}"]), [log])
        return [note for note in found.notes if note.startswith("the budget of")]

    assert notes(cost.expected - 0.01) and notes(0.5 * (cost.expected + cost.high))
    assert not notes(late)


@pytest.mark.parametrize("first", [1, 21])
def test_a_run_that_went_on_is_tracked_from_there_and_what_is_left_knows_all_that_is_done(
    first: int, tmp_path: Path
) -> None:
    """The log may have the steps before the plan or not; a log of these alone is refused."""
    plan, one = solved(), change_scenario(asked(), ["jobs.0.work.steps=80", "jobs.0.work.steps_before=20"])
    (run,), (job,) = plan.reinforcement, one.jobs
    assert isinstance(job, RlJob)
    rest = plan.model_copy(
        update={"reinforcement": (run.model_copy(update={"steps": 80, "steps_before": 20}),), "inputs": None}
    )
    log = written(tmp_path, verl_lines(range(first, 26)))
    tracked = planner.track(rest, one, [log])
    assert tracked.observed.steps == 5
    found = _progress(rest.reinforcement[0], job, one, steps_of_plan(read_rl_logs([log]), rest.reinforcement[0], job))
    work = _with_market(_left_data(tracked, found, one), one).jobs[0].work
    assert (work.steps, work.steps_before) == (75, 25)
    with pytest.raises(InputError, match="the plan begins after step 20; give the log of the run that went on"):
        planner.track(rest, one, [written(tmp_path, verl_lines(range(1, 15)))])


@pytest.mark.long
def test_a_late_run_is_said_and_moves_where_other_machines_keep_the_deadline(tmp_path: Path) -> None:
    (run,) = solved().reinforcement
    one = change_scenario(asked(), [f"jobs.0.deadline={1.6 * run.hours.at_confidence}h", "limits.budget_usd=500"])
    plan = planner.solve(one, SolveOptions(as_of=date(2026, 11, 21)))
    three = {"gen": 3.0, "old_log_prob": 3.0, "ref": 3.0, "update_actor": 3.0}
    (planned,) = plan.reinforcement
    slow = {
        **{"gen": 3.0 * planned.phases["rollout"], "old_log_prob": three["old_log_prob"], "ref": three["ref"]},
        **{"update_actor": 3.0 * planned.phases["training"], "step": 3.0 * planned.step_seconds},
    }
    log = written(tmp_path, verl_lines(range(1, 6), **slow))
    found = planner.track(plan, one, [log])
    assert not found.is_on_time
    assert any("--replan --scenario FILE" in note for note in found.notes)
    moved = planner.track(plan, one, [log], market=one)
    said = "only the machines of the plan were compared: --scenario FILE"
    assert not any(said in note for note in moved.notes)
    own = [offer for label, offer in one.labelled_offers() if label in planned.offers_named]
    kept = planner.track(plan, one, [log], market=one.model_copy(update={"offers": tuple(own)}))
    assert any(said in note for note in kept.notes)
    assert [choice.what for choice in moved.choices if choice.what == "stay"] == ["stay"]
    assert moved.choices[0].deadline_probability is not None
    saved = tmp_path / "plan.json"
    saved.write_text(plan.model_dump_json())
    said = CliRunner().invoke(main, ["track", str(saved), log])
    assert said.exit_code == 3, said.output
    assert "rollout" in said.output


@pytest.mark.long
def test_a_measured_entry_gives_back_the_seconds_that_were_measured(tmp_path: Path) -> None:
    """The law of a calibration: the estimate of the same run, corrected, is the log; and the search agrees with it."""
    log = written(tmp_path, verl_lines(range(1, 6)))
    found = planner.calibrate([log], scenario=asked(), plan=solved(), options=None)
    entry = MeasuredRl(**found.measured)
    job = asked().jobs[0]
    assert isinstance(job, RlJob)
    library = read_library([job.architecture])
    predicted = predicted_phases(job, entry, library.architecture(job.architecture), library)
    factors = RlPhases(**{phase.phase: phase.factor or 1.0 for phase in found.phases})
    corrected = predicted.times(factors)
    assert corrected.rollout == pytest.approx(60.0)
    assert corrected.training == pytest.approx(40.0)
    assert corrected.step_seconds(overlapped=False) == pytest.approx(130.0)
    text = ", ".join(f"{key}: {value}" for key, value in found.measured.items())
    changed = change_scenario(asked(), [f"jobs.0.measured.0={{{text}}}"])
    plan = planner.solve(changed, SolveOptions(as_of=date(2026, 11, 21)))
    assert planner.check(plan, changed) == ()
    assert found.after is not None
    assert plan.cost_usd == pytest.approx(found.after.cost_usd)
    assert any("corrected by observed runs" in note for note in plan.reinforcement[0].notes)


@pytest.mark.slow
def test_a_run_with_fp8_engines_is_compared_with_their_estimate(tmp_path: Path) -> None:
    """The entry has the bits where they are not the first of the job; left out, it is the estimate of the first."""
    rollout = {"placement": "colocated", "tensor_parallel": [1], "weight_bits": [16, 8]}
    one = scenario(rollout=rollout)
    plan = planner.solve(one, SolveOptions(as_of=date(2026, 11, 21)))
    found = planner.calibrate([written(tmp_path, verl_lines(range(1, 6)))], scenario=one, plan=plan, options=None)
    assert found.measured["rollout_weight_bits"] == plan.reinforcement[0].rollout_weight_bits == 8
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    library = read_library([job.architecture])
    entries = (found.measured, {**found.measured, "rollout_weight_bits": None})
    architecture = library.architecture(job.architecture)
    fp8, first = (predicted_phases(job, MeasuredRl(**entry), architecture, library) for entry in entries)
    assert fp8.rollout < first.rollout and fp8.training == first.training
    (phase,) = (phase for phase in found.phases if phase.phase == "rollout")
    assert phase.factor == pytest.approx(60.0 / fp8.rollout)


@pytest.mark.slow
def test_a_run_of_megatron_is_compared_with_the_estimate_of_its_layout(tmp_path: Path) -> None:
    """The entry of a plan has trainer and degrees, so that it is estimated as the plan is, phase by phase."""
    techniques = {"tensor_parallel": 2, "sharding": ["zero1"]}
    one = scenario(framework=["fsdp", "megatron"], techniques=techniques, work={"longest_output": 2048})
    plan = planner.solve(one, SolveOptions(as_of=date(2026, 11, 21)))
    (run,), (job,) = plan.reinforcement, one.jobs
    assert run.tensor_parallel == 2 and isinstance(job, RlJob)
    log = written(tmp_path, verl_lines(range(1, 6)))
    entry = planner.calibrate([log], scenario=one, plan=plan, options=None).measured
    assert entry["framework"] == "megatron" and entry["trainer_tensor_parallel"] == 2
    own = {"input_tokens": 300.0, "output_tokens": 600.0, "output_cv": None, "longest_output": None}
    library = read_library([job.architecture])
    measured = MeasuredRl(**{**entry, **own})
    predicted = predicted_phases(job, measured, library.architecture(job.architecture), library)
    assert predicted.by_name == pytest.approx(run.phases, rel=1e-6)


@pytest.mark.slow
def test_other_work_is_corrected_by_the_same_factors() -> None:
    """What-if changes of the work leave the factors of an observed run, which states its own work, as they are."""
    entry = "{gpu: H100-80GB, gpus: 2, sharding: zero3, rollout_seconds: 40, training_seconds: 30}"
    one = change_scenario(asked(), [f"jobs.0.measured.0={entry}"])
    (run,) = planner.solve(one, SolveOptions(as_of=date(2026, 11, 21))).reinforcement
    changed = run.changes["twice the answers to each prompt"]
    assert changed is not None
    assert changed > run.usd_per_100_steps


PREDICTED = RlPhases(50.0, 20.0, 50.0, 5.0, 10.0)


@pytest.mark.parametrize(
    ("step", "measured", "overlapped", "wanted"),
    [
        (270.0, {}, False, (2.0, 2.0, 2.0, 2.0, 2.0)),
        (None, {"rollout": 75.0}, False, (1.5, 1.0, 1.0, 1.0, 1.0)),
        (160.0, {"rollout": 75.0, "training": 50.0}, False, (1.5, 1.0, 1.0, 1.0, 1.0)),
        (195.0, {"rollout": 75.0, "training": 50.0}, False, (1.5, 2.0, 1.0, 2.0, 2.0)),
        # overlapped: 90 s of rollout are the longer side, 30 s are left for weights and the rest
        (120.0, {"rollout": 90.0, "log_probabilities": 20.0, "training": 50.0}, True, (1.8, 1.0, 1.0, 2.0, 2.0)),
        # the rollout was never waited for: no longer than the trainer
        (55.0, {"log_probabilities": 10.0, "training": 30.0}, True, (0.8, 0.5, 0.6, 1.0, 1.0)),
    ],
)
def test_phases_that_were_not_measured_share_the_rest_of_the_step(
    step: float | None, measured: dict[str, float], overlapped: bool, wanted: tuple[float, ...]
) -> None:
    found = measured_factors(PREDICTED, step, measured, overlapped)
    assert tuple(found.by_name.values()) == pytest.approx(wanted)


def test_nothing_measured_changes_nothing() -> None:
    assert PREDICTED.times(AS_ESTIMATED) == PREDICTED


@pytest.mark.long
def test_a_plan_whose_engines_work_next_to_the_trainer_is_calibrated_by_its_waits(tmp_path: Path) -> None:
    plan, one = solved("apart"), asked("apart")
    found = planner.calibrate([written(tmp_path, nemo_metrics())], scenario=one, plan=plan)
    assert found.measured["overlapped"] is True
    assert found.measured["rollout_seconds"] == 90.0
    assert "overlapped: true" in found.block


def test_bad_logs_are_one_clear_line_each(tmp_path: Path) -> None:
    steps = "step,elapsed_seconds\n" + "".join(f"{n},{20 * n}\n" for n in range(1, 9))
    bad = {
        "in which no answers are sampled": steps,
        "no key of TRL, verl or NeMo-RL is in it": "hello\n",
        "is empty": "\n",
        "that times no step": '{"step": 1, "data": {"timing_s/gen": 3.0}}\n',
        "without any step": '{"data": {"timing_s/step": 3.0, "timing_s/gen": 2.0}, "step": 0}\n',
        "but the plan has 100": verl_lines(range(99, 103)),
    }
    for words, text in bad.items():
        with pytest.raises(InputError, match=words) as found:
            planner.track(solved(), asked(), [written(tmp_path, text)])
        assert len(str(found.value).splitlines()) == 1
    two = [written(tmp_path, trl_state(), "a"), written(tmp_path, verl_lines(range(1, 3)), "b")]
    with pytest.raises(InputError, match=r"is a log of verl, .* one of TRL"):
        planner.track(solved(), asked(), two)
    with pytest.raises(InputError, match="is a log of reinforcement learning, and quickstart is another job"):
        planner.calibrate(two[1:], "H100-80GB", scenario=planner.read_scenario("quickstart"))
    with pytest.raises(InputError, match="give the plan of the run"):
        planner.calibrate([written(tmp_path, nemo_metrics())], "H100-80GB", scenario=asked())
    with pytest.raises(InputError, match="the GPU of the run is missing"):
        planner.calibrate(two[1:])


def test_what_a_log_lacks_is_said(tmp_path: Path) -> None:
    found = planner.track(solved(), asked(), [written(tmp_path, trl_state(1))])
    assert any("the log times whole steps alone" in note for note in found.notes)
    assert any("only the first step is timed" in note for note in found.notes)
    longer = "".join(verl_lines(range(n, n + 1), length=400.0 + 100.0 * n) for n in range(1, 10))
    found = planner.track(solved(), asked(), [written(tmp_path, longer.replace("timing_s/ref:8.0 - ", ""))])
    assert any("times as long at the end of the log" in note for note in found.notes)


def test_a_log_without_a_scenario_gives_the_entry_alone(tmp_path: Path) -> None:
    found = planner.calibrate([written(tmp_path, verl_lines(range(1, 4)))], "H100-80GB", 8)
    assert found.measured["rollout_seconds"] == 60.0
    assert found.before is None
    assert any("compared with nothing" in note for note in found.notes)


@pytest.mark.long
def test_calibrate_takes_the_set_up_of_a_run_from_its_plan_or_from_options(tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    saved.write_text(solved().model_dump_json())
    log = written(tmp_path, verl_lines(range(1, 4)))
    said = CliRunner().invoke(main, ["calibrate", log, "--plan", str(saved)])
    assert said.exit_code == 0, said.output
    assert said.output.startswith("math: rollout x ")
    said = CliRunner().invoke(main, ["calibrate", log, "--plan", str(saved), "--gpu", "H100"])
    assert said.exit_code == 2
    assert "--gpu is that of the plan" in said.output


# Lengths of answers from a file of a user's log.


ROWS = [400, 500, 500, 600, 4000]
LENGTH_FILES = {
    "answers.csv": "tokens\n" + "\n".join(map(str, ROWS)),
    "counted.csv": "tokens,count\n400,1\n500,2\n600,1\n4000,1",
    "usage.csv": "id,completion_tokens\n" + "\n".join(f"{n},{row}" for n, row in enumerate(ROWS)),
    "answers.jsonl": "\n".join(json.dumps({"id": n, "response_length": row}) for n, row in enumerate(ROWS)),
    "answers.txt": "\n".join(map(str, ROWS)),
}


def with_lengths(folder: Path, name: str, text: str) -> Scenario:
    """Return the small job with a file of lengths."""
    (folder / name).write_text(text)
    data = {
        **{"schema": 2, "name": "small", "offers": OFFERS},
        "jobs": [
            {
                **{"name": "math", "kind": "rl", "architecture": "qwen2.5-1.5b"},
                "work": {"steps": 100, "prompts": 32, "answers": 8, "input_tokens": 300, "lengths": name},
            }
        ],
    }
    file = folder / "scenario.json"
    file.write_text(json.dumps(data))
    return planner.read_scenario(str(file))


@pytest.mark.parametrize("name", LENGTH_FILES)
def test_a_log_of_lengths_gives_their_mean_longest_and_spread(name: str, tmp_path: Path) -> None:
    job = with_lengths(tmp_path, name, LENGTH_FILES[name]).jobs[0]
    assert isinstance(job, RlJob)
    assert (job.work.mean_output, job.work.cut_at) == (1200.0, 4000)
    assert job.work.spread == pytest.approx(float(np.std(ROWS)) / 1200.0)


def test_a_file_without_lengths_is_refused_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"a.jsonl:2: .*no length of an answer"):
        with_lengths(tmp_path, "a.jsonl", '{"tokens": 5}\n{"text": "hello"}\n')
    with pytest.raises(ScenarioError, match=r"b.jsonl:1: .*'0' is no number of tokens"):
        with_lengths(tmp_path, "b.jsonl", '{"tokens": 0}\n')
    with pytest.raises(ScenarioError, match="unknown column"):
        with_lengths(tmp_path, "c.csv", "words,count\n3,4\n")


def test_the_spread_of_cut_answers_gives_back_the_one_before_the_cut() -> None:
    for cv in (0.4, 0.8, 1.5):
        lengths = AnswerLengths(1500.0, 4096.0, cv)
        steps = (np.arange(200_000) + 0.5) * 4096.0 / 200_000
        square = float((2.0 * steps * lengths.longer_than(steps)).sum() * 4096.0 / 200_000)
        seen = math.sqrt(square / 1500.0**2 - 1.0)
        assert spread_before_cut(1500.0, 4096.0, seen) == pytest.approx(cv, rel=1e-3)


def test_a_log_that_is_cut_earlier_is_the_log_of_the_cut_answers() -> None:
    """Mean, spread and quantities of the search are those of a table with the rows cut by hand; also if all are cut."""
    rows = [(200, 5), (900, 3), (3000, 2)]
    for longest in (1000, 600, 100):
        tables = [
            [{"tokens": tokens, "count": count} for tokens, count in rows],
            [{"tokens": min(tokens, longest), "count": count} for tokens, count in rows],
        ]
        works = [
            RlWork.model_validate({"steps": 1, "input_tokens": 10, "lengths": table, "longest_output": longest})
            for table in tables
        ]
        assert works[0].mean_output == sum(min(tokens, longest) * count for tokens, count in rows) / 10
        early, by_hand = ((work.mean_output, work.cut_at, spread_of(work)) for work in works)
        assert early == by_hand
        lengths = AnswerLengths(early[0], longest, early[2])
        assert lengths.longest_of(np.asarray([8.0]))[0] <= longest
