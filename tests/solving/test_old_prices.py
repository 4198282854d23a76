"""Prices that are too old: left out against the newest of their provider, counted, and named where they win."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.analysis.what_if_question import what_if
from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario, read_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions, scenario_data
from planner.solving.solve import solve

if TYPE_CHECKING:
    from pathlib import Path

OLD = "{provider: old, gpu: A6000, gpus: 1, usd_per_hour: 0.20, %s}"
NEW = "{provider: new, gpu: A6000, gpus: 1, usd_per_hour: 0.50, date: 2026-11-01}"
SIBLING = "{provider: old, region: far, gpu: A6000, gpus: 1, instance: dear, usd_per_hour: 9.00, date: 2026-11-01}"
"""What the provider of the old price sells today."""


def scenario(old: str, limits: str = "{}") -> Scenario:
    return parse_scenario(
        f"jobs: [{{architecture: mistral-7b, work: {{tokens: 5M}}, techniques: {{method: lora}}}}]\n"
        f"limits: {limits}\noffers: [{OLD % old}, {SIBLING}, {NEW}]\n"
    )


def planned(asked: Scenario, as_of: str = "2026-11-02") -> Plan:
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
def test_a_price_is_too_old_against_the_newest_of_its_provider(old: str, provider: str) -> None:
    """Half a year, from the last day that it can be of; never for undated prices and hours already paid for."""
    assert planned(scenario(old)).jobs[0].provider == provider


def test_what_is_left_out_is_counted_and_named() -> None:
    """The plan says how many offers it did not use, and what the best of them would have cost."""
    plan = planned(scenario("date: 2026-01-15"))
    assert (plan.candidates.offers, plan.candidates.outdated_offers) == (2, 1)
    (note,) = (note for note in plan.warnings if "left out" in note)
    cheaper = planned(change_scenario(scenario("date: 2026-01-15"), ["limits.max_price_age=null", "solve.ties=0"]))
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
    assert (job.price_date, job.price_age_days) == ("2026-08-01 to 2026-10-01", 93)
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
    asked = scenario("date: 2026-01-15", "{providers: [old], regions: [any]}")
    found = planned(asked).infeasible
    assert found is not None
    (way,) = (one for one in found.relax if one.limit == "limits.max_price_age")
    assert (way.change_from, way.change_to, way.setting) == ("180 d", "none", "limits.max_price_age=null")
    assert planned(change_scenario(asked, [way.setting])).jobs[0].cost_usd == pytest.approx(way.cost_usd)


@pytest.mark.slow
@pytest.mark.parametrize(("as_of", "provider"), [("2026-11-02", "old"), ("2026-11-05", "new"), ("2027-01-29", "new")])
def test_an_age_that_the_scenario_sets_counts_against_today(as_of: str, provider: str) -> None:
    """From the first day of a window, whatever else the provider sells; every command and the audit count alike."""
    asked = scenario("dates: {from: 2026-08-04, to: 2026-10-30}", "{max_price_age: 90d}")
    assert planned(asked, as_of).jobs[0].provider == provider
    changed = change_scenario(scenario("dates: {from: 2026-08-04, to: 2026-10-30}"), ["limits.max_price_age=90d"])
    assert planned(changed, as_of).jobs[0].provider == provider
    day = SolveOptions(as_of=datetime.date.fromisoformat(as_of))
    assert f" at {provider}" in explain(asked, options=day).plan
    assert frontier_of_jobs(asked, day).points[-1].jobs[0].provider == provider
    found = what_if(scenario("dates: {from: 2026-08-04, to: 2026-10-30}"), ["limits.max_price_age=90d"], day)
    assert (found.before.jobs[0].provider, found.after.jobs[0].provider) == ("old", provider)


def test_an_age_that_is_the_default_counts_against_today_where_it_is_written() -> None:
    """Also after the scenario was written and read again."""
    asked = scenario("date: 2026-10-30", "{max_price_age: 180d}")
    for one in (asked, change_scenario(asked, ["name=again"]), parse_scenario(json.dumps(scenario_data(asked)))):
        assert planned(one, "2026-11-02").jobs[0].provider == "old"
        assert planned(one, "2027-05-01").infeasible is not None  # all are 181 days old and more
    assert planned(scenario("date: 2026-10-30"), "2027-05-01").jobs[0].provider == "old"


def test_an_undated_price_is_as_old_as_the_oldest_of_its_source(tmp_path: Path) -> None:
    """Of its source in its file; what is the user's own has no such age, and nor has what no source dates."""
    (tmp_path / "list.yaml").write_text(
        """\
currency: USD
offers:
  - {provider: p, instance: undated, gpu: A6000, gpus: 1, usd_per_hour: 0.1, source: list}
  - {provider: p, instance: window, gpu: A6000, gpus: 1, usd_per_hour: 3, source: list,
     dates: {from: 2026-08-03, to: 2026-11-01}}
  - {provider: p, instance: day, gpu: A6000, gpus: 1, usd_per_hour: 3, source: list, date: 2026-11-01}
  - {provider: q, instance: other, gpu: A6000, gpus: 1, usd_per_hour: 3, source: mail}
  - {provider: desk, instance: mine, gpu: A6000, gpus: 1, source: list, own: {power_watts: 300, usd_per_kwh: 9}}
"""
    )
    asked = parse_scenario(
        "jobs: [{architecture: mistral-7b, work: {tokens: 5M}, techniques: {method: lora}}]\ninventory: [list.yaml]\n",
        tmp_path,
    )
    days = {offer.instance: offer.first_date for offer in asked.offers}
    assert days["undated"] == days["window"] == datetime.date(2026, 8, 3)
    assert days["other"] is days["mine"] is None
    plan = planned(asked)
    assert (plan.jobs[0].instance, plan.jobs[0].price_age_days) == ("undated", 91)
    assert "planner prices update" in render(plan).splitlines()[1]
    assert "91 days old" in render(plan).splitlines()[1]


