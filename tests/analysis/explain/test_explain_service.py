"""Why the fleet of a service is as it is: every relaxation and every other fleet is what solve finds."""

from __future__ import annotations

import pytest

from planner.analysis.explain.explain import explain
from planner.report.explanation import render
from planner.results.explanation import Explanation
from planner.results.plan import Plan
from planner.solving.solve import solve
from tests.helpers.services import desk


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of the service."""
    return solve(desk())


@pytest.fixture(scope="module")
def found() -> Explanation:
    """Return the explanation of the service."""
    return explain(desk())


@pytest.mark.long
def test_each_kind_names_what_holds_it_and_the_dollars_are_those_of_solve(found: Explanation, plan: Plan) -> None:
    """The kinds are those of the plan."""
    assert found.service is not None and plan.cost_usd is not None
    assert found.cost_usd == pytest.approx(plan.cost_usd.expected)
    fleet = plan.services[0].fleet
    assert sorted(one.binds for one in found.service.kinds) == sorted(one.binds for one in fleet.kinds)


@pytest.mark.long
def test_a_relaxation_saves_what_solve_finds(found: Explanation, plan: Plan) -> None:
    """The setting of the cheapest one gives its dollars, and the plan names the looser latency too."""
    paying = [one for one in found.next_steps if one.change_to is not None]
    assert paying
    for one in paying:
        other = solve(desk(one.setting))
        assert other.cost_usd is not None and one.cost_usd == pytest.approx(other.cost_usd.expected, rel=1e-6)
        assert one.delta_usd is not None and one.delta_usd < 0
    looser = plan.services[0].looser
    step = next((one for one in paying if one.limit == "jobs.desk.latency.tpot"), None)
    assert (looser is None) == (step is None)
    assert looser is None or step is None or looser.setting == step.setting


@pytest.mark.long
def test_another_gpu_alone_costs_no_less_than_the_bound(found: Explanation, plan: Plan) -> None:
    """Fewer kinds never cost less; every GPU and provider has a row, and both markets."""
    assert {one.by for one in found.alternatives} == {"gpu", "provider", "market"}
    assert plan.bound is not None
    costs = [one.cost_usd for one in found.alternatives if one.cost_usd is not None]
    assert costs and all(usd >= plan.bound * (1 - 1e-9) for usd in costs)
    text = render(found)
    assert "on one GPU alone" in text and all(len(line) <= 80 for line in text.split("\n"))


@pytest.mark.long
def test_why_not_is_solved(plan: Plan) -> None:
    """A GPU alone costs what the scenario with that GPU alone costs."""
    found = explain(desk(), "gpu=H100-80GB").why_not
    alone = solve(desk("limits.gpus.allow=[H100-80GB]"))
    assert found is not None and found.status == "possible" and alone.cost_usd is not None
    assert found.cost_usd == pytest.approx(alone.cost_usd.expected, rel=1e-6)
    assert found.times is not None and found.times > 1 and "capacity on average" in found.reasons[-1]


@pytest.mark.slow
def test_what_a_limit_excludes_names_it() -> None:
    """A provider that the limits leave out is beyond them, with what to type."""
    asked = explain(desk("limits.providers.forbid=[two]"), "provider=two")
    assert asked.why_not is not None and asked.why_not.status == "beyond"
    assert "limits.providers" in render(asked) and asked.why_not.relax[0].setting == "limits.providers=null"


@pytest.mark.slow
def test_all_load_on_spot_keeps_a_reserve_on_demand() -> None:
    """A spot group is lost as a whole: the others stand by for what must be served, and cost more."""
    asked = explain(desk(), "market=spot")
    assert asked.why_not is not None and asked.why_not.status == "possible"
    assert "on demand" in asked.why_not.plan and "spot" in asked.why_not.plan
    assert asked.why_not.times is not None and asked.why_not.times > 1


@pytest.mark.slow
def test_an_infeasible_service_is_explained() -> None:
    """The smallest change is that of solve."""
    found = explain(desk("jobs.desk.latency.tpot=1ms"))
    assert found.status == "infeasible" and found.relax and "--set jobs.desk.latency.tpot=" in render(found)
