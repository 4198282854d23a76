"""The estimate of reinforcement learning: parts that add up, roles with their memory, faults, and its text."""

from __future__ import annotations

import json
import math
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import planner
from planner.cli.output import Commands
from planner.cli.run_commands import estimate as command
from planner.configurations.grid import network_of
from planner.errors import ScenarioError
from planner.library.reading import read_library

LIBRARY = read_library(["qwen2.5-7b", "llama-3.1-70b", "qwen2.5-1.5b", "qwen3-30b-a3b"])


def run(*arguments: str) -> Result:
    """Run `planner estimate` as the command line does, faults included."""
    top = click.version_option("0")(Commands("planner", commands=[command]))
    return CliRunner().invoke(top, ["estimate", *arguments])


def estimate(gpu: str = "8xH100", model: str = "qwen2.5-7b", **given: Any) -> planner.RlEstimate:
    """Return the estimate of answers of 1,500 tokens, at most 8,192, with some settings changed."""
    settings = {"output": 1500, "longest_output": 8192, **given}
    return planner.estimate_rl(model, gpu, LIBRARY, **settings)


def test_phases_sum_to_the_step_and_steps_to_hours_and_dollars() -> None:
    """Worked: at $2 per GPU-hour eight GPUs cost 16 * seconds / 3600 a step, 100 steps a hundred times that."""
    found = estimate(usd_per_gpu_hour=2.0, steps=250)
    step = found.step_seconds.expected
    assert sum(found.phases.values()) == pytest.approx(step)
    assert found.hours.expected == pytest.approx(step * 250 / 3600)
    assert found.usd_per_100_steps is not None
    assert found.usd_per_100_steps.expected == pytest.approx(16.0 * step / 36.0)


def test_small_models_have_fewer_fixed_seconds_and_a_wider_range() -> None:
    """10 s from 7B on; of 1.54e9 parameters 10 * sqrt(1.54 / 7) = 4.7 s, which may be twice as many or half of them."""
    large, small = estimate(), estimate(model="qwen2.5-1.5b")
    assert large.phases["fixed"] == 10.0
    assert small.phases["fixed"] == pytest.approx(4.7, abs=0.05)
    share = small.phases["fixed"] / small.step_seconds.expected
    assert large.sigma == 0.3 < small.sigma == pytest.approx(math.hypot(0.3, math.log(2.0) * share))


def test_scoring_is_a_quarter_of_training_with_recomputation_for_each_network() -> None:
    """Policy and reference each pass forward once; a step with recomputation has four passes."""
    two, one = estimate(), estimate(reference=False)
    assert two.phases["log_probabilities"] == pytest.approx(two.phases["training"] / 2)
    assert one.phases["log_probabilities"] == pytest.approx(one.phases["training"] / 4)


@pytest.mark.parametrize("longest", [2048, 8192])
def test_longer_answers_of_the_same_mean_make_no_step_faster(longest: int) -> None:
    """A longer cut changes what memory a micro-batch needs, not how many tokens of usual answers it has."""
    found = estimate("4xL40S", longest_output=longest)
    (longer,) = (seconds for what, seconds in found.changes.items() if what.startswith("answers up to"))
    assert longer >= found.step_seconds.expected
    assert all(seconds >= found.step_seconds.expected for seconds in found.changes.values())


def test_dapo_samples_three_answers_for_each_that_it_trains_on() -> None:
    """1,024 answers are trained on; the filter costs rollout alone, and there is no reference."""
    dapo, grpo = estimate(algorithm="dapo"), estimate(reference=False)
    assert (dapo.sequences, dapo.sampled) == (1024, 3072)
    assert dapo.phases["rollout"] > grpo.phases["rollout"]
    assert dapo.phases["training"] == pytest.approx(grpo.phases["training"])


def test_a_reference_and_a_critic_take_memory_of_the_trainer() -> None:
    """The reference shards 15.2 GB over eight GPUs: 1.77 GiB; an adapter is switched off in place of one."""
    training = {phase.phase: phase for phase in estimate().memory}["training"]
    assert training.parts["reference"] == pytest.approx(7_615_616_512 * 2 / 8 / 2**30)
    assert training.peak == pytest.approx(sum(training.parts.values()), rel=1e-6)
    lora = {phase.phase: phase for phase in estimate(method="lora").memory}["training"]
    assert "reference" not in lora.parts
    critic = {phase.phase: phase for phase in estimate(algorithm="ppo").memory}["training"]
    states = sum(critic.parts.get(name, 0.0) for name in ("weights", "optimizer", "gradients"))
    assert critic.parts["critic"] == pytest.approx(states)


