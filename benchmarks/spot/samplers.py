"""Samplers of durations and of node groups that only the benchmark of spot policies draws from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.random import Generator

from planner.arrays import Floats
from planner.spot.states import Draw, Paths, round_to_ticks

QUANTILES: Final = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)
"""Ranks of the quantiles in tables of durations, between which `quantile_draw` interpolates."""

BATCH_EXPONENT: Final = 0.8
"""A group of k instances is interrupted k ** 0.8 times as often as one: 0.60 to 1.0 for 4, 8 and 16 instances in eight
fleets (our statistics of the traces of uclasystem/bamboo, MIT licence)."""

MIN_BATCH_SHARE: Final = 0.003
"""Least share of all instances that one shortage takes; with it the chances of a hit grow as k ** 0.8 up to 8."""


def quantile_draw(mean: float, quantiles: Sequence[float], longest: float) -> Draw:
    """Return a sampler of durations with these quantiles (of `QUANTILES`), longest and mean, in one unit of time.

    Between two quantiles a duration rises as a power of its rank, the same power everywhere, chosen to give the stated
    mean. A mean that the quantiles contradict is approached as closely as they allow. Nothing is
    shorter than the lowest quantile or longer than the longest.
    """
    ranks = np.array([0.0, *QUANTILES, 1.0])
    values = np.array([quantiles[0], *quantiles, longest], float)
    if len(quantiles) != len(QUANTILES) or (np.diff(values) < 0).any() or values[0] <= 0:
        raise ValueError("quantiles must be positive and rise, one for each of QUANTILES, up to the longest")
    weights, rises = np.diff(ranks), np.diff(values)
    least, spread = float(weights @ values[:-1]), float(weights @ rises)
    share = min(max((mean - least) / spread if spread else 1.0, 1e-3), 1.0)
    power = 1 / share - 1

    def draw(rng: Generator, n: int) -> Floats:
        rank = rng.random(n)
        band = np.searchsorted(ranks, rank, side="right") - 1
        return np.asarray(values[band] + rises[band] * ((rank - ranks[band]) / weights[band]) ** power)

    return draw


def lognormal_draw(mean: float, variation: float) -> Draw:
    """Return a sampler of log-normal durations with a mean (hours) and a coefficient of variation."""
    spread = math.log1p(variation**2)

    def draw(rng: Generator, n: int) -> Floats:
        return rng.lognormal(math.log(mean) - spread / 2, math.sqrt(spread), n)

    return draw


def weibull_draw(mean: float, variation: float) -> Draw:
    """Return a sampler of Weibull durations with a mean (hours) and a coefficient of variation (0.3 to 10)."""
    low, high = 0.2, 4.0  # shapes; their coefficients of variation are 15.8 and 0.28
    for _ in range(60):
        shape = (low + high) / 2
        ratio = math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1
        low, high = (shape, high) if ratio > variation**2 else (low, shape)
    scale = mean / math.gamma(1 + 1 / shape)

    def draw(rng: Generator, n: int) -> Floats:
        return np.asarray(scale * rng.weibull(shape, n))

    return draw


def sample_node_group(
    size: int, gap: Draw, outage: Draw, runs: int, ticks: int, tick_hours: float, rng: Generator
) -> Paths:
    """Draw paths of a node group of `size` instances that loses machines in batches: up while all of them are.

    A zone is short of machines at times `gap` apart; each time a share of all instances is lost, drawn so that a group
    is hit about size ** BATCH_EXPONENT times as often as one instance. Those lost at once come back at once, after an
    `outage`. Zones begin all up, long enough before the paths that the beginning has no effect.
    """
    lead = round(ticks / 2)
    short = np.zeros((runs, lead + ticks + 1), np.int32)
    back = np.zeros((runs, size))  # when each instance is there again, in ticks
    at = np.zeros(runs)
    while (inside := at < lead + ticks).any():
        at = at + round_to_ticks(gap(rng, runs), tick_hours, rng)
        ends = at + round_to_ticks(outage(rng, runs), tick_hours, rng)
        hit = (rng.random((runs, size)) < _batch_shares(runs, rng)[:, None]) & (back <= at[:, None])
        back = np.where(hit, ends[:, None], back)
        rows = np.flatnonzero(hit.any(axis=1) & inside & (at < lead + ticks))
        first, last = at[rows].astype(int), np.minimum(ends[rows], lead + ticks).astype(int)
        short[rows, first] += 1
        short[rows, last] -= 1
    is_up = np.cumsum(short[:, :-1], axis=1) == 0
    changes = is_up[:, 1:] != is_up[:, :-1]
    since = np.argmax(changes[:, :lead][:, ::-1], axis=1)  # ticks back from the start of the path to the last change
    age = np.where(changes[:, :lead].any(axis=1), since, lead)
    return Paths(is_up[:, lead:], age * tick_hours)


def batch_hit_probability(size: int) -> float:
    """Return the chance that a shortage hits at least one of `size` instances, as in `sample_node_group`."""
    shares = _shares_at((np.arange(20_000) + 0.5) / 20_000)
    return float(np.mean(1 - (1 - shares) ** size))


def _batch_shares(n: int, rng: Generator) -> Floats:
    """Draw the shares of instances that are lost at once."""
    return _shares_at(rng.random(n))


def _shares_at(ranks: Floats) -> Floats:
    """Return the quantiles of a density share ** -(1 + exponent) between `MIN_BATCH_SHARE` and 1.

    Without the lower limit, chances that at least one of k is hit would grow as k ** exponent for large k.
    """
    most = MIN_BATCH_SHARE**-BATCH_EXPONENT
    return np.asarray((most + ranks * (1 - most)) ** (-1 / BATCH_EXPONENT))
