"""What an engine takes at its start: limits by GPU, by use and by release, and what is left for the cache."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.estimates.uncertainty import time_factors_of_68_percent
from planner.generation import estimate_inference, render_inference
from planner.generation.engine_recipes import Division, Network, serving_of
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.units import GIB

VLLM = read_engines().engines["vllm"]
LIBRARY = read_library(["llama-2-7b", "llama-3.1-8b", "qwen3-32b", "gpt-oss-20b", "gpt-oss-120b", "qwen3-next-80b-a3b"])


@pytest.mark.parametrize(
    ("gpu", "limits"),
    [
        ("H100-80GB", (1024, 8192, 16384)),  # from 70 GiB on
        ("A800-80GB", (1024, 8192, 16384)),  # by name no A100
        ("A100-80GB", (256, 2048, 8192)),  # named apart
        ("A100-PCIe-80GB", (256, 2048, 8192)),
        ("A6000", (256, 2048, 8192)),
    ],
)
def test_a_step_of_vllm_takes_what_its_arguments_say_of_the_gpu(gpu: str, limits: tuple[int, int, int]) -> None:
    """`get_batch_defaults`: 70 GiB and more, A100 excepted."""
    found = VLLM.limits_on(LIBRARY.gpu(gpu))
    assert (found.sequences, found.server, found.offline) == limits


def test_an_engine_without_limits_has_its_own_number_everywhere() -> None:
    """TensorRT-LLM: 2,048 on each GPU."""
    engine = read_engines().engines["trt-llm"]
    assert {engine.limits_on(LIBRARY.gpu(gpu)).sequences for gpu in ("H100-80GB", "A6000")} == {2048}


def test_a_release_is_the_last_row_before_it() -> None:
    """0.11.2 profiles as 0.8 does, 0.33 as 0.21; 0.6 had another core. Where none is given it may be any."""
    found = {version: VLLM.releases_of(version) for version in ("0.11.2", "0.19", "0.33", "0.6", None)}
    versions = {version: [row.version for row in rows] for version, rows in found.items()}
    known = ["0.8", "0.17", "0.21"]
    assert versions == {"0.11.2": ["0.8"], "0.19": ["0.17"], "0.33": ["0.21"], "0.6": [], None: known}


@pytest.mark.parametrize("gpu", ["H100-80GB", "RTX4090", "A6000"])
@pytest.mark.parametrize("model", ["llama-2-7b", "llama-3.1-8b", "qwen3-32b"])
@pytest.mark.parametrize("use", ["server", "offline"])
def test_without_a_release_the_cache_is_the_least_of_all_with_the_same_share(model: str, gpu: str, use: str) -> None:
    """Of 32,000 tokens and 256 sequences logits are 0.3 GB, so that the graphs of 0.21 (0.5 GiB) take more."""

    def cache(release: str | None) -> float:
        settings = {"engine_release": release, "use": use, "memory_share": 0.9, "gpus": 4}
        return estimate_inference(model, gpu, LIBRARY, input=128, output=8, **settings).memory_gib.parts["kv_cache"]

    assert cache(None) == pytest.approx(min(cache(row.version) for row in VLLM.releases))


def test_the_share_is_of_the_whole_of_the_static_part_or_of_what_is_free() -> None:
    """Of 80 with weights of 16 and others of 4: 72, 72 + 4, and 80 less a tenth of the 60 that are free."""
    engines = read_engines().engines
    usable = {name: engines[name].usable(80.0, 0.9, 16.0, 4.0) for name in ("vllm", "sglang", "trt-llm")}
    assert usable == pytest.approx({"vllm": 72.0, "sglang": 76.0, "trt-llm": 74.0})


@pytest.mark.parametrize(
    ("model", "printed_gib", "logits"),
    [("llama-3.1-8b", 4.8, 128_256), ("qwen3-32b", 5.6, 151_936), ("gpt-oss-20b", 7.38, 201_088)],
)
def test_the_sampler_profiles_1024_sequences_on_h100(model: str, printed_gib: float, logits: int) -> None:
    """1,024 * vocabulary * 38.5 bytes, within 2 % of what 0.11 prints (llm-d-benchmark, config_explorer)."""
    made = estimate_inference(model, "H100-80GB", LIBRARY, engine="vllm", engine_release="0.11", input=128, output=8)
    assert made.memory_gib.parts["activations"] == pytest.approx(1024 * logits * 38.5 / GIB)
    assert made.memory_gib.parts["activations"] == pytest.approx(printed_gib, rel=0.02)


def test_the_cache_of_llama_8b_on_an_h100_is_what_vllm_0_11_prints() -> None:
    """0.9 * 79.2 - 14.96 - 4.71 - 0.2 = 51.4 GiB, 421,000 tokens of 128 KiB; printed: 51.38 GiB, 420,905 tokens."""
    made = estimate_inference("llama-3.1-8b", "H100-80GB", LIBRARY, engine="vllm", engine_release="0.11")
    assert made.memory_gib.parts["kv_cache"] == pytest.approx(51.38, rel=0.005)
    assert made.memory_gib.kv_tokens == pytest.approx(420_905, rel=0.005)
    between = made.memory_gib.kv_tokens_range
    assert between is not None and between.low < 420_905 < between.high


def test_later_releases_give_the_cache_more_and_a_range_without_release_holds_all() -> None:
    """0.92 * 79.2 - 14.96 - 1024 * 128,256 * 14 bytes - 0.2 - 0.5 = 55.5 GiB from 0.21 on."""
    cache = {
        release: estimate_inference("llama-3.1-8b", "H100-80GB", LIBRARY, engine_release=release).memory_gib
        for release in ("0.11", "0.19", "0.33", None)
    }
    assert cache["0.33"].parts["kv_cache"] == pytest.approx(55.5, abs=0.1)
    assert cache[None].kv_tokens == cache["0.11"].kv_tokens < cache["0.19"].kv_tokens < cache["0.33"].kv_tokens
    unsaid = cache[None].kv_tokens_range
    assert unsaid is not None and unsaid.low < cache["0.11"].kv_tokens and cache["0.33"].kv_tokens <= unsaid.high


def test_scripts_profile_a_larger_step_than_servers() -> None:
    """16,384 tokens of 4 * 5,120 + 3 * 25,600 values in 16 bit are 3.19 GB, less than the logits of 0.11 on H100.

    From 0.17 on those are 2.18 GB, so that the step of a script counts: 16,384 * 97,280 * 2 bytes.
    """
    use = {
        name: estimate_inference("qwen3-32b", "H100-80GB", LIBRARY, engine_release="0.19", use=name, input=128)
        for name in ("server", "offline")
    }
    assert use["offline"].memory_gib.parts["activations"] == pytest.approx(16_384 * 97_280 * 2 / GIB)
    assert use["server"].memory_gib.parts["activations"] == pytest.approx(1024 * 151_936 * 14 / GIB)


@pytest.mark.parametrize(("model", "printed_gib"), [("gpt-oss-20b", 13.47), ("gpt-oss-120b", 64.38)])
def test_gpt_oss_keeps_all_but_its_experts_in_16_bit(model: str, printed_gib: float) -> None:
    """Experts of 2,880 * 3,072 values in 4.25 bits, all else in 16; printed by vLLM 0.11 on H100."""
    made = serving_of(LIBRARY.architecture(model), LIBRARY.gpu("H100-80GB"), LIBRARY, engine="vllm", weights="mxfp4")
    stored = float(made.model.stored_weights) * made.weight_bytes / GIB
    assert stored == pytest.approx(printed_gib, rel=0.005)


def test_a_gpt_oss_120b_on_one_h100_needs_a_larger_share() -> None:
    """64.5 + 7.4 GiB exceed 0.9 of 79.2 GiB; with 0.95 some 3 GiB are left (3.33 are printed)."""
    with pytest.raises(ScenarioError, match="GiB usable"):
        estimate_inference("gpt-oss-120b", "H100-80GB", LIBRARY)
    made = estimate_inference("gpt-oss-120b", "H100-80GB", LIBRARY, memory_share=0.95)
    assert made.memory_gib.parts["kv_cache"] == pytest.approx(3.33, abs=0.3)


def test_a_hybrid_says_how_many_states_fit() -> None:
    """Four L40S hold fewer states of linear attention than the 256 sequences with which vLLM starts."""
    made = estimate_inference("qwen3-next-80b-a3b", "L40S", LIBRARY, gpus=4, weight_bits=16, engine_release="0.24")
    assert made.memory_gib.state_sequences is not None and 64 < made.memory_gib.state_sequences < 256
    assert "does not start with its default of 256" in " ".join(made.notes)
    assert f"state of {made.memory_gib.state_sequences:,} sequences" in render_inference(made)


def test_exchange_follows_link_and_number_of_gpus() -> None:
    """A stated link replaces that of the GPU; over machines the network counts, 400 Gb/s are 50 GB/s."""
    card, gpu = LIBRARY.architecture("llama-3.1-8b"), LIBRARY.gpu("L40S")

    def keys(*division: object) -> tuple[str, ...]:
        made = serving_of(card, gpu, LIBRARY, engine="vllm", weights="bf16", division=Division(*division))  # type: ignore[arg-type]
        return made.keys["link_bytes_per_second"]

    assert keys(2, 1) == ("link.pcie", "link.pcie.2")
    assert keys(3, 1) == ("link.pcie", "link.pcie.4")
    assert keys(8, 1, "host") == ("link.host", "link.host.8")
    over = serving_of(card, gpu, LIBRARY, engine="vllm", weights="bf16", division=Division(16, 1, Network(50e9)))
    assert over.keys["link_seconds"][0] == "link_seconds.network" and over.base["link_bytes_per_second"] == 50e9


def test_a_slower_link_makes_tensor_parallel_generation_slower() -> None:
    """Eight H100 by NVLink, and by PCIe as a user says."""
    nvlink, pcie = (
        estimate_inference(
            "llama-3.1-8b", "H100-80GB", LIBRARY, gpus=8, concurrency=64, interconnect=link
        ).tpot_seconds.expected
        for link in (None, "pcie")
    )
    assert 1.5 * nvlink < pcie


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"engine": "vllm", "engine_release": "0.6"},
            "engine_release: vLLM 0.6 is not known: releases are from 0.8 on",
        ),
        ({"engine": "sglang", "engine_release": "0.4"}, "engine_release: no releases of SGLang are known"),
        ({"engine": "trt-llm", "use": "offline"}, "use: what a script changes in the memory of TensorRT-LLM"),
        ({"gpus": 2, "interconnect": "nvlink"}, "interconnect: L40S has no NVLink; give pcie"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(settings: dict[str, object], why: str) -> None:
    """One line each, with what to do."""
    with pytest.raises(ScenarioError) as refused:
        estimate_inference("llama-3.1-8b", "L40S", LIBRARY, **settings)
    (line,) = map(str, refused.value.faults)
    assert why in line


def test_a_tensor_parallel_degree_must_divide_the_gpus() -> None:
    """Three of eight GPUs."""
    with pytest.raises(ScenarioError, match="3 does not divide 8 GPUs"):
        estimate_inference("llama-3.1-8b", "H100-80GB", LIBRARY, gpus=8, tensor_parallel=3)


def test_the_ranges_of_an_estimate_are_those_of_a_plan() -> None:
    """One distribution: what holds with 90 % is the slow end of seconds, and of rates the low one."""
    made = estimate_inference("llama-3.1-8b", "H100-80GB", LIBRARY, engine="vllm")
    quick, slow = map(float, time_factors_of_68_percent(made.sigma))
    seconds, rate = made.tpot_seconds, made.output_tokens_per_second
    assert (seconds.low, seconds.high) == pytest.approx((seconds.expected * quick, seconds.expected * slow))
    assert (rate.low, rate.high) == pytest.approx((rate.expected / slow, rate.expected / quick))
