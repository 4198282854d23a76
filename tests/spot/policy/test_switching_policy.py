"""The best switching policy: it keeps every deadline, costs what its curve says, and reads the same from its table."""

from __future__ import annotations

import functools
import itertools
import json
import math
import operator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.spot.policy_cache import ACTION_NAMES, RUNNING_NAMES, advice, from_table, to_table
from planner.spot.replayed_runs import Greedy, Replays, UniformProgress, replay
from planner.spot.run import (
    Action,
    DeadlineGuard,
    SpotRun,
    checkpoint_interval,
    last_checkpoint_fits,
    max_lost_hours,
    mean_lost_hours,
    progress_on_spot,
)
from planner.spot.states import Ages, DurationShape, SpotStates, sample_states, states_from_means
from planner.spot.switching_policy import SwitchingPolicy, best_policy
from tests.helpers.spot_cases import cost_curve

SHAPE = DurationShape(0.83, 0.46, 0.75)
MARKET = states_from_means(2.0, 4 / 3, SHAPE)
RUN = SpotRun(24.0, 1 / 6, 0.01, 0.14, 1.0, 3.0)
TICK = 0.1


def replayed(policy: SwitchingPolicy | Greedy | UniformProgress, run: SpotRun, hours: float) -> Replays:
    """1,500 paths of the market, the same for everyone."""
    paths = sample_states(MARKET, 1500, math.ceil(hours / TICK) + 1, TICK, np.random.default_rng(7))
    return replay(policy, run, paths.up, TICK, hours, age_hours=paths.age_hours)


@st.composite
def runs(draw: st.DrawFn) -> tuple[SpotRun, float, float]:
    """A run, the time it is guaranteed, and how often its policy is asked; hours."""
    work = draw(st.floats(0.3, 8.0))
    run = SpotRun(
        work_hours=work,
        restart_hours=draw(st.sampled_from([0.0, 0.05, 0.3])),
        stall_hours=draw(st.sampled_from([0.0, 0.02, 0.1])),
        interval_hours=draw(st.sampled_from([0.1, 0.5, 20.0, math.inf])),
        spot_usd_per_hour=draw(st.sampled_from([0.3, 1.0, 2.9])),
        on_demand_usd_per_hour=3.0,
        last_checkpoint=draw(st.booleans()),
    )
    return run, work * draw(st.floats(1.0, 2.5)) + run.restart_hours, draw(st.sampled_from([0.05, 0.25, 0.7]))


@pytest.mark.slow
@given(runs(), st.integers(0, 10_000), st.sampled_from([0.02, 0.2, 0.5]))
@settings(derandomize=True, max_examples=25, deadline=None)
def test_no_path_of_a_market_breaks_the_deadline(case: tuple[SpotRun, float, float], seed: int, turning: float) -> None:
    """Whatever the market does, and however wrong its statistics were: on-demand machines bring the run home."""
    run, hours, tick = case
    policy = best_policy(run, MARKET, hours, tick, ticks=48)
    rng = np.random.default_rng(seed)
    turns = rng.random((20, math.ceil(hours / tick) + 1)) < turning
    up = np.logical_xor.accumulate(turns, axis=1)
    result = replay(policy, run, up, tick, hours)
    assert result.met.all()


@pytest.mark.parametrize(("minutes", "restart"), [(10, 0.1), (15, 0.1), (10, 0.3)])
def test_a_policy_that_is_asked_rarely_knows_how_long_it_waits(minutes: int, restart: float) -> None:
    """A table of shorter ticks waits for a look that does not come, and has too little slack for a start by then."""
    run = replace(RUN, work_hours=8.0, restart_hours=restart, stall_hours=0.0, interval_hours=0.0, last_checkpoint=True)
    tick = minutes / 60
    hours = math.ceil((1 + restart) * run.work_hours / tick) * tick
    paths = sample_states(MARKET, 1000, round(hours / tick), tick, np.random.default_rng(3))
    told = best_policy(run, MARKET, hours, tick)
    often = replace(best_policy(run, MARKET, hours, tick / 10), guard=told.guard)
    own, other = (replay(one, run, paths.up, tick, hours, age_hours=paths.age_hours) for one in (told, often))
    assert own.met.all()
    assert own.usd.mean() < 0.99 * other.usd.mean()


