"""Groups of zones as offers: which belong together, what they cost, what limits leave of them."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.scenario.limits import Limits
from planner.scenario.naming import MOST_ZONES, undominated_groups, zone_groups
from planner.scenario.offer import Adjust, Offer, offer_data
from planner.scenario.offer_terms import moves_between_regions
from tests.helpers.stage_scenarios import RENTED, asked

BASE: dict[str, Any] = {"provider": "p", "gpu": "T4", "gpus": 1, "usd_per_hour": 2.0, "spot_usd_per_hour": 0.8}
EAST = {**BASE, "region": "east", "zones": {"a": 0.6, "b": 0.8, "c": 1.0}}


def groups(*offers: dict[str, Any], **limits: Any) -> list[Offer]:
    """Return the groups of some offers under limits."""
    return zone_groups([Offer.model_validate(one) for one in offers], Limits.model_validate(limits))


def sizes(found: list[Offer]) -> list[tuple[str, int]]:
    """Return the places and the number of zones of groups."""
    return [(one.region.rpartition(" ")[2], len(one.zones)) for one in found]


def test_a_group_rents_the_cheapest_zones_at_their_mean_price() -> None:
    """Two or all three zones of a region."""
    found = groups(EAST)
    assert sizes(found) == [("east", 2), ("east", 3)]
    assert [one.spot_usd_per_hour for one in found] == [pytest.approx(0.7), pytest.approx(0.8)]
    assert found[0].label == "p/2 zones of east/1x-t4"
    assert dict(found[0].zones) == {"east/a": 0.6, "east/b": 0.8}


def test_limits_say_how_far_a_run_may_move() -> None:
    """Anywhere at the provider, within its region, or not at all; a region that is forbidden is in no group."""
    west = {**BASE, "region": "west"}
    assert sizes(groups(EAST, west)) == [("east", 2), ("east", 3), ("east+west", 4)]
    assert sizes(groups(EAST, west, spot_zones="same_region")) == [("east", 2), ("east", 3)]
    assert groups(EAST, west, spot_zones="same_zone") == groups(EAST, spot=False) == []
    assert sizes(groups(EAST, west, regions={"forbid": ["west"]})) == [("east", 2), ("east", 3)]
    assert sizes(groups(EAST, regions={"forbid": ["east/c"]})) == [("east", 2)]
    with pytest.raises(ScenarioError, match="spot_zones"):
        asked(RENTED, limits={"spot_zones": "anywhere"})


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "q"}, {"gpus": 2}, {"usd_per_hour": 2.1}, {"max_nodes": 2}, {"stock": 4}, {"community": True},
        {"spot_usd_per_hour": 2.0}, {"source": "elsewhere"}, {"instance": "x"}, {"region": "any"},
        {"spot": {"availability": 0.9, "mean_up_hours": 9}},
    ],
)  # fmt: skip
def test_zones_belong_together_where_all_but_place_and_spot_price_is_the_same(change: dict[str, Any]) -> None:
    """Anything else would be another machine, at other terms."""
    one = {**BASE, "region": "east"}
    assert sizes(groups(one, {**one, "region": "west"})) == [("east+west", 2)]
    assert groups(one, {**one, "region": "west", **change}) == []


def test_a_group_holds_no_more_zones_than_were_ever_recorded_together() -> None:
    """Twelve regions make groups of two, four and eight."""
    found = groups(*({**BASE, "region": f"r{n}", "spot_usd_per_hour": 0.5 + n / 100} for n in range(12)))
    assert [len(one.zones) for one in found] == [2, 4, MOST_ZONES]
    assert found[-1].region == "any of 8 regions"


def test_a_group_that_another_replaces_is_left_out() -> None:
    """As many zones at a lower price and no more moves between regions; a doubtful price replaces none but its like."""
    cheap = {**EAST, "region": "west", "zones": {"a": 0.5, "b": 0.6, "c": 0.7}}
    found = groups(EAST, cheap)
    left = [found[place] for place in undominated_groups(found, [False] * len(found))]
    assert ("east", 3) not in sizes(left) and ("west", 3) in sizes(left)
    doubtful = [one.region.endswith("west") for one in found]
    assert ("east", 3) in sizes([found[place] for place in undominated_groups(found, doubtful)])


def test_the_share_of_moves_that_leave_the_region() -> None:
    """Two zones of one region and one of another: four of six ordered pairs."""
    assert moves_between_regions((("a/1", 1.0), ("a/2", 1.0), ("b/1", 1.0))) == pytest.approx(4 / 6)
    assert moves_between_regions((("a/1", 1.0), ("a/2", 1.0))) == moves_between_regions(()) == 0.0


def test_an_offer_is_written_as_it_was_read() -> None:
    """A mapping from zone to price."""
    assert offer_data(Offer.model_validate(EAST))["zones"] == EAST["zones"]
    assert Offer.model_validate(offer_data(groups(EAST)[0])).zones == groups(EAST)[0].zones
    for wrong in ({"a": -1}, {"a": "dear"}, "a", {"": 1.0}):
        with pytest.raises(ValueError, match="zones"):
            Offer.model_validate({**EAST, "zones": wrong})


def test_a_factor_on_spot_prices_holds_for_every_zone() -> None:
    """The groups of a what-if are at its prices."""
    scenario = asked(
        {**RENTED, "region": "east", "usd_per_hour": 2.0, "spot_usd_per_hour": 0.8, "zones": EAST["zones"]}
    )
    cheaper = scenario.model_copy(update={"adjust": (Adjust(spot_usd_per_hour_factor=0.5),)})
    assert [offer.spot_usd_per_hour for _, offer in cheaper.labelled_offers()] == pytest.approx([0.4, 0.35, 0.4])


def test_offers_are_labelled_once_for_the_same_prices_and_limits() -> None:
    """A copy with other limits has its own groups; what was made before neither counts for equality nor is written."""
    scenario = asked(
        {**RENTED, "usd_per_hour": 2.0, "spot_usd_per_hour": 0.8, "region": "east", "zones": EAST["zones"]}
    )
    fresh, first = scenario.model_copy(), scenario.labelled_offers()
    assert all(one is other for (_, one), (_, other) in zip(first, scenario.labelled_offers(), strict=True))
    alone = scenario.model_copy(update={"limits": Limits(spot_zones="same_zone")}).labelled_offers()
    assert len(alone) == 1 < len(first)
    assert scenario == fresh
    assert scenario.model_dump() == fresh.model_dump()
