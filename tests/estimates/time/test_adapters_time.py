"""What adapters cost beside their few FLOP, and what training in full costs beside its many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.estimates.device import gradient_bytes, gradient_launch_seconds
from tests.helpers.time_cases import Case, case_of, golden_cases

GOLDEN = golden_cases()
LORA, FULL = GOLDEN["m0438"], GOLDEN["m0415"]


def with_pass(bytes_per_width: float) -> Case:
    """Mistral-7B LoRA on q, k, v, o, 4 x 4096 tokens recomputed on one A100, adapters moving so many bytes."""
    case = case_of(LORA)
    return replace(case, states=replace(case.states, adapter_pass_bytes=bytes_per_width))


def test_adapters_move_their_counted_bytes_three_times_and_once_more() -> None:
    """Of 26 bytes per unit of width four linears of 32 layers move 3 passes and a recomputed one: 0.18 s of an A100."""
    share = case_of(LORA).coefficients.adapter_traffic
    counted = 26 * 4 * 4096 * 32 * (4 * 4096) * (3 + 1) / 2039e9
    alone = float(with_pass(26).time().parts["elementwise"] - with_pass(0).time().parts["elementwise"])
    assert alone == pytest.approx(share * counted, rel=1e-3)


def test_casts_of_fp32_adapters_cost_more_than_16_bit_ones_and_fused_least() -> None:
    """PEFT's fp32 adapters against 16-bit ones against kernels that add into the output."""
    seconds = [float(with_pass(width).time().seconds) for width in (26, 14, 8)]
    assert seconds == sorted(seconds, reverse=True)


def test_modules_that_call_python_hold_the_device_up() -> None:
    """32 layers of 13 modules and four adapters of 4 more, three passes of 0.1 ms each: 0.28 s per micro-batch."""
    case = case_of(LORA)
    waiting = replace(case, kernels=replace(case.kernels, hook_seconds=1e-4))
    counted = 32 * (13 + 4 * 4) * 3 * 1e-4
    rounds = float(case.layout.accumulation)
    assert counted == pytest.approx(0.2784)
    assert float(waiting.time().parts["hooks"]) == pytest.approx(rounds * counted)
    apart = float(waiting.time().seconds - case.time().seconds)
    assert apart == pytest.approx(rounds * counted)
    assert float(case.time().parts["hooks"]) == 0.0


def test_weight_gradients_have_a_speed_of_their_own() -> None:
    """Of four products of a recomputed layer one is sped up; frozen weights have none."""

    def matmul(row: dict[str, object], factor: float) -> float:
        case = case_of(row)
        faster = replace(case.coefficients, weight_gradient_factor=factor)
        return float(replace(case, coefficients=faster).time().parts["matmul"])

    assert matmul(FULL, 1.25) / matmul(FULL, 1.0) == pytest.approx((3 + 0.8) / 4)
    assert matmul(LORA, 1.25) == matmul(LORA, 1.0)


def test_gradients_are_added_in_all_micro_steps_but_the_first() -> None:
    """7e9 parameters, 6 bytes each, three times in four micro-steps: 31.5 GB per micro-step, 15.4 ms of an A100."""
    case = case_of(FULL)
    states = replace(case.states, trainable=7e9, added_bytes=6.0)
    layout = replace(case.layout, accumulation=4)
    assert float(gradient_bytes(layout, states)) == pytest.approx(31.5e9)
    assert float(gradient_bytes(replace(layout, accumulation=1), states)) == 0.0
    assert float(gradient_bytes(replace(layout, tensor=2, pipeline=2), states)) == pytest.approx(31.5e9 / 4)
    changed = replace(case, states=states, layout=layout).time()
    assert float(changed.parts["gradients"]) == pytest.approx(4 * 31.5e9 / 2039e9, rel=1e-3)


def test_gradients_of_gathered_units_are_handed_on_every_time() -> None:
    """Under FSDP 8 bytes per parameter and micro-step, of however many: 56 GB of 7e9 parameters."""
    case = case_of(FULL)
    states = replace(case.states, trainable=7e9, handed_bytes=8.0)
    for rounds in (1, 4):
        assert float(gradient_bytes(replace(case.layout, accumulation=rounds), states)) == pytest.approx(56e9)


def test_deepspeed_takes_each_gradient_from_its_hook() -> None:
    """7 matrices and 2 norms of 0.25 ms: 2.25 ms of a layer under ZeRO-1 and 2, none for adapters or other stages."""
    case = case_of(FULL)
    kernels = replace(case.kernels, gradient_launch_seconds=0.25e-3)
    for stage, frozen, seconds in ((0, 0, 0.0), (1, 0, 2.25e-3), (2, 0, 2.25e-3), (3, 0, 0.0), (2, 1, 0.0)):
        layout, states = replace(case.layout, zero_stage=stage), replace(case.states, frozen=frozen)
        setup, _ = replace(case, kernels=kernels, layout=layout, states=states).arguments()
        assert float(np.asarray(gradient_launch_seconds(setup))) == pytest.approx(seconds)
