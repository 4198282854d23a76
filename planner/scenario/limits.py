"""Limits that a plan must keep, those on what is used at one time as objects, and the horizon of a purchase.

One of them is on what is bought (`stays`): it counts what is used at any time, jobs that take turns together once.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from planner.documents.quantities import (
    Hours,
    NotNegative,
    Positive,
    PositiveInteger,
    Rows,
    Share,
    StrictModel,
    Text,
    WholeNumber,
    ZeroOrMany,
    validation_error,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import format_value
from planner.library.reading import tool_names
from planner.library.schema import GpuSpec, Library
from planner.scenario.job import DEFAULT_CONFIDENCE, Job, Sure
from planner.scenario.offer import STOCK_STATUSES, TIERS, Offer
from planner.scenario.offer_terms import (
    WATTS_PER_KILOWATT,
    ClockChange,
    Horizon,
    Moment,
    default_power_watts,
    elapsed_at,
)
from planner.units import DAY_HOURS, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


UNLIMITED_HOURS = 1e6
"""A value of `max_hours` that limits nothing."""
DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0, "inference": 720.0, "serve": UNLIMITED_HOURS, "rl": 720.0}
"""Longest run by kind of job where the scenario sets none: without a limit the cheapest machine may take years."""
DEFAULT_MAX_PRICE_AGE_HOURS = 180 * DAY_HOURS
"""Age from which on no plan rests on a price, against the newest of its provider: prices fall by half in a year.

An age that the scenario sets counts against today instead; the default never leaves a provider without any price.
"""


MAX_FALLBACKS = 10
"""Most further ways that a plan may have to show: each is a plan of its own, solved and checked."""


def _some_stock(value: Any) -> Any:
    """Return a status of stock that limits something; else raise a fault."""
    if value == "none":
        raise validation_error("none is no stock at all, which is never planned with", "low, medium or high")
    return value


class AllowForbid(StrictModel):
    """Names that may be used (None: all) and names that may not."""

    allow: ZeroOrMany[Text] | None = None
    """Names that may be used; None: all."""
    forbid: ZeroOrMany[Text] = ()
    """Names that may not be used."""

    def permits(self, name: str) -> bool:
        """Return whether the name may be used; a zone (`us-east-1/use1-az4`) has the name of its region too."""
        if self.allow is None and not self.forbid:
            return True
        names = (name, name.partition("/")[0])
        is_allowed = self.allow is None or any(name_or_region in self.allow for name_or_region in names)
        return is_allowed and not any(name_or_region in self.forbid for name_or_region in names)

    @model_validator(mode="before")
    @classmethod
    def _names_alone_are_allowed(cls, data: Any) -> Any:
        """Return a name or a list of names as what is allowed."""
        return {"allow": data} if isinstance(data, (str, list, tuple)) else data

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
    """Return the lists with the tiers that their names mean; raise a fault for other names."""
    meant: dict[str, tuple[str, ...]] = {}
    for key, names in (("allow", tiers.allow or ()), ("forbid", tiers.forbid)):
        tiers_of = [(name, find_name(name, TIERS)) for name in names]
        if unknown := [name for name, tier in tiers_of if tier is None]:
            raise validation_error(
                f"{format_value(unknown[0])} is not a tier of offers", name_fix(unknown[0], TIERS), key
            )
        meant[key] = tuple(dict.fromkeys(tier for _, tier in tiers_of if tier))
    changed = {key: names for key, names in meant.items() if names and names != getattr(tiers, key)}
    return AllowForbid(allow=meant["allow"] or None, forbid=meant["forbid"]) if changed else tiers


def _split_tools(value: Any) -> Any:
    """Return names in one text, as --for takes them, as a list."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def _tools_exist(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tools that the names mean, each once; raise a fault for other names."""
    tools = [find_name(name, tool_names()) for name in names]
    for name, tool in zip(names, tools, strict=True):
        if tool is None:
            raise validation_error(f"no plan is exported to {format_value(name)}", name_fix(name, tool_names()))
    return tuple(dict.fromkeys(tool for tool in tools if tool))


