"""Plans of shipped scenarios on frozen prices, and their exports, for the tests of `planner export`."""

from __future__ import annotations

import datetime
from functools import cache
from typing import Any

import yaml

import planner
from planner.cli.plan_file import scenario_of
from planner.exports.export import choose_job, export
from planner.exports.facts import Wishes
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import SolveOptions
from tests.helpers.frozen_data import frozen_scenarios

AS_OF = datetime.date(2026, 11, 21)
FULL = "jobs.llama-2-7b-full-vs-lora.techniques"
SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "quickstart": (
        "quickstart",
        (
            *("limits.providers=[runpod-community]", "limits.gpus=[A5000]", "limits.spot=false"),
            "jobs.quickstart.techniques.activation_checkpointing=selective",
        ),
    ),
    "secure": ("quickstart", ("limits.providers=[aws, lambda, nebius, runpod-secure, verda]", "limits.spot=false")),
    "fsdp": (
        "llama-2-7b-full-vs-lora",
        (f"{FULL}.method=full", f"{FULL}.sharding=zero3", f"{FULL}.activation_checkpointing=full"),
    ),
    "zero2": ("llama-2-7b-full-vs-lora", (f"{FULL}.method=full", f"{FULL}.sharding=zero2")),
    "spot": ("spot-heavy", ()),
}
"""Name of a plan -> shipped scenario and what is changed in it."""
WISHES = Wishes(dataset="my/data")


@cache
def solved(name: str) -> Plan:
    """Return one of the plans of `SETTINGS`."""
    scenario, settings = SETTINGS[name]
    found: Plan = planner.solve(
        planner.read_scenario(str(frozen_scenarios()[scenario]), settings), SolveOptions(as_of=AS_OF)
    )
    return found


def texts(plan: Plan, *targets: str, wishes: Wishes = WISHES) -> dict[str, str]:
    """Return the exported files of the only job of a plan."""
    return export(choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None), targets, wishes, "plan.json")


def settings(plan: Plan, target: str, wishes: Wishes = WISHES) -> dict[str, Any]:
    """Return the content of the only file of a target."""
    (text,) = texts(plan, target, wishes=wishes).values()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def changed(plan: Plan, techniques: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """Return a plan whose first job is another; what follows from it is left as it was."""
    job = plan.jobs[0]
    job = job.model_copy(update={**changes, "techniques": job.techniques.model_copy(update=techniques or {})})
    return plan.model_copy(update={"jobs": (Assignment.model_validate(job.model_dump()), *plan.jobs[1:])})
