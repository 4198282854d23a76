"""From a scenario to an audited plan: the order of the steps, nothing else."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.audit.audit import audit
from planner.candidate_table import CandidateTable, concatenate
from planner.candidates.screening import screen
from planner.configurations.recipe import is_allowed
from planner.decode.assignment import build_assignment
from planner.decode.bill import ChosenCandidate
from planner.decode.probability import budget_probability
from planner.errors import PlannerError
from planner.results.plan import Assignment, CandidateCounts, Hours, Plan, Spread, Status
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solvers.base import Termination
from planner.solving.alternatives import best_by_method, describe_spot_outlier, find_binding_limits, find_runners_up
from planner.solving.optimise import OptimisedChoice, optimise
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.scoring import Objective

if TYPE_CHECKING:
    from planner.candidates.job_candidates import JobCandidates
    from planner.library.schema import Library

PARALLEL_JOBS_NOTE = "jobs never take turns on a machine; methods and limits are per job"
"""What several jobs in one plan should be told."""


class AuditError(PlannerError):
    """Our own fault: a plan that the independent audit does not confirm."""


def solve(scenario: Scenario, options: SolveOptions | None = None, library: Library | None = None) -> Plan:
    """The cheapest (or fastest) plan that keeps every limit, proven and audited.

    Raises ScenarioError or LibraryError on bad input, SolverError where the solver broke, AuditError where the
    plan does not stand up to its audit; an infeasible scenario is a Plan with that status and its explanation.
    """
    started = perf_counter()
    return solve_prepared(prepare(scenario, library), options, started)


def solve_prepared(
    prepared: PreparedScenario, options: SolveOptions | None = None, started: float | None = None
) -> Plan:
    """The same from what is prepared already; `started` is when the seconds that the plan tells begin."""
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
    # A solver whose verdict holds only on its own grid proves nothing here, and the status says so.
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
    candidates, screened, market = prepared.candidates[index], prepared.screened[index], prepared.market
    limits, library = prepared.scenario.limits, prepared.library
    measure = Objective.of(prepared.scenario)
    mine = int(solved.owner[row])
    uncut = int(screened.rows[mine])
    figures = screened.table.rows(np.asarray([mine]))
    chosen = ChosenCandidate(uncut, share, bool(screened.rounded[mine]), figures, screened.spot.get(mine))
    made = build_assignment(candidates, chosen, market, limits, library, as_of)
    return made.model_copy(
        update={
            "ladder": best_by_method(
                candidates, _with_excluded_methods(candidates, screened.table, prepared), market, measure
            ),
            "runner_up": find_runners_up(screened, mine, share, market, library, measure),
            "compared_by": measure.formula,
            "notes": (
                *describe_spot_outlier(screened, int(candidates.table.offer[uncut]), share, market, measure),
                *made.notes,
            ),
            "binding": find_binding_limits(candidates, screened, market, limits, library, measure),
        }
    )


def _with_excluded_methods(
    candidates: JobCandidates, table: CandidateTable, prepared: PreparedScenario
) -> CandidateTable:
    """The screened rows, and those that only their method keeps out: the ladder prices them too."""
    recipes, job = candidates.recipes, candidates.job
    excluded = np.asarray([not is_allowed(recipe, job) for recipe in recipes], dtype=bool)
    if not excluded.any():
        return table
    others = candidates.rows(excluded[candidates.table.recipe])
    limits, library = prepared.scenario.limits, prepared.library
    waiting = Objective.of(prepared.scenario).waiting_usd
    return concatenate([table, screen(others, prepared.market, limits, library, False, waiting).table])


def _plan_without_solution(
    prepared: PreparedScenario,
    status: Status,
    options: SolveOptions,
    as_of: datetime.date,
    seconds: float,
    dominated: int = 0,
) -> Plan:
    from planner.solving.infeasibility.diagnosis import diagnose  # many modules that a plan does not need

    explained = diagnose(prepared.scenario, prepared.market, prepared.candidates, prepared.library)
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
        infeasible=explained if status == "infeasible" else None,
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


__all__ = ["AuditError", "PreparedScenario", "prepare", "solve", "solve_prepared"]
