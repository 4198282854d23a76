"""Seconds of one optimizer step and tokens per second, for any grid of configurations.

One step is `accumulation` micro-batches plus the pipeline's bubble, the gradient reduction and the optimizer.
Device and host run side by side, and so do compute and sharding traffic as far as they overlap:
the cube root of summed cubes is a smooth maximum of both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from planner.estimates.inputs import Hardware, Kernels, Layout, States, TimedSetup
from planner.estimates.time import communication
from planner.estimates.time.device import (
    DeviceTime,
    TimeCoefficients,
    device_time,
    forward_share,
    hook_seconds,
    launch_seconds,
    recompute_shares,
)
from planner.records import record

# Per parameter updated in host memory: a 16-bit weight up once a step; in every micro-step a 16-bit gradient down,
# which is written and read there (4) and added to an fp32 sum (8).
_HOST_WEIGHT_BYTES, _HOST_GRADIENT_BYTES, _HOST_SUM_BYTES = 2.0, 2.0, 12.0


@record(frozen=True)
class StepTime:
    """One optimizer step: seconds, what they go to, and processed tokens per second over all GPUs.

    `parts`, by cause, are before overlap: their sum is at least `seconds`, and each is at most that.
    `visible` are what each cause adds to the step, and sum to `seconds`.
    """

    seconds: Any
    parts: dict[str, Any]
    visible: dict[str, Any]
    tokens_per_second: Any


class _MicroBatch(NamedTuple):
    """Seconds of one micro-batch by cause, and of one step's tail."""

    device: DeviceTime
    launch: Any
    tensor: Any
    expert: Any
    context: Any
    sharding: Any
    handover: Any
    hooks: Any
    reduction: Any
    optimizer: Any


def step_time(setup: TimedSetup, coefficients: TimeCoefficients) -> StepTime:
    """Return the seconds of one optimizer step with breakdown; arrays of the broadcast shape of all inputs.

    `tokens_per_second` counts tokens as processed; padding and packing turn them into real ones (`work.py`).
    """
    layout, parts = setup.layout, _micro_batch(setup, coefficients)
    each = _overlap_seconds(parts, setup.kernels) + parts.handover + parts.hooks
    further = further_seconds(each, setup, coefficients)
    seconds, nodes_factor = _assemble_step(parts, each + further, layout, coefficients)
    lost = seconds * (1.0 - 1.0 / nodes_factor)
    whole, visible = (
        _by_cause(parts, shown, (each, further), lost, layout, coefficients)
        for shown in (_ALL_VISIBLE, _visible_shares(parts, setup.kernels))
    )
    return StepTime(seconds, whole, visible, tokens_per_step(layout) / seconds)


