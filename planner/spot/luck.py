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
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.backward_induction import BackwardInduction, FollowedInduction
from planner.spot.markov_chain import DOLLARS, CurveRequest, Fineness, Grid, MarkovChain, build_chain_for, grid_of
from planner.spot.run import ROUNDING_HOURS, Action, Checkpoints, SpotRun, progress_on_spot
from planner.spot.states import SpotStates
from planner.units import SPEED_RANK_BOUNDS
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


RUNS = 2048
"""Runs that are drawn: the share of them below a quantile of 0.9 errs by 0.7 points (standard error)."""
LUCK_FINENESS = Fineness(64, 64, points=64, most_ticks=640)
"""Of the pass: with 256 ticks mean dollars differ by 0.3 %."""
DRAWN_TOGETHER = 16
"""Requests that are played at once."""
DRAWN_CHANGES, OTHER_RUN = 128, 613
"""Changes of a market that are drawn for each run; the next ones are those of the run so many numbers further."""
PLAYED_CYCLES = 256
"""Pairs of an up-time and an outage for which a run is played at most: of a longer one an equal part is played."""
LOOKED_AT_EVERY_HOURS = 1 / 12
"""How often a run looks at its market; a loss of its machines it sees at once."""

RUN_ARRAYS = (
    *("left", "slack", "running", "number", "of", "until_asked", "since_start"),
    *("market", "changes", "until_older", "owed"),
)
"""Arrays of `_Runs` about runs that go on."""


@dataclass(frozen=True)
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

    def times(self, parts: float) -> Luck:
        """Return the luck of runs of so many parts, all of them as this one."""
        return Luck(*(getattr(self, field.name) * parts for field in fields(self)))


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
    place = min(max(int(np.ceil(probability * len(values) - 1e-9)) - 1, 0), len(values) - 1)
    return float(np.partition(values, place)[place])


@dataclass(frozen=True)
class LuckRequest:
    """Runs of some work (RUNS,) that must end by deadlines (RUNS,), under the best policy for what an hour is worth.

    The work of `run` itself counts for nothing here.
    """

    run: SpotRun
    states: SpotStates
    work_hours: Floats
    deadlines: Floats

    @cached_property
    def parts(self) -> float:
        """Return the number of equal parts of which one is played, 1 for all but very long runs."""
        cycle = self.states.up.mean() + self.states.outage_hours_per_loss()
        return max(1.0, float(self.deadlines.max()) / (cycle * PLAYED_CYCLES))

    @cached_property
    def part(self) -> LuckRequest:
        """Return one of the equal parts, with a start and a deadline of its own, as `CurveRequest.part`.

        A run is as slow in all of its parts, but would meet another market in each. So what the market adds to the
        spread is too large, by the root of `parts`, and upper quantiles are too high. The dollars at 90 % are by 3 %
        of four parts and by up to 6 % of many, at 15 % slack and a known speed; with more slack or an uncertain speed
        by 1 or 2 %.
        The mean is closer to that of the pass than that of the whole run, which would act once in many up-times.
        """
        if self.parts == 1:
            return self
        return replace(self, work_hours=self.work_hours / self.parts, deadlines=self.deadlines / self.parts)

    @cached_property
    def curve(self) -> CurveRequest:
        """Return the request of the pass: to the latest deadline, and of the largest slack of the runs."""
        horizon = max(float(self.deadlines.max()), float(self.run.restart_hours) * 2 + 1e-3)
        most = max(float(np.max(self.deadlines - self.work_hours)), 1e-6)
        work = max(horizon - most, 1e-6)
        return CurveRequest(replace(self.run, work_hours=work), self.states, horizon)

    @property
    def kind(self) -> tuple[Grid, int, int, bool]:
        """Return the grid of the pass and the shape of the market: requests of one kind are drawn together."""
        grid, up, down = grid_of(self.curve, LUCK_FINENESS), self.states.up, self.states.down
        return grid, len(up.rates), len(down.rates), self.states.instant > 0


def draw_luck(run: SpotRun, states: SpotStates, work_hours: Floats, deadlines: Floats, stream: int = 0) -> Luck:
    """Return what becomes of the runs of one request."""
    return draw_lucks([LuckRequest(run, states, work_hours, deadlines)], stream)[0]


