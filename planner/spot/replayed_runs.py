"""Replays of policies on known paths of a market: the best, simple ones, and the offline optimum with its bound.

The bound is Lagrangian.
The constraint that the work is done is relaxed with a multiplier, a price per hour of work (Lagrangian relaxation):
for each price the best schedule is a short dynamic program over time and what runs, without the work done as a state.
The dual is the lower convex hull of all schedules in (hours of work, dollars), read at the work to do. Where two
schedules lie on either side of the work, their mixture counts, although only one of them can be rented: this is the
duality gap by which the bound lies below the optimum.

With several zones each is one more thing that can run, with a price of its own: a change of zone is a start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.run import ROUNDING_HOURS, Action, DeadlineGuard, Policy, SpotRun, progress_on_spot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


# Replays of a policy on known paths of a market: what it costs and when the run ends.


NO_CHECKPOINT_HOURS: Final = 1e6
"""Interval that no run reaches: "no checkpoints", where infinity would lead to 0 x inf."""

RUNS_PER_BLOCK: Final = 4096
"""Runs that are replayed together: their arrays stay in the processor's cache."""


@dataclass(frozen=True)
class Replays:
    """The outcome of each run; arrays of shape (runs,)."""

    usd: Floats  # machines and standing costs, until the end of the run
    hours: Floats  # from the start to the end of the run; inf where the path ended first (see `replay`)
    spot_hours: Floats  # paid
    on_demand_hours: Floats  # paid
    interruptions: Integers
    wasted_hours: Floats  # paid without lasting progress: restarts, checkpoints, lost work
    waiting_hours: Floats  # nothing rented
    spot_share: Floats  # of the work that was done, 0 to 1
    met: Flags  # done by the deadline


def replay(
    policy: Policy,
    run: SpotRun,
    up: Flags | Integers,
    tick_hours: float,
    deadline_hours: float,
    slowness: ArrayLike = 1.0,
    age_hours: ArrayLike = 0.0,
) -> Replays:
    """Follow `policy` along paths of a market.

    The policy decides until the deadline. After it a run that is not done goes on demand, so that a policy without a
    guarantee is replayed as it is and its lateness is measured. Where on demand is not sold the policy goes on to the
    end of the path; a run that is still not done then has infinite `hours`, and the dollars paid so far.

    Parameters
    ----------
    up
        Shape (runs, ticks): whether the machines of the run are available on spot during each tick. The policy is
        asked at the start of each; restarts, checkpoints and the end within a tick are exact. With several zones it is
        the number of the zone, from 1 on, and 0 for none: a change from one to another takes the machines.
    slowness
        Factor on `run.work_hours`, of each run or one for all; the policy sees the work left at the true speed, which
        an observer of the steps knows.
    age_hours
        How long the market has been in its first state when a run begins; the state after a change begins at 0. Of
        shape (runs, ticks): its age in each tick, for zones that were up before a run moved to them.

    Raises
    ------
    ValueError
        Where a path does not reach the deadline, or the policy rents spot that is not available.
    """
    runs, ticks = up.shape
    if run.stall_hours > 0 and not run.interval_hours > 0:
        raise ValueError("checkpoints that stall need a positive interval between them")
    sold = math.isfinite(run.on_demand_usd_per_hour)
    if math.isfinite(deadline_hours) and ticks * tick_hours < deadline_hours - ROUNDING_HOURS:
        raise ValueError(f"paths of {ticks * tick_hours:g} h do not reach the deadline at {deadline_hours:g} h")
    work = np.broadcast_to(np.asarray(slowness, float) * run.work_hours, (runs,))
    ages = np.asarray(age_hours, float)
    if ages.ndim < 2:
        ages = np.broadcast_to(ages, (runs,))[:, None]
    parts = []
    for first in range(0, runs, RUNS_PER_BLOCK):
        block = slice(first, first + RUNS_PER_BLOCK)
        by_tick = (np.ascontiguousarray(array[block].T) for array in (ages, up))
        state = _ReplayState(run, work[block], *by_tick)
        state.play(policy, tick_hours, deadline_hours, sold)
        if sold:
            state.finish_on_demand()
        parts.append(state.result(deadline_hours))
    if not parts:
        raise ValueError("no path to replay")
    return Replays(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Replays)})


