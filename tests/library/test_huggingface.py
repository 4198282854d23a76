"""Reading config.json of Hugging Face releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import LibraryError
from planner.library.huggingface import architecture_from_config
from planner.library.schema import Architecture

CARDS = Path(__file__).parents[2] / "models" / "architectures"

# The keys of public config.json files that decide the shape; the rest of those files is left out.
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
MISTRAL = {
    **LLAMA,
    "model_type": "mistral",
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3-8b": LLAMA,
    "mistral-7b": MISTRAL,
    "mixtral-8x7b": {
        **MISTRAL,
        "model_type": "mixtral",
        "sliding_window": None,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "qwen2.5-0.5b": {
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "sliding_window": 32768,
    },
    "qwen3-8b": {
        "model_type": "qwen3",
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": False,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "gemma-2-9b": {
        "model_type": "gemma2",
        "hidden_size": 3584,
        "intermediate_size": 14336,
        "num_hidden_layers": 42,
        "head_dim": 256,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "vocab_size": 256000,
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
    },
    "phi-3-mini": {
        "model_type": "phi3",
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32064,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "sliding_window": 2047,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    },
    "pythia-6.9b": {
        "model_type": "gpt_neox",
        "hidden_size": 4096,
        "intermediate_size": 16384,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 50432,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "use_parallel_residual": True,
    },
    "falcon-7b": {
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "vocab_size": 65024,
        "multi_query": True,
        "new_decoder_architecture": False,
        "parallel_attn": True,
        "bias": False,
        "alibi": False,
    },
    "falcon-40b": {
        "model_type": "falcon",
        "hidden_size": 8192,
        "num_hidden_layers": 60,
        "num_attention_heads": 128,
        "num_kv_heads": 8,
        "vocab_size": 65024,
        "new_decoder_architecture": True,
        "parallel_attn": True,
        "bias": False,
        "alibi": False,
    },
    "bloom-176b": {
        "model_type": "bloom",
        "n_embed": 14336,
        "n_layer": 70,
        "num_attention_heads": 112,
        "vocab_size": 250880,
    },
    "opt-6.7b": {
        "model_type": "opt",
        "hidden_size": 4096,
        "ffn_dim": 16384,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": 4096,
    },
    "mpt-7b": {
        "model_type": "mpt",
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "expansion_ratio": 4,
        "vocab_size": 50432,
        "max_seq_len": 2048,
        "no_bias": True,
    },
}
FACTS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "huggingface_configs.yaml").read_text(encoding="utf-8")
)
"""Families of 2025 and later; tests/library/test_ecosystem.py compares them with Transformers."""
DIFFERS = {"named_only", "name", "aliases", "source", "notes", "parameters_basis", "published", "published_source"}
TOWER_KEYS = {"tower", "tower_parameters", "tower_tokens", "tower_token_pixels"}  # FACTS have the language part alone


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_gives_the_card_of_its_release(name: str) -> None:
    """What is read equals the card in models/, count included; only names and sources differ."""
    card = Architecture.model_validate(yaml.safe_load((CARDS / f"{name}.yaml").read_text(encoding="utf-8")))
    read = Architecture.model_validate(architecture_from_config(CONFIGS[name], name))
    assert read.model_dump(exclude=DIFFERS) == card.model_dump(exclude=DIFFERS)


@pytest.mark.parametrize("name", sorted(name for name, facts in FACTS.items() if "weights" in facts))
def test_a_config_has_the_weights_of_its_release(name: str) -> None:
    """The count equals the sum over the released tensors (Transformers 5.23 builds the same)."""
    assert architecture_from_config(FACTS[name]["config"], name)["parameters"] == FACTS[name]["weights"]


@pytest.mark.parametrize("name", sorted(set(FACTS) & {path.stem for path in CARDS.glob("*.yaml")}))
def test_a_config_of_2025_gives_the_card_of_its_release(name: str) -> None:
    """What is read equals the card in models/, count included."""
    card = Architecture.model_validate(yaml.safe_load((CARDS / f"{name}.yaml").read_text(encoding="utf-8")))
    read = Architecture.model_validate(architecture_from_config(FACTS[name]["config"], name))
    assert read.model_dump(exclude=DIFFERS | TOWER_KEYS) == card.model_dump(exclude=DIFFERS | TOWER_KEYS)


def test_experts_in_every_second_layer_leave_dense_layers() -> None:
    """Layers 0, 2, 4, 6 have no experts by the step, layer 7 by the list: five of eight are dense."""
    card = architecture_from_config(FACTS["sparse-every-second"]["config"], "x")
    assert (card["dense_layers"], card["dense_ffn"], card["ffn"]) == (5, 768, 96)


def test_experts_are_found_under_the_name_of_transformers_5() -> None:
    """A Qwen3 mixture that Transformers 5 wrote names its experts `num_local_experts`."""
    config = dict(CONFIGS["qwen3-30b-a3b"])
    config["num_local_experts"] = config.pop("num_experts")
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6}
    assert architecture_from_config(config, "x")["parameters"] == 30_532_122_624


def test_nested_text_config_is_read() -> None:
    """A multimodal file keeps the decoder's dimensions under text_config."""
    nested = {"model_type": "mllama", "text_config": LLAMA}
    assert architecture_from_config(nested, "x")["parameters"] == 8_030_261_248


