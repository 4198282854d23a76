"""The chance to end in time, from two points of its distribution."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from planner.evaluation.evaluated_hours import probability_within
from planner.solving.notes import budget_probability


def test_the_chance_at_the_late_hours_is_the_confidence() -> None:
    """12 h at 90 %: a deadline of 12 h holds with 90 %, of the 10 h expected with 50 %."""
    assert probability_within(12.0, 10.0, 12.0, 0.9) == pytest.approx(0.9)
    assert probability_within(10.0, 10.0, 12.0, 0.9) == pytest.approx(0.5)


def test_the_tail_is_that_of_students_t() -> None:
    """1.5 times as far as the 90 % quantile 1.8856 lies t = 2.8284, where the chance is 0.5 (1 + t / sqrt(2 + t^2))."""
    deadline = 10.0 * (12.0 / 10.0) ** 1.5
    t = 1.5 * 0.8 / math.sqrt(0.18)
    assert t == pytest.approx(2.8284, abs=1e-4)
    assert probability_within(deadline, 10.0, 12.0, 0.9) == pytest.approx(0.5 * (1 + t / math.sqrt(2 + t * t)))
    assert probability_within(deadline, 10.0, 12.0, 0.9) == pytest.approx(0.9472, abs=1e-4)


def test_chances_end_where_the_data_end() -> None:
    """However late the deadline, no more than 97.5 %; and a deadline before the expected hours is missed more often."""
    assert probability_within(1000.0, 10.0, 12.0, 0.9) == 0.975
    assert (probability_within(9.0, 10.0, 12.0, 0.9) or 0) < 0.5
    assert probability_within(None, 10.0, 12.0, 0.9) is None


def test_without_a_spread_a_deadline_is_kept_or_not() -> None:
    """Where late hours are no later there is nothing to be unsure of."""
    assert probability_within(10.0, 10.0, 10.0, 0.9) == 1.0
    assert probability_within(9.9, 10.0, 10.0, 0.9) == 0.0


@pytest.mark.parametrize(
    ("budget", "usd", "late_usd", "chance"), [(5.0, 0.0, 0.0, 1.0), (12.0, 10.0, 12.0, 0.9), (None, 10.0, 12.0, None)]
)
def test_a_budget_is_kept_as_a_deadline_is(
    budget: float | None, usd: float, late_usd: float, chance: float | None
) -> None:
    """The confidence is that of the budget, not of a job, and what costs nothing keeps every budget."""
    parts = (0.25, 0.75)
    jobs: Any = [SimpleNamespace(cost_usd=p * usd, cost_at_confidence=p * late_usd, usd_of_runs=()) for p in parts]
    others = [SimpleNamespace(confidence=one) for one in (0.6, 0.95)]
    scenario: Any = SimpleNamespace(limits=SimpleNamespace(budget_usd=budget, budget_confidence=0.9), jobs=others)
    assert budget_probability(scenario, jobs) == (None if chance is None else pytest.approx(chance))
