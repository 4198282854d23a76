"""Bytes on one GPU, term by term: states that no batch changes, and what one sequence of the micro-batch stores.

One GPU of the fullest pipeline stage; the symbols in comments are those of the formulas
(W weights, A adapters, G gradients, O optimizer, T trained parameters, S shards).

Activations grow in proportion to the micro-batch, so their terms are bytes *per sequence* and the estimate
multiplies them; this gives the largest micro-batch in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from planner.estimates.inputs import (
    ATTENTION_EAGER,
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
    SEGMENT_LAYERS,
    Activations,
    Coefficients,
    Layout,
    Network,
    Numbers,
    Setup,
    States,
    TimedSetup,
    tower_states,
)

REDUCE_BUCKET_ELEMENTS = 5e8
"""Gradients in DeepSpeed's bucket, `reduce_bucket_size` by default, of 2 bytes where the network computes in 16 bit.

It is allocated whole for each backward pass, however few parameters are trained. Where reductions overlap that pass
there are two, and exports ask for half the size of each. It is counted in the backward pass alone, although ZeRO-3
never frees it, and under ZeRO-1, although releases before 2025 have none there. Sources: DeepSpeed's documentation;
`backward` of runtime/zero/stage_1_and_2.py, `_setup_for_real_optimizer` of stage3.py.
"""


LIVE_PARAMETERS = 1e9
"""Weights that ZeRO-3 of DeepSpeed keeps gathered before it frees any, `stage3_max_live_parameters` by default.

What a module in use has comes on top. Sources: DeepSpeed's documentation, ZeRO optimisation for FP16 training;
`PartitionedParameterCoordinator` of runtime/zero/partitioned_param_coordinator.py.
"""
FSDP2_MIXTURE = {"gathered_layers": 2.0, "reduction_copy_bytes": 4.0}
"""What FSDP2 has of whole layers of a mixture of experts that is trained in full.

