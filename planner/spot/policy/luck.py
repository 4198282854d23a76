"""The luck of runs that follow a policy: paid hours and ends, each on a market and at a speed of its own.

Mean and variance of a policy's dollars come from its backward pass. Their distribution is skewed, often with two humps:
most runs find machines, the others wait and then pay on demand. So its quantiles are counted over runs that are drawn
from the chain of the pass, with the actions of the pass. What a tick does to a run is what `MarkovChain` says, so that
the mean over the runs is that of the pass.

A run whose work takes longer than expected, or less long, is a run of the same pass with other work: what is best at
some time left and slack depends on no more than these. One pass serves all speeds.

The numbers drawn are the same for every run, so that a comparison of two policies is one on the same markets.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.spot.policy.backward_induction import BackwardInduction, FollowedInduction
from planner.spot.policy.checkpointing import progress_on_spot
from planner.spot.policy.discretisation import CurveRequest, build_chain_for
from planner.spot.policy.markov_chain import DOLLARS, mean_lost_work, transition_probabilities
from planner.spot.policy.run import ROUNDING_HOURS, Action

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.markov_chain import MarkovChain
    from planner.spot.policy.run import SpotRun

RUNS = 2048
"""Runs that are drawn: the share of them below a quantile of 0.9 errs by 0.7 points (standard error)."""
LUCK_TICKS, MOST_LUCK_TICKS = 128, 640
"""Ticks of the pass, more where the market changes faster."""
LUCK_POINTS = 64
"""Points of its slack axis."""
SPEED_RANK_BOUNDS = (0.025, 0.975)
"""Ranks between which speeds are drawn: the data do not show how far the tails of the estimate reach."""


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
    return _Runs(run, states, chain, _actions(chain, ticks), work_hours, deadlines).play(_draws(ticks, stream))


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


@lru_cache(maxsize=4)
def _draws(ticks: int, stream: int) -> Floats:
    """Return numbers between 0 and 1, (ticks + 1, RUNS): the first row says in which state the market begins."""
    rng = np.random.default_rng([stream, 40])
    found = rng.random((ticks + 1, RUNS))
    found[0] = (rng.permutation(RUNS) + 0.5) / RUNS  # no stream begins lucky as a whole
    return found


class _Runs:
    """The state of all runs; every array has the shape (runs,)."""

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
        self.progress = progress
        axis = chain.slack[0]
        self.middles = (axis[1:] + axis[:-1]) / 2
        # By action: waiting, spot, on demand.
        self.offset = np.array([0, 2 * m, m])
        self.debt = np.array([0.0, run.restart_hours * progress, run.restart_hours])
        self.drain = np.array([self.tick, self.tick * (1 - progress), 0.0])
        sides = [transition_probabilities(ages, self.tick) for ages in (states.up, states.down)]
        self.leave, self.older = (np.concatenate([side[which] for side in sides]) for which in (0, 1))
        self.lost_work = np.append(mean_lost_work(run, states, self.ups), np.zeros(m - self.ups))
        self.left, self.slack = deadlines.astype(float).copy(), deadlines - work_hours
        self.first = np.clip(np.rint(deadlines / self.tick).astype(np.int64) - 1, 0, len(actions) - 1)
        self.running = np.zeros(len(deadlines), dtype=np.int64)
        self.number = np.arange(len(deadlines))
        self.hours = np.zeros(len(deadlines))
        self.paid = np.zeros((3, len(deadlines)))
        self.interruptions = np.zeros(len(deadlines))

    def play(self, draws: Floats) -> Luck:
        """Let all runs come to their end, tick by tick."""
        begin = np.cumsum(self.chain.first[0])
        self.market = np.minimum(np.searchsorted(begin, draws[0]), self.chain.states - 1)
        step = 0
        while len(self.number):
            number = self.number
            drawn = draws[1 + step % (len(draws) - 1)][number]
            self._act(step)
            self._advance(drawn)
            step += 1
        return Luck(self.hours, self.paid[Action.SPOT], self.paid[Action.ON_DEMAND], self.interruptions)

    def _act(self, step: int) -> None:
        """Start and stop machines as the policy says."""
        at = np.searchsorted(self.middles, self.slack)
        row = self.market + self.offset[self.running]
        action = self.actions[np.maximum(self.first - step, 0), row, at]
        starts = action != self.running
        self.slack -= np.where(starts, self.debt[action], 0.0)
        self.running = action

    def _advance(self, drawn: Floats) -> None:
        """Let one tick pass: work, the end of runs, the market, and what its losses cost."""
        running, number, market = self.running, self.number, self.market
        self.slack -= self.drain[running]
        self.left -= self.tick
        over = self.slack - self.left  # hours of work that were paid beyond the end
        done = over >= -ROUNDING_HOURS
        spent = np.full(len(number), self.tick)
        beyond = np.where(running == Action.SPOT, over / self.progress, over)
        spent[done] -= beyond[done]
        self.hours[number] += spent
        self.paid[running, number] += spent
        leave = self.leave[market]
        ends = drawn < leave
        is_up = market < self.ups
        again = ends & is_up & (drawn < leave * self.states.instant)
        older = ~ends & (drawn < leave + self.older[market])
        other = np.where(is_up & ~again, self.ups, 0)
        lost = ends & (running == Action.SPOT) & ~done
        if lost.any():
            self.slack[lost] -= self.lost_work[market[lost]]
            self.interruptions[number[lost]] += 1
            self.running = np.where(lost, Action.WAIT, running)
        self.market = np.where(ends, other, market + older)
        if done.any():
            self._drop(done)

    def _drop(self, done: Flags) -> None:
        """Leave out the runs that have ended."""
        kept = ~done
        for name in ("left", "slack", "first", "running", "number", "market"):
            setattr(self, name, getattr(self, name)[kept])
