"""Solve a scenario of services, alone or with jobs on one budget: kinds, fleets, and an audited plan.

Several services may share stock, quotas, GPUs, dollars per hour and a budget. Each is planned alone first. Where the
fleets together break a shared limit in some hour, services are planned in turn, each with what those before it left of
every hour; the cheapest order is kept. Then each is planned once more with what the others leave, beginning with the
best fleets of single hours. The sum of the bounds of the services alone holds for all of them together: what one has
for itself costs no more. Hours of all services together give a closer one.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import generation
from planner.arrays import Floats
from planner.candidates.market import Market, build_market
from planner.errors import Fault, ScenarioError, raise_faults
from planner.formulation.solvers import solver_versions
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.fleet import Service
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import CandidateCounts, Hours, Infeasible, Relaxation, Spread
from planner.results.service_results import SHARING, services_bound_usd
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import given_peaks, peak_limit_at
from planner.scenario.scenario import MAX_OFFERS, Scenario, SolveOptions, ends_before
from planner.services.fleet_kinds import ServedKinds, served_kinds
from planner.services.fleet_optimise import FLEET_GAP, SolvedFleet, optimise_fleet, simple_fleets
from planner.services.fleet_plan import FoundFleet, build_service, fleet_problem, secure_fleet, with_paying_loads
from planner.services.fleet_problem import (
    FleetProblem,
    broken_limits,
    cycle_of,
    in_least_room,
    most_used,
    service_alone,
    services_alone,
    services_of,
    with_room,
    without_services,
)
from planner.services.fleet_program import has_passed, joint_hours, latest_moment
from planner.services.service_reasons import ServiceTrial, explain_none, looser_latency
from planner.solving.chosen import build_inputs
from planner.solving.prepare import check_is_definite, prepare
from planner.solving.solve import solve_prepared
from planner.watch import WHY_NONE, finishing, if_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    shared = SharedFleets(free, alone, alone, bound_usd=bound)
    fleets = _fleets_of(alone)
    if len(fleets) < len(names):
        return shared
    broken = broken_limits([(free[name], fleets[name]) for name in names])
    usd = _usd(free, fleets, cycles)
    shared = replace(shared, usd=usd, alone_usd=usd, broken=broken)
    if broken:
        shared = _hour_by_hour(_in_turn(shared, cycles, options, until), cycles, options, until)
    if budget_usd is None or shared.usd <= budget_usd * (1.0 + FLEET_GAP) or shared.bound_usd > budget_usd:
        return shared
    return _within_budget(shared, cycles, budget_usd, options, until) if shared.is_feasible else shared


def _fleets_of(solved: Mapping[str, SolvedFleet]) -> dict[str, Floats]:
    """Return the fleets of the services that have one."""
    return {name: fleet.fleets for name, fleet in solved.items() if fleet.fleets is not None}


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
    shared: SharedFleets, cycles: Mapping[str, float], options: SolveOptions, until: float | None
) -> SharedFleets:
    """Return the cheapest fleets of all orders; each service has what those before it left."""
    best = replace(shared, usd=math.inf)
    known: dict[tuple[str, ...], tuple[FleetProblem, SolvedFleet]] = {}
    orders = list(orders_of(sorted(shared.problems)))
    for order in orders:
        planned: dict[str, tuple[FleetProblem, SolvedFleet]] = {}
        for place, name in enumerate(order):
            before = order[: place + 1]
            if before not in known:
                known[before] = _after(shared, planned, name, options, until)
            planned[name] = known[before]
            if planned[name][1].fleets is None:
                break
        fleets = _fleets_of({name: fleet for name, (_, fleet) in planned.items()})
        usd = _usd(shared.problems, fleets, cycles) if len(fleets) == len(order) else math.inf
        if usd < best.usd * (1.0 - FLEET_GAP):
            in_order = {name: planned[name][1] for name in order}
            best = replace(best, solved=in_order, usd=usd, order=order)
    return replace(best, orders=len(orders))


def _hour_by_hour(
    shared: SharedFleets, cycles: Mapping[str, float], options: SolveOptions, until: float | None
) -> SharedFleets:
    """Return the fleets with a closer bound, and better ones where the best fleets of single hours lead to them."""
    if has_passed(until):
        return _amid_others(shared)
    known = {name: [fleets] for name, fleets in _fleets_of(shared.alone).items()}
    if shared.is_feasible:
        known = {name: [*known[name], fleets] for name, fleets in _fleets_of(shared.solved).items()}
    joint = joint_hours(shared.problems, known, cycles, options, until)
    shared = replace(shared, bound_usd=max(shared.bound_usd, joint.bound_usd), is_impossible=joint.is_impossible)
    starts = [_fleets_of(shared.solved)] if shared.is_feasible else []
    if joint.fleets is not None and _keeps_loads(shared, joint.fleets):
        starts.append(dict(joint.fleets))
    for start in starts:
        solved = _improved(shared, start, cycles, options, until)
        usd = _usd(shared.problems, _fleets_of(solved), cycles)
        if usd < shared.usd * (1.0 - FLEET_GAP):
            shared = replace(shared, solved=solved, usd=usd)
    return _amid_others(shared)


def _keeps_loads(shared: SharedFleets, fleets: Mapping[str, Floats]) -> bool:
    """Return whether fleets of single hours are fleets of the services: of as many hours, each carrying its load."""
    return all(
        len(fleets[name]) == problem.hours
        and problem.keeps_kinds(fleets[name])
        and bool(np.all(np.diag(problem.fits(fleets[name], np.arange(problem.hours)))))
        for name, problem in shared.problems.items()
    )


def _improved(
    shared: SharedFleets, start: Mapping[str, Floats], cycles: Mapping[str, float], options: SolveOptions,
    until: float | None,
) -> dict[str, SolvedFleet]:  # fmt: skip
    """Return fleets of which each is planned again with what the others leave, as long as dollars fall."""
    solved = {name: replace(shared.alone[name], fleets=fleets) for name, fleets in start.items()}
    for _ in range(MOST_TURNS):
        before = _usd(shared.problems, _fleets_of(solved), cycles)
        for name in sorted(solved):
            problem = _amid(replace(shared, solved=solved), name)
            other, own = optimise_fleet(problem, options, until), solved[name].fleets
            if other.fleets is not None and own is not None and problem.cost(other.fleets) < problem.cost(own):
                solved[name] = replace(other, kept=shared.alone[name].kept)
        if _usd(shared.problems, _fleets_of(solved), cycles) >= before * (1.0 - FLEET_GAP) or has_passed(until):
            break
    return solved


def _amid_others(shared: SharedFleets) -> SharedFleets:
    """Return the fleets, with what all others leave in the problem of each service."""
    if not shared.is_feasible:
        return shared
    return replace(shared, problems={name: _amid(shared, name) for name in shared.problems})


def _after(
    shared: SharedFleets,
    planned: Mapping[str, tuple[FleetProblem, SolvedFleet]],
    name: str,
    options: SolveOptions,
    until: float | None,
) -> tuple[FleetProblem, SolvedFleet]:
    """Return a service with what is left by those that are planned: its fleet alone, if that fits."""
    takers = [(problem, fleet.fleets) for problem, fleet in planned.values() if fleet.fleets is not None]
    own, free = shared.alone[name], shared.problems[name]
    assert own.fleets is not None
    if not takers or not broken_limits([*takers, (free, own.fleets)]):
        return free, own
    problem = with_room(free, takers)
    return problem, optimise_fleet(problem, options, until)


def _amid(shared: SharedFleets, name: str) -> FleetProblem:
    """Return the problem of a service with what all others leave."""
    others = sorted(other for other in shared.solved if other != name)
    fleets = _fleets_of(shared.solved)
    takers = [(shared.problems[other], fleets[other]) for other in others if other in fleets]
    return with_room(shared.problems[name], takers)


def _within_budget(
    shared: SharedFleets, cycles: Mapping[str, float], budget_usd: float, options: SolveOptions, until: float | None
) -> SharedFleets:
    """Return fleets within a budget that lies between bound and dollars: each is searched on with what others leave.

    Infinite dollars where none are found.
    """
    solved, usd = dict(shared.solved), shared.usd
    for name in sorted(solved):
        fleets = solved[name].fleets
        assert fleets is not None
        own = shared.problems[name].cost(fleets)
        left = (budget_usd - usd) / cycles[name] + own
        other = optimise_fleet(replace(_amid(replace(shared, solved=solved), name), budget_usd=left), options, until)
        if other.fleets is not None:
            solved[name] = other
            usd += (shared.problems[name].cost(other.fleets) - own) * cycles[name]
            return replace(shared, solved=solved, usd=usd)
    return shared


def sharing_notes(shared: SharedFleets, market: Market) -> tuple[str, ...]:
    """Return which limits the services share in the plan, and how they were planned."""
    if not shared.broken:
        return ()
    names = ", ".join(limit_words(limit, market) for limit in shared.broken)
    order = f" ({' before '.join(shared.order)} costs least)" if shared.order else ""
    return (f"{SHARING}{names}: planned in turn{order}, each with what the others leave",)


def limit_words(limit: str, market: Market) -> str:
    """Return a shared limit in words."""
    family, _, number = limit.partition(" ")
    if family == "stock":
        return f"the stock of {market.labels[int(number)]}"
    return f"the quota of {market.providers[int(number)]}" if family == "quota" else f"limits.{family}"


def explain_shared(scenario: Scenario, shared: SharedFleets) -> Infeasible:
    """Return what services that each have a fleet alone need to have them together."""
    hours = max(job.for_hours for job in services_of(scenario))
    if shared.is_feasible:
        more = math.ceil(shared.usd)
        change = Relaxation(
            limit="limits.budget_usd", **{"from": scenario.limits.budget_usd, "to": float(more)},
            then=f"${shared.usd:,.2f} for all services", cost_usd=shared.usd, hours=hours,
            setting=f"limits.budget_usd={more}",
        )  # fmt: skip
        return Infeasible(relax=(change,))
    takers = [(shared.problems[name], fleets) for name, fleets in _fleets_of(shared.alone).items()]
    peaks, name = most_used(takers), next(iter(shared.broken))
    limit = peak_limit_at(f"limits.{name}")
    if len(shared.broken) > 1 or limit is None:
        return Infeasible()
    most = limit.rounded_up(peaks[name])
    change = Relaxation(
        limit=limit.path, **{"from": limit.value(scenario.limits), "to": most},
        then=f"${shared.alone_usd:,.2f} for all services", cost_usd=shared.alone_usd, hours=hours,
        setting=f"{limit.path}={most:.10g}",
    )  # fmt: skip
    return Infeasible(relax=(change,))


# Solve a scenario of services: each one's kinds, its fleet, and an audited plan.


@dataclass(frozen=True)
class _Asked:
    """What services are planned with, by name."""

    scenario: Scenario
    library: Library
    options: SolveOptions
    until: float | None
    market: Market
    served: dict[str, ServedKinds]
    problems: dict[str, FleetProblem]

    @property
    def cycles(self) -> dict[str, float]:
        """How many cycles each service runs."""
        return {
            name: cycle_of(self.served[name].job.for_hours, problem.hours) for name, problem in self.problems.items()
        }

    def alone(self, name: str) -> Scenario:
        """Return the scenario with one service alone."""
        return service_alone(self.scenario, name)


def solve_services(
    scenario: Scenario, library: Library, options: SolveOptions, started: float, explains: bool = True
) -> Plan:
    """Return the plan of a scenario with services alone, not yet audited; its seconds count from `started`.

    Without `explains` nothing says why there is no plan, or what a looser limit saves: both are solved for.

    Raises ScenarioError for what no engine, GPU or model can do.
    """
    until = latest_moment(options)
    _check(scenario, library)
    market = build_market(scenario, library)
    jobs = list(services_of(scenario))
    served = {
        job.name: served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library)
        for job in jobs
    }
    problems = {name: fleet_problem(kinds, market, scenario) for name, kinds in served.items()}
    asked = _Asked(scenario, library, options, until, market, served, problems)
    with finishing():  # the search has its own limit, and what it finds by then is the plan
        shared = _fleets(asked)
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "solver": options.solver,
        "as_of": (options.as_of or datetime.date.today()).isoformat(),
        "candidates": _counts(scenario, served, shared),
    }
    budget, unknown = (
        scenario.limits.budget_usd,
        bool(shared.broken) and not (shared.is_feasible or shared.is_impossible),
    )
    if not shared.is_feasible or (budget is not None and shared.usd > budget * (1.0 + FLEET_GAP)):
        infeasible = if_time(WHY_NONE, lambda: _explained(asked, shared), None) if explains and not unknown else None
        status = "no_plan" if unknown else "infeasible"
        return Plan(
            **facts, seconds=perf_counter() - started, status=status, objective=None, bound=None, gap=None,
            cost=None, hours=None, infeasible=infeasible,
        )  # fmt: skip
    with finishing():
        services = tuple(_service(asked, shared, job.name, explains) for job in jobs)
    bound_usd = min(shared.bound_usd, shared.usd) if shared.broken else None
    notes = (note for service in services for note in service.notes)
    return Plan(
        **facts,
        seconds=perf_counter() - started,
        **figures(services, bound_usd),
        shared_bound_usd=bound_usd,
        budget_usd=budget,
        services=services,
        warnings=tuple(dict.fromkeys((*sharing_notes(shared, market), *notes))),
        inputs=build_inputs(scenario, services, solver_versions()),
    )


def _fleets(asked: _Asked) -> SharedFleets:
    """Return the fleets of all services; one alone has the whole budget."""
    if len(asked.problems) > 1:
        budget = asked.scenario.limits.budget_usd
        return optimise_fleets(asked.problems, asked.cycles, budget, asked.options, asked.until)
    ((name, problem),) = asked.problems.items()
    solved = optimise_fleet(problem, asked.options, asked.until)
    usd = math.inf if solved.fleets is None else problem.cost(solved.fleets) * asked.cycles[name]
    return SharedFleets(asked.problems, {name: solved}, {name: solved}, usd)


def _service(asked: _Asked, shared: SharedFleets, name: str, explains: bool) -> Service:
    """Return what the plan says of one service; its bound is that of the service alone."""
    served, problem, options = asked.served[name], shared.problems[name], asked.options
    solved = replace(shared.solved[name], bound=shared.alone[name].bound)
    simple = () if has_passed(asked.until) else simple_fleets(in_least_room(problem), options)
    as_of = options.as_of or datetime.date.today()
    chosen = FoundFleet(problem, solved, simple)
    service = build_service(served, chosen, asked.market, asked.scenario, asked.library, as_of)
    if not explains or has_passed(asked.until):
        return service
    other = partial(secure_fleet, served, chosen, asked.market, options, asked.until)
    secure = if_time("what secure machines cost", other, None)
    service = service.model_copy(update={"fleet": service.fleet.model_copy(update={"secure": secure})})
    pays = partial(with_paying_loads, service, served, problem, asked.market, options)
    service = if_time("from which load own machines pay", pays, service)
    trial = ServiceTrial(served, asked.market, problem, solved)
    looser = if_time(
        "what looser targets save", lambda: looser_latency(asked.alone(name), trial, asked.library, options), ()
    )
    return service.model_copy(update={"looser": looser})


def _explained(asked: _Asked, shared: SharedFleets) -> Infeasible:
    """Return what would make a plan possible: of a service that has no fleet alone, else of all together."""
    lacking = {
        name: explain_none(
            asked.alone(name), asked.served[name], asked.problems[name], fleet, asked.market, asked.library,
            asked.options,
        )
        for name, fleet in shared.alone.items()
        if fleet.fleets is None
    }  # fmt: skip
    if not lacking:
        return explain_shared(asked.scenario, shared)
    (name, first), *_ = lacking.items()
    if len(shared.alone) == 1:
        return first
    others = [(lacking.get(other), other) for other in shared.alone if other != name]
    changes = (_next_to(asked, shared, change, others) for change in first.relax)
    solved = (_solved_together(asked, change) for change in changes)
    relax = (fleet.model_copy(update={"way": way}) for way, fleet in enumerate(filter(None, solved), 1))
    return first.model_copy(update={"relax": tuple(relax)})


def _needed(asked: _Asked, shared: SharedFleets, lacking: Infeasible | None, name: str, path: str) -> float:
    """Return what a service alone uses of a limit in its busiest hour; where the limit leaves it none, without it."""
    fleets = shared.alone[name].fleets
    if fleets is not None:
        of_machine = next(peak.each for peak in asked.problems[name].peaks if f"limits.{peak.key}" == path)
        return float((fleets @ of_machine).max())
    relax = lacking.relax if lacking is not None else ()
    return sum(change.change_to for change in relax if change.limit == path and isinstance(change.change_to, float))


def _next_to(
    asked: _Asked, shared: SharedFleets, change: Relaxation, others: Sequence[tuple[Infeasible | None, str]]
) -> Relaxation:
    """Return a limit on what is used at one time that leaves room for a service and for the others."""
    limit = peak_limit_at(change.limit)
    if limit is None or not isinstance(change.change_to, float):
        return change
    needed = sum(_needed(asked, shared, lacking, name, change.limit) for lacking, name in others)
    most = limit.rounded_up(needed + change.change_to)
    return change.model_copy(update={"change_to": most, "setting": f"{change.limit}={most:.10g}"})


def _solved_together(asked: _Asked, change: Relaxation) -> Relaxation | None:
    """Return a change with the dollars of all services, which are solved with it; None where it does not suffice."""
    try:
        scenario = change_scenario(asked.scenario, [change.setting or f"{change.limit}=null"])
    except ScenarioError:  # a limit that cannot be left out
        return None
    plan = solve_services(scenario, asked.library, asked.options, perf_counter(), explains=False)
    if plan.cost is None:
        return None
    usd = plan.cost.expected
    return change.model_copy(update={"then": f"${usd:,.2f} for all services", "cost_usd": usd})


def figures(services: tuple[Service, ...], shared_bound_usd: float | None = None) -> dict[str, Any]:
    """Return the fields of a plan that follow from its services, with the bound of those that share a limit."""
    usd = sum(service.cost_usd for service in services)
    bound = sum(service.bound_usd for service in services) if shared_bound_usd is None else min(shared_bound_usd, usd)
    gap = max(0.0, usd - bound) / max(usd, 1e-9)
    hours = max(service.for_hours for service in services)
    return {
        "status": "optimal" if gap <= FLEET_GAP else "feasible",
        "objective": usd,
        "bound": bound,
        "gap": gap,
        "cost": Spread(expected=usd, low=usd, high=usd),
        "cost_at_confidence": usd,
        "outlay_usd": sum(service.outlay_usd for service in services),
        "hours": Hours(expected=hours, low=hours, high=hours, at_confidence=hours),
        "price_age_days": max(
            (service.price_age_days for service in services if service.price_age_days is not None), default=None
        ),
    }


def _counts(scenario: Scenario, served: dict[str, ServedKinds], shared: SharedFleets) -> CandidateCounts:
    """Return how many kinds there were, and why others are none; of several services added up."""
    reasons: Counter[str] = sum((kinds.rejected for kinds in served.values()), Counter())
    outdated = sum(scenario.limits.is_outdated(offer) for offer in scenario.offers)
    return CandidateCounts(
        made=sum(kinds.made for kinds in served.values()),
        rejected=sum(reasons.values()),
        dominated=sum(
            max(0, len(kinds_of_service.kinds) - shared.alone[name].kept) for name, kinds_of_service in served.items()
        ),
        offers=len(scenario.offers) - outdated,
        outdated_offers=outdated,
        reasons=dict(reasons.most_common()),
    )


def _check(scenario: Scenario, library: Library) -> None:
    """Raise ScenarioError for what a service cannot be planned with."""
    faults: list[Fault] = []
    if len(scenario.offers) > MAX_OFFERS:
        faults.append(Fault(scenario.name, 0, "offers", f"{len(scenario.offers):,} offers are too many", "keep fewer"))
    if scenario.objective != "cost":
        problem = "a service has no last hour to minimise"
        faults.append(Fault(scenario.name, 0, "objective", problem, "leave objective out, or give cost"))
    if scenario.limits.fallbacks:
        problem = "further ways are not supported for kind: serve"
        faults.append(Fault(scenario.name, 0, "limits.fallbacks", problem, "leave it out"))
    if scenario.horizon is not None:
        problem = "machines that are bought are not supported for kind: serve"
        fix = "leave horizon out: a service rents; own machines are offers with own"
        faults.append(Fault(scenario.name, 0, "horizon", problem, fix))
    if scenario.limits.budgets:
        problem = "budgets by period are not supported for kind: serve"
        faults.append(Fault(scenario.name, 0, "limits.budgets", problem, "give budget_usd for the whole service"))
    cards = [library.gpu(offer.card) for offer in scenario.offers if offer.rents_gpus]
    unique = list({card.name: card for card in cards}.values())
    for job in services_of(scenario):
        faults += generation.request_faults(job, library.architecture(job.architecture), unique)
        faults += _share_faults(job, scenario)
    raise_faults(faults, ScenarioError)


def _share_faults(job: ServeJob, scenario: Scenario) -> list[Fault]:
    """Return why no fleet can serve every request in time."""
    latency = job.latency
    if latency.share < 1:
        return []
    if scenario.limits.spot_share.min >= 1:
        problem = "a share of 1 on spot alone: a zone is lost as a whole, and its requests are refused"
        fix = "ask for less, or allow machines on demand (limits.spot_share)"
    elif latency.ttft_seconds is not None or latency.tpot_seconds is not None:
        problem = "a share of 1: requests arrive at random, and no fleet answers each of them in time"
        fix = "ask for less, such as 0.99"
    else:
        return []
    return [Fault(scenario.name, 0, f"jobs.{job.name}.latency.share", problem, fix)]


# A service and other jobs in one scenario: planned one by one, on one budget, and added up.
#
# They share nothing but the budget. So the least dollars of both are the sum of each one's, and what the service does
# not take of the budget is left to the jobs.


_SOLVED = ("optimal", "feasible")


def solve_together(
    scenario: Scenario, library: Library, options: SolveOptions, started: float, explains: bool = True
) -> Plan:
    """Return the plan of a scenario with a service, not yet audited; its seconds count from `started`.

    Without `explains` nothing says why there is no fleet, or what a looser limit saves.

    Raises ScenarioError for what no service can have, and where jobs and service would share more than the budget.
    """
    _joint_check(scenario)
    if len(services_of(scenario)) == len(scenario.jobs):
        return solve_services(scenario, library, options, started, explains)
    check_is_definite(scenario)
    served = solve_services(services_alone(scenario), library, options, started, explains)
    if served.status not in _SOLVED:
        if served.infeasible is None or {change.limit for change in served.infeasible.relax} != {"limits.budget_usd"}:
            return served
        # Solved as the budget for both lets it be solved: a tight budget makes the search go on for longer.
        without = services_alone(_without_budget(scenario))
        usd = math.fsum(
            service.cost_usd for service in solve_services(without, library, options, started, False).services
        )
        return _with_budget(scenario, served, usd, options, started)
    usd = math.fsum(service.cost_usd for service in served.services)
    plan = solve_prepared(prepare(without_services(scenario, usd)), options, started)
    if plan.status not in _SOLVED:
        return _with_budget(scenario, plan, usd, options, started)
    return joined(scenario, plan, served)


def joined(scenario: Scenario, plan: Plan, served: Plan) -> Plan:
    """Return the plan of jobs with the services of another one: dollars and bounds added up, hours until both end."""
    services = tuple(
        service.model_copy(update={"starts_at_hours": _start(scenario, service.name, plan.jobs)})
        for service in served.services
    )
    usd = math.fsum(service.cost_usd for service in services)
    assert plan.objective is not None and plan.cost is not None and plan.hours is not None
    objective = plan.objective + usd
    bound = None if plan.bound is None else plan.bound + services_bound_usd(served)
    ends = max(service.starts_at_hours + service.for_hours for service in services)
    late = plan.cost_at_confidence
    ages = [age for age in (plan.price_age_days, served.price_age_days) if age is not None]
    update: dict[str, Any] = {
        "status": "optimal" if plan.status == served.status == "optimal" else "feasible",
        "objective": objective,
        "bound": bound,
        "gap": None if bound is None else max(0.0, objective - bound) / max(abs(objective), 1e-9),
        "cost": Spread(**{name: figure + usd for name, figure in dict(plan.cost).items()}),
        "cost_at_confidence": None if late is None else late + usd,
        "outlay_usd": plan.outlay_usd + served.outlay_usd,
        "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd + usd,
        "budget_usd": scenario.limits.budget_usd,
        "hours": Hours(**{name: max(figure, ends) for name, figure in dict(plan.hours).items()}),
        "price_age_days": max(ages, default=None),
        "candidates": _joint_counts(plan.candidates, served.candidates),
        "services": services,
        "shared_bound_usd": served.shared_bound_usd,
        "warnings": tuple(dict.fromkeys((*plan.warnings, *served.warnings))),
        "inputs": build_inputs(scenario, (*plan.jobs, *services), solver_versions()),
    }
    return plan.model_copy(update=update)


def _start(scenario: Scenario, name: str, jobs: tuple[Assignment, ...]) -> float:
    """Return the hours until the jobs that a service waits for have ended, at their confidence, and their lags."""
    after = next(job.after for job in scenario.jobs if job.name == name)
    ends = {job.name: job.delay_hours + job.hours.at_confidence for job in jobs}
    return max((ends[wait.job] + wait.lag_hours for wait in after), default=0.0)


def _joint_check(scenario: Scenario) -> None:
    """Raise ScenarioError where jobs and service stand at the same time under limits that they would share."""
    faults: list[Fault] = []
    services = {job.name for job in services_of(scenario)}
    others = {job.name for job in scenario.jobs} - services
    for job in scenario.jobs:
        waits = {wait.job for wait in job.after}
        if waits & services:
            problem = "waits for a service, which does not end"
            fix = (
                "let the service wait for the job" if job.name in others else "let both wait for the same jobs, or none"
            )
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}.after", problem, fix))
        if job.name in others or not others:
            continue
        limits = scenario.limits
        for kept in (limit.path for limit, _ in given_peaks(limits) if limit.stays):
            problem, fix = f"shares {kept} with other jobs", "plan it in a scenario of its own"
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}", problem, fix))
        if others <= ends_before(scenario, job.name):
            continue
        shared = [limit.key for limit, _ in given_peaks(limits) if not limit.stays]
        shared += ["quota"] if limits.quota else []
        shared += ["stock of offers"] if any(offer.stock is not None for offer in scenario.offers) else []
        if shared:
            problem = f"stands next to other jobs, with which it would share {', '.join(shared)}"
            fix = f"let it start after them (after: [{', '.join(sorted(others))}]), or plan it in a scenario of its own"
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}", problem, fix))
    raise_faults(faults, ScenarioError)


def _with_budget(scenario: Scenario, plan: Plan, usd: float, options: SolveOptions, started: float) -> Plan:
    """Return the plan of what has none on one budget; if the budget is why, with the one that suffices for all.

    `usd` is what the services cost.
    """
    budget = scenario.limits.budget_usd
    if budget is None:
        return plan
    other = solve_prepared(prepare(without_services(_without_budget(scenario), 0.0)), options, started)
    if other.status not in _SOLVED or other.cost_at_confidence is None:
        return other
    needed = usd + other.cost_at_confidence
    more = math.ceil(needed)
    change = Relaxation(
        limit="limits.budget_usd", **{"from": budget, "to": float(more)},
        then=f"${needed:,.2f} for the jobs and the service", cost_usd=needed,
        hours=other.hours.expected if other.hours else 0.0, setting=f"limits.budget_usd={more}",
    )  # fmt: skip
    return plan.model_copy(update={"infeasible": Infeasible(relax=(change,)), "budget_usd": budget})


def _without_budget(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"budget_usd": None})})


def _joint_counts(first: CandidateCounts, second: CandidateCounts) -> CandidateCounts:
    """Return the candidates of jobs and service together; the offers are the same."""
    reasons = Counter(first.reasons)
    reasons.update(second.reasons)
    return CandidateCounts(
        made=first.made + second.made,
        rejected=first.rejected + second.rejected,
        dominated=first.dominated + second.dominated,
        offers=first.offers,
        outdated_offers=first.outdated_offers,
        reasons=dict(reasons.most_common()),
    )
