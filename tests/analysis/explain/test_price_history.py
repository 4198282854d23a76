"""What the plan cost a week and a month ago: from the price book alone, and only where it knows all machines."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from planner import explain, read_scenario
from planner.catalogs.live import update_book
from planner.cli import main
from planner.results.explanation import Explanation
from planner.scenario.offer import Offer
from planner.scenario.scenario import SolveOptions

TODAY = datetime.date(2026, 11, 20)
JOB = "{architecture: llama-3.2-1b, work: {tokens: 5M}, deadline: 1d, techniques: {method: lora}}"


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty price book."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    return tmp_path / "book"


def store(days_ago: int, **prices: float) -> None:
    """Store the prices of one-GPU machines of a provider as of so many days ago."""
    day = TODAY - datetime.timedelta(days_ago)
    machine: dict[str, Any] = {"provider": "p", "gpu": "RTX4090", "gpus": 1, "date": day, "source": "s"}
    offers = [Offer(instance=name, usd_per_hour=usd, **machine) for name, usd in prices.items()]
    update_book(offers, "test", datetime.datetime.combine(day, datetime.time(12)).astimezone(), force=True)


def explained(tmp_path: Path, more: str = "", inventory: str = "prices") -> Explanation:
    path = tmp_path / "s.yaml"
    path.write_text(f"name: s\njobs:\n  - {JOB}\ninventory: [{inventory}]\n{more}")
    return explain(read_scenario(path), options=SolveOptions(as_of=TODAY))


def test_the_same_machines_are_priced_at_earlier_days(tmp_path: Path) -> None:
    """Twice the price is twice the cost, within what is not rent; the day of the prices is named."""
    for days, price in ((35, 0.2), (9, 0.8), (0, 0.4)):
        store(days, a=price)
    found = explained(tmp_path)
    assert found.cost_usd is not None
    month, week = {one.days_ago: one for one in found.past_costs}[30], found.past_costs[0]
    assert (week.days_ago, str(week.date), str(month.date)) == (7, "2026-11-11", "2026-10-16")
    assert week.cost_usd == pytest.approx(2 * found.cost_usd, rel=0.02)
    assert month.cost_usd == pytest.approx(found.cost_usd / 2, rel=0.02)


def test_another_machine_that_was_cheaper_then_is_not_the_plan(tmp_path: Path) -> None:
    """The question is what this plan cost."""
    store(7, a=0.8, b=0.1)
    store(0, a=0.4, b=0.9)
    (week,) = explained(tmp_path).past_costs
    assert week.cost_usd == pytest.approx(2 * (explained(tmp_path).cost_usd or 0), rel=0.02)


@pytest.mark.parametrize("days", [[6], [15, 20], []])
def test_what_the_book_does_not_know_is_not_said(tmp_path: Path, days: list[int]) -> None:
    """Prices of yesterday are not those of a week ago, and those of three weeks neither."""
    for one in (*days, 0):
        store(one, a=0.4)
    assert explained(tmp_path).past_costs == ()


def test_a_machine_that_was_not_sold_then_has_no_past(tmp_path: Path) -> None:
    """Nor has an inventory of one's own, or a book that is damaged."""
    store(7, other=0.4)
    store(0, a=0.4)
    assert explained(tmp_path).past_costs == ()
    store(7, a=0.4)
    assert len(explained(tmp_path).past_costs) == 1
    (tmp_path / "book" / "p" / "2026-11-13.csv").write_text("")
    assert explained(tmp_path).past_costs == ()


def test_a_budget_of_today_hides_no_earlier_price(tmp_path: Path) -> None:
    """The plan would have been above it."""
    store(7, a=4.0)
    store(0, a=0.4)
    cost = explained(tmp_path).cost_usd or 0
    (week,) = explained(tmp_path, f"limits: {{budget_usd: {3 * cost:.2f}}}").past_costs
    assert week.cost_usd > 3 * cost


def test_the_text_says_how_much_more_or_less_it_was(tmp_path: Path) -> None:
    """One line for each day; none where nothing is known."""
    store(7, a=0.5)
    store(0, a=0.4)
    explained(tmp_path)
    told = CliRunner().invoke(main, ["explain", str(tmp_path / "s.yaml"), "--as-of", str(TODAY)])
    (line,) = [line for line in told.stdout.splitlines() if line.startswith("  Prices")]
    assert line.split()[:5] == ["Prices", "7", "days", "ago", "(2026-11-13):"]
    assert line.endswith(" % more")
