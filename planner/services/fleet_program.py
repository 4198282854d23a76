"""Programs of an hour of a fleet and its neighbours, and fleets that know of starts, with a bound.

Each step finds the best multipliers for the fleets that are known (a linear program), and cheaper fleets next to these
at their prices. Where none is left, the best fleet of each hour is a small program: their sum is a bound.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.formulation.program import INFINITY, Program, Rows, sparse_rows
from planner.formulation.solvers import run
from planner.scenario.scenario import SolveOptions
from planner.services.fleet_problem import (
    LOAD_TOLERANCE,
    FleetProblem,
    broken_limits,
    first_rows,
    most_machines,
    tightest_row,
    undominated_kinds,
)
from planner.watch import seconds_left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Hours that look alike: with the same load and limits, and the same ones before and after them.
#
# Tuesday at ten and Wednesday at ten differ in nothing that a fleet could use, so that they have one price.


REACH = 2
"""Hours before and after that are compared: with more of them prices hardly change."""


class HourClasses(NamedTuple):
    """Classes of hours, and the different pairs of an hour's class and the next one's."""

    of_hour: Integers  # (hours,)
    first: Integers  # (pairs,) an hour of each pair
    times: Floats  # (pairs,) how many hours are like it

    @property
    def number(self) -> int:
        """Number of classes."""
        return int(np.max(self.of_hour)) + 1

    @property
    def own(self) -> Integers:
        """Class (pairs,) of the hour."""
        return self.of_hour[self.first]

    @property
    def next(self) -> Integers:
        """Class (pairs,) of the hour after it."""
        return self.of_hour[(self.first + 1) % len(self.of_hour)]


def hour_classes(load: Floats, room: Integers | None = None) -> HourClasses:
    """Return the classes of the hours of a cycle with a load (hours,), and a room (hours,) where hours have several."""
    columns = [load] if room is None else [load, room.astype(float)]
    around = np.stack([np.roll(column, -away) for column in columns for away in range(-REACH, REACH + 1)], axis=1)
    _, of_hour = np.unique(around, axis=0, return_inverse=True)
    of_hour = of_hour.reshape(-1).astype(np.int64)
    pairs = np.stack([of_hour, np.roll(of_hour, -1)], axis=1)
    _, first, times = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    return HourClasses(of_hour, first.astype(np.int64), times.astype(float))


# Fleets next to known ones: one machine more, one less, or one of another kind.


def neighbours(fleets: Floats, may_change: Flags) -> Floats:
    """Return fleets (n, kinds) that differ from some of the given ones (f, kinds) by a machine or an exchange.

    Only kinds of `may_change` (kinds,) come and go; what is given is not among them.
    """
    kinds = fleets.shape[1]
    single = np.eye(kinds)[may_change]
    f, kind = np.nonzero(fleets * may_change)
    less = fleets[f] - np.eye(kinds)[kind]
    swapped = (less[:, None, :] + single[None, :, :]).reshape(-1, kinds)
    more = (fleets[:, None, :] + single[None, :, :]).reshape(-1, kinds)
    return np.asarray(np.concatenate([less, swapped, more]))


# Prices of hours that account for starts: the Lagrangian dual of the start rows, as a linear program.
#
# With a multiplier y[k,h] in 0..start_usd[k] for `s[k,h] >= n[k,h] - n[k,h-1]` the hours fall apart: hour h chooses its
# fleet at the prices usd[k] + y[k,h] - y[k,h+1], and the sum of their least dollars is a bound on the whole. The best
# multipliers for the fleets that are known (each a cut) maximise sum_h u[h] with u[h] <= fleet @ prices[h]. Hours of
# one class have the same multipliers, which is a bound as well.


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
    """Return the rows of what there is at one time: quota, stock, and the limits on what is used."""
    gpus = problem.gpus.astype(float)
    limits: list[tuple[str, Floats, float]] = [(peak.key, peak.each, peak.most) for peak in problem.peaks]
    limits += [
        (f"quota_{name}", np.where(problem.provider == name, gpus, 0.0), float(most))
        for name, most in problem.quota.items()
    ]
    limits += [
        (f"stock_{name}", np.where(problem.offer == name, 1.0, 0.0), float(most))
        for name, most in problem.stock.items()
        if bool(np.any(problem.offer == name))
    ]
    return [_row(name, terms, -INFINITY, most) for name, terms, most in limits]


# The program of one hour of several services: a fleet for each, within the limits of all.
#
# What each service carries is a row of its own; stock, quotas, GPUs and dollars per hour are rows of all. The least
# dollars of every hour add up to a bound on fleets that share limits, above the sum of the services' own bounds.


class Part(NamedTuple):
    """A service in an hour: its load, the dollars (kinds,) of its machines, and rows of losses."""

    problem: FleetProblem
    load: float
    usd: Floats
    losses: Sequence[Floats]


def joint_program(parts: Sequence[Part]) -> Program:
    """Return the program of an hour; variables n (kinds of the first service, then of the next)."""
    alone = [fleet_program(part.problem, part.load, part.usd, part.losses) for part in parts]
    rows: list[Rows] = []
    offset = 0
    for program in alone:
        rows += [replace(row, columns=row.columns + offset) for row in program.rows]
        offset += len(program.cost)
    problems = [part.problem for part in parts]
    every = replace(
        problems[0],
        gpus=np.concatenate([problem.gpus for problem in problems]),
        peaks=tuple(
            replace(peak, each=np.concatenate([problem.peaks[place].each for problem in problems]))
            for place, peak in enumerate(problems[0].peaks)
        ),
        usd=np.concatenate([problem.usd for problem in problems]),
        offer=np.concatenate([problem.offer for problem in problems]),
        provider=np.concatenate([problem.provider for problem in problems]),
    )
    rows += limit_rows(every)
    return Program(
        lower=np.concatenate([program.lower for program in alone]),
        upper=np.concatenate([program.upper for program in alone]),
        integer=np.concatenate([program.integer for program in alone]),
        cost=np.concatenate([program.cost for program in alone]),
        rows=tuple(rows),
        variable_name=lambda i: f"n[{i}]",
        is_tight=True,
    )


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
            priced = _serving_enough(problem.in_hour(hour), load, price, solver, losses, until)
            if priced is None:
                continue
            known[key] = priced
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
        solution = run(program, solver, time_limit_seconds=left, relative_gap=PRICED_HOUR_GAP)
        if not solution.has_solution or has_passed(until):
            return None
        fleet = np.round(solution.values)
        able = fleet * problem.capacity
        firm, spot = float(np.sum(able[~problem.is_spot])), problem.by_group(able)
        weights = tightest_row(firm, spot, problem.availability, problem.served_share)
        if float(weights[problem.group] @ able) >= load - LOAD_TOLERANCE * max(1.0, load):
            return fleet, float(solution.bound if solution.bound is not None else 0.0)
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
    solution = run(price_program(problem, classes, pool, fits, preference), LINEAR_SOLVER)
    return solution.values[pairs:].reshape(classes.number, problem.kinds), float(
        solution.values[:pairs] @ classes.times
    )


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


@dataclass(frozen=True)
class JointHours:
    """The least dollars of all hours, and the fleets (hours, kinds) of each service in these hours."""

    bound_usd: float
    fleets: Mapping[str, Floats] | None  # None where some hour was not solved
    is_impossible: bool = False


@dataclass(frozen=True)
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
        hour_fleets = _hour([(priced[n], weight[n], k, hour) for n, k in zip(names, key, strict=True)], options, until)
        if hour_fleets is None:
            return JointHours(0.0, None, is_impossible=not has_passed(until))
        solved[key] = hour_fleets
        bound += times * hour_fleets[0]
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
    if not broken_limits([(service.problem, service.best[[row]]) for service, _, row, _ in services]):
        return sum(weight * float(service.least[row]) for service, weight, row, _ in services), [
            service.best[row] for service, _, row, _ in services
        ]
    parts = [
        Part(
            service.problem,
            float(service.problem.load[hour % service.problem.hours]),
            weight * service.usd[row],
            service.losses,
        )
        for service, weight, row, hour in services
    ]
    solution = run(
        joint_program(parts), options.solver, time_limit_seconds=seconds_until(until), relative_gap=JOINT_GAP
    )
    if not solution.has_solution:
        return None
    ends = np.cumsum([service.problem.kinds for service, *_ in services])[:-1]
    return float(solution.bound if solution.bound is not None else 0.0), list(np.split(np.round(solution.values), ends))
