"""A dstack task: the machines of a plan, spot and on demand, and the run with its checkpoints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.exports.environment import environment_remark, image_of, setup_script
from planner.exports.facts import CHECKPOINT_FOLDER
from planner.exports.header import commented, header
from planner.exports.machine_names import PRICE_MARGIN, Machines, find_machines, launch_script, task_name, task_remarks

if TYPE_CHECKING:
    from planner.exports.facts import Given
    from planner.exports.field_map import Facts, FieldMap, LaunchMap
    from planner.results.plan import Assignment

_RETRIED = ("no-capacity", "interruption", "error")
_VARIABLES = {"NODE_RANK": '"$DSTACK_NODE_RANK"', "HEAD_IP": '"$DSTACK_MASTER_NODE_IP"'}
"""Shell variables of a launch command -> how dstack says them."""


def dstack_profile(job: Assignment, machines: Machines) -> dict[str, Any]:
    """Return what to rent, where, on which market, at what highest price, and for how long."""
    on_spot = job.spot_share > 0
    found: dict[str, Any] = {"backends": [machines.provider]}
    if all(machines.regions):
        found["regions"] = list(machines.regions)
    found["spot_policy"] = "auto" if on_spot else "on-demand"
    prices = [
        one for one in (machines.usd_per_hour, machines.spot_usd_per_hour if on_spot else None) if one is not None
    ]
    if prices:
        found["max_price"] = round(PRICE_MARGIN * max(prices), 2)
    longest = math.ceil(job.deadline_hours if job.deadline_hours is not None else 2 * job.hours.at_confidence)
    found["max_duration"] = f"{longest}h"
    if on_spot:
        found["retry"] = {"on_events": list(_RETRIED), "duration": f"{longest}h"}
    return found | {"resources": {"gpu": f"{machines.gpu}:{job.gpus_per_instance}"}}


def dstack_task(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the text of the task.

    `auto` tries spot first and takes on demand where there is none; the run goes on after an interruption for as long
    as the deadline leaves it, in whole hours, because dstack reads one unit alone.
    """
    job = given.job
    machines = find_machines(given.scenario, job, tool)
    task: dict[str, Any] = {"type": "task", "name": task_name(job), "nodes": job.instances}
    task |= dstack_profile(job, machines)
    task["image"] = image_of(job.gpu).image
    task["files"] = [trainer.file]
    if machines.keeps:
        task["volumes"] = [{"name": f"checkpoints-{task_name(job)}", "path": CHECKPOINT_FOLDER}]
    task["commands"] = [setup_script(trainer, facts, job.gpu), launch_script(trainer, facts, _VARIABLES)]
    remarks = [*task_remarks(machines, job, trainer, tool), environment_remark(job.gpu)]
    remarks.append(
        f"make the volume checkpoints-{task_name(job)} first (dstack apply, type: volume)"
        if machines.keeps
        else f"{tool.label} has no network volumes here: save {CHECKPOINT_FOLDER} before the machines go"
    )
    return commented(header(given.plan, job, tool, tool.run, remarks)) + yaml_text(task)
