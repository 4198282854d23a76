"""Services in plain floats, hour by hour: capacity, price, starts, loads, shared limits, dollars, totals.

Nothing of how the fleet was found is known here. Not recomputed are the simpler fleets next to it, the bound below it,
how many kinds there were, and the notes.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import TYPE_CHECKING

from planner.audit.audited_kind import CAPACITY_ROOM, CLOSE, AuditedKind, equal
from planner.audit.peak_amounts import Held, amount_of
from planner.evaluation.comparison import Broken, Tolerance, Violation, at_most, compare
from planner.library.names import hosted_name
from planner.library.schema import Library
from planner.results.fleet import Fleet, FleetKind, Service
from planner.results.plan import Plan
from planner.scenario.fees import fees_that_count
from planner.scenario.offer import Offer
from planner.scenario.peak_limits import given_peaks
from planner.scenario.scenario import Scenario, services_of
from planner.scenario.service_load import ServeJob
from planner.units import HOUR, MEGA, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# What several services take of shared limits in each hour, in plain sums: stock, quotas, GPUs, dollars per hour.
#
# Services count in all hours of the week, even where one ends or begins earlier than another.


def shared_hours(plan: Plan, scenario: Scenario, library: Library) -> list[Violation]:
    """Return the limits that the services of a plan break together in an hour; those of one alone are its own."""
    offers = dict(scenario.labelled_offers())
    if len(plan.services) < 2 or not all(_is_sound(service, offers) for service in plan.services):
        return []
    hours = math.lcm(*(len(service.fleet.load) for service in plan.services))
    found: list[Violation] = []
    for hour in range(hours):
        machines = [
            (kind, kind.by_hour[hour % len(service.fleet.load)])
            for service in plan.services
            for kind in service.fleet.kinds
        ]
        found += [
            Violation("", *broken)
            for broken in _shared_hour(f"services.hour {hour}", machines, scenario, offers, library)
        ]
    return found


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
        used = math.fsum(amount_of(limit.key, one, library) for one in held)
        yield from at_most(f"{place}: {limit.name}", most, used, 1e-6 * used)


def _shared_hour(
    place: str, machines: list[tuple[FleetKind, int]], scenario: Scenario, offers: dict[str, Offer], library: Library
) -> Iterator[Broken]:
    """Yield the limits that the machines of all services break in an hour."""
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


# What a plan says of a service next to its fleet: its requests, its prices' age, services by the token, totals.


def facts_of_service(service: Service, job: ServeJob, offers: Mapping[str, Offer]) -> Iterator[Broken]:
    """Yield facts of requests and prices that are not those of the scenario."""
    work, fleet = job.work, service.fleet
    yield from equal("input_tokens", work.total_input_tokens / work.total_requests, service.input_tokens)
    yield from equal("output_tokens", work.total_output_tokens / work.total_requests, service.output_tokens)
    used = [offers[kind.offer] for kind in fleet.kinds]
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
        (kind.offer, kind.market, kind.engine, kind.weight_format, kind.gpus_per_replica, kind.pipeline_parallel)
        for kind in fleet.kinds
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
    dates = [offers[kind.offer].first_date for kind in service.fleet.kinds if kind.offer in offers]
    return max(((day - date).days for date in dates if date), default=None)


def _counts(plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Return counts of kinds that do not fit each other; how many there were is not counted again."""
    counts = plan.candidates
    dominated = sum(max(0, service.kinds_made - service.kinds_left) for service in plan.services)
    figures = (
        ("candidates.rejected", sum(counts.reasons.values()), counts.rejected),
        ("candidates.dominated", dominated, counts.dominated),
    )
    return [one for name, wanted, value in figures for one in compare("", name, wanted, value, tolerance)]


MOST_INDEPENDENT = 12
"""Spot groups of an hour that are lost on their own; smaller ones beyond that are never counted."""


