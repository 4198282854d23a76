"""Dollars of several jobs together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.evaluation.evaluated_hours import budget_odds
from planner.results.plan_parts import joint_late_usd
from planner.units import LUCKS, SPEEDS


def lucky_jobs(count: int) -> list[Any]:
    """Jobs on a spot market each, with dollars of their own in each case."""
    draws = np.random.default_rng(3).lognormal(0.0, 0.6, (count, SPEEDS, LUCKS))
    return [
        SimpleNamespace(
            **{"provider": f"p{number * 7 % count}", "region": "r", "gpu": "g", "cost_usd": float(usd.mean())},
            cost_at_confidence=float(np.quantile(usd, 0.9)),
            usd_of_runs=tuple(tuple(sorted(row)) for row in usd.tolist()),
        )
        for number, usd in enumerate(draws)
    ]


def test_the_order_of_jobs_decides_nothing() -> None:
    """Of many markets, whose sums are kept as means of groups; the audit's own way of it has the same dollars."""
    jobs = lucky_jobs(23)
    late = joint_late_usd(jobs, 0.9)
    assert joint_late_usd(jobs[::-1], 0.9) == pytest.approx(late, rel=1e-12)
    assert budget_odds(jobs, 0.9, 0.0, None)[0] == pytest.approx(late, rel=1e-9)
