"""What a fleet has to carry, hour by hour, the kinds that may carry it, and spot groups that are lost."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.formulation.program import Peak
from planner.scenario.inference_job import LEAST_REPLICA_SHARE, ServeJob
from planner.scenario.scenario import Scenario, without_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Spot groups that are lost independently of one another: the load that a fleet serves often enough, and linear rows.
#
# Group g is there with probability a[g] and is lost as a whole; what the rest cannot carry is refused. Of a load L a
# fleet serves E[min(L, carried)] on average, which is concave in its capacities. For every set S of states of the
# groups E[min(L, carried)] <= sum over S of p * carried + (1 - P(S)) * L, with equality for the states that carry less
# than L. So at least a share s of L is served where, for every S with P(S) > 1 - s, sum over S of p * carried / (P(S) -
# (1 - s)) >= L: linear in the machines, the same row for every load.


MOST_INDEPENDENT_GROUPS = 12
"""Groups of an hour whose losses are combined, 4,096 states; smaller groups beyond that count as always lost."""
_MOST_CELLS = 2_000_000
"""Fleets times states that are held at one time."""
_LEAST_PROBABILITY = 1e-12


def greatest_load_served(firm: Floats, spot: Floats, availability: Floats, share: float) -> Floats:
    """Return the greatest load (f,) of which fleets serve at least a share on average; no more than they carry.

    `firm` (f,) is the capacity on demand, `spot` (f, groups) that of each group, `availability` (groups,) how often
    each is there. Example: two groups of 2, each there 60 % of the time, serve 84 % of a load of 2.
    """
    most = firm + np.sum(spot, axis=1)
    number = _number(spot, availability)
    for groups in np.unique(number[number > 0]).tolist() if share > 0 else []:
        rows = np.flatnonzero(number == groups)
        for part in np.array_split(rows, max(1, len(rows) * 2**groups // _MOST_CELLS)):
            carried, likely = _states(firm[part], spot[part], availability, groups)
            served, over = _below(carried, likely, share)
            most[part] = np.minimum(most[part], np.min(_allowed(served, over), axis=1))
    return np.asarray(most)


def served_of(load: float, firm: float, spot: Floats, availability: Floats) -> float:
    """Return the share of a load that is served on average, with so much capacity on demand and (groups,) on spot."""
    carried, likely = _states(np.array([firm]), spot[None, :], availability, int(_number(spot, availability)))
    return float(likely[0] @ np.minimum(1.0, carried[0] / load)) if load > 0 else 1.0


def first_rows(availability: Floats, share: float) -> list[Floats]:
    """Return rows that say much of any fleet: the mean of what is there, and each group lost alone.

    A row (groups + 1,) has the weight of each group's capacity, then that of the capacity on demand; weighted
    capacities carry the load.
    """
    if share <= 0:
        return []
    rows = [np.append(availability, 1.0) / share]
    for group, a in enumerate(availability.tolist()):
        over = share - a  # P(lost) - (1 - share)
        if over > _LEAST_PROBABILITY:
            there = np.append(availability, 1.0)
            there[group] = 0.0
            rows.append((1.0 - a) / over * there)
    return rows


def tightest_row(firm: float, spot: Floats, availability: Floats, share: float) -> Floats:
    """Return the row (groups + 1,) that allows the least load to a fleet: the states of S are those below that load.

    A group that the fleet lacks is there in states of S as often as in all. Without such a limit all of it counts.
    """
    groups = int(_number(spot, availability))
    carried, likely = _states(np.array([firm]), spot[None, :], availability, groups)
    order = np.argsort(carried[0], kind="stable")
    served, over = _below(carried, likely, share)
    allowed = _allowed(served[0], over[0])
    last = int(np.argmin(allowed))
    if allowed[last] >= firm + float(np.sum(spot)):
        return np.ones(len(availability) + 1)
    members = order[: last + 1]
    chance = float(np.sum(likely[0, members]))
    row = np.append(chance * availability, chance)
    for place, group in enumerate(_uncertain(spot[None, :], availability, groups)[0].tolist()):
        row[group] = float(likely[0, members] @ _there(groups)[members, place])
    return np.asarray(row / over[0, last])


def _number(spot: Floats, availability: Floats) -> Integers:
    """Return how many groups of each fleet (..., groups) may be lost and are combined."""
    uncertain = np.sum((spot > 0) & (availability < 1.0), axis=-1)
    return np.asarray(np.minimum(uncertain, MOST_INDEPENDENT_GROUPS))


def _uncertain(spot: Floats, availability: Floats, groups: int) -> Integers:
    """Return the places (f, groups) of the largest groups of each fleet that may be lost."""
    held = np.where(availability < 1.0, spot, 0.0)
    return np.argsort(-held, axis=1, kind="stable")[:, :groups]


def _there(groups: int) -> Floats:
    """Return the states (2 ** groups, groups): 1 where a group is there."""
    return np.asarray(list(itertools.product((0.0, 1.0), repeat=groups))).reshape(2**groups, groups)


def _states(firm: Floats, spot: Floats, availability: Floats, groups: int) -> tuple[Floats, Floats]:
    """Return what fleets carry (f, states) in each state of their largest groups, and how likely each state is."""
    places, there = _uncertain(spot, availability, groups), _there(groups)
    able, a = np.take_along_axis(spot, places, axis=1), availability[places]
    surely = firm + np.sum(np.where(availability >= 1.0, spot, 0.0), axis=1)
    carried = surely[:, None] + able @ there.T
    likely = np.ones_like(carried)
    for place in range(groups):
        likely *= np.where(there[:, place] > 0, a[:, place, None], 1.0 - a[:, place, None])
    return carried, likely


def _below(carried: Floats, likely: Floats, share: float) -> tuple[Floats, Floats]:
    """Return, for the k states (f, k) that carry least, the sum of p * carried, and by how much P exceeds 1 - share."""
    order = np.argsort(carried, axis=1, kind="stable")
    p = np.take_along_axis(likely, order, axis=1)
    served = np.cumsum(p * np.take_along_axis(carried, order, axis=1), axis=1)
    return served, np.cumsum(p, axis=1) - (1.0 - share)


def _allowed(served: Floats, over: Floats) -> Floats:
    """Return the loads that sets of states allow, from `_below`; infinite where a set is too rare to matter."""
    return np.where(over > _LEAST_PROBABILITY, served / np.maximum(over, _LEAST_PROBABILITY), np.inf)


# What a fleet has to carry, hour by hour, and the kinds of machines that may carry it.
#
# A fleet is a whole number of machines of each kind. Dollars are those of one cycle (a day or a week), which repeats.


LOAD_TOLERANCE = 1e-9
"""Relative slack of a load: a fleet that carries it up to rounding carries it."""


@dataclass(frozen=True)
class Room:
    """What an hour has of limits that other services take a part of."""

    stock: Mapping[int, int]
    quota: Mapping[int, int]
    most: tuple[float, ...]  # of each of the problem's `peaks`


@dataclass(frozen=True)
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
    peaks: tuple[Peak, ...] = ()  # what machines of each kind use of what is limited at one time
    budget_usd: float | None = None  # of one cycle
    most_on_spot: float = 1.0  # share of the load
    least_on_spot: float = 0.0
    most_kinds: int | None = None  # kinds of machines of all hours; None: any mix
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
        peaks = tuple(replace(peak, each=peak.each[keep]) for peak in self.peaks)
        return replace(self, **picked, peaks=peaks)

    def in_hour(self, hour: int) -> FleetProblem:
        """Return the problem with the limits of one hour."""
        if self.room is None:
            return self
        room = self.rooms[int(self.room[hour])]
        return replace(self, stock=room.stock, quota=room.quota, peaks=self.peaks_of(room.most), room=None, rooms=())

    def peaks_of(self, most: Sequence[float]) -> tuple[Peak, ...]:
        """Return what is limited at one time, with other values of the limits."""
        return tuple(replace(peak, most=value) for peak, value in zip(self.peaks, most, strict=True))

    def without_peak(self, key: str) -> FleetProblem:
        """Return the problem without one limit on what is used at one time."""
        return replace(self, peaks=tuple(peak for peak in self.peaks if peak.key != key))

    def fits(self, fleets: Floats, hours: Integers) -> Flags:
        """Return which fleets (hours, f) some hours may have: they carry its load within its limits."""
        loads = self.load[hours]
        wanted = (loads - LOAD_TOLERANCE * np.maximum(1.0, loads))[:, None]
        if self.room is None:
            return np.asarray(self.greatest_load(fleets) >= wanted)
        kept = np.zeros((len(hours), len(fleets)), dtype=bool)
        for room in np.unique(self.room[hours]).tolist():
            same = self.room[hours] == room
            kept[same] = self.in_hour(int(hours[same][0])).greatest_load(fleets) >= wanted[same]
        return kept

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
        for peak in self.peaks:
            fine &= fleets @ peak.each <= peak.most + LOAD_TOLERANCE * max(1.0, peak.most)
        for offer, most in self.stock.items():
            fine &= np.sum(fleets[:, self.offer == offer], axis=1) <= most + LOAD_TOLERANCE
        for provider, most in self.quota.items():
            fine &= (fleets * self.gpus)[:, self.provider == provider].sum(axis=1) <= most + LOAD_TOLERANCE
        return np.asarray(fine if self.most_kinds is None else fine & self._are_alike(fleets))

    def _are_alike(self, fleets: Floats) -> Flags:
        """Return which fleets (f, kinds) are of few kinds whose replicas each carry enough of an even share.

        Load is spread by capacity. Example: next to a replica of 4 one of 1.5 carries 1.5 / 5.5 of the load, which is
        55 % of its even share, and one of 0.1 carries 5 % of it.
        """
        used, of_replica = fleets > 0, self.capacity / np.maximum(self.replicas, 1)
        weakest = np.min(np.where(used, of_replica, np.inf), axis=1, initial=np.inf)
        even = (fleets @ self.capacity) / np.maximum(fleets @ self.replicas, 1)
        is_even = weakest >= LEAST_REPLICA_SHARE * even * (1.0 - LOAD_TOLERANCE)
        return np.asarray(is_even & (np.count_nonzero(used, axis=1) <= (self.most_kinds or 0)))

    def keeps_kinds(self, fleets: Floats) -> bool:
        """Return whether the fleets of all hours (hours, kinds) are of as few kinds as asked for."""
        kinds = int(np.count_nonzero(np.any(fleets > 0, axis=0)))
        return self.most_kinds is None or (kinds <= self.most_kinds and bool(np.all(self._are_alike(fleets))))

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


# Kinds of machines that copies of another replace, and that no best fleet needs.
#
# Each unit of a kind runs for an hour or more each time it is started. So what replaces it may cost more to start, if
# hour and start together cost no more: the hours after the first cost no more either.


_ROOM = 1.0 + LOAD_TOLERANCE


def undominated_kinds(problem: FleetProblem) -> Integers:
    """Return the places of the kinds that no others replace.

    A kind a replaces b if copies of it carry what one of b carries, have as many replicas, and cost and use GPUs no
    more, with their starts; a has no stock that could run out, and is lost only when b is: it is on demand, or on
    spot in the group of b. What a machine carries beyond the peak, and replicas beyond those that must stand, count
    for nothing. Kinds leave one after the other, the most expensive per capacity first, so that of equal kinds the
    first stays. Where a fleet is of few kinds, a machine replaces one of the same replicas alone: others next to it
    carry another share.
    """
    rules = _Rules(problem.as_needed() if problem.most_kinds is None else problem)
    order = np.lexsort((-np.arange(problem.kinds), -problem.start_usd, -problem.usd / rules.problem.capacity))
    left = np.ones(problem.kinds, dtype=bool)
    for b in order.tolist():
        left[b] = False
        left[b] = not rules.replaces(b, np.flatnonzero(left))
    return np.flatnonzero(left)


@dataclass(frozen=True)
class _Rules:
    """What may replace what in a problem."""

    problem: FleetProblem

    @cached_property
    def endless(self) -> Flags:
        """Return which kinds (k,) have no stock that could run out."""
        return ~np.isin(self.problem.offer, list(self.problem.stock))

    @cached_property
    def without_quota(self) -> Flags:
        """Return which kinds (k,) are at a provider without a quota."""
        return ~np.isin(self.problem.provider, list(self.problem.quota))

    def replaces(self, b: int, others: Integers) -> bool:
        """Return whether copies of one of the others replace b."""
        problem = self.problem
        a = others[self._may(b, others) & self._stays(b, others)]
        copies = np.ceil(problem.capacity[b] / problem.capacity[a] * (1.0 - LOAD_TOLERANCE))
        copies = np.maximum(copies, np.ceil(problem.replicas[b] / np.maximum(problem.replicas[a], 1)))
        return bool(np.any(self._is_no_worse(b, a, copies)))

    def _may(self, b: int, a: Integers) -> Flags:
        """Return which kinds (a,) may take the place of b at all: stock, quota, commitment and market."""
        problem = self.problem
        may: Flags = self.endless[a] & (
            ~problem.committed[a] | problem.committed[b]
        )  # it is in all hours, wanted or not
        may &= self.without_quota[a] | (problem.provider[a] == problem.provider[b])
        if problem.most_kinds is not None:
            may &= np.abs(problem.capacity[a] - problem.capacity[b]) <= LOAD_TOLERANCE * problem.capacity[b]
            may &= problem.replicas[a] == problem.replicas[b]
        if problem.least_on_spot > 0:
            may &= problem.is_spot[a] == problem.is_spot[b]
        if not problem.is_spot[b]:
            may &= ~problem.is_spot[a] | (problem.most_on_spot >= 1)
        return may

    def _stays(self, b: int, a: Integers) -> Flags:
        """Return which kinds (a,) are lost only when b is, or without harm."""
        harmless = np.append(self.problem.availability >= 1, True) | (self.problem.served_share <= 0)
        return np.asarray(harmless[self.problem.group[a]] | (self.problem.group[a] == self.problem.group[b]))

    def _is_no_worse(self, b: int, a: Integers, copies: Floats) -> Flags:
        """Return which kinds (a,) in so many copies cost no more than b, and use no more of what is limited."""
        problem = self.problem
        usd, start = copies * problem.usd[a], copies * problem.start_usd[a]
        fine = usd <= problem.usd[b] * _ROOM
        if not problem.committed[b]:  # what stands in every hour never starts again
            fine &= usd + start <= (problem.usd[b] + problem.start_usd[b]) * _ROOM
        if problem.quota:
            fine &= copies * problem.gpus[a] <= problem.gpus[b]
        for peak in problem.peaks:
            fine &= copies * peak.each[a] <= peak.each[b] * _ROOM
        return np.asarray(fine)


# What other services leave of shared limits, hour by hour: stock, quotas, and what is limited at one time.
#
# Each hour of a cycle has one room. Cycles of different lengths repeat until they meet: a service of a day sees the
# least that its hour is left on any day of a week.


Taker = tuple["FleetProblem", "Floats"]
"""A problem with its machines (hours, kinds)."""


def with_room(problem: FleetProblem, others: Sequence[Taker]) -> FleetProblem:
    """Return the problem with what is left of shared limits in each hour, others having taken their machines."""
    if not others:
        return replace(problem, room=None, rooms=())
    hours = math.lcm(problem.hours, *(len(fleets) for _, fleets in others))
    used = sum(
        (_used(problem, other, fleets, hours) for other, fleets in others), np.zeros((hours, len(_limits(problem))))
    )
    least = np.asarray(_limits(problem)) - used
    least = np.min(least.reshape(hours // problem.hours, problem.hours, -1), axis=0)
    rows, room = np.unique(np.round(least, 9), axis=0, return_inverse=True)
    return replace(problem, room=room.reshape(-1).astype(np.int64), rooms=tuple(_room(problem, row) for row in rows))


def most_used(takers: Sequence[Taker]) -> dict[str, float]:
    """Return what fleets take of each shared limit in the hour in which they take most."""
    hours = math.lcm(*(len(fleets) for _, fleets in takers))
    first = takers[0][0]
    used = sum(
        (_used(first, problem, fleets, hours) for problem, fleets in takers), np.zeros((hours, len(_limits(first))))
    )
    return dict(zip(_names(first), np.max(used, axis=0).tolist(), strict=True))


def broken_limits(takers: Sequence[Taker]) -> dict[str, int]:
    """Return the shared limits that fleets together break, each with the number of hours."""
    first = takers[0][0]
    hours = math.lcm(*(len(fleets) for _, fleets in takers))
    limits = np.asarray(_limits(first))
    used = sum((_used(first, problem, fleets, hours) for problem, fleets in takers), np.zeros((hours, len(limits))))
    over = used > limits + LOAD_TOLERANCE * np.maximum(1.0, limits)
    counts = np.sum(over, axis=0).astype(int).tolist()
    return {name: count for name, count in zip(_names(first), counts, strict=True) if count}


def _limits(problem: FleetProblem) -> list[float]:
    """Return the limits in one order: stock, quotas, what is limited at one time."""
    limits = [float(most) for most in (*problem.stock.values(), *problem.quota.values())]
    return limits + [peak.most for peak in problem.peaks]


def _names(problem: FleetProblem) -> list[str]:
    """Return the names of the limits in the same order; an offer and a provider by their number."""
    names = [f"stock {name}" for name in problem.stock] + [f"quota {name}" for name in problem.quota]
    return names + [peak.key for peak in problem.peaks]


def _used(limited: FleetProblem, problem: FleetProblem, fleets: Floats, hours: int) -> Floats:
    """Return what fleets (hours of a cycle, kinds) take of each limit, (hours, limits)."""
    columns = [fleets[:, problem.offer == offer].sum(axis=1) for offer in limited.stock]
    gpus = fleets * problem.gpus
    columns += [gpus[:, problem.provider == provider].sum(axis=1) for provider in limited.quota]
    of_machine = {peak.key: peak.each for peak in problem.peaks}
    columns += [fleets @ of_machine[peak.key] for peak in limited.peaks]
    taken = np.stack(columns, axis=1) if columns else np.zeros((len(fleets), 0))
    return np.tile(taken, (hours // len(fleets), 1))


def _room(problem: FleetProblem, row: Floats) -> Room:
    """Return the room of a row of limits."""
    left = iter(row.tolist())
    stock = {offer: round(next(left)) for offer in problem.stock}
    quota = {provider: round(next(left)) for provider in problem.quota}
    return Room(stock, quota, tuple(next(left) for _ in problem.peaks))


def in_least_room(problem: FleetProblem) -> FleetProblem:
    """Return the problem with the least that any hour has of each limit, for all hours."""
    if problem.room is None:
        return problem
    return replace(
        problem,
        stock={offer: min(room.stock[offer] for room in problem.rooms) for offer in problem.stock},
        quota={provider: min(room.quota[provider] for room in problem.rooms) for provider in problem.quota},
        peaks=problem.peaks_of([min(values) for values in zip(*(room.most for room in problem.rooms), strict=True)]),
        room=None,
        rooms=(),
    )


# A scenario with services and other jobs taken apart: what each of both is planned with alone.


def services_of(scenario: Scenario) -> tuple[ServeJob, ...]:
    """Return the services of a scenario: the jobs that answer requests as they come."""
    return tuple(job for job in scenario.jobs if isinstance(job, ServeJob))


def services_alone(scenario: Scenario) -> Scenario:
    """Return the scenario with its services alone, which wait for nothing."""
    jobs = (job.model_copy(update={"after": ()}) for job in services_of(scenario))
    return scenario.model_copy(update={"jobs": tuple(jobs), "jobs_written": ()})


def service_alone(scenario: Scenario, name: str) -> Scenario:
    """Return the scenario with one of its services alone, which waits for nothing."""
    alone = services_alone(scenario)
    return alone.model_copy(update={"jobs": tuple(job for job in alone.jobs if job.name == name)})


def without_services(scenario: Scenario, spent_usd: float) -> Scenario:
    """Return the scenario without its services; what these cost is taken off the budget."""
    budget = scenario.limits.budget_usd
    names = {job.name for job in scenario.jobs if not job.ends}
    return without_jobs(scenario, names, None if budget is None else budget - spent_usd)
