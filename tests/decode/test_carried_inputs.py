"""A plan carries all that its audit needs: every offer that it rents, and every one that it names."""

from __future__ import annotations

import pytest

import planner
from planner.audit.audit import audit
from planner.cli.plans.plan_file import scenario_of
from planner.library.reading import read_library


@pytest.mark.long
@pytest.mark.parametrize("name", ["own-or-api", "two-fallbacks", "export-gguf", "tune-then-label"])
def test_a_plan_is_checked_from_what_it_carries(name: str) -> None:
    """Services by the token, further ways, machines of other stages, several jobs."""
    plan = planner.solve(planner.read_scenario(name))
    carried = scenario_of(plan, "plan.json")
    assert audit(plan, carried, read_library([job.architecture for job in carried.jobs])) == []
