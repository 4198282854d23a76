"""Spot groups that are lost independently of one another: the load that a fleet serves often enough, and linear rows.

Group g is there with probability a[g] and is lost as a whole; what the rest cannot carry is refused. Of a load L a
fleet serves E[min(L, carried)] on average, which is concave in its capacities. For every set S of states of the groups
E[min(L, carried)] <= sum over S of p * carried + (1 - P(S)) * L, with equality for the states that carry less than L.
So at least a share s of L is served where, for every S with P(S) > 1 - s,
sum over S of p * carried / (P(S) - (1 - s)) >= L: linear in the machines, the same row for every load.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers

MOST_INDEPENDENT_GROUPS = 12
"""Groups of an hour whose losses are combined, 4,096 states; smaller groups beyond that count as always lost."""
_MOST_CELLS = 2_000_000
"""Fleets times states that are held at one time."""
_LEAST_PROBABILITY = 1e-12


def greatest_load_served(firm: Floats, spot: Floats, availability: Floats, share: float) -> Floats:
    """Return the greatest load (f,) of which fleets serve at least a share on average; no more than they carry.

    `firm` (f,) is the capacity on demand, `spot` (f, groups) that of each group, `availability` (groups,) how often
    each is there. Example: two groups of 2, each there 60 % of the time, serve 84 % of a load of 2.
    """
    most = firm + np.sum(spot, axis=1)
    number = _number(spot, availability)
    for groups in np.unique(number[number > 0]).tolist() if share > 0 else []:
        rows = np.flatnonzero(number == groups)
        for part in np.array_split(rows, max(1, len(rows) * 2**groups // _MOST_CELLS)):
            carried, likely = _states(firm[part], spot[part], availability, groups)
            served, over = _below(carried, likely, share)
            most[part] = np.minimum(most[part], np.min(_allowed(served, over), axis=1))
    return np.asarray(most)


def served_of(load: float, firm: float, spot: Floats, availability: Floats) -> float:
    """Return the share of a load that is served on average, with so much capacity on demand and (groups,) on spot."""
    carried, likely = _states(np.array([firm]), spot[None, :], availability, int(_number(spot, availability)))
    return float(likely[0] @ np.minimum(1.0, carried[0] / load)) if load > 0 else 1.0


def first_rows(availability: Floats, share: float) -> list[Floats]:
    """Return rows that say much of any fleet: the mean of what is there, and each group lost alone.

    A row (groups + 1,) has the weight of each group's capacity, then that of the capacity on demand; weighted
    capacities carry the load.
    """
    if share <= 0:
        return []
    rows = [np.append(availability, 1.0) / share]
    for group, a in enumerate(availability.tolist()):
        over = share - a  # P(lost) - (1 - share)
        if over > _LEAST_PROBABILITY:
            there = np.append(availability, 1.0)
            there[group] = 0.0
            rows.append((1.0 - a) / over * there)
    return rows


def tightest_row(firm: float, spot: Floats, availability: Floats, share: float) -> Floats:
    """Return the row (groups + 1,) that allows the least load to a fleet: the states of S are those below that load.

    A group that the fleet lacks is there in states of S as often as in all. Without such a limit all of it counts.
    """
    groups = int(_number(spot, availability))
    carried, likely = _states(np.array([firm]), spot[None, :], availability, groups)
    order = np.argsort(carried[0], kind="stable")
    served, over = _below(carried, likely, share)
    allowed = _allowed(served[0], over[0])
    last = int(np.argmin(allowed))
    if allowed[last] >= firm + float(np.sum(spot)):
        return np.ones(len(availability) + 1)
    members = order[: last + 1]
    chance = float(np.sum(likely[0, members]))
    row = np.append(chance * availability, chance)
    for place, group in enumerate(_uncertain(spot[None, :], availability, groups)[0].tolist()):
        row[group] = float(likely[0, members] @ _there(groups)[members, place])
    return np.asarray(row / over[0, last])


def _number(spot: Floats, availability: Floats) -> Integers:
    """Return how many groups of each fleet (..., groups) may be lost and are combined."""
    uncertain = np.sum((spot > 0) & (availability < 1.0), axis=-1)
    return np.asarray(np.minimum(uncertain, MOST_INDEPENDENT_GROUPS))


def _uncertain(spot: Floats, availability: Floats, groups: int) -> Integers:
    """Return the places (f, groups) of the largest groups of each fleet that may be lost."""
    held = np.where(availability < 1.0, spot, 0.0)
    return np.argsort(-held, axis=1, kind="stable")[:, :groups]


def _there(groups: int) -> Floats:
    """Return the states (2 ** groups, groups): 1 where a group is there."""
    return np.asarray(list(itertools.product((0.0, 1.0), repeat=groups))).reshape(2**groups, groups)


def _states(firm: Floats, spot: Floats, availability: Floats, groups: int) -> tuple[Floats, Floats]:
    """Return what fleets carry (f, states) in each state of their largest groups, and how likely each state is."""
    places, there = _uncertain(spot, availability, groups), _there(groups)
    able, a = np.take_along_axis(spot, places, axis=1), availability[places]
    surely = firm + np.sum(np.where(availability >= 1.0, spot, 0.0), axis=1)
    carried = surely[:, None] + able @ there.T
    likely = np.ones_like(carried)
    for place in range(groups):
        likely *= np.where(there[:, place] > 0, a[:, place, None], 1.0 - a[:, place, None])
    return carried, likely


def _below(carried: Floats, likely: Floats, share: float) -> tuple[Floats, Floats]:
    """Return, for the k states (f, k) that carry least, the sum of p * carried, and by how much P exceeds 1 - share."""
    order = np.argsort(carried, axis=1, kind="stable")
    p = np.take_along_axis(likely, order, axis=1)
    served = np.cumsum(p * np.take_along_axis(carried, order, axis=1), axis=1)
    return served, np.cumsum(p, axis=1) - (1.0 - share)


def _allowed(served: Floats, over: Floats) -> Floats:
    """Return the loads that sets of states allow, from `_below`; infinite where a set is too rare to matter."""
    return np.where(over > _LEAST_PROBABILITY, served / np.maximum(over, _LEAST_PROBABILITY), np.inf)
