"""Continuous batching and latency: worked examples by hand, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.generation import (
    cycle_seconds,
    decode_step_seconds,
    in_flight_at_latency,
    in_flight_at_rate,
    makespan_seconds,
    prompt_seconds,
    requests_per_second,
)
from planner.estimates.latency import first_token_seconds, seconds_per_token
from tests.helpers.serving_cases import hardware, served, stack


def test_a_cycle_is_its_steps_and_the_prompts_of_all() -> None:
    """100 steps with 8 in flight at a mean context of 550, and 8 prompts of 500 tokens with 2 ms each."""
    own = stack(request_seconds=0.002)
    step = decode_step_seconds(served(), hardware(), own, 8, 550)
    prompts = 8 * (prompt_seconds(served(), hardware(), 500) + 0.002)
    assert cycle_seconds(served(), hardware(), own, 8, 500, 100) == pytest.approx(100 * step + prompts)
    assert requests_per_second(8, 4.0) == 2.0


def test_a_finite_batch_has_a_tail() -> None:
    """10 requests, 4 at a time: two full rounds of 4 s, and one round of 2 requests of 2 s."""
    assert makespan_seconds(10, 4, lambda n: float(n)) == 10.0
    assert makespan_seconds(8, 4, lambda n: float(n)) == 8.0


def test_arrivals_fill_by_littles_law() -> None:
    """cycle(n) = 1 + 0.1 n at 4 per second: n = 4 + 0.4 n = 6 2/3; at 12 per second the limit; at 0.1 one alone."""
    found = in_flight_at_rate(np.array([4.0, 12.0, 0.1]), lambda n: 1.0 + 0.1 * n, np.array([50.0, 50.0, 50.0]))
    assert found == pytest.approx([20 / 3, 50.0, 1.0])


def test_a_latency_limits_the_batch() -> None:
    """10 ms + 1 ms each: 20 sequences at 30 ms; none at 5 ms; the limit of 8 at a second."""
    found = in_flight_at_latency(
        np.array([0.03, 0.005, 1.0]), lambda n: 0.01 + 0.001 * n, np.array([100.0, 100.0, 8.0])
    )
    assert found.tolist() == [20.0, 0.0, 8.0]


def test_first_token_waits_for_half_of_the_others() -> None:
    """60 ms alone; with 10 others half a step of 20 ms, and half of 10 * 50 ms: 320 ms."""
    assert first_token_seconds(stack(), 0.06, 0.02, 0.05, 0) == pytest.approx(0.06)
    assert first_token_seconds(stack(), 0.06, 0.02, 0.05, 10) == pytest.approx(0.32)


def test_time_per_token_is_that_after_the_first() -> None:
    """(2.1 s - 0.1 s) / (101 - 1) = 20 ms; a single token has none."""
    assert seconds_per_token(2.1, 0.1, 101) == pytest.approx(0.02)
    assert np.isnan(seconds_per_token(2.1, 0.1, 1))


@given(few=st.integers(1, 256), more=st.integers(0, 256), prompt=st.integers(0, 8000), output=st.integers(1, 4000))
def test_more_in_flight_never_finish_fewer(few: int, more: int, prompt: int, output: int) -> None:
    """Throughput grows with the number in flight."""
    count = np.array([few, few + more])
    cycle = cycle_seconds(served(), hardware(), stack(), count, prompt, output)
    one, other = requests_per_second(count, cycle)
    assert one <= other * (1 + 1e-9)


@given(output=st.integers(1, 4000), more=st.integers(0, 4000))
def test_longer_outputs_never_cost_less(output: int, more: int) -> None:
    """The time of a request grows with its output."""
    cycle = cycle_seconds(served(), hardware(), stack(), 16, 500, np.array([output, output + more]))
    assert cycle[0] <= cycle[1]