class _ReplayState:
    """The state of a block of runs; every array has the shape (runs,).

    Work on spot runs in cycles of `interval` hours of work and `stall` hours of checkpoint. `cycle` is the time
    since the restart ended and `base` the work left then; progress follows from both in closed form, without events.
    """

    def __init__(self, run: SpotRun, work: Floats, ages: Floats, zones: Flags | Integers) -> None:
        runs = work.size
        self.run = run
        self.work = work
        self.zones = zones  # (ticks, runs): what one tick needs lies together
        # A checkpoint that costs nothing may be written all the time: nothing is ever lost then.
        self.loses = not run.last_checkpoint and run.interval_hours > 0
        self.interval = min(run.interval_hours, NO_CHECKPOINT_HOURS) or NO_CHECKPOINT_HOURS
        self.round = self.interval + run.stall_hours
        self.now = 0.0
        self.left = work.astype(float)  # hours of work not done; unsaved work counts as done
        self.base = self.left.copy()
        self.cycle = np.zeros(runs)
        self.unsaved = np.zeros(runs)
        self.restart = np.zeros(runs)  # hours of restart still to come
        self.running = np.full(runs, Action.WAIT, np.int64)
        self.ages = ages  # (ticks, runs), or (1, runs): only that of the first tick is known beforehand
        self.age = ages[0].astype(float)
        self.spot_hours = np.zeros(runs)
        self.on_demand_hours = np.zeros(runs)
        self.on_demand_work = np.zeros(runs)
        self.interruptions = np.zeros(runs, np.int64)
        self.hours = np.full(runs, math.inf)
        self.open = work > 0
        self.hours[~self.open] = 0.0

    def play(self, policy: Policy, tick: float, deadline: float, sold: bool) -> None:
        """Advance tick by tick to the deadline, or to the end of the path where on demand is not sold."""
        end = min(deadline, len(self.zones) * tick) if sold else len(self.zones) * tick
        before = self.zones[0]
        for number, zone in enumerate(self.zones):
            if self.now >= end - ROUNDING_HOURS or not self.open.any():
                return
            if number:
                self.age = self.ages[number] if len(self.ages) > 1 else np.where(zone != before, 0.0, self.age + tick)
            self._interrupt(zone != before)
            before, up = zone, zone != 0
            action = policy.decide(self.left, np.full(self.left.size, deadline - self.now), up, self.age, self.running)
            self._switch(action, up)
            step = min(tick, end - self.now)
            self._advance(step)
            self.now += step

    def _interrupt(self, changed: Flags) -> None:
        """Stop spot machines where their zone is up no more, and lose the work that no checkpoint holds."""
        lost = (self.running == Action.SPOT) & changed & self.open
        if not lost.any():
            return
        self.interruptions += lost
        if self.loses:
            self.left[lost] += self.unsaved[lost]
        self.left[lost] += self.run.hop_hours
        self.running[lost] = Action.WAIT

    def _switch(self, action: Integers, up: Flags) -> None:
        """Start machines that the policy asks for and stop those that it does not."""
        changed = action != self.running
        if not changed.any():
            return
        if ((action == Action.SPOT) & ~up & self.open).any():
            raise ValueError("the policy rents spot machines while there are none")
        self.running = np.where(changed, action, self.running)
        self.restart[changed] = np.where(action[changed] == Action.WAIT, 0.0, self.run.restart_hours)
        self.base[changed] = self.left[changed]
        self.cycle[changed] = 0.0
        self.unsaved[changed] = 0.0

    def _advance(self, step: float) -> None:
        """Let `step` hours pass: restarts first, then work."""
        on_spot = (self.running == Action.SPOT) & self.open
        on_demand = (self.running == Action.ON_DEMAND) & self.open
        paid = (on_spot | on_demand) * step
        started = np.minimum(self.restart, paid)
        self.restart -= started
        busy = paid - started
        likely = np.flatnonzero(busy >= self.left - ROUNDING_HOURS)
        needed = self._hours_to_the_end(likely)
        ending = (needed <= busy[likely] + ROUNDING_HOURS) & self.open[likely] & (paid[likely] > 0)
        likely, needed = likely[ending], needed[ending]
        paid[likely] = started[likely] + needed

        self.spot_hours += paid * on_spot
        self.on_demand_hours += paid * on_demand
        by_demand = busy * on_demand
        by_demand[likely] = np.minimum(by_demand[likely], self.left[likely])
        self.on_demand_work += by_demand
        self._work(busy * on_spot, by_demand, on_spot)
        self.left[likely] = 0.0
        self.open[likely] = False
        self.hours[likely] = self.now + paid[likely]

    def _work(self, spot: Floats, demand: Floats, on_spot: Flags) -> None:
        """Add the progress of hours in which machines on spot and on demand worked."""
        self.cycle += spot
        rounds = np.floor(self.cycle * (1 / self.round) + ROUNDING_HOURS)
        done = rounds * self.interval + np.minimum(self.cycle - rounds * self.round, self.interval)
        written = np.floor((self.cycle - self.run.write_hours) * (1 / self.round) + ROUNDING_HOURS)
        self.unsaved = done - np.maximum(written, 0.0) * self.interval
        self.left = np.where(on_spot, self.base - done, self.left - demand)

    def _hours_to_the_end(self, runs: Integers) -> Floats:
        """Return the hours until some runs are done without interruption; no checkpoint is written at the end."""
        left = self.left[runs]
        cycle = self.cycle[runs]
        total = self.base[runs]
        stalls = np.maximum(np.ceil(total / self.interval - ROUNDING_HOURS) - 1, 0)
        on_spot = total + stalls * self.run.stall_hours - cycle
        return np.where(self.running[runs] == Action.SPOT, on_spot, left)

    def finish_on_demand(self) -> None:
        """Finish the open runs on demand; machines that run there already continue."""
        late = np.flatnonzero(self.open)
        anew = self.running[late] != Action.ON_DEMAND
        start = np.where(anew, self.run.restart_hours, self.restart[late])
        self.on_demand_hours[late] += start + self.left[late]
        self.on_demand_work[late] += self.left[late]
        self.hours[late] = self.now + start + self.left[late]
        self.left[late] = 0.0
        self.open[late] = False

    def result(self, deadline: float) -> Replays:
        """Return the hours and dollars of the runs."""
        run = self.run
        paid = self.spot_hours + self.on_demand_hours
        hours = np.where(self.open, self.now, self.hours)
        usd = self.spot_hours * run.spot_usd_per_hour + hours * run.standing_usd_per_hour
        usd += self.interruptions * run.hop_usd
        if math.isfinite(run.on_demand_usd_per_hour):
            usd += self.on_demand_hours * run.on_demand_usd_per_hour
        elif self.on_demand_hours.any():
            raise ValueError("the policy rents on-demand machines, which are not sold")
        done = self.work - self.left
        shares = np.divide(done - self.on_demand_work, done, out=np.zeros_like(done), where=done > 0)
        return Replays(
            usd=usd,
            hours=self.hours,
            spot_hours=self.spot_hours,
            on_demand_hours=self.on_demand_hours,
            interruptions=self.interruptions,
            wasted_hours=np.maximum(paid - done, 0.0),
            waiting_hours=np.maximum(hours - paid, 0.0),
            spot_share=np.clip(shares, 0.0, 1.0),
            met=self.hours <= deadline + 1e-6,
        )


