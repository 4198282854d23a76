"""The smallest relaxation of each limit at which another plan is better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from planner.formulation.objective import cost_objective
from planner.results.explanation import Binding, LimitSensitivity
from planner.solving.binding_limits import lift_limits
from planner.solving.infeasibility.candidate_filters import HEADROOM
from planner.solving.infeasibility.elastic_program import ElasticProgram, ElasticSolution
from planner.solving.infeasibility.relaxations import HOURS_STEP, build_changes, round_up, verify_relaxation
from planner.solving.infeasibility.soft_constraints import STOCK_OF, indicator_row
from planner.solving.resolve import ResolvedPlan, describe_candidate, try_solve
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.arrays import Floats
    from planner.scenario.scenario import Scenario
    from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates
    from planner.solving.prepare import PreparedScenario

GOAL_TOLERANCE = 1e-9
"""Relative and absolute, by which a plan may miss the goal: sums in another order round differently."""


@dataclass(frozen=True)
class Baseline:
    """The plan of a scenario, the candidates with relaxed limits, and the objective from which on a plan is better."""

    plan: ResolvedPlan
    relaxed: RelaxedCandidates

    @cached_property
    def elastic(self) -> ElasticProgram:
        """The elastic program, built once for all limits."""
        return ElasticProgram.of(self.relaxed)

    @property
    def goal(self) -> float:
        """The objective that a better plan reaches."""
        objective = CandidateObjective.of(self.plan.prepared.scenario)
        return self.plan.objective - objective.min_gain(self.plan.objective)

    @property
    def caps(self) -> list[tuple[Floats, float]]:
        """The goal as rows of the elastic program: dollars of all jobs, or the late hours of each."""
        columns, prepared = self.elastic.columns, self.plan.prepared
        if prepared.scenario.objective_kind != "time":
            return [(cost_objective(columns), self.goal)]
        late_hours, jobs = columns.late_hours(), range(len(prepared.candidates))
        return [(late_hours * indicator_row(columns, columns.table.job == job), self.goal) for job in jobs]

    def try_better(self, prepared: PreparedScenario) -> ResolvedPlan | None:
        """Return the plan of a changed scenario if it reaches the goal."""
        plan = try_solve(prepared)
        reached = self.goal * (1 + GOAL_TOLERANCE) + GOAL_TOLERANCE
        return plan if plan is not None and plan.objective <= reached else None


def limit_sensitivities(baseline: Baseline, binding: tuple[Binding, ...]) -> tuple[LimitSensitivity, ...]:
    """Return the smallest relaxation of each limit that gives a better plan; limits that gain nothing say so.

    Only limits in `binding` can gain: the others are not solved for. The default of the longest run is left out
    unless it binds.
    """
    scenario = baseline.plan.prepared.scenario
    bound = {one.limit for one in binding}
    unset = set() if scenario.limits.max_hours is not None else {"limits.max_hours"} - bound
    found = []
    for path in baseline.elastic.relaxable_paths:
        can_gain = path == HEADROOM or any(path == limit or path.startswith(f"{limit}.") for limit in bound)
        if path not in unset:
            found.append(_smallest_relaxation(baseline, path) if can_gain else _no_effect(path, scenario))
    return (*found, *_scarce_offers(baseline))


def _smallest_relaxation(baseline: Baseline, path: str) -> LimitSensitivity:
    """Return the least change of one limit that reaches the goal; of a list the one value that saves most."""
    elastic, prepared = baseline.elastic, baseline.plan.prepared
    is_list = any(one.path == path for one in elastic.relaxed.filters) and path != HEADROOM
    found = elastic.solve((path,), caps=baseline.caps, one_filter=is_list, cost_first=is_list)
    changes = build_changes(found, elastic, prepared) if found else []
    verified = verify_relaxation(prepared, changes, baseline.try_better) if found else None
    if verified is None:
        return _no_effect(path, prepared.scenario)
    better, (change, *_) = verified
    return LimitSensitivity(
        worth=unit_of_limit(change.limit),
        limit=change.limit,
        change_from=change.old,
        change_to=change.new,
        plan=better.description,
        cost_usd=better.cost_usd,
        hours=better.hours,
        delta_usd=better.cost_usd - baseline.plan.cost_usd,
        delta_hours=better.hours - baseline.plan.hours,
        gain=baseline.plan.objective - better.objective,
        setting=change.setting,
    )


def _no_effect(path: str, scenario: Scenario) -> LimitSensitivity:
    current = next((one.current for one in lift_limits(scenario) if one.path == path), None)
    if path.startswith("limits.quota."):
        current = scenario.limits.quota.get(path.removeprefix("limits.quota."))
    return LimitSensitivity(worth=unit_of_limit(path), limit=path, change_from=current, note="no effect at any value")


def unit_of_limit(path: str) -> Literal["hour", "dollar", "gpu", "gib", "choice"]:
    """Return what a limit gives more of."""
    if path.endswith(".deadline") or path == "limits.max_hours":
        return "hour"
    if path == "limits.budget_usd":
        return "dollar"
    if path == "limits.max_gpus" or path.startswith("limits.quota"):
        return "gpu"
    return "gib" if path == HEADROOM else "choice"


def _scarce_offers(baseline: Baseline) -> Iterator[LimitSensitivity]:
    """Yield the offers that have too few machines or paid hours for a better plan; no setting changes that."""
    elastic = baseline.elastic
    found = elastic.solve(elastic.offer_paths, caps=baseline.caps) if elastic.offer_paths else None
    if found is None:
        return
    for soft in elastic.soft:
        if soft.path in elastic.offer_paths and soft.path in found.excess:
            needed = soft.current + found.excess[soft.path]
            is_stock = soft.path.startswith(STOCK_OF)
            yield LimitSensitivity(
                worth="gpu" if is_stock else "hour",
                limit=soft.path,
                change_from=soft.current,
                change_to=float(round(needed)) if is_stock else round_up(needed, HOURS_STEP),
                plan=_describe_solution(elastic, found),
                cost_usd=found.cost,
                delta_usd=found.cost - baseline.plan.cost_usd,
                note=f"{'machines' if is_stock else 'hours'} that the offer would have to have",
            )


def _describe_solution(elastic: ElasticProgram, found: ElasticSolution) -> str:
    relaxed = elastic.relaxed
    several = len(found.rows) > 1
    parts = []
    for row, share in zip(found.rows, found.shares, strict=True):
        piece = relaxed.pieces[int(relaxed.piece[row])]
        words = describe_candidate(piece, int(relaxed.row[row]), float(share), relaxed.market)
        parts.append(f"{piece.job.name}: {words}" if several else words)
    return "; ".join(parts)
