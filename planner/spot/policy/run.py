"""What a policy has to bring home, and what it may do at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

WAIT, SPOT, ON_DEMAND = 0, 1, 2
"""What runs, and what a policy may ask for."""


@dataclass(frozen=True)
class SpotRun:
    """One run on machines that are rented on spot or on demand; all of the gang together.

    Every start of machines (the first, after an interruption, after a change of market) takes `restart_hours`
    without progress, paid.
    On spot a checkpoint is written after each `interval_hours` of work and stalls it for `stall_hours`; an interruption
    loses what was done since, unless the notice lets a last checkpoint be written.
    Leaving spot of one's own will writes a checkpoint and loses nothing.
    """

    work_hours: float
    restart_hours: float
    stall_hours: float
    interval_hours: float
    spot_usd_per_hour: float
    on_demand_usd_per_hour: float  # inf: not sold, and no deadline can be promised
    standing_usd_per_hour: float = 0.0  # in every hour until the end: storage, and what an hour of waiting is worth
    last_checkpoint: bool = False


class Policy(Protocol):
    """What to do next, for many runs at once; arrays of shape (runs,)."""

    @property
    def name(self) -> str:
        """In a word or two, for tables."""
        ...

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """WAIT, SPOT (only where `up`) or ON_DEMAND.

        `work_left`: hours of work that are not done, unsaved work counted as done.
        `hours_left`: to the deadline. `age_hours`: since the market went up or down. `running`: what runs now;
        a spot machine that was just lost no longer does.
        """
        ...
