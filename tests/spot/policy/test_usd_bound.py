"""The bound that spares most passes: never above what the pass finds, and close to it where little happens."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.spot.backward_induction import BOUND_MARGIN, usd_bound, usd_tables
from planner.spot.markov_chain import CurveRequest, Grid
from planner.spot.policy_cache import PolicyCache, horizon_of, pass_grid
from planner.spot.run import SpotRun
from planner.spot.states import Ages, DurationShape, SpotStates, states_from_means, states_of_zones

SHAPE = DurationShape(0.2, 0.5, 0.4)
ENDLESS = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))

works, restarts = st.floats(0.2, 50.0), st.floats(0.01, 0.4)
shares = st.floats(0.12, 1.0)

GRID = Grid(256, 96)


def test_work_that_nothing_interrupts_costs_its_hours_and_a_start() -> None:
    """2 h of work at 1 $/h and a start of 0.1 h: 2.1 dollars, less the margin."""
    run = SpotRun(2.0, 0.1, 0.0, math.inf, 1.0, 10.0)
    assert usd_bound(CurveRequest(run, ENDLESS, 18.1), GRID, 18.1) == pytest.approx(2.1 * BOUND_MARGIN)


def test_an_outage_that_outlasts_the_slack_is_paid_on_demand() -> None:
    """Up 1 h and down 1 h: 4 h for 2 h of work leave 1.8 h to wait, as a start needs 0.1 h and another 0.1 h after it.

    The market is down in half of the cases, and still is after 1.8 h in e^-1.8 of these. Then the rest of the outage is
    worked on demand, for 99 $/h more than on spot: half of e^-1.8 - e^-3.8 h in the mean.
    """
    states = SpotStates(Ages((0.0,), (1.0,)), Ages((0.0,), (1.0,)))
    run = SpotRun(2.0, 0.1, 0.0, math.inf, 1.0, 100.0, last_checkpoint=True)
    request = CurveRequest(run, states, 4.0)
    in_time = usd_bound(request, GRID, 4.0)
    least = usd_bound(CurveRequest(run, replace(states, down=Ages((0.0,), (1e9,))), 4.0), GRID, 4.0)
    outage, start = 0.5 * (math.exp(-1.8) - math.exp(-3.8)) * 99, 0.5 * math.exp(-1.8) * 99 * 0.1
    assert in_time - least == pytest.approx(outage + start, rel=0.06)


def test_a_time_without_slack_for_a_start_on_spot_has_no_policy() -> None:
    """A start on spot of 0.1 h must leave another on demand: 2.15 h for 2 h of work allow on demand only."""
    run = SpotRun(2.0, 0.1, 0.0, math.inf, 1.0, 10.0, last_checkpoint=True)
    request = CurveRequest(run, ENDLESS, 2.6)
    assert usd_bound(request, GRID, 2.15) == math.inf
    assert usd_bound(request, GRID, 2.5) < run.on_demand_usd


@pytest.mark.slow
@settings(max_examples=10)
@given(works, restarts, shares, st.floats(1.0, 100.0), st.floats(0.1, 5.0), st.sampled_from([1, 2, 4]), st.data())
def test_no_pass_finds_less_than_the_bound(
    work: float, restart: float, share: float, up: float, outage: float, zones: int, data: st.DataObject
) -> None:
    """Whatever the market, the prices and the time that is guaranteed."""
    states = states_of_zones(states_from_means(up, outage, SHAPE), zones, 0.7)
    interval = data.draw(st.sampled_from([0.1, 1.0, math.inf]))
    run = SpotRun(
        *(work, restart, 0.0 if math.isinf(interval) else 0.02 * interval, interval, 1.0),
        on_demand_usd_per_hour=data.draw(st.floats(1.1, 10.0)),
        standing_usd_per_hour=data.draw(st.sampled_from([0.0, 0.01, 0.3])),
        last_checkpoint=data.draw(st.booleans()),
        write_hours=data.draw(st.sampled_from([0.0, 0.05])),
        hop_usd=data.draw(st.sampled_from([0.0, 0.5, 3.0])),
    )
    hours = share * horizon_of(run, states, math.inf)
    assume(hours > (work + restart) * 1.001)
    request = CurveRequest(run, states, horizon_of(run, states, hours))
    grid = pass_grid(request)
    least = float(usd_tables([request], grid)[0].at(np.array([hours]))[0])
    bound = usd_bound(request, grid, hours)
    assert min(bound, BOUND_MARGIN * run.on_demand_usd) <= least
    assert PolicyCache().usd_bound(run, states, hours) == bound
