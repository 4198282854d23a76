"""Backward induction: from the deadline to the start, the cheapest action in every state of a chain.

At the deadline nothing is left to pay. One tick earlier the value of an action is the cost of that tick plus the mean,
over the states that the tick leads to, of the value reached before; the cheapest action that the guard allows gives
the value of the state. Slack is continuous, so a tick leads between two points of its axis and the value is
interpolated linearly. The rows of all states and runs lie in one flat array (COUNTS, b * rows * slack): where they
lead is computed once for the chain, and a tick is then two gathers, one product with the matrix of market transitions
and the comparison of the actions. Counts other than dollars follow the chosen action. Each count is an array of its
own, because numpy is several times slower where it repeats a factor for every eight numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.spot.policy.markov_chain import ALL_COUNTS, MEANS, USD, VARIANCES
from planner.spot.policy.run import Action
from planner.spot.policy.stretches import Between, StretchedPass

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.spot.policy.markov_chain import MarkovChain

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
        self._ends = [one[..., None] for one in ends]  # (b, U, 1): machines lost, those with another zone at once
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
