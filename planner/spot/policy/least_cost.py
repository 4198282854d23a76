"""Backward induction in dollars alone: what the best policy costs, without the hours and shares that follow from it.

The same grid, the same actions and the same dollars as `planner.spot.policy.backward_induction`, at a tenth of its
time: a search compares many candidates in dollars, and the others of the counts are computed for those it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.discretisation import build_chain_for
from planner.spot.policy.markov_chain import USD
from planner.spot.policy.start_table import StartRecord, StartTable
from planner.spot.policy.stretches import Between, StretchedPass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.spot.policy.discretisation import CurveRequest
    from planner.spot.policy.markov_chain import MarkovChain


class DollarInduction(StretchedPass):
    """Steps backward in time over a chain; `values` (1, b, 2M + U, slack) is the cost of the rest at the time reached.

    Rows as in `MarkovChain`. All arrays are made once for a stretch: a tick writes into them.
    """

    def __init__(self, chain: MarkovChain, least: int = 0) -> None:
        super().__init__(chain, slice(USD, USD + 1), least)

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


def usd_tables(requests: Sequence[CurveRequest], ticks: int, points: int) -> list[StartTable]:
    """Return the least mean dollars (ticks, slack) of each run, for every guaranteed time up to its own."""
    chain = build_chain_for([request.part for request in requests], ticks, points)
    record = StartRecord(requests, chain, ticks)
    induction = DollarInduction(chain, record.width)
    for _ in range(ticks):
        induction.step()
        record.add(induction.values)
    usd: Floats = np.einsum("bm,tkbms->kbts", chain.first, record.values)[0]
    return record.tables(usd)
