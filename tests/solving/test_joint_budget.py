"""A budget of several jobs on spot holds for their dollars together, and more dollars never make a plan cost more."""

from __future__ import annotations

import math

import pytest

import planner
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.solving.notes import added_budget_note
from planner.solving.optimise_choice import AMOUNT_STEP, MOST_AMOUNT, amounts_between
from tests.independent.joint_budgets import smallest_budget

STATES = "up: {ages_hours: [0], ends_per_hour: [0.4]}, outage: {ages_hours: [0], ends_per_hour: [0.5]}"
SPOT = f"availability: {5 / 9:.6f}, mean_up_hours: 2.5, {STATES}"
OFFERS = "".join(
    f"  - {{provider: {name}, instance: x, gpu: {gpu}, gpus: 1, usd_per_hour: {usd}, spot_usd_per_hour: {spot_usd}, "
    f"spot: {{{SPOT}}}}}\n"
    for name, gpu, usd, spot_usd in (("a", "RTX4090", 0.6, 0.08), ("b", "A100-80GB", 2.0, 0.6))
)
JOBS = """  - {name: small, architecture: mistral-7b, work: {tokens: 50e6}, deadline: 11h, techniques: {method: lora}}
  - {name: large, architecture: qwen2.5-32b, work: {tokens: 20e6}, deadline: 11h, techniques: {method: lora}}
"""
ON_DEMAND = "  - {provider: c, instance: x, gpu: RTX4090, gpus: 1, usd_per_hour: 0.26}\n"


def scenario_within(budget_usd: float, offers: str = OFFERS) -> Scenario:
    return parse_scenario(f"schema: 2\nname: j\noffers:\n{offers}jobs:\n{JOBS}limits: {{budget_usd: {budget_usd}}}\n")


def added_usd(plan: Plan) -> float:
    return math.fsum(job.cost_at_confidence for job in plan.jobs)


@pytest.mark.parametrize("less", [3.0, 7.5, 31.0])
def test_a_larger_budget_meets_the_amounts_of_a_smaller_one(less: float) -> None:
    """Else the plan within the smaller one could be missed, and the plan within more dollars would cost more."""
    for times in (1.001, 1.01, 1.1, 1.5):
        more = less * times
        smaller, larger = (set(amounts_between(usd * MOST_AMOUNT, usd)) for usd in (less, more))
        assert {amount for amount in smaller if amount > more} <= larger
        assert len(larger) in (22, 23)  # log(1.25) / log(1.01) = 22.4
    assert amounts_between(less, less / AMOUNT_STEP**2).__next__() < less


@pytest.mark.slow
def test_the_smallest_budget_of_jobs_on_two_markets_is_what_they_need_together() -> None:
    refused = planner.solve(scenario_within(0.01))
    least = smallest_budget(refused)
    plan = planner.solve(scenario_within(least))
    assert [job.spot is not None for job in plan.jobs] == [True, True]
    assert plan.cost_at_confidence is not None and plan.budget_probability is not None
    assert plan.cost_at_confidence <= least < 0.99 * added_usd(plan)
    assert 0.9 <= plan.budget_probability < 0.93
    less = planner.solve(scenario_within(round(least - 0.01, 2)))
    assert less.infeasible is not None and smallest_budget(less) == least
    (miss,) = (one for one in less.infeasible.nearest if "budget" in one.reason)
    assert 0 < miss.shortfall <= 0.02


@pytest.mark.slow
def test_what_is_said_of_a_budget_that_binds_holds() -> None:
    """A plan within more dollars costs no more, and none costs less than the note of one within fewer allows."""
    offers, objectives, bounds, notes = OFFERS + ON_DEMAND, list[float](), list[float](), list[str]()
    least = smallest_budget(planner.solve(scenario_within(0.01, offers)))
    for times in (1.0, 1.005, 1.02, 1.1):
        plan = planner.solve(scenario_within(round(least * times, 2), offers))
        assert plan.objective is not None and plan.cost_at_confidence is not None
        assert plan.cost_at_confidence <= least * times * (1 + 1e-6)
        assert plan.bound is not None and plan.gap is not None and plan.cost is not None
        objectives.append(plan.objective)
        bounds.append(plan.bound)
        told = [note for note in plan.warnings if "another plan within the budget may cost up to" in note]
        assert bool(told) == (plan.status == "feasible") == (plan.gap > 1e-6)
        notes += [f"{plan.cost.expected} {note}" for note in told]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[0] > objectives[-1]
    assert max(bounds) <= objectives[-1] + 1e-6, "no plan costs less than the bound of one within fewer dollars"
    shown = float(notes[0].partition(" ")[0])
    saved = float(notes[0].partition("may cost up to $")[2].partition(" less")[0])
    assert shown - min(bounds) == pytest.approx(saved, abs=0.01)


@pytest.mark.slow
def test_a_frontier_without_points_says_that_solve_has_a_plan() -> None:
    """It adds up what each job needs, which may be more than the budget that they keep together."""
    least = smallest_budget(planner.solve(scenario_within(0.01)))
    with pytest.raises(planner.ScenarioError, match="planner solve has a plan whose jobs keep it together"):
        planner.frontier(scenario_within(least))


@pytest.mark.slow
def test_jobs_in_turn_say_that_their_budget_is_kept_by_a_sum() -> None:
    plan = planner.solve(scenario_within(1000.0))
    (note,) = added_budget_note(scenario_within(added_usd(plan) + 0.01), plan.jobs, 0.0)
    assert f"${added_usd(plan):,.2f} in all; together they need ${plan.cost_at_confidence:,.2f}" in note
    assert added_budget_note(scenario_within(1000.0), plan.jobs, 0.0) == ()
