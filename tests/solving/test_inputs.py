"""A plan carries what it was made from, so that it can be checked without its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.documents.files import read_document
from planner.loading.scenario_file import parse_scenario
from planner.solving.solve import CHANGED_DEFAULTS_NOTE, solve

OFFERS = """\
date: 2026-11-01
terms: {p: {fees: {egress_usd_per_gb: 0.05, storage_usd_per_gb_month: 0.1}, billing: {step_seconds: 60}}}
offers:
  - {provider: p, region: a, instance: x, gpu: A6000, gpus: 1, usd_per_hour: 0.6}
  - {provider: p, region: b, instance: x, gpu: A6000, gpus: 1, usd_per_hour: 0.6}
  - {provider: q, gpu: RTX3090, gpus: 1, usd_per_hour: 0.9}
  - {provider: r, gpu: H200, gpus: 8, usd_per_hour: 90}
"""
SCENARIO = """\
jobs: [{architecture: mistral-7b, work: {tokens: 5M}, deadline: 2d}]
limits: {budget_usd: 90}
adjust: [{match: {provider: q}, usd_per_hour_factor: 2}]
inventory: offers.yaml
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def plan_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan beside its files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "offers.yaml").write_text(OFFERS, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    assert run("solve", "s.yaml", "--set", "jobs.0.techniques.method=lora", "-o", "plan.json").exit_code == 0
    return tmp_path / "plan.json"


def test_a_plan_is_checked_without_its_files(plan_file: Path) -> None:
    """Scenario and offers are gone: the plan holds the settings, the terms of its offers and their days."""
    for name in ("offers.yaml", "s.yaml"):
        (plan_file.parent / name).unlink()
    assert run("check", "plan.json").exit_code == 0
    document = json.loads(plan_file.read_text(encoding="utf-8"))
    assert document["schema_version"] == 3
    inputs = document["inputs"]
    assert inputs["scenario"]["jobs"][0]["techniques"]["method"] == ["lora"]
    assert {"planner", "highspy", "ortools", "python"} <= set(inputs["versions"])
    rented = inputs["offers"][0]
    assert (rented["date"], rented["fees"]["egress_usd_per_gb"], rented["billing"]["step_seconds"]) == (
        "2026-11-01", 0.05, 60
    )  # fmt: skip
    document["jobs"][0]["cost_usd"] *= 0.5
    plan_file.write_text(json.dumps(document), encoding="utf-8")
    assert run("check", "plan.json").exit_code == 3


def test_names_of_offers_that_a_plan_leaves_out_are_no_fault(plan_file: Path) -> None:
    """Limits and price rules name every provider of the list; the plan carries one of them."""
    limits = {
        "providers": {"allow": ["p", "r"]},
        "regions": {"forbid": ["b"]},
        "quota": {"p": 4, "r": 8},
        "gpus": {"forbid": ["H200"]},
    }
    rules = [{"match": match, "usd_per_hour_factor": 2} for match in ({"provider": "r"}, {"instance": "x"})]
    scenario = {**read_document(plan_file.parent / "s.yaml").data, "limits": limits, "adjust": rules}
    (plan_file.parent / "named.json").write_text(json.dumps(scenario), encoding="utf-8")
    assert run("solve", "named.json", "-o", "named-plan.json").exit_code == 0
    carried = json.loads((plan_file.parent / "named-plan.json").read_text(encoding="utf-8"))["inputs"]["offers"]
    assert {one["provider"] for one in carried} == {"p"}
    assert run("check", "named-plan.json").exit_code == 0


def test_a_plan_of_the_former_format_is_read_and_needs_its_scenario(plan_file: Path) -> None:
    """Without `inputs` the scenario is asked for; with it the plan is checked as before."""
    document = json.loads(plan_file.read_text(encoding="utf-8"))
    del document["inputs"]
    plan_file.write_text(json.dumps({**document, "schema_version": 1}), encoding="utf-8")
    refused = run("check", "plan.json")
    assert refused.exit_code == 2 and "planner check PLAN SCENARIO" in refused.stderr
    assert run("check", "plan.json", "s.yaml", "--set", "jobs.0.techniques.method=lora").exit_code == 0


def test_a_figure_that_an_older_version_did_not_write_is_named_with_what_to_do(plan_file: Path) -> None:
    """States in host memory of a file without `host_memory`; a figure that is wrong in the file gets no such line."""
    given = ("method=lora", "weight_bits=16", "offload=optimizer_and_weights", "sharding=zero3")
    settings = [word for setting in given for word in ("--set", f"jobs.0.techniques.{setting}")]
    made = run("solve", "s.yaml", *settings, "--set", "jobs.0.framework=hf", "-o", "plan.json")
    assert made.exit_code == 0, made.stderr
    document = json.loads(plan_file.read_text(encoding="utf-8"))
    (job,) = document["jobs"]
    taken = job.pop("host_memory")
    plan_file.write_text(json.dumps(document), encoding="utf-8")
    old = run("check", "plan.json")
    assert old.exit_code == 3
    assert f"{job['name']}: host_memory is not in the file: an older version wrote it; solve again" in old.stdout
    job["host_memory"] = {**taken, "taken_gb": 0.5}
    plan_file.write_text(json.dumps(document), encoding="utf-8")
    wrong = run("check", "plan.json")
    assert wrong.exit_code == 3 and "host_memory" in wrong.stdout and "not in the file" not in wrong.stdout


@pytest.mark.parametrize(("schema", "told"), [("schema: 2\n", False), ("", True)])
def test_changed_defaults_are_told_unless_the_file_expects_them(schema: str, told: bool) -> None:
    """One note, with the keys that restore what held before."""
    offer = "offers: [{provider: p, gpu: A6000, gpus: 1, usd_per_hour: 0.6}]"
    plan = solve(parse_scenario(f"{schema}jobs: [{{architecture: mistral-7b, work: {{tokens: 5M}}}}]\n{offer}"))
    assert (CHANGED_DEFAULTS_NOTE in plan.warnings) == told


def test_an_unknown_schema_is_refused() -> None:
    """A file for another version is not read with the defaults of this one."""
    from planner.errors import ScenarioError

    with pytest.raises(ScenarioError, match="schema: 3 is not one of 2"):
        parse_scenario("schema: 3\njobs: [{architecture: mistral-7b, work: {tokens: 5M}}]")
