"""A service and other jobs in one scenario: planned one by one, on one budget, and added up.

They share nothing but the budget. So the least dollars of both are the sum of each one's, and what the service does
not take of the budget is left to the jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from planner.decode.plan_inputs import build_joint_inputs
from planner.errors import Fault, ScenarioError, raise_faults
from planner.results.fleet_differences import services_bound_usd
from planner.results.plan_parts import CandidateCounts, Hours, Infeasible, Relaxation, Spread
from planner.scenario.jobs_and_services import ends_before, services_alone, without_services
from planner.scenario.service_load import ServeJob
from planner.solvers.mathopt import solver_versions
from planner.solving.fleet.solve_fleet import solve_services
from planner.solving.prepare import check_is_definite, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.library.schema import Library
    from planner.results.plan import Assignment, Plan
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solving.prepare import PreparedScenario

    SolvePrepared = Callable[[PreparedScenario, SolveOptions | None, float | None], Plan]

_SOLVED = ("optimal", "feasible")


def solve_together(
    scenario: Scenario,
    library: Library,
    options: SolveOptions,
    started: float,
    solve_prepared: SolvePrepared,
    explains: bool = True,
) -> Plan:
    """Return the plan of a scenario with a service, not yet audited; its seconds count from `started`.

    Without `explains` nothing says why there is no fleet, or what a looser limit saves.

    Raises ScenarioError for what no service can have, and where jobs and service would share more than the budget.
    """
    _check(scenario)
    if all(isinstance(job, ServeJob) for job in scenario.jobs):
        return solve_services(scenario, library, options, started, explains)
    check_is_definite(scenario)
    served = solve_services(services_alone(scenario), library, options, started, explains)
    if served.status not in _SOLVED:
        if served.infeasible is None or {one.limit for one in served.infeasible.relax} != {"limits.budget_usd"}:
            return served
        # Solved as the budget for both lets it be solved: a tight budget makes the search go on for longer.
        without = services_alone(_without_budget(scenario))
        usd = math.fsum(one.cost_usd for one in solve_services(without, library, options, started, False).services)
        return _with_budget(scenario, served, usd, options, started, solve_prepared)
    usd = math.fsum(one.cost_usd for one in served.services)
    plan = solve_prepared(prepare(without_services(scenario, usd)), options, started)
    if plan.status not in _SOLVED:
        return _with_budget(scenario, plan, usd, options, started, solve_prepared)
    return joined(scenario, plan, served)


def joined(scenario: Scenario, plan: Plan, served: Plan) -> Plan:
    """Return the plan of jobs with the services of another one: dollars and bounds added up, hours until both end."""
    services = tuple(
        one.model_copy(update={"starts_at_hours": _start(scenario, one.name, plan.jobs)}) for one in served.services
    )
    usd = math.fsum(one.cost_usd for one in services)
    assert plan.objective is not None and plan.cost_usd is not None and plan.hours is not None
    objective = plan.objective + usd
    bound = None if plan.bound is None else plan.bound + services_bound_usd(served)
    ends = max(one.starts_at_hours + one.for_hours for one in services)
    late = plan.cost_at_confidence
    ages = [age for age in (plan.price_age_days, served.price_age_days) if age is not None]
    update: dict[str, Any] = {
        "status": "optimal" if plan.status == served.status == "optimal" else "feasible",
        "objective": objective,
        "bound": bound,
        "gap": None if bound is None else max(0.0, objective - bound) / max(abs(objective), 1e-9),
        "cost_usd": Spread(**{name: each + usd for name, each in dict(plan.cost_usd).items()}),
        "cost_at_confidence": None if late is None else late + usd,
        "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd + usd,
        "budget_usd": scenario.limits.budget_usd,
        "hours": Hours(**{name: max(each, ends) for name, each in dict(plan.hours).items()}),
        "price_age_days": max(ages, default=None),
        "candidates": _counts(plan.candidates, served.candidates),
        "services": services,
        "shared_bound_usd": served.shared_bound_usd,
        "warnings": tuple(dict.fromkeys((*plan.warnings, *served.warnings))),
        "inputs": build_joint_inputs(scenario, plan.jobs, services, solver_versions()),
    }
    return plan.model_copy(update=update)


def _start(scenario: Scenario, name: str, jobs: tuple[Assignment, ...]) -> float:
    """Return the hours until the jobs that a service waits for have ended, at their confidence, and their lags."""
    after = next(job.after for job in scenario.jobs if job.name == name)
    ends = {one.name: one.delay_hours + one.hours.at_confidence for one in jobs}
    return max((ends[one.job] + one.lag_hours for one in after), default=0.0)


def _check(scenario: Scenario) -> None:
    """Raise ScenarioError where jobs and service stand at the same time under limits that they would share."""
    faults: list[Fault] = []
    services = {job.name for job in scenario.jobs if isinstance(job, ServeJob)}
    others = {job.name for job in scenario.jobs} - services
    for job in scenario.jobs:
        waits = {one.job for one in job.after}
        if waits & services:
            what = "waits for a service, which does not end"
            fix = (
                "let the service wait for the job" if job.name in others else "let both wait for the same jobs, or none"
            )
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}.after", what, fix))
        if job.name in others or others <= ends_before(scenario, job.name):
            continue
        limits = scenario.limits
        shared = [name for name in ("max_gpus", "max_usd_per_hour", "quota") if getattr(limits, name)]
        shared += ["stock of offers"] if any(offer.stock is not None for offer in scenario.offers) else []
        if shared:
            what = f"stands next to other jobs, with which it would share {', '.join(shared)}"
            fix = f"let it start after them (after: [{', '.join(sorted(others))}]), or plan it in a scenario of its own"
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}", what, fix))
    raise_faults(faults, ScenarioError)


def _with_budget(
    scenario: Scenario, plan: Plan, usd: float, options: SolveOptions, started: float, solve_prepared: SolvePrepared
) -> Plan:
    """Return the plan of what has none on one budget; if the budget is why, with the one that suffices for all.

    `usd` is what the services cost.
    """
    budget = scenario.limits.budget_usd
    if budget is None:
        return plan
    other = solve_prepared(prepare(without_services(_without_budget(scenario), 0.0)), options, started)
    if other.status not in _SOLVED or other.cost_at_confidence is None:
        return other
    needed = usd + other.cost_at_confidence
    more = math.ceil(needed)
    change = Relaxation(
        limit="limits.budget_usd", **{"from": budget, "to": float(more)},
        then=f"${needed:,.2f} for the jobs and the service", cost_usd=needed,
        hours=other.hours.expected if other.hours else 0.0, setting=f"limits.budget_usd={more}",
    )  # fmt: skip
    return plan.model_copy(update={"infeasible": Infeasible(relax=(change,)), "budget_usd": budget})


def _without_budget(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"budget_usd": None})})


def _counts(first: CandidateCounts, second: CandidateCounts) -> CandidateCounts:
    """Return the candidates of jobs and service together; the offers are the same."""
    reasons = Counter(first.reasons)
    reasons.update(second.reasons)
    return CandidateCounts(
        made=first.made + second.made,
        rejected=first.rejected + second.rejected,
        dominated=first.dominated + second.dominated,
        offers=first.offers,
        outdated_offers=first.outdated_offers,
        reasons=dict(reasons.most_common()),
    )
