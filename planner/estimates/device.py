"""Seconds of one micro-batch on one GPU, and of encoding the images of a diffusion network once.

Symbols and formulas are those of roofline models: FLOP over a share of the peak, bytes over bandwidth.
The share falls with few tokens per weight read (saturation) and with narrow layers (width).
Every function is elementwise; factors of recipe and card are kept apart until their product is needed,
so a grid of recipes (R, 1) times cards (H,) pays for few full-size arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from planner.estimates.inputs import (
    ATTENTION_EAGER,
    ATTENTION_FLASH,
    ATTENTION_SPARSE,
    CHECKPOINT_OFFLOAD,
    Coefficients,
    Hardware,
    Layout,
    Network,
    Numbers,
    States,
    TimedSetup,
    recompute_shares,
)

# The fitted and assumed numbers that the time estimate shares over all cards and profiles.


@dataclass(frozen=True)
class TimeCoefficients(Coefficients):
    """Plain floats, one per key of `models/calibration/time.yaml`, where each has its range and source.

    Shares and factors have no unit; seconds and bytes say so in the name.
    """

    token_half_saturation: float  # c_M, in tokens per (FLOP per byte) of the card
    width_half_saturation: float  # h0, hidden units at which matmuls reach half of their best
    misaligned_factor: float  # matmul speed where h/tp is no multiple of 64 or the head size none of 8
    weight_gradient_factor: float  # speed of products for weight gradients over that of the others
    eager_attention_factor: float  # matmul speed inside unfused attention, share of E
    fp32_path_efficiency: float  # share of the plain fp32 peak in attention and head that fell back to it
    adapter_traffic: float  # k_ad, share of the counted traffic of adapters
    offload_factor: float  # device time with activations parked in host memory
    magnitude_factor: float  # time of passes through layers with DoRA over that with LoRA
    frozen_launch_factor: float  # launch time of a layer whose base is frozen
    adapter_launch_seconds: float  # t_lo, per adapted linear
    quantised_launch_seconds: float  # t_q, per quantised linear
    expert_launch_seconds: float  # t_moe, per expert looped in Python
    nvlink_utilisation: float  # bus bandwidth over sheet
    network_utilisation: float
    pcie_utilisation: float
    host_copy_utilisation: float  # copies between pinned host memory and a GPU, over PCIe as reached
    host_bandwidth: float  # bytes per second that the CPUs of one node move in an optimizer step
    data_parallel_overlap: float  # share of the gradient reduction hidden under backward
    group_loss_per_doubling: float  # collective bandwidth lost per doubling of nodes
    node_loss_per_doubling: float  # step time lost per doubling of nodes (stragglers, jitter)
    tensor_latency_seconds: float  # per tensor-parallel collective
    fused_tensor_factor: float  # share of tensor-parallel traffic left visible by fused kernels
    expert_traffic_factor: float  # share of expert-parallel traffic left visible
    head_imbalance: float  # share of the head that the slowest pipeline stage keeps
    optimizer_factor: float  # optimizer time over its pure memory traffic
    fixed_seconds: float  # per optimizer step: loader, logging, zeroing


# Python modules of a decoder layer beside its linears: the layer, attention, feed-forward, two norms, the activation.
_OTHER_MODULES = 6
_NORMS = 2  # of a decoder layer
_MODULES_PER_ADAPTER = 4  # the wrapper, its dropout and its two factors, as PEFT nests them
_LINEARS_PER_QUANTISED_LAYER = 7  # q k v o gate up down
_MOE_TOKEN_SHARE = 0.25  # experts see fewer tokens per weight read than dense layers
_PASSES = 3.0  # forward and twice as much backward
_ELEMENT_BYTES = 2.0

# In fp32 elements take four bytes for two, but norms and softmax, which cast up and down in 16 bit, save their casts.
# Bytes of a forward pass as Transformers' Llama runs it unfused, per hidden unit: norms 56 for 72, rotation 62 for 31,
# residuals 24 for 12, gate 70 for 35; per attention score 32 for 26.
_FP32_TRAFFIC = 212.0 / 150.0
_FP32_SCORES = 32.0 / 26.0


class DeviceTime(NamedTuple):
    """Seconds of one micro-batch by cause; arrays broadcast against each other."""

    matmul: Any
    head: Any
    elementwise: Any
    attention: Any
    dequantisation: Any
    gradients: Any

    @property
    def total(self) -> Any:
        """Seconds of all of the device's work."""
        return self.matmul + self.head + self.elementwise + self.attention + self.dequantisation + self.gradients


