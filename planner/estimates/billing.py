"""How hours become billed hours."""

from __future__ import annotations

from typing import Any

import numpy as np

HOURS_TOLERANCE = 1e-9
"""Below this a share of hours is nothing: no minimum charge for a market that is not used."""


def round_up_hours(hours: Any, step_hours: Any, minimum_hours: Any) -> Any:
    """Hours as billed: whole steps, at least the minimum; 0 stays 0. Arrays broadcast.

    1.2 h at a step of 1 h and a minimum of 1 h is billed as 2 h.
    """
    # A tiny allowance, so that 2.0000000001 h from floating point is not billed as 3.
    steps = np.ceil(np.asarray(hours) / step_hours - 1e-9)
    return np.where(np.asarray(hours) > HOURS_TOLERANCE, np.maximum(steps * step_hours, minimum_hours), 0.0)


def break_even_hours(committed_usd: Any, on_demand_usd_per_hour: Any) -> Any:
    """Hours of use at which a commitment costs what on demand would; inf where on demand is free. Arrays broadcast.

    A month committed for 1,022 dollars, 2 dollars an hour on demand: 511 hours.
    """
    committed, hourly = np.broadcast_arrays(
        np.asarray(committed_usd, dtype=float), np.asarray(on_demand_usd_per_hour, dtype=float)
    )
    return np.divide(committed, hourly, out=np.where(committed > 0, np.inf, 0.0), where=hourly > 0)


def required_use_share(committed_usd: Any, on_demand_usd_per_hour: Any, committed_hours: Any) -> Any:
    """Share of the committed hours that must be used for the commitment to pay; over 1 it never does.

    The month above has 730 hours, and 511 of them are 70 %.
    """
    return break_even_hours(committed_usd, on_demand_usd_per_hour) / np.asarray(committed_hours, dtype=float)
