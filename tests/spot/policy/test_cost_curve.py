"""Market curves: worked by hand, against a plain recursion, and by the laws that any best policy obeys."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.spot.backward_induction import BackwardInduction, usd_tables
from planner.spot.markov_chain import USD, CurveRequest, Grid, build_markov_chain, slack_points
from planner.spot.policy_cache import (
    CurvePoint,
    PolicyCache,
    count_tables,
    horizon_of,
    longest_useful_hours,
    pass_grid,
    spans_up_to,
)
from planner.spot.run import SpotRun
from planner.spot.states import Ages, SpotStates
from planner.spot.switching_policy import CURVE_ERROR
from tests.helpers.spot_cases import cost_curve

MARKET = SpotStates(Ages((0.0, 1.0), (0.9, 0.12)), Ages((0.0, 1.0), (0.8, 0.25)))
RUN = SpotRun(48.0, 1 / 6, 0.01, 0.14, 1.0, 3.0)
ALWAYS_UP = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))

MARKETS = st.builds(
    lambda age, young, old, outage: SpotStates(Ages((0.0, age), (young, young * old)), Ages((0.0,), (1 / outage,))),
    st.floats(0.3, 3.0),
    st.floats(0.1, 1.5),
    st.floats(0.1, 1.0),
    st.floats(0.5, 4.0),
)
RUNS = st.builds(
    SpotRun,
    work_hours=st.floats(0.2, 60.0),
    restart_hours=st.floats(0.0, 0.5),
    stall_hours=st.floats(0.001, 0.05),
    interval_hours=st.floats(0.05, 1.0),
    spot_usd_per_hour=st.floats(0.3, 4.0),
    on_demand_usd_per_hour=st.just(3.0),
    standing_usd_per_hour=st.floats(0.0, 0.5),
    last_checkpoint=st.booleans(),
)


def test_one_tick_of_work_by_hand() -> None:
    """Up at first (1 in 3): spot, 1 $. Down: wait; up an hour later (1 in 4): 1 $, else on demand: 3 $."""
    run = SpotRun(1.0, 0.0, 0.0, 0.0, 1.0, 3.0, last_checkpoint=True)
    market = SpotStates(Ages((0.0,), (0.5,)), Ages((0.0,), (0.25,)))
    point = cost_curve(run, market, 2.0, ticks=2, points=3).at(2.0)
    assert point.usd == pytest.approx(1 / 3 + 2 / 3 * (1 / 4 * 1 + 3 / 4 * 3))  # 2 $
    assert point.usd_sd == pytest.approx(1.0)  # 1 or 3 $, each in half of the cases
    assert point.spot_share == pytest.approx(0.5)
    assert point.waiting_hours == pytest.approx(2 / 3)
    assert point.finish_hours == pytest.approx(5 / 3)
    assert point.wasted_hours == 0.0


@pytest.mark.parametrize("tick", [1.0, 0.0298, 0.03])
@pytest.mark.parametrize(("restart", "most"), [(0.0, 1.0), (0.1, 3.0), (0.6, 0.61), (1 / 3, 7.1)])
def test_an_axis_ends_exactly_at_its_last_point(restart: float, most: float, tick: float) -> None:
    """Where all work is done: a bit before it some work would seem to be left. Its shares are multiples of 2^-40."""
    axis = slack_points(restart, most, 96, tick)
    assert axis[0] == 0.0
    assert axis[-1] == most
    assert (np.diff(axis) > 0).all()
    shares = slack_points(0.0, 1.0, 96, 1.0) * 2.0**40
    assert (shares == np.rint(shares)).all()


def test_a_plain_recursion_agrees() -> None:
    """Whole hours, no restart: the cheapest of all ways, tried one by one, costs what the pass says."""
    up, down = (0.4, 0.2), 0.3  # chance to go down: young, old; chance to come up
    grow = 0.25  # chance to grow old
    width = math.log1p(up[0] / grow) / up[0]  # hours of youth for that chance (see ageing_rate)
    market = SpotStates(Ages((0.0, width), up), Ages((0.0,), (down,)))
    run = SpotRun(4.0, 0.0, 0.0, 0.0, 1.0, 3.0, standing_usd_per_hour=0.25, last_checkpoint=True)
    ways = {0: ((0, 1 - up[0] - grow), (1, grow), (2, up[0])), 1: ((1, 1 - up[1]), (2, up[1])),
            2: ((2, 1 - down), (0, down))}  # fmt: skip

    @cache
    def least(hours: int, work: int, state: int) -> float:
        if work == 0:
            return 0.0
        if hours < work:
            return math.inf
        costs = [0.25 + ahead(hours - 1, work, state), 3.25 + ahead(hours - 1, work - 1, state)]
        if state < 2:
            costs.append(1.25 + ahead(hours - 1, work - 1, state))
        return min(costs)

    def ahead(hours: int, work: int, state: int) -> float:
        return sum(chance * least(hours, work, after) for after, chance in ways[state])

    slack = np.arange(7.0)[None, :]
    backward = BackwardInduction(build_markov_chain([run], [market], np.array([1.0]), slack))
    for hours in range(1, 11):
        counts = backward.step().counts
        for state in range(3):
            for work in range(max(1, hours - 6), hours + 1):
                assert counts[USD, 0, state, hours - work] == pytest.approx(least(hours, work, state), rel=1e-12)


@given(RUNS, MARKETS, st.floats(1.0, 2.5))
@settings(derandomize=True, max_examples=12, deadline=None)
def test_more_time_never_costs_more_and_on_demand_bounds_it(run: SpotRun, market: SpotStates, factor: float) -> None:
    """The curve begins with on-demand arithmetic, exact, and never rises; hours and dollars belong together."""
    curve = cost_curve(run, market, factor * run.work_hours + run.restart_hours, ticks=80, points=24)
    assert curve.usd[0] == run.on_demand_usd
    assert curve.hours[0] == run.work_hours + run.restart_hours
    assert (np.diff(curve.usd) <= 0).all() and (np.diff(curve.hours) > 0).all()
    assert (curve.finish_hours <= curve.hours * (1 + 2e-3)).all()  # heavy stalls are interpolated on a coarse grid
    bill = (
        curve.spot_hours * run.spot_usd_per_hour
        + curve.on_demand_hours * run.on_demand_usd_per_hour
        + curve.finish_hours * run.standing_usd_per_hour
    )
    assert curve.usd == pytest.approx(bill, rel=1e-9)
    assert ((curve.spot_share >= 0) & (curve.spot_share <= 1)).all()


@given(RUNS, MARKETS, st.floats(1.05, 2.5), st.floats(0.1, 10.0))
@settings(derandomize=True, max_examples=12, deadline=None)
def test_another_unit_of_time_changes_nothing_else(
    run: SpotRun, market: SpotStates, factor: float, scale: float
) -> None:
    """All hours times a factor, rates and prices per hour over it: the same dollars, the hours times the factor."""
    longest = factor * run.work_hours + run.restart_hours
    there = replace(
        run,
        work_hours=run.work_hours * scale,
        restart_hours=run.restart_hours * scale,
        stall_hours=run.stall_hours * scale,
        interval_hours=run.interval_hours * scale,
        spot_usd_per_hour=run.spot_usd_per_hour / scale,
        on_demand_usd_per_hour=run.on_demand_usd_per_hour / scale,
        standing_usd_per_hour=run.standing_usd_per_hour / scale,
    )
    slower = [
        Ages(tuple(b * scale for b in ages.begins), tuple(r / scale for r in ages.rates))
        for ages in (market.up, market.down)
    ]
    here = cost_curve(run, market, longest, ticks=120, points=24)
    other = cost_curve(there, SpotStates(*slower), longest * scale, ticks=120, points=24)
    if here.hours.size == other.hours.size:  # not so where one needs more ticks to tell quick states apart
        assert other.usd == pytest.approx(here.usd, rel=1e-6)
        assert other.finish_hours == pytest.approx(here.finish_hours * scale, rel=1e-6)


@pytest.mark.long
@given(RUNS, MARKETS, st.floats(1.1, 2.5), st.floats(1.0, 3.0), st.booleans())
@settings(derandomize=True, max_examples=12, deadline=None)
def test_a_worse_market_never_costs_less(
    run: SpotRun, market: SpotStates, factor: float, worse: float, taken: bool
) -> None:
    """More interruptions, or longer outages: never cheaper, but for what a grid cannot tell apart."""
    longest = factor * run.work_hours + run.restart_hours
    up, down = market.up, market.down
    if taken:
        up = Ages(up.begins, tuple(rate * worse for rate in up.rates))
    else:
        down = Ages(down.begins, tuple(rate / worse for rate in down.rates))
    usual, bad = (
        cost_curve(run, one, longest, ticks=240, points=48).at(longest) for one in (market, SpotStates(up, down))
    )
    assert bad.usd >= usual.usd * (1 - 0.01)


@pytest.mark.parametrize("stall", [0.0, 0.02])
def test_machines_that_are_never_taken_cost_the_spot_price(stall: float) -> None:
    """Availability 1 and no interruptions: on-demand arithmetic at the spot price, stalls of checkpoints on top."""
    run = replace(RUN, stall_hours=stall, interval_hours=0.5, standing_usd_per_hour=0.1)
    hours = 48 * (1 + stall / 0.5) + 1 / 6
    point = cost_curve(run, ALWAYS_UP, 60.0).at(60.0)
    assert point.usd == pytest.approx(hours * 1.1, rel=1e-9)
    assert point.finish_hours == pytest.approx(hours, rel=1e-9)
    assert point.usd_sd == pytest.approx(0.0, abs=1e-6)
    assert point.spot_share == pytest.approx(1.0)
    assert point.interruptions == 0.0


def test_spot_that_is_no_cheaper_is_not_rented() -> None:
    """At the on-demand price or above it, interruptions buy nothing."""
    for price in (3.0, 5.0):
        point = cost_curve(replace(RUN, spot_usd_per_hour=price), MARKET, 96.0, ticks=64, points=24).at(96.0)
        assert point.usd == RUN.on_demand_usd
        assert point.spot_hours == 0.0


@pytest.mark.parametrize(
    ("change", "hours", "message"),
    [
        ({"on_demand_usd_per_hour": math.inf}, 96.0, "no deadline can be guaranteed"),
        ({}, 48.0, "less than the 48.1667 h that the work takes on demand"),
        ({}, math.nan, "less than"),
        ({"work_hours": 0.0}, 96.0, "work must be positive"),
        ({"restart_hours": -1.0}, 96.0, "must not be negative"),
        ({"interval_hours": 0.0}, 96.0, "positive interval"),
    ],
)
def test_what_cannot_be_promised_is_refused(change: dict[str, float], hours: float, message: str) -> None:
    """Without on-demand machines, or without time for them, there is no guarantee and so no curve."""
    run = replace(RUN, **change)
    with pytest.raises(ValueError, match=message):
        cost_curve(run, MARKET, hours)
    with pytest.raises(ValueError, match=message):
        PolicyCache().best_points([(RUN, MARKET, 96.0), (run, MARKET, hours)])


def planned(run: SpotRun, hours: float, *beside: tuple[SpotRun, SpotStates, float]) -> CurvePoint:
    """What a plan takes, whatever is computed at the same time."""
    return PolicyCache().best_points([(run, MARKET, hours), *beside])[0]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.02, 1.08, 1.25, 2.0])
def test_the_usual_grid_is_fine_enough(factor: float) -> None:
    """Half a percent of a grid many times finer, at a tight deadline too; a batch changes nothing."""
    hours = factor * 48.0
    fine = cost_curve(RUN, MARKET, hours, ticks=1200, points=240).at(hours)
    point = planned(RUN, hours, (replace(RUN, work_hours=2.0), ALWAYS_UP, 9.0))
    assert point.usd == pytest.approx(fine.usd, rel=0.005)
    assert point.spot_share == pytest.approx(fine.spot_share, abs=0.01)
    assert point.usd == pytest.approx(planned(RUN, hours).usd, rel=1e-9)


def finer_usd(run: SpotRun, market: SpotStates, hours: float, ticks_per_work: int = 60) -> float:
    """Dollars on even cells that are as long as a tick."""
    ticks = math.ceil(ticks_per_work * hours / run.work_hours)
    cells = round(ticks * (hours - run.work_hours - run.restart_hours) / hours)
    points = cells + 1 + (run.restart_hours > 0)
    return float(usd_tables([CurveRequest(run, market, hours)], Grid(ticks, points))[0].at(np.array([hours]))[0])


SHORT_RUNS = st.builds(
    lambda run, work: replace(run, work_hours=work, stall_hours=min(run.stall_hours, run.interval_hours / 20)),
    RUNS,
    st.floats(0.1, 3.0),
)


@pytest.mark.long
@given(SHORT_RUNS, MARKETS)
@settings(derandomize=True, max_examples=8, deadline=None)
def test_long_waits_of_short_work_are_priced_on_a_grid_that_is_fine_enough(run: SpotRun, market: SpotStates) -> None:
    """Up to 64 works of slack, a percent of a much finer grid: waiting tick by tick adds up no errors."""
    found = PolicyCache()
    hours = longest_useful_hours(run, market)
    for time in (hours, horizon_of(run, market, hours / 3)):
        assert found.least_usd([(run, market, time)])[0] == pytest.approx(finer_usd(run, market, time), rel=0.012)


@pytest.mark.long
@given(SHORT_RUNS, MARKETS)
@settings(derandomize=True, max_examples=8, deadline=None)
def test_more_time_than_the_longest_horizon_saves_little(run: SpotRun, market: SpotStates) -> None:
    """Twice as much slack: three percent at most."""
    longest = longest_useful_hours(run, market)
    more = 2 * longest - run.work_hours - run.restart_hours
    usd = PolicyCache().least_usd([(run, market, longest)])[0]
    assert min(usd, run.on_demand_usd) <= 1.03 * min(finer_usd(run, market, more, 25), run.on_demand_usd)


@given(st.floats(1.0, 3000.0), MARKETS, st.floats(1.05, 9.0))
@settings(derandomize=True, max_examples=50, deadline=None)
def test_a_tick_never_outlasts_a_state_of_the_market(work: float, market: SpotStates, factor: float) -> None:
    """Whatever the work, the time and the market: a state is left with a chance of at most 1 in a tick."""
    request = CurveRequest(replace(RUN, work_hours=work), market, factor * work + 1.0)
    assert request.part.resolving_ticks <= pass_grid(request).ticks * (1 + 1e-6)


def test_short_work_waits_out_a_long_outage() -> None:
    """A quarter of an hour at 1 $/h on spot or 30 on demand, on a market that is down for 4 h in 44, e^-t/4 thereafter.

    With 2 h of slack 1/11 e^-0.5 of the work is on demand: 0.25 (1 + 29 x 0.055) = 0.65 dollars; with 16 h, which are
    64 works, 1/11 e^-4: 0.26 dollars.
    """
    run = SpotRun(0.25, 0.0, 0.0, math.inf, 1.0, 30.0, last_checkpoint=True)
    market = SpotStates(Ages((0.0,), (1 / 40,)), Ages((0.0,), (1 / 4,)))
    assert longest_useful_hours(run, market) == 16.25
    little, much = PolicyCache().least_usd([(run, market, 2.25), (run, market, 16.25)])
    assert little == pytest.approx(0.25 * (1 + 29 / 11 * math.exp(-0.5)), rel=0.02)
    assert much == pytest.approx(0.25 * (1 + 29 / 11 * math.exp(-4)), rel=0.02)


@given(st.lists(st.tuples(RUNS, MARKETS, st.floats(1.02, 3.0)), min_size=1, max_size=3))
@settings(derandomize=True, max_examples=12, deadline=None)
def test_dollars_alone_are_those_of_all_counts(cases: list[tuple[SpotRun, SpotStates, float]]) -> None:
    """The short pass of a search and the long pass of a plan find the same dollars at every time."""
    asked = [
        CurveRequest(run, market, factor * run.work_hours + 1.01 * run.restart_hours) for run, market, factor in cases
    ]
    for short, long in zip(usd_tables(asked, Grid(60, 32)), count_tables(asked, Grid(60, 32)), strict=True):
        assert short.at(short.hours()) == pytest.approx(long.at(long.hours())[:, USD], rel=1e-5)
        assert short.values[-1] == pytest.approx(long.values[-1, :, USD], rel=1e-5)


@pytest.mark.long
@given(RUNS, MARKETS, st.floats(1.05, 4.0))
@settings(derandomize=True, max_examples=12, deadline=None)
def test_a_frontier_and_a_plan_tell_one_cost(run: SpotRun, market: SpotStates, factor: float) -> None:
    """Anywhere on a piece the policy for exactly that time costs what the line says; at its ends exactly."""
    cache, hours = PolicyCache(), factor * run.work_hours + 2 * run.restart_hours
    pieces = cache.pieces(run, market, spans_up_to(run, market, hours))
    shares = np.array([0.0, 0.1, 0.5, 0.8, 1.0])
    for piece in pieces:
        times = np.interp(shares, (0, 1), piece.hours).tolist()
        told = np.interp(shares, (0, 1), piece.usd)
        found = [point.usd for point in cache.best_points([(run, market, time) for time in times])]
        assert found == pytest.approx(told, rel=CURVE_ERROR + 1e-6)
        assert found[-1] == pytest.approx(told[-1], rel=1e-5)


@pytest.mark.long
@given(RUNS, MARKETS, st.floats(1.05, 4.0), st.floats(0.0, 1.0))
@settings(derandomize=True, max_examples=12, deadline=None)
def test_no_time_is_missed_by_the_pieces(run: SpotRun, market: SpotStates, factor: float, part: float) -> None:
    """At any time the pieces up to it cost no more than the best policy for exactly that time, or on demand."""
    cache, longest = PolicyCache(), factor * run.work_hours + 2 * run.restart_hours
    needed = run.work_hours + run.restart_hours
    hours = needed * (1 + 1e-6) + part * (longest - needed)
    pieces = cache.pieces(run, market, spans_up_to(run, market, longest))
    told = [float(np.interp(hours, piece.hours, piece.usd)) for piece in pieces if piece.hours[0] <= hours]
    (exact,) = cache.best_points([(run, market, hours)])
    assert min([run.on_demand_usd, *told]) <= exact.usd * (1 + CURVE_ERROR + 1e-6)


@pytest.mark.parametrize("work", [0.02, 0.5, 300.0, 2000.0])
def test_minutes_and_months_of_work_have_curves(work: float) -> None:
    """From a minute to three months: below on demand, above all work at the spot price, in bounded time."""
    run = replace(RUN, work_hours=work)
    longest = 1.5 * work + 0.6
    curve = cost_curve(run, MARKET, longest, ticks=100, points=32)
    assert curve.hours.size <= 900
    assert work * 1.0 < curve.usd[-1] < run.on_demand_usd
    assert curve.hours[-1] == pytest.approx(longest)


def test_a_restart_that_outlasts_most_up_times_is_left_to_on_demand() -> None:
    """A restart of 12 h where machines stay 2 h: spot never gets anywhere, and nothing breaks."""
    point = cost_curve(replace(RUN, restart_hours=12.0), MARKET, 110.0, ticks=120, points=32).at(110.0)
    assert point.usd == pytest.approx(replace(RUN, restart_hours=12.0).on_demand_usd, rel=0.02)
