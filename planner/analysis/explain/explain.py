"""Explain a scenario: what binds, what moving it is worth, what else there was, why not X, why nothing."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from planner.analysis.explain.baseline import Now
from planner.analysis.explain.best_alternatives import alternatives
from planner.analysis.explain.limit_sensitivity import bindings, next_steps
from planner.analysis.explain.memory_sensitivity import memory_step
from planner.analysis.explain.why_not import why_not as answer_to
from planner.analysis.explain.why_not_query import read_wish
from planner.candidate_table import ON_DEMAND
from planner.library.schema import Library
from planner.results.explanation import Explanation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.infeasibility.diagnosis import ways_out
from planner.solving.infeasibility.near_misses import nearest
from planner.solving.infeasibility.relaxed_candidates import widened
from planner.solving.prepare import Prepared, prepare
from planner.solving.resolve import Trial, attempt
from planner.solving.scoring import Measure


def explain(
    scenario: Scenario,
    why_not: str | None = None,
    options: SolveOptions | None = None,
    library: Library | None = None,
) -> Explanation:
    """Why the plan of a scenario is as it is, or why there is none.

    `why_not` asks about one way: `gpu=RTX4090,method=full` (job, gpu, gpus, provider, region, instance, offer, market
    and the techniques of a job); then only that is answered beside the plan.
    Raises ScenarioError on a wish that names what is not known, LibraryError and SolverError as `solve` does,
    NoPlanError where the search stopped at a limit of `options` with nothing in hand.
    """
    started = perf_counter()
    prepared = prepare(scenario, library)
    wish = read_wish(why_not, scenario, prepared.library) if why_not is not None else None
    trial = attempt(prepared, options or SolveOptions())
    told = _head(prepared, trial)
    if wish is not None:
        told = told.model_copy(update={"why_not": answer_to(prepared, trial, wish)})
    else:
        told = told.model_copy(update=_no_plan(prepared) if trial is None else _plan(prepared, trial))
    return told.model_copy(update={"seconds": perf_counter() - started})


def _head(prepared: Prepared, trial: Trial | None) -> Explanation:
    scenario = prepared.scenario
    if trial is None:
        return Explanation(scenario=scenario.name, status="infeasible", objective=scenario.objective_kind)
    return Explanation(
        compared_by=Measure.of(scenario).terms,
        scenario=scenario.name,
        status="optimal" if trial.proven else "feasible",
        objective=scenario.objective_kind,
        plan=trial.words,
        cost_usd=trial.cost_usd,
        hours=trial.hours,
        notes=_notes(trial),
    )


def _notes(trial: Trial) -> tuple[str, ...]:
    """Jobs that run on spot alone: there no hours are certain."""
    names = trial.chosen.jobs
    alone = [names[row] for row in np.flatnonzero(np.isnan(trial.chosen.run_h[:, ON_DEMAND]))]
    whose = f" for {', '.join(alone)}" if alone and len(names) > 1 else ""
    said = f"spot only{whose}, without fallback on demand: hours and deadlines are expectations"
    return (said,) if alone else ()


def _no_plan(prepared: Prepared) -> dict[str, object]:
    wide = widened(prepared.scenario, prepared.market, prepared.candidates, prepared.library)
    ways = ways_out(prepared, wide)
    return {"relax": tuple(entry for way in ways for entry in way), "nearest": nearest(prepared, wide)}


def _plan(prepared: Prepared, trial: Trial) -> dict[str, object]:
    wide = widened(prepared.scenario, prepared.market, prepared.candidates, prepared.library)
    now = Now(prepared, trial, wide)
    binding = bindings(now)
    return {
        "binding": binding,
        "next_steps": (*next_steps(now, binding), memory_step(now)),
        "alternatives": alternatives(now),
    }
