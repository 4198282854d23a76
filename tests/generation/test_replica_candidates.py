"""Plans of generation: hours fall with the machines, dollars with nothing that is asked for more of."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.generation.generation_estimate import estimate_inference
from planner.generation.replica_enumeration import MOST_MACHINES, machine_counts, result_gb
from planner.scenario.inference_job import InferenceJob
from planner.solving.prepare import prepare
from tests.helpers.generation import MODEL, OFFER, library, plan, scenario


@pytest.mark.slow
def test_one_machine_takes_what_its_estimate_says() -> None:
    """Worked: 20,000 requests at the steady rate of `estimate --inference`, up to start and tail, a dollar an hour."""
    (job,) = plan(limits={"max_gpus": 1}).jobs
    found = estimate_inference(MODEL, "L40S", library(), input=900, output=150)
    hours = 20_000 / found.requests_per_second / 3600
    assert job.training_hours == pytest.approx(hours, rel=0.01)
    # 160 s of boot, 24 GB of image and weights, reading and moving the weights, two minutes of compilation.
    assert 0.1 < job.start_hours < 0.4
    assert job.cost_usd == pytest.approx(job.start_hours + job.training_hours, rel=1e-6)
    assert job.inference is not None
    assert (job.inference.in_flight, job.inference.replicas) == (found.in_flight, 1)
    assert job.inference.usd_per_thousand_requests == pytest.approx(job.cost_usd / 20)
    by_token = 18.0 * job.inference.usd_per_million_input_tokens + 3.0 * job.inference.usd_per_million_output_tokens
    assert by_token == pytest.approx(job.cost_usd)


def test_twice_the_machines_take_half_the_hours_up_to_the_load() -> None:
    """Replicas need nothing of one another: only the last, not quite full round differs."""
    prepared = prepare(scenario(work={"requests": 200_000}), library())
    table, hours = prepared.candidates[0].table, prepared.candidates[0].hours
    by_count = dict(zip(table.instances.tolist(), hours.training.tolist(), strict=True))
    assert by_count[2] == pytest.approx(by_count[1] / 2, rel=0.01)
    assert by_count[16] == pytest.approx(by_count[1] / 16, rel=0.03)
    assert all(by_count[a] >= by_count[b] for a in by_count for b in by_count if a <= b)


def test_services_alone_are_no_plan() -> None:
    """A service that answers by the token is compared with machines; without any machine the plan says so."""
    service = {
        "provider": "api",
        "managed": {"architectures": MODEL, "usd_per_million_input_tokens": 0.1, "usd_per_million_output_tokens": 0.2},
    }
    found = plan(offers=[service])
    assert found.infeasible is not None
    (miss,) = found.infeasible.nearest
    assert (miss.what, miss.fix) == ("managed service at api", "offer machines with GPUs")
    assert "by the token" in miss.reason


def cost(**changes: Any) -> float:
    found = plan(**changes)
    assert found.objective is not None
    return found.objective


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(st.integers(2_000, 50_000), st.integers(50, 2_000), st.integers(2, 400), st.integers(2, 20), st.booleans())
def test_more_work_and_less_time_never_cost_less(
    requests: int, prompt: int, answer: int, deadline: int, has_spot: bool
) -> None:
    """More requests, longer answers, an earlier deadline; a shared prefix never costs more."""
    offers = [{**OFFER, "spot_usd_per_hour": 0.4}] if has_spot else [OFFER]
    work = {"requests": requests, "input_tokens": prompt, "output_tokens": answer}
    here = cost(work=work, offers=offers, deadline=f"{deadline}h")
    slack = 1e-6 + 1e-3 * here * has_spot  # curves of policies are straight pieces
    assert cost(work={**work, "requests": 2 * requests}, offers=offers, deadline=f"{deadline}h") >= here - slack
    assert cost(work={**work, "output_tokens": answer + 50}, offers=offers, deadline=f"{deadline}h") >= here - slack
    assert cost(work=work, offers=offers, deadline=f"{2 * deadline}h") <= here + slack
    assert cost(work={**work, "prefix_tokens": prompt // 2}, offers=offers, deadline=f"{deadline}h") <= here + slack


@pytest.mark.long
def test_a_lost_machine_loses_requests_in_flight_and_one_load() -> None:
    """No checkpoint on spot, and each machine is lost by itself: a group of eight is as steady as one machine."""
    offer = {**OFFER, "spot_usd_per_hour": 0.3, "spot": {"availability": 0.9, "mean_up_hours": 4.0}}
    prepared = prepare(scenario(work={"requests": 400_000}, offers=[offer]), library())
    found = prepared.candidates[0]
    run = found.run_hours
    assert not run.stall_seconds.any() and not run.saved_bytes.any()
    one, eight = (int((found.table.instances == n).nonzero()[0][0]) for n in (1, 8))
    hours = found.hours
    ratios = [float(hours.spot_paid[row] / hours.run[row]) for row in (one, eight)]
    assert 1.0 < ratios[1] == pytest.approx(ratios[0], rel=0.01)
    (job,) = plan(work={"requests": 400_000}, offers=[offer], deadline="48h").jobs
    assert job.spot is not None and job.spot.checkpoint_interval_hours < 0.1


def test_counts_are_dense_and_end() -> None:
    """Every number up to 32, then sixteen to a doubling, so that no number is more than a sixteenth away."""
    counts = machine_counts()
    assert counts[:33] == (*range(1, 33), 34) and counts[-1] == MOST_MACHINES
    assert all(b <= a * (1 + 1 / 16) + 1 for a, b in itertools.pairwise(counts))


def test_stock_limits_machines() -> None:
    """Three machines in stock are the most."""
    prepared = prepare(scenario(offers=[{**OFFER, "stock": 3}]), library())
    assert set(prepared.candidates[0].table.instances.tolist()) == {1, 2, 3}


def test_answers_weigh_four_bytes_a_token_or_what_is_said() -> None:
    """20,000 answers of 150 tokens: 0.012 GB; `stages.export.gb` replaces it."""
    (plain,) = scenario().jobs
    (said,) = scenario(stages={"export": {"gb": 3}}).jobs
    assert isinstance(plain, InferenceJob) and isinstance(said, InferenceJob)
    assert (result_gb(plain), result_gb(said)) == (pytest.approx(0.012), 3)


def test_the_ladder_has_the_price_of_doing_without_lossy_formats() -> None:
    """16, 8 and 4 bits; 4 is marked where the job does not list it."""
    (job,) = plan(techniques={"engine": "vllm"}).jobs
    assert [(one.label, one.allowed) for one in job.methods] == [
        ("vLLM 16-bit", True),
        ("vLLM 8-bit", True),
        ("vLLM 4-bit", False),
    ]
    assert job.techniques.weight_bits == 8
    (lossy,) = job.lossy_techniques
    assert lossy.without == "16-bit" and lossy.cost_usd == pytest.approx(job.methods[0].cost_usd)


def test_larger_models_take_several_gpus_per_replica() -> None:
    """An offer of eight L40S holds a 70B model in 16 bits once, in 8 bits on four GPUs twice or on two four times."""
    offer = {**OFFER, "gpus": 8, "usd_per_hour": 8.0}
    (job,) = plan(architecture="llama-3.1-70b", offers=[offer], techniques={"engine": "vllm"}).jobs
    assert job.inference is not None
    assert job.inference.gpus_per_replica * job.inference.replicas == job.gpus
    assert job.inference.gpus_per_replica > 1
    (fixed,) = plan(
        architecture="llama-3.1-70b", offers=[offer], techniques={"engine": "vllm", "tensor_parallel": 8}
    ).jobs
    assert fixed.inference is not None and fixed.inference.gpus_per_replica == 8
    assert fixed.cost_usd >= job.cost_usd
