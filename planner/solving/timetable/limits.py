"""What each limit of a timetable costs: the timetable without it, solved again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.formulation.timetable.problem import UNITS_PER_USD, Task, Timetable, objective_value
from planner.results.plan_parts import SharedLimit
from planner.solvers.cp_sat_timetable import SearchLimits, solve_timetable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.formulation.timetable.problem import Schedule

MOST_TASKS = 12
"""Jobs up to which a plan states what each shared limit costs: one more search for each limit."""
SEARCH_SECONDS = 2.0
"""Time limit of each of these searches; what is found by then can be had, if perhaps not the most."""
MIN_SAVING_USD = 0.01
"""A limit binds if the plan without it is at least a cent better."""


def shared_limit_costs(problem: Timetable, schedule: Schedule) -> tuple[SharedLimit, ...]:
    """Return every shared limit without which the timetable costs at least a cent less, the largest saving first.

    Two jobs of 10 h by a deadline of 10 h, one own machine and one of 5 $ in the cloud: 5 $ for the stock of 1.
    """
    if problem.objective != "cost" or len(problem.tasks) > MOST_TASKS:
        return ()
    found, last = [], objective_value(replace(problem, objective="last"), schedule)
    for name, current, without in relaxed_shares(problem):
        result = solve_timetable(without, SearchLimits(SEARCH_SECONDS, hint=schedule))
        if result.objective is None or result.schedule is None:
            continue
        usd = (objective_value(problem, schedule) - result.objective) / UNITS_PER_USD
        if usd >= MIN_SAVING_USD:
            hours = (last - objective_value(replace(without, objective="last"), result.schedule)) / 60
            found.append(SharedLimit(limit=name, current=current, saving_usd=usd, saving_hours=hours))
    return tuple(sorted(found, key=lambda one: -one.saving_usd))


def relaxed_shares(problem: Timetable) -> Iterator[tuple[str, float, Timetable]]:
    """Yield the timetable without each limit that jobs share: name, present value, and what is left."""
    for number, one in enumerate(problem.resources):
        if one.price is None:
            most = sum(
                max((n for mode in task.modes for which, n in mode.needs if which == number), default=0)
                for task in problem.tasks
            )
            if most > one.capacity:
                resources = list(problem.resources)
                resources[number] = replace(one, capacity=most)
                yield one.name, float(one.capacity), replace(problem, resources=tuple(resources))
    for number, pool in enumerate(problem.pools):
        pools = tuple(replace(other, amount=10**15) if k == number else other for k, other in enumerate(problem.pools))
        yield pool.name, pool.amount / UNITS_PER_USD, replace(problem, pools=pools)
    if problem.periods:
        yield "limits.budgets", len(problem.periods), replace(problem, periods=())


def relaxed_timetables(problem: Timetable) -> Iterator[tuple[str, float | str, Timetable]]:
    """Yield the timetable without each limit, deadline and precedence: name, present value, and what is left."""
    yield from relaxed_shares(problem)
    for index, task in enumerate(problem.tasks):
        if task.deadline is not None:
            later = problem.horizon + max(mode.minutes for mode in task.modes)
            changed = _with_task(problem, index, replace(task, deadline=None))
            yield f"deadline of {task.name}", f"{task.deadline / 60:g} h", replace(changed, horizon=later)
        if task.after:
            names = ", ".join(problem.tasks[other].name for other, _ in task.after)
            yield f"{task.name} after {names}", names, _with_task(problem, index, replace(task, after=()))


def _with_task(problem: Timetable, index: int, task: Task) -> Timetable:
    tasks = tuple(task if place == index else one for place, one in enumerate(problem.tasks))
    return replace(problem, tasks=tasks)
