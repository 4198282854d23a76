"""The guard: how much time must be left so that on-demand machines can still bring a run home, whatever happens."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from planner.spot.policy.checkpointing import max_lost_hours

if TYPE_CHECKING:
    from planner.spot.policy.run import SpotRun

ROUNDING = 1e-9
"""Hours by which a guard that was just kept may seem broken."""


@dataclass(frozen=True)
class DeadlineGuard:
    """Slack in hours (time left minus work left) without which a thing must not be done until the policy is asked next.

    The work left counts unsaved work as done. Each is what may be gone by then, and the restart that on demand needs.
    """

    wait: float
    spot: float  # spot machines that run already
    start_spot: float  # spot machines that do not run yet: less, and the start would have to be broken off

    @classmethod
    def of(cls, run: SpotRun, tick_hours: float) -> DeadlineGuard:
        """For a policy that is asked every `tick_hours`, and at once where machines are taken.

        An hour on spot costs no slack but for stalls: what was done in it shrinks what is left. An interruption costs
        what no checkpoint holds. A restart costs its own time, which is kept from the moment it begins.
        """
        stalls = min(tick_hours, _max_stall_hours(run, tick_hours))
        spot = run.restart_hours + max_lost_hours(run) + stalls
        return cls(wait=run.restart_hours + tick_hours, spot=spot, start_spot=run.restart_hours + spot)

    def as_dict(self) -> dict[str, Any]:
        """Hours by name."""
        return asdict(self)


def _max_stall_hours(run: SpotRun, tick_hours: float) -> float:
    """Most hours of checkpoints that can fall into one tick."""
    if run.stall_hours == 0 or math.isinf(run.interval_hours):
        return 0.0
    return run.stall_hours * math.ceil(tick_hours / (run.interval_hours + run.stall_hours) + ROUNDING)
