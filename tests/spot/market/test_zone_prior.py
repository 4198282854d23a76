"""Several zones of which only one is known: how often any has machines, and what a run through them costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.spot.markov_chain import CurveRequest, Grid
from planner.spot.policy_cache import best_point, count_tables
from planner.spot.run import SpotRun
from planner.spot.states import Ages, SpotStates, any_zone_availability, states_of_zones

ALONE = SpotStates(Ages((0.0, 1.0), (0.8, 0.15)), Ages((0.0, 0.5), (1.5, 0.4)))
RUN = SpotRun(24.0, 0.2, 0.0, 0.0, 0.3, 1.0, last_checkpoint=True)
HOURS = (26.0, 36.0)


def usd(*cases: tuple[SpotRun, SpotStates], hours: float) -> list[float]:
    """Return the least mean cost of each run on its market."""
    tables = count_tables([CurveRequest(run, states, hours) for run, states in cases], Grid(256, 96))
    return [min(best_point(table, hours).usd, run.on_demand_usd) for table, (run, _) in zip(tables, cases, strict=True)]


def test_the_formula_gives_the_worked_example_and_the_recorded_groups() -> None:
    """0.911 of four zones at 0.6; 2, 4 and 8 recorded V100 zones (0.64 each) had 0.82, 0.95 and 0.99."""
    assert any_zone_availability(0.6, 4, 0.7) == pytest.approx(0.911, abs=5e-4)
    for zones, recorded in ((1, 0.64), (2, 0.82), (4, 0.95), (8, 0.99)):
        assert any_zone_availability(0.64, zones, 0.7) == pytest.approx(recorded, abs=0.025)


@given(st.floats(0.1, 10), st.floats(0.05, 10), st.integers(1, 8), st.floats(0, 1))
def test_the_market_of_a_group_is_up_as_often_as_the_formula_says(
    up: float, down: float, zones: int, exponent: float
) -> None:
    """Its stays are those of one zone; its outages are rarer and no longer."""
    alone = SpotStates(Ages((0.0,), (1 / up,)), Ages((0.0,), (1 / down,)))
    group = states_of_zones(alone, zones, exponent)
    whole = any_zone_availability(alone.availability(), zones, exponent)
    assert group.up == alone.up
    assert group.down.mean() <= down * (1 + 1e-9)
    if group.instant < 0.999:
        assert group.availability() == pytest.approx(whole, rel=1e-9)


def test_the_worked_example_of_the_market() -> None:
    """Up 3 h, down 2 h, four zones at 0.7: another at once with 0.777, outages of 1.317 h."""
    group = states_of_zones(SpotStates(Ages((0.0,), (1 / 3,)), Ages((0.0,), (0.5,))), 4, 0.7)
    assert (group.instant, group.down.mean()) == (pytest.approx(0.777, abs=1e-3), pytest.approx(1.317, abs=1e-3))


def test_zones_that_always_fail_together_are_one_zone() -> None:
    """At exponent 0 their number does not count."""
    assert states_of_zones(ALONE, 8, 0.0) == states_of_zones(ALONE, 1, 0.7) == ALONE


@pytest.mark.slow
@pytest.mark.parametrize("hours", HOURS)
def test_one_zone_more_never_costs_more(hours: float) -> None:
    """In expectation under the model, from one zone to eight at one price."""
    costs = usd(*((RUN, states_of_zones(ALONE, zones, 0.7)) for zones in range(1, 9)), hours=hours)
    assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(costs))
    assert costs[-1] < 0.95 * costs[0]


@pytest.mark.slow
@pytest.mark.parametrize("hours", HOURS)
def test_moves_that_cost_more_never_cost_less_and_in_the_end_one_zone_is_the_best(hours: float) -> None:
    """Dollars or hours per move: rising, and beyond every saving the group is worse than a zone alone."""
    four = states_of_zones(ALONE, 4, 0.7)
    for name, sizes in (("hop_usd", (0.0, 0.1, 1.0, 1e4)), ("hop_hours", (0.0, 0.1, 0.5, 1e3))):
        *costs, alone = usd(*((replace(RUN, **{name: size}), four) for size in sizes), (RUN, ALONE), hours=hours)
        assert all(more >= less * (1 - 1e-9) for less, more in pairwise(costs))
        assert costs[0] < alone < costs[-1]
        assert costs[-1] == pytest.approx(RUN.on_demand_usd, rel=0.02)