@pytest.mark.parametrize(
    "nested",
    [
        {"model_type": "internvl_chat", "llm_config": CONFIGS["qwen2.5-0.5b"]},
        {"model_type": "qwen2_vl", **{k: v for k, v in CONFIGS["qwen2.5-0.5b"].items() if k != "model_type"}},
        {
            "model_type": "omni",
            "thinker_config": {"text_config": {**CONFIGS["qwen2.5-0.5b"], "model_type": "qwen2_vl"}},
        },
    ],
)
def test_the_language_part_is_found_and_said(nested: dict[str, Any]) -> None:
    """Under other keys, two deep, or on the top of the file; the family is that whose layers it has."""
    card = architecture_from_config({**nested, "vision_config": {}}, "x")
    assert (card["family"], card["parameters"]) == ("qwen2", 494_032_768)
    assert card["notes"].startswith("the language part of a multimodal model")
    assert "notes" not in architecture_from_config(CONFIGS["qwen2.5-0.5b"], "x")


# Configurations with the weights of tower and projector, made by Transformers 5.24.0 on the meta device.
TOWERS = json.loads((Path(__file__).parents[1] / "data" / "tower_counts.json").read_text(encoding="utf-8"))


def tower_name(case: dict[str, Any]) -> str:
    return f"{case['config']['model_type']}-{case['tower_parameters']}"


@pytest.mark.parametrize("case", TOWERS, ids=tower_name)
def test_an_image_tower_has_the_weights_of_its_class(case: dict[str, Any]) -> None:
    """Next to the language part, whose count it does not change."""
    card = Architecture.model_validate(architecture_from_config(case["config"], "x"))
    alone = Architecture.model_validate(architecture_from_config({**case["config"], "vision_config": None}, "x"))
    assert card.tower_parameters == case["tower_parameters"]
    assert (card.parameters, card.active_parameters) == (alone.parameters, alone.active_parameters)
    assert f"({card.tower_parameters:,} weights) counts as frozen" in card.notes
    assert alone.tower_parameters == 0
    assert "encoders of images and sound are not counted" in alone.notes


@pytest.mark.parametrize("name", ["gemma-3-4b", "gemma-3-12b", "gemma-3-27b", "llama-4-scout", "llama-4-maverick"])
def test_a_shipped_card_has_the_tower_of_its_config(name: str) -> None:
    """Transformers counted it next to a language model of that width."""
    card = Architecture.model_validate(yaml.safe_load((CARDS / f"{name}.yaml").read_text(encoding="utf-8")))
    family, width = card.family.removesuffix("_text"), card.hidden
    read = [
        Architecture.model_validate(architecture_from_config(case["config"], "x"))
        for case in TOWERS
        if case["config"]["model_type"] == family and case["config"]["text_config"]["hidden_size"] == width
    ]
    assert [card.model_dump(include=TOWER_KEYS)] == [one.model_dump(include=TOWER_KEYS) for one in read]


