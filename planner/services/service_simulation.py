"""Simulation of the fleet of a service, alone or with jobs: distinct hours, streams and bursts, spot losses."""

from __future__ import annotations

import datetime
import itertools
import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np

from planner import generation
from planner.analysis.market_paths import SimulationArguments, SimulationSettings
from planner.arrays import Floats, Integers
from planner.candidates.market import spot_markets
from planner.errors import Fault, ScenarioError, raise_faults
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.results.fleet import Service, ServingMemory
from planner.results.plan import Plan, require_plan
from planner.results.service_results import (
    KindBasis,
    ServiceReplay,
    ServiceSimulation,
    SimulatedKind,
    SimulatedLatency,
    SimulatedLimit,
    SimulatedStream,
)
from planner.scenario.inference_job import ServeJob
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_kinds import Capacities, Traffic, expected_factor, replica_capacities
from planner.services.fleet_problem import services_of
from planner.services.service_reasons import require_service
from planner.services.simulated_engine import STREAMS, Met, Run, simulate_runs, speeds_of
from planner.solving.notes import age_in_days
from planner.solving.solve import solve
from planner.units import GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence


# The fleet of a plan as the simulation reads it: kinds with their speeds, distinct hours, states of the market.


# Spot machines of a fleet that are lost: which kinds answer, and how often, in any moment.
#
# A group is there for a share of the time, in stays of a mean length. A machine answers once it has started after the
# group came back. Groups are independent of one another.


MOST_STATES = 4096
"""States of a fleet that are distinguished; the rarest of more are left out."""


class SpotKind(NamedTuple):
    """What of a kind decides whether it answers; no group: always."""

    group: str
    availability: float
    mean_up_hours: float
    start_hours: float


class FleetState(NamedTuple):
    """Which kinds answer, and the share of the time that just these do."""

    answers: tuple[bool, ...]
    share: float


def fleet_states(kinds: Sequence[SpotKind]) -> list[FleetState]:
    """Return the states of a fleet, the most frequent first; their shares sum to 1.

    A stay of mean M lasts at least c hours more with exp(-c / M), so that a kind that takes c hours to start answers
    a * exp(-c / M) of the time. Example: a = 0.9, M = 10 h, c = 0.1 h: 89.1 %.
    """
    groups = list(dict.fromkeys(kind.group for kind in kinds if kind.group))
    states = []
    for levels in itertools.product(*(_levels([kind for kind in kinds if kind.group == group]) for group in groups)):
        started = dict(zip(groups, (level for level, _ in levels), strict=True))
        share = math.prod(share for _, share in levels)
        states.append(FleetState(tuple(not k.group or k.start_hours <= started[k.group] for k in kinds), share))
    states.sort(key=lambda fleet_state: -fleet_state.share)
    kept = states[:MOST_STATES]
    whole = math.fsum(state.share for state in kept)
    return [FleetState(state.answers, state.share / whole) for state in kept if state.share > 0]


def _levels(members: Sequence[SpotKind]) -> list[tuple[float, float]]:
    """Return the hours since a group came back, up to the next that lets a kind answer, with their shares."""
    share, up = min(member.availability for member in members), min(member.mean_up_hours for member in members)
    starts = sorted({member.start_hours for member in members})
    reached = [share * math.exp(-start / up) for start in starts]
    levels = [(-1.0, 1.0 - reached[0])]
    return levels + [
        (start, now - after) for start, now, after in zip(starts, reached, [*reached[1:], 0.0], strict=True)
    ]


RAREST_STATE = 0.002
"""Share of the time below which a state of the fleet is refused for, but not simulated."""
LEAST_REFUSED = 1e-9
"""Share of the requests below which none is refused: shares of a whole fleet add up to one but for rounding."""


@dataclass(frozen=True)
class SimulatedFleet:
    """Kinds of a plan; columns (kinds,)."""

    job: ServeJob
    service: Service
    speeds: generation.ReplicaSpeeds
    capacities: Capacities  # of one replica
    spot: tuple[SpotKind, ...]
    exact: bool = False  # as fast as expected, not as slow as the confidence asks

    @property
    def slow(self) -> Floats:
        """Factor on all times (kinds,)."""
        return expected_factor(self.job, self.speeds) if self.exact else self.capacities.slow

    @property
    def replicas(self) -> Floats:
        """Replicas (hours, kinds)."""
        kinds = self.service.fleet.kinds
        return np.asarray([np.multiply(kind.by_hour, kind.replicas) for kind in kinds], dtype=float).T


