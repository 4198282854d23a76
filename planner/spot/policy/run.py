"""A run on spot or on-demand machines, and what a policy may do with it at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

ROUNDING_HOURS = 1e-9
"""Events closer than this are simultaneous; a guard may be broken by as much."""


class Action:
    """Codes of what a policy asks for, and equally of what is running.

    Plain integers: arrays compare with members of an `IntEnum` five times more slowly.
    """

    WAIT: Final = 0
    SPOT: Final = 1
    ON_DEMAND: Final = 2


@dataclass(frozen=True)  # a key that is looked up thousands of times
class SpotRun:
    """One run on machines that are rented on spot or on demand; all of its node group together.

    Every start of machines (the first, after an interruption, after a change of market) takes `restart_hours`
    without progress, and these are paid.
    On spot a checkpoint is taken after each `interval_hours` of work and stalls it for `stall_hours`. It is written
    while the work goes on, and safe `write_hours` later. An interruption loses the work since the last safe checkpoint,
    unless the notice is long enough for a last one.
    Leaving spot voluntarily writes a checkpoint and loses nothing.
    """

    work_hours: float
    restart_hours: float
    stall_hours: float
    interval_hours: float
    spot_usd_per_hour: float
    on_demand_usd_per_hour: float  # inf: not sold, and no deadline can be guaranteed
    standing_usd_per_hour: float = 0.0  # in every hour until the end: storage, and the value of an hour of waiting
    last_checkpoint: bool = False
    write_hours: float = 0.0  # at most the interval and its stall: one write at a time
    hop_usd: float = 0.0  # of each loss of machines, on average: data that are moved to another zone
    hop_hours: float = 0.0  # likewise, on paid machines, before work goes on

    @property
    def on_demand_usd(self) -> float:
        """Return the dollars of the run on demand from its start to its end."""
        rate = self.on_demand_usd_per_hour + self.standing_usd_per_hour
        return (self.work_hours + self.restart_hours) * rate


class Policy(Protocol):
    """What to do next, for many runs at once; arrays of shape (runs,)."""

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the `Action` of each run; SPOT only where `up`.

        Parameters
        ----------
        work_left
            Hours of work that are not done; unsaved work counts as done.
        hours_left
            Hours to the deadline.
        up, age_hours
            Whether the market is up, and for how many hours it has been up or down.
        running
            The `Action` that is running now; a spot machine that was just lost no longer runs.
        """
        ...
