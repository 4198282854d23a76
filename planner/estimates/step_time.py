"""Seconds of one optimizer step, with what GPUs exchange in it, and tokens per second, for any grid.

Bandwidths are what collectives reach of the sheet figure.
A group that crosses nodes runs at the slower of its two links, less a loss per doubling of nodes.

One step is `accumulation` micro-batches plus the pipeline's bubble, the gradient reduction and the optimizer.
Device and host run side by side, and so do compute and transfers (of shards, from host memory) as far as they overlap:
the cube root of summed cubes is a smooth maximum of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from planner.estimates.device import (
    DeviceTime,
    TimeCoefficients,
    device_time,
    forward_share,
    hook_seconds,
    launch_seconds,
    micro_batch_tokens,
)
from planner.estimates.inputs import (
    CHECKPOINT_NONE,
    KEYS_BY_HEADS,
    KEYS_GATHERED,
    Hardware,
    Kernels,
    Layout,
    Network,
    States,
    TimedSetup,
    recompute_shares,
    tower_backward,
    tower_states,
)
from planner.estimates.memory_terms import swapped_bytes

_ACTIVATION_BYTES = 2.0  # between pipeline stages


class Links(NamedTuple):
    """Bytes per second that a collective reaches per GPU."""

    inside: Any  # between the GPUs of one node
    node: Any  # all of a node's network
    group: Any  # of a data-parallel group
    across: Any  # one GPU's share of the network, at most `inside`


def node_count(layout: Layout) -> Any:
    """Return the nodes in use, of the broadcast shape of `gpus` and `gpus_per_node`."""
    return np.ceil(layout.gpus / np.asarray(layout.gpus_per_node))


def link_bandwidths(layout: Layout, hardware: Hardware, coefficients: TimeCoefficients) -> Links:
    """Return the reached bandwidths in bytes/s."""
    nvlink = np.asarray(hardware.nvlink, dtype=float)
    inside = np.where(
        nvlink > 0.0, coefficients.nvlink_utilisation * nvlink, coefficients.pcie_utilisation * hardware.pcie
    )
    node = coefficients.network_utilisation * hardware.network
    nodes = node_count(layout)
    per_node = np.asarray(layout.gpus_per_node)
    # Tensor-parallel neighbours share a node; G/tp ranks of one data-parallel group share its network.
    shared = np.minimum(inside, node * np.maximum(1.0, per_node / layout.tensor) / per_node)
    shared = shared / (1.0 + coefficients.group_loss_per_doubling * np.log2(nodes))
    return Links(
        inside=inside, node=node, group=np.where(nodes > 1, shared, inside), across=np.minimum(inside, node / per_node)
    )


def tensor_seconds(setup: TimedSetup, coefficients: TimeCoefficients, reached: Links) -> Any:
    """Return the seconds of tensor-parallel all-reduces of one micro-batch (t_tp)."""
    network, layout = setup.network, setup.layout
    tensor = layout.tensor
    if np.all(np.equal(tensor, 1)):
        return 0.0
    again = recompute_shares(setup.activations.checkpointing).matmul
    collectives = (network.layers / layout.pipeline) * (4.0 + 2.0 * again)
    visible = np.where(np.equal(setup.kernels.fused, 0), 1.0, coefficients.fused_tensor_factor)
    bandwidth = np.where(
        np.greater(tensor, layout.gpus_per_node), np.minimum(reached.inside, reached.node), reached.inside
    )
    payload = 4.0 * micro_batch_tokens(layout) * network.hidden * (1.0 - 1.0 / np.asarray(tensor))
    collective_seconds = payload / bandwidth + coefficients.tensor_latency_seconds
    # Experts that are whole on their GPUs take the tokens of each rank as they are: attention alone is gathered.
    collectives = np.where(np.less(layout.expert_tensor, tensor), 0.5, 1.0) * collectives
    return np.greater(tensor, 1) * collectives * collective_seconds * visible


def context_seconds(setup: TimedSetup, reached: Links, attention: Any) -> Any:
    """Return the visible seconds of exchanging keys and values between the GPUs that share a sequence (t_cp).

    Each GPU receives those of the other parts in every forward pass and in the backward pass, and sends their
    gradients back. A ring hides them under `attention`, seconds of one micro-batch; a gather comes before it. Where a
    GPU takes some heads of all tokens, queries, keys, values and outputs change places, once in a forward pass and once
    in the backward pass, all but the part that stays.
    Sources: Ring Attention (arXiv 2310.01889); Llama 3 (arXiv 2407.21783), section 3.3.2, which gathers;
    DeepSpeed-Ulysses (arXiv 2309.14509), section 3.2.
    """
    network, layout = setup.network, setup.layout
    if np.all(np.equal(layout.context, 1)):
        return 0.0
    passes = 3.0 + recompute_shares(setup.activations.checkpointing).attention
    # Bytes of a token in a layer.
    token_bytes = 2.0 * network.kv_width * setup.activations.element_bytes / layout.tensor
    received = (np.asarray(layout.context) - 1.0) * micro_batch_tokens(layout) * token_bytes
    together = np.multiply(layout.tensor, layout.context)
    bandwidth = np.where(np.greater(together, layout.gpus_per_node), reached.across, reached.inside)
    seconds = (network.layers / layout.pipeline) * passes * received / bandwidth
    exchange, degree = setup.activations.key_exchange, np.asarray(layout.context)
    swapped = (
        micro_batch_tokens(layout)
        * (network.query_width / network.kv_width + 1.0)
        * token_bytes
        * (degree - 1.0)
        / degree
    )
    by_heads = (network.layers / layout.pipeline) * (passes - 1.0) * swapped / bandwidth
    exposed = np.where(np.equal(exchange, KEYS_GATHERED), seconds, np.maximum(seconds - attention, 0.0))
    return np.where(np.equal(exchange, KEYS_BY_HEADS), by_heads, exposed)


def expert_seconds(setup: TimedSetup, coefficients: TimeCoefficients, reached: Links) -> Any:
    """Return the seconds of token exchange between experts of one micro-batch (t_ep).

    A tensor-parallel rank sends its own part of the tokens: sequence parallelism has cut them, and where experts are
    cut over the same ranks, too, those gather what arrives. A token goes once to each of its k experts on another GPU,
    of which k * (1 - 1/n) are on others of n nodes. A dispatcher by node sends it once to each node that holds one of
    them, and on from there over NVLink: k of them, drawn at random, are on (n - 1) * (1 - (1 - 1/n)^k) of n - 1 others.
    8 experts of a token over 4 nodes: 8 * 3/4 = 6 copies over the network, by node 3 * (1 - 0.75^8) = 2.70.
    Sources: DeepEP (deepseek-ai), README, "Normal kernels with NVLink and RDMA forwarding"; DeepSeek-V3 (arXiv
    2412.19437), section 3.2.2; Megatron Core, MoE user guide, `--moe-token-dispatcher-type flex`.
    """
    network, layout = setup.network, setup.layout
    expert = layout.expert
    if not network.experts or np.all(np.equal(expert, 1)):
        return 0.0
    passes = (network.layers / layout.pipeline) * (4.0 + 2.0 * recompute_shares(setup.activations.checkpointing).matmul)
    copy = 2.0 * micro_batch_tokens(layout) * network.hidden / layout.tensor
    ranks, k = np.asarray(expert, dtype=float), float(network.experts_per_token)
    nodes = np.ceil(ranks * layout.expert_tensor / np.asarray(layout.gpus_per_node))
    nodes = np.clip(nodes, 1.0, ranks)
    by_node = np.not_equal(setup.kernels.dispatches_by_node, 0)
    away = np.where(by_node, (nodes - 1.0) * (1.0 - (1.0 - 1.0 / nodes) ** k), k * (1.0 - 1.0 / nodes))
    # Inside a node all but those on the same GPU: by node the experts of all that it receives, too.
    inside = k * np.where(by_node, 1.0 - nodes / ranks, 1.0 / nodes - 1.0 / ranks)
    return coefficients.expert_traffic_factor * passes * copy * (inside / reached.inside + away / reached.across)


def sharding_seconds(network: Network, layout: Layout, states: States, reached: Links) -> Any:
    """Return the seconds of sharding traffic of one micro-batch under stage 3 (t_fs).

    Weights are gathered twice and gradients scattered once.

    Hybrid sharding gathers inside the node and reduces gradients across nodes once per optimizer step.
    With pipeline stages weights are gathered once per step.
    """
    stage_3 = np.equal(layout.zero_stage, 3)
    if not np.any(stage_3):
        return 0.0
    shards = layout.tensor * layout.pipeline
    replicas = np.asarray(layout.replicas, dtype=float)
    gradients = states.reduced_bytes * np.minimum(states.trainable, network.parameters)
    payload = (2.0 * states.gathered_bytes * network.parameters + gradients) / shards
    hybrid = np.equal(layout.hybrid, 1)
    if not np.any(hybrid):
        seconds = payload * _exchanged_share(network, layout, replicas) / reached.group
    else:
        group = np.where(hybrid, hybrid_group(layout), replicas)
        bandwidth = np.where(hybrid, reached.inside, reached.group)
        seconds = payload * _exchanged_share(network, layout, group) / bandwidth
        across = 2.0 * states.reduced_bytes * states.trainable / shards * (1.0 - group / replicas)
        seconds = seconds + hybrid * across / (reached.across * layout.gpus_per_node * layout.accumulation)
    once = np.where(np.greater(layout.pipeline, 1), layout.accumulation, 1.0)
    return stage_3 * seconds / once


def host_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of copies between host memory and the GPU for one micro-batch.

    Sharded weights come twice, for the forward and for the backward pass; each GPU copies its own shard over its own
    slot. Activations that all lie there go in the forward pass and come back in the backward pass. Frozen weights come
    once for each pass: 16.1 GB of 8.03e9 weights three times under full checkpointing, 1.2 s at 0.825 of 48e9 bytes/s.
    Blocks that are swapped cross it for the forward and for the backward pass, which runs them again at once.
    """
    layout, states, copied_bytes = setup.layout, setup.states, setup.activations.copied_bytes
    hosted = np.not_equal(states.host_weights, 0) & np.equal(layout.zero_stage, 3)
    if not (np.any(hosted) or np.any(copied_bytes) or np.any(states.host_frozen) or np.any(states.swapped_share)):
        return 0.0
    weights = 2.0 * states.gathered_bytes * setup.network.parameters / np.asarray(layout.gpus, dtype=float)
    activations = 2.0 * copied_bytes * micro_batch_tokens(layout) / layout.pipeline
    passes = 2.0 + recompute_shares(setup.activations.checkpointing).matmul
    frozen = np.sign(states.host_frozen) * passes * states.weight_bytes * setup.network.parameters
    frozen = frozen + states.swap_crossings * swapped_bytes(setup.network, states)
    return (hosted * weights + activations + frozen) / (coefficients.host_copy_utilisation * setup.hardware.pcie)