The layer at work and the prefetched one, each with all its experts; and gradients are copied in the type of the
reduction, fp32, before they are scattered. Source: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:
`foreach_reduce` (reduce_scatter_input), and `_fsdp_param_group.py` (prefetch in the backward pass). Layers of dense
networks are so small next to what else is held that published runs fit `n_uns` instead.
"""


@dataclass(frozen=True)
class MemoryCoefficients(Coefficients):
    """Fitted factors of the memory estimate; values, ranges and sources: `models/calibration/memory.yaml`."""

    k_log: float  # logit bytes, scale
    k_ws: float  # working set of one layer, share of its activations
    k_act: float  # stored activations without checkpointing, all weights trained
    k_frz: float  # the same over a frozen base
    k_frzq: float  # the same over a frozen base whose quantised linears keep their inputs
    k_comp: float  # compiled kernels, factor on stored activations
    k_wait: float  # share of offloaded activations that waits on the GPU for its copy
    c_in: float  # copies of adapter inputs
    e_att: float  # bytes per attention score in the working set of eager attention
    e_sto: float  # bytes per attention score kept for the backward pass
    n_uns: float  # layers whose gathered weights are alive under stage 3
    rho: float  # share of (sum of phases - peak) that the allocator keeps cached
    f_dyn: float  # fragmentation, share of activation bytes
    f_log: float  # extra cached bytes per logit
    f_var: float  # fragmentation of batches of varying length
    k_mws: float  # k_ws of Megatron kernels
    host_resident: float  # share of states in host memory that stays on the GPU (buffers of the copies)


@dataclass(frozen=True)
class StaticTerms:
    """Bytes per GPU, each a scalar or an array that broadcasts with the setup."""

    weights: Numbers  # W
    adapters: Numbers  # A
    gradients: Numbers  # G
    step_gradients: Numbers  # of G, what is left in the optimizer step
    early_gradients: Numbers  # G where it is alive during the forward pass too, else 0
    optimizer: Numbers  # O, with an average of the weights
    paged: Numbers  # optimizer states in managed pages: on the card as far as it has room, else in host memory
    step_temporary: Numbers  # Tm
    cast_weights: Numbers  # AMP, and copies that are rounded in the forward pass
    gathered_weights: Numbers  # U
    gathered_root: Numbers  # of U, what is still gathered when the last layer's forward pass is over
    gathered_gradients: Numbers  # Ug
    bucket: Numbers  # of gradients that wait for their reduction
    dequantised: Numbers  # D, of the matrix in work
    reference: Numbers  # a frozen copy of the weights that preference tuning compares with
    load: Numbers  # weights of a loader that materialises them whole on every rank, else 0


def static_terms(network: Network, layout: Layout, states: States, coefficients: MemoryCoefficients) -> StaticTerms:
    """Return what one GPU holds whatever the micro-batch.

    Under expert parallelism a rank holds its own experts, and those that hold the same ones share their shards.
    """
    tensor = layout.tensor
    per_layer, layers, embedding = _stage(network, layout.pipeline)
    in_stage = per_layer * layers + embedding  # P_l
    frozen = np.not_equal(states.frozen, 0)
    trained = np.where(frozen, states.trainable * (layers / network.layers), in_stage) / tensor  # T / tp
    experts = network.expert_parameters * layers / network.layers / tensor
    shards = _shards(layout)
    ones, twos, threes = (np.greater_equal(layout.zero_stage, stage) for stage in (1, 2, 3))
    over_1, over_2, over_3 = (np.where(stage, shards, 1.0) for stage in (ones, twos, threes))
    hosted = np.not_equal(states.host_weights, 0) & threes
    optimizer_hosted = hosted | np.not_equal(states.host_optimizer, 0)
    weights_here, optimizer_here = (np.where(at, coefficients.host_resident, 1.0) for at in (hosted, optimizer_hosted))
    paged = np.not_equal(states.paged_optimizer, 0) & ~optimizer_hosted
    gathers, accumulates = threes & (np.greater(shards, 1) | hosted), np.greater(layout.accumulation, 1)

    whole_weights = (per_layer * layers * states.weight_bytes + embedding * states.embedding_bytes) / tensor
    others = np.where(np.greater(states.bucket_bytes, 0), over_1 / over_2, 1.0)
    # The reducer of PyTorch's plain data parallelism keeps a second copy of the gradients in its buckets.
    buckets = 1.0 + np.where(~ones & np.greater(layout.data_parallel, 1), states.reducer_copies, 0.0)
    # Between the micro-batches of a pipeline, FSDP neither gathers again nor reduces (PyTorch's pipelining stages
    # switch both off until the last backward): the stage's weights and gradients stay whole.
    unsynced = np.not_equal(states.no_sync_full_gradients, 0) | np.greater(layout.pipeline, 1)
    keeps_full = gathers & accumulates & unsynced
    over, alive = np.where(keeps_full, 1.0, over_2), _alive_share(network, states, per_layer, in_stage)
    each = (states.gradient_bytes + states.extra_gradient_bytes) * buckets / over
    gradients = (trained - ~frozen * _elsewhere(experts, layout, over)) * each
    gradients = alive * np.where(keeps_full, 1.0, weights_here) * gradients
    leaves = optimizer_hosted & ~hosted & (twos | np.less_equal(layout.gpus, 1)) & ~keeps_full
    # Where a CPU updates, it takes over each gradient once it is reduced; what is left are buffers of the copies.
    gradients = np.where(leaves, coefficients.host_resident * gradients, gradients)
    away = _elsewhere(experts, layout, 1.0) * tensor
    each = per_layer - away / layers
    gathered = _gathered(each, in_stage - away, embedding, network, states, keeps_full, coefficients)
    stepped = trained - ~frozen * _elsewhere(experts, layout, over_1)
    weights = weights_here * (whole_weights - _elsewhere(experts, layout, over_3) * states.weight_bytes) / over_3
    return StaticTerms(
        weights=_but_for_hosted(weights, network, states),
        adapters=weights_here * np.where(frozen, trained * states.adapter_bytes, 0.0) / over_3,
        gradients=gradients,
        # DeepSpeed's ZeRO-1 frees the gradients that other ranks step with (`step` of stage_1_and_2.py).
        step_gradients=gradients / others,
        early_gradients=(accumulates | np.not_equal(states.gradients_in_forward, 0)) * gradients,
        optimizer=np.where(paged, 0.0, optimizer_here * stepped * states.optimizer_bytes / over_1)
        + trained * states.average_bytes,
        paged=np.where(paged, stepped * states.optimizer_bytes / over_1, 0.0),
        step_temporary=alive * optimizer_here * stepped * (states.step_bytes + states.extra_sharded_bytes) / over_1,
        cast_weights=_copies(states, in_stage - away, per_layer * layers - away, ones) / tensor,
        gathered_weights=gathers * gathered[0] / tensor,
        gathered_root=gathers * gathered[1] / tensor,
        gathered_gradients=(gathers & ~frozen) * (gathered[2] / tensor),
        bucket=states.bucket_bytes,
        dequantised=_in_work(network, states),
        reference=_reference_copy(network, layout, states, coefficients),
        load=np.not_equal(states.load_whole, 0) * whole_weights * (1.0 + 1.0 / over_3),
    )


def _but_for_hosted(weights: Numbers, network: Network, states: States) -> Numbers:
    """Return the bytes of `weights` on a GPU, or of their buffers where frozen ones come from host memory."""
    if np.any(states.swapped_share):
        ring = states.swap_ring * states.weight_bytes * network.parameters / network.layers
        weights = np.minimum(weights - swapped_bytes(network, states) + np.sign(states.swapped_share) * ring, weights)
    if not np.any(states.host_frozen):
        return weights
    buffers = states.host_frozen * states.weight_bytes * network.hidden * network.ffn
    return np.where(np.not_equal(states.host_frozen, 0), buffers, weights)


def swapped_bytes(network: Network, states: States) -> Numbers:
    """Return the bytes of the blocks of a frozen network that lie in host memory (block swap).

    Weights outside the blocks, 1 to 2 % of the networks here, count as blocks. Half of FLUX.1 in fp8: 0.5 * 11.9e9 * 1
    byte = 5.95 GB less on the GPU, but for the ring of blocks that come: of musubi-tuner 4 * 11.9e9 / 57 = 0.84 GB.
    With four crossings (kohya, out and in for the forward pass and for the backward pass) 23.8 GB cross the slot in a
    micro-batch: 1.2 s at 0.825 of 24e9 bytes/s, behind the work; with two (musubi-tuner, in alone) 0.6 s.
    Sources: kohya-ss/sd-scripts, library/custom_offloading_utils.py; kohya-ss/musubi-tuner, docs/block_swap.md.
    """
    return states.swapped_share * states.weight_bytes * network.parameters


def _reference_copy(network: Network, layout: Layout, states: States, coefficients: MemoryCoefficients) -> Numbers:
    """Return the bytes of one GPU's part of a frozen copy of the network, or of its buffers where it is hosted.

    Cut as the trained weights are: 7e9 weights in 16 bit over 4 GPUs at stage 3 are 3.5 GB each, at stage 2 14 GB.
    """
    if not np.any(states.reference_bytes):
        return 0.0
    here = np.where(np.not_equal(states.host_reference, 0), coefficients.host_resident, 1.0)
    return here * held_parameters(network, layout) * states.reference_bytes


def held_parameters(network: Network, layout: Layout) -> Numbers:
    """Return how many weights of a frozen copy of the network one GPU holds, cut as the trained weights are.

    8e9 weights over 4 GPUs at stage 3 are 2e9 each; at stage 1, tensor parallel over 2 GPUs, 4e9.
    """
    per_layer, layers, embedding = _stage(network, layout.pipeline)
    shards = np.where(np.greater_equal(layout.zero_stage, 3), _shards(layout), 1.0)
    experts = network.expert_parameters * layers / network.layers / layout.tensor
    return ((per_layer * layers + embedding) / layout.tensor - _elsewhere(experts, layout, shards)) / shards


def _copies(states: States, whole: Numbers, in_layers: Numbers, sharded: Numbers) -> Numbers:
    """Return the bytes of copies of weights: all cast by autocast where no stage shards, those that layers round."""
    return np.where(sharded, 0.0, states.cast_bytes) * whole + states.rounded_weight_bytes * in_layers


def _in_work(network: Network, states: States) -> Numbers:
    """Return the bytes of the largest matrix of a layer while it is dequantised, rounded, or its norm is taken."""
    element_bytes = (
        2.0 * np.not_equal(states.quantised, 0) + states.rounded_passing_bytes + states.magnitude_passing_bytes
    )
    return element_bytes * (network.hidden * network.ffn)


def _gathered(
    per_layer: Numbers,
    whole: Numbers,
    root: Numbers,
    network: Network,
    states: States,
    keeps_full: Numbers,
    coefficients: MemoryCoefficients,
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the gathered bytes of weights, of weights at the loss, and of the gradients of a layer.

    From the parameters of a layer, a stage, its root unit (embedding and head) and one matrix of the vocabulary. The
    root stays gathered while layers are gathered one by one. FSDP frees a layer's weights once its forward pass is
    over: the root is left at the loss. DeepSpeed's ZeRO-3 frees nothing up to `live_parameters`.
    """
    wide = np.maximum(states.gathered_bytes, 2.0)  # what is not quantised is gathered in the type that computes
    by_layer = np.maximum(coefficients.n_uns, states.gathered_layers) * per_layer * states.gathered_bytes + wide * root
    all_of_it, at_loss = wide * whole, wide * root
    if np.any(states.live_parameters):
        # DeepSpeed leaves weights of the layers around gathered, and the matrix of the vocabulary that is in use.
        layers = np.minimum(states.live_parameters, whole - root) * states.gathered_bytes
        kept = np.greater(states.live_parameters, 0)
        live = layers + wide * np.minimum(float(network.vocab * network.hidden), root)
        by_layer, at_loss = np.where(kept, live, by_layer), np.where(kept, live, at_loss)
    gradients = (wide + states.reduction_copy_bytes) * per_layer
    return np.where(keeps_full, all_of_it, by_layer), np.where(keeps_full, all_of_it, at_loss), gradients


