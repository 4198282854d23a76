"""From a recipe and an architecture to the plain numbers that the estimates take.

This is the one place where names become coefficients; candidates and audit both come through here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.configurations.latents import latent_cache
from planner.configurations.memory_margin import framework_spread
from planner.configurations.recipe import Recipe, framework_of
from planner.errors import Fault, ScenarioError
from planner.estimates.adapters import lora_parameters
from planner.estimates.inputs import (
    ATTENTION_EAGER,
    ATTENTION_FLASH,
    ATTENTION_MEM_EFFICIENT,
    ATTENTION_SPARSE,
    CHECKPOINT_FULL,
    CHECKPOINT_KEEP_ATTENTION,
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
from planner.estimates.memory.memory_fit import confidence_margin
from planner.estimates.memory.memory_states import REDUCE_BUCKET_ELEMENTS
from planner.records import record
from planner.units import GIB

if TYPE_CHECKING:
    from planner.library.schema import Calibration, Library
    from planner.library.technique_rows import OptimizerBytes
    from planner.library.technique_tables import FrameworkProfile, TechniqueTable
    from planner.scenario.job import Job

_SELECTIVE_CODES = {
    "operators": CHECKPOINT_SELECTIVE,
    "attention": CHECKPOINT_KEEP_ATTENTION,
    "scores": CHECKPOINT_MEGATRON_SELECTIVE,
}
# Of a 16-bit gradient under FSDP: put into its flat parameter, then divided (fsdp/_runtime_utils.py), each 2 + 2 bytes.
_HANDED_BYTES = 8.0
_ATTENTION = {"mem_efficient": ATTENTION_MEM_EFFICIENT, "eager": ATTENTION_EAGER, "sparse": ATTENTION_SPARSE}


@record(frozen=True)
class RecipeCoefficients:
    """Everything that a recipe (or a column of recipes, shape (R, 1)) implies, hardware left out."""

    states: States
    activations: Activations
    stack: Stack
    kernels: Kernels


def recipe_coefficients(
    recipe: Recipe, job: Job, network: Network, library: Library, shared: dict[object, Any] | None = None
) -> RecipeCoefficients:
    """Return the numbers of one recipe under its framework, whatever GPU it runs on.

    `shared` is a cache for all recipes of a job: what several of them share, by the facts on which it depends.
    """
    shared = {} if shared is None else shared
    framework, table = framework_of(library, recipe.framework), library.techniques
    of_states = (
        *(recipe.framework, recipe.method, recipe.weight_bits, recipe.quant, recipe.precision, recipe.sharding),
        *(recipe.optimizer, recipe.offload, recipe.lora_rank),
    )
    if of_states not in shared:
        is_full = recipe.method == "full"
        trained = _full_training_states if is_full else partial(_lora_states, job)
        shared[of_states] = trained(recipe, network, framework, table)
    activations = _activations(recipe, network, framework, table, shared[of_states])
    if recipe.caches_latents and (cache := latent_cache(job, library.architecture(job.architecture))):
        activations = replace(activations, token_share=cache.token_share)
    of_stack = (recipe.framework, recipe.caches_latents)
    if of_stack not in shared:
        shared[of_stack] = _stack(recipe, job, network, library)
    of_kernels = (recipe.framework, recipe.sharding, recipe.attention, recipe.weight_bits, recipe.quant)
    if of_kernels not in shared:
        shared[of_kernels] = _kernels(recipe, framework, table, library.calibrations["kernels"], network)
    return RecipeCoefficients(shared[of_states], activations, shared[of_stack], shared[of_kernels])


def _where_states_are(recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable) -> dict[str, float]:
    """Return the fields of `States` that say what stays whole, what waits, and what is in host memory."""
    fully_sharded, hosted = recipe.zero_stage == 3, table.values.offload.values[recipe.offload]
    bucket = _runs_deepspeed(recipe, framework, table) * REDUCE_BUCKET_ELEMENTS
    return {
        "no_sync_full_gradients": int(framework.no_sync and fully_sharded),
        "load_whole": int(framework.load_whole and fully_sharded),
        "reducer_copies": int(not framework.megatron),
        "bucket_bytes": bucket * table.compute(recipe.precision).element_bytes,
        "host_weights": int(hosted.weights),
        "host_optimizer": int(hosted.optimizer),
        "paged_optimizer": int(table.values.optimizer.values[recipe.optimizer].paged),
    }


def _runs_deepspeed(recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable) -> bool:
    """Whether DeepSpeed shards the states: stages and offload that FSDP does not have, or a ZeRO-3 of its own."""
    hosted = table.values.offload.values[recipe.offload]
    own_stage = recipe.zero_stage in (1, 2) or (recipe.zero_stage == 3 and framework.deepspeed_zero3)
    return not framework.masters and (own_stage or (hosted.optimizer and not hosted.weights))


def _is_kbit_prepared(recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable) -> bool:
    """Whether PEFT's k-bit preparation keeps embedding, head, norms and residual stream in fp32."""
    quantised = table.bytes.quantised.get(recipe.quant)
    return quantised is not None and quantised.prepared and framework.prepared and recipe.zero_stage < 3


