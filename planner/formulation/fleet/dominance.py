"""Kinds of machines that copies of another replace, and that no best fleet needs.

Each unit of a kind runs for an hour or more each time it is started. So what replaces it may cost more to start, if
hour and start together cost no more: the hours after the first cost no more either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.problem import LOAD_TOLERANCE
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.formulation.fleet.problem import FleetProblem

_ROOM = 1.0 + LOAD_TOLERANCE


def undominated_kinds(problem: FleetProblem) -> Integers:
    """Return the places of the kinds that no others replace.

    A kind a replaces b if copies of it carry what one of b carries, have as many replicas, and cost and use GPUs no
    more, with their starts; a has no stock that could run out, and is lost only when b is: it is on demand, or on
    spot in the group of b. What a machine carries beyond the peak, and replicas beyond those that must stand, count
    for nothing. Kinds leave one after the other, the most expensive per capacity first, so that of equal kinds the
    first stays.
    """
    rules = _Rules(problem.as_needed())
    order = np.lexsort((-np.arange(problem.kinds), -problem.start_usd, -problem.usd / rules.problem.capacity))
    left = np.ones(problem.kinds, dtype=bool)
    for b in order.tolist():
        left[b] = False
        left[b] = not rules.replaces(b, np.flatnonzero(left))
    return np.flatnonzero(left)


@record(frozen=True)
class _Rules:
    """What may replace what in a problem."""

    problem: FleetProblem

    def replaces(self, b: int, others: Integers) -> bool:
        """Return whether copies of one of the others replace b."""
        problem = self.problem
        a = others[self._may(b, others) & self._stays(b, others)]
        copies = np.ceil(problem.capacity[b] / problem.capacity[a] * (1.0 - LOAD_TOLERANCE))
        copies = np.maximum(copies, np.ceil(problem.replicas[b] / np.maximum(problem.replicas[a], 1)))
        return bool(np.any(self._is_no_worse(b, a, copies)))

    def _may(self, b: int, a: Integers) -> Flags:
        """Return which kinds (a,) may take the place of b at all: stock, quota, commitment and market."""
        problem = self.problem
        may = ~np.isin(problem.offer[a], list(problem.stock))
        may &= ~problem.committed[a] | problem.committed[b]  # a commitment is in all hours, wanted or not
        may &= ~np.isin(problem.provider[a], list(problem.quota)) | (problem.provider[a] == problem.provider[b])
        if problem.least_on_spot > 0:
            may &= problem.is_spot[a] == problem.is_spot[b]
        if not problem.is_spot[b]:
            may &= ~problem.is_spot[a] | (problem.most_on_spot >= 1)
        return may

    def _stays(self, b: int, a: Integers) -> Flags:
        """Return which kinds (a,) are lost only when b is, or without harm."""
        harmless = np.append(self.problem.availability >= 1, True) | (self.problem.served_share <= 0)
        return np.asarray(harmless[self.problem.group[a]] | (self.problem.group[a] == self.problem.group[b]))

    def _is_no_worse(self, b: int, a: Integers, copies: Floats) -> Flags:
        """Return which kinds (a,) in so many copies cost no more than b and have no more GPUs."""
        problem = self.problem
        usd, start = copies * problem.usd[a], copies * problem.start_usd[a]
        fine = usd <= problem.usd[b] * _ROOM
        if not problem.committed[b]:  # what stands in every hour never starts again
            fine &= usd + start <= (problem.usd[b] + problem.start_usd[b]) * _ROOM
        if problem.max_gpus is not None or problem.quota:
            fine &= copies * problem.gpus[a] <= problem.gpus[b]
        return np.asarray(fine)
