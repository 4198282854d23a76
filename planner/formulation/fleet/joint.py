"""The program of one hour of several services: a fleet for each, within the limits of all.

What each service carries is a row of its own; stock, quotas, GPUs and dollars per hour are rows of all. The least
dollars of every hour add up to a bound on fleets that share limits, above the sum of the services' own bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.formulation.fleet.program import fleet_program, limit_rows
from planner.formulation.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem
    from planner.formulation.program import Rows


class Part(NamedTuple):
    """A service in an hour: its load, the dollars (kinds,) of its machines, and rows of losses."""

    problem: FleetProblem
    load: float
    usd: Floats
    losses: Sequence[Floats]


def joint_program(parts: Sequence[Part]) -> Program:
    """Return the program of an hour; variables n (kinds of the first service, then of the next)."""
    alone = [fleet_program(one.problem, one.load, one.usd, one.losses) for one in parts]
    rows: list[Rows] = []
    offset = 0
    for program in alone:
        rows += [replace(row, columns=row.columns + offset) for row in program.rows]
        offset += len(program.cost)
    problems = [one.problem for one in parts]
    every = replace(
        problems[0],
        gpus=np.concatenate([one.gpus for one in problems]),
        usd=np.concatenate([one.usd for one in problems]),
        offer=np.concatenate([one.offer for one in problems]),
        provider=np.concatenate([one.provider for one in problems]),
    )
    rows += limit_rows(every)
    return Program(
        lower=np.concatenate([one.lower for one in alone]),
        upper=np.concatenate([one.upper for one in alone]),
        integer=np.concatenate([one.integer for one in alone]),
        cost=np.concatenate([one.cost for one in alone]),
        rows=tuple(rows),
        variable_name=lambda i: f"n[{i}]",
        is_tight=True,
    )
