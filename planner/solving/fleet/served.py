"""The share of the requests that a fleet serves although its spot machines are lost at times."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem

MOST_INDEPENDENT_GROUPS = 12
"""Groups of an hour whose losses are combined, 4,096 cases; smaller groups beyond that count as always lost."""


def served_at_best(problem: FleetProblem, availability: Sequence[float], fleets: Floats) -> float:
    """Return the share that is served, the worst spot group of each hour being lost as often as its market says.

    In an hour with a load L the others carry min(L, their capacity) while a group is lost: a + (1 - a) * others / L.
    No way in which the losses of groups fall together serves more.
    """
    able, load = fleets * problem.capacity, problem.load
    share = np.ones(problem.hours)
    for group, a in enumerate(availability):
        has = np.any(fleets[:, problem.group == group] > 0, axis=1)
        others = np.sum(able[:, problem.group != group], axis=1)
        left = np.minimum(1.0, others / np.maximum(load, 1e-300))
        share = np.where(has, np.minimum(share, a + (1.0 - a) * left), share)
    return _by_load(share, load)


def served_if_independent(problem: FleetProblem, availability: Sequence[float], fleets: Floats) -> float:
    """Return the share that is served where each spot group is lost whatever happens to the others.

    Every combination of groups that are there counts with its probability; exact up to MOST_INDEPENDENT_GROUPS groups
    in an hour, and below the truth beyond that.
    """
    able = fleets * problem.capacity
    firm = np.sum(able[:, ~problem.is_spot], axis=1)
    groups = [np.sum(able[:, problem.group == group], axis=1) for group in range(len(availability))]
    spot = np.stack(groups, axis=1) if groups else np.zeros((problem.hours, 0))
    share = [
        _served(load, one, spot[hour], np.asarray(availability, dtype=float))
        for hour, (load, one) in enumerate(zip(problem.load.tolist(), firm.tolist(), strict=True))
    ]
    return _by_load(np.asarray(share), problem.load)


def _served(load: float, firm: float, spot: Floats, availability: Floats) -> float:
    """Return the share of a load that is served on average, with so much capacity (groups,) on spot."""
    largest = np.argsort(-spot, kind="stable")[:MOST_INDEPENDENT_GROUPS]
    largest = largest[spot[largest] > 0]
    if load <= 0:
        return 1.0
    there = np.asarray(list(itertools.product((0.0, 1.0), repeat=len(largest)))).reshape(2 ** len(largest), -1)
    likely = np.prod(np.where(there > 0, availability[largest], 1.0 - availability[largest]), axis=1)
    return float(likely @ np.minimum(1.0, (firm + there @ spot[largest]) / load))


def _by_load(share: Floats, load: Floats) -> float:
    """Return the mean of shares (hours,) by load."""
    return float(np.average(share, weights=load)) if np.sum(load) > 0 else 1.0
