"""How long something lasts whose chance to end depends on its age, in bands of ages with one rate each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def mean_hours(begins: Sequence[float], rates: Sequence[float]) -> float:
    """The mean of a duration that ends with `rates[i]` per hour from the age of `begins[i]` hours on.

    Sum over bands of S(begin) (1 - exp(-rate width)) / rate, S being the share that gets as old.
    `begins`: the first 0, rising. Infinite where the last rate is 0 and something gets that old.
    """
    mean, alive = 0.0, 1.0
    for begin, end, rate in zip(begins, [*begins[1:], math.inf], rates, strict=True):
        if alive <= 0:
            break
        if rate <= 0:
            mean += alive * (end - begin)
            continue
        dies = -math.expm1(-rate * (end - begin))
        mean += alive * dies / rate
        alive *= 1 - dies
    return mean
