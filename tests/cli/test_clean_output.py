"""What solvers write for their developers never gets between a command and its one JSON document."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

RUN = "from planner.cli import main; main()"
FEW_OFFERS = ("--set", "limits.spot=false", "--set", "limits.gpus.allow=[RTX4090, A100-80GB, H100-80GB]")


@pytest.mark.long
@pytest.mark.parametrize(
    "question",
    [
        ("frontier", "three-jobs-one-budget", "--points", "2"),
        ("what-if", "three-jobs-one-budget", "--vary", "limits.max_gpus=4:8:4"),
    ],
)
def test_standard_output_of_several_jobs_is_one_document(question: tuple[str, ...]) -> None:
    """In a process of its own, because native code writes past Python's standard output."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *question, *FEW_OFFERS, "--json", "--as-of", "2026-11-21"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""
