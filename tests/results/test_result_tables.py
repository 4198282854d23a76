"""Results as tables, texts, lines and pictures on one's own axes."""

from __future__ import annotations

import datetime
import math
import sys
from functools import cache

import pytest

import planner
from planner.results.result_tables import Table, varied
from planner.scenario.scenario import SolveOptions

pandas = pytest.importorskip("pandas")

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))


@cache
def plan_of(name: str) -> planner.Plan:
    return planner.solve(name, OPTIONS)


def test_rows_of_a_table_have_the_same_columns() -> None:
    """A figure that a row does not have is None there, and the order of the columns is that of their first row."""
    table = Table([{"a": 1}, {"b": 2.5, "a": 3}])
    assert table.columns == ("a", "b")
    assert list(table) == [{"a": 1, "b": None}, {"a": 3, "b": 2.5}]
    assert table.column("b") == [None, 2.5]
    assert table.to_dataframe().shape == (2, 2)


@pytest.mark.parametrize(
    ("path", "text", "columns"),
    [
        ("jobs.0.deadline", "1d12h", {"jobs.0.deadline": "1d12h", "jobs.0.deadline_hours": 36.0}),
        ("limits.budget_usd", "2.5", {"limits.budget_usd": 2.5}),
        ("jobs.0.work.tokens", "10M", {"jobs.0.work.tokens": 10_000_000}),
        ("objective", "time", {"objective": "time"}),
    ],
)
def test_a_value_of_a_sweep_is_a_number_where_it_is_one(path: str, text: str, columns: dict[str, object]) -> None:
    """A duration keeps its text, and its hours stand next to it."""
    assert varied(path, text) == columns


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "three-jobs-one-budget", "two-models"])
def test_the_bill_adds_up_to_the_dollars_of_the_plan(name: str) -> None:
    """No line is missing from the table, of jobs or of services."""
    plan = plan_of(name)
    assert plan.cost is not None
    bill = plan.to_dataframe("bill")
    assert math.isclose(bill["usd"].sum(), plan.cost.expected, rel_tol=1e-12)
    jobs = plan.to_dataframe()
    assert list(jobs["name"]) == [part.name for part in plan.planned]
    assert math.isclose(jobs["cost_usd"].sum(), plan.cost.expected, rel_tol=1e-12)


@pytest.mark.slow
def test_figures_of_a_job_are_numbers() -> None:
    """Hours, dollars, memory and techniques of a job stand in one row, intervals as three columns."""
    (job,) = plan_of("quickstart").jobs
    (row,) = plan_of("quickstart").table()
    assert (row["hours"], row["hours_low"], row["hours_high"]) == (job.hours.expected, job.hours.low, job.hours.high)
    assert (row["vram_gib"], row["micro_batch"]) == (job.vram_gib.peak, job.techniques.micro_batch)
    assert all(cell is None or isinstance(cell, (str, bool, int, float)) for cell in row.values())


@pytest.mark.slow
def test_a_frontier_a_sweep_and_a_tornado_are_frames() -> None:
    """A row for each breakpoint, cell and bar, with the figures of the result."""
    frontier = planner.frontier("quickstart", OPTIONS)
    frame = frontier.to_dataframe()
    assert list(frame["cost_usd"]) == [point.cost_usd for point in frontier.points]
    assert frame["knee"].sum() == 1 and frame["hours"].is_monotonic_increasing
    sweep = planner.sweep("quickstart", ["jobs.0.deadline=6h:12h:6h"], options=OPTIONS)
    cells = sweep.to_dataframe()
    assert list(cells["jobs.0.deadline_hours"]) == [6.0, 12.0]
    assert list(cells["cost_usd"]) == [cell.cost_usd for cell in sweep.cells]
    tornado = planner.tornado("quickstart", OPTIONS)
    assert list(tornado.to_dataframe()["effect_usd"]) == [bar.effect_usd for _, bar in tornado.lines]


@pytest.mark.slow
def test_text_and_line_of_results() -> None:
    """`str` is what the command prints, `repr` a line that begins with it; a scenario is a line, too."""
    for result in (plan_of("quickstart"), plan_of("infeasible"), planner.estimate("mistral-7b", "A10G")):
        assert str(result) == planner.text(result)
        line = repr(result)
        assert "\n" not in line and len(line) <= 100
        assert line.startswith(f"<{type(result).__name__} {str(result)[:20]}")
    assert max(map(len, planner.text(plan_of("quickstart"), width=100).splitlines())) > 80
    assert repr(planner.read_scenario("quickstart")) == "<Scenario quickstart: 1 job, 570 offers, objective cost>"


@pytest.mark.slow
def test_a_notebook_shows_services_and_reasons() -> None:
    """An infeasible plan shows its changes, a plan of services their machines and dollars."""
    infeasible = plan_of("infeasible")
    assert infeasible.infeasible is not None
    shown = infeasible._repr_html_()
    assert all(change.limit in shown for change in infeasible.infeasible.relax)
    services = plan_of("two-models")
    shown = services._repr_html_()
    for service in services.services:
        assert service.name in shown and f"${service.fleet.usd_per_month:,.2f}" in shown


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pandas the rows are there, and the frame says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = Table([{"a": 1}])
    with pytest.raises(ImportError, match=r"needs pandas, .*'finetune-planner\[frames\]'") as error:
        table.to_dataframe()
    assert isinstance(error.value, planner.PlannerError)
    assert table.column("a") == [1]


@pytest.mark.slow
def test_results_are_drawn_on_the_callers_axes() -> None:
    """A frontier, a sweep and a tornado are drawn in dollars and hours on axes that are returned."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    frontier = planner.frontier("quickstart", OPTIONS)
    ax = figure.add_subplot()
    assert planner.plot(frontier, ax=ax) is ax
    assert "hours" in ax.get_xlabel() and "$" in ax.get_ylabel()
    dots = next(line for line in ax.lines if line.get_label() == "breakpoints")
    assert list(dots.get_ydata()) == [point.cost_usd for point in frontier.points]
    tornado = planner.tornado("quickstart", OPTIONS)
    ax = planner.plot(tornado, ax=figure.add_subplot())
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == tornado.lines[0][0]
    sweep = planner.sweep("quickstart", ["jobs.0.deadline=6h:12h:6h"], options=OPTIONS)
    ax = planner.plot(sweep, ax=figure.add_subplot())
    assert list(ax.lines[0].get_ydata()) == [cell.cost_usd for cell in sweep.cells]
    heat = planner.sweep("quickstart", ["jobs.0.deadline=6h:12h:6h", "limits.budget_usd=[3.45, 9]"], options=OPTIONS)
    ax = planner.plot(heat, ax=figure.add_subplot())
    assert ax.get_xlabel() == "limits.budget_usd" and len(ax.get_yticks()) == 2
    with pytest.raises(TypeError, match="Plan cannot be drawn on axes"):
        planner.plot(plan_of("quickstart"), ax=ax)
    with pytest.raises(planner.NoPlanError, match="nothing to draw"):
        planner.plot(planner.frontier("infeasible", OPTIONS), ax=ax)
