"""Probability of keeping a budget, from the uncertainty of the hours and the luck of markets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.evaluation.evaluated_hours import probability_within
from planner.results.odds import joint_probability
from planner.scenario.job import MAX_CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario

LEAST_SHORT = 0.005
"""Probability that a statement may lack without a warning: half a percentage point."""


def budget_probability(scenario: Scenario, jobs: Sequence[Assignment], fixed_usd: float = 0.0) -> float | None:
    """Return the probability that the cost stays within the budget, if all jobs are late together; None without one.

    Each spot market has a luck of its own. `fixed_usd` is paid beside the jobs.
    """
    budget, cost_usd = scenario.limits.budget_usd, fixed_usd + math.fsum(job.cost_usd for job in jobs)
    if budget is not None and cost_usd <= 0:
        return 1.0
    if budget is not None and any(job.usd_of_runs for job in jobs):
        chance = joint_probability(jobs, scenario.limits.budget_confidence, budget, fixed_usd)
        return min(MAX_CONFIDENCE, chance)
    late_usd = fixed_usd + math.fsum(job.cost_at_confidence for job in jobs)
    return probability_within(budget, cost_usd, late_usd, scenario.limits.budget_confidence)


def budget_warnings(scenario: Scenario, probability: float | None) -> tuple[str, ...]:
    """Return that jobs together keep the budget with less probability than asked for; nothing where they do not.

    The program adds up what each job needs by itself, which on several spot markets may be too little for all of them.
    """
    asked = scenario.limits.budget_confidence
    if probability is None or probability > asked - LEAST_SHORT:
        return ()
    told = f"{probability * 100:.2g} % probability, and not {asked * 100:.3g} %"
    return (f"the jobs together keep the budget with {told}: only each by itself keeps its part of it at that",)
