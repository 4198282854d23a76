"""A machine without GPU, network and packages: tools that say how they were called, and fail where a test wants it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.helpers.hangs import HANG_SECONDS

OF_RESULT = ("pip", "python", "cmake")
"""Tools in the environment of what makes the result."""
TOOLS = ("pip", "hf", "trl", "python", "llamafactory-cli", "axolotl", "accelerate", "vllm", "sglang", "nvidia-smi")


_TORCH = """class cuda:
    is_available = staticmethod(lambda: False)


def tensor(values, device):
    return values


def zeros_like(values):
    return [0] * len(values)
"""
_DISTRIBUTED = """import json
import os
import pathlib
import sys
import time


def init_process_group(backend):
    assert backend == "gloo"


def get_world_size():
    return int(os.environ["WORLD_SIZE"])


def all_gather(every, mine):
    place, until = pathlib.Path(os.environ["MEETING_PLACE"]), time.monotonic() + 300
    part = place / (os.environ["RANK"] + ".part")
    part.write_text(json.dumps(mine))
    part.rename(part.with_suffix(".json"))
    for rank, found in enumerate(every):
        while not (place / f"{rank}.json").exists():
            if time.monotonic() > until:
                sys.exit(f"process {rank} never came")
            time.sleep(0.01)
        found[:] = json.loads((place / f"{rank}.json").read_text())


def destroy_process_group():
    pass
"""


def meeting(folder: Path) -> dict[str, str]:
    """Write what stands in for PyTorch among processes that meet in a folder; return the variables that lead there."""
    package, place = folder / "packages" / "torch", folder / "meeting"
    package.mkdir(parents=True)
    place.mkdir()
    (package / "__init__.py").write_text(_TORCH)
    (package / "distributed.py").write_text(_DISTRIBUTED)
    return {"PYTHONPATH": str(package.parent), "MEETING_PLACE": str(place)}


class Ended(NamedTuple):
    """How a script ended: its exit code, the calls of the tools in their order, and what it said of faults."""

    code: int
    calls: list[str]
    said: str


class FakeMachine:
    """A folder with the tools in a virtual environment that is there already, and the exported files."""

    def __init__(self, folder: Path, files: dict[str, str], out: Path | None = None) -> None:
        """`out`: folder of checkpoints that several machines share."""
        self.folder, self.run, self.out = folder, folder / "run", out or folder / "checkpoints"
        self.bin, self.bin_of_result = folder / "venv" / "bin", folder / "venv-result" / "bin"
        self.system = folder / "system"
        """Tools of the machine itself, outside of any environment."""
        self.run.mkdir(parents=True)
        self.system.mkdir()
        self.calls = folder / "calls.log"
        for place, tools in ((self.bin, TOOLS), (self.bin_of_result, OF_RESULT)):
            place.mkdir(parents=True)
            (place / "activate").write_text(f"PATH={place}:$PATH\nexport PATH\n")
            for tool in tools:
                self.tool(tool, of_result=place == self.bin_of_result)
        for name, text in files.items():
            (self.run / name).write_text(text.replace("/checkpoints", str(self.out)))

    def tool(self, name: str, does: str = "", of_result: bool = False) -> None:
        """Make a tool that records its call and then does what is said, such as `exit 1`.

        Calls in the environment of the result begin with `result`.
        """
        self._write(self.bin_of_result if of_result else self.bin, name, f"result {name}" if of_result else name, does)

    def system_tool(self, name: str, does: str) -> None:
        """Make a tool that is found before an environment is entered."""
        self._write(self.system, name, name, does)

    def _write(self, folder: Path, name: str, said: str, does: str) -> None:
        path = folder / name
        path.write_text(f'#!/bin/sh\necho {said} "$@" >> "{self.calls}"\n{does}\n')
        path.chmod(0o755)

    def start(self, script: str = "run.sh", *words: str, shell: str = "bash", **more: str) -> subprocess.Popen[str]:
        """Start a script of the folder as a person would."""
        self.calls.write_text("")
        return subprocess.Popen(
            [shell, str(self.run / script), *words], cwd=self.run, env=self.environment(**more), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of the machine."""
        return {
            "PATH": f"{self.bin}:{os.defpath}", "HOME": str(self.folder), "VENV": str(self.folder / "venv"), **more
        }  # fmt: skip

    def ended(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for a script and return how it ended."""
        try:
            said, wrong = process.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            subprocess.run(["pkill", "-9", "-f", str(self.folder)], check=False)  # what a bug left running
            raise
        return Ended(process.returncode, self.calls.read_text().splitlines(), said + wrong)

    def run_script(self, script: str = "run.sh", *words: str, shell: str = "bash", **more: str) -> Ended:
        """Run a script with its arguments to its end."""
        return self.ended(self.start(script, *words, shell=shell, **more))
