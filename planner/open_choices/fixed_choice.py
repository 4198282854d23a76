"""What a plan chose of open jobs, fixed: the scenario of which a question about one choice is asked.

Questions about a plan (why, how it runs, what it costs by another deadline) are asked of the model, tokens and batch
that it chose. Questions about other scenarios (what-if, sweeps) choose again: each of them is solved as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.open_choices.choice_alternatives import tokens_for_loss
from planner.open_choices.decision import given_tokens
from planner.open_choices.model_choice_text import chosen_text, money_text
from planner.open_choices.open_solve import open_alternatives
from planner.records import record
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions, decide, decide_scenario, open_job, open_jobs
from planner.solving.solve import solve

if TYPE_CHECKING:
    from planner.library.schema import Library


@record(frozen=True)
class FixedChoice:
    """A plan with its choices, and the definite scenario and plan that they make."""

    plan: Plan
    scenario: Scenario
    definite: Plan

    @property
    def lines(self) -> tuple[str, ...]:
        """What is fixed, in the words of an answer."""
        jobs = [job for job in self.plan.jobs if job.model is not None]
        several = len(self.plan.jobs) > 1
        found = []
        for job in jobs:
            assert job.model is not None
            whose = f"of {job.name} " if several else ""
            found.append(f"what is open {whose}is fixed as solve chose it: {chosen_text(job.model)}")
            found.append(money_text(job.model))
        return tuple(line for line in found if line)


def fix_choice(
    scenario: Scenario, options: SolveOptions | None, library: Library | None, plan: Plan | None = None
) -> FixedChoice:
    """Return the choice of a plan, or of the one that `solve` finds; without a plan nothing is fixed.

    Raises
    ------
    ScenarioError, LibraryError, SolverError
        As `solve` does.
    """
    plan = solve(scenario, options, library) if plan is None else plan
    return FixedChoice(plan, scenario_as_chosen(plan, scenario), _without_choices(plan))


MOST_TRACED = 8
"""Models times batches up to which a frontier chooses again at each of its points."""


def definite_choices(scenario: Scenario, library: Library) -> tuple[Scenario, ...]:
    """Return the definite scenario of each model and batch of the only job, with its tokens; none where too many.

    None either where there are other jobs, or where the loss is what is minimised.
    """
    job = open_job(scenario)
    if job is None or len(scenario.jobs) > 1 or job.wants_least_loss:
        return ()
    alternatives = open_alternatives(scenario, job, library)
    if not 1 < len(alternatives) <= MOST_TRACED:
        return ()
    wanted, found = job.work.loss, []
    for one in alternatives:
        tokens = given_tokens(one) if wanted is None else tokens_for_loss(one, wanted)
        if tokens is not None or wanted is None:
            found.append(one.definite(tokens))
    return tuple(found)


def scenario_as_chosen(plan: Plan, scenario: Scenario) -> Scenario:
    """Return a scenario with what its plan chose in place of what is open; itself where the plan chose nothing."""
    decided = []
    for job in open_jobs(scenario):
        chosen = next((planned_job.model for planned_job in plan.jobs if planned_job.name == job.name), None)
        if chosen is None:
            return scenario
        batch = job.batches[0] if chosen.batch is None else chosen.batch.sequences
        sigma = 0.0 if chosen.batch is None else chosen.batch.sigma
        given = not job.uses_law and chosen.batch is None
        decided.append(decide(job, chosen.architecture, batch, None if given else chosen.tokens, sigma))
    return decide_scenario(scenario, *decided)


def _without_choices(plan: Plan) -> Plan:
    """Return a plan as that of the definite scenario."""
    return plan.model_copy(update={"jobs": tuple(job.model_copy(update={"model": None}) for job in plan.jobs)})
