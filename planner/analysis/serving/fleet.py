"""The fleet of a plan as the simulation reads it: kinds with their speeds, distinct hours, states of the market."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.analysis.serving.losses import SpotKind, fleet_states
from planner.candidates.offer_terms import spot_markets
from planner.configurations.replicas.capacity import Capacities, expected_factor, replica_capacities
from planner.configurations.replicas.enumeration import ReplicaSpeeds, ServedGpu, replica_speeds
from planner.configurations.replicas.recipes import serving_recipe
from planner.records import record
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.library.schema import Library
    from planner.results.serving.fleet import Service
    from planner.scenario.scenario import Scenario
    from planner.scenario.serving.job import ServeJob

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