def forward_share(frozen: Numbers, recomputed: Numbers) -> Any:
    """Return what one pass forward takes of a training step, by its matrix products.

    Backward takes two such passes, for the gradients of inputs and of weights (arXiv:2001.08361, section 2.1); frozen
    weights need the first alone. `recomputed`: the share of the layers that run forward again. LoRA with full
    checkpointing: 1 / (1 + 1 + 1) = 1/3.
    """
    return 1.0 / (3.0 - frozen + recomputed)


def stack_parameters(network: Network) -> float:
    """Return the matmul parameters of the layer stack that one token meets (N; no embedding, no head)."""
    if network.experts or network.uneven_layers:
        return network.active_parameters - network.embedding_parameters
    attention = network.hidden * 2 * (network.query_width + network.kv_width)
    return network.layers * (attention + ffn_matrices(network) * network.hidden * network.ffn)


def stored_stack_parameters(network: Network) -> float:
    """Return the matmul parameters of the layer stack in memory: N with every expert of a mixture."""
    if network.experts:
        return network.parameters - network.embedding_parameters
    return stack_parameters(network)


def ffn_matrices(network: Network) -> int:
    """Return the matrices of one feed-forward (g), 3 when gated."""
    return 3 if network.gated else 2


def attended_tokens(network: Network, sequence: Numbers, skips: bool = True) -> Any:
    """Return the sequence length whose causal attention costs as much as this network's; shape of `sequence`.

    Token i meets min(i, W) tokens under a window W: W - W^2/(2s) on average against s/2 without one. Kernels that do
    not skip (`skips` false) compute all scores of a sliding window; linear attention has none in any case.
    """
    if network.attended:
        met: Any = 0.0
        for part in network.attended:
            whole = not part.window or (part.masked and not skips)
            met = met + part.share * (sequence if whole else _windowed(sequence, part.window))
        return met
    if not skips and not network.uneven_layers:
        return sequence
    if not network.sliding_window or not network.sliding_layers:
        return sequence
    capped = _windowed(sequence, network.sliding_window)
    return (1.0 - network.sliding_layers) * sequence + network.sliding_layers * capped


def _windowed(sequence: Numbers, tokens: float) -> Any:
    window = np.minimum(sequence, tokens)
    return window * (2.0 - window / sequence)


def micro_batch_tokens(layout: Layout) -> Any:
    """Return the tokens that one GPU works on per micro-batch (M)."""
    return layout.micro_batch * layout.answers * layout.sequence / layout.context


