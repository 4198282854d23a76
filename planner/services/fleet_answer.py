"""The answer of a plan with services: machines, risks, other ways, load and replicas by the hour, the bill."""

from __future__ import annotations

from typing import NamedTuple

from planner import generation
from planner.report import plan_alternatives, plan_sections, plan_text, words
from planner.report.jobs_answer import first_note, job_lines, machine_forms
from planner.report.plan_answer import MOST_WAYS
from planner.report.risks import Risk, risk_lines, risks_of_jobs
from planner.report.words import line_room
from planner.results.fleet import Fleet, FleetKind, Service
from planner.results.inference import ApiPrice
from planner.results.plan import Plan
from planner.results.service_results import replicas_text, seconds_text, sharing_of, span
from planner.services.fleet_text import DAYS, count_marks, proven, simple_sections
from planner.units import DAY_HOURS

SAME_MONTH_USD = 0.01
"""Dollars of a month by which two ways differ."""
MOST_KINDS_NAMED = 2
"""Kinds of machines up to which all are named in one cell."""


def render_fleet_answer(plan: Plan) -> str:
    """Return the answer of a plan with services, with or without jobs next to them, without a final newline."""
    alone = plan.services[0] if len(plan.services) == 1 and not plan.jobs else None
    lines = [_first_line(plan, alone), *risk_lines(fleet_risks(plan)), ""]
    if alone is not None:
        ways = ways_of(alone)
        lines += [*_way_lines(ways), ""] if len(ways) > 1 else []
        return "\n".join([*lines, *_sections(plan, alone)])
    lines += [*(job_lines(plan) if plan.jobs else []), *([""] if plan.jobs else []), *_service_lines(plan), ""]
    return "\n".join([*lines, *_shared_sections(plan)])


def _first_line(plan: Plan, alone: Service | None) -> str:
    """Return the machines, dollars and the first latency of a service; of several parts what all cost."""
    if alone is not None:
        figures = f"{words.usd(alone.fleet.usd_per_month)} a month"
        late = _latency(alone)
        kinds, engine = machines_text(alone.fleet), _engine(alone.fleet)
        forms = [f"{kinds} ({engine}), {figures}{late}", f"{kinds}, {figures}{late}", f"{kinds}, {figures}"]
        forms += [f"{short}, {figures}" for short in _all_kinds(alone.fleet)]
        return words.first_fitting(plan.scenario, *forms)
    month = sum(service.fleet.usd_per_month for service in plan.services)
    usd = words.usd(plan.cost.expected) if plan.cost else ""
    served = f"{len(plan.services)} services" if len(plan.services) > 1 else plan.services[0].name
    if not plan.jobs:
        kinds = " and ".join(machines_text(service.fleet) for service in plan.services)
        rate = f"{words.usd(month)} a month"
        return plan_text.summary_line(plan.scenario, f"{served} on {kinds}, {rate}", f"{served}, {rate}")
    machines = machine_forms(plan.model_copy(update={"services": ()}))
    jobs = f"{len(plan.jobs)} jobs" if len(plan.jobs) > 1 else plan.jobs[0].name
    kinds = " and ".join(machines_text(service.fleet) for service in plan.services)
    replicas = sum(max(service.fleet.replicas_by_hour) for service in plan.services)
    forms = [f"{jobs} on {placed}, {served} on {kinds}, {usd}" for placed in machines]
    forms += [f"{jobs} on {placed}, {served} on {replicas} replicas, {usd}" for placed in machines]
    return plan_text.summary_line(plan.scenario, *forms, f"{jobs} and {served}, {usd}")


def machines_text(fleet: Fleet) -> str:
    """Return the machines of a fleet, such as `1 to 2 x L40S at aws, spot`; of many kinds how many replicas of them."""
    kinds = fleet.by_dollars
    if len(kinds) <= MOST_KINDS_NAMED:
        return words.sanitise(" and ".join(_kind_text(kind) for kind in kinds))
    replicas = replicas_text(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour))
    return words.sanitise(f"{replicas} on {len(kinds)} kinds of machines, most of it {_kind_text(kinds[0])}")


def _all_kinds(fleet: Fleet) -> list[str]:
    """Return what a fleet consists of in fewer words, without places: counts and GPUs, GPUs, how many kinds."""
    kinds = fleet.by_dollars
    counted = " and ".join(f"{span(min(kind.by_hour), max(kind.by_hour))} x {_machine(kind)}" for kind in kinds)
    replicas = replicas_text(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour))
    several = [f"{replicas} on {len(kinds)} kinds of machines"] if kinds[1:] else []
    named = [counted, " and ".join(map(_machine, kinds))] if len(kinds) <= MOST_KINDS_NAMED else []
    return [words.sanitise(form) for form in (*named, *several)]


