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
    if "cost" not in data:
        data["cost"] = data.pop("cost_usd", None)
    return data


def _renamed(data: Any) -> Any:
    if isinstance(data, list):
        return [_renamed(each) for each in data]
    if isinstance(data, dict):
        return {RENAMED.get(key, key): _renamed(value) for key, value in data.items()}
    return data
