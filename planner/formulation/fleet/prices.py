"""Prices of hours that account for starts: the Lagrangian dual of the start rows, as a linear program.

With a multiplier y[k,h] in 0..start_usd[k] for `s[k,h] >= n[k,h] - n[k,h-1]` the hours fall apart: hour h chooses its
fleet at the prices usd[k] + y[k,h] - y[k,h+1], and the sum of their least dollars is a bound on the whole. The best
multipliers for the fleets that are known (each a cut) maximise sum_h u[h] with u[h] <= fleet @ prices[h]. Hours of one
class have the same multipliers, which is a bound as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.program import INFINITY, Program, sparse_rows

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats
    from planner.formulation.fleet.classes import HourClasses
    from planner.formulation.fleet.problem import FleetProblem


def price_program(
    problem: FleetProblem, classes: HourClasses, pool: Floats, fits: Flags, preference: float = 0.0
) -> Program:
    """Return the program of the multipliers; variables u (pairs,), then y (classes * kinds).

    `fits` (pairs, f) says which fleets of the pool an hour may have; `preference` is what each unit of a multiplier
    costs in it: of the many best ones a small positive number picks low ones, a negative one high ones.
    """
    pairs, kinds = len(classes.first), problem.kinds
    cut, fleet = np.nonzero(fits)
    changes = classes.own != classes.next  # between hours of one class multipliers cancel out
    at, kind = np.nonzero(pool[fleet] * changes[cut][:, None])  # machines of each cut
    machines = pool[fleet[at], kind]
    own = pairs + classes.own[cut[at]] * kinds + kind
    after = pairs + classes.next[cut[at]] * kinds + kind
    rows = np.concatenate([np.arange(len(cut)), at, at])
    columns = np.concatenate([cut, own, after])
    terms = np.concatenate([np.ones(len(cut)), -machines, machines])
    cost = np.concatenate([-classes.times, np.full(classes.number * kinds, preference)])
    upper = (pool @ problem.usd)[fleet]
    return Program(
        lower=np.concatenate([np.full(pairs, -INFINITY), np.zeros(classes.number * kinds)]),
        upper=np.concatenate([np.full(pairs, INFINITY), np.tile(problem.start_usd, classes.number)]),
        integer=np.zeros(len(cost), dtype=bool),
        cost=cost,
        rows=(sparse_rows("cuts", rows, columns, terms, np.full(len(cut), -INFINITY), upper, str),),
        variable_name=str,
    )


def hour_prices(problem: FleetProblem, classes: HourClasses, multipliers: Floats) -> Floats:
    """Return the dollars (pairs, kinds) of a machine in each hour at multipliers (classes, kinds)."""
    return np.asarray(problem.usd + multipliers[classes.own] - multipliers[classes.next])
