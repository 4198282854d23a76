"""The smallest relaxation of each limit at which another plan is better."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from planner.formulation.objective import cost_objective
from planner.records import record
from planner.results.explanation import Binding, LimitSensitivity
from planner.scenario.offer import Offer, offer_labels
from planner.solving.binding_limits import lift_limits
from planner.solving.infeasibility.candidate_filters import WITHOUT_LIST
from planner.solving.infeasibility.elastic_program import ElasticProgram
from planner.solving.infeasibility.relaxations import HOURS_STEP, build_changes, limit_key, round_up, verify_relaxation
from planner.solving.infeasibility.soft_constraints import HOURS_LEFT_OF, STOCK_OF, indicator_row
from planner.solving.prepare import prepare
from planner.solving.resolve import ResolvedPlan, try_solve
from planner.solving.scoring import CandidateObjective
from planner.solving.timetable.as_solved import ReportedPlan, as_solved, may_cost_less_in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.arrays import Floats
    from planner.scenario.scenario import Scenario
    from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates
    from planner.solving.prepare import PreparedScenario

UNITS: dict[str, Literal["hour", "dollar", "gpu", "gib"]] = {
    **{"deadline": "hour", "max_hours": "hour", "budget_usd": "dollar"},
    **{"max_gpus": "gpu", "quota": "gpu", "vram_headroom": "gib", "memory": "gib"},
}
"""What a limit gives more of, by its key; the others give another choice."""
CENT_USD = 0.005
"""Dollars that are no difference on the screen."""
GOAL_TOLERANCE = 1e-9
"""Relative and absolute, by which a plan may miss the goal: sums in another order round differently."""


@record(frozen=True)
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
        can_gain = path in WITHOUT_LIST or any(path == limit or path.startswith(f"{limit}.") for limit in bound)
        if path not in unset:
            found.append(_smallest_relaxation(baseline, path) if can_gain else _no_effect(path, scenario))
    return (*found, *_scarce_offers(baseline))


def _smallest_relaxation(baseline: Baseline, path: str) -> LimitSensitivity:
    """Return the least change of one limit that reaches the goal; of a list the one value that saves most."""
    elastic, prepared = baseline.elastic, baseline.plan.prepared
    is_list = any(one.path == path for one in elastic.relaxed.filters) and path not in WITHOUT_LIST
    found = elastic.solve((path,), caps=baseline.caps, one_value=is_list)
    changes = build_changes(found, elastic, prepared) if found else []
    verified = verify_relaxation(prepared, changes, baseline.try_better) if found else None
    if verified is None:
        return _no_effect(path, prepared.scenario)
    better, (change, *_) = as_solved(verified[0]), verified[1]
    return LimitSensitivity(
        worth=UNITS.get(limit_key(change.limit), "choice"),
        limit=change.limit,
        change_from=change.old,
        change_to=change.new,
        setting=change.setting,
        note=_note(better, baseline.plan),
        **_compare(better, baseline.plan),
    )


def _note(better: ReportedPlan, plan: ResolvedPlan) -> str:
    """Return why a better objective shows in no dollars, or that the dollars are an upper bound.

    A plan may exceed its least cost by a near tie. Of more than `MOST_JOBS` jobs no timetable is solved.
    """
    if may_cost_less_in_turn(better):
        return "at most: with jobs in turn it may cost less"
    if better.prepared.scenario.has_plain_dollars and better.cost_usd > plan.cost_usd - CENT_USD:
        return "only the least cost falls: among near ties another plan is preferred (solve.ties: 0 takes the cheaper)"
    return ""


def _no_effect(path: str, scenario: Scenario) -> LimitSensitivity:
    current = next((one.current for one in lift_limits(scenario) if one.path == path), None)
    if path.startswith("limits.quota."):
        current = scenario.limits.quota.get(path.removeprefix("limits.quota."))
    return LimitSensitivity(
        worth=UNITS.get(limit_key(path), "choice"), limit=path, change_from=current, note="no effect at any value"
    )


def _scarce_offers(baseline: Baseline) -> Iterator[LimitSensitivity]:
    """Yield the offers that have too few machines or paid hours for a better plan; no setting changes that."""
    elastic, prepared = baseline.elastic, baseline.plan.prepared
    found = elastic.solve(elastic.offer_paths, caps=baseline.caps) if elastic.offer_paths else None
    if found is None:
        return
    needed = {
        one.path: float(round(most)) if one.path.startswith(STOCK_OF) else round_up(most, HOURS_STEP)
        for one, most in elastic.shortages(found)
    }

    def with_enough(offer: Offer, label: str) -> Offer:
        fields = {STOCK_OF: "stock", HOURS_LEFT_OF: "committed_hours"}
        enough = {field: needed[kind + label] for kind, field in fields.items() if kind + label in needed}
        return offer.model_copy(update=enough) if enough else offer

    offers = prepared.scenario.offers
    update = {"offers": tuple(map(with_enough, offers, offer_labels(offers)))}
    better = baseline.try_better(prepare(prepared.scenario.model_copy(update=update), prepared.library, prepared))
    if better is None:
        return
    reported = as_solved(better)
    for soft, _ in elastic.shortages(found):
        is_stock = soft.path.startswith(STOCK_OF)
        yield LimitSensitivity(
            worth="gpu" if is_stock else "hour",
            limit=soft.path,
            change_from=soft.current,
            change_to=needed[soft.path],
            note=f"{'machines' if is_stock else 'hours'} that the offer would have to have",
            **_compare(reported, baseline.plan),
        )


def _compare(better: ReportedPlan, plan: ResolvedPlan) -> dict[str, Any]:
    """Return what a better plan is and what it gains."""
    return {
        "plan": better.description,
        "cost_usd": better.cost_usd,
        "hours": better.hours,
        "delta_usd": better.cost_usd - plan.cost_usd,
        "delta_hours": better.hours - plan.hours,
        "gain": plan.objective - better.objective,
    }
