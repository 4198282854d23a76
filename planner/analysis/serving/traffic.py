"""Requests that come to one replica: when they arrive, and how long their prompts and answers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.estimates.inference.bulk import Lengths

STREAMS: dict[Literal["Poisson", "bursts"], float] = {"Poisson": 1.0, "bursts": 0.25}
"""Shape of the gaps between the requests of a service, as load generators count burstiness (vLLM's benchmark: gamma
gaps of shape 1 are a Poisson stream, of less come in bursts): at a quarter their standard deviation is twice their
mean."""


def gaps(rate: Floats, routed: Floats, shape: float, count: int, random: np.random.Generator) -> Floats:
    """Return the seconds (lanes, count) between the requests that reach one replica.

    The requests of the whole service have gamma gaps of a `shape`, and each goes to the replica with probability
    `routed` (lanes,): what reaches it is every K-th, K geometric, and the sum of K gamma gaps is one of shape K times
    theirs. Their mean is 1 / `rate` (lanes,). Poisson streams stay Poisson; bursts of many replicas thin out.
    """
    share = np.clip(routed, 1e-9, 1.0)[:, None]
    steps = random.geometric(np.broadcast_to(share, (len(rate), count)))
    return np.asarray(random.standard_gamma(shape * steps) / shape * share / rate[:, None])


def drawn_lengths(lengths: Lengths, lanes: int, count: int, random: np.random.Generator) -> Integers:
    """Return which of the lengths (lanes, count) each request has."""
    weights = np.cumsum(np.asarray(lengths.count, dtype=float))
    return np.searchsorted(weights / weights[-1], random.random((lanes, count)), side="right").clip(0, len(weights) - 1)
