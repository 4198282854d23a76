"""Counting weights: the released checkpoints are the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.inputs import Network
from planner.estimates.weights import (
    Dimensions,
    active_parameters,
    count_parameters,
    lora_parameters,
    training_flops,
    with_modules,
)

LLAMA_3_8B = Dimensions(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocab=128256)
MIXTRAL = replace(LLAMA_3_8B, vocab=32000, experts=8, experts_per_token=2)


def _network(dimensions: Dimensions) -> Network:
    d = dimensions
    return Network(
        parameters=count_parameters(d),
        active_parameters=active_parameters(d),
        layers=d.layers,
        hidden=d.hidden,
        heads=d.heads,
        kv_heads=d.kv_heads,
        head_dim=d.head_dim,
        ffn=d.ffn,
        vocab=d.vocab,
        tied=d.tied_embeddings,
        gated=d.gated,
        rope=True,
        experts=d.experts,
        experts_per_token=d.experts_per_token,
    )


def _old(layers: int, hidden: int, heads: int, vocab: int, **extra: object) -> Dimensions:
    """GPT-2's manner: no gate, biases everywhere, norms with bias, every head its own keys."""
    plain = Dimensions(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=4 * hidden,
        vocab=vocab,
        gated=False,
        norm_bias=True,
        qkv_bias=True,
        output_bias=True,
        ffn_bias=True,
    )
    return replace(plain, **extra)  # type: ignore[arg-type]


# Expected counts: sums over the tensors of the network that transformers 5.23.0 builds from the release's
# configuration (torch meta device), which for these agree with the counts shown on the release pages.
RELEASED = [
    ("Llama-2-70B", 68_976_648_192, Dimensions(80, 8192, 64, 8, 128, 28672, 32000)),
    ("Llama-3-8B", 8_030_261_248, LLAMA_3_8B),
    ("Llama-3.2-1B, tied", 1_235_814_400, Dimensions(16, 2048, 32, 8, 64, 8192, 128256, tied_embeddings=True)),
    ("Mistral-7B", 7_241_732_096, replace(LLAMA_3_8B, vocab=32000)),
    ("Mixtral-8x7B", 46_702_792_704, MIXTRAL),
    ("Qwen2.5-7B, biased qkv", 7_615_616_512, Dimensions(28, 3584, 28, 4, 128, 18944, 152064, qkv_bias=True)),
    (
        "Qwen3-30B-A3B, query and key norms",
        30_532_122_624,
        Dimensions(48, 2048, 32, 4, 128, 768, 151936, qk_norm=True, experts=128, experts_per_token=8),
    ),
    (
        "Gemma-2-9B, four norms and wide heads",
        9_241_705_984,
        Dimensions(42, 3584, 16, 8, 256, 14336, 256000, tied_embeddings=True, norms_per_layer=4),
    ),
    ("GPT-2", 124_439_808, _old(12, 768, 12, 50257, tied_embeddings=True, learned_positions=1024)),
    ("OPT-6.7B", 6_658_473_984, _old(32, 4096, 32, 50272, tied_embeddings=True, learned_positions=2050)),
    ("Pythia-6.9B", 6_857_302_016, _old(32, 4096, 32, 50432)),
    ("BLOOM", 176_247_271_424, _old(70, 14336, 112, 250880, tied_embeddings=True, embedding_norm=True)),
    (
        "Falcon-7B, one norm and one key head",
        6_921_720_704,
        Dimensions(
            32, 4544, 71, 1, 64, 18176, 65024, tied_embeddings=True, gated=False, norm_bias=True, norms_per_layer=1
        ),
    ),
    ("MPT-7B, no biases", 6_649_286_656, Dimensions(32, 4096, 32, 32, 128, 16384, 50432, True, gated=False)),
    (
        "DeepSeek-V3, latent attention, router bias (a buffer there) counted",
        671_026_419_200,
        Dimensions(
            61,
            7168,
            128,
            128,
            192,
            2048,
            129280,
            experts=256,
            experts_per_token=8,
            shared_experts=1,
            dense_layers=3,
            dense_ffn=18432,
            router_bias=True,
            q_lora_rank=1536,
            kv_lora_rank=512,
            rope_head_dim=64,
            value_head_dim=128,
        ),
    ),
]


@pytest.mark.parametrize(("label", "expected", "dimensions"), RELEASED, ids=[row[0] for row in RELEASED])
def test_counts_equal_the_released_weights(label: str, expected: int, dimensions: Dimensions) -> None:
    """One release of each family, to the last weight."""
    assert count_parameters(dimensions) == expected, label


def test_active_weights_leave_out_the_experts_not_chosen() -> None:
    """Mixtral's token meets 12.9B weights; a dense network's meets all of them."""
    assert active_parameters(MIXTRAL) == 12_879_925_248
    assert active_parameters(LLAMA_3_8B) == count_parameters(LLAMA_3_8B)


@pytest.mark.parametrize("change", [{"experts": 4, "experts_per_token": 5}, {"experts": 4}, {"dense_layers": 33}])
def test_impossible_dimensions_are_refused(change: dict[str, int]) -> None:
    """More experts per token than experts, none per token, more dense layers than layers."""
    with pytest.raises(ValueError):
        replace(LLAMA_3_8B, **change)


def test_lora_on_all_linears_of_llama_3_8b() -> None:
    """Rank 16 on all linears adds 41,943,040 weights, as peft 0.21 counts."""
    count = lora_parameters(_network(LLAMA_3_8B), 16)
    assert count.trainable == 41_943_040
    assert count.linears_per_layer == 7
    assert count.inputs_per_layer == 6 * 4096 + 14336


