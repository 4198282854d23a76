"""A service and other jobs in one scenario: one budget, one bill, one after the other."""

from __future__ import annotations

import json

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.results.service_results import jobs_alone, services_usd
from planner.scenario.scenario import Scenario
from planner.services.fleet_problem import services_alone, without_services
from planner.solving.solve import solve
from tests.services.test_solve_services import FILE

TUNE = """
  - name: tune
    architecture: llama-3.1-8b
    work: {tokens: 20e6}
    techniques: {method: lora, weight_bits: 16}
"""
BOTH = FILE.replace("offers:", TUNE.strip("\n") + "\noffers:").replace(
    "    replicas:", "    after: {job: tune, lag: 2h}\n    replicas:"
)


def both(*settings: str) -> Scenario:
    """Return a scenario with a job and the service that waits for it."""
    return parse_scenario(BOTH, set_=("jobs.chat.load.per_second=4", *settings))


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of both."""
    return solve(both())


@pytest.mark.long
def test_the_bill_is_the_sum_and_the_service_starts_when_the_job_has_ended(plan: Plan) -> None:
    """What each costs alone adds up; the service starts two hours after the job at its confidence."""
    scenario = both()
    job, service = solve(without_services(scenario, 0.0)), solve(services_alone(scenario))
    assert plan.cost is not None and job.cost is not None and service.cost is not None
    assert plan.cost.expected == pytest.approx(job.cost.expected + service.cost.expected)
    assert plan.services[0].starts_at_hours == pytest.approx(plan.jobs[0].hours.at_confidence + 2.0)
    assert plan.hours is not None and plan.hours.expected == pytest.approx(plan.services[0].starts_at_hours + 720.0)
    assert Plan.model_validate(json.loads(json.dumps(plan.model_dump(mode="json", by_alias=True)))) == plan


@pytest.mark.long
def test_the_audit_sees_what_the_sum_hides(plan: Plan) -> None:
    """A service that starts earlier, dollars moved from one to the other, a plan that ends before the service."""
    scenario, library = both(), read_library(["llama-3.1-8b"])
    assert audit(plan, scenario, library) == []
    service, usd = plan.services[0], plan.jobs[0].cost_usd
    early = service.model_copy(update={"starts_at_hours": 0.0})
    assert plan.hours is not None and plan.objective is not None
    short = plan.hours.model_copy(update={"at_confidence": plan.jobs[0].hours.at_confidence})
    changes: tuple[dict[str, object], ...] = (
        {"services": (early,)},
        {"services": (service.model_copy(update={"cost_usd": service.cost_usd - usd / 2}),)},
        {"objective": plan.objective - usd / 2},
        {"hours": short},
    )
    for change in changes:
        assert audit(plan.model_copy(update=change), scenario, library), change


@pytest.mark.slow
def test_the_jobs_alone_are_what_their_own_plan_says(plan: Plan) -> None:
    """Dollars, hours and text of the job do not depend on the service next to it."""
    job, alone = solve(without_services(both(), 0.0)), jobs_alone(plan)
    assert alone.hours == job.hours and alone.status == job.status
    assert alone.objective == pytest.approx(job.objective)
    text = render(plan)
    assert "tune:" in text and "Serve " in text and f"{services_usd(plan):,.2f}" in text


@pytest.mark.long
def test_one_budget_holds_for_both(plan: Plan) -> None:
    """A budget between the service and the sum leaves no plan, and the one that is named suffices."""
    assert plan.cost is not None
    less = services_usd(plan) + plan.jobs[0].cost_usd / 2
    poor = solve(both(f"limits.budget_usd={less}"))
    assert poor.status == "infeasible" and poor.infeasible is not None
    enough = poor.infeasible.relax[0].setting
    assert enough.startswith("limits.budget_usd=")
    assert solve(both(enough)).services


@pytest.mark.long
def test_a_budget_below_the_service_alone_names_one_for_both(plan: Plan) -> None:
    """What the service costs alone is not enough for the job too."""
    assert plan.cost is not None and plan.cost_at_confidence is not None
    poor = solve(both(f"limits.budget_usd={services_usd(plan) / 2}"))
    assert poor.status == "infeasible" and poor.infeasible is not None
    [change] = poor.infeasible.relax
    assert change.cost_usd == pytest.approx(plan.cost_at_confidence)
    assert solve(both(change.setting)).services


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (("jobs.chat.after=[]", "limits.max_gpus=8"), "would share max_gpus"),
        (("jobs.chat.after=[]", "jobs.tune.after=chat"), "waits for a service"),
    ],
)
def test_what_would_be_shared_is_refused_in_one_line(settings: tuple[str, ...], what: str) -> None:
    """Next to each other they may share the budget alone; a service does not end."""
    with pytest.raises(ScenarioError, match=what) as error:
        solve(both(*settings))
    assert len(error.value.faults) == 1


CHAIN = BOTH.replace("after: {job: tune, lag: 2h}", "after: second").replace(
    "\noffers:", TUNE.rstrip("\n").replace("name: tune", "name: second\n    after: tune") + "\noffers:"
)


@pytest.mark.long
def test_a_service_after_the_last_job_of_a_chain_stands_next_to_none() -> None:
    """The service waits for the second job and with it for the first one, so that both may use every GPU."""
    scenario = parse_scenario(CHAIN, set_=("jobs.chat.load.per_second=4", "limits.max_gpus=8"))
    plan = solve(scenario)
    assert plan.services and len(plan.jobs) == 2
    assert audit(plan, scenario, read_library(["llama-3.1-8b"])) == []
    apart = ("jobs.chat.load.per_second=4", "limits.max_gpus=8", "jobs.second.after=[]")
    with pytest.raises(ScenarioError, match="would share max_gpus"):
        solve(parse_scenario(CHAIN, set_=apart))


def test_a_limit_on_power_is_refused_where_a_job_and_a_service_stand_next_to_each_other() -> None:
    """Both would share it in every hour, and they are planned one by one."""
    with pytest.raises(ScenarioError, match="would share max_kilowatts"):
        solve(both("jobs.chat.after=[]", "limits.max_kilowatts=20"))


def test_a_limit_on_what_is_paid_at_once_is_refused_even_where_a_service_waits_for_the_job() -> None:
    """What the job has paid stays paid when the service begins, and the two are planned one by one."""
    with pytest.raises(ScenarioError, match=r"shares limits\.outlay_usd with other jobs"):
        solve(both("limits.outlay_usd=200"))


@pytest.mark.long
def test_a_service_pays_no_more_upfront_than_the_limit() -> None:
    """A month of an H100 asks $300 upfront and $0.20 an hour: two, one or none of them, and the least that suffices."""
    term = "  - {provider: term, gpu: H100-80GB, gpus: 1, usd_per_hour: 0.2, commitment: {months: 1, upfront_usd: 300}}"
    usd = []
    for most, paid in ((700, 600), (599, 300), (299, 0)):
        scenario = parse_scenario(f"{FILE}{term}\n", set_=(f"limits.outlay_usd={most}",))
        plan = solve(scenario, explains=False)
        assert plan.outlay_usd == paid and plan.cost is not None
        usd.append(plan.cost.expected)
        library = read_library(["llama-3.1-8b"])
        wrong = audit(plan.model_copy(update={"outlay_usd": paid + 1.0}), scenario, library)
        assert "outlay_usd" in [one.what for one in wrong]
    assert usd == sorted(usd)
    committed = ("limits.outlay_usd=100", "limits.tiers=[committed]")
    refused = solve(parse_scenario(f"{FILE}{term}\n", set_=committed)).infeasible
    assert refused is not None and [one.setting for one in refused.relax] == ["limits.outlay_usd=600"]