def fetch_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds in which one micro-batch waits for what attention keeps in host memory.

    Each tensor is copied in the stream of the backward pass, once it is needed (SimpleTuner, CPUOffloadHooks.unpack),
    so that no work hides it. Copies to the host have streams of their own and the other direction of the slot, and
    nothing waits for them: one for each forward pass, those of layers that run again, too.
    """
    fetched = setup.activations.fetched_bytes
    if not np.any(fetched):
        return 0.0
    moved = fetched * micro_batch_tokens(setup.layout) / setup.layout.pipeline
    return moved / (coefficients.host_copy_utilisation * setup.hardware.pcie)


def hybrid_group(layout: Layout) -> Any:
    """Return the data-parallel ranks inside one node, which share the states under hybrid sharding."""
    inside = np.asarray(layout.gpus_per_node) / (layout.tensor * layout.context)
    return np.minimum(layout.data_parallel, np.maximum(1.0, inside))


def pipeline_seconds(network: Network, layout: Layout, reached: Links) -> Any:
    """Return the seconds in which a stage hands on one micro-batch: 16-bit activations, and their gradients (t_pp).

    Tensor-parallel ranks send a part each, which the next stage gathers. On several nodes stages share the network.
    8,192 tokens of 14,336 wide over 8 ranks: 4 * 8,192 * 14,336 / 8 = 58.7 MB, 12.6 ms at 4.64 GB/s.
    Sources: Megatron-LM (arXiv 2104.04473), section 4.1; `PartitionedTensor` of DeepSpeed's pipe/engine.py.
    """
    if np.all(np.equal(layout.pipeline, 1)):
        return 0.0
    sent = 2.0 * _ACTIVATION_BYTES * micro_batch_tokens(layout) * network.hidden / layout.tensor
    bandwidth = np.where(node_count(layout) > 1, reached.across, reached.inside)
    return np.greater(layout.pipeline, 1) * sent / bandwidth


def reduction_seconds(setup: TimedSetup, coefficients: TimeCoefficients, reached: Links) -> Any:
    """Return the visible seconds of the gradient reduction of one optimizer step without stage 3 (t_dp).

    DDP and stage 1 accumulate on the GPU and reduce once.
    Stage 2 holds no full gradient and reduces after every micro-batch.
    """
    layout, states, kernels = setup.layout, setup.states, setup.kernels
    replicas = np.asarray(layout.replicas, dtype=float)
    trained = states.trainable / (layout.tensor * layout.pipeline)
    times = np.where(np.equal(layout.zero_stage, 2), layout.accumulation, 1.0)
    hidden = coefficients.data_parallel_overlap * np.not_equal(kernels.overlaps_reduction, 0)
    visible = (1.0 - hidden) * np.less(layout.zero_stage, 3) * times
    reduced = 2.0 * states.reduced_bytes * trained
    seconds = reduced * _exchanged_share(setup.network, layout, replicas) / reached.group
    hybrid = np.equal(layout.hybrid, 1) & np.greater(layout.zero_stage, 0)
    if np.any(hybrid):
        # Scattered and gathered inside the node; across nodes each GPU reduces its own shard.
        group = np.asarray(hybrid_group(layout), dtype=float)
        inside = reduced * (1.0 - 1.0 / group) / reached.inside
        across = reduced * (1.0 - group / replicas) / (reached.across * layout.gpus_per_node)
        seconds = np.where(hybrid, inside + across, seconds)
    return visible * seconds


def _exchanged_share(network: Network, layout: Layout, ranks: Any) -> Any:
    """Return the share of all parameters that one of `ranks` GPUs exchanges in a gather or a reduction.

    Each rank lacks (n - 1)/n of what n of them share. Experts are shared by those ranks alone that hold the same ones.
    """
    whole = 1.0 - 1.0 / ranks
    if not network.experts or np.all(np.equal(layout.expert, 1)):
        return whole
    experts = network.expert_parameters / network.parameters
    spread = np.asarray(layout.expert_shards)
    apart = np.maximum(1.0 - spread / ranks, 0.0) / spread
    return (1.0 - experts) * whole + experts * apart


# Per parameter updated in host memory: a 16-bit weight up once a step; in every micro-step a 16-bit gradient down,
# which is written and read there (4) and added to an fp32 sum (8).
_HOST_WEIGHT_BYTES, _HOST_GRADIENT_BYTES, _HOST_SUM_BYTES = 2.0, 2.0, 12.0


@dataclass(frozen=True)
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
    host_copies: Any
    fetched: Any
    sent: Any
    handover: Any
    hooks: Any
    reduction: Any
    optimizer: Any

    @property
    def transfer(self) -> Any:
        """Return the seconds of what the copy engines move while layers compute."""
        return self.sharding + self.host_copies


def step_time(setup: TimedSetup, coefficients: TimeCoefficients) -> StepTime:
    """Return the seconds of one optimizer step with breakdown; arrays of the broadcast shape of all inputs.

    `tokens_per_second` counts tokens as processed; padding and packing turn them into real ones (`work.py`).
    """
    layout, parts = setup.layout, _micro_batch(setup, coefficients)
    micro_batch_seconds = _overlap_seconds(parts, setup.kernels) + parts.handover + parts.hooks
    further, tower = further_seconds(micro_batch_seconds, setup, coefficients), tower_seconds(setup, coefficients)
    seconds, nodes_factor = _assemble_step(parts, micro_batch_seconds + further + tower, layout, coefficients)
    lost = seconds * (1.0 - 1.0 / nodes_factor)
    whole, visible = (
        _by_cause(parts, shown, (micro_batch_seconds, further, tower), lost, layout, coefficients)
        for shown in (_ALL_VISIBLE, _visible_shares(parts, setup.kernels))
    )
    return StepTime(seconds, whole, visible, tokens_per_step(layout) / seconds)


def step_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of one optimizer step without breakdown: `step_time(...).seconds`, for large grids."""
    parts = _micro_batch(setup, coefficients)
    micro_batch_seconds = _overlap_seconds(parts, setup.kernels) + parts.handover + parts.hooks
    others = further_seconds(micro_batch_seconds, setup, coefficients) + tower_seconds(setup, coefficients)
    return _assemble_step(parts, micro_batch_seconds + others, setup.layout, coefficients)[0]


