"""Backward induction in dollars alone: what the best policy costs, without the hours and shares that follow from it.

The same grid, the same actions and the same dollars as `planner.spot.policy.backward_induction`, at a tenth of its
time: a search compares many candidates in dollars, and the others of the counts are computed for those it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.discretisation import build_chain_for
from planner.spot.policy.markov_chain import USD
from planner.spot.policy.start_table import StartTable, start_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats, Integers
    from planner.spot.policy.discretisation import CurveRequest
    from planner.spot.policy.markov_chain import Interpolation, MarkovChain


class DollarInduction:
    """Steps backward in time over a chain; `usd` (b, 2M + U, slack) is the cost of the rest at the time reached.

    Rows as in `MarkovChain`. All arrays are made once: a tick writes into them.
    """

    def __init__(self, chain: MarkovChain) -> None:
        self.chain = chain
        batch, points = chain.slack.shape
        m, ups = chain.states, chain.ups
        self.rows = 2 * m + ups
        self._spent = self._flat(chain.spent, chain.spent_rows)
        self._started = self._flat(chain.started, list(range(m, self.rows)))
        self._cost = np.ascontiguousarray(chain.cost[:, :, None, USD])
        self._beyond = np.ascontiguousarray(chain.beyond[..., USD])
        self._rates = [rate[:, USD, None, None] for rate in (chain.cheap_rate, chain.demand_rate, chain.spot_rate)]
        self._lower, self._upper = np.empty((2, *self._spent[0].shape))
        self._start, self._start_upper = np.empty((2, *self._started[0].shape))
        self._after = np.empty((batch, self.rows, points))
        self.hours_left = np.zeros(batch)
        self.usd: Floats = np.zeros((batch, self.rows, points))
        self._finish()

    def _flat(self, lerp: Interpolation, sources: list[int]) -> tuple[Integers, Integers, Floats]:
        """Return places in (b * rows * slack) of the lower and upper neighbours, and the share of the upper ones."""
        batch, _, points = lerp.low.shape
        rows = np.arange(batch)[:, None, None] * self.rows + np.array(sources)[None, :, None]
        low = rows * points + lerp.low
        return low, low + 1, lerp.part

    def step(self) -> None:
        """Move one tick back in time."""
        chain, usd, after, start = self.chain, self.usd, self._after, self._start
        m, ups = chain.states, chain.ups
        np.matmul(chain.mix, _lerp(usd, self._spent, self._lower, self._upper), out=after)
        after += self._cost
        _lerp(after, self._started, start, self._start_upper)
        start[:, :m] += self._beyond
        start[:, m:] += chain.start_barred
        wait, demand, spot = after[:, :m], after[:, m : 2 * m], after[:, 2 * m :]
        wait += chain.wait_barred
        spot += chain.spot_barred
        idle = np.minimum(wait, start[:, :m], out=usd[:, :m])
        np.minimum(idle[:, :ups], start[:, m:], out=idle[:, :ups])
        np.minimum(demand, idle, out=usd[:, m : 2 * m])
        np.minimum(spot, idle[:, :ups], out=usd[:, 2 * m :])
        self.hours_left += chain.tick
        if (self.hours_left <= chain.slack[:, -1]).any():
            self._finish()

    def _finish(self) -> None:
        """Set the dollars of states without work left, as `BackwardInduction` does."""
        m, (cheap, demand, spot) = self.chain.states, self._rates
        over = (self.hours_left[:, None] - self.chain.slack)[:, None, :]
        done = over <= 0
        np.copyto(self.usd[:, :m], (over + self.chain.restart[..., 0]) * cheap, where=done)
        np.copyto(self.usd[:, m : 2 * m], over * demand, where=done)
        np.copyto(self.usd[:, 2 * m :], over * spot, where=done)


def _lerp(values: Floats, places: tuple[Integers, Integers, Floats], lower: Floats, upper: Floats) -> Floats:
    """Return `values` between their neighbours, in the array `lower`."""
    low, high, part = places
    flat = values.reshape(-1)
    flat.take(low, out=lower, mode="clip")  # no place lies outside; "clip" spares the copy that a check needs
    flat.take(high, out=upper, mode="clip")
    upper -= lower
    upper *= part
    lower += upper
    return lower


def usd_tables(requests: Sequence[CurveRequest], ticks: int, points: int) -> list[StartTable]:
    """Return the least mean dollars (ticks, slack) of each run, for every guaranteed time up to its own."""
    induction = DollarInduction(build_chain_for([request.part for request in requests], ticks, points))
    usd = np.empty((len(requests), ticks, points))
    for number in range(ticks):
        induction.step()
        usd[:, number] = np.einsum("bm,bms->bs", induction.chain.first, induction.usd[:, : induction.chain.states])
    return start_tables(requests, induction.chain, usd)
