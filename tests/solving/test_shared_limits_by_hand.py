"""Limits that two jobs share, and what an hour is worth, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.results.plan import Plan
from tests.helpers.stage_scenarios import JOB, RENTED, read, solved

SEEN = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}], "confidence": 0.5}
CHEAP = {**RENTED, "provider": "cheap", "usd_per_hour": 1.0}
DEAR = {**RENTED, "provider": "dear", "usd_per_hour": 3.0}


def twins(*offers: dict[str, Any], limits: dict[str, Any] | None = None, schedule: str = "side_by_side") -> Plan:
    """The plan of two jobs that were seen to take 10 h on one A100, and start at once unless `schedule` is another."""
    jobs = [{**JOB, **SEEN, "name": name} for name in ("one", "other")]
    return solved(
        read({"name": "s", "offers": list(offers), "jobs": jobs, "limits": limits or {}, "schedule": schedule})
    )


def cost(plan: Plan) -> float | None:
    """Dollars of both jobs together, None without a plan."""
    return plan.cost.expected if plan.cost else None


def test_one_machine_in_stock_serves_one_job() -> None:
    """$10 and $30 where the cheap machine is there once, $20 where it is there twice."""
    assert cost(twins({**CHEAP, "stock": 1}, DEAR)) == pytest.approx(40.0)
    assert cost(twins({**CHEAP, "stock": 2}, DEAR)) == pytest.approx(20.0)


def test_jobs_take_turns_unless_they_must_start_at_once() -> None:
    """$20 in turn on the cheap machine, its GPU or its quota, where two at once need a dear one or have none."""
    for limits in ({"max_gpus": 1}, {"quota": {"cheap": 1}}):
        plan = twins(CHEAP, DEAR, limits=limits, schedule="over_time")
        assert cost(plan) == pytest.approx(20.0)
        assert sorted(job.start_at_hours for job in plan.jobs) == [0.0, 10.0]
    assert cost(twins({**CHEAP, "stock": 1}, DEAR, schedule="over_time")) == pytest.approx(20.0)


def test_hours_paid_for_are_used_up() -> None:
    """15 h left hold one job of 10 h, 20 hold both."""
    left = {key: value for key, value in CHEAP.items() if key != "usd_per_hour"}
    assert cost(twins({**left, "committed_hours": 15}, DEAR)) == pytest.approx(30.0)
    assert cost(twins({**left, "committed_hours": 20.01}, DEAR)) == pytest.approx(0.0)


def test_jobs_share_the_gpus() -> None:
    """Two jobs at the same time need two GPUs."""
    assert twins(CHEAP, limits={"max_gpus": 1}).status == "infeasible"
    assert cost(twins(CHEAP, limits={"max_gpus": 2})) == pytest.approx(20.0)


def test_jobs_share_a_quota() -> None:
    """With a quota of one GPU at the cheap provider the other job goes elsewhere."""
    assert cost(twins(CHEAP, DEAR, limits={"quota": {"cheap": 1}})) == pytest.approx(40.0)
    assert cost(twins(CHEAP, DEAR, limits={"quota": {"cheap": 2}})) == pytest.approx(20.0)


@pytest.mark.parametrize(("usd_per_hour", "provider", "objective"), [(0.9, "slow", 19.0), (1.1, "fast", 20.5)])
def test_an_hour_is_worth_what_the_objective_says(usd_per_hour: float, provider: str, objective: float) -> None:
    """10 h for $10 or 5 h for $15: at $1 an hour both are worth $20."""
    slow = {**RENTED, "provider": "slow", "usd_per_hour": 1.0}
    fast = {**RENTED, "provider": "fast", "gpu": "H100-80GB", "usd_per_hour": 3.0}
    measured = [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}, {"gpu": "H100-80GB", "gpus": 1, "hours": 5}]
    data = {
        "name": "s",
        "offers": [slow, fast],
        "jobs": [{**JOB, "measured": measured, "confidence": 0.5}],
        "objective": {"value_of_time_usd_per_hour": usd_per_hour},
    }
    found = solved(read(data))
    assert (found.jobs[0].provider, found.objective) == (provider, pytest.approx(objective))
