"""Conversion factors of units, figures rounded, and the mean of a duration: arithmetic that all packages share.

Memory is in GiB, figures of vendors are in GB.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 2**20
GIB = 2**30
"""Bytes in a GiB, the unit of GPU memory."""

GB = 10**9
"""Bytes in a GB, the unit of bandwidth, transfer and billed storage."""

TERA = 10**12
MEGA = 10**6

MILLISECONDS = 1000.0
"""Milliseconds in a second."""
MINUTE = 60.0
HOUR = 3600.0
"""Seconds in an hour."""

DAY_HOURS = 24.0
MONTH_HOURS = 730.0
"""Hours in a billing month of clouds (365 * 24 / 12)."""


def round_up(value: float, decimals: int) -> float:
    """Round up to so many decimals: what holds by a figure also holds by the one that is shown."""
    unit = 10.0**decimals
    return math.ceil(value * unit - 1e-6) / unit


def round_digits(value: float, digits: int = 4) -> float:
    """Round to `digits` digits, so that a figure that is pasted is the one that is used."""
    return float(f"{value:.{digits}g}")


def figure_text(value: float) -> str:
    """Return a figure with four digits, or all of those before its point: `812.4`, `1,024`, `127,000`; no exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.4g}"


def significant(value: float, digits: int = 3) -> str:
    """Return a figure rounded to significant digits, such as `1,190` or `0.53`."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


_COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def count_text(value: float) -> str:
    """Return a number of tokens or parameters with three figures, such as `32.0B`."""
    for size, unit in _COUNTS:
        if value >= size * 0.9995:
            return f"{significant(value / size)}{unit}"
    return significant(value)


# How long something lasts, and how sure that is.


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
