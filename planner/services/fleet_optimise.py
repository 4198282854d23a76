"""A cheap fleet for every hour with a proven bound: few kinds by pairs, the way through the hours, losses.

A fleet that is the cheapest mix of many kinds is hard to operate: a different engine, cloud and image for
each hour. With one or two kinds there are few enough fleets to list them.

The best fleets of a few loads begin a pool, and fleets next to them join it. A shortest path through the pool pays the
starts, and prices of hours that account for starts give a bound. How long this takes changes nothing in what is found.
"""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.scenario.inference_job import LEAST_REPLICA_SHARE
from planner.scenario.scenario import SolveOptions
from planner.services.fleet_problem import (
    LOAD_TOLERANCE,
    FleetProblem,
    first_rows,
    most_machines,
    served_of,
    undominated_kinds,
)
from planner.services.fleet_program import (
    bound_of_fleets,
    central_multipliers,
    enriched,
    fleets_at_prices,
    has_passed,
    hour_classes,
    hour_prices,
    latest_moment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_OF_A_PAIR = 10
"""Machines of a kind whose number is tried in full for a bound; more of both kinds are bounded as if divisible."""
ROWS_AT_ONCE = 64
"""Kinds that are paired with all others at one time: of hundreds of kinds all pairs do not fit into a cache."""
MOST_ON_GRID = 200
"""Different numbers of machines of a kind that are listed; where more may be needed they are listed in steps."""
CHEAPEST_LISTED = 4
"""Fleets of a load that begin a search, the cheapest first."""


def least_dollars_of_pairs(problem: FleetProblem) -> Floats:
    """Return dollars (kinds, kinds) of a cycle below which no fleet of two kinds costs, starts left out.

    Whole machines carry each load, stand as replicas of which each carries enough, and carry what must be served while
    the spot group of the other kind is lost. Example: a load of 5 on machines of 4 at $3 and of 2 at $1 takes one of
    each, $4 an hour; on the first kind alone, on the diagonal, two, $6.
    """
    loads, hours = np.unique(problem.load, return_counts=True)
    pairs = _Pairs.of(problem)
    usd_of_pairs = np.zeros((problem.kinds, problem.kinds))
    for load, times in zip(loads.tolist(), hours.tolist(), strict=True):
        needed = np.ceil(np.maximum(load / problem.capacity, problem.min_replicas / pairs.replicas))
        are_many = needed > MOST_OF_A_PAIR  # of a pair the numbers of one kind suffice, those of the other follow
        least = np.where(np.logical_and.outer(are_many, are_many), pairs.divisible * load, np.inf)
        for count in range(int(np.max(needed[~are_many], initial=-1)) + 1):
            every = np.flatnonzero((needed >= count) & ~are_many)
            for some in np.array_split(every, -(-len(every) // ROWS_AT_ONCE)):
                usd = count * problem.usd[some, None] + pairs.others(some, count, load) * problem.usd
                least[some] = np.minimum(least[some], usd)
        usd_of_pairs += times * np.minimum(least, least.T)
    return usd_of_pairs


class _Pairs(NamedTuple):
    """What a pair of kinds, one in a row (kinds,) and one in a column, must keep."""

    problem: FleetProblem
    replicas: Floats  # of a machine, at least one
    divisible: Floats  # (kinds, kinds), dollars of a unit of load on machines that could be divided
    least_each: Floats  # (kinds, kinds), machines of the column for each of a row of stronger replicas
    most_each: Floats  # (kinds, kinds), machines of the column for each of a row of weaker replicas
    surely: Floats  # (kinds, kinds), share of a load that the column carries while the row is lost
    is_lost: Flags  # (kinds, kinds), whether both are lost together too often

    @classmethod
    def of(cls, problem: FleetProblem) -> _Pairs:
        """Return the pairs of the kinds of a problem."""
        replicas = np.maximum(problem.replicas, 1).astype(float)
        capacity, of_replica = problem.capacity, problem.capacity / replicas
        # Above 0: a machine of the column is too weak to stand next to one of the row alone.
        weaker = (LEAST_REPLICA_SHARE * of_replica[:, None] - of_replica) / (1.0 - LEAST_REPLICA_SHARE)
        least = np.maximum(weaker, 0.0) * replicas[:, None] / capacity
        with np.errstate(divide="ignore"):
            most = np.where(weaker.T > 0, capacity[:, None] / (np.maximum(weaker.T, 0.0) * replicas), np.inf)
        there = np.append(problem.availability, 1.0)[problem.group]
        share = np.where(there < problem.served_share, problem.served_share - there, 0.0)
        share = share / np.where(there < problem.served_share, 1.0 - there, 1.0)  # of a load, while that group is lost
        together = (problem.group[:, None] == problem.group) & (problem.group >= 0)
        surely = share[:, None] / there  # what the column carries is there as often as its own group is
        is_lost = np.where(together, share[:, None] > 0, surely > 1.0 + LOAD_TOLERANCE)
        price = problem.usd / capacity
        return cls(
            problem, replicas, np.minimum.outer(price, price), least, most,
            surely, is_lost,
        )  # fmt: skip

    def others(self, some: Integers, count: int, load: float) -> Floats:
        """Return the machines (rows, kinds) of the column next to `count` of some rows; infinite where none do."""
        problem, slack = self.problem, 1.0 - LOAD_TOLERANCE
        left = np.maximum(load - count * problem.capacity[some], 0.0)[:, None]
        standing = np.maximum(problem.min_replicas - count * self.replicas[some], 0.0)[:, None]
        carried = np.maximum(left, self.surely[some] * load) * slack / problem.capacity
        machines = np.ceil(np.maximum(carried, standing / self.replicas))
        firm = self.surely[:, some].T * load * slack  # what the row carries while the column is lost
        out = (machines > 0) & (count * problem.capacity[some][:, None] < firm)
        if load > 0:
            out |= self.is_lost[some]
        if count > 0:
            least = np.ceil(count * self.least_each[some] * slack)
            machines = np.where(machines > 0, np.maximum(machines, least), machines)
            out |= machines > count * self.most_each[some] / slack
        return np.where(out, np.inf, machines)


def is_listed_whole(problem: FleetProblem) -> bool:
    """Return whether `fleets_of_few` lists every fleet, so that there is none where it has none."""
    return bool(np.all(most_machines(problem) <= MOST_ON_GRID))


def fleets_of_few(problem: FleetProblem, hours: Integers) -> Floats | None:
    """Return fleets (f, kinds) of one or two kinds to begin a search with; None where an hour of `hours` may have none.

    The cheapest ones that each hour may have, those on one kind alone among them.
    """
    fleets = listed_fleets(problem)
    order = np.argsort(fleets @ problem.usd, kind="stable")
    fleets = fleets[order]
    alone = np.count_nonzero(fleets, axis=1) == 1
    listed = []
    for fits in problem.fits(fleets, hours):
        if not bool(np.any(fits)):
            return None
        listed += [fleets[fits][:CHEAPEST_LISTED], fleets[fits & alone][:1]]
    return np.unique(np.concatenate(listed), axis=0)


def listed_fleets(problem: FleetProblem) -> Floats:
    """Return fleets (f, kinds) of one or two kinds: all numbers of machines, in steps where there are very many."""
    counts = [_numbers(int(most)) for most in most_machines(problem)]
    return np.stack(np.meshgrid(*counts, indexing="ij"), axis=-1).reshape(-1, problem.kinds)


def _numbers(most: int) -> Floats:
    """Return the numbers of machines of a kind that are listed, 0 and `most` among them."""
    return np.unique(np.linspace(0.0, most, min(most, MOST_ON_GRID) + 1).round())


# Simpler fleets for the same load: one kind for the peak, one kind by the hour, the mix of the peak always on.


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
    machines = np.maximum(able, standing)
    busy = machines > 0
    most = np.full(kinds, np.inf)
    for offer, stock in problem.stock.items():
        most[problem.offer == offer] = stock
    for provider, quota in problem.quota.items():
        here = problem.provider == provider
        most[here] = np.minimum(most, quota // np.maximum(problem.gpus, 1))[here]
    allowed = machines <= most
    for peak in problem.peaks:
        allowed &= machines * peak.each <= peak.most * (1.0 + 1e-9)
    there = np.append(problem.availability, 1.0)[problem.group]  # of group -1, on demand: always
    alone_on_spot = problem.is_spot & ((there < problem.served_share) | (problem.most_on_spot < 1))
    allowed &= ~busy | ~(alone_on_spot | (~problem.is_spot & (problem.least_on_spot > 0)))
    return np.where(np.all(allowed, axis=0), machines, np.nan)


def simple_fleets(problem: FleetProblem, options: SolveOptions) -> tuple[SimpleFleet, ...]:
    """Return the simpler fleets of a problem without commitments and without its budget."""
    usual = problem.choosing(~problem.committed)
    place = np.flatnonzero(~problem.committed)
    distinct, _ = usual.distinct()
    peak = distinct.load == np.max(distinct.load)
    alone = machines_alone(distinct)
    hourly = machines_alone_by_hour(usual, alone, distinct.load)
    at_peak = usual.hours * alone[peak][0] * usual.usd
    simple = [_least("one kind for the peak", at_peak, alone[peak][0], place)]
    starts = np.maximum(hourly - np.roll(hourly, 1, axis=0), 0.0)
    by_hour = np.sum(hourly * usual.usd + starts * usual.start_usd, axis=0)
    simple.append(_least("one kind by the hour", by_hour, alone[peak][0], place))
    mixed = _peak_mix(usual, options)
    simple.append(SimpleFleet("the best mix for the peak, always on", None if mixed is None else usual.hours * mixed))
    return tuple(simple)


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
    hour = replace(problem, load=peak, start_usd=np.zeros(problem.kinds), budget_usd=None)
    if problem.most_kinds is not None:
        best = optimise_fleet(hour, options).fleets
        return None if best is None else hour.cost(best)
    hour = hour.choosing(undominated_kinds(hour))
    losses = first_rows(hour.availability, hour.served_share)
    fleets, bounds = fleets_at_prices(hour, hour.usd[None, :], np.zeros(1, dtype=np.int64), options.solver, losses)
    return None if np.isnan(bounds[0]) else float(fleets[0] @ hour.usd)


# The cheapest way through a circle of hours, each of which takes one fleet of a pool.


def start_usd_between(problem: FleetProblem, pool: Floats) -> Floats:
    """Return the dollars (f, f) of starting what the fleet of a column has more than that of a row."""
    more = np.maximum(pool[None, :, :] - pool[:, None, :], 0.0)
    return np.asarray(more @ problem.start_usd)


def cheapest_circle(problem: FleetProblem, pool: Floats, fits: Flags) -> tuple[Integers, float]:
    """Return the fleet (hours,) of each hour, as places in the pool, and the dollars of the cycle.

    `fits` (hours, f): which fleets an hour may have, at least one each. The hour with the fewest fleets is where the
    circle is cut: a shortest path from each of its fleets back to itself.
    """
    hours, size = fits.shape
    usd, moves = pool @ problem.usd, start_usd_between(problem, pool)
    cut = int(np.argmin(np.sum(fits, axis=1)))
    order = (cut + np.arange(hours)) % hours
    best, circle = np.inf, np.zeros(hours, dtype=np.int64)
    for start in np.flatnonzero(fits[cut]).tolist():
        reached = np.full(size, np.inf)
        reached[start] = usd[start]
        came = np.zeros((hours, size), dtype=np.int64)
        for step, hour in enumerate(order[1:].tolist(), start=1):
            through = reached[:, None] + moves
            came[step] = np.argmin(through, axis=0)
            reached = np.where(fits[hour], through[came[step], np.arange(size)] + usd, np.inf)
        closed = reached + moves[:, start] if hours > 1 else reached
        last = int(np.argmin(closed))
        if closed[last] < best:
            best = float(closed[last])
            for step in range(hours - 1, -1, -1):
                circle[order[step]] = last
                last = int(came[step, last])
    return circle, best


def through_pool(problem: FleetProblem, pool: Floats) -> tuple[Floats, float]:
    """Return the cheapest fleets (hours, kinds) from a pool which has one for every hour, and their dollars.

    Committed machines stand in all hours: each number of them that the pool knows is tried, for all fleets that have
    no more of them.
    """
    best, usd = np.zeros((problem.hours, problem.kinds)), np.inf
    committed = pool[:, problem.committed]
    for standing in np.unique(committed, axis=0) if committed.shape[1] else [np.zeros(0)]:
        same = pool[np.all(committed <= standing, axis=1)]
        same[:, problem.committed] = standing
        same = np.unique(same, axis=0)
        fits = problem.fits(same, np.arange(problem.hours))
        if bool(np.all(np.any(fits, axis=1))):
            chosen, dollars = cheapest_circle(problem, same, fits)
            if dollars < usd:
                best, usd = same[chosen], dollars
    return best, usd


FLEET_GAP = 1e-6
"""Gap below which a fleet counts as optimal."""
WANTED_GAP = 0.008
"""Gap at which no more rounds are worth their time."""
MOST_ROUNDS = 8
IDLE_ROUNDS = 2
"""Rounds without progress after which no more follow."""
FIRST_LOADS = 3
"""Loads whose best fleets begin the pool, evenly from the least to the peak."""


@dataclass(frozen=True)
class SolvedFleet:
    """Machines (hours, kinds) of the kinds of a problem; None without any."""

    fleets: Floats | None
    bound: float
    impossible_loads: tuple[float, ...] = ()
    kept: int = 0  # kinds that dominance left
    over_budget_usd: float | None = None  # dollars of the cheapest fleet, where that is over the budget
    any_mix: Floats | None = None  # (hours, kinds), of any number of kinds, where that costs less

    def gap(self, usd: float) -> float:
        """Return how far the dollars are above the bound, as their share."""
        return max(0.0, usd - self.bound) / max(usd, 1e-9)


_KNOWN: ContextVar[dict[bytes, SolvedFleet] | None] = ContextVar("known fleets", default=None)


@contextmanager
def remembering_fleets() -> Iterator[None]:
    """Solve equal problems once inside: the plan, the curve and the reasons of a report ask for the same fleets."""
    token = _KNOWN.set(known if (known := _KNOWN.get()) is not None else {})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def optimise_fleet(
    problem: FleetProblem, options: SolveOptions, until: float | None = None, pair_gap: float | None = None
) -> SolvedFleet:
    """Return the fleet of each hour, of as few kinds as the problem asks for.

    Parameters
    ----------
    until
        The moment at which the search ends once it has a fleet; by default at the time limit of `options` from now on.
    pair_gap
        Relative gap at which the search for a fleet of one or two kinds may end. That search has a bound of its own,
        so the fleet of any mix, which takes most of the time, is left out. None: the fleet of any mix is searched for,
        too, because a plan shows its dollars.
    """
    known = _KNOWN.get()
    if known is None:
        return _fleet(problem, options, until, pair_gap)
    for gap in (None, pair_gap):  # a fleet next to its best mix answers for a gap, too
        if (key := pickle.dumps((problem, options, gap))) in known:
            return known[key]
    solved = known[key] = _fleet(problem, options, until, pair_gap)
    return solved


def _fleet(problem: FleetProblem, options: SolveOptions, until: float | None, pair_gap: float | None) -> SolvedFleet:
    """Return what `optimise_fleet` does, found now."""
    until = latest_moment(options) if until is None else until
    if problem.most_kinds is None:
        return _of_any_mix(problem, options, until)
    if pair_gap is not None and problem.kinds and problem.most_kinds <= 2:
        pair = _of_few_kinds(replace(problem, budget_usd=None), SolvedFleet(None, 0.0), options, until)
        # Else the mix decides: its bound may be closer, and of very many machines not all pairs are listed.
        if pair.fleets is not None and pair.gap(problem.cost(pair.fleets)) <= pair_gap:
            return _within_budget(problem, pair)
    free = replace(problem, most_kinds=None)
    mixed = optimise_fleet(free, options, until)
    if mixed.fleets is None and mixed.over_budget_usd is None:
        return mixed
    if mixed.fleets is not None and problem.keeps_kinds(mixed.fleets):
        return mixed
    if mixed.fleets is None:  # over the budget: so are few kinds, whose dollars are said
        mixed = optimise_fleet(replace(free, budget_usd=None), options, until)
    return _within_budget(problem, _of_few_kinds(replace(problem, budget_usd=None), mixed, options, until))


def _within_budget(problem: FleetProblem, solved: SolvedFleet) -> SolvedFleet:
    """Return a fleet that was found without the budget; where that is too small, its dollars alone."""
    usd = np.inf if solved.fleets is None else problem.cost(solved.fleets)
    if problem.budget_usd is not None and problem.budget_usd * (1.0 + FLEET_GAP) < usd < np.inf:
        return SolvedFleet(None, solved.bound, (), solved.kept, usd)
    return solved


MOST_PAIRS = 1000
"""Pairs of kinds that are searched, those with the least bound first."""
MOST_PAIR_PROOFS = 12
"""Pairs whose bound is made closer by a program: most of the others' bounds lie above the fleet that is known."""
MOST_BOUNDED = 2000
"""Fleets of a pair up to which that program has them all."""


def _of_few_kinds(problem: FleetProblem, mixed: SolvedFleet, options: SolveOptions, until: float | None) -> SolvedFleet:
    """Return the cheapest fleet of few kinds, and next to it the best one of any mix.

    Pairs of kinds come by the least that they may cost, until that is more than a fleet that is known. Where more
    kinds are allowed, those of the mix join while they save dollars. The bound of any mix holds for few kinds, too;
    of one or two kinds the mix may have no fleets.
    """
    used = np.flatnonzero(np.any(mixed.fleets > 0, axis=0)) if mixed.fleets is not None else np.zeros(0, dtype=int)
    keep = np.union1d(undominated_kinds(problem), used).astype(np.int64)
    small = problem.choosing(keep)
    fleets, bound = _of_a_pair(small, options, until)
    if problem.most_kinds is not None and problem.most_kinds > 2:
        fleets, bound = _of_more_kinds(small, np.searchsorted(keep, used), fleets, options, until), 0.0
    if fleets is None:
        return SolvedFleet(None, mixed.bound, (), mixed.kept)
    whole = np.zeros((problem.hours, problem.kinds))
    whole[:, keep] = fleets
    bound = min(max(bound, mixed.bound), problem.cost(whole))
    return SolvedFleet(whole, bound, (), mixed.kept, any_mix=mixed.fleets)


def _of_a_pair(problem: FleetProblem, options: SolveOptions, until: float | None) -> tuple[Floats | None, float]:
    """Return the cheapest fleet (hours, kinds) of one kind or, where allowed, two, and a bound on its dollars."""
    first, second = np.triu_indices(problem.kinds)
    least = least_dollars_of_pairs(problem)[first, second]
    if problem.most_kinds == 1:
        least = np.where(first == second, least, np.inf)
    fleets, usd = None, np.inf
    order = np.argsort(least, kind="stable")[:MOST_PAIRS].tolist()
    for place in order:
        if least[place] >= usd * (1.0 - FLEET_GAP) or (fleets is not None and has_passed(until)):
            break
        kinds = [int(first[place]), int(second[place])]
        best, dollars = _among(problem, kinds, options, until)
        if best is None and is_listed_whole(problem.choosing(np.unique(kinds))):
            least[place] = np.inf
        if dollars < usd * (1.0 - FLEET_GAP):
            fleets, usd = best, dollars
    for place in order[:MOST_PAIR_PROOFS]:
        if least[place] >= usd * (1.0 - max(options.gap, WANTED_GAP)) or has_passed(until):
            break
        least[place] = max(least[place], _bound_of_pair(problem.choosing(np.unique([first[place], second[place]]))))
    return fleets, float(np.min(least))


def _bound_of_pair(pair: FleetProblem) -> float:
    """Return dollars below which no fleet of a pair of kinds costs, starts among them; 0 where there are too many."""
    fleets = listed_fleets(pair)
    if len(fleets) > MOST_BOUNDED or not is_listed_whole(pair):
        return 0.0
    small = pair.with_costly_starts()
    return bound_of_fleets(small, hour_classes(small.load, small.room), fleets)


def _of_more_kinds(
    problem: FleetProblem, mixed: Integers, pair: Floats | None, options: SolveOptions, until: float | None
) -> Floats | None:
    """Return a cheap fleet (hours, kinds) of three or more kinds: of a pair and kinds of the mix that join it.

    Where no pair has a fleet, the kinds of the mix that come first begin.
    """
    most = problem.most_kinds or 0
    kinds = mixed.tolist()[:most] if pair is None else np.flatnonzero(np.any(pair > 0, axis=0)).tolist()
    fleets, usd = _among(problem, kinds, options, until)
    while len(kinds) < most and not has_passed(until):
        joined = [[*kinds, kind] for kind in mixed.tolist() if kind not in kinds]
        tried = [_among(problem, more, options, until) for more in joined]
        if not tried or min(dollars for _, dollars in tried) >= usd * (1.0 - FLEET_GAP):
            break
        best = int(np.argmin([dollars for _, dollars in tried]))
        kinds, (fleets, usd) = joined[best], tried[best]
    return fleets


def _among(
    problem: FleetProblem, kinds: list[int], options: SolveOptions, until: float | None
) -> tuple[Floats | None, float]:
    """Return a cheap fleet (hours, kinds) of some of the kinds, and its dollars; None where they have none."""
    place = np.unique(kinds)
    part = problem.choosing(place).with_costly_starts()
    pool = fleets_of_few(part, _hours_that_decide(part)) if len(place) <= 2 else None
    if pool is None and len(place) > 2:
        pool, _ = first_fleets(part, options, first_rows(part.availability, part.served_share))
    hours = np.arange(part.hours)
    if pool is None or not bool(np.all(np.any(part.fits(pool, hours), axis=1))):
        return None, np.inf
    pool = enriched(part, hour_classes(part.load, part.room), pool, np.ones(part.kinds, dtype=bool), until)
    _, fleets, usd = _best_path(part, pool, until)
    fleets, usd = _standing_by(part, fleets, usd, 0.0, until)
    whole = np.zeros((problem.hours, problem.kinds))
    whole[:, place] = fleets
    return (whole, usd) if np.isfinite(usd) else (None, np.inf)


def _of_any_mix(problem: FleetProblem, options: SolveOptions, until: float | None) -> SolvedFleet:
    """Return the fleet of each hour of any number of kinds; the kinds that others replace are left out first."""
    keep = undominated_kinds(problem) if problem.kinds else np.zeros(0, dtype=np.int64)
    small = problem.choosing(keep).with_costly_starts()
    if not small.kinds:
        return SolvedFleet(None, 0.0, tuple(np.unique(problem.load).tolist()))
    losses = first_rows(small.availability, small.served_share)
    pool = fleets_of_one_kind(small) if has_passed(until) else np.zeros((0, small.kinds))
    missing: tuple[float, ...] = ()
    if not len(pool):
        pool, missing = first_fleets(small, options, losses, until)
    if missing:
        return SolvedFleet(None, 0.0, missing, len(keep))
    fleets, bound = _in_rounds(small, pool, options, losses, until)
    usd = small.cost(fleets)
    if not bool(np.any(fleets)) and bool(np.any(problem.load)):  # committed machines that some hour has no room for
        return SolvedFleet(None, 0.0, (), len(keep))
    if has_passed(until) and problem.budget_usd is not None and bound <= problem.budget_usd < usd:
        fleets, bound = _in_rounds(small, first_fleets(small, options, losses)[0], options, losses, None)
        usd = small.cost(fleets)  # no time limit makes a budget too small
    if problem.budget_usd is not None and usd > problem.budget_usd * (1.0 + FLEET_GAP):
        return SolvedFleet(None, bound, (), len(keep), usd)
    whole = np.zeros((problem.hours, problem.kinds))
    whole[:, keep] = fleets
    return SolvedFleet(whole, bound, (), len(keep))


def first_fleets(
    problem: FleetProblem, options: SolveOptions, losses: list[Floats], until: float | None = None
) -> tuple[Floats, tuple[float, ...]]:
    """Return the best fleets (f, kinds) of a few loads, and the loads that no fleet carries.

    What carries a load carries a lower one, so that the peak of each room decides whether there are any. From the
    moment `until` on the peaks of one kind alone take their place; where there are none, the search goes on until it
    knows of a fleet.
    """
    hours = _hours_that_decide(problem)
    some = hours[np.unique(np.linspace(0, len(hours) - 1, FIRST_LOADS).astype(int))]
    peaks = _peaks(problem)
    some = np.concatenate([some[~np.isin(some, peaks)], peaks])
    least = len(some) - len(peaks)
    prices = np.tile(problem.usd, (len(some), 1))
    fleets, bounds = fleets_at_prices(problem, prices, some, options.solver, losses, until)
    if bool(np.any(np.isnan(bounds[least:]))) and has_passed(until):
        alone = fleets_of_one_kind(problem)
        if len(alone):
            return np.unique(np.concatenate([fleets[~np.isnan(bounds)], alone]), axis=0), ()
        fleets, bounds = fleets_at_prices(problem, prices[least:], peaks, options.solver, losses)
        least = 0
    if not bool(np.any(np.isnan(bounds[least:]))):
        return np.unique(fleets[~np.isnan(bounds)], axis=0), ()
    _, bounds = fleets_at_prices(problem, np.tile(problem.usd, (len(hours), 1)), hours, options.solver, losses)
    return fleets[:0], tuple(np.unique(problem.load[hours[np.isnan(bounds)]]).tolist())


def _hours_that_decide(problem: FleetProblem) -> Integers:
    """Return an hour of each load and room, by load."""
    room = np.zeros(problem.hours) if problem.room is None else problem.room
    _, first = np.unique(np.stack([problem.load, room], axis=1), axis=0, return_index=True)
    return np.asarray(first, dtype=np.int64)


def _peaks(problem: FleetProblem) -> Integers:
    """Return the hour of the greatest load of each room."""
    hours = _hours_that_decide(problem)
    if problem.room is None:
        return hours[-1:]
    last = {int(problem.room[hour]): hour for hour in hours.tolist()}
    return np.asarray(list(last.values()), dtype=np.int64)


def fleets_of_one_kind(problem: FleetProblem) -> Floats:
    """Return the fleets (f, kinds) of the kind that carries the hours alone at the least dollars; no program is solved.

    None where no kind may carry all hours alone.
    """
    place = np.flatnonzero(~problem.committed)
    alone = machines_alone(problem.choosing(place)) if len(place) else np.zeros((problem.hours, 0))
    usd = np.sum(alone * problem.usd[place], axis=0)
    for best in np.argsort(usd)[: int(np.sum(~np.isnan(usd)))].tolist():
        fleets = np.zeros((problem.hours, problem.kinds))
        fleets[:, place[best]] = alone[:, best]
        fits = problem.fits(fleets, np.arange(problem.hours))
        if bool(np.all(np.diag(fits))):
            return np.unique(fleets, axis=0)
    return np.zeros((0, problem.kinds))


def _in_rounds(
    problem: FleetProblem, pool: Floats, options: SolveOptions, losses: list[Floats], until: float | None
) -> tuple[Floats, float]:
    """Return the fleet (hours, kinds) of each hour and a bound, both better from round to round.

    A round begins with the best path through what is known, so that a time limit leaves a fleet without a bound.
    """
    idle, bound = 0, 0.0
    classes, every = hour_classes(problem.load, problem.room), np.ones(problem.kinds, dtype=bool)
    pool = enriched(problem, classes, pool, every, until)
    pool, fleets, usd = _best_path(problem, pool, until)
    for _ in range(MOST_ROUNDS):
        if has_passed(until) or idle >= IDLE_ROUNDS:
            break
        prices = hour_prices(problem, classes, central_multipliers(problem, classes, pool))
        best, least = fleets_at_prices(problem, prices, classes.first, options.solver, losses, until)
        known = ~np.isnan(least)
        total = float(classes.times @ least) if bool(np.all(known)) else 0.0  # some hours alone are no bound
        closer, bound = total > bound * (1.0 + FLEET_GAP), max(bound, total)
        pool, other, cheaper = _best_path(problem, np.unique(np.concatenate([pool, best[known]]), axis=0), until)
        idle = 0 if closer or cheaper < usd * (1.0 - FLEET_GAP) else idle + 1
        if cheaper < usd:
            fleets, usd = other, cheaper
        if not _is_open(problem, usd, bound, options):
            break
        pool = enriched(problem, classes, pool, every, until)
    fleets, usd = _standing_by(problem, fleets, usd, bound, until)
    return fleets, min(bound, usd)


def _standing_by(
    problem: FleetProblem, fleets: Floats, usd: float, bound: float, until: float | None
) -> tuple[Floats, float]:
    """Return fleets with machines that stay through hours that do not need them, and their dollars.

    At the best prices of the hours such a machine often costs nothing, and the program of an hour leaves it out.
    """
    while usd - bound > FLEET_GAP * usd and not has_passed(until):
        known = np.unique(fleets, axis=0)
        used = np.any(known > 0, axis=0) & ~problem.committed
        more = (known[:, None, :] + np.eye(problem.kinds)[used]).reshape(-1, problem.kinds)
        other, cheaper = through_pool(problem, np.unique(np.concatenate([known, more]), axis=0))
        if cheaper >= usd * (1.0 - FLEET_GAP):
            break
        fleets, usd = other, cheaper
    return fleets, usd


def _is_open(problem: FleetProblem, usd: float, bound: float, options: SolveOptions) -> bool:
    """Return whether more rounds are worth it: the gap is wide, or the budget lies between bound and dollars."""
    if problem.budget_usd is not None and bound <= problem.budget_usd < usd:
        return usd - bound > FLEET_GAP * usd
    return usd - bound > max(options.gap, WANTED_GAP) * usd


def _best_path(problem: FleetProblem, pool: Floats, until: float | None) -> tuple[Floats, Floats, float]:
    """Return a pool, the cheapest fleets (hours, kinds) from it, and their dollars.

    With commitments the fleets around the chosen number of them are searched once more.
    """
    fleets, usd = through_pool(problem, pool)
    if not bool(np.any(problem.committed)) or not np.isfinite(usd):
        return pool, fleets, usd
    standing = fleets[0] * problem.committed
    same = pool[np.all(pool[:, problem.committed] <= standing[problem.committed], axis=1)]
    same = np.unique(np.where(problem.committed, standing, same), axis=0)
    same = enriched(problem, hour_classes(problem.load, problem.room), same, ~problem.committed, until)
    other, cheaper = through_pool(problem, same)
    pool = np.unique(np.concatenate([pool, same]), axis=0)
    return (pool, other, cheaper) if cheaper < usd else (pool, fleets, usd)


# The share of the requests that a fleet serves although its spot machines are lost at times.


def served_on_average(problem: FleetProblem, fleets: Floats) -> float:
    """Return the share of the load that is served on average, each spot group being lost on its own."""
    able, load = fleets * problem.capacity, problem.load
    if np.sum(load) <= 0:
        return 1.0
    firm, spot = np.sum(able[:, ~problem.is_spot], axis=1), problem.by_group(able)
    share = [served_of(*hour, problem.availability) for hour in zip(load.tolist(), firm.tolist(), spot, strict=True)]
    return float(np.average(share, weights=load))
