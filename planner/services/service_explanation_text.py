"""Why the fleet of a service is as it is, as text: what holds each kind, what looser limits save, other fleets."""

from __future__ import annotations

from planner import generation
from planner.report import words
from planner.report.explanation_text import next_lines, render, step_lines
from planner.report.infeasible_text import limit_name, limit_value, settings
from planner.report.words import line_room
from planner.results.explanation import Alternative, Explanation, LimitSensitivity, ServiceReasons, WhyNot
from planner.results.service_results import BINDING_WORDS
from planner.services.fleet_text import proven
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
            lines += [line for row in rows for line in _row(row, explanation)]
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
        what = f"{words.sanitise(kind.machine)} ({generation.engine_name(kind.engine)}, {weights})"
        able = f"{words.significant(kind.capacity)} {service.unit}"
        each = f"{words.rate(kind.usd_per_capacity, 1)} an hour per {unit}"
        lines += words.wrap_lines(f"{what}: {BINDING_WORDS[kind.binds]}, at {able}; {each}", line_room(), 3)
    if len(service.kinds) > MOST_EXPLAINED_KINDS:
        lines.append(f"and {len(service.kinds) - MOST_EXPLAINED_KINDS} more kinds (--json)")
    return lines


def relaxations(explanation: Explanation) -> list[list[str]]:
    """Return what looser limits save, each with what to type; those that save nothing in one line."""
    paying = [step for step in explanation.next_steps if step.change_to is not None]
    found = [relaxation(step, explanation.scenario, explanation.hours or MONTH_HOURS) for step in paying]
    idle = [limit_name(step.limit, explanation.scenario) for step in explanation.next_steps if step.change_to is None]
    if idle:
        found.append(words.wrap_lines(f"no gain from relaxing: {', '.join(idle)}", line_room(), 3))
    return found


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


def _row(one: Alternative, explanation: Explanation) -> list[str]:
    """Return a fleet of one kind of thing alone: its dollars, how much more that is, its machines."""
    name = words.shorten(words.sanitise(one.name.replace("_", " ")), 18)
    if one.cost_usd is None:
        return [f"    {name:<18}{'':>11}  {one.verdict}"]
    usd = words.usd(month_usd(one.cost_usd, explanation.hours or MONTH_HOURS))
    left = f"    {name:<18}{usd:>11}  {one.verdict or times_text(1.0 + (one.difference or 0.0)):<12}  "
    kinds = [words.sanitise(kind) for kind in one.plan.split("; ")]
    shown = [*kinds[:1], f"and {len(kinds) - 1} more kind{'s' * (len(kinds) > 2)}"] if len(kinds) > 1 else kinds
    room = words.width() - len(left)
    return words.hang(left, [line for text in shown for line in words.wrap_lines(text, room, 2)])


def times_text(times: float) -> str:
    """Return how much more something costs: `25 % more`, `2.5x`."""
    if abs(times - 1.0) < 0.005:
        return "the same"
    return f"{times:,.3g}x" if times >= 2 else f"{abs(times - 1.0) * 100:.0f} % {'more' if times > 1 else 'less'}"


def _why_not(explanation: Explanation, service: ServiceReasons, found: WhyNot) -> list[str]:
    """Return what a fleet of what was asked for alone costs, or what excludes it."""
    query, hours = words.sanitise(found.asked), explanation.hours or MONTH_HOURS
    against = f"{words.usd(service.usd_per_month)} a month"
    if found.status == "impossible":
        lines = words.wrap_lines(f"{query}: no fleet: {'; '.join(found.reasons)}", words.width(), 5)
        if found.relax:
            lines.append("Smallest change, verified by solving:")
            for one in found.relax:
                name = limit_name(one.limit, explanation.scenario)
                lines += words.wrap_hanging(f"{name} {one.change_from} -> {one.change_to}: then {one.then}", 2)
                lines += settings([one.setting])
        return lines
    usd = f"{words.usd(month_usd(found.cost_usd or 0.0, hours))} a month"
    if found.status == "chosen":
        return words.wrap_lines(f"{query}: this is the plan: {found.plan}, {usd}", words.width(), 3)
    than = times_text(found.times or 1.0)
    within = "" if found.status == "possible" else " beyond the limits"
    lines = words.wrap_lines(f"{query}: feasible{within} alone: {usd} against {against}: {than}", words.width(), 2)
    lines += words.section("Fleet", words.wrap_lines(words.sanitise(found.plan), line_room(), 4))
    lines += words.section("Because", words.wrap_all(map(words.sanitise, found.reasons), line_room(), 2))
    if found.relax:
        lines += settings([change.setting for change in found.relax], 2)
    return lines
