"""A budget of several jobs on spot holds for their dollars together."""

from __future__ import annotations

import numpy as np
import pytest

import planner
from tests.independent.spot_odds import OPTIONS, draw_market, scenario_of


@pytest.mark.long
def test_a_budget_that_the_jobs_need_together_has_a_plan() -> None:
    """Three jobs, each on a market of its own: the sum of what each needs at 90 % is more than they need together."""
    rng = np.random.default_rng(11)
    markets = [draw_market(rng) for _ in range(3)]
    tokens = [float(rng.uniform(30e6, 80e6)) for _ in markets]
    jobs = [(one, one / 2280 / 3600 * 1.7 + 0.5) for one in tokens]
    offers = "".join(one.offer(name, demand=True, stock=1) for one, name in zip(markets, "abc", strict=True))
    free = planner.solve(scenario_of(offers, jobs), options=OPTIONS)
    together, added = free.cost_at_confidence, sum(job.cost_at_confidence for job in free.jobs)
    assert together is not None and sum(bool(job.usd_of_runs) for job in free.jobs) >= 2
    assert together < 0.98 * added
    found = planner.solve(scenario_of(offers, jobs, f"{{budget_usd: {1.01 * together:.4f}}}"), options=OPTIONS)
    assert found.status == "optimal" and found.cost_usd is not None and free.cost_usd is not None
    assert found.cost_usd.expected == pytest.approx(free.cost_usd.expected, rel=0.01)
    assert found.budget_usd == pytest.approx(1.01 * together, abs=1e-4)
    assert found.budget_probability is not None and found.budget_probability >= 0.9
    short = planner.solve(scenario_of(offers, jobs, f"{{budget_usd: {0.93 * together:.4f}}}"), options=OPTIONS)
    assert short.infeasible is not None
    (change,) = (one for one in short.infeasible.relax if one.limit == "limits.budget_usd")
    assert isinstance(change.change_to, float) and change.change_to < added
    told = scenario_of(offers, jobs, f"{{budget_usd: {change.change_to:.2f}}}")
    assert planner.solve(told, options=OPTIONS).jobs
