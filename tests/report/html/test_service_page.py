"""The report of a service: memory, simulated latency, alternatives, prices and assumptions as those of a job."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from planner.analysis.overview import overview
from planner.catalogs.live import update_book
from planner.loading.scenario_file import parse_scenario
from planner.report.plan_figures import Figure
from planner.report.report_page import MOST_BYTES, find_figure, groups_of, render_page
from planner.results.what_if import Overview
from planner.scenario.offer import Offer
from planner.services.service_simulation import kind_bases, simulate_service
from tests.helpers.pages import OFFICE
from tests.helpers.reports import HOSTILE, OPTIONS
from tests.helpers.service_reports import service_overview, service_page, service_scenario

pytestmark = pytest.mark.long


def figure(name: str) -> Figure:
    """Return a figure of the report by its key."""
    found = [one for group in groups_of(service_overview()) for one in group.figures]
    return next(one for one in found if one.key == name)


def test_the_sections_are_those_of_a_job() -> None:
    """Each section of a job's report has its counterpart, every figure has rows as wide as its header."""
    groups = groups_of(service_overview())
    keys = [group.key for group in groups]
    assert keys == ["load", "cost-time", "bill", "replica-memory", "alternatives", "tornado", "simulation",
                    "assumptions"]  # fmt: skip
    for one in (one for group in groups for one in group.figures):
        assert one.table.rows, one.key
        assert {len(row) for row in one.table.rows} == {len(one.table.header)}, one.key
    assert len(service_page().encode()) < MOST_BYTES
    assert HOSTILE not in service_page()


def test_parts_of_the_memory_add_up_to_the_gpu() -> None:
    """Weights, cache, activations and the engine's own are what the engine takes; the rest of the GPU is left free."""
    for one in service_overview().bases:
        used = sum(one.memory_gib.parts.values())
        assert used == pytest.approx(one.memory_gib.usable) and used < one.whole_gib
        assert one.memory_gib.kv_tokens >= one.longest_context and one.most_in_flight >= 1
    rows: dict[str, dict[str, float]] = {}
    for gpu, part, size in figure("replica-memory").table.rows:
        if size.endswith(" GiB"):
            rows.setdefault(gpu, {})[part] = float(size.removesuffix(" GiB"))
    for sizes in rows.values():
        assert sum(sizes.values()) == pytest.approx(2 * sizes["memory of the GPU"])
    drawn = find_figure(service_overview(), "memory")
    assert drawn is not None and drawn.draw is not None


def test_simulated_latency_is_that_of_simulate() -> None:
    """Shares and times are those of `planner simulate` with as many requests, whose number the page says."""
    found, replay = service_overview(), service_overview().service_simulation
    assert replay is not None
    again = simulate_service(service_scenario(), found.plan, options=OPTIONS, runs=400)
    assert again.services == replay.services
    service = replay.services[0]
    assert f"{replay.runs:,} requests in each of {service.distinct_hours:,} distinct hours" in service_page()
    for limit in service.streams[0].limits:
        share = limit.cycle.simulated_share
        assert share is not None
        assert figure(f"{limit.name}-0").lead.startswith(f"{share * 100:.1f} % within")


def test_fewer_requests_are_simulated_where_there_are_many_hours() -> None:
    """Without a number it is that of `simulate`; a week of different hours has fewer in each."""
    from planner.services.service_page import HOUR_REQUESTS, MOST_REQUESTS, _hour_requests

    plan = service_overview().plan
    assert _hour_requests(plan) == HOUR_REQUESTS
    service = plan.services[0]
    week = service.fleet.model_copy(
        update={"load": tuple(float(one) for one in range(168)),
                "kinds": tuple(kind.model_copy(update={"by_hour": kind.by_hour * 7}) for kind in service.fleet.kinds)}
    )  # fmt: skip
    other = plan.model_copy(update={"services": (service.model_copy(update={"fleet": week}),)})
    assert _hour_requests(other) * 168 <= MOST_REQUESTS


def test_alternatives_are_those_of_explain() -> None:
    """GPU and provider have a bar for the fleet and for each alternative, with the dollars of a month."""
    explanation = service_overview().explanation
    assert explanation is not None and explanation.service is not None
    for by in ("gpu", "provider"):
        names = [one.name for one in explanation.alternatives if one.by == by]
        assert [row[0] for row in figure(f"fleet-{by}").table.rows] == [
            "this fleet",
            *(f"{one} alone" for one in names),
        ]


def test_each_kind_has_the_source_and_the_age_of_its_price_and_what_its_speed_rests_on() -> None:
    """Prices are 20 days old; the factor on times is at least that of the confidence."""
    rows = figure("assumptions").table.rows
    prices = [row for row in rows if row[0].startswith("price of ")]
    speeds = [row for row in rows if row[0].startswith("speed of ")]
    assert len(speeds) == len(service_overview().bases) and prices
    assert all(row[2].endswith("2026-11-01, 20 days old") for row in prices)
    assert all(row[2].startswith(("calibrated", "prior", "observed")) for row in speeds)
    assert all(one.slow > 1 for one in service_overview().bases)


def test_a_plan_of_a_service_alone_is_a_report() -> None:
    """Without analyses there are load and bill, and prices have one row."""
    found = Overview(plan=service_overview().plan)
    assert [group.key for group in groups_of(found)] == ["load", "bill", "alternatives", "assumptions"]
    assert "up to 20 days old" in render_page(found)


def test_machines_that_a_scenario_does_not_have_rest_on_nothing() -> None:
    """A plan that was changed by hand gives no figures of memory in place of a fault."""
    other = parse_scenario(json.dumps({**OFFICE, "offers": OFFICE["offers"][1:]}), file="small.json")
    assert kind_bases(other, service_overview().plan) == ()


def test_stored_prices_of_a_service_are_those_of_its_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days are stored: the page has them for each machine of the fleet, and says so where there are none."""
    assert "the price book has no earlier prices" in service_page()
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    plan = service_overview().plan
    for age, usd in ((10, 1.2), (1, 1.1)):
        day = datetime.date(2026, 11, 21) - datetime.timedelta(age)
        offers = [
            Offer(provider=one["provider"], gpu=one["gpu"], gpus=1, usd_per_hour=usd, date=day, source="s")
            for one in OFFICE["offers"]
        ]
        update_book(offers, "test", datetime.datetime.combine(day, datetime.time(12)).astimezone(), force=True)
    found = overview(service_scenario(), plan, options=OPTIONS, wanted=("prices",))
    assert {one.offer for one in found.prices} == {kind.offer for kind in plan.services[0].fleet.kinds}
    assert [day.usd_per_hour for day in found.prices[0].days] == [1.2, 1.1]
    assert "Price history" in [group.title for group in groups_of(found)]
