"""Simulation of the fleet that a plan gives a service: every distinct hour, steady streams and bursts, spot losses."""

from __future__ import annotations

import datetime
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np

from planner.analysis.simulated_fleet import load_of, simulated_fleet
from planner.analysis.simulated_replicas import STREAMS, Run, simulate_runs, speeds_of
from planner.analysis.simulation.settings import SimulationArguments, SimulationSettings
from planner.audit.audit import audit
from planner.configurations.replica_traffic import Traffic
from planner.errors import Fault, ScenarioError, raise_faults
from planner.library.reading import read_library
from planner.records import record
from planner.results.fleet_differences import (
    ServiceReplay,
    ServiceSimulation,
    SimulatedKind,
    SimulatedLatency,
    SimulatedLimit,
    SimulatedStream,
)
from planner.scenario.scenario import Scenario, SolveOptions
from planner.scenario.service_load import ServeJob
from planner.solving.solve import solve
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.simulated_fleet import FleetLoad, SimulatedFleet, Stretch
    from planner.analysis.simulated_replicas import Met
    from planner.arrays import Floats
    from planner.library.schema import Library
    from planner.results.fleet import Service
    from planner.results.plan import Plan


# Predicted and simulated latencies next to each other: of the kinds in the busiest hour, and over the cycle.


SHARES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.998)
"""Shares of the requests at which a latency is predicted; between them it is a straight line."""
USE_STEPS = 50
"""Steps of the use of a replica's capacity that a prediction distinguishes."""
MIXED_HALVINGS = 40


@record(frozen=True)
class Predicted:
    """Predictions of each stretch: columns (stretches,), and latencies (SHARES + asked, stretches)."""

    shares: Floats
    flight: Floats
    ttft: Floats
    tpot: Floats


def predicted_latencies(fleet: SimulatedFleet, load: FleetLoad) -> Predicted:
    """Return what the formulas of the plan say of every stretch."""
    stretches, asked = load.stretches, fleet.job.latency.share
    rough = [(one.kind, round(one.use * USE_STEPS)) if not load.is_busiest(one) else (one.kind, one.use)
             for one in stretches]  # fmt: skip
    number = {key: place for place, key in enumerate(dict.fromkeys(rough))}
    which = np.asarray([number[key] for key in rough])
    first = [rough.index(key) for key in number]
    kinds, rates = (
        np.asarray([stretches[one].kind for one in first]),
        np.asarray([stretches[one].rate for one in first]),
    )
    traffic = Traffic.of(fleet.job, fleet.speeds, fleet.slow).choosing(kinds)
    shares = np.unique([*SHARES, asked])
    ttft, tpot = [], []
    for share in shares.tolist():
        latency = fleet.job.latency.model_copy(update={"share": share})
        asking = replace(traffic, job=fleet.job.model_copy(update={"latency": latency}))
        ttft.append(asking.ttft(rates))
        tpot.append(asking.tpot(rates))
    return Predicted(shares, traffic.flight(rates)[which], np.stack(ttft)[:, which], np.stack(tpot)[:, which])


class _Side(NamedTuple):
    """Some stretches with their weights, and one latency of theirs."""

    weight: Floats
    predicted: Floats  # (shares, stretches)
    met: Sequence[Floats]


def summarise(
    fleet: SimulatedFleet,
    load: FleetLoad,
    predicted: Predicted,
    name: Literal["Poisson", "bursts"],
    shape: float,
    met: Sequence[Met],
) -> SimulatedStream:
    """Return the figures of one stream of requests."""
    busiest = [place for place, one in enumerate(load.stretches) if load.is_busiest(one)]
    everything = list(range(len(load.stretches)))
    asked, latency = fleet.job.latency.share, fleet.job.latency

    def side(which: list[int], what: Literal["ttft", "tpot"], weights: list[float]) -> SimulatedLatency:
        limit = latency.ttft_seconds if what == "ttft" else latency.tpot_seconds
        seconds = [met[one].first if what == "ttft" else met[one].each for one in which]
        table = (predicted.ttft if what == "ttft" else predicted.tpot)[:, which]
        return _latency(_Side(np.asarray(weights), table, seconds), predicted.shares, asked, limit)

    def both(what: Literal["ttft", "tpot"]) -> SimulatedLimit:
        return SimulatedLimit(
            name=what,
            limit_seconds=latency.ttft_seconds if what == "ttft" else latency.tpot_seconds,
            asked_share=asked,
            busiest=side(busiest, what, [load.stretches[one].share for one in busiest]),
            cycle=side(everything, what, [one.weight for one in load.stretches]),
        )

    def kind(place: int, one: Stretch) -> SimulatedKind:
        named = fleet.service.fleet.kinds[one.kind]
        first, each = side([place], "ttft", [1.0]), side([place], "tpot", [1.0])
        return SimulatedKind(
            offer=named.offer, provider=named.provider, gpu=named.gpu, use=one.use, requests_per_second=one.rate,
            ttft=first, tpot=each,
        )  # fmt: skip

    kinds = tuple(kind(place, load.stretches[place]) for place in busiest)
    limits = (both("ttft"), both("tpot")) if np.any(predicted.tpot > 0) else (both("ttft"),)
    return SimulatedStream(name=name, shape=shape, limits=limits, kinds=kinds)


def _latency(side: _Side, shares: Floats, asked: float, limit: float | None) -> SimulatedLatency:
    """Return a latency that the asked share stays below, and the share within the limit, both twice."""
    values, weights = _weighted(side)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / max(float(np.sum(weights)), 1e-300)
    place = min(int(np.searchsorted(reached, asked)), len(order) - 1)
    inside = 0.0 if limit is None else float(np.sum(weights[values <= limit]))
    return SimulatedLatency(
        predicted_seconds=_mixed_quantile(side, shares, asked),
        simulated_seconds=float(values[order[place]]) if len(order) else 0.0,
        predicted_share=None if limit is None else _share_below(side, shares, limit),
        simulated_share=None if limit is None else inside / max(float(np.sum(weights)), 1e-300),
    )


def _weighted(side: _Side) -> tuple[Floats, Floats]:
    """Return the seconds of all requests and the weight of each; answers of one token have no time per token."""
    values, weights = [], []
    for weight, met in zip(side.weight.tolist(), side.met, strict=True):
        some = met[~np.isnan(met)]
        values.append(some)
        weights.append(np.full(len(some), weight / max(len(met), 1)))
    return np.concatenate(values), np.concatenate(weights)


def _share_below(side: _Side, shares: Floats, seconds: float) -> float:
    """Return the predicted share of the requests below so many seconds."""
    known = np.concatenate([[0.0], shares, [1.0]])
    found = 0.0
    for weight, column in zip(side.weight.tolist(), side.predicted.T, strict=True):
        ends = np.concatenate([[min(column[0], 2.0 * column[0] - column[1])], column, [2.0 * column[-1] - column[-2]]])
        found += weight * float(np.interp(seconds, ends, known))
    return found / max(float(np.sum(side.weight)), 1e-300)


def _mixed_quantile(side: _Side, shares: Floats, asked: float) -> float:
    """Return the predicted seconds that a share of the requests of all stretches stays below."""
    if side.predicted.shape[1] == 1:
        return float(side.predicted[np.searchsorted(shares, asked), 0])
    low, high = 0.0, 2.0 * float(np.max(side.predicted))
    for _ in range(MIXED_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _share_below(side, shares, middle) < asked else (low, middle)
    return high


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