def _alive_share(network: Network, states: States, per_layer: Numbers, in_stage: Numbers) -> Numbers:
    """Return the share of all gradients that is alive at one time: 1 but where the backward pass uses them up.

    There it is a layer and one matrix of the vocabulary: those of a layer become whole one by one, and the gradient of
    a tied embedding only at the end of the pass. Source: PyTorch, `register_post_accumulate_grad_hook`.
    """
    one_by_one = np.minimum((per_layer + network.vocab * network.hidden) / in_stage, 1.0)
    return np.where(np.not_equal(states.steps_in_backward, 0), one_by_one, 1.0)


def _elsewhere(experts: Numbers, layout: Layout, shards: Numbers) -> Numbers:
    """Return how many of the parameters of `experts` a rank counts less, before they are divided by its `shards`.

    Of E experts' parameters over s shards E / s lie on each rank; spread over ep ranks first, E / max(s, ep): no more.
    Experts that tensor parallelism does not divide may be more than that: E / ep with ep = EP / TP < 1, unsharded.
    """
    if np.all(np.equal(layout.expert, 1)):
        return 0.0
    held = np.where(np.greater(shards, 1), np.maximum(shards, layout.expert_shards), layout.expert_shards)
    return experts * (1.0 - shards / held)


def stage_layers(network: Network, pipeline: Numbers) -> Numbers:
    """Return the layers of the fullest pipeline stage (L_l)."""
    return np.ceil(np.divide(network.layers, pipeline))