def of_type(family: str) -> dict[str, Any]:
    """Return the first recorded configuration of a model type."""
    return next(dict(case["config"]) for case in TOWERS if case["config"]["model_type"] == family)


# worked: a token of Qwen2.5-VL is 2 x 2 patches of 14 pixels: 1,280 x 784 pixels are 1,280 tokens. A tile of Llama 4
# has (336 / 14)^2 = 576 patches, of which a pixel shuffle by 0.5 makes a quarter; of SmolVLM (512 / 16)^2 / 4^2.
@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("qwen2_5_vl", "an image of 1,003,520 pixels has 1,280, one for each 28 x 28"),
        ("qwen3_vl", "an image of 1,003,520 pixels has 980, one for each 32 x 32"),
        ("gemma3", "256 an image or tile"),
        ("llama4", "144 an image or tile"),
        ("smolvlm", "64 an image or tile"),
    ],
)
def test_the_tokens_of_an_image_are_said(family: str, said: str) -> None:
    assert said in architecture_from_config(of_type(family), "x")["notes"]


def test_a_tower_of_another_class_is_not_counted() -> None:
    """A projector may be written for any encoder, or read several of its layers."""
    config = of_type("mistral3")
    others = (
        {**config, "vision_config": {**config["vision_config"], "model_type": "clip_vision_model"}},
        {**config, "vision_feature_layer": [-2, -1]},
    )
    for other in others:
        card = architecture_from_config(other, "x")
        assert "tower_parameters" not in card
        assert card["notes"] == "the language part of a multimodal model: encoders of images and sound are not counted"
    sound = architecture_from_config({**config, "audio_config": {"hidden_size": 8}}, "x")
    assert sound["notes"].endswith("; encoders of sound are not counted")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": "wide"}, "hidden_size: 'wide' is no number of 0 to 100,000,000"),
        ({"patch_size": 0}, "a patch has no pixels"),
        ({"hidden_size": [768, 768]}, "a list stands where a number is read"),
        ({"image_size": []}, "a list stands where a number is read"),
    ],
)
def test_a_tower_that_cannot_be_counted_is_refused(change: dict[str, Any], said: str) -> None:
    config = of_type("gemma3")
    with pytest.raises(LibraryError, match="vision_config") as refused:
        architecture_from_config({**config, "vision_config": {**config["vision_config"], **change}}, "x")
    assert said in str(refused.value)


@pytest.mark.parametrize(("tied", "weights"), [(True, 494_032_768), (False, 630_167_424)])
def test_the_head_of_a_multimodal_model_is_that_of_the_whole(tied: bool, weights: int) -> None:
    """The text part may say another thing."""
    text = {**CONFIGS["qwen2.5-0.5b"], "tie_word_embeddings": True}
    config = {"model_type": "some_vl", "tie_word_embeddings": tied, "text_config": text}
    assert architecture_from_config(config, "x")["parameters"] == weights


def test_gemma_3_slides_in_five_of_six_layers() -> None:
    """The 4B release names few keys of its text part: 29 of 34 layers slide, 3.88e9 weights, tied."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    card = architecture_from_config({"model_type": "gemma3", "text_config": {**text, "sliding_window": 1024}}, "x")
    assert (card["sliding_window"], card["sliding_layer_share"]) == (1024, pytest.approx(29 / 34))
    assert card["parameters"] == pytest.approx(3.88e9, rel=0.001)
    assert Architecture.model_validate(card).tied_embeddings


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ({"use_sliding_window": True, "max_window_layers": 14}, 0.5),
        ({"use_sliding_window": True, "max_window_layers": 28}, 0.0),
        ({"max_window_layers": 14}, 0.0),
        ({"use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"] * 14}, 0.5),
    ],
)
def test_the_layers_that_slide_are_counted(said: dict[str, Any], share: float) -> None:
    """Qwen2 slides from a layer on where it is switched on; newer files list every layer's kind."""
    config = {**CONFIGS["qwen2.5-0.5b"], "sliding_window": 4096, "num_hidden_layers": 28}
    config.pop("use_sliding_window")
    assert architecture_from_config({**config, **said}, "x").get("sliding_layer_share", 0.0) == share


