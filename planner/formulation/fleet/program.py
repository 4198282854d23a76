"""The program of one hour: whole machines of each kind that carry its load within every limit, at the least dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.problem import most_machines
from planner.formulation.program import INFINITY, Program, Rows, sparse_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem


def fleet_program(problem: FleetProblem, load: float, usd: Floats, losses: Sequence[Floats] = ()) -> Program:
    """Return the program of an hour with a load, at dollars (kinds,) of a machine; variables n (kinds,).

    `losses` are rows (groups + 1,) of weights of spot groups and of what is on demand, see `losses`.
    """
    rows = [*_load_rows(problem, load), *_loss_rows(problem, load, losses), *limit_rows(problem)]
    return Program(
        lower=np.zeros(problem.kinds),
        upper=most_machines(problem).astype(float),
        integer=np.ones(problem.kinds, dtype=bool),
        cost=usd,
        rows=tuple(rows),
        variable_name=lambda i: f"n[{i}]",
        is_tight=True,
    )


def _row(family: str, terms: Floats, lower: float, upper: float) -> Rows:
    """Return a row: lower <= sum_k terms[k] n[k] <= upper."""
    index = np.arange(len(terms))
    return sparse_rows(family, np.zeros_like(index), index, terms, np.array([lower]), np.array([upper]), lambda _: "")


def _least(family: str, capacity: Floats, least: float) -> Rows:
    """Return that machines carry at least a load.

    A machine that carries more than that counts with that: whole machines are the same, and the relaxation is closer.
    """
    return _row(family, np.minimum(capacity, least), least, INFINITY)


def _load_rows(problem: FleetProblem, load: float) -> list[Rows]:
    """Return the rows of what is carried.

    sum_k capacity[k] n[k] >= load; shares of the load on demand and on spot; replicas >= min.
    """
    rows = [_least("load", problem.capacity, load)]
    if problem.most_on_spot < 1 and bool(np.any(problem.is_spot)):
        on_demand = np.where(problem.is_spot, 0.0, problem.capacity)
        rows.append(_least("on_demand", on_demand, (1.0 - problem.most_on_spot) * load))
    if problem.least_on_spot > 0:
        on_spot = np.where(problem.is_spot, problem.capacity, 0.0)
        rows.append(_least("on_spot", on_spot, problem.least_on_spot * load))
    if problem.min_replicas > 0:
        standing = np.minimum(problem.replicas, problem.min_replicas).astype(float)
        rows.append(_row("replicas", standing, float(problem.min_replicas), INFINITY))
    return rows


def _loss_rows(problem: FleetProblem, load: float, losses: Sequence[Floats]) -> list[Rows]:
    """Return the rows of what is served although spot groups are lost: sum_k weight[k] capacity[k] n[k] >= load."""
    if not bool(np.any(problem.is_spot)):
        return []
    return [
        _least(f"losses_{place}", weights[problem.group] * problem.capacity, load)  # group -1, on demand, is the last
        for place, weights in enumerate(losses)
    ]


def limit_rows(problem: FleetProblem) -> list[Rows]:
    """Return the rows of what there is at one time: GPUs, quota, stock, dollars per hour."""
    gpus = problem.gpus.astype(float)
    limits: list[tuple[str, Floats, float]] = []
    if problem.max_gpus is not None:
        limits.append(("max_gpus", gpus, float(problem.max_gpus)))
    limits += [
        (f"quota_{name}", np.where(problem.provider == name, gpus, 0.0), float(most))
        for name, most in problem.quota.items()
    ]
    limits += [
        (f"stock_{name}", np.where(problem.offer == name, 1.0, 0.0), float(most))
        for name, most in problem.stock.items()
        if bool(np.any(problem.offer == name))
    ]
    if problem.max_usd_per_hour is not None:
        limits.append(("usd_per_hour", problem.usd, problem.max_usd_per_hour))
    return [_row(name, terms, -INFINITY, most) for name, terms, most in limits]
