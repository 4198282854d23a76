"""A SkyPilot task: the machines of a plan, spot and on demand, and the run with its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.exports.facts import CHECKPOINT_FOLDER
from planner.exports.header import commented, header
from planner.exports.machines import PRICE_MARGIN, Machines, find_machines, launch_script, setup_script

if TYPE_CHECKING:
    from planner.exports.field_map import Facts, FieldMap, LaunchMap
    from planner.results.plan import Assignment, Plan

IDLE_MINUTES = 10
"""Minutes without work after which machines are given back."""


def skypilot_task(plan: Plan, job: Assignment, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the text of the task.

    A synchronous run is on spot or on demand as a whole, so the spot share of a plan is one of time: spot first,
    and on demand where there is none.
    """
    machines = find_machines(plan, job, tool)
    on_spot = job.spot_share > 0
    resources: dict[str, Any] = {"accelerators": f"{machines.gpu}:{job.gpus_per_instance}"}
    choices = _choices(machines, on_spot)
    resources |= {"any_of": choices} if len(choices) > 1 else choices[0]
    if on_spot:
        resources["job_recovery"] = {"strategy": "EAGER_NEXT_REGION" if len(machines.regions) > 1 else "FAILOVER"}
    resources["autostop"] = {"idle_minutes": IDLE_MINUTES, "down": True}
    bucket = {"name": f"checkpoints-{_slug(job.name)}", "mode": "MOUNT_CACHED"}
    task = {
        "name": _slug(job.name),
        "workdir": ".",
        "num_nodes": job.instances,
        "resources": resources,
        "file_mounts": {CHECKPOINT_FOLDER: bucket},
        "setup": setup_script(trainer, facts),
        "run": launch_script(trainer, facts, _VARIABLES),
    }
    remarks = [
        f"starts {trainer.file}, which --to skypilot --to {trainer.target} -o DIR writes beside it",
        f"max_hourly_cost is {100 * (PRICE_MARGIN - 1):.0f} % above the price of the plan, per machine",
        *([machines.note] if machines.note else []),
        *_policy(job),
    ]
    run = "sky jobs launch task.yaml" if on_spot else tool.run
    return commented(header(plan, job, tool, run, remarks)) + yaml_text(task)


_VARIABLES = {"NODE_RANK": '"$SKYPILOT_NODE_RANK"', "HEAD_IP": '$(echo "$SKYPILOT_NODE_IPS" | head -n 1)'}
"""Shell variables of a launch command -> how SkyPilot says them."""


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


def _policy(job: Assignment) -> list[str]:
    if job.spot is None or job.switch_to_on_demand_at_hours is None:
        return []
    latest = f"{job.switch_to_on_demand_at_hours:.1f}"
    return [
        f"the plan waits for spot capacity until hour {latest}, SkyPilot takes on demand at once: to wait too, "
        "delete the entries with use_spot: false, and put them back by that hour"
    ]


def _slug(name: str) -> str:
    """Return a name as buckets and tasks may have it: lower case letters, digits and hyphens."""
    signs = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in name.lower())
    return "-".join(part for part in signs.split("-") if part)[:40] or "job"