def step_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of one optimizer step without breakdown: `step_time(...).seconds`, for large grids."""
    parts = _micro_batch(setup, coefficients)
    each = _overlap_seconds(parts, setup.kernels) + parts.handover + parts.hooks
    return _assemble_step(parts, each + further_seconds(each, setup, coefficients), setup.layout, coefficients)[0]


def tokens_per_step(layout: Layout) -> Any:
    """Return the tokens processed per optimizer step over all GPUs."""
    return layout.micro_batch * layout.answers * layout.sequence * layout.accumulation * layout.data_parallel


def _micro_batch(setup: TimedSetup, coefficients: TimeCoefficients) -> _MicroBatch:
    if not _is_one(setup.activations.token_share):  # cached latents: fewer equivalent tokens for each image
        shorter = setup.layout.sequence * setup.activations.token_share
        setup = replace(setup, layout=replace(setup.layout, sequence=shorter))
    network, layout, states = setup.network, setup.layout, setup.states
    reached = communication.link_bandwidths(layout, setup.hardware, coefficients)
    device = device_time(setup, coefficients)
    return _MicroBatch(
        device=device,
        launch=launch_seconds(setup, coefficients),
        tensor=communication.tensor_seconds(setup, coefficients, reached),
        expert=communication.expert_seconds(setup, coefficients, reached),
        context=communication.context_seconds(setup, reached, device.attention),
        sharding=communication.sharding_seconds(network, layout, states, reached)
        + communication.host_seconds(setup, coefficients),
        handover=communication.pipeline_seconds(network, layout, reached),
        hooks=hook_seconds(setup),
        reduction=communication.reduction_seconds(setup, coefficients, reached),
        optimizer=_optimizer_seconds(layout, states, setup.hardware, coefficients),
    )


def _overlap_seconds(parts: _MicroBatch, kernels: Kernels) -> Any:
    """Return the seconds of one micro-batch, in which host, device and sharding traffic overlap."""
    device = parts.device.total
    cubed = _cube(device) + _cube(parts.launch)
    if all(_is_zero(seconds) for seconds in (parts.sharding, parts.tensor, parts.expert, parts.context)):
        return np.cbrt(cubed)
    work = np.cbrt(cubed) + parts.tensor + parts.expert + parts.context
    longer = np.cbrt(_cube(work) + _cube(parts.sharding))
    return longer + (1.0 - kernels.overlap) * work * parts.sharding / longer


class _VisibleShares(NamedTuple):
    """Shares of work that the step waits for; the rest is hidden behind concurrent work."""

    device: Any
    launch: Any
    exchange: Any  # between tensor-parallel ranks, experts and parts of a sequence
    sharding: Any


_ALL_VISIBLE = _VisibleShares(1.0, 1.0, 1.0, 1.0)


def _visible_shares(parts: _MicroBatch, kernels: Kernels) -> _VisibleShares:
    """Return the shares that sum to the time of `_overlap_seconds`.

    Of f = (a^3 + b^3)^(1/3) the side a counts (a/f)^2 * a: Euler's identity for homogeneous functions, and the
    share of a small saving in a that reaches the step.
    """
    device = parts.device.total
    busy = np.cbrt(_cube(device) + _cube(parts.launch))
    work = busy + parts.tensor + parts.expert + parts.context
    longer = np.cbrt(_cube(work) + _cube(parts.sharding))
    of_work, of_sharding = np.square(work / longer), np.square(parts.sharding / longer)
    outer = of_work + (1.0 - kernels.overlap) * np.square(of_sharding)
    return _VisibleShares(
        device=outer * np.square(device / busy),
        launch=outer * np.square(parts.launch / busy),
        exchange=outer,
        sharding=of_sharding + (1.0 - kernels.overlap) * np.square(of_work),
    )


def _by_cause(
    parts: _MicroBatch,
    shown: _VisibleShares,
    seconds_each: tuple[Any, Any],
    node_loss: Any,
    layout: Layout,
    coefficients: TimeCoefficients,
) -> dict[str, Any]:
    """Return the seconds of one optimizer step by cause, each micro-batch's work weighted by its `shown` share.

    `seconds_each` are those of a micro-batch: of training, and of passes without gradients.
    """
    rounds, (each, further) = layout.accumulation, seconds_each
    idle = (layout.pipeline - 1.0) / layout.interleave
    return {
        **{cause: rounds * seconds * shown.device for cause, seconds in parts.device._asdict().items()},
        "launch": rounds * parts.launch * shown.launch,
        "tensor_parallel": rounds * parts.tensor * shown.exchange,
        "expert_parallel": rounds * parts.expert * shown.exchange,
        "context_parallel": rounds * parts.context * shown.exchange,
        "sharding": rounds * parts.sharding * shown.sharding,
        "pipeline_transfer": rounds * parts.handover,
        "hooks": rounds * parts.hooks,
        **({} if _is_zero(further) else {"further_forwards": (rounds + idle) * further}),
        "bubble": idle * each,
        "data_parallel": parts.reduction,
        "optimizer": parts.optimizer,
        "fixed": coefficients.fixed_seconds,
        "node_loss": node_loss,
    }


def further_seconds(each: Any, setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of one micro-batch's passes without gradients, from those `each` takes to train on.

    A copy of the network in host memory comes over PCIe in every pass, behind its work. A trained micro-batch of 0.9 s
    under LoRA with full checkpointing takes 0.3 s more for a reference.
    """
    passes = setup.activations.further_forwards
    if not np.any(passes):
        return 0.0
    share = forward_share(setup.states.frozen, recompute_shares(setup.activations.checkpointing).matmul)
    copied = hosted_copy_bytes(setup) / (coefficients.host_copy_utilisation * setup.hardware.pcie)
    return passes * np.maximum(share * each, copied)


