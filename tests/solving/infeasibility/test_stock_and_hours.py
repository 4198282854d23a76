"""What offers have too little of: told where it binds, and named with what would do where it leaves no plan."""

from __future__ import annotations

from typing import Any

import pytest

from planner.analysis.limit_sensitivity import explain
from planner.loading.scenario_file import change_scenario
from planner.report.explanation_text import format_near_miss
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.results.plan_parts import NearMiss, Relaxation
from planner.scenario.scenario import Scenario
from tests.helpers.stage_scenarios import JOB, RENTED, asked, library, planned, read, solved

SEEN: dict[str, Any] = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 100}]}
CHEAP = {**RENTED, "provider": "few", "usd_per_hour": 1.0, "stock": 0}
LEFT = {"provider": "left", "gpu": "A100-80GB", "gpus": 1, "committed_hours": 90}
LATE_HOURS = 107.7196
"""An observed run of 100 h takes 7.7 % more at 90 % confidence."""
TWO = {"trials": {"count": 2, "at_once": 2}}


def infeasible(*offers: dict[str, Any], **job: Any) -> tuple[tuple[Relaxation, ...], tuple[NearMiss, ...]]:
    """Ways out and near misses of a question without a plan."""
    plan = solved(asked(*offers, **job))
    assert plan.status == "infeasible"
    assert plan.infeasible is not None
    return plan.infeasible.relax, plan.infeasible.nearest


def several(*offers: dict[str, Any]) -> Scenario:
    """Two jobs that were seen to take 100 h each."""
    return read(
        {
            "name": "s",
            "offers": list(offers),
            "jobs": [{**JOB, **SEEN, "name": name} for name in "ab"],
            "schedule": "side_by_side",
        }
    )


def test_stock_and_hours_paid_for_bind_like_limits() -> None:
    """A cheaper offer out of stock, and hours that do not suffice, cost $100 and $200: both are told."""
    scenario = asked(RENTED, CHEAP, LEFT, **SEEN)
    told = solved(scenario).jobs[0]
    assert told.cost_usd == pytest.approx(200)
    assert told.binding == ("stock (without it $100.00 less)", "hours paid for (without it $200.00 less)")
    found = explain(scenario, library=library())
    assert {one.limit: one.saving_usd for one in found.binding} == {
        "stock": pytest.approx(100),
        "hours paid for": pytest.approx(200),
    }
    (step,) = [one for one in found.next_steps if one.limit.startswith("hours left")]
    assert step.change_to == pytest.approx(LATE_HOURS, abs=0.01)
    assert step.delta_usd == pytest.approx(-200)


def test_stock_that_is_enough_does_not_bind() -> None:
    """Machines and hours to spare limit nothing."""
    assert planned({**RENTED, "stock": 3}, {**LEFT, "committed_hours": 500}, **SEEN).binding == ()


def test_too_few_hours_paid_for_are_the_cause() -> None:
    """90 h for a job of 107.7 h at its confidence: how many are short, and how many would do; no setting does it."""
    relax, (miss,) = infeasible(LEFT, **SEEN)
    assert relax == ()
    assert miss.reason == "needs more hours paid for than left/any/1x-a100-80gb has"
    assert (miss.unit, miss.shortfall) == ("machine hours", pytest.approx(LATE_HOURS - 90, abs=1e-3))
    assert miss.fix == "107.8 h left would do"


def test_no_stock_is_the_cause() -> None:
    """An offer that has no machine left is named with the one that it would have to have."""
    relax, (miss,) = infeasible(CHEAP)
    assert relax == ()
    assert format_near_miss(miss) == (
        "1 x A100-80GB at few, full training: needs more machines in stock than few/any/1x-a100-80gb has "
        "(1 machine short); 1 in stock would do"
    )


def test_trials_that_find_too_few_machines_go_one_after_the_other() -> None:
    """Two at a time on one machine: one at a time is a way out, jobs in turn another, and each holds what it says."""
    offer = {**RENTED, "stock": 1}
    scenario = asked(offer, **TWO)
    (way, split), (miss,) = infeasible(offer, **TWO)
    assert split.setting == "jobs.job.trials={count: 2, split: true}"
    assert solved(change_scenario(scenario, [split.setting])).cost.expected == pytest.approx(split.cost_usd)
    assert (way.setting, way.change_from, way.change_to) == ("jobs.job.trials.at_once=1", 2, 1)
    assert solved(change_scenario(scenario, [way.setting])).cost.expected == pytest.approx(way.cost_usd)
    assert miss.fix == "2 in stock would do"
    assert "trials at once of job to 1" in render(solved(scenario))


@pytest.mark.parametrize(
    ("offer", "short", "fix"),
    [
        ({**RENTED, "stock": 1}, 1, "2 in stock would do"),
        ({**LEFT, "committed_hours": 170}, 2 * LATE_HOURS - 170, "215.5 h left would do"),
    ],
)
def test_what_jobs_share_is_short_for_all_of_them(offer: dict[str, Any], short: float, fix: str) -> None:
    """Each job alone has a plan, both together have none: what they share is short."""
    plan = solved(several(offer))
    assert plan.infeasible is not None
    (miss,) = plan.infeasible.nearest
    assert (miss.job, miss.what, miss.fix) == ("", "all jobs together", fix)
    assert miss.shortfall == pytest.approx(short, abs=1e-3)


def test_a_limit_may_stand_in_the_way_besides() -> None:
    """Where stock alone does not help, the setting that must go with it is told."""
    relax, misses = infeasible(CHEAP, limits={"tiers": {"allow": "own"}})
    assert relax == ()
    assert [one.fix for one in misses] == ["1 in stock would do and limits.tiers.allow=[own,secure]"]


def test_tiers_are_a_limit_that_can_be_opened() -> None:
    """A list of tiers that leaves nothing names the tier that would do, and the plan that comes of it."""
    scenario = asked(RENTED, limits={"tiers": {"allow": "own"}})
    (way,), _ = infeasible(RENTED, limits={"tiers": {"allow": "own"}})
    assert way.setting == "limits.tiers.allow=[own,secure]"
    assert solved(change_scenario(scenario, [way.setting])).cost.expected == pytest.approx(way.cost_usd)


def test_a_service_that_takes_other_networks_is_the_cause() -> None:
    """Nothing trains the job but a service, and that takes another network: it is said which one is missing."""
    relax, (miss,) = infeasible({"provider": "s", "managed": {"architectures": "mistral-7b", "usd_per_run": 3}})
    assert relax == ()
    assert format_near_miss(miss) == (
        "managed service at s: does not take tinyllama-1.1b; "
        "offer machines with GPUs, or a service that takes tinyllama-1.1b"
    )


def test_several_jobs_say_that_they_take_no_turns() -> None:
    """Two jobs on an offer of one machine: one rents elsewhere, and the plan says why nobody waits."""
    plan: Plan = solved(several({**RENTED, "stock": 1}, {**RENTED, "provider": "q", "usd_per_hour": 3.0}))
    assert plan.warnings[0] == "jobs run on separate machines; methods and limits apply per job"
    text = render(plan)
    assert "no limit of a single job binds" in text
    assert plan.warnings[0] in text


def test_a_plan_that_costs_nothing_can_be_explained() -> None:
    """Against hours that are paid for already no ratio can be told: the alternatives come without one."""
    found = explain(asked({**LEFT, "committed_hours": 500}, RENTED, **SEEN), library=library())
    assert found.cost_usd == 0
    assert {one.verdict for one in found.alternatives if not one.chosen} == {""}
