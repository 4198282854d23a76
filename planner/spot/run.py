"""A run on spot or on-demand machines: what a policy may do, its checkpoints, the slack that guards its deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.estimates.inputs import Numbers
from planner.estimates.stage_seconds import young_interval
from planner.spot.states import SpotStates

if TYPE_CHECKING:
    from collections.abc import Sequence


# A run on spot or on-demand machines, and what a policy may do with it at any moment.


ROUNDING_HOURS = 1e-9
"""Events closer than this are simultaneous; a guard may be broken by as much."""


class Action:
    """Codes of what a policy asks for, and equally of what is running.

    Plain integers: arrays compare with members of an `IntEnum` five times more slowly.
    """

    WAIT: Final = 0
    SPOT: Final = 1
    ON_DEMAND: Final = 2


@dataclass(frozen=True)  # a key that is looked up thousands of times
class SpotRun:
    """One run on machines that are rented on spot or on demand; all of its node group together.

    Every start of machines (the first, after an interruption, after a change of market) takes `restart_hours`
    without progress, and these are paid.
    On spot a checkpoint is taken after each `interval_hours` of work and stalls it for `stall_hours`. It is written
    while the work goes on, and safe `write_hours` later. An interruption loses the work since the last safe checkpoint,
    unless the notice is long enough for a last one.
    Leaving spot voluntarily writes a checkpoint and loses nothing.
    """

    work_hours: float
    restart_hours: float
    stall_hours: float
    interval_hours: float
    spot_usd_per_hour: float
    on_demand_usd_per_hour: float  # inf: not sold, and no deadline can be guaranteed
    standing_usd_per_hour: float = 0.0  # in every hour until the end: storage, and the value of an hour of waiting
    last_checkpoint: bool = False
    write_hours: float = 0.0  # at most the interval and its stall: one write at a time
    hop_usd: float = 0.0  # of each loss of machines, on average: data that are moved to another zone
    hop_hours: float = 0.0  # likewise, on paid machines, before work goes on

    @property
    def on_demand_usd(self) -> float:
        """Return the dollars of the run on demand from its start to its end."""
        rate = self.on_demand_usd_per_hour + self.standing_usd_per_hour
        return (self.work_hours + self.restart_hours) * rate


class Policy(Protocol):
    """What to do next, for many runs at once; arrays of shape (runs,)."""

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the `Action` of each run; SPOT only where `up`.

        Parameters
        ----------
        work_left
            Hours of work that are not done; unsaved work counts as done.
        hours_left
            Hours to the deadline.
        up, age_hours
            Whether the market is up, and for how many hours it has been up or down.
        running
            The `Action` that is running now; a spot machine that was just lost no longer runs.
        """
        ...


# Checkpoints on spot: their interval, the stalls they cost and the work that an interruption loses.


WARNED_INTERVAL_HOURS = 1.0
"""Least work between checkpoints where the notice is long enough for a last one: these guard against other faults."""

NEVER_HOURS = 1e18
"""Hours that no run takes."""


def checkpoint_interval(
    stall_hours: float,
    states: SpotStates,
    share_of_young: float,
    write_hours: float = 0.0,
    last_checkpoint: bool = False,
) -> float:
    """Return the hours of work between two checkpoints that stall the run for `stall_hours` each.

    A share of Young's interval: `share_of_young` is `interval_share_of_young` of models/calibration/stages.yaml (0.7,
    because many up-times are short). At least the hours of a full write: one must end before the next begins.
    inf where machines are never taken; 0 where a checkpoint costs nothing. With `last_checkpoint` an interruption loses
    nothing, and the interval is at least an hour.
    """
    up = states.up.mean()
    interval = math.inf if math.isinf(up) else share_of_young * float(young_interval(stall_hours, up))
    return max(interval, write_hours, WARNED_INTERVAL_HOURS if last_checkpoint else 0.0)


def last_checkpoint_fits(notice_seconds: float, write_seconds: float) -> bool:
    """Return whether the notice before machines are taken is long enough to write a last checkpoint."""
    return notice_seconds > 0 and write_seconds <= notice_seconds


def progress_on_spot(run: SpotRun) -> float:
    """Return the work per paid hour on spot without interruptions: interval / (interval + stall), 0 to 1."""
    if run.stall_hours == 0 or math.isinf(run.interval_hours):
        return 1.0
    return run.interval_hours / (run.interval_hours + run.stall_hours)


def max_lost_hours(run: SpotRun) -> float:
    """Return the most hours of work that an interruption can lose: all since the last checkpoint that is safe.

    Never more than the whole work, which is lost where no checkpoint is written at all.
    """
    return 0.0 if run.last_checkpoint else min(run.interval_hours + run.write_hours, run.work_hours)


