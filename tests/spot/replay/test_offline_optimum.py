"""The all-knowing optimum: what can be worked out by hand, and that nobody beats it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import Flags
from planner.spot.replayed_runs import (
    Greedy,
    SpotOnly,
    UniformProgress,
    lower_bound_usd,
    optimum_of_zones_usd,
    optimum_usd,
    replay,
)
from planner.spot.run import Action, SpotRun
from tests.helpers.spot_cases import TICK, Coin, Script, paths, runs

RUN = SpotRun(2.0, 0.25, 0.0, 0.1, 1.0, 3.0, last_checkpoint=True)


def path(text: str) -> Flags:
    """One path, a letter per tick: u is up."""
    return np.array([[letter == "u" for letter in text]])


def test_a_market_that_is_always_up_costs_one_restart_and_the_work_at_the_spot_price() -> None:
    """Nothing is cheaper, nothing is needed."""
    assert optimum_usd(RUN, path("u" * 20), TICK, 5.0)[0] == pytest.approx(2.25)


def test_a_market_that_never_comes_costs_what_on_demand_costs() -> None:
    """One restart and the work at the full price, and the standing price of those hours alone."""
    run = replace(RUN, standing_usd_per_hour=0.4)
    assert optimum_usd(run, path("d" * 20), TICK, 5.0)[0] == pytest.approx(2.25 * 3.4)


def test_it_knows_that_the_market_will_come_back() -> None:
    """Two up-times of 1.25 h hold the work exactly, with a restart each, if there is time until 3.75 h.

    Half an hour less, and half an hour of work moves into the outage, with a restart of its own.
    """
    once = path("uuuuuddddduuuuu" + "d" * 5)
    assert optimum_usd(RUN, once, TICK, 3.75)[0] == pytest.approx(2.5)
    hurried = Script([Action.SPOT] * 5 + [Action.ON_DEMAND] * 3 + [Action.WAIT] * 2 + [Action.SPOT])
    reached = replay(hurried, RUN, once, TICK, 3.25)
    assert reached.hours[0] == pytest.approx(3.25)
    assert reached.usd[0] == pytest.approx(5 * 0.25 + 3 * 0.75 + 3 * 0.25)
    assert optimum_usd(RUN, once, TICK, 3.25)[0] == pytest.approx(reached.usd[0])


def test_up_times_too_short_for_a_restart_are_left_alone() -> None:
    """A start that is lost before it works is money for nothing."""
    run = replace(RUN, restart_hours=0.5)
    assert optimum_usd(run, path("uuddd" * 4), TICK, 5.0)[0] == pytest.approx(2.5 * 3)


def test_a_deadline_that_cannot_be_kept_has_no_price() -> None:
    """Infinity, for the exact program and for the bound."""
    assert optimum_usd(RUN, path("d" * 20), TICK, 2.0)[0] == math.inf
    assert optimum_usd(replace(RUN, restart_hours=0.26), path("d" * 20), TICK, 2.0)[0] == math.inf
    with pytest.raises(ValueError, match="do not reach"):
        optimum_usd(RUN, path("d"), TICK, 2.0)


def test_without_on_demand_only_the_market_counts() -> None:
    """A path with enough up-time has a price, one without has none; the bound spreads the start over all up-time."""
    run = replace(RUN, on_demand_usd_per_hour=math.inf)
    both = np.concatenate([path("u" * 12), path("u" * 8 + "d" * 4)])
    assert optimum_usd(run, both, TICK, 3.0).tolist() == [2.25, math.inf]
    assert lower_bound_usd(run, both, TICK, np.full(2, 2.0)).tolist() == [pytest.approx(2 * 3.0 / 2.75), math.inf]


@pytest.mark.long
@settings(derandomize=True, max_examples=30, deadline=None)
@given(runs(), paths(), st.sampled_from([7.5, 10.0, 14.25]), st.sampled_from([1.0, 0.9]))
def test_no_policy_beats_it(run: SpotRun, up: Flags, deadline: float, slowness: float) -> None:
    """Of all runs that met the deadline, under any policy, none cost less on the same path."""
    least = optimum_usd(run, up, TICK, deadline, slowness)
    assert np.isfinite(least).all()
    for policy in (
        Greedy(run, TICK),
        UniformProgress(run, TICK, deadline),
        Script([Action.ON_DEMAND]),
        SpotOnly(),
        Coin(),
        Script([Action.WAIT, Action.SPOT, Action.SPOT, Action.ON_DEMAND]),
    ):
        result = replay(policy, run, up, TICK, deadline, slowness)
        assert (result.usd[result.met] >= least[result.met] - 1e-6).all()


@settings(derandomize=True, max_examples=30, deadline=None)
@given(paths(), st.sampled_from([4.0, 7.0]), st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([0.0, 0.1]))
def test_the_bound_lies_just_below_the_exact_optimum(up: Flags, work: float, restart: float, standing: float) -> None:
    """Never above, and below by no more than three starts are worth: the mixtures that it counts differ by that."""
    run = SpotRun(work, restart, 0.0, 1.0, 1.0, 3.0, standing, last_checkpoint=True)
    deadline = 9.0
    exact = optimum_usd(run, up, TICK, deadline)
    bound = lower_bound_usd(run, up[:, : round(deadline / TICK)], TICK, np.full(len(up), work))
    assert (bound <= exact + 1e-6).all()
    assert (bound >= exact - 3 * (restart + TICK) * 3.0).all()


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.integers(0, 2**12 - 1), st.sampled_from([0.0, 0.25, 0.5]))
def test_trying_every_way_finds_nothing_cheaper_and_nothing_dearer(bits: int, restart: float) -> None:
    """On paths of twelve ticks: all ways to rent for 1.5 h of work, tick by tick, and the cheapest of them."""
    run = SpotRun(1.5, restart, 0.0, 1.0, 1.0, 3.0, last_checkpoint=True)
    up = np.array([[bool(bits >> tick & 1) for tick in range(12)]])
    costs = {(Action.WAIT, 0, 0): 0.0}  # what runs, ticks of restart to come, ticks of work done -> dollars
    cheapest = math.inf
    for there in up[0]:
        after: dict[tuple[int, int, int], float] = {}
        for (kind, left, done), usd in costs.items():
            for action in (Action.WAIT, Action.ON_DEMAND, *((Action.SPOT,) if there else ())):
                start = left if action == kind else round(restart / TICK)
                price = {Action.WAIT: 0.0, Action.SPOT: 1.0, Action.ON_DEMAND: 3.0}[action] * TICK
                gained = int(action != Action.WAIT and start == 0)
                key = (action, max(start - 1, 0) if action else 0, done + gained)
                if key[2] == 6:
                    cheapest = min(cheapest, usd + price)
                elif usd + price < after.get(key, math.inf):
                    after[key] = usd + price
        costs = after
    assert optimum_usd(run, up, TICK, 3.0)[0] == pytest.approx(cheapest)


@pytest.mark.slow
@given(st.integers(2, 4), st.integers(0, 10**6), st.floats(0.2, 0.9))
@settings(max_examples=30, deadline=None)
def test_one_zone_more_never_costs_more(zones: int, seed: int, share: float) -> None:
    """With all zones known in advance, and no schedule of one zone undercuts the bound over all of them."""
    turns = np.random.default_rng(seed).random((zones, 3, 40)) < 0.2 * share
    up = np.logical_xor.accumulate(turns, axis=2)
    usd = [optimum_of_zones_usd(RUN, up[: count + 1], TICK, 6.0, [1.0] * (count + 1)) for count in range(zones)]
    assert all((more <= fewer * (1 + 1e-5)).all() for fewer, more in pairwise(usd))
    assert (usd[0] <= optimum_usd(RUN, up[0], TICK, 6.0) * (1 + 1e-9)).all()


def test_the_optimum_over_zones_pays_a_restart_for_a_change_and_the_price_of_each_zone() -> None:
    """The bound over two zones that take turns lies just below one change; of two equal zones the cheaper counts."""
    turns = np.concatenate([path("u" * 5 + "d" * 5), path("d" * 5 + "u" * 5)])[:, None]
    assert 0.98 * 2.5 <= optimum_of_zones_usd(RUN, turns, TICK, 2.5, [1.0, 1.0])[0] <= 2.5 * (1 + 1e-9)
    both = np.concatenate([path("u" * 20), path("u" * 20)])[:, None]
    alone = optimum_of_zones_usd(RUN, both[:1], TICK, 5.0, [1.0])[0]
    assert optimum_of_zones_usd(RUN, both, TICK, 5.0, [1.0, 1.0])[0] == pytest.approx(alone)
    assert optimum_of_zones_usd(RUN, both, TICK, 5.0, [1.0, 0.6])[0] == pytest.approx(0.6 * alone)
