"""Backward induction in stretches, from the deadline to the start: the cheapest action, or its dollars alone.

At the deadline nothing is left to pay. One tick earlier the value of an action is the cost of that tick plus the mean,
over the states that the tick leads to, of the value reached before; the cheapest action that the guard allows gives
the value of the state. Slack is continuous, so a tick leads between two points of its axis and the value is
interpolated linearly. The rows of all states and runs lie in one flat array (COUNTS, b * rows * slack): where they
lead is computed once for the chain, and a tick is then two gathers, one product with the matrix of market transitions
and the comparison of the actions. Counts other than dollars follow the chosen action. Each count is an array of its
own, because numpy is several times slower where it repeats a factor for every eight numbers.

Dollars alone take a tenth of the time, on the same grid, with the same actions and the same result.
A search compares many candidates in dollars, and the others of the counts are computed for those it keeps.

Most candidates need no pass, because `usd_bound` is more than another costs. It holds for the chain of a pass. With w
hours of work left let Phi be c w while machines run, and c w + r R with nothing running: r is the spot price over the
progress, R the work that a start takes. Phi is no more than the dollars of a tick plus the mean of Phi after it, if c
is at most the price on demand and, for each band of the up-time, which ends at rate q and loses L hours of work,

    c <= (spot + q (move + r R)) / (progress - q L).

So no policy costs less than Phi, and two facts raise the bound. A start on spot needs slack: where the grid has too
little of it from the beginning, all work is on demand. And while the market is down from the beginning, waiting takes
slack: what an outage lasts beyond the slack that may be spent is worked on demand, at its price and not at c, after a
start on demand. A pass on too coarse a grid may err to below the bound: where starts take longer than machines mostly
last, and nothing is saved on spot, or thrice as long as the work.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.markov_chain import (
    ALL_COUNTS,
    COUNTS,
    DOLLARS,
    MEANS,
    USD,
    VARIANCES,
    CurveRequest,
    Grid,
    Interpolation,
    MarkovChain,
    build_chain_for,
    mean_lost_work,
    slack_axis,
    transition_probabilities,
)
from planner.spot.run import ROUNDING_HOURS, Action, SpotRun, max_lost_hours, progress_on_spot, required_slack
from planner.spot.states import SpotStates
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Sequence


# Stretches of a backward pass: few points of slack matter shortly before the end, more and more before that.
#
# Where the slack exceeds the time left the work is done, and what is left to pay is known. So a pass begins on the
# first points of its axis and takes in the others as the time left grows. The figures are those of the whole axis.


WIDER_BY = 16
"""Points of slack that a stretch takes in more than the one before."""


def stretches(chain: MarkovChain, least: int = 0) -> list[tuple[float, int]]:
    """Return the last tick of each stretch of a pass, and how many points of slack it needs, at least `least`.

    Needed is every point at which work may be left one tick later, and every point that such a point leads to. The
    tick in between is for who interpolates between two ticks.
    """
    points = chain.slack.shape[1]
    reach = _reach(chain.spent, points)[_reach(chain.started, points) - 1]
    ends: list[tuple[float, int]] = []
    for width in range(max(WIDER_BY, least), points, WIDER_BY):
        right = min(int(np.searchsorted(reach, width, side="right")), width - 1)
        last = float(np.min(np.floor(chain.slack[:, right] / chain.tick * (1 - 1e-9)))) - 1
        if right and last > (ends[-1][0] if ends else 0):
            ends.append((last, width))
    return [*ends, (np.inf, points)]


def _reach(lerp: Interpolation, points: int) -> Integers:
    """Return how many points of the axis the points up to each one (points,) lead to, itself included."""
    to = np.maximum(lerp.low.max(axis=(0, 1)) + 2, np.arange(1, points + 1))
    return np.asarray(np.minimum(np.maximum.accumulate(to), points))


def narrowed(chain: MarkovChain, width: int) -> MarkovChain:
    """Return the chain on the first points of its axis."""
    if width == chain.slack.shape[1]:
        return chain
    spent, started = (
        Interpolation(
            np.minimum(interpolation.low[..., :width], width - 2), np.ascontiguousarray(interpolation.part[..., :width])
        )
        for interpolation in (chain.spent, chain.started)
    )
    return replace(
        chain,
        slack=chain.slack[:, :width],
        spent=spent,
        started=started,
        beyond=np.ascontiguousarray(chain.beyond[:, :, :width]),
        wait_barred=chain.wait_barred[..., :width],
        spot_barred=chain.spot_barred[..., :width],
        start_barred=chain.start_barred[..., :width],
    )


class Between:
    """Values between neighbours on the slack axis, at fixed places."""

    def __init__(self, lerp: Interpolation, sources: list[int], rows: int, counts: int) -> None:
        """Prepare the places; `sources` are the rows (of `rows`) that the rows of the interpolation read."""
        batch, _, points = lerp.low.shape
        row = np.arange(batch)[:, None, None] * rows + np.array(sources)[None, :, None]
        low = np.arange(counts)[:, None, None, None] * (batch * rows * points) + row * points + lerp.low
        self._places: Integers = np.stack([low, low + 1])
        self._part = lerp.part
        # Two whole arrays: numpy takes thrice as long where the rows of an array of few runs do not follow each other.
        self._ends = np.empty(self._places.shape)
        self.values: Floats = self._ends[0]
        self._upper = self._ends[1]

    def of(self, values: Floats) -> Floats:
        """Return the values between those of (counts, b, rows, slack); the array is that of the next call."""
        # No place lies outside; "clip" spares the copy that a check needs.
        values.reshape(-1).take(self._places, out=self._ends, mode="clip")
        self._upper -= self.values
        self._upper *= self._part
        self.values += self._upper
        return self.values


class StretchedPass:
    """A pass over a chain in stretches; `values` (counts, b, 2M + U, slack) are those at the time reached.

    `chain` is that of the present stretch. `counts` selects what is carried.
    """

    def __init__(self, chain: MarkovChain, counts: slice, least: int = 0) -> None:
        self._whole, self.counts, self.ticks = chain, counts, 0
        self._coming = stretches(chain, least)
        self.rows = 2 * chain.states + chain.ups
        self.hours_left = np.zeros(len(chain.slack))
        self.values: Floats = np.zeros((len(range(COUNTS)[counts]), len(chain.slack), self.rows, 0))
        self._widen()

    def prepare(self) -> None:
        """Prepare the arrays of a stretch."""
        raise NotImplementedError

    def begin_tick(self) -> None:
        """Move the time left by one tick; take in more points where the next stretch begins."""
        self.ticks += 1
        if self.ticks > self._last:
            self._widen()
        self.hours_left = self.hours_left + self._whole.tick

    def _widen(self) -> None:
        self._last, width = self._coming.pop(0)
        self.chain = chain = narrowed(self._whole, width)
        m, ups = chain.states, chain.ups
        blocks = ((chain.cheap_rate, m), (chain.demand_rate, m), (chain.spot_rate, ups))
        rates = np.concatenate([np.repeat(rate[:, None], rows, axis=1) for rate, rows in blocks], axis=1)
        self._rates = np.moveaxis(rates[..., self.counts], -1, 0)[..., None].copy()
        begun = np.zeros((len(chain.slack), self.rows, 1))
        begun[:, :m] = chain.restart[..., 0]
        self._settled = (begun - chain.slack[:, None]) * self._rates
        # The first tick at which no run is done at a point.
        self._done_until: list[float] = (chain.slack / chain.tick[:, None] * (1 + 1e-9)).max(axis=0).tolist()
        known = self.values
        self.values = self._settled + self.hours_left[:, None, None] * self._rates
        self.values[..., : known.shape[-1]] = known
        self.prepare()

    def settle(self) -> None:
        """Set the values where no work is left: a tick that ends after the work is refunded at its rate.

        Where nothing runs there is nothing to refund. These states are neighbours in the interpolation of states with
        work left, so they continue the line on which those lie: a start, and the work at the cheaper rate.
        """
        begin = bisect_left(self._done_until, self.ticks)
        if begin < len(self._done_until):
            done = self.chain.slack[:, None, begin:] >= self.hours_left[:, None, None]
            owed = self._settled[..., begin:] + self.hours_left[:, None, None] * self._rates
            np.copyto(self.values[..., begin:], owed, where=done)


TIE_FACTOR = 1 - 1e-12
"""A smaller relative saving is a tie, which on demand wins, so that ties end alike on every machine."""
WAIT_FACTOR = 1 - 1e-7
"""A smaller relative saving is no reason to wait while spot machines are there: the grid errs by more."""


class TimeSlice(NamedTuple):
    """All states at one time left; the arrays of counts are those of the next step, too.

    `counts` (counts, b, 2M + U, slack): the rest of the run under the best policy. With nothing running, `waits`
    (b, M, slack): nothing is started, `takes_spot` (b, U, slack): spot is, whatever `waits` says.
    `leaves_demand` (b, M, slack), `leaves_spot` (b, U, slack): whether what runs is given up for that.
    """

    hours_left: Floats  # (b,)
    counts: Floats
    waits: Flags
    takes_spot: Flags
    leaves_demand: Flags
    leaves_spot: Flags

    @property
    def idle(self) -> Integers:
        """Return the action with nothing running, (b, M, slack)."""
        actions = np.where(self.waits, Action.WAIT, Action.ON_DEMAND)
        actions[:, : self.takes_spot.shape[1]][self.takes_spot] = Action.SPOT
        return actions


class BackwardInduction(StretchedPass):
    """Steps backward in time over a chain."""

    def __init__(self, chain: MarkovChain, least: int = 0, counts: slice = ALL_COUNTS) -> None:
        """Begin at the end; `counts` are all, `FIGURES`, or `DOLLARS`."""
        super().__init__(chain, counts, least)

    def prepare(self) -> None:
        """Make the arrays of a stretch, and the parts of them that a tick names."""
        chain, counts, (m, ups) = self.chain, self.counts, (self.chain.states, self.chain.ups)
        number = len(self.values)
        self._spent = Between(chain.spent, chain.spent_rows, self.rows, number)
        self._started = Between(chain.started, list(range(m, self.rows)), self.rows, number)
        self._cost = np.moveaxis(chain.cost, -1, 0)[counts, ..., None].copy()
        self._beyond = np.moveaxis(chain.beyond, -1, 0)[counts].copy()
        values, start = self.values, self._started.values
        self._idle, self._idle_up = values[:, :, :m], values[:, :, :ups]
        self._demand, self._spot = values[:, :, m : 2 * m], values[:, :, 2 * m :]
        self._start_demand, self._start_spot = start[:, :, :m], start[:, :, m:]
        self._spread = number > VARIANCES.start

    def step(self) -> TimeSlice:
        """Move one tick back in time and return the states there."""
        keep_going()
        self.begin_tick()
        chain, ups = self.chain, self.chain.ups
        self._move_by_tick()
        self.start()
        self._start_demand += self._beyond
        wait = self._idle[USD] + chain.wait_barred
        demand = self._start_demand[USD] * TIE_FACTOR
        spot = self._start_spot[USD] + chain.start_barred
        waits = wait < demand
        takes_spot = (spot < demand[:, :ups]) & (spot * WAIT_FACTOR <= wait[:, :ups])
        np.copyto(self._idle, self._start_demand, where=~waits)
        np.copyto(self._idle_up, self._start_spot, where=takes_spot)
        leaves_demand = self._idle[USD] < self._demand[USD] * TIE_FACTOR
        leaves_spot = self._idle_up[USD] * TIE_FACTOR <= self._spot[USD] + chain.spot_barred
        np.copyto(self._demand, self._idle, where=leaves_demand)
        np.copyto(self._spot, self._idle_up, where=leaves_spot)
        self.settle()
        return TimeSlice(self.hours_left, self.values, waits, takes_spot, leaves_demand, leaves_spot)

    def start(self) -> None:
        """Set the counts after a start of either kind, which `_start_demand` and `_start_spot` are parts of."""
        self._started.of(self.values)

    def _move_by_tick(self) -> None:
        """Set the counts of one tick of each kind followed by the best policy; shape (counts, b, 2M + U, slack).

        A variance is the mean of the variances that the tick leads to plus the spread of their means. Between points
        of the slack axis variances are interpolated directly; second moments would add a spread of the grid's own.
        """
        rows, values = self._spent.of(self.values), self.values
        if self._spread:
            rows[VARIANCES] += np.square(rows[MEANS])
        np.matmul(self.chain.mix, rows, out=values)
        if self._spread:
            values[VARIANCES] -= np.square(values[MEANS])
        values += self._cost


class FollowedInduction(BackwardInduction):
    """The pass that finds a policy to follow: what is lost in the first tick of a start is that tick, not the restart.

    A chain charges a restart at once, and refunds what losses leave undone of it over all losses of young machines.
    That makes it worth a tick of waiting to see whether a young zone survives it, where there is another zone to start
    in after a loss: a start that is lost within its first tick would leave no slack for another one. In truth it costs
    as much slack as the tick that was waited. Where a tick is no shorter than the restart the chain is right. Prices
    are those of the chain as it is: a pass for them takes less time. Dollars only.
    """

    def prepare(self) -> None:
        """Make the arrays of a stretch."""
        super().prepare()
        chain, m, ups = self.chain, self.chain.states, self.chain.ups
        short = chain.tick < chain.restart[:, 0, 0, 0]
        self._any_short = bool(short.any())
        self._lost = lost = chain.mix[:, 2 * m :, 2 * m + ups :] * short[:, None, None]
        ends = [np.diagonal(lost[..., at : at + ups], axis1=1, axis2=2) for at in range(0, lost.shape[2], ups)]
        self._ends = [end[..., None] for end in ends]  # (b, U, 1): machines lost, those with another zone at once
        self._begins = [ups, 0]
        self._kept = np.empty_like(self.values)

    def start(self) -> None:
        """Set the values after a start; what is lost in the first tick on spot leaves the slack of a tick less."""
        if not self._any_short:
            super().start()
            return
        m = self.chain.states
        rows = self._spent.values
        np.copyto(self._kept, self.values)
        self._kept[:, :, 2 * m :] -= np.matmul(self._lost, rows[:, :, 2 * m + self.chain.ups :])
        self._started.of(self._kept)
        for chance, begin in zip(self._ends, self._begins, strict=False):
            self._start_spot += chance * rows[:, :, begin : begin + 1]


# What a run costs from its start: one backward pass answers every guaranteed time up to its horizon.


TICK_ROUNDING = 1e-9
"""Of a tick: a time this close to a tick is that tick."""


@dataclass(frozen=True)
class StartTable:
    """Figures of a run that starts with nothing running, at a random moment of its market.

    `values` (ticks, points, ...) belong to one of the equal parts of the run, after each tick of the pass and at the
    points of the slack axis from `begin` (ticks,) on that the work of the run leaves within a tick of it.
    """

    request: CurveRequest  # its hours are the horizon
    tick: float  # hours
    slack: Floats  # hours
    begin: Integers
    values: Floats

    def hours(self) -> Floats:
        """Return the guaranteed times (k,) of whole ticks that leave slack for a restart."""
        part = self.request.part
        hours = np.arange(1, len(self.values) + 1) * self.tick
        enough = hours - part.run.work_hours > part.run.restart_hours * (1 + TICK_ROUNDING)
        return np.asarray(hours[enough] * self.request.parts)

    def hours_in(self, begin: float, end: float) -> Floats:
        """Return the guaranteed times (k,) of whole ticks after `begin` and before `end`, and `end`."""
        hours = self.hours()
        return np.append(hours[(hours > begin * (1 + TICK_ROUNDING)) & (hours < end * (1 - TICK_ROUNDING))], end)

    def at(self, hours: Floats) -> Floats:
        """Return the figures of the whole run (k, ...) within guaranteed times (k,).

        Interpolated linearly between ticks at the slack that the time leaves, and between points of the slack axis.
        """
        part = self.request.part
        left = np.asarray(hours) / self.request.parts
        slack = np.clip(left - part.run.work_hours, 0.0, self.slack[-1])
        ticks = np.clip(left / self.tick - 1, 0, len(self.values) - 1)
        early = np.floor(ticks + TICK_ROUNDING).astype(np.int64)
        late = np.minimum(early + 1, len(self.values) - 1)
        low = np.clip(np.searchsorted(self.slack, slack, side="right") - 1, 0, len(self.slack) - 2)
        more = (slack - self.slack[low]) / (self.slack[low + 1] - self.slack[low])
        shape = (-1, *[1] * (self.values.ndim - 2))
        later, more = np.maximum(ticks - early, 0.0).reshape(shape), more.reshape(shape)
        ends = [
            self.values[tick, at] + more * (self.values[tick, at + 1] - self.values[tick, at])
            for tick, at in ((early, low - self.begin[early]), (late, low - self.begin[late]))
        ]
        return np.asarray((ends[0] + later * (ends[1] - ends[0])) * self.request.parts)


class StartRecord:
    """What a pass for several runs tells of their starts: values (ticks, counts, b, M, points) with nothing running.

    Kept are the points of the slack axis that a time between two ticks may lie between; the work leaves no others.
    """

    def __init__(self, requests: Sequence[CurveRequest], chain: MarkovChain, ticks: int) -> None:
        self.requests, self.chain, self.ticks = requests, chain, ticks
        works = np.array([request.part.run.work_hours for request in requests])
        left = np.arange(ticks + 2) * chain.tick[:, None] - works[:, None]
        low = np.array(
            [np.searchsorted(axis, times, side="right") for axis, times in zip(chain.slack, left, strict=True)]
        )
        points = chain.slack.shape[1]
        # One point more on either side, because rounding may move a time beyond a point.
        self.begin: Integers = np.clip(low[:, :-2] - 2, 0, points - 2)
        ends = np.clip(low[:, 2:] + 2, 2, points)
        self.width = int(np.max(ends - self.begin))
        self.values = np.empty((0,))
        self._added, self._known_width = 0, 0
        self._place: Integers = self.begin

    def add(self, values: Floats) -> None:
        """Take the next tick from the values (counts, b, rows, slack) that a pass has reached."""
        counts, batch, rows, width = values.shape
        if not self._added:
            self.values = np.empty((self.ticks, counts, batch, self.chain.states, self.width))
        first = self.begin[:, self._added] = np.minimum(self.begin[:, self._added], width - self.width)
        if width != self._known_width:
            row = np.arange(batch)[:, None] * rows + np.arange(self.chain.states)
            self._known_width, self._place = width, (row * width)[..., None] + np.arange(self.width)
        place = self._place + first[:, None, None]
        values.reshape(counts, -1).take(place, axis=1, out=self.values[self._added], mode="clip")
        self._added += 1

    def tables(self, values: Floats) -> list[StartTable]:
        """Return the tables of the runs, from their values (b, ticks, points, ...)."""
        runs = zip(self.requests, self.chain.tick.tolist(), self.chain.slack, self.begin, values, strict=True)
        return [StartTable(*columns) for columns in runs]


BOUND_MARGIN = 0.998
"""What a pass interpolates on its slack axis moves dollars: by less than 0.001 in thousands of runs drawn at random."""


class DollarInduction(StretchedPass):
    """Steps backward in time over a chain; `values` (1, b, 2M + U, slack) is the cost of the rest at the time reached.

    Rows as in `MarkovChain`. All arrays are made once for a stretch: a tick writes into them.
    """

    def __init__(self, chain: MarkovChain, least: int = 0) -> None:
        super().__init__(chain, DOLLARS, least)

    def prepare(self) -> None:
        """Make the arrays of a stretch, and the parts of them that a tick names."""
        chain, usd = self.chain, self.values[0]
        m, ups, (batch, points) = chain.states, chain.ups, chain.slack.shape
        self._spent = Between(chain.spent, chain.spent_rows, self.rows, 1)
        self._started = Between(chain.started, list(range(m, self.rows)), self.rows, 1)
        cost = np.repeat(chain.cost[:, :, None, USD], points, axis=2)
        cost[:, :m] += chain.wait_barred
        self._cost, self._spot_barred = cost, chain.spot_barred
        barred = np.broadcast_to(chain.start_barred, (batch, ups, points))
        self._at_start = np.concatenate([chain.beyond[..., USD], barred], axis=1)
        self._after = np.empty((1, batch, self.rows, points))
        after, start = self._after[0], self._started.values[0]
        self._wait, self._demand, self._spot = after[:, :m], after[:, m : 2 * m], after[:, 2 * m :]
        self._start_demand, self._start_spot = start[:, :m], start[:, m:]
        self._idle, self._idle_up = usd[:, :m], usd[:, :ups]
        self._on_demand, self._on_spot = usd[:, m : 2 * m], usd[:, 2 * m :]

    def step(self) -> None:
        """Move one tick back in time."""
        self.begin_tick()
        np.matmul(self.chain.mix, self._spent.of(self.values), out=self._after)
        self._after += self._cost
        start = self._started.of(self._after)
        start += self._at_start
        self._spot += self._spot_barred
        np.minimum(self._wait, self._start_demand, out=self._idle)
        np.minimum(self._idle_up, self._start_spot, out=self._idle_up)
        np.minimum(self._demand, self._idle, out=self._on_demand)
        np.minimum(self._spot, self._idle_up, out=self._on_spot)
        self.settle()


def usd_tables(requests: Sequence[CurveRequest], grid: Grid) -> list[StartTable]:
    """Return the least mean dollars (ticks, slack) of each run, for every guaranteed time up to its own."""
    chain = build_chain_for([request.part for request in requests], grid)
    record = StartRecord(requests, chain, grid.ticks)
    induction = DollarInduction(chain, record.width)
    for _ in range(grid.ticks):
        induction.step()
        record.add(induction.values)
    usd: Floats = np.einsum("bm,tkbms->kbts", chain.first, record.values)[0]
    return record.tables(usd)


def usd_bound(request: CurveRequest, grid: Grid, guaranteed_hours: float) -> float:
    """Return dollars below which no policy on spot within a guaranteed time stays, on the grid of `usd_tables`.

    inf where the time allows no start on spot.
    `request` has the horizon of the pass, which is no less than the guaranteed time. 2 h of work at 1 $/h on spot that
    nothing interrupts, and a start of 0.1 h: 2.1 dollars, less the margin.
    """
    return DollarBound.of(request, grid).within(guaranteed_hours)


@dataclass(frozen=True)
class DollarBound:
    """What the bounds of all guaranteed times of one pass share; the figures are those of one part of the run."""

    request: CurveRequest
    tick: float  # hours
    usd_per_hour: float  # of work on spot, at least
    least_usd: float  # whatever the time
    useless: float  # hours of slack up to which no start on spot is allowed
    cell: float  # hours from there to the next point of slack

    @classmethod
    def of(cls, request: CurveRequest, grid: Grid) -> DollarBound:
        """Return the bound of a request, whose hours are the horizon of the pass."""
        run, states, tick = request.part.run, request.states, request.part.guaranteed_hours / grid.ticks
        per_hour = _least_usd_per_hour(run, states, tick)
        start = run.restart_hours * progress_on_spot(run)
        least = per_hour * run.work_hours + run.spot_usd_per_hour * run.restart_hours
        least += run.standing_usd_per_hour * (run.work_hours + start)
        return cls(request, tick, per_hour, least, *_useless_slack(request.part, grid))

    @cached_property
    def beyond(self) -> Floats:
        """Return mean dollars (n,) above the least by the ticks that waiting for the end of an outage may take."""
        run = self.request.part.run
        down = _still_down(
            self.request.states, self.tick, math.ceil(self.request.part.guaranteed_hours / self.tick) + 1
        )
        # What a tick on demand costs more, added up over the ticks that the work would take there.
        more = np.cumsum(np.append(0.0, down)) * (run.on_demand_usd_per_hour - self.usd_per_hour) * self.tick
        work = int(run.work_hours / self.tick)
        waits = np.arange(len(down) - work)
        # The start on demand counts only where the slack is a point below what spot needs: the pass interpolates.
        start = max(run.on_demand_usd_per_hour - run.spot_usd_per_hour, 0.0) * run.restart_hours
        started = down[np.minimum(waits + math.ceil(self.cell / self.tick) + 1, len(down) - 1)] * start
        return np.asarray(more[waits + work] - more[waits] + started)

    def within(self, guaranteed_hours: float) -> float:
        """Return dollars below which no policy within a guaranteed time stays; inf where it allows on demand only."""
        parts, run = self.request.parts, self.request.part.run
        spare = guaranteed_hours / parts - run.work_hours - self.useless
        if spare <= 0:
            return math.inf
        beyond = float(self.beyond[min(math.ceil(spare / self.tick) + 1, len(self.beyond) - 1)])
        return BOUND_MARGIN * parts * min(self.least_usd + beyond, run.on_demand_usd)


def _useless_slack(part: CurveRequest, grid: Grid) -> tuple[float, float]:
    """Return the last point of slack at which no start on spot is allowed, and the hours to the next point."""
    run, tick = part.run, part.guaranteed_hours / grid.ticks
    stalls = tick * (1 - progress_on_spot(run))
    *_, needed = required_slack(run.restart_hours, max_lost_hours(run) + run.hop_hours, stalls, tick)
    axis = slack_axis(part, grid)
    last = max(int(np.searchsorted(axis, needed - ROUNDING_HOURS)) - 1, 0)
    return float(axis[last]), float(axis[min(last + 1, len(axis) - 1)] - axis[last])


def _still_down(states: SpotStates, tick: float, ticks: int) -> Floats:
    """Return the chance that the market is down at the start and for each number of ticks after it, shape (ticks,)."""
    leave, older = transition_probabilities(states.down, tick)
    stays = np.diag(1 - leave - older) + np.diag(older[:-1], 1)
    shares = states.shares()[1][None, :]
    while len(shares) < ticks:  # twice as many ticks each time
        shares, stays = np.concatenate([shares, shares @ stays]), stays @ stays
    return np.asarray(shares[:ticks].sum(axis=1))


def _least_usd_per_hour(run: SpotRun, states: SpotStates, tick: float) -> float:
    """Return dollars that an hour of work costs at least: in the best band of the up-time, with what is lost there."""
    progress, spot = progress_on_spot(run), run.spot_usd_per_hour
    leave, _ = transition_probabilities(states.up, tick)
    again = run.hop_usd + spot * run.restart_hours
    least = run.on_demand_usd_per_hour
    for rate, lost in zip((leave / tick).tolist(), mean_lost_work(run, states, len(leave)).tolist(), strict=True):
        if progress > rate * lost:
            least = min(least, (spot + rate * again) / (progress - rate * lost))
    return least
