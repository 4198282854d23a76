"""Limits that a plan must keep, and the latest finish of a job that follows from them."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from planner.documents.quantities import (
    NotNegative,
    Positive,
    PositiveInteger,
    Share,
    StrictModel,
    Text,
    WholeNumber,
    ZeroOrMany,
    format_value,
    validation_error,
)
from planner.scenario.job import Job
from planner.scenario.offer import Offer
from planner.scenario.payment import TIERS

DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}
"""Longest run by kind of job where the scenario sets none: without a limit the cheapest machine may take years."""
WAITING_SHARE = 0.02
"""Price of an hour of waiting for spot capacity, over that of the same machines on demand."""
UNLIMITED_HOURS = 1e6
"""A value of `max_hours` that limits nothing."""


class AllowForbid(StrictModel):
    """Names that may be used (None: all) and names that may not."""

    allow: ZeroOrMany[Text] | None = None
    forbid: ZeroOrMany[Text] = ()

    def permits(self, name: str) -> bool:
        """Return whether the name may be used."""
        return name not in self.forbid and (self.allow is None or name in self.allow)

    @model_validator(mode="after")
    def _do_not_contradict(self) -> Self:
        """Raise a fault where the lists contradict each other or allow nothing."""
        both = [name for name in self.forbid if name in (self.allow or ())]
        if both:
            raise validation_error(f"{', '.join(both)} both allowed and forbidden", "keep one", "forbid")
        if self.allow == ():
            raise validation_error("the list is empty", "name what is allowed, or leave it out", "allow")
        return self


def _tiers_exist(tiers: AllowForbid) -> AllowForbid:
    """Return the lists if all names are tiers; else raise a fault."""
    for key, names in (("allow", tiers.allow or ()), ("forbid", tiers.forbid)):
        unknown = [name for name in names if name not in TIERS]
        if unknown:
            raise validation_error(
                f"{format_value(unknown[0])} is not a tier of offers", f"one of {', '.join(TIERS)}", key
            )
    return tiers


class SpotShare(StrictModel):
    """Bounds on the share of the work that is done on spot."""

    min: Share = 0.0
    max: Share = 1.0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """Raise a fault where the lower bound is above the upper one."""
        if self.min > self.max:
            raise validation_error(f"min {self.min:g} is above max {self.max:g}", "min may be at most max", "min")
        return self


class Limits(StrictModel):
    """Limits of a plan; None is no limit."""

    budget_usd: Annotated[float, Field(gt=0, le=1e15)] | None = None
    max_gpus: PositiveInteger | None = None  # at one time, over all jobs
    max_hours: Positive | None = None
    quota: dict[str, WholeNumber] = Field(default_factory=dict)  # provider -> GPUs
    providers: AllowForbid = AllowForbid()
    gpus: AllowForbid = AllowForbid()
    regions: AllowForbid = AllowForbid()
    tiers: Annotated[AllowForbid, AfterValidator(_tiers_exist)] = AllowForbid()
    spot: bool = True
    """Whether spot machines may be used at all: `false` is the plain word for `spot_share: {max: 0}`."""
    spot_share: SpotShare = SpotShare()
    waiting_usd_per_hour: NotNegative | None = None  # price of waiting for spot capacity; None: a share of on demand
    vram_headroom: Annotated[float, Field(ge=0, lt=1)] | None = None  # share; replaces the margin of the fit rule

    @model_validator(mode="before")
    @classmethod
    def _without_spot(cls, data: Any) -> Any:
        """Give `spot: false` the form of a share; raise a fault where a least share contradicts it."""
        if not isinstance(data, dict) or data.get("spot") is not False:
            return data
        share = data.get("spot_share") or {}
        if isinstance(share, SpotShare):
            share = share.model_dump()
        if isinstance(share, dict) and isinstance(least := share.get("min", 0.0), (int, float)) and least > 0:
            raise validation_error("spot: false contradicts the least spot share", "keep one", "spot")
        return {**data, "spot_share": {"min": 0.0, "max": 0.0}}

    def waiting_price(self, on_demand_usd_per_hour: Any) -> Any:
        """Return the dollars of an hour of waiting for machines that cost so much on demand; on no bill."""
        given = self.waiting_usd_per_hour
        return WAITING_SHARE * on_demand_usd_per_hour if given is None else given + 0.0 * on_demand_usd_per_hour

    def permits(self, offer: Offer) -> bool:
        """Return whether the lists allow an offer; a list of GPUs does not concern an offer without GPU."""
        return (
            self.providers.permits(offer.provider)
            and (offer.gpu is None or self.gpus.permits(offer.card))
            and self.regions.permits(offer.region)
            and self.tiers.permits(offer.tier)
        )


def max_run_hours(job: Job, limits: Limits) -> float:
    """Return `max_hours` of the limits, or the default for the kind of job where the scenario sets none."""
    return DEFAULT_MAX_HOURS[job.kind] if limits.max_hours is None else limits.max_hours


def latest_finish_hours(job: Job, limits: Limits) -> float:
    """Return the hours after which a job must have ended: its deadline or the longest run, whichever is less."""
    longest = max_run_hours(job, limits)
    return longest if job.deadline_hours is None else min(longest, job.deadline_hours)