def hosted_copy_bytes(setup: TimedSetup) -> Any:
    """Return the bytes of a frozen copy of the network that come from host memory to one GPU in a pass; 0 without."""
    layout, states = setup.layout, setup.states
    if not np.any(states.host_reference):
        return 0.0
    cut = np.where(np.greater_equal(layout.zero_stage, 3), layout.gpus, layout.tensor * layout.pipeline)
    return states.host_reference * states.reference_bytes * setup.network.parameters / cut


def _assemble_step(parts: _MicroBatch, each: Any, layout: Layout, coefficients: TimeCoefficients) -> tuple[Any, Any]:
    """Return the seconds of the step, and the factor that several nodes cost."""
    rounds = layout.accumulation + (layout.pipeline - 1.0) / layout.interleave
    nodes_factor = 1.0 + coefficients.node_loss_per_doubling * np.log2(communication.node_count(layout))
    tail = parts.reduction + parts.optimizer + coefficients.fixed_seconds
    return (rounds * each + tail) * nodes_factor, nodes_factor


def _optimizer_seconds(layout: Layout, states: States, hardware: Hardware, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of the optimizer (t_opt): memory traffic of one GPU's parameters, or the host's update."""
    shards = layout.tensor * layout.pipeline
    copies = np.where(
        np.equal(layout.hybrid, 1), communication.hybrid_group(layout) * shards * layout.context, layout.gpus
    )
    updated = states.trainable / np.where(np.greater(layout.zero_stage, 0), copies, shards)
    traffic = states.optimizer_traffic_bytes * updated * coefficients.optimizer_factor
    seconds = traffic * (1.0 / hardware.bandwidth) + paging_seconds(states, hardware, coefficients)
    hosted = np.not_equal(states.host_optimizer, 0) | (
        np.not_equal(states.host_weights, 0) & np.equal(layout.zero_stage, 3)
    )
    if not np.any(hosted):
        return seconds
    return np.where(hosted, host_optimizer_seconds(updated, layout, states, hardware, coefficients), seconds)


def paging_seconds(states: States, hardware: Hardware, coefficients: TimeCoefficients) -> Any:
    """Return the seconds in which paged states that lie in host memory come to the card and leave it, once a step.

    bitsandbytes fetches the pages of a parameter before it updates it, and the driver moves as many away for them.
    Source: Dettmers et al. 2023, QLoRA, arXiv:2305.14314, section 3, paged optimizers.
    """
    if not np.any(states.paged_away_bytes):
        return 0.0
    return 2.0 * states.paged_away_bytes / (coefficients.host_copy_utilisation * hardware.pcie)


def host_optimizer_seconds(
    updated: Any, layout: Layout, states: States, hardware: Hardware, coefficients: TimeCoefficients
) -> Any:
    """Return the seconds of one step's optimizer in host memory; `updated` parameters are those of one GPU.

    The CPUs of a node update what its GPUs hold at the bandwidth of its memory. Gradients go down and are summed after
    every micro-step, weights come back once. Source: ZeRO-Offload (arXiv 2101.06840), section 4 and table 4.
    """
    slot = coefficients.host_copy_utilisation * hardware.pcie
    node = coefficients.host_bandwidth / layout.gpus_per_node  # one GPU's share
    update = states.optimizer_traffic_bytes / node + _HOST_WEIGHT_BYTES / slot
    gradients = _HOST_GRADIENT_BYTES / slot + _HOST_SUM_BYTES / node
    return updated * (update + layout.accumulation * gradients)


def _cube(values: Any) -> Any:
    return values * values * values


def _is_one(values: Any) -> bool:
    """Return whether a factor changes nothing."""
    return bool(np.all(np.equal(values, 1)))


def _is_zero(values: Any) -> bool:
    return isinstance(values, float) and values == 0.0
