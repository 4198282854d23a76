"""Simple rules for spot machines and deadlines, with which a planned policy is compared; each is a `Policy`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.spot.policy.deadline_guard import DeadlineGuard
from planner.spot.policy.run import Action, SpotRun

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers


class SpotOnly:
    """Spot whenever it is up, and nothing else; it guarantees no deadline."""

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return SPOT where the market is up, else WAIT."""
        del work_left, hours_left, age_hours, running
        return np.where(up, Action.SPOT, Action.WAIT)


@record(frozen=True)
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


@record(frozen=True)
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
