"""The machine that a row is taken to have run on: network, kernels, attention."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from benchmarks.accuracy.configurations import configuration_of
from benchmarks.accuracy.hosts import ASSUMED_NETWORK
from benchmarks.accuracy.measurements import Row
from planner.estimates.inputs import CHECKPOINT_MEGATRON_SELECTIVE
from planner.library.reading import read_library
from planner.library.schema import Library

BLANK = {
    "source": "s", "model": "Llama-3.1-8B", "method": "pretrain", "precision": "bf16 mixed", "gpu": "A100-SXM",
    "gpu_mem_gb": "80", "num_gpus": "64", "sharding": "zero1", "act_ckpt": "none", "attention": "flash",
    "micro_batch": "1", "grad_accum": "1", "seq_len": "2048", "packed": "yes", "status": "ok", "quality": "A",
}  # fmt: skip


@cache
def library() -> Library:
    """The shipped library, read once."""
    return read_library()


def set_up(**cells: str) -> Any:
    """The configuration of the row above with other cells; an empty one is unknown."""
    return configuration_of(Row(2, {k: v for k, v in {**BLANK, **cells}.items() if v}), library())


@pytest.mark.parametrize(
    ("gbps", "gigabytes", "unknown"), [("400", 50, 0.0), ("", 200, ASSUMED_NETWORK), ("none", 200, ASSUMED_NETWORK)]
)
def test_the_network_is_what_the_row_states(gbps: str, gigabytes: float, unknown: float) -> None:
    """Gb/s per node, whatever the framework; a blank takes what such nodes ship with, and is less certain."""
    for framework in ("megatron-deepspeed", "hf"):
        host = set_up(framework=framework, network_gbps=gbps).host
        assert host.hardware.network == pytest.approx(gigabytes * 1e9)
        assert host.network_unknown == unknown


@pytest.mark.parametrize(
    ("cells", "like"),
    [
        ({"attention": "cuDNN fused (TE)"}, "nemo"),
        ({"attention": "eager (Megatron)"}, "megatron"),
        ({"compile": "yes"}, "compiled"),
        ({"loss_kernel": "liger"}, "hf-fused"),
        ({"compile": "no"}, "hf"),
    ],
)
def test_an_unknown_framework_has_the_kernels_that_its_row_states(cells: dict[str, str], like: str) -> None:
    """Transformer Engine, Megatron's softmax, a compiler and a fused loss are stated beside the framework's name."""
    found, expected = set_up(framework="", **cells), set_up(framework=like, **cells)
    assert found.framework == "unknown" and not found.profiled
    assert found.kernels.launch_seconds == expected.kernels.launch_seconds
    assert found.kernels.element_traffic == expected.kernels.element_traffic


def test_kernels_of_transformer_engine_come_with_what_its_recipes_do() -> None:
    """Grouped experts, two layers per chunk of 4 stages of 8 layers, 16-bit adapters; the bytes held stay unknown."""
    stated = {"framework": "", "attention": "cuDNN fused (TE)"}
    staged = {"sharding": "tp+pp", "tp": "1", "pp": "4", "grad_accum": "8"}
    assert set_up(**stated, **staged).layout.interleave == set_up(framework="nemo", **staged).layout.interleave == 4
    assert set_up(framework="", **staged).layout.interleave == 1
    assert set_up(**stated, model="Qwen3-30B-A3B").kernels.naive_experts == 0
    assert set_up(framework="", model="Qwen3-30B-A3B").kernels.naive_experts == 1
    tuned = {"method": "lora", "lora_rank": "16"}
    known, unknown, forgotten = (set_up(**cells, **tuned).states for cells in ({"framework": "nemo"}, stated, {}))
    assert unknown.adapter_pass_bytes == known.adapter_pass_bytes < forgotten.adapter_pass_bytes
    assert unknown.adapter_bytes == forgotten.adapter_bytes


def test_selective_checkpointing_is_that_of_the_kernels_stated() -> None:
    """Beside Megatron's softmax only the core of attention is computed again (arXiv 2205.05198)."""
    cells = {"act_ckpt": "selective", "attention": "eager (Megatron)"}
    ((_, _, stated),) = set_up(framework="", **cells).settings
    ((_, _, known),) = set_up(framework="megatron", **cells).settings
    assert stated.checkpointing == known.checkpointing == CHECKPOINT_MEGATRON_SELECTIVE


