"""Plans that `solve` wrote, read back, those of older versions with the names of today."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, InputError, KeyPath
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_plan(path: str | Path) -> Plan:
    """Return the plan that `solve --json` or `-o` wrote; `InputError` names every field that is wrong.

    >>> plan = planner.solve("quickstart")
    >>> _ = Path("plan.json").write_text(plan.model_dump_json(by_alias=True))
    >>> planner.read_plan("plan.json") == plan
    True
    """
    from planner.documents.quantities import MAX_NUMBER
    from planner.documents.tables import read_json
    from planner.documents.validation import Source

    fix = "give a file written by planner solve"
    document = read_json(str(path), fix)
    data = document.data
    missing = [key for key in ("scenario", "status", "jobs") if not isinstance(data, dict) or key not in data]
    if missing:
        raise InputError([document.fault((), f"not a plan: no {', '.join(missing)}", fix)])
    if beyond := [place for place, value in _numbers(data) if abs(value) > MAX_NUMBER]:
        what = f"is out of range: no figure of a plan exceeds {MAX_NUMBER:g}"
        raise InputError([document.fault(place, what, fix) for place in beyond])
    if not OLDEST <= (version := data.get("schema_version", VERSION)) <= VERSION:
        known = f"this planner reads versions {OLDEST} to {VERSION}: plan again"
        raise InputError([document.fault(("schema_version",), f"is a plan of version {version}", known)])
    return Source(document.file, document).validate(Plan, converted(data))


def _numbers(value: Any, place: KeyPath = ()) -> Iterator[tuple[KeyPath, float]]:
    """Yield the numbers of JSON data with their places."""
    if isinstance(value, (dict, list)):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(inside, (*place, key))
    elif isinstance(value, (int, float)):
        yield place, value


@contextmanager
def located_in(plan: Plan, path: str) -> Iterator[None]:
    """Give the faults of a plan that are raised inside its file, and the line of the job or service."""
    try:
        yield
    except InputError as error:
        raise InputError([_located(fault, plan, path) for fault in error.faults]) from None


def _located(fault: Fault, plan: Plan, path: str) -> Fault:
    """Return a fault of a plan with its file and line; that of an option as it is."""
    import os

    from planner.documents.files import file_name
    from planner.documents.tables import read_json

    if fault.file not in ("plan", path) or fault.line:
        return fault
    fault = fault._replace(file=file_name(path))
    if not os.path.isfile(path):  # a plan that was in no file, or the text of `-`, which is gone
        return fault
    document = read_json(path, "")
    for index, part in enumerate(plan.planned):
        name = f"jobs.{part.name}"
        if fault.where == name or fault.where.startswith(f"{name}."):
            inside = [int(step) if step.isdigit() else step for step in fault.where.removeprefix(name).split(".")[1:]]
            return fault._replace(line=document.line(("jobs", index, *inside)))
    return fault._replace(line=document.line((fault.where,)))


def meant_job(plan: Plan, name: str | None) -> str | None:
    """Return the job or service of a plan that --job names, in any spelling; `InputError` where it has none."""
    from planner.documents.validation import meant_name

    if name is None or not plan.planned:
        return name
    names = [part.name for part in plan.planned]
    return meant_name(name, names, "--job", f"the plan has no {'job' if plan.jobs else 'service'}")


def is_plan(path: str) -> bool:
    """Return whether a file is a plan of `solve` and no scenario; false for what cannot be read, and for `-`."""
    import json
    from pathlib import Path

    from planner.documents.files import read_text
    from planner.loading.scenario_file import PLAN_KEYS

    if path == "-" or not Path(path).is_file():
        return False
    try:
        data = json.loads(read_text(path))
    except (InputError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.keys() >= PLAN_KEYS


def scenario_of(plan: Plan, path: str) -> Scenario:
    """Return the scenario that a plan carries, with the offers that it names; `ScenarioError` if it carries none."""
    import json

    from planner.errors import ScenarioError
    from planner.loading.scenario_file import parse_scenario
    from planner.scenario.limits import with_offers
    from planner.scenario.naming import without_unoffered

    if plan.inputs is None and plan.status in ("infeasible", "no_plan"):
        fix = "solve again with a change that it names; planner check PLAN SCENARIO checks it as it is"
        raise ScenarioError([Fault(path, 0, "status", f"nothing to run: the plan is {plan.status}", fix)])
    if plan.inputs is None:
        fix = "name the scenario: planner check PLAN SCENARIO"
        raise ScenarioError([Fault(path, 0, "inputs", "the plan does not carry its scenario", fix)])
    data = {key: value for key, value in plan.inputs.scenario.items() if key != "inventory"}
    data = without_unoffered(data, plan.inputs.offers)  # a plan carries no more offers than it may take
    return parse_scenario(json.dumps(with_offers(data, plan.inputs.offers)), file=path)


def decided_scenario_of(plan: Plan, path: str) -> Scenario:
    """Return the scenario that a plan carries, with what the plan chose in place of what the scenario leaves open."""
    from planner import open_choices

    return open_choices.scenario_as_chosen(plan, scenario_of(plan, path))


def jobs_of(plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
    """Return a plan and its scenario as those of the jobs that the core planned, with what the plan chose."""
    from planner import open_choices
    from planner.subjects import jobs_of_plan

    plan, scenario = jobs_of_plan(plan, scenario)
    return plan, open_choices.scenario_as_chosen(plan, scenario)


def check_supported(plan: Plan, file: str, name: str | None, command: str) -> None:
    """Raise `InputError` where the part of a plan that is named, or its first one, is nothing for a command."""
    from planner.subjects import planner_of

    part = next((part for part in plan.planned if name in (None, part.name)), None)
    subject = None if part is None else planner_of(part)
    if part is not None and subject is not None and command in subject.not_supported:
        what, fix = subject.not_supported[command]
        raise InputError([Fault(file, 0, part.name, what, fix)])


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
