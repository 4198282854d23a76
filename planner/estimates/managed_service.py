"""Hours and dollars of a managed training service: tokens in, a trained network out.

Numbers: models/calibration/stages.yaml, guesses where the service promises no speed.
"""

from __future__ import annotations

MILLION = 1e6
FLOP_PER_PARAMETER = 6.0
"""Of one token, forward and backward."""


def service_tokens_per_second(active_parameters: float, flop_per_second: float) -> float:
    """Tokens a second of a service that spends `flop_per_second` on one run: 6 FLOP per active parameter and token."""
    return flop_per_second / (FLOP_PER_PARAMETER * active_parameters)


def service_usd(
    tokens: float, runs: float, usd_per_million_tokens: float, usd_per_run: float, minimum_usd: float
) -> float:
    """Dollars of `runs` runs that take `tokens` together; a run costs at least the minimum.

    3 M tokens in 1 run at $2.00 a million and $1.00 a run, at least $5.00: $7.00.
    """
    return max(tokens / MILLION * usd_per_million_tokens + runs * usd_per_run, runs * minimum_usd)
