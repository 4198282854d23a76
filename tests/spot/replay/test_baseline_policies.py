"""Rules of thumb: they keep the deadline, and they do what their descriptions say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import Flags
from planner.spot.replayed_runs import Greedy, SpotOnly, UniformProgress, replay
from planner.spot.run import Action, Policy, SpotRun
from tests.helpers.spot_cases import TICK, Script, paths, runs

RUN = SpotRun(8.0, 0.25, 0.0, 0.1, 1.0, 3.0, last_checkpoint=True)


def asked(policy: Policy, done: float, elapsed: float, up: bool, running: int, deadline: float = 16.0) -> int:
    """What a policy asks for at one moment of `RUN`."""
    one = [np.array([each]) for each in (RUN.work_hours - done, deadline - elapsed, up, 1.0, running)]
    return int(policy.decide(*one)[0])


@pytest.mark.long
@settings(derandomize=True, max_examples=50, deadline=None)
@given(runs(), paths(), st.sampled_from([7.5, 9.3, 14.0]))
def test_no_rule_with_a_safety_net_is_ever_late(run: SpotRun, up: Flags, deadline: float) -> None:
    """Whatever the market does, wherever there was time for two restarts, a lost interval and a tick at the start."""
    for policy in (Greedy(run, TICK), UniformProgress(run, TICK, deadline), Script([Action.ON_DEMAND])):
        assert replay(policy, run, up, TICK, deadline).met.all()


def test_greedy_waits_until_the_last_moment() -> None:
    """With spot down it waits while two restarts still fit, and then never looks at spot again."""
    greedy = Greedy(RUN, TICK)
    last = 16.0 - 8.0 - 2 * 0.25
    assert asked(greedy, 0, last, False, Action.WAIT) == Action.WAIT
    assert asked(greedy, 0, last + 0.01, False, Action.WAIT) == Action.ON_DEMAND
    assert asked(greedy, 0, last + 0.01, True, Action.WAIT) == Action.ON_DEMAND
    assert asked(greedy, 0, last - 1, True, Action.WAIT) == Action.SPOT


def test_a_machine_on_spot_is_kept_a_restart_longer() -> None:
    """One that runs need not be started: it is let go only when one restart is all that fits."""
    greedy = Greedy(RUN, TICK)
    last = 16.0 - 8.0 - 0.25
    assert asked(greedy, 0, last, True, Action.SPOT) == Action.SPOT
    assert asked(greedy, 0, last + 0.01, True, Action.SPOT) == Action.ON_DEMAND


def test_uniform_progress_keeps_to_the_line() -> None:
    """Half the time gone: behind half the work it goes on demand where spot is down, else it waits."""
    rule = UniformProgress(RUN, TICK, 16.0)
    assert asked(rule, 3.9, 8.0, False, Action.WAIT) == Action.ON_DEMAND
    assert asked(rule, 4.1, 8.0, False, Action.WAIT) == Action.WAIT
    assert asked(rule, 3.9, 8.0, True, Action.WAIT) == Action.SPOT


def test_uniform_progress_leaves_on_demand_only_well_ahead_and_for_spot() -> None:
    """Two restarts ahead of the line, and never to wait."""
    rule = UniformProgress(RUN, TICK, 16.0)
    ahead = 4.0 + 2 * 0.25 * 8 / 16
    assert asked(rule, ahead - 0.01, 8.0, True, Action.ON_DEMAND) == Action.ON_DEMAND
    assert asked(rule, ahead + 0.01, 8.0, True, Action.ON_DEMAND) == Action.SPOT
    assert asked(rule, ahead + 0.01, 8.0, False, Action.ON_DEMAND) == Action.ON_DEMAND


def test_work_that_an_interruption_may_lose_is_kept_in_hand() -> None:
    """Without a last checkpoint the safety net counts an interval of work, here longer than a tick."""
    greedy = Greedy(replace(RUN, last_checkpoint=False, interval_hours=1.0), TICK)
    last = 16.0 - 6.0 - 1.0 - 0.25
    assert asked(greedy, 2.0, last, True, Action.SPOT) == Action.SPOT
    assert asked(greedy, 2.0, last + 0.01, True, Action.SPOT) == Action.ON_DEMAND


def test_where_nothing_is_sold_on_demand_rules_use_spot_alone() -> None:
    """No rule asks for what nobody sells."""
    run = replace(RUN, on_demand_usd_per_hour=math.inf)
    up = np.logical_xor.accumulate(np.random.default_rng(2).random((5, 64)) < 0.2, axis=1)
    usd = [
        replay(policy, run, up, TICK, 16.0).usd.tolist()
        for policy in (SpotOnly(), Greedy(run, TICK), UniformProgress(run, TICK, 16.0))
    ]
    assert usd[0] == usd[1] == usd[2]