def audit_services(plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
    """Return every disagreement between the services of a plan and what follows from scenario and library."""
    found: list[Violation] = []
    served = [job.name for job in services_of(scenario)]
    found += compare("", "services", ", ".join(served), ", ".join(one.name for one in plan.services), tolerance)
    for service in plan.services:
        job = next((one for one in scenario.jobs if one.name == service.name), None)
        if not isinstance(job, ServeJob):
            continue
        try:
            found += [Violation(service.name, *broken) for broken in _service(service, job, scenario, library)]
        except (ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
            found.append(Violation(service.name, "figures", "something to compute", repr(error)))
    found += _begins(plan, scenario, tolerance) + shared_hours(plan, scenario, library)
    return found + (_end(plan, tolerance) if plan.jobs else totals_of_services(plan, scenario, tolerance))


def _begins(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """Return where a service begins before a job that it waits for has ended."""
    ends = {job.name: job.delay_hours + job.hours.at_confidence for job in plan.jobs}
    found: list[Violation] = []
    for service in plan.services:
        after = next((job.after for job in scenario.jobs if job.name == service.name), ())
        start = max((ends.get(one.job, math.inf) + one.lag_hours for one in after), default=0.0)
        found += compare(service.name, "starts_at_hours", start, service.starts_at_hours, tolerance, "hours")
    return found


def _end(plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Return where a plan with jobs ends before its services; its dollars are checked with the jobs."""
    ends = [job.delay_hours + job.hours.at_confidence for job in plan.jobs]
    last = max([*ends, *(service.starts_at_hours + service.for_hours for service in plan.services)])
    hours = plan.hours.at_confidence if plan.hours else None
    return compare("", "hours", last, hours, tolerance, "hours")


def _service(service: Service, job: ServeJob, scenario: Scenario, library: Library) -> Iterator[Broken]:
    """Yield what is wrong with one service."""
    offers, fleet = dict(scenario.labelled_offers()), service.fleet
    unknown = [one.offer for one in fleet.kinds if one.offer not in offers]
    if unknown:
        yield "fleet.offers", "offers of the scenario", ", ".join(unknown)
        return
    kinds = [AuditedKind(one, offers[one.offer], job, scenario, library) for one in fleet.kinds]
    load = job.load.hourly
    if len(fleet.load) != len(load) or any(abs(a - b) > CLOSE * b for a, b in zip(fleet.load, load, strict=False)):
        yield "fleet.load", "the load of the scenario", "another"
        return
    for kind in kinds:
        yield from kind.broken(len(load))
    if any(len(one.by_hour) != len(load) for one in fleet.kinds):
        return
    for hour, wanted in enumerate(load):
        yield from _hour(kinds, hour, wanted * (1.0 + job.headroom), job, scenario, library)
    yield from _dollars(service, kinds, job, scenario)
    yield from _latency(fleet, kinds, job)
    yield from facts_of_service(service, job, offers)


def _hour(
    kinds: list[AuditedKind], hour: int, load: float, job: ServeJob, scenario: Scenario, library: Library
) -> Iterator[Broken]:
    """Yield the limits that the fleet of an hour breaks."""
    place, limits, slack = f"fleet.hour {hour}", scenario.limits, CLOSE * max(load, 1.0)
    machines = [(kind, kind.named.by_hour[hour]) for kind in kinds]

    def carried(which: list[tuple[AuditedKind, int]]) -> float:
        return math.fsum(kind.named.capacity * count for kind, count in which)

    def least(what: str, wanted: float, found: float) -> Iterator[Broken]:
        if found < wanted - slack:
            yield f"{place}: {what}", f"at least {wanted:.6g}", found

    yield from least("capacity", load, carried(machines))
    standing = sum(kind.named.replicas * count for kind, count in machines)
    yield from least("replicas", job.replicas.min, standing)
    on_spot = [machine for machine in machines if machine[0].named.market == "spot"]
    yield from least("served on average", job.latency.share * load, _served_in(kinds, hour, load) * load)
    yield from least(
        "on demand", (1.0 - limits.spot_share.max) * load, carried([m for m in machines if m not in on_spot])
    )
    yield from least("on spot", limits.spot_share.min * load, carried(on_spot))
    held = [_held(kind.named, count, kind.offer) for kind, count in machines]
    yield from _above_peaks(place, held, scenario, library)
    for provider, most in limits.quota.items():
        there = sum(kind.offer.gpus * count for kind, count in machines if kind.offer.provider == provider)
        yield from at_most(f"{place}: quota of {provider}", most, there)
    for label in {kind.named.offer for kind, _ in machines}:
        same = [(kind, count) for kind, count in machines if kind.named.offer == label]
        yield from at_most(f"{place}: stock of {label}", same[0][0].offer.stock, sum(count for _, count in same))


def _group(kind: AuditedKind) -> str:
    """Return what is lost together: spot machines with one GPU at one provider."""
    return f"{kind.offer.provider}/{kind.offer.card}"


def _dollars(service: Service, kinds: list[AuditedKind], job: ServeJob, scenario: Scenario) -> Iterator[Broken]:
    """Yield dollars, starts and shares that do not follow from the machines of each hour."""
    fleet, hours = service.fleet, len(service.fleet.load)
    started = {id(kind): _starts(kind.named.by_hour) for kind in kinds}
    start_usd = math.fsum(started[id(kind)] * kind.price[1] for kind in kinds)
    usd = start_usd + math.fsum(sum(kind.named.by_hour) * kind.price[0] for kind in kinds)
    load = [one * (1.0 + job.headroom) for one in fleet.load]
    able = [math.fsum(kind.named.capacity * kind.named.by_hour[hour] for kind in kinds) for hour in range(hours)]
    use = [one / most if most else 0.0 for one, most in zip(load, able, strict=True)]
    pace = [1.0] * hours
    if job.load.concurrent is not None:
        each = [kind.pace() * kind.named.capacity for kind in kinds]
        pace = [
            math.fsum(one * kind.named.by_hour[hour] for one, kind in zip(each, kinds, strict=True)) / able[hour]
            if able[hour] else 0.0
            for hour in range(hours)
        ]  # fmt: skip
    requests = math.fsum(one * p for one, p in zip(fleet.load, pace, strict=True)) * HOUR
    work = job.work
    tokens = (work.total_input_tokens + work.total_output_tokens) / work.total_requests
    spot = [
        math.fsum(k.named.capacity * k.named.by_hour[hour] for k in kinds if k.named.market == "spot") / able[hour]
        if able[hour] else 0.0
        for hour in range(hours)
    ]  # fmt: skip
    whole = math.fsum(load)
    figures = {
        "starts": float(sum(started.values())),
        "start_usd": start_usd,
        "usd_per_month": usd * MONTH_HOURS / hours,
        "usd_per_million_tokens": usd / (requests * tokens) * MEGA,
        "usd_per_thousand_requests": usd / requests * 1000.0,
        "use": math.fsum(one * share for one, share in zip(load, use, strict=True)) / whole,
        "spot_share": math.fsum(one * share for one, share in zip(load, spot, strict=True)) / whole,
        "served_share": _served(kinds, load),
        "within_limits_share": job.latency.share,
    }
    for name, expected in figures.items():
        yield from equal(f"fleet.{name}", expected, float(getattr(fleet, name)))
    yield from _fees(fleet, kinds, MONTH_HOURS / hours)
    yield from equal("cost_usd", usd * service.for_hours / hours, service.cost_usd)
    yield from equal("for_hours", job.for_hours, service.for_hours)
    yield from at_most("bound_usd", service.cost_usd, service.bound_usd, CLOSE * service.cost_usd)
    for hour in range(hours):
        standing = sum(kind.named.replicas * kind.named.by_hour[hour] for kind in kinds)
        yield from equal(f"fleet.replicas_by_hour.{hour}", standing, fleet.replicas_by_hour[hour])
        yield from equal(f"fleet.use_by_hour.{hour}", use[hour], fleet.use_by_hour[hour])
    floor = min(math.fsum(kind.named.by_hour[hour] * kind.price[0] for kind in kinds) for hour in range(hours))
    month = MONTH_HOURS / hours
    yield from services_of_fleet(service, job, scenario, usd * month, requests * month, floor * MONTH_HOURS)


def _fees(fleet: Fleet, kinds: list[AuditedKind], cycles: float) -> Iterator[Broken]:
    """Yield lines of fees by the machine hour that do not follow from the machines; a month has so many cycles."""
    lines = {}
    for fee in fees_that_count("machine hours"):
        paid = [
            (kind.billed_hours[0] * sum(kind.named.by_hour) + kind.billed_hours[1] * _starts(kind.named.by_hour), rate)
            for kind in kinds
            if (rate := fee.rate(kind.offer.fees))
        ]
        if hours := math.fsum(one for one, _ in paid):
            lines[fee.item] = hours * cycles, math.fsum(one * rate for one, rate in paid) * cycles
    named = [line.item for line in fleet.fees]
    if named != list(lines):
        yield "fleet.fees", ", ".join(lines) or "none", ", ".join(named) or "none"
        return
    for line, (quantity, usd) in zip(fleet.fees, lines.values(), strict=True):
        place = f"fleet.fees.{line.item}"
        yield from equal(f"{place}: quantity", quantity, line.quantity or 0.0)
        yield from equal(f"{place}: usd", usd, line.usd)
        yield from equal(f"{place}: rate_usd", usd / quantity, line.rate_usd or 0.0)
        if (line.unit, line.basis) != ("h", ""):
            yield f"{place}: unit and basis", "h", f"{line.unit} {line.basis}"


def _starts(by_hour: tuple[int, ...]) -> int:
    """Return the machines that are started in a cycle."""
    return sum(max(0, now - before) for before, now in zip((by_hour[-1], *by_hour[:-1]), by_hour, strict=True))


def _served(kinds: list[AuditedKind], load: list[float]) -> float:
    """Return the share of the requests that is served on average."""
    return math.fsum(one * _served_in(kinds, hour, one) for hour, one in enumerate(load)) / math.fsum(load)


def _served_in(kinds: list[AuditedKind], hour: int, wanted: float) -> float:
    """Return the share of an hour's load that is served: each spot group is lost on its own, all cases together."""
    if not wanted:
        return 1.0
    able = [(kind, kind.named.capacity * kind.named.by_hour[hour]) for kind in kinds]
    firm = math.fsum(one for kind, one in able if kind.named.market != "spot")
    groups: dict[str, float] = {}
    for kind, one in able:
        if kind.named.market == "spot" and one:
            groups[_group(kind)] = groups.get(_group(kind), 0.0) + one
    there = {
        name: min(kind.answering for kind in kinds if _group(kind) == name and kind.named.market == "spot")
        for name in groups
    }
    cases = [(1.0, firm)]
    for name, _ in sorted(groups.items(), key=lambda item: -item[1])[:MOST_INDEPENDENT]:
        cases = [
            case
            for likely, one in cases
            for case in ((likely * there[name], one + groups[name]), (likely * (1.0 - there[name]), one))
        ]
    return math.fsum(p * min(1.0, one / wanted) for p, one in cases)


def _latency(fleet: Fleet, kinds: list[AuditedKind], job: ServeJob) -> Iterator[Broken]:
    """Yield latencies that are not those of the hour of most use, and limits that they exceed."""
    fullest = min(max(fleet.use_by_hour, default=0.0), 1.0)
    slowest = {"ttft": 0.0, "tpot": 0.0}
    for kind in kinds:
        replica, place = kind.replica, f"fleet.{kind.named.offer}"
        each = kind.named.capacity / max(kind.named.replicas, 1)
        if job.load.concurrent is not None:
            each = replica.rate(each)
        rate = fullest * each
        for name, seconds in (("ttft", replica.ttft(rate)), ("tpot", replica.tpot(rate))):
            slowest[name] = max(slowest[name], seconds)
            yield from equal(f"{place}.{name}_seconds", seconds, getattr(kind.named, f"{name}_seconds"), CAPACITY_ROOM)
    asked = {"ttft": job.latency.ttft_seconds, "tpot": job.latency.tpot_seconds}
    if [limit.name for limit in fleet.limits] != list(asked):
        yield "fleet.limits", ", ".join(asked), ", ".join(limit.name for limit in fleet.limits)
    for limit in fleet.limits:
        if limit.limit_seconds != asked[limit.name]:
            yield f"fleet.limits.{limit.name}", asked[limit.name], limit.limit_seconds
        yield from equal(f"fleet.limits.{limit.name}", slowest[limit.name], limit.predicted_seconds, CAPACITY_ROOM)
        room = CAPACITY_ROOM * slowest[limit.name]
        yield from at_most(f"fleet.limits.{limit.name}", asked[limit.name], slowest[limit.name], room)
