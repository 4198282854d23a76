"""How hours become billed hours."""

from __future__ import annotations

from typing import Any

import numpy as np

TINY_HOURS = 1e-9
"""Below this a share of hours is nothing: no minimum charge for a market that is not used."""


def rounded_hours(hours: Any, step_hours: Any, minimum_hours: Any) -> Any:
    """Hours as billed: whole steps, at least the minimum; 0 stays 0. Arrays broadcast.

    1.2 h at a step of 1 h and a minimum of 1 h is billed as 2 h.
    """
    # A tiny allowance, so that 2.0000000001 h from floating point is not billed as 3.
    steps = np.ceil(np.asarray(hours) / step_hours - 1e-9)
    return np.where(np.asarray(hours) > TINY_HOURS, np.maximum(steps * step_hours, minimum_hours), 0.0)
