"""From a recipe, an architecture and a card to the plain numbers that the estimates take.

This is the one place where names become coefficients; candidates and audit both come through here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from planner.estimates.parameters import lora_parameters
from planner.estimates.setup import (
    ATTENTION_EAGER,
    ATTENTION_FLASH,
    ATTENTION_MEM_EFFICIENT,
    CHECKPOINT_FULL,
    CHECKPOINT_MEGATRON_SELECTIVE,
    CHECKPOINT_NONE,
    CHECKPOINT_OFFLOAD,
    CHECKPOINT_SELECTIVE,
    Activations,
    Hardware,
    Kernels,
    Network,
    Stack,
    States,
)
from planner.library import Architecture, Calibration, GpuSpec, Library
from planner.recipes import Recipe, framework_of
from planner.scenario import Job
from planner.units import GB, GIB, TERA

_ATTENTION = {"flash": ATTENTION_FLASH, "mem_efficient": ATTENTION_MEM_EFFICIENT, "eager": ATTENTION_EAGER}
PCIE_BYTES_PER_SECOND = {3: 12e9, 4: 24e9, 5: 48e9, 6: 96e9}
"""One direction of a 16-lane slot as reached in practice, by generation (time_model section 1)."""
DEFAULT_NETWORK_BYTES_PER_SECOND = 12.5 * GB
"""Per node where the offer does not say (time_model section 4); such a candidate is less certain."""


def network_of(architecture: Architecture) -> Network:
    """The shape of an architecture card, without its names and sources."""
    return Network(
        parameters=float(architecture.parameters),
        active_parameters=float(architecture.active_parameters),
        layers=architecture.layers,
        hidden=architecture.hidden,
        heads=architecture.heads,
        kv_heads=architecture.kv_heads,
        head_dim=architecture.head_dim,
        ffn=architecture.ffn,
        vocab=architecture.vocab,
        tied=architecture.tied_embeddings,
        gated=architecture.gated,
        rope=architecture.rope,
        parallel_residual=architecture.parallel_residual,
        experts=architecture.experts,
        experts_per_token=architecture.experts_per_token + architecture.shared_experts
        if architecture.experts
        else 0,
        sliding_window=architecture.sliding_window,
        sliding_layers=architecture.sliding_layer_share,
        frozen_parameters=float(architecture.image.frozen_parameters) if architecture.image else 0.0,
    )


@dataclass(frozen=True)
class RecipeSetup:
    """Everything that a recipe (or a column of recipes, shape (R, 1)) implies, hardware left out."""

    states: States
    activations: Activations
    stack: Stack
    kernels: Kernels


def recipe_setup(
    recipe: Recipe, job: Job, network: Network, generation: str, library: Library
) -> RecipeSetup:
    """The numbers of one recipe under the job's framework on cards of one generation."""
    framework = framework_of(library, job.framework)
    table = library.tables["bytes"]
    return RecipeSetup(
        states=_states(recipe, job, network, framework, table),
        activations=_activations(recipe, network, framework, table),
        stack=_stack(framework, library.calibrations["memory"], network),
        kernels=_kernels(recipe, framework, library.calibrations["kernels"], network),
    )


def _prepared(recipe: Recipe, framework: Mapping[str, Any], table: Mapping[str, Any]) -> bool:
    """PEFT's k-bit preparation: embedding, head, norms and residual stream in fp32."""
    return (
        recipe.weight_bits < 16
        and recipe.zero_stage < 3
        and bool(framework.get("prepared", True))
        and bool(table["quantised"][recipe.quant]["prepared"])
    )


def _states(
    recipe: Recipe, job: Job, network: Network, framework: Mapping[str, Any], table: Mapping[str, Any]
) -> States:
    if recipe.method == "full":
        return _trained_in_full(recipe, network, framework, table)
    adapters = table["adapters"][framework["adapters"]]
    count = lora_parameters(network, job.lora.rank, job.lora.targets)
    base = 4.0 if recipe.precision in ("fp32", "tf32") else 2.0
    quantised = recipe.weight_bits < 16
    weight = float(table["quantised"][recipe.quant]["weight"]) if quantised else base
    fused_step = bool(framework["fused_step"])
    eight_bit = recipe.optimizer == "adamw_8bit"
    return States(
        frozen=1,
        quantised=int(quantised),
        weight_bytes=weight,
        embedding_bytes=4.0 if _prepared(recipe, framework, table) else base,
        gradient_bytes=float(adapters["g"]),
        optimizer_bytes=float(table["optimizer_8bit"]["o"] if eight_bit else adapters["o"]),
        step_bytes=0.0 if fused_step or eight_bit else float(adapters["t"]),
        cast_bytes=0.0,
        trainable=float(count.trainable),
        adapter_bytes=float(adapters["w"]),
        adapter_inputs=float(count.inputs_per_layer),
        adapter_copies=float(adapters["copies"]),
        adapted_linears=float(count.linears_per_layer),
        gathered_bytes=weight if quantised else 2.0,
        reduced_bytes=float(adapters["reduced"]),
        optimizer_traffic_bytes=float(adapters["traffic"]),
        no_sync_full_gradients=int(bool(framework.get("no_sync")) and recipe.zero_stage == 3),
        load_whole=int(bool(framework.get("load_whole")) and recipe.zero_stage == 3),
    )


