"""Readers of published scheduling instances: PSPLIB single-mode projects, Brandimarte flexible job shops."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from planner.timetable.timetable_problem import Mode, Resource, Task, Timetable


def read_psplib(path: Path) -> Timetable:
    """Return a project with renewable resources (`.sm`): one mode per activity, capacities, precedence."""
    lines = path.read_text(encoding="utf-8").splitlines()
    successors = list(_numbers(lines, "PRECEDENCE RELATIONS", 2))
    requests = list(_numbers(lines, "REQUESTS/DURATIONS", 3))
    capacities = next(iter(_numbers(lines, "RESOURCEAVAILABILITIES", 2)))
    after: dict[int, list[tuple[int, int]]] = {}
    for number, _, _, *followers in successors:
        for follower in followers:
            after.setdefault(follower - 1, []).append((number - 1, 0))
    tasks = tuple(
        Task(
            f"activity-{number}",
            (Mode("only", minutes, needs=tuple((which, amount) for which, amount in enumerate(amounts) if amount)),),
            after=tuple(after.get(number - 1, ())),
        )
        for number, _, minutes, *amounts in requests
    )
    horizon = sum(row[2] for row in requests)
    resources = tuple(Resource(f"R{which + 1}", amount) for which, amount in enumerate(capacities))
    return Timetable(tasks, resources, horizon=horizon, objective="last")


def _numbers(lines: list[str], header: str, skip: int) -> Iterator[list[int]]:
    """Yield the rows of whole numbers of a section, which starts `skip` lines after its header."""
    first = next(place for place, line in enumerate(lines) if line.startswith(header)) + skip
    for line in lines[first:]:
        if not re.fullmatch(r"[\d\s]+", line):
            return
        yield [int(word) for word in line.split()]


def read_flexible_shop(path: Path) -> Timetable:
    """Return a flexible job shop (`.fjs`): an operation is a task with a mode per machine, machines run one at once."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    machines = int(lines[0][1])
    tasks: list[Task] = []
    for number, words in enumerate(lines[1:]):
        left = iter([int(word) for word in words])
        for step in range(next(left)):
            modes = tuple(_machine_mode(next(left), next(left)) for _ in range(next(left)))
            after = ((len(tasks) - 1, 0),) if step else ()
            tasks.append(Task(f"job-{number}-{step}", modes, after=after))
    horizon = sum(max(mode.minutes for mode in task.modes) for task in tasks)
    resources = tuple(Resource(f"machine-{number}", 1) for number in range(machines))
    return Timetable(tuple(tasks), resources, horizon=horizon, objective="last")


def _machine_mode(machine: int, minutes: int) -> Mode:
    return Mode(f"machine-{machine - 1}", minutes, needs=((machine - 1, 1),))


READERS = {".sm": read_psplib, ".fjs": read_flexible_shop}


def best_known(folder: Path) -> dict[str, tuple[int, int]]:
    """Return lower and upper bound on the makespan of each instance, from `optimum.csv` (a range is `low..high`)."""
    with (folder / "optimum.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["problem"], row["optimum"]) for row in csv.DictReader(file)]
    return {name: (int(text.split("..")[0]), int(text.split("..")[-1])) for name, text in rows}
