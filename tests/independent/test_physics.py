"""The estimates against the physics written a second time: configurations of every kind, plans of shipped scenarios."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.loading.scenario_file import read_scenario
from tests.helpers.costs import plan_of
from tests.helpers.frozen_data import frozen_scenarios
from tests.independent.physics import Setup, answer, read

WITHIN = 1e-5
"""Relative difference that the two may have: padded lengths are summed on another grid, all else agrees to 1e-9."""


def case(name: str, architecture: str, gpu: str, **settings: Any) -> Any:
    return pytest.param(architecture, gpu, settings, id=name)


CASES = [
    case("full bf16 on one GPU", "llama-3-8b", "A100-80GB", method="full", precision="bf16", micro_batch=4),
    case("full, mixed precision", "tinyllama-1.1b", "A100-80GB", method="full", micro_batch=2),
    case("full, true fp32", "pythia-1b", "RTX3090", method="full", precision="fp32", micro_batch=1),
    case("full, tf32", "pythia-1b", "A100-40GB", method="full", precision="tf32", micro_batch=1),
    case("full, DDP", "pythia-1.4b", "A40", gpus=4, method="full", sharding="ddp", micro_batch=2),
    case("full, ZeRO-1", "opt-1.3b", "A100-80GB", gpus=8, method="full", sharding="zero1", micro_batch=2),
    case("full, ZeRO-2", "llama-2-7b", "H100-80GB", gpus=8, method="full", sharding="zero2", accumulation_steps=4),
    case("full, ZeRO-3 of DeepSpeed", "llama-2-7b", "A100-80GB", gpus=8, method="full", sharding="zero3",
         framework="deepspeed", micro_batch=2, accumulation_steps=2),
    case("full, FSDP of two nodes", "mpt-7b", "H100-80GB", gpus=16, instances=2, method="full", sharding="zero3",
         framework="llm-foundry", micro_batch=4, network_gbps=3200),
    case("full, FSDP, network unknown", "mistral-7b", "RTX4090", gpus=8, instances=2, method="full", sharding="zero3"),
    case("full, hybrid shards", "llama-2-13b", "A100-80GB", gpus=32, instances=4, method="full", sharding="hsdp",
         framework="torchtitan", activation_checkpointing="selective", accumulation_steps=2, network_gbps=1600),
    case("full, fp8 by torchao", "llama-3.1-8b", "H100-80GB", gpus=8, method="full", sharding="zero3",
         framework="torchtitan", precision="fp8_torchao", activation_checkpointing="selective", micro_batch=1),
    case("full, fp8 by Transformer Engine", "llama-3-70b", "H100-80GB", gpus=64, instances=8, method="full",
         framework="nemo", precision="fp8_te", tensor_parallel=4, pipeline_parallel=8, sharding="zero1",
         accumulation_steps=16, network_gbps=3200),
    case("full, 8-bit Adam", "llama-2-7b", "H100-80GB", method="full", optimizer="adamw_8bit", micro_batch=2),
    case("full, 4-bit Adam", "llama-2-7b", "A100-80GB", method="full", precision="bf16", optimizer="adamw_4bit",
         micro_batch=2),
    case("full, step in the backward pass", "llama-2-7b", "A100-80GB", method="full", precision="bf16",
         framework="torchtune", optimizer="adamw_in_backward", micro_batch=2),
    case("full, step in the backward pass, sharded", "llama-3.2-3b", "A100-80GB", gpus=4, method="full",
         precision="bf16", framework="torchtune", optimizer="adamw_in_backward", sharding="zero3", micro_batch=2),
    case("full, paged step in the backward pass, checkpoints in host memory", "llama-2-7b", "RTX4090", method="full",
         precision="bf16", framework="torchtune", optimizer="adamw_8bit_paged_in_backward", micro_batch=2,
         activation_checkpointing="offloaded"),
    case("full, rounded in the forward pass", "llama-3.2-3b", "A100-80GB", gpus=4, method="full", precision="bf16_qat",
         framework="torchtune", sharding="zero3", micro_batch=2),
    case("LoRA, rounded in the forward pass, no checkpointing", "llama-3-8b", "A100-80GB", precision="bf16_mixed_qat",
         framework="torchtune", activation_checkpointing="none", micro_batch=1),
    case("full, mixed, rounded in the forward pass", "qwen3-1.7b", "H100-80GB", method="full", framework="hf",
         precision="bf16_mixed_qat", micro_batch=1),
    case("LoRA under FSDP, checkpoints in host memory", "llama-2-7b", "A100-80GB", gpus=2, method="lora",
         sharding="zero3", micro_batch=2, activation_checkpointing="offloaded"),
    case("full, 8-bit Adam, ZeRO-2", "llama-2-7b", "H100-80GB", gpus=4, method="full", optimizer="adamw_8bit",
         sharding="zero2", accumulation_steps=2),
    case("full, paged Adam, its moments away", "llama-3.1-8b", "A100-80GB", method="full", precision="bf16",
         optimizer="adamw_paged", micro_batch=8),
    case("full, paged 8-bit Adam over two GPUs", "llama-2-7b", "A100-80GB", gpus=2, method="full", sharding="ddp",
         optimizer="adamw_8bit_paged", micro_batch=1),
    case("pipeline and tensor parallel, NeMo", "llama-3-70b", "H100-80GB", gpus=64, instances=8, method="full",
         framework="nemo", tensor_parallel=4, pipeline_parallel=8, sharding="zero1", accumulation_steps=16,
         network_gbps=3200),
    case("tensor parallel with few nodes, Megatron", "gpt-neox-20b", "A100-80GB", gpus=16, instances=2, method="full",
         framework="megatron", tensor_parallel=8, sharding="zero1", accumulation_steps=4,
         activation_checkpointing="selective", network_gbps=1600),
    case("pipeline, Megatron-DeepSpeed", "bloom-176b", "A100-80GB", gpus=384, instances=48, method="full",
         framework="megatron-deepspeed", tensor_parallel=4, pipeline_parallel=12, sharding="zero1",
         accumulation_steps=32, network_gbps=800),
    case("pipeline with FSDP", "llama-3-8b", "H100-80GB", gpus=8, method="full", framework="torchtitan",
         pipeline_parallel=2, sharding="zero3", accumulation_steps=8),
    case("sequences cut over GPUs, gathered", "llama-3.1-8b", "H100-80GB", gpus=8, method="full", sharding="zero3",
         framework="torchtitan", context_parallel=4, sequence_length=65536, activation_checkpointing="full"),
    case("sequences cut over GPUs, in a ring", "llama-3.1-70b", "H100-80GB", gpus=64, instances=8, method="full",
         framework="nemo", tensor_parallel=4, pipeline_parallel=4, context_parallel=4, sharding="zero1",
         accumulation_steps=16, sequence_length=32768, network_gbps=3200),
    case("sequences cut over GPUs, by heads", "llama-3.1-8b", "H100-80GB", gpus=8, method="full", sharding="zero3",
         framework="deepspeed", context_parallel=4, sequence_length=65536, activation_checkpointing="full"),
    case("experts over GPUs, FSDP", "qwen3-30b-a3b", "H100-80GB", gpus=8, method="full", sharding="zero3",
         framework="torchtitan", expert_parallel=4),
    case("experts over GPUs, ZeRO-1", "mixtral-8x7b", "H100-80GB", gpus=16, instances=2, method="full",
         sharding="zero1", framework="megatron", expert_parallel=8, network_gbps=3200, accumulation_steps=2),
    case("experts over the network, a token to each", "qwen3-30b-a3b", "H100-80GB", gpus=32, instances=4, method="full",
         sharding="zero1", framework="megatron", expert_parallel=32, network_gbps=3200),
    case("experts over the network, a token to each node", "qwen3-30b-a3b", "H100-80GB", gpus=32, instances=4,
         method="full", sharding="zero1", framework="nemo", expert_parallel=32, network_gbps=3200),
    case("experts over all GPUs, attention over two", "qwen3-30b-a3b", "H100-80GB", gpus=8, method="full",
         sharding="zero1", framework="megatron", tensor_parallel=2, expert_parallel=8),
    case("experts over fewer GPUs than attention", "mixtral-8x7b", "H100-80GB", gpus=8, method="full",
         sharding="zero1", framework="megatron", tensor_parallel=8, expert_parallel=2),
    case("YaFSDP", "llama-2-7b", "A100-80GB", gpus=8, method="full", sharding="yafsdp"),
    case("sparse attention", "llama-3.1-8b", "H100-80GB", weight_bits=4, sequence_length=32768, attention="sparse"),
    case("FlashAttention-3", "gemma-2-2b", "H100-80GB", sequence_length=8192, attention="flash_3"),
    case("FlashAttention-4", "gemma-2-2b", "B200", sequence_length=8192, attention="flash_4"),
    case("mixture under unsloth, grouped", "qwen3-30b-a3b", "H100-80GB", weight_bits=4, framework="unsloth"),
    case("mixture in 16 bits, grouped", "qwen3-30b-a3b", "B200", framework="hf"),
    case("InternEvo", "llama-2-7b", "A100-80GB", gpus=8, method="full", framework="internevo", sharding="zero1"),
    case("compiled", "llama-3-8b", "H100-80GB", gpus=8, method="full", framework="compiled", sharding="zero3"),
    case("plain torch with FSDP", "llama-2-7b", "A100-80GB", gpus=8, method="full", framework="fsdp", sharding="zero3"),
    case("unprofiled framework", "pythia-1b", "A100-80GB", method="full", framework="unknown"),
    case("tied embedding", "gemma-2-2b", "A100-80GB", method="full", framework="hf-fused", micro_batch=2),
    case("parallel residual", "falcon-7b", "A100-80GB", micro_batch=2),
    case("LoRA without checkpoints", "llama-3.2-3b", "L40S", activation_checkpointing="none", lora_rank=32,
         lora_targets="qv", micro_batch=4, sequence_length=768),
    case("LoRA, all activations in host memory", "llama-3.2-3b", "L40S", activation_checkpointing="all_offloaded",
         micro_batch=2),
    case("QLoRA, all activations in host memory", "llama-2-7b", "A100-80GB", quant="nf4", weight_bits=4,
         activation_checkpointing="all_offloaded", micro_batch=1),
    case("DoRA", "mistral-7b", "A100-80GB", dora=True, micro_batch=2),
    case("DoRA without checkpoints on a 4-bit base", "llama-3.2-3b", "L40S", dora=True, weight_bits=4,
         lora_targets="qv", activation_checkpointing="none", micro_batch=2),
    case("adapters at the head", "llama-2-7b", "A100-80GB", framework="torchtune", adapt_head=True, micro_batch=2),
    case("pure fp16 without scaling", "pythia-1.4b", "RTX3090", method="full", precision="fp16_unscaled",
         optimizer="adamw_8bit", micro_batch=1),
    case("LoRA, selective", "llama-2-13b", "A100-80GB", activation_checkpointing="selective", micro_batch=2),
    case("LoRA, eager attention on a T4", "tinyllama-1.1b", "T4", attention="eager", lora_targets="attention",
         micro_batch=2, sequence_length=2048),
    case("LoRA, FSDP", "llama-2-70b", "A100-80GB", gpus=8, sharding="zero3", micro_batch=1, accumulation_steps=4),
    case("LoRA, sliding window", "mistral-7b", "H200", micro_batch=1, sequence_length=16384),
    case("LoRA, 8-bit Adam", "mistral-7b", "A40", optimizer="adamw_8bit", micro_batch=2),
    case("LoRA, bf16 adapters", "llama-2-7b", "A100-40GB", framework="torchtune", micro_batch=1),
    case("LoRA, litgpt with FSDP loads whole", "llama-2-7b", "A100-40GB", gpus=4, framework="litgpt", sharding="zero3",
         accumulation_steps=4),
    case("QLoRA nf4", "qwen2.5-7b", "RTX3090", weight_bits=4, micro_batch=2, sequence_length=1024),
    case("QLoRA, double quantisation, FSDP", "llama-2-70b", "A100-80GB", gpus=2, sharding="zero3", quant="nf4_dq",
         lora_targets="attention", micro_batch=2, sequence_length=4096),
    case("QLoRA GPTQ on a T4", "tinyllama-1.1b", "T4", quant="gptq", micro_batch=2),
    case("QLoRA, litgpt without checkpoints", "llama-2-7b", "A100-40GB", quant="nf4", framework="litgpt",
         activation_checkpointing="none"),
    case("LoRA, 8 bit", "llama-2-13b", "RTX4090", weight_bits=8, micro_batch=1),
    case("Unsloth, offloaded checkpoints", "llama-3.1-8b", "RTX4090", weight_bits=4, framework="unsloth",
         activation_checkpointing="full", micro_batch=2),
    case("mixture of experts, QLoRA", "mixtral-8x7b", "A100-80GB", weight_bits=4, micro_batch=1),
    case("mixture of experts, QLoRA with experts in 16 bits", "mixtral-8x7b", "H200", weight_bits=4, lora_targets="qv",
         experts_16_bit=True, micro_batch=1),
    case("padded batches", "qwen2.5-7b", "A5000", packing="padded", tokens_per_sample=400, micro_batch=8,
         sequence_length=2048),
    case("fixed lengths", "llama-3-8b", "A100-80GB", packing="fixed", tokens_per_sample=700, micro_batch=4),
    case("DPO with the adapter switched off", "llama-3.1-8b", "A100-80GB", tuning="dpo", packing="padded",
         tokens_per_sample=1400, micro_batch=2, sequence_length=2048),
    case("DPO with a copy over four GPUs", "qwen2.5-7b", "A100-80GB", gpus=4, tuning="dpo", method="full",
         framework="deepspeed", sharding="zero3", packing="padded", tokens_per_sample=1200, micro_batch=4,
         sequence_length=2048),
    case("DPO with a copy, end to end", "qwen2.5-7b", "A100-80GB", gpus=4, tuning="dpo", method="full",
         framework="deepspeed", sharding="zero3", packing="padding_free", tokens_per_sample=1200, micro_batch=4,
         sequence_length=2048),
    case("DPO with a copy in host memory", "llama-2-7b", "H100-80GB", gpus=8, tuning="dpo", method="full",
         sharding="zero3", reference="offloaded_model", packing="padded", tokens_per_sample=1200, micro_batch=1,
         sequence_length=2048),
    case("DPO with precomputed log-probabilities", "llama-2-7b", "H100-80GB", gpus=8, tuning="dpo", method="full",
         sharding="zero3", reference="precomputed", packing="fixed", tokens_per_sample=1200, sequence_length=1024),
    case("DPO over tensor parallel GPUs", "qwen2.5-7b", "A100-80GB", gpus=4, tuning="dpo", method="full",
         framework="nemo", tensor_parallel=4, packing="fixed", tokens_per_sample=8192, sequence_length=4096),
    case("KTO", "mistral-7b", "H100-80GB", tuning="kto", weight_bits=4, packing="padded", tokens_per_sample=600,
         micro_batch=4, sequence_length=2048),
    case("ORPO under unsloth", "llama-3.1-8b", "A100-80GB", tuning="orpo", framework="unsloth", packing="padded",
         tokens_per_sample=1200, micro_batch=2, sequence_length=2048),
    case("SimPO under DeepSpeed", "qwen2.5-3b", "A100-80GB", gpus=2, tuning="simpo", method="full",
         framework="deepspeed", sharding="zero2", packing="padded", tokens_per_sample=1200, micro_batch=4,
         sequence_length=2048),
    case("a reward model", "llama-3.1-8b", "A100-80GB", tuning="reward", packing="padded", tokens_per_sample=1200,
         micro_batch=2, sequence_length=2048, activation_checkpointing="none"),
    case("distillation from a model ten times as large", "qwen2.5-7b", "H100-80GB", gpus=8, tuning="distill",
         teacher="qwen2.5-72b", sharding="zero3", packing="padded", tokens_per_sample=700, sequence_length=2048),
    case("diffusion", "stable-diffusion-1.5", "RTX3090", micro_batch=2),
    case("V100 with fp16", "llama-2-7b", "V100-16GB", gpus=8, weight_bits=4, sharding="ddp", interconnect="nvlink"),
    case("headroom of its own", "mistral-7b", "A5000", weight_bits=4, vram_headroom=0.15),
]  # fmt: skip

SCENARIOS = [
    *("article-70b-measured", "budget-bound", "fee-egress", "llama-2-70b-2t", "no-4-bit", "padded-chat"),
    *("pretrain-1b", "quickstart", "rtx3060-only", "sensitivity-size", "seven-b-billion-tokens"),
    *("stable-diffusion-lora", "stage-checkpoints", "stage-load-quantised", "three-jobs-one-budget", "v100-no-bf16"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("llama-2-70b-lora", "llama-2-7b-full-vs-lora", "spot-heavy", "thirteen-b-tight-deadline")
    ),
]
"""Shipped scenarios whose plans (22) differ in architecture, GPU, method, sharding or packing."""


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "gpu", "settings"), CASES)
def test_estimate_agrees_with_the_second_physics(architecture: str, gpu: str, settings: dict[str, Any]) -> None:
    """One configuration of each kind: methods, precisions, shards, parallel degrees, frameworks, kernels, cards."""
    found = planner.estimate(architecture, gpu, **settings)
    setup = Setup(
        architecture, found.gpu, found.gpus, found.gpus_per_instance, found.interconnect, found.network_gbps,
        found.profile, found.techniques.model_dump(), found.sequence_length, found.packing,
        settings.get("tokens_per_sample", 0.0), headroom=settings.get("vram_headroom"),
        teacher=settings.get("teacher", ""),
    )  # fmt: skip
    mine = answer(setup)
    assert found.vram_gib.usable == pytest.approx(read(f"gpus/{found.gpu}.yaml")["usable_gib"])
    assert found.vram_gib.peak == pytest.approx(mine.need_gib, rel=WITHIN)
    assert found.vram_gib.allocated == pytest.approx(mine.allocated_gib, rel=WITHIN)
    assert found.vram_gib.fit_probability == pytest.approx(mine.fit_probability, abs=1e-6)
    assert found.step_seconds.total == pytest.approx(mine.step_seconds, rel=WITHIN)
    assert found.tokens_per_second == pytest.approx(mine.units_per_second, rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "settings"),
    [
        (1, {"framework": "deepspeed", "offload": "optimizer"}),
        (8, {"framework": "deepspeed", "offload": "optimizer", "sharding": "zero1"}),
        (8, {"framework": "hf", "offload": "optimizer", "sharding": "zero2", "accumulation_steps": 4}),
        (8, {"framework": "deepspeed", "offload": "optimizer", "sharding": "zero3"}),
        (8, {"framework": "fsdp", "offload": "optimizer_and_weights", "sharding": "zero3"}),
        (2, {"framework": "torchtune", "offload": "optimizer_and_weights", "sharding": "zero3", "precision": "bf16"}),
    ],
)
def test_memory_of_offloaded_states_agrees_with_the_second_physics(gpus: int, settings: dict[str, Any]) -> None:
    """What stays on the GPU where optimizer, gradients or all states lie in host memory."""
    found = planner.estimate(
        "llama-2-7b", "A100-80GB", gpus=gpus, method="full", micro_batch=1, ram_gb=1000, **settings
    )
    setup = Setup(
        "llama-2-7b", found.gpu, found.gpus, found.gpus_per_instance, found.interconnect, found.network_gbps,
        found.profile, found.techniques.model_dump(), found.sequence_length,
    )  # fmt: skip
    mine = answer(setup)
    assert found.vram_gib.peak == pytest.approx(mine.need_gib, rel=WITHIN)
    assert found.vram_gib.allocated == pytest.approx(mine.allocated_gib, rel=WITHIN)


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_plan_of_a_shipped_scenario_agrees_with_the_second_physics(name: str) -> None:
    """What the search chose, and what it says of it, from the scenario's words to GiB and tokens per second."""
    plan, scenario = plan_of(name), read_scenario(frozen_scenarios()[name])
    network = {label: offer.network_gbps for label, offer in scenario.labelled_offers()}
    assert plan.jobs
    for job, found in zip(scenario.jobs, plan.jobs, strict=True):
        setup = Setup(
            found.architecture, found.gpu, found.gpus, found.gpus_per_instance, found.interconnect,
            network[found.offer], found.framework, found.techniques.model_dump(), found.sequence_length, found.packing,
            job.work.tokens_per_sample or 0.0, job.length_cv, scenario.limits.vram_headroom,
        )  # fmt: skip
        mine = answer(setup)
        assert found.vram_gib.peak == pytest.approx(mine.need_gib, rel=WITHIN)
        assert found.vram_gib.allocated == pytest.approx(mine.allocated_gib, rel=WITHIN)
        if found.observed_hours is None:  # hours that were observed stand for speed, too
            assert found.step_seconds == pytest.approx(mine.step_seconds / job.efficiency, rel=WITHIN)
            speed = mine.units_per_second * job.efficiency
            # The last step of a plan may be filled in part.
            assert speed * (1 - 1 / found.steps - WITHIN) < found.tokens_per_second < speed * (1 + WITHIN)
