"""From which amount own machines cost less than a service by the token: full solves on both sides are the judge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario, read_scenario
from planner.report.plan_text import render
from planner.results.fleet import Fleet
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.solving import binding_limits
from planner.solving.solve import solve

MACHINES: list[dict[str, Any]] = [
    {"provider": "small", "gpu": "A4000", "gpus": 1, "usd_per_hour": 0.15},
    {"provider": "middle", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.34},
    {"provider": "middle", "gpu": "RTX4090", "gpus": 2, "usd_per_hour": 0.68},
    {"provider": "large", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 2.0, "spot_usd_per_hour": 1.1},
]
LIBRARY = read_library(["llama-3.1-8b", "tinyllama-1.1b"])


def answered(requests: int, per_million: float, **more: Any) -> Plan:
    """Return the plan of prompts, next to a service with one price for tokens in and out."""
    price = {"usd_per_million_input_tokens": per_million, "usd_per_million_output_tokens": per_million}
    job: dict[str, Any] = {
        "name": "answers",
        "kind": "inference",
        "architecture": "llama-3.1-8b",
        "work": {"requests": requests, "input_tokens": 600, "output_tokens": 80},
        "techniques": {"engine": "vllm", "weight_bits": [16, 8]},
        "deadline": "10d",
        **more,
    }
    return planned(job, {"architectures": "llama-3.1-8b", **price})


def tuned(tokens: float, per_million: float, minimum: float = 0.0, **more: Any) -> Plan:
    """Return the plan of a job of tuning, next to a service that trains."""
    service = {"usd_per_million_tokens": per_million, "tokens_per_second": 1e5, "minimum_usd": minimum}
    job = {
        "name": "tuning",
        "architecture": "tinyllama-1.1b",
        "work": {"tokens": round(tokens)},
        "global_batch": 2,
        "techniques": {"method": "lora"},
        **more,
    }
    return planned(job, {"architectures": "tinyllama-1.1b", **service})


def planned(job: dict[str, Any], service: dict[str, Any], machines: list[dict[str, Any]] = MACHINES) -> Plan:
    """Return the plan of least dollars of a job on the machines and a service."""
    offers = [*machines, {"provider": "hosted", "managed": service}]
    data = {"schema": 2, "name": "s", "offers": offers, "jobs": [job], "solve": {"ties": 0}}
    return solve(parse_scenario(json.dumps(data)), SolveOptions(), LIBRARY)


@pytest.mark.long
@pytest.mark.parametrize("per_million", [0.03, 0.2])
@pytest.mark.parametrize("requests", [1_000, 300_000])
def test_answers_cost_less_on_own_machines_from_the_number_that_is_said(requests: int, per_million: float) -> None:
    """The number is that of all machines, whichever the plan at another number runs on: solved on both sides of it."""
    made = answered(requests, per_million).jobs[0].inference
    assert made is not None
    (price,) = made.api
    assert price.pays_from_requests is not None and price.pays_on is not None
    for side in (0.97, 1.03):
        plan = answered(round(side * price.pays_from_requests), per_million)
        (told,), job = plan.jobs[0].inference.api, plan.jobs[0]  # type: ignore[union-attr]
        assert (job.cost_usd < told.usd) is (side > 1)
        assert (job.provider, job.gpu) == (price.pays_on.provider, price.pays_on.gpu)
        assert told.pays_from_requests == pytest.approx(price.pays_from_requests, rel=0.02)


@pytest.mark.long
def test_a_table_of_lengths_grows_and_shrinks_evenly() -> None:
    """As many short as long requests pay from one number, whether a table is far above it or far below."""
    found = []
    for count in (3, 500):
        lengths = [{"input_tokens": n, "output_tokens": 80, "count": count} for n in (200, 1000) for _ in range(5)]
        plan = answered(0, 0.03, work={"lengths": lengths})
        (price,) = plan.jobs[0].inference.api  # type: ignore[union-attr]
        found.append(price.pays_from_requests)
    assert found[0] == pytest.approx(found[1], rel=0.03)


@pytest.mark.long
@pytest.mark.parametrize(("tokens", "per_million", "minimum"), [(1e6, 0.02, 0.0), (5e8, 0.02, 0.0), (1e6, 0.02, 0.012)])
def test_tuning_goes_to_own_machines_from_the_tokens_that_are_said(
    tokens: float, per_million: float, minimum: float
) -> None:
    """A full solve with fewer tokens takes the service, one with more the machines that were named."""
    told = tuned(tokens, per_million, minimum).jobs[0].hosted
    assert told is not None and told.pays_from_tokens and told.pays_on is not None
    for side in (0.9, 0.97, 1.03, 30):
        made = tuned(side * told.pays_from_tokens, per_million, minimum).jobs[0]
        assert (made.provider == "hosted") is (side < 1)
        if side == 1.03:
            assert (made.provider, made.gpu) == (told.pays_on.provider, told.pays_on.gpu)


def served(per_second: float, per_million: float) -> Fleet:
    """Return the fleet of a service with days and nights, next to a service with one price for tokens in and out."""
    price = {"usd_per_million_input_tokens": per_million, "usd_per_million_output_tokens": per_million}
    job = {
        "name": "served",
        "kind": "serve",
        "architecture": "llama-3.1-8b",
        "load": {"per_second": per_second, "profile": "office", "input_tokens": 600, "output_tokens": 80},
        "latency": {"ttft": "3s", "tpot": "100ms"},
        "techniques": {"engine": "vllm", "weight_bits": [16, 8]},
    }
    return planned(job, {"architectures": "llama-3.1-8b", **price}).services[0].fleet


@pytest.mark.long
def test_a_fleet_costs_less_from_the_load_that_is_said() -> None:
    """$0.1 a million tokens: the load is one, found from above or below, and fleets on both sides of it agree."""
    found = []
    for per_second in (0.5, 3.0):
        fleet = served(per_second, 0.1)
        requests = fleet.usd_per_month / fleet.usd_per_thousand_requests * 1000
        (price,) = fleet.api
        assert price.pays_from_requests and price.pays_on is not None
        found.append(price.pays_from_requests)
        for side in (0.95, 1.05):
            other = served(side * per_second * price.pays_from_requests / requests, 0.1)
            assert (other.usd_per_month < other.api[0].usd) is (side > 1)
    assert found[0] == pytest.approx(found[1], rel=0.03)


def test_machines_that_always_or_never_cost_less_are_said_so() -> None:
    """At a high price a single token is cheaper on an own machine that is paid for; at no price none is."""
    seen = [{"gpu": "A4000", "gpus": 1, "hours": 3}]
    always = tuned(1e7, 1.0, measured=seen)
    hosted = always.jobs[0].hosted
    assert hosted is not None and (hosted.pays_from_tokens, hosted.pays_on) == (0.0, None)
    assert "own machines are cheaper at any number of tokens" in render(always)
    never = tuned(1e7, 1e-9)
    hosted = never.jobs[0].hosted
    assert hosted is not None and hosted.pays_from_tokens is None
    assert "own machines" not in render(never)


def test_a_price_for_a_run_that_is_less_for_much_work_is_no_break_even() -> None:
    """Five cents for a run of any length: own machines cost less of little work: no amount is said from which."""
    made = planned(
        {"name": "t", "architecture": "tinyllama-1.1b", "work": {"tokens": "1M"}, "techniques": {"method": "lora"}},
        {"architectures": "tinyllama-1.1b", "usd_per_run": 0.05, "tokens_per_second": 1e6},
    )
    told = made.jobs[0].hosted
    assert made.jobs[0].provider == "small" and told is not None and told.pays_from_tokens is None
    told = solve(read_scenario("confidence-budget"), SolveOptions()).jobs[0].hosted  # a deadline bars more work
    assert told is not None and told.pays_from_tokens is None


def test_nothing_is_searched_where_no_service_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain plan pays nothing for it, nor one without explanations."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(binding_limits, "find_break_even", never)
    data = {"schema": 2, "name": "s", "offers": MACHINES, "jobs": [{"name": "j", "architecture": "tinyllama-1.1b"}]}
    data["jobs"][0]["work"] = {"tokens": "1M"}  # type: ignore[index]
    assert solve(parse_scenario(json.dumps(data)), SolveOptions(), LIBRARY).jobs[0].hosted is None
    data["offers"] = [
        *MACHINES,
        {"provider": "hosted", "managed": {"architectures": "tinyllama-1.1b", "usd_per_run": 1}},
    ]
    quick = solve(parse_scenario(json.dumps(data)), SolveOptions(), LIBRARY, explains=False)
    assert quick.jobs[0].hosted is None
