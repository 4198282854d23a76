"""Try the dependencies and the Pythons that `pyproject.toml` promises, each in a virtual environment of its own.

    python -m tests.helpers.floors          all of them, two at a time
    python -m tests.helpers.floors floor    the lowest declared version of every dependency, on the oldest Python
    python -m tests.helpers.floors 3.13     the newest versions on that Python

Each environment installs the package and solves the quickstart with every solver. The lowest versions and the newest
Python also run the fast tests of `TESTS`, and the lowest versions the slow ones of `SLOWER`. What works on both ends
works on the Pythons between, which only solve. A Python that the machine lacks is left out.

**What this proves.** Every function of a dependency that we call exists in its lowest version and gives the same
results: numpy computes its functions by other code from version to version, so estimates, spot policies and the
recorded plans of all shipped scenarios run again. Every third-party package is reached by at least one test.

**What this does not prove.** Our own logic is not tested again: the other steps of `.ci/run` do that once, with the
newest versions on the oldest Python. A fault that shows only with a lowest version, and only on a path of ours that no
test of `TESTS` takes, is not found.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from planner.cli.options import SOLVERS
from tests.helpers.frozen_data import ROOT

OLDEST, NEWER = "3.11", ("3.12", "3.13")
FLEET_PROGRAMS = tuple(f"tests/services/test_fleet_{what}.py" for what in ("dominance", "losses", "prices"))
TESTS = {
    "numpy": ("tests/test_arrays.py", "tests/estimates", "tests/spot", "tests/laws/test_last_bit.py"),
    "ortools": ("tests/formulation", *FLEET_PROGRAMS, "tests/end_to_end/test_shipped_scenarios.py"),
    "highspy": ("tests/formulation", "tests/end_to_end/test_shipped_scenarios.py"),
    "pulp": ("tests/formulation/test_solver_contract.py",),
    "pydantic": ("tests/loading", "tests/scenario", "tests/results"),
    "PyYAML": ("tests/documents", "tests/exports/test_trainer_files.py", "tests/exports/test_skypilot.py"),
    "click": ("tests/cli/test_exit_codes.py", "tests/cli/test_solve.py"),
    "rich": ("tests/cli/test_terminal.py",),
    "platformdirs": ("tests/catalogs/test_price_book.py",),
    "tzdata": ("tests/loading/test_zones_of_dates.py",),
    "loky": ("tests/analysis/sweep",),
    "distributed": ("tests/analysis/sweep",),
    "matplotlib": ("tests/drawing",),
    "pandas": ("tests/results/test_result_tables.py", "tests/loading/test_building.py"),
    "jinja2": ("tests/report/html", "tests/web"),
    "fastapi": ("tests/web",),
    "uvicorn": ("tests/cli/plans/test_app.py",),
    "gpuhunt": ("tests/catalogs",),
    "huggingface_hub": ("tests/catalogs/test_model_config.py",),
    "scipy": ("tests/benchmarks/test_calibrate.py::test_rows_that_say_nothing_leave_the_prior",),
}
"""Tests that reach each dependency: those of the modules that import it."""
APART = {"mcp"}
"""Extras that go with no lowest version: the SDK asks for a newer uvicorn and Starlette than `web` does."""
RUN = {"floor", NEWER[-1]}
"""Environments that run tests; any other one only solves."""
FAST = "not slow and not long and not fuzz and not ecosystem"
SLOWER = (
    *("tests/end_to_end/test_shipped_scenarios.py", "tests/laws/test_last_bit.py", "tests/analysis/sweep"),
    "tests/benchmarks/test_calibrate.py::test_rows_that_say_nothing_leave_the_prior",
)
"""Slow tests for the lowest versions: recorded plans, last digits of another numpy, and packages that no fast test has.
"""


def lowest_versions(project: dict[str, Any]) -> list[str]:
    """Return every dependency, optional ones included, at its lowest declared version; any where none is declared."""
    extras = [extra for name, extra in project["optional-dependencies"].items() if name not in APART]
    declared = [*project["dependencies"], *(one for extra in extras for one in extra)]
    return sorted({re.sub(r"\s*>=\s*([^,;\s]+)[^;]*", r"==\1", one) for one in declared})


def chosen_tests(name: str) -> list[list[str]]:
    """Return the arguments of Python that run the tests of an environment; none where it only solves."""
    paths = sorted({path for found in TESTS.values() for path in found})
    asked = [[FAST, *paths]] if name in RUN else []
    if name == "floor":
        asked.append(["slow and not long", *SLOWER])
    return [["-m", "pytest", "-n0", "-p", "no:cacheprovider", "-m", *words] for words in asked]


def find_python(version: str) -> str | None:
    """Return a Python of that version that can make virtual environments, None where the machine has none."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for command in (sys.executable, shutil.which(f"python{version}"), *map(str, installed)):
        asked = f"import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
        if command and subprocess.run([command, "-c", asked], check=False, capture_output=True).returncode == 0:
            return command
    return None


def commands(python: str, folder: str, packages: list[str], tests: list[list[str]]) -> list[list[str]]:
    """Return what makes an environment in a folder and tries it, with the quickstart alone where there are no tests."""
    inside = str(Path(folder, "bin", "python"))
    solves = [[inside, "-m", "planner", "solve", "quickstart", "--solver", solver] for solver in SOLVERS]
    install = [inside, "-m", "pip", "install", "--quiet", *packages]
    return [[python, "-m", "venv", folder], install, *solves, *([inside, *asked] for asked in tests)]


def attempt(name: str) -> bool:
    """Make one environment and try it; return whether all went well, or the machine lacks the Python."""
    version = OLDEST if name == "floor" else name
    python = find_python(version)
    if python is None:
        print(f"{name}: no Python {version} that can make virtual environments, left out")
        return True
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = [*lowest_versions(project), f"{ROOT}"] if name == "floor" else [f"{ROOT}[dev]"]
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(python, folder, packages, chosen_tests(name)):
            here = folder if "solve" in command else ROOT  # the quickstart is that of the installed package
            done = subprocess.run(command, cwd=here, check=False, capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: {' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
                return False
            if "solve" in command:
                print(f"{name}: {command[-1]}: {done.stdout.splitlines()[0]}", flush=True)
            elif "pytest" in command:
                print(f"{name}: {done.stdout.splitlines()[-1]}", flush=True)
    return True


def main(names: list[str]) -> int:
    """Try the named environments, or all; return 1 where one failed."""
    with ThreadPoolExecutor(2) as pool:  # the floor takes as long as the others together
        return 0 if all(list(pool.map(attempt, names or ["floor", *NEWER]))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
