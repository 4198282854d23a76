"""Published runs in the words of `estimate`: what of the golden tables one configuration can say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from planner.analysis.estimate_question import estimate
from planner.documents.files import read_document
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.results.run_results import Estimate

GOLDEN = Path(__file__).parents[1] / "estimates"
FSDP_QLORA = ["q", "k", "v", "gate", "up", "down"]


@cache
def library() -> Library:
    """Everything under models/, read once."""
    return read_library()


@cache
def golden(name: str) -> Any:
    """The cases of a golden table, by id."""
    cases = read_document(GOLDEN / name / f"golden_{name}.yaml").data["cases"]
    return cases if isinstance(cases, dict) else {case["id"]: case for case in cases}


def told(architecture: str, gpu: str, **settings: Any) -> Estimate:
    """The estimate of a configuration, from the shared library."""
    limits = {key: settings.pop(key) for key in ("largest_batch", "longest_sequence") if key in settings}
    return estimate(architecture, gpu, library(), **limits, **settings)


def run(architecture: str, gpu: str, **settings: Any) -> tuple[str, str, dict[str, Any]]:
    """A configuration, not yet estimated."""
    return architecture, gpu, settings


MEMORY = {
    "1 Llama-3-8B full": run(
        "llama-3-8b", "A100-80GB", method="full", precision="bf16", framework="hf-fused",
        micro_batch=4, sequence_length=4096,
    ),
    "2 Mistral-7B full FSDP": run(
        "mistral-7b", "A100-80GB", gpus=4, method="full", sharding="zero3", framework="hf-fused",
        micro_batch=4, sequence_length=4096,
    ),
    "3 Mistral-7B full FSDP Liger": run(
        "mistral-7b", "A100-80GB", gpus=4, method="full", sharding="zero3", framework="hf-fused",
        micro_batch=16, sequence_length=4096,
    ),
    "6b Llama-2-70B QLoRA FSDP": run(
        "llama-2-70b", "A100-80GB", gpus=2, sharding="zero3", quant="nf4_dq", lora_targets="attention",
        micro_batch=2, sequence_length=4096,
    ),
    "7 TinyLlama QLoRA": run(
        "tinyllama-1.1b", "T4", quant="nf4", lora_rank=32, lora_targets="attention",
        micro_batch=12, sequence_length=1024,
    ),
    "8a TinyLlama LoRA eager": run(
        "tinyllama-1.1b", "T4", lora_rank=32, lora_targets="attention", attention="eager",
        micro_batch=2, sequence_length=2048,
    ),
    "8b TinyLlama LoRA sdpa": run(
        "tinyllama-1.1b", "T4", lora_rank=32, lora_targets="attention", micro_batch=2, sequence_length=2048
    ),
    "9 Qwen2.5-7B QLoRA": run(
        "qwen2.5-7b", "T4", quant="nf4", lora_targets="attention", attention="eager",
        micro_batch=1, sequence_length=1024,
    ),
    "10 Llama-3.2-3B QLoRA": run(
        "llama-3.2-3b", "T4", quant="nf4", lora_targets="attention", attention="eager",
        micro_batch=1, sequence_length=1024,
    ),
    "11 Llama-2-13B LoRA without checkpointing": run(
        "llama-2-13b", "A100-40GB", precision="bf16", framework="litgpt", activation_checkpointing="none",
        lora_rank=8, lora_targets="qv", micro_batch=1, accumulation_steps=128, sequence_length=1304,
    ),
    "12 Llama-3.2-3B LoRA without checkpointing": run(
        "llama-3.2-3b", "L40S", activation_checkpointing="none", lora_rank=32, lora_targets="qv",
        micro_batch=4, sequence_length=768,
    ),
    "13 Llama-2-7B LoRA DDP": run(
        "llama-2-7b", "RTX3090", gpus=2, sharding="ddp", lora_rank=64, lora_targets=FSDP_QLORA,
        micro_batch=4, sequence_length=2048,
    ),
}  # fmt: skip
"""Golden memory cases whose every flag a configuration has.

Left out: 4 (a loss kernel between `hf` and `hf-fused`), 5 and 6a (nf4 loaded without the k-bit preparation: the
plug-in's own profile), 14 (its network has no card).
"""

SPEED = {
    "m0252": run(
        "llama-2-13b", "A100-80GB", gpus=64, network_gbps=1600, method="full", sharding="zero3", framework="eager",
        activation_checkpointing="none", micro_batch=2, sequence_length=4096,
    ),
    "m0255": run(
        "llama-2-70b", "A100-80GB", gpus=64, network_gbps=1600, method="full", sharding="zero3", framework="eager",
        activation_checkpointing="selective", micro_batch=1, sequence_length=4096,
    ),
    "m0415": run(
        "mistral-7b", "A100-80GB", gpus=2, method="full", precision="bf16", sharding="zero3",
        micro_batch=2, sequence_length=4096,
    ),
    "m0438": run("mistral-7b", "A100-80GB", lora_targets="attention", micro_batch=4, sequence_length=4096),
    "m0462": run("mistral-7b", "A100-80GB", quant="nf4", lora_targets="attention", micro_batch=4, sequence_length=4096),
    "m0502": run(
        "llama-2-70b", "A100-80GB", quant="nf4", framework="hf-fused", lora_targets="attention",
        micro_batch=4, sequence_length=4096,
    ),
    "m0859": run(
        "llama-2-7b", "RTX3090", gpus=2, quant="nf4", sharding="zero3", lora_rank=64, lora_targets=FSDP_QLORA,
        micro_batch=4, sequence_length=2048,
    ),
    "m0868": run(
        "llama-2-7b", "RTX4090", gpus=2, sharding="ddp", lora_rank=64, lora_targets=FSDP_QLORA,
        micro_batch=4, sequence_length=2048,
    ),
    "m0886": run(
        "llama-2-70b", "A100-40GB", gpus=8, quant="nf4", sharding="zero3", lora_rank=64, lora_targets=FSDP_QLORA,
        micro_batch=4, sequence_length=2048,
    ),
    "m1748": run(
        "tinyllama-1.1b", "T4", quant="nf4", attention="eager", lora_rank=32, lora_targets="attention",
        micro_batch=2, sequence_length=1024,
    ),
    "m0012": run(
        "mpt-7b", "H100-80GB", gpus=128, network_gbps=3200, method="full", sharding="zero3", framework="llm-foundry",
        activation_checkpointing="none", micro_batch=6,
    ),
    "m0082": run(
        "mpt-30b", "A100-80GB", gpus=8, method="full", sharding="zero3", framework="llm-foundry",
        micro_batch=3, accumulation_steps=21,
    ),
    "m1961": run(
        "gpt3-175b", "A100-80GB", gpus=64, network_gbps=1600, method="full", framework="megatron", attention="eager",
        tensor_parallel=8, pipeline_parallel=8, micro_batch=1, accumulation_steps=64, sequence_length=2048,
    ),
}  # fmt: skip
"""Golden speeds that a configuration can say; left out are fp8, interleaving, Megatron's selective recompute and a card
without a place in the library. Two flags differ: present attention kernels instead of FlashAttention-1 (m0012, m0082),
no interleaved schedule (m1961)."""
