"""Plans that `solve` wrote, read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario


def read_plan(path: str) -> Plan:
    """Return the plan that `solve --json` or `-o` wrote; `InputError` names every field that is wrong."""
    from planner.documents.json_file import read_json
    from planner.documents.source_map import Source
    from planner.results.plan import Plan

    fix = "give a file written by planner solve"
    document = read_json(path, fix)
    data = document.data
    missing = [key for key in ("scenario", "status", "jobs") if not isinstance(data, dict) or key not in data]
    if missing:
        raise InputError([document.fault((), f"not a plan: no {', '.join(missing)}", fix)])
    return Source(document.file, document).validate(Plan, data)


def scenario_of(plan: Plan, path: str) -> Scenario:
    """Return the scenario that a plan carries, with the offers that it names; `ScenarioError` if it carries none."""
    import json

    from planner.errors import Fault, ScenarioError
    from planner.loading.scenario_file import parse_scenario

    if plan.inputs is None:
        fix = "name the scenario: planner check PLAN SCENARIO"
        raise ScenarioError([Fault(path, 0, "inputs", "the plan does not carry its scenario", fix)])
    data = {key: value for key, value in plan.inputs.scenario.items() if key != "inventory"}
    return parse_scenario(json.dumps({**data, "offers": plan.inputs.offers}), file=path)
