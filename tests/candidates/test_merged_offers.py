"""Offers are merged into one only where nothing but their region tells them apart, and the region does not matter."""

from __future__ import annotations

from typing import Any

import pytest

from planner.candidates.market import build_market
from tests.helpers.stage_scenarios import RENTED, asked, library, line, planned

FIRST = {**RENTED, "region": "us", "spot_usd_per_hour": 0.5}
DIFFERENCES: dict[str, dict[str, Any]] = {
    "stock": {"stock": 1},
    "nodes": {"max_nodes": 2},
    "link": {"interconnect": "nvlink"},
    "network": {"network_gbps": 100},
    "disk": {"disk_gb_per_second": 2},
    "download": {"download_gb_per_second": 2},
    "cores": {"cpu_cores": 8},
    "memory": {"ram_gb": 64},
    "spot": {"spot": {"availability": 0.5, "mean_up_hours": 2}},
    "notice": {"spot_notice_seconds": 120},
    "billing": {"billing": {"step_seconds": 60}},
    "fees": {"fees": {"egress_usd_per_gb": 0.1}},
    "community": {"community": True},
    "provider": {"provider": "q"},
}


def count(*offers: dict[str, Any], **job: Any) -> int:
    """How many offers the search sees, groups of zones left out."""
    return sum(not offer.zones for offer in build_market(asked(*offers, **job), library()).offers)


def test_offers_that_differ_in_region_alone_are_one() -> None:
    """Unless data lie in one of the regions."""
    assert count(FIRST, {**FIRST, "region": "eu"}) == 1
    there = {"stages": {"transfer": {"region": "eu", "egress_usd_per_gb": 0.1}}}
    assert count(FIRST, {**FIRST, "region": "eu"}, **there) == 2


@pytest.mark.parametrize("change", DIFFERENCES.values(), ids=DIFFERENCES)
def test_offers_that_differ_in_anything_else_are_two(change: dict[str, Any]) -> None:
    """What the search may count must not be that of another offer."""
    assert count(FIRST, {**FIRST, "region": "eu", **change}) == 2


def test_the_region_of_the_data_is_found_among_equal_offers() -> None:
    """100 GB cost nothing to leave for the region that they lie in, although another is listed first."""
    there = {"data_gb": 100, "stages": {"transfer": {"region": "eu", "egress_usd_per_gb": 0.1}}}
    found = planned(RENTED | {"region": "us"}, RENTED | {"region": "eu"}, **there)
    assert found.region == "eu"
    assert line(found, "data leaving") == (0.0, 0.0)
