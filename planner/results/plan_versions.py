"""Plans of older versions of the planner, brought to the names of today."""

from __future__ import annotations

from typing import Any

VERSION = 3
"""Version of the form of every result."""
OLDEST = 1
"""The oldest version of a plan that is read; it lacks what version 2 added."""
RENAMED = {
    "ladder": "methods",
    "riskier": "cheaper_at_risk",
    "runner_up": "next_best",
    "lossy": "lossy_techniques",
    "beside": "separate_machines",
    "sigma_tail": "sigma_in_tails",
    "flattery": "optimizer_curse",
    "luck_usd": "outage_usd",
    "luck_hours": "outage_hours",
}
"""Keys of jobs before version 3, and their names since version 3."""


def converted(plan: Any) -> Any:
    """Return the data of a plan with the names of today; other data, and a plan of today, as they are.

    Before version 3 the dollars of a plan with their range stood under `cost_usd`, which is a number everywhere since.
    """
    if not isinstance(plan, dict) or plan.get("schema_version", VERSION) >= VERSION:
        return plan
    data = {**plan, "schema_version": VERSION, "jobs": _renamed(plan.get("jobs"))}
    inputs = data.get("inputs")
    if data.get("services") and isinstance(inputs, dict):  # they were planned on any mix of machines
        data["inputs"] = {**inputs, "scenario": _of_any_mix(inputs.get("scenario"))}
    if "cost" not in data:
        data["cost"] = data.pop("cost_usd", None)
    return data


def _of_any_mix(scenario: Any) -> Any:
    """Return a scenario whose services say that they may have any mix of machines, unless they say otherwise."""
    if not isinstance(scenario, dict) or not isinstance(scenario.get("jobs"), list):
        return scenario
    jobs = [
        {"most_kinds": None, **job} if isinstance(job, dict) and job.get("kind") == "serve" else job
        for job in scenario["jobs"]
    ]
    return {**scenario, "jobs": jobs}


def _renamed(data: Any) -> Any:
    if isinstance(data, list):
        return [_renamed(each) for each in data]
    if isinstance(data, dict):
        return {RENAMED.get(key, key): _renamed(value) for key, value in data.items()}
    return data
