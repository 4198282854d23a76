"""Solve a scenario: from its candidates to an audited plan."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.audit.audit import audit
from planner.decode.assignment import build_assignment
from planner.decode.bill import ChosenCandidate
from planner.decode.probability import budget_probability
from planner.errors import PlannerError
from planner.results.plan import Assignment, CandidateCounts, Hours, Plan, Spread, Status
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solvers.base import Termination
from planner.solving.alternatives import best_by_method, find_runners_up
from planner.solving.binding_limits import describe_binding_limits
from planner.solving.optimise import OptimisedChoice, optimise
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.price_outliers import describe_spot_outlier
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from planner.library.schema import Library

PARALLEL_JOBS_NOTE = "jobs run on separate machines; methods and limits apply per job"
"""A warning of every plan with several jobs."""


class AuditError(PlannerError):
    """A fault of the planner: the independent audit does not confirm a plan."""


def solve(scenario: Scenario, options: SolveOptions | None = None, library: Library | None = None) -> Plan:
    """Return the cheapest (or fastest) plan that keeps every limit, proven and audited.

    An infeasible scenario is a `Plan` with that status and its explanation.

    Raises
    ------
    ScenarioError, LibraryError
        On bad input.
    SolverError
        If the solver breaks down.
    AuditError
        If the audit finds a fault in the plan.
    """
    started = perf_counter()
    return solve_prepared(prepare(scenario, library), options, started)


def solve_prepared(
    prepared: PreparedScenario, options: SolveOptions | None = None, started: float | None = None
) -> Plan:
    """Return the plan of a prepared scenario; the plan's seconds count from `started`."""
    options = options or SolveOptions()
    as_of = options.as_of or datetime.date.today()
    started = perf_counter() if started is None else started
    if all(len(one.table) for one in prepared.screened):
        solved = optimise(prepared, options)
        plan = _plan(prepared, solved, options, as_of, perf_counter() - started)
    else:
        plan = _plan_without_solution(prepared, "infeasible", options, as_of, perf_counter() - started)
    violations = audit(plan, prepared.scenario, prepared.library, asked_gap=options.gap)
    if violations:
        raise AuditError("the plan fails its own audit: " + "; ".join(str(one) for one in violations[:5]))
    return plan


def _plan(
    prepared: PreparedScenario, solved: OptimisedChoice, options: SolveOptions, as_of: datetime.date, seconds: float
) -> Plan:
    first = solved.choice.first
    if solved.choice.chosen is None:
        impossible = first.termination in (Termination.INFEASIBLE, Termination.INFEASIBLE_OR_UNBOUNDED)
        return _plan_without_solution(
            prepared, "infeasible" if impossible else "no_plan", options, as_of, seconds, solved.dominated
        )
    scenario = prepared.scenario
    jobs = tuple(
        _assignment(prepared, solved, index, row, share, as_of)
        for index, (row, share) in enumerate(zip(solved.rows, solved.shares, strict=True))
    )
    # A solver whose result holds only on a grid of shares (CP-SAT) proves no gap: the plan is only `feasible`.
    status: Status = "optimal" if first.is_proven and first.gap is not None else "feasible"
    return Plan(
        scenario=scenario.name,
        status=status,
        objective=first.objective,
        bound=first.bound if first.gap is not None else None,
        gap=first.gap,
        solver=options.solver,
        seconds=seconds,
        as_of=as_of.isoformat(),
        candidates=_counts(prepared, solved.dominated),
        cost_usd=Spread(
            expected=math.fsum(job.cost.expected for job in jobs),
            low=math.fsum(job.cost.low for job in jobs),
            high=math.fsum(job.cost.high for job in jobs),
        ),
        cost_at_confidence=math.fsum(job.cost_at_confidence for job in jobs),
        budget_usd=scenario.limits.budget_usd,
        budget_probability=budget_probability(
            scenario.limits.budget_usd,
            math.fsum(job.cost.expected for job in jobs),
            math.fsum(job.cost_at_confidence for job in jobs),
            min(job.confidence for job in scenario.jobs),
        ),
        hours=Hours(
            expected=max(job.hours.expected for job in jobs),
            low=max(job.hours.low for job in jobs),
            high=max(job.hours.high for job in jobs),
            at_confidence=max(job.hours.at_confidence for job in jobs),
        ),
        jobs=jobs,
        warnings=_warnings(jobs),
    )


def _assignment(
    prepared: PreparedScenario, solved: OptimisedChoice, index: int, row: int, share: float, as_of: datetime.date
) -> Assignment:
    """Return how one job is run: the chosen row of the joined table decoded, with alternatives and binding limits."""
    candidates, screened, market = prepared.candidates[index], prepared.screened[index], prepared.market
    chosen_row = int(solved.owner[row])
    figures = screened.table.rows(np.asarray([chosen_row]))
    is_rounded, spot = bool(screened.rounded[chosen_row]), screened.spot.get(chosen_row)
    chosen = ChosenCandidate(int(screened.rows[chosen_row]), share, is_rounded, figures, spot)
    made = build_assignment(candidates, chosen, market, prepared.scenario.limits, prepared.library, as_of)
    return made.model_copy(
        update={
            "ladder": best_by_method(prepared, index),
            "runner_up": find_runners_up(prepared, index, chosen_row, share),
            "compared_by": CandidateObjective.of(prepared.scenario).formula,
            "notes": (*describe_spot_outlier(prepared, index, chosen_row, share), *made.notes),
            "binding": describe_binding_limits(prepared, index),
        }
    )


def _plan_without_solution(
    prepared: PreparedScenario,
    status: Status,
    options: SolveOptions,
    as_of: datetime.date,
    seconds: float,
    dominated: int = 0,
) -> Plan:
    from planner.solving.infeasibility.diagnosis import diagnose  # loads many modules that a plan does not need

    explained = diagnose(prepared) if status == "infeasible" else None
    return Plan(
        scenario=prepared.scenario.name,
        status=status,
        objective=None,
        bound=None,
        gap=None,
        solver=options.solver,
        seconds=seconds,
        as_of=as_of.isoformat(),
        candidates=_counts(prepared, dominated),
        cost_usd=None,
        hours=None,
        infeasible=explained,
    )


def _counts(prepared: PreparedScenario, dominated: int) -> CandidateCounts:
    reasons: Counter[str] = Counter()
    for candidates, screened in zip(prepared.candidates, prepared.screened, strict=True):
        reasons += candidates.physics.rejected + screened.rejected
    return CandidateCounts(
        made=sum(len(one.table) for one in prepared.candidates),
        rejected=sum(reasons.values()),
        dominated=dominated,
        reasons=dict(reasons.most_common()),
    )


def _warnings(jobs: tuple[Assignment, ...]) -> tuple[str, ...]:
    joint = (PARALLEL_JOBS_NOTE,) if len(jobs) > 1 else ()
    return tuple(dict.fromkeys((*joint, *(note for job in jobs for note in job.notes))))
