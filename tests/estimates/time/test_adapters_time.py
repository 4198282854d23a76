"""What adapters cost beside their few FLOP, and what training in full costs beside its many."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
