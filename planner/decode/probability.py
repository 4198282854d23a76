"""Probability of keeping a deadline and a budget, from the uncertainty of the hours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.results.odds import joint_probability, probability_of
from planner.scenario.job import MAX_CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.results.plan_parts import Hours
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
    return deadline_probability(budget, cost_usd, late_usd, scenario.limits.budget_confidence)


def budget_warnings(scenario: Scenario, probability: float | None) -> tuple[str, ...]:
    """Return that jobs together keep the budget with less probability than asked for; nothing where they do not.

    The program adds up what each job needs by itself, which on several spot markets may be too little for all of them.
    """
    asked = scenario.limits.budget_confidence
    if probability is None or probability > asked - LEAST_SHORT:
        return ()
    told = f"{probability * 100:.2g} % probability, and not {asked * 100:.3g} %"
    return (f"the jobs together keep the budget with {told}: only each by itself keeps its part of it at that",)


def finish_probability(
    deadline: float | None, hours: Hours, cases: tuple[tuple[float, ...], ...], confidence: float
) -> float | None:
    """Return the probability of ending in time, of drawn runs where the hours depend on the luck of a market."""
    if deadline is None or not cases:
        return deadline_probability(deadline, hours.expected, hours.at_confidence, confidence)
    # The confidence is met by the hours at it, which were found among more runs than the cases tell.
    least = confidence if hours.at_confidence <= deadline else 0.0
    chance = probability_of(sorted(one for row in cases for one in row), deadline)
    return min(MAX_CONFIDENCE, max(chance, least))


def deadline_probability(deadline: float | None, hours: float, late: float, confidence: float) -> float | None:
    """Return the probability of ending in time; None without a deadline.

    `late` are the hours at `confidence`, which gives the spread. At most `MAX_CONFIDENCE`: the data say nothing beyond.
    """
    if deadline is None:
        return None
    if confidence == 0.5 or late <= hours:
        return 1.0 if hours <= deadline else 0.0
    # Student t with 2 degrees of freedom: t(p) = (2p - 1) / sqrt(2 p (1 - p)), and back.
    scale = math.log(late / hours) / ((2 * confidence - 1) / math.sqrt(2 * confidence * (1 - confidence)))
    t = math.log(deadline / hours) / scale
    return min(MAX_CONFIDENCE, 0.5 * (1 + t / math.sqrt(2 + t * t)))
