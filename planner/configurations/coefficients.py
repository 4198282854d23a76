"""From a recipe, an architecture and the sheet of a GPU to the numbers of the estimates, the margin of memory too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Floats
from planner.configurations.recipe import Recipe, framework_of, loops_over_experts
from planner.errors import Fault, ScenarioError
from planner.estimates.device import encode_seconds
from planner.estimates.inputs import (
    ATTENTION_EAGER,
    ATTENTION_FLASH,
    ATTENTION_MEM_EFFICIENT,
    ATTENTION_SPARSE,
    CHECKPOINT_ALL_OFFLOADED,
    CHECKPOINT_EVERY_2ND,
    CHECKPOINT_FULL,
    CHECKPOINT_KEEP_ATTENTION,
    CHECKPOINT_MEGATRON_SELECTIVE,
    CHECKPOINT_NONE,
    CHECKPOINT_OFFLOAD,
    CHECKPOINT_SEGMENTS,
    CHECKPOINT_SELECTIVE,
    KEYS_BY_HEADS,
    KEYS_GATHERED,
    KEYS_IN_A_RING,
    SEGMENT_LAYERS,
    TOWER_ADAPTED,
    Activations,
    Hardware,
    Kernels,
    Layout,
    Network,
    Stack,
    States,
)
from planner.estimates.memory_fit import confidence_margin
from planner.estimates.memory_terms import (
    FSDP2_MIXTURE,
    LIVE_PARAMETERS,
    REDUCE_BUCKET_ELEMENTS,
    MemoryCoefficients,
    parked_bytes,
)
from planner.estimates.stage_seconds import StageCoefficients, step_bytes
from planner.estimates.uncertainty import MemorySpread, memory_spread
from planner.estimates.weights import lora_parameters
from planner.library.reading import teacher_card
from planner.library.schema import Architecture, Calibration, GpuSpec, Library
from planner.library.technique_tables import FrameworkProfile, OptimizerBytes, QuantisedBytes, TechniqueTable
from planner.scenario.job import Job
from planner.units import GB, GIB, TERA

if TYPE_CHECKING:
    from collections.abc import Sequence


MIN_MEMORY_SAVING = 0.02
"""Share of the memory that a change after a run out of memory saves at least: less is no help."""


def framework_spread(framework: str, library: Library, offload: bool = False) -> MemorySpread:
    """Return the spread of the memory of a framework without observations; `offload`: with states in host memory."""
    values = library.calibrations["memory"].values
    return memory_spread(values, framework, framework_of(library, framework).profiled, offload)


def recipe_spread(recipe: Recipe, library: Library) -> MemorySpread:
    """Return the spread of the memory of a recipe without observations."""
    return framework_spread(recipe.framework, library, recipe.offloads)


def memory_margin(framework: str, confidence: float, library: Library, offload: bool = False) -> float:
    """Return the margin on uncertain bytes at which a configuration fits with a probability, without observations."""
    return confidence_margin(framework_spread(framework, library, offload).sigma, confidence)


def margin_text(margin: float, known_margin: float) -> str:
    """Return the margins of the fit rule in percent, in words."""
    if margin == known_margin:
        return f"margin {margin * 100:.3g} %"
    return f"margin {margin * 100:.3g} %, of weights, gradients and optimizer {known_margin * 100:.3g} %"


# Cached latents of images: what caching saves of every step, what it costs before the first one, and its bytes.


@dataclass(frozen=True)
class LatentCache:
    """The cache of one job: as many images as it has, each encoded once."""

    images: float
    token_share: float
    """Of the time of a step, what is left without the encoders."""
    each_bytes: float
    """Of one image and its caption, encoded."""
    batches: float
    """Steps of an epoch."""

    @property
    def gb(self) -> float:
        """Return the GB of the whole cache."""
        return self.images * self.each_bytes / GB


def latent_cache(job: Job, architecture: Architecture) -> LatentCache | None:
    """Return the cache that a job may make; None of a network that is not trained on images."""
    image = architecture.image
    if image is None:
        return None
    size = image.size(*job.work.image_size)
    images = float(job.dataset_images)
    share = 1.0 - image.encoder_tokens(size) / image.tokens(size)
    return LatentCache(images, share, image.cached_bytes(size), images / job.global_batch)


def latent_gb(recipe: Recipe, job: Job, architecture: Architecture) -> float:
    """Return the GB that a recipe caches; 0 where it caches nothing."""
    cache = latent_cache(job, architecture) if recipe.caches_latents else None
    return cache.gb if cache else 0.0


def cached_bytes(job: Job, architecture: Architecture, recipes: Sequence[Recipe]) -> list[float]:
    """Return of each recipe the bytes of one image whose latents are cached; 0 where they are not."""
    cache = latent_cache(job, architecture)
    return [cache.each_bytes if cache and recipe.caches_latents else 0.0 for recipe in recipes]


def latent_seconds(
    job: Job, architecture: Architecture, each_bytes: Floats, step_seconds: Floats, coefficients: StageCoefficients
) -> Floats:
    """Return the seconds (n,) of encoding all images once, where one is cached in `each_bytes` (n,); 0 elsewhere.

    `step_seconds` (n,) are those of a step that reads its latents.
    """
    cache, image = latent_cache(job, architecture), architecture.image
    if cache is None or image is None:
        return np.zeros(len(each_bytes))
    side = image.size(*job.work.image_size).side
    moved = step_bytes(cache.images, coefficients, side, job.image_bytes) + cache.images * each_bytes
    storage = job.storage_gb_per_second * GB
    seconds = encode_seconds(cache.batches, step_seconds, cache.token_share, moved, storage)
    return np.where(each_bytes > 0, np.asarray(seconds, dtype=float), 0.0)


# From a recipe and an architecture to the plain numbers that the estimates take.
#
# This is the one place where names become coefficients; candidates and audit both come through here.


_CODES_OF_BLOCKS = {"half": CHECKPOINT_EVERY_2ND, "pairs": CHECKPOINT_SEGMENTS}
_SELECTIVE_CODES = {
    "operators": CHECKPOINT_SELECTIVE,
    "attention": CHECKPOINT_KEEP_ATTENTION,
    "scores": CHECKPOINT_MEGATRON_SELECTIVE,
}
# Of a 16-bit gradient under FSDP: put into its flat parameter, then divided (fsdp/_runtime_utils.py), each 2 + 2 bytes.
_HANDED_BYTES = 8.0
# Of the input of a frozen linear whose weight comes from host memory; adapters keep those of attention in any case.
# Source: SimpleTuner, helpers/ramtorch/modules/linear.py (BouncingLinearFn.forward: save_for_backward(x, ...)).
_HOSTED_INPUT_BYTES = 2.0
_COPIED_TOKENS = 4096  # of the sequence that bytes per token are counted with; only eager attention depends on it
_KEY_EXCHANGES = {"ring": KEYS_IN_A_RING, "gather": KEYS_GATHERED, "heads": KEYS_BY_HEADS, "": KEYS_GATHERED}
_ATTENTION = {"mem_efficient": ATTENTION_MEM_EFFICIENT, "eager": ATTENTION_EAGER, "sparse": ATTENTION_SPARSE}


@dataclass(frozen=True)
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
        *(recipe.optimizer, recipe.offload, recipe.lora_rank, recipe.dora, recipe.adapt_head, recipe.experts_16_bit),
        recipe.reference,
        (_rounds(recipe, table) or _keeps_copies(recipe, framework, table)) and recipe.activation_checkpointing,
    )
    if of_states not in shared:
        is_full = recipe.method == "full"
        trained = _full_training_states if is_full else partial(_lora_states, job)
        states = trained(recipe, network, framework, table)
        # A copy has the type of the weights that are trained (TRL 1.16, trainer/dpo_trainer.py: ref_model_init_kwargs).
        if recipe.reference_row is not None and recipe.reference_row.copied:
            states = replace(states, reference_bytes=_copy_bytes(job, network, states))
        shared[of_states] = replace(states, **_rounded(recipe, network, table)) if _rounds(recipe, table) else states
        shared[of_states] = _with_average(job, shared[of_states])
    activations = _activations(recipe, job, network, framework, table, shared[of_states])
    if recipe.keeps_activations:
        activations = replace(activations, copied_bytes=_copied_bytes(network, shared[of_states], activations, library))
    if recipe.hosts_attention:
        activations = replace(activations, attention_hosted=1)
        copied = _copied_bytes(network, shared[of_states], activations, library)
        activations = replace(activations, fetched_bytes=copied)
    if recipe.caches_latents and (cache := latent_cache(job, library.architecture(job.architecture))):
        activations = replace(activations, token_share=cache.token_share)
    tower_bytes = _tower_bytes(recipe, job, shared[of_states], table)
    of_stack = (recipe.framework, recipe.caches_latents, recipe.offloads, tower_bytes)
    if of_stack not in shared:
        shared[of_stack] = _stack(recipe, job, network, library, tower_bytes)
    of_kernels = (
        *(recipe.framework, recipe.sharding, recipe.attention, recipe.weight_bits, recipe.quant),
        *(recipe.experts_16_bit, recipe.offload),
    )
    if of_kernels not in shared:
        shared[of_kernels] = _kernels(recipe, framework, library, network)
    return RecipeCoefficients(shared[of_states], activations, shared[of_stack], shared[of_kernels])


_AVERAGE_BYTES = 4.0
"""Per trained weight of an average of the weights, in fp32: in 16 bits it would not move."""


def _with_average(job: Job, states: States) -> States:
    """Return the states with an average of the trained weights; its difference to them is alive while it is updated.

    One in host memory lies on the GPU then, too.
    """
    if job.ema == "none":
        return states
    hosted = job.ema == "host"
    return replace(
        states,
        average_bytes=(not hosted) * _AVERAGE_BYTES,
        hosted_average_bytes=hosted * _AVERAGE_BYTES,
        step_bytes=max(float(states.step_bytes), (1 + hosted) * _AVERAGE_BYTES),
    )


TEACHER_BYTES = 2.0
"""Per weight of a teacher, which is loaded in 16 bits (TRL, `teacher_model_init_kwargs`)."""
TEACHER_LOGITS = 2.0
"""Bytes of logits over those of the student alone: those of the teacher, with their log-softmax. Prior."""


def _copy_bytes(job: Job, network: Network, states: States) -> float:
    """Return the bytes of what is compared with, per weight of the network: of itself, or of a teacher of its own size.

    A teacher of 72.7e9 weights next to a student of 7.6e9: 2 * 9.6 = 19.1 bytes.
    """
    if job.teacher is None:
        return float(states.weight_bytes)
    return TEACHER_BYTES * teacher_card(job.teacher).parameters / network.parameters


def _further_forwards(job: Job, recipe: Recipe, network: Network) -> float:
    """Return the passes without gradients of a step, in those of the network: a teacher's by its active weights."""
    once = recipe.reference_row is not None and recipe.reference_row.once
    passes = job.tuning_row.further_forwards(once, job.work.epochs)
    if job.teacher is None:
        return passes
    return passes * teacher_card(job.teacher).active_parameters / network.active_parameters