def _scheme_row(recipe: Recipe, framework: Mapping[str, Any]) -> str:
    mixed = recipe.precision in ("bf16_mixed", "fp16_mixed")
    if mixed and framework.get("masters"):
        return str(framework["masters"])
    if mixed and (recipe.zero_stage in (1, 2) or (recipe.zero_stage == 3 and framework.get("zero3_masters"))):
        return "deepspeed"
    return recipe.precision


def _trained_in_full(
    recipe: Recipe, network: Network, framework: Mapping[str, Any], table: Mapping[str, Any]
) -> States:
    row = table["training"][_scheme_row(recipe, framework)]
    eight_bit = recipe.optimizer == "adamw_8bit"
    # An 8-bit optimizer replaces the two moments; the fp32 master copy inside `o` of the DeepSpeed rows stays.
    moments = min(float(row["o"]), 8.0)
    optimizer = float(row["o"]) - moments + table["optimizer_8bit"]["o"] if eight_bit else float(row["o"])
    return States(
        frozen=0,
        quantised=0,
        weight_bytes=float(row["w"]),
        embedding_bytes=float(row["w"]),
        gradient_bytes=float(row["g"]),
        optimizer_bytes=optimizer,
        step_bytes=0.0 if framework["fused_step"] or eight_bit else float(row["t"]),
        cast_bytes=float(row["cast"]),
        trainable=network.parameters,
        gathered_bytes=float(row["gathered"]),
        reduced_bytes=float(row["reduced"]),
        optimizer_traffic_bytes=float(row["traffic"])
        - (table["optimizer_8bit"]["traffic_saved"] if eight_bit else 0),
        no_sync_full_gradients=int(bool(framework.get("no_sync")) and recipe.zero_stage == 3),
        load_whole=int(bool(framework.get("load_whole")) and recipe.zero_stage == 3),
        extra_gradient_bytes=float(row.get("extra_gradient", 0)),
        extra_sharded_bytes=float(row.get("extra_sharded", 0)),
    )


def _activations(
    recipe: Recipe, network: Network, framework: Mapping[str, Any], table: Mapping[str, Any]
) -> Activations:
    prepared = _prepared(recipe, framework, table)
    megatron = bool(framework.get("megatron"))
    loss = table["loss"]["hf-prepared" if prepared and framework["loss"] == "hf" else framework["loss"]]
    fp32 = recipe.precision in ("fp32", "tf32")
    sharded_adapters = (
        recipe.method == "lora" and recipe.zero_stage == 3 and framework.get("fsdp_adapters_fp32_residual")
    )
    norm_units = 5.0 if network.parallel_residual else float(framework["norm_units"])
    return Activations(
        checkpointing=_checkpoint_code(recipe, framework, megatron),
        attention=_ATTENTION[recipe.attention],
        logit_bytes=float(loss["bytes"]),
        logits_materialised=int(loss["materialised"]),
        element_bytes=4.0 if fp32 else 2.0,
        residual_bytes=4.0 if prepared or sharded_adapters or fp32 else 2.0,
        norm_units=min(norm_units, float(framework["norm_units"])),
        rope_factor=2.0 if network.rope and not framework.get("fused_rope") else 1.0,
        ffn_units=(3.0 if framework.get("fused_swiglu") else 4.0) if network.gated else 2.0,
        sequence_parallel=int(bool(framework.get("sequence_parallel"))),
        quantised_no_checkpoint_factor=int(
            bool(framework.get("frozen_quantised_factor")) and recipe.quant in ("nf4", "nf4_dq", "int8")
        ),
        compiled=int(bool(framework.get("compiled"))),
        megatron_kernels=int(megatron),
        working_factor=float(framework.get("working_factor", 0.0)),
    )


def _checkpoint_code(recipe: Recipe, framework: Mapping[str, Any], megatron: bool) -> int:
    if recipe.activation_checkpointing == "none":
        return CHECKPOINT_NONE
    if recipe.activation_checkpointing == "selective":
        return CHECKPOINT_MEGATRON_SELECTIVE if megatron else CHECKPOINT_SELECTIVE
    return CHECKPOINT_OFFLOAD if framework.get("offloaded_checkpoints") else CHECKPOINT_FULL


