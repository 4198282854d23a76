"""The analyses of one scenario together, and the stored prices of the machines of its plan."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from planner.analysis.overview import overview
from planner.catalogs.live import update_book
from planner.loading.scenario_file import parse_scenario
from planner.scenario.offer import Offer
from planner.solving.solve import solve
from tests.helpers.reports import OPTIONS, SMALL, small_overview, small_scenario


@pytest.mark.long
def test_analyses_are_of_the_same_plan() -> None:
    """Frontier, reasons, sensitivity and replays start from the plan."""
    found = small_overview()
    assert found.plan.cost is not None and found.skipped == {}
    usd = found.plan.cost.expected
    assert found.frontier and found.frontier.points[-1].cost_usd == pytest.approx(found.plan.least_cost_usd)
    assert found.tornado and found.tornado.base.cost_usd == found.plan.cost_usd
    assert found.simulation and found.simulation.predicted and found.simulation.predicted.cost_usd == pytest.approx(usd)
    assert found.explanation and found.explanation.status == "optimal"


@pytest.mark.slow
def test_only_what_is_wanted_is_computed() -> None:
    """What is not asked for is named with that reason; a given plan is shown as it is."""
    plan = solve(small_scenario(), OPTIONS)
    found = overview(small_scenario(), plan, options=OPTIONS, wanted=("prices",))
    assert found.plan is plan or found.plan == plan
    assert found.of_file and found.frontier is None
    assert set(found.skipped) == {"frontier", "reasons", "tornado", "simulation"}


@pytest.mark.slow
def test_an_infeasible_scenario_has_only_its_explanation() -> None:
    """Without a plan nothing else is computed."""
    data = {**SMALL, "limits": {"budget_usd": 0.01}}
    found = overview(parse_scenario(json.dumps(data), file="s.json"), options=OPTIONS)
    assert found.plan.status == "infeasible" and found.plan.infeasible is not None
    assert found.frontier is found.tornado is found.simulation is None


@pytest.mark.slow
def test_prices_of_the_book_are_those_of_the_rented_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three days are stored: the history has the prices of the plan's machine, the oldest first, and of no other."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    for age, usd in ((20, 0.5), (10, 0.45), (1, 0.4)):
        day = datetime.date(2026, 11, 21) - datetime.timedelta(age)
        machine = {"provider": "cheap", "gpu": "RTX3090", "date": day, "source": "s"}
        offers = [Offer(**machine, gpus=1, usd_per_hour=usd), Offer(**machine, gpus=2, usd_per_hour=9)]
        update_book(offers, "test", datetime.datetime.combine(day, datetime.time(12)).astimezone(), force=True)
    data = {**SMALL, "offers": [SMALL["offers"][0]]}  # type: ignore[index]
    found = overview(parse_scenario(json.dumps(data), file="s.json"), options=OPTIONS, wanted=("prices",))
    assert [day.usd_per_hour for history in found.prices for day in history.days] == [0.5, 0.45, 0.4]