def test_a_dimension_that_is_the_width_of_the_model_changes_nothing() -> None:
    """Files write it under further names."""
    plain = architecture_from_config(LLAMA, "x")
    assert architecture_from_config({**LLAMA, "embedding_size": LLAMA["hidden_size"], "sink_size": 4}, "x") == plain


def test_null_head_dim_means_hidden_by_heads() -> None:
    """Files write `head_dim: null`, or leave out the number of key-value heads."""
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    card = architecture_from_config({**config, "head_dim": None}, "x")
    assert (card["head_dim"], card["kv_heads"]) == (128, 32)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "lama"}, "'lama'; did you mean llama"),
        ({"model_type": "new", "mamba_d_ssm": 8}, "'new', which has state-space layers .key mamba_d_ssm.; if"),
        ({"model_type": "new", "kv_lora_rank": 8, "is_encoder_decoder": True}, "latent attention .* and an encoder"),
        ({**LLAMA, "model_type": "qwen4_moe"}, "did you mean .*qwen3_moe"),
        (
            {**LLAMA, "model_type": "minimax_m4", "sparse_attention_config": {"sparse_topk_blocks": 16}},
            "block-sparse attention .key sparse_attention_config.;.* choose a decoder whose layers are known$",
        ),
        ({**LLAMA, "sparse_attention_config": {"sparse_topk_blocks": 16}}, "attention_config: block-sparse attention"),
        ({"model_type": "mamba"}, "'mamba' cannot be planned: its state-space layers"),
        ({"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}}, "'gemma3n_text'.*AltUp"),
        ({**CONFIGS["qwen3-30b-a3b"], "shared_expert_intermediate_size": 1000}, "a shared expert, which qwen3"),
        ({**LLAMA, "kv_lora_rank": 512}, "kv_lora_rank: latent attention, which llama does not have"),
        (
            {**CONFIGS["qwen3-30b-a3b"], "routed_expert_hidden_size": 1024, "latent_rank": 8},
            r"no such dimension .*routed_expert_hidden_size 1024, latent_rank 8",
        ),
        ({**LLAMA, "layer_types": ["full_attention", "ssm"] * 16}, "unknown kind of layer 'ssm'"),
        ({}, "model_type"),
        ({**LLAMA, "num_hidden_layers": "32"}, "layers.*'32'"),
        ({**LLAMA, "vocab_size": True}, "vocab"),
        ({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}, "num_hidden_layers: missing"),
        ({**CONFIGS["opt-6.7b"], "word_embed_proj_dim": 512}, "word_embed_proj_dim"),
        ({**CONFIGS["qwen3-30b-a3b"], "mlp_only_layers": 3}, "mlp_only_layers: 3 is not a list"),
        ({**CONFIGS["mixtral-8x7b"], "num_experts_per_tok": 9}, "experts_per_token"),
    ],
)
def test_what_cannot_be_read_is_said(config: dict[str, Any], told: str) -> None:
    """An unknown family, a missing or odd key: the error names the file, the key and the remedy."""
    with pytest.raises(LibraryError, match=told) as caught:
        architecture_from_config(config, "my/config.json")
    assert caught.value.faults[0].file == "my/config.json"


def test_no_family_is_advised_that_would_refuse_the_file() -> None:
    """Experts and latent attention rule out the families without them, whatever they are called."""
    latent = {"kv_lora_rank": 512, "num_local_experts": 8}
    with pytest.raises(LibraryError) as caught:
        architecture_from_config({**LLAMA, **latent, "model_type": "lama"}, "x")
    advised = str(caught.value).partition("did you mean ")[2].partition("?")[0].split(" or ")
    assert "llama" not in advised


def test_every_number_that_cannot_be_used_is_named() -> None:
    """Also those that are missing."""
    wrong = {**LLAMA, "hidden_size": 1e30, "num_hidden_layers": -1, "vocab_size": "x"}
    del wrong["max_position_embeddings"]
    with pytest.raises(LibraryError) as caught:
        architecture_from_config(wrong, "my/config.json")
    named = {"hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings"}
    assert {fault.where for fault in caught.value.faults} == named
