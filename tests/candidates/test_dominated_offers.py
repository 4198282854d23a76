"""Offers that another replaces at no higher price are left out, and no plan changes by that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates import market as markets
from planner.candidates.market import build_market
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.scenario.limits import Limits
from planner.scenario.scenario import Scenario
from planner.solving import prepare as preparing
from planner.solving.optimise_choice import ResolvedPlan, try_solve
from planner.solving.prepare import prepare
from tests.helpers.stage_scenarios import RENTED, asked, library

TINY = "tinyllama-1.1b"
LIBRARY = read_library([TINY])
BASE = {**RENTED, "usd_per_hour": 2.0, "spot_usd_per_hour": 0.8}


def regions(*offers: dict[str, Any], **limits: Any) -> list[str]:
    """Return the regions of the offers that the search sees."""
    scenario = asked(*offers).model_copy(update={"limits": Limits.model_validate(limits)})
    return [offer.region for offer in build_market(scenario, library()).offers]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"usd_per_hour": 2.1}, ["a"]),
        ({"spot_usd_per_hour": 0.9}, ["a"]),
        ({"spot_usd_per_hour": None}, ["a"]),
        ({"usd_per_hour": 1.9, "spot_usd_per_hour": 0.7}, ["b"]),
        ({"usd_per_hour": 1.9, "spot_usd_per_hour": 0.9}, ["a", "b"]),
        ({"usd_per_hour": None}, ["a", "b"]),  # it pays no switch to on demand
        ({"usd_per_hour": 2.1, "stock": 4}, ["a", "b"]),
        ({"usd_per_hour": 2.1, "provider": "q"}, ["a", "b"]),
        ({"usd_per_hour": 2.1, "max_nodes": 2}, ["a", "b"]),
        ({"usd_per_hour": 2.1, "fees": {"egress_usd_per_gb": 0.1}}, ["a", "b"]),
        ({"usd_per_hour": 2.1, "community": True}, ["a", "b"]),
        ({"usd_per_hour": 2.1, "spot": {"availability": 0.9, "mean_up_hours": 9}}, ["a", "b"]),
    ],
)
def test_a_more_expensive_offer_of_the_same_machine_is_left_out(change: dict[str, Any], left: list[str]) -> None:
    """Only prices, region and instance may differ."""
    assert regions({**BASE, "region": "a"}, {**BASE, "region": "b", "instance": "other", **change}) == left


@pytest.mark.parametrize(
    "limits", [{"spot_share": {"max": 0.5}}, {"spot_share": {"min": 0.5}}, {"regions": {"allow": ["a", "b"]}}]
)
def test_limits_may_need_the_more_expensive_offer(limits: dict[str, Any]) -> None:
    """A policy at other prices has another spot share, and `explain` tells every allowed region apart."""
    offers = {**BASE, "region": "a"}, {**BASE, "region": "b", "usd_per_hour": 2.1}
    assert (regions(*offers), regions(*offers, **limits)) == (["a"], ["a", "b"])


@pytest.mark.parametrize("shared", [{"stock": 1}, {"commitment": {"months": 1}, "spot_usd_per_hour": None}])
def test_offers_that_run_out_are_kept(shared: dict[str, Any]) -> None:
    """Two jobs may need a machine in each region, whatever the second one costs."""
    offers = [{**BASE, **shared, "region": region, "usd_per_hour": usd} for region, usd in (("a", 2.0), ("b", 2.1))]
    assert regions(*offers) == ["a", "b"]


def test_merged_offers_are_named_after_the_first_name() -> None:
    """Three regions of one offer have one label, whichever the file lists first."""
    for order in (["us", "eu", "ap"], ["ap", "eu", "us"], ["eu", "ap", "us"]):
        market = build_market(asked(*({**BASE, "region": region} for region in order)), library())
        assert (market.offers[0].region, market.merged[0]) == ("ap", 3)
        assert market.labels[0].split("/")[1] == "ap"


def test_an_outlying_spot_price_replaces_only_outliers() -> None:
    """It is below that of every region, but a plan says what it costs without such prices."""
    usual = [{**BASE, "region": f"r{n}", "instance": "x", "usd_per_hour": 2 + n / 10} for n in range(4)]
    error = {**BASE, "region": "z", "instance": "x", "spot_usd_per_hour": 0.1}
    market = build_market(asked(*usual, error), library())
    found = zip([one.region for one in market.offers], market.is_outlier.tolist(), strict=True)
    assert list(found) == [("r0", False), ("z", True), ("any of r0+z", True)]


@st.composite
def small_markets(draw: st.DrawFn) -> Scenario:
    """Return one or two jobs on a market of a few machines, each in several regions at prices that differ."""
    cents = st.integers(20, 60).map(lambda number: number / 100)
    kinds: list[dict[str, Any]] = [
        {"provider": "a", "gpu": "RTX4090", "gpus": 1, "spot": {"availability": 0.6, "mean_up_hours": 2}},
        {"provider": "a", "gpu": "RTX3090", "gpus": 2, "billing": {"step_seconds": 3600}},
        {"provider": "b", "gpu": "RTX4090", "gpus": 1, "fees": {"egress_usd_per_gb": 0.1}},
    ]
    offers = []
    for number in range(draw(st.integers(2, 8))):
        price = draw(cents)
        offer = {**draw(st.sampled_from(kinds)), "region": f"r{number}", "usd_per_hour": price}
        kind = draw(st.sampled_from(["spot", "spot", "spot", "on demand", "stock", "committed"]))
        if kind in ("spot", "stock"):
            offer["spot_usd_per_hour"] = round(price * draw(st.sampled_from([0.3, 0.6, 0.9])), 3)
        if kind == "stock":
            offer["stock"] = 1
        if kind == "committed":
            offer["commitment"] = {"months": 1}
        offers.append(offer)
    limits: dict[str, Any] = {}
    if draw(st.booleans()):
        limits["quota"] = {"a": draw(st.integers(1, 4))}
    if draw(st.integers(0, 3)) == 0:
        limits["regions"] = {"forbid": [draw(st.sampled_from([offer["region"] for offer in offers]))]}
    if draw(st.integers(0, 3)) == 0:
        limits["spot_share"] = {"max": 0.8}
    if draw(st.integers(0, 2)) == 0:
        limits["budget_usd"] = draw(cents) * 4
    jobs = [
        {"name": name, "architecture": TINY, "work": {"tokens": 3e7}, "deadline": f"{draw(st.integers(2, 12))}h"}
        for name in ("one", "two")[: draw(st.integers(1, 2))]
    ]
    objective = draw(st.sampled_from(["cost", "time", {"value_of_time_usd_per_hour": 0.05}]))
    data = {"name": "law", "offers": offers, "jobs": jobs, "limits": limits, "objective": objective}
    return parse_scenario(json.dumps(data))


def on_all_offers(scenario: Scenario) -> ResolvedPlan | None:
    """Return the plan where no offer is left out."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (markets, preparing):
            patch.setattr(module, "has_comparable_prices", lambda _: False)
        return try_solve(prepare(scenario, LIBRARY))


@pytest.mark.long
@settings(derandomize=True, max_examples=15, deadline=None, database=None)
@given(small_markets(), st.randoms(use_true_random=False))
def test_the_optimum_is_that_of_all_offers_in_any_order(scenario: Scenario, chance: Any) -> None:
    """Stock, quota, regions, commitments, billing steps, fees and policies on spot change nothing."""
    found, whole = try_solve(prepare(scenario, LIBRARY)), on_all_offers(scenario)
    offers = list(scenario.offers)
    chance.shuffle(offers)
    other = try_solve(prepare(scenario.model_copy(update={"offers": tuple(offers)}), LIBRARY))
    if found is None or whole is None or other is None:
        assert (found, whole, other) == (None, None, None)
        return
    assert found.objective == pytest.approx(whole.objective, rel=1e-6, abs=1e-6)
    assert found.objective == pytest.approx(other.objective, rel=1e-9)
    assert _offers(found) == _offers(other)


def _offers(plan: ResolvedPlan) -> list[str]:
    """Return the label of the offer of each job."""
    return [plan.chosen.offers[offer].partition("#")[0] for offer in plan.chosen.offer.tolist()]
