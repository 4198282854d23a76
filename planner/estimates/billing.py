"""Billed hours and dollars: rounding of hours, commitments, managed services priced per token.

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


def count_terms(
    expected_hours: Any, late_hours: Any, term_hours: Any, term_usd: Any, after_usd_per_hour: Any
) -> tuple[Any, Any]:
    """Return how many terms of a commitment a run takes back to back, and whether hours on demand follow them.

    As many as its late hours need; one less where the expected hours that it would leave cost less on demand. Without a
    price after the term (nan) it is always renewed. Arrays broadcast; 1 without a commitment (endless `term_hours`).

    800 h in months of 730 h for 1,022 dollars each, 2 dollars an hour on demand: 1 term, and 70 h for 140 dollars.
    """
    whole = np.maximum(1.0, np.ceil(np.asarray(late_hours) / term_hours - 1e-9))
    with np.errstate(invalid="ignore"):  # no term before the first: 0 * inf
        left = np.maximum(0.0, expected_hours - np.where(whole > 1, (whole - 1) * term_hours, np.inf))
    goes_on = (whole > 1) & (left * after_usd_per_hour < term_usd)
    return whole - goes_on, goes_on


def managed_tokens_per_second(active_parameters: float, flop_per_second: float) -> float:
    """Return the tokens per second of a service that spends `flop_per_second` on one run."""
    return flop_per_second / (TRAINING_FLOP_PER_PARAMETER * active_parameters)


def managed_usd(
    tokens: float, runs: float, usd_per_million_tokens: float, usd_per_run: float, minimum_usd: float
) -> float:
    """Return the dollars of `runs` runs that take `tokens` together; a run costs at least the minimum.

    3 M tokens in 1 run at $2.00 a million and $1.00 a run, at least $5.00: $7.00.
    """
    return max(tokens / MILLION * usd_per_million_tokens + runs * usd_per_run, runs * minimum_usd)
