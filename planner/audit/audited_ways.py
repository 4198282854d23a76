"""Check of the other ways that a plan names: further ways if its machines cannot be had, and their purchase."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from pydantic import ValidationError

from planner.evaluation.comparison import Broken, Tolerance, Violation
from planner.evaluation.named_run import hourly_price
from planner.results.plan import Assignment, Plan, plan_figures
from planner.results.plan_parts import FurtherWay, Purchase
from planner.scenario.fees import fee_items, fee_rate
from planner.scenario.offer import Offer
from planner.scenario.own_machines import Buy
from planner.scenario.scenario import Scenario
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Check of the other ways that a plan names: further ways if its machines cannot be had, and their purchase.
#
# A further way is a plan of the scenario without the machines of the plan and of the ways before it, so it is audited
# as such a plan: its figures, its limits, and that it is at another provider or on another card.


_WASTED = {"lost on spot", "move to on demand", "starts on demand", "starts and losses", "rounded up"}
_WASTED |= fee_items("machine hours")  # of hours that another line has


class AuditPlan(Protocol):
    """The audit of the jobs and limits of a plan, whose objective is not claimed."""

    def __call__(self, plan: Plan, scenario: Scenario, /) -> list[Violation]:
        """Return what its jobs break, each by itself and together."""
        ...


def ways_of_plan(plan: Plan, scenario: Scenario, tolerance: Tolerance, audit_jobs: AuditPlan) -> Iterator[Violation]:
    """Yield what the further ways and purchases of a plan break; `audit_jobs` audits the jobs of one way."""
    wanted = scenario.limits.fallbacks
    free = scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"fallbacks": 0})})
    for job in plan.jobs:
        if len(job.fallbacks) != wanted:
            yield Violation(job.name, "limits.fallbacks", f"{wanted} further ways", len(job.fallbacks))
        taken = [(job.provider, job.gpu)]
        for number, way in enumerate(job.fallbacks, 1):
            what = f"fallbacks[{number}]"
            reduced = free.model_copy(update={"offers": _others(free.offers, taken), "offers_inline": ()})
            yield from _way(what, job, way, plan, reduced, tolerance, audit_jobs)
            taken.append((way.provider, way.gpu))
        if job.purchase is not None:
            yield from (Violation(job.name, *broken) for broken in _purchase(job.purchase, job, scenario, tolerance))


def _others(offers: Sequence[Offer], taken: Sequence[tuple[str, str]]) -> tuple[Offer, ...]:
    """Return the offers of other providers, or with other cards."""
    return tuple(
        offer for offer in offers if (offer.provider, "managed" if offer.is_managed else offer.card) not in taken
    )


def _way(
    what: str,
    job: Assignment,
    way: FurtherWay,
    plan: Plan,
    reduced: Scenario,
    tolerance: Tolerance,
    audit_jobs: AuditPlan,
) -> Iterator[Violation]:
    """Yield what one further way of a job breaks, and where its summary is not that of its jobs."""
    try:
        jobs = tuple(Assignment.model_validate(stated) for stated in way.jobs)
    except ValidationError:
        yield Violation(job.name, f"{what}.jobs", "jobs as in the plan", "something else")
        return
    mine = next((way_job for way_job in jobs if way_job.name == job.name), None)
    if mine is None:
        yield Violation(job.name, f"{what}.jobs", f"the job {job.name}", None)
        return
    figures = plan_figures(jobs, way.reservations)
    update = {"baseline": None, "faster": (), "infeasible": None, "keeps_typical_stock": way.keeps_typical_stock}
    other = plan.model_copy(update={**figures, **update})
    for found in audit_jobs(other, reduced):
        yield Violation(found.job or job.name, f"{what}: {found.what}", found.expected, found.found)
    for name in ("provider", "gpu", "gpus", "runs_at_once"):
        if getattr(way, name) != getattr(mine, name):
            yield Violation(job.name, f"{what}.{name}", getattr(mine, name), getattr(way, name))
    more = figures["cost"].expected - (plan.cost.expected if plan.cost else 0.0)
    hours = mine.delay_hours + mine.hours.expected
    for name, expected, room in (
        ("cost_usd", mine.cost_usd, tolerance.usd),
        ("more_usd", more, tolerance.usd * (1 + len(jobs))),
        ("hours", hours, tolerance.hours * hours),
    ):
        if not abs(getattr(way, name) - expected) <= room:
            yield Violation(job.name, f"{what}.{name}", expected, getattr(way, name))


def _purchase(one: Purchase, job: Assignment, scenario: Scenario, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield where the purchase contradicts the bill of the job, or the offer where that is at hand."""
    machines, bought = job.instances * job.runs_at_once, job.tier == "bought"
    same = (offer for offer in scenario.for_sale if (offer.gpu, offer.gpus) == (job.gpu, job.gpus_per_instance))
    offer = dict(scenario.labelled_offers()).get(job.offer) if bought else next(same, None)
    if offer is None or offer.buy is None:
        yield "purchase", None, one.offer
        return
    buy, fees = offer.buy, fee_rate(offer.fees, "machine hours") or 0.0
    horizon = scenario.horizon if bought else None
    monthly = horizon.hours_per_month if horizon else MONTH_HOURS
    hours, rent = _bought(job, offer, scenario) if bought else _rented(job)
    rent = None if rent is None else rent * machines
    power = (buy.power_watts or 0.0) / 1000 * buy.pue * buy.usd_per_kwh
    running = machines * (power + buy.idle_usd_per_month / monthly + fees)
    saved = 0.0 if rent is None else rent - running
    hourly: list[float | None] = [None, None]
    if horizon is not None:
        months = min(horizon.months, buy.life_months or horizon.months)
        spread = (_lost(buy, months, 0, horizon.interest) + buy.idle_usd_per_month * months) / months / monthly
        hourly = [machines * (power + fees + spread), machines * (power + fees + 2 * spread)]
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    told: dict[str, str | float | None] = {
        "is_bought": bought,
        "offer": offer.label,
        "date": offer.date_text,
        "source": offer.source,
        "machines": machines,
        "hours": hours / machines,
        "rent_usd_per_hour": rent,
        "hours_per_month": monthly,
        "running_usd_per_hour": running,
        "usd": machines * buy.purchase_usd,
        "low_usd": machines * low,
        "high_usd": machines * high,
        "life_months": buy.life_months,
        "without": buy.without or "",
        "interest": horizon.interest if horizon else 0.0,
        "usd_per_hour": hourly[0],
        "half_use_usd_per_hour": hourly[1],
        "price_back_hours": machines * buy.purchase_usd / saved if saved > 0 else None,
    }
    for name, value in told.items():
        found = getattr(one, name)
        if isinstance(value, float) and isinstance(found, float):
            if abs(found - value) <= tolerance.hours * max(1.0, abs(value)):
                continue
        elif found == value:
            continue
        yield f"purchase.{name}", value, found
    ends = (one.pays_from_hours, one.pays_from_hours_low, one.pays_from_hours_high)
    for which, (name, pays) in enumerate(zip(("", "_low", "_high"), ends, strict=True)):
        if not _breaks_even(buy, pays, saved / machines, monthly, which, horizon.interest if horizon else 0.0):
            yield f"purchase.pays_from_hours{name}", "hours at which the rent saved is what is lost", pays