def _where_states_are(
    recipe: Recipe, network: Network, framework: FrameworkProfile, table: TechniqueTable
) -> dict[str, float]:
    """Return the fields of `States` that say what stays whole, what waits, and what is in host memory."""
    fully_sharded, hosted = recipe.zero_stage == 3, table.values.offload.values[recipe.offload]
    bucket = _runs_deepspeed(recipe, framework, table) * REDUCE_BUCKET_ELEMENTS
    optimizer, reference = table.values.optimizer.values[recipe.optimizer], recipe.reference_row
    return {
        "no_sync_full_gradients": int(framework.no_sync and fully_sharded),
        "load_whole": int(framework.load_whole and fully_sharded),
        "reducer_copies": int(not framework.megatron),
        "bucket_bytes": bucket * table.compute(recipe.precision).element_bytes,
        "live_parameters": LIVE_PARAMETERS if fully_sharded and bucket else 0.0,
        "host_weights": int(hosted.weights),
        "host_optimizer": int(hosted.optimizer),
        "host_frozen": hosted.frozen * framework.frozen_buffers,
        **_block_swap(hosted.swapped, framework),
        **({"rounded_input_bytes": _HOSTED_INPUT_BYTES * (network.hidden + network.ffn)} if hosted.frozen else {}),
        "host_reference": int(bool(reference and reference.hosted)),
        "paged_optimizer": int(optimizer.paged),
        "steps_in_backward": int(optimizer.in_backward),
    }


