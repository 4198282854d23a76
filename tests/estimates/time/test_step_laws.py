"""Laws that step time obeys whatever the configuration."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.estimates.device import stack_parameters
from tests.helpers.time_cases import CHECKPOINTING, Case, case_of, golden_cases, kernels_of

GOLDEN = golden_cases()
PROFILES = ("hf", "hf_plus", "eager", "tuned", "compiled", "fused", "megatron")
QUIET = settings(derandomize=True, max_examples=25, deadline=None)
SLACK = 1e-9


@st.composite
def cases(draw: st.DrawFn, narrowest: int = 1024) -> Case:
    """Dense training on A100-like cards: any profile, method, checkpointing, sharding and a few layouts."""
    base = case_of(GOLDEN["m0252"])
    hidden = 128 * draw(st.integers(narrowest // 128, 80))
    network = replace(
        base.network,
        layers=8 * draw(st.integers(1, 12)),
        hidden=hidden,
        heads=hidden // 128,
        kv_heads=hidden // 128,
        ffn=4 * hidden,
        vocab=draw(st.integers(8, 256)) * 1000,
        gated=draw(st.booleans()),
    )
    network = replace(network, parameters=stack_parameters(network) + network.embedding_parameters)
    tensor, pipeline = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (4, 2), (8, 4)]))
    frozen = draw(st.booleans())
    layout = replace(
        base.layout,
        micro_batch=draw(st.integers(1, 32)),
        accumulation=draw(st.integers(1, 64)),
        sequence=draw(st.integers(1, 32)) * 256,
        gpus=tensor * pipeline * 2 ** draw(st.integers(0, 7)),
        tensor=tensor,
        pipeline=pipeline,
        zero_stage=draw(st.integers(0, 3)),
        hybrid=draw(st.integers(0, 1)),
    )
    states = replace(
        base.states,
        frozen=int(frozen),
        quantised=int(frozen and draw(st.booleans())),
        trainable=network.parameters * (0.01 if frozen else 1.0),
        adapted_linears=7 if frozen else 0,
    )
    activations = replace(base.activations, checkpointing=draw(st.integers(0, 5)), attention=draw(st.integers(0, 2)))
    kernels = replace(kernels_of(draw(st.sampled_from(PROFILES))), quantised_bytes=11.9)
    hardware = replace(
        base.hardware,
        efficiency=draw(st.floats(0.3, 1.03)),
        nvlink=draw(st.sampled_from([0.0, 300e9])),
        network=draw(st.sampled_from([1.25e9, 12.5e9, 200e9])),
    )
    return Case(network, layout, states, activations, kernels, hardware, base.coefficients)


def seconds(case: Case) -> float:
    """Seconds of one step."""
    return float(case.time().seconds)


def changed(case: Case, part: str, **values: Any) -> Case:
    """The case with values of one of its parts replaced."""
    return replace(case, **{part: replace(getattr(case, part), **values)})


@QUIET
@given(cases(), st.sampled_from(["micro_batch", "accumulation", "sequence"]))
def test_more_work_takes_longer(case: Case, field: str) -> None:
    """Doubling micro-batch, accumulation or sequence never makes a step shorter.

    Pipelines under stage 3 are left out of the second: they gather once per step, and the bubble is charged
    a share of it that shrinks with accumulation.
    """
    if field == "accumulation":
        assume(case.layout.pipeline == 1 or case.layout.zero_stage < 3)
    twice = changed(case, "layout", **{field: 2 * getattr(case.layout, field)})
    assert seconds(twice) > seconds(case)


@QUIET
@given(cases(), st.sampled_from(["layers", "vocab", "hidden"]))
def test_larger_networks_take_longer(case: Case, field: str) -> None:
    """More layers, a larger vocabulary or wider layers of the same alignment never make a step shorter."""
    twice = changed(case, "network", **{field: 2 * getattr(case.network, field)})
    assert seconds(twice) > seconds(case)


@QUIET
@given(cases())
def test_recomputing_more_takes_longer(case: Case) -> None:
    """No checkpointing is faster than every second layer, that than all layers, that than offloading."""
    order = [CHECKPOINTING[name] for name in ("none", "every_2nd", "full", "offload")]
    times = [seconds(changed(case, "activations", checkpointing=code)) for code in order]
    assert times == sorted(times)
    assert times[0] < times[2]


@QUIET
@given(cases(), st.sampled_from(["peak", "bandwidth", "efficiency", "network", "attention_efficiency", "pcie"]))
def test_better_hardware_is_never_slower(case: Case, field: str) -> None:
    """Doubling one speed of the hardware, all else equal, never makes a step longer."""
    values = {field: 2 * getattr(case.hardware, field)}
    if field == "peak":
        values["linear_peak"] = 2 * case.hardware.linear_peak
    assert seconds(changed(case, "hardware", **values)) <= seconds(case) * (1 + SLACK)


@QUIET
@given(cases())
def test_speed_stays_under_the_roof(case: Case) -> None:
    """Tokens per second and GPU never exceed the peak over the FLOP of a token."""
    flop = 2 * stack_parameters(case.network) * (3 - case.states.frozen)
    roof = case.hardware.linear_peak * max(case.hardware.efficiency, 1.0) / flop
    assert case.tokens_per_gpu_second() <= roof * max(1.0, case.kernels.matmul_factor)


@QUIET
@given(cases())
def test_more_nodes_never_speed_up_a_gpu(case: Case) -> None:
    """At fixed work per GPU more nodes never raise its speed; the optimizer, which shards, aside."""
    plain = changed(case, "states", optimizer_traffic_bytes=0)
    per_gpu = [
        changed(plain, "layout", gpus=plain.layout.gpus * factor).tokens_per_gpu_second() for factor in (1, 2, 8, 32)
    ]
    for fewer, more in pairwise(per_gpu):
        assert more <= fewer * (1 + SLACK)


@QUIET
@given(cases())
def test_accumulation_removes_what_is_paid_once(case: Case) -> None:
    """With very many micro-batches what a step pays once vanishes (ZeRO-2 reduces each time)."""
    stage = 1 if case.layout.zero_stage == 2 else case.layout.zero_stage
    long = changed(case, "layout", accumulation=10**9, zero_stage=stage).time()
    once = sum(long.parts[name] for name in ("bubble", "data_parallel", "optimizer", "fixed"))
    assert float(once) < 1e-5 * float(long.seconds)


@QUIET
@given(cases(narrowest=2048), st.sampled_from(PROFILES))
def test_lora_is_no_slower_than_full_training(case: Case, profile: str) -> None:
    """Outside the launch-bound zone a frozen base costs no time, from a width of 2,048 per GPU on.

    In narrower slices the traffic of seven adapters, undivided by tensor parallelism, outweighs the saving.
    """
    whole = changed(case, "layout", tensor=1)
    quick = replace(whole, kernels=replace(kernels_of(profile), launch_seconds=0.0, fsdp_launch_seconds=0.0))
    quick = replace(quick, coefficients=replace(case.coefficients, adapter_launch_seconds=0.0))
    parameters = quick.network.parameters
    full = changed(quick, "states", frozen=0, quantised=0, trainable=parameters, adapted_linears=0)
    lora = changed(quick, "states", frozen=1, quantised=0, trainable=0.01 * parameters, adapted_linears=7)
    assert seconds(lora) <= seconds(full) * (1 + SLACK)


@QUIET
@given(cases())
def test_quantised_weights_never_speed_up_compute(case: Case) -> None:
    """Unpacking 4-bit weights costs device and launch time and saves none."""
    frozen = changed(case, "states", frozen=1, quantised=0, trainable=1e7, adapted_linears=7)
    quantised = changed(frozen, "states", quantised=1)
    assert seconds(quantised) >= seconds(frozen)


@QUIET
@given(cases())
def test_one_gpu_does_not_communicate(case: Case) -> None:
    """Without a second GPU every communication term and the node loss are zero."""
    alone = changed(case, "layout", gpus=1, tensor=1, pipeline=1).time().parts
    for name in ("tensor_parallel", "expert_parallel", "sharding", "pipeline_transfer", "bubble"):
        assert float(alone[name]) == 0.0
    assert float(alone["data_parallel"]) == 0.0
    assert float(alone["node_loss"]) == 0.0


@QUIET
@given(cases())
def test_parts_bracket_the_step(case: Case) -> None:
    """Every part is at least zero, none exceeds the step, and together they are no less than it."""
    step = case.time()
    parts = np.array([float(value) for _, value in step.parts.items()])
    total = float(step.seconds)
    assert (parts >= 0).all()
    assert parts.max() <= total * (1 + SLACK)
    assert parts.sum() >= total * (1 - SLACK)


def test_profiles_rank_as_their_kernels_do() -> None:
    """Fused kernels beat the eager code of the same library on a 7B network, by the published 7 to 40 %."""
    entry = {**GOLDEN["m0415"], "micro_batch": 4, "sequence": 2048}
    gain = case_of({**entry, "profile": "hf_plus"}).tokens_per_gpu_second() / case_of(entry).tokens_per_gpu_second()
    assert 1.07 < gain < 1.45


def test_more_gpus_finish_a_fixed_batch_sooner() -> None:
    """Strong scaling at a fixed batch shortens the step, by less than the number of GPUs."""
    few = case_of({**GOLDEN["m0112"], "gpus": 8, "accumulation": 16})
    many = case_of({**GOLDEN["m0112"], "gpus": 128, "accumulation": 1})
    ratio = seconds(few) / seconds(many)
    assert 1.0 < ratio < 16.0
    assert ratio == pytest.approx(16.0, rel=0.5)


@QUIET
@given(cases())
def test_visible_parts_sum_to_the_step(case: Case) -> None:
    """What each cause adds to the step is never negative, never more than its own work, and sums to the seconds."""
    step = case.time()
    visible = {name: float(np.asarray(seconds)) for name, seconds in step.visible.items()}
    assert sum(visible.values()) == pytest.approx(float(step.seconds), rel=1e-9)
    for name, seconds in step.parts.items():
        assert -SLACK <= visible[name] <= float(np.asarray(seconds)) * (1 + SLACK)


@QUIET
@given(cases())
def test_a_visible_part_is_what_a_small_saving_is_worth(case: Case) -> None:
    """A little less launch time shortens the step by the same share of what launches visibly cost."""
    before = case.time()
    host = case.hardware.host_factor
    faster = replace(case, hardware=replace(case.hardware, host_factor=host * (1 - 1e-4)))
    launch = before.parts["launch"] - faster.time().parts["launch"]
    saved = float(before.seconds - faster.time().seconds)
    bubbles = 1 + (case.layout.pipeline - 1) / case.layout.accumulation
    share = float(before.visible["launch"] / before.parts["launch"])
    nodes = float(before.seconds / (before.seconds - before.visible["node_loss"]))
    rounding = 1e-13 * float(before.seconds)
    assert saved == pytest.approx(float(launch) * share * bubbles * nodes, rel=1e-2, abs=rounding)
