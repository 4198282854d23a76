"""A run on a spot market as a Markov decision process: its grid of time and slack, and what one tick does.

Slack is time left minus work left. It is what a policy spends: waiting an hour costs an hour of it, a start costs
the restart, a checkpoint its stall, an interruption the work lost; work itself costs none. In these coordinates
on-demand hours need no interpolation, and the slack that the guard keeps is a point of the grid.

A tick is one step of the market as well: a band of rate r is left with chance r dt, so that up-times, outages and
numbers of interruptions keep their means whatever the tick. A restart is charged at once, as work to be done first,
so any restart fits any tick. The part of it that an early interruption leaves undone is refunded on average
(`early_refund`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.run import ROUNDING_HOURS, SpotRun, max_lost_hours, mean_lost_hours, progress_on_spot, required_slack
from planner.spot.states import Ages, SpotStates

if TYPE_CHECKING:
    from collections.abc import Sequence


USD, FINISH, SPOT_HOURS, DEMAND_HOURS, DEMAND_STARTS, USD_VARIANCE, FINISH_VARIANCE, INTERRUPTIONS = range(8)
"""Counts from a moment to the end of the run; all but the variances are means."""
COUNTS = 8
ALL_COUNTS, FIGURES, DOLLARS = slice(COUNTS), slice(USD_VARIANCE), slice(USD, USD + 1)
"""The counts, those that candidates are compared by, and the one that actions are."""
MEANS, VARIANCES = slice(USD, FINISH + 1), slice(USD_VARIANCE, FINISH_VARIANCE + 1)
"""The counts whose spread is computed, and their variances."""
BARRED = 1e18
"""Dollars that no run costs, yet finite, because infinity times zero is not a number."""


@dataclass(frozen=True)
class Interpolation:
    """Positions on the slack axis: between point `low` and the next, at share `part`; shapes (.., slack)."""

    low: Integers
    part: Floats


@dataclass(frozen=True)
class MarkovChain:
    """The ticks of several runs, each on its own market, as arrays over the runs (b).

    Rows of a state array (b, rows, slack, COUNTS), with M = U + D market states: M with nothing running,
    M on demand, U on spot. Rows that a tick mixes (b, M + M + U + U, ...): after waiting, on demand, spot that
    survives, spot that is lost; rows that come out: after waiting, on demand, on spot (M + M + U). Where a market has
    several zones, U more rows are mixed: spot that is lost while another zone is up.
    """

    ups: int
    downs: int
    tick: Floats  # (b,) hours
    slack: Floats  # (b, slack) hours, rising from 0
    mix: Floats  # (b, 2M + U, 2M + 2U or 2M + 3U)
    spent: Interpolation  # (b, 2M + 2U or 2M + 3U, slack): slack after a tick of each kind
    cost: Floats  # (b, 2M + U, COUNTS): counts of one tick of each kind
    started: Interpolation  # (b, M + U, slack): slack after a start on demand, on spot
    beyond: Floats  # (b, M, slack, COUNTS): added where a start on demand is chosen
    wait_barred: Floats  # (b, 1, slack): 0, or `BARRED` where the guard forbids it
    spot_barred: Floats  # (b, 1, slack)
    start_barred: Floats  # (b, U, slack)
    demand_rate: Floats  # (b, COUNTS): counts of an hour on demand
    spot_rate: Floats  # (b, COUNTS): counts of an hour of work on spot that nothing interrupts
    cheap_rate: Floats  # (b, COUNTS): the cheaper of the two
    restart: Floats  # (b, 1, 1, 1) hours
    first: Floats  # (b, M): chance of each market state at the start

    @property
    def states(self) -> int:
        """Return the number of market states."""
        return self.ups + self.downs

    @property
    def spent_rows(self) -> list[int]:
        """Return for each row that a tick mixes the state that it leaves behind.

        Machines that are lost leave nothing running, at the beginning of an outage or of another zone's up-time.
        """
        kept = 2 * self.states + self.ups
        ends = [self.ups] * self.ups + [0] * self.ups
        return [*range(kept), *ends[: self.mix.shape[2] - kept]]


def ageing_rate(ages: Ages, band: int) -> float:
    """Return the rate per hour at which a duration grows into the next band; 0 from the last.

    The chain leaves a band without memory. The rate r / (exp(r width) - 1) keeps the mean time in the band and the
    chance to survive it, which are those of a duration that ages with the clock.
    """
    if band + 1 >= len(ages.rates):
        return 0.0
    width, rate = ages.begins[band + 1] - ages.begins[band], ages.rates[band]
    x = rate * width
    return 1 / width if x < 1e-12 else (rate / math.expm1(x) if x < 500 else 0.0)


def fastest_rate(states: SpotStates) -> float:
    """Return the highest rate per hour at which any market state is left."""
    return max(
        rate + ageing_rate(ages, band) for ages in (states.up, states.down) for band, rate in enumerate(ages.rates)
    )


def early_refund(run: SpotRun, states: SpotStates) -> float:
    """Return the hours of work that an interruption in the youngest band refunds, of a restart charged in full.

    A restart that is cut short takes min(up-time, restart), and no work is lost by it. The difference, averaged over
    all starts, is refunded where up-times end young.
    """
    unspent = (run.restart_hours - states.up.mean_up_to(run.restart_hours)) * progress_on_spot(run)
    early = 1.0 - float(states.up.survival(run.restart_hours))
    reached = float(states.up.survival(states.up.begins[1])) if len(states.up.begins) > 1 else 0.0
    ended = 1.0 - reached
    return (unspent + early * mean_lost_hours(run, states.up.rates[0])) / ended if ended > 0 else 0.0


def build_markov_chain(
    runs: Sequence[SpotRun], states: Sequence[SpotStates], tick: Floats, slack: Floats
) -> MarkovChain:
    """Return the chain of `runs` on their markets; `tick` (b,) hours, `slack` (b, points) hours, rising from 0."""
    ups = max(len(market.up.rates) for market in states)
    downs = max(len(market.down.rates) for market in states)
    count, m = len(runs), ups + downs
    column = (count, 1, 1)
    points, step = slack[:, None, :], tick.reshape(column)
    restart = np.array([run.restart_hours for run in runs]).reshape(column)
    most_lost = np.array([max_lost_hours(run) + run.hop_hours for run in runs]).reshape(column)
    debt = restart * np.array([progress_on_spot(run) for run in runs]).reshape(column)
    stalls = step * np.array([1 - progress_on_spot(run) for run in runs]).reshape(column)
    lost = np.array([mean_lost_work(*pair, ups) for pair in zip(runs, states, strict=True)])[:, :, None]
    zones = any(market.instant for market in states)
    ends = 2 if zones else 1
    spent = (*[points - step] * m, *[points] * m, *[points - stalls] * ups, *[points - stalls - lost] * ends)
    demand, spot = _rates(runs)
    beyond = np.repeat(np.maximum(restart - points, 0.0)[..., None] * demand[:, None, None, :], m, axis=1)
    beyond[..., DEMAND_STARTS] += 1.0
    wait_slack, spot_slack, start_slack = (
        hours - ROUNDING_HOURS for hours in required_slack(restart, most_lost, stalls, step)
    )
    return MarkovChain(
        ups=ups,
        downs=downs,
        tick=tick,
        slack=slack,
        mix=np.array(
            [_transition_matrix(market, hours, ups, downs, zones) for market, hours in zip(states, tick, strict=True)]
        ),
        spent=_interpolate(slack, np.concatenate(spent, axis=1)),
        cost=_tick_costs(runs, states, tick, ups, downs),
        started=_interpolate(slack, np.concatenate((*[points - restart] * m, *[points - debt] * ups), axis=1)),
        beyond=beyond,
        wait_barred=_barrier_cost(points < wait_slack),
        spot_barred=_barrier_cost(points < spot_slack),
        start_barred=_barrier_cost(points < start_slack),
        demand_rate=demand,
        spot_rate=spot,
        cheap_rate=np.where(spot[:, [USD]] < demand[:, [USD]], spot, demand),
        restart=restart[..., None],
        first=np.array([_initial_distribution(market, ups, downs) for market in states]),
    )


def mean_lost_work(run: SpotRun, states: SpotStates, ups: int) -> Floats:
    """Return the mean work lost by an interruption in each band of the up-time; shape (ups,)."""
    rates = states.up.rates
    lost = np.array([mean_lost_hours(run, rates[min(band, len(rates) - 1)]) for band in range(ups)])
    lost[0] -= early_refund(run, states)
    return lost + run.hop_hours


def _rates(runs: Sequence[SpotRun]) -> tuple[Floats, Floats]:
    """Return the counts of an hour of work on demand and on spot, shapes (runs, COUNTS)."""
    demand, spot = np.zeros((len(runs), COUNTS)), np.zeros((len(runs), COUNTS))
    for row, run in enumerate(runs):
        demand[row, [USD, FINISH, DEMAND_HOURS]] = run.on_demand_usd_per_hour + run.standing_usd_per_hour, 1, 1
        spot[row, [USD, FINISH, SPOT_HOURS]] = run.spot_usd_per_hour + run.standing_usd_per_hour, 1, 1
        spot[row] /= progress_on_spot(run)
    return demand, spot


def _tick_costs(runs: Sequence[SpotRun], states: Sequence[SpotStates], tick: Floats, ups: int, downs: int) -> Floats:
    """Return the counts of one tick of waiting, on demand and on spot; shape (runs, 2M + U, COUNTS)."""
    m = ups + downs
    cost = np.zeros((len(runs), 2 * m + ups, COUNTS))
    for row, (run, market, hours) in enumerate(zip(runs, states, tick, strict=True)):
        cost[row, :, USD] = run.standing_usd_per_hour * hours
        cost[row, :, FINISH] = hours
        cost[row, m : 2 * m, USD] += run.on_demand_usd_per_hour * hours
        cost[row, m : 2 * m, DEMAND_HOURS] = hours
        cost[row, 2 * m :, USD] += run.spot_usd_per_hour * hours
        cost[row, 2 * m :, SPOT_HOURS] = hours
        leave, _ = transition_probabilities(market.up, hours)
        cost[row, 2 * m : 2 * m + len(leave), INTERRUPTIONS] = leave
        cost[row, 2 * m : 2 * m + len(leave), USD] += leave * run.hop_usd
    return cost


def transition_probabilities(ages: Ages, tick: float) -> tuple[Floats, Floats]:
    """Return the chances to end, and to grow into the next band, in one tick; shapes (bands,).

    A tick longer than the mean time in a band leaves it with certainty: see `fastest_rate`.
    """
    leave = np.array(ages.rates) * tick
    older = np.array([ageing_rate(ages, band) for band in range(len(ages.rates))]) * tick
    certain = np.maximum(leave + older, 1.0)
    return leave / certain, older / certain


def _transition_matrix(states: SpotStates, tick: float, ups: int, downs: int, zones: bool) -> Floats:
    """Return the chances that lead from each row that comes out to the rows that are mixed.

    Shape (2M + U, 2M + 2U), or (2M + U, 2M + 3U) for `zones`.
    """
    m = ups + downs
    market = np.eye(m)
    lost = np.zeros(ups)
    for ages, first, other in ((states.up, 0, ups), (states.down, ups, 0)):
        leave, older = transition_probabilities(ages, tick)
        for band in range(len(leave)):
            here = first + band
            market[here, here] -= leave[band] + older[band]
            again = states.instant if other else 0.0
            market[here, other] += leave[band] * (1 - again)
            market[here, first] += leave[band] * again
            if other:
                lost[band] = leave[band]
            if band + 1 < len(leave):
                market[here, here + 1] += older[band]
    mix = np.zeros((2 * m + ups, 2 * m + (3 if zones else 2) * ups))
    mix[:m, :m] = market
    mix[m : 2 * m, m : 2 * m] = market
    survives = market[:ups, :ups].copy()
    survives[:, 0] -= lost * states.instant
    mix[2 * m :, 2 * m : 2 * m + ups] = survives
    mix[2 * m :, 2 * m + ups : 2 * m + 2 * ups] = np.diag(market[:ups, ups])
    if zones:
        mix[2 * m :, 2 * m + 2 * ups :] = np.diag(lost * states.instant)
    return mix


def _interpolate(slack: Floats, wanted: Floats) -> Interpolation:
    """Return where `wanted` (b, rows, points) lies on `slack` (b, points); beyond either end, that end."""
    low = np.empty(wanted.shape, np.int64)
    part = np.empty(wanted.shape)
    for axis, target, at, share in zip(slack, wanted, low, part, strict=True):
        at[:] = np.clip(np.searchsorted(axis, target, side="right") - 1, 0, len(axis) - 2)
        share[:] = np.clip((target - axis[at]) / (axis[at + 1] - axis[at]), 0.0, 1.0)
    return Interpolation(low, part)


def _barrier_cost(forbidden: Flags) -> Floats:
    return np.where(forbidden, BARRED, 0.0)


def _initial_distribution(states: SpotStates, ups: int, downs: int) -> Floats:
    """Return the chances of the market states at a random moment; shape (M,)."""
    up, down = states.shares()
    chances = np.zeros(ups + downs)
    chances[: len(up)] = up
    chances[ups : ups + len(down)] = down
    return chances


MAX_TICKS = 1600
"""Bound on the ticks of one pass; longer runs are computed as several shorter ones."""
MAX_RATE_PER_HOUR = 12.0
"""States that last less than five minutes on average are resolved only as far as ticks allow."""
CHANCE_PER_TICK = 1.0
"""Highest chance that the market leaves a state within one tick: beyond it a tick does not resolve the states."""
SLACK_POINTS = 96
"""Points of an axis that is dense near 0; with 256 ticks, within half a percent of a much finer grid (see tests)."""
WORKS_IN_TICKS = 9.0
"""A time of more works than this has more ticks, by the square root: the work is divided less finely, but enough."""
EVEN_FROM = 1.5
"""Works of slack from which the cells of the slack axis are as long as a tick."""
MOST_EVEN_TICKS = 512
"""Where a fast market needs more ticks, so many even cells would take too long, and matter less."""
EVEN_CELLS = 0.04
"""Cells and ticks differ by less, as a share, where they count as equally long."""
SLACK_CURVATURE = 0.5
"""Points of the slack axis are dense near 0 and thin out from this share of its length on."""
SAME_FIGURE = 1e-9
"""Relative: figures closer than this are one figure."""
AXIS_STEPS = 2.0**40
"""Shares of the slack axis are whole multiples of one over this: coarser than what processors disagree about."""


@dataclass(frozen=True)
class CurveRequest:
    """A run that must end within `guaranteed_hours`, and how finely it is computed."""

    run: SpotRun
    states: SpotStates
    guaranteed_hours: float

    @cached_property
    def slack_hours(self) -> float:
        """Return the guaranteed time minus the work."""
        return self.guaranteed_hours - self.run.work_hours

    @cached_property
    def parts(self) -> float:
        """Return the number of equal parts in which it is computed, 1 for all but very long runs.

        A run cut into parts, each with its own deadline and without memory of the market, is one policy for the
        whole run: hours and dollars of the best one are at most those of the parts together.
        """
        return max(1.0, self.resolving_ticks / MAX_TICKS)

    @cached_property
    def resolving_ticks(self) -> float:
        """Return the ticks that resolve the states of the market."""
        return self.guaranteed_hours * resolved_rate(self.states)

    @cached_property
    def part(self) -> CurveRequest:
        """Return one of the equal parts."""
        hours = self.run.work_hours / self.parts
        return CurveRequest(replace(self.run, work_hours=hours), self.states, self.guaranteed_hours / self.parts)


class Grid(NamedTuple):
    """How finely a pass is computed."""

    ticks: int
    points: int  # of the slack axis


class Fineness(NamedTuple):
    """Which grids a kind of passes has."""

    ticks: int  # of a time with little slack
    long_ticks: int  # with much, on even cells
    points: int = SLACK_POINTS  # of the slack axis, where its cells are not even
    most_ticks: int = MAX_TICKS  # from which on no more are taken


def grid_of(part: CurveRequest, fineness: Fineness, asked_ticks: float = math.inf) -> Grid:
    """Return the grid of a pass; short work and fast markets take more ticks.

    `asked_ticks` bounds those that a fast market does not need. The grid depends on the request alone: runs that are
    computed together must not move each other's figures. The numbers are few, because runs on one grid can be computed
    together: ticks by powers of sqrt(2), cells by a 32nd of them.
    0.5 h of work within 16.6 h, of which 0.1 h is a restart, are 33 works: 181 ticks become 362, which are 11 for the
    work, and the slack of 16 h beyond the restart has 349 cells, rounded to 352.
    """
    hours, run, most = part.guaranteed_hours, part.run, fineness.most_ticks / math.sqrt(2)
    beyond = part.slack_hours - run.restart_hours
    long = beyond >= EVEN_FROM * run.work_hours
    by_work = float(fineness.long_ticks if long else fineness.ticks)
    finer = math.sqrt((hours - run.restart_hours) / run.work_hours / WORKS_IN_TICKS) * by_work
    while long and by_work < finer * (1 - SAME_FIGURE) and by_work <= most:
        by_work *= math.sqrt(2)
    ticks = by_work = min(by_work, asked_ticks)
    while ticks < min(part.resolving_ticks * (1 - SAME_FIGURE), fineness.most_ticks):
        ticks *= math.sqrt(2)
    if not long or ticks > max(by_work, MOST_EVEN_TICKS):
        return Grid(round(ticks), fineness.points)
    step = max(1, round(ticks / 32))
    cells = max(1, round(ticks * beyond / hours / step)) * step
    return Grid(round(ticks), cells + len(_start_of_axis(run.restart_hours, part.slack_hours)) + 1)


def resolved_rate(states: SpotStates) -> float:
    """Return the ticks per hour that resolve the states of a market; 0 for one that never changes."""
    return min(fastest_rate(states), MAX_RATE_PER_HOUR) / CHANCE_PER_TICK


def check_run(run: SpotRun, longest_hours: float) -> None:
    """Raise ValueError where nothing can be guaranteed: no on-demand machines, no work, or too little time for it."""
    if not math.isfinite(run.on_demand_usd_per_hour):
        raise ValueError("no deadline can be guaranteed without on-demand machines")
    if not (run.work_hours > 0 and math.isfinite(run.work_hours)):
        raise ValueError(f"hours of work must be positive, not {run.work_hours:g}")
    if run.restart_hours < 0 or run.stall_hours < 0 or run.interval_hours < 0:
        raise ValueError("hours of restarts, stalls and intervals must not be negative")
    if run.interval_hours == 0 and run.stall_hours > 0:
        raise ValueError("checkpoints that stall need a positive interval between them")
    needed = run.work_hours + run.restart_hours
    if not longest_hours >= needed * (1 - 1e-12):
        raise ValueError(f"{longest_hours:g} h are less than the {needed:g} h that the work takes on demand")


def build_chain_for(requests: Sequence[CurveRequest], grid: Grid) -> MarkovChain:
    """Return the chain of several runs, each with its guaranteed time divided into the ticks of the grid."""
    hours = np.array([request.guaranteed_hours for request in requests])
    slack = np.array([slack_axis(request, grid) for request in requests])
    return build_markov_chain(
        [request.run for request in requests], [request.states for request in requests], hours / grid.ticks, slack
    )


def slack_axis(request: CurveRequest, grid: Grid) -> Floats:
    """Return the slack axis of a pass for a request, hours, shape (points,)."""
    # The points of an axis must differ, even where the time allows on demand only.
    restart = request.run.restart_hours
    most = max(request.slack_hours, restart + 1e-6 * request.guaranteed_hours)
    return slack_points(restart, most, grid.points, request.guaranteed_hours / grid.ticks)


def slack_points(restart_hours: float, most_hours: float, points: int, tick_hours: float) -> Floats:
    """Return slack in hours, rising from 0, shape (points,), with a point at the restart.

    Even cells beyond it where they are as long as a tick: then a tick of waiting leads from point to point. Between two
    points the dollars are interpolated, tick after tick, and over a long wait such errors add up (0.97 h of
    work within 24 h, outages of 14.5 h: 22 % of the dollars). Other axes are dense near the guard.
    The last point is `most_hours`, to the last bit.
    """
    first = _start_of_axis(restart_hours, most_hours)
    cells = points - len(first) - 1
    even = abs((most_hours - restart_hours) / (cells * tick_hours) - 1) < EVEN_CELLS
    shares = np.arange(cells + 1) / cells if even else _axis_shares(cells + 1)
    rest = restart_hours + (most_hours - restart_hours) * shares
    return np.array([*first, *rest[:-1], most_hours])


def _start_of_axis(restart_hours: float, most_hours: float) -> list[float]:
    """Return the points of an axis before the restart: 0, if that is another one."""
    return [0.0] if restart_hours > SAME_FIGURE * most_hours else []  # two points must differ


@lru_cache
def _axis_shares(points: int) -> Floats:
    """Return the shares of an axis, from 0 to exactly 1, shape (points,): the same on every machine.

    The last bit of a hyperbolic sine depends on the processor. On an axis that ends a bit too early some work seems to
    be left at its last point, and a tie between two actions ends the other way.
    """
    rest = SLACK_CURVATURE * np.sinh(np.linspace(0.0, math.asinh(1 / SLACK_CURVATURE), points))
    return np.asarray(np.rint(rest / rest[-1] * AXIS_STEPS) / AXIS_STEPS, dtype=float)
