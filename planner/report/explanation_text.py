"""An explanation as text: the summary, binding limits, relaxations that pay, and alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import services
from planner.report import format
from planner.report.format import line_room
from planner.report.infeasible_text import format_relaxation, limit_name, limit_value, render_relaxations, settings
from planner.report.plan_sections import cut_lines
from planner.results.differences import device_noun
from planner.results.explanation import Alternative, Binding, Explanation, LimitSensitivity, PastCost, WhyNot

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ROWS, MAX_ROWS_OF_SEVERAL = 6, 3
"""Rows of a table of alternatives, for one job and for each of several."""

SHOWN_USD, SHOWN_HOURS = 0.005, 1 / 60
"""Differences below these are not shown."""

SAME_COST = 0.005
"""Largest relative difference from an earlier cost that is called none."""

MACHINES, DIFFERENCE = 25, 14
"""Columns of machines and of the difference in a table."""

TABLES = {"provider": "Provider", "gpu": "GPU", "method": "Method"}


def render(explanation: Explanation) -> str:
    """Return the text of an explanation without a final newline."""
    if explanation.parts:
        return "\n".join(_of_both(explanation))
    if explanation.service is not None:
        return services.render_reasons(explanation)
    if explanation.why_not is not None:
        lines = why_not(explanation, explanation.why_not)
    elif explanation.status == "infeasible":
        lines = render_relaxations(explanation.relax, explanation.nearest, explanation.scenario)
    else:
        lines = plan(explanation)
    return "\n".join([*lines[:1], *cut_lines(explanation.cut), *lines[1:]])


def _of_both(explanation: Explanation) -> list[str]:
    """Return what jobs and a service cost, why each part is as it is, and what a looser limit of both saves."""
    jobs, service = explanation.parts
    whole, served = explanation.cost_usd or 0.0, service.cost_usd or 0.0
    of_jobs = format.usd(whole - served)  # of solve, which may wait less than least dollars do
    costs = f"{jobs.scenario} {of_jobs}, {service.scenario} {format.usd(served)}"
    text = f"{explanation.scenario}: {format.usd(whole)} in all: {costs}"
    lines = format.wrap_lines(format.sanitise(text), format.width(), 2)
    for part in explanation.parts:
        lines += ["", *render(part).split("\n")]
    steps = [step for step in explanation.next_steps if step.limit.startswith("limits.")]
    shared = explanation.model_copy(update={"alternatives": (), "compared_by": ""})
    both = [
        line for step in steps if step.setting for line in (*step_lines(step, shared), *settings([step.setting], 2))
    ]
    both += _next(shared.model_copy(update={"next_steps": tuple(step for step in steps if not step.setting)}))
    return [*lines, "", *format.section("Both", both)]


def plan(explanation: Explanation) -> list[str]:
    """Return why the plan is as it is."""
    lines = [_summary(explanation)]
    if explanation.compared_by:
        lines.append(format.shorten(f"  compared by {explanation.compared_by}", format.width()))
    lines += [f"  {line}" for line in format.wrap_all(explanation.notes, format.width() - 2, 2)]
    lines.append("")
    binds = [format.shorten(binding_line(limit, explanation), line_room()) for limit in explanation.binding]
    lines += format.section("Binds", binds or ["none: relaxing a single limit does not lower the cost"])
    lines += format.section("Next", _next(explanation)) if explanation.next_steps else []
    lines += format.section("Prices", [past_line(past_cost, explanation) for past_cost in explanation.past_costs])
    jobs = dict.fromkeys(option.job for option in explanation.alternatives)
    for job in jobs:
        options = [option for option in explanation.alternatives if option.job == job]
        several = len(jobs) > 1
        lines += ["", *_alternatives(options, job if several else "", MAX_ROWS_OF_SEVERAL if several else MAX_ROWS)]
    return lines


def past_line(past: PastCost, explanation: Explanation) -> str:
    """Return what the same machines would have cost, such as `7 days ago (2026-11-15): $2.93, 7 % more`."""
    change = past.cost_usd / explanation.cost_usd - 1 if explanation.cost_usd else 0.0
    than = "about the same" if abs(change) < SAME_COST else f"{abs(change):.0%} {'more' if change > 0 else 'less'}"
    return f"{past.days_ago} days ago ({past.date}): {format.usd(past.cost_usd)}, {than.replace('%', ' %')}"


def _summary(explanation: Explanation) -> str:
    count = len(explanation.binding)
    binds = "no limit binds" if not count else "1 limit binds" if count == 1 else f"{count} limits bind"
    figures = f"{format.likely(explanation.hours or 0.0)}, {format.usd(explanation.cost_usd or 0.0)}; {binds}"
    name = format.shorten(format.sanitise(explanation.scenario), 30)
    what = format.sanitise(explanation.plan)
    jobs = len({option.job for option in explanation.alternatives})
    if jobs > 1:
        what = f"{jobs} jobs"
    room = format.width() - len(name) - len(figures) - 4
    if len(what) > room and " jobs on " in what:
        what = what.partition(" on ")[0]  # a part of the machines would read as all of them
    while len(what) > room and ", " in what:
        what = what.rpartition(", ")[0]
    if len(what) > room:
        what = what.partition(" at ")[0]  # omit the place rather than cut it
    return f"{name}: {format.shorten(what, room)}, {figures}"


def binding_line(limit: Binding, explanation: Explanation) -> str:
    """Return a limit that binds, and what the plan would gain without it."""
    name = limit_name(limit.limit, job_scope(explanation))
    current = "" if isinstance(limit.current, str) else f" {limit_value(limit.limit, limit.current)}"
    if isinstance(limit.current, str) and limit.current.startswith("default"):
        current = f" ({limit.current})"
    usd = None if limit.saving_usd is None else -limit.saving_usd
    gains = format_gain(explanation, limit.saving, usd, -limit.saving_hours)
    return f"{name}{current}: without it {', '.join(gains)}"


def format_gain(explanation: Explanation, better: float | None, usd: float | None, hours: float) -> list[str]:
    """Return the differences of another plan, the objective first: `$0.40 less`, `likely 3.0 h later`.

    Parameters
    ----------
    explanation
        The explanation, for its objective.
    better
        Improvement of the objective; None if unknown.
    usd, hours
        Expected dollars and hours of the other plan minus those of the plan; no dollars where they are unknown.
    """
    money = "" if usd is None else "the same cost"
    if usd is not None and abs(usd) >= SHOWN_USD:
        money = f"{format.usd(abs(usd))} {'more' if usd > 0 else 'less'}"
    time = f"{format.likely(abs(hours))} {'later' if hours > 0 else 'earlier'}" if abs(hours) >= SHOWN_HOURS else ""
    if explanation.objective == "time":
        if better is not None and hours > -SHOWN_HOURS and better >= SHOWN_HOURS:
            time = f"{format.hours(better)} earlier at the confidence asked for"
        return [text for text in (time, money) if text] or ["less than 1 min earlier"]
    gain = [f"{format.usd(better)} better"] if explanation.compared_by and better is not None and better > 0 else []
    return [*gain, money, *([time] if time else [])]


def job_scope(explanation: Explanation) -> str:
    """Return the job whose name is omitted from its limits: the only one."""
    jobs = list(dict.fromkeys(option.job for option in explanation.alternatives))
    return jobs[0] if len(jobs) == 1 else explanation.scenario


def _next(explanation: Explanation) -> list[str]:
    """Return one entry per limit whose relaxation pays; the others in one line."""
    paying = [step for step in explanation.next_steps if step.change_to is not None]
    lines = [line for step in paying for line in step_lines(step, explanation)]
    idle = [limit_name(step.limit, job_scope(explanation)) for step in explanation.next_steps if step.change_to is None]
    if idle:
        lines += format.wrap_lines(f"no gain from relaxing: {', '.join(idle)}", line_room(), 3)
    return lines


def step_lines(step: LimitSensitivity, explanation: Explanation) -> list[str]:
    """Return the relaxation of a limit, and the plan and the price that it gives."""
    gains = ", ".join(format_gain(explanation, step.gain, step.delta_usd or 0.0, step.delta_hours or 0.0))
    old, new = limit_value(step.limit, step.change_from), limit_value(step.limit, step.change_to)
    change = f": {new}" if isinstance(step.change_to, str) else f" {old} -> {new}"
    name = limit_name(step.limit, job_scope(explanation))
    looser = f"without the limit on {name}: {gains}" if step.change_to == "none" else f"{name}{change}: {gains}"
    hours = f"{format.likely(step.hours)}, " if step.hours is not None else ""
    plan = f"{step.plan}, {hours}{format.usd(step.cost_usd or 0.0)}"
    below = [*format.wrap_lines(plan, line_room() - 2, 3)]
    below += format.wrap_lines(step.note, line_room() - 2, 2) if step.note and step.setting else []
    return format.wrap_lines(looser, line_room(), 2) + format.hang("  ", below)


def _alternatives(options: Sequence[Alternative], job: str, most: int) -> list[str]:
    """Return tables by provider, GPU and method: the best plan of each, and how it differs."""
    lines = [format.shorten(f"  Alternatives{f' for {format.sanitise(job)}' if job else ''}", format.width())]
    for by, title in TABLES.items():
        rows = [option for option in options if option.by == by]
        if not rows:
            continue
        if by == "gpu" and any(device_noun(option.gpu) == "chip" for option in rows):
            title = "GPU or TPU"
        lines.append(f"    {title:<18}{'':<{MACHINES + 1}}{'likely':>6}{'cost':>10}")
        lines += [line for option in rows[:most] for line in _row(option)]
        if len(rows) > most:
            lines.append(f"    {len(rows) - most} more: --json")
    return lines


def _row(option: Alternative) -> list[str]:
    """Return option alternative; a second line continues the difference."""
    name = format.shorten(format.sanitise(option.name), 17)
    machines = format.gpus(option.gpus, option.gpu, option.runs_at_once)
    how = {
        "provider": f"{machines}, {option.method}",
        "gpu": f"{_count(option)} at {option.provider}",
        "method": f"{machines} at {option.provider}",
    }[option.by]
    if len(how) > MACHINES and option.by != "gpu":
        how = machines  # omit method or place rather than cut them
    hours = format.hours(option.hours).removesuffix(" h") if option.hours is not None else ""
    cost = format.usd(option.cost_usd).replace("$", "") if option.cost_usd is not None else ""
    difference = option.verdict if option.allowed else "excluded"
    difference = difference.replace("no real ", "no ").replace(" more expensive", " more")
    row = f"    {name:<18}{format.shorten(format.sanitise(how), MACHINES):<{MACHINES + 1}}{hours:>6}{cost:>10}  "
    lines = format.hang(row, format.wrap_lines(difference, DIFFERENCE, 2))
    return [format.shorten(line, format.width()) for line in lines]


def _count(option: Alternative) -> str:
    """Return the number of GPUs: `8`, or `2 x 8` for parallel runs; `service` for a managed service."""
    if not option.gpus:
        return "service"
    return f"{option.runs_at_once:,} x {option.gpus:,}" if option.runs_at_once > 1 else f"{option.gpus:,}"


def why_not(explanation: Explanation, found: WhyNot) -> list[str]:
    """Return whether the alternative is feasible, why, and what makes it feasible."""
    query = format.sanitise(found.asked)
    against = ""
    if explanation.cost_usd and explanation.hours:
        against = f" against {format.usd(explanation.cost_usd)}, {format.likely(explanation.hours)}"
    figures = f"{format.usd(found.cost_usd or 0.0)}, {format.likely(found.hours or 0.0)}"
    if found.status == "chosen":
        return format.wrap_lines(f"{query}: this is the plan: {found.plan}, {figures}", format.width(), 2)
    if found.status == "possible":
        lines = format.wrap_lines(
            f"{query}: feasible: {figures}{against}{_times(found, explanation)}", format.width(), 2
        )
        lines += format.section("Plan", format.wrap_lines(found.plan, line_room(), 2))
        lines += format.section("Because", format.wrap_all(found.reasons, line_room(), 2))
        return lines
    if found.status == "beyond":
        lines = format.wrap_lines(
            f"{query}: infeasible within the limits: {'; '.join(found.reasons)}", format.width(), 4
        )
        lines.append("Smallest change, verified by solving:")
        lines += format_relaxation(1, found.relax, explanation.scenario)
        price = format.wrap_lines(f"which is {figures}{against}{_times(found, explanation)}", format.width() - 5, 2)
        return lines + format.hang(" " * 5, price)
    lines = format.wrap_lines(f"{query}: infeasible: {'; '.join(found.reasons)}", format.width(), 5)
    lines += _memory(found)
    if found.remedies:
        lines.append("Feasible with one of these changes, each verified by solving:")
        for number, fix in enumerate(found.remedies, 1):
            figures = f", {format.usd(fix.cost_usd)}, {format.likely(fix.hours)}" if fix.cost_usd and fix.hours else ""
            change = format.wrap_lines(f"{fix.change}: {fix.plan}{figures}", format.width() - 5, 2)
            lines += format.hang(f"  {number}. ", change)
            lines += settings([pair for pair in (fix.setting, *fix.also) if pair])
    return lines


def _times(found: WhyNot, explanation: Explanation) -> str:
    """Return how much more expensive, or slower if time is the objective."""
    if not explanation.cost_usd or not explanation.hours or found.cost_usd is None or found.hours is None:
        return ""
    by_time = explanation.objective == "time"
    more, less, what = ("slower", "faster", "time") if by_time else ("more expensive", "cheaper", "cost")
    times = found.hours / explanation.hours if by_time else found.cost_usd / explanation.cost_usd
    if abs(times - 1) < 0.005:
        return f": the same {what}"
    if times >= 2:
        return f": {times:,.1f}x the {what}"
    return f": {abs(times - 1) * 100:.0f} % {more if times > 1 else less}"


def _memory(found: WhyNot) -> list[str]:
    if found.memory is None:
        return []
    parts = sorted(found.memory.parts.items(), key=lambda part: (-part[1], part[0]))
    sizes = [f"{name.replace('_', ' ')} {format.gib(size)}" for name, size in parts if size >= 0.05]
    return format.section("Memory", format.join_parts([*sizes, f"peak in: {found.memory.phase}"], "  ", line_room(), 3))
