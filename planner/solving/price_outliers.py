"""Spot prices that are far below those of the same instance elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from planner.solving.prepare import PreparedScenario


def describe_spot_outlier(prepared: PreparedScenario, job: int, row: int, share: float) -> tuple[str, ...]:
    """Return a warning if a plan uses an outlying spot price, with the best cost without such prices.

    `row` is the row of the job's screened table that the plan uses at the spot share `share`.
    """
    table = prepared.screened[job].table
    is_outlier = prepared.market.is_outlier
    if share == 0 or not is_outlier[table.offer[row]]:
        return ()
    others = table.rows(~is_outlier[table.offer])
    value, shares = CandidateObjective.of(prepared.scenario).best(others)
    without = "no plan"
    if np.isfinite(value).any():
        without = f"${others.cost_usd(shares)[np.argmin(value)]:,.2f}"
    return (f"the spot price is under half of what this instance costs elsewhere; without such prices: {without}",)
