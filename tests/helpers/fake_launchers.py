"""A machine of stand-ins as SkyPilot and dstack start a task on it: their shells, their variables, their signals.

SkyPilot 0.14.1: `sky/skylet/log_lib.py` (a script for `bash -i`, without a terminal, in the folder of the task),
`sky/backends/cloud_vm_ray_backend.py` and `task_codegen.py` (variables of `setup` and `run`). dstack 0.22:
`jobs/configurators/base.py` (`/bin/sh -i -c` where an image is named, commands joined by `&&`) and the runner's
`executor.go` (variables, a terminal, SIGINT to the shell).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml

from tests.helpers.fake_machine import Ended, FakeMachine

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD, OTHER = "10.0.0.1", "10.0.0.2"
_ON_A_TERMINAL = """
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGINT))
while True:
    try:
        said = os.read(terminal, 65536)
    except OSError:
        break
    if not said:
        break
    os.write(1, said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Runs a program on a terminal of its own, as dstack's runner; a SIGTERM stops it as `dstack stop` does."""


def _bare(machine: FakeMachine, **more: str) -> dict[str, str]:
    """Return the variables of a machine that has uv and no environment yet: what is installed is not found without."""
    if not (machine.system / "uv").exists():
        machine.system_tool("uv", f'for last; do :; done; mkdir -p "$last" && ln -s {machine.bin} "$last/bin"')
    return {"PATH": f"{machine.system}:{os.defpath}", "HOME": str(machine.folder), **more}


def task_of(machine: FakeMachine, file: str) -> dict[str, Any]:
    """Return the task that was exported to a machine."""
    found: dict[str, Any] = yaml.safe_load((machine.run / file).read_text())
    return found


def start_skypilot_part(machine: FakeMachine, part: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    """Start `setup` or `run` of a task as SkyPilot does."""
    task = task_of(machine, "task.yaml")
    given = {name: str(value) for name, value in (task.get("envs") or {}).items()}
    told = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (given | variables).items())
    script = machine.folder / f"sky_{part}.sh"
    script.write_text(f"cd ~/sky_workdir\n{told}{task[part]}\n")
    (machine.folder / "sky_workdir").unlink(missing_ok=True)
    (machine.folder / "sky_workdir").symlink_to(machine.run)
    return subprocess.Popen(
        ["/bin/bash", "-i", str(script)], cwd=machine.folder, env=_bare(machine), text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def skypilot_setup(machine: FakeMachine, rank: int = 0, ips: Sequence[str] = (HEAD,), gpus: int = 1) -> Ended:
    """Run `setup` on one of the machines to its end."""
    machine.calls.write_text("")
    told = {"SETUP_NODE_IPS": "\n".join(ips), "SETUP_NODE_RANK": str(rank), "SETUP_NUM_GPUS_PER_NODE": str(gpus)}
    told |= {"NUM_NODES": str(len(ips))}
    variables = {f"SKYPILOT_{name}": value for name, value in told.items()}
    return machine.ended(start_skypilot_part(machine, "setup", variables))


def start_skypilot(
    machine: FakeMachine, rank: int = 0, ips: Sequence[str] = (HEAD,), gpus: int = 1
) -> subprocess.Popen[str]:
    """Start `run` on one of the machines, which were all set up."""
    told = {"NODE_IPS": "\n".join(ips), "NODE_RANK": str(rank), "NUM_GPUS_PER_NODE": str(gpus)}
    told |= {"NUM_NODES": str(len(ips))}
    return start_skypilot_part(machine, "run", {f"SKYPILOT_{name}": value for name, value in told.items()})


def skypilot(machine: FakeMachine, rank: int = 0, ips: Sequence[str] = (HEAD,), gpus: int = 1) -> Ended:
    """Run a task on one of the machines: `run` follows a `setup` that ended well."""
    ended = skypilot_setup(machine, rank, ips, gpus)
    return ended if ended.code else machine.ended(start_skypilot(machine, rank, ips, gpus))


def start_dstack(
    machine: FakeMachine, rank: int = 0, ips: Sequence[str] = (HEAD,), gpus: int = 1, shell: str = "/bin/sh"
) -> subprocess.Popen[str]:
    """Start the commands of a task on one of the machines; `dstack stop` is a SIGTERM to what is returned."""
    machine.calls.write_text("")
    told = {
        "DSTACK_NODES_IPS": "\n".join(ips), "DSTACK_MASTER_NODE_IP": ips[0], "DSTACK_NODE_RANK": str(rank),
        "DSTACK_NODES_NUM": str(len(ips)), "DSTACK_GPUS_PER_NODE": str(gpus), "DSTACK_GPUS_NUM": str(gpus * len(ips)),
    }  # fmt: skip
    task = task_of(machine, "task.dstack.yml")
    told |= dict(entry.split("=", 1) for entry in task.get("env") or () if "=" in entry)
    command = " && ".join(task["commands"])
    return subprocess.Popen(
        [sys.executable, "-c", _ON_A_TERMINAL, shell, "-i", "-c", command], cwd=machine.run,
        env=_bare(machine, **told), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def dstack(machine: FakeMachine, rank: int = 0, ips: Sequence[str] = (HEAD,), gpus: int = 1) -> Ended:
    """Run a task on one of the machines to its end."""
    return machine.ended(start_dstack(machine, rank, ips, gpus))
