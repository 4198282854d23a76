"""Backward induction in dollars alone: what the best policy costs from the start, for every guaranteed time.

The same grid, the same actions and the same dollars as `planner.spot.policy.backward_induction`, at a tenth of its
time: a search compares many candidates in dollars, and the others of the counts are computed for those it keeps.

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
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats, Integers
from planner.records import record
from planner.spot.market.states import SpotStates
from planner.spot.policy.backward_induction import Between, StretchedPass
from planner.spot.policy.discretisation import CurveRequest, Grid, build_chain_for, slack_axis
from planner.spot.policy.markov_chain import DOLLARS, USD, MarkovChain, mean_lost_work, transition_probabilities
from planner.spot.policy.run import ROUNDING_HOURS, SpotRun, max_lost_hours, progress_on_spot, required_slack

if TYPE_CHECKING:
    from collections.abc import Sequence


# What a run costs from its start: one backward pass answers every guaranteed time up to its horizon.


TICK_ROUNDING = 1e-9
"""Of a tick: a time this close to a tick is that tick."""


@record(frozen=True)
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
        each = zip(self.requests, self.chain.tick.tolist(), self.chain.slack, self.begin, values, strict=True)
        return [StartTable(*columns) for columns in each]


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


@record(frozen=True)
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
    found = states.shares()[1][None, :]
    while len(found) < ticks:  # twice as many ticks each time
        found, stays = np.concatenate([found, found @ stays]), stays @ stays
    return np.asarray(found[:ticks].sum(axis=1))


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
