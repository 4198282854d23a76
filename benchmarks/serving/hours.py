"""Fleets of single hours: what they cost, the requests that each machine gets, and how many of these are in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.services.fleet_optimise import cheapest_circle
from planner.services.simulated_engine import Run, simulate_runs, speeds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.services.fleet_kinds import ServedKinds
    from planner.services.fleet_problem import FleetProblem

REQUESTS = 4000
"""Of each hour, simulated."""
LEAST_OF_STREAM = 200
SEED = 1


class Stream(NamedTuple):
    """Machines of a kind that all get the same requests."""

    kind: int
    machines: int
    rate: Floats  # (sizes,) requests per second of one machine, by size


class Hour(NamedTuple):
    """The fleet of an hour, with a bound on its dollars."""

    load: float  # requests per second
    usd: float
    bound: float
    machines: Floats  # (kinds,)
    streams: tuple[Stream, ...] = ()


def with_starts(problem: FleetProblem, hours: Sequence[Hour]) -> float:
    """Return the least dollars of a cycle, starts included, in which each hour has one of some fleets.

    A fleet for a load may also stand in hours with less.
    """
    loads = np.array([one.load for one in hours])
    fits = loads >= problem.load[:, None] * (1.0 - 1e-9)
    return cheapest_circle(problem, np.stack([one.machines for one in hours]), fits)[1]


def hours_of_plan(problem: FleetProblem, fleets: Floats, share: Floats) -> list[Hour]:
    """Return the hours of a plan (hours, kinds), whose router spreads requests of all sizes by capacity."""
    found = []
    for load, machines in zip(problem.load.tolist(), fleets, strict=True):
        use = load / max(float(machines @ problem.capacity), 1e-300)
        streams = tuple(
            Stream(kind, int(machines[kind]), use * float(problem.capacity[kind]) * share)
            for kind in np.flatnonzero(machines).tolist()
        )
        usd = float(machines @ problem.usd)
        found.append(Hour(load, usd, usd, machines, streams))
    return found


def in_time(served: ServedKinds, hours: Sequence[Hour]) -> Floats:
    """Return the share (hours,) of the answers of each hour that keep the limit on the time per token, simulated.

    Requests arrive one by one (Poisson), and replicas are as slow as the confidence of the job takes them.
    """
    speeds = speeds_of(served.job, served.speeds, served.capacities.slow)
    limit = served.job.latency.tpot_seconds or np.inf
    streams = [(number, one) for number, hour in enumerate(hours) for one in hour.streams if np.any(one.rate > 0)]
    mixes = np.round([one.rate / np.sum(one.rate) for _, one in streams], 9)
    _, which = np.unique(mixes, axis=0, return_inverse=True)
    kept, all_of = np.zeros(len(hours)), np.zeros(len(hours))
    for mix in np.unique(which).tolist():
        members = [streams[place] for place in np.flatnonzero(np.ravel(which) == mix).tolist()]
        lengths = replace(speeds.lengths, count=members[0][1].rate)
        runs = [_run(served, hours[number], one) for number, one in members]
        met = simulate_runs(replace(speeds, lengths=lengths), runs, 1.0, np.random.default_rng(SEED))
        for (number, one), found in zip(members, met, strict=True):
            weight = one.machines * float(np.sum(one.rate))
            kept[number] += weight * float(np.nanmean(found.each <= limit))
            all_of[number] += weight
    return np.where(all_of > 0, kept / np.maximum(all_of, 1e-300), 1.0)


def _run(served: ServedKinds, hour: Hour, stream: Stream) -> Run:
    """Return the stream of requests to one replica of a machine."""
    kind, rate = served.kinds[stream.kind], float(np.sum(stream.rate))
    each = rate / kind.replicas
    flight = float(served.capacities.flight[kind.which]) * min(1.0, each / float(served.capacities.rate[kind.which]))
    share = stream.machines * rate / hour.load
    return Run(kind.which, each, each / hour.load, flight, max(LEAST_OF_STREAM, round(REQUESTS * share)))
