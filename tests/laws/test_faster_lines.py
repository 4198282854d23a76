"""What the section Faster shows is the plan of least cost for its end, and none that is better without saying why."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from planner.loading.scenario_file import change_scenario, read_scenario
from planner.report.plan_text import faster
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.bare_plans import bare_plan
from tests.solving.test_order_of_ties import OPTIONS, OWN, PLAIN, planned, scenario, usd_of

FIRST = {"own": {**PLAIN, "own": OWN, "usd_per_hour": None, "stock": None}, "stock": PLAIN, "machines": PLAIN}
"""Machines that a step of a near tie prefers to a faster one of unknown stock."""


@pytest.mark.long
@settings(max_examples=4, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example("own", 4, 0.995, {})
@example("stock", 4, 0.995, {})
@example("stock", 4, 0.995, {"jobs.0.techniques.penalty_usd": "{four_bit: 0.01}"})
@given(
    st.sampled_from(sorted(FIRST)),
    st.sampled_from([2, 4, 8]),
    st.floats(0.97, 1.03),
    st.sampled_from([{}, {"solve.ties": "0"}, {"solve.ties": "0.2"}]),
)
def test_a_faster_and_cheaper_plan_is_a_near_tie(step: str, gpus: int, share: float, changed: dict[str, str]) -> None:
    """Dollars saved are shown with the rule that prefers the plan, dollars more without it."""
    first = {**FIRST[step], "provider": "first"}
    second: dict[str, Any] = {**PLAIN, "provider": "second", "gpus": gpus, "stock": None, "usd_per_hour": 0.5 * gpus}
    second["usd_per_hour"] *= share * usd_of(planned(first)) / usd_of(planned(second))
    asked = change_scenario(scenario(first, second), [f"{path}={value}" for path, value in changed.items()])
    plan = solve(asked, OPTIONS)
    text = " ".join(" ".join(faster(plan)).split())
    saved = [option for option in plan.faster if (option.cost_usd or 0.0) < plan.jobs[0].cost_usd - 0.005]
    assert text.count("solve.ties") == text.count("(-$") == len(saved)
    if plan.jobs[0].provider == "first" and share < 0.999:
        assert saved


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "spot-heavy", "seven-b-billion-tokens"])
def test_each_line_is_the_plan_of_least_cost_for_its_end(name: str) -> None:
    """On spot, too, where a policy for an earlier deadline is another one; README's first plan told $6.32 for $5.51."""
    asked = change_scenario(read_scenario(name), ["solve.ties=0"])
    options = SolveOptions(as_of=datetime.date(2026, 11, 21))
    shown = solve(asked, options).faster
    assert shown
    for line in shown:
        by_then = change_scenario(asked, [f"jobs.0.deadline={3600 * line.hours_at_confidence + 0.01:.2f}s"])
        plan = bare_plan(by_then, options)
        assert plan.cost is not None and line.cost_usd == pytest.approx(plan.cost.expected, rel=2e-3)
        assert plan.hours is not None and plan.hours.at_confidence <= line.hours_at_confidence + 1e-4
        assert plan.hours.at_confidence == pytest.approx(line.hours_at_confidence, rel=0.02)  # an end, not a deadline
