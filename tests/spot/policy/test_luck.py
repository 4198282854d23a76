"""Drawn runs have the mean and the spread of their pass, and quantiles that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from planner.arrays import Integers
from planner.results.plan_parts import joint_late_usd, joint_probability, joint_usd, probability_of, share_within
from planner.spot import drawn_runs
from planner.spot.drawn_runs import spot_only_hours
from planner.spot.luck import PLAYED_CYCLES, RUNS, LuckRequest, _Runs, draw_luck, draw_lucks, quantile
from planner.spot.policy_cache import PolicyCache
from planner.spot.run import SpotRun
from planner.spot.states import Ages, SpotStates
from planner.units import LUCKS, SPEEDS

MARKET = SpotStates(Ages((0.0, 0.5), (0.8, 0.2)), Ages((0.0, 0.3), (1.5, 0.6)))
RUN = SpotRun(8.0, 0.1, 0.0, 0.0, 1.0, 4.0, last_checkpoint=True)


def same(figure: float) -> np.ndarray:
    return np.full(RUNS, figure)


@pytest.mark.parametrize("guaranteed", [9.0, 11.0, 16.0])
def test_runs_at_the_expected_speed_have_the_mean_and_spread_of_the_pass(guaranteed: float) -> None:
    (point,) = PolicyCache().best_points([(RUN, MARKET, guaranteed)])
    luck = draw_luck(RUN, MARKET, same(RUN.work_hours), same(guaranteed))
    usd = luck.usd(RUN, 0.0)
    error = point.usd_sd / math.sqrt(RUNS)
    assert usd.mean() == pytest.approx(point.usd, abs=4 * error + 0.02 * point.usd)
    assert usd.std() == pytest.approx(point.usd_sd, rel=0.2)
    assert luck.hours.mean() == pytest.approx(point.finish_hours, rel=0.03)
    assert luck.hours.max() <= guaranteed + 0.15  # a tick, and what a start is charged at once


def test_a_market_without_losses_costs_a_start_and_the_work() -> None:
    always = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))
    usd = draw_luck(RUN, always, same(8.0), same(12.0)).usd(RUN, 0.5)
    assert usd == pytest.approx(8.1 * 1.5)


def test_durations_vary_as_they_are_drawn_however_coarse_the_pass() -> None:
    """Exponential up-times of 1 h and outages of 0.5 h, nothing is lost: 8 h of work wait 8 times on average.

    A third of the runs begins in an outage. The variance is 8 * 2 * 0.5^2 + 2 * 0.5^2 / 3 - (0.5 / 3)^2 = 4.139. A tick
    is 0.47 h: outages of whole ticks would have half of it. Each wait ends 2.5 minutes late, where the run looks.
    """
    market = SpotStates(Ages((0.0,), (1.0,)), Ages((0.0,), (2.0,)))
    hours = draw_luck(SpotRun(8.0, 0.0, 0.0, 0.0, 1.0, 4.0, last_checkpoint=True), market, same(8.0), same(60.0)).hours
    assert hours.mean() == pytest.approx(8 + (8 + 1 / 3) * (0.5 + 1 / 24), rel=0.02)
    assert hours.std() == pytest.approx(math.sqrt(4.139), rel=0.06)


def test_a_loss_takes_what_was_not_saved() -> None:
    """Machines are lost once an hour and replaced at once; a start of 6 minutes, then a checkpoint each half hour.

    Work of 0.4 h is lost whole by each loss before it ends: exp(-0.5) of the starts survive. The mean hours of a run
    that begins anew are e^0.5 - 1, and so are its losses.
    """
    market = SpotStates(Ages((0.0,), (1.0,)), Ages((0.0,), (1000.0,)))
    luck = draw_luck(SpotRun(0.4, 0.1, 0.0, 0.5, 1.0, 40.0), market, same(0.4), same(30.0))
    assert luck.spot_hours.mean() == pytest.approx(math.expm1(0.5), rel=0.05)
    assert luck.interruptions.mean() == pytest.approx(math.expm1(0.5), rel=0.1)
    assert not luck.on_demand_hours.any()


def test_streams_are_independent_and_one_stream_is_the_same() -> None:
    one, again, other = (draw_luck(RUN, MARKET, same(8.0), same(11.0), stream).usd(RUN, 0.0) for stream in (0, 0, 1))
    assert (one == again).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


@pytest.mark.slow
def test_requests_that_are_drawn_together_have_the_luck_of_each_alone() -> None:
    """Other runs, prices, checkpoints and guarantees on markets of one shape, and one of another, in any order."""
    other = SpotStates(Ages((0.0, 1.5), (0.4, 0.1)), Ages((0.0, 1.0), (0.5, 0.3)), instant=0.3)
    wakeful = SpotRun(8.0, 0.3, 0.02, 0.5, 1.2, 3.0, write_hours=0.1, hop_hours=0.05, hop_usd=0.4)
    unsaved = SpotRun(3.0, 0.0, 0.0, math.inf, 0.5, 2.0)
    requests = [
        LuckRequest(run, market, same(run.work_hours) * np.linspace(0.8, 1.2, RUNS), same(hours))
        for market in (MARKET, other)
        for run, hours in ((RUN, 11.0), (wakeful, 14.0), (unsaved, 9.0), (RUN, 16.0))
    ]
    for request, luck in zip(requests, draw_lucks(requests), strict=True):
        alone = draw_luck(request.run, request.states, request.work_hours, request.deadlines)
        for name in ("hours", "spot_hours", "on_demand_hours", "interruptions"):
            assert getattr(luck, name) == pytest.approx(getattr(alone, name), rel=1e-12)


def _long(cycles: float, slack: float) -> LuckRequest:
    """A run that has so many cycles of the market until its deadline, and so much slack over its work."""
    hours = cycles * (MARKET.up.mean() + MARKET.outage_hours_per_loss())
    run = replace(RUN, work_hours=hours / (1 + slack), interval_hours=0.5, last_checkpoint=False)
    return LuckRequest(run, MARKET, same(run.work_hours), same(hours))


def test_a_longer_run_takes_no_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run of 32 times the most cycles a part is played: at most its changes, bands and ticks."""
    steps, advance = [0], _Runs._advance

    def counted(runs: _Runs) -> None:
        steps[0] += 1
        advance(runs)

    monkeypatch.setattr("planner.spot.luck.PLAYED_CYCLES", 32)
    monkeypatch.setattr(_Runs, "_advance", counted)
    draw_lucks([_long(32 * 32, 0.6)])
    assert 0 < steps[0] < 1500


