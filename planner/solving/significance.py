"""Whether two estimates differ beyond their uncertainty, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.library.schema import Library

RATIO_THRESHOLD = 10.0
"""Ratio from which on a difference is a factor: 411x says more than 41,043 %."""
NO_DIFFERENCE = "no real difference"


def difference_sigma(library: Library, same_gpu: bool) -> float:
    """Return the spread of the difference of two estimates' log errors, on one GPU model or on two."""
    return library.calibrations["uncertainty"].value(f"difference.{'same' if same_gpu else 'other'}_card")


def describe_difference(
    value: float,
    reference: float,
    sigma: float,
    words: tuple[str, str, str] = ("cheaper", "more expensive", "the cost"),
) -> str:
    """Return how two figures differ: `63 % more expensive`, `12x the cost`, or no real difference within `sigma`.

    `words` are those for less, for more and for a multiple. Figures that are not positive have no ratio: empty.
    """
    if value <= 0 or reference <= 0:
        return ""
    log_ratio, (less, more, multiple) = math.log(value / reference), words
    if abs(log_ratio) < sigma:
        return NO_DIFFERENCE
    if value >= RATIO_THRESHOLD * reference:
        return f"{value / reference:,.0f}x {multiple}"
    return f"{abs(math.expm1(log_ratio)):,.0%} {more if log_ratio > 0 else less}".replace("%", " %")