def simulated_fleet(
    service: Service, job: ServeJob, scenario: Scenario, library: Library, exact: bool = False
) -> SimulatedFleet:
    """Return the fleet of a plan that was audited against its scenario."""
    offers = dict(scenario.labelled_offers())
    kinds = service.fleet.kinds
    which = []
    for kind in kinds:
        tensor = kind.gpus_per_replica // kind.pipeline_parallel
        recipe = generation.serving_recipe(
            kind.engine, kind.weight_format, kind.kv_bits, tensor, kind.pipeline_parallel
        )
        which.append(generation.ServedGpu(library.gpu(offers[kind.offer].card).name, recipe))
    architecture = library.architecture(job.architecture)
    speeds = generation.replica_speeds(job, architecture, which, library, scenario.limits.vram_headroom)
    named = [offers[kind.offer] for kind in kinds]
    spot = tuple(
        SpotKind(
            f"{offer.provider}/{offer.card}", kind.availability, market.mean_up_hours,
            kind.start_hours,
        )
        if kind.market == "spot"
        else SpotKind("", 1.0, float("inf"), kind.start_hours)
        for kind, offer, market in zip(kinds, named, spot_markets(named, library), strict=True)
    )  # fmt: skip
    return SimulatedFleet(job, service, speeds, replica_capacities(job, speeds, library), spot, exact)


class Stretch(NamedTuple):
    """Replicas of one kind in one state of a distinct hour: one stream of requests each, all alike."""

    kind: int
    rate: float  # requests per second of one replica
    use: float  # share of its capacity
    routed: float  # share of the requests that one replica gets
    share: float  # of the requests of the hour that all of them answer in this state
    weight: float  # requests of a cycle that all of them answer
    hour: int  # number of the distinct hour
    whole: bool  # whether the whole fleet of the hour answers


class FleetLoad(NamedTuple):
    """All stretches of a cycle, and what is refused."""

    stretches: list[Stretch]
    hours: int  # distinct ones
    offered: float  # requests of a cycle
    refused: float
    busiest: int  # hour of the cycle
    fullest: int  # its number among the distinct ones

    def is_busiest(self, stretch: Stretch) -> bool:
        """Return whether a stretch is of the busiest hour with its whole fleet."""
        return stretch.whole and stretch.hour == self.fullest


def load_of(fleet: SimulatedFleet) -> FleetLoad:
    """Return the requests of a cycle by kind, state and distinct hour.

    Requests are spread in proportion to the capacity of what answers; what is beyond it is refused.
    """
    replicas, load = fleet.replicas, np.asarray(fleet.job.load.hourly)
    rates = np.asarray(fleet.capacities.rate)
    able = rates if fleet.job.load.concurrent is None else np.asarray(fleet.capacities.flight)
    rows = np.column_stack([load, replicas])
    _, first, which, count = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    use = load / np.maximum(replicas @ able, 1e-300)
    busiest = int(np.argmax(np.where(load > 0, use, -1.0)))
    fullest = int(np.ravel(which)[busiest])
    stretches: list[Stretch] = []
    offered = refused = 0.0
    for number, hour in enumerate(first.tolist()):
        there = replicas[hour]
        if load[hour] <= 0:
            continue
        wanted = float(load[hour] / max(float(there @ able), 1e-300) * float(there @ rates))  # requests per second
        requests = wanted * HOUR * int(count[number])
        offered += requests
        standing = np.flatnonzero(there > 0)
        for state in fleet_states([fleet.spot[group] for group in standing]):
            stretches_of_state = _in_state(
                number, standing[np.asarray(state.answers, dtype=bool)], there, rates, wanted
            )
            carried = sum(stretch.share for stretch in stretches_of_state)
            refused += requests * state.share * (1.0 - carried if carried < 1.0 - LEAST_REFUSED else 0.0)
            if state.share < RAREST_STATE and not (number == fullest and all(state.answers)):
                continue
            stretches += [
                stretch._replace(weight=stretch.share * requests * state.share, whole=all(state.answers))
                for stretch in stretches_of_state
            ]
    return FleetLoad(stretches, len(first), offered, refused, busiest, fullest)


def _in_state(number: int, answers: Integers, there: Floats, rates: Floats, wanted: float) -> list[Stretch]:
    """Return the stretches of the kinds that answer."""
    able = float(there[answers] @ rates[answers]) if len(answers) else 0.0
    use = min(1.0, wanted / able) if able > 0 else 0.0
    return [
        Stretch(
            kind=int(answer), rate=use * float(rates[answer]), use=use, routed=float(rates[answer]) / able,
            share=use * float(rates[answer] * there[answer]) / wanted, weight=0.0, hour=number, whole=True,
        )
        for answer in answers.tolist()
        if use > 0
    ]  # fmt: skip


# What each kind of machines of a service rests on: memory of its GPU by part, measurements, source of its price.


