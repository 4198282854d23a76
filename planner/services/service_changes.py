"""A service solved again: before and after a change, and its dollars against the limit on the time per token."""

from __future__ import annotations

import datetime
import itertools
import math
from time import perf_counter

import numpy as np

from planner.errors import Fault, ScenarioError
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.results.service_results import ServiceFrontier, ServicePoint
from planner.scenario.inference_job import ServeJob
from planner.scenario.scenario import SolveOptions
from planner.services.fleet_kinds import latency_at_use
from planner.services.fleet_optimise import WANTED_GAP
from planner.services.service_reasons import (
    ROOM,
    ServiceTrial,
    milliseconds,
    rounded_up,
    service_of,
    try_service,
    with_latency,
)
from planner.solving.solve import solve

SERVICE_POINTS = 10
"""Limits that are solved."""
LEAST_POINT_SAVING = 0.005
"""Share of the dollars that a looser limit saves at the least to be a point of its own."""
NEAR_LIMITS = 1.06
"""Factor between two limits that are not divided further."""
NO_LOAD = 1e-6
"""Use of a replica that is idle but for one request."""


def service_frontier(
    scenario: Asked,
    options: SolveOptions | None = None,
    library: Library | None = None,
    points: int = SERVICE_POINTS,
    known: dict[float | None, ServiceTrial] | None = None,
) -> ServiceFrontier:
    """Return the dollars of a month at limits on the time per token, each solved with its own bound.

    The first limits are a little above the least that any kind reaches, that of the scenario, and the one above which
    nothing is gained. Then the interval is divided, in logarithms, across which most dollars are saved per point of
    the curve. A fleet of a tighter limit keeps a looser one, and a bound of a looser limit holds for a tighter one.
    Without a plan for the scenario's own limit the others are shown all the same.

    `known` keeps the fleets that were solved, by their limit: the same call with more points goes on from there.

    Raises ScenarioError for other jobs next to the service, and for answers of one token, which have no such time.

    >>> found = planner.service_frontier(planner.read_scenario("many-adapters"), points=2)
    >>> found.points[0].usd_per_month >= found.points[-1].usd_per_month
    True
    """
    started, scenario, options = perf_counter(), as_scenario(scenario), options or SolveOptions()
    job = service_of(scenario, "frontier")
    library = library or read_library([job.architecture])
    asked = job.latency.tpot_seconds
    kept: dict[float | None, ServiceTrial] = {} if known is None else known

    def solved(limit: float | None) -> ServiceTrial:
        if limit not in kept:
            job_within, gap = with_latency(job, tpot_seconds=limit), _pair_gap(limit, asked, options)
            kept[limit] = try_service(scenario, library, options, job_within, pair_gap=gap)
        return kept[limit]

    free = solved(None)
    least = _least_seconds(job, free, library)
    ends: list[float] = []
    if free.is_feasible and least is not None:
        most = rounded_up(max(_at_capacity(free), ROOM * least))
        ends = sorted({rounded_up(ROOM * least), most})
    limits = sorted({*ends, *([asked] if asked is not None and free.is_feasible else [])})
    trials = {limit: solved(limit) for limit in (*limits, *kept) if limit is not None}
    while len(trials) < max(3, points) and (between := _widest(trials)) is not None:
        trials[between] = solved(between)
    points_found = _points(trials, job)
    infeasible = None if points_found else solve(scenario, options, library).infeasible
    status = (
        "infeasible" if not points_found else "optimal" if all(one.gap <= 1e-6 for one in points_found) else "feasible"
    )
    return ServiceFrontier(
        scenario=scenario.name,
        status=status,
        points=points_found,
        share=job.latency.share,
        ttft_seconds=job.latency.ttft_seconds,
        load=max(job.load.hourly),
        unit=job.load.unit,
        least_tpot_seconds=least,
        solved=len(trials),
        seconds=perf_counter() - started,
        as_of=(options.as_of or datetime.date.today()).isoformat(),
        infeasible=infeasible,
        notes=_notes(job, trials),
    )


