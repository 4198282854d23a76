"""What an offer says besides its price: what an own machine costs, how its spot market behaves, when it may be used.

An hour of use costs

    power*PUE*price + (purchase*(1 - residual) + interest + idle*months) / (months*hours_per_month)

with power in kW, price in dollars per kWh, idle in dollars per month, and `hours_per_month` hours of use. It is the
formula that every published comparison of buying and renting uses, such as those of ai-infrastructure.net and
mercatus-ai.com (2026). What is left falls with age where `resale` says how; interest is that of an annuity, 0 by
default. Taxes and work are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from planner.documents.quantities import (
    MAX_USD,
    Hours,
    NotNegative,
    Positive,
    PositiveInteger,
    Price,
    Rows,
    Share,
    StrictModel,
    Text,
    format_hours,
    parse_hours,
    validation_error,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import format_value
from planner.library.names import disk_classes
from planner.units import DAY_HOURS, MONTH_HOURS, mean_hours

WATTS_PER_KILOWATT = 1000.0
NAMEPLATE_PER_GPU_WATT = 1.8
"""Rated watts of a whole server per watt of its GPUs: a node of 8 x H100 (5.6 kW of GPUs) is rated at 10.2 kW."""
LOAD_OF_NAMEPLATE = 0.8
"""Share of its rated watts that a server draws in training: 76 % (arXiv:2506.14551) to 82 % (arXiv:2412.08602)."""

Pue = Annotated[float, Field(ge=1, le=5)]
"""Power usage effectiveness: watts of the building per watt of the machine; 1 at home."""


def default_power_watts(tdp_watts: float, gpus: int) -> float:
    """Return the watts that a server with so many GPUs draws in training, from the TDP of one GPU.

    8 GPUs of 700 W: 8 * 700 * 1.8 * 0.8 = 8,064 W; the maximum that arXiv:2412.08602 measured is 8.4 kW.
    """
    return gpus * tdp_watts * NAMEPLATE_PER_GPU_WATT * LOAD_OF_NAMEPLATE


def power_usd_per_hour(watts: float | None, pue: float, usd_per_kwh: float) -> float:
    """Return dollars per hour of electricity: 500 W in a building of PUE 1.2 at $0.30 per kWh cost $0.18."""
    return (watts or 0.0) / WATTS_PER_KILOWATT * pue * usd_per_kwh


Range = Annotated[tuple[float, float], Field(strict=False)]
"""The least and the most that a figure can be."""

Interest = Annotated[float, Field(ge=0, le=1)]
"""What capital costs in a year, as a share of it."""


def interest_usd(price_usd: float, left_usd: float, months: float, interest: float) -> float:
    """Return what the capital of a machine costs over some months: equal payments, less what the machine loses.

    $2,500 of which $1,250 are left after 36 months at 8 % a year: 36 payments of $47.05 are $443.81 more than $1,250.
    """
    monthly = float((1.0 + interest) ** (1.0 / 12.0)) - 1.0
    growth = float((1.0 + monthly) ** months)
    if growth - 1.0 < 1e-12:  # no interest, or no time for it
        return 0.0
    return (price_usd - left_usd / growth) * monthly / (1.0 - 1.0 / growth) * months - (price_usd - left_usd)


class Horizon(StrictModel):
    """How long, and how much, a machine that is bought will be used."""

    months: Annotated[float, Field(gt=0, le=240)]
    """Months that the machine will be kept."""
    hours_per_month: Annotated[float, Field(gt=0, le=MONTH_HOURS)]
    """Hours of use in each."""
    interest: Interest = 0.0
    """What the capital of a purchase costs in a year, as a share: 0.08 is 8 %."""

    @property
    def hours(self) -> float:
        """Hours of use in all."""
        return self.months * self.hours_per_month


class Own(StrictModel):
    """A machine that stands in the house: its hour costs electricity, wear and its share of standing costs."""

    power_watts: Positive | None = None
    """Watts of an instance under load; left out: as its GPUs need."""
    usd_per_kwh: Price
    """Electricity in dollars per kWh."""
    pue: Pue = 1.0
    """Power of the building over that of the machine."""
    purchase_usd: Price = 0.0
    """Dollars that an instance has cost."""
    residual_share: Share = 0.0
    """Share of the purchase that the machine can be sold for at the end."""
    lifetime_hours: Positive | None = None
    """Hours of use that the purchase is spread over, in place of `months`."""
    months: Positive | None = None
    """Months that the machine is kept."""
    hours_per_month: Annotated[float, Field(gt=0, le=MONTH_HOURS)] | None = None
    """Hours of use in each month."""
    idle_usd_per_month: Price = 0.0
    """Dollars due whether it is used or not: room, colocation, insurance."""
    interest: Interest = 0.0
    """What the capital of the purchase costs in a year, as a share; with `months`."""

    @property
    def use_hours(self) -> float | None:
        """Hours of use that the purchase is spread over; None where nothing says it."""
        if self.months is not None and self.hours_per_month is not None:
            return self.months * self.hours_per_month
        return self.lifetime_hours

    @property
    def power_usd_per_hour(self) -> float:
        """Electricity of one instance under load, dollars per hour: kW times PUE times the price of a kWh."""
        return power_usd_per_hour(self.power_watts, self.pue, self.usd_per_kwh)

    @property
    def depreciation_usd_per_hour(self) -> float:
        """Wear of one instance, dollars per hour: what the purchase loses, spread evenly over its hours of use."""
        hours = self.use_hours
        return self.purchase_usd * (1.0 - self.residual_share) / hours if hours else 0.0

    @property
    def interest_usd_per_hour(self) -> float:
        """Cost of the capital in one instance, dollars per hour of use."""
        if self.months is None or not self.hours_per_month:
            return 0.0
        left = self.purchase_usd * self.residual_share
        usd = interest_usd(self.purchase_usd, left, self.months, self.interest)
        return usd / (self.months * self.hours_per_month)

    @property
    def idle_usd_per_hour(self) -> float:
        """Standing costs of one instance, dollars per hour of use."""
        return self.idle_usd_per_month / self.hours_per_month if self.hours_per_month else 0.0

    @property
    def parts_usd_per_hour(self) -> dict[str, float]:
        """What an hour of one instance costs, by line of the bill; lines of nothing are left out."""
        parts = {
            "power": self.power_usd_per_hour,
            "wear of own machines": self.depreciation_usd_per_hour,
            "cost of capital": self.interest_usd_per_hour,
            "standing costs": self.idle_usd_per_hour,
        }
        return {name: usd for name, usd in parts.items() if usd}

    @property
    def usd_per_hour(self) -> float:
        """Dollars per hour of use of one instance."""
        return math.fsum(self.parts_usd_per_hour.values())

    @model_validator(mode="after")
    def _wears_out(self) -> Self:
        if self.power_watts is None:
            raise validation_error("the power is missing", "give power_watts, of one machine under load", "power_watts")
        if self.months is not None and self.lifetime_hours is not None:
            fix = "keep lifetime_hours, or months and hours_per_month"
            raise validation_error("two lifetimes", fix, "months")
        if self.months is not None and self.hours_per_month is None:
            raise validation_error("months of unknown use", "add hours_per_month, the hours of use", "months")
        if self.purchase_usd > 0 and self.use_hours is None:
            fix = "give lifetime_hours, the hours of use that purchase_usd is spread over"
            if self.hours_per_month is not None:
                fix = "add months, that the machine is kept"
            raise validation_error("a purchase without a lifetime", fix, "lifetime_hours")
        if self.interest and (self.months is None or not self.purchase_usd):
            fix = "give purchase_usd, months and hours_per_month, or leave interest out"
            raise validation_error("interest on what costs nothing for no time", fix, "interest")
        if self.residual_share and not self.purchase_usd:
            raise validation_error("a residual value of no purchase", "add purchase_usd", "residual_share")
        if self.idle_usd_per_month and self.hours_per_month is None:
            fix = "add hours_per_month, the hours of use that carry it"
            raise validation_error("standing costs of unknown use", fix, "idle_usd_per_month")
        if self.usd_per_hour > MAX_USD:
            raise validation_error(
                f"an hour of it costs ${self.usd_per_hour:.3g}", f"power and wear come to at most {MAX_USD:g} dollars"
            )
        return self


class Resale(StrictModel):
    """What a machine can be sold for by its age: halved again and again, or a table of ages."""

    used_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the price that it is worth as soon as it is used."""
    half_life_months: Positive | None = None
    """Months in which that is halved."""
    half_life_range: Range | None = None
    """Least and most that these months may be."""
    months: tuple[Positive, ...] = Field(default=(), strict=False)
    """Ages of a table, rising."""
    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(default=(), strict=False)
    """Share of the price that is left at each of these ages."""

    def share(self, age_months: float, half_life_months: float | None = None) -> float:
        """Return the share of the price that is left at an age; between ages, and after the last one, it decays evenly.

        0.72 as soon as it is used and halved in 32 months: 0.33 after 36 months.
        """
        if (half := half_life_months or self.half_life_months) is not None:
            return float(self.used_share * 0.5 ** (age_months / half))
        points = [(0.0, self.used_share), *zip(self.months, self.shares, strict=True)]
        inside = ((younger, older) for younger, older in pairwise(points) if age_months <= older[0])
        (first, before), (last, after) = next(inside, (points[-2], points[-1]))
        return float(before * (after / before) ** ((age_months - first) / (last - first)))

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        if (self.half_life_months is None) == (not self.months):
            fix = "give half_life_months, or months and shares"
            raise validation_error("no curve, or two", fix, "half_life_months")
        ages, left = (0.0, *self.months), (self.used_share, *self.shares)
        if len(ages) != len(left) or any(a >= b for a, b in pairwise(ages)) or any(a < b for a, b in pairwise(left)):
            fix = "give as many shares as months, later months and no larger shares one after the other"
            raise validation_error("not a table of ages", fix, "months")
        low, high = self.half_life_range or (1.0, 1.0)
        middle = self.half_life_months if self.half_life_range is not None else 1.0
        if middle is None or not 0 < low <= middle <= high:
            fix = f"give the least and the most, around {self.half_life_months or 0:g}"
            raise validation_error(f"{low:g} to {high:g} does not hold it", fix, "half_life_range")
        return self