def kind_bases(scenario: Scenario, plan: Plan, library: Library | None = None) -> tuple[KindBasis, ...]:
    """Return what every kind of every service of a plan rests on.

    Empty without services, and where a plan that was changed by hand names what its scenario does not have.
    """
    offered = {label for label, _ in scenario.labelled_offers()}
    if not plan.services or any(kind.offer not in offered for service in plan.services for kind in service.fleet.kinds):
        return ()
    library = library or read_library([job.architecture for job in scenario.jobs])
    jobs = {job.name: job for job in services_of(scenario)}
    offers, as_of = dict(scenario.labelled_offers()), datetime.date.fromisoformat(plan.as_of)
    coefficients = library.calibrations["inference"].coefficients
    bases = []
    for service in plan.services:
        job = jobs[service.name]
        fleet = simulated_fleet(service, job, scenario, library)
        speeds = fleet.speeds
        longest = max(requests.input_tokens + requests.output_tokens for requests in job.work.classes)
        for at, kind in enumerate(service.fleet.kinds):
            offer, recipe, memory = offers[kind.offer], speeds.which[at].recipe, speeds.memory[at]
            gpu = library.gpu(speeds.which[at].gpu)
            per_token = float(np.ravel(speeds.token_bytes)[at])
            bases.append(
                KindBasis(
                    service=service.name,
                    offer=kind.offer,
                    machine=f"{kind.gpus} x {kind.gpu} at {kind.provider}, {kind.market}",
                    gpu=gpu.name,
                    engine=kind.engine,
                    weight_format=kind.weight_format,
                    memory_gib=ServingMemory(
                        usable=memory.usable / GIB,
                        parts={name: size / GIB for name, size in memory.parts.items()},
                        kv_bytes_per_token=per_token,
                        kv_tokens=int(memory.cache // per_token),
                    ),
                    whole_gib=gpu.usable_gib,
                    most_in_flight=int(speeds.flight[at]),
                    longest_context=int(longest),
                    priors=generation.prior_parts(
                        coefficients, recipe.framework, recipe.engine.label, gpu.name, recipe.quant
                    ),
                    is_measured=generation.is_measured(job, recipe, gpu.name),
                    slow=float(fleet.slow[at]),
                    price_date=offer.date_text,
                    price_age_days=age_in_days(offer, as_of),
                    price_source=offer.source,
                )
            )
    return tuple(bases)


# Simulation of the fleet that a plan gives a service: every distinct hour, steady streams and bursts, spot losses.


# Predicted and simulated latencies next to each other: of the kinds in the busiest hour, and over the cycle.


SHARES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.998)
"""Shares of the requests at which a latency is predicted; between them it is a straight line."""
USE_STEPS = 50
"""Steps of the use of a replica's capacity that a prediction distinguishes."""
MIXED_HALVINGS = 40


@dataclass(frozen=True)
class Predicted:
    """Predictions of each stretch: columns (stretches,), and latencies (SHARES + asked, stretches)."""

    shares: Floats
    flight: Floats
    ttft: Floats
    tpot: Floats