def test_lora_targets_select_linears() -> None:
    """Shorthands and names choose the same matrices, worked out by hand for Llama-3-8B."""
    network = _network(LLAMA_3_8B)
    wide, narrow = 4096 + 4096, 4096 + 1024
    assert lora_parameters(network, 8, "qv")[:3] == (32 * 8 * (wide + narrow), 2 * 4096, 2)
    assert lora_parameters(network, 8, ("v", "q")) == lora_parameters(network, 8, "qv")
    assert lora_parameters(network, 8, "attention")[:3] == (32 * 8 * 2 * (wide + narrow), 4 * 4096, 4)
    assert lora_parameters(network, 8, "down")[:3] == (32 * 8 * (4096 + 14336), 14336, 1)


def test_lora_adapts_every_expert_but_a_token_meets_few() -> None:
    """Mixtral: adapters of eight experts are trained, those of two are met."""
    count = lora_parameters(_network(MIXTRAL), 16)
    attention = 2 * (4096 + 4096) + 2 * (4096 + 1024)
    assert count.trainable == 32 * 16 * (attention + 8 * 3 * (4096 + 14336))
    assert count.linears_per_layer == 4 + 2 * 3
    assert count.inputs_per_layer == 4 * 4096 + 2 * (2 * 4096 + 14336)


PHI_3 = {"qkv_proj": ("q", "k", "v"), "o_proj": ("o",), "gate_up_proj": ("gate", "up"), "down_proj": ("down",)}


def test_adapters_of_a_fused_matrix_share_one_input() -> None:
    """Phi-3's manner on Llama-3-8B: the fused q, k, v have one A of 4096 and one B of 4096 + 2 x 1024."""
    network = with_modules(_network(LLAMA_3_8B), PHI_3)
    fused = lora_parameters(network, 8, ("q",))
    assert fused[:3] == (32 * 8 * (4096 + 6144), 4096, 1)
    assert fused == lora_parameters(network, 8, ("qkv_proj",)) == lora_parameters(network, 8, "qv")
    assert lora_parameters(network, 8, ("gate_up_proj",)).trainable == 32 * 8 * (4096 + 2 * 14336)
    assert lora_parameters(network, 8).linears_per_layer == 4


def test_a_name_chooses_every_module_that_ends_with_it() -> None:
    """Qwen-1 calls two modules c_proj: the output of attention and the last matrix of the feed-forward."""
    names = {"attn.c_attn": ("q", "k", "v"), "attn.c_proj": ("o",), "mlp.c_proj": ("down",)}
    network = with_modules(_network(LLAMA_3_8B), names)
    assert lora_parameters(network, 1, ("c_proj",)).trainable == 32 * (4096 + 4096 + 14336 + 4096)
    assert lora_parameters(network, 1, ("proj", "attn.c_proj")).trainable == 32 * (4096 + 4096)


def test_lora_without_gate_has_two_linears_per_feed_forward() -> None:
    """GPT-2 has no gate matrix: naming only it adapts nothing, which is an error."""
    network = _network(_old(12, 768, 12, 50257))
    assert lora_parameters(network, 4).linears_per_layer == 6
    with pytest.raises(ValueError, match="no linear"):
        lora_parameters(network, 4, ("gate",))


@pytest.mark.parametrize(("rank", "targets"), [(0, "qv"), (8, "all"), (8, ()), (8, ("w",))])
def test_unusable_lora_settings_are_refused(rank: int, targets: str | tuple[str, ...]) -> None:
    """A rank under one, an unknown shorthand, no target and an unknown name are told apart from a plan."""
    with pytest.raises(ValueError):
        lora_parameters(_network(LLAMA_3_8B), rank, targets)


def test_training_flops_follow_the_rule_of_six() -> None:
    """Six FLOP per weight and token; four with a frozen base; two more per recomputed forward pass."""
    assert training_flops(7e9, 1e9) == 42e18
    assert training_flops(7e9, 1e9, frozen=True) == 28e18
    assert training_flops(7e9, 1e9, recomputed=1.0) == 56e18


@settings(derandomize=True, max_examples=60)
@given(
    layers=st.integers(1, 8),
    heads=st.integers(1, 8),
    head_dim=st.sampled_from([8, 16, 64]),
    ffn=st.integers(1, 512),
    vocab=st.integers(1, 1000),
    experts=st.integers(2, 8),
    rank=st.integers(1, 64),
)
def test_counts_are_linear_in_what_they_should_be(
    layers: int, heads: int, head_dim: int, ffn: int, vocab: int, experts: int, rank: int
) -> None:
    """Layers and LoRA rank count linearly, tying saves a matrix, an expert costs a feed-forward and a row."""
    hidden = heads * head_dim
    d = Dimensions(layers, hidden, heads, heads, head_dim, ffn, vocab, experts=experts, experts_per_token=1)
    longer = count_parameters(replace(d, layers=2 * layers)) - count_parameters(d)
    assert longer == count_parameters(d) - count_parameters(replace(d, layers=0))
    assert count_parameters(d) - count_parameters(replace(d, tied_embeddings=True)) == vocab * hidden
    wider = count_parameters(replace(d, experts=experts + 1)) - count_parameters(d)
    assert wider == layers * (3 * hidden * ffn + hidden)
    assert active_parameters(d) <= count_parameters(d)
    network = _network(d)
    assert lora_parameters(network, rank).trainable == rank * lora_parameters(network, 1).trainable
