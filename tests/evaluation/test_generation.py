"""The audit computes plans of generation request by request, and finds what was changed in them."""

from __future__ import annotations

from typing import Any

import pytest

from planner.evaluation.audit import audit
from planner.results.plan import Plan
from tests.helpers.generation import OFFER, library, plan, scenario

SPOT = {**OFFER, "spot_usd_per_hour": 0.3, "spot": {"availability": 0.8, "mean_up_hours": 5}}
SERVICE = {
    "provider": "api",
    "managed": {
        "architectures": "llama-3.1-8b",
        "usd_per_million_input_tokens": 0.1,
        "usd_per_million_output_tokens": 0.3,
        "batch_discount": 0.5,
    },
}
LENGTHS = {"requests": None, "input_tokens": None, "output_tokens": None, "prefix_tokens": 40}
CASES: dict[str, dict[str, Any]] = {
    "on demand": {"deadline": "12h"},
    "spot": {"offers": [SPOT], "work": {"requests": 300_000}, "deadline": "30h"},
    "mixed share": {
        "offers": [SPOT],
        "work": {"requests": 300_000},
        "limits": {"spot_share": {"min": 0.2, "max": 0.6}},
    },
    "8 GPUs, 8 bits": {
        "offers": [{**OFFER, "gpus": 8, "usd_per_hour": 8}],
        "techniques": {"weight_bits": 8, "kv_bits": 8, "tensor_parallel": 2},
    },
    "trials and answers": {"trials": {"count": 4, "at_once": 2}, "stages": {"export": {"gb": 2}}, "data_gb": 5},
    "a service": {"offers": [OFFER, SERVICE]},
    "llama.cpp": {"techniques": {"engine": "llama.cpp", "weight_bits": 4}, "work": {"requests": 200}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_plan_of_generation_passes(name: str) -> None:
    """Every figure, computed again one request length after the other."""
    changes = CASES[name]
    assert audit(plan(**changes), scenario(**changes), library()) == []


def test_many_lengths_pass() -> None:
    """Three lengths with a shared prefix: the audit adds them up one by one."""
    rows = [(900, 150, 5000), (2000, 20, 700), (50, 600, 3000)]
    classes = [dict(zip(("input_tokens", "output_tokens", "count"), row, strict=True)) for row in rows]
    changes = {"work": {**LENGTHS, "lengths": classes}}
    assert audit(plan(**changes), scenario(**changes), library()) == []


def changed(original: Plan, **update: Any) -> Plan:
    (job,) = original.jobs
    return original.model_copy(update={"jobs": (job.model_copy(update=update),)})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("replicas", 7),
        ("in_flight", 3),
        ("kv_bits", 8),
        ("usd_per_thousand_requests", 1.0),
        ("tpot_seconds", 1.0),
        ("evidence", "measured"),
        ("binds", "requests"),
    ],
)
def test_a_changed_figure_is_found(field: str, value: Any) -> None:
    """One field of what a plan says of its replicas."""
    original = plan()
    made = original.jobs[0].inference
    assert made is not None
    found = audit(changed(original, inference=made.model_copy(update={field: value})), scenario(), library())
    assert found


@pytest.mark.parametrize(
    "update", [{"weight_bits": 8, "quant": "fp8"}, {"framework": "sglang"}, {"tensor_parallel": 2}, {"quant": "awq"}]
)
def test_a_choice_that_the_job_does_not_allow_is_found(update: dict[str, Any]) -> None:
    """Bits, engine and GPUs per replica."""
    original = plan()
    made = original.jobs[0].techniques.model_copy(update=update)
    assert audit(changed(original, techniques=made), scenario(), library())


@pytest.mark.slow
def test_served_adapters_take_memory_and_time_and_pass() -> None:
    """Rank 16 on all linear layers is 41.9 million weights: 100 of them are 7.8 GiB more; merged ones are nothing."""
    served = {"adapter": {"rank": 16, "served": 100}}
    one, other, plain = plan(**served), plan(adapter={"rank": 16}), plan()
    assert audit(one, scenario(**served), library()) == []
    more = one.jobs[0].vram_gib.parts["weights"] - plain.jobs[0].vram_gib.parts["weights"]
    assert more == pytest.approx(100 * 41.943e6 * 2 / 2**30, rel=1e-3)
    assert one.jobs[0].cost_usd > plain.jobs[0].cost_usd == other.jobs[0].cost_usd
    assert one.jobs[0].inference is not None and "served adapters" in one.jobs[0].inference.priors
