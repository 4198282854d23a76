"""Checkpoints on spot: their interval, the stalls they cost and the work that an interruption loses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.preemption import young_interval
from planner.records import record
from planner.spot.policy.run import ROUNDING_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.run import SpotRun

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


@record(frozen=True)
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
        interval, stall, write, has_last = (np.array(one) for one in zip(*rows, strict=True))
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
