"""`planner sweep`: rows in a file, a summary on the screen, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.helpers.scenarios_what_if import SMALL

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("sweep", *arguments))


def test_the_summary_names_the_cheapest_variant(scenario: str, tmp_path: Path) -> None:
    """And where the rows are."""
    out = tmp_path / "rows.csv"
    result = run(scenario, "--vary", "limits.budget_usd=[0.2, 60]", "--workers", "1", "-o", str(out))
    assert result.exit_code == 0
    assert "2 variants, 1 with a plan, 1 infeasible" in result.output
    assert "Cheapest" in result.output and "budget_usd = 60" in result.output and str(out) in result.output
    assert len(out.read_text().splitlines()) == 3


def test_the_summary_as_json(scenario: str, tmp_path: Path) -> None:
    """One document."""
    out = tmp_path / "rows.jsonl"
    result = run(scenario, "--vary", "limits.budget_usd=[0.2, 60]", "--workers", "1", "-o", str(out), "--json")
    document = json.loads(result.output)
    assert document["counts"] == {"infeasible": 1, "optimal": 1} and document["file"] == str(out)


def test_no_variant_with_a_plan_is_exit_code_3(scenario: str, tmp_path: Path) -> None:
    """As `what-if` has it."""
    out = tmp_path / "rows.csv"
    assert run(scenario, "--vary", "limits.budget_usd=[0.1, 0.2]", "--workers", "1", "-o", str(out)).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vary", "limits.budget_usd=[1]", "--workers", "0"), "--workers"),
        (("--vary", "limits.budget_usd=[1]", "--workers", "1", "--cluster", "tcp://h:1"), "exclude each other"),
        (("--vary", "limits.budgets_usd=[1]", "--workers", "1"), "did you mean"),
        ((), "nothing to vary"),
    ],
)
def test_bad_input_is_exit_code_2(scenario: str, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """With one line that says what to do."""
    result = run(scenario, *arguments, "-o", str(tmp_path / "rows.csv"))
    assert result.exit_code == 2 and message in result.output


def test_the_ending_of_the_file_says_its_form(scenario: str) -> None:
    """Any other is refused."""
    result = run(scenario, "--vary", "limits.budget_usd=[1]", "--workers", "1", "-o", "rows.txt")
    assert result.exit_code == 2 and ".csv" in result.output
