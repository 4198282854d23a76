"""Imitated machines: a folder of exported files each, started by `run.sh`, killed at a stated moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
Moment = Literal["after a checkpoint", "while a checkpoint is written"]
PATIENCE_SECONDS = 600.0
"""Time after which a run is given up: it hangs."""
MARK = "LOOP_OF"
"""Variable that every process of a run inherits, by which it is found."""


@dataclass(frozen=True)
class Ended:
    """How a start ended: the exit code of the first machine, what it left running, and the console of all."""

    code: int
    orphans: int
    console: str


@dataclass(frozen=True)
class Kill:
    """A signal to every process of every machine, when the first checkpoint appears or is complete."""

    signal: signal.Signals
    moment: Moment
    step: int = 0
    """That of the first checkpoint, by the plan."""

    def is_due(self, out: Path) -> bool:
        """Return whether the moment has come."""
        folder = out / f"checkpoint-{self.step}"
        if self.moment == "while a checkpoint is written":
            return folder.exists()
        return (folder / "trainer_state.json").exists()

    def was_in_time(self, out: Path) -> bool:
        """Return whether the checkpoint was cut, where that was wanted: its last file is not there."""
        cut = not (out / f"checkpoint-{self.step}" / "trainer_state.json").exists()
        return cut or self.moment == "after a checkpoint"


@dataclass
class Machines:
    """The machines of one run, with the environment of a trainer and a port of their own."""

    folders: list[Path]
    python: Path
    home: Path
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, out: Path, kill: Kill | None = None) -> Ended:
        """Run `run.sh` on each machine until the first one ends, or until the signal has ended all."""
        logs = [folder / "console.log" for folder in self.folders]
        for log in logs:
            log.unlink(missing_ok=True)
        self.processes = [
            subprocess.Popen(
                ["bash", str(folder / "run.sh")], cwd=folder, env=self._environment(rank), start_new_session=True,
                stdout=log.open("ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )
            for rank, (folder, log) in enumerate(zip(self.folders, logs, strict=True))
        ]  # fmt: skip
        try:
            code = self._watch(out, kill)
            orphans = len(self.alive())
        finally:
            self._end()
        return Ended(code, orphans, "\n".join(log.read_text(errors="replace") for log in logs))

    def _environment(self, rank: int) -> dict[str, str]:
        """Return what a machine without a GPU and without a network has."""
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return {
            "PATH": path, "HOME": str(self.home), "HF_HOME": str(self.home / "hf"), "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(HERE / "on_a_cpu"),
            "NODE_RANK": str(rank), "HEAD_IP": "127.0.0.1", "MASTER_PORT": str(self.port), "OMP_NUM_THREADS": "1",
            "WANDB_MODE": "disabled", "AXOLOTL_DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": "lo",
            "DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "2",
            MARK: str(self.home), "VENV": str(self.python.parent.parent),
        }  # fmt: skip

    def _watch(self, out: Path, kill: Kill | None) -> int:
        """Wait for the end of the first machine; send the signal once when its moment has come."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE_SECONDS:
            if all(process.poll() is not None for process in self.processes):
                return self.processes[0].returncode
            if kill is not None and kill.is_due(out):
                for process in self.processes:
                    process.send_signal(kill.signal)  # SIGTERM reaches the script alone
                if kill.signal == signal.SIGKILL:  # the machine is gone
                    self._end()
                kill = None
            time.sleep(0.002 if kill is not None else 0.05)
        return -1

    def _end(self) -> None:
        """End every process of every machine at once."""
        for number in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def alive(self) -> list[int]:
        """Return the processes that still run on these machines, whatever session or group they made for themselves."""
        mark, found = f"{MARK}={self.home}".encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and b"Z" not in _state(path.parent):
                    found.append(int(path.parent.name))
        return found


def _state(process: Path) -> bytes:
    """Return the letter of the state of a process: Z has ended and waits for its parent."""
    return (process / "stat").read_bytes().rsplit(b")", 1)[1].split()[0]