def tokens_per_step(layout: Layout) -> Any:
    """Return the tokens processed per optimizer step over all GPUs."""
    return layout.micro_batch * layout.answers * layout.sequence * layout.accumulation * layout.data_parallel


def _micro_batch(setup: TimedSetup, coefficients: TimeCoefficients) -> _MicroBatch:
    if not _is_one(setup.activations.token_share):  # cached latents: fewer equivalent tokens for each image
        shorter = setup.layout.sequence * setup.activations.token_share
        setup = replace(setup, layout=replace(setup.layout, sequence=shorter))
    network, layout, states = setup.network, setup.layout, setup.states
    reached = link_bandwidths(layout, setup.hardware, coefficients)
    device, fetched = device_time(setup, coefficients), fetch_seconds(setup, coefficients)
    return _MicroBatch(
        device=device,
        launch=launch_seconds(setup, coefficients),
        tensor=tensor_seconds(setup, coefficients, reached),
        expert=expert_seconds(setup, coefficients, reached),
        context=context_seconds(setup, reached, device.attention),
        sharding=sharding_seconds(network, layout, states, reached),
        host_copies=host_seconds(setup, coefficients),
        fetched=fetched,
        sent=0.0 if _is_zero(fetched) else (1.0 + recompute_shares(setup.activations.checkpointing).matmul) * fetched,
        handover=pipeline_seconds(network, layout, reached),
        hooks=hook_seconds(setup),
        reduction=reduction_seconds(setup, coefficients, reached),
        optimizer=_optimizer_seconds(layout, states, setup.hardware, coefficients),
    )


