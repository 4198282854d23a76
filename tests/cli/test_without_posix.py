"""Commands that write, on a system without the calls that Windows lacks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from tests.helpers import run_logs
from tests.helpers.catalogs import skypilot_row, write_skypilot
from tests.helpers.computed_once import compute_once
from tests.helpers.scenarios_what_if import SMALL

pytestmark = pytest.mark.slow

LACKING = ("fchmod", "fchown", "chown", "O_NOFOLLOW", "O_NONBLOCK")
ROOT = Path(__file__).parents[2]
AS_OF = ("--as-of", "2026-11-21")
ESTIMATED = ("--gpu", "A5000", "--tokens-per-step", "32000", "--method", "lora", "--weight-bits", "4")

VARIED = ("--vary", "limits.budget_usd=[4, 5]", "--workers", "1")
LLAMA = {
    "model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip

COMMANDS: dict[str, tuple[str, ...]] = {
    # what is written: the command that writes it, in the order in which one needs the other
    "plan.json": ("solve", "small.yaml", "-o", "plan.json", *AS_OF),
    "timetable.svg": ("solve", "queue-two-own-4090", "--plot", "timetable.svg", *AS_OF),
    "frontier.svg": ("frontier", "small.yaml", "--plot", "frontier.svg", *AS_OF),
    "tornado.svg": ("what-if", "small.yaml", "--tornado", "--plot", "tornado.svg", *AS_OF),
    "sweep.csv": (
        "sweep",
        "small.yaml",
        "--vary",
        "limits.budget_usd=[4, 5]",
        "-o",
        "sweep.csv",
        "--workers",
        "1",
        *AS_OF,
    ),
    "policy.json": ("simulate", "spot-heavy", "--runs", "20", "--policy", "policy.json", *AS_OF),
    "entry.yaml": ("calibrate", "steps.csv", *ESTIMATED, "-o", "entry.yaml"),
    "market.yaml": ("market", "fit", "trace.json", "-o", "market.yaml"),
    "exports": ("export", "plan.json", "--to", "trl", "-o", "exports"),
    "tracked.json": ("track", "plan.json", "run.log", "--replan", "-o", "tracked.json"),
    "report.html": ("report", "plan.json", "-o", "report.html", "--runs", "20", "--without", "tornado"),
    "scenario.yaml": ("init", "--model", "llama-3.1-8b", "--tokens", "2e6", "-o", "scenario.yaml", "--force"),
    "prices": ("prices", "update", "--offline", "aws/vms.csv", "--date", "2026-11-20"),
    "offers.yaml": ("offers", "import", "aws/vms.csv", "-o", "offers.yaml"),
    "architecture.yaml": ("architectures", "import", "config.json", "-o", "architecture.yaml"),
}


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inputs of the commands, on a system that lacks those calls."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "steps.csv").write_text("step,seconds\n" + "".join(f"{n},{80 + n % 3}\n" for n in range(20)))
    (tmp_path / "run.log").write_text(run_logs.torchtitan(range(10, 301, 10), 28.0))
    trace = {"metadata": {"gap_seconds": 1800}, "data": ([1] * 3 + [0] * 2 + [1] * 9 + [0] * 2) * 20}
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    write_skypilot(tmp_path, skypilot_row())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "prices"))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in LACKING:
        monkeypatch.delattr(os, name)
    return tmp_path


@pytest.mark.long
def test_every_command_that_writes_needs_none_of_them(folder: Path) -> None:
    """Each file is there, written twice (a second time over the first), and no part of one is left."""
    for written, command in COMMANDS.items():
        for _ in range(2):
            ended = CliRunner().invoke(main, command)
            assert ended.exit_code == 0, f"{command}: {ended.output}"
        assert (folder / written).exists(), command
    assert not list(folder.rglob("*.part"))
