"""Checkpoints on spot: their interval, the stalls they cost and the work that an interruption loses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.preemption import young_interval
from planner.spot.policy.run import ROUNDING_HOURS

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.run import SpotRun

WARNED_INTERVAL_HOURS = 1.0
"""Least work between checkpoints where the notice is long enough for a last one: these guard against other faults."""


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


def work_in(run: SpotRun, busy: Floats) -> tuple[Floats, Floats]:
    """Return the work done in hours (n,) after a start, and what is kept of it when machines are lost then.

    A checkpoint after each interval stalls the work and is safe when it is written.
    """
    if run.interval_hours == 0 or math.isinf(run.interval_hours):
        return busy, busy if run.last_checkpoint or run.interval_hours == 0 else np.zeros_like(busy)
    cycle = run.interval_hours + run.stall_hours
    number = np.floor(busy / cycle + ROUNDING_HOURS)
    done = number * run.interval_hours + np.minimum(busy - number * cycle, run.interval_hours)
    if run.last_checkpoint:
        return done, done
    written = np.floor((busy - run.write_hours) / cycle + ROUNDING_HOURS)
    return done, np.maximum(written, 0.0) * run.interval_hours
