"""Billed hours and dollars: rounding of hours, commitments, and managed services that are priced per token.

Numbers of managed services: models/calibration/stages.yaml, guesses where the service states no speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

HOURS_TOLERANCE = 1e-9
"""Hours below this are zero: no minimum charge for a market that is not used."""
MILLION = 1e6
TRAINING_FLOP_PER_PARAMETER = 6.0
"""Of one token, forward and backward."""


def round_up_hours(hours: Any, step_hours: Any, minimum_hours: Any) -> Any:
    """Return hours as billed: whole steps, at least the minimum; 0 stays 0. Arrays broadcast.

    1.2 h at a step of 1 h and a minimum of 1 h is billed as 2 h.
    """
    # The tolerance keeps 2.0000000001 h of floating point from being billed as 3.
    steps = np.maximum(np.ceil(np.asarray(hours) / step_hours - 1e-9), 1.0)
    return np.where(np.asarray(hours) > HOURS_TOLERANCE, np.maximum(steps * step_hours, minimum_hours), 0.0)


def break_even_hours(committed_usd: Any, on_demand_usd_per_hour: Any) -> Any:
    """Return the hours of use at which a commitment costs as much as on demand; inf where on demand is free.

    Arrays broadcast. A month committed for 1,022 dollars, 2 dollars an hour on demand: 511 hours.
    """
    committed, hourly = np.broadcast_arrays(
        np.asarray(committed_usd, dtype=float), np.asarray(on_demand_usd_per_hour, dtype=float)
    )
    return np.divide(committed, hourly, out=np.where(committed > 0, np.inf, 0.0), where=hourly > 0)


def required_use_share(committed_usd: Any, on_demand_usd_per_hour: Any, committed_hours: Any) -> Any:
    """Return the share of the committed hours that must be used for the commitment to pay; above 1 it never does.

    The month above has 730 hours, and 511 of them are 70 %.
    """
    return break_even_hours(committed_usd, on_demand_usd_per_hour) / np.asarray(committed_hours, dtype=float)


def service_tokens_per_second(active_parameters: float, flop_per_second: float) -> float:
    """Return the tokens per second of a service that spends `flop_per_second` on one run."""
    return flop_per_second / (TRAINING_FLOP_PER_PARAMETER * active_parameters)


def service_usd(
    tokens: float, runs: float, usd_per_million_tokens: float, usd_per_run: float, minimum_usd: float
) -> float:
    """Return the dollars of `runs` runs that take `tokens` together; a run costs at least the minimum.

    3 M tokens in 1 run at $2.00 a million and $1.00 a run, at least $5.00: $7.00.
    """
    return max(tokens / MILLION * usd_per_million_tokens + runs * usd_per_run, runs * minimum_usd)
