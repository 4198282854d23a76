"""Where a plan stands: the question with its plan, what would be better, and a step from it to another plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from planner.arrays import Floats
from planner.formulation.objective import cost_objective
from planner.results.explanation import NextStep
from planner.solving.infeasibility.elastic_program import STOCK, Elastic, only
from planner.solving.infeasibility.relaxations import Change
from planner.solving.infeasibility.relaxed_candidates import HEADROOM, Wide
from planner.solving.prepare import Prepared
from planner.solving.resolve import Trial, attempt
from planner.solving.scoring import Measure


@dataclass(frozen=True)
class Now:
    """The question with its plan, and the same question with limits that give."""

    prepared: Prepared
    trial: Trial
    wide: Wide

    @cached_property
    def elastic(self) -> Elastic:
        return Elastic.of(self.wide)

    @property
    def by_time(self) -> bool:
        return self.prepared.scenario.objective_kind == "time"

    @property
    def goal(self) -> float:
        """The objective from which on another plan is better."""
        return self.trial.objective - self.measure.gain(self.trial.objective)

    @cached_property
    def measure(self) -> Measure:
        """What plans are compared by."""
        return Measure.of(self.prepared.scenario)

    @property
    def caps(self) -> list[tuple[Floats, float]]:
        """The goal as rows of the elastic program."""
        columns = self.elastic.columns
        if not self.by_time:
            return [(cost_objective(columns), self.goal)]
        late, jobs = columns.late_hours(), range(len(self.prepared.candidates))
        return [(late * only(columns, columns.table.job == job), self.goal) for job in jobs]

    def better(self, prepared: Prepared) -> Trial | None:
        """The plan of a changed question where it reaches the goal."""
        trial = attempt(prepared)
        return trial if trial is not None and trial.objective <= self.goal * (1 + 1e-9) + 1e-9 else None


def step_of(now: Now, trial: Trial, change: Change, direction: Literal["looser", "tighter"] = "looser") -> NextStep:
    """The move of a limit to another plan, with what that plan differs by."""
    return NextStep(
        worth=worth_of(change.limit),
        limit=change.limit,
        direction=direction,
        change_from=change.old,
        change_to=change.new,
        plan=trial.words,
        cost_usd=trial.cost_usd,
        hours=trial.hours,
        delta_usd=trial.cost_usd - now.trial.cost_usd,
        delta_hours=trial.hours - now.trial.hours,
        gain=now.trial.objective - trial.objective,
        setting=change.setting,
    )


def worth_of(path: str) -> Literal["hour", "dollar", "gpu", "gib", "choice"]:
    """Of what a limit gives more."""
    if path.endswith(".deadline") or path == "limits.max_hours":
        return "hour"
    if path == "limits.budget_usd":
        return "dollar"
    if path == "limits.max_gpus" or path.startswith(("limits.quota", STOCK)):
        return "gpu"
    return "gib" if path == HEADROOM else "choice"
