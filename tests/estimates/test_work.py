"""Work to steps, and padding against packing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.work import padded_length, processed_length, step_count

QUIET = settings(derandomize=True, max_examples=60, deadline=None)


def test_packed_work_counts_tokens() -> None:
    """90M tokens in sequences of 2,048 filled to 97 %, 64 at a time, are 708 steps."""
    assert float(step_count("packed", 90e6, 0, 2048, 64)) == math.ceil(90e6 / (0.97 * 2048 * 64)) == 708


@pytest.mark.parametrize("packing", ["padded", "fixed"])
def test_unpacked_work_counts_samples(packing: str) -> None:
    """Three epochs of 50,000 samples, 64 at a time, are 2,344 steps whatever their lengths."""
    assert float(step_count(packing, 90e6, 150_000, 2048, 64)) == 2344


def test_unknown_packing_is_refused() -> None:
    """A packing that does not exist raises and names those that do."""
    for call in (lambda: step_count("tight", 1, 1, 1, 1), lambda: processed_length("tight", 1, 1, 1, 1)):
        with pytest.raises(ValueError, match="packed, padded, fixed"):
            call()


@pytest.mark.parametrize("micro_batch", [1, 4, 16])
def test_longest_of_a_micro_batch_agrees_with_draws(micro_batch: int) -> None:
    """The expected padded length agrees with seeded draws of a log-normal, cut at the sequence."""
    mean, cv, cap = 600.0, 0.8, 2048.0
    sigma = math.sqrt(math.log1p(cv * cv))
    draws = np.random.default_rng(7).lognormal(math.log(mean) - sigma**2 / 2, sigma, (200_000 // 16, micro_batch))
    seen = np.minimum(draws.max(axis=1), cap).mean()
    assert float(padded_length(mean, cv, micro_batch, cap)) == pytest.approx(seen, rel=0.02)


def test_single_samples_are_not_padded() -> None:
    """A micro-batch of one processes its mean length where nothing is cut."""
    assert float(processed_length("padded", 1e9, 600, 0.8, 1)) == pytest.approx(600, rel=1e-4)


def test_equal_samples_need_no_padding() -> None:
    """Without spread the longest sample is the mean."""
    assert float(padded_length(600, 0.0, 32, 2048)) == pytest.approx(600)


def test_packed_and_fixed_process_whole_sequences() -> None:
    """Packed and fixed sequences have full length."""
    assert float(processed_length("packed", 2048, 600, 0.8, 4)) == 2048
    assert float(processed_length("fixed", 2048, 600, 0.8, 4)) == 2048


@QUIET
@given(st.floats(20, 5000), st.floats(0.0, 2.0), st.integers(1, 64), st.integers(64, 8192))
def test_padding_laws(mean: float, cv: float, micro_batch: int, sequence: int) -> None:
    """Padded length grows with the micro-batch up to the sequence."""
    small = float(padded_length(mean, cv, micro_batch, sequence))
    large = float(padded_length(mean, cv, 2 * micro_batch, sequence))
    assert 0 < small <= large * (1 + 1e-9) <= sequence * (1 + 2e-9)


def test_arrays_of_micro_batches() -> None:
    """A column of micro-batches gives a column of lengths."""
    lengths = padded_length(600, 0.8, np.array([[1], [4], [16]]), 2048)
    assert lengths.shape == (3, 1)
    assert (np.diff(lengths[:, 0]) > 0).all()
