"""Tasks of SkyPilot and dstack, run whole as these tools run them on machines of stand-ins, each step failing once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from planner.exports.facts import Wishes
from planner.results.plan import ExportedResult
from tests.helpers.checkpoints import adapters
from tests.helpers.exported_plans import changed, solved, texts
from tests.helpers.fake_launchers import (
    HEAD,
    OTHER,
    dstack,
    skypilot,
    skypilot_setup,
    start_dstack,
    start_skypilot,
    task_of,
)
from tests.helpers.fake_machine import Ended, FakeMachine
from tests.helpers.hangs import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from planner.results.plan import Plan

pytestmark = pytest.mark.slow
TWO = {"instances": 2, "gpus_per_instance": 4, "gpus": 8}
BOTH = (HEAD, OTHER)
RUNS: dict[str, Callable[..., Ended]] = {"skypilot": skypilot, "dstack": dstack}
STARTS: dict[str, Callable[..., subprocess.Popen[str]]] = {"skypilot": start_skypilot, "dstack": start_dstack}
FILES = {"skypilot": "task.yaml", "dstack": "task.dstack.yml"}
launchers = pytest.mark.parametrize("launcher", RUNS)


def plan_of(launcher: str) -> Plan:
    """Return a plan of two machines with four GPUs, whose folder of checkpoints both have."""
    if launcher == "skypilot":
        return changed(solved("fsdp"), **TWO)
    return changed(solved("fsdp"), **TWO, provider="runpod-secure", spot_share=0.0)


def one_machine(launcher: str, folder: Path, result: str | None = None) -> FakeMachine:
    """Return the machine of a plan that has one, with the files of its task."""
    plan = solved("secure")
    if result is not None:
        made = ExportedResult(format=result, bits=None, gb=14.5, ram_gb=16.0, offer=None, ram_known=True)
        plan = changed(plan, export=made)
    return FakeMachine(folder, texts(plan, launcher, "trl"))


def of(calls: list[str], start: str) -> list[str]:
    """Return the calls that begin so."""
    return [call for call in calls if call.startswith(start)]


def trained(machine: FakeMachine) -> list[Path]:
    """Return the marks of runs that came to their end."""
    return list(machine.out.rglob("finished.txt"))


@launchers
def test_each_machine_starts_its_part_of_the_planned_world(launcher: str, tmp_path: Path) -> None:
    """Environment, packages, tests of the machine, the count of processes, the trainer: each once, in this order.

    Both write to the folder that the task mounts; the first one alone says that the run is at its end.
    """
    files, shared = texts(plan_of(launcher), launcher, "trl"), tmp_path / "bucket"
    for rank in (1, 0):
        machine = FakeMachine(tmp_path / str(rank), files, shared)
        ended = RUNS[launcher](machine, rank, BOTH, 4)
        assert ended.code == 0, ended.said
        task = task_of(machine, FILES[launcher])
        assert task["num_nodes" if launcher == "skypilot" else "nodes"] == len(BOTH)
        assert [call.split()[0] for call in ended.calls] == ["uv", "pip", "python", "python", "python", "trl"]
        for call in (ended.calls[-2], ended.calls[-1]):
            assert f"--num_processes 8 --num_machines 2 --machine_rank {rank} --main_process_ip {HEAD} " in call
        assert re.search(r"--main_process_port 29501 \S+/world_size.py 8 *$", ended.calls[-2])
        assert ended.calls[-1].startswith("trl sft --config sft.yaml ") and "resume" not in ended.calls[-1]
        assert bool(trained(machine)) == (rank == 0)
        assert f"output_dir: {shared}/llama-2-7b-full-vs-lora\n" in (machine.run / "sft.yaml").read_text()
    assert (shared / "llama-2-7b-full-vs-lora" / "planned.txt").exists()


STEPS = {
    "packages": ("pip", "exit 9", 9, "", True),
    "the gpu": ("python", 'case "$*" in *torch.ones*) exit 5 ;; esac', 5, "", True),
    "compilers": ("python", 'case "$*" in *triton*) exit 1 ;; esac', 1, "kernels cannot be compiled here", True),
    "processes": ("python", 'case "$*" in *world_size*) exit 6 ;; esac', 6, "", False),
    "training": ("trl", "exit 7", 7, "", False),
}
"""Step -> the tool that fails, how, the code of the task, what it says, and whether SkyPilot has it in its setup."""


@launchers
@pytest.mark.parametrize("step", STEPS)
def test_a_task_ends_with_the_step_that_failed_and_goes_on_when_it_is_mended(
    launcher: str, step: str, tmp_path: Path
) -> None:
    """With its code and nothing after it; started again it trains, and once trained it does not train again."""
    machine = one_machine(launcher, tmp_path)
    tool, fails, code, said, in_setup = STEPS[step]
    machine.tool(tool, fails)
    ended = RUNS[launcher](machine)
    assert ended.code == code and said in ended.said, ended.said
    assert ended.calls[-1].split()[0] == tool and not trained(machine)
    assert bool(of(ended.calls, "trl")) == (step == "training")
    if launcher == "skypilot" and in_setup:
        assert not machine.out.exists(), "run was never started"
    machine.tool(tool)
    again, more = RUNS[launcher](machine), RUNS[launcher](machine)
    assert again.code == 0 and len(of(again.calls, "trl")) == 1 and not of(again.calls, "uv")
    assert more.code == 0 and not of(more.calls, "trl") and "trained to its last step already" in more.said


@launchers
def test_a_machine_without_an_environment_installs_nothing(launcher: str, tmp_path: Path) -> None:
    """Neither uv nor venv makes one: the task says what to install, and pip of the system is not touched."""
    machine = one_machine(launcher, tmp_path)
    for maker in ("uv", "python3"):
        machine.system_tool(maker, "exit 1")
    ended = RUNS[launcher](machine)
    assert ended.code == 1 and "no virtual environment: install uv" in ended.said
    assert len(ended.calls) == 1 and not machine.out.exists()


@launchers
def test_a_task_goes_on_from_the_newest_checkpoint_of_its_folder(launcher: str, tmp_path: Path) -> None:
    """On another machine, as after the loss of the first: the folder is what is left. Another plan is refused it."""
    machine = one_machine(launcher, tmp_path / "lost")
    machine.tool("trl", "exit 7")
    assert RUNS[launcher](machine).code == 7
    (run,) = machine.out.iterdir()
    for step in (30, 60):
        adapters(run / f"checkpoint-{step}")
    (run / "checkpoint-60" / "optimizer.pt").write_bytes(b"")
    next_one = FakeMachine(tmp_path / "next", texts(solved("secure"), launcher, "trl"), machine.out)
    ended = RUNS[launcher](next_one)
    assert ended.code == 0 and "checkpoint-60 is incomplete: passed over" in ended.said
    assert of(ended.calls, "trl")[0].endswith(f"--resume_from_checkpoint {run}/checkpoint-30")
    assert of(ended.calls, "python -m accelerate")[0].endswith(f"{run}/checkpoint-30")
    other = FakeMachine(
        tmp_path / "other", texts(changed(solved("secure"), {"lora_rank": 64}), launcher, "trl"), machine.out
    )
    refused = RUNS[launcher](other)
    assert refused.code == 3 and "holds a run of another plan" in refused.said and not of(refused.calls, "trl")


@launchers
def test_a_task_makes_the_result_that_is_paid_for_in_the_folder_that_outlives_it(launcher: str, tmp_path: Path) -> None:
    """Next to the checkpoints; a merge that failed ends the task, and is tried again without training."""
    machine = one_machine(launcher, tmp_path, result="merged")
    machine.tool("python", 'case "$1" in *merge_adapters.py) exit 4 ;; esac')
    ended = RUNS[launcher](machine)
    (run,) = machine.out.iterdir()
    assert ended.code == 4 and f"merge_adapters.py {run} {run}/merged " in ended.calls[-1] and trained(machine)
    machine.tool("python", 'case "$1" in *merge_adapters.py) mkdir "$3" ;; esac')
    again, more = RUNS[launcher](machine), RUNS[launcher](machine)
    assert again.code == 0 and (run / "merged").is_dir() and not of(again.calls, "trl")
    assert more.code == 0 and not any("merge" in call for call in more.calls)
    assert not of(ended.calls + again.calls, "hf"), "the folder is mounted, and nothing else goes off the machine"


@launchers
def test_a_task_that_is_stopped_saves_and_says_that_it_is_unfinished(launcher: str, tmp_path: Path) -> None:
    """`sky cancel` sends SIGTERM to each process of the tree, `dstack stop` SIGINT to an interactive shell."""
    machine = one_machine(launcher, tmp_path)
    machine.tool(
        "trl", f'trap "echo saved >> {machine.calls}; exit 0" TERM; echo $$ > {machine.folder}/pid; '
        "while :; do sleep 0.05; done",
    )  # fmt: skip
    if launcher == "skypilot":
        assert skypilot_setup(machine).code == 0
    process = STARTS[launcher](machine)
    wait_until(lambda: (machine.folder / "pid").exists() and (machine.folder / "pid").read_text(), process)
    number = int((machine.folder / "pid").read_text())
    process.send_signal(signal.SIGTERM)
    if launcher == "skypilot":
        os.kill(number, signal.SIGTERM)
    ended = machine.ended(process)
    assert ended.code == 143 and ended.calls[-1] == "saved" and not trained(machine), ended.said
    assert "stopped before its end: start it again" in ended.said
    assert subprocess.run(["ps", "-p", str(number)], capture_output=True, check=False).returncode == 1


@launchers
def test_prompts_are_answered_in_an_environment_of_their_own(launcher: str, tmp_path: Path) -> None:
    """As Debian 12 and images of PyTorch want it; what fails ends the task with its code, and nothing is asked."""
    machine = FakeMachine(tmp_path, texts(solved("generation merged"), launcher, wishes=Wishes("me/merged")))
    ended = RUNS[launcher](machine)
    assert ended.code == 0, ended.said
    assert [call.split()[0] for call in ended.calls] == ["uv", "pip", "python"]
    assert ended.calls[1] == "pip install vllm==0.33.0"
    assert ended.calls[2] == "python generate.py prompts.jsonl /results --shard 0 --shards 1"
    machine.tool("pip", "exit 9")
    again = RUNS[launcher](machine)
    assert again.code == 9 and not of(again.calls, "python")
