"""Hazards of recorded up-times and outages by their age, for one zone or with a factor for each of a group.

The hazard is constant within a band of ages. Its maximum-likelihood value is the number of runs that ended in the band
over the hours that runs spent in it; a run whose end was not observed adds hours and no end (piecewise exponential
survival with right censoring, as in Friedman 1982).
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.market.states import Ages
from planner.spot.market.zones import ZoneGroup

if TYPE_CHECKING:
    from collections.abc import Sequence


MIN_ENDS = 5
"""Observed ends that a band needs for a rate of its own."""
MAX_BANDS = 4
MAX_BAND_EDGES = 16
"""Ages that are tried as the edge between two bands."""
MIN_STEPS_PER_BAND = 4
"""Steps of a trace that a band spans at least: the age at which a run ends is known to one step only."""
PRIOR_ENDS = 0.5
"""Replaces zero ends, so that a band without an observed end does not last for ever (Jeffreys' prior)."""


def fit_ages(hours: Floats, censored: Flags, most_bands: int = MAX_BANDS, step_hours: float = 0.0) -> Ages:
    """Fit bands of ages and their rates by maximum likelihood; arrays of shape (runs,), `hours` of each run.

    A censored run lasted at least as long. One band below `2 * MIN_ENDS` ends, else two (young and old); further ones,
    up to `most_bands`, only where the Bayesian information criterion justifies their edges and rates.
    Edges lie between observed lengths, with at least `MIN_ENDS` ends in every band, which is several times as wide as
    `step_hours`, the step of the trace. ValueError without any hours.
    """
    lengths, ended = np.asarray(hours, dtype=float), ~np.asarray(censored, dtype=bool)
    if not lengths.sum() > 0:
        raise ValueError("no observed hours to fit")
    ends = int(ended.sum())
    edges = _candidate_edges(lengths[ended])
    least_hours = MIN_STEPS_PER_BAND * step_hours
    edges = edges[edges >= least_hours]
    # Ends by each edge, and hours spent up to it: the figures of a band are differences of these.
    limits = np.concatenate(([0.0], edges, [math.inf]))
    ended_by = (lengths[ended, None] <= limits).sum(axis=0)
    spent_by = np.minimum(lengths[:, None], limits).sum(axis=0)
    best, best_gain = np.array([0, limits.size - 1]), -math.inf
    for bands in range(2, most_bands + 1):
        inner = [
            borders
            for borders in combinations(range(1, limits.size - 1), bands - 1)
            if (np.diff(limits[list(borders)]) >= least_hours).all()
        ]
        found = _maximise_likelihood(inner, ended_by, spent_by)
        if found is None:
            break
        chosen, gain = found
        if bands > 2 and gain - best_gain <= math.log(ends):  # another band costs an edge and a rate
            break
        best, best_gain = chosen, gain
    rates = np.maximum(np.diff(ended_by[best]), PRIOR_ENDS) / np.diff(spent_by[best])
    return Ages(tuple(limits[best[:-1]].tolist()), tuple(rates.tolist()))


def shrink_old(ages: Ages, hours: Floats, censored: Flags, towards: Ages) -> Ages:
    """Return bands whose rates beyond the first are drawn towards others, which count as `MIN_ENDS` ends in each.

    Few durations reach an old band, and its rate decides what a run expects of an outage that has lasted. Per band
    (ends + w) / (hours + w / other rate), the mean of a Gamma posterior; 2 ends in 40 h and 0.4 an hour elsewhere:
    (2 + 5) / (40 + 12.5) = 0.133 instead of 0.05.
    """
    ended, spent = (count_end.sum(axis=0) for count_end in count_ends(ages, hours, censored))
    begins = np.array(towards.begins)
    other = np.array(towards.rates)[np.searchsorted(begins, np.array(ages.begins), side="right") - 1]
    shrunk = (ended + MIN_ENDS) / (spent + MIN_ENDS / other)
    return Ages(ages.begins, (ages.rates[0], *shrunk[1:].tolist()))


def count_ends(ages: Ages, hours: Floats, censored: Flags) -> tuple[Floats, Floats]:
    """Return per run and band 1 where the run ended in it, and the hours spent in it; shapes (runs, bands)."""
    begins = np.array(ages.begins)
    ends = np.append(begins[1:], math.inf)
    lengths = np.asarray(hours, dtype=float)[:, None]
    ended = (lengths > begins) & (lengths <= ends) & ~np.asarray(censored, dtype=bool)[:, None]
    return ended.astype(float), np.clip(lengths - begins, 0.0, ends - begins)


def log_likelihood(ages: Ages, hours: Floats, censored: Flags) -> float:
    """Return the log likelihood of runs in nats: sum over bands of ends * ln(rate) - rate * hours."""
    ended, spent = (count_end.sum(axis=0) for count_end in count_ends(ages, hours, censored))
    rates = np.array(ages.rates)
    return float((ended * np.log(rates) - rates * spent).sum())


def _maximise_likelihood(
    inner: Sequence[tuple[int, ...]], ended_by: Integers, spent_by: Floats
) -> tuple[Integers, float] | None:
    """Return limits of the likeliest bands and their log likelihood (up to a constant); None for too few ends.

    `inner`: the limits between bands, as places in `ended_by` and `spent_by`.
    """
    if not inner:
        return None
    limits = np.array([(0, *borders, ended_by.size - 1) for borders in inner])
    ended, spent = np.diff(ended_by[limits]), np.diff(spent_by[limits])
    limits, ended, spent = (column[ended.min(axis=1) >= MIN_ENDS] for column in (limits, ended, spent))
    if not limits.size:
        return None
    gains = (ended * np.log(ended / spent)).sum(axis=1)
    return limits[gains.argmax()], float(gains.max())


def _candidate_edges(ended: Floats) -> Floats:
    """Return ages between two observed lengths, evenly over the ends, rounded to three digits where possible."""
    lengths = np.unique(ended)
    if lengths.size < 2:
        return np.zeros(0)
    wanted = np.quantile(ended, np.arange(1, MAX_BAND_EDGES + 1) / (MAX_BAND_EDGES + 1), method="lower")
    below = np.unique(np.searchsorted(lengths, wanted))
    below = below[below < lengths.size - 1]
    edges = []
    for low, high in zip(lengths[below], lengths[below + 1], strict=True):
        middle = (low + high) / 2
        short = float(f"{middle:.3g}")
        edges.append(short if low <= short < high else middle)
    return np.array(edges)


# How long machines stay in each zone of a group: one shape for all zones, and a factor for each.
#
# What has lasted will last, at every age that was ever observed: the rate at which an up-time ends falls as
#
#     k / (b + age),  # noqa: ERA001
#
# so that it outlives t hours with chance (b / (b + t)) ^ k (Lomax 1954). The scale b and the mean k are those of the
# up-times of all zones; the factor of a zone is the mean of a Gamma posterior around k. With few bands of ages per
# zone, as a single market has them, all zones that are older than the last band look alike, and few ends decide between
# them.


ZONE_WEIGHT = MIN_ENDS
"""Ends that all zones together count as in the factor of one."""
SCALES = 40
"""Scales that are tried, evenly in their logarithm."""
MAX_SCALE_HOURS = 24.0


class UpTimes(NamedTuple):
    """Up-times of one zone; shapes (runs,)."""

    hours: Floats
    censored: Flags


class FallingRate(NamedTuple):
    """The rate `factor` / (`scale_hours` + age) per hour."""

    scale_hours: float
    factor: float


def fit_stays(group: ZoneGroup) -> tuple[Ages, ...]:
    """Return how long each zone stays up, in bands in which the age plus the scale doubles."""
    runs = [_up_times(group, zone) for zone in range(len(group.names))]
    shape = fit_falling_rate(runs, group.gap_hours)
    longest = max(float(run.hours.max(initial=0.0)) for run in runs)
    return tuple(doubling_bands(FallingRate(shape.scale_hours, zone_factor(run, shape)), longest) for run in runs)


def fit_falling_rate(runs: Sequence[UpTimes], gap_hours: float) -> FallingRate:
    """Return the rate of maximum likelihood for the up-times of all zones; without any, one of few losses.

    For a scale b the factor is ends / sum(ln(1 + hours / b)), and the log likelihood up to a constant
    ends ln(factor) - sum over ends of ln(b + hours).
    """
    hours = np.concatenate([run.hours for run in runs])
    ended = ~np.concatenate([run.censored for run in runs])
    if not hours.sum() > 0:
        return FallingRate(MAX_SCALE_HOURS, PRIOR_ENDS)
    scales = np.geomspace(gap_hours, max(MAX_SCALE_HOURS, gap_hours), SCALES)
    exposed = np.array([np.log1p(hours / scale).sum() for scale in scales])
    ends = max(float(ended.sum()), PRIOR_ENDS)
    factors = ends / exposed
    likelihood = ends * np.log(factors) - np.array([np.log(hours[ended] + scale).sum() for scale in scales])
    best = int(likelihood.argmax())
    return FallingRate(float(scales[best]), float(factors[best]))


def zone_factor(one: UpTimes, shape: FallingRate) -> float:
    """Return the factor of one zone, drawn towards that of all with the weight of `ZONE_WEIGHT` ends.

    10 ends where 20 were expected by a factor of 1: (10 + 5) / (20 + 5) = 0.6.
    """
    exposed = float(np.log1p(one.hours / shape.scale_hours).sum())
    ends = float((~one.censored).sum())
    return (ends + ZONE_WEIGHT) / (exposed + ZONE_WEIGHT / shape.factor)


def doubling_bands(rate: FallingRate, longest_hours: float) -> Ages:
    """Return a falling rate as bands up to an age that nothing outlived: the mean of each, k ln 2 / (b 2^i).

    The bands begin at b (2^i - 1).
    """
    doublings = max(1, math.ceil(math.log2(longest_hours / rate.scale_hours + 1)))
    powers = 2.0 ** np.arange(doublings + 1)
    begins, rates = rate.scale_hours * (powers - 1), rate.factor * math.log(2) / (rate.scale_hours * powers)
    return Ages(tuple(begins.tolist()), tuple(rates.tolist()))


def _up_times(group: ZoneGroup, zone: int) -> UpTimes:
    """Return the up-times whose beginning was observed; where there are none, what was seen of the first one."""
    trace = group.trace(zone)
    runs = trace.runs(1, with_first=False)
    if not runs.up_hours.sum() > 0:
        runs = trace.runs(1)
    return UpTimes(runs.up_hours, runs.up_censored)
