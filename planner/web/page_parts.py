"""Parts of the page as plain data: the script puts every text in as text, and draws every shape itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import services
from planner.report import words
from planner.report.html import plan_words
from planner.report.html.report_page import groups_of
from planner.report.plan_sections import format_market, format_place
from planner.report.sweep_text import (
    describe_reasons,
    format_difference,
    format_hours_difference,
    shown_difference,
    shown_hours_difference,
)
from planner.report.what_if_text import describe_changes
from planner.results.plan import Assignment, Plan
from planner.results.report_data import Overview
from planner.results.service_results import KindBasis, jobs_alone
from planner.results.what_if import JobDelta, WhatIf
from planner.web.app_page import drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[str, ...]
"""A label, before, after, and the difference."""


def plan_parts(plan: Plan, width: float, bases: Sequence[KindBasis] = ()) -> dict[str, Any]:
    """Return what the page shows of a plan; pictures in a width in pixels, memory of replicas where `bases` say it."""
    groups = groups_of(Overview(plan=plan, bases=tuple(bases)))
    jobs = plan_words.job_facts(jobs_alone(plan) if plan.services and plan.jobs else plan)
    has_plan = bool(plan.planned)
    return {
        "status": plan.status,
        "headline": plan_words.headline(plan),
        "warnings": plan_words.warnings(plan),
        "tiles": services.tiles(plan) if plan.services else plan_words.tiles(plan),
        "jobs": services.service_facts(plan) + jobs,
        "more_jobs": max(0, len(plan.jobs) - plan_words.MOST_BLOCKS),
        "figures": [drawn(figure, width) for group in groups for figure in group.figures],
        "relaxations": [] if has_plan else plan_words.relaxations(plan),
        "misses": [] if has_plan else plan_words.near_misses(plan),
        "usd": plan.cost.expected if plan.cost else None,
        "hours": plan.hours.expected if plan.hours else None,
        "within": plan.hours.at_confidence if plan.hours else None,
        "compared": _compared(plan),
        "made": f"{plan.candidates.made:,} candidates of {plan.candidates.offers:,} offers",
    }


def _compared(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of a pinned plan: names and figures, those of a service before those of jobs."""
    rows = services.service_compared(plan)
    if plan.cost is None or plan.hours is None:
        return [("cost", "no plan")]
    if plan.services:
        return rows if not plan.jobs else [("jobs and service", words.usd(plan.cost.expected)), *rows]
    machines = _machines(plan.jobs[0]) if len(plan.jobs) == 1 else f"{len(plan.jobs)} jobs"
    hours = plan.hours
    return [
        ("cost", words.usd(plan.cost.expected)),
        ("likely finish", words.hours(hours.expected)),
        ("ends by", words.hours(hours.at_confidence)),
        ("machines", machines),
    ]


def change_parts(before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
    """Return what changed and what it cost; `answer` is the comparison, None where the plans alone are compared."""
    if before.services or after.services:
        said = services.service_summary(answer) if answer is not None else [""]
        return {"summary": said[0], "rows": _joint_rows(before, after), "reasons": said[1:]}
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
    return {"summary": words.sanitise(summary), "rows": rows, "reasons": [words.sanitise(reason) for reason in reasons]}


def _joint_rows(before: Plan, after: Plan) -> list[Row]:
    """Return the rows of a service, and of the jobs next to it: what all cost, and the machines of each job."""
    rows = services.service_rows(before, after)
    if not (before.jobs or after.jobs):
        return rows
    old, new = ({job.name: _machines(job) for job in plan.jobs} for plan in (before, after))
    machines = [(name, old.get(name, ""), new.get(name, "")) for name in dict.fromkeys((*old, *new))]
    of_jobs = [(f"{words.sanitise(name)}: machines", was, now, "changed") for name, was, now in machines if was != now]
    return [("jobs and service", *_totals(before, after)[0][1:]), *rows, *of_jobs]


def _time_row(label: str, before: Plan, after: Plan, which: str) -> Row:
    """Return the row of one of the two times of the whole plans: `expected` or `at_confidence`."""
    old, new = (getattr(plan.hours, which) if plan.hours else None for plan in (before, after))
    change = "" if old is None or new is None else format_hours_difference(shown_hours_difference(old, new))
    return (label, *("" if hours is None else words.hours(hours) for hours in (old, new)), change)


def _totals(before: Plan, after: Plan) -> list[Row]:
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
        (names.get(change.what, change.what), change.before, change.after, "changed")
        for change in job.changes
        if change.what not in skipped
    ]
    for line in job.bill:
        old, new = ("none" if usd is None else words.usd(usd) for usd in (line.before_usd, line.after_usd))
        change = format_difference(shown_difference(line.before_usd or 0.0, line.after_usd or 0.0))
        rows.append((f"bill: {line.item.replace('gpu ', 'GPU ')}", old, new, change))
    return [tuple(map(words.sanitise, row)) for row in rows]
