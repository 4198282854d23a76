"""What services answer of all that is asked of a subject: alone, and next to jobs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.exports.facts import Wishes
from planner.library.reading import read_library
from planner.results.explanation import Explanation
from planner.results.plan import Plan
from planner.results.service_results import ServiceFrontier, ServiceSimulation, jobs_alone, services_usd
from planner.results.what_if import WhatIf
from planner.services.fleet_problem import without_services
from planner.subjects import Subject, SubjectCurve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from planner.analysis.market_paths import SimulationArguments
    from planner.drawing.scene import Scene
    from planner.evaluation.comparison import Tolerance, Violation
    from planner.exports.launchers import Checklist
    from planner.library.schema import Library
    from planner.report.plan_answer import Risk
    from planner.report.plan_figures import Figure
    from planner.report.report_page import Group
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.service_results import KindBasis
    from planner.results.simulation import Simulation
    from planner.results.what_if import Overview, Section
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
        from planner.services.service_changes import frontier_next_to_services

        return frontier_next_to_services(scenario, options, library, by, points)

    def own_frontier(
        self, scenario: Scenario, options: SolveOptions | None, library: Library | None, points: int | None
    ) -> ServiceFrontier:
        """Return the dollars of a month for limits on the time per token."""
        from planner.services.service_changes import SERVICE_POINTS, frontier_of_service, service_frontier

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
        from planner.services.service_changes import explain_together
        from planner.services.service_reasons import explain_service

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
        from planner.services.service_changes import simulate_together

        return simulate_together(scenario, plan, options, library, progress, arguments)

    def simulate_endless(
        self, scenario: Scenario, plan: Plan | None, options: SolveOptions, arguments: dict[str, Any]
    ) -> ServiceSimulation:
        """Return the requests of each distinct hour, simulated."""
        from planner.services.service_simulation import simulate_service

        return simulate_service(scenario, plan, options=options, **arguments)

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
        from planner.services.service_page import overview_of_services

        return overview_of_services(scenario, plan, options, library, wanted, runs, seed)

    def audit(self, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
        """Return every disagreement between the services of a plan and what follows from the scenario."""
        from planner.services.audited_fleet import audit_services

        return audit_services(plan, scenario, library, tolerance)

    def rest(self, plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
        """Return the plan of the jobs on what the services leave of the budget."""
        return (jobs_alone(plan), without_services(scenario, services_usd(plan))) if plan.jobs else (plan, scenario)

    def files(
        self, plan: Plan, scenario: Scenario, file: str, name: str | None, wishes: Wishes, targets: Sequence[str] | None
    ) -> tuple[dict[str, str], list[str]]:
        """Return the commands of each kind of machines of a service, and the machines by the hour."""
        from planner.services.served_kinds import choose_service
        from planner.services.service_files import export_all_services, export_service

        given = choose_service(plan, scenario, file, name)
        if targets is None:
            return export_all_services(given, wishes, file)
        return export_service(given, targets, wishes, file), []

    def checklist(
        self, plan: Plan, scenario: Scenario, file: str, name: str, wishes: Wishes, files: Collection[str]
    ) -> Checklist:
        """Return what the files of a service need, leave to a person, and cost; data for training are none of it."""
        from planner.services.served_kinds import choose_service
        from planner.services.service_files import service_checklist

        given = choose_service(plan, scenario, file, name)
        return service_checklist(given, Wishes(wishes.model_id), file, files)

    not_supported = MappingProxyType(
        {
            "track": ("a service has no end to track", "use planner simulate"),
            "probe": (
                "a probe trains, and this is a service",
                "measure it with vllm bench serve, and give its file to planner calibrate",
            ),
        }
    )

    def text(self, result: Any) -> str:
        """Return the text of a plan, comparison, explanation, frontier or simulation."""
        from planner.services.fleet_text import render_fleet_answer
        from planner.services.service_texts import (
            render_reasons,
            render_service_frontier,
            render_service_simulation,
            render_service_what_if,
        )

        texts: dict[type, Callable[[Any], str]] = {
            Plan: render_fleet_answer,
            WhatIf: render_service_what_if,
            Explanation: render_reasons,
            ServiceFrontier: render_service_frontier,
            ServiceSimulation: render_service_simulation,
        }
        return texts[type(result)](result)

    def details(self, plan: Plan) -> str:
        """Return all that there is to say of a plan of services, and of the jobs next to them."""
        from planner.services.fleet_text import render_services

        return render_services(plan)

    def risks(self, plan: Plan) -> list[Risk]:
        """Return what of jobs and services would change the decision."""
        from planner.services.fleet_text import fleet_risks

        return fleet_risks(plan)

    def replays(self, found: Simulation) -> list[str]:
        """Return what was simulated of the services next to jobs."""
        from planner.services.service_texts import service_replays

        return service_replays(found)

    def scene(self, result: Any) -> Scene | None:
        """Return the picture of a frontier or a simulation of services."""
        from planner.services.service_figures import service_frontier_scene, service_simulation_scene

        draw: Callable[[Any], Scene | None]
        draw = service_frontier_scene if isinstance(result, ServiceFrontier) else service_simulation_scene
        return draw(result)

    def plan_scenes(self, plan: Plan) -> list[Scene]:
        """Return load and machines of each service by the hour."""
        from planner.services.service_figures import load_scenes

        return load_scenes(plan)

    def tiles(self, plan: Plan) -> list[tuple[str, str, str]]:
        """Return the key figures of each service, after what all cost where jobs run next to them."""
        from planner.services.service_page import tiles

        return tiles(plan)

    def facts(self, plan: Plan) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return each service's name with its sections."""
        from planner.services.service_page import service_facts

        return service_facts(plan)

    def reasons(self, found: Overview) -> list[tuple[str, str]]:
        """Return why the plan of services, and of the jobs next to them, is as it is."""
        from planner.services.service_page import reasons_of_all

        return reasons_of_all(found)

    def groups(self, found: Overview) -> list[Group]:
        """Return the figures of a report on services, and on the jobs next to them."""
        from planner.services.service_page import groups_of_services

        return groups_of_services(found)

    def replay_figures(self, found: Overview) -> list[Figure]:
        """Return the latency of the simulated services."""
        from planner.services.service_figures import latency_figures

        simulated = (found.simulation, found.service_simulation)
        return [figure for simulation in simulated if simulation for figure in latency_figures(simulation)]

    def page_plan(self, scenario: Scenario, options: SolveOptions, library: Library | None) -> Plan:
        """Return the plan without what a looser limit saves: the curve shows that, and it is as slow."""
        from planner.solving.solve import solve

        plan = solve(scenario, options, library, explains=False)
        return plan if plan.services else solve(scenario, options, library)

    def new_curve(self) -> SubjectCurve:
        """Return an empty curve of dollars against the time per token."""
        from planner.services.service_page import ServiceCurve

        return ServiceCurve()

    def bases(self, scenario: Scenario, plan: Plan, library: Library | None) -> tuple[KindBasis, ...]:
        """Return what each kind of machines of the services rests on."""
        from planner.services.service_simulation import kind_bases

        return kind_bases(scenario, plan, library)

    def compare(self, before: Plan, after: Plan, settings: tuple[str, ...]) -> WhatIf:
        """Return the comparison of two plans of services."""
        from planner.services.service_changes import compare_services_solved

        return compare_services_solved(before, after, settings)

    def chips(self, plan: Plan) -> list[tuple[str, str, str]]:
        """Return what is proven of each service."""
        from planner.services.service_page import chips

        return chips(plan)

    def compared(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the rows of a pinned plan with services."""
        from planner.services.service_page import service_compared

        return service_compared(plan)

    def change_parts(self, before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
        """Return what changed of services, and of the jobs next to them."""
        from planner.services.service_page import change_of_services

        return change_of_services(before, after, answer)

    def section_titles(self, plan: Plan) -> dict[Section, str]:
        """Return the headings of services without jobs."""
        return (
            {} if plan.jobs else {"frontier": "Dollars against the time per token", "simulation": "Simulated latency"}
        )

    def figure_keys(self, plan: Plan) -> dict[str, str]:
        """Return the load for the timetable; without jobs latency and a replica for those of jobs."""
        without_jobs = {"frontier": "latency", "memory": "replica-memory"}
        return {"timetable": "load", **({} if plan.jobs else without_jobs)}


SERVICES: Services = Services()
