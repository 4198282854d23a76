"""What a scenario may leave out: names, and the inventory where nothing is listed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from planner.documents.files import data_folder

if TYPE_CHECKING:
    from pathlib import Path


MARKET = "market"
"""Name of the shipped price list, which is the inventory of a scenario without offers."""


PURCHASE = "purchase"
"""Name of the shipped list of machines to buy."""


PRICE_BOOK = "prices"
"""Name of the price book in a scenario's `inventory`."""


def shipped_inventory(name: str) -> Path | None:
    """Return the file of a shipped inventory, None where no file has that name."""
    return data_folder("scenarios") / "inventory" / f"{name}.yaml" if name in (MARKET, PURCHASE) else None


def default_name(architecture: str) -> str:
    """Return the name of what trains this model: the last part of its name, or the folder of a config.json."""
    path = PurePosixPath(architecture.strip())
    part = path.parent.name if path.name == "config.json" and path.parent.name not in ("", "..") else path.name
    for ending in (".json", ".yaml", ".yml"):
        part = part.removesuffix(ending)
    return part or "job"


def fill_names(data: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the data with a name for each job that has none, and for the scenario: that of its file."""
    jobs = data.get("jobs")
    if isinstance(jobs, list):
        names = (job.get("name") for job in jobs if isinstance(job, dict))
        taken = {name for name in names if isinstance(name, str)}
        data = {**data, "jobs": [_named(job, taken) for job in jobs]}
    if "name" not in data:
        data = {"name": PurePosixPath(file).stem or "scenario", **data}
    return data


def _named(job: Any, taken: set[str]) -> Any:
    """Return a job with a name of its own: the model's, or `job`; with a number from the second one on."""
    if not isinstance(job, dict) or "name" in job or "architecture" not in job:
        return job
    base = default_name(job["architecture"]) if isinstance(job["architecture"], str) else "job"
    numbered = (f"{base}-{number}" if number > 1 else base for number in range(1, len(taken) + 2))
    name = next(one for one in numbered if one not in taken)
    taken.add(name)
    return {"name": name, **job}
