"""Fleets that know of starts, a bound that does, for services alone or with shared limits, in limited time.

Each step finds the best multipliers for the fleets that are known (a linear program), and cheaper fleets next to these
at their prices. Where none is left, the best fleet of each hour is a small program: their sum is a bound.
"""

from __future__ import annotations

import math
from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.records import record
from planner.scenario.scenario import SolveOptions
from planner.services.fleet_problem import (
    LOAD_TOLERANCE,
    FleetProblem,
    broken_limits,
    first_rows,
    tightest_row,
    undominated_kinds,
)
from planner.services.fleet_program import (
    HourClasses,
    Part,
    fleet_program,
    hour_classes,
    hour_prices,
    joint_program,
    neighbours,
    price_program,
)
from planner.solvers.registry import run
from planner.watch import seconds_left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# The time limit of a user: without one no clock is read.


LEAST_SECONDS = 0.05
"""That a solver is given at least."""


def latest_moment(options: SolveOptions) -> float | None:
    """Return the moment of `perf_counter` at which a search that begins now ends; None without a time limit."""
    left = seconds_left(most=options.time_limit_seconds)
    return None if left is None else perf_counter() + left


def has_passed(until: float | None) -> bool:
    """Return whether a moment has passed; None never does."""
    return until is not None and perf_counter() > until


def seconds_until(until: float | None) -> float | None:
    """Return the seconds to a moment, at least LEAST_SECONDS, as a solver takes them; None without one."""
    return None if until is None else max(until - perf_counter(), LEAST_SECONDS)


PRICED_HOUR_GAP = 1e-7
"""Relative gap of the program of one hour."""
LINEAR_SOLVER = "highs"
"""For programs without whole numbers, which CP-SAT does not take."""
CLOSE_ROWS = 1e-6
"""A solver may break a row by this much: where it does, the row is asked for that much more strictly."""
MOST_STEPS = 40
LEAST_SAVING = 1e-4
"""Share of the dollars that a step must promise for the next one to follow."""
PREFERENCE = 1e-4
"""Dollars of a unit of a multiplier, far below those of an hour: it chooses among equally good multipliers."""


def enriched(
    problem: FleetProblem, classes: HourClasses, pool: Floats, may_change: Flags, until: float | None = None
) -> Floats:
    """Return the pool with fleets next to its own that lower the dollars; only kinds of `may_change` differ.

    From the moment `until` on no more steps follow.
    """
    hours = classes.first
    for _ in range(MOST_STEPS if bool(np.any(may_change)) else 0):
        if has_passed(until):
            break
        multipliers, worth = _multipliers(problem, classes, pool, 0.0)
        prices = hour_prices(problem, classes, multipliers)
        known = _priced(problem, pool, hours, prices)
        near = neighbours(pool, may_change)
        usd = _priced(problem, near, hours, prices)
        gain = np.min(known, axis=1) - np.min(usd, axis=1)
        cheaper = np.unique(np.argmin(usd, axis=1)[gain > 0])
        pool = np.unique(np.concatenate([pool, near[cheaper]]), axis=0)
        if float(classes.times @ np.maximum(gain, 0.0)) <= LEAST_SAVING * abs(worth):
            break
    return pool


def central_multipliers(problem: FleetProblem, classes: HourClasses, pool: Floats) -> Floats:
    """Return multipliers (classes, kinds) amid the best ones for a pool: the mean of low and high ones.

    The best ones are many as long as the pool lacks fleets. One in their midst is nearer to those of all fleets than a
    corner of them, so that its bound is closer.
    """
    low, _ = _multipliers(problem, classes, pool, PREFERENCE)
    high, _ = _multipliers(problem, classes, pool, -PREFERENCE)
    return (low + high) / 2.0


