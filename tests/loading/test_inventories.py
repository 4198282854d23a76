"""Inventories by name: the price book beside files, and what is told where it is empty."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from planner.catalogs.live import update_book
from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.scenario.offer import Offer
from tests.helpers.scenarios import GOOD

WITH_BOOK = GOOD.replace("jobs:", "inventory: [prices]\njobs:")


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty price book."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    return tmp_path / "book"


def store(provider: str, price: float, day: datetime.date) -> None:
    offer = Offer(provider=provider, gpu="L4", gpus=1, usd_per_hour=price, date=day, source="s")
    update_book([offer], "file", datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC))


def test_prices_are_the_newest_of_each_provider(tmp_path: Path) -> None:
    """A provider that was not updated keeps its old prices, which are as old as they say."""
    store("p", 1.0, datetime.date(2026, 11, 1))
    store("p", 2.0, datetime.date(2026, 11, 21))
    store("q", 3.0, datetime.date(2026, 3, 1))
    found = parse_scenario(WITH_BOOK, tmp_path).offers[:2]
    assert [(one.provider, one.usd_per_hour, one.days_behind) for one in found] == [("p", 2.0, 0), ("q", 3.0, 0)]


def test_an_empty_price_book_says_how_to_fill_it(tmp_path: Path) -> None:
    """It is not silently the shipped market."""
    with pytest.raises(ScenarioError, match="the price book is empty; fill it: planner prices update, or"):
        parse_scenario(WITH_BOOK, tmp_path)
