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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.markov_chain import COUNTS, MEANS, USD, VARIANCES, Interpolation, MarkovChain
from planner.spot.policy.run import Action
from planner.spot.policy.stretches import StretchedPass

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

TIE_FACTOR = 1 - 1e-12
"""A smaller relative saving is a tie, which on demand wins, so that ties end alike on every machine."""
WAIT_FACTOR = 1 - 1e-7
"""A smaller relative saving is no reason to wait while spot machines are there: the grid errs by more."""


@dataclass
class TimeSlice:
    """All states at one time left.

    `counts` (COUNTS, b, 2M + U, slack): the rest of the run under the best policy. `idle` (b, M, slack): the action
    with nothing running. `leaves_demand` (b, M, slack), `leaves_spot` (b, U, slack): whether what runs is given up for
    that action.
    """

    hours_left: Floats  # (b,)
    counts: Floats
    idle: Integers
    leaves_demand: Flags
    leaves_spot: Flags


class BackwardInduction(StretchedPass):
    """Steps backward in time over a chain."""

    def __init__(self, chain: MarkovChain, least: int = 0) -> None:
        super().__init__(chain, slice(None), least)

    def prepare(self) -> None:
        """Make the arrays of a stretch."""
        chain, m = self.chain, self.chain.states
        batch, points = chain.slack.shape
        self._spent_low, self._spent_part = self._flat(chain.spent, chain.spent_rows)
        self._start_low, self._start_part = self._flat(chain.started, list(range(m, self.rows)))
        self._choices = self._choice_tables(self._start_low, self._start_part)
        self._cells = np.arange(batch * m * points).reshape(batch, m, points)
        self._cost = np.moveaxis(chain.cost, -1, 0)[..., None].copy()
        self._beyond = np.moveaxis(chain.beyond, -1, 0).copy()

    def _flat(self, lerp: Interpolation, sources: list[int]) -> tuple[Integers, Floats]:
        """Return places in (b * rows * slack) of the lower neighbours, and the share of the upper ones."""
        batch, _, points = lerp.low.shape
        rows = np.arange(batch)[:, None, None] * self.rows + np.array(sources)[None, :, None]
        return rows * points + lerp.low, lerp.part

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

    def step(self) -> TimeSlice:
        """Move one tick back in time and return the states there."""
        self.begin_tick()
        chain = self.chain
        m, ups = chain.states, chain.ups
        after = self._value_after_tick()
        usd = after[USD]
        flat = usd.reshape(-1)
        low = flat.take(self._start_low)
        started = low + self._start_part * (flat.take(self._start_low + 1) - low)
        wait = usd[:, :m] + chain.wait_barred
        demand = started[:, :m] + self._beyond[USD]
        idle = np.where(wait < demand * TIE_FACTOR, Action.WAIT, Action.ON_DEMAND)
        spot = started[:, m:] + chain.start_barred
        better = (spot < demand[:, :ups] * TIE_FACTOR) & (spot * WAIT_FACTOR <= wait[:, :ups])
        idle[:, :ups][better] = Action.SPOT

        chosen = self._chosen(idle, after)
        leaves_demand = chosen[USD] < usd[:, m : 2 * m] * TIE_FACTOR
        leaves_spot = chosen[USD, :, :ups] <= usd[:, 2 * m :] + chain.spot_barred
        counts = after
        counts[:, :, :m] = chosen
        np.copyto(counts[:, :, m : 2 * m], chosen, where=leaves_demand)
        np.copyto(counts[:, :, 2 * m :], chosen[:, :, :ups], where=leaves_spot)
        self.values = counts
        self.settle()
        return TimeSlice(self.hours_left, counts, idle, leaves_demand, leaves_spot)

    def _value_after_tick(self) -> Floats:
        """Return counts of one tick of each kind followed by the best policy; shape (COUNTS, b, 2M + U, slack).

        A variance is the mean of the variances that the tick leads to plus the spread of their means. Between points
        of the slack axis variances are interpolated directly; second moments would add a spread of the grid's own.
        """
        rows = _between(self.values, self._spent_low, self._spent_part)
        rows[VARIANCES] += np.square(rows[MEANS])
        mixed: Floats = np.matmul(self.chain.mix, rows)
        mixed[VARIANCES] -= np.square(mixed[MEANS])
        mixed += self._cost
        return mixed

    def _chosen(self, idle: Integers, after: Floats) -> Floats:
        """Return the counts of the chosen actions with nothing running; shape (COUNTS, b, M, slack)."""
        lows, parts = self._choices
        at = idle * self._cells.size
        at += self._cells
        rows = _between(after, lows.take(at), parts.take(at))
        rows += (idle == Action.ON_DEMAND) * self._beyond
        return rows


def _between(counts: Floats, low: Integers, part: Floats) -> Floats:
    """Return counts (COUNTS, ...) between the places `low` (...) of the flat arrays and the next ones."""
    flat = counts.reshape(COUNTS, -1)
    rows = flat.take(low, axis=1, mode="clip")
    upper = flat.take(low + 1, axis=1, mode="clip")
    upper -= rows
    upper *= part
    rows += upper
    return rows
