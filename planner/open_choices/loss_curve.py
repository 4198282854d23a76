"""Loss against dollars: for each of several budgets the model with the least loss."""

from __future__ import annotations

import datetime
import math
from time import perf_counter

from planner.errors import Fault, ScenarioError
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.building import Question, as_scenario
from planner.open_choices.choice_alternatives import best_of
from planner.open_choices.decision import SPREAD_NOTE, without_waste
from planner.open_choices.open_solve import open_alternatives
from planner.results.chosen_model import LossFrontier, LossPoint
from planner.results.frontier import describe_assignment
from planner.scenario.open_job import OwnLaw
from planner.scenario.scenario import SolveOptions, architectures_of, open_job
from planner.solving.solve import solve_prepared

LEAST_SHARE = 1 / 32
"""Smallest budget of the frontier, over that of the scenario."""
MOST_POINTS = 11
"""Budgets: two per doubling."""


def loss_frontier(
    scenario: Question, options: SolveOptions | None = None, library: Library | None = None, points: int = MOST_POINTS
) -> LossFrontier:
    """Return the least loss for budgets up to that of the scenario, each proven over all models and machines.

    Budgets fall by a square root of two, down to a 32nd. Those that do not pay for the shortest run that the law has
    seen have no point. ScenarioError on bad input, and without a budget.

    >>> found = planner.loss_frontier(planner.read_scenario("best-for-200"), points=2)
    >>> found.points[0].loss > found.points[-1].loss
    True
    """
    started, scenario, options = perf_counter(), as_scenario(scenario), options or SolveOptions()
    job, most = open_job(scenario), scenario.limits.budget_usd
    if job is None or not job.wants_least_loss:
        fix = "give the job work: {tokens: best} and the scenario objective: loss"
        raise ScenarioError([Fault(scenario.name, 0, "objective", "a frontier of loss needs a model to choose", fix)])
    if len(scenario.jobs) > 1:
        what, fix = "a frontier of loss is that of one job", "leave the other jobs out, or solve for one budget"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", what, fix)])
    if most is None:
        what = "a frontier of loss needs a budget, its last point"
        raise ScenarioError([Fault(scenario.name, 0, "limits.budget_usd", what, "add limits.budget_usd: 1000")])
    library = library or read_library(architectures_of(job))
    alternatives = open_alternatives(scenario, job, library)
    count = max(2, min(points, MOST_POINTS))
    budgets = [most * LEAST_SHARE ** (step / (count - 1)) for step in range(count)]
    found: list[LossPoint] = []
    missed: list[float] = []
    for budget in budgets:
        near = best_of(alternatives, budget, slack=0.0)
        if not near:
            break
        best = without_waste(near[0])
        plan = solve_prepared(best.alternative.prepared(best.tokens, budget), options)
        if not plan.jobs:  # a policy on spot that a rounding of its dollars moved over the budget
            missed.append(budget)
            continue
        found.append(
            LossPoint(
                budget_usd=budget,
                loss=best.loss,
                architecture=best.alternative.architecture.name,
                parameters=best.alternative.architecture.parameters,
                tokens=best.alternative.run_tokens(best.tokens)[0],
                hours=plan.jobs[0].hours.expected,
                plan=describe_assignment(plan.jobs[0]),
            )
        )
    return LossFrontier(
        scenario=scenario.name,
        status="optimal" if found else "infeasible",
        points=tuple(_undominated(found[::-1])),
        law="own" if isinstance(job.loss_law, OwnLaw) else job.loss_law,
        compared=len(alternatives),
        solved=sum(len(alternative.costs) for alternative in alternatives),
        seconds=perf_counter() - started,
        as_of=(options.as_of or datetime.date.today()).isoformat(),
        notes=(
            *note_on_missed(missed),
            SPREAD_NOTE,
            "the cost stays within the budget at its confidence; hours are expected values",
        ),
    )


def note_on_missed(budgets: list[float]) -> tuple[str, ...]:
    """Return a note on the budgets whose best model has no plan; none where all have one."""
    if not budgets:
        return ()
    dollars = ", ".join(f"${budget:,.2f}" for budget in sorted(budgets))
    return (f"no point for {dollars}: the plan found there costs more at the confidence of the budget",)


def _undominated(points: list[LossPoint]) -> list[LossPoint]:
    """Return the points, cheapest first, without those that more money does not improve."""
    kept: list[LossPoint] = []
    least = math.inf
    for point in points:
        if point.loss < least:
            kept.append(point)
            least = point.loss
    return kept
