"""Simpler fleets for the same load: one kind for the peak, one kind by the hour, the mix of the peak always on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.formulation.fleet.dominance import undominated_kinds
from planner.formulation.fleet.losses import first_rows
from planner.solving.fleet.refine import fleets_at_prices

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.formulation.fleet.problem import FleetProblem
    from planner.scenario.scenario import SolveOptions


class SimpleFleet(NamedTuple):
    """Dollars of a cycle of a simpler fleet, None where none keeps the limits, and its machines at the peak."""

    name: str
    usd: float | None
    kind: int = -1
    machines: int = 0


def machines_alone(problem: FleetProblem) -> Floats:
    """Return the machines (hours, kinds) of one kind alone that carry each hour; nan where that kind may not."""
    kinds = problem.kinds
    able = np.ceil(problem.load[:, None] / problem.capacity * (1.0 - 1e-9))
    standing = np.ceil(problem.min_replicas / np.maximum(problem.replicas, 1))
    found = np.maximum(able, standing)
    busy = found > 0
    most = np.full(kinds, np.inf)
    for offer, stock in problem.stock.items():
        most[problem.offer == offer] = stock
    for provider, quota in problem.quota.items():
        here = problem.provider == provider
        most[here] = np.minimum(most, quota // np.maximum(problem.gpus, 1))[here]
    if problem.max_gpus is not None:
        most = np.minimum(most, problem.max_gpus // problem.gpus)
    allowed = found <= most
    if problem.max_usd_per_hour is not None:
        allowed &= found * problem.usd <= problem.max_usd_per_hour * (1.0 + 1e-9)
    there = np.append(problem.availability, 1.0)[problem.group]  # of group -1, on demand: always
    alone_on_spot = problem.is_spot & ((there < problem.served_share) | (problem.most_on_spot < 1))
    allowed &= ~busy | ~(alone_on_spot | (~problem.is_spot & (problem.least_on_spot > 0)))
    return np.where(np.all(allowed, axis=0), found, np.nan)


def simple_fleets(problem: FleetProblem, options: SolveOptions) -> tuple[SimpleFleet, ...]:
    """Return the simpler fleets of a problem without commitments and without its budget."""
    usual = problem.choosing(~problem.committed)
    place = np.flatnonzero(~problem.committed)
    distinct, _ = usual.distinct()
    peak = distinct.load == np.max(distinct.load)
    alone = machines_alone(distinct)
    hourly = machines_alone_by_hour(usual, alone, distinct.load)
    at_peak = usual.hours * alone[peak][0] * usual.usd
    found = [_least("one kind for the peak", at_peak, alone[peak][0], place)]
    starts = np.maximum(hourly - np.roll(hourly, 1, axis=0), 0.0)
    by_hour = np.sum(hourly * usual.usd + starts * usual.start_usd, axis=0)
    found.append(_least("one kind by the hour", by_hour, alone[peak][0], place))
    mixed = _peak_mix(usual, options)
    found.append(SimpleFleet("the best mix for the peak, always on", None if mixed is None else usual.hours * mixed))
    return tuple(found)


def machines_alone_by_hour(problem: FleetProblem, alone: Floats, loads: Floats) -> Floats:
    """Return the machines (hours, kinds) of each hour from those of each load."""
    return np.asarray(alone[np.searchsorted(loads, problem.load)])


def _least(name: str, usd: Floats, machines: Floats, place: Integers) -> SimpleFleet:
    """Return the cheapest kind alone."""
    if not len(usd) or bool(np.all(np.isnan(usd))):
        return SimpleFleet(name, None)
    best = int(np.nanargmin(usd))
    return SimpleFleet(name, float(usd[best]), int(place[best]), int(machines[best]))


def _peak_mix(problem: FleetProblem, options: SolveOptions) -> float | None:
    """Return the dollars of an hour of the best fleet for the peak; None without any."""
    if not problem.kinds:
        return None
    peak = np.array([np.max(problem.load)])
    hour = replace(problem, load=peak, start_usd=np.zeros(problem.kinds))
    hour = hour.choosing(undominated_kinds(hour))
    losses = first_rows(hour.availability, hour.served_share)
    fleets, bounds = fleets_at_prices(hour, hour.usd[None, :], np.zeros(1, dtype=np.int64), options.solver, losses)
    return None if np.isnan(bounds[0]) else float(fleets[0] @ hour.usd)
