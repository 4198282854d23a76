"""A price list of 10,000 offers is solved in seconds and in little memory; 50,000 in a process of their own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks.speed.markets import KINDS
from planner.scenario.offer import offer_labels


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_offers_of_a_large_market_are_distinct(kind: str) -> None:
    """No two offers have the same machine at the same prices in the same place, and all have a spot price."""
    offers = KINDS[kind](2000)
    assert len({(*offer.label.split("/"), offer.usd_per_hour, offer.spot_usd_per_hour) for offer in offers}) == 2000
    assert all(offer.has_spot for offer in offers)
    assert len(offer_labels(offers)) == 2000


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_offers_take_little_memory(kind: str) -> None:
    """500 MB; time is for the benchmark, on a quiet machine."""
    command = [sys.executable, "-m", "benchmarks.speed.markets", kind, "10000"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r" s CPU, ([\d,]+) MB", shown)
    assert found is not None
    assert float(found[1].replace(",", "")) <= 500
