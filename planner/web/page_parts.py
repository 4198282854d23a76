"""Parts of the page as plain data: the script puts every text in as text, and draws every shape itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.report import format as words
from planner.report.html import facts
from planner.report.html.plan_figures import bill_figure, memory_figure, timetable_figure
from planner.report.plan_sections import format_market, format_place
from planner.report.what_if.comparison import describe_changes
from planner.report.what_if.differences import (
    describe_reasons,
    format_difference,
    format_hours_difference,
    shown_difference,
    shown_hours_difference,
)
from planner.results.report.scene import Dot, Line, Rect, Scene, Shape

if TYPE_CHECKING:
    from planner.report.html.figure import Figure, Table
    from planner.results.plan import Assignment, Plan
    from planner.results.what_if import JobDelta, WhatIf

Row = tuple[str, ...]
"""A label, before, after, and the difference."""


def plan_parts(plan: Plan, width: float) -> dict[str, Any]:
    """Return what the page shows of a plan; pictures in a width in pixels."""
    figures = [bill_figure(plan), memory_figure(plan), timetable_figure(plan)] if plan.jobs else []
    return {
        "status": plan.status,
        "headline": facts.headline(plan),
        "tiles": facts.tiles(plan),
        "jobs": facts.job_facts(plan),
        "more_jobs": max(0, len(plan.jobs) - facts.MOST_BLOCKS),
        "figures": [_drawn(figure, width) for figure in figures if figure is not None],
        "relaxations": facts.relaxations(plan) if not plan.jobs else [],
        "misses": facts.near_misses(plan) if not plan.jobs else [],
        "assumptions": _table(facts.assumptions(plan)) if plan.jobs else None,
        "usd": plan.cost_usd.expected if plan.cost_usd else None,
        "hours": plan.hours.expected if plan.hours else None,
        "within": plan.hours.at_confidence if plan.hours else None,
        "summary": [_machines(job) for job in plan.jobs],
        "made": f"{plan.candidates.made:,} candidates of {plan.candidates.offers:,} offers",
    }


def figure_data(figure: Figure) -> dict[str, Any]:
    """Return the texts and the table of a figure."""
    return {
        **{"key": figure.key, "title": figure.title, "lead": figure.lead, "notes": list(figure.notes)},
        "table": _table(figure.table),
    }


def _drawn(figure: Figure, width: float) -> dict[str, Any]:
    scene = scene_data(figure.draw(width)) if figure.draw is not None else None
    return {**figure_data(figure), "scene": scene}


def _table(table: Table) -> dict[str, Any]:
    return {"header": table.header, "rows": table.rows}


def scene_data(scene: Scene) -> dict[str, Any]:
    """Return a picture as lists of figures and texts."""
    size = {"width": round(scene.width, 1), "height": round(scene.height, 1)}
    texts = {"title": scene.title, "description": scene.description}
    return {**size, **texts, "data": dict(scene.data), "shapes": [_shape(one) for one in scene.shapes]}


def _shape(shape: Shape) -> list[Any]:
    """Return one shape: its kind, its figures, its colours by role, its text."""
    if isinstance(shape, Rect):
        box = [round(one, 1) for one in (shape.x, shape.y, shape.width, shape.height)]
        return ["rect", *box, shape.fill, shape.note]
    if isinstance(shape, Dot):
        return ["dot", round(shape.x, 1), round(shape.y, 1), shape.radius, shape.stroke, shape.fill, shape.note]
    if isinstance(shape, Line):
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in shape.points)
        return ["line", way, shape.stroke, shape.width, int(shape.dashed)]
    place = [round(shape.x, 1), round(shape.y, 1)]
    return ["text", *place, shape.text, shape.fill, shape.anchor, shape.size, int(shape.bold)]


def change_parts(before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
    """Return what changed and what it cost; `answer` is the comparison, None where the plans alone are compared."""
    rows = _totals(before, after)
    if answer is None:
        return {"summary": "", "rows": rows, "reasons": []}
    single = len(after.jobs) <= 1
    for job in answer.jobs:
        start = "" if single else f"{words.sanitise(job.name)}: "
        rows += [(start + label, *rest) for label, *rest in _job_rows(job, single)]
    same = answer.unchanged
    summary = "" if not (before.jobs and after.jobs) else "nothing changes" if same else describe_changes(answer)[0]
    reasons = answer.it_would_take if same else describe_reasons(answer) if answer.settings else ()
    return {"summary": words.sanitise(summary), "rows": rows, "reasons": [words.sanitise(one) for one in reasons]}


def _totals(before: Plan, after: Plan) -> list[Row]:
    """Return the rows of cost, hours and machines of the whole plans."""
    usd, new_usd = (plan.cost_usd.expected if plan.cost_usd else None for plan in (before, after))
    hours, new_hours = (plan.hours.expected if plan.hours else None for plan in (before, after))
    cost = time = ""
    if usd is not None and new_usd is not None:
        cost = format_difference(shown_difference(usd, new_usd))
    if hours is not None and new_hours is not None:
        time = format_hours_difference(shown_hours_difference(hours, new_hours))
    rows: list[Row] = [
        ("cost", *("no plan" if one is None else words.usd(one) for one in (usd, new_usd)), cost),
        ("finish", *("" if one is None else words.hours(one) for one in (hours, new_hours)), time),
    ]
    if len(before.jobs) <= 1 and len(after.jobs) <= 1:
        machines = [_machines(plan.jobs[0]) if plan.jobs else "" for plan in (before, after)]
        rows.append(("machines", *machines, "" if machines[0] == machines[1] else "changed"))
    return rows


def _machines(job: Assignment) -> str:
    return f"{format_place(job)}, {format_market(job.spot_share, job.tier)}"


def _job_rows(job: JobDelta, is_single: bool) -> list[Row]:
    """Return the differences of one job: techniques and machines, then the lines of the bill."""
    skipped = ("card", "GPUs", "provider", "region", "instance") if is_single else ()
    names = {"card": "GPU", "machines": "nodes"}
    rows = [
        (names.get(one.what, one.what), one.before, one.after, "changed")
        for one in job.changes
        if one.what not in skipped
    ]
    for line in job.bill:
        old, new = ("none" if usd is None else words.usd(usd) for usd in (line.before_usd, line.after_usd))
        change = format_difference(shown_difference(line.before_usd or 0.0, line.after_usd or 0.0))
        rows.append((f"bill: {line.item.replace('gpu ', 'GPU ')}", old, new, change))
    return [tuple(map(words.sanitise, row)) for row in rows]
