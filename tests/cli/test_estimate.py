"""`planner estimate` from the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.cli.options import TECHNIQUE_OPTIONS
from planner.cli.output import Commands
from planner.cli.run_commands import CHOICES, estimate
from planner.scenario.techniques import Configuration

MISTRAL = ("--architecture", "mistral-7b", "--gpu", "A10G", "--weight-bits", "4")


@pytest.fixture
def run() -> Any:
    """The command under a top command, which turns errors into exit codes."""
    top = Commands("planner", commands={"estimate": estimate})

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(top, ["estimate", *arguments])

    return invoke


def test_json_has_the_fields_of_the_contract(run: Any) -> None:
    """Every promised field, and nothing but one document on standard output."""
    document = json.loads(run(*MISTRAL, "--json").stdout)
    memory = {"peak", "allocated", "usable", "fits", "fit_probability", "phase", "parts"}
    assert memory <= set(document["vram_gib"])
    assert set(document["step_seconds"]) == {"total", "parts"}
    top = {"tokens_per_second", "tokens_per_second_low", "tokens_per_second_high", "profile", "profiled", "sigma"}
    assert top <= set(document)
    assert document["vram_gib"]["fits"] is True and document["profile"] == "hf" and document["profiled"] is True


def test_text_starts_with_the_verdict(run: Any) -> None:
    """Network, hardware, whether it fits, and the speed, in 80 columns."""
    result = run(*MISTRAL, "--micro-batch", "2", "--largest-batch", "--longest-sequence")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and lines[0].startswith("mistral-7b on 1 x A10G: fits, ")
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  Limits   largest micro-batch") for line in lines)


def test_what_does_not_fit_is_an_answer(run: Any) -> None:
    """Exit 0, by how much, and what would make it fit."""
    result = run("--architecture", "llama-3-8b", "--gpu", "RTX4090", "--method", "full")
    assert result.exit_code == 0
    assert "does not fit: " in result.stdout.splitlines()[0] and "lora on a 4-bit base: " in result.stdout


def test_what_cannot_work_together_exits_2_naming_the_option(run: Any) -> None:
    """The reason goes to standard error, or as JSON to standard output."""
    wrong = ("--architecture", "mistral-7b", "--gpu", "V100-32GB", "--precision", "bf16_mixed")
    result = run(*wrong)
    assert result.exit_code == 2 and not result.stdout
    assert "the card has no bf16" in result.stderr
    document = json.loads(run(*wrong, "--json").stdout)
    assert document["status"] == "error" and set(document["errors"][0]) == {"file", "line", "where", "what", "fix"}
    misspelt = run(*MISTRAL, "--sharding", "fsdp", "--gpus", "2")
    assert misspelt.exit_code == 2 and "--sharding: " in misspelt.stderr and "write zero3" in misspelt.stderr


def test_unknown_names_exit_2(run: Any) -> None:
    """A misspelt card is told with the nearest names."""
    result = run("--architecture", "mistral-7b", "--gpu", "RTX409")
    assert result.exit_code == 2 and "did you mean RTX4090" in result.stderr


def test_a_configuration_file_is_an_architecture(run: Any, tmp_path: Any) -> None:
    """The path of a config.json serves as well as a card."""
    config = {
        "model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
        "num_hidden_layers": 22, "intermediate_size": 5632, "vocab_size": 32000, "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    own = json.loads(run("--architecture", str(path), "--gpu", "T4", "--micro-batch", "1", "--json").stdout)
    card = json.loads(run("--architecture", "tinyllama", "--gpu", "T4", "--micro-batch", "1", "--json").stdout)
    assert own["vram_gib"] == card["vram_gib"]


@pytest.mark.parametrize("given", ["q,k,v", "q_proj,k_proj,v_proj"])
def test_lora_targets_may_be_a_list(run: Any, given: str) -> None:
    """Linear layers separated by commas, in either spelling."""
    document = json.loads(run(*MISTRAL, "--lora-targets", given, "--json").stdout)
    assert document["techniques"]["lora_targets"] == ["q", "k", "v"]


def test_one_lora_target_may_stand_alone(run: Any) -> None:
    """A single layer is no set of modules, and is understood; a wrong word is a fault."""
    assert json.loads(run(*MISTRAL, "--lora-targets", "q", "--json").stdout)["techniques"]["lora_targets"] == ["q"]
    assert run(*MISTRAL, "--lora-targets", "everything").exit_code == 2


def test_help_lists_the_values_that_are_accepted() -> None:
    """What the options print as choices is what a configuration accepts, and every setting has an option."""
    fields = Configuration.model_json_schema()["properties"]
    context = click.Context(estimate)
    options = {str(parameter.name): parameter for parameter in estimate.params}
    assert set(fields) - {"tuning", "teacher"} <= set(options)  # --preference has its own estimate
    for option in (*TECHNIQUE_OPTIONS, *CHOICES):
        name = option.replace("-", "_")
        record = options[name].get_help_record(context)
        assert record is not None
        forms = [fields[name], *fields[name].get("anyOf", ())]
        accepted = {str(value) for form in forms for value in form.get("enum", ())}
        accepted |= {"qlora"} if name == "method" else set()  # LoRA on 4 bits: a word for two settings
        assert set(record[0].split(" ")[-1].split("|")) == accepted, option


def test_a_folder_in_place_of_a_model_names_its_config(run: Any, tmp_path: Path) -> None:
    """A list of shipped models would not help there."""
    result = run(str(tmp_path), "H100")
    assert result.exit_code == 2 and f"{tmp_path}: a folder is no model; give the config.json in it" in result.stderr


@pytest.mark.slow
def test_the_command_below_an_estimate_runs(run: Any) -> None:
    """What the model costs to train by that method, with a number of tokens to replace."""
    line = run("mistral-7b", "A10G", "--weight-bits", "4").stdout.splitlines()[-1]
    assert line.startswith("planner solve --model mistral-7b --tokens ")
    asked = [*shlex.split(line, comments=True)[1:], "--as-of", "2026-11-21"]
    assert CliRunner().invoke(main, asked).exit_code == 0
    assert "planner " not in run("sdxl", "A100").stdout  # of images only a file can ask
