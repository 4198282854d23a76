"""A plan says how late and how expensive it may become; limits just above that hold, limits just below do not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from planner.results.plan import Plan
from tests.helpers.stage_scenarios import CPU, LORA, RENTED, asked, solved

FEES = {"storage_usd_per_gb_month": 300.0, "ingress_usd_per_gb": 0.05, "egress_usd_per_gb": 0.1}
SERVICE: dict[str, Any] = {"architectures": ["tinyllama-1.1b"], "method": "lora", "tokens_per_second": 1000}
SPOT = {"spot_usd_per_hour": 0.5, "spot": {"availability": 0.8, "mean_up_hours": 3}}

JOBS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "one machine": ([RENTED], {}),
    "disks that cost as much as the machine": ([{**RENTED, "fees": FEES}], {"data_gb": 50}),
    "data that take longer than the run": ([RENTED], {"data_gb": 2000}),
    "a run that may stop early": ([RENTED], {"early_stopping": 0.5}),
    "trials side by side": ([{**RENTED, "fees": FEES}], {"trials": {"count": 4, "at_once": 2, "halving": 2}}),
    "trials one after the other": ([RENTED], {"trials": 3}),
    "billed by the hour": ([{**RENTED, "billing": {"step_seconds": 3600}}], {"data_gb": 500}),
    "a longest charge of a minimum": ([{**RENTED, "billing": {"minimum_hours": 5}}], {}),
    "data prepared and evaluated on the machine": (
        [RENTED],
        {"stages": {"ingest": {"raw_gb": 40, "on": "machine"}, "evaluation": {"share": 0.5, "on": "machine"}}},
    ),
    "data prepared on a CPU": ([RENTED, CPU], {"stages": {"ingest": {"raw_gb": 40, "on": "cpu"}}}),
    "evaluated elsewhere, may stop early": (
        [RENTED, {**CPU, "ram_gb": 64}],
        {"stages": {"evaluation": {"share": 0.5, "on": "cpu"}}, "early_stopping": 0.5},
    ),
    "checkpoints and an export": (
        [{**RENTED, "fees": FEES}],
        {"stages": {"checkpoints": {"count": 5, "keep": 3, "asynchronous": False}, "export": {"gb_per_second": 0.01}}},
    ),
    "a service with data to send": (
        [{"provider": "s", "managed": {**SERVICE, "usd_per_run": 3}}],
        {"data_gb": 3000, "techniques": LORA, "stages": {"export": {"gb_per_second": 0.00001}}},
    ),
    "a service by the token, may stop early": (
        [{"provider": "s", "managed": {**SERVICE, "usd_per_million_tokens": 2.0}}],
        {"techniques": LORA, "early_stopping": 0.5},
    ),
    "only on spot": ([{"provider": "p", "gpu": "A100-80GB", "gpus": 1, **SPOT}], {"data_gb": 500}),
    "a policy of spot and on demand": ([{**RENTED, **SPOT, "fees": FEES}], {"work": {"tokens": 4e8}}),
}
"""Offers and settings of the small job; each leaves one choice of hardware."""

SURE = {"confidence": 0.95, "deadline": "200h"}


def plan(name: str, limits: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """The audited plan of a case under limits."""
    offers, job = JOBS[name]
    return solved(asked(*offers, limits=limits, **{**SURE, **job, **changes}))


@cache
def base(name: str) -> Plan:
    """The plan of a case without further limits."""
    return plan(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_budget_binds_at_the_cost_that_a_plan_names_for_its_confidence(name: str) -> None:
    """A tenth of a per cent more than the late bill is a budget that holds, less than it is none."""
    late = base(name).cost_at_confidence
    assert late is not None
    enough = plan(name, {"budget_usd": late * 1.001})
    assert enough.status == "optimal" and enough.cost_at_confidence <= late * 1.001
    less = plan(name, {"budget_usd": late * 0.999})
    assert less.status == "infeasible" or less.cost_at_confidence <= late * 0.999


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in JOBS if not name.startswith("a policy")])
def test_a_deadline_binds_at_the_hours_that_a_plan_names_for_its_confidence(name: str) -> None:
    """The same of its hours, whether the deadline or the longest run sets them, the other a week later.

    A policy is left out: it takes all the time that it is given.
    """
    late = base(name).hours.at_confidence

    def at_most(hours: float, limit: str) -> Plan:
        if limit == "deadline":
            return plan(name, {"max_hours": hours + 168}, deadline=f"{hours}h")
        return plan(name, {"max_hours": hours}, deadline=f"{hours + 168}h")

    for limit in ("deadline", "max_hours"):
        enough = at_most(late * 1.001, limit)
        assert enough.status == "optimal" and enough.hours.at_confidence <= late * 1.001, limit
        less = at_most(late * 0.999, limit)
        assert less.status == "infeasible" or less.hours.at_confidence <= late * 0.999, limit