class TypicalStock(StrictModel):
    """GPUs of one model that several training jobs rent of one provider at one time, where the stock is not stated.

    The defaults are priors: no provider publishes how many of its GPUs are free. A new account can book less than that
    at some (RunPod: $80 per hour in all), and a large customer more.
    """

    marketplace: PositiveInteger = 32
    """Of a marketplace of private hosts."""
    cloud: PositiveInteger = 64
    """Of a specialised cloud."""
    hyperscaler: PositiveInteger = 256
    """Of one of the large general clouds."""

    @model_validator(mode="before")
    @classmethod
    def _one_number_is_of_all(cls, data: Any) -> Any:
        """Return a number alone as that of every kind of provider."""
        is_number = isinstance(data, (int, float, str)) and not isinstance(data, bool)
        return dict.fromkeys(cls.model_fields, data) if is_number else data

    def of(self, offer: Offer) -> int:
        """Return the GPUs of the kind of provider that an offer is of."""
        if offer.community:
            return self.marketplace
        return self.hyperscaler if offer.provider in HYPERSCALERS else self.cloud


HYPERSCALERS = frozenset({"alibaba", "aws", "azure", "gcp", "ibm", "oci", "oracle", "oracle-cloud"})
"""Providers that rent GPUs among everything else, in dozens of regions."""


