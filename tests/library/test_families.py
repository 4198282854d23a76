"""Decoders of known parts: counts against Transformers, what is refused by name, what a sequence keeps of each."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.configurations.grid import network_of
from planner.errors import LibraryError
from planner.estimates.device import attended_tokens
from planner.estimates.parts import Attention, DeltaNet, Experts, FeedForward, Mamba2, Part, cache_of
from planner.estimates.weights import Dimensions, active_parameters, count_parameters, linears_of, parts_of
from planner.generation.engine_recipes import served_model
from planner.library.decoder_parts import families, family
from planner.library.engines import read_engines
from planner.library.huggingface import architecture_from_config
from planner.library.schema import Architecture
from tests.library.test_huggingface import FACTS, LLAMA

COUNTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "family_counts.yaml").read_text(encoding="utf-8")
)
DRAWN = [(name, index) for name, rows in COUNTS["families"].items() for index in range(len(rows))]


def card_of(config: dict[str, Any]) -> Architecture:
    return Architecture.model_validate(architecture_from_config(config, "x"))


@pytest.mark.parametrize(("name", "index"), DRAWN)
def test_weights_are_those_of_transformers(name: str, index: int) -> None:
    """Parameters, and the buffers that a checkpoint has for routers and layers."""
    facts = COUNTS["families"][name][index]
    assert card_of(facts["config"]).parameters == facts["weights"] + facts.get("corrections", 0)


CORRECTIONS = ("e_score_correction_bias", "expert_bias", "layer_scalar")


@pytest.mark.ecosystem
@pytest.mark.parametrize(("name", "index"), DRAWN)
def test_transformers_builds_as_many_weights_again(name: str, index: int) -> None:
    """Recomputed with the installed version, from 5.24 on."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    facts = COUNTS["families"][name][index]
    config = dict(facts["config"])
    kind = config.pop("model_type")
    if tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 24) or kind not in transformers.CONFIG_MAPPING:
        pytest.skip(f"Transformers {transformers.__version__} does not know the family as it is now")
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(transformers.CONFIG_MAPPING[kind](**config))
    corrections = sum(one.numel() for key, one in built.named_buffers() if key.rpartition(".")[2] in CORRECTIONS)
    assert sum(one.numel() for one in built.parameters()) == facts["weights"]
    assert corrections == facts.get("corrections", 0)


@pytest.mark.parametrize("name", sorted(families()))
def test_every_family_has_a_valid_row(name: str) -> None:
    """And gives one that it is like no name that is not there."""
    assert family(name).norms
    assert families()[name].get("like", name) in families()


PLAIN = {**LLAMA, "num_hidden_layers": 4, "hidden_act": "silu", "rms_norm_eps": 1e-5}
STATED = {**PLAIN, "model_type": "unseen", "use_qk_norm": True}


