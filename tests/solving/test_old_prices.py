"""Prices that are too old: left out against the newest of their own file, counted, and named where they win."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.report.plan import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

OLD = "{provider: old, gpu: A6000, gpus: 1, usd_per_hour: 0.20, %s}"
NEW = "{provider: new, gpu: A6000, gpus: 1, usd_per_hour: 0.50, date: 2026-11-01}"


def scenario(old: str, limits: str = "{}") -> Scenario:
    return parse_scenario(
        f"jobs: [{{architecture: mistral-7b, work: {{tokens: 5M}}, techniques: {{method: lora}}}}]\n"
        f"limits: {limits}\noffers: [{OLD % old}, {NEW}]\n"
    )


def planned(asked: Scenario, as_of: str = "2026-11-02") -> Plan:
    import datetime

    return solve(asked, SolveOptions(as_of=datetime.date.fromisoformat(as_of)))


@pytest.mark.parametrize(
    ("old", "provider"),
    [
        ("date: 2026-05-05", "old"),  # 180 days
        ("date: 2026-05-04", "new"),
        ("dates: {from: 2025-01-01, to: 2026-06-01}", "old"),  # counted from the end of the window
        ("dates: {from: 2025-01-01, to: 2026-04-01}", "new"),
        ("notes: undated", "old"),
        ("date: 2024-01-01, committed_hours: 5000", "old"),
    ],
)
def test_a_price_is_too_old_against_the_newest_of_its_file(old: str, provider: str) -> None:
    """Half a year, from the last day that it can be of; never for undated prices and hours already paid for."""
    assert planned(scenario(old)).jobs[0].provider == provider


def test_what_is_left_out_is_counted_and_named() -> None:
    """The plan says how many offers it did not use, and what the best of them would have cost."""
    plan = planned(scenario("date: 2026-01-15"))
    assert (plan.candidates.offers, plan.candidates.outdated_offers) == (1, 1)
    (note,) = (note for note in plan.warnings if "left out" in note)
    cheaper = planned(change_scenario(scenario("date: 2026-01-15"), ["limits.max_price_age=365d", "solve.ties=0"]))
    assert "with a price of 2026-01: 1 x A6000 at old" in note and f"${cheaper.jobs[0].cost_usd:,.2f}" in note
    assert "1 prices too old" in render(plan)
    assert "too old" not in render(cheaper)


def test_no_limit_restores_every_price() -> None:
    """`max_price_age: null` is what held before there was a limit."""
    assert planned(scenario("date: 2020-01-01", "{max_price_age: null}")).jobs[0].provider == "old"


@pytest.mark.parametrize(("as_of", "told"), [("2026-12-31", False), ("2027-01-01", True)])
def test_the_first_lines_tell_the_age_of_old_prices(as_of: str, told: bool) -> None:
    """From 61 days on the day of asking, beside the figures; up to then in its own line only."""
    text = render(planned(scenario("date: 2026-01-15"), as_of))
    assert ("(prices 61 days old)" in "\n".join(text.splitlines()[:2])) == told
    assert max(map(len, text.splitlines())) <= 80


def test_a_window_is_shown_and_one_date_is_enough() -> None:
    """The plan states the window; a day beside a window, or one that ends before it starts, is a fault."""
    window = "dates: {from: 2026-08-01, to: 2026-10-01}"
    job = planned(scenario(window)).jobs[0]
    assert (job.price_date, job.price_age_days) == ("2026-08-01 to 2026-10-01", 32)
    for wrong in (f"{window}, date: 2026-08-01", "dates: {from: 2026-10-02, to: 2026-10-01}"):
        with pytest.raises(ScenarioError):
            scenario(wrong)


def test_an_old_price_never_hides_a_new_one() -> None:
    """Equal offers of which one is outdated are not merged, and a cheaper outdated one dominates none."""
    offers: list[dict[str, Any]] = [
        {"provider": "p", "region": region, "gpu": "A6000", "gpus": 1, "usd_per_hour": usd, "date": date}
        for region, usd, date in (("a", 0.5, "2025-01-01"), ("b", 0.5, "2026-11-01"), ("c", 0.1, "2025-01-01"))
    ]
    asked = parse_scenario(
        f"jobs: [{{architecture: mistral-7b, work: {{tokens: 5M}}, techniques: {{method: lora}}}}]\noffers: {offers!r}"
    )
    job = planned(asked).jobs[0]
    assert (job.region, job.bill[0].item) == ("b", "gpu on demand")


def test_the_limit_on_the_age_of_prices_is_relaxed_like_any_other() -> None:
    """Where only old prices are left, the setting that admits them is named with the plan that it gives."""
    asked = scenario("date: 2026-01-15", "{providers: [old]}")
    found = planned(asked).infeasible
    assert found is not None
    (way,) = (one for one in found.relax if one.limit == "limits.max_price_age")
    assert (way.change_from, way.change_to, way.setting) == ("180 d", "none", "limits.max_price_age=null")
    assert planned(change_scenario(asked, [way.setting])).jobs[0].cost_usd == pytest.approx(way.cost_usd)
