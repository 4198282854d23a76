"""A budget of the only job: what is left out of the search because a row keeps it is in no best plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from planner.candidates import screening
from planner.candidates.spot_candidates import SearchTarget
from planner.loading.scenario_file import read_scenario
from planner.results.plan import Plan
from planner.solving.solve import solve

SHARES = (0.5, 0.9, 0.98, 1.0, 1.02, 1.5)
"""Budgets over what the plan without one costs at the confidence of the budget."""
QUESTIONS = {
    "quickstart": ("limits.providers.allow=[aws, runpod-community]", "limits.gpus.allow=[A10G, A5000, RTX4090]"),
    "spot-heavy": (),
    "spot-waiting": (),
}


@cache
def plan_of(name: str, *settings: str) -> Plan:
    """The best plan to the last cent; without one nothing says why."""
    return solve(read_scenario(name, (*QUESTIONS[name], "solve.ties=0", *settings)), explains=False)


@pytest.fixture
def every_row(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The search as it is where several jobs share a budget: no row rules out what costs more than itself."""
    before = screening._search_target

    def without(*args: object) -> SearchTarget:
        return replace(before(*args), only_budget_usd=float("-inf"))  # type: ignore[arg-type]

    plan_of.cache_clear()
    monkeypatch.setattr(screening, "_search_target", without)
    yield
    plan_of.cache_clear()


def budgets(name: str) -> list[str]:
    """Settings of budgets around what the plan without one needs."""
    free = plan_of(name, "limits.budget_usd=1e6").cost_at_confidence
    assert free is not None
    return [f"limits.budget_usd={share * free:.4f}" for share in SHARES]


@pytest.mark.long
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_best_plan_is_that_of_a_search_which_leaves_no_such_row_out(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Budgets below, at and above what the plan without one needs."""
    asked = budgets(name)
    found = [plan_of(name, budget).objective for budget in asked]
    assert len(set(found)) > 1  # some budget binds, and another does not
    request.getfixturevalue("every_row")
    whole = [plan_of(name, budget).objective for budget in asked]
    assert found == [None if usd is None else pytest.approx(usd, rel=1e-9) for usd in whole]
