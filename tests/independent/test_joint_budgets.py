"""What a plan of several jobs states of its budget is what happens on markets that were drawn for this alone."""

from __future__ import annotations

import pytest

from tests.independent.joint_budgets import statements, summary

TEST_SEED, WITHIN = 5203, 3.0
"""Points of probability that are asked for: a simulated and a stated share together err by 0.95 (standard error)."""

WIDEST = ("one market, three jobs", "two markets, three jobs", "spot and on demand")
"""Of the kinds these hold the others: two jobs on one market, and two on two, are among three."""


@pytest.mark.long
def test_several_jobs_keep_the_smallest_budget_as_often_as_is_asked() -> None:
    found = list(statements(TEST_SEED, each=1, kinds=WIDEST))
    assert {one.market.partition(", $")[0] for one in found} == set(WIDEST)
    assert all(abs(one.over) <= WITHIN for one in found), summary(found)
