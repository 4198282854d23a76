"""What a run would have cost for whoever had known the whole path of the market: no policy can beat it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.spot.replay.lagrangian_bound import lower_bound_usd

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from planner.arrays import Flags, Floats
    from planner.spot.policy.run import SpotRun

BLOCK: Final = 24
"""Paths that are worked on together: the tables of costs by work done stay in the processor's cache."""


def optimum_usd(run: SpotRun, up: Flags, tick_hours: float, deadline_hours: float, slowness: ArrayLike = 1.0) -> Floats:
    """Least dollars for each path of `up`, shape (runs, ticks), if all of it is known from the start; shape (runs,).

    `slowness`: of each run or one for all, as in `replay`. inf where even somebody all-knowing is late.

    Rents and restarts are paid as in `replay`; machines change at the start of ticks; interruptions are foreseen and
    left for in time, so no work is lost. Where checkpoints take no time, and restart and work last whole ticks, this is
    the exact optimum and can be attained: a dynamic program over time, work done and what runs. Elsewhere it is
    `bound_usd`, which errs to the cheap side: some 0.3 % below the exact optimum where both can be had.
    A deadline within a tick counts as that tick's end, to the cheap side again.
    """
    runs, ticks = up.shape
    end = math.ceil(deadline_hours / tick_hours - 1e-9)
    if end > ticks:
        raise ValueError(f"paths of {ticks * tick_hours:g} h do not reach the deadline at {deadline_hours:g} h")
    work = np.broadcast_to(np.asarray(slowness, float) * run.work_hours, (runs,))
    stalls = run.stall_hours > 0 and run.interval_hours < work.max(initial=0.0)
    lengths = np.array([run.restart_hours, work[0] if runs else 0.0]) / tick_hours
    if stalls or np.ptp(work) > 0 or np.abs(lengths - np.round(lengths)).max() > 1e-6:
        return lower_bound_usd(run, up[:, :end], tick_hours, work.astype(float))
    restart, whole = (int(length) for length in np.round(lengths))
    path = np.ascontiguousarray(up[:, :end])
    blocks = [path[first : first + BLOCK] for first in range(0, runs, BLOCK)]
    return np.concatenate([_exact_usd(run, block, tick_hours, restart, whole) for block in blocks])


def _exact_usd(run: SpotRun, up: Flags, tick_hours: float, restart: int, work: int) -> Floats:
    """Forward over ticks: least dollars by which each amount of work can have been done; restart and work in ticks.

    Tables have the shape (runs, work + 1); what can no longer be finished in time, or not be reached yet, is left out.
    """
    runs, ticks = up.shape
    start = max(restart, 1)  # ticks after which a start has led to work or may lead to it
    gained = start - restart  # work of those ticks
    spot, demand = (np.full((runs, work + 1), math.inf) for _ in range(2))
    idle = np.full((runs, work + 1), math.inf)
    idle[:, 0] = 0.0
    past = [idle]  # tables of what can be had with nothing running, newest last
    best = np.full(runs, 0.0 if work == 0 else math.inf)
    streak = np.zeros(runs, np.int64)
    for tick in range(ticks):
        low, high = max(work - (ticks - tick - 1), 0), min(tick + 1, work) + 1
        streak = np.where(up[:, tick], streak + 1, 0)
        spot = _advance_running(spot, run.spot_usd_per_hour * tick_hours, low, high)
        spot[streak == 0] = math.inf
        demand = _advance_running(demand, run.on_demand_usd_per_hour * tick_hours, low, high)
        idle = past[-1].copy()
        if len(past) >= start:
            begun = past[-start]
            usd = np.where(streak >= start, start * run.spot_usd_per_hour * tick_hours, math.inf)[:, None]
            _advance_started(spot, begun, usd, gained, low, high)
            _advance_started(demand, begun, start * run.on_demand_usd_per_hour * tick_hours, gained, low, high)
        for table in (spot, demand):
            np.minimum(idle[:, low:high], table[:, low:high], out=idle[:, low:high])
        past = [*past[-start + 1 :], idle] if start > 1 else [idle]
        best = np.minimum(best, idle[:, work] + (tick + 1) * tick_hours * run.standing_usd_per_hour)
    return best


def _advance_running(table: Floats, usd: float, low: int, high: int) -> Floats:
    """One more tick of machines that run: one more tick of work."""
    after = np.full_like(table, math.inf)
    first = max(low, 1)
    np.add(table[:, first - 1 : high - 1], usd, out=after[:, first:high])
    return after


def _advance_started(table: Floats, begun: Floats, usd: Floats | float, gained: int, low: int, high: int) -> None:
    """Machines started a while ago, from where nothing ran, are ready for work."""
    first = max(low, gained)
    fresh = begun[:, first - gained : high - gained] + usd
    np.minimum(table[:, first:high], fresh, out=table[:, first:high])
