"""Backward induction: from the deadline to the start, the cheapest action in every state of a chain.

At the deadline nothing is left to pay. One tick earlier the value of an action is the cost of that tick plus the mean,
over the states that the tick leads to, of the value reached before; the cheapest action that the guard allows gives
the value of the state. Slack is continuous, so a tick leads between two points of its axis and the value is
interpolated linearly. The rows of all states and runs lie in one flat array (b * rows * slack, COUNTS): where they
lead is computed once for the chain, and a tick is then two gathers, one product with the matrix of market transitions
and the comparison of the actions. Counts other than dollars follow the chosen action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.markov_chain import COUNTS, MEANS, USD, VARIANCES, Interpolation, MarkovChain
from planner.spot.policy.run import Action

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

TIE_FACTOR = 1 - 1e-12
"""A smaller relative saving is a tie, which on demand wins, so that ties end alike on every machine."""
WAIT_FACTOR = 1 - 1e-7
"""A smaller relative saving is no reason to wait while spot machines are there: the grid errs by more."""


@dataclass
class TimeSlice:
    """All states at one time left.

    `counts` (b, 2M + U, slack, COUNTS): the rest of the run under the best policy. `idle` (b, M, slack): the action
    with nothing running. `leaves_demand` (b, M, slack), `leaves_spot` (b, U, slack): whether what runs is given up for
    that action.
    """

    hours_left: Floats  # (b,)
    counts: Floats
    idle: Integers
    leaves_demand: Flags
    leaves_spot: Flags


class BackwardInduction:
    """Steps backward in time over a chain; `now` is the time that was reached."""

    def __init__(self, chain: MarkovChain) -> None:
        self.chain = chain
        batch, points = chain.slack.shape
        m, ups = chain.states, chain.ups
        self.rows = 2 * m + ups
        self._spent_low, self._spent_part = self._flat(chain.spent, chain.spent_rows)
        starts = [*range(m, 2 * m), *range(2 * m, 2 * m + ups)]
        start_low, start_part = self._flat(chain.started, starts)
        self._start_low, self._start_part = start_low, start_part[..., 0]
        self._choices = self._choice_tables(start_low, self._start_part)
        self._cells = np.arange(batch * m * points).reshape(batch, m, points)
        self._cost = chain.cost[:, :, None, :]
        self.now = self._end()

    def _flat(self, lerp: Interpolation, sources: list[int]) -> tuple[Integers, Floats]:
        """Return row numbers in (b * rows * slack, COUNTS) of the lower neighbours, and the share of the upper ones."""
        batch, _, points = lerp.low.shape
        rows = np.arange(batch)[:, None, None] * self.rows + np.array(sources)[None, :, None]
        return rows * points + lerp.low, lerp.part[..., None]

    def _choice_tables(self, start_low: Integers, start_part: Floats) -> tuple[Integers, Floats]:
        """Return where the counts of each action lie for each idle state; shapes (3, b, M, slack), flat."""
        batch, points = self.chain.slack.shape
        m, ups = self.chain.states, self.chain.ups
        low = np.empty((3, batch, m, points), np.int64)
        part = np.zeros((3, batch, m, points))
        cells = np.arange(points)[None, None, :] + points * (
            np.arange(batch)[:, None, None] * self.rows + np.arange(m)[None, :, None]
        )
        low[:] = np.minimum(cells, batch * self.rows * points - 2)
        low[Action.ON_DEMAND], part[Action.ON_DEMAND] = start_low[:, :m], start_part[:, :m]
        low[Action.SPOT, :, :ups], part[Action.SPOT, :, :ups] = start_low[:, m:], start_part[:, m:]
        return low.reshape(-1), part.reshape(-1)

    def _end(self) -> TimeSlice:
        """Return the states with no time left: the work is done, and what exceeded it is refunded."""
        batch, points = self.chain.slack.shape
        m, ups = self.chain.states, self.chain.ups
        moment = TimeSlice(
            np.zeros(batch),
            np.zeros((batch, self.rows, points, COUNTS)),
            np.zeros((batch, m, points), np.int64),
            np.zeros((batch, m, points), bool),
            np.zeros((batch, ups, points), bool),
        )
        self._finish(moment.hours_left, moment.counts)
        return moment

    def _finish(self, hours_left: Floats, counts: Floats) -> None:
        """Set the counts of states without work left: a tick that ends after the work is refunded at its rate.

        Where nothing runs there is nothing to refund. These states are neighbours in the interpolation of states with
        work left, so they continue the line on which those lie: a start, and the work at the cheaper rate.
        """
        chain = self.chain
        work = hours_left[:, None] - chain.slack
        done = (work <= 0)[:, None, :, None]
        if not done.any():
            return
        m = chain.states
        over = work[:, None, :, None]
        np.copyto(counts[:, :m], (over + chain.restart) * chain.cheap_rate[:, None, None, :], where=done)
        np.copyto(counts[:, m : 2 * m], over * chain.demand_rate[:, None, None, :], where=done)
        np.copyto(counts[:, 2 * m :], over * chain.spot_rate[:, None, None, :], where=done)

    def step(self) -> TimeSlice:
        """Move one tick back in time and return the states there."""
        chain = self.chain
        m, ups = chain.states, chain.ups
        after = self._value_after_tick()
        usd = np.ascontiguousarray(after[..., USD])
        flat = usd.reshape(-1)
        low = flat.take(self._start_low)
        started = low + self._start_part * (flat.take(self._start_low + 1) - low)
        wait = usd[:, :m] + chain.wait_barred
        demand = started[:, :m] + chain.beyond[..., USD]
        idle = np.where(wait < demand * TIE_FACTOR, Action.WAIT, Action.ON_DEMAND)
        spot = started[:, m:] + chain.start_barred
        better = (spot < demand[:, :ups] * TIE_FACTOR) & (spot * WAIT_FACTOR <= wait[:, :ups])
        idle[:, :ups][better] = Action.SPOT

        counts = np.empty_like(after)
        counts[:, :m] = self._chosen(idle, after)
        nothing = counts[:, :m, :, USD]
        leaves_demand = nothing < usd[:, m : 2 * m] * TIE_FACTOR
        leaves_spot = nothing[:, :ups] <= usd[:, 2 * m :] + chain.spot_barred
        counts[:, m : 2 * m] = np.where(leaves_demand[..., None], counts[:, :m], after[:, m : 2 * m])
        counts[:, 2 * m :] = np.where(leaves_spot[..., None], counts[:, :ups], after[:, 2 * m :])
        hours_left = self.now.hours_left + chain.tick
        if (hours_left <= chain.slack[:, -1]).any():
            self._finish(hours_left, counts)
        self.now = TimeSlice(hours_left, counts, idle, leaves_demand, leaves_spot)
        return self.now

    def _value_after_tick(self) -> Floats:
        """Return counts of one tick of each kind followed by the best policy; shape (b, 2M + U, slack, COUNTS).

        A variance is the mean of the variances that the tick leads to plus the spread of their means. Between points
        of the slack axis variances are interpolated directly; second moments would add a spread of the grid's own.
        """
        batch, points = self.chain.slack.shape
        flat = self.now.counts.reshape(-1, COUNTS)
        rows = flat.take(self._spent_low, axis=0)
        upper = flat.take(self._spent_low + 1, axis=0)
        upper -= rows
        upper *= self._spent_part
        rows += upper
        rows[..., VARIANCES] += np.square(rows[..., MEANS])
        mixed: Floats = np.matmul(self.chain.mix, rows.reshape(batch, rows.shape[1], points * COUNTS))
        mixed = mixed.reshape(batch, self.rows, points, COUNTS)
        mixed[..., VARIANCES] -= np.square(mixed[..., MEANS])
        mixed += self._cost
        return mixed

    def _chosen(self, idle: Integers, after: Floats) -> Floats:
        """Return the counts of the chosen actions with nothing running; shape (b, M, slack, COUNTS)."""
        lows, parts = self._choices
        flat = after.reshape(-1, COUNTS)
        at = idle * self._cells.size
        at += self._cells
        low = lows.take(at)
        rows = flat.take(low, axis=0)
        upper = flat.take(low + 1, axis=0)
        upper -= rows
        upper *= parts.take(at)[..., None]
        rows += upper
        rows += (idle == Action.ON_DEMAND)[..., None] * self.chain.beyond
        return rows