def _stage_blocks(network: Network, pipeline: Numbers) -> Numbers:
    """Return the blocks that run again one by one in the fullest pipeline stage, whatever layers they count as.

    Wan 14B has 40 blocks with two attentions each, which are as many matrices as 49 layers.
    """
    return np.ceil(np.divide(network.recomputed_blocks, pipeline))


def _stage(network: Network, pipeline: Numbers) -> tuple[float, Numbers, Numbers]:
    """Return the parameters of one layer, layers of the stage, embedding parameters of the stage.

    With a pipeline the first stage holds the embedding and the last the head: one matrix each. A tower of images that
    is trained lies next to the embedding, and is sharded with it.
    """
    per_layer = (network.parameters - network.embedding_parameters) / network.layers
    one_matrix = float(network.vocab * network.hidden)
    embedding = np.where(np.greater(pipeline, 1), one_matrix, float(network.embedding_parameters))
    return per_layer, stage_layers(network, pipeline), embedding + network.trained_tower_parameters


def _shards(layout: Layout) -> Numbers:
    """Return the GPUs that share the states: all replicas, or those of one node under hybrid sharding."""
    everywhere = layout.replicas
    in_node = np.maximum(np.minimum(everywhere, np.divide(layout.gpus_per_node, layout.tensor)), 1.0)
    return np.where(np.not_equal(layout.hybrid, 0), in_node, everywhere)


# Bytes of host memory that states take which lie there between their uses, and what stays where it has no room.


HOST_BUFFERS = 1.5
"""Host memory over the states that lie in it, copies and pinned buffers included: the `additional_buffer_factor` of
DeepSpeed's own estimators (documentation, "Memory Requirements")."""

FP32_GRADIENTS = 4
"""Bytes of gradients that DeepSpeed keeps in host memory for each parameter stepped there (the same estimators)."""


