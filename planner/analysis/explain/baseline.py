"""Where a plan stands: the question with its plan, what would be better, and a step from it to another plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from planner.formulation.objective import cost_objective
from planner.results.explanation import LimitSensitivity
from planner.solving.infeasibility.elastic_program import STOCK, ElasticProgram, indicator_row
from planner.solving.infeasibility.relaxed_candidates import HEADROOM, RelaxedCandidates
from planner.solving.resolve import ResolvedPlan, try_solve
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.solving.infeasibility.relaxations import LimitChange
    from planner.solving.prepare import PreparedScenario


@dataclass(frozen=True)
class Baseline:
    """The question with its plan, and the same question with limits that give."""

    prepared: PreparedScenario
    trial: ResolvedPlan
    wide: RelaxedCandidates

    @cached_property
    def elastic(self) -> ElasticProgram:
        return ElasticProgram.of(self.wide)

    @property
    def by_time(self) -> bool:
        return self.prepared.scenario.objective_kind == "time"

    @property
    def goal(self) -> float:
        """The objective from which on another plan is better."""
        return self.trial.objective - self.measure.min_gain(self.trial.objective)

    @cached_property
    def measure(self) -> CandidateObjective:
        """What plans are compared by."""
        return CandidateObjective.of(self.prepared.scenario)

    @property
    def caps(self) -> list[tuple[Floats, float]]:
        """The goal as rows of the elastic program."""
        columns = self.elastic.columns
        if not self.by_time:
            return [(cost_objective(columns), self.goal)]
        late, jobs = columns.late_hours(), range(len(self.prepared.candidates))
        return [(late * indicator_row(columns, columns.table.job == job), self.goal) for job in jobs]

    def better(self, prepared: PreparedScenario) -> ResolvedPlan | None:
        """The plan of a changed question where it reaches the goal."""
        trial = try_solve(prepared)
        return trial if trial is not None and trial.objective <= self.goal * (1 + 1e-9) + 1e-9 else None


def build_step(now: Baseline, trial: ResolvedPlan, change: LimitChange) -> LimitSensitivity:
    """Return the move of a limit to another plan, with the differences of that plan."""
    return LimitSensitivity(
        worth=unit_of_limit(change.limit),
        limit=change.limit,
        change_from=change.old,
        change_to=change.new,
        plan=trial.description,
        cost_usd=trial.cost_usd,
        hours=trial.hours,
        delta_usd=trial.cost_usd - now.trial.cost_usd,
        delta_hours=trial.hours - now.trial.hours,
        gain=now.trial.objective - trial.objective,
        setting=change.setting,
    )


def unit_of_limit(path: str) -> Literal["hour", "dollar", "gpu", "gib", "choice"]:
    """Of what a limit gives more."""
    if path.endswith(".deadline") or path == "limits.max_hours":
        return "hour"
    if path == "limits.budget_usd":
        return "dollar"
    if path == "limits.max_gpus" or path.startswith(("limits.quota", STOCK)):
        return "gpu"
    return "gib" if path == HEADROOM else "choice"
