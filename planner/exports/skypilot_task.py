"""A SkyPilot task: the machines of a plan, spot and on demand, and the run with its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.errors import Fault, InputError
from planner.exports.environment import environment_remark, setup_script
from planner.exports.facts import CHECKPOINT_FOLDER
from planner.exports.header import commented, header
from planner.exports.machine_names import PRICE_MARGIN, Machines, find_machines, launch_script, task_name, task_remarks

if TYPE_CHECKING:
    from planner.exports.facts import Given
    from planner.exports.field_map import Facts, FieldMap, LaunchMap

IDLE_MINUTES = 10
"""Minutes without work after which machines are given back."""


def skypilot_task(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the text of the task.

    A synchronous run is on spot or on demand as a whole, so the spot share of a plan is one of time: spot first,
    and on demand where there is none.
    """
    job = given.job
    machines = find_machines(given.scenario, job, tool)
    bucket = {"name": f"checkpoints-{task_name(job)}", "mode": "MOUNT_CACHED"}
    task = {
        "name": task_name(job),
        "workdir": ".",
        "num_nodes": job.instances,
        "resources": skypilot_resources(given, machines),
        "file_mounts": {CHECKPOINT_FOLDER: bucket},
        "setup": setup_script(trainer, facts, job.gpu),
        "run": launch_script(trainer, facts, _VARIABLES),
    }
    remarks = task_remarks(machines, job, trainer, tool)
    remarks.append(f"packages like those of {environment_remark(job.gpu)}")
    return commented(header(given.plan, job, tool, tool.command(job), remarks)) + yaml_text(task)


_VARIABLES = {"NODE_RANK": '"$SKYPILOT_NODE_RANK"', "HEAD_IP": '$(echo "$SKYPILOT_NODE_IPS" | head -n 1)'}
"""Shell variables of a launch command -> how SkyPilot says them."""


def skypilot_resources(given: Given, machines: Machines) -> dict[str, Any]:
    """Return what to rent, where and on which market; `InputError` where the plan has no price."""
    job = given.job
    on_spot = job.spot_share > 0
    resources: dict[str, Any] = {"accelerators": f"{machines.gpu}:{job.gpus_per_instance}"}
    choices = _choices(machines, on_spot)
    if not choices:
        what = f"the plan has no priced offer of {job.gpu} at {job.provider}"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", what, "planner check lists edits; solve it again")])
    resources |= {"any_of": choices} if len(choices) > 1 else choices[0]
    if on_spot:
        resources["job_recovery"] = {"strategy": "EAGER_NEXT_REGION" if len(machines.regions) > 1 else "FAILOVER"}
    resources["autostop"] = {"idle_minutes": IDLE_MINUTES, "down": True}
    return resources


def _choices(machines: Machines, on_spot: bool) -> list[dict[str, Any]]:
    """Return the places and markets, spot before on demand."""
    places = [f"{machines.provider}/{region}" if region else machines.provider for region in machines.regions]
    markets = [(True, machines.spot_usd_per_hour)] if on_spot else []
    markets.append((False, machines.usd_per_hour))
    return [
        {"infra": place, "use_spot": spot, "max_hourly_cost": round(PRICE_MARGIN * price, 2)}
        for spot, price in markets
        for place in places
        if price is not None
    ]
