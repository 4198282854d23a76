"""Tasks of launchers for a job of generation: one machine each, because machines do not wait for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.exports.dstack import dstack_profile
from planner.exports.environment import environment_remark, image_of
from planner.exports.header import commented, header
from planner.exports.machines import PRICE_MARGIN, find_machines, task_name
from planner.exports.skypilot import skypilot_resources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.exports.facts import Given
    from planner.exports.field_map import LaunchMap
    from planner.exports.generation.engine_map import EngineMap

RESULTS = "/results"
"""Where a task mounts the folder of answers, which outlives its machines."""


def skypilot_generation(given: Given, tool: LaunchMap, engine: EngineMap, remarks: Sequence[str], prompts: str) -> str:
    """Return the task of one machine; `SHARD` says which of `SHARDS` it is, `prompts` is their file."""
    job, name = given.job, task_name(given.job)
    machines = find_machines(given.scenario, job, tool, "answers")
    task = {
        "name": name,
        "workdir": ".",
        "num_nodes": 1,
        "resources": skypilot_resources(given, machines),
        "envs": {"SHARD": "0", "SHARDS": str(job.instances), "PROMPTS": prompts},
        "file_mounts": {RESULTS: {"name": f"results-{name}", "mode": "MOUNT_CACHED"}},
        "setup": _setup(engine),
        "run": _RUN,
    }
    found = _remarks(given, machines.note, remarks)
    return commented(header(given.plan, job, tool, skypilot_command(given), found)) + yaml_text(task)


def dstack_generation(given: Given, tool: LaunchMap, engine: EngineMap, remarks: Sequence[str], prompts: str) -> str:
    """Return the task of machine 0; the command makes those of the others by replacing the number."""
    job, name = given.job, task_name(given.job)
    machines = find_machines(given.scenario, job, tool, "answers")
    task: dict[str, Any] = {"type": "task", "name": f"{name}-0", "nodes": 1}
    task |= {**dstack_profile(job, machines), "image": image_of(job.gpu).image}
    task["env"] = ["SHARD=0", f"SHARDS={job.instances}", f"PROMPTS={prompts}"]
    task["files"] = ["generate.py", "generate.json", prompts]
    if machines.keeps:
        task["volumes"] = [{"name": f"results-{name}-0", "path": RESULTS}]
    task["commands"] = [_setup(engine), _RUN]
    found = [*_remarks(given, machines.note, remarks), environment_remark(job.gpu).partition(";")[0]]
    found.append(
        f"make a volume results-{name}-NUMBER for each machine first (dstack apply, type: volume)"
        if machines.keeps
        else f"{tool.label} has no network volumes here: save {RESULTS} before the machines go"
    )
    return commented(header(given.plan, job, tool, dstack_command(given), found)) + yaml_text(task)


def skypilot_command(given: Given) -> str:
    """Return the command that launches every machine of the plan."""
    job, name = given.job, task_name(given.job)
    on_spot, several = job.spot_share > 0, job.instances > 1
    if not several:
        return f"sky {'jobs ' if on_spot else ''}launch task.yaml"
    start = f"sky jobs launch -y -d -n {name}-$i" if on_spot else f"sky launch -y -d -c {name}-$i"
    return _for_each(job.instances, f"{start} --env SHARD=$i task.yaml")


def dstack_command(given: Given) -> str:
    """Return the command that launches every machine of the plan."""
    if given.job.instances == 1:
        return "dstack apply -f task.dstack.yml"
    renamed = rf'sed "s/\({task_name(given.job)}-\|SHARD=\)0$/\1$i/" task.dstack.yml'
    return _for_each(given.job.instances, f"{renamed} | dstack apply -y -d -f -")


_RUN = f'python generate.py "$PROMPTS" {RESULTS} --shard "$SHARD" --shards "$SHARDS"\n'


def _setup(engine: EngineMap) -> str:
    return f"pip install {' '.join(engine.packages)}\n"


def _for_each(machines: int, command: str) -> str:
    return f"for i in $(seq 0 {machines - 1}); do {command}; done"


def _remarks(given: Given, note: str, more: Sequence[str]) -> list[str]:
    machines = given.job.instances
    return [
        *([f"{machines} tasks of one machine each: one that is lost stops no other"] if machines > 1 else []),
        "needs generate.py, generate.json and the prompts in the same folder",
        f"the highest price is {100 * (PRICE_MARGIN - 1):.0f} % above that of the plan, per machine and hour",
        *([note] if note else []),
        *more,
    ]
