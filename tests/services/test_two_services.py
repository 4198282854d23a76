"""Two services from one file to an audited plan: sums, shared limits of an hour, a budget, and what is refused."""

from __future__ import annotations

import json
import math

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.services.fleet_problem import service_alone
from planner.solving.solve import solve
from tests.helpers.two_services import OFFERS, TWO_FILE, two
from tests.services.test_jobs_and_services import TUNE

STOCK = "offers.0.stock=1"


def solved(scenario: Scenario) -> Plan:
    """Return the plan of a scenario, without what looser limits save."""
    return solve(scenario, explains=False)


def usd(plan: Plan) -> float:
    """Return the expected dollars of a plan."""
    assert plan.cost is not None
    return plan.cost.expected


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of both, which share nothing finite."""
    return solved(two())


@pytest.fixture(scope="module")
def shared() -> Plan:
    """Return the plan of both with one machine of the first offer."""
    return solved(two(STOCK))


@pytest.mark.slow
def test_two_services_cost_what_each_costs_alone(plan: Plan) -> None:
    """Fleets, dollars and bounds are those of each alone; the JSON is read as the same plan."""
    for service in plan.services:
        [alone] = solved(service_alone(two(), service.name)).services
        assert alone == service
    assert usd(plan) == pytest.approx(sum(one.cost_usd for one in plan.services))
    assert plan.shared_bound_usd is None and "shared_bound_usd" not in plan.model_dump(mode="json")
    assert Plan.model_validate(json.loads(json.dumps(plan.model_dump(mode="json", by_alias=True)))) == plan


@pytest.mark.slow
def test_a_shared_stock_never_costs_less_and_is_kept_in_every_hour(plan: Plan, shared: Plan) -> None:
    """One machine of the stock at one time, dollars above the sum, and a bound between both."""
    held = [kind.by_hour for one in shared.services for kind in one.fleet.kinds if kind.provider == "one"]
    assert held and all(sum(hour) <= 1 for hour in zip(*held, strict=True))
    assert shared.bound is not None and plan.bound is not None
    assert usd(plan) <= usd(shared) and plan.bound <= shared.bound <= usd(shared)
    assert shared.bound == shared.shared_bound_usd and shared.gap is not None and shared.gap < 0.05
    text = " ".join(render(shared).split())
    assert text.startswith("two: 2 services, $") and "services share the stock of one/any/1x-h100-80gb" in text
    assert Plan.model_validate(json.loads(json.dumps(shared.model_dump(mode="json", by_alias=True)))) == shared


@pytest.mark.slow
def test_the_order_of_the_jobs_changes_nothing(shared: Plan) -> None:
    """The same fleets, named in the order of the file."""
    other = solved(two(STOCK, swapped=True))
    assert [one.name for one in other.services] == ["night", "desk"]
    assert {one.name: one.fleet for one in other.services} == {one.name: one.fleet for one in shared.services}


@pytest.mark.slow
def test_the_audit_adds_up_what_services_take_of_a_limit_in_each_hour(plan: Plan) -> None:
    """A plan that is sound without the limit is refused with it, in the name of no single service."""
    library = read_library([one.architecture for one in plan.services])
    assert audit(plan, two(), library) == []
    limits = {
        STOCK: "stock of one/any/1x-h100-80gb",
        "limits.max_gpus=1": "gpus",
        "limits.quota={one: 1}": "quota of one",
        "limits.max_usd_per_hour=4": "usd_per_hour",
        "limits.max_kilowatts=1": "kilowatts",
    }
    for limit, what in limits.items():
        found = [one for one in audit(plan, two(limit), library) if not one.job]
        assert found and all(what in one.what and one.what.startswith("services.hour ") for one in found), limit


@pytest.mark.long
def test_two_services_draw_no_more_than_the_limit_in_any_hour(plan: Plan) -> None:
    """Kilowatts of every hour from the machines and the TDP of their GPUs; what they need together is named."""
    library, offers = read_library([one.architecture for one in plan.services]), dict(two().labelled_offers())

    def most(found: Plan) -> float:
        hours = math.lcm(*(len(one.fleet.load) for one in found.services))
        return max(
            sum(
                kind.by_hour[hour % len(one.fleet.load)]
                * offers[kind.offer].gpus * (library.gpu(offers[kind.offer].card).tdp_w or math.inf) * 1.44 / 1000
                for one in found.services
                for kind in one.fleet.kinds
            )
            for hour in range(hours)
        )  # fmt: skip

    # worked: two H100 draw 2 * 0.7 * 1.44 = 2.016 kW while both services are busy
    assert most(plan) == pytest.approx(2.016)
    found = solved(two("limits.max_kilowatts=2.02"))
    assert most(found) <= 2.02 and usd(found) == pytest.approx(usd(plan))
    tight = solve(two("limits.max_kilowatts=2.01"))
    assert tight.infeasible is not None and not tight.services
    assert [one.setting for one in tight.infeasible.relax] == ["limits.max_kilowatts=2.02"]


@pytest.mark.slow
def test_the_audit_checks_the_sum_and_the_bound(shared: Plan) -> None:
    """A bound above the dollars, dollars that are no sum, and a budget below the sum."""
    scenario = two(STOCK)
    library = read_library([one.architecture for one in shared.services])
    assert audit(shared, scenario, library) == []
    for change in ({"shared_bound_usd": usd(shared) * 1.1}, {"objective": usd(shared) * 0.9}):
        assert audit(shared.model_copy(update=change), scenario, library), change
    poor = two(STOCK, f"limits.budget_usd={usd(shared) * 0.9}")
    assert "cost_usd" in [one.what for one in audit(shared, poor, library)]


@pytest.mark.slow
def test_a_budget_below_the_sum_names_the_one_that_suffices(plan: Plan) -> None:
    """Infeasible with one setting, and that setting has a plan."""
    poor = solve(two(f"limits.budget_usd={usd(plan) * 0.9}"))
    assert poor.status == "infeasible" and poor.infeasible is not None
    [change] = poor.infeasible.relax
    assert solved(two(change.setting)).services


@pytest.mark.slow
def test_limits_that_no_hour_keeps_are_infeasible_with_what_suffices(plan: Plan) -> None:
    """One GPU for two services that both must stand: as many as their fleets alone take would do."""
    poor = solve(two("limits.max_gpus=1"))
    assert poor.status == "infeasible" and poor.infeasible is not None
    for change in poor.infeasible.relax:
        assert solved(two(change.setting)).services


@pytest.mark.slow
def test_a_limit_is_named_only_where_it_suffices() -> None:
    """More GPUs help the first service, but nothing reaches the latency of the second: no change is named."""
    poor = solve(two("limits.max_gpus=1", "jobs.night.latency.ttft=1ms"))
    assert poor.status == "infeasible" and poor.infeasible is not None
    assert not poor.infeasible.relax


def test_a_service_does_not_wait_for_a_service() -> None:
    """One line, at the job that waits."""
    with pytest.raises(ScenarioError, match="waits for a service, which does not end") as error:
        solve(two("jobs.night.after=desk"))
    assert len(error.value.faults) == 1


@pytest.mark.long
def test_jobs_next_to_two_services_add_up(plan: Plan) -> None:
    """What the job costs, and what the services share, is on one bill."""
    text = TWO_FILE.replace("    latency:", "    after: tune\n    latency:").replace(OFFERS, TUNE.lstrip("\n") + OFFERS)
    scenario = parse_scenario(text, set_=(STOCK,))
    found = solved(scenario)
    assert usd(found) == pytest.approx(found.jobs[0].cost_usd + sum(one.cost_usd for one in found.services))
    assert audit(found, scenario, read_library(["llama-3.1-8b", "mistral-7b"])) == []
    assert "for the 2 services" in " ".join(render(found).split())