def _pair_gap(limit: float | None, asked: float | None, options: SolveOptions) -> float | None:
    """Return the gap that suffices at a limit: any without one, which is no point; that of the plan at its own."""
    if limit is None:
        return math.inf
    return None if limit == asked else max(options.gap, WANTED_GAP)


def _least_seconds(job: ServeJob, free: ServiceTrial, library: Library) -> float | None:
    """Return the least time per token that a kind reaches at no load and within the other limits."""
    if not free.served.kinds:
        return None
    which = sorted({kind.which for kind in free.served.kinds})
    _, each = latency_at_use(
        with_latency(job, ttft_seconds=None, tpot_seconds=None), free.served.speeds, library,
        np.full(len(free.served.speeds.which), NO_LOAD),
    )  # fmt: skip
    if float(np.max(each)) <= 0:
        what, fix = "answers of one token have no time per token", "vary the time to the first token: what-if --vary"
        raise ScenarioError([Fault(job.name, 0, f"jobs.{job.name}.load.output_tokens", what, fix)])
    return float(np.min(each[which]))


def _at_capacity(free: ServiceTrial) -> float:
    """Return the time per token at full capacity of the slowest kind of the fleet without a limit."""
    return max(float(free.served.capacities.tpot_seconds[free.served.kinds[kind].which]) for kind in free.used)


def _widest(known: dict[float, ServiceTrial]) -> float | None:
    """Return a limit within the interval across which most may be saved; None where all are narrow or flat."""
    limits = sorted(known)
    best, place = LEAST_POINT_SAVING * math.log(NEAR_LIMITS), None
    for low, high in itertools.pairwise(limits):
        if high <= NEAR_LIMITS * low or not known[high].is_feasible:
            continue
        usd, less = known[low].usd_per_month, known[high].usd_per_month
        fall = 1.0 if math.isinf(usd) else max(0.0, 1.0 - less / usd)
        weight, middle = fall * math.log(high / low), rounded_up(math.sqrt(low * high))
        if weight > best and low < middle < high:
            best, place = weight, middle
    return place


def _points(known: dict[float, ServiceTrial], job: ServeJob) -> tuple[ServicePoint, ...]:
    """Return the points that no tighter limit undercuts; the scenario's own limit is always one."""
    limits = [limit for limit in sorted(known) if known[limit].is_feasible]
    bounds: dict[float, float] = {}
    bound = 0.0
    for limit in reversed(limits):
        bound = bounds[limit] = max(bound, known[limit].bound_usd_per_month)
    found: list[ServicePoint] = []
    best: ServiceTrial | None = None
    for limit in limits:
        one, asked = known[limit], limit == job.latency.tpot_seconds
        better = best is None or one.usd_per_month < best.usd_per_month * (1.0 - LEAST_POINT_SAVING)
        best = one if best is None or one.usd_per_month < best.usd_per_month else best
        if not (better or asked):
            continue
        usd = best.usd_per_month
        least, most = best.replicas
        found.append(
            ServicePoint(
                tpot_seconds=limit,
                usd_per_month=usd,
                bound_usd_per_month=min(usd, bounds[limit]),
                gap=max(0.0, usd - bounds[limit]) / max(usd, 1e-9),
                least_replicas=least,
                most_replicas=most,
                machines=best.machines,
                binds=best.binds,
                asked=asked,
                setting=f"jobs.{job.name}.latency.tpot={milliseconds(limit)}",
            )
        )
    return tuple(found)


def _notes(job: ServeJob, known: dict[float, ServiceTrial]) -> tuple[str, ...]:
    """Return what holds at every point."""
    asked = job.latency.tpot_seconds
    notes = ["a limit between two points costs at most as much as the tighter one"]
    if asked is not None and asked in known and not known[asked].is_feasible:
        notes.append(f"the limit of the scenario, {milliseconds(asked)}, cannot be kept")
    return tuple(notes)
