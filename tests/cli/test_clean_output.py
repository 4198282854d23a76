"""What solvers write for their developers never gets between a command and its one JSON document."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

RUN = "from planner.cli import main; main()"


@pytest.mark.long
@pytest.mark.parametrize(
    "question",
    [
        ("frontier", "three-jobs-one-budget", "--points", "3"),
        ("what-if", "three-jobs-one-budget", "--vary", "limits.max_gpus=4:8:4"),
    ],
)
def test_standard_output_of_several_jobs_is_one_document(question: tuple[str, ...]) -> None:
    """In a process of its own, because native code writes past Python's standard output."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *question, "--json", "--as-of", "2026-11-21"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""


@pytest.mark.long
def test_what_native_code_writes_while_solving_is_kept_from_the_document() -> None:
    """The line that HiGHS has been seen to write, put into every solve: the document is the same."""
    noisy = (
        "import os; from ortools.math_opt.core.python import solver; real = solver.solve;"
        "line = b'HighsMipSolverData: a line for developers\\n';"
        "solver.solve = lambda *a, **k: (os.write(1, line), real(*a, **k))[1];"
    )
    arguments = ["what-if", "three-jobs-one-budget", "--set", "limits.max_gpus=6", "--json", "--as-of", "2026-11-21"]
    done = subprocess.run([sys.executable, "-c", noisy + RUN, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) >= {"before", "after"}
