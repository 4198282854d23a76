"""Why the fleet of a service is as it is: every relaxation and every other fleet is what solve finds."""

from __future__ import annotations

import pytest

from planner.analysis.limit_sensitivity import explain
from planner.errors import ScenarioError
from planner.report.explanation_text import render
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
    assert found.service is not None and plan.cost is not None
    assert found.cost_usd == pytest.approx(plan.cost.expected)
    fleet = plan.services[0].fleet
    assert sorted(one.binds for one in found.service.kinds) == sorted(one.binds for one in fleet.kinds)


@pytest.mark.long
def test_a_relaxation_saves_what_solve_finds(found: Explanation, plan: Plan) -> None:
    """The setting of the cheapest one gives its dollars, and the plan names the looser latency too."""
    paying = [one for one in found.next_steps if one.change_to is not None]
    assert paying
    for one in paying:
        other = solve(desk(one.setting))
        assert other.cost is not None and one.cost_usd == pytest.approx(other.cost.expected, rel=1e-6)
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
    assert found is not None and found.status == "possible" and alone.cost is not None
    assert found.cost_usd == pytest.approx(alone.cost.expected, rel=1e-6)
    assert found.times is not None and found.times > 1 and "capacity on average" in found.reasons[-1]


@pytest.mark.slow
def test_what_a_limit_excludes_names_it() -> None:
    """A provider that the limits leave out is beyond them, with what to type."""
    asked = explain(desk("limits.providers.forbid=[two]"), "provider=two")
    assert asked.why_not is not None and asked.why_not.status == "beyond"
    assert "limits.providers" in render(asked) and asked.why_not.relax[0].setting == "limits.providers={}"


@pytest.mark.slow
def test_all_load_on_spot_keeps_a_reserve_on_demand() -> None:
    """A spot group is lost as a whole: the others stand by for what must be served, and cost more."""
    asked = explain(desk(), "market=spot")
    assert asked.why_not is not None and asked.why_not.status == "possible"
    assert "on demand" in asked.why_not.plan and "spot" in asked.why_not.plan
    assert asked.why_not.times is not None and asked.why_not.times > 1


@pytest.mark.slow
def test_a_single_replica_is_one_in_the_first_line() -> None:
    """One machine carries a request every ten seconds, all day."""
    found = explain(desk("jobs.desk.replicas.min=1", "jobs.desk.load.per_second=0.1", "limits.gpus.allow=[L40S]"))
    assert found.plan is not None and found.plan.startswith("1 replica: ")


@pytest.mark.slow
def test_an_infeasible_service_is_explained() -> None:
    """The smallest change is that of solve."""
    found = explain(desk("jobs.desk.latency.tpot=1ms"))
    assert found.status == "infeasible" and found.relax and "--set jobs.desk.latency.tpot=" in render(found)


@pytest.mark.parametrize("key", ["method=full", "precision=bf16", "optimizer=adamw", "sharding=zero3"])
def test_a_key_of_training_is_refused_with_those_of_a_service(key: str) -> None:
    """A service has no such technique: the query names nothing of it, and a plan is no answer."""
    with pytest.raises(ScenarioError, match="not a key of --why-not for a service") as error:
        explain(desk(), key)
    [fault] = error.value.faults
    assert all(name in fault.fix for name in ("engine", "weight_format", "gpus", "market"))


@pytest.mark.long
def test_gpus_of_a_query_are_those_of_a_machine(plan: Plan) -> None:
    """No offer has four GPUs; every one has a single GPU."""
    none, single = (explain(desk(), f"gpus={count}").why_not for count in (4, 1))
    assert none is not None and none.status == "impossible" and none.reasons == ("no offer has it",)
    assert single is not None and single.status == "chosen"


@pytest.mark.long
@pytest.mark.parametrize(
    ("query", "setting"),
    [
        ("engine=SGLang", "jobs.desk.techniques.engine=sglang"),
        ("quant=fp8", "jobs.desk.techniques={engine: vllm, weight_format: fp8, weight_bits: 8}"),
        ("weight_format=awq", "jobs.desk.techniques={engine: vllm, weight_format: awq, weight_bits: 4}"),
    ],
)
def test_an_engine_or_format_alone_costs_what_solve_finds(query: str, setting: str) -> None:
    """A query of engine or format is a fleet of it alone, also of bits that the scenario does not allow."""
    found, other = explain(desk(), query).why_not, solve(desk(setting))
    assert found is not None and found.cost_usd is not None and other.cost is not None
    assert found.cost_usd == pytest.approx(other.cost.expected, rel=1e-6)
    if query == "engine=SGLang":
        by_framework = explain(desk(), "framework=sglang").why_not
        assert by_framework is not None
        assert (by_framework.cost_usd, by_framework.plan) == (found.cost_usd, found.plan)


@pytest.mark.slow
def test_an_engine_without_such_weights_says_which_it_has() -> None:
    """AutoAWQ has weights of 4 bits alone."""
    found = explain(desk(), "engine=autoawq").why_not
    assert found is not None and found.status == "impossible" and "choose 4" in found.reasons[0]
