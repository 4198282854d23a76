"""The figures of a report under their headings, of jobs and of services."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from planner.records import record
from planner.report.figures.analysis_figures import alternative_figures, price_figures, tornado_figure
from planner.report.figures.figure import Figure, Table
from planner.report.figures.frontier_figure import frontier_figure
from planner.report.figures.plan_figures import bill_figure, memory_figure, timetable_figure
from planner.report.figures.service_figures import (
    fleet_alternatives,
    latency_figures,
    load_figure,
    month_bill_figure,
    replica_memory_figure,
    service_frontier_figure,
    simpler_figure,
)
from planner.report.figures.simulation_figures import simulation_figures
from planner.report.html import facts, services
from planner.results.serving.together import jobs_alone

if TYPE_CHECKING:
    from planner.results.overview import Overview, Section
    from planner.results.plan import Plan

SECTION_NAMES = {
    "frontier": "Cost against time",
    "reasons": "Reasons and alternatives",
    "tornado": "What the plan depends on",
    "simulation": "Simulated cost and finish",
    "prices": "Price history",
}
SERVICE_SECTIONS = {"frontier": "Dollars against the time per token", "simulation": "Simulated latency"}
"""Names of analyses that are others of a service without jobs."""


@record(frozen=True)
class Group:
    """Figures under one heading."""

    key: str
    title: str
    figures: tuple[Figure, ...]


def groups_of(found: Overview) -> list[Group]:
    """Return the figures of a report in their order."""
    plan = found.plan
    if plan.services:
        return _service_groups(found)
    if not plan.jobs:
        return []
    groups = []
    if found.frontier is not None and found.frontier.points:
        groups.append(
            Group("cost-time", SECTION_NAMES["frontier"], (frontier_figure(found.frontier, deadline_of(plan)),))
        )
    of_plan = (bill_figure(plan), memory_figure(plan), timetable_figure(plan))
    groups += [Group(figure.key, figure.title, (figure,)) for figure in of_plan if figure is not None]
    others = alternative_figures(plan, found.explanation)
    groups += [Group("alternatives", "Alternatives", tuple(others))] if others else []
    groups += _analysis_groups(found)
    table = facts.assumptions(plan)
    lead = "What the figures rest on, with source and age."
    groups.append(Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),)))
    return groups


def _service_groups(found: Overview) -> list[Group]:
    """Return the figures of a report on services in their order."""
    plan = found.plan
    loads = tuple(load_figure(one) for one in plan.services)
    groups = [Group("load", "Load and replicas", loads)]
    curves: list[Figure] = []
    if found.frontier is not None and found.frontier.points:
        of_jobs = frontier_figure(found.frontier, deadline_of(plan))
        curves.append(dataclasses.replace(of_jobs, title="Cost of the jobs against time"))
    if found.service_frontier is not None and found.service_frontier.points:
        curves.append(service_frontier_figure(found.service_frontier))
    if curves:
        groups.append(Group("cost-time", curves[0].title if len(curves) == 1 else "Frontiers", tuple(curves)))
    bill, simpler = month_bill_figure(plan), tuple(simpler_figure(one) for one in plan.services)
    bills, table, others = Group("bill", bill.title, (bill,)), services.assumptions(plan, found.bases), list[Figure]()
    of_service = found.explanation
    if plan.jobs:
        alone = jobs_alone(plan)
        of_service = services.parts_explained(found.explanation)[1]
        of_jobs = dataclasses.replace(bill_figure(alone), key="bill-jobs", title="Bill of the jobs")
        bills = Group("bill", "Bills", (bill, of_jobs))
        others = alternative_figures(alone, services.parts_explained(found.explanation)[0])
        memory, rows = memory_figure(alone), (*facts.assumptions(alone).rows, *table.rows)
        groups += [Group(memory.key, memory.title, (memory,))] if memory is not None else []
        table = Table(table.header, tuple(dict.fromkeys(rows)))
    replica = replica_memory_figure(found.bases)
    others += fleet_alternatives(of_service)
    title = "Alternatives" if others else "Simpler fleets and services"
    groups += [bills, *([Group("replica-memory", "Memory of a replica", (replica,))] if replica is not None else [])]
    groups += [Group("alternatives", title, (*others, *simpler)), *_analysis_groups(found)]
    lead = "What the figures rest on, with source and age."
    return [*groups, Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),))]


def _analysis_groups(found: Overview) -> list[Group]:
    """Return the figures of sensitivity, replays and price history, as far as there are any."""
    swing = tornado_figure(found.tornado) if found.tornado is not None else None
    figures: dict[Section, tuple[Figure, ...]] = {
        "tornado": (swing,) if swing is not None else (),
        "simulation": (
            *(simulation_figures(found.simulation) if found.simulation is not None else ()),
            *(figure for one in (found.simulation, found.service_simulation) if one for figure in latency_figures(one)),
        ),
        "prices": tuple(price_figures(found.prices)),
    }
    titles = SECTION_NAMES if found.plan.jobs else SECTION_NAMES | SERVICE_SECTIONS
    return [Group(key, titles[key], each) for key, each in figures.items() if each]


def find_figure(found: Overview, name: str) -> Figure | None:
    """Return a figure by its name on the command line; None where the report has none."""
    of_services = {"timetable": "load"} if found.plan.services else {}
    of_services |= {"frontier": "latency", "memory": "replica-memory"} if not found.plan.jobs else {}
    key = {"cost": "cost-runs", "finish": "hours-runs", **of_services}.get(name, name)
    return next((figure for group in groups_of(found) for figure in group.figures if figure.key == key), None)


def deadline_of(plan: Plan) -> float | None:
    """Return the deadline that all jobs share; None without one."""
    limits = {job.deadline_hours for job in plan.jobs}
    return limits.pop() if len(limits) == 1 else None
