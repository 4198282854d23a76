"""What a plan says of a service next to its fleet: its requests, its prices' age, services by the token, totals."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

from planner.audit.replicas.fleet_kind import equal
from planner.evaluation.comparison import Broken, Tolerance, Violation, at_most, compare
from planner.library.names import hosted_name
from planner.units import MEGA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.results.plan import Plan
    from planner.results.serving.fleet import Service
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario
    from planner.scenario.serving.job import ServeJob


def facts_of_service(service: Service, job: ServeJob, offers: Mapping[str, Offer]) -> Iterator[Broken]:
    """Yield facts of requests and prices that are not those of the scenario."""
    work, fleet = job.work, service.fleet
    yield from equal("input_tokens", work.total_input_tokens / work.total_requests, service.input_tokens)
    yield from equal("output_tokens", work.total_output_tokens / work.total_requests, service.output_tokens)
    used = [offers[one.offer] for one in fleet.kinds]
    unit = "requests/s" if job.load.concurrent is None else "requests in flight"
    exact = (
        ("architecture", job.architecture, service.architecture),
        ("prefix_tokens", work.prefix_tokens, service.prefix_tokens),
        ("fleet.unit", unit, fleet.unit),
        ("price_date", max((one.date_text for one in used), default=""), service.price_date),
        ("price_source", "; ".join(dict.fromkeys(one.source for one in used if one.source)), service.price_source),
    )
    for name, wanted, found in exact:
        if wanted != found:
            yield name, wanted, found
    different = {
        (one.offer, one.market, one.engine, one.weight_format, one.gpus_per_replica, one.pipeline_parallel)
        for one in fleet.kinds
    }
    if len(different) < len(fleet.kinds):
        yield "fleet.kinds", "each kind once", len(fleet.kinds)


def services_of_fleet(
    service: Service, job: ServeJob, scenario: Scenario, usd: float, requests: float, standing: float
) -> Iterator[Broken]:
    """Yield prices of services by the token that are not those of the offers.

    `usd`: of the fleet in a month, with so many `requests`; `standing`: of a month of its cheapest hour.
    """
    work, expected = job.work, {}
    for label, offer in scenario.labelled_offers():
        price = offer.managed
        if price is None or not price.answers or hosted_name(job.architecture) not in price.architectures:
            continue
        tokens_in = work.total_input_tokens * (price.usd_per_million_input_tokens or 0.0)
        tokens_out = work.total_output_tokens * (price.usd_per_million_output_tokens or 0.0)
        each = (tokens_in + tokens_out) / MEGA / work.total_requests
        pays = standing / each if each * requests > usd else None
        expected[label] = (each * requests, each * 1000.0, pays, price.hosts_tuned, offer.source)
    if sorted(expected) != sorted(one.offer for one in service.fleet.api):
        yield "fleet.api", ", ".join(sorted(expected)), ", ".join(one.offer for one in service.fleet.api)
        return
    for one in service.fleet.api:
        whole, each, pays, hosts, source = expected[one.offer]
        place = f"fleet.api.{one.offer}"
        yield from equal(f"{place}.usd", whole, one.usd)
        yield from equal(f"{place}.usd_per_thousand_requests", each, one.usd_per_thousand_requests)
        if (pays is None) != (one.pays_from_requests is None):
            yield f"{place}.pays_from_requests", pays, one.pays_from_requests
        elif pays is not None and one.pays_from_requests is not None:
            yield from equal(f"{place}.pays_from_requests", pays, one.pays_from_requests)
        if (one.hosts_tuned, one.source) != (hosts, source):
            yield f"{place}.source", f"{hosts}, {source}", f"{one.hosts_tuned}, {one.source}"


def totals_of_services(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """Return totals of a plan that are not those of its services, and a budget that they exceed."""
    usd = math.fsum(one.cost_usd for one in plan.services)
    alone = math.fsum(one.bound_usd for one in plan.services)
    bound = alone if plan.shared_bound_usd is None else plan.shared_bound_usd
    hours = max((one.for_hours for one in plan.services), default=0.0)
    cost, time = plan.cost_usd, plan.hours
    figures = (
        ("objective", usd, plan.objective, "usd"),
        ("bound", bound, plan.bound, "usd"),
        ("cost_at_confidence", usd, plan.cost_at_confidence, "usd"),
        *((f"cost_usd.{name}", usd, cost and getattr(cost, name), "usd") for name in ("expected", "low", "high")),
        *(
            (f"hours.{name}", hours, time and getattr(time, name), "hours")
            for name in ("expected", "low", "high", "at_confidence")
        ),
        ("budget_usd", scenario.limits.budget_usd, plan.budget_usd, "usd"),
    )
    found = [one for name, wanted, value, unit in figures for one in compare("", name, wanted, value, tolerance, unit)]
    offers = dict(scenario.labelled_offers())
    ages = [_age(one, plan, offers) for one in plan.services]
    for service, age in zip(plan.services, ages, strict=True):
        found += compare(service.name, "price_age_days", age, service.price_age_days, tolerance)
    oldest = max((one for one in ages if one is not None), default=None)
    found += compare("", "price_age_days", oldest, plan.price_age_days, tolerance)
    found += _counts(plan, tolerance)
    room = tolerance.room("usd", usd)
    found += [Violation("", *one) for one in at_most("shared_bound_usd", usd, bound, room)]
    return found + [Violation("", *one) for one in at_most("cost_usd", scenario.limits.budget_usd, usd, room)]


def _age(service: Service, plan: Plan, offers: Mapping[str, Offer]) -> int | None:
    """Return the days of the oldest price of a service on the day of the plan."""
    day = datetime.date.fromisoformat(plan.as_of)
    dates = [offers[one.offer].first_date for one in service.fleet.kinds if one.offer in offers]
    return max(((day - one).days for one in dates if one), default=None)


def _counts(plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Return counts of kinds that do not fit each other; how many there were is not counted again."""
    counts = plan.candidates
    dominated = sum(max(0, one.kinds_made - one.kinds_left) for one in plan.services)
    figures = (
        ("candidates.rejected", sum(counts.reasons.values()), counts.rejected),
        ("candidates.dominated", dominated, counts.dominated),
    )
    return [one for name, wanted, value in figures for one in compare("", name, wanted, value, tolerance)]