def _lora_states(
    job: Job, recipe: Recipe, network: Network, framework: FrameworkProfile, table: TechniqueTable
) -> States:
    adapters = table.bytes.adapters[framework.adapters].model_dump()
    try:
        count = lora_parameters(network, recipe.lora_rank or job.lora.rank[0], job.lora.targets)
    except ValueError as error:
        fix = "name what it has, or write all-linear, attention or qv"
        raise ScenarioError([Fault(f"job {job.name}", 0, "lora.targets", str(error), fix)]) from None
    base = table.compute(recipe.precision).element_bytes
    quantised = table.bytes.quantised.get(framework.stores.get(recipe.quant, recipe.quant))
    weight = quantised.weight_bytes if quantised else base
    if optimizer := table.bytes.optimizers.get(recipe.optimizer):
        adapters["optimizer_bytes"] = optimizer.optimizer_bytes
    if optimizer or framework.fused_step:
        adapters["step_bytes"] = 0.0
    prepared = _is_kbit_prepared(recipe, framework, table)
    embedding_bytes, trainable = 4.0 if prepared else base, float(count.trainable)
    if job.lora.train_embeddings:
        saved = network.embedding_parameters
        adapters = _with_saved_modules(adapters, saved / (trainable + saved), embedding_bytes, optimizer)
        trainable += saved
    return States(
        frozen=1,
        quantised=int(quantised is not None),
        weight_bytes=weight,
        embedding_bytes=embedding_bytes,
        cast_bytes=0.0,
        trainable=trainable,
        adapter_inputs=float(count.inputs_per_layer),
        adapted_linears=float(count.linears_per_layer),
        gathered_bytes=weight if quantised else 2.0,
        **adapters,
        **_where_states_are(recipe, framework, table),
    )


def _with_saved_modules(
    adapters: dict[str, float], share: float, element: float, optimizer: OptimizerBytes | None
) -> dict[str, float]:
    """Return the mean bytes per trained weight where a share of them are copies of modules of the network.

    PEFT (`modules_to_save`) copies such a module in its own type, and AdamW keeps gradients and moments in that type.
    """
    moments = optimizer.optimizer_bytes if optimizer else 2 * element
    copies = {
        "adapter_bytes": element,
        "gradient_bytes": element,
        "optimizer_bytes": moments,
        "step_bytes": element if adapters["step_bytes"] else 0.0,
        "optimizer_traffic_bytes": 8 * element,
        "reduced_bytes": element,
    }
    return adapters | {key: (1 - share) * adapters[key] + share * value for key, value in copies.items()}


def _scheme_row(recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable) -> str:
    """Return the row of the training bytes: that of the precision, or of the framework's own fp32 masters."""
    if not table.values.precision.values[recipe.precision].autocast:
        return recipe.precision
    if framework.masters:
        return framework.deepspeed_masters.get(recipe.precision, framework.masters)
    return "deepspeed" if _runs_deepspeed(recipe, framework, table) else recipe.precision


def _full_training_states(
    recipe: Recipe, network: Network, framework: FrameworkProfile, table: TechniqueTable
) -> States:
    row = table.bytes.training[_scheme_row(recipe, framework, table)].model_dump()
    if optimizer := table.bytes.optimizers.get(recipe.optimizer):
        # It replaces the two moments; the fp32 master copy inside the optimizer bytes of the DeepSpeed rows stays.
        moments = min(row["optimizer_bytes"], 8.0)
        row["optimizer_bytes"] = row["optimizer_bytes"] - moments + optimizer.optimizer_bytes
        row["optimizer_traffic_bytes"] -= optimizer.traffic_saved_bytes
    if optimizer or framework.fused_step:
        row["step_bytes"] = 0.0
    if optimizer:  # the largest matrix is the embedding; as bytes per trained weight
        row["step_bytes"] = optimizer.largest_bytes * network.vocab * network.hidden / network.parameters
    sharded = recipe.zero_stage == 3
    if sharded or framework.compiles_graphs:
        row["added_bytes"] = 0.0  # shards alone are added; a graph adds in the product
    row["handed_bytes"] = _HANDED_BYTES if sharded and not framework.compiles_graphs else 0.0
    row["embedding_bytes"], row["trainable"] = row["weight_bytes"], network.parameters
    return States(frozen=0, quantised=0, **row, **_where_states_are(recipe, framework, table))


