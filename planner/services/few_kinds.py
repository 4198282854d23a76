"""Fleets of few kinds of machines: the least dollars of every pair of kinds, and the fleets that a pair may have.

A fleet that is the cheapest mix of many kinds is hard to operate: a different engine, cloud and image for
each hour. With one or two kinds there are few enough fleets to list them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.scenario.service_load import LEAST_REPLICA_SHARE
from planner.services.fleet_problem import LOAD_TOLERANCE, FleetProblem, most_machines

MOST_OF_A_PAIR = 10
"""Machines of a kind whose number is tried in full for a bound; more of both kinds are bounded as if divisible."""
MOST_ON_GRID = 200
"""Different numbers of machines of a kind that are listed; where more may be needed they are listed in steps."""
CHEAPEST_LISTED = 4
"""Fleets of a load that begin a search, the cheapest first."""


def least_dollars_of_pairs(problem: FleetProblem) -> Floats:
    """Return dollars (kinds, kinds) of a cycle below which no fleet of two kinds costs, starts left out.

    Whole machines carry each load, stand as replicas of which each carries enough, and carry what must be served while
    the spot group of the other kind is lost. Example: a load of 5 on machines of 4 at $3 and of 2 at $1 takes one of
    each, $4 an hour; on the first kind alone, on the diagonal, two, $6.
    """
    loads, hours = np.unique(problem.load, return_counts=True)
    pairs = _Pairs.of(problem)
    found = np.zeros((problem.kinds, problem.kinds))
    for load, times in zip(loads.tolist(), hours.tolist(), strict=True):
        needed = np.ceil(np.maximum(load / problem.capacity, problem.min_replicas / pairs.replicas))
        are_many = needed > MOST_OF_A_PAIR  # of a pair the numbers of one kind suffice, those of the other follow
        least = np.where(np.logical_and.outer(are_many, are_many), pairs.divisible * load, np.inf)
        for count in range(int(np.max(needed[~are_many], initial=-1)) + 1):
            some = np.flatnonzero((needed >= count) & ~are_many)
            usd = count * problem.usd[some, None] + pairs.others(some, count, load) * problem.usd
            least[some] = np.minimum(least[some], usd)
        found += times * np.minimum(least, least.T)
    return found


class _Pairs(NamedTuple):
    """What a pair of kinds, one in a row (kinds,) and one in a column, must keep."""

    problem: FleetProblem
    replicas: Floats  # of a machine, at least one
    divisible: Floats  # (kinds, kinds), dollars of a unit of load on machines that could be divided
    least_each: Floats  # (kinds, kinds), machines of the column for each of a row of stronger replicas
    most_each: Floats  # (kinds, kinds), machines of the column for each of a row of weaker replicas
    surely: Floats  # (kinds, kinds), share of a load that the column carries while the row is lost
    is_lost: Flags  # (kinds, kinds), whether both are lost together too often

    @classmethod
    def of(cls, problem: FleetProblem) -> _Pairs:
        """Return the pairs of the kinds of a problem."""
        replicas = np.maximum(problem.replicas, 1).astype(float)
        capacity, each = problem.capacity, problem.capacity / replicas
        # Above 0: a machine of the column is too weak to stand next to one of the row alone.
        weaker = (LEAST_REPLICA_SHARE * each[:, None] - each) / (1.0 - LEAST_REPLICA_SHARE)
        least = np.maximum(weaker, 0.0) * replicas[:, None] / capacity
        with np.errstate(divide="ignore"):
            most = np.where(weaker.T > 0, capacity[:, None] / (np.maximum(weaker.T, 0.0) * replicas), np.inf)
        there = np.append(problem.availability, 1.0)[problem.group]
        share = np.where(there < problem.served_share, problem.served_share - there, 0.0)
        share = share / np.where(there < problem.served_share, 1.0 - there, 1.0)  # of a load, while that group is lost
        together = (problem.group[:, None] == problem.group) & (problem.group >= 0)
        surely = share[:, None] / there  # what the column carries is there as often as its own group is
        is_lost = np.where(together, share[:, None] > 0, surely > 1.0 + LOAD_TOLERANCE)
        price = problem.usd / capacity
        return cls(
            problem, replicas, np.minimum.outer(price, price), least, most,
            surely, is_lost,
        )  # fmt: skip

    def others(self, some: Integers, count: int, load: float) -> Floats:
        """Return the machines (rows, kinds) of the column next to `count` of some rows; infinite where none do."""
        problem, slack = self.problem, 1.0 - LOAD_TOLERANCE
        left = np.maximum(load - count * problem.capacity[some], 0.0)[:, None]
        standing = np.maximum(problem.min_replicas - count * self.replicas[some], 0.0)[:, None]
        carried = np.maximum(left, self.surely[some] * load) * slack / problem.capacity
        found = np.ceil(np.maximum(carried, standing / self.replicas))
        firm = self.surely[:, some].T * load * slack  # what the row carries while the column is lost
        out = (found > 0) & (count * problem.capacity[some][:, None] < firm)
        if load > 0:
            out |= self.is_lost[some]
        if count > 0:
            least = np.ceil(count * self.least_each[some] * slack)
            found = np.where(found > 0, np.maximum(found, least), found)
            out |= found > count * self.most_each[some] / slack
        return np.where(out, np.inf, found)


def is_listed_whole(problem: FleetProblem) -> bool:
    """Return whether `fleets_of_few` lists every fleet, so that there is none where it has none."""
    return bool(np.all(most_machines(problem) <= MOST_ON_GRID))


def fleets_of_few(problem: FleetProblem, hours: Integers) -> Floats | None:
    """Return fleets (f, kinds) of one or two kinds to begin a search with; None where an hour of `hours` may have none.

    The cheapest ones that each hour may have, those on one kind alone among them.
    """
    fleets = listed_fleets(problem)
    order = np.argsort(fleets @ problem.usd, kind="stable")
    fleets = fleets[order]
    alone = np.count_nonzero(fleets, axis=1) == 1
    found = []
    for fits in problem.fits(fleets, hours):
        if not bool(np.any(fits)):
            return None
        found += [fleets[fits][:CHEAPEST_LISTED], fleets[fits & alone][:1]]
    return np.unique(np.concatenate(found), axis=0)


def listed_fleets(problem: FleetProblem) -> Floats:
    """Return fleets (f, kinds) of one or two kinds: all numbers of machines, in steps where there are very many."""
    counts = [_numbers(int(most)) for most in most_machines(problem)]
    return np.stack(np.meshgrid(*counts, indexing="ij"), axis=-1).reshape(-1, problem.kinds)


def _numbers(most: int) -> Floats:
    """Return the numbers of machines of a kind that are listed, 0 and `most` among them."""
    return np.unique(np.linspace(0.0, most, min(most, MOST_ON_GRID) + 1).round())
