"""From a recipe and an architecture to the plain numbers that the estimates take.

This is the one place where names become coefficients; candidates and audit both come through here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.configurations.recipe import Recipe, framework_of
from planner.estimates.inputs import (
    ATTENTION_EAGER,
    ATTENTION_FLASH,
    ATTENTION_MEM_EFFICIENT,
    CHECKPOINT_FULL,
    CHECKPOINT_MEGATRON_SELECTIVE,
    CHECKPOINT_NONE,
    CHECKPOINT_OFFLOAD,
    CHECKPOINT_SELECTIVE,
    Activations,
    Kernels,
    Network,
    Stack,
    States,
)
from planner.estimates.parameters import lora_parameters
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.library.schema import Architecture, Calibration, Library
    from planner.scenario.scenario import Job

_ATTENTION = {"flash": ATTENTION_FLASH, "mem_efficient": ATTENTION_MEM_EFFICIENT, "eager": ATTENTION_EAGER}


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
        experts_per_token=architecture.experts_per_token + architecture.shared_experts if architecture.experts else 0,
        sliding_window=architecture.sliding_window,
        sliding_layers=architecture.sliding_layer_share,
        frozen_parameters=float(architecture.image.frozen_parameters) if architecture.image else 0.0,
    )


@dataclass(frozen=True)
class RecipeCoefficients:
    """Everything that a recipe (or a column of recipes, shape (R, 1)) implies, hardware left out."""

    states: States
    activations: Activations
    stack: Stack
    kernels: Kernels


def recipe_coefficients(recipe: Recipe, job: Job, network: Network, library: Library) -> RecipeCoefficients:
    """The numbers of one recipe under the job's framework, whatever card it runs on."""
    framework = framework_of(library, job.framework)
    table = library.tables["bytes"]
    return RecipeCoefficients(
        states=_states(recipe, job, network, framework, table),
        activations=_activations(recipe, network, framework, table),
        stack=_stack(framework, library.calibrations["memory"], network),
        kernels=_kernels(recipe, framework, library.calibrations["kernels"], network),
    )


def _is_kbit_prepared(recipe: Recipe, framework: Mapping[str, Any], table: Mapping[str, Any]) -> bool:
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
        return _full_training_states(recipe, network, framework, table)
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
        embedding_bytes=4.0 if _is_kbit_prepared(recipe, framework, table) else base,
        gradient_bytes=float(adapters["g"]),
        optimizer_bytes=float(table["optimizer_8bit"]["o"] if eight_bit else adapters["o"]),
        step_bytes=0.0 if fused_step or eight_bit else float(adapters["t"]),
        cast_bytes=0.0,
        trainable=float(count.trainable),
        adapter_bytes=float(adapters["w"]),
        adapter_inputs=float(count.inputs_per_layer),
        adapter_copies=float(adapters["copies"]),
        adapted_linears=float(count.linears_per_layer),
        adapter_pass_bytes=float(adapters["pass"]),
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


def _full_training_states(
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
        optimizer_traffic_bytes=float(row["traffic"]) - (table["optimizer_8bit"]["traffic_saved"] if eight_bit else 0),
        no_sync_full_gradients=int(bool(framework.get("no_sync")) and recipe.zero_stage == 3),
        load_whole=int(bool(framework.get("load_whole")) and recipe.zero_stage == 3),
        extra_gradient_bytes=float(row.get("extra_gradient", 0)),
        extra_sharded_bytes=float(row.get("extra_sharded", 0)),
    )


def _activations(
    recipe: Recipe, network: Network, framework: Mapping[str, Any], table: Mapping[str, Any]
) -> Activations:
    prepared = _is_kbit_prepared(recipe, framework, table)
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

    # Decoder classes with plain feed-forwards have one kernel per norm and none for rotation, if the profile tells them
    # apart; the U-Net of an image network is none of them.
    plain = f"{profile}.plain_element_traffic"
    told_apart = not network.gated and not network.frozen_parameters and plain in kernels.coefficients
    traffic = plain if told_apart else f"{profile}.element_traffic"
    return Kernels(
        element_traffic=kernels.value(traffic),
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
        overlaps_reduction=int(not framework.get("reduces_at_end")),
    )
