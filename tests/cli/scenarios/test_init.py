"""`init` and `scenarios`: from nothing to a file of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import catalog_command as init_module
from planner.cli import main
from planner.loading.scenario_file import read_scenario, shipped_scenarios


class Tty:
    """Stands in for `sys` with a terminal on every stream."""

    class stdin:
        isatty = staticmethod(lambda: True)

    stderr = stdin


def test_four_answers_make_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty answers leave the limits out; the file is read back."""
    monkeypatch.setattr(init_module, "sys", Tty)
    path = tmp_path / "mine.yaml"
    result = CliRunner().invoke(main, ["init", "-o", str(path)], input="mistral-7b\n5M\n\n30\n")
    assert result.exit_code == 0, result.stderr
    scenario = read_scenario(path)
    assert scenario.jobs[0].work.tokens == 5_000_000 and scenario.limits.budget_usd == 30
    assert scenario.jobs[0].deadline_hours is None and scenario.name == "mistral-7b"
    assert result.stderr.count("?") == 4


def test_a_wrong_answer_is_refused_and_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with the reason, and what was answered before is kept."""
    monkeypatch.setattr(init_module, "sys", Tty)
    path = tmp_path / "mine.yaml"
    wrong = "mistral-7bb\nmistral-7b\nmany\n5M\ntomorow\n2d\n\n"
    result = CliRunner().invoke(main, ["init", "-o", str(path)], input=wrong)
    assert result.exit_code == 0, result.stderr
    times = [result.stderr.count(text.partition(" (")[0]) for _, text, _ in init_module.QUESTIONS]
    assert times == [2, 2, 2, 1]
    assert all(told in result.stderr for told in ("mistral-7bb", "many", "tomorow"))
    scenario = read_scenario(path)
    assert (scenario.jobs[0].work.tokens, scenario.jobs[0].deadline_hours) == (5_000_000, 48)


def test_without_a_terminal_the_options_are_named() -> None:
    """Nothing waits for answers in a script."""
    result = CliRunner().invoke(main, ["init"])
    assert result.exit_code == 2 and "--model llama-3.1-8b" in result.stderr


def test_a_file_is_not_replaced_unless_forced(tmp_path: Path) -> None:
    """Somebody's work is not lost, and a question with faults writes nothing."""
    path = tmp_path / "mine.yaml"
    path.write_text("mine", encoding="utf-8")
    asked = ["init", "--model", "mistral-7b", "--tokens", "5M", "-o", str(path)]
    refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 2 and path.read_text(encoding="utf-8") == "mine"
    assert CliRunner().invoke(main, [*asked, "--tokens", "x", "--force"]).exit_code == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert CliRunner().invoke(main, [*asked, "--force"]).exit_code == 0
    assert read_scenario(path).jobs[0].work.tokens == 5_000_000


def test_a_config_is_found_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a config.json is typed relative to the working folder and written relative to the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "plans").mkdir()
    config = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 512,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    asked = ["init", "--model", "model/config.json", "--tokens", "5M", "-o", "plans/mine.yaml"]
    assert CliRunner().invoke(main, asked).exit_code == 0
    scenario = read_scenario("plans/mine.yaml")
    assert scenario.jobs[0].architecture == str(tmp_path / "model" / "config.json")
    assert scenario.name == "model"


@pytest.mark.slow
def test_every_shipped_scenario_is_listed_and_can_be_copied(tmp_path: Path) -> None:
    """`list` has a sentence for each, `show` prints the file, a wrong name is answered with a near one."""
    listed = CliRunner().invoke(main, ["scenarios"]).stdout
    names = shipped_scenarios()
    assert all(f"\n{name}" in f"\n{listed}" for name in names)
    shown = CliRunner().invoke(main, ["scenarios", "show", "quickstart"]).stdout
    assert shown == names["quickstart"].read_text(encoding="utf-8")
    wrong = CliRunner().invoke(main, ["scenarios", "show", "quickstar"])
    assert wrong.exit_code == 2 and "did you mean quickstart" in wrong.stderr
    assert all(row["description"] for row in json.loads(CliRunner().invoke(main, ["scenarios", "--json"]).stdout))