def test_the_engine_is_the_one_whose_rollout_is_the_fastest() -> None:
    """No other number of GPUs that holds the model samples faster."""
    found = estimate()
    for gpus in (1, 2, 4):
        assert estimate(rollout_parallel=gpus).phases["rollout"] >= found.phases["rollout"] * 0.999
    assert estimate(rollout_parallel=found.gpus_per_engine).phases == found.phases


def test_fp8_engines_hold_about_half_of_the_weights_and_sample_faster() -> None:
    """Embeddings and head stay in 16 bits; new weights cross in 16 bits and are cast, and training does not change."""
    plain, fp8 = estimate(rollout_parallel=1), estimate(rollout_parallel=1, rollout_weight_bits=8)
    weights = [next(phase for phase in found.memory if phase.phase == "rollout").parts for found in (plain, fp8)]
    assert 0.5 < weights[1]["weights"] / weights[0]["weights"] < 0.62
    assert 0.6 < fp8.phases["rollout"] / plain.phases["rollout"] < 0.95
    assert {**fp8.phases, "rollout": 0.0} == {**plain.phases, "rollout": 0.0}
    assert "with fp8 weights" in str(fp8) and "importance sampling" in " ".join(str(fp8).split())
    with pytest.raises(ScenarioError, match="A100-80GB has no kernels for fp8"):
        estimate("8xA100-80GB", rollout_weight_bits=8)


def test_a_reference_is_cut_like_the_trainers_weights() -> None:
    """Worked: 15.2 GB are 14.2 GiB; over four GPUs of a layer 3.55 GiB, also where nothing else is sharded."""
    cut = estimate(framework="megatron", tensor_parallel=4, sharding="zero1")
    assert {phase.phase: phase for phase in cut.memory}["training"].parts["reference"] == pytest.approx(3.546, abs=1e-3)


def test_the_experts_of_a_reference_are_spread_like_those_of_the_trainer() -> None:
    """Worked: each of eight GPUs has an eighth of the experts, and the rest of the network whole."""
    mixture = LIBRARY.architecture("qwen3-30b-a3b")
    network = network_of(mixture)
    held = network.parameters - 7 / 8 * network.expert_parameters
    given = estimate("8xH200", "qwen3-30b-a3b", framework="megatron", expert_parallel=8)
    parts = {phase.phase: phase for phase in given.memory}["training"].parts
    assert parts["reference"] == pytest.approx(2 * held / 2**30, rel=1e-6)
    assert parts["reference"] == pytest.approx(parts["weights"], rel=1e-6), "both are copies in 16 bits, cut alike"


def test_a_step_of_megatron_has_the_memory_of_its_layout() -> None:
    """Worked, 2 x 4 GPUs of layers on two ranks: W = 2P/4, gradients 4P/4, states 12P/4 on both ranks: half each."""
    given = estimate("8xH100", framework="megatron", tensor_parallel=4)
    parts = {phase.phase: phase for phase in given.memory}["training"].parts
    each = LIBRARY.architecture("qwen2.5-7b").parameters / 4 / 2**30
    wanted = {"weights": 2 * each, "gradients": 4 * each, "optimizer": 12 * each / 2, "reference": 2 * each}
    assert {name: parts[name] for name in wanted} == pytest.approx(wanted, rel=1e-3)
    assert "trainer: megatron, tensor parallel 4; answers are divided among 2 x 4 GPUs" in given.notes


def test_log_probabilities_follow_the_layout_of_the_trainer() -> None:
    """One formula: a quarter of training with recomputation for each pass, at every layout."""
    for layout in ({}, {"tensor_parallel": 4}, {"pipeline_parallel": 4}, {"context_parallel": 2}):
        phases = estimate("8xH100", framework="megatron", **layout).phases
        assert phases["log_probabilities"] == pytest.approx(2 * phases["training"] / 4)


