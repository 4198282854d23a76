"""A k-bit prepared base without autocast: all but its linears works in fp32, attention and head among them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.time_cases import Case, case_of, golden_cases

TINYLLAMA_ON_T4 = {**golden_cases()["m1748"], "attention": "flash"}
T4_FP32 = 8.1e12


def on_t4(fp32: int, peak: float = T4_FP32, **changes: object) -> Case:
    """TinyLlama QLoRA, 2 x 1024 tokens on a T4 with fused attention, in fp32 or not."""
    case = case_of({**TINYLLAMA_ON_T4, **changes})
    return replace(
        case, activations=replace(case.activations, fp32_paths=fp32), hardware=replace(case.hardware, fp32_peak=peak)
    )


def test_attention_in_fp32_by_hand() -> None:
    """8.5e11 FLOP at half of 8.1 TFLOP/s: 0.21 s instead of 0.13 s at a tenth of 65."""
    flop = 4 * 1024 * (2 * 1024) * (32 * 64) * 22 * 0.5 * 4.5
    assert float(on_t4(1).time().parts["attention"]) == pytest.approx(flop / (0.5 * T4_FP32))
    assert float(on_t4(0).time().parts["attention"]) == pytest.approx(flop / (0.1 * 65e12))


def test_elements_of_four_bytes_move_more_bytes() -> None:
    """Rotations and gates take twice the traffic, norms less than before: 212 for 150 bytes per hidden unit."""
    wide, narrow = on_t4(1).time().parts, on_t4(0).time().parts
    assert float(wide["elementwise"]) == pytest.approx(212 / 150 * float(narrow["elementwise"]))
    assert float(wide["matmul"]) == float(narrow["matmul"])
    assert float(wide["dequantisation"]) == float(narrow["dequantisation"])


@settings(derandomize=True, max_examples=40)
@given(
    peak=st.floats(1e12, 1e15),
    batch=st.sampled_from([1, 4, 16]),
    sequence=st.sampled_from([256, 1024, 4096]),
    attention=st.sampled_from(["flash", "eager"]),
)
def test_fp32_is_never_faster(peak: float, batch: int, sequence: int, attention: str) -> None:
    """Whatever the card's fp32 is worth, falling back to it saves nothing."""
    said = {"micro_batch": batch, "sequence": sequence, "attention": attention}
    assert float(on_t4(1, peak, **said).time().seconds) >= float(on_t4(0, peak, **said).time().seconds)
