"""Backward induction in dollars alone: what the best policy costs, without the hours and shares that follow from it.

The same grid, the same actions and the same dollars as `planner.spot.policy.backward_induction`, at a tenth of its
time: a search compares many candidates in dollars, and the others of the counts are computed for those it keeps.

Most candidates need no pass, because `usd_bound` is more than another costs. It holds for the chain of a pass. With w
hours of work left let Phi be c w while machines run, and c w + r R with nothing running: r is the spot price over the
progress, R the work that a start takes. Phi is no more than the dollars of a tick plus the mean of Phi after it, if c
is at most the price on demand and, for each band of the up-time, which ends at rate q and loses L hours of work,

    c <= (spot + q (move + r R)) / (progress - q L).

So no policy costs less than Phi. Where the market is down from the start until the slack is too short for a start on
spot, all work is on demand; with the chance of that its dollars count instead. A pass on too coarse a grid may err to
below the bound: where starts take longer than machines mostly last, and nothing is saved on spot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.checkpointing import max_lost_hours, progress_on_spot
from planner.spot.policy.deadline_guard import required_slack
from planner.spot.policy.discretisation import build_chain_for
from planner.spot.policy.markov_chain import DOLLARS, USD, mean_lost_work, transition_probabilities
from planner.spot.policy.start_table import StartRecord, StartTable
from planner.spot.policy.stretches import Between, StretchedPass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.discretisation import CurveRequest
    from planner.spot.policy.markov_chain import MarkovChain
    from planner.spot.policy.run import SpotRun

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


def usd_bound(request: CurveRequest, ticks: int, guaranteed_hours: float) -> float:
    """Return dollars below which no policy within a guaranteed time stays, on the grid of `usd_tables`.

    `request` has the horizon of the pass, which is no less than the guaranteed time. 2 h of work at 1 $/h on spot that
    nothing interrupts, and a start of 0.1 h: 2.1 dollars, less the margin.
    """
    return DollarBound.of(request, ticks).within(guaranteed_hours)


@dataclass(frozen=True)
class DollarBound:
    """What the bounds of all guaranteed times of one pass share."""

    request: CurveRequest
    tick: float  # hours
    least_usd: float  # of one part of the run, whatever the time
    needed_hours: float  # of slack for a start on spot
    down: Floats  # (ages,), shares of the time in an outage of each age
    stays: Floats  # (ages, ages), from one tick to the next of an outage

    @classmethod
    def of(cls, request: CurveRequest, ticks: int) -> DollarBound:
        """Return the bound of a request, whose hours are the horizon of the pass."""
        run, states, tick = request.part.run, request.states, request.part.guaranteed_hours / ticks
        start = run.restart_hours * progress_on_spot(run)
        least = _least_usd_per_hour(run, states, tick) * run.work_hours
        least += run.spot_usd_per_hour * run.restart_hours + run.standing_usd_per_hour * (run.work_hours + start)
        stalls = tick * (1 - progress_on_spot(run))
        *_, needed = required_slack(run.restart_hours, max_lost_hours(run) + run.hop_hours, stalls, tick)
        leave, older = transition_probabilities(states.down, tick)
        stays = np.diag(1 - leave - older) + np.diag(older[:-1], 1)
        return cls(request, tick, least, needed, states.shares()[1], stays)

    def within(self, guaranteed_hours: float) -> float:
        """Return dollars below which no policy within a guaranteed time stays."""
        run, parts = self.request.part.run, self.request.parts
        more = max(run.on_demand_usd - self.least_usd, 0.0)
        return BOUND_MARGIN * parts * (self.least_usd + self._chance_of_no_start(guaranteed_hours / parts) * more)

    def _chance_of_no_start(self, hours: float) -> float:
        """Return the chance that the market is down until the slack is too short for a start, or the work done."""
        # Waiting takes slack. Work on demand takes none, so the slack lasts for as many hours longer.
        ticks = max(0, math.ceil((hours - self.needed_hours) / self.tick) + 1)
        return float(self.down @ np.linalg.matrix_power(self.stays, ticks).sum(axis=1))


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
