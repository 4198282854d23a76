"""Services against their evaluation: what a kind may name, limits of each hour, shared limits, totals.

Nothing of how the fleet was found is known here. Queues are those of `planner.estimates`, which the search uses, too;
tests/independent computes them again. Not recomputed are the simpler fleets next to it, the bound below it,
how many kinds there were, and the notes.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from planner import generation
from planner.evaluation.audited_limits import Held, amount_of
from planner.evaluation.comparison import Broken, Tolerance, Violation, at_most, compare
from planner.library.schema import Library
from planner.results.fleet import Fleet, FleetKind, Service
from planner.results.plan import Plan
from planner.scenario.inference_job import LEAST_REPLICA_SHARE, ServeJob
from planner.scenario.limits import given_peaks
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario
from planner.services.evaluated_fleet import EvaluatedFleet, EvaluatedKind, NamedKind, evaluate_fleet, evaluate_service
from planner.services.fleet_problem import services_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def choices_of_kind(kind: EvaluatedKind) -> Iterator[Broken]:
    """Yield what the plan names of a kind and its machines of each hour, and may not; and where it may not fit."""
    named, offer, job, limits = kind.named, kind.offer, kind.job, kind.context.scenario.limits
    place = f"fleet.{named.offer}"
    if not limits.permits(offer) or limits.is_outdated(offer):
        yield place, "an offer that the limits allow", offer.label
    if (named.market == "committed") != (offer.commitment is not None):
        yield f"{place}.market", "committed where the offer is a commitment", named.market
    if named.market == "committed" and len(set(named.by_hour)) > 1:
        yield f"{place}.by_hour", "the same number in every hour", "several"
    if min(named.by_hour) < 0:
        yield f"{place}.by_hour", "numbers of at least 0", min(named.by_hour)
    for choice, wanted, chosen in generation.choices_of_replicas(kind.context, job):
        yield f"{place}.{choice}", wanted, chosen
    fit = kind.replica.fit_probability if kind.replica.fitting else 0.0
    if fit <= 0.0 or (fit < job.memory_confidence and limits.vram_headroom is None):
        yield f"{place}.memory", job.memory_confidence, fit


CLOSE = 1e-6
"""Relative difference of two figures that are the same."""
SMALL_USD = 1e-6
"""Dollars by which two figures may differ: a start may cost a few cents."""
ROOM_OF_LATENCY = 1e-4
"""Share by which the latency at a capacity may lie above its limit, which is searched from the other side."""


COUNTED = ("api", "fees", "load", "use_by_hour")
"""Parts of a fleet that are counted, too: a line without dollars, an hour without load, is nothing to compare."""


def audit_services(plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
    """Return every disagreement between the services of a plan and what follows from scenario and library."""
    violations: list[Violation] = []
    served = [job.name for job in services_of(scenario)]
    violations += compare(
        "", "services", ", ".join(served), ", ".join(service.name for service in plan.services), tolerance
    )
    for service in plan.services:
        job = next((asked for asked in services_of(scenario) if asked.name == service.name), None)
        if job is not None:
            violations += _audit_service(service, job, scenario, library, plan.as_of, tolerance)
    violations += _begins(plan, scenario, tolerance) + shared_hours(plan, scenario, library)
    return violations + (_end(plan, tolerance) if plan.jobs else totals_of_services(plan, scenario, tolerance))


def _audit_service(
    service: Service, job: ServeJob, scenario: Scenario, library: Library, as_of: str, tolerance: Tolerance
) -> list[Violation]:
    """Return what is wrong with one service."""
    violations, name, stated = list[Violation](), service.name, service.fleet.kinds
    if unknown := {kind.offer for kind in stated} - {label for label, _ in scenario.labelled_offers()}:
        return [Violation(name, "fleet.offers", "offers of the scenario", ", ".join(sorted(unknown)))]
    try:
        fleet = evaluate_fleet([NamedKind.of(kind) for kind in stated], job, scenario, library)
        violations += [Violation(name, *broken) for kind in fleet.kinds for broken in choices_of_kind(kind)]
        made = evaluate_service(fleet, datetime.date.fromisoformat(as_of))
        violations += compare(name, "", _completed(made, service), service, replace(tolerance, usd=SMALL_USD))
        for lines in COUNTED:
            mine, others = (len(getattr(service_of.fleet, lines)) for service_of in (made, service))
            violations += compare(name, f"number of fleet.{lines}", mine, others, tolerance)
        violations += [Violation(name, *broken) for broken in _hours(fleet, made.fleet, scenario, library)]
        violations += [Violation(name, *broken) for broken in _beyond_limits(made.fleet)]
        violations += [Violation(name, *broken) for broken in _mixture(made.fleet, job.most_kinds)]
        violations += [
            Violation(name, *broken)
            for broken in at_most("bound_usd", made.cost_usd, service.bound_usd, CLOSE * made.cost_usd)
        ]
    except (ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
        # A plan of nonsense names or counts has no figures to compare.
        violations.append(Violation(name, "figures", "something to compute", repr(error)))
    if len({replace(NamedKind.of(kind), by_hour=()) for kind in stated}) < len(stated):
        violations.append(Violation(name, "fleet.kinds", "each kind once", len(stated)))
    return violations


NOT_EVALUATED = ("bound_usd", "starts_at_hours", "kinds_made", "kinds_left", "looser", "assumed", "notes")
"""What a plan says of a service beside what its names decide; simpler fleets too."""


def _completed(made: Service, stated: Service) -> Service:
    """Return the evaluated service with what a plan says beside it."""
    update = {name: getattr(stated.fleet, name) for name in ("baselines", "any_mix", "secure")}
    fleet = made.fleet.model_copy(update=update)
    return made.model_copy(update={"fleet": fleet, **{name: getattr(stated, name) for name in NOT_EVALUATED}})


def _hours(fleet: EvaluatedFleet, made: Fleet, scenario: Scenario, library: Library) -> Iterator[Broken]:
    """Yield the limits that the machines of an hour break."""
    limits, job = scenario.limits, fleet.job
    for hour, load in enumerate(fleet.load):
        place, able, on_spot = f"fleet.hour {hour}", fleet.able[hour], fleet.on_spot[hour]
        least = (
            ("capacity", load, able),
            ("replicas", job.replicas.min, fleet.replicas[hour]),
            ("served on average", job.latency.share * load, fleet.served[hour] * load),
            ("on demand", (1.0 - limits.spot_share.max) * load, able - on_spot),
            ("on spot", limits.spot_share.min * load, on_spot),
        )
        for limit, wanted, reached in least:
            if not reached >= wanted - CLOSE * max(load, 1.0):
                yield f"{place}: {limit}", f"at least {wanted:.6g}", reached
        machines = [(kind, kind.by_hour[hour]) for kind in made.kinds]
        yield from _machines_of_hour(place, machines, scenario, fleet.offers, library)


def _mixture(fleet: Fleet, most_kinds: int | None) -> Iterator[Broken]:
    """Yield where a fleet is of more kinds than asked for, or a replica carries too little of its even share."""
    if most_kinds is None:
        return
    yield from at_most("fleet.kinds: most_kinds", most_kinds, len(fleet.kinds))
    for hour, replicas in enumerate(fleet.replicas_by_hour):
        there = [(kind.capacity, kind.replicas, kind.by_hour[hour]) for kind in fleet.kinds if kind.by_hour[hour]]
        able = math.fsum(capacity * count for capacity, _, count in there)
        for capacity, count_of_replicas, _ in there:
            share = capacity / count_of_replicas / (able / replicas)
            if not share >= LEAST_REPLICA_SHARE - CLOSE:
                yield f"fleet.hour {hour}: share of a replica", f"at least {LEAST_REPLICA_SHARE:g}", share


def _beyond_limits(fleet: Fleet) -> Iterator[Broken]:
    """Yield the limits on latency that the slowest kind exceeds in the hour of most use."""
    for limit in fleet.limits:
        seconds = limit.predicted_seconds
        yield from at_most(f"fleet.limits.{limit.name}", limit.limit_seconds, seconds, ROOM_OF_LATENCY * seconds)


def _begins(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """Return where a service begins before a job that it waits for has ended."""
    ends = {job.name: job.delay_hours + job.hours.at_confidence for job in plan.jobs}
    violations: list[Violation] = []
    for service in plan.services:
        after = next((job.after for job in scenario.jobs if job.name == service.name), ())
        start = max((ends.get(wait.job, math.inf) + wait.lag_hours for wait in after), default=0.0)
        violations += compare(service.name, "starts_at_hours", start, service.starts_at_hours, tolerance, "hours")
    return violations


def _end(plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Return where a plan with jobs ends before its services; its dollars are checked with the jobs."""
    ends = [job.delay_hours + job.hours.at_confidence for job in plan.jobs]
    last = max([*ends, *(service.starts_at_hours + service.for_hours for service in plan.services)])
    hours = plan.hours.at_confidence if plan.hours else None
    return compare("", "hours", last, hours, tolerance, "hours")


