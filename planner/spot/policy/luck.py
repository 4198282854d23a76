"""The luck of runs that follow a policy: paid hours and ends, each on a market and at a speed of its own.

Mean and variance of a policy's dollars come from its backward pass. Their distribution is skewed, often with two humps:
most runs find machines, the others wait and then pay on demand. So its quantiles are counted over runs that take the
actions of the pass on markets whose up-times and outages are drawn, with checkpoints and losses as they fall. The mean
over the runs is that of the pass up to its grid.

A run whose work takes longer than expected, or less long, is a run of the same pass with other work: what is best at
some time left and slack depends on no more than these. One pass serves all speeds.

The numbers drawn are the same for every run, so that a comparison of two policies is one on the same markets.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.spot.policy.backward_induction import BackwardInduction, FollowedInduction
from planner.spot.policy.checkpointing import progress_on_spot, work_in
from planner.spot.policy.discretisation import CurveRequest, build_chain_for
from planner.spot.policy.markov_chain import DOLLARS
from planner.spot.policy.run import ROUNDING_HOURS, Action

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.markov_chain import MarkovChain
    from planner.spot.policy.run import SpotRun

RUNS = 2048
"""Runs that are drawn: the share of them below a quantile of 0.9 errs by 0.7 points (standard error)."""
LUCK_TICKS, MOST_LUCK_TICKS = 64, 640
"""Ticks of the pass, more where the market changes faster: with 256 mean dollars differ by 0.3 %."""
LUCK_POINTS = 64
"""Points of its slack axis."""
DRAWN_CHANGES, OTHER_RUN = 128, 613
"""Changes of a market that are drawn for each run; the next ones are those of the run so many numbers further."""
LOOKED_AT_EVERY_HOURS = 1 / 12
"""How often a run looks at its market; a loss of its machines it sees at once."""
SPEED_RANK_BOUNDS = (0.025, 0.975)
"""Ranks between which speeds are drawn: the data do not show how far the tails of the estimate reach."""

RUN_ARRAYS = (
    *("left", "slack", "running", "number", "until_asked", "since_start"),
    *("market", "changes", "until_older", "owed"),
)
"""Arrays of `_Runs` about runs that go on."""


@record(frozen=True)
class Luck:
    """What became of each run; arrays of shape (runs,)."""

    hours: Floats  # from the first order of machines to the end of the run
    spot_hours: Floats  # paid
    on_demand_hours: Floats  # paid
    interruptions: Floats

    def usd(self, run: SpotRun, standing_usd_per_hour: float) -> Floats:
        """Return the dollars of each run (runs,) at the prices of `run`, with what each hour until the end costs."""
        machines = self.spot_hours * run.spot_usd_per_hour + self.on_demand_hours * run.on_demand_usd_per_hour
        return machines + self.interruptions * run.hop_usd + self.hours * standing_usd_per_hour


def speed_ranks() -> Floats:
    """Return the rank of each run's speed error (RUNS,), evenly spread."""
    ranks: Floats = np.clip((np.arange(RUNS) + 0.5) / RUNS, *SPEED_RANK_BOUNDS)
    return ranks


def even_numbers(rng: np.random.Generator, rows: int) -> Floats:
    """Return numbers between 0 and 1, (rows, RUNS): those of a row evenly spread over the runs, so that none is lucky.

    Quantiles over the runs err less than with independent numbers, and the mean of a row is exact.
    """
    ranks = rng.permuted(np.tile(np.arange(RUNS), (rows, 1)), axis=1)
    return np.asarray((ranks + 0.5) / RUNS)


def quantile(values: Floats, probability: float) -> float:
    """Return the least of the values (n,) below or at which this share of them lies."""
    ordered = np.sort(values)
    return float(ordered[min(max(int(np.ceil(probability * len(ordered) - 1e-9)) - 1, 0), len(ordered) - 1)])


def draw_luck(run: SpotRun, states: SpotStates, work_hours: Floats, deadlines: Floats, stream: int = 0) -> Luck:
    """Return what becomes of runs of some work (RUNS,) that must end by deadlines (RUNS,), under the best policy.

    Parameters
    ----------
    run
        What an hour is worth to the policy; its own work counts for nothing here.
    stream
        Which markets are drawn: those of one stream are the same for all runs, two streams are independent.
    """
    horizon = max(float(deadlines.max()), float(run.restart_hours) * 2 + 1e-3)
    request = CurveRequest(run, states, horizon)
    ticks = int(min(max(LUCK_TICKS, np.ceil(request.resolving_ticks - ROUNDING_HOURS)), MOST_LUCK_TICKS))
    chain = build_chain_for([_of_all_slack(request, work_hours, deadlines)], ticks, LUCK_POINTS)
    return _Runs(run, states, chain, _actions(chain, ticks), work_hours, deadlines).play(stream)


