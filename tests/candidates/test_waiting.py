"""Waiting for spot capacity has a price: policies that idle less, dollars that stay dollars."""

from __future__ import annotations

import datetime
import itertools
from functools import cache

import pytest

from planner.audit.audit import audit
from planner.errors import ScenarioError
from planner.library.reading import read_library
from planner.results.plan import Assignment
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
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


@pytest.mark.slow
def test_a_higher_price_of_waiting_never_waits_longer_nor_costs_less() -> None:
    """The dollars of a plan are those of its bill: the price of waiting is on none."""
    prices = ("0", "0.02", "0.1", "0.5")
    jobs = [solved(f"limits.waiting_usd_per_hour={price}") for price in prices]
    hours = [waiting(f"limits.waiting_usd_per_hour={price}") for price in prices]
    # The grid of a policy errs by as much as a plan's curve is allowed to.
    assert all(later <= earlier * 1.01 for earlier, later in itertools.pairwise(hours))
    assert all(two.cost_usd >= one.cost_usd * 0.995 for one, two in itertools.pairwise(jobs))
    assert hours[-1] < hours[0]


def test_no_spot_in_plain_words() -> None:
    """`spot: false` is the share of zero, and contradicts a least share."""
    assert asked("limits.spot=false").limits.spot_share == asked("limits.spot_share.max=0").limits.spot_share
    assert solved("limits.spot=false").spot_share == 0
    with pytest.raises(ScenarioError, match=r"spot is forbidden, and spot_share\.min is 0\.5"):
        asked("limits.spot=false", "limits.spot_share.min=0.5")
