"""States of a market from its mean up-time and mean outage: durations in the shape that recorded markets have."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from planner.records import record
from planner.spot.market.states import Ages, SpotStates

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_OUTAGE_HOURS = 1 / 60
"""Shortest mean outage: a run that waits for machines does not ask more often."""


@record(frozen=True)
class DurationShape:
    """How durations spread around their mean; values: models/calibration/spot.yaml.

    `young_share` of them end before the age `young_hours` x mean ^ `young_exponent` (in hours).
    """

    young_hours: float
    young_exponent: float
    young_share: float

    def __post_init__(self) -> None:
        if not (self.young_hours > 0 and 0 <= self.young_share < 1):
            raise ValueError(f"unknown shape of durations: {self}")

    @classmethod
    def of(cls, values: Mapping[str, float]) -> DurationShape:
        """Return the shape from the values of `models/calibration/spot.yaml` by key."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def ages_from_mean(mean_hours: float, shape: DurationShape) -> Ages:
    """Return durations of this mean in two age bands, young and old; ValueError unless the mean is positive.

    A young duration ends at rate x / t with x = -ln(1 - young share) and t the age at which the old band begins. It
    grows old with chance exp(-x), and then ends at the rate that gives the mean. The tail is never lighter than the
    exponential: t is at most x mean, where both rates are equal, as for means of minutes. An infinite mean never ends.
    """
    if not mean_hours > 0:
        raise ValueError(f"a mean duration must be positive, not {mean_hours:g} h")
    if math.isinf(mean_hours):
        return Ages((0.0,), (0.0,))
    hazard = -math.log1p(-shape.young_share)
    if hazard < 1e-12:
        return Ages((0.0,), (1 / mean_hours,))
    age = min(shape.young_hours * mean_hours**shape.young_exponent, hazard * mean_hours)
    young = hazard / age
    old = (1 - shape.young_share) / (mean_hours - shape.young_share / young)
    return Ages((0.0, age), (young, old))


def states_from_means(mean_up_hours: float, mean_outage_hours: float, shape: DurationShape) -> SpotStates:
    """Return the market with these means, up-times and outages in the same shape.

    `mean_up_hours` may be infinite: machines are never taken. An outage below a minute counts as one minute.
    """
    return SpotStates(
        ages_from_mean(mean_up_hours, shape), ages_from_mean(max(mean_outage_hours, MIN_OUTAGE_HOURS), shape)
    )
