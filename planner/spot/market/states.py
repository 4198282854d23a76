"""The states of a spot market, whose chance to end depends on their age, also from mean durations alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats
from planner.hazards import mean_hours
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


@dataclass(frozen=True)  # a key that is looked up thousands of times
class Ages:
    """A duration that ends with `rates[i]` per hour once it is `begins[i]` hours old (first 0, rising).

    Falling rates give a heavy tail: what has lasted will last. With a last rate of 0 what reaches it never ends.
    ValueError where the bands do not begin at 0 and rise, or a rate is negative or not finite.
    """

    begins: tuple[float, ...]  # hours
    rates: tuple[float, ...]  # per hour

    def __post_init__(self) -> None:
        if not self.begins or len(self.begins) != len(self.rates):
            raise ValueError(f"each age band has one rate: {len(self.begins)} bands, {len(self.rates)} rates")
        if self.begins[0] != 0 or any(b <= a for a, b in zip(self.begins, self.begins[1:], strict=False)):
            raise ValueError(f"age bands begin at 0 and rise, not {self.begins}")
        if not all(math.isfinite(value) and value >= 0 for value in (*self.begins, *self.rates)):
            raise ValueError(f"ages and rates are finite and not negative, not {self.begins} and {self.rates}")

    def mean(self) -> float:
        """Return the mean duration in hours; inf where some never end."""
        return mean_hours(self.begins, self.rates)

    def survival(self, hours: ArrayLike) -> Floats:
        """Return the chance to last longer than `hours`; the shape of `hours`."""
        asked = np.asarray(hours, float)
        hazard = np.zeros(asked.shape)
        ends = (*self.begins[1:], math.inf)
        for begin, end, rate in zip(self.begins, ends, self.rates, strict=True):
            hazard = hazard + rate * (np.clip(asked, begin, end) - begin)
        return np.asarray(np.exp(-hazard))

    def mean_up_to(self, hours: float) -> float:
        """Return the mean of min(duration, `hours`)."""
        if hours <= 0:
            return 0.0
        begins = tuple(begin for begin in self.begins if begin < hours)
        total, alive = 0.0, 1.0
        for begin, end, rate in zip(begins, (*begins[1:], hours), self.rates, strict=False):
            width = end - begin
            total += alive * (width if rate == 0 else -math.expm1(-rate * width) / rate)
            alive *= math.exp(-rate * width)
        return total


@dataclass(frozen=True)  # a key that is looked up thousands of times
class SpotStates:
    """An alternating market: up-times and outages of the machines that one run needs, all of them together.

    In a group of zones an up-time is a stay in one zone. With chance `instant` another zone is up when it ends: the
    next up-time begins at once, and machines that ran are lost all the same.
    ValueError where an outage can last for ever.
    """

    up: Ages
    down: Ages
    instant: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.instant < 1:
            raise ValueError(f"the chance of another zone is at least 0 and below 1, not {self.instant:g}")
        if not math.isfinite(self.down.mean()):
            raise ValueError("an outage must end: the last rate of `down` must be positive")

    def availability(self) -> float:
        """Return the share of time that the market is up, 0 to 1."""
        up = self.up.mean()
        return 1.0 if math.isinf(up) else up / (up + self.outage_hours_per_loss())

    def outage_hours_per_loss(self) -> float:
        """Return the mean hours from the end of an up-time to the next one, where another zone may be up at once."""
        return (1 - self.instant) * self.down.mean()

    def shares(self) -> tuple[Floats, Floats]:
        """Return the share of time in each band of `up` and of `down`, shapes (bands,); all sum to 1."""
        if math.isinf(self.up.mean()):
            forever = np.zeros(len(self.up.rates))
            forever[-1] = 1.0
            return forever, np.zeros(len(self.down.rates))
        cycle = self.up.mean() + self.outage_hours_per_loss()
        down = (1 - self.instant) * _band_hours(self.down)
        return np.asarray(_band_hours(self.up) / cycle), np.asarray(down / cycle)


def _band_hours(ages: Ages) -> Floats:
    """Return the mean hours that a duration spends in each band; shape (bands,)."""
    ends = (*ages.begins[1:], math.inf)
    passed = [0.0 if begin == 0 else ages.mean_up_to(begin) for begin in ages.begins]
    until = [ages.mean() if math.isinf(end) else ages.mean_up_to(end) for end in ends]
    return np.array([end - begin for begin, end in zip(passed, until, strict=True)])


# States of a market from its mean up-time and mean outage: durations in the shape that recorded markets have.


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
