"""What is asked of a service as text: why its fleet is so, before and after, its frontier, its simulation."""

from __future__ import annotations

from planner import generation
from planner.report import words
from planner.report.explanation_text import (
    limit_name,
    limit_value,
    next_lines,
    render,
    render_infeasible,
    render_relaxations,
    settings,
    step_lines,
)
from planner.report.what_if_text import (
    describe_setting,
    format_difference,
    is_same,
    shown_difference,
    shown_differences,
    table_lines,
    with_choice,
)
from planner.report.words import line_room
from planner.results.explanation import Alternative, Explanation, LimitSensitivity, ServiceReasons, WhyNot
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.service_results import (
    BINDING_WORDS,
    FLEET_FEATURES,
    ServiceDelta,
    ServiceFrontier,
    ServicePoint,
    ServiceReplay,
    ServiceSimulation,
    SimulatedLatency,
    SimulatedLimit,
    SimulatedStream,
    jobs_alone,
    seconds_text,
    services_usd,
    span,
)
from planner.results.simulation import Simulation
from planner.results.what_if import WhatIf
from planner.services.fleet_text import (
    DAYS,
    LIMIT_HEADS,
    LIMIT_WORDS,
    MOST_KINDS,
    both_headline,
    fleet_headline,
    proven,
    proven_in_short,
)
from planner.units import MONTH_HOURS

MOST_EXPLAINED_KINDS = 8
"""Kinds that are listed."""
ALTERNATIVE_TITLES = {"gpu": "on one GPU alone", "provider": "at one provider alone", "market": "all load on one"}


def render_reasons(explanation: Explanation) -> str:
    """Return the text of an explanation of a service, and of the jobs next to it, without a final newline."""
    if explanation.parts:
        return "\n".join(_of_both(explanation))
    service = explanation.service
    assert service is not None
    if explanation.why_not is not None:
        return "\n".join(_why_not(explanation, service, explanation.why_not))
    proof = proven(service.gap)
    replicas = explanation.plan.partition(":")[0]
    first = f"{words.sanitise(explanation.scenario)}: {replicas}, {words.usd(service.usd_per_month)} a month, {proof}"
    lines = [*words.wrap_lines(first, words.width(), 2), ""]
    lines += words.section("Binds", _kinds(service))
    lines += words.section("Next", [line for step in relaxations(explanation) for line in step])
    for by, title in ALTERNATIVE_TITLES.items():
        rows = [alternative for alternative in explanation.alternatives if alternative.by == by]
        if rows:
            lines += ["", f"  {title:<20}{'a month':>11}"]
            lines += [line for row in rows for line in _alternative_row(row, explanation)]
    return "\n".join(line.rstrip() for line in lines)


def _of_both(explanation: Explanation) -> list[str]:
    """Return what jobs and a service cost, why each part is as it is, and what a looser limit of both saves."""
    jobs, service = explanation.parts
    whole, served = explanation.cost_usd or 0.0, service.cost_usd or 0.0
    of_jobs = words.usd(whole - served)  # of solve, which may wait less than least dollars do
    costs = f"{jobs.scenario} {of_jobs}, {service.scenario} {words.usd(served)}"
    text = f"{explanation.scenario}: {words.usd(whole)} in all: {costs}"
    lines = words.wrap_lines(words.sanitise(text), words.width(), 2)
    for part in explanation.parts:
        lines += ["", *render(part).split("\n")]
    steps = [step for step in explanation.next_steps if step.limit.startswith("limits.")]
    shared = explanation.model_copy(update={"alternatives": (), "compared_by": ""})
    both = [
        line for step in steps if step.setting for line in (*step_lines(step, shared), *settings([step.setting], 2))
    ]
    both += next_lines(shared.model_copy(update={"next_steps": tuple(step for step in steps if not step.setting)}))
    return [*lines, "", *words.section("Both", both)]


