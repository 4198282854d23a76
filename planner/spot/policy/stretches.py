"""Stretches of a backward pass: few points of slack matter shortly before the end, more and more before that.

Where the slack exceeds the time left the work is done, and what is left to pay is known. So a pass begins on the first
points of its axis and takes in the others as the time left grows. The figures are those of the whole axis.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.markov_chain import COUNTS, Interpolation, MarkovChain

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers

WIDER_BY = 16
"""Points of slack that a stretch takes in more than the one before."""


def stretches(chain: MarkovChain, least: int = 0) -> list[tuple[float, int]]:
    """Return the last tick of each stretch of a pass, and how many points of slack it needs, at least `least`.

    Needed is every point at which work may be left one tick later, and every point that such a point leads to. The
    tick in between is for who interpolates between two ticks.
    """
    points = chain.slack.shape[1]
    reach = _reach(chain.spent, points)[_reach(chain.started, points) - 1]
    found: list[tuple[float, int]] = []
    for width in range(max(WIDER_BY, least), points, WIDER_BY):
        right = min(int(np.searchsorted(reach, width, side="right")), width - 1)
        last = float(np.min(np.floor(chain.slack[:, right] / chain.tick * (1 - 1e-9)))) - 1
        if right and last > (found[-1][0] if found else 0):
            found.append((last, width))
    return [*found, (np.inf, points)]


def _reach(lerp: Interpolation, points: int) -> Integers:
    """Return how many points of the axis the points up to each one (points,) lead to, itself included."""
    to = np.maximum(lerp.low.max(axis=(0, 1)) + 2, np.arange(1, points + 1))
    return np.asarray(np.minimum(np.maximum.accumulate(to), points))


def narrowed(chain: MarkovChain, width: int) -> MarkovChain:
    """Return the chain on the first points of its axis."""
    if width == chain.slack.shape[1]:
        return chain
    spent, started = (
        Interpolation(np.minimum(one.low[..., :width], width - 2), np.ascontiguousarray(one.part[..., :width]))
        for one in (chain.spent, chain.started)
    )
    return replace(
        chain,
        slack=chain.slack[:, :width],
        spent=spent,
        started=started,
        beyond=np.ascontiguousarray(chain.beyond[:, :, :width]),
        wait_barred=chain.wait_barred[..., :width],
        spot_barred=chain.spot_barred[..., :width],
        start_barred=chain.start_barred[..., :width],
    )


class Between:
    """Values between neighbours on the slack axis, at fixed places."""

    def __init__(self, lerp: Interpolation, sources: list[int], rows: int, counts: int) -> None:
        """Prepare the places; `sources` are the rows (of `rows`) that the rows of the interpolation read."""
        batch, _, points = lerp.low.shape
        row = np.arange(batch)[:, None, None] * rows + np.array(sources)[None, :, None]
        low = np.arange(counts)[:, None, None, None] * (batch * rows * points) + row * points + lerp.low
        self._places: Integers = np.stack([low, low + 1])
        self._part = lerp.part
        # Two whole arrays: numpy takes thrice as long where the rows of an array of few runs do not follow each other.
        self._ends = np.empty(self._places.shape)
        self.values: Floats = self._ends[0]
        self._upper = self._ends[1]

    def of(self, values: Floats) -> Floats:
        """Return the values between those of (counts, b, rows, slack); the array is that of the next call."""
        # No place lies outside; "clip" spares the copy that a check needs.
        values.reshape(-1).take(self._places, out=self._ends, mode="clip")
        self._upper -= self.values
        self._upper *= self._part
        self.values += self._upper
        return self.values


class StretchedPass:
    """A pass over a chain in stretches; `values` (counts, b, 2M + U, slack) are those at the time reached.

    `chain` is that of the present stretch. `counts` selects what is carried.
    """

    def __init__(self, chain: MarkovChain, counts: slice, least: int = 0) -> None:
        self._whole, self.counts, self.ticks = chain, counts, 0
        self._coming = stretches(chain, least)
        self.rows = 2 * chain.states + chain.ups
        self.hours_left = np.zeros(len(chain.slack))
        self.values: Floats = np.zeros((len(range(COUNTS)[counts]), len(chain.slack), self.rows, 0))
        self._widen()

    def prepare(self) -> None:
        """Prepare the arrays of a stretch."""
        raise NotImplementedError

    def begin_tick(self) -> None:
        """Move the time left by one tick; take in more points where the next stretch begins."""
        self.ticks += 1
        if self.ticks > self._last:
            self._widen()
        self.hours_left = self.hours_left + self._whole.tick

    def _widen(self) -> None:
        self._last, width = self._coming.pop(0)
        self.chain = chain = narrowed(self._whole, width)
        m, ups = chain.states, chain.ups
        each = ((chain.cheap_rate, m), (chain.demand_rate, m), (chain.spot_rate, ups))
        rates = np.concatenate([np.repeat(rate[:, None], rows, axis=1) for rate, rows in each], axis=1)
        self._rates = np.moveaxis(rates[..., self.counts], -1, 0)[..., None].copy()
        begun = np.zeros((len(chain.slack), self.rows, 1))
        begun[:, :m] = chain.restart[..., 0]
        self._settled = (begun - chain.slack[:, None]) * self._rates
        # The first tick at which no run is done at a point.
        self._done_until: list[float] = (chain.slack / chain.tick[:, None] * (1 + 1e-9)).max(axis=0).tolist()
        known = self.values
        self.values = self._settled + self.hours_left[:, None, None] * self._rates
        self.values[..., : known.shape[-1]] = known
        self.prepare()

    def settle(self) -> None:
        """Set the values where no work is left: a tick that ends after the work is refunded at its rate.

        Where nothing runs there is nothing to refund. These states are neighbours in the interpolation of states with
        work left, so they continue the line on which those lie: a start, and the work at the cheaper rate.
        """
        begin = bisect_left(self._done_until, self.ticks)
        if begin < len(self._done_until):
            done = self.chain.slack[:, None, begin:] >= self.hours_left[:, None, None]
            owed = self._settled[..., begin:] + self.hours_left[:, None, None] * self._rates
            np.copyto(self.values[..., begin:], owed, where=done)