def predicted_latencies(fleet: SimulatedFleet, load: FleetLoad) -> Predicted:
    """Return what the formulas of the plan say of every stretch."""
    stretches, asked = load.stretches, fleet.job.latency.share
    rough = [
        (stretch.kind, stretch.use if load.is_busiest(stretch) else round(stretch.use * USE_STEPS))
        for stretch in stretches
    ]
    number = {key: place for place, key in enumerate(dict.fromkeys(rough))}
    which = np.asarray([number[key] for key in rough])
    first = [rough.index(key) for key in number]
    kinds, rates = (
        np.asarray([stretches[stretch].kind for stretch in first]),
        np.asarray([stretches[stretch].rate for stretch in first]),
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
    busiest = [place for place, stretch in enumerate(load.stretches) if load.is_busiest(stretch)]
    everything = list(range(len(load.stretches)))
    asked, latency = fleet.job.latency.share, fleet.job.latency

    def side(which: list[int], latency_name: Literal["ttft", "tpot"], weights: list[float]) -> SimulatedLatency:
        limit = latency.ttft_seconds if latency_name == "ttft" else latency.tpot_seconds
        seconds = [met[stretch].first if latency_name == "ttft" else met[stretch].each for stretch in which]
        table = (predicted.ttft if latency_name == "ttft" else predicted.tpot)[:, which]
        return _latency(_Side(np.asarray(weights), table, seconds), predicted.shares, asked, limit)

    def both(latency_name: Literal["ttft", "tpot"]) -> SimulatedLimit:
        return SimulatedLimit(
            name=latency_name,
            limit_seconds=latency.ttft_seconds if latency_name == "ttft" else latency.tpot_seconds,
            asked_share=asked,
            busiest=side(busiest, latency_name, [load.stretches[stretch].share for stretch in busiest]),
            cycle=side(everything, latency_name, [stretch.weight for stretch in load.stretches]),
        )

    def kind(place: int, used: Stretch) -> SimulatedKind:
        named = fleet.service.fleet.kinds[used.kind]
        first, per_token = side([place], "ttft", [1.0]), side([place], "tpot", [1.0])
        return SimulatedKind(
            offer=named.offer, provider=named.provider, gpu=named.gpu, use=used.use, requests_per_second=used.rate,
            ttft=first, tpot=per_token,
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
    below = 0.0
    for weight, column in zip(side.weight.tolist(), side.predicted.T, strict=True):
        ends = np.concatenate([[min(column[0], 2.0 * column[0] - column[1])], column, [2.0 * column[-1] - column[-2]]])
        below += weight * float(np.interp(seconds, ends, known))
    return below / max(float(np.sum(side.weight)), 1e-300)


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


def simulate_service(
    scenario: Asked,
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

    Examples
    --------
    >>> planner.simulate_service("many-adapters", runs=100, seed=1).runs
    100
    """
    scenario = as_scenario(scenario)
    require_service(scenario)
    started = perf_counter()
    if arguments.get("traces"):
        problem, fix = (
            "recorded markets are not replayed for kind: serve",
            "leave it out: losses follow the spot market",
        )
        raise ScenarioError([Fault("simulate", 0, "--trace", problem, fix)])
    settings = SimulationSettings.of(**arguments)
    options = options or SolveOptions()
    library = library or read_library([job.architecture for job in scenario.jobs])
    if plan is None:
        plan = solve(scenario, options, library)
    else:
        _check_plan(plan, scenario, library)
    jobs = {job.name: job for job in services_of(scenario)}
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
    services = tuple(_replay(service, jobs[service.name], scenario, library, settings) for service in plan.services)
    return ServiceSimulation(
        **facts, services=services, seconds=perf_counter() - started, notes=_notes(services, settings)
    )


def _check_plan(plan: Plan, scenario: Scenario, library: Library) -> None:
    """Refuse a plan of another scenario, or one that was changed by hand."""
    require_plan(plan)
    if plan.status not in ("infeasible", "no_plan") and not plan.services:
        raise ScenarioError([Fault("plan", 0, "jobs", "a plan without a service", "give one of this scenario")])
    faults = []
    for violation in audit(plan, scenario, library)[:5]:
        where, difference = (
            f"{violation.job}: {violation.what}",
            f"expected {violation.expected}, found {violation.found}",
        )
        faults.append(Fault("plan", 0, where.removeprefix(": "), difference, "planner check PLAN SCENARIO lists all"))
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
        stretch.weight * run.flight / run.rate / HOUR / fleet.spot[stretch.kind].mean_up_hours
        for stretch, run in zip(load.stretches, runs, strict=True)
    ]
    return ServiceReplay(
        name=service.name,
        cycle_hours=len(service.fleet.load),
        distinct_hours=load.hours,
        requests=sum(len(answers.first) for several in met.values() for answers in several),
        busiest_hour=load.busiest,
        busiest_use=max((stretch.use for stretch in load.stretches if load.is_busiest(stretch)), default=0.0),
        refused_share=load.refused / load.offered,
        predicted_refused_share=max(0.0, 1.0 - service.fleet.served_share),
        cut_share=sum(cut) / load.offered,
        streams=tuple(summarise(fleet, load, predicted, name, STREAMS[name], several) for name, several in met.items()),
    )


def _runs(load: FleetLoad, predicted: Predicted, requests: int) -> list[Run]:
    """Return the streams of requests: each distinct hour gets `requests`, its busiest one as many with all there."""
    of_hour = np.zeros(load.hours)
    for stretch in load.stretches:
        of_hour[stretch.hour] += stretch.weight
    runs = []
    for stretch, flight in zip(load.stretches, predicted.flight.tolist(), strict=True):
        share = stretch.share if load.is_busiest(stretch) else stretch.weight / max(of_hour[stretch.hour], 1e-300)
        runs.append(
            Run(stretch.kind, stretch.rate, stretch.routed, flight, max(LEAST_OF_STATE, round(requests * share)))
        )
    return runs


def _notes(services: tuple[ServiceReplay, ...], settings: SimulationSettings) -> tuple[str, ...]:
    """Return what the figures rest on."""
    speed = "as fast as expected" if settings.exact_speed else "as slow as the plan takes it at its confidence"
    notes = [f"every replica is {speed}; a router spreads requests by capacity and knows neither queues nor lengths"]
    if any(service.refused_share or service.predicted_refused_share for service in services):
        notes.append("spot groups are lost independently of one another, as in the plan")
    return tuple(notes) if services else ()
