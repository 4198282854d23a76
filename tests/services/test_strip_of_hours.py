"""The strip by the hour: load, use, replicas, and which of them are on spot; the same in picture and page."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.analysis.overview import overview
from planner.drawing.scene import to_svg
from planner.report.any_result import draw_file
from planner.report.report_page import find_figure, render_page
from planner.results.fleet import FleetBaseline
from planner.results.plan import Plan
from planner.services.fleet_text import strip, ways_of
from planner.solving.solve import solve
from tests.helpers.services import desk


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of the service."""
    return solve(desk())


@pytest.mark.slow
def test_each_hour_has_load_use_replicas_and_spot(plan: Plan) -> None:
    """Every row has 24 characters, and what is on spot is no more than what there is."""
    fleet = plan.services[0].fleet
    rows = {line[8:12]: line[13:37] for line in strip(fleet)[1:] if line[8:12] in ("load", "use ", "reps", "spot")}
    assert {"load", "use ", "reps"} <= rows.keys() and all(len(text) == 24 for text in rows.values())
    assert [int(one) for one in rows["reps"]] == list(fleet.replicas_by_hour)
    has_both = {kind.market == "spot" for kind in fleet.kinds} == {True, False}
    assert ("spot" in rows) == has_both
    if has_both:
        assert all(int(spot) <= int(all_) for spot, all_ in zip(rows["spot"], rows["reps"], strict=True))


@pytest.mark.slow
def test_the_picture_names_every_kind(plan: Plan, tmp_path: Path) -> None:
    """Load and replicas are drawn, the kinds are in the legend."""
    draw_file(plan, tmp_path / "week.svg", ["desk"])
    text = (tmp_path / "week.svg").read_text()
    assert "capacity within the limits" in text and "replicas" in text
    assert all(kind.gpu in text for kind in plan.services[0].fleet.kinds)


@pytest.mark.long
def test_the_page_has_load_frontier_bill_and_services(plan: Plan) -> None:
    """All sections are there without network, and each picture can be a file."""
    found = overview(desk(), plan, wanted=("frontier", "reasons"))
    page = render_page(found)
    for text in ("Load and replicas", "Dollars against the time per token", "Bill of a month", "one kind for the peak"):
        assert text in page
    assert "three/any" in page and "saves $" in page
    assert "src=" not in page and 'href="http' not in page
    for name in ("frontier", "timetable", "bill", "memory"):
        figure = find_figure(found, name)
        assert figure is not None and figure.draw is not None
        assert "<svg" in to_svg(figure.draw(840.0), name, standalone=True)
    assert len(page.encode()) < 300_000


@pytest.mark.slow
def test_ways_to_serve_on_equal_machines_at_equal_dollars_are_one_row(plan: Plan) -> None:
    """One kind for the peak and one by the hour are the same fleet where one machine stands in all hours."""
    service = plan.services[0]
    peak, hourly = (
        FleetBaseline(name=f"one kind {by}", usd_per_month=9000.0, machines="2 x L40S at two")
        for by in ("for the peak", "by the hour")
    )
    other = hourly.model_copy(update={"usd_per_month": 9001.0})
    for rows, names in (((peak, hourly), [peak.name]), ((peak, other), [peak.name, other.name])):
        fleet = service.fleet.model_copy(update={"baselines": rows, "api": ()})
        ways = ways_of(service.model_copy(update={"fleet": fleet}))
        assert [way.note for way in ways if way.name == "simpler"] == names