def _machine(kind: FleetKind) -> str:
    return kind.gpu if kind.gpus == 1 else f"({kind.gpus} x {kind.gpu})"


def _kind_text(kind: FleetKind) -> str:
    count = span(min(kind.by_hour), max(kind.by_hour))
    market = "" if kind.market == "on demand" else f", {kind.market}"
    return f"{count} x {_machine(kind)} at {kind.provider}{market}"


def _engine(fleet: Fleet) -> str:
    kinds = dict.fromkeys(
        f"{generation.engine_name(kind.engine)}, {kind.weight_format.removesuffix('-weights')}" for kind in fleet.kinds
    )
    return " and ".join(kinds)


def _latency(service: Service) -> str:
    """Return the time by which the asked share of requests has its first token, where there is a limit on it."""
    first = next((limit for limit in service.fleet.limits if limit.limit_seconds is not None), None)
    if first is None:
        return ""
    what = "first token by {}" if first.name == "ttft" else "{} per token"
    return f", {what.format(seconds_text(first.predicted_seconds))}"


# Risks.


def fleet_risks(plan: Plan) -> list[Risk]:
    """Return what of jobs and services would change the decision, the greatest first."""
    several = len(plan.services) > 1 or bool(plan.jobs)
    found = risks_of_jobs(plan) if plan.jobs else []
    for service in plan.services:
        of_it = f"{words.sanitise(service.name)}: " if several else ""
        found += [Risk(kind, f"{of_it}{text}") for kind, text in _of_service(service, plan) if text]
    if not plan.jobs:
        age = plan_sections.old_prices_text(plan)
        found += [Risk("an outlay", text)] if (text := plan_sections.outlay_text(plan)) else []
        found += [Risk("old prices", f"{age}: {plan_sections.RENEWS_PRICES}")] if age else []
    return found


_EXCLUDES = " (--set limits.tiers.forbid=[community] excludes it)"


def _of_service(service: Service, plan: Plan) -> list[tuple[str, str]]:
    fleet = service.fleet
    offers = plan.inputs.offers if plan.inputs else ()
    private = {(offer.get("provider"), offer.get("gpu")) for offer in offers if offer.get("community")}
    hosts = [kind for kind in fleet.kinds if (kind.provider, kind.gpu) in private]
    usual = f"{words.percent(1.0 - fleet.served_share)} of the requests find no machine on average"
    cheaper = min(fleet.api, key=lambda each: each.usd, default=None)
    token = ""
    if cheaper is not None and cheaper.usd < fleet.usd_per_month:
        hosted = generation.HOSTS[cheaper.hosts_tuned]
        token = f"{cheaper.offer} answers by the token for {words.usd(cheaper.usd)} a month, {hosted}"
    return [
        *(("an assumption", text) for text in service.assumed),
        ("a private person's machine", f"a private person's machine{_EXCLUDES}" if hosts else ""),
        ("machines on spot", f"{words.percent(fleet.spot_share)} on spot: {usual}" if fleet.spot_share else ""),
        ("a service by the token costs less", token),
    ]


# The table of ways, and that of several services.


class FleetWay(NamedTuple):
    """A row: a word for the way, its machines, and dollars of a month; `note` says what it does otherwise."""

    name: str
    machines: str
    usd_per_month: float
    note: str = ""


def ways_of(service: Service) -> list[FleetWay]:
    """Return the plan and what else could serve, at most `MOST_WAYS` rows that differ, the cheapest first."""
    fleet, own = service.fleet, FleetWay("plan", machines_text(service.fleet), service.fleet.usd_per_month)
    rows = [own]
    rows += [
        FleetWay("simpler", one.machines or "those of the plan", one.usd_per_month, one.name)
        for one in fleet.baselines
        if one.usd_per_month is not None and abs(one.usd_per_month - own.usd_per_month) >= SAME_MONTH_USD
    ]
    rows += [
        FleetWay("by token", words.sanitise(api.offer.partition("/")[0]), api.usd, _api_note(api))
        for api in sorted(fleet.api, key=lambda each: each.usd)
    ]
    return sorted(rows[:MOST_WAYS], key=lambda way: way.usd_per_month)


def _api_note(api: ApiPrice) -> str:
    """Return whose weights a service takes, and from how many requests of a month own machines cost less."""
    pays = api.pays_from_requests
    return generation.HOSTS[api.hosts_tuned] + (f"; own from {words.significant(pays)} requests" if pays else "")


def _way_lines(ways: list[FleetWay]) -> list[str]:
    cells = [("way", "machines", "a month", "what")]
    cells += [(way.name, way.machines, words.usd(way.usd_per_month), way.note) for way in ways]
    marked = next(number for number, way in enumerate(ways, 1) if way.name == "plan")
    return words.table(cells, right=(2,), cut=1, marked=marked)