@pytest.mark.parametrize(
    ("framework", "attention", "share"),
    [("llm-foundry", "flash", 1.0), ("", "flash", 0.5), ("hf", "flash (module replace)", 0.5), ("", "flash2", 0.0)],
)
def test_flash_attention_without_its_release_is_half_of_each(framework: str, attention: str, share: float) -> None:
    """The seconds of both releases are averaged: factor 1 / (share / f + 1 - share), f that of the first."""
    first = library().calibrations["kernels"].value("flash_1.attention_factor")
    found = set_up(framework=framework, attention=attention).kernels.attention_factor
    assert found == pytest.approx(1.0 / (share / first + 1.0 - share))


def test_a_limit_of_power_slows_products_and_attention() -> None:
    """A card that its owner limits further has the memory of its sheet, and the same share less of both peaks."""
    row = {"framework": "torchtitan", "sharding": "fsdp", "gpu_mem_gb": ""}
    limited, full = (set_up(**row, gpu=name).host.hardware for name in ("B200 (power limited)", "B200"))
    share = library().calibrations["gpu_efficiency"].value("limit.power")
    assert limited.efficiency == pytest.approx(share * full.efficiency)
    assert limited.attention_efficiency == pytest.approx(share * full.attention_efficiency)
    assert limited.bandwidth == full.bandwidth and share < 1


def test_torchtitan_without_compile_runs_plain_kernels() -> None:
    """A row that says it was not compiled moves more bytes and launches more kernels than one that was."""
    compiled = set_up(framework="torchtitan", sharding="fsdp", compile="yes").kernels
    plain = set_up(framework="torchtitan", sharding="fsdp", compile="no").kernels
    assert plain.element_traffic > compiled.element_traffic
    assert plain.launch_seconds > compiled.launch_seconds
    assert plain.overlap == pytest.approx(compiled.overlap, rel=0.1)


def test_slots_older_than_the_card_are_those_of_its_host() -> None:
    """RTX 3090 are taken to sit in PCIe 3 slots, 12 GB/s; RTX 4090 in those of their own generation."""
    hosts = [set_up(gpu=f"RTX {name}", gpu_mem_gb="24", framework="hf").host for name in ("3090", "4090")]
    assert [host.hardware.pcie for host in hosts] == [12e9, 24e9]


@pytest.mark.parametrize(("gpu", "gigabytes"), [("GB200", 3600), ("GB300", 7200), ("H100-SXM", 400)])
def test_a_rack_has_a_link_for_each_of_its_gpus(gpu: str, gigabytes: float) -> None:
    """72 links of 400 or 800 Gb/s leave a rack, eight of 400 Gb/s a node of H100."""
    host = set_up(gpu=gpu, gpu_mem_gb="", framework="nemo", num_gpus="144").host
    assert host.hardware.network == pytest.approx(gigabytes * 1e9)
    assert host.gpus_per_node == (72 if gpu.startswith("GB") else 8)


@pytest.mark.parametrize(("sharding", "hybrid"), [("zero1 (group 8)", 1), ("zero1 (group all)", 0), ("zero1", 0)])
def test_a_zero_group_smaller_than_the_run_is_hybrid(sharding: str, hybrid: int) -> None:
    """States cut over one node of eight, or over all 64 GPUs."""
    assert set_up(framework="internevo", sharding=sharding).layout.hybrid == hybrid


def test_a_power_limit_slows_attention_as_it_slows_products() -> None:
    """The H100 of 500 W reaches the same share less of its peak in both."""
    row = {"framework": "torchtitan", "sharding": "fsdp", "gpu_mem_gb": ""}
    limited, full = (set_up(**row, gpu=name).host.hardware for name in ("H100-SXM-HBM2e-500W", "H100-SXM"))
    assert limited.efficiency < full.efficiency
    assert limited.attention_efficiency / full.attention_efficiency == pytest.approx(
        limited.efficiency / full.efficiency
    )


@pytest.mark.parametrize(
    ("cells", "bytes_moved"),
    [
        ({}, 8),
        ({"loss_kernel": "liger"}, 8),
        ({"loss_kernel": "hf"}, 26),
        ({"method": "lora", "weight_quant": ""}, 26),
        ({"source": "somebody/else:x"}, 26),
        ({"model": "GPT2"}, 26),
    ],
)
def test_fms_fuses_the_adapters_of_a_quantised_gated_base(cells: dict[str, str], bytes_moved: float) -> None:
    """Its plugin for quantised bases has unsloth's LoRA; the one for all else replaces norms, rotation and loss."""
    row = {
        "source": "foundation-model-stack/fms-acceleration:x", "framework": "hf-fused", "method": "qlora",
        "weight_quant": "nf4", "loss_kernel": "fused", "lora_rank": "16", "lora_targets": "all linear", "num_gpus": "1",
        "sharding": "none",
    }  # fmt: skip
    assert set_up(**{**row, **cells}).states.adapter_pass_bytes == bytes_moved