def device_time(setup: TimedSetup, coefficients: TimeCoefficients) -> DeviceTime:
    """Return the seconds of one micro-batch on the device of one pipeline stage, by cause.

    Sources of form and coefficients: see models/calibration/time.yaml, kernels.yaml, gpu_efficiency.yaml.
    """
    network, layout, states, activations = setup.network, setup.layout, setup.states, setup.activations
    kernels, hardware = setup.kernels, setup.hardware
    tokens = micro_batch_tokens(layout)
    again = recompute_shares(activations.checkpointing)
    layers = network.layers / layout.pipeline
    passes = 3.0 - states.frozen  # 2 + w: forward, gradient of inputs, gradient of weights
    seconds_per_byte = 1.0 / hardware.bandwidth
    parked = np.equal(activations.checkpointing, CHECKPOINT_OFFLOAD)
    offload = np.where(parked, coefficients.offload_factor, 1.0) * magnitude_factor(states, coefficients)
    filled = tokens * (_MOE_TOKEN_SHARE if network.experts else 1.0)
    knee = coefficients.token_half_saturation * hardware.peak * seconds_per_byte
    slowdown = 1.0 + knee / filled  # 1/sat

    stack = stack_parameters(network)
    # Weight gradients reduce over the tokens: products of another shape, with an efficiency of their own.
    weighted = 2.0 + (1.0 - states.frozen) / coefficients.weight_gradient_factor
    products = weighted + again.matmul
    if np.any(kernels.fp8_forward):
        products = products - kernels.fp8_forward * (1.0 + again.matmul) * (1.0 - 1.0 / hardware.fp8_gain)
    work = (2.0 * offload) * tokens * stack * products / (layout.pipeline * layout.tensor)
    work = work / _matmul_factor(setup, coefficients)
    matmul = (work * slowdown) * (1.0 / (hardware.linear_peak * hardware.efficiency))

    stages = 1.0 / layout.pipeline
    share = (stages + coefficients.head_imbalance * (1.0 - stages)) * offload
    entries = share * tokens * network.vocab / layout.tensor
    fp32 = np.not_equal(activations.fp32_paths, 0)
    head_speed = _cap_at_fp32(hardware.peak * hardware.efficiency, fp32, hardware, coefficients)
    head = (entries * 2.0 * network.hidden * passes) * slowdown * (1.0 / head_speed)
    head = head + (entries * kernels.logit_traffic_bytes) * seconds_per_byte
    head = head * np.not_equal(activations.logit_bytes, 0)  # a score in its place costs nothing

    # A backward pass moves twice the bytes of a forward pass; in elements of two bytes.
    moved = 0.5 * _PASSES * states.adapter_pass_bytes * states.adapted_linears * network.hidden
    adapters = states.frozen * coefficients.adapter_traffic * moved
    traffic = kernels.element_traffic * _element_units(network, layout, stack) + adapters
    traffic = traffic * np.where(fp32, _FP32_TRAFFIC, 1.0)
    traffic = traffic * (_ELEMENT_BYTES * offload * (1.0 + again.matmul / _PASSES)) * tokens * layers

    traffic = traffic + _rounding_bytes(states, again.matmul) * tokens * layers

    weights = stored_stack_parameters(network) / (layout.tensor * layout.pipeline)
    dequantised = states.quantised * (2.0 + again.matmul) * offload * kernels.quantised_bytes * weights
    return DeviceTime(
        matmul=matmul,
        head=head,
        elementwise=traffic * seconds_per_byte,
        attention=_attention(setup, coefficients, offload),
        dequantisation=dequantised * (hardware.dequant_factor * seconds_per_byte),
        gradients=gradient_bytes(layout, states) * seconds_per_byte,
    )


def _rounding_bytes(states: States, recomputed: Any) -> Any:
    """Return the bytes moved per token of each layer to round the inputs of its linears; 0 where they are not rounded.

    At 33 bytes of an element forward and 111 backward, a block of FLUX.1 under full checkpointing moves
    (2 * 33 + 111) * 9 * 3072 = 4.9 MB for each token.
    """
    return states.rounding_forward_bytes * (1.0 + recomputed) + states.rounding_backward_bytes


def magnitude_factor(states: States, coefficients: TimeCoefficients) -> Any:
    """Return the factor on the time of passes through layers whose adapters have magnitudes (DoRA); 1 of all others.

    Every pass builds each adapted matrix anew to take its norm, and scales the product of the base once more.
    """
    return np.where(np.greater(states.magnitude_output_bytes, 0), coefficients.magnitude_factor, 1.0)


def gradient_bytes(layout: Layout, states: States) -> Any:
    """Return the bytes that one GPU moves per micro-batch to add up its gradients, whatever the micro-batch has.

    The first micro-step of m has nothing to add to. A network of 7e9 parameters in pure 16 bit (6 bytes added) over 4
    micro-steps moves 7e9 * 6 * 3/4 = 31.5 GB.
    """
    if not (np.any(states.added_bytes) or np.any(states.handed_bytes)):
        return 0.0
    bytes_per_parameter = states.added_bytes * (1.0 - 1.0 / np.asarray(layout.accumulation)) + states.handed_bytes
    return bytes_per_parameter * states.trainable / (layout.tensor * layout.pipeline)


