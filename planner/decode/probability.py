"""Probability of keeping a budget, from the uncertainty of the hours and the luck of markets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.evaluation.evaluated_hours import probability_within
from planner.results.odds import joint_usd, probability_of
from planner.scenario.job import MAX_CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario


def budget_probability(scenario: Scenario, jobs: Sequence[Assignment], fixed_usd: float = 0.0) -> float | None:
    """Return the probability that the cost stays within the budget, if all jobs are late together; None without one.

    Each job on spot has the luck of its own market. `fixed_usd` is paid beside the jobs.
    """
    budget, cost_usd = scenario.limits.budget_usd, fixed_usd + math.fsum(job.cost_usd for job in jobs)
    if budget is not None and cost_usd <= 0:
        return 1.0
    if budget is not None and any(job.usd_of_runs for job in jobs):
        cases = joint_usd(jobs, scenario.limits.budget_confidence, fixed_usd)
        return min(MAX_CONFIDENCE, probability_of(cases, budget))
    late_usd = fixed_usd + math.fsum(job.cost_at_confidence for job in jobs)
    return probability_within(budget, cost_usd, late_usd, scenario.limits.budget_confidence)
