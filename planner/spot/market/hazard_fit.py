"""States of a spot market from its recorded runs: how the chance to end depends on the age of an up-time or outage.

The chance to end is constant within a band of ages.
Its likeliest value is the runs that ended in the band over the hours that runs spent in it; a run whose end was not
seen adds hours and no end (piecewise exponential survival with right censoring, as in Friedman 1982).
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.market.states import Ages, SpotStates

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

MIN_ENDS = 5
"""Ends that a band must have seen before it gets a rate of its own."""
MAX_BANDS = 4
MAX_BAND_EDGES = 16
"""Ages that are tried as border between two bands."""
PRIOR_ENDS = 0.5
"""Stands for no end at all, so that what was not seen to end yet is not held to last for ever (Jeffreys' prior)."""


def fit_states(up_hours: Floats, up_censored: Flags, down_hours: Floats, down_censored: Flags) -> SpotStates:
    """The market that runs of these lengths (hours) come from; a censored one lasted at least as long.

    ValueError where one of the two kinds has no hour at all: nothing is known of it then.
    """
    return SpotStates(fit_ages(up_hours, up_censored), fit_ages(down_hours, down_censored))


def fit_ages(hours: Floats, censored: Flags, most_bands: int = MAX_BANDS) -> Ages:
    """Bands of ages and their rates by maximum likelihood; arrays of shape (runs,).

    One band below `2 * LEAST_ENDS` ends, else two (young and old); further ones, up to `most_bands`, only where the
    Bayesian information criterion says that they are worth their borders and rates.
    Borders lie between lengths that were seen, with `LEAST_ENDS` ends at least in every band.
    """
    lengths, ended = np.asarray(hours, dtype=float), ~np.asarray(censored, dtype=bool)
    if not lengths.sum() > 0:
        raise ValueError("no hour to learn from")
    ends = int(ended.sum())
    borders = _candidate_edges(lengths[ended])
    # What had ended by each border, and the hours spent until there: bands are differences of these.
    limits = np.concatenate(([0.0], borders, [math.inf]))
    ended_by = (lengths[ended, None] <= limits).sum(axis=0)
    spent_by = np.minimum(lengths[:, None], limits).sum(axis=0)
    best, best_gain = np.array([0, limits.size - 1]), -math.inf
    for bands in range(2, most_bands + 1):
        found = _maximise_likelihood(bands, ended_by, spent_by)
        if found is None:
            break
        chosen, gain = found
        if bands > 2 and gain - best_gain <= math.log(ends):  # a band more costs a border and a rate
            break
        best, best_gain = chosen, gain
    rates = np.maximum(np.diff(ended_by[best]), PRIOR_ENDS) / np.diff(spent_by[best])
    return Ages(tuple(limits[best[:-1]].tolist()), tuple(rates.tolist()))


def count_ends(ages: Ages, hours: Floats, censored: Flags) -> tuple[Floats, Floats]:
    """Per run and band: 1 where the run ended in it, and the hours spent in it; both of shape (runs, bands)."""
    begins = np.array(ages.begins)
    ends = np.append(begins[1:], math.inf)
    lengths = np.asarray(hours, dtype=float)[:, None]
    ended = (lengths > begins) & (lengths <= ends) & ~np.asarray(censored, dtype=bool)[:, None]
    return ended.astype(float), np.clip(lengths - begins, 0.0, ends - begins)


def log_likelihood(ages: Ages, hours: Floats, censored: Flags) -> float:
    """Of the runs under these rates, in nats: sum over bands of ends * ln(rate) - rate * hours."""
    ended, spent = (one.sum(axis=0) for one in count_ends(ages, hours, censored))
    rates = np.array(ages.rates)
    return float((ended * np.log(rates) - rates * spent).sum())


def _maximise_likelihood(bands: int, ended_by: Integers, spent_by: Floats) -> tuple[Integers, float] | None:
    """Limits of the likeliest bands and their log likelihood (but for a constant); None where ends are too few."""
    last = ended_by.size - 1
    inner = list(combinations(range(1, last), bands - 1))
    if not inner:
        return None
    limits = np.array([(0, *one, last) for one in inner])
    ended, spent = np.diff(ended_by[limits]), np.diff(spent_by[limits])
    limits, ended, spent = (one[ended.min(axis=1) >= MIN_ENDS] for one in (limits, ended, spent))
    if not limits.size:
        return None
    gains = (ended * np.log(ended / spent)).sum(axis=1)
    return limits[gains.argmax()], float(gains.max())


def _candidate_edges(ended: Floats) -> Floats:
    """Ages between two lengths that were seen, spread evenly over the ends; three digits where those do."""
    seen = np.unique(ended)
    if seen.size < 2:
        return np.zeros(0)
    wanted = np.quantile(ended, np.arange(1, MAX_BAND_EDGES + 1) / (MAX_BAND_EDGES + 1), method="lower")
    below = np.unique(np.searchsorted(seen, wanted))
    below = below[below < seen.size - 1]
    borders = []
    for low, high in zip(seen[below], seen[below + 1], strict=True):
        middle = (low + high) / 2
        short = float(f"{middle:.3g}")
        borders.append(short if low <= short < high else middle)
    return np.array(borders)
