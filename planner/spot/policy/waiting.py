"""Waiting for spot machines: the price of an hour that makes a policy wait less."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.policy_cache import CurvePoint, PolicyCache
    from planner.spot.policy.run import SpotRun

WAITING_SHARE = 0.02
"""Largest price of an hour of waiting for spot machines, over that of the same machines on demand."""
WAITING_COST_SHARE = 0.01
"""Share of the dollars of the best policy that one with less waiting may cost more."""
HALVINGS = 6
"""Times that the range of prices is halved where the largest costs too many dollars; a higher one costs no fewer."""


def max_waiting_price(run: SpotRun) -> float:
    """Return the largest price of an hour of waiting that nobody has to ask for."""
    return WAITING_SHARE * run.on_demand_usd_per_hour


def least_wait(
    policies: PolicyCache,
    run: SpotRun,
    states: SpotStates,
    best: CurvePoint,
    most_usd: float = math.inf,
    low_share: float = 0.0,
) -> tuple[SpotRun, CurvePoint, float] | None:
    """Return the policy with the fewest expected hours among those of nearly the dollars of the best one.

    The candidates are the best policies where an hour of waiting has a price, which is on no bill.

    Parameters
    ----------
    best
        The best policy of `run` without that price.
    most_usd
        Dollars that the policy may cost at most.
    low_share
        Least share of the work on spot.

    Returns
    -------
    tuple or None
        The run with the price in its standing costs, its policy, and the price in dollars an hour; None where no
        policy ends earlier within the dollars.
    """
    if not (best.waiting_hours > 0 and math.isfinite(run.on_demand_usd_per_hour)):
        return None
    room = min(most_usd, best.usd * (1 + WAITING_COST_SHARE))

    largest = max_waiting_price(run)
    low, high, price, found = 0.0, largest, largest, None
    for _ in range(1 + HALVINGS):
        priced = replace(run, standing_usd_per_hour=run.standing_usd_per_hour + price)
        # The largest price mostly stays: all figures of its policy are wanted then.
        look_up = policies.best_points if price == largest else policies.figures
        (point,) = look_up([(priced, states, best.hours)])
        is_allowed = point.spot_hours > 0 and point.spot_share >= low_share
        if is_allowed and point.usd - price * point.finish_hours <= room:
            if point.finish_hours < (best if found is None else found[1]).finish_hours:
                found = (priced, point, price)
            low = price
        else:
            high = price
        if low == largest:
            break
        price = (low + high) / 2
    return found
