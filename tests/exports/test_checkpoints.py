"""Which checkpoint a run goes on from: the newest that is complete, whatever a lost machine has left of the others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from planner.documents.files import data_folder
from tests.helpers.checkpoints import adapters, deepspeed, sharded, whole_model
from tests.helpers.fake_machine import meeting
from tests.helpers.hangs import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCRIPT = data_folder("models") / "exports" / "newest_checkpoint.sh"
KINDS: dict[str, Callable[[Path], Path]] = {
    "adapters": adapters, "whole model": whole_model,
    "sharded": partial(sharded, processes=2), "deepspeed": partial(deepspeed, processes=2),
}  # fmt: skip


def newest(folder: Path, shell: str = "bash", name: str = "checkpoint-*", last: str = "trainer_state.json") -> str:
    """Return the name of the checkpoint that the script chooses; empty where it finds none."""
    options = "-euo pipefail" if shell == "bash" else "-eu"
    asked = f"set {options}; . '{SCRIPT}'; LATEST=$(newest_checkpoint \"$1\" '{name}' {last} || true); echo \"$LATEST\""
    done = subprocess.run([shell, "-c", asked, shell, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix(f"{folder}/")


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_complete_checkpoint_is_taken(kind: str, shell: str, tmp_path: Path) -> None:
    """By its number; a folder with a blank in its name is a folder too."""
    out = tmp_path / "my run"
    assert newest(out, shell) == ""
    for step in ("checkpoint-90", "checkpoint-100"):
        KINDS[kind](out / step)
    (out / "checkpoint-110").mkdir()
    assert newest(out, shell) == "checkpoint-100"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_without_one_of_its_files_or_with_a_part_of_it_is_passed_over(kind: str, tmp_path: Path) -> None:
    """Each file in turn is missing, empty or cut, as a killed process or a bucket leaves it; some may lack.

    Of files that differ by a number it is the last one.
    """
    KINDS[kind](tmp_path / "checkpoint-90")
    made = KINDS[kind](tmp_path / "checkpoint-100")
    files = sorted(one for one in made.rglob("*") if one.is_file())
    for path in {re.sub(r"\d+", "0", str(one.relative_to(made))): one for one in files}.values():
        content = path.read_bytes()
        needed = path.name != "config.json" and not path.name.startswith("rng_state")
        needed = needed and (kind, path.name) != ("deepspeed", "model.safetensors")  # its weights are among its states
        is_text = path.name in ("latest", ".metadata")  # their end is not marked
        for left in (None, b"", *(() if is_text else (content[: len(content) // 2], content[:-1]))):
            if left is None:
                path.unlink()
            else:
                path.write_bytes(left)
            wanted = "checkpoint-90" if needed or left is not None else "checkpoint-100"
            assert newest(tmp_path) == wanted, (path.name, left and len(left))
            path.write_bytes(content)
    assert newest(tmp_path) == "checkpoint-100"


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("name", ["checkpoint-100.tmp", "checkpoint-100 copy", "checkpoint-", "checkpoint-final"])
def test_a_folder_that_is_not_named_by_a_step_is_no_checkpoint(name: str, shell: str, tmp_path: Path) -> None:
    """Copies, and folders that a tool writes under another name first; alone they are none, too."""
    adapters(tmp_path / name)
    assert newest(tmp_path, shell) == ""
    adapters(tmp_path / "checkpoint-90")
    assert newest(tmp_path, shell) == "checkpoint-90"


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_document_that_is_cut_anywhere_is_not_whole(indent: int | None, shell: str, tmp_path: Path) -> None:
    """On one line too, after an inner bracket, and inside a text that has brackets, quotes and backslashes."""
    state = {"a": {"b": []}, "log": [{"x": 1}, {"y}": 'a "}]} \\'}], "n": 1, "last": {"z": "}}]"}}
    text = json.dumps(state, indent=indent)
    for length in range(len(text) + 1):
        (tmp_path / f"{length}.json").write_text(text[:length])
    (tmp_path / "0.json").write_text(f"{text}\n")
    asked = f'. \'{SCRIPT}\'; for one in *.json; do ! file_is_whole "$one" || echo "$one"; done'
    done = subprocess.run([shell, "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert {*done.stdout.split()} == {"0.json", f"{len(text)}.json"}


@pytest.mark.parametrize("name", ["chat_template.jinja", "README.md", "added_tokens.json", "merges.txt"])
def test_an_empty_file_that_no_run_goes_on_from_is_harmless(name: str, tmp_path: Path) -> None:
    """Some tools write it into each checkpoint: none would be complete."""
    (adapters(tmp_path / "checkpoint-100") / name).touch()
    assert newest(tmp_path) == "checkpoint-100"


def test_weights_without_an_optimizer_are_better_than_none(tmp_path: Path) -> None:
    """A plan may keep weights alone; where a checkpoint has both it is taken, though it is older."""
    for step in ("checkpoint-90", "checkpoint-100"):
        (adapters(tmp_path / step) / "optimizer.pt").unlink()
    assert newest(tmp_path) == "checkpoint-100"
    adapters(tmp_path / "checkpoint-80")
    assert newest(tmp_path) == "checkpoint-80"


def test_a_checkpoint_of_litgpt_is_one_file(tmp_path: Path) -> None:
    """Steps have leading zeros."""
    content = (adapters(tmp_path / "other") / "optimizer.pt").read_bytes()
    for step, left in (("step-000090", content), ("step-000100", content[:-5])):
        (tmp_path / step).mkdir()
        (tmp_path / step / "lit_model.pth").write_bytes(left)
    assert newest(tmp_path, name="step-*", last="lit_model.pth") == "step-000090"


@pytest.mark.parametrize(
    ("checkpoints", "planned", "said"),
    [
        (("out/checkpoint-100", ""), 2, "go on from steps 0 and 100: share the folder of checkpoints"),
        (("out/checkpoint-90", "out-2/checkpoint-100"), 2, "go on from steps 90 and 100: share the folder"),
        (("out/checkpoint-100", "out/checkpoint-100"), 4, "world size 2, and the plan has 4"),
        (("out/checkpoint-100", "out-2/checkpoint-100"), 2, ""),
        (("", ""), 2, ""),
    ],
)
def test_machines_that_would_go_on_from_different_steps_end_at_once(
    checkpoints: tuple[str, str], planned: int, said: str, tmp_path: Path
) -> None:
    """Each of the two processes, which meet before the training: none is left that waits for the other."""
    program, variables = str(data_folder("models") / "exports" / "world_size.py"), meeting(tmp_path)
    processes = [
        subprocess.Popen(
            [sys.executable, program, str(planned), checkpoint], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**variables, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2"},
        )
        for rank, checkpoint in enumerate(checkpoints)
    ]  # fmt: skip
    for rank, process in enumerate(processes):
        told, wrong = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == (1 if said else 0) and said in wrong, wrong
        assert told == ("world size 2, as planned\n" if rank == 0 and not said else "")