def _kinds(service: ServiceReasons) -> list[str]:
    """Return each kind with what holds its capacity, and its dollars for a unit of load."""
    lines = []
    unit = {"requests/s": "request/s", "requests in flight": "request in flight"}.get(service.unit, service.unit)
    for kind in service.kinds[:MOST_EXPLAINED_KINDS]:
        weights = kind.weight_format.removesuffix("-weights")
        machine = f"{words.sanitise(kind.machine)} ({generation.engine_name(kind.engine)}, {weights})"
        able = f"{words.significant(kind.capacity)} {service.unit}"
        price = f"{words.rate(kind.usd_per_capacity, 1)} an hour per {unit}"
        lines += words.wrap_lines(f"{machine}: {BINDING_WORDS[kind.binds]}, at {able}; {price}", line_room(), 3)
    if len(service.kinds) > MOST_EXPLAINED_KINDS:
        lines.append(f"and {len(service.kinds) - MOST_EXPLAINED_KINDS} more kinds (--json)")
    return lines


def relaxations(explanation: Explanation) -> list[list[str]]:
    """Return what looser limits save, each with what to type; those that save nothing in one line."""
    paying = [step for step in explanation.next_steps if step.change_to is not None]
    texts = [relaxation(step, explanation.scenario, explanation.hours or MONTH_HOURS) for step in paying]
    idle = [limit_name(step.limit, explanation.scenario) for step in explanation.next_steps if step.change_to is None]
    if idle:
        texts.append(words.wrap_lines(f"no gain from relaxing: {', '.join(idle)}", line_room(), 3))
    return texts


def relaxation(step: LimitSensitivity, scenario: str, for_hours: float) -> list[str]:
    """Return a limit, its values and what it saves: `tpot 40ms -> 50ms saves $90.93 a month`."""
    text = f"{relaxed(step, scenario)} saves {words.usd(month_usd(-(step.delta_usd or 0.0), for_hours))} a month"
    return [*words.wrap_lines(text, line_room(), 2), *settings([step.setting], 2)]


def relaxed(step: LimitSensitivity, scenario: str) -> str:
    """Return a limit with its old and new value."""
    name = limit_name(step.limit, scenario)
    if step.change_to == "none":
        return f"without the limit on {name}"
    return f"{name} {limit_value(step.limit, step.change_from)} -> {limit_value(step.limit, step.change_to)}"


def month_usd(usd: float, for_hours: float) -> float:
    """Return dollars of a month of those of all hours."""
    return usd * MONTH_HOURS / for_hours


def _alternative_row(alternative: Alternative, explanation: Explanation) -> list[str]:
    """Return a fleet of one kind of thing alone: its dollars, how much more that is, its machines."""
    name = words.shorten(words.sanitise(alternative.name.replace("_", " ")), 18)
    if alternative.cost_usd is None:
        return [f"    {name:<18}{'':>11}  {alternative.verdict}"]
    usd = words.usd(month_usd(alternative.cost_usd, explanation.hours or MONTH_HOURS))
    left = f"    {name:<18}{usd:>11}  {alternative.verdict or times_text(1.0 + (alternative.difference or 0.0)):<12}  "
    kinds = tuple(alternative.plan.split("; "))
    if alternative.by == "market" and alternative.name == "spot":
        reserve = tuple(f"reserve: {kind}" for kind in kinds if not kind.endswith(", spot"))
        kinds = (*(kind for kind in kinds if kind.endswith(", spot")), *reserve)
    return words.hang(left, machine_lines(kinds, words.width() - len(left), MOST_FRONTIER_KINDS))


def times_text(times: float) -> str:
    """Return how much more something costs: `25 % more`, `2.5x`."""
    if abs(times - 1.0) < 0.005:
        return "the same"
    return f"{times:,.3g}x" if times >= 2 else f"{abs(times - 1.0) * 100:.0f} % {'more' if times > 1 else 'less'}"


def _why_not(explanation: Explanation, service: ServiceReasons, answer: WhyNot) -> list[str]:
    """Return what a fleet of what was asked for alone costs, or what excludes it."""
    query, hours = words.sanitise(answer.asked), explanation.hours or MONTH_HOURS
    against = f"{words.usd(service.usd_per_month)} a month"
    if answer.status == "impossible":
        lines = words.wrap_lines(f"{query}: no fleet: {'; '.join(answer.reasons)}", words.width(), 5)
        if answer.relax:
            lines.append("Smallest change, verified by solving:")
            for relaxation in answer.relax:
                name = limit_name(relaxation.limit, explanation.scenario)
                lines += words.wrap_hanging(
                    f"{name} {relaxation.change_from} -> {relaxation.change_to}: then {relaxation.then}", 2
                )
                lines += settings([relaxation.setting])
        return lines
    usd = f"{words.usd(month_usd(answer.cost_usd or 0.0, hours))} a month"
    if answer.status == "chosen":
        return words.wrap_lines(f"{query}: this is the plan: {answer.plan}, {usd}", words.width(), 3)
    than = times_text(answer.times or 1.0)
    within = "" if answer.status == "possible" else " beyond the limits"
    lines = words.wrap_lines(f"{query}: feasible{within} alone: {usd} against {against}: {than}", words.width(), 2)
    lines += words.section("Fleet", words.wrap_lines(words.sanitise(answer.plan), line_room(), 4))
    lines += words.section("Because", words.wrap_all(map(words.sanitise, answer.reasons), line_room(), 2))
    if answer.relax:
        lines += settings([change.setting for change in answer.relax], 2)
    return lines


