"""Rules of thumb for spot machines and deadlines, to compare a planned policy with; each is a `Policy`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.deadline_guard import ROUNDING, DeadlineGuard
from planner.spot.policy.run import ON_DEMAND, SPOT, WAIT, SpotRun

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers


@dataclass(frozen=True)
class OnDemandOnly:
    """What costs most and never fails: on demand from the first hour to the last."""

    name: str = "on demand only"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        return np.full(work_left.shape, ON_DEMAND, np.int64)


@dataclass(frozen=True)
class SpotOnly:
    """Spot whenever it is up, and nothing else: no deadline is kept on purpose."""

    name: str = "spot only"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        return np.where(up, SPOT, WAIT)


@dataclass(frozen=True)
class Greedy:
    """Spot whenever it is up, waiting otherwise, on demand for good once the deadline leaves no choice."""

    run: SpotRun
    tick_hours: float
    name: str = "greedy"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        asked = np.where(up, SPOT, WAIT)
        return apply_safety_net(self.run, self.tick_hours, asked, hours_left - work_left, running)


@dataclass(frozen=True)
class UniformProgress:
    """Work kept in proportion to time; re-made from the description of "Can't Be Late" (NSDI 2024) and its simulator.

    Spot where it is up. Where it is down: wait while the work done is no less than its share of the time gone by,
    else on demand. On demand is left only for spot, and only once the work done is ahead of where the line will be
    two restarts from now, so that a switch pays for itself.
    """

    run: SpotRun
    tick_hours: float
    deadline_hours: float
    name: str = "uniform progress"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        pace = self.run.work_hours / self.deadline_hours
        elapsed = self.deadline_hours - hours_left
        done = self.run.work_hours - work_left
        behind = done < elapsed * pace - 1e-9
        asked = np.where(up, SPOT, np.where(behind, ON_DEMAND, WAIT))
        not_ahead = done <= (elapsed + 2 * self.run.restart_hours) * pace
        asked = np.where((running == ON_DEMAND) & (~up | not_ahead), ON_DEMAND, asked)
        if not math.isfinite(self.run.on_demand_usd_per_hour):
            asked = np.where(up, SPOT, WAIT)
        return apply_safety_net(self.run, self.tick_hours, asked, hours_left - work_left, running)


def apply_safety_net(run: SpotRun, tick_hours: float, asked: Integers, slack: Floats, running: Integers) -> Integers:
    """What was asked for, or ON_DEMAND where time left less work left would become too short for it; shape (runs,).

    The limits are those of `Guard`. A rule that waits gives up as soon as spot machines could not be started any more.
    Nothing is changed where on demand is not sold.
    """
    if not math.isfinite(run.on_demand_usd_per_hour):
        return asked
    guard = DeadlineGuard.of(run, tick_hours)
    kept = np.where(running == SPOT, guard.spot, guard.start_spot)
    kept = np.where(asked == WAIT, max(guard.wait, guard.start_spot), kept)
    return np.where(slack < kept - ROUNDING, ON_DEMAND, asked)
