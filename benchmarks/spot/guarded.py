"""The least cost of a run that knows the future and still keeps the deadline safe at every moment.

A policy that never misses a deadline, whatever the market does, must at every moment have the time left to finish on
demand. On a given path no such policy costs less than the best schedule that does so, not even one that guesses
right each time. What lies between this and the optimum, which needs no reserve, is the price of the guarantee.

With a restart that loses no work, the slack (time left minus work left) falls by a tick for each tick waited and by a
restart for each start. So the states of a dynamic program are the time, both numbers and what runs.
"""

from __future__ import annotations

import math

import numpy as np

from planner.arrays import Flags, Floats
from planner.spot.run import SpotRun

EPSILON = 1e-9


def guarded_usd(run: SpotRun, up: Flags, tick: float, deadline: float) -> Floats:
    """Return the dollars of the best guarded schedule on each path; `up` (zones, runs, ticks), shape (runs,).

    For runs with free checkpoints that lose no work. Starts and changes at ticks; a start is paid for its whole ticks.
    """
    restart, ticks = run.restart_hours, round(deadline / tick)
    first = max(math.ceil(restart / tick - EPSILON), 1)  # ticks of a start
    zones, paths, _ = up.shape
    room = deadline - run.work_hours
    waits, starts = int((room - restart) / tick + EPSILON) + 1, int(room / restart + EPSILON) + 1
    slack = room - np.arange(waits)[:, None] * tick - np.arange(starts) * restart
    there = np.concatenate([up[:, :, :ticks], np.zeros((zones, paths, first), dtype=bool)], axis=2)
    there = np.concatenate([there, np.ones((1, paths, ticks + first), dtype=bool)])  # on demand last
    rate = np.array([run.spot_usd_per_hour] * zones + [run.on_demand_usd_per_hour])[:, None, None, None]
    needed = np.array([2 * restart] * zones + [restart])[:, None, None, None]
    may_start, may_wait = slack >= needed - EPSILON, slack >= restart + tick - EPSILON
    ahead = _ticks_ahead(there)
    idle = np.full((paths, waits, starts), math.inf)
    idle[:, 0, 0] = 0.0
    running = np.full((zones + 1, *idle.shape), math.inf)
    coming = [running] * first  # starts by when they end, the next one first
    best = np.full(paths, math.inf)
    for number in range(ticks):
        left = deadline - number * tick - slack
        idle = np.minimum(idle, running.min(axis=0))
        on = there[:, :, number][..., None, None]
        ends = np.where(on & (left <= tick + EPSILON), running + np.maximum(left, 0.0) * rate, math.inf)
        demand = np.where(slack >= restart - EPSILON, idle + (restart + left) * run.on_demand_usd_per_hour, math.inf)
        best = np.minimum(best, np.minimum(ends.min(axis=(0, 2, 3)), demand.min(axis=(1, 2))))
        lasts = may_start & (ahead[:, :, number] >= first)[..., None, None]
        begun = np.full_like(running, math.inf)
        begun[..., 1:] = np.where(lasts, idle + first * tick * rate, math.inf)[..., :-1]
        coming = [*coming[1:], begun]
        running = np.minimum(np.where(on & (left > tick + EPSILON), running + tick * rate, math.inf), coming[0])
        waited = np.full_like(idle, math.inf)
        waited[:, 1:] = np.where(may_wait, idle, math.inf)[:, :-1]
        idle = waited
    return best


def _ticks_ahead(there: Flags) -> Floats:
    """Return for how many ticks each zone stays up from each tick on; the shape of `there`."""
    ahead = np.zeros(there.shape)
    after = np.zeros(there.shape[:-1])
    for number in range(there.shape[-1] - 1, -1, -1):
        after = np.where(there[..., number], after + 1, 0)
        ahead[..., number] = after
    return ahead
