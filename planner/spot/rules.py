"""Rules of thumb for spot machines and deadlines, to compare a planned policy with; each is a `Policy`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.spot.run import ON_DEMAND, SPOT, WAIT, Flags, Floats, Integers, SpotRun


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
        return np.where(must_commit(self.run, self.tick_hours, work_left, hours_left, running), ON_DEMAND, asked)


@dataclass(frozen=True)
class UniformProgress:
    """Work kept in proportion to time; re-made from the description of "Can't Be Late" (NSDI 2024) and its simulator.

    Spot where it is up. Where it is down: wait while the work done is no less than its share of the time gone by,
    else on demand. On demand is left only for spot, and only once the work done is ahead of where the line will be
    two restarts from now, so that a switch pays for itself. The safety net is that of `must_commit`.
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
        stays = (running == ON_DEMAND) & (~up | not_ahead)
        stays |= must_commit(self.run, self.tick_hours, work_left, hours_left, running)
        if not math.isfinite(self.run.on_demand_usd_per_hour):
            return np.where(up, SPOT, WAIT)
        return np.where(stays, ON_DEMAND, asked)


def must_commit(
    run: SpotRun, tick_hours: float, work_left: Floats, hours_left: Floats, running: Integers
) -> Flags:
    """Whether the deadline is lost unless the rest is done on demand from now on; shape (runs,).

    After one more tick without progress there must be time for the work left, for the work that an interruption would
    lose, and for one restart; for two where spot machines do not run yet, since they may be lost as soon as they have
    started. False everywhere where on demand is not sold.
    """
    if not math.isfinite(run.on_demand_usd_per_hour):
        return np.zeros(work_left.shape, bool)
    lost = 0.0 if run.last_checkpoint else np.minimum(run.interval_hours, np.maximum(run.work_hours - work_left, 0.0))
    restarts = np.where(running == SPOT, run.restart_hours, 2 * run.restart_hours)
    return np.asarray(hours_left - tick_hours < work_left + lost + restarts - 1e-9)
