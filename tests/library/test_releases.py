"""Formats in which models are published: what cards, names and config.json say, and what engines and frameworks do."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import InputError, LibraryError, ScenarioError
from planner.library.engines import formats_in_name, hosted_name, read_engines
from planner.library.huggingface import architecture_from_config
from planner.library.reading import CardNames, conversion, read_library, servable_formats, training_refusal
from planner.library.technique_tables import read_techniques

NAMES = CardNames("architectures")
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip


@pytest.mark.parametrize(
    ("repository", "name", "published"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b-awq", ("awq",)),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b-gptq", ("gptq",)),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b-int8-weights", ("int8-weights",)),
        ("unsloth/llama-3-8b-bnb-4bit", "llama-3-8b-nf4", ("nf4",)),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b-int8", ("int8",)),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b-fp8", ("fp8",)),
        ("nvidia/DeepSeek-R1-FP4", "deepseek-v3-nvfp4", ("nvfp4",)),
        ("unsloth/gpt-oss-120b-BF16", "gpt-oss-120b-bf16", ("bf16",)),
        ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "llama-3.1-8b-gguf-q4_k_m", ("gguf-q4_k_m", "gguf-q8_0")),
        ("openai/gpt-oss-20b-MXFP4", "gpt-oss-20b", ("mxfp4", "bf16")),
        ("ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b", ("mxfp4", "bf16")),
    ],
)
def test_the_suffix_of_a_repository_says_its_format(repository: str, name: str, published: tuple[str, ...]) -> None:
    """The name is understood again, and the model has the dimensions of its base and the format of the suffix."""
    assert NAMES.canonical(repository) == NAMES.canonical(name) == name
    (card,) = read_library([repository]).architectures.values()
    assert (card.name, card.published) == (name, published)
    base = read_library().architecture(hosted_name(name))
    assert (card.layers, card.parameters) == (base.layers, base.parameters)
    assert read_library().architecture(repository).published == published  # also where the base was read


def test_a_format_that_nothing_loads_is_refused() -> None:
    """MLX and the like are said, with the base; they are never read as 16 bits."""
    assert NAMES.canonical("mlx-community/Llama-3.2-3B-Instruct-4bit") is None
    assert "MLX" in NAMES.suggestion("mlx-community/Llama-3.2-3B-Instruct-4bit")
    with pytest.raises(LibraryError, match="HQQ"):
        read_library(["someone/Llama-3.1-8B-HQQ"])


def test_every_format_is_a_suffix_of_its_own() -> None:
    """What the library calls a format is understood at the end of a name."""
    for form in read_engines().formats:
        if form not in ("fp32", "int4-g32", "int4-g64", "int4-sparse", "int8-widened", "int4-unpacked"):
            assert formats_in_name(f"llama-3.1-8b-{form}")[0] == form


@pytest.mark.parametrize(
    ("quantization", "form"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "gptq", "bits": 8}, "int8-weights"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8", "config_groups": {}, "producer": {"name": "modelopt"}}, "fp8"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "W4A8_AWQ"}}, "w4a8"),
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "FP8"}}}, "fp8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {}}},
            },
            "int8-weights",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
    ],
)
def test_quantization_config_says_the_format(quantization: dict[str, Any], form: str) -> None:
    """A config.json of quantised weights is no release in 16 bits."""
    assert architecture_from_config({**LLAMA, "quantization_config": quantization}, "x")["published"] == (form,)
    assert "published" not in architecture_from_config(LLAMA, "x")


@pytest.mark.parametrize("wanted", [{"quant_method": "hqq"}, {"quant_method": "gptq", "bits": 3}, {}, "awq"])
def test_an_unknown_quantization_config_is_a_fault(wanted: Any) -> None:
    """It is not taken for 16 bits."""
    if wanted == {}:
        wanted = {"bits": 4}
    with pytest.raises((LibraryError, InputError), match="quantization_config"):
        architecture_from_config({**LLAMA, "quantization_config": wanted}, "x")


EIGHT, FOUR = ({"weights": {"num_bits": bits, "type": "float"}} for bits in (8, 4))
MIXED = {
    "quant_algo": "MIXED_PRECISION",
    "quantized_layers": {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4"}},
}


@pytest.mark.parametrize(
    ("quantization", "told"),
    [
        (MIXED, "layers of several formats .quant_algo MIXED_PRECISION: FP8 and NVFP4., where"),
        ({"quant_method": "fp8", **MIXED}, "layers of several formats .quant_algo MIXED_PRECISION"),
        (
            {"quant_algo": "W4A16_NVFP4", "quant_method": "modelopt"},
            "weights of quant_algo W4A16_NVFP4 are loaded by no",
        ),
        (
            {"quant_method": "gptq", "bits": 3},
            "weights of quant_method 'gptq' with bits 3 are loaded by no engine here",
        ),
        ({"bits": 4}, "weights of no quant_method with bits 4 are"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": EIGHT, "b": FOUR}},
            "layers of several formats .quant_method 'compressed-tensors': 8-bit float and 4-bit float.",
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 2}}}},
            "quant_method 'compressed-tensors': 2-bit int are loaded by no engine here",
        ),
    ],
)
def test_a_refused_format_is_named_by_what_is_wrong_with_it(quantization: dict[str, Any], told: str) -> None:
    """Not by a method of which other releases are read."""
    with pytest.raises(LibraryError, match=told):
        architecture_from_config({**LLAMA, "quantization_config": quantization}, "x")


def test_a_cache_in_8_bits_is_no_format_of_weights() -> None:
    """ModelOpt writes its file also where it quantised the cache alone."""
    only_cache = {"quant_method": "modelopt", "quant_algo": None, "kv_cache_quant_algo": "FP8"}
    assert "published" not in architecture_from_config({**LLAMA, "quantization_config": only_cache}, "x")


def test_engines_serve_what_exists() -> None:
    """Of a release in 16 bits everything can be made, of a quantised one nothing that is not published."""
    engines, library = read_engines().engines, read_library()
    gpt = library.architecture("gpt-oss-120b")
    assert servable_formats(engines["trt-llm"], gpt) == ("mxfp4", "bf16")
    assert servable_formats(engines["autoawq"], gpt) == ()
    assert servable_formats(engines["vllm"], library.architecture("llama-3.1-8b")) == engines["vllm"].formats
    for card in library.architectures.values():
        for engine in engines.values():
            found = servable_formats(engine, card)
            assert set(found) <= set(engine.formats)
            if read_engines().formats[card.published[0]].bits < 16:
                assert set(found) <= set(card.published)


def test_what_a_user_must_convert_is_said() -> None:
    """Neither the release, nor 16 bits, nor what the engine makes; a published copy is named as such."""
    engines, library = read_engines().engines, read_library()
    llama, qwen = library.architecture("llama-3-8b"), library.architecture("qwen2.5-7b")
    assert conversion(llama, "bf16", engines["vllm"], False, 80.0) is None
    assert conversion(llama, "fp8", engines["vllm"], False, 80.0) is None
    assert "LLM Compressor" in str(conversion(llama, "fp8", engines["vllm"], False, 16.0))  # 16 bits do not fit
    assert "ModelOpt" in str(conversion(llama, "fp8", engines["trt-llm"], False, 80.0))
    assert "is published" in str(conversion(qwen, "awq", engines["vllm"], False, 80.0))
    assert "merged weights" in str(conversion(qwen, "awq", engines["vllm"], True, 80.0))
    gpt = library.architecture("gpt-oss-20b")
    assert conversion(gpt, "mxfp4", engines["vllm"], False, 80.0) is None
    assert "merged weights" in str(conversion(gpt, "mxfp4", engines["vllm"], True, 80.0))


@pytest.mark.parametrize(
    ("name", "method", "bits", "quant", "works"),
    [
        ("gpt-oss-20b", "full", 16, "none", True),
        ("gpt-oss-20b", "lora", 16, "none", True),
        ("gpt-oss-20b", "lora", 4, "nf4", False),  # experts are no linear layers
        ("deepseek-v3", "lora", 16, "none", True),
        ("llama-3-8b-nf4", "lora", 4, "nf4", True),
        ("llama-3-8b-nf4", "lora", 16, "none", False),
        ("llama-3-8b-nf4", "full", 16, "none", False),
        ("llama-3-8b-gptq", "lora", 4, "gptq", True),
        ("llama-3-8b-gptq", "lora", 4, "nf4", False),
        ("llama-3-8b-int8", "lora", 8, "int8", False),
        ("llama-3-8b-fp8", "full", 16, "none", True),
    ],
)
def test_training_follows_what_frameworks_make_of_a_release(
    name: str, method: str, bits: int, quant: str, works: bool
) -> None:
    """fp8 and mxfp4 are dequantised to 16 bits; bitsandbytes and GPTQ stay frozen as they are."""
    card = read_library([name]).architecture(name)
    assert (training_refusal(card, method, bits, quant, "hf") is None) == works


@pytest.mark.parametrize(
    ("name", "degree", "divides"),
    [
        ("qwen2.5-32b", 3, False),  # 40 heads
        ("qwen2.5-32b", 5, False),  # 40 heads divide, 8 of keys do not
        ("qwen2.5-32b", 8, True),
        ("llama-3.1-70b", 16, True),  # heads of keys are repeated
        ("falcon-7b", 2, False),  # 71 heads
        ("gpt-oss-120b", 64, True),
        ("phi-4", 4, False),  # 10 heads of keys
    ],
)
def test_layers_divide_by_heads(name: str, degree: int, divides: bool) -> None:
    """One rule for estimates, plans and checks."""
    assert (read_library([name]).architecture(name).split_fault(degree) is None) == divides


def test_an_estimate_takes_the_release_and_refuses_what_does_not_exist() -> None:
    """gpt-oss-120b fits on one 80 GB GPU that vLLM has 0.95 of; other bits and three GPUs are refused with a fix."""
    from planner.generation.generation_estimate import estimate_inference

    found = estimate_inference("gpt-oss-120b", "H100-80GB", memory_share=0.95)
    assert (found.weight_format, found.weight_bits, found.conversion) == ("mxfp4", 4, None)
    assert not any("rounds the weights" in note for note in found.notes)
    assert estimate_inference("deepseek-ai/DeepSeek-R1", "H200", gpus=8).weight_format == "fp8"
    assert estimate_inference("Qwen/Qwen2.5-7B-Instruct-AWQ", "RTX4080").weight_format == "awq"
    for settings, where in (
        ({"weight_bits": 8}, "weight_bits"),
        ({"weight_format": "awq"}, "weight_format"),
        ({"engine": "autoawq"}, "engine"),
        ({"gpus": 3}, "gpus"),
        ({"gpus": 16}, "gpus"),
    ):
        with pytest.raises(ScenarioError) as caught:
            estimate_inference("gpt-oss-20b", "H100-80GB", **settings)
        assert [fault.where for fault in caught.value.faults] == [where]
    assert estimate_inference("llama-3.1-70b", "H100-80GB", gpus=16, instances=1).tensor_parallel == 16


def test_what_the_table_says_of_a_format_is_known() -> None:
    """What frameworks make of a base is 16 bits, nothing, or a quantisation; marks and methods name formats."""
    table = read_engines()
    quantisations = set(read_techniques().bytes.quantised)
    assert {row.trained for row in table.formats.values()} <= quantisations | {"16 bit", "none"}
    named = {form for mark in table.marks for form in mark.formats} | {table.release, *table.gguf}
    named |= {form for row in table.methods.values() for form in row.values()}
    assert {*named} <= set(table.formats)


def test_awq_and_gptq_differ_where_engines_and_gpus_do() -> None:
    """ExLlamaV2 loads GPTQ alone, AutoAWQ AWQ; only GPTQ has kernels for Volta; a copy that exists is meant first."""
    from planner.generation.generation_estimate import estimate_inference

    table = read_engines()
    loads = {form: {name for name, one in table.engines.items() if form in one.formats} for form in ("awq", "gptq")}
    assert loads["awq"] ^ loads["gptq"] == {"autoawq", "exllamav2"}
    assert (table.formats["gptq"].capability, table.formats["awq"].capability) == (7.0, 7.5)
    assert estimate_inference("qwen3-30b-a3b", "H100-80GB", weight_bits=4).weight_format == "gptq"
    assert estimate_inference("qwen2.5-7b", "V100-32GB", weight_bits=4).weight_format == "gptq"
    assert estimate_inference("qwen2.5-7b", "A100-80GB", weight_bits=4).weight_format == "awq"
    with pytest.raises(InputError):
        estimate_inference("qwen2.5-7b-awq", "V100-32GB")


@pytest.mark.parametrize(("form", "like"), [("gptq", "awq")])
def test_a_format_that_was_fitted_with_another_has_its_speed(form: str, like: str) -> None:
    """The same bytes and kernels: one estimate."""
    from planner.generation.generation_estimate import estimate_inference

    first, second = (estimate_inference("qwen2.5-7b", "A100-80GB", weight_format=one) for one in (form, like))
    assert first.output_tokens_per_second == second.output_tokens_per_second