def _overlap_seconds(parts: _MicroBatch, kernels: Kernels) -> Any:
    """Return the seconds of one micro-batch, in which host, device and transfers overlap."""
    device = parts.device.total
    cubed = _cube(device) + _cube(parts.launch)
    others = (parts.transfer, parts.tensor, parts.expert, parts.context, parts.fetched)
    if all(_is_zero(seconds) for seconds in others):
        return np.cbrt(cubed)
    work = np.cbrt(cubed) + parts.tensor + parts.expert + parts.context + parts.fetched
    if not _is_zero(parts.fetched):
        work = np.cbrt(_cube(work) + _cube(parts.sent))
    longer = np.cbrt(_cube(work) + _cube(parts.transfer))
    return longer + (1.0 - kernels.overlap) * work * parts.transfer / longer


class _VisibleShares(NamedTuple):
    """Shares of work that the step waits for; the rest is hidden behind concurrent work."""

    device: Any
    launch: Any
    exchange: Any  # between tensor-parallel ranks, experts and parts of a sequence, and what comes back from the host
    sent: Any  # to the host, for which nothing waits
    transfer: Any  # of shards, and between host memory and the GPU


_ALL_VISIBLE = _VisibleShares(1.0, 1.0, 1.0, 1.0, 1.0)


def _visible_shares(parts: _MicroBatch, kernels: Kernels) -> _VisibleShares:
    """Return the shares that sum to the time of `_overlap_seconds`.

    Of f = (a^3 + b^3)^(1/3) the side a counts (a/f)^2 * a: Euler's identity for homogeneous functions, and the
    share of a small saving in a that reaches the step.
    """
    device = parts.device.total
    busy = np.cbrt(_cube(device) + _cube(parts.launch))
    inner = busy + parts.tensor + parts.expert + parts.context + parts.fetched
    work = inner if _is_zero(parts.fetched) else np.cbrt(_cube(inner) + _cube(parts.sent))
    longer = np.cbrt(_cube(work) + _cube(parts.transfer))
    of_work, of_transfer = np.square(work / longer), np.square(parts.transfer / longer)
    outer = of_work + (1.0 - kernels.overlap) * np.square(of_transfer)
    own = outer if _is_zero(parts.fetched) else outer * np.square(inner / work)
    return _VisibleShares(
        device=own * np.square(device / busy),
        launch=own * np.square(parts.launch / busy),
        exchange=own,
        sent=outer * np.square(parts.sent / work),
        transfer=of_transfer + (1.0 - kernels.overlap) * np.square(of_work),
    )


