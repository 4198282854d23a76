"""Seconds of one decode step: one more token for each sequence in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.inference.activations import ACTIVATION_BYTES
from planner.estimates.inference.kv_cache import kv_bytes_per_token

if TYPE_CHECKING:
    from planner.estimates.inference.inputs import ServedModel, ServingHardware, ServingStack
    from planner.estimates.inputs import Numbers

ALL_REDUCES = 2.0
"""Of one layer under tensor parallelism: after attention and after the feed-forward (arXiv:1909.08053, section 3)."""


def touched_share(experts: Numbers, per_token: Numbers, tokens: Numbers) -> Any:
    """Return the expected share of the experts that `tokens` tokens touch: 1 - (1 - k/E)^tokens; 1 without experts.

    Each token chooses k of E evenly and on its own.
    """
    experts = np.asarray(experts, dtype=float)
    missed = 1.0 - np.asarray(per_token) / np.maximum(experts, 1.0)
    return np.where(experts > 0, 1.0 - np.clip(missed, 0.0, 1.0) ** tokens, 1.0)


def weight_bytes_read(model: ServedModel, stack: ServingStack, tokens: Numbers) -> Any:
    """Return the bytes of weights that one step over `tokens` tokens reads, over all GPUs of a replica."""
    experts = model.expert_weights * touched_share(model.experts, model.experts_per_token, tokens)
    return (model.dense_weights + experts) * stack.weight_bytes


def all_reduce_seconds(model: ServedModel, hardware: ServingHardware, tokens: Numbers) -> Any:
    """Return the seconds of the all-reduces of one pass over `tokens` tokens; 0 on one GPU.

    A ring moves 2 (tp - 1) / tp of the payload through each link; the latency is paid per collective.
    """
    tensor = np.asarray(hardware.tensor, dtype=float)
    payload = np.asarray(tokens, dtype=float) * model.hidden * ACTIVATION_BYTES
    each = 2.0 * (1.0 - 1.0 / tensor) * payload / hardware.link_bytes_per_second + hardware.link_seconds
    return np.where(tensor > 1, ALL_REDUCES * model.layers * each, 0.0)


def decode_step_seconds(
    model: ServedModel, hardware: ServingHardware, stack: ServingStack, sequences: Numbers, context: Numbers
) -> Any:
    """Return the seconds from one token to the next of each of `sequences` sequences.

    `context` is the mean number of tokens that a layer reads per sequence (`mean_seen_tokens`).
    Under pipeline parallelism the sequences go through the stages in as many groups, so that a step of one group reads
    all weights one stage after another. Weights are read while the products compute: the two join as the root of their
    squares, which is either alone where one is much larger.
    """
    group = np.maximum(1.0, np.asarray(sequences, dtype=float) / hardware.pipeline)
    tensor = np.asarray(hardware.tensor, dtype=float)
    reading = weight_bytes_read(model, stack, group) / tensor / hardware.bandwidth
    products = 2.0 * model.met_weights * group / tensor / hardware.flops
    per_token = kv_bytes_per_token(model, stack.kv_bytes, tensor)
    cache = group * context * per_token / hardware.cache_bandwidth
    overhead = model.layers * stack.layer_seconds + stack.step_seconds + group * stack.sequence_seconds
    return np.hypot(reading, products) + cache + overhead + all_reduce_seconds(model, hardware, group)