def test_more_updates_take_more_optimizer_steps() -> None:
    """Sixteen optimizer steps for the same answers are slower than one."""
    assert estimate(updates=16).phases["training"] > estimate().phases["training"]


def test_a_mixture_is_less_sure_than_a_dense_model() -> None:
    """The spread of the trainer enters that of the step, and its notes are shown."""
    found = planner.estimate_rl("qwen3-30b-a3b", "16xH100", output=1000, method="full")
    assert found.sigma > estimate().sigma
    assert any("mixture" in note for note in found.notes)


def test_other_ways_divide_as_many_gpus_and_the_fastest_comes_first() -> None:
    """Each is what asking for it finds."""
    found = estimate()
    seconds = [way.step_seconds for way in found.ways]
    assert found.ways and seconds == sorted(seconds)
    for way in found.ways:
        assert way.training_gpus + way.rollout_gpus == 8
        asked = estimate("H100", gpus=way.training_gpus, rollout_gpus=way.rollout_gpus, overlap=True)
        assert asked.step_seconds.expected == pytest.approx(way.step_seconds)
        assert (asked.idle, asked.idle_share) == (way.idle, pytest.approx(way.idle_share))


def test_a_network_that_does_not_fit_is_an_answer() -> None:
    """70B in full on eight H100 lacks memory for training; the engine takes several GPUs."""
    found = estimate(model="llama-3.1-70b")
    assert found.gpus_per_engine > 1
    assert not found.fits
    assert "! training does not fit" in str(found)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"algorithm": "pop"}, "algorithm"),
        ({"overlap": True}, "overlap"),
        ({"rollout_gpu": "L4"}, "rollout_gpu"),
        ({"longest_output": 100}, "longest_output"),
        ({"longest_output": 200_000}, "longest_output"),
        ({"rollout_parallel": 3}, "rollout_parallel"),
        ({"rollout_weight_bits": 4}, "rollout_weight_bits"),
        ({"prompts": 1, "answers": 2, "updates": 3}, "updates"),
        ({"answers": 1}, "answers"),
        ({"algorithm": "rloo", "answers": 1}, "answers"),
        ({"input": -1}, "input"),
        ({"stepz": 3}, "stepz"),
        ({"output": 0.1, "longest_output": None}, "output"),
        ({"global_batch": 64}, "global_batch"),
        ({"rollout_usd_per_gpu_hour": 2.0}, "rollout_usd_per_gpu_hour"),
        ({"tensor_parallel": 2}, "tensor_parallel"),
    ],
)
def test_what_cannot_be_so_is_one_fault_with_its_mend(given: dict[str, Any], where: str) -> None:
    """One line each: place, what is wrong, what would be right."""
    with pytest.raises(ScenarioError) as caught:
        estimate(**given)
    (fault,) = caught.value.faults
    assert fault.where == where
    assert fault.fix


def test_a_trainer_without_adapters_names_one_of_policies_that_has_them() -> None:
    """The first trainer of supervised training that has them trains no policies."""
    with pytest.raises(ScenarioError) as caught:
        estimate(framework="megatron", method="lora")
    assert caught.value.faults[0].fix == "framework fsdp would work"


def test_the_command_prints_the_text_of_the_result_and_its_json() -> None:
    """The same figures in both; what belongs to other estimates is refused."""
    arguments = ["qwen2.5-7b", "8xH100", "--rl", "grpo", "--output", "1500", "--longest-output", "8192"]
    shown = run(*arguments)
    assert shown.exit_code == 0
    assert "s per step, 100 steps" in shown.output.splitlines()[0]
    document = json.loads(run(*arguments, "--json").output)
    assert document["longest_output"] == 8192
    assert planner.RlEstimate.model_validate(document).phases == estimate().phases
    for wrong, said in (
        (
            ["--sequence-length", "4096"],
            "--sequence-length: follows from the lengths of prompts and answers; leave it out",
        ),
        (["--inference"], "--inference does not go with --rl"),
    ):
        refused = run(*arguments, *wrong)
        assert refused.exit_code == 2
        assert said in refused.output
    assert "--prompts needs --rl" in run("qwen2.5-7b", "H100", "--prompts", "8").output
