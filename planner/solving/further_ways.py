"""What to do if the machines of a plan cannot be had: as many further ways as a scenario asks for, each solved.

A way is the plan of the same scenario without the offers of the provider and card that the job rents in the plan, and
in the ways before it. So it keeps every limit, and of several jobs the others may move with it. How likely an offer is
to be out of stock is not known, and not assumed: where trying is free, offers are tried in the order of their cost
whatever those probabilities are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from planner.candidates.market import MANAGED
from planner.decode.plan_inputs import build_inputs
from planner.errors import ScenarioError
from planner.records import record
from planner.results.plan import Plan
from planner.results.plan_parts import FurtherWay, Infeasible, Relaxation, describe_machines
from planner.solvers.mathopt import solver_versions
from planner.solving.prepare import PreparedScenario, prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario

SOLVED = ("optimal", "feasible")
PATH = "limits.fallbacks"
Place = tuple[str, str]
"""Provider and card."""


class Solve(Protocol):
    """What solves a prepared scenario that asks for no further ways."""

    def __call__(self, prepared: PreparedScenario, /) -> Plan:
        """Return the plan."""
        ...


@record(frozen=True)
class WaysOfJob:
    """The ways that were found for a job, and the scenario that has no further one; None where there are enough."""

    ways: tuple[FurtherWay, ...]
    barren: Scenario | None = None


def without_demand(prepared: PreparedScenario) -> PreparedScenario:
    """Return the same without the demand for further ways, which no candidate depends on."""
    limits = prepared.scenario.limits.model_copy(update={"fallbacks": 0})
    return replace(prepared, scenario=prepared.scenario.model_copy(update={"limits": limits}))


def with_further_ways(prepared: PreparedScenario, plan: Plan, solve: Solve, explains: bool) -> Plan:
    """Return the plan with the further ways that the scenario asks for, or why it has too few.

    `plan` is that of the scenario without the demand.
    """
    scenario, free = prepared.scenario, without_demand(prepared)
    wanted = scenario.limits.fallbacks
    found = [_ways_of_job(free, plan, job, wanted, solve) for job in plan.jobs]
    if all(one.barren is None for one in found):
        jobs = tuple(job.model_copy(update={"fallbacks": one.ways}) for job, one in zip(plan.jobs, found, strict=True))
        return plan.model_copy(update={"jobs": jobs, "inputs": build_inputs(scenario, jobs, solver_versions())})
    facts = {
        name: getattr(plan, name) for name in ("scenario", "solver", "seconds", "as_of", "candidates", "now", "cut")
    }
    nothing = dict.fromkeys(("objective", "bound", "gap", "cost_usd", "hours"))
    why = _explain(prepared, plan, found, solve) if explains else None
    return Plan(**facts, **nothing, status="infeasible", infeasible=why)


def _ways_of_job(free: PreparedScenario, plan: Plan, job: Assignment, wanted: int, solve: Solve) -> WaysOfJob:
    """Return as many further ways as wanted, or all there are."""
    barred: list[Place] = [(job.provider, job.gpu)]
    ways: list[FurtherWay] = []
    while len(ways) < wanted:
        reduced = without_places(free.scenario, barred)
        other = _solve_reduced(free, reduced, solve)
        if other is None:
            return WaysOfJob(tuple(ways), reduced)
        mine = other.assignment(job.name)
        ways.append(_further_way(plan, other, mine))
        barred.append((mine.provider, mine.gpu))
    return WaysOfJob(tuple(ways))


def _solve_reduced(free: PreparedScenario, reduced: Scenario, solve: Solve) -> Plan | None:
    """Return the plan of a scenario with fewer offers, without alternatives; None where it has none."""
    if not any(offer.rents_gpus or offer.is_managed for offer in reduced.offers):
        return None
    try:
        # Slim is what has no alternatives to show.
        plan = solve(replace(prepare(reduced, free.library, free), is_slim=True))
    except ScenarioError:  # what is left cannot hold or prepare the data
        return None
    return plan if plan.status in SOLVED else None


def without_places(scenario: Scenario, barred: Sequence[Place]) -> Scenario:
    """Return the scenario without the offers of some providers and cards."""
    kept = {
        name: tuple(
            offer
            for offer in getattr(scenario, name)
            if (offer.provider, MANAGED if offer.is_managed else offer.card) not in barred
        )
        for name in ("offers", "offers_inline")
    }
    return scenario.model_copy(update=kept)


def _further_way(plan: Plan, other: Plan, mine: Assignment) -> FurtherWay:
    """Return a plan without some offers as what one job does then."""
    paid = plan.cost_usd.expected if plan.cost_usd else 0.0
    return FurtherWay(
        provider=mine.provider,
        gpu=mine.gpu,
        gpus=mine.gpus,
        runs_at_once=mine.runs_at_once,
        cost_usd=mine.cost_usd,
        hours=mine.delay_hours + mine.hours.expected,
        more_usd=(other.cost_usd.expected if other.cost_usd else 0.0) - paid,
        jobs=tuple(job.model_dump(mode="json", by_alias=True) for job in other.jobs),
        reservations=other.reservations,
    )


def _explain(prepared: PreparedScenario, plan: Plan, found: Sequence[WaysOfJob], solve: Solve) -> Infeasible:
    """Return ways out: fewer further ways, and the limits without which there is one more, each verified by solving."""
    scenario, most = prepared.scenario, min(len(one.ways) for one in found)
    relax = [_relaxation(plan, PATH, scenario.limits.fallbacks, most, f"{PATH}={most}", 1)]
    barren = next(one.barren for one in found if one.barren is not None and len(one.ways) == most)
    if not any(offer.rents_gpus for offer in barren.offers):
        return Infeasible(relax=tuple(relax))
    from planner.solving.infeasibility.diagnosis import diagnose  # loads many modules that a plan does not need

    free = without_demand(prepared)
    why = diagnose(prepare(barren, free.library, free, may_be_slim=False))
    for way in dict.fromkeys(one.way for one in why.relax):
        changes = [one for one in why.relax if one.way == way]
        if (then := _verified(prepared, [one.setting for one in changes], solve)) is not None:
            number = relax[-1].way + 1
            relax += [
                _relaxation(then, one.limit, one.change_from, one.change_to, one.setting, number) for one in changes
            ]
    return Infeasible(relax=tuple(relax), nearest=why.nearest)


def _verified(prepared: PreparedScenario, settings: Sequence[str], solve: Solve) -> Plan | None:
    """Return the plan of the scenario with settings if it has all further ways; else None."""
    from planner.solving.resolve import with_settings

    try:
        changed = with_settings(prepared, settings)
        plan = solve(replace(without_demand(changed), is_slim=True))
    except ScenarioError:
        return None
    if plan.status not in SOLVED:
        return None
    plan = with_further_ways(changed, plan, solve, explains=False)
    return plan if plan.status in SOLVED else None


def _relaxation(
    then: Plan, limit: str, before: float | str | None, after: float | str | None, setting: str, way: int
) -> Relaxation:
    """Return one changed limit with the plan that it leads to."""
    words = [f"{describe_machines(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}" for job in then.jobs]
    named = words if len(words) == 1 else [f"{job.name}: {one}" for job, one in zip(then.jobs, words, strict=True)]
    return Relaxation(
        **{"from": before, "to": after},
        limit=limit,
        then="; ".join(named),
        way=way,
        setting=setting,
        cost_usd=then.cost_usd.expected if then.cost_usd else None,
        hours=then.hours.expected if then.hours else None,
    )