SIDE_LABEL, LEFT_SIDE, RIGHT_SIDE = 12, 33, 35
"""Columns of the label and of either side; together 80."""


def render_service_what_if(answer: WhatIf) -> str:
    """Return the text of a what-if with a service, without a final newline."""
    before, after = answer.before, answer.after
    if after.services and after.jobs and not answer.unchanged:
        return with_choice(answer, _both(answer))
    if after.cost is None:
        ends = "infeasible" if after.status == "infeasible" else "stopped without a plan"
        lines = [words.first_fitting(answer.scenario, f"{ends} after the change"), *_stays("before", before)]
        alone = [effect for effect in answer.effects if effect.alone_status == "infeasible"]
        for effect in alone:
            lines += words.wrap_hanging(f"{describe_setting(effect.setting)} alone is infeasible", 3)
        lines += ["", *render_infeasible(after)]
    elif before.cost is None:
        lines = [words.first_fitting(answer.scenario, "feasible after the change"), "", *_blocks(answer)]
    elif answer.unchanged:
        lines = [words.first_fitting(answer.scenario, "nothing changes"), *_stays("stays", after)]
        lines += [line for hint in answer.it_would_take for line in words.wrap_hanging(hint, 3)]
    else:
        lines = [*summary(answer), "", *_blocks(answer), *shares_of_settings(answer)]
    return "\n".join(line.rstrip() for line in lines)


def _both(answer: WhatIf) -> list[str]:
    """Return what jobs and services cost together, then the table of the jobs, and that of the services."""
    before, after = answer.before, answer.after
    old = jobs_alone(before) if before.jobs else before
    jobs = answer.model_copy(update={"before": old, "after": jobs_alone(after), "services": ()})
    lines = _both_summary(answer, jobs)
    if before.jobs and all(is_same(job) for job in answer.jobs):
        lines += ["", *words.wrap_lines(f"unchanged: {', '.join(job.name for job in after.jobs)}", words.width(), 2)]
    else:
        name = after.jobs[0].name if len(after.jobs) == 1 else "jobs"
        lines += ["", words.shorten(words.sanitise(name), words.width()), *table_lines(jobs)]
    return [*lines, "", *service_lines(answer), *shares_of_settings(answer)]


def _both_summary(answer: WhatIf, jobs: WhatIf) -> list[str]:
    """Return the difference in all, and of it that of the jobs and that of the services."""
    before, after = answer.before, answer.after
    assert after.cost is not None
    whole = words.usd(after.cost.expected)
    if before.cost is None:
        text = f"feasible after the change: {whole} in all, of it {words.usd(services_usd(after))} for the service"
        return words.wrap_lines(f"{words.sanitise(answer.scenario)}: {text}", words.width(), 3)
    cost, hours = shown_differences(answer)
    unmoved = abs(services_usd(after) - services_usd(before)) < 0.005  # a cent of rounding is then the jobs'
    of_jobs = cost if unmoved else shown_differences(jobs)[0]
    time = "" if abs(hours) < 0.05 else f", {words.likely(abs(hours))} {'later' if hours > 0 else 'earlier'}"
    parts = [
        f"{name} {'the same' if abs(usd) < 0.005 else format_difference(usd)}"
        for name, usd in (("jobs", of_jobs), ("service", round(cost - of_jobs, 2)))
    ]
    text = f"{words.usd(before.cost.expected)} -> {whole} in all ({format_difference(cost)}{time})"
    return words.wrap_lines(f"{words.sanitise(answer.scenario)}: {text}: {', '.join(parts)}", words.width(), 3)


