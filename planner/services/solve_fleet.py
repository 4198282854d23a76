"""Solve a scenario of services, alone or with jobs on one budget: kinds, fleets, and an audited plan."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.candidates.market import Market, build_market
from planner.decode.chosen import build_inputs
from planner.errors import Fault, ScenarioError, raise_faults
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.fleet import Service
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import CandidateCounts, Hours, Infeasible, Relaxation, Spread
from planner.results.service_results import services_bound_usd
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import given_peaks, peak_limit_at
from planner.scenario.scenario import MAX_OFFERS, Scenario, SolveOptions, ends_before
from planner.services.fleet_kinds import ServedKinds, served_kinds
from planner.services.fleet_optimise import FLEET_GAP, optimise_fleet, simple_fleets
from planner.services.fleet_plan import FoundFleet, build_service, fleet_problem, secure_fleet, with_paying_loads
from planner.services.fleet_problem import (
    FleetProblem,
    cycle_of,
    in_least_room,
    service_alone,
    services_alone,
    services_of,
    without_services,
)
from planner.services.fleet_program import has_passed, latest_moment
from planner.services.fleet_refusals import ServiceTrial, explain_none, looser_latency
from planner.services.shared_fleets import SharedFleets, explain_shared, optimise_fleets, sharing_notes
from planner.solvers.registry import solver_versions
from planner.solving.prepare import check_is_definite, prepare
from planner.solving.solve import solve_prepared
from planner.watch import WHY_NONE, finishing, if_time

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    problems = {name: fleet_problem(one, market, scenario) for name, one in served.items()}
    asked = _Asked(scenario, library, options, until, market, served, problems)
    with finishing():  # the search has its own limit, and what it finds by then is the plan
        found = _fleets(asked)
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "solver": options.solver,
        "as_of": (options.as_of or datetime.date.today()).isoformat(),
        "candidates": _counts(scenario, served, found),
    }
    budget, unknown = scenario.limits.budget_usd, bool(found.broken) and not (found.is_feasible or found.is_impossible)
    if not found.is_feasible or (budget is not None and found.usd > budget * (1.0 + FLEET_GAP)):
        infeasible = if_time(WHY_NONE, lambda: _explained(asked, found), None) if explains and not unknown else None
        status = "no_plan" if unknown else "infeasible"
        return Plan(
            **facts, seconds=perf_counter() - started, status=status, objective=None, bound=None, gap=None,
            cost=None, hours=None, infeasible=infeasible,
        )  # fmt: skip
    with finishing():
        services = tuple(_service(asked, found, job.name, explains) for job in jobs)
    shared = min(found.bound_usd, found.usd) if found.broken else None
    notes = (note for service in services for note in service.notes)
    return Plan(
        **facts,
        seconds=perf_counter() - started,
        **figures(services, shared),
        shared_bound_usd=shared,
        budget_usd=budget,
        services=services,
        warnings=tuple(dict.fromkeys((*sharing_notes(found, market), *notes))),
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


def _service(asked: _Asked, found: SharedFleets, name: str, explains: bool) -> Service:
    """Return what the plan says of one service; its bound is that of the service alone."""
    served, problem, options = asked.served[name], found.problems[name], asked.options
    solved = replace(found.solved[name], bound=found.alone[name].bound)
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


def _explained(asked: _Asked, found: SharedFleets) -> Infeasible:
    """Return what would make a plan possible: of a service that has no fleet alone, else of all together."""
    lacking = {
        name: explain_none(
            asked.alone(name), asked.served[name], asked.problems[name], one, asked.market, asked.library,
            asked.options,
        )
        for name, one in found.alone.items()
        if one.fleets is None
    }  # fmt: skip
    if not lacking:
        return explain_shared(asked.scenario, found)
    (name, first), *_ = lacking.items()
    if len(found.alone) == 1:
        return first
    others = [(lacking.get(other), other) for other in found.alone if other != name]
    changes = (_next_to(asked, found, change, others) for change in first.relax)
    solved = (_solved_together(asked, change) for change in changes)
    relax = (one.model_copy(update={"way": way}) for way, one in enumerate(filter(None, solved), 1))
    return first.model_copy(update={"relax": tuple(relax)})


def _needed(asked: _Asked, found: SharedFleets, lacking: Infeasible | None, name: str, path: str) -> float:
    """Return what a service alone uses of a limit in its busiest hour; where the limit leaves it none, without it."""
    fleets = found.alone[name].fleets
    if fleets is not None:
        each = next(peak.each for peak in asked.problems[name].peaks if f"limits.{peak.key}" == path)
        return float((fleets @ each).max())
    relax = lacking.relax if lacking is not None else ()
    return sum(change.change_to for change in relax if change.limit == path and isinstance(change.change_to, float))


def _next_to(
    asked: _Asked, found: SharedFleets, change: Relaxation, others: Sequence[tuple[Infeasible | None, str]]
) -> Relaxation:
    """Return a limit on what is used at one time that leaves room for a service and for the others."""
    limit = peak_limit_at(change.limit)
    if limit is None or not isinstance(change.change_to, float):
        return change
    needed = sum(_needed(asked, found, lacking, name, change.limit) for lacking, name in others)
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


def _counts(scenario: Scenario, served: dict[str, ServedKinds], found: SharedFleets) -> CandidateCounts:
    """Return how many kinds there were, and why others are none; of several services added up."""
    reasons: Counter[str] = sum((kinds.rejected for kinds in served.values()), Counter())
    outdated = sum(scenario.limits.is_outdated(offer) for offer in scenario.offers)
    return CandidateCounts(
        made=sum(kinds.made for kinds in served.values()),
        rejected=sum(reasons.values()),
        dominated=sum(max(0, len(one.kinds) - found.alone[name].kept) for name, one in served.items()),
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
        what = "a service has no last hour to minimise"
        faults.append(Fault(scenario.name, 0, "objective", what, "leave objective out, or give cost"))
    if scenario.limits.fallbacks:
        what = "further ways are not supported for kind: serve"
        faults.append(Fault(scenario.name, 0, "limits.fallbacks", what, "leave it out"))
    if scenario.horizon is not None:
        what = "machines that are bought are not supported for kind: serve"
        fix = "leave horizon out: a service rents; own machines are offers with own"
        faults.append(Fault(scenario.name, 0, "horizon", what, fix))
    if scenario.limits.budgets:
        what = "budgets by period are not supported for kind: serve"
        faults.append(Fault(scenario.name, 0, "limits.budgets", what, "give budget_usd for the whole service"))
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
        what = "a share of 1 on spot alone: a zone is lost as a whole, and its requests are refused"
        fix = "ask for less, or allow machines on demand (limits.spot_share)"
    elif latency.ttft_seconds is not None or latency.tpot_seconds is not None:
        what = "a share of 1: requests arrive at random, and no fleet answers each of them in time"
        fix = "ask for less, such as 0.99"
    else:
        return []
    return [Fault(scenario.name, 0, f"jobs.{job.name}.latency.share", what, fix)]


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
        "cost": Spread(**{name: each + usd for name, each in dict(plan.cost).items()}),
        "cost_at_confidence": None if late is None else late + usd,
        "outlay_usd": plan.outlay_usd + served.outlay_usd,
        "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd + usd,
        "budget_usd": scenario.limits.budget_usd,
        "hours": Hours(**{name: max(each, ends) for name, each in dict(plan.hours).items()}),
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
            what = "waits for a service, which does not end"
            fix = (
                "let the service wait for the job" if job.name in others else "let both wait for the same jobs, or none"
            )
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}.after", what, fix))
        if job.name in others or not others:
            continue
        limits = scenario.limits
        for kept in (limit.path for limit, _ in given_peaks(limits) if limit.stays):
            what, fix = f"shares {kept} with other jobs", "plan it in a scenario of its own"
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}", what, fix))
        if others <= ends_before(scenario, job.name):
            continue
        shared = [limit.key for limit, _ in given_peaks(limits) if not limit.stays]
        shared += ["quota"] if limits.quota else []
        shared += ["stock of offers"] if any(offer.stock is not None for offer in scenario.offers) else []
        if shared:
            what = f"stands next to other jobs, with which it would share {', '.join(shared)}"
            fix = f"let it start after them (after: [{', '.join(sorted(others))}]), or plan it in a scenario of its own"
            faults.append(Fault(scenario.name, 0, f"jobs.{job.name}", what, fix))
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