def mean_lost_hours(run: SpotRun, rate: float) -> float:
    """Return the mean hours of work that an interruption loses where machines are taken at `rate` per hour.

    With c the interval, w the write and x = rate c: all work is lost before the first write can have ended, later what
    lies between c (1/x - 1/(e^x - 1)) and the write in flight,

        (1 - e^(-rate w)) / rate + e^(-rate w) c (1/x - 1/(e^x - 1)).

    Half an interval and the write while both are short, the mean up-time where no checkpoint is written.
    c = 0.5 h, w = 0.2 h, rate 0.1: 0.198 + 0.980 * 0.248 = 0.441 h.
    """
    most = max_lost_hours(run)
    write = min(run.write_hours, most)
    cycle = most - write
    x = rate * cycle
    lost = cycle / 2 if x < 1e-4 else cycle * (1 / x - 1 / math.expm1(min(x, 500.0)))
    in_flight = write if rate * write < 1e-9 else -math.expm1(-rate * write) / rate
    return in_flight + math.exp(-rate * write) * lost


@dataclass(frozen=True)
class Checkpoints:
    """When runs write checkpoints; arrays (n,) that go with the runs."""

    interval: Floats  # hours of work between two; inf: none is written, 0: each hour is safe as it is done
    stall: Floats  # hours
    write: Floats  # hours
    has_last: Flags  # whether the notice is long enough for a last one

    @classmethod
    def of(cls, runs: Sequence[SpotRun]) -> Checkpoints:
        """Return those of some runs."""
        rows = [(run.interval_hours, run.stall_hours, run.write_hours, run.last_checkpoint) for run in runs]
        interval, stall, write, has_last = (np.array(column) for column in zip(*rows, strict=True))
        return cls(interval, stall, write, has_last)

    def of_runs(self, which: Integers) -> Checkpoints:
        """Return those of the runs at some places (n,)."""
        return Checkpoints(self.interval[which], self.stall[which], self.write[which], self.has_last[which])

    def work_in(self, busy: Floats) -> tuple[Floats, Floats]:
        """Return the work done in hours (n, ...) after a start, and what is kept of it when machines are lost then.

        A checkpoint after each interval stalls the work and is safe when it is written.
        """
        interval = np.minimum(self.interval, NEVER_HOURS)
        cycle = np.where(interval > 0, interval + self.stall, 1.0)
        number = np.floor(busy / cycle + ROUNDING_HOURS)
        done = np.where(interval > 0, number * interval + np.minimum(busy - number * cycle, interval), busy)
        written = np.maximum(np.floor((busy - self.write) / cycle + ROUNDING_HOURS), 0.0)
        return done, np.where(self.has_last | (interval == 0), done, written * interval)


def work_in(run: SpotRun, busy: Floats) -> tuple[Floats, Floats]:
    """Return the work done in hours of any shape after a start of a run, and what is kept of it: see `Checkpoints`."""
    return Checkpoints.of([run]).work_in(busy)


# The slack that must be left so that on-demand machines can finish a run by its deadline, whatever the market does.
#
# Slack is time left minus work left, where work left counts unsaved work as done.


def required_slack(restart: Numbers, lost: Numbers, stalls: Numbers, tick: Numbers) -> tuple[Any, Any, Any]:
    """Return the slack in hours that waiting, spot that runs and a start on spot each require for one tick.

    Each covers the slack that the tick can consume and the restart on demand after it. Waiting consumes the tick.
    An hour on spot consumes only its `stalls`, because its progress reduces the work left. An interruption consumes
    the work `lost`. A start consumes its own restart.
    """
    spot = restart + lost + stalls
    return restart + tick, spot, restart + spot


@dataclass(frozen=True)
class DeadlineGuard:
    """Slack in hours without which an action must not be taken until the policy is asked again."""

    wait: float
    spot: float  # spot machines that run already
    start_spot: float  # spot machines that do not run yet

    @classmethod
    def of(cls, run: SpotRun, tick_hours: float) -> DeadlineGuard:
        """Return the guard of a policy that is asked every `tick_hours`, and at once where machines are taken."""
        stalls = min(tick_hours, _max_stall_hours(run, tick_hours))
        lost = max_lost_hours(run) + run.hop_hours
        return cls(*required_slack(run.restart_hours, lost, stalls, tick_hours))

    def enforce(self, action: Integers, slack: Floats, running: Integers) -> Integers:
        """Return the action of each run, or ON_DEMAND where its slack is too short for it; shape (runs,)."""
        spot = np.where(running == Action.SPOT, self.spot, self.start_spot)
        required = np.where(action == Action.SPOT, spot, self.wait)
        barred = (action != Action.ON_DEMAND) & (slack < required - ROUNDING_HOURS)
        return np.where(barred, Action.ON_DEMAND, action)


def _max_stall_hours(run: SpotRun, tick_hours: float) -> float:
    """Return the most hours of checkpoints that can fall into one tick."""
    if run.stall_hours == 0 or math.isinf(run.interval_hours):
        return 0.0
    return run.stall_hours * math.ceil(tick_hours / (run.interval_hours + run.stall_hours) + ROUNDING_HOURS)
