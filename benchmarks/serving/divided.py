"""An hourly program that divides requests by the length of their prompts, at the capacities of what machines get.

Sizes are sorted by their prompts. Each machine serves one group of neighbouring sizes, and its capacity is that of the
mixture of the group: requests of several sizes on one machine slow each other down, which a program with one rate for
each size does not know. One machine for all sizes is among the groups, so that dividing never costs more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.serving.hours import Hour, Stream
from benchmarks.serving.melange import GAP, SECONDS, useful_kinds
from planner.formulation.program import INFINITY, Program, sparse_rows
from planner.formulation.solvers import run

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers


def neighbouring_groups(share: Floats) -> Floats:
    """Return all groups of neighbouring sizes (groups, sizes) by the shares of their sizes; the first has all."""
    sizes = len(share)
    groups = [(first, last) for first in range(sizes) for last in range(first + 1, sizes + 1)]
    groups.sort(key=lambda one: one[0] - one[1])
    number = np.arange(sizes)
    return np.stack([np.where((number >= first) & (number < last), share, 0.0) for first, last in groups])


def divided_program(load: float, groups: Floats, group: Integers, rates: Floats, usd: Floats) -> Program:
    """Return the program of an hour with a load; groups (groups, sizes) by the shares of their sizes.

    Ways (ways,) are a kind of machine for a group: `group`, `rates` and `usd` have the place of the group, the greatest
    rate of its mixture, and dollars. Variables: the load of each group y (groups,), then machines n (ways,).
    Of each size b: sum over its groups of y share[b] / share of the group = load share[b]; y <= sum rates n.
    """
    count, ways = len(groups), len(group)
    of_group, size = np.nonzero(groups)
    within = (groups / np.sum(groups, axis=1, keepdims=True))[of_group, size]
    each = load * np.max(groups, axis=0)
    all_served = sparse_rows("all_served", size, of_group, within, each, each, str)
    rows = np.concatenate([np.arange(count), group])
    terms = np.concatenate([np.ones(count), -rates])
    none, zero = np.full(count, -INFINITY), np.zeros(count)
    carried = sparse_rows("carried", rows, np.arange(count + ways), terms, none, zero, str)
    return Program(
        lower=np.zeros(count + ways),
        upper=np.concatenate([np.full(count, load), np.ceil(load / rates) + 1.0]),
        integer=np.concatenate([np.zeros(count, dtype=bool), np.ones(ways, dtype=bool)]),
        cost=np.concatenate([np.zeros(count), usd]),
        rows=(all_served, carried),
        variable_name=str,
    )


def divided_hours(loads: Floats, groups: Floats, rates: Floats, usd: Floats) -> list[Hour]:
    """Return the fleet of each load; `rates` (groups, kinds) of the mixture of each group, 0 where a kind serves none.

    The load of a group is spread over its machines by their capacity.
    """
    useful = np.stack([useful_kinds(one[None, :], usd) for one in rates])
    group, kind = np.nonzero(useful)
    within = groups / np.sum(groups, axis=1, keepdims=True)
    able, found = rates[group, kind], []
    for load in loads.tolist():
        program = divided_program(load, groups, group, able, usd[kind])
        answer = run(program, relative_gap=GAP, time_limit_seconds=SECONDS)
        served, ways = answer.values[: len(groups)], np.round(answer.values[len(groups) :])
        whole = np.bincount(group, weights=ways * able, minlength=len(groups))
        use = served / np.maximum(whole, 1e-300)
        streams = tuple(
            Stream(int(kind[way]), int(ways[way]), use[group[way]] * able[way] * within[group[way]])
            for way in np.flatnonzero(ways).tolist()
        )
        machines = np.bincount(kind, weights=ways, minlength=len(usd)).astype(float)
        found.append(Hour(load, float(usd @ machines), float(answer.bound or 0.0), machines, streams))
    return found
