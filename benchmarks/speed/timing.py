"""One measured figure, the shortest time of several tries, and the question that is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario

AS_OF = "2026-11-21"
"""The day that ages of prices are counted to."""


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


def best_seconds(action: Callable[[], Any], repeat: int) -> float:
    """Return the shortest wall time of `repeat` calls, after one call that warms caches."""
    action()
    times = []
    for _ in range(repeat):
        started = perf_counter()
        action()
        times.append(perf_counter() - started)
    return min(times)


def process_seconds(code: str, repeat: int) -> float:
    """Return the shortest wall time of a fresh Python that runs `code`, its imports compiled before."""
    with tempfile.TemporaryDirectory() as compiled:
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPYCACHEPREFIX": compiled}
        command = [sys.executable, "-c", code]
        return best_seconds(
            lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment), repeat
        )


def question_of(name: str) -> tuple[Scenario, Library]:
    """Return a shipped scenario and all cards."""
    from planner.loading.scenario_file import data_folder, read_library, read_scenario

    return read_scenario(data_folder("scenarios") / f"{name}.yaml"), read_library()
