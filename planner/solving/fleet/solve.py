"""Solve a scenario of services: each one's kinds, its fleet, and an audited plan."""

from __future__ import annotations

import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any

from planner.candidates.fleet.kinds import served_kinds
from planner.candidates.market import build_market
from planner.configurations.replicas.checks import request_faults
from planner.decode.inputs import build_service_inputs
from planner.errors import Fault, ScenarioError, raise_faults
from planner.results.plan import Plan
from planner.results.plan_parts import Hours, Spread
from planner.results.ways.considered import CandidateCounts
from planner.scenario.scenario import MAX_OFFERS
from planner.scenario.serving.job import ServeJob
from planner.solving.fleet.baselines import simple_fleets
from planner.solving.fleet.clock import has_passed, latest_moment
from planner.solving.fleet.optimise import FLEET_GAP, optimise_fleet
from planner.solving.fleet.plan import build_service
from planner.solving.fleet.problem import fleet_problem
from planner.solving.fleet.refusals import explain_none
from planner.solving.fleet.relaxations import looser_latency
from planner.solving.fleet.trial import ServiceTrial

if TYPE_CHECKING:
    from collections import Counter

    from planner.library.schema import Library
    from planner.results.serving.fleet import Service
    from planner.scenario.scenario import Scenario, SolveOptions


def solve_services(
    scenario: Scenario, library: Library, options: SolveOptions, started: float, explains: bool = True
) -> Plan:
    """Return the plan of a scenario with a service, not yet audited; its seconds count from `started`.

    Without `explains` nothing says why there is no plan, or what a looser limit saves: both are solved for.

    Raises ScenarioError for what no engine, GPU or model can do, and for several services.
    """
    until = latest_moment(options)
    _check(scenario, library)
    job = scenario.jobs[0]
    assert isinstance(job, ServeJob)
    as_of = options.as_of or datetime.date.today()
    market = build_market(scenario, library)
    served = served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library)
    problem = fleet_problem(served, market, scenario)
    solved = optimise_fleet(problem, options, until)
    counts = _counts(scenario, len(served.kinds), served.made, solved.kept, served.rejected)
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "solver": options.solver,
        "as_of": as_of.isoformat(),
        "candidates": counts,
    }
    if solved.fleets is None:
        infeasible = explain_none(scenario, served, problem, solved, market, library, options) if explains else None
        return Plan(
            **facts, seconds=perf_counter() - started, status="infeasible", objective=None, bound=None, gap=None,
            cost_usd=None, hours=None, infeasible=infeasible,
        )  # fmt: skip
    simple = () if has_passed(until) else simple_fleets(problem, options)
    service = build_service(served, problem, solved, simple, market, library, as_of)
    if explains and not has_passed(until):
        looser = looser_latency(scenario, ServiceTrial(served, market, problem, solved), library, options)
        service = service.model_copy(update={"looser": looser})
    return Plan(
        **facts,
        seconds=perf_counter() - started,
        **figures((service,)),
        budget_usd=scenario.limits.budget_usd,
        services=(service,),
        warnings=service.notes,
        inputs=build_service_inputs(scenario, (service,)),
    )


def figures(services: tuple[Service, ...]) -> dict[str, Any]:
    """Return the fields of a plan that follow from its services."""
    usd, bound = sum(one.cost_usd for one in services), sum(one.bound_usd for one in services)
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


def _counts(scenario: Scenario, kept: int, made: int, left: int, reasons: Counter[str]) -> CandidateCounts:
    """Return how many kinds there were, and why others are none."""
    outdated = sum(scenario.limits.is_outdated(offer) for offer in scenario.offers)
    return CandidateCounts(
        made=made,
        rejected=sum(reasons.values()),
        dominated=max(0, kept - left),
        offers=len(scenario.offers) - outdated,
        outdated_offers=outdated,
        reasons=dict(reasons.most_common()),
    )


def _check(scenario: Scenario, library: Library) -> None:
    """Raise ScenarioError for what a service cannot be planned with."""
    faults: list[Fault] = []
    if len(scenario.jobs) > 1:
        what = f"{len(scenario.jobs)} services"
        faults.append(Fault(scenario.name, 0, "jobs", what, "plan each service in a scenario of its own"))
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