def test_offers_of_one_provider_are_compared_over_all_files(tmp_path: Path) -> None:
    """A stored list of today makes that of last year of no use; another provider's does not."""
    (tmp_path / "old.csv").write_text(
        "provider,gpu,gpus,usd_per_hour,date\np,A6000,1,0.1,2025-11-01\nq,A6000,1,0.2,2025-11-01\n"
    )
    (tmp_path / "new.csv").write_text("provider,instance,gpu,gpus,usd_per_hour,date\np,i,A6000,1,0.5,2026-11-01\n")
    job = "jobs: [{architecture: mistral-7b, work: {tokens: 5M}, techniques: {method: lora}}]\n"
    both = parse_scenario(f"{job}inventory: [old.csv, new.csv]\n", tmp_path)
    assert [(one.provider, one.days_behind) for one in both.offers] == [("p", 365), ("q", 0), ("p", 0)]
    assert planned(both).jobs[0].provider == "q"
    assert planned(parse_scenario(f"{job}inventory: [old.csv]\n", tmp_path)).jobs[0].provider == "p"


@pytest.mark.slow
@pytest.mark.parametrize("as_of", ["2026-11-21", "2028-01-01", "2040-01-01"])
def test_a_plain_install_finds_a_plan_on_any_later_day(as_of: str) -> None:
    """The same plan: time makes prices older, and no price of the shipped list newer than another."""
    plan = planned(read_scenario("quickstart"), as_of)
    first = planned(read_scenario("quickstart"), "2026-11-21")
    assert plan.jobs[0].offer == first.jobs[0].offer and plan.cost_usd == first.cost_usd
    second = render(plan).splitlines()[1]
    assert f"{plan.price_age_days:,} days old" in second and "planner prices update" in second


@pytest.mark.slow
@settings(max_examples=20)
@given(day=st.dates(datetime.date(2026, 11, 21), datetime.date(2200, 1, 1)), cap=st.integers(1, 2000) | st.none())
def test_what_is_left_out_by_default_does_not_depend_on_the_day(day: datetime.date, cap: int | None) -> None:
    """Each provider keeps what is newest of it; an age that is set leaves out all that is older, and nothing else."""
    shipped = read_scenario("quickstart")
    left = {one.provider for one in shipped.offers if not shipped.limits.is_outdated(one)}
    assert left == {one.provider for one in shipped.offers}
    later = shipped.on_day(day)
    assert [later.limits.is_outdated(one) for one in later.offers] == [
        shipped.limits.is_outdated(one) for one in shipped.offers
    ]
    if cap is not None:
        capped = change_scenario(later, [f"limits.max_price_age={cap}d"])
        for one in capped.offers:
            old = one.first_date is not None and (day - one.first_date).days > cap
            assert capped.limits.is_outdated(one) == (old and one.is_by_the_hour)
