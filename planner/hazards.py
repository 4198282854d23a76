"""Mean of a duration with a piecewise-constant hazard."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


SPEEDS, LUCKS = 8, 16
"""Equally likely cases of a figure with luck: speeds from fast to slow, and at each of them by size."""
SPEED_RANK_BOUNDS = (0.025, 0.975)
"""Ranks between which speeds are drawn: the data do not show how far the tails of the estimate reach."""


def mean_hours(begins: Sequence[float], rates: Sequence[float]) -> float:
    """Return the mean hours of a duration that ends at `rates[i]` per hour from the age of `begins[i]` hours.

    The sum over bands of S(begin) (1 - exp(-rate width)) / rate, where S is the survival function. Infinite if the
    last rate is 0 and its band is reached.

    Parameters
    ----------
    begins
        Hours at which the bands begin, increasing from 0.
    rates
        Ends per hour in each band.
    """
    mean, alive = 0.0, 1.0
    for begin, end, rate in zip(begins, [*begins[1:], math.inf], rates, strict=True):
        if alive <= 0:
            break
        if rate <= 0:
            mean += alive * (end - begin)
            continue
        ended = -math.expm1(-rate * (end - begin))
        mean += alive * ended / rate
        alive *= 1 - ended
    return mean
