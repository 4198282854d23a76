"""`planner architectures import` and `list`: a card that a scenario uses, and what may have been meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.library.test_huggingface import CONFIGS


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write the config.json of a multimodal model and return its path."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "some_vl", "text_config": CONFIGS["qwen2.5-0.5b"]}))
    return path


@pytest.mark.slow
def test_an_imported_card_is_the_architecture_of_a_scenario(config: Path, tmp_path: Path) -> None:
    """The plan is that of the shipped card; a path is relative to the scenario, and a plan can be checked."""
    made = run("architectures", "import", config, "-o", tmp_path / "own.yaml", "--name", "own")
    assert (made.exit_code, made.stdout) == (0, "")
    assert made.stderr.splitlines() == [
        "own: qwen2, 494,032,768 parameters",
        "  the language part of a multimodal model: encoders of images and sound are not counted",
    ]
    job = "{{architecture: {}, work: {{tokens: 5M}}, deadline: 1d, techniques: {{method: lora}}}}"
    costs = []
    for name in ("own.yaml", "qwen2.5-0.5b"):
        path = tmp_path / f"s-{name.partition('.')[0]}.yaml"
        path.write_text(f"name: s\njobs:\n  - {job.format(name)}\n")
        solved = run("solve", path, "-o", tmp_path / "plan.json", "--as-of", "2026-11-20")
        assert solved.exit_code == 0, solved.output
        costs.append(json.loads((tmp_path / "plan.json").read_text())["cost_usd"])
        assert run("check", tmp_path / "plan.json").exit_code == 0
    assert costs[0] == costs[1]


def test_standard_output_has_the_card_alone(config: Path, tmp_path: Path) -> None:
    """What is piped into a file is the same card."""
    printed = run("architectures", "import", config)
    assert printed.stdout.startswith(f"# Written by planner architectures import {config}\nname: ")
    card = tmp_path / "piped.yaml"
    card.write_text(printed.stdout)
    assert json.loads(run("architectures", "show", card, "--json").stdout)["parameters"] == 494_032_768


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\n", "own.yaml:1: family: "),
        ("", "own.yaml:1: the file is empty"),
        ("name: [", "own.yaml:2: not YAML"),
        ("name: x\nlayer: 3\n", "own.yaml:2: layer: unknown key; did you mean layers?"),
    ],
)
def test_a_card_of_ones_own_that_is_faulty_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    """In a scenario as for the command."""
    (tmp_path / "own.yaml").write_text(text)
    (tmp_path / "s.yaml").write_text("name: s\njobs:\n  - {architecture: own.yaml, work: {tokens: 5M}, deadline: 1d}\n")
    for arguments in (("architectures", "show", tmp_path / "own.yaml"), ("solve", tmp_path / "s.yaml")):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr


@pytest.mark.parametrize(("key", "value"), [("layers", "10000"), ("hidden", "1"), ("parameters", "5")])
def test_weights_and_dimensions_of_a_card_belong_together(config: Path, tmp_path: Path, key: str, value: str) -> None:
    """A slip of the pen would plan another model."""
    path = tmp_path / "own.yaml"
    run("architectures", "import", config, "-o", path)
    wrong = re.sub(rf"^{key}: \d+$", f"{key}: {value}", path.read_text(), flags=re.MULTILINE)
    path.write_text(wrong.replace("active_parameters: 494032768", "active_parameters: 5") if value == "5" else wrong)
    result = run("architectures", "show", path)
    assert (result.exit_code, "parameters: " in result.stderr) == (2, True)
    assert "where the dimensions give" in result.stderr


def test_faults_leave_the_file(config: Path, tmp_path: Path) -> None:
    """An unknown family, a target that a scenario would not read as a card, a folder."""
    target = tmp_path / "own.yaml"
    target.write_text("old")
    config.write_text('{"model_type": "some_vl"}')
    result = run("architectures", "import", config, "-o", target)
    assert (result.exit_code, target.read_text()) == (2, "old")
    assert f"{config}:1: model_type: unsupported model type 'some_vl'; " in result.stderr
    assert "must end in .yaml" in run("architectures", "import", config, "-o", tmp_path / "own.txt").stderr
    assert run("architectures", "import", config, "-o", tmp_path / "none" / "x.yaml").exit_code == 2


def names(*arguments: str) -> list[str]:
    listed = run("architectures", "list", *arguments, "--json")
    assert listed.exit_code == 0, listed.output
    return [card["name"] for card in json.loads(listed.stdout)]


def test_a_list_is_searched_by_family_and_words() -> None:
    """Aliases count; each word must be there."""
    assert names("--family", "gemma2") == ["gemma-2-27b", "gemma-2-2b", "gemma-2-9b"]
    assert names("LLAMA", "8b") == ["llama-3-8b", "llama-3.1-8b"]
    assert names("r1-distill", "--family", "qwen2") == names("R1-Distill qwen2")
    assert names("R1-Distill qwen2") != []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--family", "gema2"], "gema2: unknown family; did you mean gemma2"),
        (["lhama-3.1-8b"], "lhama-3.1-8b: no architecture has these words; did you mean llama-3.1-8b"),
        (["gemma", "--family", "qwen2"], "gemma: no architecture of qwen2 has these words"),
        (["--family", "zzz"], "zzz: unknown family; the nearest are ZImage, AuraFlow, Chroma\n"),
    ],
)
def test_what_may_have_been_meant_is_said(arguments: list[str], told: str) -> None:
    """A slip of the pen is no empty list."""
    result = run("architectures", "list", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
