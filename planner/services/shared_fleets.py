"""Several services that share stock, quotas, GPUs, dollars per hour and a budget: in turn, in every order.

Each is planned alone first. Where the fleets together break a shared limit in some hour, services are planned in turn,
each with what those before it left of every hour; the cheapest order is kept. Then each is planned once more with what
the others leave, beginning with the best fleets of single hours. The sum of the bounds of the services alone holds for
all of them together: what one has for itself costs no more. Hours of all services together give a closer one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats
from planner.candidates.market import Market
from planner.results.plan_parts import Infeasible, Relaxation
from planner.results.service_results import SHARING
from planner.scenario.limits import peak_limit_at
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_optimise import FLEET_GAP, SolvedFleet, optimise_fleet
from planner.services.fleet_problem import FleetProblem, broken_limits, most_used, services_of, with_room
from planner.services.fleet_program import has_passed, joint_hours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_TURNS = 3
"""Times that each service is planned again with what the others leave."""
MOST_IN_EVERY_ORDER = 4
"""Services up to which every order is tried: 24 of four; of more, each is planned first once."""


@dataclass(frozen=True)
class SharedFleets:
    """A fleet of each service; `alone` holds what each would have for itself."""

    problems: Mapping[str, FleetProblem]  # with the room of each hour, where services were planned in turn
    solved: Mapping[str, SolvedFleet]
    alone: Mapping[str, SolvedFleet]
    usd: float = math.inf  # of all hours that the services run; infinite where no order has fleets for all
    bound_usd: float = 0.0
    broken: Mapping[str, int] = field(default_factory=dict)  # shared limits that the fleets alone break, with hours
    order: tuple[str, ...] = ()  # in which they were planned; empty where each has what it would have alone
    orders: int = 0
    alone_usd: float = math.inf  # of the fleets that each would have for itself
    is_impossible: bool = False  # some hour has no fleets within the limits of all

    @property
    def is_feasible(self) -> bool:
        """Whether each service has a fleet."""
        return math.isfinite(self.usd)


def optimise_fleets(
    problems: Mapping[str, FleetProblem],
    cycles: Mapping[str, float],
    budget_usd: float | None,
    options: SolveOptions,
    until: float | None = None,
) -> SharedFleets:
    """Return the fleets of services by name, which keep the limits of every hour together.

    `cycles`: how many cycles each runs; `budget_usd` is for all hours of all. The order of names changes nothing.
    """
    names = sorted(problems)
    free = {name: replace(problems[name], budget_usd=None) for name in names}
    alone = {name: optimise_fleet(free[name], options, until) for name in names}
    bound = math.fsum(alone[name].bound * cycles[name] for name in names)
    found = SharedFleets(free, alone, alone, bound_usd=bound)
    fleets = _fleets_of(alone)
    if len(fleets) < len(names):
        return found
    broken = broken_limits([(free[name], fleets[name]) for name in names])
    usd = _usd(free, fleets, cycles)
    found = replace(found, usd=usd, alone_usd=usd, broken=broken)
    if broken:
        found = _hour_by_hour(_in_turn(found, cycles, options, until), cycles, options, until)
    if budget_usd is None or found.usd <= budget_usd * (1.0 + FLEET_GAP) or found.bound_usd > budget_usd:
        return found
    return _within_budget(found, cycles, budget_usd, options, until) if found.is_feasible else found


def _fleets_of(solved: Mapping[str, SolvedFleet]) -> dict[str, Floats]:
    """Return the fleets of the services that have one."""
    return {name: one.fleets for name, one in solved.items() if one.fleets is not None}


def _usd(problems: Mapping[str, FleetProblem], fleets: Mapping[str, Floats], cycles: Mapping[str, float]) -> float:
    return math.fsum(problems[name].cost(fleets[name]) * cycles[name] for name in sorted(fleets))


def orders_of(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the orders in which services are planned."""
    if len(names) <= MOST_IN_EVERY_ORDER:
        yield from itertools.permutations(names)
        return
    for first in range(len(names)):
        yield (*names[first:], *names[:first])