def service_lines(answer: WhatIf) -> list[str]:
    """Return the services of a plan with other jobs: what changed of them, and their tables where anything did."""
    names = [words.sanitise(service.name) for service in answer.after.services]
    if (
        not any(service.changes or abs(service.usd_per_month) >= 0.005 for service in answer.services)
        and answer.services
    ):
        return [f"unchanged: {', '.join(names)}"]
    own = answer if len(names) > 1 else answer.model_copy(update={"scenario": names[0]})
    lines = summary(own) if answer.services else [f"{', '.join(names)}: new"]
    return [*lines, "", *_blocks(answer)]


def _stays(label: str, plan: Plan) -> list[str]:
    """Return the headline of each service of a plan, after that of all where other jobs stand next to them."""
    texts = [fleet_headline(service) for service in plan.services]
    texts = [both_headline(plan), *texts] if plan.jobs else texts
    return [line for text in texts for line in words.wrap_hanging(f"{label}: {text}", 4)]


def summary(answer: WhatIf) -> list[str]:
    """Return dollars of a month more or less, what they buy, and whether that is more than what is proven."""
    texts = []
    old, later = ({service.name: service for service in plan.services} for plan in (answer.before, answer.after))
    for service in answer.services:
        usd, before = service.usd_per_month, old[service.name].fleet.usd_per_month
        new = before + usd
        difference = shown_difference(before, new)
        money = "the same dollars a month"
        if abs(difference) >= 0.005:
            share = words.percent(abs(usd) / before)
            money = f"{words.usd(abs(difference))} {'more' if usd > 0 else 'less'} a month ({share})"
        bought = _bought(service)
        buys = (
            " buys "
            if usd > 0 and abs(difference) >= 0.005 and _is_better(service, old[service.name], later[service.name])
            else ": "
        )
        bought_words = f"{buys}{bought}" if bought else ""
        texts.append(f"{service.name if len(answer.services) > 1 else answer.scenario}: {money}{bought_words}")
    lines = [line for text in texts for line in words.wrap_lines(words.sanitise(text), words.width(), 3)]
    for service in answer.services:
        if 0 < abs(service.usd_per_month) < service.proven_usd_per_month:
            proven = words.usd(service.proven_usd_per_month)
            text = f"either plan is proven to {proven} a month: the difference may be none"
            lines += words.wrap_hanging(text, 2)
    if not answer.services and answer.delta.cost_usd is not None:
        lines = [words.first_fitting(answer.scenario, f"{format_difference(answer.delta.cost_usd)} in all")]
    return lines


BOUGHT = {
    "load": "{} instead of {}",
    "per token": "{} per token instead of {}",
    "first token": "{} to the first token instead of {}",
    "served": "{} of the requests served instead of {}",
    "model": "{} instead of {}",
    "tokens": "{} tokens instead of {}",
}
"""What dollars buy or give up, in the order in which it is named."""


def _is_better(delta: ServiceDelta, before: Service, after: Service) -> bool:
    """Return whether something other than a latency changed, or a latency fell."""
    other = {change.what for change in delta.changes} & set(BOUGHT) - {"per token", "first token"}
    times = zip(before.fleet.limits, after.fleet.limits, strict=True)
    return bool(other) or any(new.predicted_seconds < old.predicted_seconds for old, new in times)


def _bought(delta: ServiceDelta) -> str:
    """Return what the dollars buy or give up, at most two things."""
    by_name = {change.what: change for change in delta.changes}
    pairs = [(text, by_name[name]) for name, text in BOUGHT.items() if name in by_name]
    return " and ".join(text.format(_peak(change.after), _peak(change.before)) for text, change in pairs[:2])


def _peak(text: str) -> str:
    """Return the end of a span: of a load the peak."""
    return text.rpartition(" to ")[2]


def _blocks(answer: WhatIf) -> list[str]:
    """Return the table of each service."""
    old = {service.name: service for service in answer.before.services}
    lines = _side_row("", "before", "after")
    for service in answer.after.services:
        if len(answer.after.services) > 1:
            lines += ["", words.shorten(words.sanitise(service.name), words.width())]
        lines += _block(old.get(service.name), service)
    return lines


