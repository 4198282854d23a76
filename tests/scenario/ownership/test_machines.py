"""Own machines and machines to buy: the hour's price in full, defaults with their source, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.evaluation.evaluate import own_parts
from planner.loading.scenario_file import parse_scenario, shipped_purchases
from planner.scenario.offer import Offer
from planner.scenario.offer_terms import Buy, Horizon, Own, Resale, default_power_watts, interest_usd
from tests.helpers.scenarios import told

DESK: dict[str, Any] = {"provider": "desk", "gpu": "RTX3090", "gpus": 1}
JOB = {"name": "a", "architecture": "mistral-7b", "work": {"tokens": 50e6}}
CLOUD = {"provider": "cloud", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.22}


def text(*offers: dict[str, Any], **others: Any) -> str:
    """A scenario as text."""
    return json.dumps({"jobs": [JOB], "offers": [CLOUD, *offers], **others})


def test_the_hour_of_an_own_machine_by_hand() -> None:
    """0.5 kW * 1.2 * $0.30 = $0.18; (2,500 * 0.6 + 36 * 40) / (36 * 100) = $0.4167 + $0.40."""
    one = Own(
        power_watts=500.0,
        usd_per_kwh=0.3,
        pue=1.2,
        purchase_usd=2500.0,
        residual_share=0.4,
        months=36.0,
        hours_per_month=100.0,
        idle_usd_per_month=40.0,
    )
    assert one.power_usd_per_hour == pytest.approx(0.18)
    assert one.depreciation_usd_per_hour == pytest.approx(1500 / 3600)
    assert one.idle_usd_per_hour == pytest.approx(0.4)
    assert one.usd_per_hour == pytest.approx((2500 * 0.6 + 40 * 36) / 3600 + 0.18)
    assert sum(one.parts_usd_per_hour.values()) == one.usd_per_hour


@settings(max_examples=40, derandomize=True)
@given(st.floats(1, 1e5), st.floats(0, 0.9), st.floats(1, 60), st.floats(1, 700), st.floats(0, 1e4))
def test_months_of_use_are_a_lifetime(usd: float, left: float, months: float, hours: float, idle: float) -> None:
    """The same hours as a lifetime cost the same; more use never makes an hour dearer, nor a higher residual value."""
    base: dict[str, Any] = {"power_watts": 300.0, "usd_per_kwh": 0.2, "purchase_usd": usd, "residual_share": left}
    one = Own(**base, months=months, hours_per_month=hours, idle_usd_per_month=idle)
    same = Own(**base, lifetime_hours=months * hours, hours_per_month=hours, idle_usd_per_month=idle)
    assert one.usd_per_hour == pytest.approx(same.usd_per_hour)
    more = Own(**base, months=months, hours_per_month=hours * 1.04, idle_usd_per_month=idle)
    worth = Own(**{**base, "residual_share": 0.95}, months=months, hours_per_month=hours, idle_usd_per_month=idle)
    assert more.usd_per_hour <= one.usd_per_hour and worth.usd_per_hour <= one.usd_per_hour


def test_power_that_is_left_out_is_that_of_such_a_server() -> None:
    """8 * 700 W * 1.8 * 0.8 = 8,064 W, between 76 and 82 % of the 10.2 kW that a node of 8 x H100 is rated at."""
    assert default_power_watts(700, 8) == pytest.approx(8064)
    assert 0.76 * 10_200 < default_power_watts(700, 8) < 0.82 * 10_200
    own = {**DESK, "own": {"usd_per_kwh": 0.2}}
    (_, offer) = parse_scenario(text(own)).offers
    assert offer.own is not None and offer.own.power_watts == pytest.approx(350 * 1.44)
    stated = {**DESK, "own": {"usd_per_kwh": 0.2, "power_watts": 400}}
    (_, offer) = parse_scenario(text(stated)).offers
    assert offer.usd_per_hour == pytest.approx(0.08)


def test_a_machine_is_bought_for_the_horizon_alone() -> None:
    """$2,500, half of it left, over 7,200 h, and 504 W at $0.18: $0.1736 + $0.0907; without a horizon no price."""
    buy = Buy(purchase_usd=2500.0, residual_share=0.5, power_watts=504.0, usd_per_kwh=0.18)
    offer = Offer(provider="desk", gpu="RTX3090", gpus=1, buy=buy)
    assert offer.tier == "bought" and offer.is_for_sale_only and offer.usd_per_hour is None
    bought = offer.bought_for(Horizon(months=36.0, hours_per_month=200.0))
    assert bought.usd_per_hour == pytest.approx(1250 / 7200 + 0.504 * 0.18)
    assert bought.use_hours == pytest.approx(7200) and not bought.is_for_sale_only
    assert offer.bought_for(None) is offer


def test_what_is_for_sale_is_dated_with_a_range_and_a_source() -> None:
    """Every shipped machine has its price within published ones, a day, and a residual value that is a range."""
    found = shipped_purchases()
    assert {offer.card for offer in found} >= {"RTX3090", "RTX4090", "RTX5090", "H100-80GB", "H200", "B200"}
    for offer in found:
        assert offer.buy is not None and offer.last_date is not None and offer.source
        assert offer.buy.purchase_range_usd is not None and offer.buy.resale is not None
        lost, least, most = offer.buy.lost_usd(36)
        assert least < lost < most
        assert offer.lead_hours >= 24 and 36 <= (offer.buy.life_months or 0) <= 72


def test_what_is_left_falls_with_age() -> None:
    """0.72 once used, halved in 32 months: 0.36; a table of 0.6 and 0.3 a year apart is halved in each further year."""
    halved = Resale(used_share=0.72, half_life_months=32)
    assert (halved.share(0), halved.share(32)) == (pytest.approx(0.72), pytest.approx(0.36))
    table = Resale(months=(12, 24), shares=(0.6, 0.3))
    ages = {0: 1.0, 12: 0.6, 18: math.sqrt(0.18), 24: 0.3, 36: 0.15}
    assert {age: table.share(age) for age in ages} == pytest.approx(ages)


def test_a_machine_is_owned_no_longer_than_it_lives() -> None:
    """240 months of a machine that lives 72: what it loses in 72 months, over the hours of those."""
    buy = Buy(
        purchase_usd=5000, usd_per_kwh=0, power_watts=1, life_months=72, resale=Resale(half_life_months=72)
    )  # fmt: skip
    owned = buy.owned(Horizon(months=240, hours_per_month=200))
    assert (owned.months, owned.usd_per_hour) == (72, pytest.approx(2500 / (72 * 200)))


def test_capital_costs_what_equal_payments_cost() -> None:
    """worked: 8 % a year are 0.6434 % a month; 36 payments of $47.05 and $1,250 at the end are worth $2,500 today."""
    usd = interest_usd(2500, 1250, 36, 0.08)
    payment, monthly = (usd + 1250) / 36, 1.08 ** (1 / 12) - 1
    worth = sum(payment / (1 + monthly) ** month for month in range(1, 37)) + 1250 / 1.08**3
    assert worth == pytest.approx(2500) and usd == pytest.approx(443.81, abs=0.2)
    own = Own(
        power_watts=1,
        usd_per_kwh=0,
        purchase_usd=2500,
        residual_share=0.5,
        months=36,
        hours_per_month=200,
        interest=0.08,
    )
    assert own.parts_usd_per_hour["cost of capital"] == pytest.approx(usd / 7200)
    assert own_parts(own) == pytest.approx(own.parts_usd_per_hour)


BUY = {"purchase_usd": 2500, "usd_per_kwh": 0.18}
HORIZON = {"months": 36, "hours_per_month": 200}


@pytest.mark.parametrize(
    ("offer", "others", "fault"),
    [
        ({"buy": BUY}, {}, "a purchase without a horizon"),
        ({"usd_per_hour": 1}, {"horizon": HORIZON}, "a horizon and nothing to buy"),
        ({"buy": BUY, "usd_per_hour": 1}, {"horizon": HORIZON}, "a machine to buy with a price by the hour"),
        ({"buy": {**BUY, "residual_range": [0.6, 0.8]}}, {"horizon": HORIZON}, "0.6 to 0.8 does not hold 0"),
        ({"buy": {**BUY, "purchase_range_usd": [4000]}}, {"horizon": HORIZON}, "has too few values"),
        ({"buy": BUY, "own": {"usd_per_kwh": 0.1}}, {"horizon": HORIZON}, "own, buy exclude each other"),
        ({"buy": BUY}, {"horizon": {**HORIZON, "hours_per_month": 900}}, "900 is out of range"),
        ({"own": {"usd_per_kwh": 0.1, "months": 3}}, {}, "months of unknown use"),
        ({"own": {"usd_per_kwh": 0.1, "months": 3, "hours_per_month": 9, "lifetime_hours": 7}}, {}, "two lifetimes"),
        ({"own": {"usd_per_kwh": 0.1, "purchase_usd": 3, "hours_per_month": 9}}, {}, "a purchase without a lifetime"),
        ({"own": {"usd_per_kwh": 0.1, "idle_usd_per_month": 9}}, {}, "standing costs of unknown use"),
        ({"own": {"usd_per_kwh": 0.1, "residual_share": 0.5}}, {}, "a residual value of no purchase"),
        ({"own": {"usd_per_kwh": 0.1, "pue": 0.9}}, {}, "0.9 is out of range"),
        ({"own": {"usd_per_kwh": 0.1, "interest": 0.1}}, {}, "interest on what costs nothing for no time"),
        ({"buy": {**BUY, "resale": {}}}, {"horizon": HORIZON}, "no curve, or two"),
        (
            {"buy": {**BUY, "resale": {"months": [9], "shares": [0.5, 0.4]}}},
            {"horizon": HORIZON},
            "not a table of ages",
        ),
        (
            {"buy": {**BUY, "resale": {"half_life_months": 9, "half_life_range": [10, 20]}}},
            {"horizon": HORIZON},
            "10 to 20 does not hold it",
        ),
        (
            {"buy": {**BUY, "residual_share": 0.5, "resale": {"half_life_months": 9}}},
            {"horizon": HORIZON},
            "two resale values",
        ),
        ({"usd_per_hour": 1, "spot_usd_per_hour": 0.5, "lead_hours": 4}, {}, "a spot machine has no lead time"),
        ({"usd_per_hour": 1, "stock_status": "some"}, {}, "'some' is not one of none, low, medium, high"),
        ({"usd_per_hour": 1}, {"limits": {"stock_status": "none"}}, "none is no stock at all"),
        ({"usd_per_hour": 1}, {"limits": {"fallbacks": 99}}, "99 is out of range"),
        ({"usd_per_hour": 1}, {"jobs": [{**JOB, "start_slack": "6h"}]}, "time for finding a machine, and no deadline"),
        (
            {"usd_per_hour": 1},
            {"jobs": [{**JOB, "deadline": "5h", "start_slack": "6h"}]},
            "6 h are kept for finding a machine, and nothing is left to run",
        ),
    ],
)
def test_what_contradicts_itself_is_told_once(offer: dict[str, Any], others: dict[str, Any], fault: str) -> None:
    """One line for each fault, with what would be right."""
    (found,) = told(text({**DESK, **offer}, **others))
    assert fault in found and "; " in found


def test_an_inventory_of_purchases_needs_no_horizon() -> None:
    """What a file lists for sale is compared with, and not bought; a list of nothing else cannot train."""
    scenario = parse_scenario(json.dumps({"jobs": [JOB], "inventory": ["purchase"], "offers": [CLOUD]}))
    assert {label for label, _ in scenario.labelled_offers()} == {"cloud/any/1x-rtx3090"}
    (fault,) = told(json.dumps({"jobs": [JOB], "inventory": ["purchase"]}))
    assert "a purchase without a horizon" in fault
