"""What a changed question would cost: prepared and solved again, with everything taken over that did not change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import screen
from planner.errors import NoPlanError
from planner.loading.scenario_file import change_scenario
from planner.results.plan import describe_machines
from planner.scenario.scenario import SolveOptions
from planner.solvers.base import Termination
from planner.solving.optimise import optimise
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidate_table import CandidateTable
    from planner.candidates.enumeration import JobCandidates
    from planner.candidates.market import Market
    from planner.configurations.recipe import Recipe

TIME_LIMIT_SECONDS = 10.0
NO_PLAN = (Termination.INFEASIBLE, Termination.INFEASIBLE_OR_UNBOUNDED)


@dataclass(frozen=True)
class ResolvedPlan:
    """The best plan of a question that was only tried: one row per job, and the spot share of each."""

    prepared: PreparedScenario
    rows: tuple[int, ...]  # per job: row of its uncut table
    shares: tuple[float, ...]
    chosen: CandidateTable  # the rows as screened, one per job
    objective: float  # dollars with penalties and the value of time, or late hours of the last job
    proven: bool

    @property
    def cost_usd(self) -> float:
        """Expected dollars of all jobs, penalties left out."""
        return float(np.sum(self.chosen.cost_usd(np.asarray(self.shares))))

    @property
    def late_usd(self) -> float:
        """Dollars at the asked confidence: what a budget is compared with."""
        return float(np.sum(self.chosen.late_cost_usd(np.asarray(self.shares))))

    @property
    def hours(self) -> float:
        """Expected hours of the job that takes longest."""
        return float(np.max(self.chosen.hours(np.asarray(self.shares))))

    @property
    def late_hours(self) -> tuple[float, ...]:
        """Hours of each job at its confidence: what a deadline is compared with."""
        return tuple(float(h) for h in self.chosen.late_hours(np.asarray(self.shares)))

    @property
    def description(self) -> str:
        """Such as `8 x H100-80GB at nebius, QLoRA, spot`; several jobs one after the other."""
        jobs = zip(self.prepared.candidates, self.rows, self.shares, strict=True)
        said = [describe_candidate(one, row, share, self.prepared.market) for one, row, share in jobs]
        if len(said) == 1:
            return said[0]
        return "; ".join(f"{one.job.name}: {what}" for one, what in zip(self.prepared.candidates, said, strict=True))


def describe_candidate(candidates: JobCandidates, row: int, share: float, market: Market) -> str:
    """One row of the uncut table in a few words."""
    table = candidates.table
    offer = market.offers[int(table.offer[row])]
    recipe = recipe_of(candidates, row)
    spot = "" if share < 0.005 else ", spot" if share >= 0.995 else f", spot {share * 100:.0f} %"
    machines = describe_machines(int(table.run_gpus[row]), offer.card, int(table.node_groups[row]))
    return f"{machines} at {offer.provider}, {describe_method(recipe)}{spot}"


def recipe_of(candidates: JobCandidates, row: int) -> Recipe:
    """The recipe of a row of the uncut table."""
    return candidates.recipes[int(candidates.table.recipe[row])]


def describe_method(recipe: Recipe) -> str:
    """The method as a person calls it."""
    return "full training" if recipe.method == "full" else recipe.method_label


def try_solve(prepared: PreparedScenario, options: SolveOptions | None = None) -> ResolvedPlan | None:
    """The best plan, the very one that `solve` gives, or None where none was found in time.

    With `options` a search that stops at a limit without a plan is an error (NoPlanError): nothing is known then.
    """
    screened = prepared.screened
    if not all(len(one.table) for one in screened):
        return None
    solved = optimise(prepared, options or SolveOptions(time_limit_seconds=TIME_LIMIT_SECONDS))
    first = solved.choice.first
    if not solved.rows or first.objective is None:
        if options is not None and first.termination not in NO_PLAN:
            raise NoPlanError(f"{options.solver} stopped with '{first.termination.value}' before it had a plan")
        return None
    return ResolvedPlan(
        prepared,
        tuple(int(one.rows[solved.owner[row]]) for one, row in zip(screened, solved.rows, strict=True)),
        solved.shares,
        solved.table.rows(np.asarray(solved.rows)),
        first.objective,
        first.is_proven and first.gap is not None,
    )


def with_settings(prepared: PreparedScenario, settings: Sequence[str]) -> PreparedScenario:
    """The question with settings applied as `--set` would; ScenarioError where they make no scenario."""
    return prepare(change_scenario(prepared.scenario, settings), prepared.library, prepared)


def with_deadline(prepared: PreparedScenario, job: int, hours: float | None) -> PreparedScenario:
    """The question with another deadline of one job, in hours."""
    jobs = list(prepared.scenario.jobs)
    jobs[job] = jobs[job].model_copy(update={"deadline_hours": hours})
    candidates = tuple(
        replace(one, job=jobs[index]) if index == job else one for index, one in enumerate(prepared.candidates)
    )
    scenario = prepared.scenario.model_copy(update={"jobs": tuple(jobs)})
    return rescreen(replace(prepared, scenario=scenario, candidates=candidates))


def rescreen(prepared: PreparedScenario) -> PreparedScenario:
    """The same candidates under the limits of the scenario that is in it now."""
    limits, market, library = prepared.scenario.limits, prepared.market, prepared.library
    waiting = CandidateObjective.of(prepared.scenario).waiting_usd
    screened = (screen(one, market, limits, library, waiting_usd=waiting) for one in prepared.candidates)
    return replace(prepared, screened=tuple(screened))
