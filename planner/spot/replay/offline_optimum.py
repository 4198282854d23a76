"""The offline optimum of a run: its least cost if the whole path of the market is known; no policy can beat it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.spot.replay.lagrangian_bound import lower_bound_usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from planner.arrays import Flags, Floats
    from planner.spot.policy.run import SpotRun

PATHS_PER_BLOCK: Final = 24
"""Paths that are solved together: the tables of costs by work done stay in the processor's cache."""


def optimum_usd(run: SpotRun, up: Flags, tick_hours: float, deadline_hours: float, slowness: ArrayLike = 1.0) -> Floats:
    """Return the least dollars of each path of `up`, shape (runs, ticks), known in advance; shape (runs,).

    `slowness`: of each run or one for all, as in `replay`. inf where even the offline optimum is late.

    Rents and restarts are paid as in `replay`; machines change at the start of ticks; interruptions are foreseen, and
    machines are left in time, so no work is lost. Where checkpoints take no time, and restart and work last whole
    ticks, this is the exact optimum, which a dynamic program over time, work done and what runs finds. Elsewhere it is
    `lower_bound_usd`, about 0.3 % below the exact optimum where both exist.
    A deadline within a tick counts as the end of that tick, which keeps it a lower bound.
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
    blocks = [path[first : first + PATHS_PER_BLOCK] for first in range(0, runs, PATHS_PER_BLOCK)]
    return np.concatenate([_exact_usd(run, block, tick_hours, restart, whole) for block in blocks])


def optimum_of_zones_usd(
    run: SpotRun, up: Flags, tick_hours: float, deadline_hours: float, zone_usd: Sequence[float]
) -> Floats:
    """Return dollars that no schedule undercuts that may use every zone of `up`, shape (zones, runs, ticks).

    `zone_usd`: dollars per hour on spot in each zone. A change of zone is a start and costs nothing else.
    """
    end = math.ceil(deadline_hours / tick_hours - 1e-9)
    if end > up.shape[2]:
        raise ValueError(f"paths of {up.shape[2] * tick_hours:g} h do not reach the deadline at {deadline_hours:g} h")
    work = np.full(up.shape[1], run.work_hours, dtype=float)
    return lower_bound_usd(run, up[:, :, :end], tick_hours, work, zone_usd)


def _exact_usd(run: SpotRun, up: Flags, tick_hours: float, restart: int, work: int) -> Floats:
    """Return the least dollars by forward dynamic programming; restart and work in ticks, shape (runs,).

    Tables (runs, work + 1) hold the least dollars by which each amount of work can have been done; amounts that cannot
    be finished in time any more, or not be reached yet, are left out.
    """
    runs, ticks = up.shape
    start = max(restart, 1)  # ticks from a start until work is or may be done
    gained = start - restart  # work of those ticks
    spot, demand = (np.full((runs, work + 1), math.inf) for _ in range(2))
    idle = np.full((runs, work + 1), math.inf)
    idle[:, 0] = 0.0
    past = [idle]  # tables of earlier ticks with nothing running, newest last
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
    """Return the table after one more tick of running machines, and so of work."""
    after = np.full_like(table, math.inf)
    first = max(low, 1)
    np.add(table[:, first - 1 : high - 1], usd, out=after[:, first:high])
    return after


def _advance_started(table: Floats, begun: Floats, usd: Floats | float, gained: int, low: int, high: int) -> None:
    """Put into `table` the machines whose start, from where nothing ran, is over."""
    first = max(low, gained)
    fresh = begun[:, first - gained : high - gained] + usd
    np.minimum(table[:, first:high], fresh, out=table[:, first:high])
