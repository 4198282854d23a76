"""A plan with services as text: the answer, then the fleet by the hour, limits with margins, simpler fleets."""

from __future__ import annotations

import math
from typing import NamedTuple

from planner import generation
from planner.report import plan_sections, plan_text, words
from planner.report.explanation_text import limit_name
from planner.report.plan_answer import MOST_WAYS, Risk, first_note, job_lines, machine_forms, risk_lines, risks_of_jobs
from planner.report.plan_sections import cut_lines, old_prices, outlay, product, render_notes
from planner.report.words import line_room
from planner.results.fleet import ApiPrice, Fleet, FleetBaseline, FleetKind, LatencyLimit, Service
from planner.results.plan import Plan
from planner.results.service_results import (
    BINDING_WORDS,
    jobs_alone,
    replicas_text,
    seconds_text,
    services_usd,
    sharing_of,
    span,
)
from planner.units import DAY_HOURS, MONTH_HOURS, figure_text

# Load, use, replicas and those on spot by the hour, as a strip of characters.


_STRIP_DAY = 24
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HOUR_MARKS = "0     6     12    18"
"""Hours of a day above the columns of a strip."""
LEVELS = ".123456789#"
"""Use of a fleet in tenths; # is full."""


def strip(fleet: Fleet) -> list[str]:
    """Return load, replicas and use by the hour: a character for each hour, equal days once.

    Where some replicas are on spot and others are not, there is a row of each in place of that of all.
    """
    hours = len(fleet.load)
    spot = _replicas(fleet, on_spot=True)
    firm = _replicas(fleet, on_spot=False)
    most = max(fleet.load, default=0.0)
    rows: list[tuple[list[int], tuple[str, ...]]] = []
    names = ("load", "use ", "reps", "spot") if any(spot) and any(firm) else ("load", "use ", "reps")
    for day in range(hours // _STRIP_DAY):
        span = slice(day * _STRIP_DAY, (day + 1) * _STRIP_DAY)
        load = "".join(_level(load / most if most else 0.0) for load in fleet.load[span])
        use = "".join(_level(share) for share in fleet.use_by_hour[span])
        drawn = (load, use, count_marks(fleet.replicas_by_hour[span]), count_marks(spot[span]))[: len(names)]
        if rows and rows[-1][1] == drawn:
            rows[-1][0].append(day)
        else:
            rows.append(([day], drawn))
    lines = [" " * 13 + HOUR_MARKS] if hours else []
    for days, drawn in rows:
        label = _days(days, hours // _STRIP_DAY)
        for name, text in zip(names, drawn, strict=True):
            lines.append(f"{label:<8}{name} {text}")
            label = ""
    full = max(fleet.use_by_hour, default=0.0)
    lines.append(f"load in tenths of the peak, use of the capacity in tenths; reps: replicas{_markets(spot, firm)}")
    lines.append(f"mean use {words.percent(fleet.use)}, at most {words.percent(full)}")
    starts = "1 start" if fleet.starts == 1 else f"{fleet.starts:,} starts"
    lines[-1] += f"; {starts} a {'day' if hours == _STRIP_DAY else 'week'}, {words.usd(fleet.start_usd)}"
    return _wrapped(lines)


def _wrapped(lines: list[str]) -> list[str]:
    """Return the lines; only the sentences below the strip are as long as to be wrapped."""
    return [
        part
        for line in lines
        for part in ([line] if len(line) <= line_room() else words.wrap_lines(line, line_room(), 2))
    ]


def _replicas(fleet: Fleet, on_spot: bool) -> tuple[int, ...]:
    """Return the replicas of each hour that are on spot, or that are not."""
    kinds = [kind for kind in fleet.kinds if (kind.market == "spot") == on_spot]
    return tuple(sum(kind.replicas * kind.by_hour[hour] for kind in kinds) for hour in range(len(fleet.load)))


def _markets(spot: tuple[int, ...], firm: tuple[int, ...]) -> str:
    """Return which replicas are on spot."""
    if any(spot) and any(firm):
        return ", spot: those on spot, the others on demand or committed"
    return ", all on spot" if any(spot) else ", none on spot"


def _level(share: float) -> str:
    return LEVELS[min(10, max(0, math.ceil(share * 10.0 - 1e-9)))]


def count_marks(counts: tuple[int, ...]) -> str:
    """Return a character for each count: a digit, a letter from 10 on, + from 36 on."""
    return "".join(str(count) if count < 10 else chr(ord("a") + count - 10) if count < 36 else "+" for count in counts)


def _days(days: list[int], count: int) -> str:
    if count == 1:
        return "daily"
    return DAYS[days[0]] if len(days) == 1 else f"{DAYS[days[0]]}-{DAYS[days[-1]]}"


_DAY = 24
EQUAL_GAP = 1e-6
"""Gap up to which a fleet counts as optimal."""
MOST_KINDS = 6
"""Kinds of a fleet that are listed."""
MOST_NOTE_LINES = 6


def render_services(plan: Plan) -> str:
    """Return the text of a plan of services, and of the jobs next to them."""
    return _together(plan) if plan.jobs else _each_service(plan)


def _together(plan: Plan) -> str:
    """Return the text of a plan of jobs and services: what both cost, then each."""
    first = words.wrap_lines(f"{words.sanitise(plan.scenario)}: {both_headline(plan)}", words.width(), 2)
    jobs = jobs_alone(plan)
    jobs = jobs.model_copy(update={"scenario": jobs.jobs[0].name}) if len(jobs.jobs) == 1 else jobs
    cut, jobs = cut_lines(plan.cut), jobs.model_copy(update={"cut": ()})
    paid = outlay(plan)
    return "\n".join([*first, *paid, *cut, *shared_lines(plan), "", plan_text.render(jobs), "", _each_service(plan)])


def _each_service(plan: Plan) -> str:
    lines = [] if len(plan.services) == 1 or plan.jobs else several_lines(plan)
    for service in plan.services:
        lines += [*([""] if lines else []), *_service(service, plan)]
    return "\n".join(lines)


def several_lines(plan: Plan) -> list[str]:
    """Return the first lines of a plan of several services: what all cost, how far that is proven, what they share."""
    usd = plan.cost.expected if plan.cost else 0.0
    month = math.fsum(service.fleet.usd_per_month for service in plan.services)
    text = (
        f"{words.sanitise(plan.scenario)}: {len(plan.services)} services, {words.usd(month)} a month, "
        f"{proven(1.0 if plan.gap is None else plan.gap)}; {words.usd(usd)} in all"
    )
    budget = "" if plan.budget_usd is None else f" of a budget of {words.usd(plan.budget_usd)}"
    first = words.wrap_lines(text + budget, words.width(), 3)
    return [*first, *outlay(plan), *old_prices(plan), *shared_lines(plan)]


def shared_lines(plan: Plan) -> list[str]:
    """Return what services share in a plan, and how they were planned for it."""
    return [
        f"  {line}"
        for sentence in sharing_of(plan)
        for line in words.wrap_lines(words.sanitise(sentence), words.width() - 2, 4)
    ]


def _service(service: Service, plan: Plan) -> list[str]:
    alone = len(plan.services) == 1 and not plan.jobs  # else the lines above say how old the prices are
    lines = [
        *words.wrap_lines(fleet_headline(service), words.width(), 3),
        *([*outlay(plan), *old_prices(plan)] if alone else []),
        *_assumed(service),
        *_cheaper_api(service.fleet),
        "",
    ]
    lines += [line for label, texts in sections(service, plan) for line in words.section(label, texts)]
    return [*lines, *render_notes(service.notes, words.most(MOST_NOTE_LINES))]


def sections(service: Service, plan: Plan) -> list[tuple[str, list[str]]]:
    """Return what is said of a service under each label."""
    fleet = service.fleet
    simple = simple_sections(service)
    return [
        ("Serve", simple["Serve"]),
        ("Fleet", _kinds(fleet)),
        ("Hours", strip(fleet)),
        ("Latency", simple["Latency"]),
        ("Capacity", simple["Capacity"]),
        ("Spot", _spot(fleet)),
        ("Price", _price(service)),
        ("Next", _looser(service)),
        ("Simpler", _simpler(fleet)),
        ("Service", _api(fleet)),
        ("Limits", _budget(plan) if len(plan.services) == 1 else []),
        ("Prices", _prices(service)),
        ("Scope", _scope(service, plan)),
    ]


def simple_sections(service: Service) -> dict[str, list[str]]:
    """Return the lines under the labels of a service that need no more than it: load, latency, what holds capacity."""
    fleet, room = service.fleet, line_room()
    latency = [line for limit in fleet.limits for line in words.wrap_lines(_limit(limit, fleet), room, 2)]
    where = "on the slowest kind of machines in its busiest hour"
    latency += words.wrap_lines(where, room, 2) if latency else []
    capacity = words.wrap_lines(_binds(fleet), line_room(), 2)
    return {"Serve": _serve(service), "Latency": latency, "Capacity": capacity}


NO_BOUND = "no bound"
"""Of a fleet of which nothing is proven: its gap is 1."""


def fleet_headline(service: Service) -> str:
    """Return the first line: replicas, kinds, dollars, latency, and how far the plan is proven."""
    fleet = service.fleet
    replicas = replicas_text(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour))
    places = ", ".join(dict.fromkeys(words.sanitise(kind.provider) for kind in fleet.kinds))
    kinds = f"{len(fleet.kinds)} kind{'' if len(fleet.kinds) == 1 else 's'} at {places}"
    held = next((limit for limit in reversed(fleet.limits) if limit.limit_seconds is not None), None)
    share = words.share_text(fleet.within_limits_share)
    within = (
        f", {share} of requests within {seconds_text(held.limit_seconds or 0.0)}{LIMIT_HEADS[held.name]}"
        if held
        else ""
    )
    proof = proven(service.gap)
    return (
        f"{words.sanitise(service.name)}: {replicas}, {kinds}, {words.usd(fleet.usd_per_month)} a month, "
        f"{words.rate(fleet.usd_per_million_tokens)} per million tokens{within}, {proof}"
    )


def both_headline(plan: Plan) -> str:
    """Return the first line of a plan of jobs and services: what both cost, and when a service starts."""
    whole = plan.cost.expected if plan.cost else 0.0
    later = [service for service in plan.services if service.starts_at_hours > 0]
    starts = ", ".join(
        f"{words.sanitise(service.name)} from {words.hours(service.starts_at_hours)} on" for service in later
    )
    budget = "" if plan.budget_usd is None else f" of a budget of {words.usd(plan.budget_usd)}"
    services = "service" if len(plan.services) == 1 else f"{len(plan.services)} services"
    text = f"{words.usd(whole)}{budget}, of it {words.usd(services_usd(plan))} for the {services}"
    return f"{text}; {starts}" if starts else text


def _assumed(service: Service) -> list[str]:
    """Return what the scenario does not say and the plan rests on most."""
    return words.lines_below_first(service.assumed)


def _cheaper_api(fleet: Fleet) -> list[str]:
    """Return the cheapest service that answers by the token, where it costs less than the fleet."""
    cheapest = min(fleet.api, key=lambda price: price.usd, default=None)
    if cheapest is None or cheapest.usd >= fleet.usd_per_month:
        return []
    text = f"less: {words.sanitise(cheapest.offer)} answers by the token for {words.usd(cheapest.usd)} a month"
    return [
        f"  {line}"
        for line in words.wrap_lines(f"{text}, {generation.HOSTS[cheapest.hosts_tuned]}", words.width() - 2, 4)
    ]


def proven(gap: float) -> str:
    """Return how far a fleet is proven: `optimal`, `proven within` its gap, or not at all within the time limit."""
    if gap >= 1.0:
        return f"{NO_BOUND} within the time limit"
    return "optimal" if gap <= EQUAL_GAP else f"proven within {percent_up(gap)}"


def proven_in_short(gap: float) -> str:
    """Return the same as the cell of a table."""
    return NO_BOUND if gap >= 1.0 else proven(gap).removeprefix("proven within ")


def percent_up(share: float) -> str:
    """Return a gap, rounded up: what is proven is no more than that."""
    return f"{math.ceil(share * 1000.0 - 1e-9) / 10.0:g} %"


def _serve(service: Service) -> list[str]:
    """Return model, lengths, load and how long the service runs."""
    fleet = service.fleet
    shared = f", {service.prefix_tokens:,} of them shared" if service.prefix_tokens else ""
    lengths = f"{figure_text(service.input_tokens)} tokens in{shared}, {figure_text(service.output_tokens)} out"
    least, most = min(fleet.load), max(fleet.load)
    span = words.brief(most)
    if least < most:
        span = f"{words.brief(least)} to {span}"
    cycle = "every day" if len(fleet.load) == _DAY else "every week"
    asked = f"{span} {fleet.unit}, the same {cycle}, for {words.duration(service.for_hours)}"
    return [words.shorten(f"{service.architecture}: {lengths}", line_room()), *words.wrap_lines(asked, line_room(), 2)]


def _kinds(fleet: Fleet) -> list[str]:
    """Return each kind with its machines, a line or two each; those with most machine hours first."""
    lines = []
    ordered = sorted(fleet.kinds, key=lambda kind: -sum(kind.by_hour) * kind.usd_per_hour)
    for kind in ordered[: words.most(MOST_KINDS)]:
        lines += words.wrap_lines(_kind(kind, fleet), line_room(), 2)
    if len(ordered) > words.most(MOST_KINDS):
        more = len(ordered) - MOST_KINDS
        lines.append(f"and {more} more kind{'' if more == 1 else 's'} (--details lists them)")
    return lines


def _kind(kind: FleetKind, fleet: Fleet) -> str:
    least, most = min(kind.by_hour), max(kind.by_hour)
    count = f"{most}" if least == most else f"{least} to {most}"
    machine = words.sanitise(f"{kind.gpus} x {kind.gpu} at {kind.provider}")
    several = f", {kind.replicas} replicas each" if kind.replicas > 1 else ""
    able = words.significant(kind.capacity)
    average = " on average (paid while it is there)" if kind.market == "spot" else ""
    return (
        f"{count} of {machine}, {kind.market} at {words.rate(kind.usd_per_hour)} an hour{average}: "
        f"{generation.engine_name(kind.engine)}, {kind.weight_format.removesuffix('-weights')} weights{several}, "
        f"{able} {fleet.unit}"
    )


LIMIT_WORDS = {"ttft": "first token", "tpot": "per token"}
LIMIT_HEADS = {"ttft": " to the first token", "tpot": " per token"}


def _limit(limit: LatencyLimit, fleet: Fleet) -> str:
    """Return what is predicted of the slowest kind in its busiest hour, and how far that is below the limit."""
    share = words.share_text(fleet.within_limits_share)
    predicted = f"{LIMIT_WORDS[limit.name]}: {share} within {seconds_text(limit.predicted_seconds)}"
    if limit.limit_seconds is None:
        return f"{predicted}, no limit"
    margin = words.percent(max(1.0 - limit.predicted_seconds / limit.limit_seconds, 0.0))
    return f"{predicted}, {margin} below the limit of {seconds_text(limit.limit_seconds)}"


def _binds(fleet: Fleet) -> str:
    """Return what holds the capacity of the kinds."""
    kinds_by_limit: dict[str, list[str]] = {}
    for kind in fleet.kinds:
        kinds_by_limit.setdefault(kind.binds, []).append(words.sanitise(kind.gpu))
    texts = [f"{BINDING_WORDS[name]} ({', '.join(dict.fromkeys(gpus))})" for name, gpus in kinds_by_limit.items()]
    return f"limited by {'; '.join(texts)}"


def _spot(fleet: Fleet) -> list[str]:
    """Return what spot carries, and what is refused while it is lost."""
    if not fleet.spot_share:
        return []
    text = f"{words.percent(fleet.spot_share)} of the capacity; {words.percent(fleet.served_share)} of the requests are"
    text += " served on average, spot groups being lost independently of one another"
    return words.wrap_lines(text, line_room(), 3)


def _price(service: Service) -> list[str]:
    fleet = service.fleet
    per_request = f"${words.significant(fleet.usd_per_thousand_requests)} per 1,000 requests"
    lines = [f"{per_request}; {words.usd(service.cost_usd)} for the {words.duration(service.for_hours)}"]
    for fee in fleet.fees:
        how = product(fee.quantity or 0.0, fee.unit, fee.rate_usd or 0.0, fee.usd)
        lines.append(f"in a month {words.usd(fee.usd)} of it for {fee.item}, {how}")
    return words.wrap_all(lines, line_room(), 2)


def _looser(service: Service) -> list[str]:
    """Return what a looser limit saves."""
    looser = service.looser
    if looser is None:
        return []
    name = limit_name(looser.limit, service.name)
    return words.wrap_lines(
        f"{name} {looser.change_from} -> {looser.change_to} {looser.then}, verified by solving", line_room(), 2
    )


def _simpler(fleet: Fleet) -> list[str]:
    """Return what simpler fleets cost a month."""
    if not fleet.baselines:
        return ["not computed within the time limit"]
    lines = []
    for baseline in fleet.other_fleets:
        machines = f" ({words.sanitise(baseline.machines)})" if baseline.machines else ""
        usd = (
            "impossible within the limits"
            if baseline.usd_per_month is None
            else f"{words.usd(baseline.usd_per_month)} a month"
        )
        lines += words.wrap_lines(f"{baseline.name}{machines}: {usd}", line_room(), 2)
    return lines


def pays_from(price: ApiPrice, fleet: Fleet) -> list[str]:
    """Return from which load a fleet costs less than a service; where none is known, that the service does at this."""
    less = ["the service costs less at this load"] if price.usd < fleet.usd_per_month else []
    return words.pays_from(price.pays_from_requests, "requests a month", price.pays_on) or less


def _api(fleet: Fleet) -> list[str]:
    """Return what services take for the requests of a month, and from which volume a fleet pays."""
    lines = []
    for price in fleet.api[: generation.MOST_API_PRICES]:
        lines += generation.api_price_lines(price, " a month", pays_from(price, fleet))
    return lines


def _budget(plan: Plan) -> list[str]:
    if plan.budget_usd is None or plan.cost is None:
        return []
    return [f"budget {words.usd(plan.budget_usd)}, {words.usd(plan.budget_usd - plan.cost.expected)} left"]


def _prices(service: Service) -> list[str]:
    age = "undated" if service.price_age_days is None else f"up to {service.price_age_days:,} days old"
    return [words.shorten(f"{age}; {words.sanitise(service.price_source)}", line_room())]


def _scope(service: Service, plan: Plan) -> list[str]:
    counts = plan.candidates
    text = (
        f"{service.kinds_made:,} kinds of machines from {counts.offers:,} offers meet the latency limits; "
        f"{service.kinds_left:,} {'is' if service.kinds_left == 1 else 'are'} not dominated"
    )
    return words.wrap_lines(text, line_room(), 2)


SAME_MONTH_USD = 0.01
"""Dollars of a month by which two ways differ."""
MOST_KINDS_NAMED = 2
"""Kinds of machines up to which all are named in one cell."""


def render_fleet_answer(plan: Plan) -> str:
    """Return the answer of a plan with services, with or without jobs next to them, without a final newline."""
    alone = plan.services[0] if len(plan.services) == 1 and not plan.jobs else None
    first = [_first_line(plan)] if alone is None else _first_lines(plan, alone)
    lines = [*first, *risk_lines(fleet_risks(plan)), ""]
    if alone is not None:
        ways = ways_of(alone)
        lines += [*_way_lines(ways), ""] if len(ways) > 1 else []
        return "\n".join([*lines, *_sections(plan, alone)])
    lines += [*(job_lines(plan) if plan.jobs else []), *([""] if plan.jobs else []), *_service_lines(plan), ""]
    return "\n".join([*lines, *_shared_sections(plan)])


def _first_lines(plan: Plan, alone: Service) -> list[str]:
    """Return the machines, dollars and the first latency of a service: in two lines where one has no room for counts.

    Where two lines have no room for them either, fewer words in one.
    """
    figures, late = f"{words.usd(alone.fleet.usd_per_month)} a month", _latency(alone)
    kinds, engine = machines_text(alone.fleet), _engine(alone.fleet)
    whole = [f"{kinds} ({engine}), {figures}{late}", f"{kinds}, {figures}{late}", f"{kinds}, {figures}"]
    name, short = words.sanitise(plan.scenario), [f"{machines}, {figures}" for machines in _all_kinds(alone.fleet)]
    if not any(len(f"{name}: {form}") <= words.width() for form in (*whole, *short[:1])):
        for form in whole:
            lines = words.wrap_lines(f"{name}: {form}", words.width() - 2, 3)
            if len(lines) < 3:
                return [lines[0], *(f"  {line}" for line in lines[1:])]
    return [words.first_fitting(plan.scenario, *whole, *short)]


def _first_line(plan: Plan) -> str:
    """Return what all of several parts cost."""
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
    wording = "first token by {}" if first.name == "ttft" else "{} per token"
    return f", {wording.format(seconds_text(first.predicted_seconds))}"


# Risks.


def fleet_risks(plan: Plan) -> list[Risk]:
    """Return what of jobs and services would change the decision, the greatest first."""
    several = len(plan.services) > 1 or bool(plan.jobs)
    risks = risks_of_jobs(plan) if plan.jobs else []
    for service in plan.services:
        of_it = f"{words.sanitise(service.name)}: " if several else ""
        risks += [Risk(kind, f"{of_it}{text}") for kind, text in _of_service(service, plan) if text]
    if not plan.jobs:
        age = plan_sections.old_prices_text(plan)
        risks += [Risk("an outlay", text)] if (text := plan_sections.outlay_text(plan)) else []
        risks += [Risk("old prices", f"{age}: {plan_sections.RENEWS_PRICES}")] if age else []
    return risks


_EXCLUDES = "--set 'limits.tiers.forbid=[community]'"


def _private_text(secure: FleetBaseline | None) -> str:
    """Return that a host is a private person's, and what the fleet costs without such, where that is known."""
    if secure is None:
        return f"a private person's machine ({_EXCLUDES} excludes it)"
    if secure.usd_per_month is None:
        return "a private person's machine; no other fleet is within the limits"
    return f"a private person's machine: secure ones from {words.usd(secure.usd_per_month)} a month ({_EXCLUDES})"


def _of_service(service: Service, plan: Plan) -> list[tuple[str, str]]:
    fleet = service.fleet
    offers = plan.inputs.offers if plan.inputs else ()
    private = {(offer.get("provider"), offer.get("gpu")) for offer in offers if offer.get("community")}
    hosts = [kind for kind in fleet.kinds if (kind.provider, kind.gpu) in private]
    usual = f"{words.percent(1.0 - fleet.served_share)} of the requests find no machine on average"
    cheaper = min(fleet.api, key=lambda price: price.usd, default=None)
    token = ""
    if cheaper is not None and cheaper.usd < fleet.usd_per_month:
        hosted = generation.HOSTS[cheaper.hosts_tuned]
        token = f"{cheaper.offer} answers by the token for {words.usd(cheaper.usd)} a month, {hosted}"
    return [
        *(("an assumption", text) for text in service.assumed),
        ("a private person's machine", _private_text(fleet.secure) if hosts else ""),
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
        FleetWay(
            "any mix" if way is fleet.any_mix else "simpler",
            way.machines or "those of the plan",
            way.usd_per_month,
            _kinds_note(way, fleet),
        )
        for way in fleet.other_fleets
        if way.usd_per_month is not None and abs(way.usd_per_month - own.usd_per_month) >= SAME_MONTH_USD
    ]
    if fleet.secure is not None and fleet.secure.usd_per_month is not None:
        rows.append(FleetWay("secure", fleet.secure.machines, fleet.secure.usd_per_month, "no private hosts"))
    rows += [
        FleetWay("by token", words.sanitise(api.offer.partition("/")[0]), api.usd, _api_note(api))
        for api in sorted(fleet.api, key=lambda price: price.usd)
    ]
    differing: dict[tuple[str, str], FleetWay] = {}
    for way in rows:
        differing.setdefault((way.machines, words.usd(way.usd_per_month)), way)
    return sorted([*differing.values()][:MOST_WAYS], key=lambda way: way.usd_per_month)


def _kinds_note(simpler: FleetBaseline, fleet: Fleet) -> str:
    return "more kinds" if simpler is fleet.any_mix else simpler.name


def _api_note(api: ApiPrice) -> str:
    """Return whose weights a service takes, and from how many requests of a month own machines cost less."""
    pays = api.pays_from_requests
    return generation.HOSTS[api.hosts_tuned] + (f"; own from {words.significant(pays)} requests" if pays else "")


def _way_lines(ways: list[FleetWay]) -> list[str]:
    cells = [("way", "machines", "a month", "what")]
    cells += [(way.name, way.machines, words.usd(way.usd_per_month), way.note) for way in ways]
    marked = next(number for number, way in enumerate(ways, 1) if way.name == "plan")
    # A table of ways is that of one service alone, so that its index is known.
    asked = ["    any mix: --set jobs.0.most_kinds=null"] if any(way.name == "any mix" for way in ways) else []
    return [*words.table(cells, right=(2,), cut=1, marked=marked), *asked]


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
    """Return load and replicas of each hour, a line for equal days: a block for the load, a digit for the replicas.

    Where both strips do not fit next to each other, the replicas have a line of their own.
    """
    most, days = max(fleet.load, default=0.0), len(fleet.load) // DAY_HOURS
    rows: list[tuple[list[int], tuple[str, str]]] = []
    for day in range(int(days)):
        hours = slice(int(day * DAY_HOURS), int((day + 1) * DAY_HOURS))
        load = "".join(words.level(load / most if most else 0.0) for load in fleet.load[hours])
        drawn = load, count_marks(fleet.replicas_by_hour[hours])
        if rows and rows[-1][1] == drawn:
            rows[-1][0].append(day)
        else:
            rows.append(([day], drawn))
    head = [(f"load ({words.level(1.0)} is {words.brief(most)} {fleet.unit})", "replicas"), (HOUR_MARKS, HOUR_MARKS)]
    texts = [*(("", pair) for pair in head), *((_days(numbers, int(days)), drawn) for numbers, drawn in rows)]
    if not rows:
        return []
    if line_room() >= 2 * DAY_HOURS + 10:
        return [f"{label:<8}{load:<26}{replicas}" for label, (load, replicas) in texts]
    lines = [f"{head[0][0]}, replicas below it", f"{'':<8}{HOUR_MARKS}"]
    below = [(label, load) for label, (load, _) in texts[2:]], [("", replicas) for _, (_, replicas) in texts[2:]]
    return [*lines, *(f"{label:<8}{strip}" for pair in zip(*below, strict=True) for label, strip in pair)]


def _sections(plan: Plan, service: Service) -> list[str]:
    fleet, room = service.fleet, line_room()
    of_label = simple_sections(service)
    parts = (
        ("Serve", of_label["Serve"]),
        ("Hours", hour_lines(fleet)),
        ("Latency", of_label["Latency"]),
        ("Bill", words.wrap_lines(_bill_text(service), room, 3)),
        ("Why", words.wrap_lines(f"{_proof_text(plan, service)}; {_binds(service.fleet)}", room, 3)),
        ("Notes", first_note(service.notes)),
    )
    return [line for label, lines in parts for line in words.section(label, lines)]


def _shared_sections(plan: Plan) -> list[str]:
    """Return what of several services, or of jobs and services, is said once: hours, budget, sharing, proof."""
    room, lines = line_room(), list[str]()
    proofs = [_proof_text(plan, service, named=True) for service in plan.services]
    notes = [*plan.warnings, *(note for part in plan.planned for note in part.notes)]
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
    per_request = f"${words.significant(fleet.usd_per_thousand_requests)} per 1,000 requests"
    tokens = f"{words.rate(fleet.usd_per_million_tokens)} per million tokens"
    month = f"a month is {MONTH_HOURS / DAY_HOURS:.1f} days"
    return f"{words.usd(service.cost_usd)} for {words.duration(service.for_hours)} ({month}); {per_request}, {tokens}"


def _whole_bill_text(plan: Plan) -> str:
    if plan.cost is None:
        return ""
    amounts, rest = plan_sections.added_up([part.cost_usd for part in plan.planned], plan.cost.expected)
    named = zip(plan.planned, amounts, strict=True)
    parts = [f"{words.usd(usd)} {words.sanitise(part.name)}" for part, usd in named]
    parts += [f"{words.usd(rest)} rounding"] if rest else []
    budget = "" if plan.budget_usd is None else f" of a budget of {words.usd(plan.budget_usd)}"
    return f"{words.usd(plan.cost.expected)}{budget}: {', '.join(parts)}"


def _proof_text(plan: Plan, service: Service, named: bool = False) -> str:
    """Return how far a fleet is proven, and of how many kinds of machines it is the best."""
    proof = proven(service.gap)
    offers = plan_text.offers_text(plan.candidates.offers)
    text = f"{'proven best' if proof == 'optimal' else proof} of {service.kinds_made:,} kinds of machines from {offers}"
    return f"{words.sanitise(service.name)} {text}" if named else text
