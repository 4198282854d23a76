"""Parts of the page of a service as plain data: what changed, what is pinned, and its curve."""

from __future__ import annotations

from typing import Any

from planner.report import words
from planner.report.sweep_text import format_difference, shown_difference
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.service_results import FLEET_FEATURES, ServiceFrontier, ServicePoint, replicas_text
from planner.results.what_if import WhatIf
from planner.scenario.scenario import Scenario, SolveOptions, services_alone
from planner.services.fleet_refusals import ServiceTrial
from planner.services.fleet_text import proven
from planner.services.service_comparison_text import summary
from planner.services.service_curve import SERVICE_POINTS, service_frontier
from planner.services.service_figures import service_frontier_figure
from planner.subjects import SubjectCurve
from planner.units import MILLISECONDS
from planner.web.app_page import figure_data, scene_data
from planner.web.page_parts import machines_of, totals

Row = tuple[str, ...]
"""A label, before, after, and the difference."""


def chips(plan: Plan) -> list[tuple[str, str, str]]:
    """Return what is proven of each service: tone (`good` or `attention`), text, and its name."""
    return [proof_chip(service.gap, service.name) for service in plan.services]


def proof_chip(gap: float | None, name: str) -> tuple[str, str, str]:
    """Return what is proven of a service."""
    if gap is not None and gap < NO_GAP:
        return "good", "proven optimal", words.sanitise(name)
    text = "no bound" if gap is None else f"within {words.percent(gap)} of the bound"
    return "attention", text, words.sanitise(name)


NO_GAP = 0.0005
"""A gap that is none on the screen."""


def change_of_services(before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
    """Return what changed and what it cost; None for `answer` where the plans alone are compared."""
    said = service_summary(answer) if answer is not None else [""]
    return {"summary": said[0], "rows": _joint_rows(before, after), "reasons": said[1:]}


def _joint_rows(before: Plan, after: Plan) -> list[Row]:
    """Return the rows of a service, and of the jobs next to it: what all cost, and the machines of each job."""
    rows = service_rows(before, after)
    if not (before.jobs or after.jobs):
        return rows
    old, new = ({job.name: machines_of(job) for job in plan.jobs} for plan in (before, after))
    machines = [(name, old.get(name, ""), new.get(name, "")) for name in dict.fromkeys((*old, *new))]
    of_jobs = [(f"{words.sanitise(name)}: machines", was, now, "changed") for name, was, now in machines if was != now]
    return [("jobs and service", *totals(before, after)[0][1:]), *rows, *of_jobs]


def service_rows(before: Plan, after: Plan) -> list[Row]:
    """Return dollars and whatever differs of the fleet of the only service; a side without a fleet is said to be."""
    old, new = (next(iter(plan.services), None) for plan in (before, after))
    known = new or old
    assert known is not None
    rows = [
        _dollars("a month", *(service.fleet.usd_per_month if service else None for service in (old, new))),
        _dollars(words.duration(known.for_hours), *(service.cost_usd if service else None for service in (old, new))),
        _dollars("per million tokens", *(one.fleet.usd_per_million_tokens if one else None for one in (old, new))),
        ("proven", *(proven(service.gap).removeprefix("proven ") if service else "" for service in (old, new)), ""),
    ]
    for name, describe in FLEET_FEATURES:
        first, last = (describe(service) if service else "" for service in (old, new))
        if first != last:
            rows.append((name, first, last, "changed"))
    return [tuple(map(words.sanitise, row)) for row in rows]


def _dollars(label: str, before: float | None, after: float | None) -> Row:
    """Return a row of dollars; small ones with three digits, as those of a million tokens."""
    shown = words.usd if label != "per million tokens" else words.rate
    texts = ["no plan" if usd is None else shown(usd) for usd in (before, after)]
    if before is None or after is None:
        return (label, *texts, "")
    if shown is words.usd:
        return (label, *texts, format_difference(shown_difference(before, after)))
    return (label, *texts, "" if texts[0] == texts[1] else "changed")


def service_summary(answer: WhatIf) -> list[str]:
    """Return what changed as the first line of `what-if` without the scenario's name, then what is not proven."""
    if answer.before.cost_usd is None or answer.after.cost_usd is None:
        return [""]
    if answer.unchanged:
        return ["nothing changes"]
    with words.unwrapped():
        first, *rest = summary(answer)
    start = f"{words.sanitise(answer.scenario)}: "
    return [first.removeprefix(start), *(line.strip() for line in rest)]


def service_compared(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of a pinned plan with a service: what jobs and service cost, then those of each service."""
    whole = [("jobs and service", words.usd(plan.cost.expected))] if plan.jobs and plan.cost else []
    return [*whole, *(row for service in plan.services for row in _compared(service))]


def _compared(one: Service) -> list[tuple[str, str]]:
    fleet = one.fleet
    rows = [
        ("a month", words.usd(fleet.usd_per_month)),
        ("per million tokens", words.rate(fleet.usd_per_million_tokens)),
        ("replicas", replicas_text(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour)).partition(" replica")[0]),
    ]
    told = {"load", "per token", "first token", "spot", "fleet"}
    rows += [(name, describe(one)) for name, describe in FLEET_FEATURES if name in told]
    return [(label, words.sanitise(text)) for label, text in rows]


class ServiceCurve(SubjectCurve):
    """The curve of a service as far as it is computed, and the fleets behind it by their limit."""

    def __init__(self) -> None:
        self.fleets: dict[float | None, ServiceTrial] = {}
        self.found: ServiceFrontier | None = None
        self.points = 0
        """That were asked for."""

    def answer(self, scenario: Scenario, options: SolveOptions, points: int | None, width: float) -> dict[str, Any]:
        """Return dollars of a month against the limit on the time per token, each point solved."""
        points = SERVICE_POINTS if points is None else int(points)
        if self.found is None or self.points < points:
            self.found = service_frontier(services_alone(scenario), options, points=points, known=self.fleets)
            self.points = points
        if not self.found.points:
            return {"empty": "no fleet at any limit on the time per token, within the other limits"}
        is_whole = self.points >= SERVICE_POINTS or self.found.solved < self.points
        return {**steps_data(self.found, width), "whole": is_whole}


def steps_data(found: ServiceFrontier, width: float) -> dict[str, Any]:
    """Return the curve of a service, and its points as the page moves along them.

    No point is marked as asked: the page marks the plan itself, whose limit may be another one by then.
    """
    points = tuple(point.model_copy(update={"asked": False}) for point in found.points)
    figure = service_frontier_figure(found.model_copy(update={"points": points}))
    assert figure.draw is not None
    return {
        "figure": figure_data(figure),
        "scene": scene_data(figure.draw(width)),
        "steps": [_step(point) for point in points],
    }


def _step(one: ServicePoint) -> dict[str, Any]:
    """Return a point: its limit as a field has it, in milliseconds, its dollars, and its replicas."""
    return {
        "value": one.setting.partition("=")[2],
        "ms": one.tpot_seconds * MILLISECONDS,
        "usd": one.usd_per_month,
        "replicas": replicas_text(one.least_replicas, one.most_replicas),
    }
