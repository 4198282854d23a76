"""The slack that must be left so that on-demand machines can finish a run by its deadline, whatever the market does.

Slack is time left minus work left, where work left counts unsaved work as done.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.records import record
from planner.spot.policy.checkpointing import max_lost_hours
from planner.spot.policy.run import ROUNDING_HOURS, Action

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.estimates.inputs import Numbers
    from planner.spot.policy.run import SpotRun


def required_slack(restart: Numbers, lost: Numbers, stalls: Numbers, tick: Numbers) -> tuple[Any, Any, Any]:
    """Return the slack in hours that waiting, spot that runs and a start on spot each require for one tick.

    Each covers the slack that the tick can consume and the restart on demand after it. Waiting consumes the tick.
    An hour on spot consumes only its `stalls`, because its progress reduces the work left. An interruption consumes
    the work `lost`. A start consumes its own restart.
    """
    spot = restart + lost + stalls
    return restart + tick, spot, restart + spot


@record(frozen=True)
class DeadlineGuard:
    """Slack in hours without which an action must not be taken until the policy is asked again."""

    wait: float
    spot: float  # spot machines that run already
    start_spot: float  # spot machines that do not run yet

    @classmethod
    def of(cls, run: SpotRun, tick_hours: float) -> DeadlineGuard:
        """Return the guard of a policy that is asked every `tick_hours`, and at once where machines are taken."""
        stalls = min(tick_hours, _max_stall_hours(run, tick_hours))
        lost = max_lost_hours(run) + run.hop_hours
        return cls(*required_slack(run.restart_hours, lost, stalls, tick_hours))

    def enforce(self, action: Integers, slack: Floats, running: Integers) -> Integers:
        """Return the action of each run, or ON_DEMAND where its slack is too short for it; shape (runs,)."""
        spot = np.where(running == Action.SPOT, self.spot, self.start_spot)
        required = np.where(action == Action.SPOT, spot, self.wait)
        barred = (action != Action.ON_DEMAND) & (slack < required - ROUNDING_HOURS)
        return np.where(barred, Action.ON_DEMAND, action)


def _max_stall_hours(run: SpotRun, tick_hours: float) -> float:
    """Return the most hours of checkpoints that can fall into one tick."""
    if run.stall_hours == 0 or math.isinf(run.interval_hours):
        return 0.0
    return run.stall_hours * math.ceil(tick_hours / (run.interval_hours + run.stall_hours) + ROUNDING_HOURS)