def _activations(
    recipe: Recipe, network: Network, framework: FrameworkProfile, table: TechniqueTable, states: States
) -> Activations:
    prepared = _is_kbit_prepared(recipe, framework, table)
    loss = table.bytes.loss["hf-prepared" if prepared and framework.loss == "hf" else framework.loss]
    element = table.compute(recipe.precision).element_bytes
    quantised = table.bytes.quantised.get(recipe.quant)
    keeps_gradients = states.frozen and recipe.zero_stage == 3 and not states.bucket_bytes  # adapters under FSDP
    # Autocast over fp32 weights that no engine casts: the embedding is fp32, and so is what layers add to it.
    autocast = recipe.zero_stage == 0 and states.cast_bytes > 0
    norm_units = 5.0 if network.parallel_residual else framework.norm_units
    return Activations(
        checkpointing=_checkpoint_code(recipe, framework),
        attention=_ATTENTION.get(recipe.attention, ATTENTION_FLASH),  # releases of flash differ in speed alone
        logit_bytes=loss.logit_bytes,
        logits_materialised=int(loss.materialised),
        element_bytes=element,
        residual_bytes=4.0 if prepared or autocast else element,
        keeps_gradients=int(keeps_gradients and framework.fsdp_adapters_keep_gradients),
        norm_units=min(norm_units, framework.norm_units),
        rope_factor=2.0 if network.rope and not framework.fused_rope else 1.0,
        ffn_units=(3.0 if framework.fused_swiglu else 4.0) if network.gated else 2.0,
        sequence_parallel=int(framework.sequence_parallel),
        gathers_keys=int(framework.context_parallel != "ring"),
        quantised_no_checkpoint_factor=int(
            framework.frozen_quantised_factor and quantised is not None and quantised.bitsandbytes
        ),
        compiled=int(framework.compiled),
        megatron_kernels=int(framework.megatron),
        working_factor=framework.working_factor,
    )


def _checkpoint_code(recipe: Recipe, framework: FrameworkProfile) -> int:
    if recipe.activation_checkpointing == "none":
        return CHECKPOINT_NONE
    if recipe.activation_checkpointing == "selective":
        return _SELECTIVE_CODES[framework.selective]
    return CHECKPOINT_OFFLOAD if framework.offloaded_checkpoints else CHECKPOINT_FULL


def _stack(recipe: Recipe, job: Job, network: Network, library: Library) -> Stack:
    memory, megatron = library.calibrations["memory"], framework_of(library, recipe.framework).megatron
    # Frozen parts of an image network are held in 16 bit and never move: they are set aside like the context.
    frozen_gib = 0.0 if recipe.caches_latents else 2.0 * network.frozen_parameters / GIB
    spread = framework_spread(recipe.framework, library)
    margin = confidence_margin(spread.sigma, job.memory_confidence)
    return Stack(
        context_gib=memory.value("m_ctx_gib" if megatron else "ctx_gib") + frozen_gib,
        nccl_gib=memory.value("nccl_gib"),
        fit_nccl_gib=0.0 if megatron else memory.value("fit_nccl_gib"),
        megatron_context=int(megatron),
        margin=margin,
        known_margin=spread.known_share * margin,
        phi=memory.value("phi"),
    )


_KERNEL_KEYS = (
    *("element_traffic", "launch_seconds", "logit_traffic_bytes", "matmul_factor", "eager_traffic", "overlap"),
    *("fsdp_launch_seconds", "moe_factor", "naive_experts", "attention_factor"),
)
"""Fields of `Kernels` that every profile of models/calibration/kernels.yaml has."""


def _kernels(
    recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable, kernels: Calibration, network: Network
) -> Kernels:
    profile = framework.kernels
    values = {key: kernels.value(f"{profile}.{key}") for key in _KERNEL_KEYS}
    if not network.experts:
        values["moe_factor"] = 1.0
    if (exposed := table.values.sharding.values[recipe.sharding].exposed) is not None:
        values["overlap"] = 1.0 - kernels.value(exposed) * (1.0 - values["overlap"])
    if (gain := table.values.attention.values[recipe.attention].gain) is not None:
        values["attention_factor"] *= kernels.value(gain)
    if framework.grouped_experts == "all" or (framework.grouped_experts and recipe.weight_bits == 16):
        values["naive_experts"] = 0.0
    # Decoder classes with plain feed-forwards have one kernel per norm and none for rotation, where the profile has a
    # figure of their own; the U-Net of an image network is none of them.
    plain = f"{profile}.plain_element_traffic"
    if plain in kernels.coefficients and not network.gated and not network.frozen_parameters:
        values["element_traffic"] = kernels.value(plain)
    for key in ("hook_seconds", "gradient_launch_seconds"):  # only some profiles have these
        if (name := f"{profile}.{key}") in kernels.coefficients:
            values[key] = kernels.value(name)
    return Kernels(
        **values,
        quantised_bytes=kernels.value(f"quantised_bytes.{recipe.quant}") if recipe.weight_bits < 16 else 0.0,
        fused=int(profile == "fused"),
        overlaps_reduction=int(not framework.reduces_at_end),
    )
