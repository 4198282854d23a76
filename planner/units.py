"""Conversion factors of units; memory is in GiB, figures of vendors are in GB."""

import math

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
