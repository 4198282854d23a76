"""Replays: a path worked by hand, laws that hold on every path, and a slow replay event by event as second opinion."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import Flags, Floats, Integers
from planner.spot.replayed_runs import Greedy, Replays, SpotOnly, replay
from planner.spot.run import Action, SpotRun
from tests.helpers.spot_cases import TICK, Coin, Script, by_hand, paths, runs

RUN = SpotRun(
    work_hours=2.0,
    restart_hours=0.25,
    stall_hours=0.05,
    interval_hours=0.45,
    spot_usd_per_hour=1.0,
    on_demand_usd_per_hour=3.0,
    standing_usd_per_hour=0.1,
)


def path(text: str) -> Flags:
    """One path, a letter per tick: u is up."""
    return np.array([[letter == "u" for letter in text]])


def test_a_path_worked_by_hand() -> None:
    """Four ticks on spot, an outage of two ticks, then on demand.

    Spot: 0.25 h of restart, then 0.45 h of work, 0.05 h of checkpoint and 0.25 h of work that the outage destroys.
    On demand after two ticks of waiting: 0.25 h of restart and the 1.55 h of work that no checkpoint holds.
    """
    script = Script([Action.SPOT, Action.SPOT, Action.SPOT, Action.SPOT, Action.WAIT, Action.WAIT, Action.ON_DEMAND])
    result = replay(script, RUN, path("uuuudd" + "u" * 20), TICK, 6.0)
    assert result.usd.size == 1
    assert result.spot_hours[0] == pytest.approx(1.0)
    assert result.on_demand_hours[0] == pytest.approx(1.8)
    assert result.waiting_hours[0] == pytest.approx(0.5)
    assert result.hours[0] == pytest.approx(3.3)
    assert result.usd[0] == pytest.approx(1.0 * 1 + 1.8 * 3 + 3.3 * 0.1)
    assert result.interruptions[0] == 1
    assert result.wasted_hours[0] == pytest.approx(0.25 + 0.05 + 0.25 + 0.25)
    assert result.spot_share[0] == pytest.approx(0.45 / 2)
    assert result.met[0]


def test_a_notice_saves_what_no_checkpoint_holds() -> None:
    """With time for a last checkpoint the same path loses only the restart."""
    script = Script([Action.SPOT, Action.SPOT, Action.SPOT, Action.SPOT, Action.WAIT, Action.WAIT, Action.ON_DEMAND])
    result = replay(script, replace(RUN, last_checkpoint=True), path("uuuudd" + "u" * 20), TICK, 6.0)
    assert result.on_demand_hours[0] == pytest.approx(0.25 + 1.3)
    assert result.spot_share[0] == pytest.approx(0.7 / 2)


def test_leaving_spot_of_ones_own_will_loses_nothing() -> None:
    """Unsaved work is kept where the machine is not lost but given back."""
    result = replay(Script([Action.SPOT, Action.SPOT, Action.ON_DEMAND]), RUN, path("u" * 24), TICK, 6.0)
    assert result.hours[0] == pytest.approx(0.5 + 0.25 + 1.75)
    assert result.interruptions[0] == 0


def test_what_is_late_goes_on_on_demand() -> None:
    """A policy that only waits is late by a restart and all the work."""
    result = replay(Script([Action.WAIT]), RUN, path("d" * 24), TICK, 6.0)
    assert result.hours[0] == pytest.approx(6 + 0.25 + 2)
    assert not result.met[0]
    assert result.spot_share[0] == 0


def test_machines_on_demand_run_on_past_the_deadline() -> None:
    """Their restart is not paid again."""
    result = replay(Script([Action.ON_DEMAND]), RUN, path("d" * 8), TICK, 1.6)
    assert result.hours[0] == pytest.approx(2.25)
    assert result.on_demand_hours[0] == pytest.approx(2.25)


def test_without_on_demand_a_run_ends_with_its_path() -> None:
    """An unfinished run has infinite hours; the bill is what was paid so far."""
    run = replace(RUN, on_demand_usd_per_hour=math.inf)
    result = replay(SpotOnly(), run, path("u" * 4 + "d" * 20), TICK, 3.0)
    assert result.hours[0] == math.inf
    assert not result.met[0]
    assert result.usd[0] == pytest.approx(1 + 6 * 0.1)


def test_a_run_without_on_demand_may_still_finish_late() -> None:
    """The policy goes on past the deadline where nothing else can be had."""
    run = replace(RUN, on_demand_usd_per_hour=math.inf)
    result = replay(SpotOnly(), run, path("d" * 8 + "u" * 16), TICK, 3.0)
    assert result.hours[0] == pytest.approx(2 + 0.25 + 2 + 4 * 0.05)
    assert not result.met[0]


def test_slowness_stretches_the_work_of_its_run() -> None:
    """Twice as slow is twice the work, the restart stays."""
    up = np.ones((2, 40), bool)
    result = replay(Script([Action.ON_DEMAND]), RUN, up, TICK, 10.0, slowness=[1.0, 2.0])
    assert result.hours == pytest.approx([2.25, 4.25])


def test_bad_paths_and_policies_are_refused() -> None:
    """Paths that end before the deadline; spot where there is none; on demand where it is not sold."""
    with pytest.raises(ValueError, match="do not reach the deadline"):
        replay(SpotOnly(), RUN, path("uu"), TICK, 6.0)
    blind = Script([Action.SPOT])
    blind.decide = lambda work_left, *_: np.full(work_left.shape, Action.SPOT)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="while there are none"):
        replay(blind, RUN, path("d" * 24), TICK, 6.0)
    with pytest.raises(ValueError, match="not sold"):
        replay(Script([Action.ON_DEMAND]), replace(RUN, on_demand_usd_per_hour=math.inf), path("d" * 24), TICK, 6.0)
    with pytest.raises(ValueError, match="positive interval"):
        replay(SpotOnly(), replace(RUN, interval_hours=0.0), path("u" * 24), TICK, 6.0)
    with pytest.raises(ValueError, match="no path"):
        replay(SpotOnly(), RUN, np.zeros((0, 24), bool), TICK, 6.0)


@pytest.mark.long
@settings(derandomize=True, max_examples=50, deadline=None)
@given(runs(), paths(), st.sampled_from([6.0, 9.3, 14.0]))
def test_event_by_event_gives_the_same(run: SpotRun, up: Flags, deadline: float) -> None:
    """A replay of one run with a while loop agrees in every figure, whatever the policy does."""
    for policy in (Coin(), Greedy(run, TICK)):
        fast = replay(policy, run, up, TICK, deadline)
        for number, one in enumerate(up):
            slow = by_hand(policy, run, one, deadline)
            for name, value in slow.items():
                assert getattr(fast, name)[number] == pytest.approx(value, abs=1e-6), name


@settings(derandomize=True, max_examples=50, deadline=None)
@given(runs(), paths(), st.sampled_from([0.7, 1.0, 1.3]))
def test_nothing_is_lost_in_the_books(run: SpotRun, up: Flags, slowness: float) -> None:
    """Paid hours are progress and waste, all hours are paid or waited, dollars lie between all spot and all dear."""
    result: Replays = replay(Coin(), run, up, TICK, 12.0, slowness)
    work = run.work_hours * slowness
    paid = result.spot_hours + result.on_demand_hours
    assert paid == pytest.approx(work + result.wasted_hours)
    assert result.hours == pytest.approx(paid + result.waiting_hours)
    assert (result.hours >= work + run.restart_hours - 1e-9).all()
    assert (result.wasted_hours >= run.restart_hours - 1e-9).all()
    standing = result.hours * run.standing_usd_per_hour
    assert (result.usd >= paid * run.spot_usd_per_hour + standing - 1e-9).all()
    assert (result.usd <= paid * run.on_demand_usd_per_hour + standing + 1e-9).all()
    assert ((result.spot_share >= 0) & (result.spot_share <= 1)).all()


@settings(derandomize=True, max_examples=40, deadline=None)
@given(runs())
def test_a_market_that_is_always_up_is_arithmetic(run: SpotRun) -> None:
    """Restart, work and a stall after each full interval but the last, at the spot price."""
    result = replay(SpotOnly(), run, np.ones((1, 120), bool), TICK, 30.0)
    checkpoints = max(math.ceil(run.work_hours / run.interval_hours - 1e-9) - 1, 0) if run.stall_hours else 0
    hours = run.restart_hours + run.work_hours + checkpoints * run.stall_hours
    assert result.hours[0] == pytest.approx(hours)
    assert result.usd[0] == pytest.approx(hours * (run.spot_usd_per_hour + run.standing_usd_per_hour))
    assert result.spot_share[0] == 1.0


def test_many_runs_are_replayed_like_each_alone() -> None:
    """Blocks of runs are an arrangement of the work, not part of the answer."""
    rng = np.random.default_rng(5)
    up = np.logical_xor.accumulate(rng.random((5000, 40)) < 0.1, axis=1)
    together = replay(Greedy(RUN, TICK), RUN, up, TICK, 6.0)
    for number in (0, 4095, 4096, 4999):
        alone = replay(Greedy(RUN, TICK), RUN, up[number : number + 1], TICK, 6.0)
        assert alone.usd[0] == together.usd[number]


def test_ages_count_from_before_the_run() -> None:
    """The age a policy sees begins with the one given and falls to zero when the market turns."""
    seen: list[float] = []

    class Watch(Script):
        def decide(self, work_left, hours_left, up, age_hours, running):  # type: ignore[no-untyped-def]
            seen.append(float(age_hours[0]))
            return super().decide(work_left, hours_left, up, age_hours, running)

    replay(Watch([Action.WAIT]), RUN, path("uuddu"), TICK, 1.25, age_hours=3.0)
    assert seen == [3.0, 3.25, 0.0, 0.25, 0.0]


class Listener:
    """Waits, and keeps what it is told of the age of the market."""

    def __init__(self) -> None:
        self.told: list[float] = []

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Wait."""
        del work_left, hours_left, up
        self.told.append(float(age_hours[0]))
        return np.full(running.shape, Action.WAIT)


@pytest.mark.parametrize(
    ("known", "told"), [(0.5, [0.5, 1.0, 0.0, 0.5]), ([[0.5, 1.0, 7.0, 7.5]], [0.5, 1.0, 7.0, 7.5])]
)
def test_a_policy_is_told_how_long_its_zone_has_been_up(known: float | list[list[float]], told: list[float]) -> None:
    """From the change on where no more is known, else as the zone to which the run moves has been recorded."""
    listener = Listener()
    replay(listener, RUN, np.array([[1, 1, 2, 2]]), 0.5, 2.0, age_hours=known)
    assert listener.told == told