def _in_turn(
    found: SharedFleets, cycles: Mapping[str, float], options: SolveOptions, until: float | None
) -> SharedFleets:
    """Return the cheapest fleets of all orders; each service has what those before it left."""
    best = replace(found, usd=math.inf)
    known: dict[tuple[str, ...], tuple[FleetProblem, SolvedFleet]] = {}
    orders = list(orders_of(sorted(found.problems)))
    for order in orders:
        planned: dict[str, tuple[FleetProblem, SolvedFleet]] = {}
        for place, name in enumerate(order):
            before = order[: place + 1]
            if before not in known:
                known[before] = _after(found, planned, name, options, until)
            planned[name] = known[before]
            if planned[name][1].fleets is None:
                break
        fleets = _fleets_of({name: one for name, (_, one) in planned.items()})
        usd = _usd(found.problems, fleets, cycles) if len(fleets) == len(order) else math.inf
        if usd < best.usd * (1.0 - FLEET_GAP):
            each = {name: planned[name][1] for name in order}
            best = replace(best, solved=each, usd=usd, order=order)
    return replace(best, orders=len(orders))


def _hour_by_hour(
    found: SharedFleets, cycles: Mapping[str, float], options: SolveOptions, until: float | None
) -> SharedFleets:
    """Return the fleets with a closer bound, and better ones where the best fleets of single hours lead to them."""
    if has_passed(until):
        return _amid_others(found)
    known = {name: [fleets] for name, fleets in _fleets_of(found.alone).items()}
    if found.is_feasible:
        known = {name: [*known[name], fleets] for name, fleets in _fleets_of(found.solved).items()}
    joint = joint_hours(found.problems, known, cycles, options, until)
    found = replace(found, bound_usd=max(found.bound_usd, joint.bound_usd), is_impossible=joint.is_impossible)
    starts = [_fleets_of(found.solved)] if found.is_feasible else []
    if joint.fleets is not None and _keeps_loads(found, joint.fleets):
        starts.append(dict(joint.fleets))
    for start in starts:
        solved = _improved(found, start, cycles, options, until)
        usd = _usd(found.problems, _fleets_of(solved), cycles)
        if usd < found.usd * (1.0 - FLEET_GAP):
            found = replace(found, solved=solved, usd=usd)
    return _amid_others(found)


def _keeps_loads(found: SharedFleets, fleets: Mapping[str, Floats]) -> bool:
    """Return whether fleets of single hours are fleets of the services: of as many hours, each carrying its load."""
    return all(
        len(fleets[name]) == problem.hours
        and problem.keeps_kinds(fleets[name])
        and bool(np.all(np.diag(problem.fits(fleets[name], np.arange(problem.hours)))))
        for name, problem in found.problems.items()
    )


def _improved(
    found: SharedFleets, start: Mapping[str, Floats], cycles: Mapping[str, float], options: SolveOptions,
    until: float | None,
) -> dict[str, SolvedFleet]:  # fmt: skip
    """Return fleets of which each is planned again with what the others leave, as long as dollars fall."""
    solved = {name: replace(found.alone[name], fleets=fleets) for name, fleets in start.items()}
    for _ in range(MOST_TURNS):
        before = _usd(found.problems, _fleets_of(solved), cycles)
        for name in sorted(solved):
            problem = _amid(replace(found, solved=solved), name)
            other, own = optimise_fleet(problem, options, until), solved[name].fleets
            if other.fleets is not None and own is not None and problem.cost(other.fleets) < problem.cost(own):
                solved[name] = replace(other, kept=found.alone[name].kept)
        if _usd(found.problems, _fleets_of(solved), cycles) >= before * (1.0 - FLEET_GAP) or has_passed(until):
            break
    return solved


def _amid_others(found: SharedFleets) -> SharedFleets:
    """Return the fleets, with what all others leave in the problem of each service."""
    if not found.is_feasible:
        return found
    return replace(found, problems={name: _amid(found, name) for name in found.problems})


