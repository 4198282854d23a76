"""One measured figure, the shortest times of several tries, the load of the machine, and the question that is asked."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario

AS_OF = "2026-11-21"
"""The day that ages of prices are counted to."""
MOST_SECONDS = 4.0
"""Wall time after which an action is not tried again; the whole benchmark is to end within three minutes."""


class Times(NamedTuple):
    """Seconds of the processor and on the clock, the least of several tries of each."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"CPU {self.cpu:.3f} s = {self.cpu / numpy_loop().cpu:.2f} loops, wall {self.wall:.3f} s"


@dataclass(frozen=True)
class Line:
    """One measured figure with what it is to reach."""

    what: str
    value: float
    unit: str
    target: float
    at_most: bool
    basis: str

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def __str__(self) -> str:
        relation = "at most" if self.at_most else "at least"
        verdict = "met" if self.met else "MISSED"
        return (
            f"{self.what:<58} {self.value:>9.3g} {self.unit:<3} {relation} {self.target:g}: {verdict}\n    {self.basis}"
        )


def best_times(action: Callable[[], Any], repeat: int, cpu_seconds: Callable[[], float] = process_time) -> Times:
    """Return the shortest times of `repeat` calls; the first one warms caches and counts only where it is slow."""
    times: list[Times] = []
    began = perf_counter()
    while len(times) <= repeat and (not times or perf_counter() - began < MOST_SECONDS):
        cpu, wall = cpu_seconds(), perf_counter()
        action()
        times.append(Times(cpu_seconds() - cpu, perf_counter() - wall))
    kept = times[1:] or times
    return Times(min(one.cpu for one in kept), min(one.wall for one in kept))


def process_times(code: str, repeat: int) -> Times:
    """Return the shortest times of a fresh Python that runs `code`, its imports compiled before.

    Linear algebra has one thread: the planner asks for no more, and threads that spin at import would count for others.
    """
    with tempfile.TemporaryDirectory() as compiled:
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPYCACHEPREFIX": compiled, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", code]

        def start() -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)

        start()  # a slow first run compiles, so it must not count
        return best_times(start, repeat, _cpu_of_children)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@cache
def numpy_loop() -> Times:
    """Return the times of a fixed loop of numpy: seconds in units of it mean more on another or a busy machine."""
    numbers = np.random.default_rng(0).random(20_000)

    def loop() -> None:
        for _ in range(100):
            float(np.sort(numbers)[::2].cumsum().max() + np.exp(numbers).sum())

    return best_times(loop, 9)


def machine_load() -> str:
    """Return how busy the machine is: processes that run or wait, on average of 1, 5 and 15 minutes."""
    return f"load {', '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores"


def question_of(name: str) -> tuple[Scenario, Library]:
    """Return a shipped scenario and all cards."""
    from planner.documents.files import data_folder
    from planner.library.reading import read_library
    from planner.loading.scenario_file import read_scenario

    return read_scenario(data_folder("scenarios") / f"{name}.yaml"), read_library()
