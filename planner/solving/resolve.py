"""Solve a changed scenario again, with everything reused that did not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.configurations.recipe import Recipe, is_allowed
from planner.errors import NoPlanError
from planner.loading.scenario_file import change_scenario
from planner.records import record
from planner.results.plan_parts import describe_machines
from planner.scenario.job import Job
from planner.scenario.scenario import SolveOptions
from planner.solving.choice import OptimisedChoice
from planner.solving.optimise_choice import optimise
from planner.solving.prepare import PreparedScenario, prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

RESOLVE_TIME_LIMIT_SECONDS = 10.0


@record(frozen=True)
class ResolvedPlan:
    """The best plan of a scenario as rows: one row per job, and its spot share."""

    prepared: PreparedScenario
    rows: tuple[int, ...]  # per job: row of its uncut table
    shares: tuple[float, ...]
    chosen: CandidateTable  # the rows as screened, one per job
    objective: float  # dollars with penalties and the value of time, or late hours of the last job
    proven: bool
    late_usd: float  # of all jobs together at the requested confidence: what a budget limits

    @property
    def cost_usd(self) -> float:
        """Expected dollars of all jobs, penalties left out."""
        return float(np.sum(self.chosen.cost_usd(np.asarray(self.shares))))

    @property
    def hours(self) -> float:
        """Expected hours of the job that takes longest."""
        return float(np.max(self.chosen.hours(np.asarray(self.shares))))

    @property
    def description(self) -> str:
        """Such as `8 x H100-80GB at nebius, QLoRA, spot`; of several jobs one after the other."""
        jobs = zip(self.prepared.candidates, self.rows, self.shares, strict=True)
        words = [describe_candidate(candidates, row, share, self.prepared.market) for candidates, row, share in jobs]
        return describe_jobs(self.prepared.candidates, words)


def describe_jobs(jobs: Sequence[JobCandidates], words: Sequence[str]) -> str:
    """Return what is said of each job, with its name if there are several."""
    if len(jobs) == 1:
        return words[0]
    return "; ".join(f"{job.job.name}: {what}" for job, what in zip(jobs, words, strict=True))


def describe_candidate(candidates: JobCandidates, row: int, share: float, market: Market) -> str:
    """Describe one row of the uncut table at a spot share in a few words."""
    table = candidates.table
    offer = market.offers[int(table.offer[row])]
    recipe = recipe_of(candidates, row)
    spot = "" if share < 0.005 else ", spot" if share >= 0.995 else f", spot {share * 100:.0f} %"
    machines = describe_machines(int(table.run_gpus[row]), offer.card, int(table.node_groups[row]))
    return f"{machines} at {offer.provider}, {describe_method(recipe)}{spot}"


def recipe_of(candidates: JobCandidates, row: int) -> Recipe:
    """Return the recipe of a row of the uncut table."""
    return candidates.recipes[int(candidates.table.recipe[row])]


def describe_method(recipe: Recipe) -> str:
    """Return the usual name of the method of a recipe."""
    return "full training" if recipe.method == "full" else recipe.method_label


def why_excluded(recipes: Sequence[Recipe], job: Job) -> str:
    """Return which key of the job's `techniques` excludes the recipes of one method; empty if one is allowed."""
    if any(is_allowed(recipe, job) for recipe in recipes):
        return ""
    methods = job.techniques.method
    by_method = methods is not None and all(recipe.method not in methods for recipe in recipes)
    return f"excluded by `techniques.{'method' if by_method else 'weight_bits'}`"


def try_solve(
    prepared: PreparedScenario, options: SolveOptions | None = None, side_by_side: bool = True
) -> ResolvedPlan | None:
    """Return the best plan, the same as that of `solve`, or None if none was found in time.

    With `options` a search that stops at a limit without a plan raises NoPlanError: nothing is known then.
    Without `side_by_side` the limits at one time are left out.
    """
    screened = prepared.screened
    if not all(len(candidates.table) for candidates in screened):
        return None
    solved = optimise(prepared, options or SolveOptions(time_limit_seconds=RESOLVE_TIME_LIMIT_SECONDS), side_by_side)
    first = solved.choice.first
    if not solved.rows or first.objective is None:
        if options is not None and not first.is_infeasible:
            raise NoPlanError(f"{options.solver} stopped with '{first.termination.value}' before it had a plan")
        return None
    return resolved(prepared, solved)


def resolved(prepared: PreparedScenario, solved: OptimisedChoice) -> ResolvedPlan:
    """Return a choice with a plan as rows of the uncut tables."""
    first, screened = solved.choice.first, prepared.screened
    assert first.objective is not None  # there is a plan
    return ResolvedPlan(
        prepared,
        tuple(int(candidates.rows[solved.owner[row]]) for candidates, row in zip(screened, solved.rows, strict=True)),
        solved.shares,
        solved.table.rows(np.asarray(solved.rows)),
        first.objective,
        first.is_proven and first.gap is not None,
        solved.late_usd,
    )


def with_settings(prepared: PreparedScenario, settings: Sequence[str]) -> PreparedScenario:
    """Return the scenario with settings applied as by `--set`; ScenarioError if they are invalid."""
    return prepare(change_scenario(prepared.scenario, settings), prepared.library, prepared)
