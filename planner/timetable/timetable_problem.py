"""A timetable as data: tasks with modes, what modes hold while they run, what is bought, and what is spent.

Times are whole minutes, but for deadlines and the part of its last minute that a run does not use: a run of 20.4
minutes holds what it needs for 21, and keeps a deadline of 20.4. Money is whole units of a sixtieth of a cent, so that
lateness in dollars per hour is a whole number per minute. With `x[j,m]` whether task j runs in mode m, `start[j]`, and
`end[j] = start[j] + minutes`:

    mode[j]          sum_m x[j,m] = 1
    window[j,m]      earliest[m] <= start[j] <= latest[m]                                   where x[j,m] = 1
    precedence[i,j]  start[j] >= end[i] + lag[i,j]
    deadline[j]      end[j] - unused[m] <= deadline[j]                                      where x[j,m] = 1
    capacity[r,t]    sum_{j,m: start[j] <= t < end[j]} need[m,r]*x[j,m] <= capacity[r], or bought[r] where r is a lot
    group[g]         sum_{r in g} bought[r] <= capacity[r]
    pool[p]          sum_{j,m} use[m,p]*x[j,m] <= pool[p]
    period[k]        sum_{j,m} spend[m]*overlap(k, start[j], end[j])/minutes[m]*x[j,m] <= period[k]

    minimise  sum_{j,m} cost[m]*x[j,m] + sum_r price[r]*bought[r] + sum_j late[j]*max(0, end[j] - due[j])
              + sum_j wait[j]*(start[j] - release[j])        or the last end
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

UNITS_PER_USD = 6000
"""Units of money in a dollar: sixty to a cent."""
SAME_MINUTE = 1e-6
"""Minutes: what floating-point arithmetic adds to a time is no minute."""


@record(frozen=True)
class Mode:
    """One way to run a task; `needs` is what it holds while it runs, `uses` what it takes from pools once."""

    label: str
    minutes: int
    cost: int = 0
    needs: tuple[tuple[int, int], ...] = ()  # (resource, amount)
    uses: tuple[tuple[int, int], ...] = ()  # (pool, amount)
    spend: int = 0  # what period budgets count, spread evenly over the minutes
    earliest: int = 0
    latest: int | None = None  # latest start; None: no limit of its own
    rank: int = 0  # less is better among timetables of equal objective
    unused: float = 0.0  # part of its last minute in which it has already ended

    def may_start(self, minute: int) -> bool:
        """Return whether the mode may start in a minute."""
        return self.earliest <= minute and (self.latest is None or minute <= self.latest)


def latest_start(mode: Mode, deadline: float | None) -> int | None:
    """Return the last minute in which a mode may start by its own limit and a deadline; None without either.

    A run of 20.4 minutes and a deadline of 30.4: minute 10. Ending in whole minutes it would be minute 9.
    """
    limits = [] if mode.latest is None else [mode.latest]
    if deadline is not None:
        limits.append(math.floor(deadline - (mode.minutes - mode.unused) + SAME_MINUTE))
    return min(limits, default=None)


@record(frozen=True)
class Task:
    """One job: its modes, when it may run, what lateness costs, and which tasks it waits for."""

    name: str
    modes: tuple[Mode, ...]
    release: int = 0
    deadline: float | None = None  # minutes, not rounded
    due: int | None = None
    late: int = 0  # units per minute after `due`
    wait: int = 0  # units per minute between release and start
    after: tuple[tuple[int, int], ...] = ()  # (task, lag in minutes)


@record(frozen=True)
class Resource:
    """Something that is finite at one time; with a price it is a lot of which up to `capacity` are bought."""

    name: str
    capacity: int
    price: int | None = None
    group: str = ""  # of all lots of a group at most `capacity` are bought
    uses: tuple[tuple[int, int], ...] = ()  # what a lot takes from pools
    paid_at: int = 0  # minute in which a lot is paid


@record(frozen=True)
class Pool:
    """Something that is finite in all: a budget, hours already paid for."""

    name: str
    amount: int


@record(frozen=True)
class Period:
    """A budget for what is spent from one minute to another."""

    start: int
    end: int
    amount: int


@record(frozen=True)
class Timetable:
    """All tasks with what they share."""

    tasks: tuple[Task, ...]
    resources: tuple[Resource, ...] = ()
    pools: tuple[Pool, ...] = ()
    periods: tuple[Period, ...] = ()
    horizon: int = 0  # no task ends later
    objective: Literal["cost", "last"] = "cost"


@record(frozen=True)
class Schedule:
    """The mode and start of every task, and how many of each lot are bought."""

    modes: tuple[int, ...]
    starts: tuple[int, ...]
    bought: tuple[int, ...]  # per resource, 0 where it has no price

    def end(self, problem: Timetable, task: int) -> int:
        """Return the minute in which a task ends."""
        return self.starts[task] + self.mode(problem, task).minutes

    def mode(self, problem: Timetable, task: int) -> Mode:
        """Return the mode of a task."""
        return problem.tasks[task].modes[self.modes[task]]


def lateness_cost(task: Task, start: int, minutes: int) -> int:
    """Return what the start of a task costs beyond its mode: waiting, and lateness."""
    late = 0 if task.due is None else max(0, start + minutes - task.due)
    return task.wait * (start - task.release) + task.late * late


def objective_value(problem: Timetable, schedule: Schedule) -> int:
    """Return the objective of a schedule."""
    if problem.objective == "last":
        return max(schedule.end(problem, index) for index in range(len(problem.tasks)))
    total = sum(
        (resource.price or 0) * count for resource, count in zip(problem.resources, schedule.bought, strict=True)
    )
    for index, task in enumerate(problem.tasks):
        mode = schedule.mode(problem, index)
        total += mode.cost + lateness_cost(task, schedule.starts[index], mode.minutes)
    return total


def overlap(start: int, end: int, first: int, last: int) -> int:
    """Return how many minutes of [start, end) are in [first, last)."""
    return max(0, min(end, last) - max(start, first))


def period_spend(mode: Mode, start: int, period: Period) -> int:
    """Return what a mode spends in a period, rounded up to a unit."""
    minutes = overlap(start, start + mode.minutes, period.start, period.end)
    return -(-mode.spend * minutes // mode.minutes) if mode.minutes else 0


def violations(problem: Timetable, schedule: Schedule) -> list[str]:
    """Return every rule that a schedule breaks, in words; none for a feasible one."""
    found = _task_violations(problem, schedule)
    for number, resource in enumerate(problem.resources):
        limit = resource.capacity if resource.price is None else schedule.bought[number]
        if schedule.bought[number] > resource.capacity:
            found.append(f"{resource.name}: {schedule.bought[number]} bought of {resource.capacity}")
        if (most := peak_use(problem, schedule, number)) > limit:
            found.append(f"{resource.name}: {most} in use of {limit}")
    for group, (capacity, members) in lot_groups(problem).items():
        if (count := sum(schedule.bought[number] for number in members)) > capacity:
            found.append(f"{group}: {count} bought of {capacity}")
    chosen = [schedule.mode(problem, index) for index in range(len(problem.tasks))]
    for number, pool in enumerate(problem.pools):
        used = sum(amount for mode in chosen for which, amount in mode.uses if which == number)
        used += lots_from_pool(problem, schedule.bought, number)
        if used > pool.amount:
            found.append(f"{pool.name}: {used} used of {pool.amount}")
    for period in problem.periods:
        spent = sum(period_spend(mode, start, period) for mode, start in zip(chosen, schedule.starts, strict=True))
        spent += lots_in_period(problem, schedule.bought, period)
        if spent > period.amount:
            found.append(f"budget from {period.start} to {period.end}: {spent} of {period.amount}")
    return found


def lots_from_pool(problem: Timetable, bought: Sequence[int], pool: int) -> int:
    """Return what the lots that are bought take from a pool."""
    pairs = zip(problem.resources, bought, strict=True)
    return sum(amount * count for lot, count in pairs for which, amount in lot.uses if which == pool)


def lots_in_period(problem: Timetable, bought: Sequence[int], period: Period) -> int:
    """Return what the lots that are paid in a period cost."""
    pairs = zip(problem.resources, bought, strict=True)
    return sum((lot.price or 0) * count for lot, count in pairs if period.start <= lot.paid_at < period.end)


def lot_groups(problem: Timetable) -> dict[str, tuple[int, list[int]]]:
    """Return how many lots of each group may be bought, and the resources that belong to it."""
    groups: dict[str, tuple[int, list[int]]] = {}
    for number, resource in enumerate(problem.resources):
        if resource.price is not None and resource.group:
            capacity, members = groups.get(resource.group, (resource.capacity, []))
            groups[resource.group] = (max(capacity, resource.capacity), [*members, number])
    return groups


def _task_violations(problem: Timetable, schedule: Schedule) -> list[str]:
    """Return what single tasks and precedence break."""
    found = []
    for index, task in enumerate(problem.tasks):
        start, end, mode = schedule.starts[index], schedule.end(problem, index), schedule.mode(problem, index)
        if start < task.release or not mode.may_start(start):
            found.append(f"{task.name}: starts at {start}")
        is_late = task.deadline is not None and end - mode.unused > task.deadline + SAME_MINUTE
        if end > problem.horizon or is_late:
            found.append(f"{task.name}: ends at {end}")
        found += [
            f"{task.name}: starts at {start}, {problem.tasks[other].name} ends at {schedule.end(problem, other)}"
            for other, lag in task.after
            if start < schedule.end(problem, other) + lag
        ]
    return found


def peak_use(problem: Timetable, schedule: Schedule, resource: int) -> int:
    """Return the most of a resource that is in use at one time."""
    events: list[tuple[int, int]] = []
    for index in range(len(problem.tasks)):
        amount = sum(need for which, need in schedule.mode(problem, index).needs if which == resource)
        if amount:
            events += [(schedule.starts[index], amount), (schedule.end(problem, index), -amount)]
    level = most = 0
    for _, change in sorted(events):  # at one minute what ends comes first
        level += change
        most = max(most, level)
    return most


def is_tied(problem: Timetable, index: int) -> bool:
    """Return whether a task waits for another, or another for it."""
    return bool(problem.tasks[index].after) or any(other == index for task in problem.tasks for other, _ in task.after)


def topological_order(problem: Timetable) -> list[int]:
    """Return the tasks so that each comes after those it waits for; a cycle is a ValueError with its names."""
    waiting = {index: {other for other, _ in task.after} for index, task in enumerate(problem.tasks)}
    order: list[int] = []
    while waiting:
        ready = [index for index, others in waiting.items() if not others & waiting.keys()]
        if not ready:
            raise ValueError(", ".join(problem.tasks[index].name for index in waiting))
        order += ready
        for index in ready:
            del waiting[index]
    return order


def time_bounds(problem: Timetable) -> tuple[list[int], list[int]]:
    """Return the earliest start and the latest end of every task that release, deadline and precedence leave.

    A task cannot start before those it waits for have ended in their shortest modes, and must leave enough time for
    those that wait for it.
    """
    order = topological_order(problem)
    shortest = [min((mode.minutes for mode in task.modes), default=0) for task in problem.tasks]
    first = [max(task.release, min((m.earliest for m in task.modes), default=0)) for task in problem.tasks]
    last = [
        problem.horizon if task.deadline is None else min(math.ceil(task.deadline - SAME_MINUTE), problem.horizon)
        for task in problem.tasks
    ]
    for index in order:
        for other, lag in problem.tasks[index].after:
            first[index] = max(first[index], first[other] + shortest[other] + lag)
    for index in reversed(order):
        for other, lag in problem.tasks[index].after:
            last[other] = min(last[other], last[index] - shortest[index] - lag)
    return first, last
