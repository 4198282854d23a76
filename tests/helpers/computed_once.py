"""What several tests look at from different sides: computed once in a process, or once in all processes of a run."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from planner.library.schema import Library

ANALYSES = (
    "planner.solving.solve.solve",
    "planner.analysis.limit_sensitivity.explain",
    "planner.analysis.frontier_question.frontier_of_jobs",
    "planner.analysis.simulate_question.simulate",
    "planner.analysis.what_if_sweep.sweep",
    "planner.analysis.what_if_sweep.tornado",
    "planner.analysis.what_if_question.what_if",
)
"""Functions that a command imports when it runs."""
SHARED: list[Path] = []
"""The folder that the processes of a run of tests share; empty where one process runs them all.

It belongs to one run, and so to one version of the code: a planted bug (`benchmarks.mutations`) finds no answer of the
sound program there.
"""
Computed = TypeVar("Computed")


def once_in_a_run(name: str, compute: Callable[[], Computed]) -> Computed:
    """Return what another process has computed under that name, else compute it and leave it for the others.

    For what tests start from, never for what they compare with a second computation of the same.
    """
    kept = [folder / name for folder in SHARED]
    for path in kept:
        if path.exists():
            found: Computed = pickle.loads(path.read_bytes())
            return found
    made = compute()
    for path in kept:
        half = path.with_suffix(f".{os.getpid()}")
        half.write_bytes(pickle.dumps(made))
        half.replace(path)  # whole, or not there: two processes may have begun at the same time
    return made


def compute_once(patch: pytest.MonkeyPatch) -> None:
    """Let commands that are asked the same of the same scenario (as text, as JSON, as a picture) compute it once.

    A test that compares two computations with each other calls `patch.undo()` first.
    """
    for name in ANALYSES:
        patch.setattr(name, _once(name))


@functools.cache
def _once(name: str) -> Callable[..., Any]:
    """Return the function with that name, with its answers kept by everything it is given but functions."""
    module, _, function = name.rpartition(".")
    compute: Callable[..., Any] = getattr(importlib.import_module(module), function)
    known: dict[bytes, Any] = {}

    @functools.wraps(compute)
    def answer(*arguments: Any, **named: Any) -> Any:
        given: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
        key = pickle.dumps({name: _whole(value) for name, value in given.items() if not callable(value)})
        if key not in known:
            known[key] = compute(*arguments, **named)
        return known[key]

    return answer


def _whole(value: Any) -> Any:
    """Return what a value is known by, all of it: the `repr` of a scenario is a line; a library is itself."""
    return id(value) if isinstance(value, Library) else value
