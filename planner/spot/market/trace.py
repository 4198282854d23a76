"""Recorded spot markets: how many machines were there, looked at again and again; and the runs in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.units import HOUR

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers


class MarketDurations(NamedTuple):
    """Up-times and outages in hours, in order; censored where an end lies outside of the trace.

    The first run of a trace began before it, the last one goes on after it: each lasted at least as long as seen.
    """

    up_hours: Floats
    up_censored: Flags
    down_hours: Floats
    down_censored: Flags


@dataclass(frozen=True, eq=False)
class Trace:
    """Counts of machines that were there, one per step; `target` is how many were asked for, None if unknown."""

    name: str
    gap_seconds: float
    available: Integers  # (steps,)
    target: int | None = None

    @property
    def gap_hours(self) -> float:
        """Hours from one count to the next; a count holds until the next one."""
        return self.gap_seconds / HOUR

    @property
    def hours(self) -> float:
        """How long the market was watched."""
        return self.available.size * self.gap_hours

    @property
    def machine_hours(self) -> float:
        """Hours of all machines together."""
        return float(self.available.sum()) * self.gap_hours

    @property
    def losses(self) -> int:
        """Machines that went; one that was replaced within a step is not seen, so there were at least as many."""
        return int(-np.minimum(np.diff(self.available), 0).sum())

    def up(self, k: int) -> Flags:
        """Whether at least `k` machines were there; shape (steps,)."""
        flags: Flags = self.available >= k
        return flags

    def runs(self, k: int, with_first: bool = True) -> MarketDurations:
        """The runs of at least `k` machines being there, or not.

        `with_first=False` leaves out the run that the trace begins in: how old it was is not known, and long runs
        are likelier to be met, so the chance to end at a given age is learnt from the others.
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
        """The steps from `begin` up to `end`, as a trace of the same name."""
        return Trace(self.name, self.gap_seconds, self.available[begin:end], self.target)
