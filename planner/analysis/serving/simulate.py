"""Simulation of the fleet that a plan gives a service: every distinct hour, steady streams and bursts, spot losses."""

from __future__ import annotations

import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from planner.analysis.serving.fleet import load_of, simulated_fleet
from planner.analysis.serving.replicas import Run, simulate_runs, speeds_of
from planner.analysis.serving.summary import predicted_latencies, summarise
from planner.analysis.serving.traffic import STREAMS
from planner.analysis.simulation.settings import SimulationArguments, SimulationSettings
from planner.audit.audit import audit
from planner.errors import Fault, ScenarioError, raise_faults
from planner.library.reading import read_library
from planner.results.serving.simulation import ServiceReplay, ServiceSimulation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.scenario.serving.job import ServeJob
from planner.solving.solve import solve
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.analysis.serving.fleet import FleetLoad
    from planner.analysis.serving.summary import Predicted
    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.results.serving.fleet import Service

LEAST_OF_STATE = 50
"""Requests of a kind in one state of the market at least."""


def has_services(scenario: Scenario) -> bool:
    """Return whether a scenario is of services, which `simulate_service` takes."""
    return any(isinstance(job, ServeJob) for job in scenario.jobs)


def simulate_service(
    scenario: Scenario,
    plan: Plan | None = None,
    *,
    options: SolveOptions | None = None,
    library: Library | None = None,
    **arguments: Unpack[SimulationArguments],
) -> ServiceSimulation:
    """Simulate the fleet of a service hour by hour, request by request.

    Parameters
    ----------
    plan
        Simulated as it is, after an audit against the scenario; without one the scenario is solved.
    **arguments
        `runs`: requests of each distinct hour, 10,000 unless given. `seed`: the same seed gives the same answer.
        `exact_speed`: replicas are as fast as expected; else as slow as the plan takes them at its confidence.

    Raises
    ------
    InputError
        For arguments or a plan that cannot be used, recorded markets among them, and what `solve` raises. An
        infeasible scenario is a ServiceSimulation with that status.
    """
    started = perf_counter()
    if arguments.get("traces"):
        what, fix = "recorded markets are not replayed for kind: serve", "leave it out: losses follow the spot market"
        raise ScenarioError([Fault("simulate", 0, "--trace", what, fix)])
    settings = SimulationSettings.of(**arguments)
    options = options or SolveOptions()
    library = library or read_library([job.architecture for job in scenario.jobs])
    if plan is None:
        plan = solve(scenario, options, library)
    else:
        _check_plan(plan, scenario, library)
    jobs = {job.name: job for job in scenario.jobs if isinstance(job, ServeJob)}
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "status": plan.status,
        "runs": settings.runs,
        "seed": settings.seed,
        "exact_speed": settings.exact_speed,
        "as_of": (options.as_of or datetime.date.today()).isoformat() if not plan.services else plan.as_of,
        "infeasible": plan.infeasible,
        "plan": plan,
    }
    services = tuple(_replay(one, jobs[one.name], scenario, library, settings) for one in plan.services)
    return ServiceSimulation(
        **facts, services=services, seconds=perf_counter() - started, notes=_notes(services, settings)
    )


def _check_plan(plan: Plan, scenario: Scenario, library: Library) -> None:
    """Refuse a plan of another scenario, or one that was changed by hand."""
    if plan.status not in ("infeasible", "no_plan") and not plan.services:
        raise ScenarioError([Fault("plan", 0, "jobs", "a plan without a service", "give one of this scenario")])
    faults = [
        Fault("plan", 0, f"{one.job}: {one.what}".removeprefix(": "), f"expected {one.expected}, found {one.found}",
              "planner check PLAN SCENARIO lists all")
        for one in audit(plan, scenario, library)[:5]
    ]  # fmt: skip
    raise_faults(faults, ScenarioError)


def _replay(
    service: Service, job: ServeJob, scenario: Scenario, library: Library, settings: SimulationSettings
) -> ServiceReplay:
    """Return what the requests of one service meet."""
    fleet = simulated_fleet(service, job, scenario, library, settings.exact_speed)
    load = load_of(fleet)
    predicted = predicted_latencies(fleet, load)
    runs = _runs(load, predicted, settings.runs)
    speeds = speeds_of(job, fleet.speeds, fleet.slow)
    seeds = np.random.SeedSequence(settings.seed).spawn(2)
    met = {
        name: simulate_runs(speeds, runs, shape, np.random.default_rng(seed))
        for (name, shape), seed in zip(STREAMS.items(), seeds, strict=True)
    }
    cut = [
        one.weight * run.flight / run.rate / HOUR / fleet.spot[one.kind].mean_up_hours
        for one, run in zip(load.stretches, runs, strict=True)
    ]
    return ServiceReplay(
        name=service.name,
        cycle_hours=len(service.fleet.load),
        distinct_hours=load.hours,
        requests=sum(len(one.first) for several in met.values() for one in several),
        busiest_hour=load.busiest,
        busiest_use=max((one.use for one in load.stretches if load.is_busiest(one)), default=0.0),
        refused_share=load.refused / load.offered,
        predicted_refused_share=max(0.0, 1.0 - service.fleet.served_share),
        cut_share=sum(cut) / load.offered,
        streams=tuple(summarise(fleet, load, predicted, name, STREAMS[name], several) for name, several in met.items()),
    )


def _runs(load: FleetLoad, predicted: Predicted, requests: int) -> list[Run]:
    """Return the streams of requests: each distinct hour gets `requests`, its busiest one as many with all there."""
    of_hour = np.zeros(load.hours)
    for one in load.stretches:
        of_hour[one.hour] += one.weight
    found = []
    for one, flight in zip(load.stretches, predicted.flight.tolist(), strict=True):
        share = one.share if load.is_busiest(one) else one.weight / max(of_hour[one.hour], 1e-300)
        found.append(Run(one.kind, one.rate, one.routed, flight, max(LEAST_OF_STATE, round(requests * share))))
    return found


def _notes(services: tuple[ServiceReplay, ...], settings: SimulationSettings) -> tuple[str, ...]:
    """Return what the figures rest on."""
    speed = "as fast as expected" if settings.exact_speed else "as slow as the plan takes it at its confidence"
    notes = [f"every replica is {speed}; a router spreads requests by capacity and knows neither queues nor lengths"]
    if any(one.refused_share or one.predicted_refused_share for one in services):
        notes.append("spot groups are lost independently of one another, as in the plan")
    return tuple(notes) if services else ()
