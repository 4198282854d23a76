"""Keys of other kinds of jobs in a service: each is refused with the key that says the same of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.overrides import replace_value
from planner.scenario.inference import FORMS, job_form

if TYPE_CHECKING:
    from planner.documents.source_map import Source
    from planner.errors import Fault

LOAD_EXAMPLE = "{per_second: 12, profile: office, input_tokens: 800, output_tokens: 200}"
LENGTH_KEYS = ("input_tokens", "output_tokens", "prefix_tokens", "lengths")
"""Keys of `work` that are keys of `load` too."""
OF_RUNS = {
    "deadline": ("a service has no deadline", "for: 30d says how long it runs, latency: {tpot: 40ms} how fast it is"),
    "due": ("a service has no due date", "for: 30d says how long it runs"),
    "release": ("a service has no release", "for: 30d says how long it runs"),
    "trials": ("a service has no trials", "leave it out"),
    "stages": ("a service has no stages", "cold_start: 5m is the time from ordering a machine to its first answer"),
    "data_gb": ("a service reads no data", "leave it out; cold_start has the time to load the weights"),
}
"""What a key means where a job has an end, and what says the same of a service."""


def check_service_keys(data: dict[str, Any], source: Source, faults: list[Fault]) -> dict[str, Any]:
    """Return the data without keys that only jobs with an end have; each is a fault, and so is a missing load."""
    jobs = data.get("jobs")
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        if not isinstance(job, dict) or job_form(job) != FORMS["serve"]:
            continue
        kept = {key: value for key, value in job.items() if key not in (*OF_RUNS, "work")}
        for key, (what, fix) in OF_RUNS.items():
            if key in job:
                faults.append(source.fault(("jobs", index, key), what, fix))
        if "work" in job:
            faults.append(source.fault(("jobs", index, "work"), "a service has no work", f"give {_load_keys(job)}"))
        if job.get("load") is None:
            if "work" not in job:
                faults.append(source.fault(("jobs", index, "load"), "is missing", f"such as load: {LOAD_EXAMPLE}"))
            # No second fault for what is missing.
            kept["load"] = {"per_second": 1, "input_tokens": 1, "output_tokens": 1}
        data = replace_value(data, ("jobs", index), kept)
    return data


def _load_keys(job: dict[str, Any]) -> str:
    """Return the keys of `load` that say what the keys of `work` were meant to say."""
    work = job["work"]
    given = [key for key in LENGTH_KEYS if isinstance(work, dict) and key in work]
    if given and isinstance(job.get("load"), dict):
        return ", ".join(f"load.{key}" for key in given) + " instead"
    return f"load: {LOAD_EXAMPLE} instead"