def hosted_states(network: Network, layout: Layout, states: States, coefficients: MemoryCoefficients) -> Numbers:
    """Return the bytes of host memory for one GPU: its shard of the optimizer, with weights offloaded of all states.

    Under DeepSpeed its shard of the gradients in fp32, too.
    Paged states count without buffers, and whole once the card has no room for some of them (`paged_away_bytes`): the
    driver moves pages, and may come to move all of them. As long as the card holds them all they take none.
    Shape: that of the layout and states, broadcast. 0 where all states stay on the GPU.
    """
    on_gpu = replace(states, host_weights=0, host_optimizer=0, host_reference=0, host_frozen=0, swapped_share=0)
    here = static_terms(network, layout, on_gpu, coefficients)
    weights = np.not_equal(states.host_weights, 0) & np.greater_equal(layout.zero_stage, 3)
    optimizer = weights | np.not_equal(states.host_optimizer, 0)
    sums = np.greater(states.bucket_bytes, 0) * (FP32_GRADIENTS * here.optimizer / states.optimizer_bytes)
    moved = optimizer * (here.optimizer + sums) + weights * (here.weights + here.adapters + here.gradients)
    moved = moved + np.not_equal(states.host_reference, 0) * here.reference + np.sign(states.host_frozen) * here.weights
    moved = moved + swapped_bytes(network, states)
    paged = np.where(np.greater(states.paged_away_bytes, 0), here.paged, 0.0)
    return HOST_BUFFERS * moved + paged + states.trainable * states.hosted_average_bytes


def with_host_room(setup: TimedSetup, ram_bytes: Numbers, coefficients: MemoryCoefficients) -> TimedSetup:
    """Return the setup with paged states that never leave the card where the host cannot hold all of them.

    `ram_bytes` is the memory of one machine, nan where it is no limit; its shape is that of the layout, broadcast.
    """
    if not np.any(setup.states.paged_optimizer):
        return setup
    paged = static_terms(setup.network, setup.layout, setup.states, coefficients).paged
    fits = ~np.greater(np.multiply(paged, setup.layout.gpus_per_node), ram_bytes)
    if np.all(fits):
        return setup
    return replace(setup, states=replace(setup.states, paged_optimizer=setup.states.paged_optimizer * fits))


# Without recomputation only the gradients of one layer are alive besides the stored activations: a quarter of the
# working set of a recomputed layer (structural constant of the formula, not fitted).
_WORKING_SHARE_WITHOUT_CHECKPOINTS = 0.25

_LAYER_NORM_UNITS = 6
"""16-bit elements per token and width that the two LayerNorms of a layer keep, whatever the framework.

Networks with plain feed-forwards (GPT-2, OPT, BLOOM, MPT, Falcon, GPT-NeoX, Phi) have LayerNorms, which are one kernel.
It keeps its input, which autocast makes fp32 (2 units), and the product that follows keeps its output in 16 bit (1):
PyTorch, `native_layer_norm` and the operators that autocast to float32. RMSNorms as Transformers writes them keep 4.
"""


_KEPT_TO_TRAIN = 27.0
"""Bytes per token and width that a block of a diffusion transformer also keeps where all its weights are trained.

Each product then needs its own input. Counted with PyTorch's hooks on saved tensors: 26 to 27 for blocks of FLUX.1
(single), SD 3.5, Qwen-Image and Z-Image, 30 of FLUX.1 (double), 36 of Wan (benchmarks/measure/kept_activations.py).
"""


@dataclass(frozen=True)
class ActivationTerms:
    """Bytes per GPU and sequence of the micro-batch."""

    stored_first: Numbers  # first pipeline stage, all micro-batches in flight
    stored_last: Numbers  # last pipeline stage
    working_set: Numbers  # Ws, while one layer is recomputed and differentiated
    input_gradients: Numbers  # of all layers' inputs, where they stay until the backward pass ends
    logits: Numbers  # Lg, last stage only
    fragments: Numbers  # what the allocator keeps beyond the peak, on top of rho * (together - peak)


@dataclass(frozen=True)
class _Layer:
    """Bytes of one layer and sequence; of a diffusion transformer, of one block."""

    activations: Numbers  # k_comp * A_lay
    plain_activations: Numbers  # A_lay
    adapter_inputs: Numbers  # A_in
    adapter_outputs: Numbers  # A_out, of adapters with magnitudes (DoRA)
    rounded_inputs: Numbers  # A_q, of linear layers that round
    scores: Numbers  # E, elements
    masks: Numbers  # of dropout, which stay on the GPU where attention's activations do not
    boundary: Numbers  # K, the input that full checkpointing keeps
    attention: Numbers  # the outputs of attention
    products: Numbers  # the outputs of every second matrix product


