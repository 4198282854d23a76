"""Answers do not depend on the machine: functions that differ in their last bit lead to the same plan."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.frozen_data import ROOT

SAME = 1e-7
"""Relative: a solver's tolerance lies between a last bit and this."""
MEASURED = ("seconds", "notes", "warnings")
"""Fields that differ from run to run."""


def answer(*arguments: str, seed: int | None) -> Any:
    how = ["planner"] if seed is None else ["tests.helpers.last_bit", str(seed)]
    command = [sys.executable, "-m", *how, *arguments, "--json", "--as-of", "2026-11-21"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def differences(one: Any, other: Any, at: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        kept = [name for name in one if name not in MEASURED]
        return [what for name in kept for what in differences(one[name], other[name], f"{at}.{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            what
            for place, pair in enumerate(zip(one, other, strict=True))
            for what in differences(*pair, f"{at}[{place}]")
        ]
    if isinstance(one, float) and isinstance(other, float):
        return [] if math.isclose(one, other, rel_tol=SAME, abs_tol=1e-9) else [f"{at}: {one} {other}"]
    return [] if one == other else [f"{at}: {one} {other}"]


COMMANDS = [
    pytest.param(("solve", "quickstart"), id="a plan"),
    pytest.param(("solve", "spot-heavy"), id="a policy on spot"),
    pytest.param(("solve", "scenarios/decisions/spot-zones.yaml"), id="a policy among zones", marks=pytest.mark.long),
    pytest.param(("frontier", "quickstart", "--points", "5"), id="a frontier", marks=pytest.mark.long),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_last_bit_of_a_function_changes_no_answer(command: tuple[str, ...]) -> None:
    exact = answer(*command, seed=None)
    assert differences(exact, answer(*command, seed=1)) == []