def _by_cause(
    parts: _MicroBatch,
    shown: _VisibleShares,
    seconds_each: tuple[Any, Any, Any],
    node_loss: Any,
    layout: Layout,
    coefficients: TimeCoefficients,
) -> dict[str, Any]:
    """Return the seconds of one optimizer step by cause, each micro-batch's work weighted by its `shown` share.

    `seconds_each` are those of a micro-batch: of training, of passes without gradients, and of a tower of images.
    """
    rounds, (micro_batch_seconds, further, tower) = layout.accumulation, seconds_each
    idle = (layout.pipeline - 1.0) / layout.interleave
    copies = parts.host_copies
    if not (_is_zero(copies) and _is_zero(parts.fetched)):
        copies = copies * shown.transfer + parts.fetched * shown.exchange + parts.sent * shown.sent
    return {
        **{cause: rounds * seconds * shown.device for cause, seconds in parts.device._asdict().items()},
        "launch": rounds * parts.launch * shown.launch,
        "tensor_parallel": rounds * parts.tensor * shown.exchange,
        "expert_parallel": rounds * parts.expert * shown.exchange,
        "context_parallel": rounds * parts.context * shown.exchange,
        "sharding": rounds * parts.sharding * shown.transfer,
        **({} if _is_zero(copies) else {"host_copies": rounds * copies}),
        "pipeline_transfer": rounds * parts.handover,
        "hooks": rounds * parts.hooks,
        **({} if _is_zero(further) else {"further_forwards": (rounds + idle) * further}),
        **({} if _is_zero(tower) else {"image_tower": (rounds + idle) * tower}),
        "bubble": idle * micro_batch_seconds,
        "data_parallel": parts.reduction,
        "optimizer": parts.optimizer,
        "fixed": coefficients.fixed_seconds,
        "node_loss": node_loss,
    }