# What several services take of shared limits in each hour, in plain sums: stock, quotas, GPUs, dollars per hour.
#
# Services count in all hours of the week, even where one ends or begins earlier than another.


def shared_hours(plan: Plan, scenario: Scenario, library: Library) -> list[Violation]:
    """Return the limits that the services of a plan break together in an hour; those of one alone are its own."""
    offers = dict(scenario.labelled_offers())
    if len(plan.services) < 2 or not all(_is_sound(service, offers) for service in plan.services):
        return []
    hours = math.lcm(*(len(service.fleet.load) for service in plan.services))
    violations: list[Violation] = []
    for hour in range(hours):
        machines = [
            (kind, kind.by_hour[hour % len(service.fleet.load)])
            for service in plan.services
            for kind in service.fleet.kinds
        ]
        violations += [
            Violation("", *broken)
            for broken in _machines_of_hour(f"services.hour {hour}", machines, scenario, offers, library)
        ]
    return violations


def _is_sound(service: Service, offers: dict[str, Offer]) -> bool:
    """Return whether each kind has an offer and all hours: where not, the service has a fault of its own."""
    hours = len(service.fleet.load)
    return hours > 0 and all(kind.offer in offers and len(kind.by_hour) == hours for kind in service.fleet.kinds)


def _held(kind: FleetKind, count: int, offer: Offer) -> Held:
    """Return so many machines of a kind as what is held at one time."""
    return Held(offer, count, offer.gpus * count, kind.usd_per_hour * count)


