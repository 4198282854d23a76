"""Errors of the package cross the border of a process, as a pool of workers sends them back."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil

import pytest

import planner
from planner.errors import Fault, InputError, PlannerError, ScenarioError

FAULTS = [Fault("b.yaml", 3, "jobs.0.deadline", "no duration: 'x'", "write 2d"), Fault("a.yaml", 0, "", "empty", "")]


def kinds(kind: type[PlannerError]) -> set[type[PlannerError]]:
    return {kind}.union(*(kinds(narrower) for narrower in kind.__subclasses__()))


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.deepcopy, copy.copy])
def test_every_error_survives_a_copy(again: object) -> None:
    """The same class, text and faults; all modules are imported first, so that no class is missed."""
    for module in pkgutil.walk_packages(planner.__path__, "planner."):
        if not module.name.endswith("__main__") and ".web" not in module.name:
            importlib.import_module(module.name)
    assert callable(again)
    assert {InputError, ScenarioError} < kinds(PlannerError)
    for kind in kinds(PlannerError):
        error = kind(FAULTS) if issubclass(kind, InputError) else kind("no plan: highs stopped")
        found = again(error)
        assert type(found) is kind and str(found) == str(error)
        assert getattr(found, "faults", None) == getattr(error, "faults", None)