def _service_lines(plan: Plan) -> list[str]:
    cells = [("service", "machines", "from", "a month", "first token", "per token")]
    for service in plan.services:
        seconds = {limit.name: seconds_text(limit.predicted_seconds) for limit in service.fleet.limits}
        begins = words.hours(service.starts_at_hours) if service.starts_at_hours else "0.0 h"
        month = words.usd(service.fleet.usd_per_month)
        latency = (seconds.get("ttft", ""), seconds.get("tpot", ""))
        cells.append((service.name, machines_text(service.fleet), begins, month, *latency))
    return words.table(cells, right=(2, 3, 4, 5), cut=1)


# What the fleet is, in as few lines as can be.


def hour_lines(fleet: Fleet) -> list[str]:
    """Return load and replicas of each hour, a line for equal days: a block for the load, a digit for the replicas."""
    most, days = max(fleet.load, default=0.0), len(fleet.load) // DAY_HOURS
    rows: list[tuple[list[int], str]] = []
    for day in range(int(days)):
        hours = slice(int(day * DAY_HOURS), int((day + 1) * DAY_HOURS))
        load = "".join(words.level(load / most if most else 0.0) for load in fleet.load[hours])
        drawn = f"{load}  {count_marks(fleet.replicas_by_hour[hours])}"
        if rows and rows[-1][1] == drawn:
            rows[-1][0].append(day)
        else:
            rows.append(([day], drawn))
    head = f"{'':<8}{'load, peak ' + words.brief(most) + ' ' + fleet.unit:<26}replicas, each column an hour"
    return [head, *(f"{_days(numbers, int(days)):<8}{drawn}" for numbers, drawn in rows)] if rows else []


def _days(numbers: list[int], count: int) -> str:
    if count == 1:
        return "daily"
    return DAYS[numbers[0]] if len(numbers) == 1 else f"{DAYS[numbers[0]]}-{DAYS[numbers[-1]]}"


def _sections(plan: Plan, service: Service) -> list[str]:
    fleet, room = service.fleet, line_room()
    of_label = simple_sections(service)
    parts = (
        ("Serve", of_label["Serve"]),
        ("Hours", hour_lines(fleet)),
        ("Latency", of_label["Latency"]),
        ("Bill", words.wrap_lines(_bill_text(service), room, 3)),
        ("Why", words.wrap_lines("; ".join([_proof_text(plan, service), *of_label["Capacity"]]), room, 3)),
        ("Notes", first_note(service.notes)),
    )
    return [line for label, lines in parts for line in words.section(label, lines)]


def _shared_sections(plan: Plan) -> list[str]:
    """Return what of several services, or of jobs and services, is said once: hours, budget, sharing, proof."""
    room, lines = line_room(), list[str]()
    proofs = [_proof_text(plan, service, named=True) for service in plan.services]
    notes = [*plan.warnings, *(note for one in plan.planned for note in one.notes)]
    for service in plan.services:
        lines += words.section("Hours", [f"{words.sanitise(service.name)}:", *hour_lines(service.fleet)])
    parts = (
        ("Bill", words.wrap_lines(_whole_bill_text(plan), room, 6)),
        ("Shared", words.wrap_all(map(words.sanitise, sharing_of(plan)), room, 2)),
        ("Why", words.wrap_lines("; ".join(proofs), room, 3)),
        ("Notes", first_note(tuple(dict.fromkeys(notes)))),
    )
    return lines + [line for label, texts in parts for line in words.section(label, texts)]


def _bill_text(service: Service) -> str:
    fleet = service.fleet
    each = f"${words.significant(fleet.usd_per_thousand_requests)} per 1,000 requests"
    tokens = f"{words.rate(fleet.usd_per_million_tokens)} per million tokens"
    return f"{words.usd(service.cost_usd)} for {words.duration(service.for_hours)}; {each}, {tokens}"


def _whole_bill_text(plan: Plan) -> str:
    if plan.cost is None:
        return ""
    amounts = [part.cost_usd for part in plan.planned]
    parts = [f"{words.usd(part.cost_usd)} {words.sanitise(part.name)}" for part in plan.planned]
    rest = plan_sections.rounding(amounts, plan.cost.expected)
    parts += [f"{words.usd(rest)} rounding"] if rest else []
    budget = "" if plan.budget_usd is None else f" of a budget of {words.usd(plan.budget_usd)}"
    return f"{words.usd(plan.cost.expected)}{budget}: {', '.join(parts)}"


def _proof_text(plan: Plan, service: Service, named: bool = False) -> str:
    """Return how far a fleet is proven, and of how many kinds of machines it is the best."""
    proof = proven(service.gap)
    offers = plan_alternatives.offers_text(plan.candidates.offers)
    text = f"{'proven best' if proof == 'optimal' else proof} of {service.kinds_made:,} kinds of machines from {offers}"
    return f"{words.sanitise(service.name)} {text}" if named else text
