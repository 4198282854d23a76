"""The greatest load at which a replica keeps its latency, for requests of many lengths that arrive one by one.

It is the greatest rate at which the time to the first token and the time per token each hold for the asked share of all
requests, a wait for a place among them, and which is far enough from saturation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.replicas.enumeration import lengths_of
from planner.configurations.replicas.evidence import prior_parts, speed_sigma
from planner.configurations.replicas.measured import is_measured
from planner.configurations.replicas.traffic import Traffic, grouped_lengths
from planner.estimates.inference import arrivals
from planner.estimates.inference.bulk import Lengths
from planner.estimates.uncertainty import class_sigmas, confidence_factor, tail_of_68_percent
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.arrays import Flags, Floats, Integers
    from planner.configurations.replicas.enumeration import ReplicaSpeeds
    from planner.library.schema import Library
    from planner.scenario.serving.job import ServeJob

HELD_BY = ("TPOT", "TTFT", "KV", "compute")
"""What may hold the capacity: a limit on latency, the wait for a place in cache or engine, or near saturation."""
CAPACITY_HALVINGS = 30
BEYOND = 1.001
"""Factor on a capacity at which is asked whether places alone hold it."""
LEAST_USE = 1e-5
"""Share of its greatest rate below which a replica is of no use."""


@record(frozen=True)
class Capacities:
    """Columns (n,): the greatest load of one replica, and its latency there; 0 where no load keeps the latency."""

    rate: Floats  # requests per second
    flight: Floats  # requests in flight at that rate, in the mean
    ttft_seconds: Floats  # that the asked share stays below
    tpot_seconds: Floats
    binds: Integers  # place in HELD_BY
    slow: Floats  # factor on all times, at the confidence
    greatest: Floats  # requests per second of a saturated replica


def slow_factor(job: ServeJob, speeds: ReplicaSpeeds, library: Library) -> Floats:
    """Return the factor (n,) on all times that holds with the confidence of the job.

    A recipe that the job measured on its GPU is as uncertain as what was observed.
    """
    coefficients = library.calibrations["inference"].coefficients
    adapters = job.adapter is not None and job.adapter.served is not None
    seen = class_sigmas(library.calibrations["uncertainty"].values, "observed").tail
    tails = []
    for one in speeds.which:
        recipe = one.recipe
        prior = prior_parts(coefficients, recipe.framework, recipe.engine.label, one.gpu, recipe.quant)
        sigma = speed_sigma(coefficients, recipe.framework, bool(prior) or adapters)
        tails.append(seen if is_measured(job, recipe, one.gpu) else float(tail_of_68_percent(sigma)))
    certain = np.asarray(confidence_factor(np.asarray(tails, dtype=float), job.confidence), dtype=float)
    return certain * expected_factor(job, speeds)


def expected_factor(job: ServeJob, speeds: ReplicaSpeeds) -> Floats:
    """Return the factor (n,) on all times that the job's efficiency and its own measurements make."""
    return np.asarray(1.0 / (job.efficiency * speeds.factor), dtype=float)


def mixture_rates(job: ServeJob, speeds: ReplicaSpeeds, library: Library, mixtures: Floats) -> Floats:
    """Return the greatest rate (mixtures, n) of requests of which each length has a weight (mixtures, lengths).

    Lengths are those of `grouped_lengths`; each limit holds for the asked share of all requests of a mixture.
    """
    lengths, slow = grouped_lengths(lengths_of(job)), slow_factor(job, speeds, library)
    prompt, output = np.asarray(lengths.prompt, dtype=float), np.asarray(lengths.output, dtype=float)
    each = [Lengths(prompt[one > 0], output[one > 0], one[one > 0], lengths.prefix) for one in mixtures]
    return np.stack([_capacities(Traffic.of(job, speeds, slow, one)).rate for one in each])


def replica_capacities(job: ServeJob, speeds: ReplicaSpeeds, library: Library) -> Capacities:
    """Return the capacity of each recipe on its GPU at the confidence of the job."""
    return _capacities(Traffic.of(job, speeds, slow_factor(job, speeds, library)))


def _capacities(traffic: Traffic) -> Capacities:
    """Return the capacity of each recipe for some requests."""
    limits, share, greatest = traffic.job.latency, traffic.job.latency.share, traffic.greatest
    rate = arrivals.MOST_BUSY * greatest
    binds = np.full(rate.shape, HELD_BY.index("compute"))
    some = np.flatnonzero(greatest > 0)
    if limits.tpot_seconds is not None:
        seconds = limits.tpot_seconds
        _held(traffic, rate, some, lambda one, at: one.tpot(at) <= seconds, binds, "TPOT")
    if limits.ttft_seconds is not None:
        first = limits.ttft_seconds
        _held(traffic, rate, some, lambda one, at: one.in_time(at, first) >= share, binds, "TTFT")
        late = np.flatnonzero(binds == HELD_BY.index("TTFT"))
        placed = traffic.choosing(late).in_time(rate[late] * BEYOND, first, waits=False) >= share
        binds[late[placed]] = HELD_BY.index("KV")
    holds = rate > LEAST_USE * greatest
    rate = np.where(holds, rate, 0.0)
    ttft = np.full_like(rate, np.inf)
    there = np.flatnonzero(traffic.places > 0)
    ttft[there] = traffic.choosing(there).ttft(rate[there])
    return Capacities(
        rate=rate,
        flight=np.where(holds, traffic.flight(rate), 0.0),
        ttft_seconds=ttft,
        tpot_seconds=traffic.tpot(rate),
        binds=binds,
        slow=traffic.slow,
        greatest=greatest,
    )


def latency_at_use(
    job: ServeJob, speeds: ReplicaSpeeds, library: Library, use: Floats, known: Capacities | None = None
) -> tuple[Floats, Floats]:
    """Return TTFT and TPOT (n,) that the asked share stays below where a replica has `use` (n,) of its capacity.

    `known` capacities are not computed again.
    """
    found = known or replica_capacities(job, speeds, library)
    traffic = Traffic.of(job, speeds, found.slow)
    return traffic.ttft(use * found.rate), traffic.tpot(use * found.rate)


def _held(
    traffic: Traffic, rate: Floats, which: Integers, keeps: Callable[[Traffic, Floats], Flags], binds: Integers, by: str
) -> None:
    """Lower the rates (n,) of some recipes to what keeps a limit, and write what holds them (n,)."""
    broken = which[~keeps(traffic.choosing(which), rate[which])]
    binds[broken] = HELD_BY.index(by)
    chosen, low, high = traffic.choosing(broken), np.zeros(len(broken)), rate[broken]
    for _ in range(CAPACITY_HALVINGS):
        middle = (low + high) / 2.0
        kept = keeps(chosen, middle)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    rate[broken] = low
