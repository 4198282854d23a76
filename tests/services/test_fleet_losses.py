"""Loads that fleets serve often enough although spot groups are lost: worked examples, every state, and linear rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.services.fleet_problem import first_rows, greatest_load_served, served_of, tightest_row

shares = st.floats(0.3, 0.99)
markets = st.lists(st.tuples(st.floats(0.05, 1.0), st.sampled_from([0.0, 0.5, 1.0, 2.0])), min_size=1, max_size=4)


def served_state_by_state(load: float, firm: float, spot: list[float], availability: list[float]) -> float:
    """Return the share of a load that is served, one state after the other."""
    total = 0.0
    for there in itertools.product((0, 1), repeat=len(spot)):
        likely = np.prod([a if up else 1 - a for a, up in zip(availability, there, strict=True)])
        total += float(likely) * min(load, firm + sum(x * up for x, up in zip(spot, there, strict=True)))
    return total / load


def greatest(firm: float, spot: list[float], availability: list[float], share: float) -> float:
    """Return the greatest load of one fleet."""
    return float(greatest_load_served(np.array([firm]), np.array([spot]), np.array(availability), share)[0])


def test_two_groups_that_are_there_sixty_percent_of_the_time() -> None:
    """Two of 2 serve 84 % of a load of 2 and, both or one, 0.36 * 4 + 0.48 * 2 = 2.4 of a load of 4."""
    assert served_of(2.0, 0.0, np.array([2.0, 2.0]), np.array([0.6, 0.6])) == pytest.approx(0.84)
    assert greatest(0.0, [2.0, 2.0], [0.6, 0.6], 0.84) == pytest.approx(2.0)
    assert greatest(0.0, [2.0, 2.0], [0.6, 0.6], 0.6) == pytest.approx(4.0)
    assert greatest(0.0, [2.0, 2.0], [0.6, 0.6], 0.85) == 0.0


def test_on_demand_carries_what_the_group_may_not() -> None:
    """Of one group the others carry (share - a) / (1 - a): two thirds where 95 % are asked and it is there 85 %."""
    assert greatest(2.0, [1.0], [0.85], 0.95) == pytest.approx(3.0)
    assert greatest(2.0, [5.0], [0.85], 0.95) == pytest.approx(3.0)
    assert greatest(2.0, [1.0], [1.0], 0.95) == pytest.approx(3.0)
    assert greatest(2.0, [1.0], [0.5], 0.0) == pytest.approx(3.0)


@settings(max_examples=100)
@given(st.floats(0.0, 3.0), markets, shares)
def test_the_greatest_load_is_served_as_asked_and_no_greater_one(
    firm: float, market: list[tuple[float, float]], share: float
) -> None:
    """Every state on its own agrees with the closed form."""
    availability, spot = [a for a, _ in market], [x for _, x in market]
    load = greatest(firm, spot, availability, share)
    assert load <= firm + sum(spot) + 1e-9
    if load > 1e-6:
        assert served_state_by_state(load, firm, spot, availability) >= share - 1e-9
        known = served_of(load, firm, np.array(spot), np.array(availability))
        assert known == pytest.approx(served_state_by_state(load, firm, spot, availability))
    if load < firm + sum(spot) - 1e-6:
        assert served_state_by_state(load * 1.001 + 1e-6, firm, spot, availability) < share


@settings(max_examples=100)
@given(st.floats(0.0, 3.0), st.floats(0.0, 3.0), markets, st.data(), shares)
def test_rows_allow_every_fleet_what_it_serves_and_one_of_them_no_more(
    firm: float, other_firm: float, market: list[tuple[float, float]], data: st.DataObject, share: float
) -> None:
    """The row of one fleet is true of any other; for its own fleet it is the limit itself."""
    availability = np.array([a for a, _ in market])
    spot = np.array([x for _, x in market])
    sizes = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=len(market), max_size=len(market))
    other = np.array(data.draw(sizes))
    row = tightest_row(firm, spot, availability, share)
    load = greatest(other_firm, other.tolist(), availability.tolist(), share)
    for one in (row, *first_rows(availability, share)):
        assert one @ np.append(other, other_firm) >= load - 1e-6
    own = greatest(firm, spot.tolist(), availability.tolist(), share)
    assert min(float(row @ np.append(spot, firm)), firm + float(np.sum(spot))) == pytest.approx(own, abs=1e-6)
