"""Why there is no plan: what is proposed suffices, and a little less does not."""

from __future__ import annotations

import datetime

import pytest

from planner.loading import parse_scenario
from planner.plan import Plan
from planner.scenario import SolveOptions
from planner.solving import solve

SCENARIO = """
name: t
offers:
  - {provider: a, gpu: RTX4090, gpus: 1, usd_per_hour: 0.5}
  - {provider: b, gpu: H100-80GB, gpus: 1, usd_per_hour: 3.0}
  - {provider: b, gpu: H100-80GB, gpus: 8, usd_per_hour: 24.0, interconnect: nvswitch}
jobs:
  - {name: t, architecture: llama-3.2-1b, work: {tokens: 5e8}}
"""


def plan_of(*settings: str) -> Plan:
    return solve(parse_scenario(SCENARIO, set_=settings), SolveOptions(as_of=datetime.date(2026, 11, 21)))


@pytest.mark.parametrize(
    ("settings", "limit", "unit", "step"),
    [
        (("jobs.0.deadline=30m",), "jobs.t.deadline", "h", 0.02),
        (("limits.budget_usd=1",), "limits.budget_usd", "", 0.05),
    ],
)
def test_the_proposed_change_suffices_and_a_smaller_one_does_not(
    settings: tuple[str, ...], limit: str, unit: str, step: float
) -> None:
    """The relaxed scenario has a plan; a little tighter it has none: the proposal is the smallest."""
    plan = plan_of(*settings)
    assert plan.status == "infeasible" and plan.infeasible is not None
    found = {one.limit: one for one in plan.infeasible.relax}
    to = found[limit].change_to
    assert isinstance(to, float)
    assert plan_of(*settings, f"{limit}={to:.6f}{unit}").status == "optimal"
    assert plan_of(*settings, f"{limit}={to - step:.6f}{unit}").status == "infeasible"


def test_where_no_single_change_is_enough_they_are_named_together() -> None:
    """Too short and too poor at once: deadline and budget move as one way out, and its settings make a plan."""
    settings = ("jobs.0.deadline=12m", "limits.budget_usd=0.1")
    plan = plan_of(*settings)
    assert plan.infeasible is not None
    first = [one for one in plan.infeasible.relax if one.way == 1]
    assert {one.limit for one in first} == {"jobs.t.deadline", "limits.budget_usd"}
    assert plan_of(*settings, *(one.setting for one in first)).status == "optimal"
