"""`planner explain` at the front door: text and JSON, exit codes, and what is told of a wish that makes no sense."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.report.words import WIDTH
from tests.helpers.computed_once import compute_once


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


SMALLER = {
    "quickstart": ("--set", "limits.gpus.allow=[A5000, RTX3090, RTX4090]"),
    "infeasible": ("--set", "limits.gpus.allow=[A100-80GB, H100-80GB]", "--set", "limits.providers=[lambda, nebius]"),
}
"""Fewer offers than the market has."""


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["quickstart", "three-jobs-one-budget", "infeasible"])
def test_text_has_the_verdict_first_and_80_columns(scenario: str) -> None:
    """A plan, several jobs, and no plan at all: all end with 0."""
    result = run(scenario, *SMALLER.get(scenario, ()))
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{scenario}: no plan " if scenario == "infeasible" else f"{scenario}: ")
    assert max(len(line) for line in lines if not line.startswith("planner ")) <= WIDTH  # a command is one line


@pytest.mark.long
def test_json_has_the_fields_that_others_rely_on() -> None:
    """One document with every field of the contract, feasible or not."""
    for scenario, status in (("quickstart", "optimal"), ("infeasible", "infeasible")):
        result = run(scenario, "--json", *SMALLER[scenario])
        document = json.loads(result.stdout)
        assert result.exit_code == 0 and document["status"] == status
        assert {"status", "binding", "next_steps", "alternatives", "why_not", "relax", "nearest"} <= document.keys()
        assert all({"limit", "from", "to", "then", "way", "setting"} <= one.keys() for one in document["relax"])
    assert document["relax"] and document["nearest"] and not document["next_steps"]


@pytest.mark.long
def test_settings_change_the_question() -> None:
    """A deadline that nobody meets makes the scenario infeasible, and the way out is a setting to paste."""
    result = run("quickstart", "--set", "jobs.quickstart.deadline=5m")
    assert result.exit_code == 0 and result.stdout.startswith("quickstart: no plan keeps the deadline of ")
    assert "--set jobs.quickstart.deadline=" in result.stdout


@pytest.mark.long
def test_why_not_answers_one_question() -> None:
    """The answer alone, in text and in JSON."""
    told = run("quickstart-any", "--why-not", "gpu=RTX4090,method=full")
    assert told.exit_code == 0 and told.stdout.startswith("gpu=RTX4090,method=full: $")
    assert max(map(len, told.stdout.splitlines())) <= WIDTH
    document = json.loads(run("quickstart-any", "--why-not", "gpu=RTX4090,method=full", "--json").stdout)
    assert document["why_not"]["status"] == "possible" and document["why_not"]["times"] > 1


@pytest.mark.slow
def test_an_unknown_name_ends_with_2_and_the_nearest_one() -> None:
    """As text on standard error, as one JSON document where that is asked for."""
    told = run("quickstart", "--why-not", "gpu=RTX490")
    assert told.exit_code == 2 and "did you mean RTX" in told.stderr and not told.stdout
    document = json.loads(run("quickstart", "--why-not", "gpu=RTX490", "--json").stdout)
    assert document["status"] == "error" and document["errors"][0]["where"] == "gpu"


def test_an_unknown_scenario_ends_with_2() -> None:
    """The front door's own complaint, with the nearest shipped name."""
    told = run("quikstart")
    assert told.exit_code == 2 and "did you mean quickstart" in told.stderr