def _block(old: Service | None, new: Service) -> list[str]:
    """Return dollars, proof, and whatever differs."""
    month = [f"{words.usd(service.fleet.usd_per_month)}" if service else "no plan" for service in (old, new)]
    whole = [words.usd(service.cost_usd) if service else "" for service in (old, new)]
    tokens = [
        f"{words.rate(service.fleet.usd_per_million_tokens)} a million" if service else "" for service in (old, new)
    ]
    if old is not None:
        month[1] += f"  ({format_difference(shown_difference(old.fleet.usd_per_month, new.fleet.usd_per_month))})"
        whole[1] += f"  ({format_difference(shown_difference(old.cost_usd, new.cost_usd))})"
    lines = (
        _side_row("a month", *month) + _side_row(words.duration(new.for_hours), *whole) + _side_row("tokens", *tokens)
    )
    lines += _side_row(
        "proven", *(proven(service.gap).removeprefix("proven ") if service else "" for service in (old, new))
    )
    for name, describe in FLEET_FEATURES:
        first, last = describe(old) if old is not None else "", describe(new)
        if first != last:
            lines += _side_row(name, first, last) if name != "fleet" else _fleets(first, last)
    return lines


def _fleets(before: str, after: str) -> list[str]:
    """Return the kinds of both fleets, one below the other."""
    sides = []
    for text, room in ((before, LEFT_SIDE - 2), (after, RIGHT_SIDE)):
        sides.append([line for kind in text.split("; ") for line in words.wrap_lines(kind, room, 2) if line])
    return words.hang(f"{'fleet':<{SIDE_LABEL}}", words.columns(sides[0], sides[1], LEFT_SIDE))


def _side_row(label: str, before: str, after: str) -> list[str]:
    """Return one row; a long cell continues below."""
    cells = words.columns(
        words.wrap_lines(words.sanitise(before), LEFT_SIDE - 2, 3),
        words.wrap_lines(words.sanitise(after), RIGHT_SIDE, 3),
        LEFT_SIDE,
    )
    return words.hang(f"{label:<{SIDE_LABEL}}", cells)


def shares_of_settings(answer: WhatIf) -> list[str]:
    """Return the share of each of several settings in the difference of the whole time."""
    lines = []
    for effect in answer.effects:
        usd = effect.share.cost_usd
        text = "no plan alone" if effect.alone_status == "infeasible" else "no plan without the others"
        if usd is not None and answer.delta.cost_usd is not None:
            text = f"{format_difference(usd)} of the {format_difference(answer.delta.cost_usd)}"
        lines += words.wrap_lines(f"{describe_setting(effect.setting)}: {text}", words.width() - SIDE_LABEL, 3)
    if lines:
        note = "shares: mean of the effect of each setting alone and as the last of all"
        lines += words.wrap_lines(note, words.width() - SIDE_LABEL, 2)
    return words.hang(f"{'why':<{SIDE_LABEL}}", lines)


MOST_FRONTIER_KINDS = 3


def render_service_frontier(frontier: ServiceFrontier) -> str:
    """Return the text of a frontier of a service without a final newline."""
    if not frontier.points:
        relax, nearest = (frontier.infeasible.relax, frontier.infeasible.nearest) if frontier.infeasible else ((), ())
        return "\n".join([*render_relaxations(relax, nearest, frontier.scenario), *_notes(frontier)])
    lines = [*words.wrap_lines(service_frontier_summary(frontier), words.width(), 3), ""]
    lines.append(f"{'per token':>10}  {'a month':>11}  {'proven':>7}  {'replicas':>8}  fleet")
    for point in frontier.points:
        lines += _point_row(point)
    lines += ["", *_notes(frontier)]
    other = next((point for point in reversed(frontier.points) if not point.asked and point.setting), None)
    if other is not None:
        lines += [f"  the plan of a row, here of {seconds_text(other.tpot_seconds)}, by planner solve with"]
        lines += settings([other.setting], 4)
    return "\n".join(lines)


def service_frontier_summary(frontier: ServiceFrontier) -> str:
    """Return both ends of the frontier in one sentence."""
    first, last = frontier.points[0], frontier.points[-1]
    ends = f"{words.usd(first.usd_per_month)} a month within {seconds_text(first.tpot_seconds)} per token"
    if last is not first:
        ends += f" to {words.usd(last.usd_per_month)} within {seconds_text(last.tpot_seconds)}"
    share = words.share_text(frontier.share)
    load = f"{words.significant(frontier.load)} {frontier.unit}"
    return f"{words.sanitise(frontier.scenario)}: {ends}, for {share} of {load}"