def _above_peaks(place: str, held: list[Held], scenario: Scenario, library: Library) -> Iterator[Broken]:
    """Yield the limits on one time that machines break together."""
    for limit, most in given_peaks(scenario.limits):
        used = math.fsum(amount_of(limit.key, machines, library) for machines in held)
        yield from at_most(f"{place}: {limit.name}", most, used, 1e-6 * used)


def _machines_of_hour(
    place: str, machines: list[tuple[FleetKind, int]], scenario: Scenario, offers: Mapping[str, Offer], library: Library
) -> Iterator[Broken]:
    """Yield the limits that machines break together in an hour."""
    limits, by_provider, by_offer = scenario.limits, Counter[str](), Counter[str]()
    for kind, count in machines:
        by_offer[kind.offer] += count
        by_provider[offers[kind.offer].provider] += count * offers[kind.offer].gpus
    held = [_held(kind, count, offers[kind.offer]) for kind, count in machines]
    yield from _above_peaks(place, held, scenario, library)
    for provider, most in limits.quota.items():
        yield from at_most(f"{place}: quota of {provider}", most, by_provider[provider])
    for label, count in sorted(by_offer.items()):
        yield from at_most(f"{place}: stock of {label}", offers[label].stock, count)


# Totals of a plan with services alone.


def totals_of_services(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """Return totals of a plan that are not those of its services, and a budget that they exceed."""
    usd = math.fsum(service.cost_usd for service in plan.services)
    alone = math.fsum(service.bound_usd for service in plan.services)
    bound = alone if plan.shared_bound_usd is None else plan.shared_bound_usd
    hours = max((service.for_hours for service in plan.services), default=0.0)
    cost, time = plan.cost, plan.hours
    figures = (
        ("objective", usd, plan.objective, "usd"),
        ("bound", bound, plan.bound, "usd"),
        ("cost_at_confidence", usd, plan.cost_at_confidence, "usd"),
        ("outlay_usd", math.fsum(service.outlay_usd for service in plan.services), plan.outlay_usd, "usd"),
        *((f"cost_usd.{name}", usd, cost and getattr(cost, name), "usd") for name in ("expected", "low", "high")),
        *(
            (f"hours.{name}", hours, time and getattr(time, name), "hours")
            for name in ("expected", "low", "high", "at_confidence")
        ),
        ("budget_usd", scenario.limits.budget_usd, plan.budget_usd, "usd"),
    )
    violations = [
        violation
        for name, wanted, value, unit in figures
        for violation in compare("", name, wanted, value, tolerance, unit)
    ]
    ages = (service.price_age_days for service in plan.services)  # which are those of their offers
    oldest = max((age for age in ages if age is not None), default=None)
    violations += compare("", "price_age_days", oldest, plan.price_age_days, tolerance)
    violations += _counts(plan, tolerance)
    room = tolerance.room("usd", usd)
    violations += [Violation("", *broken) for broken in at_most("shared_bound_usd", usd, bound, room)]
    return violations + [
        Violation("", *broken) for broken in at_most("cost_usd", scenario.limits.budget_usd, usd, room)
    ]


def _counts(plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Return counts of kinds that do not fit each other; how many there were is not counted again."""
    counts = plan.candidates
    dominated = sum(max(0, service.kinds_made - service.kinds_left) for service in plan.services)
    figures = (
        ("candidates.rejected", sum(counts.reasons.values()), counts.rejected),
        ("candidates.dominated", dominated, counts.dominated),
    )
    return [violation for name, wanted, value in figures for violation in compare("", name, wanted, value, tolerance)]
