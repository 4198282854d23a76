"""What services that share limits cost together at the least, hour by hour, and fleets that come near it.

At prices of hours that account for starts each service has a best fleet in every hour. Where these fleets keep the
shared limits, their dollars add up; where they do not, one program has the hour of all services. The sum of the hours
is a bound on all together, and an hour without a solution proves that there is no plan.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.classes import hour_classes
from planner.formulation.fleet.dominance import undominated_kinds
from planner.formulation.fleet.joint import Part, joint_program
from planner.formulation.fleet.losses import first_rows
from planner.formulation.fleet.prices import hour_prices
from planner.formulation.fleet.rooms import broken_limits
from planner.records import record
from planner.solvers.registry import run
from planner.solving.fleet.clock import has_passed, seconds_until
from planner.solving.fleet.refine import central_multipliers, enriched, fleets_at_prices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.arrays import Floats, Integers
    from planner.formulation.fleet.problem import FleetProblem
    from planner.scenario.scenario import SolveOptions

JOINT_GAP = 1e-4
"""Relative gap of the program of an hour of all services."""


@record(frozen=True)
class JointHours:
    """The least dollars of all hours, and the fleets (hours, kinds) of each service in these hours."""

    bound_usd: float
    fleets: Mapping[str, Floats] | None  # None where some hour was not solved
    is_impossible: bool = False


@record(frozen=True)
class _Priced:
    """A service with what dominance left of its kinds, and its best fleet (pairs, kinds) at the prices of its hours."""

    problem: FleetProblem
    keep: Integers
    pair: Integers  # (hours,), row of `usd` of each hour
    usd: Floats  # (pairs, kinds)
    best: Floats
    least: Floats  # (pairs,), bound on the dollars of `best`
    losses: list[Floats]


def joint_hours(
    problems: Mapping[str, FleetProblem],
    known: Mapping[str, Sequence[Floats]],
    cycles: Mapping[str, float],
    options: SolveOptions,
    until: float | None,
) -> JointHours:
    """Return the least dollars of services in each hour, within the limits that they share.

    `problems` have the limits of all, `known` fleets of each service from which prices of its hours follow, and
    `cycles` says how many cycles each runs.
    """
    names = sorted(problems)
    priced = {name: _priced(problems[name], known[name], options, until) for name in names}
    hours = math.lcm(*(one.hours for one in problems.values()))
    weight = {name: cycles[name] * problems[name].hours / hours for name in names}
    keys = [tuple(int(priced[name].pair[hour % problems[name].hours]) for name in names) for hour in range(hours)]
    solved: dict[tuple[int, ...], tuple[float, list[Floats]]] = {}
    bound = 0.0
    for key, times in Counter(keys).items():
        hour = keys.index(key)
        if has_passed(until) or any(np.isnan(priced[n].least[k]) for n, k in zip(names, key, strict=True)):
            return JointHours(0.0, None)
        found = _hour([(priced[n], weight[n], k, hour) for n, k in zip(names, key, strict=True)], options, until)
        if found is None:
            return JointHours(0.0, None, is_impossible=not has_passed(until))
        solved[key] = found
        bound += times * found[0]
    fleets = {}
    for place, name in enumerate(names):
        whole = np.zeros((hours, problems[name].kinds))
        whole[:, priced[name].keep] = [solved[key][1][place] for key in keys]
        fleets[name] = whole
    return JointHours(bound, fleets)


def _priced(problem: FleetProblem, known: Sequence[Floats], options: SolveOptions, until: float | None) -> _Priced:
    """Return the best fleets of a service alone, at prices that follow from known fleets."""
    keep = undominated_kinds(problem)
    small = problem.choosing(keep).with_costly_starts()
    classes, losses = hour_classes(small.load), first_rows(small.availability, small.served_share)
    pool = np.unique(np.concatenate([fleets[:, keep] for fleets in known]), axis=0)
    pool = enriched(small, classes, pool, np.ones(small.kinds, dtype=bool), until)
    usd = hour_prices(small, classes, central_multipliers(small, classes, pool))
    best, least = fleets_at_prices(small, usd, classes.first, options.solver, losses, until)
    place = {pair: row for row, pair in enumerate(zip(classes.own.tolist(), classes.next.tolist(), strict=True))}
    after = np.roll(classes.of_hour, -1)
    pair = [place[one] for one in zip(classes.of_hour.tolist(), after.tolist(), strict=True)]
    return _Priced(small, keep, np.asarray(pair, dtype=np.int64), usd, best, least, losses)


def _hour(
    services: Sequence[tuple[_Priced, float, int, int]], options: SolveOptions, until: float | None
) -> tuple[float, list[Floats]] | None:
    """Return a bound on the dollars of an hour, and the fleets; None where no fleets keep the limits of all."""
    if not broken_limits([(one.problem, one.best[[row]]) for one, _, row, _ in services]):
        return sum(weight * float(one.least[row]) for one, weight, row, _ in services), [
            one.best[row] for one, _, row, _ in services
        ]
    parts = [
        Part(one.problem, float(one.problem.load[hour % one.problem.hours]), weight * one.usd[row], one.losses)
        for one, weight, row, hour in services
    ]
    found = run(joint_program(parts), options.solver, time_limit_seconds=seconds_until(until), relative_gap=JOINT_GAP)
    if not found.has_solution:
        return None
    ends = np.cumsum([one.problem.kinds for one, *_ in services])[:-1]
    return float(found.bound if found.bound is not None else 0.0), list(np.split(np.round(found.values), ends))
