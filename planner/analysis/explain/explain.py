"""Explain a scenario: what binds, what moving it is worth, what else there was, why not X, why nothing."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.explain.baseline import Baseline
from planner.analysis.explain.limit_sensitivity import limit_sensitivities
from planner.analysis.explain.why_not import why_not as answer_to
from planner.analysis.explain.why_not_query import parse_query
from planner.candidate_table import ON_DEMAND
from planner.results.explanation import Explanation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import find_best_alternatives
from planner.solving.binding_limits import find_binding_limits
from planner.solving.infeasibility.diagnosis import minimal_relaxations
from planner.solving.infeasibility.near_misses import find_near_misses
from planner.solving.infeasibility.relaxed_candidates import relax_candidates
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.resolve import ResolvedPlan, try_solve
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from planner.library.schema import Library


def explain(
    scenario: Scenario, why_not: str | None = None, options: SolveOptions | None = None, library: Library | None = None
) -> Explanation:
    """Why the plan of a scenario is as it is, or why there is none.

    `why_not` asks about one way: `gpu=RTX4090,method=full` (job, gpu, gpus, provider, region, instance, offer, market
    and the techniques of a job); then only that is answered beside the plan.
    Raises ScenarioError on a wish that names what is not known, LibraryError and SolverError as `solve` does,
    NoPlanError where the search stopped at a limit of `options` with nothing in hand.
    """
    started = perf_counter()
    prepared = prepare(scenario, library)
    wish = parse_query(why_not, scenario, prepared.library) if why_not is not None else None
    trial = try_solve(prepared, options or SolveOptions())
    told = _head(prepared, trial)
    if wish is not None:
        told = told.model_copy(update={"why_not": answer_to(prepared, trial, wish)})
    else:
        told = told.model_copy(update=_no_plan(prepared) if trial is None else _plan(prepared, trial))
    return told.model_copy(update={"seconds": perf_counter() - started})


def _head(prepared: PreparedScenario, trial: ResolvedPlan | None) -> Explanation:
    scenario = prepared.scenario
    if trial is None:
        return Explanation(scenario=scenario.name, status="infeasible", objective=scenario.objective_kind)
    return Explanation(
        compared_by=CandidateObjective.of(scenario).formula,
        scenario=scenario.name,
        status="optimal" if trial.proven else "feasible",
        objective=scenario.objective_kind,
        plan=trial.description,
        cost_usd=trial.cost_usd,
        hours=trial.hours,
        notes=_notes(trial),
    )


def _notes(trial: ResolvedPlan) -> tuple[str, ...]:
    """Jobs that run on spot alone: there no hours are certain."""
    names = trial.chosen.jobs
    alone = [names[row] for row in np.flatnonzero(np.isnan(trial.chosen.run_h[:, ON_DEMAND]))]
    whose = f" for {', '.join(alone)}" if alone and len(names) > 1 else ""
    said = f"spot only{whose}, without fallback on demand: hours and deadlines are expectations"
    return (said,) if alone else ()


def _no_plan(prepared: PreparedScenario) -> dict[str, object]:
    wide = relax_candidates(prepared.scenario, prepared.market, prepared.candidates, prepared.library)
    ways = minimal_relaxations(prepared, wide)
    return {"relax": tuple(entry for way in ways for entry in way), "nearest": find_near_misses(prepared, wide)}


def _plan(prepared: PreparedScenario, trial: ResolvedPlan) -> dict[str, object]:
    wide = relax_candidates(prepared.scenario, prepared.market, prepared.candidates, prepared.library)
    now = Baseline(prepared, trial, wide)
    binding = find_binding_limits(trial)
    return {
        "binding": binding,
        "next_steps": limit_sensitivities(now, binding),
        "alternatives": find_best_alternatives(trial),
    }
