"""What a run costs from its start: one backward pass answers every guaranteed time up to its horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats, Integers
    from planner.spot.policy.discretisation import CurveRequest
    from planner.spot.policy.markov_chain import MarkovChain

TICK_ROUNDING = 1e-9
"""Of a tick: a time this close to a tick is that tick."""


@record(frozen=True)
class StartTable:
    """Figures of a run that starts with nothing running, at a random moment of its market.

    `values` (ticks, points, ...) belong to one of the equal parts of the run, after each tick of the pass and at the
    points of the slack axis from `begin` (ticks,) on that the work of the run leaves within a tick of it.
    """

    request: CurveRequest  # its hours are the horizon
    tick: float  # hours
    slack: Floats  # hours
    begin: Integers
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
            self.values[tick, at] + more * (self.values[tick, at + 1] - self.values[tick, at])
            for tick, at in ((early, low - self.begin[early]), (late, low - self.begin[late]))
        ]
        return np.asarray((ends[0] + later * (ends[1] - ends[0])) * self.request.parts)


class StartRecord:
    """What a pass for several runs tells of their starts: values (ticks, counts, b, M, points) with nothing running.

    Kept are the points of the slack axis that a time between two ticks may lie between; the work leaves no others.
    """

    def __init__(self, requests: Sequence[CurveRequest], chain: MarkovChain, ticks: int) -> None:
        self.requests, self.chain, self.ticks = requests, chain, ticks
        works = np.array([request.part.run.work_hours for request in requests])
        left = np.arange(ticks + 2) * chain.tick[:, None] - works[:, None]
        low = np.array([np.searchsorted(axis, one, side="right") for axis, one in zip(chain.slack, left, strict=True)])
        points = chain.slack.shape[1]
        # One point more on either side, because rounding may move a time beyond a point.
        self.begin: Integers = np.clip(low[:, :-2] - 2, 0, points - 2)
        ends = np.clip(low[:, 2:] + 2, 2, points)
        self.width = int(np.max(ends - self.begin))
        self.values = np.empty((0,))
        self._added, self._known_width = 0, 0
        self._place: Integers = self.begin

    def add(self, values: Floats) -> None:
        """Take the next tick from the values (counts, b, rows, slack) that a pass has reached."""
        counts, batch, rows, width = values.shape
        if not self._added:
            self.values = np.empty((self.ticks, counts, batch, self.chain.states, self.width))
        first = self.begin[:, self._added] = np.minimum(self.begin[:, self._added], width - self.width)
        if width != self._known_width:
            row = np.arange(batch)[:, None] * rows + np.arange(self.chain.states)
            self._known_width, self._place = width, (row * width)[..., None] + np.arange(self.width)
        place = self._place + first[:, None, None]
        values.reshape(counts, -1).take(place, axis=1, out=self.values[self._added], mode="clip")
        self._added += 1

    def tables(self, values: Floats) -> list[StartTable]:
        """Return the tables of the runs, from their values (b, ticks, points, ...)."""
        each = zip(self.requests, self.chain.tick.tolist(), self.chain.slack, self.begin, values, strict=True)
        return [StartTable(*one) for one in each]
