"""Several jobs that share nothing but a budget: curves of dollars over tokens, priced where the answer may lie.

Known are the least dollars of each model at a few numbers of tokens. Three curves on the grid of tokens follow:

    lower   no run of as many tokens costs less: from the last known point on along the least slope of any candidate
    guess   a straight line between known points, and along that slope after the last
    known   the known points alone

The least sum of losses over the lower curves, by Lagrange's bound, is a bound of the answer; that over the known points
is an answer. Points are added where the guess has its answer, then where the lower curves have theirs, until both sums
are close. With a price l of a dollar, no sum of losses within a budget B is below sum_j min(loss + l * usd) - l * B.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Floats, Integers
from planner.open_choices.choice_alternatives import Alternative, known_range, tokens_at
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_PRICES = 60
"""Prices of a dollar that are tried for one bound: each halves what is left of 20 powers of ten."""
MOST_SUMS = 2000
"""Sums of dollars of some jobs that are kept when another is added."""


@dataclass(eq=False)
class Curve:
    """The least dollars of one model over the places of the grid that its law has seen."""

    alternative: Alternative
    first: int
    losses: Floats
    tokens: Floats
    usd: dict[int, float] = field(default_factory=dict)  # place -> least dollars
    end: int = 0  # from this place on nothing is feasible

    @classmethod
    def of(cls, alternative: Alternative) -> Curve:
        """Return the curve of a model, of which nothing is known yet."""
        first, last = known_range(alternative)
        tokens = [tokens_at(index) for index in range(first, last + 1)]
        losses = np.asarray([alternative.loss(token) for token in tokens])
        curve = cls(alternative, first, losses, np.asarray(tokens, dtype=float), end=len(tokens))
        for place, token in enumerate(tokens):  # of another budget
            if token in alternative.rises:
                curve.price(place)
        return curve

    def price(self, place: int) -> None:
        """Compute the dollars at a place."""
        usd = self.alternative.rise(int(self.tokens[place])).usd
        if math.isfinite(usd):
            self.usd[place] = usd
        else:
            self.end = min(self.end, place)

    def lower(self) -> Floats:
        """Return dollars (places,) below which no run stays; infinite from `end` on."""
        found = np.full(len(self.tokens), np.inf)
        known = [*sorted(self.usd), self.end]
        for begin, end in itertools.pairwise(known):
            found[begin:end] = self._along(begin, end)
        return found

    def guess(self) -> Floats:
        """Return about the least dollars (places,); infinite from `end` on."""
        found = np.full(len(self.tokens), np.inf)
        known = sorted(self.usd)
        if known:
            found[: self.end] = np.interp(
                self.tokens[: self.end], self.tokens[known], [self.usd[place] for place in known]
            )
            found[known[-1] : self.end] = self._along(known[-1], self.end)
            found[: known[0]] = np.inf
        return found

    def _along(self, begin: int, end: int) -> Floats:
        """Return the dollars of the least slope from a known place on."""
        rise = self.alternative.rise(int(self.tokens[begin]))
        return rise.along(self.tokens[begin:end] - self.tokens[begin])

    def between(self, place: int) -> int | None:
        """Return the place halfway from the last known one to one that is not known; None where it is known."""
        if place in self.usd:
            return None
        before = max((known for known in self.usd if known < place), default=place)
        return (before + place + 1) // 2


class Point(NamedTuple):
    """A place on the curve of one model of a job."""

    curve: Curve
    place: int

    @property
    def tokens(self) -> int:
        """Tokens at the reference batch."""
        return int(self.curve.tokens[self.place])

    @property
    def loss(self) -> float:
        """Loss of the model after as many tokens."""
        return float(self.curve.losses[self.place])


class Points(NamedTuple):
    """Points of all models of one job: curve and place, loss and dollars of each."""

    curves: Sequence[Curve]
    curve: Integers
    place: Integers
    loss: Floats
    usd: Floats

    def point(self, row: int) -> Point:
        """Return a point by its row."""
        return Point(self.curves[int(self.curve[row])], int(self.place[row]))


@record(frozen=True)
class LeastSum:
    """One point for each job, their sum of losses, and by how much that may be above the least one."""

    points: tuple[Point, ...]
    loss: float
    above_least: float


def least_sum_of_losses(jobs: Sequence[Sequence[Alternative]], budget_usd: float, tolerance: float) -> LeastSum | None:
    """Return the models and tokens of the least sum of losses within a budget, proven to a tolerance; None if none.

    Where the sum cannot be proven, because the dollars of known points leave gaps, `above_least` says what is left.
    """
    curves = [
        [Curve.of(alternative) for alternative in each if known_range(alternative)[0] <= known_range(alternative)[1]]
        for each in jobs
    ]
    for each in curves:
        for curve in each:
            curve.price(0)
    while True:
        bound = _bound([_points(each, [curve.lower() for curve in each]) for each in curves], budget_usd)
        best = _known(curves, budget_usd)
        if bound is None or best is None:
            return None
        above = max(0.0, sum(point.loss for point in best) - bound[0])
        missing = [] if above <= tolerance else list(dict.fromkeys(_missing(curves, bound[1:], budget_usd)))
        if not missing:
            return LeastSum(best, sum(point.loss for point in best), above)
        for curve, place in missing:
            curve.price(place)


def _missing(curves: Sequence[Sequence[Curve]], low: Sequence[Sequence[Point]], budget_usd: float) -> Iterator[Point]:
    """Yield the places to price next: of the answer by the guess, else next to those of the bound."""
    guess = _bound([_points(each, [curve.guess() for curve in each]) for each in curves], budget_usd)
    found = [] if guess is None else [point for point in guess[1] if point.place not in point.curve.usd]
    # Where no run is feasible from some place on, a guess would come down to it step by step.
    wanted = [point for point in found if point.curve.end == len(point.curve.tokens)]
    if wanted:
        yield from wanted
        return
    for curve, place in (*found, *low[0], *low[1]):
        middle = curve.between(place)
        if middle is not None:
            yield Point(curve, middle)


def _points(curves: Sequence[Curve], usd: Sequence[Floats]) -> Points:
    """Return all points of the models of one job that have dollars."""
    which = [np.flatnonzero(np.isfinite(costs)) for costs in usd]
    return Points(
        curves,
        np.repeat(np.arange(len(curves)), [len(places) for places in which]),
        np.concatenate([np.zeros(0, dtype=np.int64), *which]),
        np.concatenate([np.zeros(0), *(curve.losses[at] for curve, at in zip(curves, which, strict=True))]),
        np.concatenate([np.zeros(0), *(costs[at] for costs, at in zip(usd, which, strict=True))]),
    )


def _bound(jobs: Sequence[Points], budget_usd: float) -> tuple[float, list[Point], list[Point]] | None:
    """Return the greatest bound of the sum of losses that a price of dollars gives, and the points at that price.

    Those that the budget pays for, and those that it does not quite. None where not even the cheapest are within it.
    """
    if any(not len(job.usd) for job in jobs) or sum(float(job.usd.min()) for job in jobs) > budget_usd:
        return None
    rows, best = [int(np.argmin(job.usd)) for job in jobs], -math.inf
    beyond = rows
    low, high = -14.0, 6.0  # powers of ten
    for step in range(MOST_PRICES):
        price = 0.0 if step == 0 else 10.0 ** ((low + high) / 2)
        at = [int(np.argmin(job.loss + price * job.usd)) for job in jobs]
        usd = sum(float(job.usd[row]) for job, row in zip(jobs, at, strict=True))
        loss = sum(float(job.loss[row]) for job, row in zip(jobs, at, strict=True))
        best = max(best, loss + price * (usd - budget_usd))
        if usd <= budget_usd:
            rows = at
            if step == 0:
                break
            high = (low + high) / 2
        elif step:
            low, beyond = (low + high) / 2, at
    within, over = ([job.point(row) for job, row in zip(jobs, at, strict=True)] for at in (rows, beyond))
    return best, within, over


def _known(curves: Sequence[Sequence[Curve]], budget_usd: float) -> tuple[Point, ...] | None:
    """Return the known points of the least sum of losses within the budget; None where there are none."""
    sums: list[tuple[float, float, tuple[Point, ...]]] = [(0.0, 0.0, ())]
    for each in curves:
        points = [(usd, Point(curve, place)) for curve in each for place, usd in curve.usd.items()]
        added = (
            (spent + usd, lost + point.loss, (*chosen, point))
            for spent, lost, chosen in sums
            for usd, point in points
            if spent + usd <= budget_usd
        )
        front: list[tuple[float, float, tuple[Point, ...]]] = []
        for extended in sorted(added, key=lambda extended: extended[:2]):
            if not front or extended[1] < front[-1][1]:
                front.append(extended)
        # The last sums lose least.
        sums = front if len(front) <= MOST_SUMS else front[:: -(-len(front) // MOST_SUMS)] + front[-1:]
    return sums[-1][2] if sums else None
