"""The JSON of plans: its schema, plans of the former version, and one name for one thing."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import planner
from planner.cli import main
from planner.cli.options import RENAMED, VERSION
from planner.results.plan import Plan
from tests.helpers.frozen_data import ROOT
from tests.helpers.plans import make_infeasible, make_plan, make_service_plan

FORMER = ROOT / "tests" / "data" / "plans" / "quickstart-v2.json"
"""What the planner wrote before version 3."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def keys_of(data: Any) -> set[str]:
    """Return every key in JSON data."""
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return set(data if isinstance(data, dict) else ()).union(*map(keys_of, inside))


def validate(document: Any, name: str) -> None:
    """Raise where a document is not as `planner schema NAME` says."""
    import_module("jsonschema").validate(document, json.loads(run("schema", name).stdout))


@pytest.mark.parametrize("made", [make_plan(), make_service_plan(), make_infeasible()])
def test_the_json_of_a_plan_is_as_its_schema_says(made: Plan) -> None:
    """Of a job, of a service among the jobs, and where there is none; it is read as it was written."""
    document = made.model_dump(mode="json", by_alias=True)
    validate(document, "plan")
    assert Plan.model_validate(document) == made
    assert document["schema_version"] == VERSION


def test_dollars_are_a_number_wherever_they_are_called_cost_usd() -> None:
    """The range has a name of its own, for a plan as for a job; two that differ are refused."""
    document = make_plan().model_dump(mode="json", by_alias=True)
    assert document["cost_usd"] == document["cost"]["expected"] == 2.82
    assert isinstance(document["jobs"][0]["cost_usd"], float)
    with pytest.raises(ValueError, match="cost_usd is not the expected figure of cost"):
        Plan.model_validate({**document, "cost_usd": 1.0})


def test_a_plan_of_the_former_version_is_read_checked_and_exported(tmp_path: Path) -> None:
    """Each key has its new name, and nothing of it is lost."""
    before = json.loads(FORMER.read_text(encoding="utf-8"))
    plan = planner.read_plan(FORMER)
    after = plan.model_dump(mode="json", by_alias=True)
    validate(after, "plan")
    assert not RENAMED.keys() & keys_of(after["jobs"])
    assert after["cost"] == before["cost_usd"] and plan.cost_usd == before["cost_usd"]["expected"]
    assert len(plan.jobs[0].methods) == len(before["jobs"][0]["ladder"]) > 0
    kept = tmp_path / "plan.json"
    shutil.copy(FORMER, kept)
    assert run("check", str(kept)).exit_code == 0
    exported = run("export", str(kept), "--all", "-o", str(tmp_path / "run"))
    assert exported.exit_code == 0, exported.stderr


def test_a_plan_of_a_version_to_come_is_refused_by_its_number(tmp_path: Path) -> None:
    """With what this planner reads."""
    document = {**json.loads(FORMER.read_text(encoding="utf-8")), "schema_version": VERSION + 1}
    newer = tmp_path / "newer.json"
    newer.write_text(json.dumps(document), encoding="utf-8")
    result = run("check", str(newer))
    assert result.exit_code == 2 and f"version {VERSION + 1}" in result.stderr and "reads versions" in result.stderr


def test_the_schema_of_what_is_no_result_names_the_results() -> None:
    """One of the names that there are is among them."""
    result = run("schema", "plans")
    assert result.exit_code == 2 and "what-if" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("estimate", ("estimate", "mistral-7b", "A10G", "--weight-bits", "4")),
        ("frontier", ("frontier", "quickstart", "--as-of", "2026-09-01")),
        ("explanation", ("explain", "quickstart", "--as-of", "2026-09-01")),
        ("what-if", ("what-if", "quickstart", "--set", "limits.max_gpus=1", "--as-of", "2026-09-01")),
    ],
)
def test_the_json_of_a_command_is_as_its_schema_says(name: str, command: tuple[str, ...]) -> None:
    """Each result has the version of all."""
    document = json.loads(run(*command, "--json").stdout)
    validate(document, name)
    assert document["schema_version"] == VERSION
