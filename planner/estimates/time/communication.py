"""Seconds that GPUs spend exchanging weights, gradients and activations; 0 on a single GPU.

Bandwidths are what collectives reach of the sheet figure.
A group that crosses nodes runs at the slower of its two links, less a loss per doubling of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.estimates.time.device import ffn_matrices, micro_batch_tokens, recompute_shares

if TYPE_CHECKING:
    from planner.estimates.inputs import Hardware, Kernels, Layout, Network, States, TimedSetup
    from planner.estimates.time.coefficients import TimeCoefficients


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
    each = payload / bandwidth + coefficients.tensor_latency_seconds
    return np.greater(tensor, 1) * collectives * each * visible


def expert_seconds(setup: TimedSetup, coefficients: TimeCoefficients, reached: Links) -> Any:
    """Return the seconds of token exchange between experts of one micro-batch (t_ep)."""
    network, layout = setup.network, setup.layout
    expert = layout.expert
    if not network.experts or np.all(np.equal(expert, 1)):
        return 0.0
    passes = (network.layers / layout.pipeline) * (4.0 + 2.0 * recompute_shares(setup.activations.checkpointing).matmul)
    sent = 2.0 * micro_batch_tokens(layout) * network.experts_per_token * network.hidden
    bandwidth = np.where(np.greater(expert, layout.gpus_per_node), reached.across, reached.inside)
    return coefficients.expert_traffic_factor * passes * sent * (1.0 - 1.0 / np.asarray(expert)) / bandwidth


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
    replicas = np.asarray(layout.data_parallel, dtype=float)
    spread = _non_expert_parameters(network, layout)
    gradients = states.reduced_bytes * np.minimum(states.trainable, spread)
    payload = (2.0 * states.gathered_bytes * spread + gradients) / shards
    hybrid = np.equal(layout.hybrid, 1)
    if not np.any(hybrid):
        seconds = payload * (1.0 - 1.0 / replicas) / reached.group
    else:
        group = np.where(hybrid, hybrid_group(layout), replicas)
        bandwidth = np.where(hybrid, reached.inside, reached.group)
        seconds = payload * (1.0 - 1.0 / group) / bandwidth
        across = 2.0 * states.reduced_bytes * states.trainable / shards * (1.0 - group / replicas)
        seconds = seconds + hybrid * across / (reached.across * layout.gpus_per_node * layout.accumulation)
    once = np.where(np.greater(layout.pipeline, 1), layout.accumulation, 1.0)
    return stage_3 * seconds / once


def host_seconds(setup: TimedSetup, coefficients: TimeCoefficients) -> Any:
    """Return the seconds of copying sharded weights from host memory for one micro-batch.

    Twice: for the forward and for the backward pass. Each GPU copies its own shard over its own slot.
    """
    layout, states = setup.layout, setup.states
    hosted = np.not_equal(states.host_weights, 0) & np.equal(layout.zero_stage, 3)
    if not np.any(hosted):
        return 0.0
    copied = 2.0 * states.gathered_bytes * setup.network.parameters / np.asarray(layout.gpus, dtype=float)
    return hosted * copied / (coefficients.host_copy_utilisation * setup.hardware.pcie)


def hybrid_group(layout: Layout) -> Any:
    """Return the data-parallel ranks inside one node, which share the states under hybrid sharding."""
    inside = np.asarray(layout.gpus_per_node) / (layout.tensor * layout.context)
    return np.minimum(layout.data_parallel, np.maximum(1.0, inside))


def pipeline_seconds(network: Network, layout: Layout, reached: Links) -> Any:
    """Return the seconds of handing the activations of one micro-batch to the next stage (t_pp)."""
    if np.all(np.equal(layout.pipeline, 1)):
        return 0.0
    return np.greater(layout.pipeline, 1) * micro_batch_tokens(layout) * network.hidden / reached.across


def reduction_seconds(
    layout: Layout, states: States, kernels: Kernels, coefficients: TimeCoefficients, reached: Links
) -> Any:
    """Return the visible seconds of the gradient reduction of one optimizer step without stage 3 (t_dp).

    DDP and stage 1 accumulate on the GPU and reduce once.
    Stage 2 holds no full gradient and reduces after every micro-batch.
    """
    replicas = np.asarray(layout.data_parallel, dtype=float)
    trained = states.trainable / (layout.tensor * layout.pipeline)
    times = np.where(np.equal(layout.zero_stage, 2), layout.accumulation, 1.0)
    hidden = coefficients.data_parallel_overlap * np.not_equal(kernels.overlaps_reduction, 0)
    visible = (1.0 - hidden) * np.less(layout.zero_stage, 3) * times
    reduced = 2.0 * states.reduced_bytes * trained
    seconds = reduced * (1.0 - 1.0 / replicas) / reached.group
    hybrid = np.equal(layout.hybrid, 1) & np.greater(layout.zero_stage, 0)
    if np.any(hybrid):
        # Scattered and gathered inside the node; across nodes each GPU reduces its own shard.
        group = np.asarray(hybrid_group(layout), dtype=float)
        inside = reduced * (1.0 - 1.0 / group) / reached.inside
        across = reduced * (1.0 - group / replicas) / (reached.across * layout.gpus_per_node)
        seconds = np.where(hybrid, inside + across, seconds)
    return visible * seconds


def _non_expert_parameters(network: Network, layout: Layout) -> Any:
    """Return the parameters that all data-parallel ranks share (P'), without experts under expert parallelism."""
    if not network.experts or np.all(np.equal(layout.expert, 1)):
        return network.parameters
    experts = float(network.layers * network.experts * ffn_matrices(network) * network.hidden * network.ffn)
    rest = max(network.parameters - experts, 0.0)
    return np.where(np.greater(layout.expert, 1), rest, network.parameters)