def further_seconds(micro_batch_seconds: Any, setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of one micro-batch's passes without gradients, from `micro_batch_seconds` to train on.

    A copy of the network in host memory comes over PCIe in every pass, behind its work. A trained micro-batch of 0.9 s
    under LoRA with full checkpointing takes 0.3 s more for a reference.
    """
    passes = setup.activations.further_forwards
    if not np.any(passes):
        return 0.0
    share = forward_share(setup.states.frozen, recompute_shares(setup.activations.checkpointing).matmul)
    copied = hosted_copy_bytes(setup) / (coefficients.host_copy_utilisation * setup.hardware.pcie)
    return passes * np.maximum(share * micro_batch_seconds, copied)


_FORWARD_ATTENTION = 1.0 / 3.5
"""Of the FLOP of attention under autograd: fused kernels compute scores again in the backward pass (`_attention`)."""


def tower_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of one micro-batch that the images of a job take in their tower; 0 without images.

    The formulas are those of the language model, with patches as tokens, each tile a sequence, and no causal mask. A
    frozen tower runs forward alone, unless gradients pass through it. Each GPU runs all of it, for the samples of its
    own micro-batch. A pass of a reference runs it once more.
    """
    tower, layout = setup.network.tower, setup.layout
    if tower is None:
        return 0.0
    alone = {"tensor": 1, "pipeline": 1, "context": 1, "expert": 1, "zero_stage": 0, "answers": 1}
    tiles = np.multiply(layout.micro_batch, layout.answers) * tower.tiles
    layout = replace(layout, micro_batch=tiles, sequence=float(tower.patches), accumulation=1, **alone)
    states = tower_states(setup.states, tower)
    activations = replace(setup.activations, logit_bytes=0.0, fp32_paths=0)
    kernels = replace(setup.kernels, naive_experts=0, quantised_bytes=0.0)
    parts = replace(setup, network=tower.network, layout=layout, states=states, activations=activations)
    parts = replace(parts, kernels=kernels)
    plain = replace(parts, activations=replace(activations, checkpointing=CHECKPOINT_NONE))
    forward = _forward_of(plain, coefficients)
    passes = setup.activations.further_forwards
    through = tower_backward(setup)
    if not np.any(through):
        return (1.0 + passes) * forward
    device, launch = device_time(parts, coefficients).total, launch_seconds(parts, coefficients)
    trained = np.cbrt(_cube(device) + _cube(launch)) + hook_seconds(parts)
    return np.where(through, trained, forward) + passes * forward


def _forward_of(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of a pass without gradients, in the shares of training that each part has."""
    device = device_time(setup, coefficients)
    share = forward_share(setup.states.frozen, 0.0)
    work = share * device.matmul + device.elementwise / 3.0 + _FORWARD_ATTENTION * device.attention
    launch = launch_seconds(setup, coefficients) / 3.0
    return np.cbrt(_cube(work) + _cube(launch)) + 0.5 * hook_seconds(setup)


def hosted_copy_bytes(setup: TimedSetup) -> Any:
    """Return the bytes of a frozen copy of the network that come from host memory to one GPU in a pass; 0 without."""
    layout, states = setup.layout, setup.states
    if not np.any(states.host_reference):
        return 0.0
    cut = np.where(np.greater_equal(layout.zero_stage, 3), layout.gpus, layout.tensor * layout.pipeline)
    return states.host_reference * states.reference_bytes * setup.network.parameters / cut


def _assemble_step(
    parts: _MicroBatch, micro_batch_seconds: Any, layout: Layout, coefficients: TimeCoefficients
) -> tuple[Any, Any]:
    """Return the seconds of the step, and the factor that several nodes cost."""
    rounds = layout.accumulation + (layout.pipeline - 1.0) / layout.interleave
    nodes_factor = 1.0 + coefficients.node_loss_per_doubling * np.log2(node_count(layout))
    tail = parts.reduction + parts.optimizer + coefficients.fixed_seconds
    return (rounds * micro_batch_seconds + tail) * nodes_factor, nodes_factor


def _optimizer_seconds(layout: Layout, states: States, hardware: Hardware, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of the optimizer (t_opt): memory traffic of one GPU's parameters, or the host's update."""
    shards = layout.tensor * layout.pipeline
    copies = np.where(np.equal(layout.hybrid, 1), hybrid_group(layout) * shards * layout.context, layout.gpus)
    updated = states.trainable / np.where(np.greater(layout.zero_stage, 0), copies, shards)
    traffic = states.optimizer_traffic_bytes * updated * coefficients.optimizer_factor
    seconds = traffic * (1.0 / hardware.bandwidth) + paging_seconds(states, hardware, coefficients)
    if np.any(states.average_bytes) or np.any(states.hosted_average_bytes):
        seconds = seconds + average_seconds(states, hardware, coefficients)
    hosted = np.not_equal(states.host_optimizer, 0) | (
        np.not_equal(states.host_weights, 0) & np.equal(layout.zero_stage, 3)
    )
    if not np.any(hosted):
        return seconds
    return np.where(hosted, host_optimizer_seconds(updated, layout, states, hardware, coefficients), seconds)


_AVERAGE_PASSES = 6
"""Times that an update of an average moves its bytes: the difference is read twice and written, then used so."""


def average_seconds(states: States, hardware: Hardware, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of a step that update an average of the trained weights, whole on each GPU.

    One in host memory comes to the GPU for its update, and goes back.
    Source: SimpleTuner, helpers/training/ema.py: `step` (two `_foreach_sub`, of which one makes a temporary).
    """
    bytes_per_parameter = states.average_bytes + states.hosted_average_bytes
    slot = coefficients.host_copy_utilisation * hardware.pcie
    moved = 2.0 * states.hosted_average_bytes / slot
    return states.trainable * (_AVERAGE_PASSES * bytes_per_parameter / hardware.bandwidth + moved)


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
