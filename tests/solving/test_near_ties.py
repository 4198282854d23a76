"""Near ties go to the faster plan; the strict optimum stays in the figures, and further trades are exact."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
JOB = {
    "architecture": "mistral-7b",
    "framework": "hf",
    "work": {"tokens": "20M"},
    "techniques": {"method": "lora", "weight_bits": 4},
}


def scenario(prices: dict[str, tuple[int, float]], **others: Any) -> Scenario:
    """One job on machines with so many A6000 at so many dollars per hour."""
    offers = [
        {"provider": name, "gpu": "A6000", "gpus": gpus, "usd_per_hour": usd} for name, (gpus, usd) in prices.items()
    ]
    return parse_scenario(json.dumps({"jobs": [JOB], "offers": offers, **others}))


def planned(asked: Scenario, *settings: str) -> Plan:
    return solve(change_scenario(asked, settings), OPTIONS)


def test_a_few_cents_buy_the_faster_plan() -> None:
    """Twice the GPUs for nearly the same dollars: recommended, with the least cost beside it."""
    asked = scenario({"slow": (1, 0.5), "fast": (2, 1.0)}, solve={"ties": 0.05})
    near, strict = planned(asked), planned(asked, "solve.ties=0")
    assert (near.jobs[0].provider, strict.jobs[0].provider) == ("fast", "slow")
    assert strict.cost is not None and near.cost is not None
    assert near.least_cost_usd == strict.least_cost_usd == pytest.approx(strict.cost.expected, abs=0.005)
    assert strict.objective == near.objective and near.gap == 0
    assert near.cost.expected - strict.cost.expected <= asked.near_tie_usd(strict.cost.expected)
    assert near.hours is not None and strict.hours is not None
    assert near.hours.at_confidence < 0.6 * strict.hours.at_confidence
    assert "--set solve.ties=0" in render(near) and "--set solve.ties" not in render(strict)


@pytest.mark.parametrize(("least", "tie"), [(0.0, 0.0), (0.19, 0.0019), (80.0, 0.8), (90_000.0, 900.0)])
def test_a_tie_is_a_percent_of_the_least_cost(least: float, tie: float) -> None:
    """No fixed cents, of which a small plan is made, and no least or most dollars."""
    asked = scenario({"slow": (1, 0.5)})
    assert asked.near_tie_usd(least) == pytest.approx(tie)
    assert change_scenario(asked, ["solve.ties=2.5"]).near_tie_usd(least) == 2.5
    assert change_scenario(asked, ["objective={value_of_time_usd_per_hour: 1}"]).near_tie_usd(least) == 0


def test_more_than_a_tie_is_no_tie() -> None:
    """A faster plan that costs more than a tie is shown as a trade, with exact dollars, and not taken."""
    asked = scenario({"slow": (1, 0.5), "fast": (4, 2.4)})
    plan = planned(asked)
    assert plan.jobs[0].provider == "slow" and [one.provider for one in plan.faster] == ["fast"]
    assert plan.hours is not None
    in_half = f"jobs.0.deadline={plan.hours.at_confidence / 2!r}h"
    assert plan.faster[0].cost_usd == pytest.approx(planned(asked, in_half, "solve.ties=0").least_cost_usd, abs=0.01)
    assert f"for ${plan.faster[0].cost_usd:,.2f} (+$" in render(plan)


def test_trades_lie_on_the_exact_frontier_and_within_the_budget() -> None:
    """No point of the frontier is cheaper in the same hours; what the budget forbids is not offered."""
    asked = scenario({"a": (1, 0.5), "b": (2, 1.2), "c": (4, 3.0), "d": (8, 7.0)})
    plan, points = planned(asked), frontier_of_jobs(asked, OPTIONS).points
    assert len(plan.faster) == 2
    for one in plan.faster:
        assert any(point.cost_usd == pytest.approx(one.cost_usd, abs=0.01) for point in points)
    tight = planned(asked, f"limits.budget_usd={plan.cost_at_confidence or 0 + 0.01}")
    assert tight.faster == ()
    assert planned(asked, "objective=time").faster == ()


def test_the_audit_holds_the_tie() -> None:
    """A plan beyond a tie is refused, and so is another least cost."""
    asked = scenario({"slow": (1, 0.5), "fast": (2, 1.0)}, solve={"ties": 0.05})
    plan, library = planned(asked), read_library(["mistral-7b"])
    assert audit(plan, asked, library) == []
    assert plan.objective is not None
    low = plan.objective - 0.06
    wrong = plan.model_copy(update={"objective": low, "bound": low, "least_cost_usd": low})
    assert [one.what for one in audit(wrong, asked, library)] == ["objective"]
    other = plan.model_copy(update={"least_cost_usd": 1.0})
    assert [one.what for one in audit(other, asked, library)] == ["least_cost_usd"]
    strict = change_scenario(asked, ["solve.ties=0"])
    assert [one.what for one in audit(plan, strict, library)] == ["objective"]


def test_why_not_and_the_tables_show_the_least_cost_of_another_way() -> None:
    """One figure and one verdict for the same way in both; why-not says what `solve` with it alone would take."""
    sizes = [{"provider": "x", "gpu": "A6000", "gpus": gpus, "usd_per_hour": gpus / 2} for gpus in (1, 2)]
    cheap = {"provider": "cheap", "gpu": "A6000", "gpus": 1, "usd_per_hour": 0.2}
    asked = parse_scenario(json.dumps({"jobs": [JOB], "offers": [cheap, *sizes], "solve": {"ties": 0.05}}))
    strict = planned(asked, "solve.ties=0", "limits.providers.allow=[x]")
    told = [explain(change_scenario(asked, settings), "provider=x").why_not for settings in ((), ("solve.ties=0",))]
    assert strict.cost is not None and all(told)
    says = [[reason for reason in found.reasons if "near tie" in reason] for found in told if found is not None]
    alone = planned(asked, "limits.providers.allow=[x]")
    assert alone.cost is not None and alone.cost.expected > strict.cost.expected
    assert says[0] and f"${alone.cost.expected:,.2f}, by " in says[0][0] and not says[1]
    rows = [row for row in explain(asked).alternatives if (row.by, row.name) == ("provider", "x")]
    for found in told:
        assert found is not None and found.cost_usd == pytest.approx(strict.cost.expected, abs=0.006)
        assert [(row.cost_usd, row.verdict.partition(",")[0]) for row in rows] == [
            (pytest.approx(found.cost_usd, abs=0.006), found.verdict)
        ]


def test_what_a_deadline_costs_is_one_figure() -> None:
    """That of the plan that `solve` takes without it, near ties and all: in solve, explain and the frontier."""
    prices = {"slow": (1, 0.5), "fast": (2, 1.0), "now": (8, 8.0)}
    alone = planned(scenario({"now": prices["now"]}))
    assert alone.hours is not None
    open_ = scenario(prices, solve={"ties": 0.05})
    path = f"jobs.{open_.jobs[0].name}.deadline"
    asked = change_scenario(open_, [f"{path}={1.1 * alone.hours.at_confidence:.4f}h"])
    plan, free = planned(asked), planned(open_)
    assert plan.cost is not None and free.cost is not None and free.least_cost_usd is not None
    assert plan.jobs[0].provider == "now" and free.cost.expected > free.least_cost_usd + 0.01
    saved = plan.cost.expected - free.cost.expected
    assert f"deadline (without it ${saved:,.2f} less)" in plan.jobs[0].binding
    (binding,) = (one for one in explain(asked).binding if one.limit == path)
    assert binding.saving_usd == pytest.approx(saved, abs=0.006)
    (hidden,) = frontier_of_jobs(asked).beyond
    assert (hidden.setting, hidden.cost_usd) == (f"{path}=null", pytest.approx(free.cost.expected, abs=0.006))
