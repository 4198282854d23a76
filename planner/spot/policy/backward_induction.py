"""Backward induction in stretches: from the deadline to the start, the cheapest action in every state.

At the deadline nothing is left to pay. One tick earlier the value of an action is the cost of that tick plus the mean,
over the states that the tick leads to, of the value reached before; the cheapest action that the guard allows gives
the value of the state. Slack is continuous, so a tick leads between two points of its axis and the value is
interpolated linearly. The rows of all states and runs lie in one flat array (COUNTS, b * rows * slack): where they
lead is computed once for the chain, and a tick is then two gathers, one product with the matrix of market transitions
and the comparison of the actions. Counts other than dollars follow the chosen action. Each count is an array of its
own, because numpy is several times slower where it repeats a factor for every eight numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.policy.markov_chain import ALL_COUNTS, COUNTS, MEANS, USD, VARIANCES, Interpolation, MarkovChain
from planner.spot.policy.run import Action
from planner.watch import keep_going

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
    found: list[tuple[float, int]] = []
    for width in range(max(WIDER_BY, least), points, WIDER_BY):
        right = min(int(np.searchsorted(reach, width, side="right")), width - 1)
        last = float(np.min(np.floor(chain.slack[:, right] / chain.tick * (1 - 1e-9)))) - 1
        if right and last > (found[-1][0] if found else 0):
            found.append((last, width))
    return [*found, (np.inf, points)]


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
        each = ((chain.cheap_rate, m), (chain.demand_rate, m), (chain.spot_rate, ups))
        rates = np.concatenate([np.repeat(rate[:, None], rows, axis=1) for rate, rows in each], axis=1)
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
        found = np.where(self.waits, Action.WAIT, Action.ON_DEMAND)
        found[:, : self.takes_spot.shape[1]][self.takes_spot] = Action.SPOT
        return found


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
