"""What services answer of all that is asked of a subject: alone, and next to jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.library.reading import read_library
from planner.subjects import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from planner.analysis.simulation.market_paths import SimulationArguments
    from planner.library.schema import Library
    from planner.results.explanation import Explanation
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.plan import Plan
    from planner.results.report_data import Overview, Section
    from planner.results.service_results import ServiceFrontier
    from planner.results.simulation import Simulation
    from planner.results.what_if import WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions


class Services(Subject):
    """Fleets of replicas that answer requests as they come; each question loads what answers it."""

    name = "serve"

    def solve(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, started: float, explains: bool
    ) -> Plan:
        """Return the plan of services, and of the jobs next to them."""
        from planner.services.solve_fleet import solve_together
        from planner.solving.solve import audited

        library = library or read_library([job.architecture for job in scenario.jobs])
        plan = solve_together(scenario, library, options, started, explains)
        return audited(plan, scenario, library, options)

    def frontier(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
    ) -> Frontier:
        """Return the cost for every deadline of the jobs next to a service."""
        from planner.services.services_together import frontier_of_jobs

        return frontier_of_jobs(scenario, options, library, by, points)

    def own_frontier(
        self, scenario: Scenario, options: SolveOptions | None, library: Library | None, points: int | None
    ) -> ServiceFrontier:
        """Return the dollars of a month for limits on the time per token."""
        from planner.services.service_curve import SERVICE_POINTS, service_frontier
        from planner.services.services_together import frontier_of_service

        trace = frontier_of_service if any(job.ends for job in scenario.jobs) else service_frontier
        return trace(scenario, options, library, points or SERVICE_POINTS)

    def what_if(
        self,
        scenario: Scenario,
        changed: Scenario,
        settings: tuple[str, ...],
        options: SolveOptions | None,
        library: Library,
    ) -> WhatIf:
        """Return what settings did to services, and to the jobs next to them."""
        from planner.services.service_changes import what_if_of_services

        return what_if_of_services(scenario, changed, settings, options, library)

    def explain(
        self, scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
    ) -> Explanation:
        """Return why the fleet, and the plan of the jobs next to it, are as they are."""
        from planner.services.service_reasons import explain_service
        from planner.services.services_together import explain_together

        answer = explain_together if any(job.ends for job in scenario.jobs) else explain_service
        return answer(scenario, why_not, options, library)

    def simulate(
        self,
        scenario: Scenario,
        plan: Plan | None,
        options: SolveOptions | None,
        library: Library | None,
        progress: Callable[[int, int], None] | None,
        arguments: SimulationArguments,
    ) -> Simulation:
        """Return the replays of the jobs next to services, with the simulation of these."""
        from planner.services.services_together import simulate_together

        return simulate_together(scenario, plan, options, library, progress, arguments)

    def overview(
        self,
        scenario: Scenario,
        plan: Plan | None,
        options: SolveOptions,
        library: Library | None,
        wanted: Collection[Section] | None,
        runs: int | None,
        seed: int,
    ) -> Overview:
        """Return the plan of services and jobs, and the analyses around it."""
        from planner.services.service_overview import overview_of_services

        return overview_of_services(scenario, plan, options, library, wanted, runs, seed)


SERVICES = Services()