class Buy(StrictModel):
    """A machine that may be bought: what it costs, what it is worth afterwards, and what it needs meanwhile."""

    purchase_usd: Annotated[float, Field(gt=0, le=MAX_USD)]
    """Dollars of an instance, the whole machine."""
    purchase_range_usd: Range | None = None
    """Least and most dollars of published prices."""
    residual_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the purchase that the machine can be sold for at the end, whenever that is."""
    residual_range: Range | None = None
    """Least and most that this share may be."""
    resale: Resale | None = None
    """What is left by age, in place of `residual_share`."""
    life_months: Positive | None = None
    """Months that machines of this kind are used at most; a longer horizon is cut to it."""
    without: Text | None = None
    """What the price leaves out, such as `host and network`."""
    power_watts: Positive | None = None
    """Watts of an instance under load; left out: as its GPUs need."""
    usd_per_kwh: Price
    """Electricity in dollars per kWh."""
    pue: Pue = 1.0
    """Power of the building over that of the machine."""
    idle_usd_per_month: Price = 0.0
    """Dollars due whether it is used or not: room, colocation, insurance."""

    @property
    def power_usd_per_hour(self) -> float:
        """Electricity of one instance under load, dollars per hour."""
        return power_usd_per_hour(self.power_watts, self.pue, self.usd_per_kwh)

    def months_of(self, horizon: Horizon) -> float:
        """Return the months of a horizon in which the machine lives."""
        return horizon.months if self.life_months is None else min(horizon.months, self.life_months)

    def left_shares(self, months: float) -> tuple[float, float, float]:
        """Return the share of the price that is left at an age: as stated, the least and the most."""
        if self.resale is None:
            return (self.residual_share, *(self.residual_range or (self.residual_share, self.residual_share)))
        low, high = (self.resale.share(months, half) for half in self.resale.half_life_range or (None, None))
        return self.resale.share(months), low, high

    def lost_usd(self, months: float) -> tuple[float, float, float]:
        """Return what the purchase loses by an age, dollars of one instance: as stated, the least and the most."""
        low, high = self.purchase_range_usd or (self.purchase_usd, self.purchase_usd)
        left, worst, best = self.left_shares(months)
        return self.purchase_usd * (1 - left), low * (1 - best), high * (1 - worst)

    def owned(self, horizon: Horizon) -> Own:
        """Return the machine as one that is owned for a horizon: each hour of use carries its share of the purchase.

        It is owned no longer than it lives, and worth then what it is at that age.

        $2,500, half of it left after 36 months of 200 h, 500 W at $0.18: 2,500 * 0.5 / 7,200 + 0.09 = $0.264 an hour.
        """
        return Own(
            power_watts=self.power_watts,
            usd_per_kwh=self.usd_per_kwh,
            pue=self.pue,
            purchase_usd=self.purchase_usd,
            residual_share=self.left_shares(self.months_of(horizon))[0],
            months=self.months_of(horizon),
            hours_per_month=horizon.hours_per_month,
            idle_usd_per_month=self.idle_usd_per_month,
            interest=horizon.interest,
        )

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.power_watts is None:
            raise validation_error("the power is missing", "give power_watts, of one machine under load", "power_watts")
        for name, value in (("purchase_range_usd", self.purchase_usd), ("residual_range", self.residual_share)):
            ends = getattr(self, name)
            if ends is not None and not 0 <= ends[0] <= value <= ends[1]:
                fix = f"give the least and the most, around {value:g}"
                raise validation_error(f"{ends[0]:g} to {ends[1]:g} does not hold {value:g}", fix, name)
        if self.resale is not None and (self.residual_share or self.residual_range):
            raise validation_error("two resale values", "keep resale, or residual_share", "resale")
        if self.residual_range is not None and self.residual_range[1] >= 1:
            raise validation_error("a machine that loses nothing", "at most 0.99 of it is left", "residual_range")
        return self


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


# The speed of a disk in GB per second, or the name of a class of disks that has it.


def _speed(value: Any) -> Any:
    """Return the GB per second of a class; a number as it is."""
    if not isinstance(value, str):
        return value
    known = disk_classes()
    if (name := find_name(value, known)) is None:
        fix = f"{name_fix(value, known)}; or give GB per second"
        raise validation_error(f"{format_value(value)} is not a class of disks", fix)
    return known[name]


DiskSpeed = Annotated[Positive, BeforeValidator(_speed, json_schema_input_type=Positive | str)]
"""GB per second, more than 0."""


# When a machine may be used: windows, and blocks of capacity that are bought. Moments are hours from the start of the
# plan (`now`), written as durations such as `0h`, `36h` or `2d`.


def parse_moment(value: Any) -> Any:
    """Return the hours of a duration that may be zero."""
    if isinstance(value, str) and value.strip() in ("0h", "0m", "0d", "0.0h"):
        return 0.0
    return parse_hours(value)


Moment = Annotated[
    float,
    BeforeValidator(parse_moment, json_schema_input_type=Annotated[str, Field(examples=["0h", "36h", "2d"])]),
    PlainSerializer(format_hours, return_type=str),
]
"""Hours from the start of the plan."""


class ClockChange(StrictModel):
    """A moment at which the clock of a zone goes forward by some hours, or back where they are negative."""

    at_hours: Moment = Field(alias="at")
    """When the clock changes."""
    forward_hours: Annotated[float, Field(ge=-24, le=24)]
    """By how much it is put forward; negative: back."""


def clock_after(changes: Sequence[ClockChange], hours: float) -> float:
    """Return what a clock shows after some hours that was set to 0 at the start of the plan."""
    return hours + math.fsum(change.forward_hours for change in changes if change.at_hours <= hours)


def elapsed_at(changes: Sequence[ClockChange], shown: float) -> float:
    """Return the hours after which the clock shows a time: of a skipped time as if it had not changed."""
    hours = shown
    for change in changes:
        if hours < change.at_hours or hours - change.forward_hours < change.at_hours:
            break
        hours -= change.forward_hours
    return hours


class Window(StrictModel):
    """A time in which a machine may be used; with `every` it returns again and again.

    A window that returns every day, or every few days, does so by the clock of its zone: `clock_changes` moves it.
    The reader of scenarios enters them where the zone is known.
    """

    from_hours: Moment = Field(alias="from")
    """Begin of the window."""
    to_hours: Moment = Field(alias="to")
    """End of the window."""
    every_hours: Hours | None = Field(default=None, alias="every")
    """After which it comes again; None: once."""
    clock_changes: Annotated[tuple[ClockChange, ...], Field(strict=False)] = ()
    """Changes of the clock from which periods count; found from the zone of `now`."""

    def turns(self, last_hours: float) -> Iterator[tuple[float, float]]:
        """Yield from when to when the window is open, up to a moment.

        The turn before the first one counts where the plan starts within it. A turn that a change of the clock swallows
        ends before it begins.
        """
        if self.every_hours is None:
            yield self.from_hours, self.to_hours
            return
        begin, end = (clock_after(self.clock_changes, hours) for hours in (self.from_hours, self.to_hours))
        turn, at = -1 if begin < self.every_hours else 0, -math.inf
        while at <= last_hours:
            at, until = (elapsed_at(self.clock_changes, hour + turn * self.every_hours) for hour in (begin, end))
            yield at, until
            turn += 1

    def returns_by_clock(self) -> bool:
        """Return whether the window returns after whole days, so that the clock of its zone decides when."""
        return self.every_hours is not None and self.every_hours % DAY_HOURS == 0

    def with_clock(self, changes: Sequence[ClockChange], has_dates: bool) -> Self:
        """Return the window with the changes of its clock.

        Where the first turn is two durations, it is so long by the clock: 22:00 to 06:00 has an hour less on the night
        on which the clock goes forward. Two dates are such times already.
        """
        window = self.model_copy(update={"clock_changes": tuple(changes)})
        end = elapsed_at(changes, clock_after(changes, self.from_hours) + self.to_hours - self.from_hours)
        return window if has_dates or end <= self.from_hours else window.model_copy(update={"to_hours": end})

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        begin, end = (clock_after(self.clock_changes, hours) for hours in (self.from_hours, self.to_hours))
        length = end - begin
        if self.to_hours <= self.from_hours:
            fix = "give a later end; a night is {from: 20h, to: 32h, every: 24h}"
            raise validation_error("the window ends before it begins", fix, "to")
        if self.every_hours is not None and length > self.every_hours:
            what = f"a window of {length:g} h cannot return every {self.every_hours:g} h"
            raise validation_error(what, "give a longer `every`, or leave it out", "every")
        return self


class Block(StrictModel):
    """Capacity that is bought for a fixed time: machines from `start` to `end` for `usd` each."""

    start_hours: Moment = Field(alias="start")
    """When the machines are there."""
    end_hours: Moment = Field(alias="end")
    """Until when."""
    usd: Price
    """Dollars per instance, used or not."""

    @property
    def term_hours(self) -> float:
        """Hours of the block."""
        return self.end_hours - self.start_hours

    @property
    def words(self) -> str:
        """Such as `24 h block`."""
        return f"{self.term_hours:g} h block"

    @model_validator(mode="after")
    def _has_hours(self) -> Self:
        if self.end_hours <= self.start_hours:
            raise validation_error("a reservation of no hours", "end must be later than start", "end")
        return self
