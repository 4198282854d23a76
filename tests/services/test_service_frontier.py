"""Dollars of a month against the time per token: each point is what solve finds, none is undercut."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from planner.errors import ScenarioError
from planner.report import words
from planner.report.any_result import draw_file
from planner.results.explanation import Alternative, Explanation
from planner.results.service_results import ServiceFrontier
from planner.services.service_changes import service_frontier
from planner.services.service_texts import _alternative_row, render_service_frontier
from planner.solving.solve import solve
from tests.helpers.services import desk


@pytest.fixture(scope="module")
def found() -> ServiceFrontier:
    """Return the frontier of the service at six limits."""
    return service_frontier(desk(), points=6)


@pytest.mark.long
def test_no_point_is_tighter_and_cheaper_and_bounds_hold(found: ServiceFrontier) -> None:
    """Dollars fall with a looser limit, and the bound of a looser limit holds for a tighter one."""
    assert len(found.points) >= 3 and found.solved == 6
    for tight, loose in itertools.pairwise(found.points):
        assert tight.tpot_seconds < loose.tpot_seconds and loose.usd_per_month <= tight.usd_per_month
        assert tight.bound_usd_per_month >= loose.bound_usd_per_month - 1e-9
    assert all(one.bound_usd_per_month <= one.usd_per_month for one in found.points)
    assert found.least_tpot_seconds is not None and found.points[0].tpot_seconds > found.least_tpot_seconds


@pytest.mark.long
def test_the_setting_of_a_point_gives_its_dollars(found: ServiceFrontier) -> None:
    """Solving with the limit of a point finds that fleet, and the scenario's own limit is marked."""
    asked = next(one for one in found.points if one.asked)
    for one in (found.points[0], asked):
        plan = solve(desk(one.setting))
        usd = plan.services[0].fleet.usd_per_month
        assert one.bound_usd_per_month <= usd * (1 + 1e-9) and one.usd_per_month <= usd * (1 + 1e-9)


@pytest.mark.slow
def test_the_frontier_is_text_and_picture(found: ServiceFrontier, tmp_path: Path) -> None:
    """Every point is a line within the width, with its proof."""
    text = render_service_frontier(found)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert text.count(" ms") >= len(found.points) and "> the limit of the scenario" in text and "*" not in text
    assert f"--set {found.points[-1].setting}" in text or found.points[-1].asked
    draw_file(found, tmp_path / "f.svg", text.split("\n"))
    assert "limit on the time per token" in (tmp_path / "f.svg").read_text()


@pytest.mark.slow
def test_a_point_without_a_bound_is_said_to_have_none(found: ServiceFrontier) -> None:
    """Nothing is proven within 100 %: the row says so, and a note counts such rows."""
    bare = found.points[0].model_copy(update={"gap": 1.0})
    other = found.model_copy(update={"points": (bare, *found.points[1:])})
    text = " ".join(render_service_frontier(other).split())
    assert "no bound" in text and "of 1 no bound was found within the time limit" in text
    assert "100 %" not in text.replace("for 100 %", "") and "100.0%" not in other._repr_html_()


@pytest.mark.slow
def test_without_a_plan_at_any_limit_the_reason_is_given() -> None:
    """A first token within a millisecond is met at no time per token."""
    none = service_frontier(desk("jobs.desk.latency.ttft=1ms"), points=4)
    assert none.status == "infeasible" and not none.points
    assert "--set jobs.desk.latency.ttft=" in render_service_frontier(none)


def test_answers_of_one_token_have_no_time_per_token() -> None:
    """There is nothing to draw for them."""
    with pytest.raises(ScenarioError, match="answers of one token"):
        service_frontier(desk("jobs.desk.load.output_tokens=1"), points=4)


def test_machines_of_a_fleet_on_spot_alone_are_all_named_those_on_demand_as_its_reserve() -> None:
    """Spot carries the load; what is on demand replaces what is lost, and says so."""
    plan = "1 x L4 at gcp, on demand; 0 to 2 x L4 at gcp, spot"
    row = Alternative(by="market", name="spot", plan=plan, cost_usd=100.0, difference=0.1, job="s")
    explanation = Explanation(scenario="s", status="optimal", objective="cost", seconds=0.0)
    with words.unwrapped():
        told = [line.strip() for line in _alternative_row(row, explanation)]
    assert told[0].endswith("0 to 2 x L4 at gcp, spot") and told[1] == "reserve: 1 x L4 at gcp, on demand"
