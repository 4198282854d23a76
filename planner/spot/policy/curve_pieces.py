"""Cost against time: the least of several curves as steps, and one curve as straight pieces.

Within `CURVE_ERROR` each time between the ends of a piece costs what the line between them says.
Between two samples, the ticks and the points of the slack axis, a curve is quadratic, because `StartTable` interpolates
in both. A quadratic is farthest from its chord in the middle, so one more value tells how finely a stretch must be
divided. The samples are then thinned as by Douglas and Peucker (1973): a line is divided where a sample lies farthest
from it.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.spot.policy.least_cost import StartTable

CURVE_ERROR = 1e-3
"""Relative: how far a piece may lie from its curve, below what the grid of the curve errs by."""
JUST_AFTER = 1 + 2e-6
"""A curve begins right after on demand alone, or after the last time that a shorter horizon answers."""


class CurvePiece(NamedTuple):
    """A part of a curve on which the dollars fall in proportion to the guaranteed hours; hours and dollars (2,)."""

    hours: tuple[float, float]
    usd: tuple[float, float]

    def divided(self, saving: float) -> list[float]:
        """Return hours from end to end, evenly, of which each costs at most that share less than the one before."""
        steps = max(1, math.ceil(math.log(self.usd[0] / self.usd[1]) / math.log1p(saving)))
        return list(map(float, np.linspace(*self.hours, steps + 1)))


class LeastCost:
    """The least cost known by each time: falls in steps."""

    def __init__(self, hours: Floats, usd: Floats) -> None:
        self.hours, self.usd = hours, usd
        self.add(np.zeros(0), np.zeros(0))

    def add(self, hours: Floats, usd: Floats) -> None:
        """Lower the cost to `usd` (k,) from `hours` (k,) on."""
        every, cost = np.concatenate([self.hours, hours]), np.concatenate([self.usd, usd])
        order = np.lexsort((cost, every))
        least = np.minimum.accumulate(cost[order])
        falls = np.isfinite(least) & (np.diff(least, prepend=np.inf) < 0)
        self.hours, self.usd = every[order][falls], least[falls]

    def by(self, hours: Floats) -> Floats:
        """Return the least cost by `hours` (k,); inf before the first."""
        place = np.searchsorted(self.hours, hours, side="right")
        return np.concatenate([[np.inf], self.usd])[place]

    def ends(self, latest_hours: float, most: int) -> tuple[Floats, Floats]:
        """Return the ends of the steps in hours and their costs, the time before the first step included.

        Neighbours are joined where there are more than `most`: to the end of the last, at the cost of the first.
        """
        ends, usd = np.append(self.hours, latest_hours), np.concatenate([[np.inf], self.usd])
        last = len(usd) - 1
        first = np.unique(np.append(0, np.linspace(min(1, last), last, most).astype(np.int64)))
        return ends[np.append(first[1:] - 1, last)], usd[first]


def straight_pieces(table: StartTable, begin: float, end: float) -> list[CurvePiece]:
    """Return the falling parts of the curve of a table from `begin` to `end` hours, by rising hours.

    A time that costs more than an earlier one is none of a piece: the earlier policy keeps its guarantee, too.
    """
    hours = _sample_hours(table, begin * JUST_AFTER, end)
    usd = np.minimum.accumulate(np.minimum(table.at(hours), table.request.run.on_demand_usd))
    falls = np.diff(usd) < 0
    starts = np.flatnonzero(falls & ~np.append(False, falls[:-1]))
    ends = np.flatnonzero(falls & ~np.append(falls[1:], False)) + 1
    found = []
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        kept = [first + place for place in _thinned(hours[first : last + 1], usd[first : last + 1])]
        for left, right in itertools.pairwise(kept):
            along, costs = (values[[left, right]].tolist() for values in (hours, usd))
            found.append(CurvePiece(tuple(along), tuple(costs)))
    return found


def _sample_hours(table: StartTable, begin: float, end: float) -> Floats:
    """Return times (k,) from `begin` to `end` between which the curve is as good as straight."""
    parts, work = table.request.parts, table.request.part.run.work_hours
    ticks = np.arange(1, len(table.values) + 1) * table.tick
    hours = np.sort(np.concatenate([ticks, work + table.slack])) * parts
    hours = np.concatenate([[begin], hours[(hours > begin * JUST_AFTER) & (hours < end / JUST_AFTER)], [end]])
    usd, middle = table.at(hours), table.at((hours[:-1] + hours[1:]) / 2)
    bend = np.abs((usd[:-1] + usd[1:]) / 2 / middle - 1)
    steps = np.maximum(np.ceil(np.sqrt(bend / (CURVE_ERROR / 2))), 1).astype(np.int64)
    stretch = np.repeat(np.arange(len(steps)), steps)
    part = (np.arange(len(stretch)) - np.repeat(np.cumsum(steps) - steps, steps)) / steps[stretch]
    return np.append(hours[stretch] + part * np.diff(hours)[stretch], end)


def _thinned(hours: Floats, usd: Floats) -> list[int]:
    """Return the samples that are kept, the ends among them: all others lie on the lines between these."""
    kept, waiting = [0], [len(hours) - 1]
    while waiting:
        first, last = kept[-1], waiting[-1]
        line = np.interp(hours[first + 1 : last], hours[[first, last]], usd[[first, last]])
        away = np.abs(line / usd[first + 1 : last] - 1)
        if last - first > 1 and away.max() > CURVE_ERROR / 2:
            waiting.append(first + 1 + int(np.argmax(away)))
        else:
            kept.append(waiting.pop())
    return kept