def _of_all_slack(request: CurveRequest, work_hours: Floats, deadlines: Floats) -> CurveRequest:
    """Return the request whose slack axis reaches to the largest slack of the runs."""
    most = max(float(np.max(deadlines - work_hours)), 1e-6)
    work = max(request.guaranteed_hours - most, 1e-6)
    return CurveRequest(replace(request.run, work_hours=work), request.states, request.guaranteed_hours)


def _actions(chain: MarkovChain, ticks: int) -> Integers:
    """Return the best action at each time left and slack in each state, (ticks, 2M + U, points)."""
    induction = FollowedInduction if chain.mix.shape[2] > 2 * chain.states + 2 * chain.ups else BackwardInduction
    backward, points, m, ups = induction(chain, counts=DOLLARS), chain.slack.shape[1], chain.states, chain.ups
    found = np.empty((ticks, 2 * m + ups, points), dtype=np.int64)
    axis = chain.slack[0]
    for number in range(ticks):
        moment = backward.step()
        idle = moment.idle[0]
        width = idle.shape[1]
        rows = found[number]
        rows[:m, :width] = idle
        rows[m : 2 * m, :width] = np.where(moment.leaves_demand[0], idle, Action.ON_DEMAND)
        rows[2 * m :, :width] = np.where(moment.leaves_spot[0], idle[:ups], Action.SPOT)
        # Where no work is left there is no action: a run between such a point and one with work does as at the latter.
        left = float(moment.hours_left[0])
        last = max(int(np.searchsorted(axis[:width], left - ROUNDING_HOURS)) - 1, 0)
        rows[:, last + 1 :] = rows[:, last : last + 1]
    return found


@lru_cache(maxsize=2)
def _draws(stream: int) -> tuple[Floats, Floats, Floats]:
    """Return what the markets of a stream are drawn from.

    The rank of the state in which the market of each run begins (RUNS,), then for each change of it how much of a rate
    per hour it takes, exponential with mean 1, and a number between 0 and 1, both (DRAWN_CHANGES, RUNS).
    """
    rng = np.random.default_rng([stream, 40])
    numbers = even_numbers(rng, 2 * DRAWN_CHANGES + 1)
    return numbers[0], -np.log1p(-numbers[1 : DRAWN_CHANGES + 1]), numbers[DRAWN_CHANGES + 1 :]