class SpotShare(StrictModel):
    """Bounds on the share of the work that is done on spot."""

    min: Share = 0.0
    """Least share of the work on spot machines."""
    max: Share = 1.0
    """Most of the work that may be on spot machines."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """Raise a fault where the lower bound is above the upper one."""
        if self.min > self.max:
            raise validation_error(f"min {self.min:g} is above max {self.max:g}", "min may be at most max", "min")
        return self


PERIOD_HOURS = {"day": DAY_HOURS, "week": 7 * DAY_HOURS, "month": MONTH_HOURS}
"""Hours of the periods of a budget from the start of the plan, by the clock; a month is a billing month of 730 h."""


class PeriodBudget(StrictModel):
    """A budget by period, or for one time; dollars are charged evenly as a job runs.

    A day and a week begin at the time of day at which the plan starts, by the clock of its zone: `clock_changes` makes
    a day of 23 or 25 hours. The reader of scenarios enters them where the zone is known.
    """

    usd: Annotated[float, Field(gt=0, le=1e15)]
    """Dollars of each period."""
    per: Literal["day", "week", "month"] | None = None
    """Length of a period: `day`, `week` or `month`; None: between `from` and `to`."""
    from_hours: Moment | None = Field(default=None, alias="from")
    """Begin of the period."""
    to_hours: Moment | None = Field(default=None, alias="to")
    """End of the period."""
    clock_changes: Annotated[tuple[ClockChange, ...], Field(strict=False)] = ()
    """Changes of the clock from which periods count; found from the zone of `now`."""

    @property
    def length_hours(self) -> float:
        """Hours that no period of one that returns exceeds; 0 for one time."""
        back = sum(max(0.0, -change.forward_hours) for change in self.clock_changes)
        return PERIOD_HOURS[self.per] + back if self.per else 0.0

    def periods(self, horizon_hours: float) -> list[tuple[float, float]]:
        """Return the periods in hours from the start of the plan up to a horizon."""
        if self.per is None:
            return [(self.from_hours or 0.0, min(horizon_hours, self.to_hours or horizon_hours))]
        length, ends = PERIOD_HOURS[self.per], [0.0]
        while ends[-1] < horizon_hours:
            ends.append(elapsed_at(self.clock_changes, len(ends) * length))
        return list(pairwise(ends))

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        bounds = (self.from_hours, self.to_hours)
        if (self.per is None) == (bounds == (None, None)):
            raise validation_error("a budget needs a period", "give per: day, week or month, or from and to", "per")
        if None not in bounds and (self.to_hours or 0.0) <= (self.from_hours or 0.0):
            raise validation_error("the period ends before it begins", "give a later `to`", "to")
        return self


class Limits(StrictModel):
    """Limits of a plan; None is no limit."""

    budget_usd: Positive | None = None
    """Dollars that all jobs are charged with, at the confidence of the budget; not what they pay at once."""
    budget_confidence: Sure = DEFAULT_CONFIDENCE
    """Probability with which dollars keep every budget."""
    outlay_usd: Positive | None = None
    """Dollars that are paid at once: for machines to buy, commitments upfront, and blocks."""
    max_gpus: PositiveInteger | None = None
    """GPUs at one time, over all jobs."""
    max_hours: Positive | None = None
    """Longest job in hours; left out: 720, or 2,160 for pretraining."""
    max_usd_per_hour: Positive | None = None
    """Dollars per hour at one time, over all jobs."""
    max_kilowatts: Positive | None = None
    """Kilowatts that machines draw at one time, over all jobs."""
    budgets: Rows[PeriodBudget] = ()
    """Budgets by period."""
    quota: dict[str, WholeNumber] = Field(default_factory=dict)
    """GPUs at one time by provider."""
    providers: AllowForbid = AllowForbid()
    """Providers that may be used."""
    gpus: AllowForbid = AllowForbid()
    """GPUs that may be used."""
    regions: AllowForbid = AllowForbid()
    """Regions that may be used."""
    tiers: Annotated[AllowForbid, AfterValidator(_tiers_exist)] = AllowForbid()
    """Kinds of providers that may be used."""
    tools: Annotated[ZeroOrMany[Text], BeforeValidator(_split_tools), AfterValidator(_tools_exist)] = ()
    """Tools that must be able to run the plan, such as `axolotl`."""
    stock_status: Annotated[Literal["low", "medium", "high"], BeforeValidator(_some_stock)] | None = None
    """The least that a provider's list may say of its stock; None: all that is not `none`."""
    typical_stock: TypicalStock | None = TypicalStock()
    """GPUs of one model that several training jobs rent of one provider, where its stock is unknown; None: any number.
    """
    fallbacks: Annotated[int, Field(ge=0, le=MAX_FALLBACKS)] = 0
    """Further ways that each job must have."""
    spot: bool | None = None
    """`false`: no spot machines, the same as `spot_share: {max: 0}`."""
    spot_share: SpotShare = SpotShare()
    """Share of the work on spot machines."""
    spot_zones: Literal["any", "same_region", "same_zone"] = "any"
    """Where a run on spot may move when it is lost."""
    max_price_age_hours: Hours | None = Field(default=DEFAULT_MAX_PRICE_AGE_HOURS, alias="max_price_age")
    """Age from which on a price is left out; null: no limit."""
    waiting_usd_per_hour: NotNegative | None = None
    """Price of an hour of waiting for spot, on no bill; None: it is least among policies of nearly the same cost."""
    unmeasured: bool = False
    """Whether chips other than NVIDIA's take part where no published run is of such training."""
    vram_headroom: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the predicted memory that is added as a margin, in place of that of the confidence."""
    _today: datetime.date | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _spot_is_a_share(cls, data: Any) -> Any:
        """Return the data with the plain word written as the bound that it stands for."""
        share = data.get("spot_share", {}) if isinstance(data, dict) else None
        if not isinstance(share, dict) or not isinstance(data.get("spot"), bool):
            if isinstance(data, dict) and isinstance(data.get("spot"), dict):
                fix = "did you mean limits.spot_share.max? limits.spot is true or false"
                raise validation_error("bounds are those of spot_share", fix, "spot")
            return data
        rest = {key: value for key, value in data.items() if key != "spot"}
        if data["spot"]:
            return {**rest, "spot_share": {key: end for key, end in share.items() if key != "max" or end != 0}}
        for key in ("min", "max"):
            if share.get(key):
                fix = "keep one: leave out spot, or spot_share"
                raise validation_error(f"spot is forbidden, and spot_share.{key} is {share[key]}", fix, "spot")
        return {**rest, "spot_share": {**share, "max": 0.0}}

    @property
    def today(self) -> datetime.date | None:
        """The day against which `max_price_age` counts where the scenario sets it; None: the day of the clock."""
        day: datetime.date | None = (self.__pydantic_private__ or {}).get("_today")
        return day

    @property
    def caps_price_age(self) -> bool:
        """Whether the scenario itself says how old a price may be, and it is not left to the default."""
        return self.max_price_age_hours is not None and "max_price_age_hours" in self.model_fields_set

    def is_outdated(self, offer: Offer) -> bool:
        """Return whether the price is too old to plan with.

        The age counts against today where the scenario sets the limit, else against the newest of its provider.
        """
        most = self.max_price_age_hours
        if most is None or not offer.is_by_the_hour:
            return False
        if not self.caps_price_age:
            return offer.days_behind * DAY_HOURS > most
        day = offer.first_date
        return day is not None and ((self.today or datetime.date.today()) - day).days * DAY_HOURS > most

    def has_stock(self, offer: Offer) -> bool:
        """Return whether an offer has the least status of stock; unknown limits nothing, none is too little."""
        least = STOCK_STATUSES.index(self.stock_status or "low")
        return offer.stock_status is None or STOCK_STATUSES.index(offer.stock_status) >= least

    def typical_gpus(self, offer: Offer) -> int | None:
        """Return the typical GPUs of the kind of an offer at its provider; None where they are stated, or one's own."""
        is_stated = offer.stock is not None or offer.committed_hours is not None
        if self.typical_stock is None or is_stated or not offer.rents_gpus or offer.tier in ("own", "bought"):
            return None
        return self.typical_stock.of(offer)

    @property
    def names(self) -> set[tuple[str, str]]:
        """What the lists and quotas name, each with its key."""
        rules = {"gpus": self.gpus, "providers": self.providers, "regions": self.regions}
        listed = {(key, name) for key, rule in rules.items() for name in (*(rule.allow or ()), *rule.forbid)}
        return listed | {("quota", name) for name in self.quota}

    def permits(self, offer: Offer) -> bool:
        """Return whether the lists allow an offer; a list of GPUs does not concern an offer without GPU."""
        return (
            self.providers.permits(offer.provider)
            and (offer.gpu is None or self.gpus.permits(offer.card))
            and all(self.regions.permits(region) for region in offer.regions)
            and self.tiers.permits(offer.tier)
        )


