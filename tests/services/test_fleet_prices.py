"""Prices of hours: what looks alike shares one, and their bound holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.services.fleet_problem import FleetProblem
from planner.services.fleet_program import fleets_at_prices, hour_classes, hour_prices, neighbours
from tests.helpers.fleet_problems import brute_force, small_fleets


def test_equal_days_are_one_class_by_hour_and_their_pairs_count_for_each() -> None:
    """Two equal days of 24 different loads: 24 classes, each pair of them twice; a flat load has one."""
    day = np.arange(24.0)
    classes = hour_classes(np.concatenate([day, day]))
    assert classes.number == 24 and classes.times.tolist() == [2.0] * 24
    assert hour_classes(np.ones(24)).times.tolist() == [24.0]


def test_neighbours_differ_by_one_machine_or_one_exchange() -> None:
    """From two machines of two kinds: one less, one more, or one of another; none of what may not change."""
    found = {tuple(one) for one in neighbours(np.array([[1.0, 1.0, 0.0]]), np.array([True, False, True])).tolist()}
    assert found == {(0, 1, 0), (0, 1, 1), (1, 1, 0), (2, 1, 0), (1, 1, 1)}


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(small_fleets(), st.integers(0, 2**32 - 1))
def test_the_bound_holds_at_any_multipliers(problem: FleetProblem, seed: int) -> None:
    """Each hour's least dollars at prices of any multipliers add up to no more than the least fleet costs."""
    problem = problem.with_costly_starts()
    classes = hour_classes(problem.load)
    share = np.random.default_rng(seed).uniform(size=(classes.number, problem.kinds))
    prices = hour_prices(problem, classes, share * problem.start_usd)
    _, bounds = fleets_at_prices(problem, prices, classes.first, "highs", [])
    least = brute_force(problem)
    assert np.isnan(bounds).any() == (not np.isfinite(least))
    assert not np.isfinite(least) or classes.times @ bounds <= least + 1e-6
