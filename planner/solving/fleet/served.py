"""The share of the requests that a fleet serves although its spot machines are lost at times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.losses import served_of

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem


def served_on_average(problem: FleetProblem, fleets: Floats) -> float:
    """Return the share of the load that is served on average, each spot group being lost on its own."""
    able, load = fleets * problem.capacity, problem.load
    if np.sum(load) <= 0:
        return 1.0
    firm, spot = np.sum(able[:, ~problem.is_spot], axis=1), problem.by_group(able)
    share = [served_of(*one, problem.availability) for one in zip(load.tolist(), firm.tolist(), spot, strict=True)]
    return float(np.average(share, weights=load))
