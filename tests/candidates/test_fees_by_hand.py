"""What is paid once, per machine or per hour, and late: small bills worked out by hand, each between two choices."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.results.plan import Assignment, Plan
from tests.helpers.stage_scenarios import LORA, RENTED, WEIGHTS_GB, asked, line, solved

LATE = math.exp(0.07 * 1.645 / 2.92 * 0.8 / math.sqrt(0.18))
"""Hours of an observed job at 90 % over those expected: spread 0.07 with tails of Student's t, whose quantile at 0.9
with 2 degrees of freedom is 0.8 / sqrt(0.18) = 1.8856; 1.0772."""

TWO_NODES: dict[str, Any] = {
    "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 40}, {"gpu": "A100-80GB", "gpus": 2, "hours": 20}],
    "deadline": "30h",
}
"""Observed for 20 h on two machines, and for 40 h, which is too long, on one."""


def plan(*offers: dict[str, Any], limits: dict[str, Any] | None = None, **job: Any) -> Plan:
    """The audited plan of the small job on these offers."""
    return solved(asked(*offers, limits=limits, **job))


def only_job(*offers: dict[str, Any], limits: dict[str, Any] | None = None, **job: Any) -> Assignment:
    """How the small job is run."""
    found = plan(*offers, limits=limits, **job)
    assert len(found.jobs) == 1, found.status
    return found.jobs[0]


def rented(provider: str, usd_per_hour: float, **terms: Any) -> dict[str, Any]:
    """One A100 at a price per hour."""
    return {**RENTED, "provider": provider, "usd_per_hour": usd_per_hour, **terms}


def test_a_commitment_is_paid_for_each_of_two_nodes() -> None:
    """A month is $100 and 730 h of $0.50, $465 a machine, $930 for two: 20 h of two at $20 on demand are $800."""
    month = rented("month", 0.5, commitment={"months": 1, "upfront_usd": 100}, max_nodes=2)
    alone = only_job(month, **TWO_NODES)
    assert (alone.instances, alone.cost_usd) == (2, pytest.approx(930.0))
    assert line(alone, "commitment") == pytest.approx((2, 930))
    dear = only_job(month, rented("hourly", 20.0, max_nodes=2), **TWO_NODES)
    assert (dear.provider, dear.cost_usd) == ("hourly", pytest.approx(800.0))


def test_whole_hours_are_billed_for_each_of_two_nodes() -> None:
    """20.5 h are billed as 21 on both machines: $42.00 at $1.00, where $1.03 by the second come to $42.23."""
    seen = [{"gpu": "A100-80GB", "gpus": 1, "hours": 41}, {"gpu": "A100-80GB", "gpus": 2, "hours": 20.5}]
    job: dict[str, Any] = {**TWO_NODES, "measured": seen}
    hourly = rented("whole", 1.0, billing={"step_seconds": 3600}, max_nodes=2)
    found = only_job(hourly, rented("exact", 1.03, max_nodes=2), **job)
    assert (found.provider, found.cost_usd) == ("whole", pytest.approx(42.0))
    assert line(found, "rounded up") == pytest.approx((1.0, 1.0))
    cheaper = only_job(hourly, rented("exact", 1.02, max_nodes=2), **job)
    assert (cheaper.provider, cheaper.cost_usd) == ("exact", pytest.approx(41.82))


@pytest.mark.parametrize(("usd_per_gb", "provider", "usd"), [(0.01, "elsewhere", 21.0), (0.05, "at home", 24.0)])
def test_data_pay_to_leave_their_region(usd_per_gb: float, provider: str, usd: float) -> None:
    """100 GB lie where 10 h cost $24; elsewhere they cost $20, and $1 or $5 for the data to leave."""
    home, other = rented("at home", 2.4, region="eu"), rented("elsewhere", 2.0, region="us")
    source = {"region": "eu", "egress_usd_per_gb": usd_per_gb}
    seen = [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}]
    found = only_job(home, other, measured=seen, data_gb=100, stages={"transfer": source})
    assert (found.provider, found.cost_usd) == (provider, pytest.approx(usd))
    assert line(found, "data leaving") == pytest.approx((100, 100 * usd_per_gb) if provider == "elsewhere" else (0, 0))


@pytest.mark.parametrize(("left", "provider"), [(10.5, "hourly"), (10.9, "paid for")])
def test_hours_paid_for_must_hold_the_late_run(left: float, provider: str) -> None:
    """10 h are 10.77 at 90 %: hours left between the two are too few, and $2 an hour are paid instead."""
    assert pytest.approx(1.0772, abs=1e-4) == LATE
    paid = {**RENTED, "provider": "paid for", "usd_per_hour": None, "committed_hours": left}
    paid.pop("usd_per_hour")
    seen = [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}]
    found = only_job(paid, rented("hourly", 2.0), measured=seen)
    assert (found.provider, found.cost_usd) == (provider, pytest.approx(20.0 if provider == "hourly" else 0.0))


@pytest.mark.parametrize(("left", "provider"), [(39.9, "hourly"), (40.1, "paid for")])
def test_hours_paid_for_are_machine_hours_of_all_nodes(left: float, provider: str) -> None:
    """20 h on two machines at even odds use 40 of the hours left."""
    paid = {key: value for key, value in rented("paid for", 0.0).items() if key != "usd_per_hour"}
    offers = {**paid, "committed_hours": left, "max_nodes": 2}, rented("hourly", 2.0, max_nodes=2)
    assert only_job(*offers, **TWO_NODES, confidence=0.5).provider == provider


def test_disks_of_a_late_run_are_charged_late() -> None:
    """10 h with 14.4 GB of disk at $73 a GB-month: $20 and $14.40; at 90 % both are 7.7 % more."""
    disk_gb = 2 * WEIGHTS_GB + 10
    offer = rented("p", 2.0, fees={"storage_usd_per_gb_month": 73.0})
    seen = [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}]
    found = plan(offer, measured=seen)
    expected = 20 + disk_gb / 730 * 10 * 73
    assert found.jobs[0].cost_usd == pytest.approx(expected)
    assert found.cost_at_confidence == pytest.approx(expected * LATE)
    # With disks that end on time it would be 20 * 1.0772 + 14.40 = $35.94: $36.50 are too little all the same.
    assert plan(offer, limits={"budget_usd": 36.5}, measured=seen).status == "infeasible"
    assert plan(offer, limits={"budget_usd": 37.1}, measured=seen).status == "optimal"


def test_each_of_two_nodes_has_a_disk_and_gets_the_data() -> None:
    """20 h of two disks of 14.4 GB and 5 GB of data at $7.30 a GB-month; 7.2 GB enter each node at $0.10."""
    fees = {"storage_usd_per_gb_month": 7.3, "ingress_usd_per_gb": 0.1}
    found = only_job(rented("p", 1.0, max_nodes=2, fees=fees), **TWO_NODES, data_gb=5)
    stored = 2 * (2 * WEIGHTS_GB + 10 + 5) * 20 / 730
    assert line(found, "storage") == pytest.approx((stored, stored * 7.3))
    assert line(found, "transfer in") == pytest.approx((2 * (WEIGHTS_GB + 5), 0.2 * (WEIGHTS_GB + 5)))
    assert found.cost_usd == pytest.approx(40 + stored * 7.3 + 0.2 * (WEIGHTS_GB + 5))


SERVICE: dict[str, Any] = {"architectures": ["tinyllama-1.1b"], "method": "lora", "tokens_per_second": 1000}


def service(**price: Any) -> dict[str, Any]:
    """A service that trains adapters at 1,000 tokens a second: 10 M tokens in 2.778 h."""
    return {"provider": "s", "managed": {**SERVICE, **price}, "date": "2025-12-01"}


def test_data_on_their_way_to_a_service_count_towards_the_deadline() -> None:
    """3,600 GB at 0.5 GB/s take 2 h before 2.778 h of training: 4.778 h at even odds."""
    job: dict[str, Any] = {"data_gb": 3600, "techniques": LORA, "confidence": 0.5}
    found = only_job(service(usd_per_run=3), **job)
    assert found.hours.expected == pytest.approx(2 + 1e7 / 1000 / 3600)
    assert plan(service(usd_per_run=3), **job, deadline="4.8h").status == "optimal"
    assert plan(service(usd_per_run=3), **job, deadline="4.7h").status == "infeasible"


def test_a_run_at_a_service_that_may_stop_early_is_paid_in_full_when_late() -> None:
    """10 M tokens at $2 a million are $20 in full, $10 where half of it is expected: a budget of $15 is too small."""
    job: dict[str, Any] = {"techniques": LORA, "early_stopping": 0.5}
    found = plan(service(usd_per_million_tokens=2.0), **job)
    assert found.jobs[0].cost_usd == pytest.approx(10.0)
    assert found.cost_at_confidence == pytest.approx(20.0)
    assert plan(service(usd_per_million_tokens=2.0), limits={"budget_usd": 15.0}, **job).status == "infeasible"
    assert plan(service(usd_per_million_tokens=2.0), limits={"budget_usd": 20.01}, **job).status == "optimal"
