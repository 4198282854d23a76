"""Sequences and experts cut over GPUs: where they are tried, what they save, what they cost, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import planner
from planner.configurations.recipe import (
    GpuClass,
    Recipe,
    enumerate_recipes,
    expand_parallel_degrees,
    find_incompatibility,
)
from planner.errors import ScenarioError
from planner.estimates.inputs import Layout
from planner.library.reading import read_library
from planner.scenario.job import Job

LIBRARY = read_library(["llama-3.1-8b", "qwen3-30b-a3b"])
H100 = GpuClass.of(LIBRARY.gpu("H100-80GB"))


def job(architecture: str = "llama-3.1-8b", **changes: Any) -> Job:
    """A pretraining job, which torchtitan may do."""
    return Job(name="j", architecture=architecture, work={"steps": 1}, kind="pretrain", **changes)


def degrees(one: Job, several: bool = True) -> set[tuple[str, int, int]]:
    """Framework, context and expert degree of what is tried where nothing is said."""
    recipes = enumerate_recipes(one, H100, several, LIBRARY)
    return {(recipe.framework, recipe.context_parallel, recipe.expert_parallel) for recipe in recipes}


def test_sequences_are_cut_over_gpus_by_default_where_they_are_long_and_the_framework_can() -> None:
    """From 16,384 tokens on, by Transformers and torchtitan; Liger and LitGPT have no such thing."""
    assert {cp for _, cp, _ in degrees(job(sequence_length=8192))} == {1}
    assert {cp for _, cp, _ in degrees(job(sequence_length=65536), several=False)} == {1}
    long = degrees(job(sequence_length=65536))
    assert {name for name, cp, _ in long if cp > 1} == {"hf", "torchtitan"}
    assert {cp for name, cp, _ in long if name == "torchtitan"} == {1, 2, 4, 8}


def test_shorter_sequences_are_cut_only_where_nothing_else_fits() -> None:
    """From 8,192 tokens on, and on fully sharded weights where Accelerate asks for them."""

    def opened(sequence: int) -> list[Recipe]:
        one = job(sequence_length=sequence, framework="hf")
        recipes = [recipe for recipe in enumerate_recipes(one, H100, True, LIBRARY) if recipe.precision == "bf16_mixed"]
        more = expand_parallel_degrees(one, recipes, H100, LIBRARY)
        return [recipe for recipe in more if recipe.context_parallel > 1]

    assert opened(4096) == opened(65536) == []  # the latter has them already
    assert {recipe.sharding for recipe in opened(8192)} == {"zero3"}


@pytest.mark.parametrize("gpu", ["H100-80GB", "MI300X", "TPU-v6e"])
def test_degrees_that_do_not_work_together_with_the_rest_are_not_opened(gpu: str) -> None:
    """Pipelines of MaxText are unmeasured: a plan had one where full training on TPUs fitted no other way."""
    card = GpuClass.of(LIBRARY.gpu(gpu))
    wanted = job(sequence_length=8192, framework=[*LIBRARY.techniques.frameworks])
    opened = expand_parallel_degrees(wanted, enumerate_recipes(wanted, card, True, LIBRARY), card, LIBRARY)
    assert any(recipe.tensor_parallel * recipe.pipeline_parallel > 1 for recipe in opened)
    assert not {reason for recipe in opened if (reason := find_incompatibility(recipe, card, LIBRARY))}
    assert not [recipe for recipe in opened if recipe.framework == "maxtext" and recipe.pipeline_parallel > 1]


def test_experts_are_spread_by_default_over_gpus_where_the_framework_can() -> None:
    """128 experts of a mixture, never a dense network."""
    assert {ep for _, _, ep in degrees(job())} == {1}
    assert {(name, ep) for name, _, ep in degrees(job("qwen3-30b-a3b")) if ep > 1} == {
        ("torchtitan", 2), ("torchtitan", 4), ("torchtitan", 8),
    }  # fmt: skip


def told(architecture: str = "llama-3.1-8b", **changes: Any) -> Any:
    """An estimate on eight H100 under torchtitan."""
    common = {"gpus": 8, "framework": "torchtitan", "method": "full", "sharding": "zero3", "micro_batch": 1}
    return planner.estimate(architecture, "H100-80GB", **(common | changes))


def test_speed_of_65536_tokens_over_two_gpus_is_that_of_torchtitan() -> None:
    """Its table of long contexts (benchmarks/llama3_h100, fp8): 2,540 tokens/s per GPU."""
    found = told(precision="fp8_torchao", activation_checkpointing="full", context_parallel=2, sequence_length=65536)
    assert found.tokens_per_second / 8 == pytest.approx(2540, rel=0.05)
    assert found.global_batch == 4


def test_seconds_of_gathered_keys_by_hand() -> None:
    """Of 65,536 tokens 3/4: 4,096 B of keys and values each in 32 layers, four times at 0.754 of 450 GB/s."""
    found = told(activation_checkpointing="full", context_parallel=4, sequence_length=65536)
    one = told(activation_checkpointing="full", context_parallel=4, sequence_length=65536, interconnect="pcie")
    by_hand = 0.75 * 65536 * 4096 * 32 * 4 / (0.754 * 450e9)
    assert found.step_seconds.parts["context_parallel"] == pytest.approx(by_hand, rel=0.01)
    assert one.step_seconds.parts["context_parallel"] > 3 * by_hand


def test_weights_of_spread_experts_by_hand() -> None:
    """Of 30.5e9 weights 29.0e9 are experts: 2 bytes of 1.5e9 + 29.0e9 / 8 on each GPU under ZeRO-1 of Megatron."""
    found = told("qwen3-30b-a3b", framework="megatron", sharding="zero1", expert_parallel=8)
    network = LIBRARY.architecture("qwen3-30b-a3b")
    experts = 48 * 128 * 3 * 2048 * 768
    by_hand = 2 * (network.parameters - experts * 7 / 8)
    assert found.vram_gib.parts["weights"] == pytest.approx(by_hand / 2**30, rel=0.001)


def test_experts_over_all_gpus_with_attention_over_two_by_hand() -> None:
    """TP 2 and EP 8 on eight GPUs: 16 experts whole on each, and half of the 1.5e9 other weights (Megatron, ETP 1).

    2 bytes of 1.54e9 / 2 + 28.99e9 / 8 are 8.2 GiB; the optimizer's 12 bytes of 30.5e9 lie over all eight: 42.7 GiB.
    A rank sends half of the 4,096 tokens to 8 experts each, and attention alone is gathered.
    """
    common = {"framework": "megatron", "sharding": "zero1", "sequence_length": 4096, "expert_parallel": 8}
    found = told("qwen3-30b-a3b", **common, tensor_parallel=2)
    plain = told("qwen3-30b-a3b", **common)
    network = LIBRARY.architecture("qwen3-30b-a3b")
    experts = 48 * 128 * 3 * 2048 * 768
    by_hand = 2 * ((network.parameters - experts) / 2 + experts / 8)
    assert found.vram_gib.parts["weights"] == pytest.approx(by_hand / 2**30, rel=0.001)
    assert found.vram_gib.parts["weights"] == pytest.approx(8.2, abs=0.05)
    assert found.vram_gib.parts["optimizer"] == pytest.approx(12 * network.parameters / 8 / 2**30, rel=0.001)
    parts = (one.step_seconds.parts["expert_parallel"] for one in (found, plain))
    assert next(parts) == pytest.approx(next(parts) / 2)
    assert any("expert tensor parallelism to 1" in note for note in found.notes)
    assert not any("expert tensor parallelism" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("tensor", "pipeline", "expert", "gpus", "divides", "own_tensor"),
    [
        (2, 1, 8, 8, True, 1),
        (2, 1, 8, 16, True, 2),
        (2, 1, 16, 8, False, 1),
        (4, 2, 4, 16, True, 1),
        (8, 1, 2, 8, True, 1),
        (1, 1, 8, 12, False, 1),
        (4, 1, 2, 8, True, 4),
    ],
)
def test_megatron_needs_ep_times_etp_to_divide_the_gpus_of_a_stage(
    tensor: int, pipeline: int, expert: int, gpus: int, divides: bool, own_tensor: int
) -> None:
    """The degree of tensor parallelism of experts is that of the rest where it can be, else 1."""
    layout = Layout(1, 1, 1, 1, gpus, 8, tensor, pipeline, expert=expert)
    assert (bool(layout.divides_experts), int(layout.expert_tensor)) == (divides, own_tensor)


@pytest.mark.parametrize("degree", [2, 4, 8])
@pytest.mark.parametrize("kind", ["expert_parallel", "context_parallel"])
def test_spreading_takes_less_memory_at_the_same_batch(degree: int, kind: str) -> None:
    """Parts of a sequence, or of the experts: what the exchange holds is less than what it saves."""
    name = "qwen3-30b-a3b" if kind == "expert_parallel" else "llama-3.1-8b"
    common = {"framework": "nemo", "sharding": "zero1", "sequence_length": 32768, "activation_checkpointing": "full"}
    alone, spread = told(name, **common), told(name, **common, **{kind: degree})
    assert spread.vram_gib.allocated < alone.vram_gib.allocated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert_parallel": 2}, "has no experts"),
        ({"architecture": "qwen3-30b-a3b", "expert_parallel": 3}, "do not divide by 3"),
        ({"architecture": "qwen3-30b-a3b", "expert_parallel": 16}, "128 experts on 8 GPUs do not divide by 16"),
        ({"context_parallel": 3}, "not a multiple of 3"),
        ({"context_parallel": 2, "framework": "litgpt"}, "no context parallelism here"),
        ({"context_parallel": 2, "framework": "hf", "sharding": "ddp"}, "works on FSDP"),
    ],
)
def test_degrees_that_cannot_be_are_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    """Counts that do not divide, networks without experts, frameworks without the technique."""
    with pytest.raises(ScenarioError, match=message):
        told(**changes)


def test_a_recipe_of_an_earlier_plan_has_neither() -> None:
    """The defaults are those of plans that were written before."""
    recipe = next(iter(enumerate_recipes(job(), H100, True, LIBRARY)))
    assert replace(recipe).context_parallel == replace(recipe).expert_parallel == 1
