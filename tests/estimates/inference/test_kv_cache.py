"""The KV cache: worked examples by hand, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.generation import (
    activation_bytes,
    blocks_of,
    cache_bytes,
    kv_bytes_per_token,
    mean_seen_tokens,
    requests_that_fit,
    seen_tokens,
)
from tests.helpers.serving_cases import served

GIB = 2**30


def test_a_token_of_llama_3_8b_takes_128_kib() -> None:
    """2 * 32 layers * 8 heads * 128 * 2 bytes = 131,072; a quarter on each of 4 GPUs, half in 8 bit."""
    model = served()
    assert kv_bytes_per_token(model, 2) == 131_072
    assert kv_bytes_per_token(model, 2, tensor=4) == 32_768
    assert kv_bytes_per_token(model, 1) == 65_536
    assert kv_bytes_per_token(model, 2, pipeline=2) == 65_536


def test_heads_fewer_than_gpus_are_copied() -> None:
    """8 heads on 16 GPUs: one head each, 8,192 * 2 bytes per token as on 8 GPUs."""
    assert kv_bytes_per_token(served(), 2, tensor=16) == kv_bytes_per_token(served(), 2, tensor=8) == 16_384


def test_a_latent_is_not_divided() -> None:
    """DeepSeek-V3: 61 layers * (512 + 64) * 2 bytes = 70,272, whole on each of 8 GPUs."""
    model = served(layers=61, cache_layers=61, kv_heads=128, latent=576)
    assert kv_bytes_per_token(model, 2) == kv_bytes_per_token(model, 2, tensor=8) == 70_272


def test_sliding_layers_see_their_window() -> None:
    """Half of the layers see 4,096 of 10,000 tokens: (10,000 + 4,096) / 2 in the mean."""
    model = served(window=4096, window_share=0.5)
    assert seen_tokens(model, 10_000) == 7_048
    assert seen_tokens(model, 1_000) == 1_000


def test_mean_of_a_growing_context() -> None:
    """From 900 by 150 tokens: 975 in the mean; beyond the window of all layers the window."""
    assert mean_seen_tokens(served(), 900, 150) == pytest.approx(975)
    assert mean_seen_tokens(served(window=500, window_share=1.0), 900, 150) == pytest.approx(500)


def test_requests_of_an_l40s() -> None:
    """40 GiB usable less 15 weights, 2 activations and 2 overhead: 21 GiB of cache.

    A request of 1,050 tokens takes 66 blocks of 16 = 1,056 tokens of 128 KiB = 132 MiB: 162 fit.
    """
    cache = cache_bytes(40 * GIB, 15 * GIB, 2 * GIB, 2 * GIB)
    assert cache == 21 * GIB
    assert blocks_of(1_050) == 1_056
    assert requests_that_fit(cache, 131_072, served(), 1_050) == 162
    assert cache_bytes(10 * GIB, 15 * GIB, 0, 0) == 0


def test_activations_of_a_chunk() -> None:
    """100 tokens * (4 * 10 + 60) * 2 bytes = 20,000, and 3 rows of 50 logits * 8 bytes = 1,200."""
    assert activation_bytes(10, 60, 100, 50, 3) == 21_200
    assert activation_bytes(10, 60, 100, 50, 3, tensor=2) == 100 * (40 + 30) * 2 + 600


@given(tokens=st.integers(1, 10**6), more=st.integers(0, 10**6), window=st.integers(0, 10**5))
def test_longer_requests_never_fit_more_often(tokens: int, more: int, window: int) -> None:
    """The number of requests that fit falls with their length, window or not."""
    model = served(window=window, window_share=0.5 if window else 0.0)
    fits = requests_that_fit(np.array(1e11), 131_072.0, model, np.array([tokens, tokens + more]))
    assert fits[0] >= fits[1] >= 0
