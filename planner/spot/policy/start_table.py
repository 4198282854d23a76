"""What a run costs from its start: one backward pass answers every guaranteed time up to its horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.spot.policy.discretisation import CurveRequest
    from planner.spot.policy.markov_chain import MarkovChain

TICK_ROUNDING = 1e-9
"""Of a tick: a time this close to a tick is that tick."""


@dataclass(frozen=True)
class StartTable:
    """Figures of a run that starts with nothing running, at a random moment of its market.

    `values` (ticks, slack, ...) belong to one of the equal parts of the run, after each tick of the pass and at each
    point of the slack axis. The work does not appear: it is the time left minus the slack.
    """

    request: CurveRequest  # its hours are the horizon
    tick: float  # hours
    slack: Floats  # hours
    values: Floats

    def hours(self) -> Floats:
        """Return the guaranteed times (k,) of whole ticks that leave slack for a restart."""
        part = self.request.part
        hours = np.arange(1, len(self.values) + 1) * self.tick
        enough = hours - part.run.work_hours > part.run.restart_hours * (1 + TICK_ROUNDING)
        return np.asarray(hours[enough] * self.request.parts)

    def hours_in(self, begin: float, end: float) -> Floats:
        """Return the guaranteed times (k,) of whole ticks after `begin` and before `end`, and `end`."""
        hours = self.hours()
        return np.append(hours[(hours > begin * (1 + TICK_ROUNDING)) & (hours < end * (1 - TICK_ROUNDING))], end)

    def at(self, hours: Floats) -> Floats:
        """Return the figures of the whole run (k, ...) within guaranteed times (k,).

        Interpolated linearly between ticks at the slack that the time leaves, and between points of the slack axis.
        """
        part = self.request.part
        left = np.asarray(hours) / self.request.parts
        slack = np.clip(left - part.run.work_hours, 0.0, self.slack[-1])
        ticks = np.clip(left / self.tick - 1, 0, len(self.values) - 1)
        early = np.floor(ticks + TICK_ROUNDING).astype(np.int64)
        late = np.minimum(early + 1, len(self.values) - 1)
        low = np.clip(np.searchsorted(self.slack, slack, side="right") - 1, 0, len(self.slack) - 2)
        more = (slack - self.slack[low]) / (self.slack[low + 1] - self.slack[low])
        shape = (-1, *[1] * (self.values.ndim - 2))
        later, more = np.maximum(ticks - early, 0.0).reshape(shape), more.reshape(shape)
        ends = [
            self.values[tick, low] + more * (self.values[tick, low + 1] - self.values[tick, low])
            for tick in (early, late)
        ]
        return np.asarray((ends[0] + later * (ends[1] - ends[0])) * self.request.parts)


def start_tables(requests: Sequence[CurveRequest], chain: MarkovChain, values: Floats) -> list[StartTable]:
    """Return the tables of runs that were computed together, from their values (b, ticks, slack, ...)."""
    return [StartTable(*one) for one in zip(requests, chain.tick.tolist(), chain.slack, values, strict=True)]
