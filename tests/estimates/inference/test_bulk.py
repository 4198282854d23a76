"""A batch of many lengths: what one request takes in the mean, and all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.generation import cycle_seconds, makespan_seconds, time_shares
from planner.estimates.latency import Lengths, batch_means, mean_cycle_seconds
from planner.estimates.uncertainty import confidence_factor, tail_of_68_percent
from planner.generation.engine_recipes import ServingColumns, coefficient_factors, serving_of
from planner.library.reading import read_library


def inputs(model: str = "gemma-2-2b") -> tuple:
    library = read_library([model])
    serving = serving_of(library.architecture(model), library.gpu("L40S"), library, engine="vllm", weights="bf16")
    values = library.calibrations["inference"].values
    return ServingColumns([serving]).inputs(coefficient_factors([serving], values))


lengths = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 900), st.integers(1, 10**6)), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(lengths, st.integers(0, 1), st.integers(1, 300))
def test_the_mean_of_a_batch_is_that_of_its_requests(rows: list, prefix: int, flight: int) -> None:
    """Class by class with the formula for one length, weighted by count: the same to rounding."""
    prompt, output, count = (np.asarray(column, dtype=float) for column in zip(*rows, strict=True))
    model, hardware, stack = inputs()
    means = batch_means(model, hardware, stack, Lengths(prompt, output, count, float(prefix)))
    together = mean_cycle_seconds(model, hardware, stack, means, np.full((1, 1), float(flight)))[0, 0]
    one_by_one = [cycle_seconds(model, hardware, stack, flight, a - prefix, b, float(prefix))[0] for a, b, _ in rows]
    assert together == pytest.approx(np.average(one_by_one, weights=count), rel=1e-9)


def test_places_in_flight_belong_to_long_answers() -> None:
    """100 answers of 150 tokens and 100 of 50: three quarters of the places, mean context 3/4 * 975 + 1/4 * 125."""
    batch = Lengths(np.array([900.0, 100.0]), np.array([150.0, 50.0]), np.array([100.0, 100.0]))
    assert batch.seat_share == pytest.approx([0.75, 0.25])
    means = batch_means(*inputs("llama-3.1-8b"), batch)
    assert means.context[0] == pytest.approx(0.75 * 975 + 0.25 * 125)
    assert (batch.requests, batch.mean_output) == (200, 100)


def test_a_reserved_answer_takes_its_whole_cache() -> None:
    """1,000 + 1,000 tokens in blocks of 16: 94 blocks in the mean where the cache grows, 125 where it is reserved."""
    batch = Lengths(np.array([1000.0]), np.array([1000.0]), np.array([1.0]))
    model, hardware, stack = inputs("llama-3.1-8b")
    assert batch_means(model, hardware, stack, batch).cached_tokens[0] == 94 * 16
    assert batch_means(model, hardware, replace(stack, held_share=1.0), batch).cached_tokens[0] == 125 * 16


def test_a_finite_batch_is_full_rounds_and_a_rest() -> None:
    """10 requests, 4 at a time, a round of n taking 1 + n seconds: 2 * 5 + 3 = 13 s; of many batches at once alike."""
    assert makespan_seconds(10, 4, lambda n: 1.0 + n) == 13.0
    assert makespan_seconds(np.array([8, 10]), np.array([4, 4]), lambda n: 1.0 + n) == pytest.approx([10.0, 13.0])


def test_shares_of_the_time_sum_to_one() -> None:
    """Prompts, products or weights, cache, launches."""
    model, hardware, stack = inputs()
    shares = time_shares(model, hardware, stack, 8, 500.0, 0.01, 100.0)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) == {"prompts", "weights", "cache", "launches"}
    assert "products" in time_shares(model, hardware, stack, 4000, 500.0, 0.01, 100.0)


def test_an_error_within_sigma_with_68_percent_keeps_it_under_student() -> None:
    """sigma 0.40: a tail of 0.5375, so that at 84.13 % the factor is exp(0.40) = 1.49 and at 90 % 1.77."""
    tail = tail_of_68_percent(0.40)
    assert tail == pytest.approx(0.5375, abs=5e-4)
    assert confidence_factor(tail, 0.8413) == pytest.approx(np.exp(0.40), rel=1e-6)
    assert confidence_factor(tail, 0.9) == pytest.approx(1.77, abs=5e-3)