def activation_terms(
    network: Network, layout: Layout, states: States, activations: Activations, coefficients: MemoryCoefficients
) -> ActivationTerms:
    """Return the activation terms of a micro-batch of one sample."""
    k = coefficients
    tokens = layout.answers * np.divide(layout.longest_sequence, layout.context)  # t at b = 1
    layer = _layer(network, layout, states, activations, k, tokens)
    if network.kept_bytes:  # what frozen layers do not keep is not in the count
        k = replace(k, k_frz=1.0, k_frzq=1.0)
    code = np.asarray(activations.checkpointing)
    none = (code == CHECKPOINT_NONE) | (code == CHECKPOINT_ALL_OFFLOADED)
    segments = code == CHECKPOINT_SEGMENTS
    full = (code == CHECKPOINT_FULL) | (code == CHECKPOINT_KEEP_ATTENTION) | (code == CHECKPOINT_OFFLOAD) | segments

    per_layer = _stored(layer, states, activations, k) + _kept_cache(network, layout, activations, tokens)
    stored_last = _stage_blocks(network, layout.pipeline) * per_layer
    stored_first = stored_last * _in_flight(layout)
    plain_share = np.where(np.not_equal(activations.megatron_kernels, 0), k.k_mws, k.k_ws)
    share = np.where(np.greater(activations.working_factor, 0), activations.working_factor, plain_share)
    inputs = layer.adapter_inputs + layer.rounded_inputs + layer.adapter_outputs
    working = share * layer.activations + inputs + k.e_att * layer.scores
    working = np.where(none, _WORKING_SHARE_WITHOUT_CHECKPOINTS, 1.0) * working
    # A group runs again as a whole: its earlier layers wait, whole, for the backward pass of the last.
    working = working + segments * (SEGMENT_LAYERS - 1) * _kept(layer, states, activations, k)
    working = working + states.rounding_passing_bytes * tokens
    working = working + _exchanged_keys(network, layout, activations, tokens)
    keeps = full & np.not_equal(activations.keeps_gradients, 0)
    input_gradients = keeps * (_stage_blocks(network, layout.pipeline) * layer.boundary)

    logits_held = tokens * network.vocab / layout.tensor
    logits = k.k_log * activations.logit_bytes * logits_held
    cached_logits = np.not_equal(activations.logits_materialised, 0) & ~none
    passing = logits + working + input_gradients
    fragments = (
        k.f_dyn * (stored_last + passing)
        + k.f_log * cached_logits * logits_held
        + _fragments_of_lengths(layout, passing + full * stored_last, k)
    )
    terms = (stored_first, stored_last, working, input_gradients, logits, fragments)
    if np.ndim(activations.scale) == 0 and activations.scale == 1:
        return ActivationTerms(*terms)
    return ActivationTerms(*(np.multiply(activations.scale, term) for term in terms))


def tower_terms(setup: Setup, coefficients: MemoryCoefficients) -> ActivationTerms | None:
    """Return the activation terms of the tower for one sample; None where a job has no images.

    Of a frozen tower nothing is stored; its working set is that of a layer that is recomputed, an upper bound.
    """
    tower, layout = setup.network.tower, setup.layout
    if tower is None:
        return None
    alone = replace(layout, longest_sequence=tower.patches, answers=1, tensor=1, pipeline=1, context=1, expert=1)
    activations = replace(setup.activations, keeps_cache=0, sequence_parallel=0)
    states = tower_states(setup.states, tower)
    terms = activation_terms(tower.network, alone, states, activations, coefficients)
    tiles = np.multiply(tower.tiles, layout.answers)
    return ActivationTerms(*(np.multiply(tiles, getattr(terms, field.name)) for field in fields(terms)))


