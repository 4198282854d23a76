"""Memory of one pass without weights and cache: the widest layer of a chunk of prompt tokens, and the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from planner.estimates.inputs import Numbers

CHUNK_TOKENS = 8192
"""Prompt tokens of one pass: vLLM's default `max_num_batched_tokens` on large GPUs (its documentation)."""
ACTIVATION_BYTES = 2.0
LOGIT_BYTES = 8.0
"""Logits are cast to 32 bit, and a sampler keeps a copy."""


def activation_bytes(
    hidden: Numbers, widest: Numbers, tokens: Numbers, vocab: Numbers, sequences: Numbers, tensor: Numbers = 1
) -> Any:
    """Return the bytes of activations on one GPU at the peak of a pass over `tokens` tokens.

    Alive are the residual, its norm and the input and output of the widest product (`widest` values per token, cut
    over `tensor` GPUs), 16 bit each; one row of logits for each sequence that samples a token.
    """
    tokens = np.asarray(tokens, dtype=float)
    layer = tokens * (4.0 * np.asarray(hidden) + np.asarray(widest, dtype=float) / tensor) * ACTIVATION_BYTES
    return layer + np.asarray(sequences, dtype=float) * vocab * LOGIT_BYTES / tensor