def max_run_hours(job: Job, limits: Limits) -> float:
    """Return `max_hours` of the limits, or the default for the kind of job where the scenario sets none."""
    return DEFAULT_MAX_HOURS[job.kind] if limits.max_hours is None else limits.max_hours


def latest_finish_hours(job: Job, limits: Limits) -> float:
    """Return the hours after which a job must have ended: its deadline or the longest run, whichever is less.

    What the job keeps for finding a machine is taken off the deadline.
    """
    longest = max_run_hours(job, limits)
    return longest if job.planned_deadline_hours is None else min(longest, job.planned_deadline_hours)


def may_pause(job: Job, offer: Offer, limits: Limits, spot_share: float, is_rounded: bool) -> bool:
    """Return whether a run may stand still while the windows of its machine are closed, and go on afterwards.

    Its checkpoints must hold more than weights, its machine must be paid by the hour, to the minute and not on spot,
    and no budget by period may have to know in which hours it runs.
    """
    by_the_hour = offer.usd_per_hour is not None and not offer.is_reservation and spot_share == 0
    return bool(offer.available) and job.can_resume and by_the_hour and not is_rounded and not limits.budgets


# Whether a scenario says how long machines that it may buy will be used.


def check_horizon(horizon: Horizon | None, offers: Sequence[Offer], inline: Sequence[Offer]) -> None:
    """Raise a fault for a horizon without machines to buy, and for machines to buy without a horizon.

    Those of an inventory file may stay without one: a plan then says from how many hours of use they pay.
    """
    to_buy = [offer.buy is not None for offer in offers]
    if horizon is not None and not any(to_buy):
        fix = "add inventory: [market, purchase], or offers with buy; or leave it out"
        raise validation_error("a horizon and nothing to buy", fix, "horizon")
    if horizon is None and (all(to_buy) or any(offer.buy is not None for offer in inline)):
        fix = "add horizon: {months: 36, hours_per_month: 200}, how long and how much it will be used"
        raise validation_error("a purchase without a horizon", fix, "offers" if inline else "inventory")