def reckless(run: SpotRun, hours: float, tick: float) -> SwitchingPolicy:
    """Spot as soon as it is up, waiting otherwise: nothing but the guard keeps the deadline."""
    rows = {
        (up, 0, running): (((-math.inf, Action.SPOT if up else Action.WAIT),),)
        for up, running in (
            (True, Action.WAIT),
            (True, Action.SPOT),
            (True, Action.ON_DEMAND),
            (False, Action.WAIT),
            (False, Action.ON_DEMAND),
        )
    }
    return SwitchingPolicy(DeadlineGuard.of(run, tick), hours, run.work_hours, (0.0,), (0.0,), (hours,), rows)


@pytest.mark.slow
@given(runs())
@settings(derandomize=True, max_examples=25, deadline=None)
def test_the_guard_alone_keeps_the_deadline(case: tuple[SpotRun, float, float]) -> None:
    """Down for any time, up for any time, then gone for ever, or back and forth: a reckless table is held in check."""
    run, hours, tick = case
    ticks = math.ceil(hours / tick) + 1
    at = np.arange(ticks)
    step = max(1, ticks // 30)
    once = [(at >= begin) & (at < end) for begin in range(0, ticks, step) for end in range(begin + 1, ticks, step)]
    often = [(at + shift) % period != 0 for period in range(2, 12) for shift in range(period)]
    result = replay(reckless(run, hours, tick), run, np.array(once + often), tick, hours)
    assert result.met.all()


@pytest.mark.parametrize("factor", [1.1, 1.5])
def test_replays_cost_what_the_curve_says(factor: float) -> None:
    """Mean cost within 3 % of the prediction, hours and shares with it, on markets of the same kind."""
    hours = factor * RUN.work_hours + RUN.restart_hours
    predicted = cost_curve(RUN, MARKET, hours).at(hours)
    found = replayed(best_policy(RUN, MARKET, hours, TICK), RUN, hours)
    assert found.usd.mean() == pytest.approx(predicted.usd, rel=0.03)
    assert found.usd.std() == pytest.approx(predicted.usd_sd, rel=0.1)
    assert found.hours.mean() == pytest.approx(predicted.finish_hours, rel=0.02)
    assert found.spot_share.mean() == pytest.approx(predicted.spot_share, abs=0.03)
    assert found.interruptions.mean() == pytest.approx(predicted.interruptions, rel=0.1)
    assert found.wasted_hours.mean() == pytest.approx(predicted.wasted_hours, rel=0.15)
    assert found.met.all()


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.1, 1.5, 2.0])
def test_rules_of_thumb_cost_more(factor: float) -> None:
    """On the market that it was made for, the policy is cheaper on average than greedy and uniform progress."""
    hours = factor * RUN.work_hours + RUN.restart_hours
    planned = replayed(best_policy(RUN, MARKET, hours, TICK), RUN, hours).usd.mean()
    assert planned < replayed(Greedy(RUN, TICK), RUN, hours).usd.mean()
    assert planned < replayed(UniformProgress(RUN, TICK, hours), RUN, hours).usd.mean()


@pytest.fixture(scope="module")
def policy() -> SwitchingPolicy:
    """A day of work within 30 hours."""
    return best_policy(RUN, MARKET, 30.0, TICK)


def test_the_table_read_back_is_the_same_policy(policy: SwitchingPolicy) -> None:
    """What JSON holds is what was followed, and it is small."""
    text = json.dumps(to_table(policy))
    assert from_table(json.loads(text)) == policy
    assert len(text) < 100_000