def test_a_family_that_is_not_known_is_read_where_its_file_states_every_part() -> None:
    """As Qwen3 is read, whose queries and keys have norms; the notes say that the family is unknown."""
    unseen, known = card_of(STATED), card_of({**PLAIN, "model_type": "qwen3"})
    assert unseen.parameters == known.parameters
    assert "no family that is known" in unseen.notes
    mixture = {**STATED, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
    mixture |= {"n_shared_experts": 1, "first_k_dense_replace": 1, "topk_method": "noaux_tc"}
    like = {**mixture, "model_type": "dots1", "sliding_window": None}
    assert card_of(mixture).parameters == card_of(like).parameters


# Ling-mini-2.0 of inclusionAI (2025-09); the count is that of its weights on the Hub.
LING = {
    **{"model_type": "bailing_moe", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 20},
    **{"num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 157184, "use_bias": False},
    **{"num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512, "num_shared_experts": 1},
    **{"moe_shared_expert_intermediate_size": 512, "first_k_dense_replace": 1, "moe_router_enable_expert_bias": True},
    **{"moe_router_enable_shared_expert": True, "use_rmsnorm": True, "use_qk_norm": True, "use_qkv_bias": False},
    **{"n_group": 8, "topk_group": 4, "score_function": "sigmoid", "hidden_act": "silu", "rms_norm_eps": 1e-6},
    **{"max_position_embeddings": 32768, "tie_word_embeddings": False, "num_nextn_predict_layers": 0},
}


def test_a_released_mixture_without_a_row_is_counted_exactly() -> None:
    """Its shared expert has a count and a width of its own, and switches say of parts that they are there."""
    assert card_of(LING).parameters == 16_255_643_392
    wider = card_of({**LING, "moe_shared_expert_intermediate_size": 1024}).parameters
    assert wider - 16_255_643_392 == 19 * 3 * 2048 * 512  # 19 layers have experts


@pytest.mark.parametrize("width", [512, 1024])
def test_a_width_of_shared_experts_is_that_of_one_or_of_all(width: int) -> None:
    """Two of 512 are 1,024 wide together; a width that is neither is refused, not guessed."""
    two = {**LING, "num_shared_experts": 2, "moe_shared_expert_intermediate_size": width}
    assert card_of(two).parameters - 16_255_643_392 == 19 * 3 * 2048 * 512
    with pytest.raises(LibraryError, match=r"moe_shared_expert_intermediate_size: .*700 for 2 shared experts"):
        architecture_from_config({**two, "moe_shared_expert_intermediate_size": 700}, "x")


@pytest.mark.parametrize("changed", [{"model_type": "iquestloopcoder"}, {"loop_num": 2}, {"total_ut_steps": 4}])
def test_loops_over_layers_are_refused(changed: dict[str, Any]) -> None:
    """Layers that run twice cost twice the work: no plain decoder of the same keys is offered in their place."""
    with pytest.raises(LibraryError, match=r"(?s)loops over layers.*choose a decoder whose layers are known"):
        architecture_from_config({**STATED, **changed}, "x")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"use_qk_norm": None, "new_matrix_size": 512}, "new_matrix_size.*not known: 512"),
        ({"hidden_act": "gelu"}, "leaves open whether the feed-forward has a gate"),
        ({"n_routed_experts": 8}, "leaves open a bias of the router"),
        ({"layer_types": ["full_attention", "ssm"] * 2}, "unknown kind of layer 'ssm'"),
    ],
)
def test_a_part_that_is_not_known_is_refused_by_its_name(changed: dict[str, Any], told: str) -> None:
    """A key that no rule covers, a part that the file leaves open, a kind of layer that is new."""
    with pytest.raises(LibraryError, match=told):
        architecture_from_config({**STATED, **changed}, "x")
    left = {key: value for key, value in STATED.items() if key != "use_qk_norm"}
    with pytest.raises(LibraryError, match=r"leaves open norms of queries and keys \(use_qk_norm\)"):
        architecture_from_config(left, "x")


@pytest.mark.parametrize("value", [None, False, 0, [], {}, float("inf"), 0.1])
def test_a_key_without_effect_changes_nothing(value: Any) -> None:
    """Null and false are no features; an infinite limit of another part is none either."""
    harmless = {"time_step_limit": [0.0, float("inf")], "num_experts": None, "kv_lora_rank": None, "resid_pdrop": value}
    assert card_of({**PLAIN, **harmless}) == card_of(PLAIN)
    assert card_of({**STATED, **harmless}).parameters == card_of(STATED).parameters


def test_the_class_that_a_file_names_is_its_family() -> None:
    """Kimi K2 calls itself kimi_k2, and others what they like, but the class is that of DeepSeek-V3."""
    config = {**FACTS["deepseek-v3"]["config"], "model_type": "my_own", "architectures": ["DeepseekV3ForCausalLM"]}
    card = card_of(config)
    assert (card.family, card.parameters) == ("deepseek_v3", 671_026_419_200)
    assert "my_own is read as deepseek_v3" in card.notes


def test_a_part_of_another_model_has_the_defaults_of_its_class() -> None:
    """LLaVA's text part names what differs from LLaMA; Mistral without key-value heads has 8, with null one a head."""
    text = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}
    assert card_of({"model_type": "llava", "text_config": text}).parameters == 6_738_939_904
    mistral = {key: value for key, value in PLAIN.items() if key != "num_key_value_heads"} | {"model_type": "mistral"}
    assert card_of(mistral).kv_heads == 8
    assert card_of({**mistral, "num_key_value_heads": None}).kv_heads == 32


# The same decoder by its dimensions and by its parts; what the parts mean for memory and time.


