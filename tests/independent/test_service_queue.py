"""Capacity and latency of replicas of services against the queues written a second time: shipped, and drawn."""

from __future__ import annotations

import numpy as np
import pytest

from planner.estimates.latency import PromptMix, first_token_quantile
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario
from planner.scenario.inference_job import ServeJob
from planner.services.evaluated_fleet import EvaluatedKind, NamedKind, evaluate_fleet
from tests.helpers.costs import AS_OF, plan_of
from tests.helpers.frozen_data import frozen_scenarios
from tests.helpers.services import drawn_service
from tests.independent.service_queue import Prompts, ServiceReplica, first_token_seconds

NEAR = 1e-4
"""Share below and above a capacity at which every limit holds, and one breaks; of a latency too."""


def second(kind: EvaluatedKind) -> ServiceReplica:
    """Return a replica of a kind with the queues of the second model, on the same memory."""
    replica = kind.replica
    return ServiceReplica(
        kind.named, kind.job, replica.serving, kind.context.library, kind.context.gpu.name, replica.memory["cache"],
        replica.factor,
    )  # fmt: skip


def assert_agrees(kind: EvaluatedKind, use: float) -> None:
    """Every limit holds just below the capacity, one that is named breaks just above it; latencies are the same."""
    mine, (_, binds), concurrent = second(kind), kind.queue.capacity, kind.job.load.concurrent is not None

    def rate_at(load: float) -> float:
        return mine.rate(load) if concurrent else load

    assert kind.load > 0
    assert mine.broken(rate_at(kind.load * (1.0 - NEAR))) == []
    broken = mine.broken(rate_at(kind.load * (1.0 + NEAR)))
    # Waiting for a place and for a prompt may be as bad as one another there: a little further one of them is worse.
    assert broken and binds in (*broken, *mine.broken(rate_at(kind.load * (1.0 + 10 * NEAR))))
    assert kind.pace == pytest.approx(rate_at(kind.load) / kind.load, rel=1e-6)
    rate = use * rate_at(kind.load)
    assert kind.latency(use) == pytest.approx((mine.ttft(rate), mine.tpot(rate)), rel=NEAR)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["serve-week", "serve-office-hours", "two-models", "tune-then-serve", "many-adapters", "serve-or-api"]
)
def test_services_of_a_shipped_scenario_agree_with_the_second_queues(name: str) -> None:
    """Each kind of each fleet, at its hour of most use."""
    plan, scenario = plan_of(name), read_scenario(frozen_scenarios()[name]).on_day(AS_OF)
    library = read_library([job.architecture for job in scenario.jobs])
    assert plan.services
    for service in plan.services:
        job = next(job for job in scenario.jobs if job.name == service.name)
        assert isinstance(job, ServeJob)
        kinds = [NamedKind.of(kind) for kind in service.fleet.kinds]
        for kind in evaluate_fleet(kinds, job, scenario, library).kinds:
            assert_agrees(kind, max(service.fleet.use_by_hour))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_drawn_replicas_agree_with_the_second_queues(seed: int) -> None:
    """Lengths from one to forty, requests by the second and in flight, limits from tight to loose."""
    scenario, draw = drawn_service(seed)
    label, _ = draw.choice(scenario.labelled_offers())
    weights, engine, use = (
        draw.choice(["bf16", "fp8"]),
        draw.choice(["vllm", "sglang", "trt-llm"]),
        draw.uniform(0.05, 1.0),
    )
    named = NamedKind(label, "on demand", engine, weights, 16, 1, 1, (1,) * 24)
    (job,) = scenario.jobs
    assert isinstance(job, ServeJob)
    (kind,) = evaluate_fleet([named], job, scenario, read_library([job.architecture])).kinds
    assert_agrees(kind, use)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 2.0, 7.0])
@pytest.mark.parametrize("seconds", [(0.05,), (0.02, 0.2), (0.9,)])
def test_both_computations_of_the_wait_agree(rate: float, seconds: tuple[float, ...]) -> None:
    """Recursion and squares against convolutions and steps: the same to eight digits, prompts in parts too."""
    rate = rate * 0.1 / max(seconds)
    shares = np.full(len(seconds), 1.0 / len(seconds))
    mix = PromptMix(shares, np.array([seconds]), np.ceil(np.array(seconds) / 0.4), np.array([0.4]))
    first = first_token_quantile(0.95, mix, np.array([rate]), np.array([0.02]))[0]
    parts = [int(one) for one in mix.parts]
    assert first_token_seconds(0.95, Prompts(shares.tolist(), list(seconds), parts, 0.4), rate, 0.02) == pytest.approx(
        first, rel=1e-7
    )
