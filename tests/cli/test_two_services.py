"""Commands on two services in one scenario: figures for each, or one line on what they cannot do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.helpers.two_services import TWO_FILE

AS_OF = ("--as-of", "2026-11-24")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The scenario of both as a file."""
    path = tmp_path_factory.mktemp("two") / "two.yaml"
    path.write_text(TWO_FILE, encoding="utf-8")
    return str(path)


def planner(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.long
def test_solve_check_and_export_have_both(file: str, tmp_path: Path) -> None:
    """A plan file with two fleets is checked, and each service has a folder of its own."""
    plan = tmp_path / "plan.json"
    solved = planner("solve", file, "-o", str(plan), *AS_OF)
    assert solved.exit_code == 0 and solved.output.startswith("two: 2 services, $"), solved.output
    assert [one["name"] for one in json.loads(plan.read_text(encoding="utf-8"))["jobs"]] == ["desk", "night"]
    assert planner("check", str(plan), file).exit_code == 0
    out = tmp_path / "out"
    assert planner("export", str(plan), "--all", "-o", str(out)).exit_code == 0
    assert {"desk", "night"} <= {one.name for one in out.iterdir()}


@pytest.mark.long
def test_what_if_says_what_changed_of_each(file: str) -> None:
    """A looser latency of one leaves the dollars of the other."""
    found = planner("what-if", file, "--set", "jobs.desk.latency.tpot=60ms", "--json", *AS_OF)
    assert found.exit_code == 0, found.output
    desk, night = json.loads(found.output)["services"]
    assert desk["usd_per_month"] <= 0 and night["usd_per_month"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("command", [("explain",), ("frontier",), ("frontier", "--job", "night")])
def test_what_takes_a_service_alone_says_so_in_one_line(file: str, command: tuple[str, ...]) -> None:
    """Bad input, with what to do."""
    name, *more = command
    found = planner(name, file, *more, *AS_OF)
    assert found.exit_code == 2
    assert "takes a service alone, and there are 2 jobs; give the service a scenario of its own" in found.output
