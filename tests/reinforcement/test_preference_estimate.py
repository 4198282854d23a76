"""Preference tuning: answers joined in one pass, the reference in memory and time, faults, and its text."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import planner
from planner.cli.output import Commands
from planner.cli.run_commands import estimate as command
from planner.errors import ScenarioError
from planner.library.reading import read_library

LIBRARY = read_library(["qwen2.5-7b"])


def estimate(gpu: str = "4xA100-80GB", **given: Any) -> planner.PreferenceEstimate:
    """Return the estimate of 10,000 pairs of 256 and 256 tokens, with some settings changed."""
    return planner.estimate_preference("qwen2.5-7b", gpu, LIBRARY, **given)


def test_a_pair_is_trained_as_two_sequences_of_supervised_tuning() -> None:
    """20,000 sequences of 512 tokens at the speed of a micro-batch of two, and nothing else without a reference."""
    run = planner.estimate(
        "qwen2.5-7b", "4xA100-80GB", LIBRARY, micro_batch=2, sequence_length=256 + 1024, tokens_per_sample=512,
        packing="padded",
    )  # fmt: skip
    found = estimate(objective="orpo")
    assert found.hours.expected == pytest.approx(20_000 * 512 / run.tokens_per_second / 3600)
    assert found.peak_gib == pytest.approx(run.vram_gib.peak)
    assert (found.reference, found.reference_gib, found.shares["training"]) == ("none", 0.0, 1.0)


def test_the_reference_is_one_pass_forward_more() -> None:
    """Worked: LoRA with recomputation has three passes a step: 4/3 of the hours; KTO has three further passes: 6/3.

    What is done once a step, such as the optimizer, is not repeated: a hundredth here.
    """
    none, dpo = estimate(objective="simpo"), estimate(objective="dpo")
    assert dpo.hours.expected == pytest.approx(none.hours.expected * 4 / 3, rel=0.01)
    assert dpo.hours.expected < none.hours.expected * 4 / 3
    kto = estimate(objective="kto")
    assert kto.shares["training"] == pytest.approx(0.5, rel=0.03)


def test_full_training_holds_a_copy_unless_its_log_probabilities_are_there() -> None:
    """7.6e9 weights of 2 bytes over four GPUs are 3.55 GiB each; without shards a GPU holds all 14.2 GiB."""
    full = {"method": "full", "sharding": "zero3", "framework": "deepspeed"}
    held, computed = estimate(**full), estimate(**full, compared_with="precomputed")
    assert held.reference_gib == pytest.approx(7_615_616_512 * 2 / 4 / 2**30)
    assert held.peak_gib - computed.peak_gib == pytest.approx(held.reference_gib, rel=0.05)
    assert estimate(method="lora", compared_with="model", sharding="ddp").reference_gib == pytest.approx(
        14.185, abs=0.001
    )


def test_a_copy_has_the_type_of_the_weights_that_are_trained() -> None:
    """Under FSDP they are kept in fp32, and so is the copy that TRL loads: twice 3.55 GiB."""
    found = estimate(method="full", sharding="zero3")
    assert found.reference_gib == pytest.approx(7_615_616_512 * 4 / 4 / 2**30)


def test_a_reward_model_has_a_score_in_place_of_logits() -> None:
    reward, orpo = (estimate(objective=name).parts for name in ("reward", "orpo"))
    assert "logits" in orpo
    assert "logits" not in reward


def test_deepspeed_keeps_the_logits_of_pairs_in_16_bit() -> None:
    """Nothing casts them there: 6 bytes of a logit in DPO and KTO and 8 in ORPO, where Accelerate's autocast has 14."""
    whole: dict[str, Any] = {"method": "full", "pairs_at_once": 4, "longest_output": 4096, "gpu": "8xB200"}
    under: dict[str, Any] = {"framework": "deepspeed", "sharding": "zero3"}
    fp32 = estimate(**whole, sharding="zero3").parts["logits"]
    assert estimate(**whole, **under).parts["logits"] == pytest.approx(fp32 * 6 / 14)
    assert estimate(**whole, **under, objective="orpo").parts["logits"] == pytest.approx(fp32 * 8 / 14)
    bits_32 = estimate(**whole, **under, precision="tf32")
    assert bits_32.parts["logits"] == pytest.approx(fp32)


def test_padding_may_be_named_though_it_is_assumed() -> None:
    """The lengths that padding needs are those of prompts and answers."""
    assert estimate(packing="padded") == estimate()


def test_dollars_are_hours_times_price() -> None:
    """Four GPUs at $1.50 an hour."""
    found = estimate(usd_per_gpu_hour=1.5, pairs=50_000)
    assert found.usd is not None
    assert found.usd.expected == pytest.approx(6.0 * found.hours.expected)
    assert found.hours.expected == pytest.approx(5 * estimate().hours.expected)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"objective": "grpo"}, "objective"),
        ({"objective": "dpo", "compared_with": "none"}, "compared_with"),
        ({"objective": "orpo", "compared_with": "model"}, "compared_with"),
        ({"method": "full", "compared_with": "adapter"}, "compared_with"),
        ({"longest_output": 100}, "longest_output"),
        ({"output": 150_000}, "output"),
        ({"pairs": 0}, "pairs"),
        ({"micro_batch": 8}, "micro_batch"),
        ({"tokens_per_sample": 100}, "tokens_per_sample"),
    ],
)
def test_what_cannot_be_so_is_one_fault_with_its_mend(given: dict[str, Any], where: str) -> None:
    """One line each: place, what is wrong, what would be right."""
    with pytest.raises(ScenarioError) as caught:
        estimate(**given)
    (fault,) = caught.value.faults
    assert fault.where == where
    assert fault.fix


def run(*arguments: str) -> Result:
    """Run `planner estimate` as the command line does, faults included."""
    top = click.version_option("0")(Commands("planner", commands=[command]))
    return CliRunner().invoke(top, ["estimate", *arguments])


def test_the_command_prints_the_text_of_the_result_and_its_json() -> None:
    """The same figures in both; options have their names in faults."""
    arguments = ["qwen2.5-7b", "4xA100-80GB", "--preference", "dpo", "--method", "full"]
    shown = run(*arguments)
    assert shown.exit_code == 0
    assert shown.output == str(estimate(method="full")) + "\n"
    document = json.loads(run(*arguments, "--json").output)
    assert planner.PreferenceEstimate.model_validate(document) == estimate(method="full")
    assert "--compared-with: full training has no adapter" in run(*arguments, "--compared-with", "adapter").output
    assert "--updates does not go with --preference" in run(*arguments, "--updates", "3").output
    assert "--pairs needs --preference" in run("qwen2.5-7b", "H100", "--pairs", "8").output
