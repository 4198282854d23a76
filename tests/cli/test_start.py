"""What a short command does not wait for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

UNNEEDED = ("difflib", "matplotlib", "ortools.math_opt.python", "pulp")
"""Modules that a plan of one job from the shipped prices has no use for."""
SUBJECTS = (
    "planner.generation.",
    "planner.open_choices.",
    "planner.services.",
    "planner.timetable.",
    "planner.exports.",
)
"""Beginnings of modules which only a scenario of their subject needs."""


@pytest.mark.slow
def test_a_plain_solve_loads_nothing_that_it_does_not_use() -> None:
    """The cheapest of one job's candidates needs no solver, no comparison of texts, no pictures, no other subject."""
    code = (
        "import sys\nfrom planner.cli import main\n"
        "try:\n    main(['solve', 'quickstart', '--as-of', '2026-11-21'])\nexcept SystemExit as ending:\n"
        f"    loaded = [name for name in sys.modules if name in {UNNEEDED!r} or name.startswith({SUBJECTS!r})]\n"
        "    print(ending.code, loaded)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert found.stdout.splitlines()[-1] == "0 []"


def test_ctrl_c_while_a_command_loads_is_an_interrupted_command(tmp_path: Path) -> None:
    """The code is 130 and there is no traceback, although the command line itself is not loaded yet."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "planner", "solve", "quickstart"]
    environment = {**os.environ, "PYTHONPATH": path}
    found = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "interrupted\n")
