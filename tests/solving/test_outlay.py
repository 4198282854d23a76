"""What is paid at once, `limits.outlay_usd`: against every choice, in turn once, relaxed, explained, audited."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.analysis.what_if_question import what_if
from planner.evaluation.audit import audit
from planner.loading.scenario_file import change_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.offer_terms import Horizon
from planner.scenario.scenario import Scenario
from tests.helpers.stage_scenarios import JOB, RENTED, library, question, read, solved

HORIZON = {"months": 36, "hours_per_month": 200}
DESK = {"provider": "desk", "gpu": "A100-80GB", "gpus": 1}
BUY = {**DESK, "buy": {"purchase_usd": 7200, "usd_per_kwh": 0, "power_watts": 1}}
"""$1 in each of 7,200 h of use."""
TERM = {**DESK, "provider": "term", "usd_per_hour": 0.01, "commitment": {"months": 1, "upfront_usd": 8}}
"""$15.30 in all, $8 of it at once."""
HOURS = 10
SEEN = {"confidence": 0.5, "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": HOURS}]}


def jobs_of(count: int, *offers: dict[str, Any], schedule: str = "", **limits: Any) -> Scenario:
    """Return jobs of 10 h that are rented for $20, bought for $10 of $7,200, or run on a month for $15.30."""
    jobs = [{**JOB, **SEEN, "name": name} for name in "abcd"[:count]]
    found = list(offers) or [RENTED, BUY, TERM]
    turns = {"schedule": schedule} if schedule else {}
    horizon = {"horizon": HORIZON} if any("buy" in offer for offer in found) else {}
    return read({"name": "s", "jobs": jobs, "offers": found, "limits": limits, **horizon, **turns})


def outlay(plan: Plan) -> float:
    """Return what is paid at once: the most machines of each offer in use at the start of any job."""
    upfront = {"desk": 7200.0, "term": 8.0, "p": 0.0}
    paid = 0.0
    for provider, usd in upfront.items():
        mine = [job for job in plan.jobs if job.provider == provider]
        spans = [(job.start_at_hours, job.start_at_hours + HOURS) for job in mine]
        paid += usd * max((sum(a <= at < b - 0.1 for a, b in spans) for at, _ in spans), default=0)
    return paid


@pytest.mark.parametrize("most", [1, 8, 16, 7199, 7200, 7208, 14_400])
def test_jobs_side_by_side_cost_what_the_best_of_all_choices_costs(most: float) -> None:
    """Every way to pay for two jobs is tried by hand."""
    usd, at_once = {"p": 20.0, "desk": 10.0, "term": 15.3}, {"p": 0.0, "desk": 7200.0, "term": 8.0}
    pairs = itertools.product(usd, repeat=2)
    least = min(sum(usd[one] for one in pair) for pair in pairs if sum(at_once[one] for one in pair) <= most)
    plan = solved(jobs_of(2, schedule="side_by_side", outlay_usd=most))
    assert plan.cost is not None and plan.cost.expected == pytest.approx(least)
    assert outlay(plan) == pytest.approx(plan.outlay_usd) and plan.outlay_usd <= most


@pytest.mark.parametrize(("most", "machines"), [(7200, 1), (14_399, 1), (14_400, 2), (21_600, 3)])
def test_a_machine_that_jobs_use_in_turn_is_paid_once(most: float, machines: int) -> None:
    """Three jobs on bought machines alone: one after the other where one machine is all that may be paid."""
    plan = solved(jobs_of(3, BUY, schedule="over_time", outlay_usd=most))
    assert plan.cost is not None and plan.cost.expected == pytest.approx(30)
    assert plan.outlay_usd == outlay(plan) <= 7200 * machines


def test_two_kinds_of_machines_in_turn_are_both_paid() -> None:
    """A purchase stays when its job has ended: another kind for the next job is paid on top of it."""
    other = {**BUY, "provider": "shop", "gpu": "H100-80GB"}
    seen = [
        {**SEEN, "name": "a"},
        {"confidence": 0.5, "measured": [{"gpu": "H100-80GB", "gpus": 1, "hours": 5}], "name": "b"},
    ]
    jobs = [{**JOB, **job} for job in seen]
    jobs[1]["after"] = {"job": "a"}
    asked = {"name": "s", "jobs": jobs, "horizon": HORIZON, "offers": [{**BUY, "gpu": "A100-80GB"}, other]}
    lists = {"unmeasured": True}
    free, held = (solved(read({**asked, "limits": {**lists, **limit}})) for limit in ({}, {"outlay_usd": 14_399}))
    assert (free.outlay_usd, held.outlay_usd) == (14_400, 7200)
    assert free.cost is not None and held.cost is not None
    assert held.cost.expected > free.cost.expected and len({job.offer for job in held.jobs}) == 1


def test_the_outlay_stands_next_to_the_charge() -> None:
    """$7,200 are paid for a job that is charged with $10, within a budget of $20."""
    plan = solved(jobs_of(1, RENTED, BUY, budget_usd=20))
    shown = " ".join(render(plan).split())
    assert "paid at once: $7,200 (limits.outlay_usd), back after 18" in shown
    assert "the job is charged with $10.00, which is what budget_usd counts" in shown
    assert (plan.outlay_usd, plan.budget_usd) == (7200, 20)


def test_the_least_limit_is_named_and_works() -> None:
    """$7,199 buy nothing; $7,200 buy one machine for three jobs in turn."""
    scenario = jobs_of(3, BUY, schedule="over_time", outlay_usd=7199)
    plan = solved(scenario)
    assert plan.infeasible is not None
    assert [one.setting for one in plan.infeasible.relax] == ["limits.outlay_usd=7200"]
    assert solved(change_scenario(scenario, ["limits.outlay_usd=7200"])).status == "optimal"


def test_what_is_paid_for_a_term_counts_upfront_alone() -> None:
    """Of a month for $15.30 $8 are paid at once; a block is paid at once in full."""
    assert solved(jobs_of(1, TERM, outlay_usd=8)).outlay_usd == 8
    assert solved(jobs_of(1, TERM, outlay_usd=7)).status == "infeasible"
    hurried = [{**JOB, **SEEN, "name": name, "deadline": "12h"} for name in "ab"]
    for most, usd in ((16, 30.6), (15, 35.3), (7, 40.0)):  # two months, one and a rented machine, none
        asked = {"name": "s", "jobs": hurried, "offers": [RENTED, TERM], "limits": {"outlay_usd": most}}
        cost = solved(read(asked)).cost
        assert cost is not None and cost.expected == pytest.approx(usd)
    block = {**DESK, "provider": "block", "block": {"start": "0h", "end": "24h", "usd": 9}}
    assert solved(jobs_of(2, block, RENTED, outlay_usd=9)).outlay_usd == 9
    assert solved(jobs_of(2, block, RENTED, outlay_usd=8.5)).outlay_usd == 0


@pytest.mark.parametrize("paid", [0.0, 7200.0, 14_400.0])
def test_the_check_finds_an_outlay_that_is_not_that_of_the_machines(paid: float) -> None:
    """Three jobs at one time on bought machines, of which a plan claims fewer."""
    scenario = jobs_of(3, BUY)
    plan = solved(scenario)
    assert plan.outlay_usd == 21_600 and audit(plan, scenario, library()) == []
    wrong = audit(plan.model_copy(update={"outlay_usd": paid}), scenario, library())
    assert [one.what for one in wrong] == ["outlay_usd"]
    tight = jobs_of(3, BUY, outlay_usd=7200)
    assert "limits.outlay_usd" in [one.what for one in audit(plan, tight, library())]


def test_explanations_name_the_limit() -> None:
    """$10 on the bought machine in place of $20, where $7,200 may be paid."""
    scenario = jobs_of(1, RENTED, BUY, outlay_usd=5000)
    found = explain(scenario, library=library())
    (binding,) = found.binding
    assert (binding.limit, binding.saving_usd) == ("limits.outlay_usd", pytest.approx(10))
    answer = explain(scenario, "provider=desk", library=library()).why_not
    assert answer is not None
    assert answer.reasons[-1] == "$7,200.00 are paid at once; at most $5,000.00 may be"
    changed = what_if(jobs_of(1, RENTED, BUY), ["limits.outlay_usd=8000"], library=library())
    assert "outlay_usd under $7,200.00 would change it: the plan pays that at once" in changed.it_would_take


def test_a_frontier_keeps_it() -> None:
    """Every point of two jobs within $7,200 pays no more."""
    found = frontier_of_jobs(jobs_of(2, RENTED, BUY, outlay_usd=7200), library=library())
    assert found.points and all(point.outlay_usd <= 7200 for point in map(found.plan, range(len(found.points))))


def test_a_stage_is_no_reason_to_buy() -> None:
    """The evaluation runs on a machine of its own that is rented, though a bought one would be charged less."""
    cheap = {**BUY, "gpu": "H100-80GB", "buy": {"purchase_usd": 72, "usd_per_kwh": 0, "power_watts": 1}}
    data = question(
        RENTED, cheap, stages={"evaluation": {"share": 0.5, "on": "one_gpu"}}, techniques={"method": "lora"}
    )
    plan = solved(read({**data, "horizon": HORIZON, "limits": {"gpus": ["A100-80GB", "H100-80GB"]}}))
    assert all(not beside.offer.startswith("desk") for beside in plan.jobs[0].separate_machines)


def test_a_near_tie_prefers_what_asks_for_no_money_at_once() -> None:
    """Rent at $1.005 an hour is a tie of a purchase at $1: cents do not buy a machine, 2 % do."""
    for rent, provider in ((1.005, "p"), (1.02, "desk")):
        hour = {**RENTED, "usd_per_hour": rent}
        (job,) = solved(jobs_of(1, hour, BUY)).jobs
        assert job.provider == provider, rent
    dear = {**RENTED, "usd_per_hour": 1.005, "community": True}
    assert solved(jobs_of(1, dear, BUY)).jobs[0].provider == "p", "also where the host is a private person"


def test_jobs_in_turn_that_wear_a_machine_for_longer_than_the_horizon_are_warned() -> None:
    """Three jobs of 10 h on a machine whose price is spread over 20 h are charged one and a half times its price."""
    short = {"months": 1, "hours_per_month": 20}
    for count, is_told in ((2, False), (3, True)):
        scenario = jobs_of(count, BUY, schedule="over_time", outlay_usd=7200)
        plan = solved(scenario.model_copy(update={"horizon": Horizon(**short)}))
        assert plan.cost_usd is not None and plan.cost_usd == pytest.approx(7200 * count / 2)
        assert any("the horizon has 20" in note for note in plan.warnings) is is_told