def draw_lucks(requests: Sequence[LuckRequest], stream: int = 0) -> list[Luck]:
    """Return what becomes of the runs of each request.

    `stream` says which markets are drawn: those of one stream are the same for all runs, two streams are independent.
    Requests of one kind are played together, which takes two fifths of the time and changes no figure.
    """
    kinds: dict[tuple[Grid, int, int, bool], list[int]] = {}
    for place, request in enumerate(requests):
        kinds.setdefault(request.part.kind, []).append(place)
    lucks: dict[int, Luck] = {}
    for (grid, *_), places in kinds.items():
        for first in range(0, len(places), DRAWN_TOGETHER):
            keep_going()
            block = places[first : first + DRAWN_TOGETHER]
            asked = [requests[place].part for place in block]
            chain = build_chain_for([request.curve for request in asked], grid)
            lucks.update(zip(block, _Runs(asked, chain, _actions(chain, grid.ticks)).play(stream), strict=True))
    return [lucks[place].times(request.parts) for place, request in enumerate(requests)]


def _actions(chain: MarkovChain, ticks: int) -> NDArray[np.int8]:
    """Return the best action of each run (b) at each time left and slack in each state, (b, ticks, 2M + U, points)."""
    induction = FollowedInduction if chain.mix.shape[2] > 2 * chain.states + 2 * chain.ups else BackwardInduction
    backward, (count, points), m, ups = induction(chain, counts=DOLLARS), chain.slack.shape, chain.states, chain.ups
    actions = np.empty((count, ticks, 2 * m + ups, points), dtype=np.int8)
    for number in range(ticks):
        moment = backward.step()
        idle = moment.idle
        width = idle.shape[2]
        rows = actions[:, number]
        rows[:, :m, :width] = idle
        rows[:, m : 2 * m, :width] = np.where(moment.leaves_demand, idle, Action.ON_DEMAND)
        rows[:, 2 * m :, :width] = np.where(moment.leaves_spot, idle[:, :ups], Action.SPOT)
        # Where no work is left there is no action: a run between such a point and one with work does as at the latter.
        with_work = chain.slack[:, :width] < moment.hours_left[:, None] - ROUNDING_HOURS
        for row, last in zip(rows, np.maximum(with_work.sum(axis=1) - 1, 0).tolist(), strict=True):
            row[:, last + 1 :] = row[:, last : last + 1]
    return actions


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
    """The state of all runs of some requests, one request after the other; every array has the shape (runs,).

    A run goes on to the next moment at which it acts or its market changes, so that up-times and outages are as long
    as they are drawn: in whole ticks they would vary less, and so would the dollars. It acts after each tick, at once
    where its machines are lost, and where it next looks at a market that changed.
    """

    def __init__(self, requests: Sequence[LuckRequest], chain: MarkovChain, actions: NDArray[np.int8]) -> None:
        self.chain, self.actions, runs = chain, actions, [request.run for request in requests]
        self.tick, self.ups, m = chain.tick, chain.ups, chain.states
        self.middles = (chain.slack[:, 1:] + chain.slack[:, :-1]) / 2
        # By action: waiting, spot, on demand.
        self.offset = np.array([0, 2 * m, m])
        self.restart, self.progress = chain.restart.ravel(), np.array([progress_on_spot(run) for run in runs])
        none = np.zeros(len(runs))
        self.debt = np.stack([none, self.restart * self.progress, self.restart], axis=1)
        self.drain = np.stack([none + 1, 1 - self.progress, none], axis=1)
        self.hop, self.checkpoints = np.array([run.hop_hours for run in runs]), Checkpoints.of(runs)
        self.instant = np.array([request.states.instant for request in requests])
        markets = [(request.states.up, request.states.down) for request in requests]
        self.rate = np.array([np.concatenate([ages.rates for ages in both]) for both in markets])
        self.width = np.array(
            [np.concatenate([np.diff(ages.begins, append=math.inf) for ages in both]) for both in markets]
        )
        self.left = np.concatenate([request.deadlines for request in requests]).astype(float)
        self.slack = self.left - np.concatenate([request.work_hours for request in requests])
        count = len(self.left)
        self.running, self.number = np.zeros(count, dtype=np.int64), np.arange(count)
        self.of = self.number // RUNS  # the request of each run
        self.until_asked, self.since_start = np.zeros(count), np.zeros(count)
        self.hours, self.paid, self.interruptions = np.zeros(count), np.zeros((3, count)), np.zeros(count)

    def play(self, stream: int) -> list[Luck]:
        """Let all runs come to their end, on the markets of a stream."""
        first, self.amounts, self.places = _draws(stream)
        chances, last = np.cumsum(self.chain.first, axis=1), self.chain.states - 1
        begun = [np.minimum(np.searchsorted(chance, first), last) for chance in chances]
        self.market = np.concatenate(begun)
        self.changes = np.zeros(len(self.number), dtype=np.int64)
        width = self.width[self.of, self.market]
        place = np.tile(self.places[0], len(begun))
        bounded = np.where(np.isfinite(width), width, 0.0)  # the last band has no end to wait for
        self.until_older = width - age_in_band(self.rate[self.of, self.market], bounded, place)
        self.owed = np.tile(self.amounts[0], len(begun))
        with np.errstate(divide="ignore", invalid="ignore"):  # a state of rate 0 does not end, waiting does no work
            while len(self.number):
                self._act()
                self._advance()
        arrays = (self.hours, self.paid[Action.SPOT], self.paid[Action.ON_DEMAND], self.interruptions)
        return [Luck(*luck) for luck in zip(*(array.reshape(-1, RUNS) for array in arrays), strict=True)]

    def _drawn(self, numbers: Floats, at: Integers) -> Floats:
        """Return the numbers of runs (n,) for their next change; once all are taken, those of another run."""
        again, row = np.divmod(self.changes[at], DRAWN_CHANGES)
        return np.asarray(numbers[row, (self.number[at] + again * OTHER_RUN) % RUNS])

    def _act(self) -> None:
        """Start and stop machines as the policy says, where it is asked."""
        asked = np.flatnonzero(self.until_asked <= ROUNDING_HOURS)
        of, running, slack = self.of[asked], self.running[asked], self.slack[asked]
        tick = self.tick[of]
        self.until_asked[asked] = tick
        at = np.clip(np.rint(self.left[asked] / tick).astype(np.int64) - 1, 0, self.actions.shape[1] - 1)
        action = self.actions[of, at, self.market[asked] + self.offset[running], self._points(of, slack)]
        starts = action != running
        self.slack[asked] = slack - np.where(starts, self.debt[of, action], 0.0)
        self.since_start[asked[starts]] = 0.0
        self.running[asked] = action

    def _points(self, of: Integers, slack: Floats) -> Integers:
        """Return the nearest points of slack (n,) on the axes of the requests that runs are of, in rising order."""
        bounds = np.searchsorted(of, np.arange(len(self.middles) + 1)).tolist()
        ranges = zip(self.middles, bounds, bounds[1:], strict=False)
        return np.concatenate([np.searchsorted(axis, slack[begin:end]) for axis, begin, end in ranges])

    def _advance(self) -> None:
        """Let time pass up to the next event: the end of a run, a change of its market, the next tick."""
        running, number, rate = self.running, self.number, self.rate[self.of, self.market]
        drain = self.drain[self.of, running]
        # Work that waits does not end, not even where rounding leaves a little less than none of it.
        until_end = np.maximum(self.left - self.slack, 0.0) / (1 - drain)
        until_end[running == Action.WAIT] = np.inf
        until_change = self.owed / rate
        spent = np.minimum(np.minimum(until_end, until_change), np.minimum(self.until_older, self.until_asked))
        self.slack -= drain * spent
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
        place, of = self._drawn(self.places, changed), self.of[changed]
        goes_down = (self.market < self.ups)[changed] & (place >= self.instant[of])
        self.market[changed] = np.where(ends[changed], np.where(goes_down, self.ups, 0), self.market[changed] + 1)
        self.owed[ended] = self._drawn(self.amounts, ended)
        self.until_older[changed] = self.width[of, self.market[changed]]
        self.until_asked[changed] = np.minimum(self.until_asked[changed], LOOKED_AT_EVERY_HOURS * place)
        self.slack[lost] -= self._lost_work(self.of[lost], self.since_start[lost])
        self.interruptions[self.number[lost]] += 1
        self.running[lost], self.until_asked[lost] = Action.WAIT, 0.0

    def _lost_work(self, of: Integers, paid_hours: Floats) -> Floats:
        """Return the slack that a loss takes so many paid hours after a start: what was charged is not all spent."""
        restart = self.restart[of]
        busy = np.maximum(paid_hours - restart, 0.0)
        unspent = np.maximum(restart - paid_hours, 0.0)
        kept = self.checkpoints.of_runs(of).work_in(busy)[1]
        return np.asarray((busy - unspent) * self.progress[of] - kept + self.hop[of])

    def _drop(self, kept: Flags) -> None:
        """Leave out the runs that have ended."""
        for name in RUN_ARRAYS:
            setattr(self, name, getattr(self, name)[kept])


def age_in_band(rate: Floats, width: Floats, place: Floats) -> Floats:
    """Return how long ago (n,) a duration entered its band at a random moment; `place` (n,) is drawn from 0 to 1.

    An age is as likely as a duration is to reach it.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        age = np.where(rate > 0, -np.log1p(place * np.expm1(-rate * width)) / rate, place * width)
    return np.asarray(age)
