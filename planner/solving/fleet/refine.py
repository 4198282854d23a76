"""Fleets that know of starts, and a bound that does: hours at prices which say what a start is worth there.

Each step finds the best multipliers for the fleets that are known (a linear program), and cheaper fleets next to these
at their prices. Where none is left, the best fleet of each hour is a small program: their sum is a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.losses import tightest_row
from planner.formulation.fleet.neighbours import neighbours
from planner.formulation.fleet.prices import hour_prices, price_program
from planner.formulation.fleet.problem import LOAD_TOLERANCE
from planner.formulation.fleet.program import fleet_program
from planner.solvers.registry import run
from planner.solving.fleet.clock import has_passed, seconds_until

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.formulation.fleet.classes import HourClasses
    from planner.formulation.fleet.problem import FleetProblem

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


def _multipliers(problem: FleetProblem, classes: HourClasses, pool: Floats, preference: float) -> tuple[Floats, float]:
    """Return the best multipliers (classes, kinds) for the fleets of a pool, and the dollars that they promise."""
    pairs = len(classes.first)
    fits = problem.fits(pool, classes.first)
    found = run(price_program(problem, classes, pool, fits, preference), LINEAR_SOLVER)
    return found.values[pairs:].reshape(classes.number, problem.kinds), float(found.values[:pairs] @ classes.times)


def _priced(problem: FleetProblem, fleets: Floats, hours: Integers, prices: Floats) -> Floats:
    """Return the dollars (hours, f) of fleets at the prices (hours, kinds) of hours; infinite where one may not be."""
    return np.where(problem.fits(fleets, hours), prices @ fleets.T, np.inf)
