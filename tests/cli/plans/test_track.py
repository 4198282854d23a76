"""`planner track`: text, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.cli.output import json_text
from tests.helpers import run_logs
from tests.helpers.exported_plans import solved

pytestmark = pytest.mark.slow


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("track", *arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan, a log of its run, and one of a run that will be late."""
    made = tmp_path_factory.mktemp("track")
    (made / "plan.json").write_text(json_text(solved("quickstart").model_dump(mode="json", by_alias=True)))
    (made / "run.log").write_text(run_logs.torchtitan(range(10, 301, 10), 26.0))
    (made / "late.log").write_text(run_logs.torchtitan(range(10, 301, 10), 260.0))
    return made


def test_the_first_line_says_how_it_will_end(folder: Path) -> None:
    """Share, hours, dollars and the deadline; then what was observed against what was planned."""
    result = run(str(folder / "plan.json"), str(folder / "run.log"))
    assert result.exit_code == 0
    assert result.stdout.startswith("quickstart: 42 % done, ends after 5.3 h for $3.")
    for label in ("Done", "Speed", "Memory", "End", "Because", "Logs", "Notes"):
        assert f"\n  {label}" in result.stdout
    assert "slower steps" in result.stdout and "tokens/s observed" in result.stdout


def test_the_json_has_the_fields_of_the_contract(folder: Path) -> None:
    """`observed`, `planned`, `projected` and `replan`, one document, nothing else."""
    result = run(str(folder / "plan.json"), str(folder / "run.log"), "--json")
    found = json.loads(result.stdout)
    assert {"observed", "planned", "projected", "replan"} <= found.keys()
    assert {"hours", "cost_usd", "deadline_probability"} <= found["projected"].keys()
    assert found["observed"]["steps"] == 300 and found["replan"] is None


def test_a_deadline_in_danger_is_exit_code_3(folder: Path) -> None:
    """The answer is printed all the same."""
    result = run(str(folder / "plan.json"), str(folder / "late.log"))
    assert result.exit_code == 3 and "meets the 36 h deadline with under 1 % probability" in " ".join(
        result.stdout.split()
    )


def test_bad_input_is_exit_code_2(folder: Path) -> None:
    """A log that is none, a plan that is none, an amount that is none."""
    (folder / "none.log").write_text("hello\n")
    assert run(str(folder / "plan.json"), str(folder / "none.log")).exit_code == 2
    assert run(str(folder / "run.log"), str(folder / "run.log")).exit_code == 2
    assert run(str(folder / "plan.json"), str(folder / "run.log"), "--spent", "nan").exit_code == 2
    result = run(str(folder / "plan.json"), str(folder / "missing"), "--json")
    assert result.exit_code == 2 and json.loads(result.stdout)["errors"][0]["what"].startswith("cannot be read")
