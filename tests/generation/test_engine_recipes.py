"""Served configurations from cards: dimensions, sheet figures, coefficients."""

from __future__ import annotations

import re

import pytest

from planner.generation.engine_recipes import (
    ServingColumns,
    cache_moves,
    coefficient_factors,
    has_peer_access,
    served_model,
    serving_of,
)
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.library.schema import Library


@pytest.fixture(scope="module")
def library() -> Library:
    """The shipped library."""
    return read_library(["llama-3.1-8b", "mixtral-8x7b", "qwen2.5-0.5b"])


def test_weights_of_llama(library: Library) -> None:
    """8,030,261,248 weights; one table of 128,256 * 4,096 is only looked up in and not read in a step."""
    model = served_model(library.architecture("llama-3.1-8b"), read_engines().formats["bf16"])
    assert model.stored_weights == 8_030_261_248
    assert model.dense_weights == 8_030_261_248 - 128_256 * 4_096
    assert model.met_weights == model.dense_weights


def test_tables_stay_in_16_bit(library: Library) -> None:
    """At one byte per weight the two tables of 16 bit weigh twice, so that bytes come out right."""
    model = served_model(library.architecture("llama-3.1-8b"), read_engines().formats["fp8"])
    table = 128_256 * 4_096
    assert model.stored_weights == 8_030_261_248 - 2 * table + 2 * 2 * table


def test_tied_tables_are_stored_once(library: Library) -> None:
    """The head of Qwen2.5 0.5B is its table of embeddings: it is read in each step, and stored once."""
    card = library.architecture("qwen2.5-0.5b")
    model = served_model(card, read_engines().formats["bf16"])
    assert model.stored_weights == model.dense_weights == card.parameters


def test_experts_of_mixtral(library: Library) -> None:
    """8 experts of three matrices 4,096 x 14,336 in 32 layers."""
    model = served_model(library.architecture("mixtral-8x7b"), read_engines().formats["bf16"])
    assert model.expert_weights == 8 * 3 * 4_096 * 14_336 * 32
    assert model.met_weights < model.dense_weights + model.expert_weights


def test_an_engine_that_loops_over_experts_launches_the_kernels_of_each(library: Library) -> None:
    """Transformers visits 8 experts of ten kernels beside a layer of forty: three times a dense layer's launches."""
    launches = {
        (engine, name): serving_of(
            library.architecture(name), library.gpu("A100-80GB"), library, engine=engine, weights="bf16"
        ).base["layer_seconds"]
        for engine, name in (("hf", "mixtral-8x7b"), ("hf", "llama-3.1-8b"), ("vllm", "mixtral-8x7b"))
    }
    assert list(launches.values()) == [3.0, 1.0, 1.0]


def test_an_engine_that_copies_its_cache_moves_it_several_times(library: Library) -> None:
    """Mixtral and Llama 3.1 have 8 heads of keys for 32 of queries: 3 + 2 * 4 times; two for fourteen: 3 + 2 * 7."""
    reach = library.gpu("A100-80GB").memory_bandwidth_gb_s * 1e9
    moves = [
        reach
        / serving_of(library.architecture(name), library.gpu("A100-80GB"), library, engine=engine, weights="bf16").base[
            "cache_bandwidth"
        ]
        for engine, name in (("hf", "mixtral-8x7b"), ("hf", "qwen2.5-0.5b"), ("vllm", "mixtral-8x7b"))
    ]
    assert moves == pytest.approx([11.0, 17.0, 1.0])
    every = library.architecture("llama-3.1-8b").model_copy(update={"kv_heads": 32})
    assert cache_moves(every) == 3.0


def test_a_head_that_an_engine_rounds_weighs_as_the_rest(library: Library) -> None:
    """gpt-fast rounds the head and leaves the table of embeddings in 16 bit; a tied head is that table."""
    fp8 = read_engines().formats["fp8"]
    table = 128_256 * 4_096
    model = served_model(library.architecture("llama-3.1-8b"), fp8, rounds_head=True)
    assert model.stored_weights == 8_030_261_248 - 2 * table + (1 + 2) * table
    tied = library.architecture("qwen2.5-0.5b")
    assert served_model(tied, fp8, rounds_head=True) == served_model(tied, fp8)


def test_products_of_4_bits_need_a_gpu_that_has_them(library: Library) -> None:
    """A B200 multiplies NVFP4 at twice its 4,500 TFLOPS of FP8; an H100 turns MXFP4 into 16 bit, a B200 does not."""
    card = library.architecture("llama-3.1-8b")

    def share_of_sheet(gpu: str, weights: str) -> float:
        made = serving_of(card, library.gpu(gpu), library, engine="vllm", weights=weights)
        return made.base["flops"] / library.calibrations["gpu_efficiency"].value(gpu) / 1e12

    assert share_of_sheet("B200", "nvfp4") == pytest.approx(2 * 4_500)
    assert share_of_sheet("H100-80GB", "mxfp4") == pytest.approx(library.gpu("H100-80GB").tensor16_tflops or 0)
    assert share_of_sheet("B200", "mxfp4") == pytest.approx(4_500)


def test_geforce_exchange_through_the_host(library: Library) -> None:
    """Two RTX 4090 have no peer access, two L40S have, two H100 have NVLink."""
    card = library.architecture("llama-3.1-8b")
    links = {
        gpu: serving_of(card, library.gpu(gpu), library, engine="vllm", weights="bf16", division=(2, 1)).keys[
            "link_seconds"
        ]
        for gpu in ("RTX4090", "L40S", "H100-80GB")
    }
    assert [keys[0] for keys in links.values()] == ["link_seconds.host", "link_seconds.pcie", "link_seconds.nvlink"]


def test_every_geforce_is_known_as_one(library: Library) -> None:
    """Peer access follows from a name, so each card of the series that is sold as GeForce has it."""
    series = [gpu for name, gpu in library.gpus.items() if re.match(r"RTX[2-5]0[6-9]0", name)]
    assert len(series) >= 12 and not any(has_peer_access(gpu) for gpu in series)
    assert has_peer_access(library.gpu("RTX6000Ada")) and has_peer_access(library.gpu("A5000"))


def test_tensorrt_llm_reserves_the_cache_of_an_answer(library: Library) -> None:
    """It starts a request only with room for its last token; vLLM's cache grows, half an answer in the mean."""
    card, gpu = library.architecture("llama-3.1-8b"), library.gpu("H100-80GB")
    shares = [serving_of(card, gpu, library, engine=e, weights="bf16").held_share for e in ("trt-llm", "vllm", "other")]
    assert shares == [1.0, 0.5, 0.5]


def test_coefficients_multiply_the_sheet(library: Library) -> None:
    """864 GB/s of an L40S times what all share, the engine's and the GPU's factor; what has no entry counts 1."""
    serving = serving_of(
        library.architecture("llama-3.1-8b"), library.gpu("L40S"), library, engine="vllm", weights="bf16"
    )
    values = {"bandwidth": 0.8, "bandwidth.vllm": 1.1, "memory.L40S": 0.9, "bandwidth.hf": 0.1}
    _, hardware, stack = ServingColumns([serving]).inputs(coefficient_factors([serving], values))
    assert hardware.bandwidth[0] == pytest.approx(864e9 * 0.8 * 1.1 * 0.9)
    assert hardware.cache_bandwidth[0] == pytest.approx(864e9 * 0.9)
    assert stack.kv_bytes[0] == 2.0
