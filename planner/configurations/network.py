"""The shape of an architecture card as the estimates read it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from planner.estimates.adapters import linears_of
from planner.estimates.inputs import Linear, Network
from planner.estimates.parameters import Dimensions
from planner.library.techniques import read_techniques

if TYPE_CHECKING:
    from planner.library.schema import Architecture

_SAME_NAMES = (
    *("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "gated", "rope", "parallel_residual"),
    "experts",
)
"""Fields that `Network` and an architecture card share."""


def network_of(architecture: Architecture) -> Network:
    """Return the shape of an architecture card, without its names and sources."""
    same = {name: getattr(architecture, name) for name in _SAME_NAMES}
    window, share = _window(architecture)
    return Network(
        **same,
        parameters=float(architecture.parameters),
        active_parameters=float(architecture.active_parameters),
        tied=architecture.tied_embeddings,
        experts_per_token=architecture.experts_per_token + architecture.shared_experts if architecture.experts else 0,
        sliding_window=window,
        sliding_layers=share,
        uneven_layers=architecture.linear_layers > 0,
        linears=_linears(architecture),
        frozen_parameters=float(architecture.image.frozen_parameters) if architecture.image else 0.0,
    )


def _linears(architecture: Architecture) -> tuple[Linear, ...]:
    """Return the modules that adapters can extend; none for an image network, whose shape is a stand-in."""
    if architecture.image is not None:
        return ()
    dimensions = Dimensions(**{field.name: getattr(architecture, field.name) for field in fields(Dimensions)})
    return linears_of(dimensions, read_techniques().linears.of(architecture.family))


_CHUNK_TOKENS = 64
"""Tokens that kernels of linear attention take together (flash-linear-attention's gated delta rule)."""


def _window(architecture: Architecture) -> tuple[int, float]:
    """Return a window in tokens, and the share of layers that have it, at the cost of the layer's own attention.

    A gated delta rule costs the same for every token: per head 6 d_k d_v FLOP to read, correct and write its state, and
    4 C (d_k + d_v) within a chunk of C tokens (Gated DeltaNet, arXiv:2412.06464). Softmax attention costs
    4 d FLOP per head and token attended to; the window is how many of those cost as much.
    """
    if not architecture.linear_layers:
        return architecture.sliding_window, architecture.sliding_layer_share
    key, value = architecture.linear_key_dim, architecture.linear_value_dim
    flop = architecture.linear_value_heads * (6 * key * value + 4 * _CHUNK_TOKENS * (key + value))
    window = flop / (4 * architecture.heads * architecture.head_dim)
    return max(round(window), 1), architecture.linear_layers / architecture.layers
