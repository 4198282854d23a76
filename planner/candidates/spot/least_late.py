"""The policy that costs least at the confidence of the budget, of all candidates of a job: a search of one row.

Whoever compares models and tokens needs no more: neither the best of each method, nor what else a plan names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.least_cost import BOUND_MARGIN

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats
    from planner.candidates.spot_candidates import SpotCandidates

MIN_HOURS = 1e-3
"""Shortest work that a policy is computed for."""
FIRST, MOST = 2, 8
"""Policies that are computed first, and at most, before bounds are compared with the least again."""


def find_least_late(work: SpotCandidates, able: Flags) -> tuple[dict[int, float], Floats]:
    """Return the row of the policy of least dollars at the confidence of the budget, and a bound (n,) for every row.

    The row comes with the value of its policy; there is none where on demand costs no more. A policy of a row costs no
    less than its bound at the confidence of the budget; infinite where the row follows none.
    """
    able = able & (work.guarantee > work.work + work.hours.restart) & (work.work > MIN_HOURS)
    bounds = np.where(able, work.late_usd(work.bound()), np.inf)
    on_demand = np.where(able, work.table.late_cost_usd(0.0), np.inf)
    least, found = float(on_demand.min(initial=np.inf)), dict[int, float]()
    done: dict[tuple[object, ...], list[int]] = {}
    left, size = np.argsort(bounds, kind="stable").tolist(), FIRST
    while left and bounds[left[0]] < least:
        waiting: list[int] = []
        while left and len(waiting) < size and bounds[left[0]] < least:
            row = left.pop(0)
            alike = done.setdefault(work.kind(row), [])
            better = next((one for one in alike if bool(np.all(work.sizes[one] <= work.sizes[row]))), None)
            if better is None:
                close = np.asarray([work.close_bound(row)])
                bounds[row] = max(bounds[row], float(work.late_usd(close, np.asarray([row]))[0]))
                if bounds[row] < least:
                    alike.append(row)
                    waiting.append(row)
            else:  # no better than another, which is priced
                bounds[row] = max(bounds[row], bounds[better])
        rows = np.asarray(waiting, dtype=np.int64)
        values = work.least_values(waiting)
        usd = work.late_usd(values, rows)
        bounds[rows] = np.maximum(bounds[rows], np.minimum(usd, on_demand[rows]) * BOUND_MARGIN)
        if len(rows) and usd.min() < least:
            best = int(np.argmin(usd))
            least, found = float(usd[best]), {waiting[best]: float(values[best])}
        size = min(2 * size, MOST)
    return found, bounds