def launch_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds the host needs to launch one micro-batch's kernels, forward and backward (t_cpu).

    A loop over experts goes through every one that any token of the micro-batch meets, and through its adapters: those
    of Qwen3-30B-A3B on all linears are 4 + 8 * 3 = 28 of a token and (128 - 8) * 3 = 360 more of a layer. Source:
    Transformers 4, `forward` of Qwen3MoeSparseMoeBlock (for expert_idx in expert_hit), and PEFT's lora.Linear.
    """
    network, layout, states, kernels = setup.network, setup.layout, setup.states, setup.kernels
    launched = network.launched_layers or network.layers
    layers = launched / layout.pipeline
    recomputed = recompute_shares(setup.activations.checkpointing).matmul
    again = 1.0 + recomputed * kernels.recomputed_launch
    frozen = 1.0 - (1.0 - coefficients.frozen_launch_factor) * states.frozen
    blocks = kernels.launch_seconds * again * frozen
    adapted = states.adapted_linears
    if network.experts:
        adapted = adapted + kernels.naive_experts * states.idle_adapted_linears / np.asarray(layout.expert)
    blocks = blocks + states.frozen * adapted * coefficients.adapter_launch_seconds
    blocks = blocks * magnitude_factor(states, coefficients)
    own = np.not_equal(kernels.quantised_launch_seconds, 0)
    linear_seconds = np.where(own, kernels.quantised_launch_seconds * again, coefficients.quantised_launch_seconds)
    linears = network.linear_layers / launched or _LINEARS_PER_QUANTISED_LAYER
    rest = states.quantised * (linears * linear_seconds)
    rest = rest + np.equal(layout.zero_stage, 3) * kernels.fsdp_launch_seconds
    rest = rest + gradient_launch_seconds(setup)
    if network.experts:
        looped = kernels.naive_experts * (network.experts / layout.expert)
        rest = rest + looped * coefficients.expert_launch_seconds * again
    return (layers * blocks) * setup.hardware.host_factor + layers * rest


def gradient_launch_seconds(setup: TimedSetup) -> Any:
    """Return the seconds of one layer in which the host hands its gradients to DeepSpeed's ZeRO-1 or 2.

    A hook on every trained matrix and norm copies the gradient into a bucket, and reduces the bucket once it is full.
    Runs behind the figure had Transformers' "auto": buckets of hidden^2 elements, which nearly every matrix fills.
    Adapters count as nothing. At 0.25 ms the 7 matrices and 2 norms of a layer of Llama take 2.25 ms.
    Sources: `reduce_independent_p_g_buckets_and_remove_grads` of DeepSpeed's zero/stage_1_and_2.py; in Transformers'
    integration of it, `reduce_bucket_size`.
    """
    gradient_seconds = setup.kernels.gradient_launch_seconds
    if not np.any(gradient_seconds):
        return 0.0
    stage = setup.layout.zero_stage
    hooked = (np.equal(stage, 1) | np.equal(stage, 2)) * (1.0 - setup.states.frozen)
    return hooked * gradient_seconds * (4.0 + ffn_matrices(setup.network) + _NORMS)


def hook_seconds(setup: TimedSetup) -> Any:
    """Return the seconds of one micro-batch that the device waits for Python: n_modules * c_hook * passes.

    Hooks of modules and gradients that synchronise, or that run between two kernels, are hidden under nothing, unlike
    launches. `hook_seconds` of a profile is per module and pass. Source: `Module._call_impl` of PyTorch, which every
    call of a module goes through; the size is fitted.
    """
    network, layout, states = setup.network, setup.layout, setup.states
    plain = 4.0 + ffn_matrices(network) + _OTHER_MODULES
    modules = plain + states.frozen * states.adapted_linears * _MODULES_PER_ADAPTER
    passes = 2.0 + recompute_shares(setup.activations.checkpointing).matmul
    module_seconds = setup.kernels.hook_seconds * setup.hardware.host_factor
    return module_seconds * modules * passes * (network.layers / layout.pipeline)


def _matmul_factor(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the share of E that is left after profile, width, alignment and experts."""
    network, layout, kernels = setup.network, setup.layout, setup.kernels
    sharded = network.hidden / np.sqrt(layout.tensor)
    width = sharded / (sharded + coefficients.width_half_saturation)
    crooked = (network.hidden / layout.tensor) % 64 != 0
    if network.head_dim % 8:
        crooked = np.ones_like(crooked)
    aligned = np.where(crooked, coefficients.misaligned_factor, 1.0)
    mixture = kernels.moe_factor if network.experts else 1.0
    return kernels.matmul_factor * mixture * width * aligned


