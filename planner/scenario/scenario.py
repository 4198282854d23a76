"""The question: jobs to run, offers to run them on, limits to keep, and what to minimise."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from planner.documents.quantities import (
    Currency,
    NotNegative,
    Positive,
    PositiveInteger,
    Price,
    Rows,
    Share,
    StrictModel,
    Text,
    ZeroOrMany,
    format_value,
    validation_error,
)
from planner.scenario.job import Job
from planner.scenario.observed_run import Measured
from planner.scenario.offer import Billing, Fees, Offer, Terms, offer_data, offer_labels
from planner.scenario.payment import TIERS, Commitment, Managed, Own
from planner.scenario.spot_statistics import SpotStatistics
from planner.scenario.techniques import LoraSettings, Techniques
from planner.scenario.work import Work

__all__ = [
    "Adjust",
    "AllowForbid",
    "Billing",
    "Commitment",
    "Fees",
    "Job",
    "Limits",
    "LoraSettings",
    "Managed",
    "Match",
    "Measured",
    "Offer",
    "Own",
    "Scenario",
    "ScenarioFile",
    "SolveOptions",
    "SpotShare",
    "SpotStatistics",
    "Techniques",
    "Terms",
    "ValueOfTime",
    "Work",
    "apply_adjustments",
    "offer_labels",
    "scenario_data",
    "scenario_schema",
]


class AllowForbid(StrictModel):
    """Names that may be used (None: all) and names that may not."""

    allow: ZeroOrMany[Text] | None = None
    forbid: ZeroOrMany[Text] = ()

    def permits(self, name: str) -> bool:
        """Whether the name may be used."""
        return name not in self.forbid and (self.allow is None or name in self.allow)

    @model_validator(mode="after")
    def _do_not_contradict(self) -> Self:
        both = [name for name in self.forbid if name in (self.allow or ())]
        if both:
            raise validation_error(f"{', '.join(both)} both allowed and forbidden", "keep one", "forbid")
        if self.allow == ():
            raise validation_error("allows nothing", "name what is allowed, or leave it out", "allow")
        return self


def _tiers_exist(tiers: AllowForbid) -> AllowForbid:
    for key, names in (("allow", tiers.allow or ()), ("forbid", tiers.forbid)):
        unknown = [name for name in names if name not in TIERS]
        if unknown:
            raise validation_error(
                f"{format_value(unknown[0])} is no tier of offers", f"one of {', '.join(TIERS)}", key
            )
    return tiers


class SpotShare(StrictModel):
    """Bounds on the share of the work that spot machines do."""

    min: Share = 0.0
    max: Share = 1.0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise validation_error(f"min {self.min:g} is over max {self.max:g}", "min may be at most max", "min")
        return self


class Limits(StrictModel):
    """What a plan must keep; None is no limit."""

    budget_usd: Annotated[float, Field(gt=0, le=1e15)] | None = None
    max_gpus: PositiveInteger | None = None  # at one time, over all jobs
    max_hours: Positive | None = None
    quota: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)  # provider -> GPUs
    providers: AllowForbid = AllowForbid()
    gpus: AllowForbid = AllowForbid()
    regions: AllowForbid = AllowForbid()
    tiers: Annotated[AllowForbid, AfterValidator(_tiers_exist)] = AllowForbid()
    spot_share: SpotShare = SpotShare()
    vram_headroom: Annotated[float, Field(ge=0, lt=1)] | None = None  # share; replaces the fit rule's margin

    def permits(self, offer: Offer) -> bool:
        """Whether the lists allow an offer; a list of cards says nothing about what has none."""
        return (
            self.providers.permits(offer.provider)
            and (offer.gpu is None or self.gpus.permits(offer.card))
            and self.regions.permits(offer.region)
            and self.tiers.permits(offer.tier)
        )


class Match(StrictModel):
    """Which offers: each key that is given must be equal."""

    gpu: Text | None = None
    provider: Text | None = None
    region: Text | None = None
    instance: Text | None = None

    def find_matches(self, offers: Sequence[Offer]) -> list[int]:
        """Positions of the offers that are meant."""
        found = list(range(len(offers)))
        for key in ("gpu", "provider", "region", "instance"):
            wanted = getattr(self, key)
            if wanted is not None:
                found = [index for index in found if getattr(offers[index], key) == wanted]
        return found


MAX_PRICE_FACTOR = 1000.0
"""Factor on a price beyond which no what-if asks anything."""


class Adjust(StrictModel):
    """A what-if on prices."""

    match: Match = Match()
    usd_per_hour_factor: Annotated[float, Field(ge=0, le=MAX_PRICE_FACTOR)] = 1.0
    spot_usd_per_hour_factor: Annotated[float, Field(ge=0, le=MAX_PRICE_FACTOR)] = 1.0


class ValueOfTime(StrictModel):
    """Minimise dollars plus what waiting is worth."""

    value_of_time_usd_per_hour: Price


def _word_or_value(value: Any) -> Any:
    if value not in ("cost", "time") and not isinstance(value, (dict, ValueOfTime)):
        raise validation_error(
            f"{format_value(value)} is no objective", "cost, time, or {value_of_time_usd_per_hour: 5}"
        )
    return value


def _objective_form(value: Any) -> str:
    return "word" if isinstance(value, str) else "value"


Objective = Annotated[
    Annotated[Literal["cost", "time"], Tag("word")] | Annotated[ValueOfTime, Tag("value")],
    Discriminator(_objective_form),
    BeforeValidator(_word_or_value),
]


def _names_differ(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    twice = [name for name, times in Counter(job.name for job in jobs).items() if times > 1]
    if twice:
        raise validation_error(f"several jobs are called {', '.join(twice)}", "every job has its own name")
    return jobs


class _ScenarioBase(StrictModel):
    """What a scenario says whichever way its offers come."""

    name: Text
    description: str = ""
    inventory: ZeroOrMany[Text] = ()  # offer files as written, relative to the scenario's file
    jobs: Annotated[Rows[Job], Field(min_length=1), AfterValidator(_names_differ)]
    limits: Limits = Limits()
    adjust: Rows[Adjust] = ()
    objective: Objective = "cost"
    currency: Currency = "USD"
    vary: ZeroOrMany[Text] = ()  # PATH=A:B:STEP or PATH=[a, b, c]: what `what-if` goes through; no part of the question


class ScenarioFile(_ScenarioBase):
    """A scenario as it is written: offers in inventory files, inline, or both."""

    offers: Rows[Offer] = ()


NO_TRAINING_OFFER = (
    "nothing that is offered has a GPU",
    "machines without one run stages only: add an offer with gpu and gpus, or a managed service",
)


class Scenario(_ScenarioBase):
    """A scenario whose offers are all at hand: those of the inventory files first, the inline ones last.

    Prices are as read; `adjusted_offers` applies `adjust`.
    """

    offers: Rows[Offer]
    offers_inline: Rows[Offer] = ()

    @property
    def objective_kind(self) -> Literal["cost", "time"]:
        """What is minimised first; a value of time is part of the cost."""
        return "time" if self.objective == "time" else "cost"

    @property
    def value_of_time_usd_per_hour(self) -> float:
        """Dollars that an hour of waiting is worth; 0 unless the objective says so."""
        return self.objective.value_of_time_usd_per_hour if isinstance(self.objective, ValueOfTime) else 0.0

    @model_validator(mode="after")
    def _has_offers(self) -> Self:
        if not self.offers:
            raise validation_error("there is nothing to rent", "give inventory: [FILE] or offers: [...]", "offers")
        if all(offer.is_cpu for offer in self.offers):
            raise validation_error(*NO_TRAINING_OFFER, "offers")
        return self


class SolveOptions(StrictModel):
    """How to solve, not what: nothing here changes what is optimal."""

    solver: Literal["highs", "cbc", "scip", "cp-sat"] = "highs"
    gap: NotNegative = 0.0  # relative
    time_limit_seconds: Positive | None = None
    as_of: datetime.date | None = None  # ages of prices are counted to it; None: today


def apply_adjustments(scenario: Scenario) -> tuple[Offer, ...]:
    """The offers at the prices of the what-if: factors of every matching `adjust`, multiplied."""
    offers = list(scenario.offers)
    for rule in scenario.adjust:
        for index in rule.match.find_matches(offers):
            offers[index] = _apply_adjustment(offers[index], rule)
    return tuple(offers)


def _apply_adjustment(offer: Offer, rule: Adjust) -> Offer:
    """The offer at other prices; what is paid upfront is the price of its hours too, what a kWh costs is not."""
    keys = ("usd_per_hour", "spot_usd_per_hour")
    prices: dict[str, Any] = {
        key: price * getattr(rule, f"{key}_factor") for key in keys if (price := getattr(offer, key)) is not None
    }
    if offer.commitment is not None:
        upfront = offer.commitment.upfront_usd * rule.usd_per_hour_factor
        prices["commitment"] = offer.commitment.model_copy(update={"upfront_usd": upfront})
    return offer.model_copy(update=prices)  # only numbers change


def scenario_data(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data in the form of its file, defaults left out; inventory files stay named."""
    data = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"offers", "offers_inline"})
    if scenario.offers_inline:
        data["offers"] = [offer_data(offer) for offer in scenario.offers_inline]
    return data


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file."""
    schema = ScenarioFile.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "planner scenario"}
