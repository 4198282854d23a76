"""Kinds that others replace: which leave, and that no least fleet costs more without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from planner.services.fleet_problem import FleetProblem, undominated_kinds
from tests.helpers.fleet_problems import brute_force, fleet, small_fleets


def test_a_kind_is_replaced_by_copies_of_another() -> None:
    """Two machines of 1 for $2 replace one of 2 for $2.1, not one for $1.9."""
    dear = fleet([4.0], [1.0, 2.0], [1.0, 2.1], [0.0, 0.0])
    cheap = fleet([4.0], [1.0, 2.0], [1.0, 1.9], [0.0, 0.0])
    assert undominated_kinds(dear).tolist() == [0]
    assert undominated_kinds(cheap).tolist() == [0, 1]


def test_a_kind_on_spot_replaces_only_what_is_lost_with_it() -> None:
    """Its own group, and what is on demand where it is never lost or nothing is asked of the losses."""
    problem = fleet([4.0], [1.0, 2.0], [1.0, 2.1], [0.0, 0.0], availability=np.array([0.9, 0.9]), served_share=0.8)
    for group, left in (([0, 0], [0]), ([0, 1], [0, 1]), ([0, -1], [0, 1]), ([-1, 0], [0])):
        assert undominated_kinds(replace(problem, group=np.array(group))).tolist() == left
    spot = replace(problem, group=np.array([0, -1]))
    assert undominated_kinds(replace(spot, availability=np.array([1.0, 0.9]))).tolist() == [0]
    assert undominated_kinds(replace(spot, served_share=0.0)).tolist() == [0]


def test_a_dearer_start_is_made_up_by_the_hour_that_follows() -> None:
    """$1.00 and a start of $0.50 replace $1.20 and $0.40, not $1.20 and $0.20: then a single hour costs more."""
    problem = fleet([1.0], [1.0, 1.0], [1.0, 1.2], [0.5, 0.4])
    assert undominated_kinds(problem).tolist() == [0]
    assert undominated_kinds(replace(problem, start_usd=np.array([0.5, 0.2]))).tolist() == [0, 1]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(small_fleets())
def test_without_the_kinds_that_are_replaced_the_least_dollars_are_the_same(problem: FleetProblem) -> None:
    """By trying everything, with spot groups, commitments, a stock and a share on spot."""
    kept = undominated_kinds(problem)
    assert brute_force(problem.choosing(kept)) == pytest.approx(brute_force(problem))
