"""Explain a scenario: which limits bind, what else was there, why not X, or why there is no plan."""

from __future__ import annotations

import datetime
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.explain.limit_sensitivity import Baseline, limit_sensitivities
from planner.analysis.explain.price_history import past_costs
from planner.analysis.explain.why_not import answer_query
from planner.analysis.explain.why_not_query import parse_query
from planner.candidate_table import ON_DEMAND
from planner.errors import Fault, ScenarioError, raise_faults
from planner.results.explanation import Explanation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.scenario.serving.job import ServeJob
from planner.solving.alternatives import find_best_alternatives
from planner.solving.binding_limits import find_binding_limits
from planner.solving.further_ways import without_demand
from planner.solving.infeasibility.diagnosis import diagnose
from planner.solving.infeasibility.relaxed_candidates import relax_candidates
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.resolve import ResolvedPlan, try_solve
from planner.solving.scoring import CandidateObjective
from planner.solving.sharing import takes_turns
from planner.solving.solve import find_cut_samples, lack_of_ways

if TYPE_CHECKING:
    from planner.library.schema import Library


def explain(
    scenario: Scenario, why_not: str | None = None, options: SolveOptions | None = None, library: Library | None = None
) -> Explanation:
    """Explain why the plan of a scenario is as it is, or why there is none.

    Parameters
    ----------
    why_not
        An alternative such as `gpu=RTX4090,method=full`: then only this question is answered, next to the plan.
        Keys are job, gpu, gpus, provider, region, instance, offer, market and the techniques of a job.
    options
        The solver and its limits.
    library
        Cards and coefficients; the shipped ones if None.

    Raises
    ------
    ScenarioError
        For a `why_not` that names something unknown.
    NoPlanError
        If the search stops at a limit of `options` without a plan.
    LibraryError, SolverError
        As `solve` does.
    """
    started = perf_counter()
    scenario = scenario.on_day(options.as_of if options else None)
    if any(isinstance(job, ServeJob) for job in scenario.jobs):
        if not all(isinstance(job, ServeJob) for job in scenario.jobs):
            from planner.analysis.explain.together import explain_together

            return explain_together(scenario, why_not, options, library, explain)
        from planner.analysis.explain.service import explain_service  # loads the modules of fleets

        return explain_service(scenario, why_not, options, library)
    prepared = prepare(scenario, library)
    if why_not is None and (lack := lack_of_ways(scenario, options, prepared.library)) is not None:
        return _summary(prepared, None).model_copy(update={**dict(lack), "seconds": perf_counter() - started})
    prepared = without_demand(prepared)
    query = parse_query(why_not, scenario, prepared.library) if why_not is not None else None
    if takes_turns(prepared, options or SolveOptions()):
        from planner.analysis.explain.timetable import explain_over_time  # loads CP-SAT

        found = explain_over_time(prepared, query, options or SolveOptions())
        return found.model_copy(update={"seconds": perf_counter() - started})
    if query is not None and query.times:
        what, fix = (
            "asks when a job runs, and these run at once",
            "ask it of jobs that share machines or GPUs and take turns",
        )
        raise_faults([Fault(f"--why-not {why_not}", 0, next(iter(query.times)), what, fix)], ScenarioError)
    plan = try_solve(prepared, options or SolveOptions())
    explanation = _summary(prepared, plan)
    if query is not None:
        details: dict[str, object] = {"why_not": answer_query(prepared, plan, query)}
    else:
        today = (options or SolveOptions()).as_of or datetime.date.today()
        details = dict(diagnose(prepared)) if plan is None else _explain_plan(plan, today)
    return explanation.model_copy(update={**details, "seconds": perf_counter() - started})


def _summary(prepared: PreparedScenario, plan: ResolvedPlan | None) -> Explanation:
    scenario, cut = prepared.scenario, find_cut_samples(prepared)
    if plan is None:
        return Explanation(scenario=scenario.name, status="infeasible", objective=scenario.objective_kind, cut=cut)
    return Explanation(
        cut=cut,
        compared_by=CandidateObjective.of(scenario).formula,
        scenario=scenario.name,
        status="optimal" if plan.proven else "feasible",
        objective=scenario.objective_kind,
        plan=plan.description,
        cost_usd=plan.cost_usd,
        hours=plan.hours,
        notes=_notes(plan),
    )


LEAST_DOLLARS_NOTE = "all plans here follow the spot policies of least dollars; solve waits less for at most 1 % more"
"""A note where the plan that `solve` recommends has another policy than the plans that are compared here."""


def _notes(plan: ResolvedPlan) -> tuple[str, ...]:
    """Return notes on jobs that run on spot: no hours are certain on it alone, and no policy here waits less."""
    names = plan.chosen.jobs
    spot_only = [names[row] for row in np.flatnonzero(np.isnan(plan.chosen.run_h[:, ON_DEMAND]))]
    whose = f" for {', '.join(spot_only)}" if spot_only and len(names) > 1 else ""
    note = f"spot only{whose}, without fallback on demand: hours and deadlines are expectations"
    screened = plan.prepared.screened
    follows = any(row in one.rows[list(one.spot)] for one, row in zip(screened, plan.rows, strict=True) if one.spot)
    waits = plan.prepared.scenario.waits_less and follows
    return (*([note] if spot_only else []), *([LEAST_DOLLARS_NOTE] if waits else []))


def _explain_plan(plan: ResolvedPlan, today: datetime.date) -> dict[str, object]:
    binding = find_binding_limits(plan)
    return {
        "binding": binding,
        "next_steps": limit_sensitivities(Baseline(plan, relax_candidates(plan.prepared)), binding),
        "alternatives": find_best_alternatives(plan),
        "past_costs": past_costs(plan, today),
    }
