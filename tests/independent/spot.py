"""Runs on a spot market, minute by minute: what a plan costs and when it ends, by no line of the policy's code.

What is taken from the program is what a user has: the plan as JSON, the table of its policy (`planner simulate
--policy`), and how long work, a start and a checkpoint take. The market is drawn from the rates that the scenario
states: durations by inverting their cumulative hazard, begun so long before the run that it meets them at a random
moment. The policy is asked every five minutes, and at once where machines are taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MINUTE = 1 / 60
ASKED_EVERY = 5
WAIT, SPOT, DEMAND = 0, 1, 2
WORDS = {"wait": WAIT, "spot": SPOT, "on_demand": DEMAND}
RUNNING = {"nothing": WAIT, "spot": SPOT, "on_demand": DEMAND}


@dataclass(frozen=True)
class Rates:
    """How fast a state of the market ends, by its age in hours."""

    ages: tuple[float, ...]
    rates: tuple[float, ...]

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        owed, lasted = rng.exponential(size=shape), np.zeros(shape)
        for begin, end, rate in zip(self.ages, (*self.ages[1:], math.inf), self.rates, strict=True):
            here = np.minimum(owed / rate, end - begin)
            alive = owed > 0
            lasted += np.where(alive, here, 0.0)
            owed = np.where(alive, owed - here * rate, 0.0)
            owed[owed < 1e-12] = 0.0
        return lasted

    def mean(self) -> float:
        found, alive = 0.0, 1.0
        for begin, end, rate in zip(self.ages, (*self.ages[1:], math.inf), self.rates, strict=True):
            ended = 1 - math.exp(-rate * (end - begin))
            found += alive * ended / rate
            alive *= 1 - ended
        return found


@dataclass(frozen=True)
class Job:
    """What a plan says of its one job, on machines that are rented by the hour and cost nothing else."""

    work: float  # hours at the expected speed
    restart: float
    interval: float  # hours of work between two checkpoints; 0: nothing is ever lost
    stall: float  # hours that a checkpoint on spot stops the work
    write: float  # hours after which it is safe
    notice: bool  # long enough for a last checkpoint
    sigma: float
    spot_usd: float  # an hour of all machines
    demand_usd: float  # inf: not sold
    deadline: float
    guaranteed: float = math.inf  # of a policy
    switch: float = math.inf  # of fixed shares: when it moves to on demand
    table: dict[str, Any] | None = None


@dataclass(frozen=True)
class Outcome:
    usd: Floats
    hours: Floats  # both inf where the path ended first


def slowness(sigma: float, ranks: Floats) -> Floats:
    """Student's t with two degrees of freedom, its 95 % quantile that of a normal; cut at 2.5 and 97.5 %."""
    rank = np.clip(ranks, 0.025, 0.975)
    t = (2 * rank - 1) / np.sqrt(2 * rank * (1 - rank))
    return np.exp(sigma * 1.645 / 2.92 * t)


def ends_of_states(up: Rates, down: Rates, runs: int, hours: float, rng: np.random.Generator) -> Floats:
    """When the states of each market end (runs, many), up, down and so on, begun long before hour 0."""
    cycle = up.mean() + down.mean()
    before, count = 40.0 * cycle, 60 + int(1.5 * hours / cycle)
    while True:
        each = np.stack([up.draw(rng, (runs, count)), down.draw(rng, (runs, count))], axis=2).reshape(runs, -1)
        ends = np.cumsum(each, axis=1) - before
        if ends[:, -1].min() > hours:
            return ends
        count *= 2


@dataclass(frozen=True)
class Checkpoints:
    """What is done and what is kept of hours of work on spot since the last start, by the clock (runs,)."""

    job: Job

    def done(self, busy: Floats) -> Floats:
        if self.job.interval == 0:
            return busy
        whole, rest = np.divmod(busy, self.job.interval + self.job.stall)
        return whole * self.job.interval + np.minimum(rest, self.job.interval)

    def kept(self, busy: Floats) -> Floats:
        if self.job.interval == 0 or self.job.notice:
            return self.done(busy)
        safe = np.maximum(busy - self.job.write, 0.0)
        return np.floor(safe / (self.job.interval + self.job.stall)) * self.job.interval

    def hours_for(self, work: Floats) -> Floats:
        if self.job.interval == 0:
            return work
        return work + self.job.stall * np.maximum(np.ceil(work / self.job.interval - 1e-9) - 1, 0)


