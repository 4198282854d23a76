"""What other services leave of shared limits, hour by hour: stock, quotas, GPUs and dollars per hour.

Each hour of a cycle has one room. Cycles of different lengths repeat until they meet: a service of a day sees the least
that its hour is left on any day of a week.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.problem import LOAD_TOLERANCE, Room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem

Taker = tuple["FleetProblem", "Floats"]
"""A problem with its machines (hours, kinds)."""


def with_room(problem: FleetProblem, others: Sequence[Taker]) -> FleetProblem:
    """Return the problem with what is left of shared limits in each hour, others having taken their machines."""
    if not others:
        return replace(problem, room=None, rooms=())
    hours = math.lcm(problem.hours, *(len(fleets) for _, fleets in others))
    used = sum((_used(problem, one, fleets, hours) for one, fleets in others), np.zeros((hours, len(_limits(problem)))))
    least = np.asarray(_limits(problem)) - used
    least = np.min(least.reshape(hours // problem.hours, problem.hours, -1), axis=0)
    rows, room = np.unique(np.round(least, 9), axis=0, return_inverse=True)
    return replace(problem, room=room.reshape(-1).astype(np.int64), rooms=tuple(_room(problem, row) for row in rows))


def most_used(takers: Sequence[Taker]) -> dict[str, float]:
    """Return what fleets take of each shared limit in the hour in which they take most."""
    hours = math.lcm(*(len(fleets) for _, fleets in takers))
    first = takers[0][0]
    used = sum((_used(first, one, fleets, hours) for one, fleets in takers), np.zeros((hours, len(_limits(first)))))
    return dict(zip(_names(first), np.max(used, axis=0).tolist(), strict=True))


def broken_limits(takers: Sequence[Taker]) -> dict[str, int]:
    """Return the shared limits that fleets together break, each with the number of hours."""
    first = takers[0][0]
    hours = math.lcm(*(len(fleets) for _, fleets in takers))
    limits = np.asarray(_limits(first))
    used = sum((_used(first, one, fleets, hours) for one, fleets in takers), np.zeros((hours, len(limits))))
    over = used > limits + LOAD_TOLERANCE * np.maximum(1.0, limits)
    counts = np.sum(over, axis=0).astype(int).tolist()
    return {name: count for name, count in zip(_names(first), counts, strict=True) if count}


def _limits(problem: FleetProblem) -> list[float]:
    """Return the limits in one order: stock, quotas, GPUs, dollars per hour."""
    found = [float(one) for one in (*problem.stock.values(), *problem.quota.values())]
    return found + [float(one) for one in (problem.max_gpus, problem.max_usd_per_hour) if one is not None]


def _names(problem: FleetProblem) -> list[str]:
    """Return the names of the limits in the same order; an offer and a provider by their number."""
    found = [f"stock {one}" for one in problem.stock] + [f"quota {one}" for one in problem.quota]
    found += ["max_gpus"] if problem.max_gpus is not None else []
    return found + (["max_usd_per_hour"] if problem.max_usd_per_hour is not None else [])


def _used(limited: FleetProblem, one: FleetProblem, fleets: Floats, hours: int) -> Floats:
    """Return what fleets (hours of a cycle, kinds) take of each limit, (hours, limits)."""
    columns = [fleets[:, one.offer == offer].sum(axis=1) for offer in limited.stock]
    gpus = fleets * one.gpus
    columns += [gpus[:, one.provider == provider].sum(axis=1) for provider in limited.quota]
    columns += [gpus.sum(axis=1)] if limited.max_gpus is not None else []
    columns += [fleets @ one.usd] if limited.max_usd_per_hour is not None else []
    taken = np.stack(columns, axis=1) if columns else np.zeros((len(fleets), 0))
    return np.tile(taken, (hours // len(fleets), 1))


def _room(problem: FleetProblem, row: Floats) -> Room:
    """Return the room of a row of limits."""
    left = iter(row.tolist())
    stock = {offer: round(next(left)) for offer in problem.stock}
    quota = {provider: round(next(left)) for provider in problem.quota}
    gpus = None if problem.max_gpus is None else round(next(left))
    return Room(stock, quota, gpus, None if problem.max_usd_per_hour is None else next(left))


def in_least_room(problem: FleetProblem) -> FleetProblem:
    """Return the problem with the least that any hour has of each limit, for all hours."""
    if problem.room is None:
        return problem
    gpus = [one.max_gpus for one in problem.rooms if one.max_gpus is not None]
    usd = [one.max_usd_per_hour for one in problem.rooms if one.max_usd_per_hour is not None]
    return replace(
        problem,
        stock={offer: min(one.stock[offer] for one in problem.rooms) for offer in problem.stock},
        quota={provider: min(one.quota[provider] for one in problem.rooms) for provider in problem.quota},
        max_gpus=min(gpus, default=None),
        max_usd_per_hour=min(usd, default=None),
        room=None,
        rooms=(),
    )