def test_runs_longer_than_are_played_whole_cost_the_mean_of_the_pass() -> None:
    """Much slack, and ticks shorter than an up-time; a run played whole acts less often and costs 5 % more."""
    request = _long(4 * PLAYED_CYCLES, 3.0)
    (point,) = PolicyCache().best_points([(request.run, MARKET, float(request.deadlines[0]))])
    (found,) = draw_lucks([request])
    assert found.usd(request.run, 0.0).mean() == pytest.approx(point.usd, rel=0.025)


@pytest.mark.slow
def test_a_part_has_the_quantiles_of_the_whole_run_on_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little slack, where the market matters most: at 90 % too high by at most 4 %, and never too low by 1 %."""
    request = _long(4 * PLAYED_CYCLES, 0.15)
    (part,) = draw_lucks([request])
    monkeypatch.setattr("planner.spot.luck.PLAYED_CYCLES", 4 * PLAYED_CYCLES)
    (whole,) = draw_lucks([replace(request)])
    by_part, by_whole = (found.usd(request.run, 0.0) for found in (part, whole))
    assert by_part.mean() == pytest.approx(by_whole.mean(), rel=0.01)
    assert 0.99 < quantile(by_part, 0.9) / quantile(by_whole, 0.9) < 1.04
    assert by_part.std() == pytest.approx(2 * by_whole.std(), rel=0.2)  # the root of four parts


def test_spot_alone_by_hand() -> None:
    """Exponential outages of 2 h, up-times of 6 h, free checkpoints: work w waits 2 h for each loss.

    The mean is w + (1/4) 2 h + w/6 * 2 h. Without a loss, and up in the beginning: 3/4 exp(-w/6).
    """
    market = SpotStates(Ages((0.0,), (1 / 6,)), Ages((0.0,), (1 / 2,)))
    run = SpotRun(3.0, 0.0, 0.0, 0.0, 1.0, math.inf, last_checkpoint=True)
    found = spot_only_hours(run, market, same(3.0))
    assert found.wall.mean() == pytest.approx(3 + 0.5 + 1.0, rel=0.05)
    assert (found.wall <= 3 + 1e-9).mean() == pytest.approx(0.75 * math.exp(-0.5), abs=0.03)
    assert found.paid == pytest.approx(3.0)


@pytest.mark.parametrize("switch", [math.inf, 300.0])
def test_up_times_are_looked_at_until_a_run_has_ended(monkeypatch: pytest.MonkeyPatch, switch: float) -> None:
    """At how many up-times is looked first changes no hour, and of no run at more than four times those it needs."""
    looks, up_times_of = list[tuple[int, int]](), drawn_runs._up_times_of

    def recorded(which: Integers, run: SpotRun, states: SpotStates, cycles: int, seen: int) -> drawn_runs._UpTimes:
        looks.append((cycles, seen))
        return up_times_of(which, run, states, cycles, seen)

    monkeypatch.setattr(drawn_runs, "_up_times_of", recorded)
    run = replace(RUN, interval_hours=0.5, last_checkpoint=False)
    found = spot_only_hours(run, MARKET, same(60.0), switch)
    last = max(cycles for cycles, _ in looks)
    assert last > 16
    assert [seen for cycles, seen in looks if cycles == last] == [4**power for power in range(1, 5) if 4**power <= last]
    monkeypatch.setattr(drawn_runs, "EARLY_CYCLES", drawn_runs.FIRST_CYCLES)
    for few, many in zip(found, spot_only_hours(run, MARKET, same(60.0), switch), strict=True):
        np.testing.assert_array_equal(few, many)


def test_quantile_and_probability_of_cases() -> None:
    assert quantile(np.array([4.0, 1.0, 3.0, 2.0]), 0.75) == 3.0
    cases = [float(one) for one in range(10)]
    for share in (0.1, 0.5, 0.9):
        assert probability_of(cases, share_within(cases, share)) == pytest.approx(share)
    assert probability_of(cases, -1.0) == 0.0
    assert probability_of(cases, 9.0) == 1.0


def test_a_switch_to_on_demand_by_hand() -> None:
    """Starts take 0.1 h. On a market without losses 2.9 h of 8 are done by hour 3: 5.1 h and a start are left.

    Where machines come once in a million hours nothing is done; work that ends before the switch pays nothing there.
    """
    run = SpotRun(8.0, 0.1, 0.0, 0.0, 1.0, 4.0, last_checkpoint=True)
    always = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))
    found = spot_only_hours(run, always, same(8.0), 3.0)
    assert found.wall == pytest.approx(3 + 0.1 + 5.1)
    assert found.paid == pytest.approx(3.0)
    assert found.on_demand == pytest.approx(5.2)
    early = spot_only_hours(run, always, same(2.5), 3.0)
    assert early.wall == pytest.approx(2.6)
    assert not early.on_demand.any()
    never = spot_only_hours(run, SpotStates(Ages((0.0,), (1.0,)), Ages((0.0,), (1e-6,))), same(8.0), 3.0)
    assert np.quantile(never.wall, 0.99) == pytest.approx(3 + 8.1)
    assert np.quantile(never.paid, 0.99) == 0.0


def test_a_switch_on_a_market_with_losses_by_hand() -> None:
    """Up for 6 h and out for 2 h, both exponential, free checkpoints: in 12 h three quarters of the time are worked.

    A run never ends later than the switch and all of its work.
    """
    market = SpotStates(Ages((0.0,), (1 / 6,)), Ages((0.0,), (1 / 2,)))
    run = SpotRun(30.0, 0.0, 0.0, 0.0, 1.0, 4.0, last_checkpoint=True)
    found = spot_only_hours(run, market, same(30.0), 12.0)
    # An outage is seen to end 2.5 minutes late on average: once in 8 h.
    assert found.paid.mean() == pytest.approx(12 * 0.75 - 1.5 / 24, rel=0.03)
    assert found.wall == pytest.approx(12 + 30 - found.paid)
    assert found.wall.max() <= 42 + 1e-9


def _paid(provider: str, dear: int, late: float) -> SimpleNamespace:
    """A job that costs $1, and $3 in so many of 16 cases."""
    row = (1.0,) * (LUCKS - dear) + (3.0,) * dear
    place = {"provider": provider, "region": "r", "gpu": "A"}
    return SimpleNamespace(**place, cost_usd=1 + 2 * dear / LUCKS, cost_at_confidence=late, usd_of_runs=(row,) * SPEEDS)


def test_jobs_on_one_market_are_unlucky_together() -> None:
    """Each costs $1 or $3, equally likely: on one market $2 or $6 together, on two markets $4 in half of all cases."""
    one, two = (joint_usd([_paid("a", 8, 3.0), _paid(other, 8, 3.0)], 0.9) for other in "ab")
    assert set(one) == {2.0, 6.0}
    assert sum(case == 4.0 for case in two) == len(two) / 2
    assert sum(one) == pytest.approx(sum(two))


def test_jobs_on_two_markets_may_need_more_together_than_each_by_itself() -> None:
    """Each is dear with 1/16: at 90 % it needs $1. One of two is dear with 12 %, so that both need more than $2."""
    same, apart = ([_paid("a", 1, 1.0), _paid(other, 1, 1.0)] for other in "ab")
    assert joint_late_usd(same, 0.9) == 2.0
    assert joint_probability(same, 0.9, 2.0) == pytest.approx(15 / 16, abs=0.01)
    assert joint_late_usd(apart, 0.9) > 2.0
    assert joint_probability(apart, 0.9, 2.0) == pytest.approx((15 / 16) ** 2, abs=0.02)


def test_a_job_on_demand_is_as_uncertain_next_to_one_on_spot_as_alone() -> None:
    """$12 expected, $13.90 at 90 %, where t is 1.886: at 95 % it is 12 (13.9 / 12)^(2.92 / 1.886) = $15.07."""
    on_demand = SimpleNamespace(
        provider="b", region="r", gpu="B", cost_usd=12.0, cost_at_confidence=13.9, usd_of_runs=()
    )  # fmt: skip
    both = [_paid("a", 0, 1.0), on_demand]  # the one on spot always costs $1
    assert joint_probability(both, 0.9, 14.9) == pytest.approx(0.90, abs=0.005)
    assert joint_probability(both, 0.9, 16.07) == pytest.approx(0.95, abs=0.005)
    assert max(joint_usd(both, 0.9)) == pytest.approx(1 + 12 * (13.9 / 12) ** (4.303 / 1.886), rel=1e-3)
