"""The head of a frozen network needs no gradient of its weights, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.estimates.device import device_time
from tests.helpers.time_cases import case_of

ENTRY = {
    "network": "llama-2-7b", "card": "A100-80", "profile": "hf", "micro_batch": 2, "sequence": 4096,
    "gpus": 1, "gpus_per_node": 1,
}  # fmt: skip


def head_seconds(frozen: int) -> float:
    """Seconds that the products of the head take, memory traffic of the logits left out."""
    case = case_of(ENTRY)
    case = replace(
        case, states=replace(case.states, frozen=frozen), kernels=replace(case.kernels, logit_traffic_bytes=0.0)
    )
    return float(device_time(*case.arguments()).head)


def test_the_head_of_adapter_training_takes_two_thirds_of_full_training() -> None:
    """Forward and the gradient of its input, 2 units of 3: the gradient of its weights is left out."""
    assert head_seconds(frozen=1) / head_seconds(frozen=0) == pytest.approx(2 / 3, rel=1e-12)


def test_the_products_of_the_head_are_six_flop_per_weight_and_token() -> None:
    """8,192 tokens * 32,000 * 4,096 weights * 6 FLOP at 312 TFLOPS, as far as this GPU gets with so many tokens."""
    case = case_of(ENTRY)
    flop = 6 * 8192 * 32000 * 4096
    knee = case.coefficients.token_half_saturation * case.hardware.peak / case.hardware.bandwidth
    seconds = flop / (case.hardware.peak * case.hardware.efficiency) * (1 + knee / 8192)
    assert head_seconds(frozen=0) == pytest.approx(seconds, rel=1e-12)
