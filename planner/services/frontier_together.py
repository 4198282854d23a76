"""Frontiers of a scenario with jobs and a service: that of its jobs, and that of its service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.results.frontier import Frontier
from planner.results.service_results import ServiceFrontier, jobs_alone, services_usd
from planner.scenario.scenario import Scenario, SolveOptions, services_alone, without_services
from planner.services.service_curve import SERVICE_POINTS, service_frontier
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable


def frontier_of_jobs(
    scenario: Scenario, options: SolveOptions, library: Library | None, trace: Callable[..., Frontier]
) -> Frontier:
    """Return the frontier of the jobs next to a service, as `trace` finds it on what the service leaves of the budget.

    The least dollars of the service hold for every finish of the jobs: they are given once, and are part of no point.
    """
    library = library or read_library([job.architecture for job in scenario.jobs])
    served = solve(services_alone(scenario), options, library, explains=False)
    usd = services_usd(served)
    found = trace(without_services(scenario, usd), options, library)
    if not found.points or not served.services:
        plan = solve(scenario, options, library)
        return found.model_copy(
            update={"status": plan.status, "infeasible": plan.infeasible, "budget_usd": scenario.limits.budget_usd,
                    **dict.fromkeys(("points", "segments", "separate", "curves", "beyond"), ()), "knee": None}
        )  # fmt: skip
    names = ", ".join(service.name for service in served.services)
    left = "" if found.budget_usd is None else f" and leaves ${found.budget_usd:,.2f} of the budget"
    note = f"the jobs alone: {names} costs ${usd:,.2f} at every point{left}; its own frontier: --job {names}"
    return found.model_copy(update={"services_usd": usd, "notes": (note, *found.notes)})


def frontier_of_service(
    scenario: Scenario,
    options: SolveOptions | None = None,
    library: Library | None = None,
    points: int = SERVICE_POINTS,
) -> ServiceFrontier:
    """Return the frontier of the service next to jobs, on what these leave of the budget; raises as for one alone.

    The jobs stay as they are planned with the service, or alone where the scenario has no plan.
    """
    options = options or SolveOptions()
    library = library or read_library([job.architecture for job in scenario.jobs])
    alone, budget = services_alone(scenario), scenario.limits.budget_usd
    if budget is None:
        return service_frontier(alone, options, library, points)
    plan = solve(scenario, options, library)
    jobs = jobs_alone(plan) if plan.jobs else solve(without_services(scenario, 0.0), options, library)
    late = budget if jobs.cost_at_confidence is None else jobs.cost_at_confidence
    limits = alone.limits.model_copy(update={"budget_usd": budget - late})
    found = service_frontier(alone.model_copy(update={"limits": limits}), options, library, points)
    if not found.points:
        return found.model_copy(update={"infeasible": plan.infeasible})
    names = ", ".join(job.name for job in scenario.jobs if not job.is_service)
    note = f"within the ${budget - late:,.2f} of the budget that {names} as planned leaves at its confidence"
    return found.model_copy(update={"notes": (note, *found.notes)})
