"""What a report shows of a service, alone or next to jobs: its analyses, and their figures under headings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from planner.analysis.overview import TORNADO, job_tasks, left_to_what_if, price_series, run_tasks, tornado_of
from planner.library.schema import Library
from planner.report import report_page
from planner.report.analysis_figures import alternative_figures
from planner.report.frontier_figure import frontier_figure
from planner.report.plan_figures import Figure, Table, bill_figure, memory_figure
from planner.report.report_page import Group, analysis_groups, deadline_of
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.report_data import Overview, Section
from planner.results.service_results import jobs_alone
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_optimise import remembering_fleets
from planner.services.service_changes import frontier_of_service, service_frontier
from planner.services.service_figures import (
    fleet_alternatives,
    load_figure,
    month_bill_figure,
    replica_memory_figure,
    service_frontier_figure,
    simpler_figure,
)
from planner.services.service_page import assumptions, parts_explained
from planner.services.service_reasons import explain_service
from planner.services.service_simulation import kind_bases, simulate_service
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Collection

    from planner.analysis.overview import Task


HOUR_REQUESTS, MOST_REQUESTS = 10_000, 1_000_000
"""Requests of each distinct hour of a service, as many as `simulate` takes, and most of all hours of a stream."""
MOST_SERVICE_CHOICES = 300
"""Kinds of machines times loads of a service above which the tornado, twenty fleets or more, is left to `what-if`."""


def overview_of_services(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library | None,
    wanted: Collection[Section] | None,
    runs: int | None,
    seed: int,
) -> Overview:
    """Return the plan of services, and of jobs next to them, with the analyses around it."""
    with remembering_fleets():
        return _overview(scenario, plan, options, library, wanted, runs, seed)


def _overview(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library | None,
    wanted: Collection[Section] | None,
    runs: int | None,
    seed: int,
) -> Overview:
    given = plan is not None
    plan = solve(scenario, options, library) if plan is None else plan
    if not plan.planned:
        return Overview(plan=plan, of_file=given)
    tasks = job_tasks(scenario, plan, options, library, runs, seed) if plan.jobs else []
    if plan.services:
        tasks += _service_tasks(scenario, plan, options, library, runs, seed)
    left = f"takes a minute or more for so many kinds of machines: {TORNADO}"
    has_many = any(_choices(service) > MOST_SERVICE_CHOICES for service in plan.services)
    found = run_tasks(tasks, wanted, {"tornado": left if has_many else left_to_what_if(plan)})
    return Overview(plan=plan, of_file=given, bases=kind_bases(scenario, plan, library), **found)


def _choices(service: Service) -> int:
    """Return how many kinds of machines there are to choose from, times the different loads."""
    return service.kinds_left * len(set(service.fleet.load))


def _hour_requests(plan: Plan) -> int:
    """Return how many requests of each distinct hour are simulated: fewer where there are many such hours."""
    hours = 1
    for service in plan.services:
        replicas = zip(*(kind.by_hour for kind in service.fleet.kinds), strict=True)
        hours = max(hours, len(set(zip(service.fleet.load, replicas, strict=True))))
    return min(HOUR_REQUESTS, MOST_REQUESTS // hours)


def _service_tasks(
    scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None, runs: int | None, seed: int
) -> list[Task]:
    """Return the analyses of a service; of one next to jobs that which theirs do not have."""

    def frontier() -> object:
        return (frontier_of_service if plan.jobs else service_frontier)(scenario, options, library)

    def reasons() -> object:
        return explain_service(scenario, options=options, library=library)

    def simulation() -> object:
        requests = runs or _hour_requests(plan)
        return simulate_service(scenario, plan, options=options, library=library, runs=requests, seed=seed)

    found: list[Task] = [("frontier", "service_frontier", frontier)]
    if not plan.jobs:
        found.append(("reasons", "explanation", reasons))
        found.append(("tornado", "tornado", lambda: tornado_of(scenario, plan, options, library)))
        found.append(("simulation", "service_simulation", simulation))
        found.append(("prices", "prices", lambda: price_series(scenario, plan)))
    return found


# The figures under their headings.


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
        memory, rows = memory_figure(alone), (*report_page.assumptions(alone).rows, *table.rows)
        groups += [Group(memory.key, memory.title, (memory,))] if memory is not None else []
        table = Table(table.header, tuple(dict.fromkeys(rows)))
    replica = replica_memory_figure(found.bases)
    others += fleet_alternatives(of_service)
    title = "Alternatives" if others else "Simpler fleets and services"
    groups += [bills, *([Group("replica-memory", "Memory of a replica", (replica,))] if replica is not None else [])]
    groups += [Group("alternatives", title, (*others, *simpler)), *analysis_groups(found)]
    lead = "What the figures rest on, with source and age."
    return [*groups, Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),))]
