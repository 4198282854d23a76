"""Gamma variables once more, by the error function instead of its series."""

from __future__ import annotations

import math

_SUREST = 0.999
_ROUNDS = 60


def gamma_quantile(share: float, mean: float, variance: float) -> float:
    """Return the quantile of a gamma variable: its cube root is nearly normal."""
    low, high = -40.0, 40.0
    share = min(max(share, 1.0 - _SUREST), _SUREST)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _normal(middle) < share else (low, middle)
    ninth = variance / mean**2 / 9.0
    return float(mean * max(1.0 - ninth + high * math.sqrt(ninth), 0.0) ** 3)


def gamma_below(value: float, mean: float, variance: float) -> float:
    """Return the share of a gamma variable below a value."""
    ninth = max(variance / mean**2 / 9.0, 1e-12)
    return _normal(((value / mean) ** (1.0 / 3.0) - 1.0 + ninth) / math.sqrt(ninth))


def _normal(deviations: float) -> float:
    return 0.5 * math.erfc(-deviations / math.sqrt(2.0))
