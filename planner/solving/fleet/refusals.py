"""Why a service has no fleet: what could keep its latency, and what relaxing it costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.fleet.kinds import served_kinds
from planner.configurations.replicas.capacity import latency_at_use
from planner.formulation.fleet.problem import cycle_of
from planner.results.plan_parts import NearMiss, Relaxation
from planner.results.ways.considered import Infeasible
from planner.solving.fleet.optimise import optimise_fleet
from planner.solving.fleet.problem import fleet_problem
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from planner.candidates.fleet.kinds import ServedKinds
    from planner.candidates.market import Market
    from planner.formulation.fleet.problem import FleetProblem
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.scenario.serving.job import ServeJob
    from planner.solving.fleet.optimise import SolvedFleet

_MILLISECONDS = 1000.0
ROOM = 1.25
"""How much above the least latency a relaxed limit lies: at the least itself no load is carried."""
LIMIT_OF_GPUS = "limits.max_gpus"


def rounded_up(seconds: float) -> float:
    """Return a time rounded up to two digits: 0.0123 is 0.013."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / unit - 1e-9) * unit:.6g}")


def milliseconds(seconds: float) -> str:
    """Return a time as a scenario writes it."""
    return f"{seconds * _MILLISECONDS:g}ms"


def explain_none(
    scenario: Scenario,
    served: ServedKinds,
    problem: FleetProblem,
    solved: SolvedFleet,
    market: Market,
    library: Library,
    options: SolveOptions,
) -> Infeasible:
    """Return what would make a fleet possible, each change solved again."""
    job = served.job
    if solved.over_budget_usd is not None:
        needed = solved.over_budget_usd * cycle_of(job.for_hours, problem.hours)
        more = math.ceil(needed)
        change = Relaxation(
            limit="limits.budget_usd", **{"from": scenario.limits.budget_usd, "to": float(more)},
            then=f"${needed:,.2f} for all hours", cost_usd=needed, hours=job.for_hours,
            setting=f"limits.budget_usd={more}",
        )  # fmt: skip
        return Infeasible(relax=(change,))
    if not served.kinds:
        return _relaxed_latency(scenario, job, served, market, library, options)
    return _relaxed_limits(scenario, job, problem, options)


def _relaxed_latency(
    scenario: Scenario, job: ServeJob, served: ServedKinds, market: Market, library: Library, options: SolveOptions
) -> Infeasible:
    """Return the least latency of any kind, and a fleet where the limits allow a little more."""
    alone = latency_at_use(unlimited(job), served.speeds, library, np.full(len(served.speeds.which), 1e-6))
    fits = (served.speeds.flight >= 1) & (served.speeds.fit_probability >= job.memory_confidence)
    if not bool(np.any(fits)):
        return Infeasible()
    asked = {"ttft": job.latency.ttft_seconds, "tpot": job.latency.tpot_seconds}
    reached = {name: np.where(fits, one, np.inf) for name, one in zip(("ttft", "tpot"), alone, strict=True)}
    wanted = {name: limit for name, limit in asked.items() if limit is not None}
    # The kind that exceeds the limits by the least factor says how far they must go.
    excess = np.max([reached[name] / limit for name, limit in wanted.items()], axis=0)
    best = int(np.argmin(excess))
    nearest = tuple(
        NearMiss(
            job=job.name, what=f"{served.speeds.which[best].gpu}, {served.speeds.which[best].recipe.method_label}",
            reason=f"{milliseconds(rounded_up(float(reached[name][best])))} {name.upper()} at no load",
            shortfall=float(reached[name][best] - limit) * _MILLISECONDS, unit="ms",
        )
        for name, limit in wanted.items()
        if reached[name][best] >= limit
    )  # fmt: skip
    to = {name: max(limit, rounded_up(ROOM * float(reached[name][best]))) for name, limit in wanted.items()}
    latency = job.latency.model_copy(update={f"{name}_seconds": one for name, one in to.items()})
    other = job.model_copy(update={"latency": latency})
    found = served_kinds(other, library.architecture(job.architecture), market, scenario.limits, library)
    problem = fleet_problem(found, market, scenario)
    solved = optimise_fleet(problem, options)
    if solved.fleets is None:
        return Infeasible(nearest=nearest)
    usd = problem.cost(solved.fleets)
    then = f"${usd * MONTH_HOURS / problem.hours:,.0f} a month"
    relax = tuple(
        Relaxation(
            limit=f"jobs.{job.name}.latency.{name}",
            **{"from": milliseconds(limit), "to": milliseconds(to[name])},
            then=then, cost_usd=usd * cycle_of(job.for_hours, problem.hours), hours=job.for_hours,
            setting=f"jobs.{job.name}.latency.{name}={milliseconds(to[name])}",
        )
        for name, limit in wanted.items()
        if to[name] > limit
    )  # fmt: skip
    return Infeasible(relax=relax, nearest=nearest)


def unlimited(job: ServeJob) -> ServeJob:
    """Return the job without limits on latency."""
    free = job.latency.model_copy(update={"ttft_seconds": None, "tpot_seconds": None})
    return job.model_copy(update={"latency": free})


def _relaxed_limits(scenario: Scenario, job: ServeJob, problem: FleetProblem, options: SolveOptions) -> Infeasible:
    """Return single limits without which there is a fleet, with its dollars."""
    limits = scenario.limits
    ways = [
        (LIMIT_OF_GPUS, limits.max_gpus, replace(problem, max_gpus=None)),
        ("limits.max_usd_per_hour", limits.max_usd_per_hour, replace(problem, max_usd_per_hour=None)),
        ("limits.quota", limits.quota or None, replace(problem, quota={})),
        (f"jobs.{job.name}.latency.share", job.latency.share, replace(problem, served_share=0.0)),
        ("limits.spot_share.min", limits.spot_share.min or None, replace(problem, least_on_spot=0.0)),
    ]
    found: list[Relaxation] = []
    for name, value, other in ways:
        solved = optimise_fleet(replace(other, budget_usd=None), options) if value is not None else None
        if solved is None or solved.fleets is None:
            continue
        usd = other.cost(solved.fleets)
        to: float | str | None = None
        if name == LIMIT_OF_GPUS:
            to = float(np.max(solved.fleets @ problem.gpus))
        found.append(
            Relaxation(
                limit=name, **{"from": str(value) if isinstance(value, dict) else value, "to": to}, way=len(found) + 1,
                then=f"${usd * MONTH_HOURS / problem.hours:,.0f} a month",
                cost_usd=usd * cycle_of(job.for_hours, problem.hours), hours=job.for_hours,
                setting="" if to is None else f"{name}={to:g}",
            )
        )  # fmt: skip
    return Infeasible(relax=tuple(found))