def parked_bytes(
    network: Network, layout: Layout, states: States, activations: Activations, coefficients: MemoryCoefficients
) -> Numbers:
    """Return the bytes per GPU and sequence of activations that are kept in host memory; else 0.

    Those are the inputs of layers that checkpointing keeps, what attention keeps, or all that the backward pass needs.
    """
    tokens = layout.answers * np.divide(layout.longest_sequence, layout.context)
    layer = _layer(network, layout, states, activations, coefficients, tokens)
    code = np.asarray(activations.checkpointing)
    token_bytes = network.moved_bytes * _layers_in_block(network) * network.hidden
    moved = token_bytes * np.divide(activations.element_bytes, 2) * tokens / layout.tensor
    parked = (code == CHECKPOINT_OFFLOAD) * layer.boundary + activations.attention_hosted * moved
    if np.any(code == CHECKPOINT_ALL_OFFLOADED):
        everything = _kept(layer, states, activations, coefficients)
        parked = np.where(code == CHECKPOINT_ALL_OFFLOADED, everything, parked)
    return _stage_blocks(network, layout.pipeline) * parked * _in_flight(layout)


def _layer(
    network: Network, layout: Layout, states: States, activations: Activations, k: MemoryCoefficients, tokens: Numbers
) -> _Layer:
    """Return the tensors of one layer for one sequence of `tokens` per GPU, and of all layers of a block alike."""
    entering, tokens = tokens, tokens * _layers_in_block(network)
    q, kv = network.query_width, network.kv_width
    rope = activations.rope_factor if network.rope else 1.0
    # Two matrices keep their input and output, and a parallel block has one norm: profiles written for
    # gated, sequential blocks are cut to that.
    ffn_units = activations.ffn_units if network.gated else np.minimum(activations.ffn_units, 2)
    norm_units = activations.norm_units
    if not network.gated and not network.frozen_parameters:  # the U-Net of an image network has other norms
        norm_units = np.minimum(norm_units, _LAYER_NORM_UNITS)
    if network.parallel_residual:
        norm_units = np.minimum(norm_units, 5)
    routed = max(network.experts_per_token, 1) if network.experts else 1
    split = np.where(np.not_equal(activations.sequence_parallel, 0), layout.tensor, 1)  # sp
    inner = (rope * (q + 2 * kv) + q + ffn_units * (network.ffn * routed)) / layout.tensor
    plain = activations.element_bytes * tokens * (norm_units * network.hidden / split + inner)
    if network.kept_bytes:  # counted on the class itself, in 16 bit
        kept = network.kept_bytes + np.equal(states.frozen, 0) * _KEPT_TO_TRAIN
        kept = kept - activations.attention_hosted * network.freed_bytes
        plain = np.divide(activations.element_bytes, 2) * kept * network.hidden * tokens / layout.tensor
    adapted = k.c_in * states.adapter_copies * states.adapter_inputs * tokens
    # A sliding window masks scores but eager attention still computes the full square, so it saves no bytes.
    eager = np.equal(activations.attention, ATTENTION_EAGER)
    scores = eager * (network.heads * tokens * layout.longest_sequence / layout.tensor)
    return _Layer(
        activations=np.where(np.not_equal(activations.compiled, 0), k.k_comp, 1.0) * plain,
        plain_activations=plain,
        adapter_inputs=np.not_equal(states.frozen, 0) * adapted,
        adapter_outputs=states.magnitude_output_bytes * tokens,
        rounded_inputs=states.rounded_input_bytes * tokens,
        scores=scores,
        masks=activations.attention_hosted * network.masks_bytes * network.hidden * tokens / layout.tensor,
        boundary=network.hidden * activations.residual_bytes * entering / split,
        attention=activations.element_bytes * tokens * q / layout.tensor,
        products=activations.element_bytes * tokens * _every_second_product(network, layout, routed, split),
    )


def _layers_in_block(network: Network) -> float:
    """Return the layers that a block which runs again counts as; 1 but for diffusion transformers."""
    return network.layers / network.recomputed_blocks


def _every_second_product(network: Network, layout: Layout, routed: int, split: Numbers) -> Numbers:
    """Return the width of the outputs of every second matrix product of a layer, from the first on.

    Of queries, keys, values, output, gate, up and down, in this order, those of queries, values, gate (without one: up)
    and down (torchtitan, per-op selective checkpointing: `mm_count % 2`).
    """
    down = network.hidden / split if network.gated else 0.0
    return (network.query_width + network.kv_width + network.ffn * routed) / layout.tensor + down


