"""Faults that are found after a scenario was read still name its file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.errors import Fault, ScenarioError
from planner.loading.scenario_file import load_scenario, read_scenario

SCENARIO = """\
name: s
inventory: [offers.yaml]
jobs:
  - name: one.job
    architecture: tinyllama-1.1b
    work: {tokens: 1e7}
    measured:
      - {gpu: A100-80GB, gpus: 1, hours: HOURS}
    deadline: 300d
    stages: {STAGES}
limits: {max_hours: 3000, tiers: {allow: committed}}
offers:
  - {provider: here, gpu: A100-80GB, gpus: 1, usd_per_hour: 2, commitment: {months: 1}}
"""
OFFERS = """\
currency: USD
offers:
  - {provider: p, gpu: A100-80GB, gpus: 1, usd_per_hour: 2}
  - provider: p
    gpu: A100-80GB
    gpus: 1
    usd_per_hour: 0.5
    commitment:
      months: 1
"""


def written(folder: Path, hours: str = "900", stages: str = "") -> Path:
    """The scenario and its inventory in a folder."""
    (folder / "offers.yaml").write_text(OFFERS)
    file = folder / "s.yaml"
    file.write_text(SCENARIO.replace("HOURS", hours).replace("STAGES", stages))
    return file


def told(*arguments: str) -> list[tuple[str, int, str]]:
    """File, line and place of each fault of a command."""
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 2, result.output
    errors = json.loads(result.output)["errors"]
    return [(Path(one["file"]).name, one["line"], one["where"]) for one in errors]


def test_an_observation_that_cannot_be_is_told_at_its_line(tmp_path: Path) -> None:
    """A job whose name has a dot is found; a setting that made the fault is named in the line's stead."""
    file = written(tmp_path, "1e-6")
    assert told("solve", str(file)) == [("s.yaml", 8, "jobs.0.measured.0.hours")]
    ((name, line, _),) = told("solve", str(file), "--set", "jobs.0.measured.0.hours=2e-6")
    assert (name, line) == ("--set jobs.0.measured.0.hours=2e-6", 0)


def test_a_stage_that_no_offer_can_run_is_told_at_its_line(tmp_path: Path) -> None:
    """What is not written itself has the line of what it belongs to."""
    file = written(tmp_path, stages="ingest: {raw_gb: 5, on: cpu}")
    assert told("solve", str(file)) == [("s.yaml", 10, "jobs.0.stages.ingest.on")]


def test_other_errors_pass_as_they_are(tmp_path: Path) -> None:
    """A fault of another file, or with a line of its own, is left alone; so is one of no known place."""
    asked = load_scenario(written(tmp_path))
    assert asked.scenario == read_scenario(tmp_path / "s.yaml")
    places = (("other", 0, "jobs.one.job.deadline"), ("s", 3, "jobs"), ("s", 0, "name"))
    faults = [Fault(*place, "a", "b") for place in places]
    with pytest.raises(ScenarioError) as caught, asked.locate_faults():
        raise ScenarioError(faults)
    assert caught.value.faults == tuple(sorted(faults))
