"""Recorded spot markets: counts of available machines at even steps, and the up-times and outages between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.records import record
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers


class MarketDurations(NamedTuple):
    """Up-times and outages in hours, in order; censored where one end lies outside of the trace.

    The first run of a trace began before it and the last one continues after it: both lasted at least as long.
    """

    up_hours: Floats
    up_censored: Flags
    down_hours: Floats
    down_censored: Flags


@record(frozen=True, eq=False)
class Trace:
    """Counts of available machines, one per step."""

    name: str
    gap_seconds: float
    available: Integers  # (steps,)

    @property
    def gap_hours(self) -> float:
        """Return the hours from one count to the next; a count holds until the next one."""
        return self.gap_seconds / HOUR

    @property
    def hours(self) -> float:
        """Return how long the market was observed."""
        return self.available.size * self.gap_hours

    def up(self, k: int) -> Flags:
        """Return whether at least `k` machines were available; shape (steps,)."""
        flags: Flags = self.available >= k
        return flags

    def runs(self, k: int, with_first: bool = True) -> MarketDurations:
        """Return the up-times and outages of at least `k` machines.

        `with_first=False` leaves out the run in which the trace begins: its age is not known, and long runs are
        likelier to be met, so the chance to end at a given age is learned from the others.
        """
        up = self.up(k)
        begins = np.flatnonzero(np.diff(up, prepend=~up[:1])) if up.size else np.zeros(0, dtype=np.int64)
        lengths = np.diff(begins, append=up.size) * self.gap_hours
        kinds = up[begins]
        cut = np.zeros(begins.size, dtype=bool)
        cut[:1] = cut[-1:] = True
        if not with_first:
            lengths, kinds, cut = lengths[1:], kinds[1:], cut[1:]
        return MarketDurations(lengths[kinds], cut[kinds], lengths[~kinds], cut[~kinds])

    def part(self, begin: int, end: int) -> Trace:
        """Return the steps from `begin` up to `end`, as a trace of the same name."""
        return Trace(self.name, self.gap_seconds, self.available[begin:end])
