"""Decode steps and prefill: worked examples by hand, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.generation import (
    all_reduce_seconds,
    attention_flop,
    decode_step_seconds,
    prefill_seconds,
    prompt_seconds,
    touched_share,
    weight_bytes_read,
)
from tests.helpers.serving_cases import hardware, served, stack


def test_a_step_of_one_sequence_reads_the_weights() -> None:
    """15 GB over 1.5 TB/s = 10 ms beside 0.05 ms of products; then 1,000 tokens * 131,072 B over 1 TB/s."""
    seconds = decode_step_seconds(served(), hardware(), stack(), 1, 1000)
    assert seconds == pytest.approx(np.hypot(0.010, 0.00005) + 0.000131072)


def test_launches_and_bookkeeping_add() -> None:
    """32 layers * 10 us + 1 ms + 4 sequences * 20 us = 1.4 ms more."""
    own = stack(layer_seconds=1e-5, step_seconds=1e-3, sequence_seconds=2e-5)
    more = decode_step_seconds(served(), hardware(), own, 4, 0) - decode_step_seconds(
        served(), hardware(), stack(), 4, 0
    )
    assert more == pytest.approx(0.0014)


def test_experts_are_read_as_they_are_touched() -> None:
    """One token touches 2 of 8; two tokens 1 - (3/4)^2 = 7/16 of them; without experts all is read."""
    assert touched_share(8, 2, 1) == 0.25
    assert touched_share(8, 2, 2) == pytest.approx(7 / 16)
    assert touched_share(0, 0, 5) == 1.0
    mixed = served(dense_weights=1e9, expert_weights=8e9, experts=8, experts_per_token=2)
    assert weight_bytes_read(mixed, stack(), 1) == pytest.approx(6e9)


def test_all_reduces_of_two_gpus() -> None:
    """64 collectives; 10 tokens * 4,096 * 2 bytes cross once: 0.8192 us and 10 us of latency each."""
    seconds = all_reduce_seconds(served(), hardware(tensor=2), 10)
    assert seconds == pytest.approx(64 * (81_920 / 1e11 + 1e-5))
    assert all_reduce_seconds(served(), hardware(), 10) == 0


def test_a_pipeline_halves_the_group() -> None:
    """8 sequences over 2 stages: a step of 4, which reads all weights."""
    piped = decode_step_seconds(served(), hardware(pipeline=2), stack(), 8, 500)
    assert piped == pytest.approx(decode_step_seconds(served(), hardware(), stack(), 4, 500))


def test_attention_of_a_prompt() -> None:
    """4 * 4,096 * 32 layers * 1,000 tokens * 500 seen in the mean; behind 200 cached tokens 700."""
    assert attention_flop(served(), 1000) == pytest.approx(4 * 4096 * 32 * 1000 * 500)
    assert attention_flop(served(), 1000, prefix=200) == pytest.approx(4 * 4096 * 32 * 1000 * 700)


def test_a_prompt_computes() -> None:
    """2 * 7.5e9 * 1,000 / 3e14 = 50 ms of products and 2.6 ms of attention; the weights' 10 ms hide under them."""
    own = 0.05 + 4 * 4096 * 32 * 1000 * 500 / 1e14
    assert prompt_seconds(served(), hardware(), 1000) == pytest.approx(own)
    alone = prefill_seconds(served(), hardware(), stack(request_seconds=0.003, arrival_seconds=0.02), 1000)
    assert alone == pytest.approx(np.hypot(0.01, own) + 0.003 + 0.02)


@given(tokens=st.integers(1, 100_000), prefix=st.integers(0, 100_000))
def test_a_prefix_in_common_never_makes_it_slower(tokens: int, prefix: int) -> None:
    """What lies in the cache already is attended to and not computed again."""
    whole = prompt_seconds(served(), hardware(), tokens + prefix)
    assert prompt_seconds(served(), hardware(), tokens, prefix) <= whole * (1 + 1e-9)


@given(few=st.integers(1, 512), more=st.integers(0, 512), context=st.integers(0, 100_000))
def test_more_sequences_never_make_a_step_faster(few: int, more: int, context: int) -> None:
    """A step takes longer with more sequences, but each of them costs less."""
    one, other = decode_step_seconds(served(), hardware(), stack(), np.array([few, few + more]), context)
    assert one <= other * (1 + 1e-9)
    assert other / (few + more) <= one / few * (1 + 1e-9)
