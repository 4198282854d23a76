"""Probability of keeping a deadline and a budget, from the uncertainty of the hours."""

from __future__ import annotations

import math


def budget_probability(budget: float | None, cost: float, late: float, confidence: float) -> float | None:
    """Return the probability that the cost stays within the budget, if all jobs are late together; None without one.

    `late` is the cost at `confidence`.
    """
    return deadline_probability(budget, cost, late, confidence) if cost > 0 else None if budget is None else 1.0


def deadline_probability(deadline: float | None, hours: float, late: float, confidence: float) -> float | None:
    """Return the probability of ending in time; None without a deadline.

    `late` are the hours at `confidence`, which gives the spread. At most 0.975: the data say nothing beyond.
    """
    if deadline is None:
        return None
    if confidence == 0.5 or late <= hours:
        return 1.0 if hours <= deadline else 0.0
    # Student t with 2 degrees of freedom: t(p) = (2p - 1) / sqrt(2 p (1 - p)), and back.
    scale = math.log(late / hours) / ((2 * confidence - 1) / math.sqrt(2 * confidence * (1 - confidence)))
    t = math.log(deadline / hours) / scale
    return min(0.975, 0.5 * (1 + t / math.sqrt(2 + t * t)))
