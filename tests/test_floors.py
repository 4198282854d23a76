"""The lowest declared versions are read from `pyproject.toml` as pins, and every dependency is reached by tests."""

from __future__ import annotations

import re
import tomllib

from tests.helpers.floors import FAST, SLOWER, TESTS, chosen_tests, lowest_versions
from tests.helpers.frozen_data import ROOT

WITHOUT_TESTS = {"playwright", "axe-playwright-python", "mcp"}
"""Packages of tests in a browser and of agents, which `.ci/run` runs elsewhere."""


def test_each_dependency_is_pinned_to_its_lowest_version() -> None:
    """Upper bounds and optional dependencies included; what declares no version is any."""
    project = {
        "dependencies": ["numpy>=2.0", "pulp>=2.8,<4"],
        "optional-dependencies": {"dev": ["types-PyYAML", "numpy>=2.0"], "plot": ["matplotlib>=3.9"]},
    }
    assert lowest_versions(project) == ["matplotlib==3.9", "numpy==2.0", "pulp==2.8", "types-PyYAML"]


def test_every_dependency_that_is_imported_has_tests_under_its_lowest_version() -> None:
    """A new dependency, or a new extra, must say which tests reach it; documentation and development need none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *(one for name in extras.keys() - {"site", "dev"} for one in extras[name])]
    names = {re.match(r"[\w-]+", one)[0] for one in declared}  # type: ignore[index]
    assert names - WITHOUT_TESTS == TESTS.keys()
    assert [path for found in TESTS.values() for path in found if not (ROOT / path.partition("::")[0]).exists()] == []


def test_environments_in_between_only_solve() -> None:
    """The lowest versions and the newest Python run the same fast tests, the former the recorded plans and more too."""
    assert chosen_tests("3.12") == []
    (fast, slow), newest = chosen_tests("floor"), chosen_tests("3.13")
    assert newest == [fast] and {"tests/spot", "tests/estimates", FAST} <= {*fast}
    assert slow[-len(SLOWER) :] == [*SLOWER] and SLOWER[0] == "tests/end_to_end/test_shipped_scenarios.py"
    assert [path for path in SLOWER if not (ROOT / path.partition("::")[0]).exists()] == []
