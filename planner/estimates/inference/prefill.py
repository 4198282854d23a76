"""Seconds of prefill: the pass over a prompt before its first token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.inference.decode import all_reduce_seconds, weight_bytes_read
from planner.estimates.inference.kv_cache import mean_seen_tokens

if TYPE_CHECKING:
    from planner.estimates.inference.inputs import ServedModel, ServingHardware, ServingStack
    from planner.estimates.inputs import Numbers


def attention_flop(model: ServedModel, tokens: Numbers, prefix: Numbers = 0.0) -> Any:
    """Return the FLOP of attention scores and their products with values, for `tokens` after a cached `prefix`.

    4 * width per pair of tokens and layer, over the causal half; sliding layers see their window.
    """
    return (
        4.0
        * model.attention_width
        * model.cache_layers
        * np.asarray(tokens, dtype=float)
        * mean_seen_tokens(model, prefix, tokens)
    )


def prompt_seconds(model: ServedModel, hardware: ServingHardware, tokens: Numbers, prefix: Numbers = 0.0) -> Any:
    """Return the seconds of arithmetic and exchange that a prompt adds to steps which read the weights in any case.

    `prefix` tokens are in the cache already and are only attended to.
    """
    gpus = np.asarray(hardware.tensor, dtype=float)
    products = 2.0 * model.met_weights * np.asarray(tokens, dtype=float) / (gpus * hardware.flops)
    attention = attention_flop(model, tokens, prefix) / (gpus * hardware.attention_flops)
    latency = np.where(gpus > 1, 2.0 * model.layers * hardware.link_seconds, 0.0)
    exchange = all_reduce_seconds(model, hardware, tokens) - latency  # the step's own exchange pays the latency
    return products + attention + exchange


def prefill_seconds(
    model: ServedModel, hardware: ServingHardware, stack: ServingStack, tokens: Numbers, prefix: Numbers = 0.0
) -> Any:
    """Return the seconds from taking in one prompt alone to its first token."""
    reading = weight_bytes_read(model, stack, tokens) / np.asarray(hardware.tensor, dtype=float) / hardware.bandwidth
    latency = np.where(np.greater(hardware.tensor, 1), 2.0 * model.layers * hardware.link_seconds, 0.0)
    overhead = model.layers * stack.layer_seconds + stack.step_seconds + stack.sequence_seconds + latency
    return (
        np.hypot(reading, prompt_seconds(model, hardware, tokens, prefix))
        + overhead
        + stack.request_seconds
        + stack.arrival_seconds
    )
