"""Timetables made of the solution of the linear program over buckets of time, which tells who should run when.

A task is drawn a column in proportion to its value there; tasks are placed in the order of these columns, each in the
mode of its column where that still has a place. The best of some draws is a start for the search, or better.
"""

from __future__ import annotations

import math
import random
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING

from planner.formulation.timetable.problem import objective_value, violations
from planner.solving.timetable.greedy import place_tasks

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.timetable.problem import Schedule, Timetable
    from planner.formulation.timetable.time_index import BoundProgram, Column

DRAWS = 100
"""Timetables that are drawn; the first takes the largest value of each task."""
DRAW_SECONDS = 2.0
SMALLEST_VALUE = 1e-6


def rounded_timetable(problem: Timetable, bound: BoundProgram, values: Floats) -> Schedule | None:
    """Return the best of the timetables drawn from a solution of the linear program; None where none keeps its rules.

    The draws are the same for the same program, as far as they are reached within the time.
    """
    stop, draw, lots = perf_counter() + DRAW_SECONDS, random.Random(0), iter(values[len(bound.columns) :].tolist())
    bought = [0 if one.price is None else math.ceil(next(lots) - SMALLEST_VALUE) for one in problem.resources]
    weighted = [
        (one, value) for one, value in zip(bound.columns, values.tolist(), strict=False) if value > SMALLEST_VALUE
    ]
    by_task = {task: list(group) for task, group in groupby(weighted, key=lambda pair: pair[0].task)}
    if len(by_task) < len(problem.tasks):
        return None
    best: tuple[float, Schedule] | None = None
    for number in range(DRAWS):
        picked: list[Column] = [
            max(by_task[task], key=lambda pair: pair[1])[0]
            if number == 0
            else draw.choices([one for one, _ in by_task[task]], [value for _, value in by_task[task]])[0]
            for task in range(len(problem.tasks))
        ]
        order = [(one.first, task) for task, one in enumerate(picked)]
        found = place_tasks(problem, order.__getitem__, bought, [one.mode for one in picked])
        value = math.inf if found is None else objective_value(problem, found)
        # Lots that are rounded up may take more than a pool or a group of lots has.
        if found is not None and (best is None or value < best[0]) and not violations(problem, found):
            best = value, found
        if perf_counter() > stop:
            break
    return None if best is None else best[1]
