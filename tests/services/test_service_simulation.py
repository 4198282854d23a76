"""The fleet of a plan, simulated: what is predicted holds, spot is refused as it is lost, and what is refused."""

from __future__ import annotations

import math

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.results.service_results import ServiceSimulation
from planner.scenario.scenario import Scenario
from planner.services.service_simulation import simulate_service
from planner.services.service_texts import render_service_simulation
from planner.solving.solve import solve

FILE = """
schema: 2
name: chat
jobs:
  - name: chat
    kind: serve
    architecture: llama-3.1-8b
    load:
      per_second: 12
      profile: [1, 1, 1, 1, 1, 1, 1, 4, 8, 10, 10, 10, 8, 8, 10, 10, 8, 8, 4, 4, 4, 1, 1, 1]
      input_tokens: 800
      output_tokens: 200
    latency: {ttft: 1s, tpot: 40ms, share: 0.95}
    techniques: {engine: vllm, weight_bits: 8}
offers:
  - provider: one
    gpu: H100-80GB
    gpus: 1
    usd_per_hour: 2.5
    spot_usd_per_hour: 0.5
    spot: {availability: 0.96, mean_up_hours: 10}
    date: "2026-11-01"
    source: test
"""
MIX = "[{input_tokens: 200, output_tokens: 50, count: 60}, {input_tokens: 4000, output_tokens: 300, count: 40}]"


def chat(*settings: str) -> Scenario:
    """Return the scenario with settings applied."""
    return parse_scenario(FILE, set_=settings)


ON_DEMAND = ("offers.0.spot=null", "offers.0.spot_usd_per_hour=null")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan on demand."""
    return solve(chat(*ON_DEMAND))


@pytest.fixture(scope="module")
def found(plan: Plan) -> ServiceSimulation:
    """Return its simulation."""
    return simulate_service(chat(*ON_DEMAND), plan, runs=3000)


@pytest.mark.long
def test_predicted_latencies_are_simulated_and_limits_hold(found: ServiceSimulation) -> None:
    """Poisson: quantiles within 20 % of the simulation, both limits for 95 % of the requests, nothing refused."""
    (service,) = found.services
    steady, bursts = service.streams
    for one in steady.limits:
        for latency in (one.busiest, one.cycle):
            assert latency.predicted_seconds == pytest.approx(latency.simulated_seconds, rel=0.2)
            assert latency.simulated_share is not None and latency.simulated_share >= 0.95
    assert service.refused_share == 0.0 and service.cut_share == 0.0
    first, worse = steady.limits[0].busiest, bursts.limits[0].busiest
    assert worse.simulated_seconds > first.simulated_seconds  # bursts wait longer
    assert worse.predicted_seconds == first.predicted_seconds


@pytest.mark.long
def test_the_same_seed_gives_the_same_answer(plan: Plan) -> None:
    """Another one gives others."""
    one, again, other = (simulate_service(chat(*ON_DEMAND), plan, runs=100, seed=seed) for seed in (0, 0, 1))
    assert again.services == one.services != other.services


@pytest.mark.long
def test_the_text_has_each_limit_with_its_shares(found: ServiceSimulation) -> None:
    """Lines fit into 80 columns; the first one says what is within the limits."""
    text = render_service_simulation(found)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert " ".join(text.split("\n\n")[0].split()).startswith("chat: ") and "(asked: 95 %)" in text
    assert "Poisson arrivals" in text and "bursts" in text and "first token, all hours" in text
    assert ServiceSimulation.model_validate({**found.model_dump(mode="json"), "plan": found.plan}) == found


@pytest.mark.long
def test_one_group_on_spot_is_refused_as_often_as_it_is_lost_or_starts() -> None:
    """There 96 % in stays of 10 h, a start of c: 1 - 0.96 exp(-c / 10) are refused, as the plan says."""
    scenario = chat("jobs.0.cold_start=0.5h", "jobs.0.latency.share=0.9", "offers.0.usd_per_hour=90")
    plan = solve(scenario)
    assert [kind.market for kind in plan.services[0].fleet.kinds] == ["spot"]
    (service,) = simulate_service(scenario, plan, runs=200).services
    assert service.refused_share == pytest.approx(1.0 - 0.96 * math.exp(-0.05), rel=1e-6)
    assert service.predicted_refused_share == pytest.approx(service.refused_share, rel=1e-6)
    assert 0.0 < service.cut_share < 0.001


@pytest.mark.long
def test_a_mix_of_lengths_is_predicted_and_expected_speed_is_faster() -> None:
    """Short and long requests on one replica: quantiles of all of them within 20 %."""
    settings = (*ON_DEMAND, "jobs.0.load.input_tokens=null", "jobs.0.load.output_tokens=null")
    scenario = chat(*settings, f"jobs.0.load.lengths={MIX}", "jobs.0.latency.ttft=2s", "jobs.0.latency.tpot=60ms")
    plan = solve(scenario)
    slow, fast = (simulate_service(scenario, plan, runs=3000, exact_speed=exact) for exact in (False, True))
    for one, other in zip(slow.services[0].streams[0].limits, fast.services[0].streams[0].limits, strict=True):
        assert one.cycle.predicted_seconds == pytest.approx(one.cycle.simulated_seconds, rel=0.2)
        assert other.cycle.simulated_seconds < one.cycle.simulated_seconds


@pytest.mark.long
def test_a_load_in_flight_is_simulated_and_other_plans_are_refused(plan: Plan) -> None:
    """`concurrent` is as many requests a second as its machines answer; a changed plan is no plan."""
    scenario = chat(*ON_DEMAND, "jobs.0.load.per_second=null", "jobs.0.load.concurrent=60")
    (service,) = simulate_service(scenario, runs=500).services
    assert service.streams[0].limits[1].cycle.simulated_share is not None
    with pytest.raises(ScenarioError, match="planner check PLAN SCENARIO lists all"):
        simulate_service(chat(*ON_DEMAND, "jobs.0.load.per_second=13"), plan)
    with pytest.raises(ScenarioError, match="recorded markets are not replayed for kind: serve"):
        simulate_service(scenario, traces=["nowhere.json"])
    infeasible = simulate_service(chat(*ON_DEMAND, "jobs.0.latency.tpot=1ms"), runs=10)
    assert infeasible.status == "infeasible" and not infeasible.services
    assert "no plan within all limits" in render_service_simulation(infeasible)
