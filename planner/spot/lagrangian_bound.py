"""The offline optimum of a run, and a lower bound on it for restarts and checkpoints of any length.

The constraint that the work is done is relaxed with a multiplier, a price per hour of work (Lagrangian relaxation):
for each price the best schedule is a short dynamic program over time and what runs, without the work done as a state.
The dual is the lower convex hull of all schedules in (hours of work, dollars), read at the work to do. Where two
schedules lie on either side of the work, their mixture counts, although only one of them can be rented: this is the
duality gap by which the bound lies below the optimum.

With several zones each is one more thing that can run, with a price of its own: a change of zone is a start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.arrays import Flags, Floats
from planner.records import record
from planner.spot.policy.run import SpotRun, progress_on_spot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


MAX_ROUNDS: Final = 40
"""Prices of an hour of work that are tried at most; 8 to 15 suffice."""

DUAL_TOLERANCE: Final = 1e-6
"""Relative rise of the bound that another round could still bring when the search ends."""


def lower_bound_usd(
    run: SpotRun, up: Flags, tick_hours: float, work_hours: Floats, zone_usd: Sequence[float] | None = None
) -> Floats:
    """Return dollars that no schedule undercuts on each path of `up`, shape (runs, ticks until the deadline).

    `work_hours`: of each run, shape (runs,). inf where the deadline cannot be met. `zone_usd`: dollars per hour on spot
    in each zone, `up` then has the shape (zones, runs, ticks); without it, the price of the run.

    Checkpoints on spot slow work down by their share of the time, and the time of one is refunded at each start: the
    most that leaving a machine just before a checkpoint can gain. Where starts are shorter than a checkpoint,
    checkpoints are left out. Both simplifications lower the bound.

    The multiplier is found by the secant of the dual: between a schedule with too little work and one with enough, the
    slope of the line through both is the next price. Its best schedule replaces one of the two, and the search ends
    where it no longer lies below their line.
    """
    zones = up[None] if zone_usd is None else up
    usd_per_hour = [run.spot_usd_per_hour] if zone_usd is None else zone_usd
    kinds = tuple(_spot_rates(run, tick_hours, zone, usd) for zone, usd in enumerate(usd_per_hour))
    kinds += (_demand_rates(run, tick_hours),) if math.isfinite(run.on_demand_usd_per_hour) else ()
    path = np.ascontiguousarray(zones.transpose(0, 2, 1))
    standing = run.standing_usd_per_hour * tick_hours
    highest_usd = max(kind.usd for kind in kinds) + standing
    most, most_usd = _best_response(
        kinds, standing, path, np.full(work_hours.shape, 1e4 * highest_usd / tick_hours + 1.0)
    )
    least, least_usd = np.zeros_like(work_hours), np.zeros_like(work_hours)
    possible = most >= work_hours - 1e-9
    work_hours = np.minimum(work_hours, most)
    bound = np.where(possible, 0.0, math.inf)
    active = np.flatnonzero(possible & (work_hours > 0))
    for _ in range(MAX_ROUNDS):
        if not active.size:
            break
        low, low_usd, high, high_usd = (each[active] for each in (least, least_usd, most, most_usd))
        price = (high_usd - low_usd) / (high - low)
        edge = low_usd + price * (work_hours[active] - low)
        hours, usd = _best_response(kinds, standing, path[:, :, active], price)
        found = usd + price * (work_hours[active] - hours)
        bound[active] = np.maximum(bound[active], found)
        enough = hours >= work_hours[active]
        most[active], most_usd[active] = np.where(enough, hours, high), np.where(enough, usd, high_usd)
        least[active], least_usd[active] = np.where(enough, low, hours), np.where(enough, low_usd, usd)
        active = active[edge - found > DUAL_TOLERANCE * edge]
    return bound


@record(frozen=True)
class _MachineRates:
    """Machines of one kind, per tick."""

    usd: float
    work: float  # hours of work in a tick after the start
    start: int  # ticks from the start to the end of the one in which work begins
    first: float  # hours of work in those ticks
    zone: int | None  # None: on demand


def _demand_rates(run: SpotRun, tick: float) -> _MachineRates:
    """Return the rates of a tick on demand."""
    return _machine_rates(run.on_demand_usd_per_hour * tick, 1.0, run.restart_hours, tick, None)


def _spot_rates(run: SpotRun, tick: float, zone: int, usd_per_hour: float) -> _MachineRates:
    """Return the rates of a tick on spot in a zone, checkpoints spread evenly."""
    share, start = 1.0, run.restart_hours
    if 0 < run.stall_hours <= start:
        share = progress_on_spot(run)
        start -= run.stall_hours
    return _machine_rates(usd_per_hour * tick, share, start, tick, zone)


def _machine_rates(usd: float, share: float, start: float, tick: float, zone: int | None) -> _MachineRates:
    ticks = max(math.ceil(start / tick - 1e-9), 1)
    return _MachineRates(usd, share * tick, ticks, share * (ticks * tick - start), zone)


def _best_response(
    kinds: tuple[_MachineRates, ...], standing: float, up: Flags, price: Floats
) -> tuple[Floats, Floats]:
    """Return hours of work and dollars of the best schedule at a price of an hour of work; shapes (runs,).

    `up`: (zones, ticks, runs). Forward over ticks; `net` is dollars minus the value of the work done.
    """
    runs = price.size
    idle = (np.zeros(runs), np.zeros(runs))  # net, hours of work
    at_work = [(np.full(runs, math.inf), np.zeros(runs)) for _ in kinds]
    past = [idle]
    best = idle
    streak = np.zeros((len(up), runs), np.int64)
    for tick in range(up.shape[1]):
        streak = np.where(up[:, tick], streak + 1, 0)
        for number, kind in enumerate(kinds):
            net, work = at_work[number]
            net, work = net + (kind.usd - price * kind.work), work + kind.work
            if kind.zone is not None:
                net = np.where(up[kind.zone, tick], net, math.inf)
            if tick + 1 >= kind.start:
                begun = past[tick + 1 - kind.start]
                fresh = begun[0] + (kind.start * kind.usd - price * kind.first)
                if kind.zone is not None:
                    fresh = np.where(streak[kind.zone] >= kind.start, fresh, math.inf)
                net, work = _lower_net_cost((net, work), (fresh, begun[1] + kind.first))
            at_work[number] = net, work
            idle = _lower_net_cost(idle, at_work[number])
        past.append(idle)
        until_now = (idle[0] + (tick + 1) * standing, idle[1])
        best = _lower_net_cost(best, until_now)
    return best[1], best[0] + price * best[1]


def _lower_net_cost(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the one of two schedules (net, hours of work) with the lower net, run by run."""
    less = other[0] < one[0]
    return np.where(less, other[0], one[0]), np.where(less, other[1], one[1])


# The offline optimum of a run: its least cost if the whole path of the market is known; no policy can beat it.


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
