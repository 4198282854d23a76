"""Limits that concern one job alone count what they are about: GPUs, instances, shares, late hours."""

from __future__ import annotations

from typing import Any

import pytest

from planner.results.plan import Plan
from tests.helpers.stage_scenarios import RENTED, asked, solved

PAIR: dict[str, Any] = {**RENTED, "provider": "pair", "gpus": 2}
"""One instance of two GPUs."""
ON_TWO: dict[str, Any] = {"measured": [{"gpu": "A100-80GB", "gpus": 2, "hours": 10}]}
SPOT = {"spot_usd_per_hour": 0.5, "spot": {"availability": 0.9, "mean_up_hours": 10}}


def plan(*offers: dict[str, Any], limits: dict[str, Any] | None = None, **job: Any) -> Plan:
    """The audited plan of the small job on these offers."""
    return solved(asked(*offers, limits=limits, **job))


@pytest.mark.parametrize(("stock", "status"), [(1, "optimal"), (0, "infeasible")])
def test_stock_counts_instances(stock: int, status: str) -> None:
    """One instance of two GPUs is one of stock."""
    assert plan({**PAIR, "stock": stock}, **ON_TWO).status == status


@pytest.mark.parametrize(("gpus", "status"), [(2, "optimal"), (1, "infeasible")])
def test_a_quota_counts_gpus(gpus: int, status: str) -> None:
    """One instance of two GPUs is two of a quota."""
    assert plan(PAIR, limits={"quota": {"pair": gpus}}, **ON_TWO).status == status


@pytest.mark.parametrize(("gpus", "status"), [(2, "optimal"), (1, "infeasible")])
def test_most_gpus_are_gpus(gpus: int, status: str) -> None:
    """One instance of two GPUs is more than one GPU."""
    assert plan(PAIR, limits={"max_gpus": gpus}, **ON_TWO).status == status


def test_terms_hold_the_late_run() -> None:
    """700 h fit into a month of 730 h, but not 7.7 % more of them at 90 %: two months are paid, at another provider."""
    month = {**RENTED, "provider": "month", "usd_per_hour": 0.5, "commitment": {"months": 1}}
    seen = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 700}]}
    found = plan(month, RENTED, limits={"max_hours": 1000}, **seen)
    assert (found.jobs[0].provider, found.jobs[0].cost_usd) == ("month", pytest.approx(730.0))
    even = plan(month, RENTED, limits={"max_hours": 1000}, confidence=0.5, **seen)
    assert (even.jobs[0].provider, even.jobs[0].cost_usd) == ("month", pytest.approx(365.0))


def test_hours_after_a_term_are_on_demand_where_the_provider_sells_the_same_machine() -> None:
    """700 h end in the month as expected: no hour follows, and 7.7 % more of them cost 24 h at $2; trials renew."""
    month = {**RENTED, "instance": "month", "usd_per_hour": 0.5, "commitment": {"months": 1}}
    seen = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 700}]}
    found = plan(month, RENTED, limits={"max_hours": 1000}, **seen).jobs[0]
    late = found.hours.at_confidence
    assert (found.cost_usd, found.cost_at_confidence) == pytest.approx((365.0, 365.0 + 2 * (late - 730)), abs=0.01)
    assert found.commitment is not None and found.commitment.terms == 1
    longer = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 800}]}
    after = plan(month, RENTED, limits={"max_hours": 1000}, **longer).jobs[0]
    assert after.commitment is not None
    assert (after.commitment.used_hours, after.commitment.after_hours) == pytest.approx((730, 70))
    assert after.cost.high == pytest.approx(365 + 2 * (after.hours.high - 730), abs=0.01)
    for offers in ((month, {**RENTED, "stock": 0}), (month, {**RENTED, "region": "elsewhere"}), (month,)):
        alone = plan(*offers, limits={"max_hours": 1000}, **longer).jobs[0]
        assert alone.cost_usd == pytest.approx(730.0), offers


@pytest.mark.long
def test_bounds_on_the_spot_share_hold() -> None:
    """Spot at a quarter of the price is used as far as it may be, and spot hardly cheaper as far as it must."""
    job = {"work": {"tokens": 2e9}, "deadline": "400h"}
    free = plan({**RENTED, **SPOT}, **job).jobs[0]
    assert free.spot_share > 0.5
    capped = plan({**RENTED, **SPOT}, limits={"spot_share": {"max": 0.4}}, **job).jobs[0]
    assert capped.spot_share == pytest.approx(0.4)
    dear = {**RENTED, **SPOT, "spot_usd_per_hour": 1.99}
    assert plan(dear, **job).jobs[0].spot_share < 0.3
    assert plan(dear, limits={"spot_share": {"min": 0.3}}, **job).jobs[0].spot_share >= 0.3 - 1e-9


def test_a_penalty_is_on_the_technique_that_it_names() -> None:
    """Full training pays none for adapters; the penalty on what it uses is in the objective and on no bill."""
    techniques = {"method": "full", "activation_checkpointing": "none", "optimizer": "adamw"}
    spared = plan(RENTED, techniques={**techniques, "penalty_usd": {"lora": 25}})
    assert spared.objective == pytest.approx(spared.jobs[0].cost_usd)
    mixed = plan(RENTED, techniques={**techniques, "penalty_usd": {"mixed_precision": 25}})
    assert mixed.jobs[0].cost_usd == pytest.approx(spared.jobs[0].cost_usd)
    assert mixed.objective == pytest.approx(mixed.jobs[0].cost_usd + 25)