class _Runs:
    """The state of all runs; every array has the shape (runs,).

    A run goes on to the next moment at which it acts or its market changes, so that up-times and outages are as long
    as they are drawn: in whole ticks they would vary less, and so would the dollars. It acts after each tick, at once
    where its machines are lost, and where it next looks at a market that changed.
    """

    def __init__(
        self,
        run: SpotRun,
        states: SpotStates,
        chain: MarkovChain,
        actions: Integers,
        work_hours: Floats,
        deadlines: Floats,
    ) -> None:
        self.run, self.chain, self.actions, self.states = run, chain, actions, states
        self.tick, self.ups = float(chain.tick[0]), chain.ups
        m, progress = chain.states, progress_on_spot(run)
        axis = chain.slack[0]
        self.middles = (axis[1:] + axis[:-1]) / 2
        # By action: waiting, spot, on demand.
        self.offset = np.array([0, 2 * m, m])
        self.debt = np.array([0.0, run.restart_hours * progress, run.restart_hours])
        self.drain = np.array([1.0, 1 - progress, 0.0])
        both = (states.up, states.down)
        self.rate = np.concatenate([ages.rates for ages in both])
        self.width = np.concatenate([np.diff(ages.begins, append=math.inf) for ages in both])
        self.left, self.slack = deadlines.astype(float).copy(), deadlines - work_hours
        count = len(deadlines)
        self.running, self.number = np.zeros(count, dtype=np.int64), np.arange(count)
        self.until_asked, self.since_start = np.zeros(count), np.zeros(count)
        self.hours, self.paid, self.interruptions = np.zeros(count), np.zeros((3, count)), np.zeros(count)

    def play(self, stream: int) -> Luck:
        """Let all runs come to their end, on the markets of a stream."""
        first, self.amounts, self.places = _draws(stream)
        self.market = np.minimum(np.searchsorted(np.cumsum(self.chain.first[0]), first), self.chain.states - 1)
        self.changes = np.zeros(len(self.number), dtype=np.int64)
        self.until_older = self.width[self.market] - _age_in_band(
            self.rate[self.market], self.width[self.market], self.places[0]
        )
        self.owed = self.amounts[0].copy()
        with np.errstate(divide="ignore", invalid="ignore"):  # a state of rate 0 does not end, waiting does no work
            while len(self.number):
                self._act()
                self._advance()
        return Luck(self.hours, self.paid[Action.SPOT], self.paid[Action.ON_DEMAND], self.interruptions)

    def _drawn(self, numbers: Floats, at: Integers) -> Floats:
        """Return the numbers of runs (n,) for their next change; once all are taken, those of another run."""
        again, row = np.divmod(self.changes[at], DRAWN_CHANGES)
        return np.asarray(numbers[row, (self.number[at] + again * OTHER_RUN) % RUNS])

    def _act(self) -> None:
        """Start and stop machines as the policy says, where it is asked."""
        asked = np.flatnonzero(self.until_asked <= ROUNDING_HOURS)
        self.until_asked[asked] = self.tick
        tick = np.clip(np.rint(self.left[asked] / self.tick).astype(np.int64) - 1, 0, len(self.actions) - 1)
        row = self.market[asked] + self.offset[self.running[asked]]
        action = self.actions[tick, row, np.searchsorted(self.middles, self.slack[asked])]
        starts = action != self.running[asked]
        self.slack[asked] -= np.where(starts, self.debt[action], 0.0)
        self.since_start[asked[starts]] = 0.0
        self.running[asked] = action

    def _advance(self) -> None:
        """Let time pass up to the next event: the end of a run, a change of its market, the next tick."""
        running, number, rate = self.running, self.number, self.rate[self.market]
        # Work that waits does not end, not even where rounding leaves a little less than none of it.
        until_end = np.maximum(self.left - self.slack, 0.0) / (1 - self.drain[running])
        until_end[running == Action.WAIT] = np.inf
        until_change = self.owed / rate
        spent = np.minimum(np.minimum(until_end, until_change), np.minimum(self.until_older, self.until_asked))
        self.slack -= self.drain[running] * spent
        self.hours[number] += spent
        self.paid[running, number] += spent
        for left in (self.left, self.until_older, self.until_asked):
            left -= spent
        self.since_start += spent
        self.owed -= rate * spent
        done = until_end <= spent + ROUNDING_HOURS
        self._change_markets(until_change <= spent + ROUNDING_HOURS, done)
        if done.any():
            self._drop(~done)

    def _change_markets(self, ends: Flags, done: Flags) -> None:
        """Let markets grow older or change, with what losses of machines cost."""
        lost = np.flatnonzero(ends & (self.running == Action.SPOT) & ~done)
        changed = np.flatnonzero(ends | (self.until_older <= ROUNDING_HOURS))
        ended = np.flatnonzero(ends)
        self.changes[ended] += 1
        place = self._drawn(self.places, changed)
        goes_down = (self.market < self.ups)[changed] & (place >= self.states.instant)
        self.market[changed] = np.where(ends[changed], np.where(goes_down, self.ups, 0), self.market[changed] + 1)
        self.owed[ended] = self._drawn(self.amounts, ended)
        self.until_older[changed] = self.width[self.market[changed]]
        self.until_asked[changed] = np.minimum(self.until_asked[changed], LOOKED_AT_EVERY_HOURS * place)
        self.slack[lost] -= self._lost_work(self.since_start[lost])
        self.interruptions[self.number[lost]] += 1
        self.running[lost], self.until_asked[lost] = Action.WAIT, 0.0

    def _lost_work(self, paid_hours: Floats) -> Floats:
        """Return the slack that a loss takes so many paid hours after a start: what was charged is not all spent."""
        busy = np.maximum(paid_hours - self.run.restart_hours, 0.0)
        unspent = np.maximum(self.run.restart_hours - paid_hours, 0.0)
        progress = progress_on_spot(self.run)
        return (busy - unspent) * progress - work_in(self.run, busy)[1] + self.run.hop_hours

    def _drop(self, kept: Flags) -> None:
        """Leave out the runs that have ended."""
        for name in RUN_ARRAYS:
            setattr(self, name, getattr(self, name)[kept])


def _age_in_band(rate: Floats, width: Floats, place: Floats) -> Floats:
    """Return ages (n,) within a band at a random moment: as likely as a duration is to reach them; 0 in the last."""
    ends = np.where(np.isfinite(width), width, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(rate > 0, -np.log1p(place * np.expm1(-rate * ends)) / rate, place * ends)
    return np.asarray(found)
