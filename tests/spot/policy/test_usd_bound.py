"""The bound that spares most passes: never above what the pass finds, and close to it where little happens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.spot.market.duration_shapes import DurationShape, states_from_means
from planner.spot.market.states import Ages, SpotStates
from planner.spot.market.zone_prior import states_of_zones
from planner.spot.policy.discretisation import SLACK_POINTS, CurveRequest
from planner.spot.policy.least_cost import BOUND_MARGIN, usd_bound, usd_tables
from planner.spot.policy.policy_cache import PolicyCache, horizon_of, tick_count_of
from planner.spot.policy.run import SpotRun

SHAPE = DurationShape(0.2, 0.5, 0.4)
ENDLESS = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))

works, restarts = st.floats(0.2, 50.0), st.floats(0.01, 0.4)
shares = st.floats(0.12, 1.0)


def test_work_that_nothing_interrupts_costs_its_hours_and_a_start() -> None:
    """2 h of work at 1 $/h and a start of 0.1 h: 2.1 dollars, less the margin."""
    run = SpotRun(2.0, 0.1, 0.0, math.inf, 1.0, 10.0)
    assert usd_bound(CurveRequest(run, ENDLESS, 18.1), 256, 18.1) == pytest.approx(2.1 * BOUND_MARGIN)


def test_an_outage_that_outlasts_the_slack_is_paid_on_demand() -> None:
    """Up 1 h and down 1 h: of 8 h, work of 2 h with starts of 0.1 h leaves 7.8 h less a tick to meet a machine."""
    states = SpotStates(Ages((0.0,), (1.0,)), Ages((0.0,), (1.0,)))
    run = SpotRun(2.0, 0.1, 0.0, math.inf, 1.0, 100.0, last_checkpoint=True)
    never = 0.5 * (1 - 8 / 256) ** math.ceil((8 - 0.2) / (8 / 256) + 1)
    least = 2.1 / (1 - 0.0) + 0.1 * 2.0 * 1.0
    # An hour of work on spot is lost for the restart of 0.1 h once, less what early losses do not spend of it.
    found = usd_bound(CurveRequest(run, states, 8.0), 256, 8.0)
    assert 2.1 * BOUND_MARGIN + never * (210 - least) * BOUND_MARGIN <= found <= least + never * 210


@pytest.mark.slow
@settings(max_examples=25)
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
    hours = share * horizon_of(run, math.inf)
    assume(hours > (work + restart) * 1.001)
    request = CurveRequest(run, states, horizon_of(run, hours))
    ticks = tick_count_of(request)
    least = float(usd_tables([request], ticks, SLACK_POINTS)[0].at(np.array([hours]))[0])
    bound = usd_bound(request, ticks, hours)
    assert min(bound, run.on_demand_usd) <= least
    assert PolicyCache().usd_bound(run, states, hours) == bound
