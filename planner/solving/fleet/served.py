"""The share of the requests that a fleet serves although its spot machines are lost at times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.losses import served_of

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem


def served_at_best(problem: FleetProblem, fleets: Floats) -> float:
    """Return the share that is served, the worst spot group of each hour being lost as often as its market says.

    In an hour with a load L the others carry min(L, their capacity) while a group is lost: a + (1 - a) * others / L.
    No way in which the losses of groups fall together serves more.
    """
    able, load = fleets * problem.capacity, problem.load
    share = np.ones(problem.hours)
    for group, a in enumerate(problem.availability.tolist()):
        has = np.any(fleets[:, problem.group == group] > 0, axis=1)
        others = np.sum(able[:, problem.group != group], axis=1)
        left = np.minimum(1.0, others / np.maximum(load, 1e-300))
        share = np.where(has, np.minimum(share, a + (1.0 - a) * left), share)
    return _by_load(share, load)


def served_if_independent(problem: FleetProblem, fleets: Floats) -> float:
    """Return the share that is served where each spot group is lost whatever happens to the others."""
    able = fleets * problem.capacity
    firm, spot = np.sum(able[:, ~problem.is_spot], axis=1).tolist(), problem.by_group(able)
    share = [
        served_of(load, firm[hour], spot[hour], problem.availability) for hour, load in enumerate(problem.load.tolist())
    ]
    return _by_load(np.asarray(share), problem.load)


def _by_load(share: Floats, load: Floats) -> float:
    """Return the mean of shares (hours,) by load."""
    return float(np.average(share, weights=load)) if np.sum(load) > 0 else 1.0
