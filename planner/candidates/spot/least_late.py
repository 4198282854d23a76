"""The policy that costs least at the confidence of the budget, of all candidates of a job: a search of one row.

Whoever compares models and tokens needs no more: neither the best of each method, nor what else a plan names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.spot.rows import MIN_HOURS

if TYPE_CHECKING:
    from planner.arrays import Flags
    from planner.candidates.spot.candidates import SpotCandidates

FIRST, MOST = 2, 8
"""Policies that are computed first, and at most, before bounds are compared with the least again."""


def find_least_late(work: SpotCandidates, able: Flags) -> dict[int, float]:
    """Return the row of the policy of least dollars at the confidence of the budget, with the value of the policy.

    None where on demand costs no more. Rows are looked at by rising bounds, up to the least dollars that are known.
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
            if better is None:  # else another that is priced costs no more
                close = np.asarray([work.close_bound(row)])
                if float(work.late_usd(close, np.asarray([row]))[0]) < least:
                    alike.append(row)
                    waiting.append(row)
        rows = np.asarray(waiting, dtype=np.int64)
        values = work.least_values(waiting)
        usd = work.late_usd(values, rows)
        if len(rows) and usd.min() < least:
            best = int(np.argmin(usd))
            least, found = float(usd[best]), {waiting[best]: float(values[best])}
        size = min(2 * size, MOST)
    return found