def _rented(job: Assignment) -> tuple[float, float]:
    """Return the machine hours of work of a job, and the dollars of one machine for an hour of it."""
    machines = job.instances * job.runs_at_once
    paid = [line for line in job.bill if line.unit == "h" and not line.item.rpartition(" at ")[1]]
    hours = math.fsum(line.quantity or 0.0 for line in paid if line.item not in _WASTED)
    hours += machines * job.start_hours if job.spot else 0.0
    return hours, math.fsum(line.usd for line in paid) / hours


def _bought(job: Assignment, offer: Offer, scenario: Scenario) -> tuple[float, float | None]:
    """Return the machine hours of a job on bought machines, and the dollars of an equal one by the hour."""
    hours = next((line.quantity or 0.0 for line in job.bill if line.item == "wear of own machines"), 0.0)
    rented = [
        other
        for _, other in scenario.labelled_offers()
        if other.tier in ("secure", "community") and scenario.limits.permits(other)
    ]
    price = hourly_price(offer, rented)
    return hours, None if price is None else price + (fee_rate(offer.fees, "machine hours") or 0.0)


def _lost(buy: Buy, months: float, which: int, interest: float) -> float:
    """Return what one machine loses by an age, with interest: as stated (0), the least (1) or the most (2)."""
    price = buy.purchase_usd if which == 0 or not buy.purchase_range_usd else buy.purchase_range_usd[which - 1]
    if (resale := buy.resale) is None:
        left = buy.residual_share if which == 0 or not buy.residual_range else buy.residual_range[2 - which]
    elif resale.half_life_months is not None:
        half = (
            resale.half_life_months if which == 0 or not resale.half_life_range else resale.half_life_range[2 - which]
        )
        left = resale.used_share * math.exp(-math.log(2) * months / half)
    else:
        left = resale.share(months)
    monthly = (1 + interest) ** (1 / 12) - 1
    later = (1 + monthly) ** -months
    if 1 - later < 1e-12:
        return price * (1 - left)
    return float(months * price * (1 - left * later) * monthly / (1 - later))


def _breaks_even(buy: Buy, pays: float | None, saved: float, monthly: float, which: int, interest: float) -> bool:
    """Return whether the rent saved by some hours of use is what is lost by then; None: it is less all its life."""
    months = (buy.life_months or 12_000.0) if pays is None else pays / monthly
    gain, most = saved * monthly * months - _lost(buy, months, which, interest), 1e-6 * buy.purchase_usd
    return gain < most if pays is None else abs(gain) <= most or (gain > 0 and pays <= 1e-6)