SHAPES = st.builds(
    Dimensions,
    layers=st.integers(1, 9),
    hidden=st.sampled_from([64, 320]),
    heads=st.just(8),
    kv_heads=st.sampled_from([1, 2, 8]),
    head_dim=st.sampled_from([16, 32]),
    ffn=st.sampled_from([96, 256]),
    vocab=st.just(1000),
    norms_per_layer=st.sampled_from([1, 2, 4]),
    gated=st.booleans(),
    qkv_bias=st.booleans(),
    ffn_bias=st.booleans(),
    experts=st.sampled_from([0, 8]),
    experts_per_token=st.just(2),
    shared_experts=st.integers(0, 2),
    router_bias=st.booleans(),
)


@given(SHAPES)
def test_parts_say_the_same_as_dimensions(dimensions: Dimensions) -> None:
    """Weights, those that a token meets, and the linear layers that adapters extend."""
    listed = replace(dimensions, parts=parts_of(dimensions))
    assert count_parameters(listed) == count_parameters(dimensions)
    assert active_parameters(listed) == active_parameters(dimensions)
    modules = {"q": ("q",), "down": ("down",), "experts.down": ("experts.down",)}
    assert linears_of(listed, modules) == linears_of(dimensions, modules)


def test_a_sequence_keeps_keys_windows_and_states() -> None:
    """Layers with all keys, with those of another layer, with a window, and with a state and its inputs."""
    parts: tuple[Part, ...] = (
        Attention("attention", 3, heads=8, kv_heads=2, head_dim=64),
        Attention("attention", 2, heads=8, kv_heads=2, head_dim=64, keys="shared"),
        Attention("attention", 1, heads=8, kv_heads=2, head_dim=64, window=512),
        Mamba2("mamba2", 1, heads=8, head_dim=16, groups=1, state_size=32, kernel=4),
        FeedForward("feed_forward", 7, width=64),
        Experts("experts", 1, experts=4, per_token=2, width=64),
    )
    kept = cache_of(parts)
    assert (kept.elements, kept.window_share, kept.window) == (4 * 256, 0.25, 512)
    assert kept.state == 8 * 16 * 32 + (8 * 16 + 2 * 32) * 3
    assert kept.score_width == 6 * 8 * 64


def test_hybrids_attend_in_few_layers_and_keep_states() -> None:
    """Nemotron 3 Nano: 6 of 52 layers have keys, 2 heads of 128; a state costs as much as 9,000 of their tokens."""
    card = card_of(FACTS["nemotron-3-nano-30b-a3b"]["config"])
    network = network_of(card)
    whole = attended_tokens(network, 100_000)
    assert whole == pytest.approx(6 / 52 * 100_000, rel=0.05)
    assert attended_tokens(network, 100_000, skips=False) == whole
    served = served_model(card, read_engines().formats["bf16"])
    assert served.cache_layers * 2 * served.kv_heads * served.head_dim == 6 * 512
    state = 23 * (64 * 64 * 128 + (64 * 64 + 2 * 8 * 128) * 3)
    assert served.state_tokens == pytest.approx(state / (6 * 512))


def test_gemma_4_has_wider_heads_where_it_attends_to_all() -> None:
    """Keys and values of sliding layers have 256 values a head, of full ones 512; the last layers borrow theirs."""
    text = {"model_type": "gemma4_text", "num_hidden_layers": 12, "num_kv_shared_layers": 4, "sliding_window": 512}
    card = card_of({"model_type": "gemma4", "text_config": text})
    dimensions = Dimensions(**{one.name: getattr(card, one.name) for one in fields(Dimensions)})
    kept = cache_of(parts_of(dimensions))
    assert kept.elements == 7 * 2 * 4 * 256 + 1 * 2 * 4 * 512  # layers 0 to 7, of which the sixth is full
    assert card.active_parameters < card.parameters  # a token meets one row of the embeddings of every layer
    assert kept.window == 512


def test_linear_attention_costs_the_same_for_every_token() -> None:
    """Olmo Hybrid and Qwen3-Next have one full layer in four; kernels that mask windows still skip the others."""
    card = card_of(FACTS["qwen3-next-80b-a3b"]["config"])
    network = network_of(card)
    assert attended_tokens(network, 1_000_000, skips=False) == pytest.approx(250_000, rel=0.01)
    assert isinstance(
        parts_of(Dimensions(**{one.name: getattr(card, one.name) for one in fields(Dimensions)}))[1], DeltaNet
    )
