"""Check of the other ways that a plan names: further ways if its machines cannot be had, and their purchase."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from pydantic import ValidationError

from planner.evaluation.comparison import Broken, Tolerance, Violation
from planner.results.plan import Assignment, Plan, plan_figures
from planner.results.plan_parts import FurtherWay, Purchase
from planner.scenario.fees import fee_items, fee_rate
from planner.scenario.offer import Offer
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
            yield from (
                Violation(job.name, *broken) for broken in _purchase(job.purchase, job, scenario.for_sale, tolerance)
            )


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
    other = plan.model_copy(update={**figures, "baseline": None, "faster": (), "infeasible": None})
    for found in audit_jobs(other, reduced):
        yield Violation(found.job or job.name, f"{what}: {found.what}", found.expected, found.found)
    for name in ("provider", "gpu", "gpus", "runs_at_once"):
        if getattr(way, name) != getattr(mine, name):
            yield Violation(job.name, f"{what}.{name}", getattr(mine, name), getattr(way, name))
    more = figures["cost_usd"].expected - (plan.cost_usd.expected if plan.cost_usd else 0.0)
    hours = mine.delay_hours + mine.hours.expected
    for name, expected, room in (
        ("cost_usd", mine.cost_usd, tolerance.usd),
        ("more_usd", more, tolerance.usd * (1 + len(jobs))),
        ("hours", hours, tolerance.hours * hours),
    ):
        if not abs(getattr(way, name) - expected) <= room:
            yield Violation(job.name, f"{what}.{name}", expected, getattr(way, name))


def _purchase(one: Purchase, job: Assignment, for_sale: Sequence[Offer], tolerance: Tolerance) -> Iterator[Broken]:
    """Yield where the purchase contradicts the bill of the job, or the offer where that is at hand."""
    machines = job.instances * job.runs_at_once
    paid = [line for line in job.bill if line.unit == "h" and not line.item.rpartition(" at ")[1]]
    worked = math.fsum(line.quantity or 0.0 for line in paid if line.item not in _WASTED)
    hours = worked / machines + (job.start_hours if job.spot else 0.0)
    rent = math.fsum(line.usd for line in paid) / hours
    same = (offer for offer in for_sale if (offer.gpu, offer.gpus) == (job.gpu, job.gpus_per_instance))
    offer = next(same, None)
    if offer is None or offer.buy is None:
        yield "purchase", None, one.offer
        return
    buy = offer.buy
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    worst, best = buy.residual_range or (buy.residual_share, buy.residual_share)
    kilowatts = machines * (buy.power_watts or 0.0) / 1000
    running = kilowatts * buy.pue * buy.usd_per_kwh + machines * buy.idle_usd_per_month / MONTH_HOURS
    running += machines * (fee_rate(offer.fees, "machine hours") or 0.0)
    saved = rent - running
    lost = (buy.purchase_usd * (1 - buy.residual_share), low * (1 - best), high * (1 - worst))
    pays = [machines * each / saved if saved > 0 else None for each in lost]
    told: dict[str, str | float | None] = {
        "offer": offer.label,
        "date": offer.date_text,
        "source": offer.source,
        "machines": machines,
        "hours": hours,
        "rent_usd_per_hour": rent,
        "running_usd_per_hour": running,
        "usd": machines * buy.purchase_usd,
        "low_usd": machines * low,
        "high_usd": machines * high,
        "pays_from_hours": pays[0],
        "pays_from_hours_low": pays[1],
        "pays_from_hours_high": pays[2],
    }
    for name, value in told.items():
        found = getattr(one, name)
        if isinstance(value, float) and isinstance(found, float):
            if abs(found - value) <= tolerance.hours * max(1.0, abs(value)):
                continue
        elif found == value:
            continue
        yield f"purchase.{name}", value, found