def _block_swap(share: float, framework: FrameworkProfile) -> dict[str, float]:
    """Return the fields of `States` of blocks in host memory; none without them, or of a framework that swaps none."""
    if not share or framework.block_swap is None:
        return {}
    swap = framework.block_swap
    return {"swapped_share": share, "swap_ring": swap.ring, "swap_crossings": swap.crossings}


def _rounds(recipe: Recipe, table: TechniqueTable) -> bool:
    """Whether linear layers compute with rounded weights and inputs (QAT)."""
    return table.values.precision.values[recipe.precision].rounds


def _rounded(recipe: Recipe, network: Network, table: TechniqueTable) -> dict[str, float]:
    """Return the fields of `States` of layers that round: all keep it for the backward pass, or the one in work."""
    kept = table.bytes.rounded[recipe.method]
    layers = 1.0 if recipe.activation_checkpointing == "none" else 1.0 / network.layers
    return {
        "rounded_weight_bytes": kept.weight_bytes * layers,
        "rounded_input_bytes": kept.input_bytes * lora_parameters(network, 1).inputs_per_layer,
        "rounded_passing_bytes": kept.passing_bytes,
    }


def _rounding(quantised: QuantisedBytes, network: Network) -> dict[str, float]:
    """Return the fields of `States` of a base whose linears round their inputs, too (dynamic fp8); all 0 of others.

    A block of FLUX.1 has nine inputs of its width 3,072: it keeps 11.3 * 9 * 3072 = 312 kB for each token.
    """
    inputs = network.linear_inputs / network.layers or lora_parameters(network, 1).inputs_per_layer
    return {
        "rounding_passing_bytes": quantised.input_passing_bytes * max(network.hidden, network.ffn),
        "rounded_input_bytes": quantised.input_bytes * inputs,
        "rounding_forward_bytes": quantised.forward_bytes * inputs,
        "rounding_backward_bytes": quantised.backward_bytes * inputs,
        "rounded_passing_bytes": quantised.passing_bytes,
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
        count = lora_parameters(network, recipe.lora_rank or job.lora.rank[0], job.lora.targets, recipe.adapt_head)
    except ValueError as error:
        fix = "name what it has, or write all-linear, attention or qv"
        raise ScenarioError([Fault(f"job {job.name}", 0, "lora.targets", str(error), fix)]) from None
    base = table.compute(recipe.precision).element_bytes
    quantised = _stored_as(recipe, framework, table)
    weight = quantised.weight_bytes if quantised else base
    weight += whole_share(recipe, network) * (base - weight)
    if optimizer := table.bytes.optimizers.get(recipe.optimizer):
        adapters["optimizer_bytes"] = optimizer.optimizer_bytes
    if optimizer or framework.fused_step:
        adapters["step_bytes"] = 0.0
    kept = quantised.kept_bytes * _kept_share(recipe, framework, network) if quantised else 0.0
    prepared = _is_kbit_prepared(recipe, framework, table)
    embedding_bytes, trainable = 4.0 if prepared else base, float(count.trainable + recipe.dora * count.outputs)
    magnitudes = table.bytes.magnitudes
    if network.tower and network.tower.state == TOWER_ADAPTED:
        trainable += (recipe.lora_rank or job.lora.rank[0]) * network.tower.adapter_widths
    if saved := job.lora.train_embeddings * network.embedding_parameters + network.trained_tower_parameters:
        adapters = _with_saved_modules(adapters, saved / (trainable + saved), embedding_bytes, optimizer)
        trainable += saved
    return States(
        frozen=1,
        quantised=int(quantised is not None),
        weight_bytes=weight,
        embedding_bytes=embedding_bytes,
        cast_bytes=0.0,
        rounded_weight_bytes=kept,
        **(_rounding(quantised, network) if quantised and quantised.input_bytes else {}),
        trainable=trainable,
        adapter_inputs=float(count.inputs_per_layer),
        adapted_linears=float(count.linears_per_layer),
        idle_adapted_linears=float(count.idle_linears_per_layer),
        gathered_bytes=weight if quantised else 2.0,
        magnitude_output_bytes=recipe.dora * magnitudes.output_copies * base * count.outputs_per_layer,
        magnitude_passing_bytes=recipe.dora * magnitudes.passing_bytes,
        **adapters,
        **_where_states_are(recipe, network, framework, table),
    )


def _stored_as(recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable) -> QuantisedBytes | None:
    """Return the bytes of a quantised weight as its framework stores it; None where weights are not quantised."""
    return table.bytes.quantised.get(framework.stores.get(recipe.quant, recipe.quant))


def _keeps_copies(recipe: Recipe, framework: FrameworkProfile, table: TechniqueTable) -> bool:
    """Whether products keep the 16-bit copies of their quantised weights until the backward pass."""
    stored = _stored_as(recipe, framework, table)
    return stored is not None and stored.kept_bytes > 0.0


def _kept_share(recipe: Recipe, framework: FrameworkProfile, network: Network) -> float:
    """Return the share of all layers whose copies of weights live at the same time, until the backward pass of each."""
    shares = {
        CHECKPOINT_NONE: 1.0,
        CHECKPOINT_EVERY_2ND: 0.5,
        CHECKPOINT_SEGMENTS: SEGMENT_LAYERS / network.recomputed_blocks,
    }
    return shares.get(_checkpoint_code(recipe, framework), 1.0 / network.recomputed_blocks)


def whole_share(recipe: Recipe, network: Network) -> float:
    """Return the share of the weights of all layers that routed experts keep in 16 bits on a quantised base."""
    if not recipe.experts_16_bit:
        return 0.0
    return network.expert_parameters / (network.parameters - network.embedding_parameters)


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
        kept = optimizer.kept_bytes(moments, network.embedding_parameters / network.parameters)
        row["optimizer_bytes"] = row["optimizer_bytes"] - moments + kept
        row["optimizer_traffic_bytes"] -= optimizer.traffic_saved_bytes
    if optimizer or framework.fused_step:
        row["step_bytes"] = 0.0
    if (
        optimizer
    ):  # the largest matrix is the embedding, unless layers alone are stepped so; as bytes per trained weight
        largest = network.ffn if optimizer.layer_share is not None else network.vocab
        row["step_bytes"] = optimizer.largest_bytes * largest * network.hidden / network.parameters
    sharded = recipe.zero_stage == 3
    if sharded or framework.compiles_graphs:
        row["added_bytes"] = 0.0  # shards alone are added; a graph adds in the product
    row["handed_bytes"] = _HANDED_BYTES if sharded and not framework.compiles_graphs else 0.0
    deepspeed = _runs_deepspeed(recipe, framework, table)
    if network.experts and sharded and not deepspeed and not framework.compiles_graphs:
        row |= FSDP2_MIXTURE
    row["embedding_bytes"] = row["weight_bytes"]
    row["trainable"] = network.parameters + network.trained_tower_parameters
    return States(frozen=0, quantised=0, **row, **_where_states_are(recipe, network, framework, table))


def _activations(
    recipe: Recipe, job: Job, network: Network, framework: FrameworkProfile, table: TechniqueTable, states: States
) -> Activations:
    prepared = _is_kbit_prepared(recipe, framework, table)
    loss = table.bytes.loss[_loss_row(recipe, job, framework, table, prepared)]
    element = table.compute(recipe.precision).element_bytes
    quantised = table.bytes.quantised.get(recipe.quant)
    keeps_gradients = states.frozen and recipe.zero_stage == 3 and not states.bucket_bytes  # adapters under FSDP
    # Autocast over fp32 weights that no engine casts: the embedding is fp32, and so is what layers add to it.
    autocast = recipe.zero_stage == 0 and states.cast_bytes > 0
    norm_units = 5.0 if network.parallel_residual else framework.norm_units
    checkpoints = recipe.activation_checkpointing != "none"
    return Activations(
        checkpointing=_checkpoint_code(recipe, framework),
        attention=_ATTENTION.get(recipe.attention, ATTENTION_FLASH),  # releases of flash differ in speed alone
        logit_bytes=0.0 if job.tuning_row.scalar else loss.logit_bytes * (TEACHER_LOGITS if job.teacher else 1.0),
        further_forwards=_further_forwards(job, recipe, network),
        logits_materialised=int(loss.materialised and not job.tuning_row.scalar),
        head_gradient_bytes=head_gradient_bytes(states, recipe.zero_stage) if loss.gradient_in_forward else 0.0,
        element_bytes=element,
        residual_bytes=4.0 if prepared or autocast else element,
        keeps_gradients=int(keeps_gradients and framework.fsdp_adapters_keep_gradients),
        input_hooks=int(states.frozen and checkpoints and framework.input_hooks),
        norm_units=min(norm_units, framework.norm_units),
        rope_factor=2.0 if network.rope and not framework.fused_rope else 1.0,
        ffn_units=(3.0 if framework.fused_swiglu else 4.0) if network.gated else 2.0,
        sequence_parallel=int(framework.sequence_parallel),
        key_exchange=_KEY_EXCHANGES[framework.context_parallel],
        quantised_no_checkpoint_factor=int(
            framework.frozen_quantised_factor and quantised is not None and quantised.bitsandbytes
        ),
        compiled=int(framework.compiled),
        megatron_kernels=int(framework.megatron),
        working_factor=framework.working_factor,
    )


def _loss_row(recipe: Recipe, job: Job, framework: FrameworkProfile, table: TechniqueTable, prepared: bool) -> str:
    """Return the row of the loss in `bytes.yaml`: that of the framework, or of its preference tuning.

    Accelerate's autocast casts the logits of Transformers classes to fp32. DeepSpeed's engine has no autocast, and
    losses of pairs, other than that of supervised tuning, do not cast (TRL, `selective_log_softmax`).
    """
    name = framework.loss if job.tuning == "sft" else framework.tuning_loss or framework.loss
    if name != "hf":
        return name
    if prepared:
        return "hf-prepared"
    narrow = _runs_deepspeed(recipe, framework, table) and table.compute(recipe.precision).element_bytes == 2
    return (job.tuning_row.loss_16_bit or name) if narrow else name


def _copied_bytes(network: Network, states: States, activations: Activations, library: Library) -> float:
    """Return the bytes per token that go to host memory where activations lie there, of all layers."""
    memory = MemoryCoefficients.of(library.calibrations["memory"].values)
    layout = Layout(1, 1, _COPIED_TOKENS, _COPIED_TOKENS, 1, 1, 1, 1)
    return float(parked_bytes(network, layout, states, activations, memory)) / _COPIED_TOKENS


def head_gradient_bytes(states: States, zero_stage: int) -> float:
    """Return the bytes per weight of the gradient of the head that Liger's loss makes in the forward pass.

    It has the type of the weight, which ZeRO-3 and FSDP gather in 16 bit; 0 where the head is frozen. Source:
    Liger-Kernel, ops/fused_linear_cross_entropy.py: `grad_weight = torch.zeros_like(weight)` where it needs one.
    """
    return 0.0 if states.frozen else float(states.gathered_bytes if zero_stage == 3 else states.weight_bytes)


def _checkpoint_code(recipe: Recipe, framework: FrameworkProfile) -> int:
    if recipe.activation_checkpointing == "none":
        return CHECKPOINT_NONE
    if recipe.checkpointed_blocks:
        return _CODES_OF_BLOCKS[recipe.checkpointed_blocks]
    if recipe.keeps_activations:
        return CHECKPOINT_ALL_OFFLOADED
    if recipe.activation_checkpointing == "selective":
        return _SELECTIVE_CODES[framework.selective]
    return CHECKPOINT_OFFLOAD if recipe.parks_checkpoints else CHECKPOINT_FULL


def _tower_bytes(recipe: Recipe, job: Job, states: States, table: TechniqueTable) -> float:
    """Return the bytes per weight of a tower of images, which is loaded in the type of the weights next to it.

    A quantised base leaves it in the type of the training. A reference that is a copy on the GPU has a tower, too.
    """
    own = table.compute(recipe.precision).element_bytes if states.frozen else float(states.weight_bytes)
    return own if job.teacher or states.host_reference else own + float(states.reference_bytes)


def _stack(recipe: Recipe, job: Job, network: Network, library: Library, tower_bytes: float) -> Stack:
    memory, megatron = library.calibrations["memory"], framework_of(library, recipe.framework).megatron
    # Frozen parts of an image network are held in 16 bit and never move: they are set aside like the context. So is the
    # tower of a multimodal model, which each GPU holds whole.
    frozen_gib = 0.0 if recipe.caches_latents else 2.0 * network.frozen_parameters / GIB
    frozen_gib += tower_bytes * (network.tower_parameters - network.trained_tower_parameters) / GIB
    margin = memory_margin(recipe.framework, job.memory_confidence, library, recipe.offloads)
    return Stack(
        context_gib=memory.value("m_ctx_gib" if megatron else "ctx_gib") + frozen_gib,
        encoders_gib=frozen_gib,
        nccl_gib=memory.value("nccl_gib"),
        fit_nccl_gib=0.0 if megatron else memory.value("fit_nccl_gib"),
        megatron_context=int(megatron),
        margin=margin,
        known_margin=recipe_spread(recipe, library).known_share * margin,
        phi=memory.value("phi"),
    )


_KERNEL_KEYS = (
    *("element_traffic", "launch_seconds", "logit_traffic_bytes", "matmul_factor", "eager_traffic", "overlap"),
    *("fsdp_launch_seconds", "moe_factor", "naive_experts", "attention_factor"),
)
"""Fields of `Kernels` that every profile of models/calibration/kernels.yaml has."""


def _kernels(recipe: Recipe, framework: FrameworkProfile, library: Library, network: Network) -> Kernels:
    profile, table, kernels = framework.kernels, library.techniques, library.calibrations["kernels"]
    values = {key: kernels.value(f"{profile}.{key}") for key in _KERNEL_KEYS}
    if not network.experts:
        values["moe_factor"] = 1.0
    if (exposed := table.values.sharding.values[recipe.sharding].exposed) is not None:
        values["overlap"] = 1.0 - kernels.value(exposed) * (1.0 - values["overlap"])
    hosted = table.values.offload.values[recipe.offload]
    if hosted.frozen or hosted.swapped:
        values["overlap"] = 1.0  # copies on streams of their own, one linear or block ahead
    if (gain := table.values.attention.values[recipe.attention].gain) is not None:
        values["attention_factor"] *= kernels.value(gain)
    if network.masked:
        values["attention_factor"] *= kernels.value("masked.attention_factor")
    values["naive_experts"] *= loops_over_experts(recipe, library)
    # Decoder classes with plain feed-forwards have one kernel per norm and none for rotation, where the profile has a
    # figure of their own; the U-Net of an image network is none of them.
    plain = f"{profile}.plain_element_traffic"
    if plain in kernels.coefficients and not network.gated and not network.frozen_parameters:
        values["element_traffic"] = kernels.value(plain)
    for key in (
        "hook_seconds",
        "gradient_launch_seconds",
        "recomputed_launch",
        "quantised_launch_seconds",
    ):  # only some profiles have these
        if (name := f"{profile}.{key}") in kernels.coefficients:
            values[key] = kernels.value(name)
    if (name := f"{profile}.quantised_launch_seconds.{recipe.quant}") in kernels.coefficients:
        values["quantised_launch_seconds"] = kernels.value(name)
    stored = _stored_as(recipe, framework, table)
    return Kernels(
        **values,
        quantised_bytes=kernels.value(f"quantised_bytes.{recipe.quant}") * (1.0 - whole_share(recipe, network))
        if recipe.weight_bits < 16
        else 0.0,
        fp8_forward=int(stored is not None and stored.fp8_products),
        fused=int(profile == "fused"),
        overlaps_reduction=int(not framework.reduces_at_end),
        dispatches_by_node=int(framework.expert_dispatch == "node"),
    )


# Speeds of one GPU as the time estimate takes them, from its sheet and the shares of it that GPUs reach.


PCIE_BYTES_PER_SECOND = {3: 12e9, 4: 24e9, 5: 48e9, 6: 96e9}
"""One direction of a 16-lane slot as reached in practice, by generation: what the time estimate was fitted with."""
DEFAULT_NETWORK_BYTES_PER_SECOND = 12.5 * GB
"""Per node where the offer does not say: a link of 100 Gb/s, a guess that widens the configuration's spread."""


def hardware_numbers(gpu: GpuSpec, link: str, network_gbps: float | None, precision: str, library: Library) -> Hardware:
    """Return the speeds of one GPU in one precision; `link` is nvlink, nvswitch, ici (of TPU slices) or pcie."""
    speeds = library.calibrations["gpu_efficiency"]
    nvlink = gpu.nvlink_gb_s * GB / 2 if link in ("nvlink", "nvswitch", "ici") else 0.0
    peak, linear_peak = peaks_of(gpu, precision, library)
    efficiency = library.techniques.compute(precision).efficiency
    return Hardware(
        peak=peak,
        linear_peak=linear_peak,
        bandwidth=gpu.memory_bandwidth_gb_s * GB,
        nvlink=nvlink,
        pcie=PCIE_BYTES_PER_SECOND[gpu.pcie_gen],
        network=network_gbps * GB / 8 if network_gbps else DEFAULT_NETWORK_BYTES_PER_SECOND,
        efficiency=speeds.value(efficiency) if efficiency else efficiency_of(gpu, speeds)[0],
        attention_efficiency=_attention_efficiency(gpu, speeds),
        host_factor=_factor(speeds, f"host.{gpu.name}"),
        dequant_factor=_factor(speeds, f"dequant.{gpu.name}"),
        fp32_peak=gpu.fp32_tflops * TERA,
        usable_bytes=gpu.usable_gib * GIB,
        fp8_gain=_fp8_gain(gpu, library),
    )


def _fp8_gain(gpu: GpuSpec, library: Library) -> float:
    """Return the speed of a product in fp8 over one in 16 bit, its casts left out: 1979 / 989 * 0.88 of an H100."""
    fp8, half = (gpu.peaks.get(key) for key in ("fp8_tflops", "tensor16_tflops"))
    if not fp8 or not half:
        return 1.0
    return fp8 / half * library.calibrations["kernels"].value("linear_share.fp8_fused")


def peaks_of(gpu: GpuSpec, precision: str, library: Library) -> tuple[float, float]:
    """Return the peak in FLOP/s of a precision, and that of its linear layers; ValueError where the GPU lacks one."""
    compute = library.techniques.compute(precision)
    key = compute.peak_key(gpu.peaks)
    missing = compute.missing_peak(gpu.peaks)
    if key is None or missing:
        raise ValueError(f"{gpu.name} has no {missing}, the peak of {precision}")
    peak = gpu.peaks[key] * TERA
    if compute.linear_peak is None:
        return peak, peak
    kernels = library.calibrations["kernels"]
    share = linear_share(compute.linear_share, gpu, kernels) if compute.linear_share else 1.0
    return peak, share * gpu.peaks[compute.linear_peak] * TERA


def linear_share(key: str, gpu: GpuSpec, kernels: Calibration) -> float:
    """Return the share of a narrow peak that linear layers reach: of the GPU's generation where it has its own."""
    own = f"{key}.{gpu.generation}"
    return kernels.value(own if own in kernels.coefficients else key)


def fastest_precision(gpu: GpuSpec, library: Library) -> str:
    """Return the precision with the highest peak of linear layers on a GPU."""
    table, peaks = library.techniques, gpu.peaks
    possible = [
        precision for precision in table.allowed("precision") if table.compute(precision).missing_peak(peaks) is None
    ]
    return str(max(possible, key=lambda precision: peaks_of(gpu, precision, library)[1]))


def efficiency_of(gpu: GpuSpec, speeds: Calibration) -> tuple[float, str]:
    """Return the best share of peak that the GPU reaches, and what that rests on.

    `measured` training runs, measured `kernels` (matrix products alone), or a `prior`.
    """
    entry = speeds.coefficients[gpu.name]
    return entry.value, entry.basis


def efficiency_notes(gpu: GpuSpec, library: Library) -> list[str]:
    """Return what a plan says of a speed that no training run was measured for."""
    _, basis = efficiency_of(gpu, library.calibrations["gpu_efficiency"])
    if basis == "measured":
        return []
    source = (
        "measured matrix products, not from training runs" if basis == "kernels" else "a prior, not from measurements"
    )
    return [f"speed of {gpu.name} is from {source}"]


def chip_notes(gpu: GpuSpec, method: str, precision: str, chips: int) -> list[str]:
    """Return what a plan or an estimate says of a chip other than NVIDIA's: what of the run was not measured."""
    chip = gpu.chip
    if chip is None:
        return []
    why, notes = chip.unmeasured(method, chips), []
    if why is not None:
        notes.append(f"NOT MEASURED on {gpu.name}: {why}; the range is widened by a guess")
    seen = [measurement.precision for measurement in chip.measured if measurement.method == method]
    if seen and precision not in seen:
        runs = f"published {method} runs on {gpu.name} are in {' and '.join(seen)}"
        notes.append(f"{runs}: the range is wider for {precision}")
    if chip.hosts:
        upper = "synthetic data without checkpoints: an upper bound, so expect more hours"
        notes.append(f"speed of {gpu.name} is from its maker's runs on {upper}")
    if chip.hosts_of(chips) > 1:
        notes.append(f"the slice has {chip.hosts_of(chips)} hosts and stops when one is lost")
    return notes


def expert_notes(recipe: Recipe, gpus: int, gpus_per_node: int, library: Library) -> list[str]:
    """Return what a plan or an estimate says of experts: how tensor parallelism divides them, how tokens reach them."""
    tensor, pipeline, expert = recipe.tensor_parallel, recipe.pipeline_parallel, recipe.expert_parallel
    layout = Layout(1, 1, 1, 1, gpus, 1, tensor, pipeline, expert=expert)
    notes, framework = [], framework_of(library, recipe.framework)
    if layout.expert_tensor != tensor:
        why = f"TP {tensor} x EP {expert} does not divide the {gpus // pipeline} GPUs of a stage"
        notes.append(f"each expert is whole on its GPU, so set expert tensor parallelism to 1: {why}")
    if framework.expert_dispatch == "node" and expert * layout.expert_tensor > gpus_per_node:
        notes.append("counts on a dispatcher that sends a token once to each node: moe_token_dispatcher_type flex")
    return notes


def _attention_efficiency(gpu: GpuSpec, speeds: Calibration) -> float:
    """Return the share of peak in fused attention: of the GPU where there is a figure, else of its generation."""
    own = f"attention.{gpu.name}"
    return speeds.value(own if own in speeds.coefficients else f"attention.{gpu.generation}")


def _factor(speeds: Calibration, key: str) -> float:
    """Return a factor that only few GPUs have; 1 for all others."""
    return speeds.value(key) if key in speeds.coefficients else 1.0
