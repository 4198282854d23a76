"""From mean up-time and mean outage to the states of a market: durations in the shape that recorded markets have."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from planner.spot.market.states import Ages, SpotStates

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST_HOURS = 1 / 60
"""A mean outage below this is taken as this: whoever waits for machines does not look more often."""


@dataclass(frozen=True)
class DurationShape:
    """How durations spread around their mean; values: models/calibration/spot.yaml.

    `young_share` of them end before the age `young_hours` x mean ^ `young_exponent` (in hours).
    """

    young_hours: float
    young_exponent: float
    young_share: float

    def __post_init__(self) -> None:
        if not (self.young_hours > 0 and 0 <= self.young_share < 1):
            raise ValueError(f"no shape of durations: {self}")

    @classmethod
    def of(cls, values: Mapping[str, float]) -> DurationShape:
        """From the values of `models/calibration/spot.yaml` by key."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


EXPONENTIAL = DurationShape(young_hours=1.0, young_exponent=1.0, young_share=0.0)
"""Durations without memory."""


def ages_from_mean(mean_hours: float, shape: DurationShape) -> Ages:
    """A duration of this mean: two age bands, young and old.

    Ends young at rate x / t with x = -ln(1 - young share) and t the age at which youth is over; grows old with chance
    exp(-x), and then ends at the rate that makes the mean. Never with a lighter tail than the exponential: t is at
    most x mean, where both rates are the same, as for means of minutes. An infinite mean never ends.
    ValueError unless the mean is positive.
    """
    if not mean_hours > 0:
        raise ValueError(f"a mean duration must be positive, not {mean_hours:g} h")
    if math.isinf(mean_hours):
        return Ages((0.0,), (0.0,))
    gathered = -math.log1p(-shape.young_share)
    if gathered == 0:
        return Ages((0.0,), (1 / mean_hours,))
    age = min(shape.young_hours * mean_hours**shape.young_exponent, gathered * mean_hours)
    young = gathered / age
    old = (1 - shape.young_share) / (mean_hours - shape.young_share / young)
    return Ages((0.0, age), (young, old))


def states_from_means(mean_up_hours: float, mean_outage_hours: float, shape: DurationShape) -> SpotStates:
    """The market with these means, up-times and outages in the same shape.

    `mean_up_hours` may be infinite: machines are never taken. An outage of 0 h is taken as one of a minute.
    """
    return SpotStates(
        ages_from_mean(mean_up_hours, shape), ages_from_mean(max(mean_outage_hours, SHORTEST_HOURS), shape)
    )
