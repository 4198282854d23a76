"""Waiting for spot capacity has a price: policies that idle less, dollars that stay dollars."""

from __future__ import annotations

import datetime
import itertools
from functools import cache

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.report.plan_sections import waiting_rule
from planner.results.plan import Assignment
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from planner.spot.drawn_runs import WAITING_COST_SHARE, WAITING_SHARE
from tests.helpers.scenarios import parse_scenario

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
LIBRARY = read_library(["llama-2-7b"])
SCENARIO = """
name: waits
offers:
  - provider: a
    gpu: A100-80GB
    gpus: 1
    usd_per_hour: 2.0
    spot_usd_per_hour: 0.7
    spot: {availability: 0.6, mean_up_hours: 2}
jobs:
  - {name: j, architecture: llama-2-7b, work: {tokens: 60e6}, global_batch: 32, deadline: 60h, framework: hf,
     techniques: {method: lora, weight_bits: 16}}
"""


def asked(*settings: str) -> Scenario:
    return parse_scenario(SCENARIO, set_=settings)


@cache
def solved(*settings: str) -> Assignment:
    scenario = asked(*settings)
    plan = solve(scenario, OPTIONS, LIBRARY)
    assert audit(plan, scenario, LIBRARY) == []
    return plan.jobs[0]


def waiting(*settings: str) -> float:
    policy = solved(*settings).spot
    assert policy is not None
    return policy.waiting_hours


@pytest.mark.long
def test_a_higher_price_of_waiting_never_waits_longer_nor_costs_less() -> None:
    """The dollars of a plan are those of its bill: the price of waiting is on none."""
    prices = ("0", "0.02", "0.1", "0.5")
    jobs = [solved(f"limits.waiting_usd_per_hour={price}") for price in prices]
    hours = [waiting(f"limits.waiting_usd_per_hour={price}") for price in prices]  # 0 is asked for: the least dollars
    # The grid of a policy errs by as much as a plan's curve is allowed to.
    assert all(later <= earlier * 1.01 for earlier, later in itertools.pairwise(hours))
    assert all(two.cost_usd >= one.cost_usd * 0.995 for one, two in itertools.pairwise(jobs))
    assert hours[-1] < hours[0]


@pytest.mark.slow
def test_by_itself_a_policy_waits_less_for_at_most_one_percent() -> None:
    """`solve.ties: 0` and a price of nothing give the least dollars; the strict figures are the same in all."""
    given, strict = solved(), solved("solve.ties=0")
    assert given.spot is not None
    assert strict.spot is not None
    assert strict.cost_usd == solved("limits.waiting_usd_per_hour=0").cost_usd
    assert strict.cost_usd < given.cost_usd <= strict.cost_usd * (1 + WAITING_COST_SHARE) + 0.005
    assert given.spot.waiting_hours < 0.9 * strict.spot.waiting_hours
    assert given.hours.expected < strict.hours.expected
    assert given.hours.at_confidence == pytest.approx(strict.hours.at_confidence)  # the guarantee is the same
    assert 0 < given.spot.waiting_usd_per_hour <= WAITING_SHARE * 2.0
    assert strict.spot.waiting_usd_per_hour == 0


@pytest.mark.long
def test_a_budget_that_is_spent_leaves_no_dollars_for_less_waiting() -> None:
    """What is left at the confidence limits the dollars; the plan keeps its budget."""
    strict, budget = solved("solve.ties=0"), "limits.budget_usd"
    tight = solved(f"{budget}={strict.cost_at_confidence + 0.001:.4f}")
    assert tight.cost_at_confidence <= strict.cost_at_confidence + 0.001
    assert solved(f"{budget}=100").cost_usd > strict.cost_usd


@pytest.mark.slow
def test_an_audit_refuses_a_price_of_waiting_that_nobody_asked_for() -> None:
    """Above 2 % of the price on demand the policy is another one than the plan says."""
    scenario = asked()
    plan = solve(scenario, OPTIONS, LIBRARY)
    job = plan.jobs[0]
    assert job.spot is not None
    changed = job.model_copy(update={"spot": job.spot.model_copy(update={"waiting_usd_per_hour": 1.0})})
    found = [str(one) for one in audit(plan.model_copy(update={"jobs": (changed,)}), scenario, LIBRARY)]
    assert any("waiting_usd_per_hour" in one for one in found)


@pytest.mark.slow
def test_the_rule_says_what_the_policy_does() -> None:
    """It waits until the market is old enough, in the end takes anything, and on demand comes last."""
    spot = solved("solve.ties=0").spot
    assert spot is not None
    assert spot.take_after_up_hours is not None
    assert spot.take_after_up_hours > 0
    assert spot.take_at_once_from_hours is not None
    assert 0 < spot.take_at_once_from_hours < spot.latest_on_demand_hours
    words = waiting_rule(spot)
    assert words.startswith("take a spot machine once the market has been up for ")
    assert words.endswith(" at the latest")
    eager = solved("limits.waiting_usd_per_hour=0.5").spot
    assert eager is not None
    assert waiting_rule(eager).startswith("take a spot machine as soon as there is one; on demand from hour ")


def test_no_spot_in_plain_words() -> None:
    """`spot: false` is the share of zero, and contradicts a least share."""
    assert asked("limits.spot=false").limits.spot_share == asked("limits.spot_share.max=0").limits.spot_share
    assert solved("limits.spot=false").spot_share == 0
    with pytest.raises(ScenarioError, match=r"spot is forbidden, and spot_share\.min is 0\.5"):
        asked("limits.spot=false", "limits.spot_share.min=0.5")
