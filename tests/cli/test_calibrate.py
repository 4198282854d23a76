"""`planner calibrate` from the command line: logs in, an entry for `measured` out, and what it changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from planner.cli.output import Commands
from planner.cli.run_commands import SETTINGS, calibrate
from planner.loading.scenario_file import parse_scenario
from planner.scenario.job import Measured

SCENARIO = """
name: two
offers: [{provider: b, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1}]
jobs:
  - {name: one, architecture: llama-2-7b, work: {tokens: 20e6}, sequence_length: 1024, global_batch: 32}
"""
AS_OF = ("--as-of", "2026-11-21")
QLORA = ("--method", "lora", "--weight-bits", "4", "--activation-checkpointing", "selective", "--micro-batch", "2")


@pytest.fixture
def run() -> Any:
    """The command under a top command, which turns errors into exit codes."""
    top = Commands("planner", commands={"calibrate": calibrate})

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(top, ["calibrate", *arguments])

    return invoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of steps of 80 s after a slow one, one of memory, and a scenario."""
    seconds = [200.0, *(80.0 + n % 3 for n in range(20))]
    (tmp_path / "steps.csv").write_text("step,seconds\n" + "".join(f"{n},{s}\n" for n, s in enumerate(seconds)))
    (tmp_path / "memory.csv").write_text("timestamp, memory.used [MiB]\nnow, 9000 MiB\nlater, 11264 MiB\n")
    (tmp_path / "two.yaml").write_text(SCENARIO)
    return tmp_path


def test_the_printed_entry_can_be_pasted_into_the_job(run: Any, folder: Path) -> None:
    """It is YAML, it is valid, and it says what the logs say."""
    asked = (str(folder / "steps.csv"), str(folder / "memory.csv"), "--gpu", "RTX 3060", "--tokens-per-step", "32000")
    told = run(*asked, *QLORA)
    assert told.exit_code == 0
    block = told.stdout.split("\n\n")[0]
    (entry,) = yaml.safe_load(block)["measured"]
    seen = Measured.model_validate(entry)
    assert (seen.gpu, seen.gpus, seen.peak_vram_gib, seen.peak_kind) == ("RTX3060", 1, 11.0, "device")
    assert seen.tokens_per_second == pytest.approx(32000 / 81, rel=1e-3)
    assert (seen.method, seen.weight_bits, seen.micro_batch) == ("lora", 4, 2)
    assert "1 warm-up step excluded" in told.stdout


def test_with_a_scenario_the_run_stands_beside_its_estimate_and_changes_the_plan(run: Any, folder: Path) -> None:
    """Before and after are the plans without and with the entry; pasting it gives the same hours."""
    asked = (str(folder / "steps.csv"), "--gpu", "RTX3060", "--scenario", str(folder / "two.yaml"), *QLORA, *AS_OF)
    told = json.loads(run(*asked, "--json").stdout)
    compared, before, after = told["compared"], told["before"], told["after"]
    assert compared["tokens_per_second"] == pytest.approx(32 * 1024 * 0.97 / 81, rel=1e-3)
    ratio = compared["tokens_per_second"] / compared["predicted_tokens_per_second"]
    assert compared["speed_factor"] == pytest.approx(ratio ** (1 / 1.5))
    assert after["hours"] > before["hours"] and after["cost_usd"] > before["cost_usd"]
    entry = ", ".join(f"{key}: {value}" for key, value in told["measured"].items())
    from planner.solving.solve import solve

    pasted = solve(parse_scenario(SCENARIO, set_=[f"jobs.one.measured=[{{{entry}}}]"]))
    assert pasted.jobs[0].hours.expected == pytest.approx(after["hours"])


def test_the_text_keeps_its_width_and_starts_with_the_verdict(run: Any, folder: Path) -> None:
    """80 columns, but for the entry, which is one line of YAML."""
    asked = (str(folder / "steps.csv"), str(folder / "memory.csv"), "--gpu", "RTX3060")
    told = run(*asked, "--scenario", str(folder / "two.yaml"), *QLORA, *AS_OF).stdout.splitlines()
    assert told[0].startswith("two, one: estimated speed x 0.")
    assert all(len(line) <= 80 for line in told if not line.startswith("  - {"))
    assert any("predicted" in line for line in told) and any(line.strip().startswith("after") for line in told)


def test_the_entry_is_written_to_a_file_where_asked(run: Any, folder: Path) -> None:
    """The same text as on the screen."""
    asked = (str(folder / "memory.csv"), "--gpu", "RTX3060", "-o", str(folder / "measured.yaml"))
    told = run(*asked)
    assert (folder / "measured.yaml").read_text() in told.stdout
    assert yaml.safe_load((folder / "measured.yaml").read_text())["measured"][0]["peak_vram_gib"] == 11.0


def test_batches_of_a_trainer_state_count_unless_they_are_said(run: Any, folder: Path) -> None:
    """Two per GPU and 32 in all: 16 accumulation steps on one GPU."""
    entries = [{"step": 60, "train_runtime": 4800.0, "train_samples_per_second": 0.4, "train_steps_per_second": 0.0125}]
    (folder / "state.json").write_text(json.dumps({"train_batch_size": 2, "log_history": entries}))
    asked = (str(folder / "state.json"), "--gpu", "RTX3060", "--tokens-per-step", "1000", "--json")
    told = json.loads(run(*asked).stdout)
    assert told["measured"] == {
        "gpu": "RTX3060", "gpus": 1, "tokens_per_second": 12.5, "micro_batch": 2, "global_batch": 32,
    }  # fmt: skip
    assert json.loads(run(*asked, "--micro-batch", "4").stdout)["measured"]["micro_batch"] == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("steps.csv", "--gpu", "RTX3060"), "the tokens per step are missing"),
        (("steps.csv", "--gpu", "RTX3O60"), "unknown GPU 'RTX3O60'"),
        (("steps.csv", "steps.csv", "--gpu", "RTX3060"), "already contains the speed of the run"),
        (("nothing.csv", "--gpu", "RTX3060"), "cannot be read: no such file"),
        (("two.yaml", "--gpu", "RTX3060"), "unknown log format"),
        (("memory.csv", "--gpu", "RTX3060", "--method", "lorra"), "lora"),
        (("memory.csv", "--gpu", "RTX3060", "--scenario", "two.yaml", "--job", "three"), "has no job 'three'"),
        (("memory.csv", "--gpu", "RTX3060", "-o", "no/where.yaml"), "there is no folder"),
    ],
)
def test_bad_input_ends_with_2_and_says_what_would_be_right(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    """One message on standard error, no traceback; as JSON where asked."""
    monkeypatch.chdir(folder)
    result = run(*arguments)
    assert result.exit_code == 2 and told in result.stderr and result.stdout == ""
    document = json.loads(run(*arguments, "--json").stdout)
    assert document["status"] == "error" and told in json.dumps(document)


def test_every_option_of_a_run_is_a_field_of_the_scenario_file() -> None:
    """The command line and `measured` speak the same language."""
    assert {name.replace("-", "_") for name in SETTINGS} <= set(Measured.model_fields)


@pytest.mark.parametrize("option", ["--tensor-parallel", "--pipeline-parallel", "--micro-batch", "--network-gbps"])
def test_a_setting_of_zero_is_refused_before_anything_is_divided_by_it(run: Any, folder: Path, option: str) -> None:
    """One line with the name of the setting."""
    result = run(str(folder / "steps.csv"), "--gpu", "A100", "--tokens-per-step", "4096", option, "0")
    assert result.exit_code == 2
    assert f"{option[2:].replace('-', '_')}: 0" in result.output and "is out of range; must be" in result.output
