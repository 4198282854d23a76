"""A timetable without search: one task after the other, in the cheapest mode that makes its deadline.

It is where the program starts from, and the baseline that a plan is compared with: what a careful person does by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from planner.formulation.timetable_problem import (
    Mode,
    Period,
    Schedule,
    Timetable,
    lateness_cost,
    lots_from_pool,
    lots_in_period,
    objective_value,
    peak_use,
    period_spend,
    time_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Order = Literal["earliest due date", "cheapest first"]
ORDERS: tuple[Order, ...] = ("earliest due date", "cheapest first")


@dataclass
class _Board:
    """What the tasks that are placed hold, take from pools and spend."""

    problem: Timetable
    bought: list[int]
    held: list[list[tuple[int, int, int]]] = field(default_factory=list)  # per resource: start, end, amount
    used: list[int] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = [[] for _ in self.problem.resources]
        self.used = [lots_from_pool(self.problem, self.bought, pool) for pool in range(len(self.problem.pools))]
        self.spent = [lots_in_period(self.problem, self.bought, period) for period in self.problem.periods]

    def capacity(self, resource: int) -> int:
        """Return how much of a resource there is."""
        one = self.problem.resources[resource]
        return one.capacity if one.price is None else self.bought[resource]

    def is_possible(self, mode: Mode) -> bool:
        """Return whether a mode fits on empty resources and the pools that are left."""
        return all(amount <= self.capacity(which) for which, amount in mode.needs) and all(
            self.used[which] + amount <= self.problem.pools[which].amount for which, amount in mode.uses
        )

    def fits(self, mode: Mode, start: int) -> bool:
        """Return whether a mode can run from `start` beside all that is placed."""
        end = start + mode.minutes
        for which, amount in mode.needs:
            others = [one for one in self.held[which] if one[0] < end and start < one[1]]
            limit = self.capacity(which) - amount
            points = [start, *(first for first, _, _ in others if first > start)]
            if any(sum(n for first, last, n in others if first <= at < last) > limit for at in points):
                return False
        return all(
            self.spent[number] + period_spend(mode, start, period) <= period.amount
            for number, period in enumerate(self.problem.periods)
        )

    def starts(self, mode: Mode, earliest: int) -> Iterator[int]:
        """Yield the starts worth trying, first ones first: now, and whenever something ends or a period begins."""
        times = {max(earliest, mode.earliest)}
        times |= {end for which, _ in mode.needs for _, end, _ in self.held[which]}
        for period in self.problem.periods if mode.spend else ():
            times |= {period.start, period.end}
            times |= self._affordable_start(mode, period)
        yield from sorted(at for at in times if at >= earliest and mode.may_start(at))

    def _affordable_start(self, mode: Mode, period: Period) -> set[int]:
        """Return the start from which on the rest of a period's budget pays for the part inside."""
        left = period.amount - self.spent[self.problem.periods.index(period)]
        if left < 0:
            return set()
        return {max(0, period.end - left * mode.minutes // mode.spend)}

    def place(self, mode: Mode, start: int) -> None:
        """Add a mode."""
        for which, amount in mode.needs:
            self.held[which].append((start, start + mode.minutes, amount))
        for which, amount in mode.uses:
            self.used[which] += amount
        for number, period in enumerate(self.problem.periods):
            self.spent[number] += period_spend(mode, start, period)


def greedy_timetable(
    problem: Timetable, order: Order = "earliest due date", bought: Sequence[int] | None = None
) -> Schedule | None:
    """Return a timetable of tasks placed one by one; None where a task has no place left.

    `bought` is how many of each lot there are; none by default. Each task takes the mode and the earliest start with
    the least dollars and lateness. `cheapest first` places the tasks with the cheapest modes before the others.
    """
    _, last = time_bounds(problem)
    cheapest = [min((mode.cost for mode in task.modes), default=0) for task in problem.tasks]

    def key(index: int) -> tuple[int, int, str]:
        task = problem.tasks[index]
        due = last[index] if task.due is None else min(last[index], task.due)
        return (due, cheapest[index], task.name) if order == ORDERS[0] else (cheapest[index], due, task.name)

    return place_tasks(problem, key, bought)


def place_tasks(
    problem: Timetable,
    key: Callable[[int], Any],
    bought: Sequence[int] | None = None,
    wanted: Sequence[int] | None = None,
) -> Schedule | None:
    """Return a timetable of tasks placed in the order of a key; None where a task has no place left.

    `wanted` names a mode of each task, which it takes wherever that has a place in time.
    """
    first, last = time_bounds(problem)
    counts = list(bought) if bought is not None else [0] * len(problem.resources)
    board = _Board(problem, counts)
    modes, starts = [-1] * len(problem.tasks), [0] * len(problem.tasks)
    for index in _sequence(problem, key):
        task = problem.tasks[index]
        ready = max(
            [first[index], *(starts[i] + problem.tasks[i].modes[modes[i]].minutes + lag for i, lag in task.after)]
        )
        found = None if wanted is None else _best_place(board, index, ready, last[index], (wanted[index],))
        found = found or _best_place(board, index, ready, last[index], range(len(task.modes)))
        if found is None:
            return None
        modes[index], starts[index] = found
        board.place(task.modes[modes[index]], starts[index])
    return _without_spare(problem, Schedule(tuple(modes), tuple(starts), tuple(counts)))


def _sequence(problem: Timetable, key: Callable[[int], Any]) -> list[int]:
    """Return the tasks in the order in which they are placed; none before one that it waits for."""
    left, sequence = set(range(len(problem.tasks))), list[int]()
    while left:
        ready = [index for index in left if not any(other in left for other, _ in problem.tasks[index].after)]
        sequence.append(min(ready, key=key))
        left.remove(sequence[-1])
    return sequence


def _best_place(board: _Board, index: int, ready: int, last: int, places: Sequence[int]) -> tuple[int, int] | None:
    """Return which of some modes to take and its start: least cost, then earliest end; None where nothing fits."""
    task, problem = board.problem.tasks[index], board.problem
    best: tuple[int, int, int, int] | None = None
    options = [(place, task.modes[place]) for place in places]
    for place, mode in sorted(options, key=lambda item: (item[1].cost, item[1].minutes, item[0])):
        if best is not None and problem.objective == "cost" and mode.cost > best[0]:
            break
        if not board.is_possible(mode):
            continue
        for start in board.starts(mode, ready):
            if start + mode.minutes > last:
                break
            if board.fits(mode, start):
                value = mode.cost + lateness_cost(task, start, mode.minutes) if problem.objective == "cost" else 0
                option = (value, start + mode.minutes, place, start)
                best = option if best is None else min(best, option)
                break
    return None if best is None else (best[2], best[3])


def _without_spare(problem: Timetable, schedule: Schedule) -> Schedule:
    """Return the schedule with no more of each lot than it uses."""
    bought = tuple(
        0 if one.price is None else peak_use(problem, schedule, number) for number, one in enumerate(problem.resources)
    )
    return replace(schedule, bought=bought)


def best_greedy(problem: Timetable) -> Schedule | None:
    """Return the best of the greedy timetables in both orders, with none or some of each lot bought.

    Lots that alone cost more than the best timetable so far are not tried.
    """
    best: Schedule | None = None
    value = math.inf
    for lot, count in [(None, 0), *_lot_trials(problem)]:
        if lot is not None and (problem.resources[lot].price or 0) * count > value and problem.objective == "cost":
            continue
        bought = [count if number == lot else 0 for number in range(len(problem.resources))]
        for order in ORDERS:
            found = greedy_timetable(problem, order, bought)
            if found is not None and objective_value(problem, found) < value:
                best, value = found, objective_value(problem, found)
    return best


def _lot_trials(problem: Timetable) -> Iterator[tuple[int, int]]:
    """Yield lots with numbers of them."""
    for number, one in enumerate(problem.resources):
        if one.price is not None:
            for count in _some_counts(min(one.capacity, len(problem.tasks))):
                yield number, count


def _some_counts(most: int) -> list[int]:
    """Return 1, 2, 4 ... and the most: enough to see about how many of a lot pay."""
    return sorted({min(most, 2**power) for power in range(most.bit_length() + 1)} - {0})


def baseline(problem: Timetable) -> tuple[str, Schedule] | None:
    """Return the better of the greedy timetables without anything reserved, and its name."""
    found = [(order, one) for order in ORDERS if (one := greedy_timetable(problem, order))]
    return min(found, key=lambda item: objective_value(problem, item[1]), default=None)