def _point_row(point: ServicePoint) -> list[str]:
    """Return a point: limit, dollars, how far it is proven, replicas, machines."""
    proof = proven_in_short(point.gap)
    limit = f"{'> ' if point.asked else ''}{seconds_text(point.tpot_seconds)}"
    replicas = span(point.least_replicas, point.most_replicas)
    left = f"{limit:>10}  {words.usd(point.usd_per_month):>11}  {proof:>7}  {replicas:>8}  "
    return words.hang(left, machine_lines(point.machines, words.width() - len(left), MOST_FRONTIER_KINDS))


def machine_lines(machines: tuple[str, ...], room: int, most: int) -> list[str]:
    """Return the kinds of a fleet one below the other, those that do not fit as a count."""
    shown = machines if len(machines) <= most else machines[: most - 1]
    lines = [line for machine in shown for line in words.wrap_lines(words.sanitise(machine), room, 3)]
    more = len(machines) - len(shown)
    return [*lines, f"and {more} more kinds (--json)"] if more else lines


def _notes(frontier: ServiceFrontier) -> list[str]:
    """Return what the rows rest on."""
    notes = []
    if any(point.asked for point in frontier.points):
        notes.append("> the limit of the scenario: the plan of planner solve")
    held = tuple(dict.fromkeys(name for point in frontier.points for name in point.binds))
    if held and "TPOT" not in frontier.points[-1].binds:
        last = ", ".join(BINDING_WORDS[name] for name in frontier.points[-1].binds)
        notes.append(f"above {seconds_text(frontier.points[-1].tpot_seconds)} nothing is gained: limited by {last}")
    if frontier.least_tpot_seconds is not None:
        least = seconds_text(frontier.least_tpot_seconds)
        notes.append(f"no kind answers faster than {least} per token, at no load and at the confidence of the job")
    if frontier.ttft_seconds is not None and frontier.points:
        notes.append(f"every row keeps {seconds_text(frontier.ttft_seconds)} to the first token")
    notes += [words.sanitise(note) for note in frontier.notes]
    bare = sum(point.gap >= 1.0 for point in frontier.points)
    notes.append(
        f"{frontier.solved} limits solved, each with a bound of its own"
        if not bare
        else f"{frontier.solved} limits solved; of {bare} no bound was found within the time limit"
    )
    return [line for note in notes for line in words.wrap_hanging(note, 3)]


_DAY = 24
LATENCY_HEADER = ("", "limit", "asked", "plan", "simulated", "plan", "simulated")
LATENCY_ROOM = (27, 8, 7, 9, 10, 9, 10)
"""Columns of the table: what, limit, and the share within it and the quantile, each as predicted and simulated."""


def render_service_simulation(simulation: ServiceSimulation) -> str:
    """Return the text of a simulation of services without a final newline."""
    if not simulation.services:
        return "\n".join(render_infeasible(simulation.plan))
    lines = service_replays(simulation)
    return "\n".join([*lines, *words.section("Notes", words.wrap_all(simulation.notes, line_room(), 3))])


def service_replays(simulation: ServiceSimulation | Simulation) -> list[str]:
    """Return the lines of each service, with an empty line between two."""
    lines: list[str] = []
    for service in simulation.services:
        lines += [*([""] if lines else []), *_service(service, simulation)]
    return lines


def _service(service: ServiceReplay, simulation: ServiceSimulation | Simulation) -> list[str]:
    """Return the lines of one service."""
    lines = [*words.wrap_lines(_headline(service), words.width(), 3), ""]
    for stream in service.streams:
        lines += [*_table(service, stream), ""]
    lines += words.section("Refused", words.wrap_lines(refused(service), line_room(), 4))
    runs = f"{simulation.runs:,} requests in each of {service.distinct_hours:,} distinct hours, Poisson and in bursts"
    cycle = "day" if service.cycle_hours == _DAY else "week"
    text = f"{runs}, {service.requests:,} in all; hours count by their requests of a {cycle}"
    return [*lines, *words.section("Sampled", words.wrap_lines(text, line_room(), 3))]