# Simple rules for spot machines and deadlines, with which a planned policy is compared; each is a `Policy`.


class SpotOnly:
    """Spot whenever it is up, and nothing else; it guarantees no deadline."""

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return SPOT where the market is up, else WAIT."""
        del work_left, hours_left, age_hours, running
        return np.where(up, Action.SPOT, Action.WAIT)


@dataclass(frozen=True)
class Greedy:
    """Spot whenever it is up, waiting otherwise, and on demand to the end once the deadline leaves no choice."""

    run: SpotRun
    tick_hours: float

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return SPOT where the market is up, else WAIT, unless the safety net asks for ON_DEMAND."""
        del age_hours
        asked = np.where(up, Action.SPOT, Action.WAIT)
        return apply_safety_net(self.run, self.tick_hours, asked, hours_left - work_left, running)


@dataclass(frozen=True)
class UniformProgress:
    """Work kept in proportion to time; rebuilt from the description of "Can't Be Late" (NSDI 2024) and its simulator.

    Spot where it is up. Where it is down: wait while the work done is no less than its share of the elapsed time,
    else on demand. On demand is left only for spot, and only once the work done is ahead of where the line will be
    two restarts from now, so that a switch pays for itself.
    """

    run: SpotRun
    tick_hours: float
    deadline_hours: float

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the action that keeps the work in proportion to the elapsed time."""
        del age_hours
        pace = self.run.work_hours / self.deadline_hours
        elapsed = self.deadline_hours - hours_left
        done = self.run.work_hours - work_left
        behind = done < elapsed * pace - 1e-9
        asked = np.where(up, Action.SPOT, np.where(behind, Action.ON_DEMAND, Action.WAIT))
        not_ahead = done <= (elapsed + 2 * self.run.restart_hours) * pace
        asked = np.where((running == Action.ON_DEMAND) & (~up | not_ahead), Action.ON_DEMAND, asked)
        if not math.isfinite(self.run.on_demand_usd_per_hour):
            asked = np.where(up, Action.SPOT, Action.WAIT)
        return apply_safety_net(self.run, self.tick_hours, asked, hours_left - work_left, running)


def apply_safety_net(run: SpotRun, tick_hours: float, asked: Integers, slack: Floats, running: Integers) -> Integers:
    """Return the action that a rule asks for, or ON_DEMAND where the slack becomes too short for it; shape (runs,).

    The limits are those of `DeadlineGuard`, but a rule stops waiting once spot machines could not be started any more.
    Nothing is changed where on demand is not sold.
    """
    if not math.isfinite(run.on_demand_usd_per_hour):
        return asked
    guard = DeadlineGuard.of(run, tick_hours)
    return replace(guard, wait=max(guard.wait, guard.start_spot)).enforce(asked, slack, running)


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
        low, low_usd, high, high_usd = (array[active] for array in (least, least_usd, most, most_usd))
        price = (high_usd - low_usd) / (high - low)
        edge = low_usd + price * (work_hours[active] - low)
        hours, usd = _best_response(kinds, standing, path[:, :, active], price)
        dual = usd + price * (work_hours[active] - hours)
        bound[active] = np.maximum(bound[active], dual)
        enough = hours >= work_hours[active]
        most[active], most_usd[active] = np.where(enough, hours, high), np.where(enough, usd, high_usd)
        least[active], least_usd[active] = np.where(enough, low, hours), np.where(enough, low_usd, usd)
        active = active[edge - dual > DUAL_TOLERANCE * edge]
    return bound


@dataclass(frozen=True)
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


def _lower_net_cost(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the one of two schedules (net, hours of work) with the lower net, run by run."""
    less = second[0] < first[0]
    return np.where(less, second[0], first[0]), np.where(less, second[1], first[1])


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
