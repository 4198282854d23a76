"""Spot prices that are far below those of the same instance elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from planner.arrays import Flags
    from planner.candidates.market import Market
    from planner.solving.prepare import PreparedScenario

OUTLIER_SHARE = 0.5
"""A spot discount under this share of the median discount of the same instance is an outlier."""
MIN_PEERS = 3
"""Offers of an instance from which on it has a usual discount."""


def flag_spot_outliers(market: Market) -> Flags:
    """Return the offers (offers,) whose ratio of spot to on-demand price is far below that of their instance.

    Such a price is probably an error of the price list, and a search for the least cost over thousands of prices
    finds these errors first.
    """
    ratios: dict[tuple[str, str, str], list[float]] = {}
    ratio = np.full(len(market.offers), np.nan)
    kinds = [(offer.provider, offer.instance, offer.card) for offer in market.offers]
    for index, (kind, offer) in enumerate(zip(kinds, market.offers, strict=True)):
        if offer.has_spot and offer.usd_per_hour and offer.spot_usd_per_hour is not None:
            ratio[index] = offer.spot_usd_per_hour / offer.usd_per_hour
            ratios.setdefault(kind, []).append(float(ratio[index]))
    usual = [np.median(peers) if len(peers := ratios.get(kind, [])) >= MIN_PEERS else np.nan for kind in kinds]
    return np.asarray(ratio < OUTLIER_SHARE * np.asarray(usual, dtype=float))


def describe_spot_outlier(prepared: PreparedScenario, job: int, row: int, share: float) -> tuple[str, ...]:
    """Return a warning if a plan uses an outlying spot price, with the best cost without such prices.

    `row` is the row of the job's screened table that the plan uses at the spot share `share`.
    """
    table = prepared.screened[job].table
    is_outlier = flag_spot_outliers(prepared.market)
    if share == 0 or not is_outlier[table.offer[row]]:
        return ()
    others = table.rows(~is_outlier[table.offer])
    value, shares = CandidateObjective.of(prepared.scenario).best(others)
    without = "no plan"
    if np.isfinite(value).any():
        without = f"${others.cost_usd(shares)[np.argmin(value)]:,.2f}"
    return (f"the spot price is under half of what this instance costs elsewhere; without such prices: {without}",)