def _stack(framework: Mapping[str, Any], memory: Calibration, network: Network) -> Stack:
    megatron = bool(framework.get("megatron"))
    # What lies beside the network in 16 bit is set aside like the context: it never moves.
    beside = 2.0 * network.frozen_parameters / GIB
    return Stack(
        context_gib=memory.value("m_ctx_gib" if megatron else "ctx_gib") + beside,
        nccl_gib=memory.value("nccl_gib"),
        fit_nccl_gib=0.0 if megatron else memory.value("fit_nccl_gib"),
        megatron_context=int(megatron),
        margin=memory.value("margin" if framework["profiled"] else "margin_unknown"),
        phi=memory.value("phi"),
    )


def _kernels(recipe: Recipe, framework: Mapping[str, Any], kernels: Calibration, network: Network) -> Kernels:
    profile = framework["kernels"]

    def of(key: str) -> float:
        return kernels.value(f"{profile}.{key}")

    return Kernels(
        element_traffic=of("element_traffic"),
        launch_seconds=of("launch_seconds"),
        logit_traffic_bytes=of("logit_traffic_bytes"),
        matmul_factor=of("matmul_factor"),
        eager_traffic=of("eager_traffic"),
        overlap=of("overlap"),
        fsdp_launch_seconds=of("fsdp_launch_seconds"),
        quantised_bytes=kernels.value(f"quantised_bytes.{recipe.quant}") if recipe.weight_bits < 16 else 0.0,
        moe_factor=of("moe_factor") if network.experts else 1.0,
        naive_experts=int(of("naive_experts")),
        fused=int(profile == "fused"),
        attention_factor=of("attention_factor"),
    )


def hardware_numbers(
    gpu: GpuSpec, link: str, network_gbps: float | None, recipe_precision: str, library: Library
) -> Hardware:
    """Speeds of one card in one precision; `link` is nvlink, nvswitch or pcie."""
    speeds = library.calibrations["gpu_efficiency"]
    nvlink = gpu.nvlink_gb_s * GB / 2 if link in ("nvlink", "nvswitch") else 0.0
    peak = _peak(gpu, recipe_precision)
    return Hardware(
        peak=peak,
        linear_peak=peak,
        bandwidth=gpu.memory_bandwidth_gb_s * GB,
        nvlink=nvlink,
        pcie=PCIE_BYTES_PER_SECOND[gpu.pcie_gen],
        network=network_gbps * GB / 8 if network_gbps else DEFAULT_NETWORK_BYTES_PER_SECOND,
        efficiency=efficiency_of(gpu, speeds)[0]
        if recipe_precision not in ("fp32", "tf32")
        else speeds.value("fp32"),
        attention_efficiency=_by_generation(speeds, "attention", gpu),
        host_factor=_by_card(speeds, "host", gpu, 1.0),
        dequant_factor=_by_card(speeds, "dequant", gpu, 1.0),
        usable_bytes=gpu.usable_gib * GIB,
    )


def efficiency_of(gpu: GpuSpec, speeds: Calibration) -> tuple[float, bool]:
    """Best share of peak that the card reaches, and whether that is measured (else a prior)."""
    entry = speeds.coefficients[gpu.name]
    return entry.value, entry.basis == "measured"


def _peak(gpu: GpuSpec, precision: str) -> float:
    if precision == "fp32":
        return gpu.fp32_tflops * TERA
    if precision == "tf32":
        return (gpu.tf32_tflops or gpu.fp32_tflops) * TERA
    return gpu.matmul16_tflops * TERA


def _by_generation(speeds: Calibration, group: str, gpu: GpuSpec) -> float:
    return (
        _by_card(speeds, group, gpu, None)
        if f"{group}.{gpu.name}" in speeds.coefficients
        else speeds.value(f"{group}.{gpu.generation}")
    )


def _by_card(speeds: Calibration, group: str, gpu: GpuSpec, default: float | None) -> float:
    key = f"{group}.{gpu.name}"
    if key not in speeds.coefficients and default is not None:
        return default
    return speeds.value(key)


T = TypeVar("T", States, Activations, Stack, Kernels, Hardware)


def stacked(items: Sequence[T], as_column: bool) -> T:
    """One dataclass of arrays, shape (n, 1) as a column of recipes or (n,) as a row of hardware.

    A field that is the same in all items stays a scalar: the estimates run faster on it.
    """
    first = items[0]
    fields: dict[str, Any] = {}
    for name in first.__dataclass_fields__:
        values = [getattr(item, name) for item in items]
        if all(value == values[0] for value in values):
            fields[name] = values[0]
        else:
            array = np.asarray(values, dtype=float)
            fields[name] = array[:, None] if as_column else array
    return type(first)(**fields)
