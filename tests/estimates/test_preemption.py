"""What interruptions cost, against hand-worked figures and replays of published traces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.stage_seconds import (
    NodeGroupCoefficients,
    SpotAvailability,
    add_heavy_tail,
    interrupted_run,
    node_group_market,
    paid_inflation,
    wall_quantile_factor,
    young_interval,
)
from tests.helpers.time_cases import calibration

NODE_GROUP = NodeGroupCoefficients.of(calibration("stages"))
HOUR = 3600.0
QUIET = settings(derandomize=True, max_examples=80, deadline=None)


@pytest.mark.parametrize(
    ("up_hours", "stall", "formula", "replayed"),
    [
        (0.7, 30, 1.31, 1.36),
        (0.7, 120, 1.55, 1.59),
        (1.75, 30, 1.16, 1.26),
        (1.75, 120, 1.28, 1.43),
        (5.5, 30, 1.07, 1.09),
        (5.5, 120, 1.14, 1.17),
        (9.8, 30, 1.05, 1.09),
        (9.8, 120, 1.10, 1.14),
    ],
)
def test_inflation_of_published_traces(up_hours: float, stall: float, formula: float, replayed: float) -> None:
    """At Young's interval and 300 s restarts the formula gives the known figures, replays lie near."""
    up = up_hours * HOUR
    phi = float(paid_inflation(up, 300.0, stall, young_interval(stall, up)))
    assert phi == pytest.approx(formula, abs=0.015)
    assert phi - 0.02 < replayed
    assert float(add_heavy_tail(phi, NODE_GROUP)) > replayed - 0.05


def test_first_order_expansion() -> None:
    """While up-times are long the inflation is 1 + C/tau + (tau/2 + R)/M."""
    up, restart, stall, tau = 1e6, 300.0, 30.0, 5000.0
    expected = 1 + stall / tau + (tau / 2 + restart) / up
    assert float(paid_inflation(up, restart, stall, tau)) == pytest.approx(expected, abs=1e-4)


def test_young_interval_is_near_the_best() -> None:
    """0.7 x Young costs at most 3 points more than any other interval."""
    up, restart, stall = 1.75 * HOUR, 300.0, 120.0
    tries = paid_inflation(up, restart, stall, np.linspace(100, 6000, 400))
    best = tries.min()
    shipped = NODE_GROUP.interval_share_of_young * young_interval(stall, up)
    assert float(paid_inflation(up, restart, stall, shipped)) < best + 0.03


def test_node_group_of_one_is_the_instance() -> None:
    """A node group of one keeps its up-time and availability, and its outage follows from both."""
    market = node_group_market(2.0, 0.6, 1, NODE_GROUP)
    assert (market.mean_up, market.availability) == pytest.approx((2.0, 0.6))
    assert market.mean_outage == pytest.approx(2.0 * 0.4 / 0.6)


def test_node_groups_are_taken_more_often_but_not_k_times() -> None:
    """Eight instances are interrupted 8^0.8 times as often and are up 8^-0.08 as much."""
    market = node_group_market(2.0, 0.6, 8, NODE_GROUP)
    assert float(market.mean_up) == pytest.approx(2.0 / 8**0.8)
    assert float(market.availability) == pytest.approx(0.6 * 8**-0.08)


def test_expected_wall_by_hand() -> None:
    """Wall time is first wait + paid time + an outage per interruption."""
    market = SpotAvailability(mean_up=10.0, mean_outage=2.5, availability=0.8)
    run = interrupted_run(24.0, 300 / HOUR, 30 / HOUR, market, NODE_GROUP)
    tau = 0.7 * math.sqrt(2 * (30 / HOUR) * 10.0)
    phi = math.exp(300 / HOUR / 10) * (math.exp((tau + 30 / HOUR) / 10) - 1) * 10 / tau
    paid = 24.0 * (1 + 1.4 * (phi - 1))
    assert float(run.interval) == pytest.approx(tau)
    assert float(run.paid) == pytest.approx(paid)
    assert float(run.wall) == pytest.approx(0.2 * 2.5 + paid + paid / 10 * 2.5)


@pytest.mark.parametrize(
    ("up_hours", "availability", "low", "high"), [(0.7, 0.17, 8.0, 10.5), (5.5, 0.47, 2.2, 2.9), (9.8, 0.9, 1.15, 1.4)]
)
def test_wall_of_a_day_on_published_markets(up_hours: float, availability: float, low: float, high: float) -> None:
    """A day of work takes the wall time that replays of published traces took, as a multiple."""
    market = node_group_market(up_hours, availability, 1, NODE_GROUP)
    run = interrupted_run(24.0, 300 / HOUR, 30 / HOUR, market, NODE_GROUP)
    assert low < float(run.wall) / 24.0 < high


def test_short_jobs_wait_at_most_about_one_outage() -> None:
    """A ten-minute job on a market with long outages does not wait in proportion to its length only."""
    market = node_group_market(2.0, 0.6, 1, NODE_GROUP)
    run = interrupted_run(1 / 6, 300 / HOUR, 30 / HOUR, market, NODE_GROUP)
    assert float(run.wall) > 0.4 * market.mean_outage
    assert float(run.interruptions) < 0.15


def test_free_checkpoints_and_eternal_machines_stay_finite() -> None:
    """A stall of zero and a machine that is never taken give no inflation, not a division by zero."""
    eternal = SpotAvailability(mean_up=math.inf, mean_outage=0.0, availability=1.0)
    run = interrupted_run(24.0, 0.1, 0.0, eternal, NODE_GROUP)
    assert float(run.inflation) == pytest.approx(1.0)
    assert float(run.wall) == pytest.approx(24.0)


def test_hopeless_markets_stay_finite() -> None:
    """A machine taken long before it has restarted inflates beyond all use, without overflow."""
    run = interrupted_run(24.0, 1.0, 0.1, node_group_market(0.001, 0.1, 64, NODE_GROUP), NODE_GROUP)
    assert np.isfinite(run.wall) and run.wall > 1e6


@QUIET
@given(st.floats(0.2, 100), st.floats(0.05, 0.99), st.integers(1, 64), st.floats(0.1, 500))
def test_markets_only_cost(up: float, availability: float, instances: int, run: float) -> None:
    """Wall >= paid >= run; longer runs take longer, longer-lived markets cost less."""
    market = node_group_market(up, availability, instances, NODE_GROUP)
    one = interrupted_run(run, 0.1, 0.01, market, NODE_GROUP)
    longer = interrupted_run(2 * run, 0.1, 0.01, market, NODE_GROUP)
    calmer = interrupted_run(run, 0.1, 0.01, node_group_market(2 * up, availability, instances, NODE_GROUP), NODE_GROUP)
    assert run < one.paid <= one.wall
    assert one.paid < longer.paid and one.wall < longer.wall
    assert calmer.paid < one.paid


def test_quantile_of_the_wall() -> None:
    """The 90 % wall is 1.3 times the mean, and an impossible confidence is refused."""
    spread = calibration("uncertainty")["wall_spread"]
    assert wall_quantile_factor(0.9, spread) == pytest.approx(1.30, abs=0.005)
    with pytest.raises(ValueError, match="between 0 and 1"):
        wall_quantile_factor(1.0, spread)
