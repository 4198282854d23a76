"""The plan that `solve` makes of a scenario, side by side or in turn, with what a relaxation says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.records import record
from planner.scenario.scenario import SolveOptions
from planner.solving.resolve import RESOLVE_TIME_LIMIT_SECONDS, ResolvedPlan, resolved, try_solve
from planner.solving.sharing import best_side_by_side, may_take_turns

if TYPE_CHECKING:
    from planner.solving.prepare import PreparedScenario

MOST_JOBS = 4
"""Of more jobs a plan side by side is reported as it was found: their best timetable may take many seconds."""
OPTIONS = SolveOptions(time_limit_seconds=RESOLVE_TIME_LIMIT_SECONDS)
FACTS: dict[str, Any] = {
    "solver": "cp-sat",
    "seconds": 0.0,
    "as_of": "2000-01-01",
    "candidates": {"made": 0, "rejected": 0, "dominated": 0},
}
"""Fields that a plan must have and of which nothing is reported."""


@record(frozen=True)
class TimetablePlan:
    """What a relaxation reports of a plan whose jobs take turns, under the names of `ResolvedPlan`."""

    prepared: PreparedScenario
    description: str
    cost_usd: float  # expected
    late_usd: float  # at the requested confidence: what a budget limits
    hours: float  # expected, until the last job ends
    objective: float


ReportedPlan = ResolvedPlan | TimetablePlan
"""What a relaxation reports: a plan side by side, or one in turn."""


def as_solved(plan: ReportedPlan) -> ReportedPlan:
    """Return the plan that `solve` makes of the scenario of a plan side by side: in turn it may be cheaper."""
    in_turn = len(plan.prepared.scenario.jobs) <= MOST_JOBS and may_take_turns(plan.prepared)
    return (solve_as_asked(plan.prepared) or plan) if in_turn else plan


def may_cost_less_in_turn(plan: ReportedPlan) -> bool:
    """Return whether a plan is side by side, no timetable was solved for it, and one may be cheaper."""
    prepared = plan.prepared
    if not isinstance(plan, ResolvedPlan) or len(prepared.scenario.jobs) <= MOST_JOBS or not may_take_turns(prepared):
        return False
    if prepared.scenario.needs_timetable:
        return True
    return best_side_by_side(prepared, OPTIONS) is None  # else no timetable is cheaper


def solve_as_asked(prepared: PreparedScenario) -> ReportedPlan | None:
    """Return the best plan as `solve` makes it, or None if none was found in time.

    Jobs that may take turns run side by side where the best plan without limits at one time keeps these limits.
    """
    if not may_take_turns(prepared):
        return try_solve(prepared)
    if not all(len(one.table) for one in prepared.screened):
        return None
    if not prepared.scenario.needs_timetable:
        best = best_side_by_side(prepared, OPTIONS)
        if best is not None:
            return resolved(prepared, best)
    return _in_turn(prepared)


def _in_turn(prepared: PreparedScenario) -> TimetablePlan | None:
    """Return the best timetable; CP-SAT is loaded only where there may be one."""
    from planner.solving.timetable.build import build_timetable
    from planner.solving.timetable.optimise import solve_schedule
    from planner.solving.timetable.plan import timetable_plan

    built = build_timetable(prepared)
    solved = solve_schedule(built.problem, OPTIONS)
    if solved.schedule is None:
        return None
    plan = timetable_plan(prepared, built, solved, SolveOptions(), FACTS | {"scenario": prepared.scenario.name})
    if plan.cost_usd is None or plan.hours is None or plan.objective is None:
        return None
    how = "in turn" if any(job.start_at_hours for job in plan.jobs) else "side by side"
    description = f"{len(plan.jobs)} jobs {how}, last finish by {plan.hours.at_confidence:,.1f} h"
    late = plan.cost_usd.expected if plan.cost_at_confidence is None else plan.cost_at_confidence
    return TimetablePlan(prepared, description, plan.cost_usd.expected, late, plan.hours.expected, plan.objective)
