"""The confidence of the budget: which dollars a budget is compared with, whatever the confidence of a deadline."""

from __future__ import annotations

import datetime
from functools import cache

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared
from tests.helpers.scenarios import parse_scenario

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
LIBRARY = read_library(["llama-2-7b"])
SCENARIO = """
name: sure
offers:
  - provider: a
    gpu: A100-80GB
    gpus: 1
    usd_per_hour: 2.0
    spot_usd_per_hour: 0.7
    spot: {availability: 0.6, mean_up_hours: 2}
    fees: {storage_usd_per_gb_month: 0.2}
jobs:
  - {name: j, architecture: llama-2-7b, work: {tokens: 60e6}, global_batch: 32, deadline: 60h, framework: hf,
     early_stopping: 0.8, techniques: {method: lora, weight_bits: 16}, stages: {evaluation: {share: 0.02}, export: {}}}
"""
SURE, DEADLINE = "limits.budget_confidence", "jobs.j.confidence"
POLICY, MIX, COARSE = (), ("limits.spot_share.max=0.5",), ("offers.0.billing={step_seconds: 3600}",)
CPU = "{provider: c, cpu_cores: 32, ram_gb: 128, usd_per_hour: 1.0}"
ELSEWHERE = (f"offers.1={CPU}", "jobs.j.stages.evaluation={share: 0.02, on: cpu}")
TRIALS = ("jobs.j.trials={count: 4, at_once: 2, halving: 2}",)


def asked(*settings: str) -> Scenario:
    return parse_scenario(SCENARIO, set_=settings)


@cache
def solved(*settings: str) -> Plan:
    scenario = asked(*settings)
    plan = solve(scenario, OPTIONS, LIBRARY)
    assert audit(plan, scenario, LIBRARY) == []
    return plan


def late_usd(*settings: str) -> float:
    found = solved(*settings).cost_at_confidence
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [POLICY, MIX, COARSE, ELSEWHERE, TRIALS], ids=["policy", "mix", "coarse", "elsewhere", "trials"]
)
def test_dollars_follow_the_budget_s_confidence_and_hours_the_deadline_s(how: tuple[str, ...]) -> None:
    """One confidence moves the dollars at the confidence and no hours, the other hours and no such dollars."""
    base = (*how, "solve.ties=0")
    low, high = (late_usd(*base, f"{SURE}={sure}") for sure in (0.6, 0.95))
    assert low < late_usd(*base) < high
    assert solved(*base, f"{SURE}=0.6").hours == solved(*base).hours
    tight = solved(*base, f"{DEADLINE}=0.6")
    assert tight.hours is not None
    assert solved(*base).hours is not None
    assert tight.hours.at_confidence < solved(*base).hours.at_confidence  # type: ignore[union-attr]


@pytest.mark.long
def test_a_budget_holds_with_the_confidence_asked_for() -> None:
    """The same dollars admit a plan at 0.6 and none at 0.95, and its probability lies between."""
    budget = f"limits.budget_usd={(late_usd(f'{SURE}=0.6') + 0.02):.2f}"
    plan = solved(budget, f"{SURE}=0.6")
    assert plan.status == "optimal"
    assert plan.budget_probability is not None
    assert 0.6 <= plan.budget_probability < 0.95
    assert solved(budget, f"{SURE}=0.95").status == "infeasible"
    assert solved(budget, f"{SURE}=0.95", f"{DEADLINE}=0.5").status == "infeasible"


@pytest.mark.slow
def test_a_changed_confidence_is_not_answered_from_before() -> None:
    """Candidates of an earlier scenario are used again only where their dollars are the same."""
    before = prepare(asked(), LIBRARY)
    again = prepare(asked(f"{SURE}=0.6"), LIBRARY, before)
    assert solve_prepared(again, OPTIONS).cost_at_confidence == pytest.approx(late_usd(f"{SURE}=0.6"))
    assert prepare(asked(), LIBRARY, before).candidates[0].run_hours is before.candidates[0].run_hours


def test_no_confidence_beyond_the_data() -> None:
    """The bound is that of a deadline."""
    with pytest.raises(ScenarioError, match=r"0\.98 is more than can be guaranteed; at most 0\.975"):
        asked(f"{SURE}=0.98")