def test_advice_is_the_decision_of_the_policy(policy: SwitchingPolicy) -> None:
    """The policy of a written table decides as the policy itself, in every state; advice is what that one decides."""
    table = json.loads(json.dumps(to_table(policy)))
    rng, count = np.random.default_rng(3), 3000
    hours, age, running = rng.uniform(0, 40, count), rng.exponential(1.0, count), rng.integers(3, size=count)
    up = (rng.random(count) < 0.5) | (running == Action.SPOT)
    work = hours - rng.exponential(2.0, count)
    decided = policy.decide(work, hours, up, age, running)
    assert (decided == from_table(table).decide(work, hours, up, age, running)).all()
    seen = set(zip(up.tolist(), running.tolist(), decided.tolist(), strict=True))
    assert len(seen) >= 9  # of up and down, three that run, three to do
    states = zip(hours, work, up, age, running, decided, strict=True)
    for left, to_do, is_up, since, runs, action in itertools.islice(states, 200):
        asked = (float(left), float(to_do), bool(is_up), float(since), RUNNING_NAMES[int(runs)])
        assert advice(table, *asked) == ACTION_NAMES[int(action)]


def test_a_table_of_something_else_is_refused() -> None:
    """Data that is no policy is not followed."""
    with pytest.raises(ValueError, match="not a switching policy, version 1: format is 'menu'"):
        from_table({"format": "menu"})


def test_decisions_make_sense(policy: SwitchingPolicy) -> None:
    """Spot where it is up; patience while there is time; on demand when it runs out; no cheap leaving of spot."""
    table = to_table(policy)
    assert advice(table, 30.0, 24.0, True, 0.2, "nothing") == "spot"
    assert advice(table, 30.0, 24.0, True, 5.0, "spot") == "spot"
    assert advice(table, 20.0, 10.0, False, 1 / 6, "nothing") == "wait"
    assert advice(table, 20.0, 19.8, False, 1 / 6, "nothing") == "on_demand"
    assert advice(table, 20.0, 19.8, True, 1.0, "spot") == "on_demand"
    assert advice(table, 20.0, 20.5, True, 1.0, "nothing") == "on_demand"  # too late: as fast as can be


def test_the_rows_of_starts_are_those_of_the_whole_policy(policy: SwitchingPolicy) -> None:
    """A table that is only asked when a run with nothing rented takes spot has the rows that say so, and no others."""
    starts = best_policy(RUN, MARKET, 30.0, TICK, only_starts=True)
    assert starts.rows == {key: rows for key, rows in policy.rows.items() if key[0] and key[2] == Action.WAIT}
    assert starts.hours_left == policy.hours_left


def test_without_time_to_spare_everything_is_on_demand() -> None:
    """At work plus restart there is one policy."""
    run = replace(RUN, work_hours=5.0)
    policy = best_policy(run, MARKET, 5.0 + run.restart_hours, TICK)
    found = replay(policy, run, np.ones((1, 60), bool), TICK, 5.0 + run.restart_hours)
    assert found.usd[0] == pytest.approx((5.0 + run.restart_hours) * 3.0)
    assert found.met.all()


def test_the_guard_by_hand() -> None:
    """Restart 0.2 h, interval 0.5 h, stalls of 0.1 h, asked every 0.3 h: each slack is what may be gone, and 0.2 h."""
    run = SpotRun(10.0, 0.2, 0.1, 0.5, 1.0, 3.0)
    guard = DeadlineGuard.of(run, 0.3)
    assert guard.wait == pytest.approx(0.2 + 0.3)
    assert guard.spot == pytest.approx(0.2 + 0.5 + 0.1)
    assert guard.start_spot == pytest.approx(guard.spot + 0.2)
    saved = DeadlineGuard.of(replace(run, last_checkpoint=True), 0.05)
    assert saved.spot == pytest.approx(0.2 + 0.05)  # nothing is lost, but a checkpoint may fill the whole tick


@pytest.mark.slow
def test_a_very_long_run_is_guarded_as_well() -> None:
    """Three months of work: the table ends earlier, and its last row serves in proportion."""
    run = replace(RUN, work_hours=2000.0)
    policy = best_policy(run, MARKET, 2200.0, 0.5, ticks=48)
    assert policy.hours_left[-1] < 2200.0
    up = np.logical_xor.accumulate(np.random.default_rng(5).random((5, 4402)) < 0.2, axis=1)
    found = replay(policy, run, up, 0.5, 2200.0)
    assert found.met.all()
    assert (found.usd < 2000 * 3.0).all()


