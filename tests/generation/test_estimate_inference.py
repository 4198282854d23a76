"""Estimates of generation: figures that can be checked by hand, laws, and bad input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.generation.generation_estimate import estimate_inference
from planner.library.reading import read_library

LIBRARY = read_library(["llama-3.1-8b", "llama-3.1-70b", "stable-diffusion-1.5"])


def estimate(model: str = "llama-3.1-8b", gpu: str = "L40S", **given: Any) -> Any:
    """Return the estimate of 900 tokens in and 150 out, with some settings changed."""
    return estimate_inference(model, gpu, LIBRARY, **{"input": 900, "output": 150, **given})


def test_memory_adds_up() -> None:
    """Weights are 8.03e9 * 2 bytes; the parts sum to what the engine may use; requests are cache over their blocks."""
    found = estimate()
    parts = found.memory_gib.parts
    assert parts["weights"] == pytest.approx(8_030_261_248 * 2 / 2**30)
    assert sum(parts.values()) == pytest.approx(found.memory_gib.usable)
    assert found.memory_gib.kv_bytes_per_token == 131_072
    assert found.requests_that_fit.whole == int(parts["kv_cache"] * 2**30 // (1_056 * 131_072))
    assert found.requests_that_fit.longest <= found.requests_that_fit.whole <= found.requests_that_fit.typical


def test_speed_latency_and_dollars_agree() -> None:
    """Little's law, TPOT over the tokens after the first, and dollars that sum to those of the GPU."""
    found = estimate(usd_per_gpu_hour=3.6, concurrency=16)
    seconds = found.ttft_seconds.expected + found.tpot_seconds.expected * 149
    assert found.in_flight == 16
    assert found.requests_per_second * seconds == pytest.approx(16)
    assert found.output_tokens_per_second.expected == pytest.approx(found.requests_per_second * 150)
    prices = found.prices
    per_request = (prices.usd_per_million_input_tokens * 900 + prices.usd_per_million_output_tokens * 150) / 1e6
    assert per_request == pytest.approx(0.001 / found.requests_per_second)
    assert prices.usd_per_thousand_requests == pytest.approx(1000 * per_request)


def test_a_single_stream_reads_weights_no_faster_than_the_sheet() -> None:
    """864 GB/s over 15 GB of weights per token is 57.5 tokens/s; no estimate may exceed it."""
    assert estimate(concurrency=1).single_output_tokens_per_second < 864e9 / 15.01e9


def test_a_finite_batch_takes_longer_than_its_steady_state() -> None:
    """Start and tail: 100 requests take at least 100 over the steady rate."""
    found = estimate(requests=100, concurrency=64)
    assert found.makespan_seconds > 100 / found.requests_per_second


def test_market_price_is_found_and_named() -> None:
    """Without a price the least of the shipped market is taken, with its provider."""
    prices = estimate().prices
    assert prices.usd_per_gpu_hour > 0 and "shipped market" in prices.basis


@pytest.mark.slow
@settings(max_examples=10)
@given(prefix=st.integers(0, 900))
def test_a_prefix_never_makes_it_slower(prefix: int) -> None:
    """Tokens that all requests share are computed once."""
    assert estimate(prefix=prefix).requests_per_second >= estimate().requests_per_second * (1 - 1e-9)


@settings(max_examples=10)
@given(output=st.integers(1, 2000), more=st.integers(0, 2000))
def test_longer_outputs_never_cost_less(output: int, more: int) -> None:
    """A thousand requests cost at least as much with longer outputs."""
    one, other = (estimate(output=n, usd_per_gpu_hour=1.0).prices for n in (output, output + more))
    assert other.usd_per_thousand_requests >= one.usd_per_thousand_requests * (1 - 1e-9)


BAD = {
    "output of zero": ({"output": 0}, "output", "must be at least 1"),
    "negative input": ({"input": -1}, "input", "must be at least 0"),
    "negative concurrency": ({"concurrency": -3}, "concurrency", "must be at least 1"),
    "context of the model": ({"input": 200_000}, "input", "exceed the context"),
    "prefix beyond the input": ({"prefix": 901}, "prefix", "exceeds the input"),
    "unknown engine": ({"engine": "vlm"}, "engine", "unknown engine"),
    "engine without the bits": ({"engine": "llama.cpp", "weight_bits": 2}, "weight_bits", "no weights of 2 bits"),
    "engine without the format": ({"engine": "vllm", "weight_format": "exl2"}, "weight_format", "does not load exl2"),
    "bits against format": ({"weight_format": "fp8", "weight_bits": 4}, "weight_bits", "has 8 bits, not 4"),
    "engine without the cache": ({"engine": "hf", "kv_bits": 8}, "kv_bits", "no cache of 8 bits"),
    "GPU that is too old": ({"gpu": "T4", "engine": "trt-llm"}, "engine", "does not support T4"),
    "GPU without the kernels": ({"gpu": "A100-80GB", "weight_format": "fp8"}, "weight_bits", "no kernels for fp8"),
    "weights beyond memory": ({"model": "llama-3.1-70b"}, "", "GiB usable on L40S"),
    "a model of images": ({"model": "stable-diffusion-1.5"}, "", "makes images"),
    "heads over three": ({"gpus": 3}, "gpus", "32 attention heads of llama-3.1-8b do not divide by 3"),
    "two machines": ({"model": "llama-3.1-70b", "gpu": "H100-80GB", "gpus": 12}, "gpus", "estimate one of 4 GPUs"),
    "two counts": ({"gpu": "2xL40S", "gpus": 4}, "gpus", "2 by the name of the GPU"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case: str) -> None:
    """Each fault names its setting, what is wrong and what would be right."""
    given, where, what = BAD[case]
    with pytest.raises(ScenarioError) as caught:
        estimate(**given)
    (fault,) = caught.value.faults
    assert fault.where == where and fault.fix
    assert what in fault.what or what in f"{fault.what} {fault.fix}"


def test_context_longer_than_memory_holds() -> None:
    """120,000 tokens of 128 KiB do not lie beside 15 GiB of weights on 24 GiB."""
    with pytest.raises(ScenarioError, match="GiB per GPU for one request of 120,150 tokens"):
        estimate(gpu="RTX4090", input=120_000)


def test_what_rests_on_no_measurement_is_a_prior() -> None:
    """ExLlamaV2 has too few published rows, a K80 none."""
    assert estimate(engine="exllamav2").evidence == "prior"
    found = estimate(gpu="RTX2080Ti", engine="llama.cpp", weight_bits=4)
    assert found.evidence == "prior" and any("RTX2080Ti" in note for note in found.notes)
