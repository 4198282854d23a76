"""Solve a scenario of services: each one's kinds, its fleet, and an audited plan."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from planner.candidates.fleet_kinds import served_kinds
from planner.candidates.market import build_market
from planner.configurations.serving_recipes import request_faults
from planner.decode.plan_inputs import build_service_inputs
from planner.errors import Fault, ScenarioError, raise_faults
from planner.formulation.fleet_problem import cycle_of, in_least_room
from planner.loading.scenario_file import change_scenario
from planner.records import record
from planner.results.plan import Plan
from planner.results.plan_parts import CandidateCounts, Hours, Spread
from planner.scenario.jobs_and_services import service_alone
from planner.scenario.scenario import MAX_OFFERS
from planner.scenario.service_load import ServeJob
from planner.solvers.mathopt import solver_versions
from planner.solving.fleet.fleet_plan import build_service, fleet_problem
from planner.solving.fleet.optimise import FLEET_GAP, optimise_fleet, simple_fleets
from planner.solving.fleet.refine import has_passed, latest_moment
from planner.solving.fleet.refusals import LIMIT_OF_GPUS, ServiceTrial, explain_none, looser_latency
from planner.solving.fleet.several import SharedFleets, explain_shared, optimise_fleets, sharing_notes

if TYPE_CHECKING:
    from planner.candidates.fleet_kinds import ServedKinds
    from planner.candidates.market import Market
    from planner.formulation.fleet_problem import FleetProblem
    from planner.library.schema import Library
    from planner.results.fleet import Service
    from planner.results.plan_parts import Infeasible, Relaxation
    from planner.scenario.scenario import Scenario, SolveOptions


@record(frozen=True)
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
        return {name: cycle_of(self.served[name].job.for_hours, one.hours) for name, one in self.problems.items()}

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
    jobs = [job for job in scenario.jobs if isinstance(job, ServeJob)]
    served = {
        job.name: served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library)
        for job in jobs
    }
    problems = {name: fleet_problem(one, market, scenario) for name, one in served.items()}
    asked = _Asked(scenario, library, options, until, market, served, problems)
    found = _fleets(asked)
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "solver": options.solver,
        "as_of": (options.as_of or datetime.date.today()).isoformat(),
        "candidates": _counts(scenario, served, found),
    }
    budget, unknown = scenario.limits.budget_usd, bool(found.broken) and not (found.is_feasible or found.is_impossible)
    if not found.is_feasible or (budget is not None and found.usd > budget * (1.0 + FLEET_GAP)):
        infeasible = _explained(asked, found) if explains and not unknown else None
        status = "no_plan" if unknown else "infeasible"
        return Plan(
            **facts, seconds=perf_counter() - started, status=status, objective=None, bound=None, gap=None,
            cost_usd=None, hours=None, infeasible=infeasible,
        )  # fmt: skip
    services = tuple(_service(asked, found, job.name, explains) for job in jobs)
    shared = min(found.bound_usd, found.usd) if found.broken else None
    notes = (note for one in services for note in one.notes)
    return Plan(
        **facts,
        seconds=perf_counter() - started,
        **figures(services, shared),
        shared_bound_usd=shared,
        budget_usd=budget,
        services=services,
        warnings=tuple(dict.fromkeys((*sharing_notes(found, market), *notes))),
        inputs=build_service_inputs(scenario, services, solver_versions()),
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
    service = build_service(served, problem, solved, simple, asked.market, asked.library, as_of)
    if not explains or has_passed(asked.until):
        return service
    trial = ServiceTrial(served, asked.market, problem, solved)
    return service.model_copy(update={"looser": looser_latency(asked.alone(name), trial, asked.library, options)})


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
    others = sum(_gpus_needed(asked, found, lacking.get(one), one) for one in found.alone if one != name)
    changes = (_next_to(one, others) if one.limit == LIMIT_OF_GPUS else one for one in first.relax)
    solved = (_solved_together(asked, one) for one in changes)
    relax = (one.model_copy(update={"way": way}) for way, one in enumerate(filter(None, solved), 1))
    return first.model_copy(update={"relax": tuple(relax)})


def _gpus_needed(asked: _Asked, found: SharedFleets, lacking: Infeasible | None, name: str) -> float:
    """Return the GPUs of a service alone in its busiest hour; where the limit leaves it none, those without it."""
    fleets = found.alone[name].fleets
    if fleets is not None:
        return float((fleets @ asked.problems[name].gpus).max())
    relax = lacking.relax if lacking is not None else ()
    return sum(one.change_to for one in relax if one.limit == LIMIT_OF_GPUS and isinstance(one.change_to, float))


def _next_to(change: Relaxation, others: float) -> Relaxation:
    """Return a limit on GPUs that leaves room for a service and for the others."""
    most = others + (change.change_to if isinstance(change.change_to, float) else 0.0)
    return change.model_copy(update={"change_to": most, "setting": f"{LIMIT_OF_GPUS}={most:g}"})


def _solved_together(asked: _Asked, change: Relaxation) -> Relaxation | None:
    """Return a change with the dollars of all services, which are solved with it; None where it does not suffice."""
    try:
        scenario = change_scenario(asked.scenario, [change.setting or f"{change.limit}=null"])
    except ScenarioError:  # a limit that cannot be left out
        return None
    plan = solve_services(scenario, asked.library, asked.options, perf_counter(), explains=False)
    if plan.cost_usd is None:
        return None
    usd = plan.cost_usd.expected
    return change.model_copy(update={"then": f"${usd:,.2f} for all services", "cost_usd": usd})


def figures(services: tuple[Service, ...], shared_bound_usd: float | None = None) -> dict[str, Any]:
    """Return the fields of a plan that follow from its services, with the bound of those that share a limit."""
    usd = sum(one.cost_usd for one in services)
    bound = sum(one.bound_usd for one in services) if shared_bound_usd is None else min(shared_bound_usd, usd)
    gap = max(0.0, usd - bound) / max(usd, 1e-9)
    hours = max(one.for_hours for one in services)
    return {
        "status": "optimal" if gap <= FLEET_GAP else "feasible",
        "objective": usd,
        "bound": bound,
        "gap": gap,
        "cost_usd": Spread(expected=usd, low=usd, high=usd),
        "cost_at_confidence": usd,
        "hours": Hours(expected=hours, low=hours, high=hours, at_confidence=hours),
        "price_age_days": max((one.price_age_days for one in services if one.price_age_days is not None), default=None),
    }


def _counts(scenario: Scenario, served: dict[str, ServedKinds], found: SharedFleets) -> CandidateCounts:
    """Return how many kinds there were, and why others are none; of several services added up."""
    reasons: Counter[str] = sum((one.rejected for one in served.values()), Counter())
    outdated = sum(scenario.limits.is_outdated(offer) for offer in scenario.offers)
    return CandidateCounts(
        made=sum(one.made for one in served.values()),
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
    for job in scenario.jobs:
        if isinstance(job, ServeJob):
            cards = [library.gpu(offer.card) for offer in scenario.offers if offer.rents_gpus]
            unique = list({card.name: card for card in cards}.values())
            faults += request_faults(job, library.architecture(job.architecture), unique)
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
