"""The market that candidates see: machines with GPUs, labelled as in the scenario, none merged that differs."""

from __future__ import annotations

import pytest

from planner.candidates.market import build_market
from planner.library.reading import read_library
from tests.helpers.payment_scenarios import CPU, LEFT, OWN, PRICED, YEAR, asked

LIBRARY = read_library(["mistral-7b"])


def test_labels_are_those_of_the_scenario() -> None:
    """A machine without GPU is not trained on, and the numbers of those after it stay as they are listed."""
    market = build_market(asked(PRICED, {**CPU, "instance": "1x-t4"}, {**PRICED, "stock": 2}), LIBRARY)
    assert market.labels == ("p/any/1x-t4", "p/any/1x-t4#3")
    assert [card.name for card in market.cards] == ["T4", "T4"]


def test_regions_of_one_offer_are_one() -> None:
    """What differs in region alone is merged, and counted."""
    market = build_market(asked(*({**YEAR, "region": region} for region in ("a", "b", "c"))), LIBRARY)
    assert (market.labels, market.merged) == (("p/a/1x-t4",), (3,))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (YEAR, {**YEAR, "commitment": {"months": 36, "upfront_usd": 1000}}),
        (YEAR, {**YEAR, "commitment": None}),
        (LEFT, {**LEFT, "committed_hours": 300}),
        (LEFT, {**LEFT, "committed_hours": None, "usd_per_hour": 0}),
        (OWN, {**OWN, "own": None, "usd_per_hour": 0.25, "stock": 1}),
        (PRICED, {**PRICED, "cpu_cores": 8}),
        (PRICED, {**PRICED, "ram_gb": 8}),
        (PRICED, {**PRICED, "disk_gb_per_second": 2}),
        (PRICED, {**PRICED, "download_gb_per_second": 2}),
        (PRICED, {**PRICED, "fees": {"network_storage_usd_per_gb_month": 0.1}}),
    ],
)
def test_offers_that_differ_in_a_way_to_pay_stay_apart(one: dict[str, object], other: dict[str, object]) -> None:
    """Two offers at one hourly price are two where anything else that counts differs."""
    assert len(build_market(asked(one, other), LIBRARY).offers) == 2
