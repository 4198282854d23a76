"""`planner market fit` from the command line: the verdict, a block to paste, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from planner.cli import main
from planner.scenario.offer import Offer


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A machine that stays 3 or 9 half-hours and is away for 2."""
    path = tmp_path / "zone.json"
    data = ([1] * 3 + [0] * 2 + [1] * 9 + [0] * 2) * 20
    path.write_text(json.dumps({"metadata": {"gap_seconds": 1800}, "data": data}))
    return path


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["market", "fit", *map(str, arguments)])


def test_the_answer_comes_first_and_the_block_can_be_pasted(trace: Path) -> None:
    """One line of verdict, then YAML that an offer takes, then what it rests on, 80 columns wide."""
    told = run(trace)
    assert told.exit_code == 0
    verdict, block, rest = told.stdout.split("\n\n", 2)
    assert verdict == "zone: 1 machine available 75 % of the time, for 3.0 h on average"
    offer = {"provider": "p", "gpu": "T4", "gpus": 1, "spot_usd_per_hour": 0.1, **yaml.safe_load(block)}
    assert Offer.model_validate(offer).spot is not None
    assert "40 interruptions in 160.0 h: the mean up-time is known to a factor of" in " ".join(rest.split())
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_json_is_one_document_and_the_block_may_go_to_a_file(trace: Path, tmp_path: Path) -> None:
    """The same figures for scripts."""
    told = run(trace, "--json", "-o", tmp_path / "spot.yaml")
    document = json.loads(told.stdout)
    assert document["interruptions"] == 40 and document["instances"] == 1
    assert document["availability"]["low"] < document["spot"]["availability"] < document["availability"]["high"]
    assert yaml.safe_load((tmp_path / "spot.yaml").read_text())["spot"]["up"] == document["spot"]["up"]


def test_one_trace_of_several_can_be_asked_for(trace: Path) -> None:
    """The others do not count."""
    (trace.parent / "other.json").write_text(trace.read_text())
    assert json.loads(run(trace.parent, "--only", "other", "--json").stdout)["hours"] == 160
    assert json.loads(run(trace.parent, "--json").stdout)["hours"] == 320


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere.json",), "nowhere.json: cannot be read: no such file or directory"),
        (("--instances", "0"), "0 is not in the range"),
        (("--instances", "5"), "5 machines were never available together, at most 1"),
        (("--only", "zine"), "unknown trace 'zine'"),
    ],
)
def test_what_cannot_be_answered_is_said_and_ends_with_code_2(
    arguments: tuple[str, ...], told: str, trace: Path
) -> None:
    """In words on standard error, or as one document."""
    given = arguments if arguments[0].endswith(".json") else (str(trace), *arguments)
    said = run(*given)
    assert said.exit_code == 2 and told in said.stderr and said.stdout == ""
    document = json.loads(run(*given, "--json").stdout)
    assert document["status"] == "error" and told.split(": ")[-1] in document["errors"][0]["what"]
