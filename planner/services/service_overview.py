"""Everything that a report shows of a service, alone or next to jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.overview import job_tasks, left_to_what_if, price_series, run_tasks, tornado_of
from planner.library.schema import Library
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.report_data import Overview, Section
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.service_curve import service_frontier
from planner.services.service_reasons import explain_service
from planner.services.service_simulation import kind_bases, simulate_service
from planner.services.services_together import frontier_of_service
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
    given = plan is not None
    plan = solve(scenario, options, library) if plan is None else plan
    if not plan.planned:
        return Overview(plan=plan, of_file=given)
    tasks = job_tasks(scenario, plan, options, library, runs, seed) if plan.jobs else []
    if plan.services:
        tasks += _service_tasks(scenario, plan, options, library, runs, seed)
    left = "takes a minute or more for so many kinds of machines"
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
