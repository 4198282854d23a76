"""Exports against published times, sizes and memory, and what a format must never do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.configurations.grid import network_of
from planner.estimates.stage_seconds import (
    ExportCoefficients,
    gguf_bytes,
    gguf_seconds,
    gpu_quantise_bytes,
    gpu_quantise_seconds,
    grouped_bytes,
    merge_ram_bytes,
)
from planner.library.reading import read_library
from tests.helpers.time_cases import calibration

VALUES = ExportCoefficients.of(calibration("stages"))
LLAMA_70B = network_of(read_library(["llama-3-70b"]).architecture("llama-3-70b"))
A100, H100, T4 = 312e12, 989e12, 65e12
LAW = settings(max_examples=100, derandomize=True)


@pytest.mark.parametrize(("weights", "gb"), [(7e9, 23.4), (13e9, 36.6), (70.554e9, 163.2)])
def test_the_memory_of_a_merge(weights: float, gb: float) -> None:
    """2.2 bytes per weight and 8 GB: 7 * 2.2 + 8 = 23.4 GB."""
    assert float(merge_ram_bytes(weights, VALUES)) / 1e9 == pytest.approx(gb, abs=0.05)


def test_published_merges_that_failed_are_refused() -> None:
    """Falcon 40B does not fit in 83 GB, 72B not in 128 GB; 33B took about 65 GB, which the 8 GB of the system top."""
    assert float(merge_ram_bytes(41.8e9, VALUES)) > 83e9
    assert float(merge_ram_bytes(72.7e9, VALUES)) > 128e9
    assert 65e9 < float(merge_ram_bytes(32.5e9, VALUES)) < 85e9


def test_the_size_of_a_gguf_file() -> None:
    """3.43 billion weights in q4_0: 3.43e9 * 4.5 / 8 = 1.929 GB; llama.cpp reports 1,839 MiB, which is 1.928 GB."""
    assert float(gguf_bytes(3.43e9, 4, VALUES)) == pytest.approx(1839 * 2**20, rel=0.005)


def test_the_size_of_grouped_weights() -> None:
    """Llama 3 70B: 68.452e9 * 4.156 / 8 + 2.101e9 * 2 = 39.8 GB; published 37.07, which is in GiB."""
    weights = LLAMA_70B.parameters
    size = grouped_bytes(LLAMA_70B, weights, 4, VALUES)
    assert size / 1e9 == pytest.approx(39.8, abs=0.05)
    assert size / 2**30 == pytest.approx(37.07, rel=0.005)


@pytest.mark.parametrize(("weights", "seconds"), [(3.43e9, 14.0), (6.65e9, 29.5), (1.027e12, 4557.0)])
def test_quantising_on_cpus_takes_what_was_published(weights: float, seconds: float) -> None:
    """One constant from 3 billion to a trillion weights, within a factor of 1.2; 16-bit files existed before."""
    endless = 1e15  # the published times leave out the conversion to a 16-bit file
    assert float(gguf_seconds(weights, weights, endless, VALUES)) == pytest.approx(seconds, rel=0.2)


def test_gguf_by_hand() -> None:
    """7B weights, 1 GB/s: 2 * 14 s for the 16-bit file, then 7e9 / 0.25e9 = 28 s, longer than 14 + 3.9 s of disk."""
    assert float(gguf_seconds(7e9, 3.94e9, 1e9, VALUES)) == pytest.approx(28 + 28)
    assert float(gguf_seconds(7e9, 3.94e9, 0.2e9, VALUES)) == pytest.approx(140 + (14 + 3.94) / 0.2)


@pytest.mark.parametrize(
    ("weights", "peak", "hours", "factor"),
    [(8.03e9, A100, 0.5, 1.05), (70.6e9, H100, 6.5, 1.5), (175e9, A100, 4.0, 2.9), (0.331e9, T4, 5 / 60, 2.0)],
)
def test_quantising_on_a_gpu_takes_about_what_was_published(
    weights: float, peak: float, hours: float, factor: float
) -> None:
    """8B on an A100: 8.03e9 * 2.3e-7 = 1,847 s; the tools differ by a factor of three from one another."""
    found = float(gpu_quantise_seconds(weights, 0.5 * weights, peak, 1e15, VALUES)) / 3600
    assert 1 / factor <= found / hours <= factor


def test_a_slower_card_quantises_more_slowly() -> None:
    """By the root of its peak, at most three times as long: 65 of 312 TFLOPS take 2.19 times as long."""
    on = {peak: float(gpu_quantise_seconds(1e9, 0, peak, 1e15, VALUES)) for peak in (A100, H100, T4, 1e12)}
    assert on[H100] == on[A100]
    assert on[T4] / on[A100] == pytest.approx((312 / 65) ** 0.5, rel=1e-3)
    assert on[1e12] / on[A100] == pytest.approx(3, rel=1e-3)


def test_a_large_model_is_quantised_on_one_small_card() -> None:
    """Llama 3 70B takes 3.4 GB of layers, 3.3 GB of a Hessian and 8.6 GB of activations: 15 GB, on a card of 24."""
    assert gpu_quantise_bytes(LLAMA_70B, VALUES) / 1e9 == pytest.approx(3.42 + 3.29 + 8.59, abs=0.05)


@LAW
@given(st.floats(1e8, 2e12))
def test_fewer_bits_are_never_more_bytes(weights: float) -> None:
    """4 bits are smaller than 8, and 8 than 16, in every format."""
    gguf = [float(gguf_bytes(weights, bits, VALUES)) for bits in (4, 8)]
    grouped = [grouped_bytes(LLAMA_70B, weights, bits, VALUES) for bits in (4, 8)]
    assert gguf[0] < gguf[1] < 2 * weights
    assert grouped[0] <= grouped[1] <= 2 * weights
