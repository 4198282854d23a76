"""Sections of a plan's text on what else could be chosen: faster plans, methods and their quality, the next best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room

if TYPE_CHECKING:
    from planner.results.plan import Assignment, Plan
    from planner.results.plan_parts import Option


def methods(job: Assignment) -> list[str]:
    """Return every method with its least cost."""
    rungs = [format_method(option, job) for option in job.ladder]
    return words.join_parts(rungs, "   ", line_room(), 3) if rungs else []


FRAMEWORKS = "Frameworks"
"""Label of the section: wider than the margin of the others."""


def frameworks(job: Assignment) -> list[str]:
    """Return the frameworks with their least cost, cheapest first, and then what rests on priors."""
    options = sorted(job.frameworks, key=lambda one: (one.prior, one.cost_usd))
    priced = [(one.label, words.usd(one.cost_usd), one.prior) for one in options if one.cost_usd is not None]
    rungs = [f"{label} about {usd} (prior)" if prior else f"{label} {usd}" for label, usd, prior in priced]
    room = line_room() - (len(FRAMEWORKS) + 3 - words.LABEL)
    return words.join_parts(rungs, "   ", room, 2) if len(rungs) > 1 else []


def format_method(option: Option, job: Assignment) -> str:
    """Return one method: its cost, and its hardware if it is not that of the plan."""
    if option.cost_usd is None:
        return f"{option.label}: {option.note or 'infeasible'}"
    other = (option.gpu, option.gpus) != (job.gpu, job.gpus)
    count = f"{option.gpus:,} x " if option.gpus > 1 else ""
    on = f" on {count}{option.gpu}" if other and option.gpu else ""
    mark = "" if option.allowed else " (excluded by `techniques.method`)"
    return f"{option.label} {words.usd(option.cost_usd)}{on}{mark}"


def lossy(job: Assignment) -> list[str]:
    """Return what the plan rounds without being asked to, with the price of doing without: at most two lines."""
    told = []
    for one in job.lossy:
        price = "not within the limits"
        if one.cost_usd is not None and one.hours is not None:
            price = f"{words.usd(one.cost_usd)}, {words.hours(one.hours)}"
        told.append(f"{one.technique} ({one.without}: {price})")
    return (
        [f"  {line}" for line in words.wrap_lines(f"uses {' and '.join(told)}", words.width() - 2, 2)] if told else []
    )


def quality(job: Assignment) -> list[str]:
    """Return what published work says of the quality of the techniques in use, in at most two lines."""
    return [line for note in job.quality[:2] for line in words.wrap_lines(note.text, line_room(), 1)]


def methods_brief(job: Assignment) -> str:
    """Return the methods without hardware, those that the scenario excludes last."""
    allowed: list[str] = []
    excluded: list[str] = []
    for option in job.ladder:
        if option.cost_usd is not None:
            (allowed if option.allowed else excluded).append(f"{option.label} {words.usd(option.cost_usd)}")
    allowed += [f"excluded: {', '.join(excluded)}"] if excluded else []
    return "; ".join(allowed)


def format_alternatives(job: Assignment) -> list[str]:
    """Return the two best alternatives in two lines each, after the objective if it is more than dollars."""
    lines = [words.shorten(f"compared by {job.compared_by}:", line_room())] if job.compared_by and job.runner_up else []
    for option in job.runner_up[:2]:
        what = f"{words.gpus(option.gpus, option.gpu, option.runs_at_once)} at {option.provider}"
        cost = f" {words.usd(option.cost_usd)}" if option.cost_usd is not None else ""
        took = f", {words.hours(option.hours)}" if option.hours is not None else ""
        note = f": {option.note}" if option.note else ""
        lines += words.wrap_lines(f"{what}{cost}{took}{note}", line_room(), 2)
    return lines


def faster(plan: Plan) -> list[str]:
    """Return what it costs to end in half and in a quarter of the hours, a line each."""
    lines = []
    for one in plan.faster:
        if one.cost_usd is None or one.hours is None:
            continue
        more = one.cost_usd - plan.jobs[0].cost_usd
        sign = "+" if more >= 0 else "-"
        machines = words.gpus(one.gpus, one.gpu, one.runs_at_once)
        trade = f"{words.hours(one.hours)} for {words.usd(one.cost_usd)} ({sign}{words.usd(abs(more))})"
        lines.append(words.shorten(words.sanitise(f"{trade}: {machines} at {one.provider}"), line_room()))
    return lines


def scope(plan: Plan) -> list[str]:
    """Return among what the plan is the best one: what "optimal" covers."""
    counts = plan.candidates
    best = "optimal" if plan.status == "optimal" else "best found"
    if not counts.offers:  # a plan that was written before offers were counted
        return []
    among = f"{best} among {counts.made:,} candidates of {counts.offers:,} offers"
    left = f"; {counts.outdated_offers:,} prices too old" if counts.outdated_offers else ""
    return words.wrap_lines(among + left, line_room(), 2) + near_tie(plan)


def near_tie(plan: Plan) -> list[str]:
    """Return the least cost where the plan costs a near tie more, and ends earlier for it."""
    least = plan.least_cost_usd
    if least is None or plan.cost_usd is None or words.usd(least) == words.usd(plan.cost_usd.expected):
        return []
    return words.wrap_lines(f"least cost {words.usd(least)}, which takes longer: --set solve.ties=0", line_room(), 2)