def fleets_at_prices(
    problem: FleetProblem,
    prices: Floats,
    hours: Integers,
    solver: str,
    losses: list[Floats],
    until: float | None = None,
) -> tuple[Floats, Floats]:
    """Return the best fleet (hours, kinds) of some hours at prices (hours, kinds), and bounds (hours,) on dollars.

    An hour that no fleet carries has nan for its fleet and for its bound, as have those that the moment `until` leaves.
    Rows of what is served while spot groups are lost join `losses` where a fleet serves too little.
    """
    known: dict[tuple[float, ...], tuple[Floats, float]] = {}
    fleets, bounds = np.full(prices.shape, np.nan), np.full(len(hours), np.nan)
    for place, (hour, price) in enumerate(zip(hours.tolist(), prices, strict=True)):
        if has_passed(until):
            break
        load, room = float(problem.load[hour]), -1 if problem.room is None else int(problem.room[hour])
        key = (load, room, *np.round(price, 9).tolist())
        if key not in known:
            found = _serving_enough(problem.in_hour(hour), load, price, solver, losses, until)
            if found is None:
                continue
            known[key] = found
        fleets[place], bounds[place] = known[key]
    return fleets, bounds


def _serving_enough(
    problem: FleetProblem, load: float, usd: Floats, solver: str, losses: list[Floats], until: float | None
) -> tuple[Floats, float] | None:
    """Return the best fleet (kinds,) of a load with a bound on its dollars: programs with ever more rows of losses.

    None without any, and where none is found before the moment `until`.
    """
    while True:
        program, left = fleet_program(problem, load, usd, losses), seconds_until(until)
        found = run(program, solver, time_limit_seconds=left, relative_gap=PRICED_HOUR_GAP)
        if not found.has_solution or has_passed(until):
            return None
        fleet = np.round(found.values)
        able = fleet * problem.capacity
        firm, spot = float(np.sum(able[~problem.is_spot])), problem.by_group(able)
        weights = tightest_row(firm, spot, problem.availability, problem.served_share)
        if float(weights[problem.group] @ able) >= load - LOAD_TOLERANCE * max(1.0, load):
            return fleet, float(found.bound if found.bound is not None else 0.0)
        while any(np.allclose(weights, known, rtol=CLOSE_ROWS / 10, atol=0.0) for known in losses):
            weights = weights * (1.0 - CLOSE_ROWS)
        losses.append(weights)


def bound_of_fleets(problem: FleetProblem, classes: HourClasses, pool: Floats) -> float:
    """Return dollars of a cycle below which no fleets of a pool cost, starts among them; each hour may have one."""
    return _multipliers(problem, classes, pool, 0.0)[1] * (1.0 - PRICED_HOUR_GAP)


def _multipliers(problem: FleetProblem, classes: HourClasses, pool: Floats, preference: float) -> tuple[Floats, float]:
    """Return the best multipliers (classes, kinds) for the fleets of a pool, and the dollars that they promise."""
    pairs = len(classes.first)
    fits = problem.fits(pool, classes.first)
    found = run(price_program(problem, classes, pool, fits, preference), LINEAR_SOLVER)
    return found.values[pairs:].reshape(classes.number, problem.kinds), float(found.values[:pairs] @ classes.times)


def _priced(problem: FleetProblem, fleets: Floats, hours: Integers, prices: Floats) -> Floats:
    """Return the dollars (hours, f) of fleets at the prices (hours, kinds) of hours; infinite where one may not be."""
    return np.where(problem.fits(fleets, hours), prices @ fleets.T, np.inf)


# What services that share limits cost together at the least, hour by hour, and fleets that come near it.
#
# At prices of hours that account for starts each service has a best fleet in every hour. Where these fleets keep the
# shared limits, their dollars add up; where they do not, one program has the hour of all services. The sum of the hours
# is a bound on all together, and an hour without a solution proves that there is no plan.


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
    priced = {name: _joint_priced(problems[name], known[name], options, until) for name in names}
    hours = math.lcm(*(problem.hours for problem in problems.values()))
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


def _joint_priced(
    problem: FleetProblem, known: Sequence[Floats], options: SolveOptions, until: float | None
) -> _Priced:
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
    pair = [place[hours] for hours in zip(classes.of_hour.tolist(), after.tolist(), strict=True)]
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
