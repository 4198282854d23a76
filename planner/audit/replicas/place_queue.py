"""Requests that wait for a place, once more: the balance of arrivals and answers by recursion, residues in closed form.

The model is that of `planner.estimates.inference.places`; how its figures are found is not.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from planner.audit.replicas.gammas import gamma_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTS = 24  # of the requests that wait
_LEAST, _MOST = 1e-9, 1.0 - 1e-9  # use
_STEPS = 1000  # of sums over residues


class Present(NamedTuple):
    """Requests at a replica: the share that waits, and what one in flight meets."""

    waits: float
    use: float
    flight: float
    met: float
    variance: float


def present(holds: Sequence[float], rate: float) -> Present:
    """Return the requests at a rate, given the seconds of one by the number in flight."""
    places = len(holds)
    use = min(max(rate * holds[-1] / places, _LEAST), _MOST)
    rate = use * places / holds[-1]
    chances = [1.0]
    for count, hold in enumerate(holds, start=1):
        chances.append(chances[-1] * rate * hold / count)
        if chances[-1] > 1e200:
            chances = [one / 1e200 for one in chances]
    chances[-1] /= 1.0 - use
    whole = math.fsum(chances)
    mean, square, cube = (
        math.fsum(one * count**power for count, one in enumerate(chances)) / whole for power in (1, 2, 3)
    )
    return Present(chances[-1] / whole, use, mean, square / mean, max(cube / mean - (square / mean) ** 2, 0.0))


def waits_for_a_place(
    there: Present, places: float, seconds: Sequence[float], shares: Sequence[float]
) -> list[tuple[float, float]]:
    """Return waits and the share of the requests that wait so long; `seconds` of a request by length."""
    one, two, three = (
        math.fsum(share * each**power for share, each in zip(shares, seconds, strict=True)) for power in (1, 2, 3)
    )
    longest, first, square = max(seconds), 0.0, 0.0
    for step in range(_STEPS):  # midpoints, close together where the first place is free
        low, high = (longest * (at / _STEPS) ** 3 for at in (step, step + 1))
        middle = (low + high) / 2.0
        left = math.fsum(share * max(each - middle, 0.0) for share, each in zip(shares, seconds, strict=True)) / one
        first += left**places * (high - low)
        square += 2.0 * middle * left**places * (high - low)
    residue, more = two / (2.0 * one * places), there.use / (1.0 - there.use)
    mean = first + more * residue
    variance = square - first**2 + more * (three / (3.0 * one * places**2) - residue**2)
    variance += residue**2 * more / (1.0 - there.use)
    ends = [1.0 - (1.0 - part / _PARTS) ** 3 for part in range(_PARTS + 1)]
    found = [(0.0, 1.0 - there.waits)]
    for low, high in pairwise(ends):
        found.append((gamma_quantile((low + high) / 2.0, mean, variance), there.waits * (high - low)))
    return found
