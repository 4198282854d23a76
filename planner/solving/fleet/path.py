"""The cheapest way through a circle of hours, each of which takes one fleet of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.formulation.fleet.problem import FleetProblem


def start_usd_between(problem: FleetProblem, pool: Floats) -> Floats:
    """Return the dollars (f, f) of starting what the fleet of a column has more than that of a row."""
    more = np.maximum(pool[None, :, :] - pool[:, None, :], 0.0)
    return np.asarray(more @ problem.start_usd)


def cheapest_circle(problem: FleetProblem, pool: Floats, fits: Flags) -> tuple[Integers, float]:
    """Return the fleet (hours,) of each hour, as places in the pool, and the dollars of the cycle.

    `fits` (hours, f): which fleets an hour may have, at least one each. The hour with the fewest fleets is where the
    circle is cut: a shortest path from each of its fleets back to itself.
    """
    hours, size = fits.shape
    usd, moves = pool @ problem.usd, start_usd_between(problem, pool)
    cut = int(np.argmin(np.sum(fits, axis=1)))
    order = (cut + np.arange(hours)) % hours
    best, found = np.inf, np.zeros(hours, dtype=np.int64)
    for start in np.flatnonzero(fits[cut]).tolist():
        reached = np.full(size, np.inf)
        reached[start] = usd[start]
        came = np.zeros((hours, size), dtype=np.int64)
        for step, hour in enumerate(order[1:].tolist(), start=1):
            through = reached[:, None] + moves
            came[step] = np.argmin(through, axis=0)
            reached = np.where(fits[hour], through[came[step], np.arange(size)] + usd, np.inf)
        closed = reached + moves[:, start] if hours > 1 else reached
        last = int(np.argmin(closed))
        if closed[last] < best:
            best = float(closed[last])
            for step in range(hours - 1, -1, -1):
                found[order[step]] = last
                last = int(came[step, last])
    return found, best


def through_pool(problem: FleetProblem, pool: Floats) -> tuple[Floats, float]:
    """Return the cheapest fleets (hours, kinds) from a pool which has one for every hour, and their dollars.

    Committed machines stand in all hours: each number of them that the pool knows is tried, for all fleets that have
    no more of them.
    """
    best, usd = np.zeros((problem.hours, problem.kinds)), np.inf
    committed = pool[:, problem.committed]
    for standing in np.unique(committed, axis=0) if committed.shape[1] else [np.zeros(0)]:
        same = pool[np.all(committed <= standing, axis=1)]
        same[:, problem.committed] = standing
        same = np.unique(same, axis=0)
        fits = problem.fits(same, np.arange(problem.hours))
        if bool(np.all(np.any(fits, axis=1))):
            chosen, dollars = cheapest_circle(problem, same, fits)
            if dollars < usd:
                best, usd = same[chosen], dollars
    return best, usd
