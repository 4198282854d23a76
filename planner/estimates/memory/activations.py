"""Bytes of one sequence of the micro-batch: stored activations, working set, logits.

Everything here grows in proportion to the micro-batch, so the terms are bytes *per sequence* and the estimate
multiplies them; this gives the largest micro-batch in closed form.
"""

from __future__ import annotations

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
    CHECKPOINT_SELECTIVE,
    KEYS_BY_HEADS,
    KEYS_GATHERED,
    Activations,
    Layout,
    Network,
    Numbers,
    States,
)
from planner.estimates.memory.memory_states import MemoryCoefficients, stage_layers
from planner.records import record

# Without recomputation only the gradients of one layer are alive besides the stored activations: a quarter of the
# working set of a recomputed layer (structural constant of the formula, not fitted).
_WORKING_SHARE_WITHOUT_CHECKPOINTS = 0.25

_LAYER_NORM_UNITS = 6
"""16-bit elements per token and width that the two LayerNorms of a layer keep, whatever the framework.

Networks with plain feed-forwards (GPT-2, OPT, BLOOM, MPT, Falcon, GPT-NeoX, Phi) have LayerNorms, which are one kernel.
It keeps its input, which autocast makes fp32 (2 units), and the product that follows keeps its output in 16 bit (1):
PyTorch, `native_layer_norm` and the operators that autocast to float32. RMSNorms as Transformers writes them keep 4.
"""


@record(frozen=True)
class ActivationTerms:
    """Bytes per GPU and sequence of the micro-batch."""

    stored_first: Numbers  # first pipeline stage, all micro-batches in flight
    stored_last: Numbers  # last pipeline stage
    working_set: Numbers  # Ws, while one layer is recomputed and differentiated
    input_gradients: Numbers  # of all layers' inputs, where they stay until the backward pass ends
    logits: Numbers  # Lg, last stage only
    fragments: Numbers  # what the allocator keeps beyond the peak, on top of rho * (together - peak)


@record(frozen=True)
class _Layer:
    """Bytes of one layer and sequence."""

    activations: Numbers  # k_comp * A_lay
    plain_activations: Numbers  # A_lay
    adapter_inputs: Numbers  # A_in
    adapter_outputs: Numbers  # A_out, of adapters with magnitudes (DoRA)
    rounded_inputs: Numbers  # A_q, of linear layers that round
    scores: Numbers  # E, elements
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
    code = np.asarray(activations.checkpointing)
    none = (code == CHECKPOINT_NONE) | (code == CHECKPOINT_ALL_OFFLOADED)
    full = (code == CHECKPOINT_FULL) | (code == CHECKPOINT_KEEP_ATTENTION) | (code == CHECKPOINT_OFFLOAD)

    per_layer = _stored(layer, states, activations, k) + _kept_cache(network, layout, activations, tokens)
    stored_last = stage_layers(network, layout.pipeline) * per_layer
    stored_first = stored_last * _in_flight(layout)
    plain_share = np.where(np.not_equal(activations.megatron_kernels, 0), k.k_mws, k.k_ws)
    share = np.where(np.greater(activations.working_factor, 0), activations.working_factor, plain_share)
    inputs = layer.adapter_inputs + layer.rounded_inputs + layer.adapter_outputs
    working = share * layer.activations + inputs + k.e_att * layer.scores
    working = np.where(none, _WORKING_SHARE_WITHOUT_CHECKPOINTS, 1.0) * working
    working = working + _exchanged_keys(network, layout, activations, tokens)
    keeps = full & np.not_equal(activations.keeps_gradients, 0)
    input_gradients = keeps * (stage_layers(network, layout.pipeline) * layer.boundary)

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


def parked_bytes(
    network: Network, layout: Layout, states: States, activations: Activations, coefficients: MemoryCoefficients
) -> Numbers:
    """Return the bytes per GPU and sequence of activations that are kept in host memory; else 0.

    Those are the inputs of layers that checkpointing keeps, or all that the backward pass needs.
    """
    tokens = layout.answers * np.divide(layout.longest_sequence, layout.context)
    layer = _layer(network, layout, states, activations, coefficients, tokens)
    code = np.asarray(activations.checkpointing)
    parked = (code == CHECKPOINT_OFFLOAD) * layer.boundary
    if np.any(code == CHECKPOINT_ALL_OFFLOADED):
        everything = _kept(layer, states, activations, coefficients)
        parked = np.where(code == CHECKPOINT_ALL_OFFLOADED, everything, parked)
    return stage_layers(network, layout.pipeline) * parked * _in_flight(layout)


def _layer(
    network: Network, layout: Layout, states: States, activations: Activations, k: MemoryCoefficients, tokens: Numbers
) -> _Layer:
    """Return the tensors of one layer for one sequence of `tokens` per GPU."""
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
        boundary=network.hidden * activations.residual_bytes * tokens / split,
        attention=activations.element_bytes * tokens * q / layout.tensor,
        products=activations.element_bytes * tokens * _every_second_product(network, layout, routed, split),
    )


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
    each = 4 * network.kv_width * activations.element_bytes / layout.tensor
    others = np.subtract(layout.longest_sequence, tokens)
    held = np.where(np.equal(activations.key_exchange, KEYS_GATHERED), others, np.minimum(2 * tokens, others))
    sent = (network.query_width + 2 * network.kv_width) * activations.element_bytes / layout.tensor * tokens
    return np.where(
        np.equal(activations.key_exchange, KEYS_BY_HEADS), np.greater(layout.context, 1) * sent, each * held
    )


def _kept_cache(network: Network, layout: Layout, activations: Activations, tokens: Numbers) -> Numbers:
    """Return the bytes of one layer's keys and values that the outputs of a Transformers class keep until the backward.

    Its classes fill a cache for generation by default. Their own checkpointing switches it off; a loop that
    wraps layers with PyTorch's checkpointing does not (transformers, `use_cache` of the configuration: true).
    """
    each = 2 * network.kv_width * np.multiply(activations.element_bytes, tokens) / layout.tensor
    return np.not_equal(activations.keeps_cache, 0) * each


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
    stored = np.where(code == CHECKPOINT_FULL, layer.boundary, kept)
    stored = np.where(code == CHECKPOINT_KEEP_ATTENTION, layer.boundary + layer.attention, stored)
    stored = np.where(code == CHECKPOINT_SELECTIVE, selective, stored)
    stored = np.where(code == CHECKPOINT_MEGATRON_SELECTIVE, layer.plain_activations, stored)
    stored = np.where(code == CHECKPOINT_EVERY_2ND, 0.5 * (kept + layer.boundary), stored)
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
