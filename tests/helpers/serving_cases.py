"""Served models, hardware and stacks for tests of the formulas of generation: round figures, easy to work by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.estimates.generation import ServedModel, ServingHardware, ServingStack

LLAMA_8B = ServedModel(
    layers=32, hidden=4096, attention_width=4096, cache_layers=32, kv_heads=8, head_dim=128, latent=0, window=0,
    window_share=0.0, dense_weights=7.5e9, expert_weights=0.0, experts=0, experts_per_token=0, stored_weights=8e9,
    met_weights=7.5e9,
)  # fmt: skip
GPU = ServingHardware(
    bandwidth=1.5e12, cache_bandwidth=1e12, flops=3e14, attention_flops=1e14, tensor=1, pipeline=1,
    link_bytes_per_second=1e11, link_seconds=1e-5,
)  # fmt: skip
PLAIN = ServingStack(
    weight_bytes=2.0, kv_bytes=2.0, layer_seconds=0.0, step_seconds=0.0, sequence_seconds=0.0, request_seconds=0.0,
    arrival_seconds=0.0, wait_share=0.5,
)  # fmt: skip


def served(**changes: Any) -> ServedModel:
    """Return a model like Llama 3 8B with some figures changed."""
    return replace(LLAMA_8B, **changes)


def hardware(**changes: Any) -> ServingHardware:
    """Return one GPU of 1.5 TB/s and 300 TFLOP/s with some figures changed."""
    return replace(GPU, **changes)


def stack(**changes: Any) -> ServingStack:
    """Return 16-bit weights and cache without any overhead, with some figures changed."""
    return replace(PLAIN, **changes)
