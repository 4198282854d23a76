"""Plans that `solve` wrote, read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import ScenarioError

if TYPE_CHECKING:
    from planner.results.plan import Plan


def read_typed_plan(path: str) -> Plan:
    """Return the plan of a file; `ScenarioError` names every field that is wrong."""
    from pydantic import ValidationError

    from planner.documents.source_map import Source
    from planner.documents.validation import validation_complaints
    from planner.loading.scenario_file import read_plan
    from planner.results.plan import Plan

    data = read_plan(path)
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(Source(path).faults(validation_complaints(error, Plan, data))) from None
