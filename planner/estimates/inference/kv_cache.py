"""Memory of the KV cache: bytes per token, tokens that fit, requests that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from planner.estimates.inference.inputs import ServedModel
    from planner.estimates.inputs import Numbers

BLOCK_TOKENS = 16
"""Tokens of one block of a paged cache: vLLM's default `block_size` (its documentation of engine arguments)."""


def kv_bytes_per_token(model: ServedModel, kv_bytes: Numbers, tensor: Numbers = 1, pipeline: Numbers = 1) -> Any:
    """Return the bytes of one token's keys and values on one GPU, without sliding windows.

    2 * (layers / pp) * ceil(kv_heads / tp) * head_dim * bytes; heads that are fewer than the GPUs are copied.
    The latent of multi-head latent attention lies whole on each GPU (arXiv:2405.04434, section 2.1).
    """
    layers = np.asarray(model.cache_layers) / np.asarray(pipeline)
    heads = 2.0 * np.ceil(np.asarray(model.kv_heads) / np.asarray(tensor)) * model.head_dim
    return layers * np.where(np.greater(model.latent, 0), model.latent, heads) * kv_bytes


def seen_tokens(model: ServedModel, context: Numbers) -> Any:
    """Return the tokens of a context that an average layer keeps and reads: sliding layers keep a window."""
    context = np.asarray(context, dtype=float)
    slid = np.where(np.greater(model.window, 0), np.minimum(context, model.window), context)
    return context + model.window_share * (slid - context)


def mean_seen_tokens(model: ServedModel, start: Numbers, output: Numbers) -> Any:
    """Return the mean of `seen_tokens` over a request whose context grows from `start` by `output` tokens.

    Simpson's rule: exact without a window, and where the whole request lies on one side of it.
    """
    middle = np.asarray(start) + np.asarray(output) / 2.0
    ends = seen_tokens(model, start) + seen_tokens(model, np.asarray(start) + np.asarray(output))
    return (ends + 4.0 * seen_tokens(model, middle)) / 6.0


def blocks_of(tokens: Numbers) -> Any:
    """Return the tokens of whole blocks that hold `tokens`."""
    return np.ceil(np.asarray(tokens, dtype=float) / BLOCK_TOKENS) * BLOCK_TOKENS


def cache_bytes(usable: Numbers, weights: Numbers, activations: Numbers, overhead: Numbers) -> Any:
    """Return the bytes that one GPU has left for the cache; 0 where the rest does not fit.

    `usable` is what the engine may take (its share of the GPU's memory), all in bytes.
    """
    return np.maximum(0.0, np.asarray(usable, dtype=float) - weights - activations - overhead)


def requests_that_fit(cache: Numbers, per_token: Numbers, model: ServedModel, tokens: Numbers) -> Any:
    """Return the whole requests of so many tokens each whose cache of whole blocks fits in `cache` bytes."""
    return np.floor(cache / (blocks_of(seen_tokens(model, tokens)) * per_token))
