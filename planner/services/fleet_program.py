"""Programs of an hour of a fleet, alone or of several services; hours alike, fleets nearby, prices of starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.formulation.program import INFINITY, Program, Rows, sparse_rows
from planner.services.fleet_problem import FleetProblem, most_machines

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    one = np.eye(kinds)[may_change]
    f, kind = np.nonzero(fleets * may_change)
    less = fleets[f] - np.eye(kinds)[kind]
    swapped = (less[:, None, :] + one[None, :, :]).reshape(-1, kinds)
    more = (fleets[:, None, :] + one[None, :, :]).reshape(-1, kinds)
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
