"""Each job of a simulation has a market of its own, drawn without regard to the others."""

from __future__ import annotations

import pytest

from planner.analysis.simulate_question import simulate
from tests.helpers.spot_scenarios import OPTIONS, SPOT, planned, scenario

JOB = SPOT[SPOT.index("  - name: bot") : SPOT.index("offers:")]
TWINS = SPOT.replace(JOB, JOB + JOB.replace("bot", "twin")).replace(", budget_usd: 1.2", "") + "solve: {ties: 0}\n"
"""One job twice, without ties: a near tie could give them different plans."""


@pytest.mark.long
def test_jobs_that_are_alike_meet_different_markets() -> None:
    """Means of two samples of one distribution differ, but by little; in one market both would be the same."""
    plan = planned(TWINS)
    assert plan.jobs[0].spot is not None and plan.jobs[0].spot == plan.jobs[1].spot
    found = simulate(scenario(TWINS), plan, runs=2000, options=OPTIONS, exact_speed=True)
    one, other = (job.cost_usd for job in found.jobs)
    assert one is not None and other is not None and found.cost_usd is not None
    assert one.p95 > one.p05
    assert one.mean != other.mean
    assert one.mean == pytest.approx(other.mean, rel=0.1)
    assert found.cost_usd.p95 != pytest.approx(2 * one.p95, rel=1e-6)