class Advice:
    """The table of a policy, read as its documentation says."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.up = np.array(table["up_bands_begin_hours"])
        self.down = np.array(table["down_bands_begin_hours"])
        self.left = np.array(table["hours_left"])
        self.needed = table["slack_needed_hours"]
        most = max(len(row) for one in table["decisions"] for row in one["do"])
        shape = (2, max(len(self.up), len(self.down)), 3, len(self.left))
        self.first = np.zeros(shape, int)
        self.bounds = np.full((*shape, most // 2), np.inf)
        self.then = np.zeros((*shape, most // 2), int)
        for one in table["decisions"]:
            key = int(one["market"] == "up"), one["age_band"], RUNNING[one["running"]]
            for number, row in enumerate(one["do"]):
                self.first[(*key, number)] = WORDS[row[0]]
                for place, (bound, word) in enumerate(zip(row[1::2], row[2::2], strict=True)):
                    self.bounds[(*key, number, place)] = bound
                    self.then[(*key, number, place)] = WORDS[word]

    def ask(self, left: Floats, work: Floats, up: Any, age: Floats, running: Any) -> Any:
        slack = left - work
        band = np.where(
            up,
            np.searchsorted(self.up[1:], age + 1e-9, side="right"),
            np.searchsorted(self.down[1:], age + 1e-9, side="right"),
        )
        row = np.searchsorted((self.left[1:] + self.left[:-1]) / 2, left)
        scaled = slack * np.minimum(1.0, self.left[-1] / np.maximum(left, self.left[-1]))
        key = up.astype(int), band, running, row
        passed = (self.bounds[key] <= scaled[:, None]).sum(axis=1)
        later = self.then[key]
        does = np.where(passed > 0, later[np.arange(len(later)), np.maximum(passed - 1, 0)], self.first[key])
        on_spot = np.where(running == SPOT, self.needed["spot"], self.needed["start_spot"])
        needed = np.where(does == SPOT, on_spot, self.needed["wait"])
        return np.where((does != DEMAND) & (slack < needed - 1e-9), DEMAND, does)


def simulate(job: Job, up: Rates, down: Rates, runs: int, seed: int, latest: float) -> Outcome:
    """Follow the plan of a job on drawn markets, from fast to slow, up to `latest` hours."""
    rng, every = np.random.default_rng(seed), np.arange(runs)
    slow = slowness(job.sigma, (every + 0.5) / runs)
    states, at = ends_of_states(up, down, runs, latest + MINUTE, rng), np.zeros(runs, int)
    advice, checkpoints = Advice(job.table) if job.table else None, Checkpoints(job)
    end = np.minimum(slow * job.guaranteed, job.deadline) if advice else np.full(runs, job.switch)
    left = slow * job.work
    at_start, busy = left.copy(), np.zeros(runs)  # work left when the machines were started, hours since they work
    starting, running = np.zeros(runs), np.full(runs, WAIT)
    paid, hours = np.zeros((3, runs)), np.full(runs, np.inf)
    lost = np.zeros(runs, bool)
    for minute in range(math.ceil(latest / MINUTE)):
        now = minute * MINUTE
        while (over := states[every, at] <= now + 1e-12).any():
            at += over
        here, is_open = at % 2 == 0, np.isinf(hours)
        if not is_open.any():
            break
        which = np.flatnonzero(is_open & (lost | (minute % ASKED_EVERY == 0)))
        if which.size:
            up, remaining, before = here[which], left[which], running[which]
            if advice:
                age = now - states[which, at[which] - 1]
                does = advice.ask(end[which] - now, remaining, up, age, before)
            else:
                does = np.where(now >= end[which] - 1e-9, DEMAND, np.where(up, SPOT, WAIT))
            does = np.where((does == SPOT) & ~up, WAIT, does)
            begins = which[does != before]
            running[which] = does
            starting[begins] = np.where(running[begins] == WAIT, 0.0, job.restart)
            at_start[begins], busy[begins] = left[begins], 0.0
        rented, on_spot = is_open & (running != WAIT), running == SPOT
        to_end = np.where(on_spot, checkpoints.hours_for(at_start), at_start) - busy
        time = np.where(rented, np.minimum(MINUTE, starting + to_end), 0.0)
        busy += np.maximum(time - starting, 0.0)
        starting = np.maximum(starting - time, 0.0)
        left = at_start - np.where(on_spot, checkpoints.done(busy), busy)
        paid[running, every] += time
        ended = rented & (left <= 1e-9)
        hours[ended] = now + time[ended]
        lost = is_open & ~ended & on_spot & (states[every, at] <= now + MINUTE)
        left[lost] = (at_start - checkpoints.kept(busy))[lost]
        at_start[lost], busy[lost], running[lost] = left[lost], 0.0, WAIT
    usd = paid[SPOT] * job.spot_usd
    if math.isfinite(job.demand_usd):
        usd = usd + paid[DEMAND] * job.demand_usd
    return Outcome(np.where(np.isinf(hours), np.inf, usd), hours)
