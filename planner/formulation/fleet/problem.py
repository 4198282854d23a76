"""What a fleet has to carry, hour by hour, and the kinds of machines that may carry it.

A fleet is a whole number of machines of each kind. Dollars are those of one cycle (a day or a week), which repeats.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.formulation.fleet.losses import greatest_load_served
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.arrays import Flags, Floats, Integers

LOAD_TOLERANCE = 1e-9
"""Relative slack of a load: a fleet that carries it up to rounding carries it."""


@record(frozen=True)
class Room:
    """What an hour has of limits that other services take a part of."""

    stock: Mapping[int, int]
    quota: Mapping[int, int]
    max_gpus: int | None
    max_usd_per_hour: float | None


@record(frozen=True)
class FleetProblem:
    """Columns (kinds,) of kinds of machines, (hours,) of hours of the cycle, (groups,) of spot groups."""

    load: Floats  # (hours,), in the unit of `capacity`, headroom included
    capacity: Floats  # of one machine
    usd: Floats  # of one machine and hour
    start_usd: Floats  # of one start
    gpus: Integers  # of one machine
    replicas: Integers  # of one machine
    committed: Flags  # paid in every hour, used or not; their number is one for all hours
    offer: Integers  # kinds of one offer share its stock
    provider: Integers
    group: Integers  # of spot machines that are lost together; -1 on demand
    availability: Floats  # (groups,), share of the time that a spot group is there and its machines have started
    served_share: float = 0.0  # of the load, served on average although spot groups are lost, each on its own
    stock: Mapping[int, int] = field(default_factory=dict)  # offer -> machines
    quota: Mapping[int, int] = field(default_factory=dict)  # provider -> GPUs
    min_replicas: int = 0
    max_gpus: int | None = None
    max_usd_per_hour: float | None = None
    budget_usd: float | None = None  # of one cycle
    most_on_spot: float = 1.0  # share of the load
    least_on_spot: float = 0.0
    room: Integers | None = None  # (hours,), place in `rooms` of each hour; None: the limits above hold in all hours
    rooms: tuple[Room, ...] = ()

    @property
    def hours(self) -> int:
        """Hours of the cycle."""
        return len(self.load)

    @property
    def kinds(self) -> int:
        """Number of kinds."""
        return len(self.capacity)

    @property
    def is_spot(self) -> Flags:
        """Kinds on spot."""
        return self.group >= 0

    def choosing(self, keep: Integers | Flags) -> FleetProblem:
        """Return the problem with some of the kinds."""
        columns = ("capacity", "usd", "start_usd", "gpus", "replicas", "committed", "offer", "provider", "group")
        picked: dict[str, Any] = {name: getattr(self, name)[keep] for name in columns}
        return replace(self, **picked)

    def in_hour(self, hour: int) -> FleetProblem:
        """Return the problem with the limits of one hour."""
        if self.room is None:
            return self
        one = self.rooms[int(self.room[hour])]
        limits = {name: getattr(one, name) for name in ("stock", "quota", "max_gpus", "max_usd_per_hour")}
        return replace(self, **limits, room=None, rooms=())

    def fits(self, fleets: Floats, hours: Integers) -> Flags:
        """Return which fleets (hours, f) some hours may have: they carry its load within its limits."""
        loads = self.load[hours]
        wanted = (loads - LOAD_TOLERANCE * np.maximum(1.0, loads))[:, None]
        if self.room is None:
            return np.asarray(self.greatest_load(fleets) >= wanted)
        found = np.zeros((len(hours), len(fleets)), dtype=bool)
        for room in np.unique(self.room[hours]).tolist():
            same = self.room[hours] == room
            found[same] = self.in_hour(int(hours[same][0])).greatest_load(fleets) >= wanted[same]
        return found

    def as_needed(self) -> FleetProblem:
        """Return the problem without capacity beyond the peak, and replicas beyond those that must stand."""
        peak, least = float(np.max(self.load)), max(self.min_replicas, 1)
        return replace(self, capacity=np.minimum(self.capacity, peak), replicas=np.minimum(self.replicas, least))

    def distinct(self) -> tuple[FleetProblem, Integers]:
        """Return the problem with each load once, and which of them (hours,) every hour has."""
        loads, which = np.unique(self.load, return_inverse=True)
        return replace(self, load=loads), which.astype(np.int64)

    def with_costly_starts(self) -> FleetProblem:
        """Return the problem in which a commitment is a start that pays all hours of the cycle.

        What is started once may then stand in all hours at no more dollars, so that the least dollars are the same.
        """
        return replace(self, start_usd=np.where(self.committed, self.hours * self.usd, self.start_usd))

    def greatest_load(self, fleets: Floats) -> Floats:
        """Return the load (f,) that some fleets (f, kinds) carry within every limit; below 0 where one is broken."""
        fleets = np.atleast_2d(np.asarray(fleets, dtype=float))
        able = fleets * self.capacity
        whole = np.sum(able, axis=1)
        on_spot = np.sum(able[:, self.is_spot], axis=1)
        most = greatest_load_served(whole - on_spot, self.by_group(able), self.availability, self.served_share)
        if self.most_on_spot < 1:
            most = np.minimum(most, (whole - on_spot) / (1.0 - self.most_on_spot))
        if self.least_on_spot > 0:
            most = np.minimum(most, on_spot / self.least_on_spot)
        return np.where(self._is_allowed(fleets), most, -np.inf)

    def by_group(self, able: Floats) -> Floats:
        """Return the capacities (f, groups) of spot groups from those of kinds (f, kinds)."""
        member = self.group[:, None] == np.arange(len(self.availability))
        return np.asarray(able @ member)

    def _is_allowed(self, fleets: Floats) -> Flags:
        """Return which fleets (f, kinds) keep the limits that do not depend on the load."""
        fine = fleets @ self.replicas >= self.min_replicas - LOAD_TOLERANCE
        if self.max_gpus is not None:
            fine &= fleets @ self.gpus <= self.max_gpus + LOAD_TOLERANCE
        if self.max_usd_per_hour is not None:
            fine &= fleets @ self.usd <= self.max_usd_per_hour * (1.0 + LOAD_TOLERANCE)
        for offer, most in self.stock.items():
            fine &= np.sum(fleets[:, self.offer == offer], axis=1) <= most + LOAD_TOLERANCE
        for provider, most in self.quota.items():
            fine &= (fleets * self.gpus)[:, self.provider == provider].sum(axis=1) <= most + LOAD_TOLERANCE
        return np.asarray(fine)

    def carries(self, fleets: Floats, load: float) -> Flags:
        """Return which of some fleets (f, kinds) keep every limit of an hour with a load."""
        return np.asarray(self.greatest_load(fleets) >= load - LOAD_TOLERANCE * max(1.0, load))

    def cost(self, fleets: Floats) -> float:
        """Return the dollars of one cycle of fleets (hours, kinds): hours, and starts against the hour before."""
        fleets = np.asarray(fleets, dtype=float)
        started = np.maximum(fleets - np.roll(fleets, 1, axis=0), 0.0)
        return float(np.sum(fleets @ self.usd) + np.sum(started @ self.start_usd))


def most_machines(problem: FleetProblem) -> Integers:
    """Return how many machines (kinds,) of each kind any hour can need at most."""
    peak = float(np.max(problem.load))
    carrying = np.ceil(peak / problem.capacity * (1.0 + LOAD_TOLERANCE))
    standing = np.ceil(problem.min_replicas / np.maximum(problem.replicas, 1))
    return np.maximum(carrying, standing).astype(np.int64)


def cycle_of(for_hours: float, hours: int) -> float:
    """Return how many cycles a service runs: 30 days of weeks are 4.29."""
    return for_hours / hours


def uses(fleets: Sequence[Sequence[int]], problem: FleetProblem) -> Floats:
    """Return the share (hours,) of its capacity that each hour's fleet is loaded with; 0 where there is no fleet."""
    able = np.asarray(fleets, dtype=float) @ problem.capacity
    return np.where(able > 0, problem.load / np.maximum(able, math.ulp(1.0)), 0.0)
