"""Prompts that wait for steps, once more: sums of prompts by convolution, the chain by walking it step by step.

The lattice is that of `planner.estimates.prompt_work`; how shares on it are found is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.estimates.prompt_work import CHAIN_SQUARES, LATTICE, MOST_OF_STEPS, RANGE_SIGMAS, WAITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats

_ROUNDS = 60
_RARE = 1e-13  # tail of a Poisson variable that is left out


class Prompts(NamedTuple):
    """Prompts by length: shares, seconds, steps over which one is spread; and the seconds that fit into a step."""

    shares: list[float]
    seconds: list[float]
    parts: list[int]
    most: float

    @property
    def mean(self) -> float:
        """Mean seconds."""
        return math.fsum(share * one for share, one in zip(self.shares, self.seconds, strict=True))

    @property
    def mean_square(self) -> float:
        """Mean of their squares."""
        return math.fsum(share * one * one for share, one in zip(self.shares, self.seconds, strict=True))


class FirstTokens:
    """When requests that have a place have their first token, arrival left out; prompts of others come at a rate."""

    def __init__(self, prompts: Prompts, rate: float, step: float):
        busy = min(rate * prompts.mean * (1.0 + step / prompts.most), MOST_OF_STEPS)
        work = busy * step / (1.0 - busy)
        deviation = math.sqrt(rate * prompts.mean_square * (step + work) / (1.0 - busy * busy))
        width = (max(prompts.seconds) + work + RANGE_SIGMAS * deviation) / (LATTICE - 1)
        powers = _powers(_sizes(prompts, width), rate * (step + min(width * (LATTICE - 1), prompts.most)))
        seconds, left, arriving = [], [], []
        for point in range(LATTICE):
            done = min(point * width, prompts.most)
            seconds.append(step + done)
            left.append(point * width - done)
            arriving.append(_summed(powers, rate * (step + done)))
        full = min(rate * prompts.mean, MOST_OF_STEPS)
        shares = _summed(powers, rate * step / (1.0 - full))
        chain = np.stack([_moved(arriving[point], left[point] / width) for point in range(LATTICE)])
        for _ in range(2**CHAIN_SQUARES):
            shares = shares @ chain
        seen = shares * seconds / float(shares @ np.asarray(seconds))
        behind = [one * (1.0 + step / prompts.most) for one in left]
        spread = (seconds[-1] + behind[-1] + width * (LATTICE - 1)) / (WAITS - 1)
        points = width * np.arange(LATTICE)

        def passed(waited: float) -> float:
            return math.fsum(
                float(seen[k] * (arriving[k] @ np.clip((waited - behind[k] - points) / seconds[k], 0.0, 1.0)))
                for k in range(LATTICE)
            )

        self.spread = spread
        self.waits = [passed(spread * one) for one in range(WAITS)]
        self.own = [one + step * parts for one, parts in zip(prompts.seconds, prompts.parts, strict=True)]
        self.shares = np.asarray(prompts.shares)

    def within(self, seconds: float, places: Sequence[tuple[float, float]] = ((0.0, 1.0),)) -> float:
        """Return the share of the requests with a first token within so long; `places`: waits for one, and shares."""
        points = self.spread * np.arange(WAITS)
        found = 0.0
        for wait, share in places:
            at = np.interp([seconds - wait - one for one in self.own], points, self.waits, left=0.0)
            found += share * float(at @ self.shares)
        return found

    def quantile(self, share: float, places: Sequence[tuple[float, float]] = ((0.0, 1.0),)) -> float:
        """Return the seconds within which a share of the requests has its first token."""
        low, high = 0.0, self.spread * (WAITS - 1) + max(self.own) + max(wait for wait, _ in places)
        for _ in range(_ROUNDS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.within(middle, places) < share else (low, middle)
        return high


def first_token_seconds(share: float, prompts: Prompts, rate: float, step: float) -> float:
    """Return the seconds to the first token that a share of the requests stays below, where none waits for a place."""
    return FirstTokens(prompts, rate, step).quantile(share)


def _sizes(prompts: Prompts, width: float) -> Floats:
    """Return the shares of prompts by point; one between two points goes to both, so that the mean stays."""
    found = np.zeros(LATTICE)
    for share, seconds in zip(prompts.shares, prompts.seconds, strict=True):
        place = min(seconds / width, LATTICE - 1.0)
        point = min(int(place), LATTICE - 2)
        found[point] += share * (1.0 - place + point)
        found[point + 1] += share * (place - point)
    return found


def _powers(sizes: Floats, most: float) -> Floats:
    """Return the shares of the sum of 0, 1, 2... prompts below the last point, for a Poisson number up to `most`."""
    count = int(most + 12.0 * math.sqrt(most) + 30.0)
    found = [np.eye(1, LATTICE)[0]]
    for _ in range(count):
        found.append(np.convolve(found[-1], sizes)[:LATTICE])
    return np.stack(found)


def _summed(powers: Floats, mean: float) -> Floats:
    """Return the shares of the sum of a Poisson number of prompts; the last point takes all beyond."""
    number = np.arange(len(powers))
    logs = number * math.log(max(mean, 1e-300)) - mean - np.asarray([math.lgamma(one + 1.0) for one in number])
    weights = np.where(logs > math.log(_RARE) - 10.0, np.exp(logs), 0.0)
    found = weights @ powers
    found[-1] = max(0.0, 1.0 - float(np.sum(found[:-1])))
    return np.asarray(found)


def _moved(arriving: Floats, left: float) -> Floats:
    """Return the work before the next step: what arrives on top of the points that are left."""
    found, point = np.zeros(LATTICE), int(left)
    for more in range(LATTICE):
        found[min(point + more, LATTICE - 1)] += (1.0 - left + point) * arriving[more]
        found[min(point + more + 1, LATTICE - 1)] += (left - point) * arriving[more]
    return found