def _exchanged_keys(network: Network, layout: Layout, activations: Activations, tokens: Numbers) -> Numbers:
    """Return the bytes of keys and values of other parts of a sequence that one layer holds, with their gradients.

    Those of the whole sequence where they are gathered; in a ring the part in use and the part that arrives. Where a
    GPU takes some heads of all tokens, it holds as many keys as before: what it sends and receives is one more copy of
    its queries, keys and values (DeepSpeed-Ulysses, arXiv 2309.14509).
    """
    if np.all(np.equal(layout.context, 1)):
        return 0.0
    token_bytes = 4 * network.kv_width * activations.element_bytes / layout.tensor
    others = np.subtract(layout.longest_sequence, tokens)
    held = np.where(np.equal(activations.key_exchange, KEYS_GATHERED), others, np.minimum(2 * tokens, others))
    sent = (network.query_width + 2 * network.kv_width) * activations.element_bytes / layout.tensor * tokens
    return np.where(
        np.equal(activations.key_exchange, KEYS_BY_HEADS), np.greater(layout.context, 1) * sent, token_bytes * held
    )


def _kept_cache(network: Network, layout: Layout, activations: Activations, tokens: Numbers) -> Numbers:
    """Return the bytes of one layer's keys and values that the outputs of a Transformers class keep until the backward.

    Its classes fill a cache for generation by default. Their own checkpointing switches it off; a loop that
    wraps layers with PyTorch's checkpointing does not (transformers, `use_cache` of the configuration: true).
    """
    layer_bytes = 2 * network.kv_width * np.multiply(activations.element_bytes, tokens) / layout.tensor
    return np.not_equal(activations.keeps_cache, 0) * layer_bytes


def _fragments_of_lengths(layout: Layout, largest: Numbers, k: MemoryCoefficients) -> Numbers:
    """Return the bytes that batches of other lengths leave cached, next to the `largest` blocks of the longest one.

    A batch of the mean length asks for blocks in proportion to its length, which the longest batch cannot use. So
    what is left behind follows the mean, not the cap: where samples are far shorter than their cap, it is little.
    """
    return k.f_var * np.minimum(layout.variable_length, 1.0) * largest


def _stored(layer: _Layer, states: States, activations: Activations, k: MemoryCoefficients) -> Numbers:
    """Return the bytes of the GPU that one layer keeps until its backward pass, by checkpointing code."""
    code = np.asarray(activations.checkpointing)
    kept = _kept(layer, states, activations, k)
    selective = layer.boundary + layer.attention + layer.products
    again = layer.boundary + layer.masks  # of a layer that runs again
    stored = np.where(code == CHECKPOINT_FULL, again, kept)
    stored = np.where(code == CHECKPOINT_KEEP_ATTENTION, layer.boundary + layer.attention, stored)
    stored = np.where(code == CHECKPOINT_SELECTIVE, selective, stored)
    stored = np.where(code == CHECKPOINT_MEGATRON_SELECTIVE, layer.plain_activations, stored)
    stored = np.where(code == CHECKPOINT_SEGMENTS, layer.boundary / SEGMENT_LAYERS, stored)
    stored = np.where(code == CHECKPOINT_EVERY_2ND, 0.5 * (kept + again), stored)
    # The copies fall behind the forward pass, and what waits for the slot stays on the GPU.
    stored = np.where(code == CHECKPOINT_ALL_OFFLOADED, k.k_wait * kept, stored)
    return np.where(code == CHECKPOINT_OFFLOAD, 0.0, stored)


def _kept(layer: _Layer, states: States, activations: Activations, k: MemoryCoefficients) -> Numbers:
    """Return the bytes that the backward pass of one layer needs where nothing is computed again."""
    frozen = np.not_equal(states.frozen, 0)
    bnb = frozen & np.not_equal(states.quantised, 0)
    bnb = bnb & np.not_equal(activations.quantised_no_checkpoint_factor, 0)
    share = np.where(bnb, k.k_frzq, np.where(frozen, k.k_frz, k.k_act))
    inputs = 0.5 * layer.adapter_inputs + layer.rounded_inputs + layer.adapter_outputs
    return share * layer.activations + inputs + k.e_sto * layer.scores


def _in_flight(layout: Layout) -> Numbers:
    """Return the micro-batches whose activations the first stage of a 1F1B pipeline holds.

    Interleaving v chunks per stage holds 1 + (pp - 1) / (pp * v) times as much
    (Korthikanti et al. 2022, arXiv:2205.05198); no published run checks that factor here.
    """
    pipeline, chunks = layout.pipeline, layout.interleave
    interleaved = np.greater(chunks, 1) * (np.subtract(pipeline, 1) / np.multiply(pipeline, chunks))
    return np.minimum(pipeline, layout.accumulation) * (1.0 + interleaved)
