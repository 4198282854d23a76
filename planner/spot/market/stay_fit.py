"""How long machines stay in each zone of a group: one shape for all zones, and a factor for each.

What has lasted will last, at every age that was ever observed: the rate at which an up-time ends falls as

    k / (b + age),

so that it outlives t hours with chance (b / (b + t)) ^ k (Lomax 1954). The scale b and the mean k are those of the
up-times of all zones; the factor of a zone is the mean of a Gamma posterior around k. With few bands of ages per zone,
as a single market has them, all zones that are older than the last band look alike, and few ends decide between them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.spot.market.hazard_fit import MIN_ENDS, PRIOR_ENDS
from planner.spot.market.states import Ages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats
    from planner.spot.market.zones import ZoneGroup

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
    longest = max(float(one.hours.max(initial=0.0)) for one in runs)
    return tuple(doubling_bands(FallingRate(shape.scale_hours, zone_factor(one, shape)), longest) for one in runs)


def fit_falling_rate(runs: Sequence[UpTimes], gap_hours: float) -> FallingRate:
    """Return the rate of maximum likelihood for the up-times of all zones; without any, one of few losses.

    For a scale b the factor is ends / sum(ln(1 + hours / b)), and the log likelihood up to a constant
    ends ln(factor) - sum over ends of ln(b + hours).
    """
    hours = np.concatenate([one.hours for one in runs])
    ended = ~np.concatenate([one.censored for one in runs])
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
