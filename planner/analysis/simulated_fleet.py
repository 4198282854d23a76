"""The fleet of a plan as the simulation reads it: kinds with their speeds, distinct hours, states of the market."""

from __future__ import annotations

import datetime
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.candidates.offer_terms import spot_markets
from planner.configurations.replica_enumeration import ReplicaSpeeds, ServedGpu, is_measured, replica_speeds
from planner.configurations.replica_traffic import Capacities, expected_factor, prior_parts, replica_capacities
from planner.configurations.serving_recipes import serving_recipe
from planner.decode.notes import age_in_days
from planner.library.reading import read_library
from planner.records import record
from planner.results.fleet_differences import KindBasis
from planner.results.inference import ServingMemory
from planner.scenario.service_load import ServeJob
from planner.units import GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats, Integers
    from planner.library.schema import Library
    from planner.results.fleet import Service
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario


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
    groups = list(dict.fromkeys(one.group for one in kinds if one.group))
    found = []
    for levels in itertools.product(*(_levels([one for one in kinds if one.group == group]) for group in groups)):
        started = dict(zip(groups, (level for level, _ in levels), strict=True))
        share = math.prod(share for _, share in levels)
        found.append(FleetState(tuple(not k.group or k.start_hours <= started[k.group] for k in kinds), share))
    found.sort(key=lambda one: -one.share)
    kept = found[:MOST_STATES]
    whole = math.fsum(one.share for one in kept)
    return [FleetState(one.answers, one.share / whole) for one in kept if one.share > 0]


def _levels(members: Sequence[SpotKind]) -> list[tuple[float, float]]:
    """Return the hours since a group came back, up to the next that lets a kind answer, with their shares."""
    share, up = min(one.availability for one in members), min(one.mean_up_hours for one in members)
    starts = sorted({one.start_hours for one in members})
    reached = [share * math.exp(-one / up) for one in starts]
    levels = [(-1.0, 1.0 - reached[0])]
    return levels + [
        (start, now - after) for start, now, after in zip(starts, reached, [*reached[1:], 0.0], strict=True)
    ]


RAREST_STATE = 0.002
"""Share of the time below which a state of the fleet is refused for, but not simulated."""
LEAST_REFUSED = 1e-9
"""Share of the requests below which none is refused: shares of a whole fleet add up to one but for rounding."""


@record(frozen=True)
class SimulatedFleet:
    """Kinds of a plan; columns (kinds,)."""

    job: ServeJob
    service: Service
    speeds: ReplicaSpeeds
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
        return np.asarray([np.multiply(one.by_hour, one.replicas) for one in kinds], dtype=float).T


def simulated_fleet(
    service: Service, job: ServeJob, scenario: Scenario, library: Library, exact: bool = False
) -> SimulatedFleet:
    """Return the fleet of a plan that was audited against its scenario."""
    offers = dict(scenario.labelled_offers())
    kinds = service.fleet.kinds
    which = []
    for one in kinds:
        tensor = one.gpus_per_replica // one.pipeline_parallel
        recipe = serving_recipe(one.engine, one.weight_format, one.kv_bits, tensor, one.pipeline_parallel)
        which.append(ServedGpu(library.gpu(offers[one.offer].card).name, recipe))
    architecture = library.architecture(job.architecture)
    speeds = replica_speeds(job, architecture, which, library, scenario.limits.vram_headroom)
    named = [offers[one.offer] for one in kinds]
    spot = tuple(
        SpotKind(
            f"{offer.provider}/{offer.card}", one.availability, market.mean_up_hours,
            one.start_hours,
        )
        if one.market == "spot"
        else SpotKind("", 1.0, float("inf"), one.start_hours)
        for one, offer, market in zip(kinds, named, spot_markets(named, library), strict=True)
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

    def is_busiest(self, one: Stretch) -> bool:
        """Return whether a stretch is of the busiest hour with its whole fleet."""
        return one.whole and one.hour == self.fullest


def load_of(fleet: SimulatedFleet) -> FleetLoad:
    """Return the requests of a cycle by kind, state and distinct hour.

    Requests are spread in proportion to the capacity of what answers; what is beyond it is refused.
    """
    replicas, load = fleet.replicas, np.asarray(fleet.job.load.hourly)
    each = np.asarray(fleet.capacities.rate)
    able = each if fleet.job.load.concurrent is None else np.asarray(fleet.capacities.flight)
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
        wanted = float(load[hour] / max(float(there @ able), 1e-300) * float(there @ each))  # requests per second
        requests = wanted * HOUR * int(count[number])
        offered += requests
        standing = np.flatnonzero(there > 0)
        for state in fleet_states([fleet.spot[one] for one in standing]):
            found = _in_state(number, standing[np.asarray(state.answers, dtype=bool)], there, each, wanted)
            carried = sum(one.share for one in found)
            refused += requests * state.share * (1.0 - carried if carried < 1.0 - LEAST_REFUSED else 0.0)
            if state.share < RAREST_STATE and not (number == fullest and all(state.answers)):
                continue
            stretches += [
                one._replace(weight=one.share * requests * state.share, whole=all(state.answers)) for one in found
            ]
    return FleetLoad(stretches, len(first), offered, refused, busiest, fullest)


def _in_state(number: int, answers: Integers, there: Floats, each: Floats, wanted: float) -> list[Stretch]:
    """Return the stretches of the kinds that answer."""
    able = float(there[answers] @ each[answers]) if len(answers) else 0.0
    use = min(1.0, wanted / able) if able > 0 else 0.0
    return [
        Stretch(
            kind=int(one), rate=use * float(each[one]), use=use, routed=float(each[one]) / able,
            share=use * float(each[one] * there[one]) / wanted, weight=0.0, hour=number, whole=True,
        )
        for one in answers.tolist()
        if use > 0
    ]  # fmt: skip


# What each kind of machines of a service rests on: memory of its GPU by part, measurements, source of its price.


def kind_bases(scenario: Scenario, plan: Plan, library: Library | None = None) -> tuple[KindBasis, ...]:
    """Return what every kind of every service of a plan rests on.

    Empty without services, and where a plan that was changed by hand names what its scenario does not have.
    """
    offered = {label for label, _ in scenario.labelled_offers()}
    if not plan.services or any(kind.offer not in offered for one in plan.services for kind in one.fleet.kinds):
        return ()
    library = library or read_library([job.architecture for job in scenario.jobs])
    jobs = {job.name: job for job in scenario.jobs if isinstance(job, ServeJob)}
    offers, as_of = dict(scenario.labelled_offers()), datetime.date.fromisoformat(plan.as_of)
    coefficients = library.calibrations["inference"].coefficients
    found = []
    for service in plan.services:
        job = jobs[service.name]
        fleet = simulated_fleet(service, job, scenario, library)
        speeds = fleet.speeds
        longest = max(one.input_tokens + one.output_tokens for one in job.work.classes)
        for at, kind in enumerate(service.fleet.kinds):
            offer, recipe, memory = offers[kind.offer], speeds.which[at].recipe, speeds.memory[at]
            gpu = library.gpu(speeds.which[at].gpu)
            per_token = float(np.ravel(speeds.token_bytes)[at])
            found.append(
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
                    priors=prior_parts(coefficients, recipe.framework, recipe.engine.label, gpu.name, recipe.quant),
                    is_measured=is_measured(job, recipe, gpu.name),
                    slow=float(fleet.slow[at]),
                    price_date=offer.date_text,
                    price_age_days=age_in_days(offer, as_of),
                    price_source=offer.source,
                )
            )
    return tuple(found)
