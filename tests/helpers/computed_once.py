"""What several tests look at from different sides: computed once in a process, or once in all processes of a run."""

from __future__ import annotations

import datetime
import functools
import hashlib
import importlib
import inspect
import math
import os
import pickle
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from planner import watch
from planner.errors import InputError
from planner.library.schema import Library
from planner.loading.question import as_scenario

ANALYSES = (
    "planner.solving.solve.solve",
    "planner.analysis.limit_sensitivity.explain",
    "planner.analysis.frontier_question.frontier_of_jobs",
    "planner.analysis.frontier_question.frontier",
    "planner.analysis.simulate_question.simulate",
    "planner.analysis.what_if_question.sweep",
    "planner.analysis.what_if_question.tornado",
    "planner.analysis.what_if_question.what_if",
    "planner.services.service_changes.service_frontier",
)
"""Functions that a command imports when it runs, and that `planner` gives out."""
MODEL_FILES = (".json", ".yaml", ".yml")
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
    """Let what is asked the same of the same scenario (as text, as JSON, as a picture) be computed once in a run.

    A test that compares two computations with each other calls `patch.undo()` first.
    """
    for name in ANALYSES:
        patch.setattr(name, _once(name))


@functools.cache
def _once(name: str) -> Callable[..., Any]:
    """Return the function with that name, with its answers kept by the content of what it is given."""
    module, _, function = name.rpartition(".")
    compute: Callable[..., Any] = getattr(importlib.import_module(module), function)
    given = inspect.signature(compute)
    known: dict[str, Any] = {}

    @functools.wraps(compute)
    def answer(*arguments: Any, **named: Any) -> Any:
        key = None if _is_watched() else _key(name, given.bind(*arguments, **named))
        if key is None:
            return compute(*arguments, **named)
        if key not in known:
            known[key] = once_in_a_run(key, lambda: compute(*arguments, **named))
        return known[key]

    return answer


def _is_watched() -> bool:
    """Whether the caller may cancel, or has set a limit: it sees more than the answer."""
    held = watch._WATCH.get()
    return bool(held.is_cancelled) or held.until < math.inf


class _OfTheCaller(Exception):
    """A value that another process cannot know, such as a library or workers."""


def _key(name: str, given: inspect.BoundArguments) -> str | None:
    """Return what an answer is known by in all processes; None where something of the caller's own is given."""
    given.apply_defaults()
    scenario, *others = given.arguments.values()
    try:
        content = repr([_content(value) for value in (as_scenario(scenario), *others) if not callable(value)])
    except (InputError, _OfTheCaller):  # a scenario that is refused is refused by the function
        return None
    return f"{name.rpartition('.')[2]}-{hashlib.sha256(content.encode()).hexdigest()}"


def _content(value: Any) -> Any:
    """Return all of a value, the same in each process: the `repr` of a scenario is a line, and sets have no order."""
    if isinstance(value, BaseModel) and not isinstance(value, Library):
        held = (*vars(value).items(), *(value.__pydantic_private__ or {}).items())
        return [type(value).__name__, *(f"{name}={_content(one)!r}" for name, one in held)]
    if isinstance(value, Mapping):
        return [(_content(key), _content(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [_content(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, map(_content, value)))
    if isinstance(value, str) and value.endswith(MODEL_FILES) and Path(value).is_file():
        return value, Path(value).read_bytes()  # the model of a job, which is read when it is solved
    if value is None or isinstance(value, (str, int, float, Enum, Path, datetime.date, datetime.timedelta)):
        return value
    raise _OfTheCaller(type(value).__name__)