def test_checkpoints_follow_young() -> None:
    """0.7 times the square root of twice stall and mean up-time; none needed where machines stay."""
    market = states_from_means(2.0, 1.0, DurationShape(1.0, 1.0, 0.0))
    assert checkpoint_interval(0.01, market, 0.7) == pytest.approx(0.7 * 0.2)
    forever = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))
    assert checkpoint_interval(0.01, forever, 0.7) == math.inf


@given(st.floats(0.0, 2.0), st.floats(0.0, 3.0), st.floats(0.1, 50.0), st.booleans())
def test_a_write_ends_before_the_next_begins(stall: float, write: float, up: float, warned: bool) -> None:
    """However short the stall: the interval is at least the full write."""
    market = states_from_means(up, 1.0, DurationShape(1.0, 1.0, 0.0))
    assert checkpoint_interval(stall, market, 0.7, write, warned) >= write


@pytest.mark.parametrize(("notice", "write", "fits"), [(120.0, 60.0, True), (30.0, 30.0, True), (5.0, 60.0, False),
                                                       (0.0, 0.0, False)])  # fmt: skip
def test_a_last_checkpoint_needs_its_notice(notice: float, write: float, fits: bool) -> None:
    """A notice that is shorter than the writing is no help, and none at all never is."""
    assert last_checkpoint_fits(notice, write) is fits


def test_what_an_interruption_costs() -> None:
    """Half an interval while that is short, the mean up-time where nothing is saved, nothing after a last write."""
    assert mean_lost_hours(RUN, 0.1) == pytest.approx(0.07, rel=0.01)
    unsaved = replace(RUN, interval_hours=math.inf, work_hours=1000.0)
    assert mean_lost_hours(unsaved, 0.5) == pytest.approx(2.0)
    assert max_lost_hours(unsaved) == 1000.0
    assert progress_on_spot(unsaved) == 1.0
    assert mean_lost_hours(replace(RUN, last_checkpoint=True), 0.1) == 0.0
    assert progress_on_spot(RUN) == pytest.approx(0.14 / 0.15)


def test_an_interruption_loses_the_write_in_flight() -> None:
    """0.5 h of work between checkpoints, 0.2 h of writing, a rate of 0.1: by hand, and against a million draws."""
    run = replace(RUN, interval_hours=0.5, write_hours=0.2)
    assert max_lost_hours(run) == pytest.approx(0.7)
    assert mean_lost_hours(run, 0.1) == pytest.approx(0.441, abs=5e-4)
    up = np.random.default_rng(1).exponential(1 / 2.0, 1_000_000)
    safe = np.floor(np.maximum(up - 0.2, 0.0) / 0.5) * 0.5
    assert mean_lost_hours(run, 2.0) == pytest.approx(float(np.mean(up - safe)), rel=0.005)


def test_an_age_of_whole_ticks_reaches_its_band() -> None:
    """Six ticks of five minutes add up to 0.49999999999999994 h: half an hour, where the next band begins."""
    policy = best_policy(RUN, SpotStates(Ages((0.0, 0.5), (3.0, 0.01)), Ages((0.0,), (0.5,))), 60.0)
    age, half = functools.reduce(operator.add, [1 / 12] * 6), 0.5  # `sum` rounds once from Python 3.12 on
    assert age < half
    for slack in np.linspace(0.2, 12.0, 60):
        state = [np.array([each]) for each in (40.0, 40.0 + slack, True)]
        of_age = [int(policy.decide(*state, np.array([each]), np.array([Action.WAIT]))[0]) for each in (age, half)]
        assert of_age[0] == of_age[1]


def test_what_runs_is_written_in_words() -> None:
    """Words in a table name each action and each thing that runs, once."""
    assert set(ACTION_NAMES) == set(RUNNING_NAMES) == {Action.WAIT, Action.SPOT, Action.ON_DEMAND}
