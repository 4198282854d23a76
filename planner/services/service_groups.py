"""The figures of a report on services under their headings."""

from __future__ import annotations

import dataclasses

from planner.report.figures.analysis_figures import alternative_figures
from planner.report.figures.frontier_figure import frontier_figure
from planner.report.figures.plan_figures import Figure, Table, bill_figure, memory_figure
from planner.report.html import plan_words
from planner.report.html.report_page import Group, analysis_groups, deadline_of
from planner.results.report_data import Overview
from planner.results.service_results import jobs_alone
from planner.services.service_figures import (
    fleet_alternatives,
    load_figure,
    month_bill_figure,
    replica_memory_figure,
    service_frontier_figure,
    simpler_figure,
)
from planner.services.service_words import assumptions, parts_explained


def groups_of_services(found: Overview) -> list[Group]:
    """Return the figures of a report on services in their order."""
    plan = found.plan
    loads = tuple(load_figure(service) for service in plan.services)
    groups = [Group("load", "Load and replicas", loads)]
    curves: list[Figure] = []
    if found.frontier is not None and found.frontier.points:
        of_jobs = frontier_figure(found.frontier, deadline_of(plan))
        curves.append(dataclasses.replace(of_jobs, title="Cost of the jobs against time"))
    if found.service_frontier is not None and found.service_frontier.points:
        curves.append(service_frontier_figure(found.service_frontier))
    if curves:
        groups.append(Group("cost-time", curves[0].title if len(curves) == 1 else "Frontiers", tuple(curves)))
    bill, simpler = (month_bill_figure(plan), tuple(simpler_figure(service) for service in plan.services))
    bills, table, others = Group("bill", bill.title, (bill,)), assumptions(plan, found.bases), list[Figure]()
    of_service = found.explanation
    if plan.jobs:
        alone = jobs_alone(plan)
        of_service = parts_explained(found.explanation)[1]
        of_jobs = dataclasses.replace(bill_figure(alone), key="bill-jobs", title="Bill of the jobs")
        bills = Group("bill", "Bills", (bill, of_jobs))
        others = alternative_figures(alone, parts_explained(found.explanation)[0])
        memory, rows = memory_figure(alone), (*plan_words.assumptions(alone).rows, *table.rows)
        groups += [Group(memory.key, memory.title, (memory,))] if memory is not None else []
        table = Table(table.header, tuple(dict.fromkeys(rows)))
    replica = replica_memory_figure(found.bases)
    others += fleet_alternatives(of_service)
    title = "Alternatives" if others else "Simpler fleets and services"
    groups += [bills, *([Group("replica-memory", "Memory of a replica", (replica,))] if replica is not None else [])]
    groups += [Group("alternatives", title, (*others, *simpler)), *analysis_groups(found)]
    lead = "What the figures rest on, with source and age."
    return [*groups, Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),))]