def with_offers(data: dict[str, Any], offers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of a scenario with some of its offers in it, so that purchases and horizon still agree.

    Without a horizon machines to buy are left out, and without such machines the horizon.
    """
    kept = [offer for offer in offers if data.get("horizon") is not None or offer.get("buy") is None]
    if not any(offer.get("buy") for offer in kept):
        data = {key: value for key, value in data.items() if key != "horizon"}
    return {**data, "offers": kept}


PEAK_TOLERANCE = 1e-9
"""Relative, by which sums of what is used may differ by rounding."""


@dataclass(frozen=True)
class PeakLimit:
    """A limit under `limits` on what is used at one time, over all jobs and services.

    A job uses its part from start to end: what one machine of its offer uses, times its machines; or the dollars that
    it spends per hour. Its limit is a resource of a timetable, and one of jobs side by side is a row of the program,
    but for dollars per hour, which always make a timetable.

    What a plan uses is computed a second time, from the plan's own figures, in `planner.evaluation.audited_limits`.
    """

    key: str  # under `limits`
    of_machine: Callable[[Offer, GpuSpec | None], float] | None
    """What one machine of an offer uses, nan where nobody states it; the GPU is None at a managed service.

    None stands for the dollars that a run spends per hour: they depend on the run."""
    parts: int  # whole units of a timetable in one unit of the limit
    step: float | None  # its smallest relaxation is a multiple of this; None: found to one percent
    unit: str = ""
    exceeded: str = ""  # why one candidate alone is none
    lacking: str = ""  # what the nearest candidate does where a limit leaves none
    excludes: str = ""  # why an alternative is infeasible; `new` is what it needs, `old` the limit
    used: str = ""  # what a lower limit changes; `used` is what the plan uses
    unknown: str = ""  # why an offer is left out of which nobody states what its machines use
    counts_quota: bool = False  # whether a quota of a provider limits the same
    stays: bool = False  # whether what is used once is used to the end: of each offer the most machines at one time
    worth: Literal["gpu", "dollar", "choice"] = "choice"  # what more of it gives, in explanations

    @property
    def path(self) -> str:
        """The path of a setting."""
        return f"limits.{self.key}"

    @property
    def name(self) -> str:
        """What is limited, as rows and checks name it: `gpus`."""
        return self.key.removeprefix("max_")

    @property
    def is_of_dollars(self) -> bool:
        """Whether the limit is one on dollars per hour, which are known of a run alone."""
        return self.of_machine is None

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return self.step == 1.0 and not self.stays

    def value(self, limits: Limits) -> float | None:
        """Return what the limits of a scenario allow; None for any amount."""
        limit: float | None = getattr(limits, self.key)
        return limit

    def rounded_up(self, value: float) -> float:
        """Return the least value that a user can type and that allows so much, up to the tolerance of solvers."""
        step = self.step or 1.0
        return round(math.ceil(value / step - 1e-6) * step, 6)

    def capacity(self, value: float) -> int:
        """Return a value of the limit in whole units of a timetable, rounded down."""
        return math.floor(self.parts * value + 1e-6)

    def need(self, amount: float) -> int:
        """Return what is used in whole units of a timetable, rounded up."""
        return math.ceil(self.parts * amount - 1e-6)


def machine_kilowatts(offer: Offer, gpu: GpuSpec | None) -> float:
    """Return the kilowatts that one machine draws in training, host included; nan where the TDP is not published.

    Of an own machine they are its `power_watts`, of a rented one 1.44 times the TDP of its GPUs, as for an own machine
    whose power is not stated. A managed service and a machine without GPUs draw nothing that is counted.

    8 GPUs of 700 W: 8 * 0.7 * 1.44 = 8.064 kW.
    """
    if not offer.rents_gpus or gpu is None:
        return 0.0
    own = offer.own or offer.buy
    if own is not None and own.power_watts is not None:
        return own.power_watts / WATTS_PER_KILOWATT
    return math.nan if gpu.tdp_w is None else default_power_watts(gpu.tdp_w, offer.gpus) / WATTS_PER_KILOWATT


PEAK_LIMITS = (
    PeakLimit(
        "max_gpus",
        of_machine=lambda offer, _: float(offer.gpus if offer.rents_gpus else 0),
        parts=1,
        step=1.0,
        unit="GPUs",
        exceeded="it needs more GPUs than a limit, quota or stock allows",
        lacking="needs more GPUs than a limit allows",
        excludes="it needs {new:,.0f} GPUs; at most {old:,.0f} may be used",
        used="max_gpus under {used:.0f} would change it: the plan rents that many",
        counts_quota=True,
        worth="gpu",
    ),
    PeakLimit("max_usd_per_hour", of_machine=None, parts=100, step=None),
    PeakLimit(
        "max_kilowatts",
        of_machine=machine_kilowatts,
        parts=100_000,  # 1.44 times a TDP in whole watts is a whole number of these
        step=0.01,
        unit="kW",
        exceeded="its machines draw more than limits.max_kilowatts",
        lacking="draws more power than a limit allows",
        excludes="its machines draw {new:.4g} kW; at most {old:.4g} kW may be drawn",
        used="max_kilowatts under {used:.6g} would change it: the machines of the plan draw that",
        unknown="the power of its GPU is not published",
    ),
    PeakLimit(
        "outlay_usd",
        of_machine=lambda offer, _: offer.outlay_usd,
        parts=100,
        step=1.0,
        unit="usd",
        exceeded="what is paid at once exceeds limits.outlay_usd",
        lacking="is paid at once for more than limits.outlay_usd",
        excludes="${new:,.2f} are paid at once; at most ${old:,.2f} may be",
        used="outlay_usd under ${used:,.2f} would change it: the plan pays that at once",
        stays=True,
        worth="dollar",
    ),
)
"""Every limit of this kind."""


def given_peaks(limits: Limits) -> Iterator[tuple[PeakLimit, float]]:
    """Yield the limits of this kind that a scenario gives, with their values."""
    for limit in PEAK_LIMITS:
        if (value := limit.value(limits)) is not None:
            yield limit, value


def keeps_peaks(offer: Offer, limits: Limits, gpu: GpuSpec | None) -> bool:
    """Return whether one machine of an offer alone keeps every limit of this kind but that on dollars."""
    given = ((use, most) for limit, most in given_peaks(limits) if (use := limit.of_machine) is not None)
    return all(use(offer, gpu) <= most * (1.0 + PEAK_TOLERANCE) for use, most in given)  # nan keeps none


def unknown_notes(offers: Iterable[Offer], limits: Limits, library: Library) -> tuple[str, ...]:
    """Return a note for each limit with the GPUs that are left out because what their machines use is unknown."""
    notes, rented = [], [offer for offer in offers if offer.rents_gpus and limits.permits(offer)]
    for limit, _ in given_peaks(limits):
        if (use := limit.of_machine) is not None:
            unknown = (offer.card for offer in rented if math.isnan(use(offer, library.gpu(offer.card))))
            if names := ", ".join(dict.fromkeys(unknown)):
                notes.append(f"left out for {limit.path}: {names} ({limit.unknown})")
    return tuple(notes)


def limits_spending(limits: Limits) -> bool:
    """Return whether the dollars that runs spend per hour are limited: only a timetable knows them."""
    return any(limit.is_of_dollars for limit, _ in given_peaks(limits))


def peak_limit_at(path: str) -> PeakLimit | None:
    """Return the limit of a path such as `limits.max_gpus`; None for any other path."""
    return next((limit for limit in PEAK_LIMITS if limit.path == path), None)
