"""Relaxations of jobs that may take turns: reported with the plan of `solve`, no wider than that plan needs.

A relaxation is found for jobs side by side, or in whole minutes of a timetable. `solve` may find a cheaper plan with
its settings, and one that needs fewer GPUs or dollars.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.solving.infeasibility.relaxations import BUDGET, USD_STEP, LimitChange, round_up
from planner.solving.resolve import with_settings
from planner.solving.timetable.as_solved import MOST_JOBS, ReportedPlan, solve_as_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.solving.prepare import PreparedScenario

ROOM_USD = (0.0, 0.01, 0.05)
"""Dollars above those of a plan that its budget may need: a timetable rounds each of its jobs up."""
ROOM_HOURS = 0.04
"""Two minutes: the length of a job is rounded up to a minute, and its deadline down."""
MOST_BUDGETS = 4
"""How often a budget is lowered to what the plan within it needs."""
WHOLE_NUMBERS = ("limits.max_gpus", "limits.quota.")

Settled = tuple[ReportedPlan, list[LimitChange]]


def settle(prepared: PreparedScenario, changes: Sequence[LimitChange]) -> Settled | None:
    """Return the plan that `solve` makes of the changes, and the changes no larger than it needs; None without one."""
    settled = next(
        ((found, made) for made in (list(changes), _roomier(changes)) if (found := _try(prepared, made))), None
    )
    if settled is None or len(prepared.scenario.jobs) > MOST_JOBS:  # a dozen solves of a timetable
        return settled
    for path in [one.limit for one in changes]:
        settled = _without(prepared, settled, path)
    for path in [one.limit for one in settled[1] if one.limit.startswith(WHOLE_NUMBERS)]:
        settled = _least_number(prepared, settled, path)
    for _ in range(MOST_BUDGETS):
        before, settled = settled, _least_budget(prepared, settled)
        if settled is before:
            break
    return settled


def _try(prepared: PreparedScenario, changes: Sequence[LimitChange]) -> ReportedPlan | None:
    try:
        return solve_as_asked(with_settings(prepared, [one.setting for one in changes]))
    except InputError:  # values that contradict one another: no relaxation
        return None


def _roomier(changes: Sequence[LimitChange]) -> list[LimitChange]:
    """Return the changes with later deadlines: in the whole minutes of a timetable a job may just miss its own."""
    made = list(changes)
    for one in changes:
        if one.limit.endswith(".deadline") and not isinstance(one.new, str):
            new = round(one.new + ROOM_HOURS, 2)
            made = _changed(made, one.limit, new, f"{new:g}h")
    return made


def _without(prepared: PreparedScenario, settled: Settled, path: str) -> Settled:
    """Return a relaxation without the change of one limit, if the others suffice."""
    fewer = [one for one in settled[1] if one.limit != path]
    found = _try(prepared, fewer) if fewer else None
    return (found, fewer) if found else settled


def _least_number(prepared: PreparedScenario, settled: Settled, path: str) -> Settled:
    """Return a relaxation with the least whole number of one limit that has a plan."""
    change = next(one for one in settled[1] if one.limit == path)
    if isinstance(change.old, str) or isinstance(change.new, str):
        return settled
    low, high = round(change.old), round(change.new)  # high suffices, low does not
    middle = high - 1  # mostly it is the least already
    while high - low > 1:
        found = _try(prepared, changes := _changed(settled[1], path, middle, f"{middle}"))
        low, high, settled = (low, middle, (found, changes)) if found else (middle, high, settled)
        middle = (low + high) // 2
    return settled


def _least_budget(prepared: PreparedScenario, settled: Settled) -> Settled:
    """Return a relaxation with the budget that its plan needs; the same where that is no smaller."""
    change = next((one for one in settled[1] if one.limit == BUDGET), None)
    for room in ROOM_USD if change is not None else ():
        needed = round_up(settled[0].late_usd + room, USD_STEP)
        if change is None or needed >= float(change.new):
            break
        if found := _try(prepared, changes := _changed(settled[1], BUDGET, needed, f"{needed:.2f}")):
            return found, changes
    return settled


def _changed(changes: Sequence[LimitChange], path: str, new: float, text: str) -> list[LimitChange]:
    """Return the changes with another value of one limit."""
    return [
        replace(one, new=float(new), setting=f"{one.setting.partition('=')[0]}={text}") if one.limit == path else one
        for one in changes
    ]