def _element_units(network: Network, layout: Layout, stack: float) -> Any:
    """Return the elements read and written per token and layer at the least, by norms, activations and residuals."""
    matrices = ffn_matrices(network)
    ffn = float(network.ffn)
    if network.experts:  # the feed-forward width one token meets, shared experts included
        ffn = max(stack / (3.0 * network.layers * network.hidden) - 2.0 * network.hidden, float(network.ffn))
    return 12.0 * network.hidden + 4.0 * matrices * ffn / layout.tensor


def _attention(setup: TimedSetup, coefficients: TimeCoefficients, offload: Any) -> Any:
    """Return the seconds of attention: fused kernels skip the causal half, eager ones pay it and move every score."""
    network, layout, activations = setup.network, setup.layout, setup.activations
    kernels, hardware = setup.kernels, setup.hardware
    again = recompute_shares(activations.checkpointing).attention
    sequence = layout.sequence
    rows = offload * micro_batch_tokens(layout) * (network.layers / layout.pipeline) / layout.tensor
    flop = 4.0 * network.query_width * rows
    eager = np.equal(activations.attention, ATTENTION_EAGER)
    # Only flash kernels skip what lies outside a window; the others mask it.
    met = sequence
    if network.sliding_window or network.attended:
        flash = np.equal(activations.attention, ATTENTION_FLASH)
        whole = attended_tokens(network, sequence, skips=False)
        met = np.where(flash, attended_tokens(network, sequence), whole)
    sparse = np.equal(activations.attention, ATTENTION_SPARSE)
    if np.any(sparse):
        # Each token meets sqrt(n); twice that here, because the half that causality skips is taken off below.
        met = np.where(sparse, np.minimum(2.0 * np.sqrt(sequence), met), met)
    fused_flop = (~eager * 0.5) * flop * met * (3.5 + again) / kernels.attention_factor
    fp32 = np.not_equal(activations.fp32_paths, 0)
    speed = _cap_at_fp32(hardware.peak * hardware.attention_efficiency, fp32, hardware, coefficients)
    seconds = fused_flop * (1.0 / speed)
    if not np.any(eager):
        return seconds
    share = coefficients.eager_attention_factor
    scored = attended_tokens(network, sequence, skips=False) if network.attended else sequence
    eager_flop = eager * flop * scored * (3.0 + again)
    scores = eager * (2.0 * network.heads) * rows * scored * (1.0 + again / 3.0) * kernels.eager_traffic
    plain = _cap_at_fp32(share * hardware.peak * hardware.efficiency, fp32, hardware, coefficients)
    moved = np.where(fp32, _FP32_SCORES, 1.0) * scores
    return seconds + eager_flop * (1.0 / plain) + moved * (1.0 / hardware.bandwidth)


def _cap_at_fp32(speed: Any, fp32: Any, hardware: Hardware, coefficients: TimeCoefficients) -> Any:
    """Return the FLOP/s of work that runs in plain fp32 where `fp32` is set: no faster than in 16 bit."""
    if not np.any(fp32):
        return speed
    return np.where(fp32, np.minimum(speed, hardware.fp32_peak * coefficients.fp32_path_efficiency), speed)


# Encoding the images of a diffusion network once, before training.


def encode_seconds(
    batches: Numbers,
    cached_step_seconds: Numbers,
    token_share: Numbers,
    moved_bytes: Numbers,
    storage_bytes_per_second: Numbers,
) -> Any:
    """Return the seconds of one pass of the encoders over all images, in so many `batches` of a training step.

    The pass takes no less than the encoders would have taken in one epoch (their part of whole steps, optimizer and
    gradients included, which is the upper end), and no less than storage takes to send the images and to store what is
    made of them (`moved_bytes`). So one epoch with caching is never faster than one without.
    250 batches whose cached step takes 0.2 s, of which an uncached one has 1 / 0.683: 250 * 0.2 * 0.464 = 23 s.
    """
    computed = np.asarray(batches) * cached_step_seconds * (1.0 / np.asarray(token_share) - 1.0)
    return np.maximum(computed, np.asarray(moved_bytes) / storage_bytes_per_second)