def _after(
    found: SharedFleets,
    planned: Mapping[str, tuple[FleetProblem, SolvedFleet]],
    name: str,
    options: SolveOptions,
    until: float | None,
) -> tuple[FleetProblem, SolvedFleet]:
    """Return a service with what is left by those that are planned: its fleet alone, if that fits."""
    takers = [(problem, one.fleets) for problem, one in planned.values() if one.fleets is not None]
    own, free = found.alone[name], found.problems[name]
    assert own.fleets is not None
    if not takers or not broken_limits([*takers, (free, own.fleets)]):
        return free, own
    problem = with_room(free, takers)
    return problem, optimise_fleet(problem, options, until)


def _amid(found: SharedFleets, name: str) -> FleetProblem:
    """Return the problem of a service with what all others leave."""
    others = sorted(other for other in found.solved if other != name)
    fleets = _fleets_of(found.solved)
    takers = [(found.problems[other], fleets[other]) for other in others if other in fleets]
    return with_room(found.problems[name], takers)


def _within_budget(
    found: SharedFleets, cycles: Mapping[str, float], budget_usd: float, options: SolveOptions, until: float | None
) -> SharedFleets:
    """Return fleets within a budget that lies between bound and dollars: each is searched on with what others leave.

    Infinite dollars where none are found.
    """
    solved, usd = dict(found.solved), found.usd
    for name in sorted(solved):
        fleets = solved[name].fleets
        assert fleets is not None
        own = found.problems[name].cost(fleets)
        left = (budget_usd - usd) / cycles[name] + own
        other = optimise_fleet(replace(_amid(replace(found, solved=solved), name), budget_usd=left), options, until)
        if other.fleets is not None:
            solved[name] = other
            usd += (found.problems[name].cost(other.fleets) - own) * cycles[name]
            return replace(found, solved=solved, usd=usd)
    return found


def sharing_notes(found: SharedFleets, market: Market) -> tuple[str, ...]:
    """Return which limits the services share in the plan, and how they were planned."""
    if not found.broken:
        return ()
    names = ", ".join(limit_words(limit, market) for limit in found.broken)
    order = f" ({' before '.join(found.order)} costs least)" if found.order else ""
    return (f"{SHARING}{names}: planned in turn{order}, each with what the others leave",)


def limit_words(limit: str, market: Market) -> str:
    """Return a shared limit in words."""
    what, _, number = limit.partition(" ")
    if what == "stock":
        return f"the stock of {market.labels[int(number)]}"
    return f"the quota of {market.providers[int(number)]}" if what == "quota" else f"limits.{what}"


def explain_shared(scenario: Scenario, found: SharedFleets) -> Infeasible:
    """Return what services that each have a fleet alone need to have them together."""
    hours = max(job.for_hours for job in services_of(scenario))
    if found.is_feasible:
        more = math.ceil(found.usd)
        change = Relaxation(
            limit="limits.budget_usd", **{"from": scenario.limits.budget_usd, "to": float(more)},
            then=f"${found.usd:,.2f} for all services", cost_usd=found.usd, hours=hours,
            setting=f"limits.budget_usd={more}",
        )  # fmt: skip
        return Infeasible(relax=(change,))
    takers = [(found.problems[name], fleets) for name, fleets in _fleets_of(found.alone).items()]
    peaks, name = most_used(takers), next(iter(found.broken))
    limit = peak_limit_at(f"limits.{name}")
    if len(found.broken) > 1 or limit is None:
        return Infeasible()
    most = limit.rounded_up(peaks[name])
    change = Relaxation(
        limit=limit.path, **{"from": limit.value(scenario.limits), "to": most},
        then=f"${found.alone_usd:,.2f} for all services", cost_usd=found.alone_usd, hours=hours,
        setting=f"{limit.path}={most:.10g}",
    )  # fmt: skip
    return Infeasible(relax=(change,))
