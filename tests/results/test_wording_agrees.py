"""Runs side by side, services and commitments are called the same wherever a plan is told."""

from __future__ import annotations

from typing import Any

import pytest

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.analysis.what_if_question import what_if
from planner.report.explanation_text import render
from planner.report.frontier_text import render_frontier
from planner.report.plan_text import render as render_plan
from planner.report.what_if_text import render_what_if
from planner.results.explanation import compare, describe_differences
from planner.scenario.scenario import SolveOptions
from tests.helpers.stage_scenarios import AS_OF, LORA, RENTED, asked, library, planned, solved

TWO: dict[str, Any] = {"trials": {"count": 2, "at_once": 2}, "deadline": "10h"}
DEAR = {**RENTED, "provider": "q", "gpu": "H100-80GB", "usd_per_hour": 20.0}
MONTH = {**RENTED, "instance": "month", "usd_per_hour": 1.0, "commitment": {"months": 1}}
SEEN: dict[str, Any] = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 300}]}
SERVICE: dict[str, Any] = {"architectures": ["tinyllama-1.1b"], "usd_per_run": 3}
SOLD = {"provider": "s", "managed": SERVICE}
OPTIONS = SolveOptions(as_of=AS_OF)


def test_two_gangs_are_two_everywhere() -> None:
    """Plan, runner-up, explanation, frontier and what-if call two runs side by side the same."""
    scenario = asked(RENTED, DEAR, **TWO)
    plan = solved(scenario)
    assert plan.jobs[0].next_best[0].runs_at_once == 2
    text = render_plan(plan)
    assert "2 x (1 x A100-80GB) at p" in text
    assert "2 x (1 x H100-80GB) at q" in text
    assert "2 x (1 x A100-80GB)" in render(explain(scenario, library=library()))
    assert "2 x (1 x A100-80GB)" in render_frontier(frontier_of_jobs(scenario, OPTIONS, library=library()))
    told = render_what_if(what_if(scenario, ["jobs.job.deadline=9h"], OPTIONS, library()))
    assert "2 x (1 x A100-80GB)" in told


def test_a_service_is_no_machine_on_demand() -> None:
    """Going from machines to a service is told as that: no count of GPUs, no way to book."""
    scenario = asked(RENTED, {"provider": "s", "managed": {**SERVICE, "method": "lora"}}, techniques=LORA)
    told = render_what_if(what_if(scenario, ["limits.providers.allow=s"], OPTIONS, library()))
    assert "by a service" in told
    assert "GPUs instead" not in told
    assert "managed service at s, per token" in told
    machine, service = planned(RENTED, techniques=LORA), planned(SOLD, techniques=LORA)
    assert describe_differences(compare(machine, service)) == "by a service, other provider"
    assert describe_differences(compare(service, machine)) == "on machines, other provider"


def test_why_not_a_service_speaks_of_its_way_to_charge() -> None:
    """No price of an hour for what is not sold by the hour, and minutes where tenths of hours say nothing."""
    scenario = asked(RENTED, SOLD, techniques=LORA)
    found = explain(scenario, "provider=s", library=library()).why_not
    assert found is not None
    assert "it charges for tokens or runs, not for hours" in found.reasons
    assert not any("an hour costs" in one or "0.0 h" in one for one in found.reasons)


def test_what_is_free_is_compared_without_a_ratio() -> None:
    """Hours by the hour beside hours that are paid for already: dollars against nothing, no multiple of it."""
    left = {"provider": "left", "gpu": "A100-80GB", "gpus": 1, "committed_hours": 500}
    found = explain(asked(left, RENTED, **SEEN), "provider=p", library=library()).why_not
    assert found is not None
    assert found.reasons == ("an hour costs $2.00 against $0.00",)


@pytest.mark.parametrize(
    ("hourly", "pays"),
    [(2.0, "pays from 365 h of use"), (0.5, "never pays in its term")],  # $730 for the month of 730 hours
)
def test_a_commitment_that_was_not_taken_says_when_it_pays(hourly: float, pays: str) -> None:
    """300 h by the hour are the plan; the month for $730 is told with the use from which on it would be cheaper."""
    scenario = asked({**RENTED, "usd_per_hour": hourly}, MONTH, **SEEN)
    plan = solved(scenario)
    (other,) = plan.jobs[0].next_best
    assert other.note.endswith(f"committed: {pays}")
    assert pays in " ".join(render_plan(plan).split())
    found = explain(scenario, "instance=month", library=library()).why_not
    assert found is not None
    assert f"its commitment {pays}" in found.reasons
