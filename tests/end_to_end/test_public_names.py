"""The public surface: names that a type checker knows, docstrings whose examples run, what stays quick to import."""

from __future__ import annotations

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import planner
from tests.helpers.computed_once import compute_once

ROOT = Path(planner.__file__).parent.parent
PUBLIC = [name for name in planner.__all__ if name != "__version__"]
FUNCTIONS = [name for name in PUBLIC if inspect.isfunction(getattr(planner, name))]
QUICK = ("gpus", "architectures", "offers", "estimate", "estimate_inference", "build_scenario", "read_scenario")
"""Functions whose examples take less than a second."""
NEEDS_MORE = ("update_prices", "judge_probe")
"""Functions whose examples need the network, or what a rented machine has written."""


def test_a_type_checker_knows_the_same_names() -> None:
    """Each public name is imported under TYPE_CHECKING from the module that has it."""
    tree = ast.parse(Path(planner.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert imported == {(module, name) for module, names in planner._NAMES_BY_MODULE.items() for name in names}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_described(name: str) -> None:
    """Each has a docstring, each function a runnable example."""
    what = getattr(planner, name)
    if inspect.isclass(what):
        assert what.__doc__ and what.__doc__.strip()
    elif callable(what):
        assert ">>>" in (what.__doc__ or ""), f"planner.{name} has no example"


def run_example(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)  # most ask the quickstart
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.displayhook", sys.__displayhook__)
    function = getattr(planner, name)
    names = {**vars(inspect.getmodule(inspect.unwrap(function))), "planner": planner, "Path": Path}
    (found,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=names)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    told: list[str] = []
    result = runner.run(found, out=told.append)
    assert not result.failed, "".join(told)
    assert result.attempted or name in NEEDS_MORE


@pytest.mark.parametrize("name", QUICK)
def test_quick_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the docstring shows is what happens."""
    run_example(name, tmp_path, monkeypatch)


METHODS = [planner.Scenario.build, planner.Scenario.to_yaml, planner.Scenario.to_json, planner.Scenario.with_settings]


@pytest.mark.parametrize("method", [*METHODS, planner.Result.to_json], ids=lambda method: method.__qualname__)
def test_examples_of_methods_run(method: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the classes that people make and save."""
    monkeypatch.chdir(tmp_path)
    (found,) = doctest.DocTestFinder(recurse=False).find(method, method.__qualname__, globs={"planner": planner})
    told: list[str] = []
    result = doctest.DocTestRunner().run(found, out=told.append)
    assert result.attempted and not result.failed, "".join(told)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {*QUICK}))
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the docstring shows is what happens."""
    run_example(name, tmp_path, monkeypatch)


@pytest.mark.long
def test_a_type_checker_refuses_a_wrong_name(tmp_path: Path) -> None:
    """`planner.slove` is an error, `planner.solve` returns a Plan, and both are found by `mypy --strict`."""
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text('import planner\n\nplanner.slove("quickstart")\nreveal_type(planner.solve("quickstart"))\n')
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]  # what `.ci/run` has checked is not read again
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert 'Module has no attribute "slove"' in told
    assert 'Revealed type is "planner.results.plan.Plan"' in told
    assert "Found 1 error" in told


def test_the_import_loads_no_module_of_the_package() -> None:
    """`import planner` loads no module below it."""
    code = "import sys, planner; print(sorted(name for name in sys.modules if name.startswith('planner')))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.strip() == "['planner']"
