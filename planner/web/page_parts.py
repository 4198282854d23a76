"""Parts of the page as plain data: the script puts every text in as text, and draws every shape itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.drawing.scene import Dot, Line, Rect, Scene, Shape
from planner.report import plan_answer, report_page, words
from planner.report.plan_answer import risks_of
from planner.report.plan_figures import Figure, Table
from planner.report.plan_sections import format_market, format_optimality, format_place
from planner.report.report_page import groups_of
from planner.report.sweep_text import (
    describe_reasons,
    format_difference,
    format_hours_difference,
    shown_difference,
    shown_hours_difference,
)
from planner.report.what_if_text import describe_changes
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Option
from planner.results.report_data import Overview
from planner.results.service_results import KindBasis
from planner.results.what_if import JobDelta, WhatIf
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[str, ...]
"""A label, before, after, and the difference."""


def plan_parts(plan: Plan, width: float, bases: Sequence[KindBasis] = ()) -> dict[str, Any]:
    """Return what the page shows of a plan; pictures in a width in pixels, memory of replicas where `bases` say it."""
    groups = groups_of(Overview(plan=plan, bases=tuple(bases)))
    subject = shown_by(plan)
    own = [] if subject is None else subject.facts(plan)
    has_plan = bool(plan.planned)
    return {
        "status": plan.status,
        "headline": report_page.headline(plan),
        "warnings": report_page.warnings(plan),
        "tiles": answer_tiles(plan),
        "chips": chips(plan),
        "machine": machines_of(plan.jobs[0]) if len(plan.jobs) == 1 else "",
        "others": other_rows(plan),
        "changes": possible_changes(plan),
        "jobs": [*own, *report_page.job_facts(plan)],
        "more_jobs": max(0, len(plan.jobs) - report_page.MOST_BLOCKS),
        "figures": [drawn(figure, width) for group in groups for figure in group.figures],
        "relaxations": [] if has_plan else report_page.relaxations(plan),
        "misses": [] if has_plan else report_page.near_misses(plan),
        "usd": plan.cost.expected if plan.cost else None,
        "hours": plan.hours.expected if plan.hours else None,
        "within": plan.hours.at_confidence if plan.hours else None,
        "compared": _compared(plan),
        "made": f"{plan.candidates.made:,} candidates of {plan.candidates.offers:,} offers",
    }


# The answer at a glance: the bar that stays, what else could be rented, and what one change would bring.


MOST_TILES = 5
"""Figures in the bar."""
METHOD_SETTINGS = {
    "full": "method=full",
    "LoRA": "weight_bits=[16]",
    "LoRA 8-bit": "weight_bits=[8]",
    "QLoRA": "weight_bits=[4]",
}
"""The technique that asks for each method that the table of ways names."""


def answer_tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the figures of the bar: name, figure, and what it is measured against; without a plan why there is none.

    The least change that gives one is then the second, and the first of `possible_changes` makes it.
    """
    if not plan.planned:
        least = [("least change", changed, then) for changed, then, _ in report_page.ways_out(plan)[:1]]
        return [("answer", "No plan", report_page.headline(plan)), *least]
    if plan.subject is not None or len(plan.jobs) != 1 or plan.cost is None or plan.hours is None:
        return report_page.tiles(plan)[:MOST_TILES]
    job, cost, hours = plan.jobs[0], plan.cost, plan.hours
    found = [("cost", words.usd(cost.expected), f"{words.usd_between(cost.low, cost.high)}, 80 %")]
    if plan.outlay_usd:
        found.append(("paid at once", f"${plan.outlay_usd:,.0f}", "purchases, upfront payments and blocks"))
    rent = plan_answer.rent_per_hour(job)
    place = f"{words.sanitise(job.provider)}, {format_market(job.spot_share, job.tier)}"
    paid = place if rent is None else f"{place}, {words.rate(rent)}/h"
    found.append(("machine", words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once)), paid))
    found.append(("likely", words.hours(hours.expected), words.by(hours.at_confidence)))
    if job.deadline_probability is not None and job.deadline_hours is not None:
        chance = words.chance_text(job.deadline_probability, at_least=job.spot is not None)
        found.append(("in time", chance, f"deadline {words.plain_number(job.deadline_hours)} h"))
    if job.gpus:
        vram = job.vram_gib
        sure = "observed" if job.observed_hours is not None else words.probability_text(vram.fit_probability)
        found.append(("memory", f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB", f"fits: {sure}"))
    return found


def chips(plan: Plan) -> list[tuple[str, str, str]]:
    """Return proof and risks in a few words: tone (`good` or `attention`), text, and the whole sentence."""
    if not plan.planned:
        return []
    if (subject := shown_by(plan)) is not None:
        return subject.chips(plan)
    proof = format_optimality(plan)
    of = f"{plan.candidates.made:,} candidates of {plan.candidates.offers:,} offers"
    proven = ("good", "proven optimal", of) if proof == "optimal" else ("attention", proof, of)
    risks = risks_of(plan, plan.only_job) if plan.only_job is not None else []
    return [proven, *(("attention", risk.kind, words.sanitise(risk.text)) for risk in risks)]


def other_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return the plan and the other ways to run its job that it names; none of several jobs."""
    if (job := plan.only_job) is None:
        return []
    ways = plan_answer.ways_of(plan, job)
    return [
        {
            "machine": way.machine.partition(" at ")[0],
            "place": way.machine.partition(" at ")[2],
            "rent": way.usd_per_hour,
            "usd": way.cost_usd,
            "by": way.late_hours,
            "how": way.method,
            "plan": way.name == "plan",
            "why": "" if way.name == "plan" else why_not_chosen(job, way.cost_usd, way.late_hours, way.note),
        }
        for way in ways
    ]


def option_rows(plan: Plan, options: Sequence[Option]) -> list[dict[str, Any]]:
    """Return the best of each GPU at each provider as rows; the plan's own machines have the plan's figures."""
    job = plan.jobs[0]
    rows = [row for row in other_rows(plan) if row["plan"]]
    for option in options:
        if option.cost_usd is None or (option.gpu, option.provider) == (job.gpu, job.provider):
            continue
        late = option.hours_at_confidence
        rows.append(
            {
                "machine": words.sanitise(words.gpus(option.gpus, option.gpu, option.runs_at_once)),
                "place": words.sanitise(f"{option.provider}, {format_market(option.spot_share, option.tier)}"),
                "rent": option.usd_per_hour,
                "usd": option.cost_usd,
                "by": late,
                "how": option.method,
                "plan": False,
                "why": why_not_chosen(job, option.cost_usd, late, option.note),
            }
        )
    return rows


def why_not_chosen(job: Assignment, usd: float, late: float | None, note: str = "") -> str:
    """Return why another way is not the plan: what excludes it, or what it costs and takes against the plan."""
    if note:
        return words.sanitise(note)
    more = usd - job.cost_usd
    share = more / job.cost_usd if job.cost_usd > 0 else 0.0
    price = (
        "same cost" if abs(more) < 0.005 else f"{abs(share):.0%} {'more' if more > 0 else 'less'}".replace("%", " %")
    )
    if late is None:
        return price
    wait = late - job.hours.at_confidence
    return price if abs(wait) < 0.05 else f"{price}, {words.hours(abs(wait))} {'later' if wait > 0 else 'earlier'}"


def possible_changes(plan: Plan) -> list[dict[str, str]]:
    """Return what one change of the scenario would bring: words, dollars, and the setting that makes it.

    Of a plan these are other methods, an earlier end and safer machines; of an infeasible scenario the smallest
    relaxations, each verified by solving.
    """
    if not plan.planned:
        return [{"text": text, "gain": "", "setting": setting} for text, setting in report_page.relaxations(plan)]
    if (job := plan.only_job) is None:
        return []
    own = next(way for way in plan_answer.ways_of(plan, job) if way.name == "plan")
    where, found = f"jobs.{job.name}", list[tuple[str, float, str]]()
    for option in job.safer:
        if option.cost_usd is not None and option.note:
            found.append((f"{option.label} machines only", option.cost_usd, option.note))
    for option in plan.faster:
        if option.cost_usd is not None and option.hours_at_confidence is not None:
            hours = option.hours_at_confidence
            setting = f"{where}.deadline={math.ceil(hours * 100) / 100:.10g}h"
            found.append((f"end by {words.hours_by(hours)}", option.cost_usd, setting))
    for way in plan_answer.ways_of(plan, job):
        if way.name in METHOD_SETTINGS and way.method != own.method:
            found.append(
                (
                    f"{way.name} in place of {own.method}",
                    way.cost_usd,
                    f"{where}.techniques.{METHOD_SETTINGS[way.name]}",
                )
            )
    return [
        {
            "text": words.sanitise(text),
            "gain": format_difference(shown_difference(job.cost_usd, usd)),
            "setting": setting,
        }
        for text, usd, setting in found
    ]


def _compared(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of a pinned plan: names and figures."""
    if plan.cost is None or plan.hours is None:
        return [("cost", "no plan")]
    if (subject := shown_by(plan)) is not None:
        return subject.compared(plan)
    machines = machines_of(plan.jobs[0]) if len(plan.jobs) == 1 else f"{len(plan.jobs)} jobs"
    hours = plan.hours
    return [
        ("cost", words.usd(plan.cost.expected)),
        ("likely finish", words.hours(hours.expected)),
        ("ends by", words.hours_by(hours.at_confidence)),
        ("machines", machines),
    ]


def change_parts(before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
    """Return what changed and what it cost; `answer` is the comparison, None where the plans alone are compared."""
    if (subject := shown_by(after) or shown_by(before)) is not None:
        return subject.change_parts(before, after, answer)
    rows = totals(before, after)
    if answer is None:
        return {"summary": "", "rows": rows, "reasons": []}
    single = len(after.jobs) <= 1
    for job in answer.jobs:
        start = "" if single else f"{words.sanitise(job.name)}: "
        rows += [(start + label, *rest) for label, *rest in _job_rows(job, single)]
    same = answer.unchanged
    summary = "" if not (before.jobs and after.jobs) else "nothing changes" if same else describe_changes(answer)[0]
    reasons = answer.it_would_take if same else describe_reasons(answer) if answer.settings else ()
    return {"summary": words.sanitise(summary), "rows": rows, "reasons": [words.sanitise(reason) for reason in reasons]}


def _time_row(label: str, before: Plan, after: Plan, which: str) -> Row:
    """Return the row of one of the two times of the whole plans: `expected` or `at_confidence`."""
    old, new = (getattr(plan.hours, which) if plan.hours else None for plan in (before, after))
    if which == "at_confidence":
        old, new = (None if hours is None else words.shown_by(hours) for hours in (old, new))
    change = "" if old is None or new is None else format_hours_difference(shown_hours_difference(old, new))
    return (label, *("" if hours is None else words.hours(hours) for hours in (old, new)), change)


def totals(before: Plan, after: Plan) -> list[Row]:
    """Return the rows of cost, hours and machines of the whole plans."""
    usd, new_usd = (plan.cost.expected if plan.cost else None for plan in (before, after))
    cost = ""
    if usd is not None and new_usd is not None:
        cost = format_difference(shown_difference(usd, new_usd))
    rows: list[Row] = [
        ("cost", *("no plan" if dollars is None else words.usd(dollars) for dollars in (usd, new_usd)), cost),
        _time_row("likely finish", before, after, "expected"),
        _time_row("ends by", before, after, "at_confidence"),
    ]
    if len(before.jobs) <= 1 and len(after.jobs) <= 1:
        machines = [machines_of(plan.jobs[0]) if plan.jobs else "" for plan in (before, after)]
        rows.append(("machines", *machines, "" if machines[0] == machines[1] else "changed"))
    return rows


def machines_of(job: Assignment) -> str:
    """Return the machines of a job, where they are and how they are paid."""
    return f"{format_place(job)}, {format_market(job.spot_share, job.tier)}"


def _job_rows(job: JobDelta, is_single: bool) -> list[Row]:
    """Return the differences of one job: techniques and machines, then the lines of the bill."""
    skipped = ("card", "GPUs", "provider", "region", "instance") if is_single else ()
    names = {"card": "GPU", "machines": "nodes"}
    rows = [
        (names.get(change.what, change.what), change.before, change.after, "changed")
        for change in job.changes
        if change.what not in skipped
    ]
    for line in job.bill:
        old, new = ("none" if usd is None else words.usd(usd) for usd in (line.before_usd, line.after_usd))
        change = format_difference(shown_difference(line.before_usd or 0.0, line.after_usd or 0.0))
        rows.append((f"bill: {line.item.replace('gpu ', 'GPU ')}", old, new, change))
    return [tuple(map(words.sanitise, row)) for row in rows]


# Figures as plain data: texts, a table, and a picture as a list of shapes that the script of the page draws.


def figure_data(figure: Figure) -> dict[str, Any]:
    """Return the texts and the table of a figure."""
    return {
        **{"key": figure.key, "title": figure.title, "lead": figure.lead, "notes": list(figure.notes)},
        "table": _table(figure.table),
    }


def drawn(figure: Figure, width: float) -> dict[str, Any]:
    """Return a figure with its picture in a width in pixels."""
    scene = scene_data(figure.draw(width)) if figure.draw is not None else None
    return {**figure_data(figure), "scene": scene}


def _table(table: Table) -> dict[str, Any]:
    return {"header": table.header, "rows": table.rows}


def scene_data(scene: Scene) -> dict[str, Any]:
    """Return a picture as lists of figures and texts."""
    size = {"width": round(scene.width, 1), "height": round(scene.height, 1)}
    texts = {"title": scene.title, "description": scene.description}
    return {**size, **texts, "data": dict(scene.data), "shapes": [_shape(shape) for shape in scene.shapes]}


def _shape(shape: Shape) -> list[Any]:
    """Return one shape: its kind, its figures, its colours by role, its text."""
    if isinstance(shape, Rect):
        box = [round(length, 1) for length in (shape.x, shape.y, shape.width, shape.height)]
        return ["rect", *box, shape.fill, shape.note, int(shape.striped)]
    if isinstance(shape, Dot):
        return ["dot", round(shape.x, 1), round(shape.y, 1), shape.radius, shape.stroke, shape.fill, shape.note]
    if isinstance(shape, Line):
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in shape.points)
        return ["line", way, shape.stroke, shape.width, int(shape.dashed)]
    place = [round(shape.x, 1), round(shape.y, 1)]
    return ["text", *place, shape.text, shape.fill, shape.anchor, shape.size, int(shape.bold)]
