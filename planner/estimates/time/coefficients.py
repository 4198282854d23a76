"""The fitted and assumed numbers that the time estimate shares over all cards and profiles."""

from __future__ import annotations

from planner.estimates.inputs import Coefficients
from planner.records import record


@record(frozen=True)
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