def _headline(service: ServiceReplay) -> str:
    """Return how much of the requests is within each limit, and what is refused."""
    parts = []
    for limit in service.streams[0].limits:
        if limit.limit_seconds is not None and limit.cycle.simulated_share is not None:
            asked = words.percent(limit.asked_share).replace(".0 %", " %")
            share = words.percent(limit.cycle.simulated_share)
            parts.append(
                f"{share} within {seconds_text(limit.limit_seconds)}{LIMIT_HEADS[limit.name]} (asked: {asked})"
            )
    held = ", ".join(parts) or "no limit on latency"
    refused = f"{_share(service.refused_share)} refused" if service.refused_share else "none refused"
    return f"{words.sanitise(service.name)}: {held}, {refused}"


def _table(service: ServiceReplay, stream: SimulatedStream) -> list[str]:
    """Return the figures of one stream."""
    words_of = {"Poisson": "Poisson arrivals", "bursts": "bursts (gaps twice as varied as a Poisson stream's)"}
    share = words.percent(stream.limits[0].asked_share).replace(".0 %", " %")
    heads = (
        " " * sum(LATENCY_ROOM[:3])
        + "within limit".rjust(sum(LATENCY_ROOM[3:5]))
        + f"{share} below".rjust(sum(LATENCY_ROOM[5:]))
    )
    lines = [words_of[stream.name], heads, _latency_row(LATENCY_HEADER)]
    lines += [_limit_row(limit, limit.cycle, f"{LIMIT_WORDS[limit.name]}, all hours") for limit in stream.limits]
    when = busiest_hour(service)
    lines += [_limit_row(limit, limit.busiest, f"{LIMIT_WORDS[limit.name]}, {when}") for limit in stream.limits]
    if len(stream.kinds) > 1:
        for kind in stream.kinds[:MOST_KINDS]:
            lines.append(words.shorten(f"  {words.sanitise(f'{kind.gpu} at {kind.provider}')}", words.width()))
            for limit in stream.limits:
                text = f"    {LIMIT_WORDS[limit.name]}, {when}"
                lines.append(_limit_row(limit, kind.ttft if limit.name == "ttft" else kind.tpot, text))
    if len(stream.kinds) > MOST_KINDS:
        lines.append(f"  {len(stream.kinds) - MOST_KINDS:,} more kinds: --json")
    return lines


def _limit_row(limited: SimulatedLimit, latency: SimulatedLatency, text: str) -> str:
    """Return one line of the table."""
    limit = "none" if limited.limit_seconds is None else seconds_text(limited.limit_seconds)
    shares = [latency.predicted_share, latency.simulated_share]
    inside = ["" if share is None else words.percent(share) for share in shares]
    asked = "" if limited.limit_seconds is None else words.percent(limited.asked_share).replace(".0 %", " %")
    return _latency_row(
        (text, limit, asked, *inside, seconds_text(latency.predicted_seconds), seconds_text(latency.simulated_seconds))
    )


def _latency_row(cells: tuple[str, ...]) -> str:
    """Return a line of the table: the first cell to the left, figures to the right."""
    first = words.shorten(cells[0], LATENCY_ROOM[0]).ljust(LATENCY_ROOM[0])
    return (first + "".join(cell.rjust(room) for cell, room in zip(cells[1:], LATENCY_ROOM[1:], strict=True))).rstrip()


def busiest_hour(service: ServiceReplay) -> str:
    """Return the busiest hour: Mon 18:00, or 18:00 of a day."""
    day, hour = divmod(service.busiest_hour, _DAY)
    return f"{hour}:00" if service.cycle_hours == _DAY else f"{DAYS[day]} {hour}:00"


def refused(service: ServiceReplay) -> str:
    """Return what is refused, next to what the plan says."""
    if not service.refused_share and not service.predicted_refused_share:
        return "none"
    planned = _share(service.predicted_refused_share)
    cut = f"; {_share(service.cut_share)} are cut off by a loss and have to be sent again" if service.cut_share else ""
    return (
        f"{_share(service.refused_share)} of the requests while spot groups are lost or start again "
        f"(plan: {planned}){cut}"
    )


def _share(share: float) -> str:
    """Return a share of the requests; what is there is never shown as none."""
    return "below 0.1 %" if 0.0 < share < 0.001 else words.percent(share)
