"""What a scenario may leave out or write in relation to the clock: names, shipped inventories, deadlines as dates."""

from __future__ import annotations

import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from planner.documents.files import data_folder
from planner.documents.instants import is_instant, parse_instant
from planner.documents.overrides import replace_value
from planner.documents.quantities import format_hours
from planner.units import HOUR

if TYPE_CHECKING:
    from pathlib import Path

    from planner.documents.source_map import Source
    from planner.errors import Fault

MARKET = "market"
"""Name of the shipped price list, which is the inventory of a scenario without offers."""


def shipped_inventory(name: str) -> Path | None:
    """Return the file of a shipped inventory, None where no file has that name."""
    return data_folder("scenarios") / "inventory" / "market.yaml" if name == MARKET else None


def default_name(architecture: str) -> str:
    """Return the name of what trains this model: the last part of its name, the folder of a config.json."""
    path = PurePosixPath(architecture.strip())
    part = path.parent.name if path.name == "config.json" and path.parent.name not in ("", "..") else path.name
    return part.removesuffix(".json") or "job"


def fill_names(data: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the data with a name for each job that has none, and for the scenario: that of its file."""
    jobs = data.get("jobs")
    if isinstance(jobs, list):
        taken = {job.get("name") for job in jobs if isinstance(job, dict)}
        data = {**data, "jobs": [_named(job, taken) for job in jobs]}
    if "name" not in data:
        data = {"name": PurePosixPath(file).stem or "scenario", **data}
    return data


def _named(job: Any, taken: set[Any]) -> Any:
    """Return a job with a name of its own: the model's, with a number from the second one on."""
    if not isinstance(job, dict) or "name" in job or not isinstance(job.get("architecture"), str):
        return job
    base = default_name(job["architecture"])
    numbered = (f"{base}-{number}" if number > 1 else base for number in range(1, len(taken) + 2))
    name = next(one for one in numbered if one not in taken)
    taken.add(name)
    return {"name": name, **job}


def resolve_deadlines(data: dict[str, Any], source: Source, faults: list[Fault]) -> dict[str, Any]:
    """Return the data with every deadline that is a date as hours from `now`, which is the clock where it is not set.

    The `now` that dates were counted from stays in the data, so that a change of another value moves no deadline.
    """
    jobs = data.get("jobs")
    dated = [
        index
        for index, job in enumerate(jobs if isinstance(jobs, list) else ())
        if isinstance(job, dict) and is_instant(job.get("deadline"))
    ]
    if not dated:
        return data
    try:
        now = parse_instant(data["now"]) if data.get("now") is not None else datetime.datetime.now(datetime.UTC)
    except PydanticCustomError:
        return data  # the validation reports it
    data = {**data, "now": now.isoformat(sep=" ", timespec="minutes")} if data.get("now") is None else data
    for index in dated:
        place = ("jobs", index, "deadline")
        try:
            hours = (parse_instant(data["jobs"][index]["deadline"]) - now).total_seconds() / HOUR
        except PydanticCustomError as error:
            context = error.context or {}
            faults.append(source.fault(place, context["what"], context["fix"]))
            hours = 1.0
        if hours <= 0:
            fix = "give a later day, or set now (--now) to the day on which the job may start"
            faults.append(source.fault(place, f"{data['jobs'][index]['deadline']} is over", fix))
            hours = 1.0
        data = replace_value(data, place, format_hours(hours))
    return data
