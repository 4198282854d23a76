"""Results in a notebook: tables of HTML that show what was found and let nothing through unescaped."""

from __future__ import annotations

import datetime

import pytest

from planner.loading.scenario_file import read_scenario
from planner.results.plan_parts import html_table
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve


def test_texts_are_escaped() -> None:
    """A name that is markup stays a name."""
    shown = html_table("<b>", ["<i>"], [["<script>", "1 & 2"]])
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "1 &amp; 2" in shown


@pytest.mark.slow
def test_a_plan_shows_its_figures_and_its_bill() -> None:
    """Job, machine, cost and every line of the bill can be read in a notebook."""
    plan = solve(read_scenario("quickstart"), SolveOptions(as_of=datetime.date(2026, 11, 21)))
    shown = plan._repr_html_()
    assert f"{plan.jobs[0].gpus} x {plan.jobs[0].gpu}" in shown
    assert f"${plan.jobs[0].cost_usd:,.2f}" in shown
    assert all(line.item in shown for line in plan.jobs[0].bill)
