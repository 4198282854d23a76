"""Offers by their labels are made once, and again where prices or what groups of zones read of the limits change."""

from __future__ import annotations

import pytest

from planner.loading.scenario_file import change_scenario, read_scenario


@pytest.mark.parametrize("setting", ["limits.budget_usd=5", "limits.gpus.forbid=[A5000]", "jobs.0.deadline=8h"])
def test_a_change_that_concerns_no_offer_takes_the_offers_of_before(setting: str) -> None:
    """Each offer is the very one of the scenario that was changed."""
    scenario = read_scenario("quickstart")
    before = scenario.labelled_offers()
    after = change_scenario(scenario, [setting]).labelled_offers()
    assert [label for label, _ in after] == [label for label, _ in before]
    assert all(one is other for (_, one), (_, other) in zip(after, before, strict=True))


@pytest.mark.parametrize(
    "setting",
    [
        "limits.spot_zones=same_zone",
        "limits.spot=false",
        "limits.max_price_age=1h",
        "limits.regions.forbid=[us-east-1]",
        "adjust=[{usd_per_hour_factor: 2}]",
    ],
)
def test_a_change_of_prices_or_zones_is_answered_as_from_scratch(setting: str) -> None:
    """What the scenario before has kept is of no use then."""
    scenario = read_scenario("quickstart")
    scenario.labelled_offers()
    after = change_scenario(scenario, [setting]).labelled_offers()
    assert after == read_scenario("quickstart", [setting]).labelled_offers()
