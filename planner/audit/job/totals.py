"""Audit of what the jobs share, and of the verdict: totals, budget, quota, stock, objective, bound, gap."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from planner.audit.job.context import Tolerance, Violation, check_at_most, check_close, check_equal
from planner.audit.job.hours import probability_within
from planner.library.techniques import read_techniques
from planner.scenario.scenario import Scenario, offer_labels

if TYPE_CHECKING:
    from planner.results.plan import Assignment, Plan

TIE_SLACK = {"cost": 0.005, "time": 0.001}
"""How far above the optimum (dollars, hours) a plan may lie that is better in what counts second."""


def check_status(plan: Plan, gap: float) -> list[Violation]:
    """An optimal plan has a bound and a gap no larger than asked; the bound is not above the objective."""
    found: list[Violation] = []
    if plan.status in ("infeasible", "no_plan"):
        if plan.jobs:
            found.append(Violation("", f"jobs of a plan that is {plan.status}", 0, len(plan.jobs)))
        for what in ("objective", "cost_usd", "cost_at_confidence", "hours"):
            if getattr(plan, what) is not None:
                found.append(Violation("", f"{what} of a plan that is {plan.status}", None, "a figure"))
        if plan.status == "no_plan" and plan.infeasible is not None:
            found.append(Violation("", "infeasible", None, "an explanation without a proof"))
        return found
    if plan.infeasible is not None:
        found.append(Violation("", "infeasible", None, f"an explanation beside a plan that is {plan.status}"))
    if plan.objective is None:
        return [*found, Violation("", "objective", "a figure", None)]
    if plan.bound is None or plan.gap is None:
        if plan.status == "optimal" or (plan.bound is None) != (plan.gap is None):
            found.append(Violation("", "bound and gap", "figures", None))
        return found
    room = 1e-9 * max(1.0, abs(plan.objective))
    found += check_at_most("", "bound", plan.objective, plan.bound, room)
    distance = max(0.0, plan.objective - plan.bound)
    expected = distance / max(abs(plan.objective), 1e-9) if distance else 0.0
    found += check_close("", "gap", expected, plan.gap, 1e-6, 1e-9)
    # Below a millionth of a dollar (or hour) a gap is rounding, whatever it is relative to.
    if plan.status == "optimal" and distance > 1e-6:
        found += check_at_most("", "gap of an optimal plan", gap, plan.gap, 1e-12)
    return found


def check_jobs(plan: Plan, scenario: Scenario) -> list[Violation]:
    """Every job of the scenario is run exactly once, in the order of the scenario, and no other."""
    wanted, placed = Counter(job.name for job in scenario.jobs), Counter(job.name for job in plan.jobs)
    return [
        Violation(name, "times placed", wanted[name], placed[name])
        for name in dict.fromkeys([*wanted, *placed])
        if wanted[name] != placed[name]
    ]


def check_shared_limits(plan: Plan, scenario: Scenario) -> list[Violation]:
    """GPUs in all, GPUs per provider, instances per offer: all jobs side by side, and all trials at once of each."""
    limits = scenario.limits
    by_provider: Counter[str] = Counter()
    by_offer: Counter[str] = Counter()
    for job in plan.jobs:
        by_provider[job.provider] += job.gpus * job.runs_at_once
        # A service has no machines to tell; what it has in stock is places for one run.
        by_offer[job.offer] += max(1, job.instances) * job.runs_at_once
    found = check_at_most("", "limits.max_gpus", limits.max_gpus, sum(by_provider.values()))
    for provider, used in by_provider.items():
        found += check_at_most("", f"limits.quota.{provider}", limits.quota.get(provider), used)
    if all(offer.stock is None for offer in scenario.offers):
        return found
    stock = dict(zip(offer_labels(scenario.offers), (offer.stock for offer in scenario.offers), strict=True))
    for offer, used in by_offer.items():
        found += check_at_most("", f"stock of {offer}", stock.get(offer), used)
    return found


def check_totals(plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Dollars add up over jobs, which run side by side: the plan's hours are those of the last to end."""
    if plan.cost_usd is None or plan.hours is None or not plan.jobs:
        return [Violation("", "cost_usd and hours", "figures", None)]
    costs = {
        "cost_usd.expected": (lambda job: job.cost.expected, plan.cost_usd.expected),
        "cost_usd.low": (lambda job: job.cost.low, plan.cost_usd.low),
        "cost_usd.high": (lambda job: job.cost.high, plan.cost_usd.high),
        "cost_at_confidence": (lambda job: job.cost_at_confidence, plan.cost_at_confidence),
    }
    found: list[Violation] = []
    for what, (figure, told) in costs.items():
        found += check_close("", what, math.fsum(map(figure, plan.jobs)), told, absolute=tolerance.usd)
    for what in ("expected", "low", "high", "at_confidence"):
        last = max(getattr(job.hours, what) for job in plan.jobs)
        found += check_close("", f"hours.{what}", last, getattr(plan.hours, what), tolerance.hours)
    return found


def check_budget(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """At the asked confidence, all jobs late together, the dollars stay within the budget; its chance is told."""
    late = math.fsum(job.cost_at_confidence for job in plan.jobs)
    expected = math.fsum(job.cost_usd for job in plan.jobs)
    budget, told = scenario.limits.budget_usd, plan.budget_probability
    found = check_at_most("", "limits.budget_usd", budget, late, tolerance.usd)
    found += check_equal("", "budget_usd", budget, plan.budget_usd)
    if budget is None:
        return found + check_equal("", "budget_probability", None, told)
    confidence = min(job.confidence for job in scenario.jobs)
    if confidence > 0.5:
        chance = probability_within(budget, expected, late, confidence)
        return found + check_close("", "budget_probability", chance, told, 1e-5)
    sure = told is not None and 0 <= told <= 1  # the dollars at this confidence say nothing about how wide they spread
    return found if sure else [*found, Violation("", "budget_probability", "a probability", told)]


def check_objective(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """The objective is that of the jobs, up to what a later pass may give up to break ties."""
    if plan.objective is None or not plan.jobs:
        return []
    if scenario.objective_kind == "time":
        value = max(job.hours.at_confidence for job in plan.jobs)
    else:
        hours = math.fsum(job.hours.expected for job in plan.jobs)
        value = math.fsum(job.cost_usd for job in plan.jobs) + math.fsum(_penalty(job, scenario) for job in plan.jobs)
        value += scenario.value_of_time_usd_per_hour * hours
    slack = TIE_SLACK[scenario.objective_kind] + tolerance.hours * max(1.0, abs(value))
    return check_close("", "objective", value, plan.objective, absolute=slack)


def _penalty(assignment: Assignment, scenario: Scenario) -> float:
    """What avoiding the techniques in use would have been worth."""
    said = assignment.techniques
    in_use = read_techniques().in_use(vars(said), said.accumulation_steps > 1)
    job = next((job for job in scenario.jobs if job.name == assignment.name), None)
    penalties = job.techniques.penalty_usd if job else {}
    return math.fsum(usd for name, usd in penalties.items() if name in in_use)
