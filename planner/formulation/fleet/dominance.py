"""Kinds of machines that others replace, alone or a few groups together, and that no best fleet needs.

Each unit of a kind runs for an hour or more each time it is started. So what replaces it may cost more to start, if
hour and start together cost no more: the hours after the first cost no more either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.problem import LOAD_TOLERANCE

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.formulation.fleet.problem import FleetProblem

MOST_GROUPS = 4
"""Spot groups that replace one kind together: of m groups any m - 1 carry what it does."""
_ROOM = 1.0 + LOAD_TOLERANCE


def undominated_kinds(problem: FleetProblem) -> Integers:
    """Return the places of the kinds that no others replace.

    Kinds a replace b if copies of them carry what one of b carries, have as many replicas, and cost and use GPUs no
    more, with their starts; a has no stock that could run out. A kind on demand, on spot in the group of b, or in a
    group that may be lost without harm does so alone. Of m spot groups any m - 1 must, as one of them may be lost.
    What a machine carries beyond the peak, and replicas beyond those that must stand, count for nothing. Kinds leave
    one after the other, the most expensive per capacity first, so that of equal kinds the first stays.
    """
    rules = _Rules(problem.as_needed())
    order = np.lexsort((-np.arange(problem.kinds), -problem.start_usd, -problem.usd / rules.problem.capacity))
    left = np.ones(problem.kinds, dtype=bool)
    for b in order.tolist():
        left[b] = False
        left[b] = not any(rules.replaces(b, np.flatnonzero(left), groups) for groups in range(1, MOST_GROUPS + 1))
    return np.flatnonzero(left)


@dataclass(frozen=True)
class _Rules:
    """What may replace what in a problem."""

    problem: FleetProblem

    def replaces(self, b: int, others: Integers, groups: int) -> bool:
        """Return whether copies of some of the others, of so many spot groups, replace b."""
        problem = self.problem
        can = self._may(b, others) & ((self._stays(b, others)) if groups == 1 else self._spreads(b, others))
        a = others[can]
        if len(a) < groups:
            return False
        part = problem.capacity[b] / max(1, groups - 1)
        copies = np.ceil(part / problem.capacity[a] * (1.0 - LOAD_TOLERANCE))
        if groups == 1:
            copies = np.maximum(copies, np.ceil(problem.replicas[b] / np.maximum(problem.replicas[a], 1)))
            return bool(np.any(self._is_no_worse(b, a[:, None], copies[:, None])))
        cheapest = np.argsort(copies * (problem.usd[a] + problem.start_usd[a]), kind="stable")
        _, first = np.unique(problem.group[a][cheapest], return_index=True)
        chosen = cheapest[np.sort(first)[:groups]]
        if len(chosen) < groups:
            return False
        return bool(self._is_no_worse(b, a[None, chosen], copies[None, chosen])[0])

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
        harmless = np.append(self.problem.others_share <= 0, True)[self.problem.group[a]]
        return np.asarray(harmless | (self.problem.group[a] == self.problem.group[b]))

    def _spreads(self, b: int, a: Integers) -> Flags:
        """Return which kinds (a,) are in a spot group other than that of b."""
        return np.asarray((self.problem.group[a] >= 0) & (self.problem.group[a] != self.problem.group[b]))

    def _is_no_worse(self, b: int, a: Integers, copies: Floats) -> Flags:
        """Return which sets (sets, kinds) of copies cost no more than b, have its replicas and no more GPUs."""
        problem = self.problem
        usd, start = np.sum(copies * problem.usd[a], axis=1), np.sum(copies * problem.start_usd[a], axis=1)
        fine = usd <= problem.usd[b] * _ROOM
        if not problem.committed[b]:  # what stands in every hour never starts again
            fine &= usd + start <= (problem.usd[b] + problem.start_usd[b]) * _ROOM
        fine &= np.sum(copies * problem.replicas[a], axis=1) >= problem.replicas[b]
        if problem.max_gpus is not None or problem.quota:
            fine &= np.sum(copies * problem.gpus[a], axis=1) <= problem.gpus[b]
        return np.asarray(fine)
