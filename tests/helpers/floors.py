"""Try the dependencies and the Pythons that `pyproject.toml` promises, each in a virtual environment of its own.

    python -m tests.helpers.floors          all of them
    python -m tests.helpers.floors floor    the lowest declared version of every dependency, on the oldest Python
    python -m tests.helpers.floors 3.13     the newest versions on that Python

Each runs the quickstart with every solver. The lowest versions run the default tests, too, and the newest Python the
fast ones: what works on both ends works on the Pythons between. numpy computes
its functions by other code from version to version, and answers must not depend on that. A Python that the machine
lacks is left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from planner.cli.options import SOLVERS
from tests.helpers.frozen_data import ROOT

OLDEST, NEWER = "3.11", ("3.12", "3.13")
DEFAULT_TESTS = ("-m", "pytest", "-p", "no:cacheprovider")
FAST_TESTS = (*DEFAULT_TESTS, "-m", "not slow and not long and not fuzz and not ecosystem")
TESTS = {"floor": DEFAULT_TESTS, NEWER[-1]: FAST_TESTS}


def lowest_versions(project: dict[str, Any]) -> list[str]:
    """Return every dependency, optional ones included, at its lowest declared version; any where none is declared."""
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(one for extra in extras for one in extra)]
    return sorted({re.sub(r"\s*>=\s*([^,;\s]+)[^;]*", r"==\1", one) for one in declared})


def find_python(version: str) -> str | None:
    """Return a Python of that version that can make virtual environments, None where the machine has none."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for command in (sys.executable, shutil.which(f"python{version}"), *map(str, installed)):
        asked = f"import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
        if command and subprocess.run([command, "-c", asked], check=False, capture_output=True).returncode == 0:
            return command
    return None


def commands(python: str, folder: str, packages: list[str], tests: tuple[str, ...]) -> list[list[str]]:
    """Return what makes an environment in a folder and tries it, with the quickstart alone where there are no tests."""
    inside = str(Path(folder, "bin", "python"))
    solves = [[inside, "-m", "planner", "solve", "quickstart", "--solver", solver] for solver in SOLVERS]
    install = [inside, "-m", "pip", "install", "--quiet", *packages]
    return [[python, "-m", "venv", folder], install, *solves, *([[inside, *tests]] if tests else [])]


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
        for command in commands(python, folder, packages, TESTS.get(name, ())):
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
    return 0 if all([attempt(name) for name in names or ["floor", *NEWER]]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
