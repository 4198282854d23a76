"""What a configuration leaves open and what cannot be: values that are filled in, divided batches, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from planner.analysis.estimate_question import estimate
from planner.errors import LibraryError, ScenarioError
from planner.report.plan_sections import batch, rate
from tests.helpers.estimate_cases import told


def test_gaps_are_filled_with_what_the_card_can_do() -> None:
    """A T4 has no bf16 and no flash attention: both are replaced, and said."""
    found = told("tinyllama-1.1b", "T4", micro_batch=1)
    assert (found.techniques.precision, found.techniques.attention) == ("fp16_mixed", "mem_efficient")
    assert {"fp16_mixed", "mem_efficient attention"} <= set(found.assumed)


def test_several_gpus_shard_as_little_as_fits() -> None:
    """A small network is copied to each GPU, a large one is sharded."""
    assert told("tinyllama-1.1b", "RTX4090", gpus=4, micro_batch=1).techniques.sharding == "ddp"
    assert told("llama-2-70b", "A100-80GB", gpus=8, micro_batch=1).techniques.sharding == "zero3"


def test_a_global_batch_is_divided() -> None:
    """The largest micro-batch that divides the batch and fits is taken; the product is the batch."""
    found = told("mistral-7b", "RTX4090", weight_bits=4, gpus=2, global_batch=96)
    how = found.techniques
    assert how.micro_batch * how.accumulation_steps * 2 == found.global_batch == 96
    larger = [size for size in range(how.micro_batch + 1, 49) if 48 % size == 0]
    same: dict[str, Any] = {"weight_bits": 4, "gpus": 2, "sharding": how.sharding}
    tried = [told("mistral-7b", "RTX4090", micro_batch=size, accumulation_steps=48 // size, **same) for size in larger]
    assert tried and not any(one.vram_gib.fits for one in tried)


def test_a_pipeline_is_fed_many_micro_batches() -> None:
    """Of the divisions of a batch the fastest is taken, not the one with the largest micro-batch."""
    how: dict[str, Any] = {
        "gpus": 64, "method": "full", "framework": "megatron", "tensor_parallel": 8, "pipeline_parallel": 8,
    }  # fmt: skip
    found = told("llama-3-70b", "H100-80GB", global_batch=64, **how)
    assert found.vram_gib.fits and found.global_batch == 64
    others = [
        told("llama-3-70b", "H100-80GB", micro_batch=size, accumulation_steps=64 // size, **how)
        for size in (1, 2, 4, 8, 16, 32, 64)
    ]
    assert found.step_seconds.total == min(one.step_seconds.total for one in others if one.vram_gib.fits)
    open_batch = told("llama-3-70b", "H100-80GB", **how)
    assert open_batch.step_seconds.parts["bubble"] < 0.15 * open_batch.step_seconds.total


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"micro_batch": 0}, "micro_batch", "out of range"),
    ({"method": "qlora"}, "method", "write method: lora with weight_bits: 4"),
    ({"method": "full", "weight_bits": 4}, "method", "cannot train quantised weights"),
    ({"weight_bits": 8, "quant": "nf4"}, "quant", "4-bit"),
    ({"gpus": 3, "instances": 2}, "gpus", "do not spread evenly"),
    ({"gpus": 4, "sharding": "none"}, "sharding", "not possible"),
    ({"sharding": "ddp"}, "sharding", "needs several GPUs"),
    ({"framework": "torchtune", "gpus": 2, "sharding": "zero2"}, "sharding", "zero3"),
    ({"framework": "unsloth", "gpus": 2}, "gpus", "one GPU"),
    ({"gpus": 2, "weight_bits": 8, "sharding": "zero3"}, "", "8-bit (LLM.int8) weights cannot be sharded"),
    ({"gpus": 2, "weight_bits": 4, "quant": "gptq", "sharding": "zero3"}, "", "GPTQ weights load whole on every card"),
    ({"framework": "torchtitan"}, "", "trains no LoRA adapters"),
    ({"tensor_parallel": 2}, "tensor_parallel", "do not fit into a machine of 1"),
    ({"gpus": 4, "pipeline_parallel": 3}, "gpus", "not a multiple of 3"),
    ({"global_batch": 30, "gpus": 4}, "global_batch", "not a multiple"),
    ({"global_batch": 8, "micro_batch": 2, "accumulation_steps": 2}, "global_batch", "such as 4"),
    ({"packing": "padded"}, "packing", "tokens_per_sample"),
    ({"resolution": 512}, "resolution", "trained on text"),
    ({"interconnect": "nvlink", "gpus": 2}, "interconnect", "has no NVLink"),
    ({"optimiser": "adamw"}, "optimiser", "did you mean optimizer?"),
    ({"lora_rank": 5000}, "lora_rank", "at most 4,096"),
    ({"lora_targets": "w_q"}, "lora_targets", "not a set of modules"),
]


@pytest.mark.parametrize(("wrong", "where", "said"), REFUSED, ids=lambda part: str(part)[:40])
def test_what_cannot_be_is_refused_with_its_reason(wrong: dict[str, Any], where: str, said: str) -> None:
    """One clear fault, at the setting it is about."""
    with pytest.raises(ScenarioError) as refused:
        told("mistral-7b", "RTX4090", **wrong)
    (fault,) = refused.value.faults
    assert fault.where == where and said in f"{fault.what}; {fault.fix}"


def test_unknown_names_are_told_together() -> None:
    """A misspelt network and a misspelt card, each with what may be meant."""
    with pytest.raises(LibraryError) as refused:
        estimate("llama-3-8", "RTX409")
    assert len(refused.value.faults) == 2
    assert all("did you mean" in fault.fix for fault in refused.value.faults)


def test_the_longest_sequence_of_images_is_refused() -> None:
    """Images have no sequence length."""
    with pytest.raises(ScenarioError, match="no sequence length"):
        told("stable-diffusion-1.5", "RTX4090", longest_sequence=True)


@pytest.mark.parametrize(
    ("network", "settings", "step"),
    [
        ("flux.1-dev", {"weight_bits": 8, "latents": "cached"}, 16),
        ("wan-2.1-1.3b", {"latents": "cached", "frames": 81}, 16),
        ("stable-diffusion-xl", {}, 64),
    ],
)
def test_the_largest_images_fit_and_larger_ones_do_not(network: str, settings: dict[str, Any], step: int) -> None:
    found = told(network, "RTX4090", micro_batch=1, **settings)
    side, most = found.largest_resolution, found.largest_micro_batch
    assert side is not None and side % step == 0 and most is not None
    fits = [told(network, "RTX4090", micro_batch=1, resolution=one, **settings) for one in (side, side + step)]
    assert [one.vram_gib.fits for one in fits] == [True, False]
    assert [told(network, "RTX4090", micro_batch=one, **settings).vram_gib.fits for one in (most, most + 1)] == [
        *(True, False)
    ]
    assert told("tinyllama-1.1b", "T4").largest_resolution is None


def test_clips_of_several_frames_are_counted_as_videos() -> None:
    video = told("wan-2.1-1.3b", "RTX4090", latents="cached", micro_batch=2)
    assert video.unit == "videos" and "= 2 videos" in batch(video) and " videos/s" in rate(video)
    assert told("wan-2.1-1.3b", "RTX4090", latents="cached", frames=1).unit == "images"
