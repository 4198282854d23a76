"""What an offer says of its spot market: how long machines stay and are gone, and prices by zone."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from planner.documents.quantities import (
    NotNegative,
    Positive,
    PositiveInteger,
    Price,
    Rows,
    StrictModel,
    Text,
    validation_error,
)
from planner.hazards import mean_hours

# What an offer says of its spot market: how long machines stay, and how long there are none.


AGREEMENT = 0.01
"""How far, as a share, spot statistics may contradict each other."""

_MEANS = ("availability", "mean_up_hours", "mean_outage_hours")
_ENOUGH = [[_MEANS[0], _MEANS[1]], [_MEANS[0], _MEANS[2]], [_MEANS[1], _MEANS[2]], ["up", "outage"]]


MOST_AGES = 60
"""Bands of ages: a policy has a state for each, and its passes grow with their square."""


class EndsByAge(StrictModel):
    """Durations that end `ends_per_hour[i]` times an hour once they are `ages_hours[i]` old, until the next age."""

    ages_hours: Annotated[Rows[NotNegative], Field(min_length=1, max_length=MOST_AGES)]
    """Ages in hours, the first of them 0."""
    ends_per_hour: Annotated[Rows[Positive], Field(min_length=1, max_length=MOST_AGES)]
    """From each age on so many end per hour."""

    @model_validator(mode="after")
    def _bands(self) -> Self:
        ages, rates = self.ages_hours, self.ends_per_hour
        if len(ages) != len(rates):
            raise validation_error(f"{len(rates)} for {len(ages)} ages_hours", "give one rate per age", "ends_per_hour")
        if ages[0] != 0:
            raise validation_error(f"the first age is {ages[0]:g}", "it must be 0: durations begin there", "ages_hours")
        for young, old in pairwise(ages):
            if old <= young:
                raise validation_error(f"{old:g} comes after {young:g}", "ages must rise", "ages_hours")
        return self

    @property
    def mean_hours(self) -> float:
        """The mean duration."""
        return mean_hours(self.ages_hours, self.ends_per_hour)


class ZoneStays(EndsByAge):
    """How long machines stay in one zone of a group, by the age of its up-time."""

    zone: Text
    """Name of the zone."""


def _two_are_enough(schema: dict[str, Any]) -> None:
    del schema["required"]
    schema["anyOf"] = [{"required": keys} for keys in _ENOUGH]


class SpotStatistics(StrictModel):
    """How a spot market comes and goes; `availability` = up / (up + outage).

    In a group of zones an up-time is a stay in one of them, and only the share 1 - `another_zone` ends in an outage.

    Two of the three means are enough, or `up` and `outage` by age, from which they follow; all are there afterwards.
    """

    model_config = ConfigDict(json_schema_extra=_two_are_enough)

    availability: Annotated[float, Field(gt=0, le=1)]
    """Share of the time in which machines can be had."""
    mean_up_hours: Positive
    """Mean hours between a start and the loss of a machine."""
    mean_outage_hours: NotNegative
    """Mean hours until machines can be had again."""
    up: EndsByAge | None = None
    """Durations of up-times by age."""
    outage: EndsByAge | None = None
    """Durations of outages by age."""
    another_zone: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """In a group of zones: the chance that another zone has machines at once when they are taken from one."""
    zones: Rows[ZoneStays] = ()
    """The zones of a group with `another_zone`: where to go when machines are taken."""
    instances: PositiveInteger = 1
    """How many machines must be there together for these statistics to call it up."""
    notice_seconds: NotNegative | None = None
    """From the warning to the loss of a machine; 0 where there is none, None where it is not known."""

    @model_validator(mode="before")
    @classmethod
    def _all_three(cls, data: Any) -> Any:
        """Complete good numbers; anything else is left to the ordinary checks."""
        if not isinstance(data, dict):
            return data
        by_age = [data.get(key) is not None for key in ("up", "outage")]
        if any(by_age) and not all(by_age):
            here, missing = ("up", "outage") if by_age[0] else ("outage", "up")
            raise validation_error(f"{here} is given by age, {missing} is not", f"give {missing} too, or neither")
        return _from_ages(data) if all(by_age) else _from_means(data)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.up is not None and self.outage is not None:
            for key, ages in (("mean_up_hours", self.up), ("mean_outage_hours", self.outage)):
                mean, given = ages.mean_hours, getattr(self, key)
                if abs(given - mean) > AGREEMENT * mean:
                    name = key.split("_")[1]
                    what = f"{name}.ends_per_hour means {mean:.3g} h on average, not {given:.3g}"
                    raise validation_error(what, "correct one, or leave the mean out", key)
        if self.another_zone and self.up is None:
            raise validation_error("another_zone without up and outage by age", "give both (market fit --together)")
        outage = (1 - self.another_zone) * self.mean_outage_hours
        implied = self.mean_up_hours / (self.mean_up_hours + outage)
        if abs(implied - self.availability) > AGREEMENT * self.availability:
            what = f"up and outage hours mean an availability of {implied:.3g}, not {self.availability:.3g}"
            raise validation_error(what, "correct one, or leave one out", "availability")
        return self


def _from_ages(data: dict[str, Any]) -> dict[str, Any]:
    """Fill the means that are not given from durations by age; from any where those are faulty, which is reported."""
    try:
        up, outage = (EndsByAge.model_validate(data[key]).mean_hours for key in ("up", "outage"))
    except ValueError:
        up = outage = 1.0
    another = data.get("another_zone")
    share = 1 - another if isinstance(another, (int, float)) and 0 <= another < 1 else 1.0
    means = dict(zip(_MEANS, (up / (up + share * outage), up, outage), strict=True))
    return {**data, **{key: mean for key, mean in means.items() if data.get(key) is None}}


def _from_means(data: dict[str, Any]) -> dict[str, Any]:
    """Return the third mean from two."""
    given = {key: data[key] for key in _MEANS if data.get(key) is not None}
    if len(given) < 2:
        what = f"fewer than two of {', '.join(_MEANS)}"
        raise validation_error(what, "give two of them, or up and outage by age (planner market fit writes them)")
    numbers = {k: float(v) for k, v in given.items() if type(v) in (int, float)}
    if len(given) > 2 or len(numbers) < 2:
        return data
    share, up, outage = (numbers.get(key) for key in _MEANS)
    if share is None and up is not None and outage is not None and up > 0 and outage >= 0:
        share = up / (up + outage)
    elif share is not None and 0 < share <= 1 and up is not None:
        outage = up * (1 - share) / share
    elif share is not None and 0 < share <= 1 and outage is not None:
        if share == 1 or outage == 0:
            raise validation_error("the mean up-time cannot be derived", "give mean_up_hours")
        up = outage * share / (1 - share)
    else:
        return {**dict.fromkeys(_MEANS, 1.0), **data}  # only the bad numbers are to be blamed
    return {**data, "availability": share, "mean_up_hours": up, "mean_outage_hours": outage}


# Spot prices by zone, as an offer states them.


def _pairs(value: Any) -> Any:
    """Return the prices of a mapping as pairs, which an offer that is handed on has already."""
    if isinstance(value, (tuple, list)):
        return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in value)
    if not isinstance(value, dict):
        raise validation_error("no prices by zone", "write zones: {use1-az1: 2.10, use1-az4: 2.35}")
    return tuple(value.items())


Zones = Annotated[
    tuple[tuple[Text, Price], ...],
    BeforeValidator(_pairs, json_schema_input_type=dict[str, float]),
    PlainSerializer(dict, return_type=dict[str, float]),
]
"""Dollars per instance and hour by zone; a mapping where it is written, pairs where it is read."""


def regions_of(zones: Zones) -> tuple[str, ...]:
    """Return the regions of zones that are named `region/zone`, each once."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name, _ in zones))


def moves_between_regions(zones: Zones) -> float:
    """Return the share of moves from one zone to another that lead to another region, all being as likely.

    Two zones of one region and one of another: 4 of 6 ordered pairs, 0.67.
    """
    names = [name.partition("/")[0] for name, _ in zones]
    pairs = len(names) * (len(names) - 1)
    return sum(name != other for name in names for other in names) / pairs if pairs else 0.0
