"""Why a timetable is infeasible: the smallest changes that make it feasible, each verified by solving."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.results.plan import Infeasible, Relaxation
from planner.scenario.scenario import SolveOptions
from planner.solvers.cp_sat_timetable import SearchLimits, solve_timetable
from planner.solving.infeasibility.diagnosis import diagnose
from planner.solving.resolve import with_settings
from planner.solving.timetable.build import build_timetable
from planner.solving.timetable.optimise import solve_schedule

if TYPE_CHECKING:
    from planner.formulation.timetable.problem import Timetable
    from planner.solving.prepare import PreparedScenario
    from planner.solving.timetable.build import BuiltTimetable

RELAXATION_SECONDS = 10.0
"""Time limit of each question that is solved again."""
STEP_HOURS = 0.1
"""Deadlines are extended in these steps."""


def explain_timetable(prepared: PreparedScenario, built: BuiltTimetable) -> Infeasible:
    """Return the deadlines, or the one limit, whose change makes the timetable feasible."""
    if any(not one.modes for one in built.jobs):
        return diagnose(prepared) or Infeasible()
    ways = [_later_deadlines(prepared, built)]
    ways += [_larger_limit(prepared, built, number, setting) for number, setting in _limits(prepared, built)]
    found = [way for way in ways if way]
    return Infeasible(
        relax=tuple(one.model_copy(update={"way": k + 1}) for k, way in enumerate(found[:3]) for one in way)
    )


def _limits(prepared: PreparedScenario, built: BuiltTimetable) -> list[tuple[int, str]]:
    """Return the resources that a setting enlarges, with the path of that setting."""
    names = {f"limits.quota.{name}" for name in prepared.scenario.limits.quota} | {"limits.max_gpus"}
    found = [(number, one.name) for number, one in enumerate(built.problem.resources) if one.name in names]
    inline = {offer: number for number, offer in enumerate(prepared.scenario.offers_inline)}
    for place, resource in built.shared.stock.items():
        if (number := inline.get(prepared.market.offers[place])) is not None:
            found.append((resource, f"offers.{number}.stock"))
    return found


def _later_deadlines(prepared: PreparedScenario, built: BuiltTimetable) -> list[Relaxation]:
    """Return the deadlines that the timetable with the least lateness in all breaks, with the ends that it has."""
    problem = built.problem
    longest = sum(max(mode.minutes for mode in task.modes) for task in problem.tasks)
    tasks = tuple(
        replace(
            task,
            modes=tuple(replace(mode, cost=0) for mode in task.modes),
            deadline=None,
            due=task.deadline,
            late=1,
            wait=0,
        )
        for task in problem.tasks
    )
    soft = replace(problem, tasks=tasks, objective="cost", horizon=problem.horizon + longest)
    schedule = solve_timetable(soft, SearchLimits(RELAXATION_SECONDS)).schedule
    if schedule is None:
        return []
    changes: list[tuple[str, float | str | None, float | str | None, str]] = []
    for index, task in enumerate(problem.tasks):
        end = schedule.end(soft, index)
        if task.deadline is not None and end > task.deadline:
            hours = math.ceil(end / 60 / STEP_HOURS - 1e-9) * STEP_HOURS
            path = f"jobs.{task.name}.deadline"
            changes.append((path, task.deadline / 60, round(hours, 1), f"{path}={hours:.1f}h"))
    return _verified(prepared, changes)


def _larger_limit(prepared: PreparedScenario, built: BuiltTimetable, resource: int, path: str) -> list[Relaxation]:
    """Return the least capacity of one resource with which there is a timetable."""
    before = built.problem.resources[resource].capacity
    most = sum(
        max((amount for mode in task.modes for which, amount in mode.needs if which == resource), default=0)
        for task in built.problem.tasks
    )
    low, high = before, max(most, before)
    if high == before or not _is_feasible(built.problem, resource, high):
        return []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_feasible(built.problem, resource, middle) else (middle, high)
    return _verified(prepared, [(path, float(before), float(high), f"{path}={high}")])


def _is_feasible(problem: Timetable, resource: int, capacity: int) -> bool:
    """Return whether there is a timetable with another capacity of a resource."""
    resources = list(problem.resources)
    resources[resource] = replace(resources[resource], capacity=capacity)
    tasks = tuple(replace(task, modes=tuple(replace(mode, cost=0) for mode in task.modes)) for task in problem.tasks)
    changed = replace(problem, tasks=tasks, resources=tuple(resources))
    return solve_timetable(changed, SearchLimits(RELAXATION_SECONDS)).schedule is not None


def _verified(
    prepared: PreparedScenario, changes: list[tuple[str, float | str | None, float | str | None, str]]
) -> list[Relaxation]:
    """Return the changes with the dollars of the plan that they allow; nothing if there is none."""
    if not changes:
        return []
    try:
        changed = with_settings(prepared, [setting for *_, setting in changes])
        built = build_timetable(changed)
    except InputError:
        return []
    from planner.solving.timetable.plan import timetable_plan

    solved = solve_schedule(built.problem, SolveOptions(time_limit_seconds=RELAXATION_SECONDS))
    if solved.schedule is None:
        return []
    facts = {
        "scenario": prepared.scenario.name,
        "solver": "cp-sat",
        "seconds": 0.0,
        "as_of": "2000-01-01",
        "candidates": {"made": 0, "rejected": 0, "dominated": 0},
    }
    plan = timetable_plan(changed, built, solved, SolveOptions(), facts)
    return [
        Relaxation(
            limit=path,
            change_from=before,
            change_to=after,
            then=f"{len(plan.jobs)} jobs in turn",
            setting=setting,
            cost_usd=plan.cost_usd.expected if plan.cost_usd else None,
            hours=plan.hours.at_confidence if plan.hours else None,
        )
        for path, before, after, setting in changes
    ]
