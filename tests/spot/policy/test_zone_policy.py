"""The switching policy on a group of zones: what another zone saves, and that nothing changes without one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from planner.spot.backward_induction import usd_tables
from planner.spot.markov_chain import CurveRequest, Grid, build_chain_for
from planner.spot.policy_cache import best_point, count_tables
from planner.spot.replayed_runs import replay
from planner.spot.run import SpotRun
from planner.spot.states import Ages, SpotStates, sample_states
from planner.spot.switching_policy import best_policy

STATES = SpotStates(Ages((0.0, 1.0), (0.8, 0.15)), Ages((0.0, 0.5), (1.5, 0.4)))
RUN = SpotRun(24.0, 0.2, 0.0, 0.0, 0.3, 1.0, last_checkpoint=True)


@pytest.mark.slow
@pytest.mark.parametrize("run", [RUN, replace(RUN, last_checkpoint=False, stall_hours=0.02, interval_hours=0.5)])
@pytest.mark.parametrize("hours", [26.0, 30.0, 46.0])
def test_a_higher_chance_of_another_zone_never_costs_more(run: SpotRun, hours: float) -> None:
    """In expectation under the model, from none to almost always, at tight and loose deadlines."""
    requests = [CurveRequest(run, replace(STATES, instant=chance), hours) for chance in (0.0, 0.3, 0.6, 0.9, 0.99)]
    usd = [best_point(table, hours).usd for table in count_tables(requests, Grid(256, 96))]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(usd))
    assert usd[-1] < 0.98 * usd[0]


def test_dollars_alone_are_those_of_the_full_pass() -> None:
    """Both inductions follow the same chain, with and without other zones in one batch."""
    requests = [CurveRequest(RUN, replace(STATES, instant=chance), 30.0) for chance in (0.0, 0.5)]
    full, alone = count_tables(requests, Grid(200, 64)), usd_tables(requests, Grid(200, 64))
    for one, other in zip(full, alone, strict=True):
        assert float(other.at(np.array([30.0]))[0]) == pytest.approx(best_point(one, 30.0).usd, rel=1e-6)


def test_a_market_of_one_zone_is_the_same_beside_a_group() -> None:
    """The rows of other zones have no chance there."""
    alone = CurveRequest(RUN, STATES, 30.0)
    beside = [alone, CurveRequest(RUN, replace(STATES, instant=0.5), 30.0)]
    first = best_point(count_tables([alone], Grid(200, 64))[0], 30.0).usd
    assert best_point(count_tables(beside, Grid(200, 64))[0], 30.0).usd == pytest.approx(first, rel=1e-12)
    chain = build_chain_for(beside, Grid(10, 16))
    assert chain.mix.sum(axis=2) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("hours", [26.0, 34.0])
def test_replays_cost_what_the_model_says_and_are_in_time(hours: float) -> None:
    """Sampled groups: mean cost within 3 % of the curve, every deadline met, interruptions within 10 %."""
    states = replace(STATES, instant=0.6)
    point = best_point(count_tables([CurveRequest(RUN, states, hours)], Grid(400, 96))[0], hours)
    tick = 1 / 30
    paths = sample_states(states, 3000, round(hours / tick), tick, np.random.default_rng(4))
    found = replay(best_policy(RUN, states, hours, tick), RUN, paths.up, tick, hours, age_hours=paths.age_hours)
    assert found.met.all()
    assert found.usd.mean() == pytest.approx(point.usd, rel=0.03)
    assert found.interruptions.mean() == pytest.approx(point.interruptions, rel=0.1)


def test_machines_are_lost_with_their_zone_although_another_is_up() -> None:
    """A change of zone costs a restart and counts as an interruption; the market is up all the time."""
    path = np.array([[1] * 10 + [2] * 50, [1] * 60])
    policy = best_policy(replace(RUN, work_hours=3.0), STATES, 6.0, 0.1)
    found = replay(policy, replace(RUN, work_hours=3.0), path, 0.1, 6.0)
    assert found.interruptions.tolist() == [1, 0]
    assert found.spot_hours == pytest.approx([3.4, 3.2])
    assert found.waiting_hours == pytest.approx([0.0, 0.0])
