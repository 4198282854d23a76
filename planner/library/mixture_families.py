"""Readers of `config.json` for mixtures of experts and for decoders with linear attention: one function per family.

A key that a file leaves out means the default of that family's configuration class.
Transformers 5 writes `num_local_experts` for every mixture, whatever the release called it.
"""

from __future__ import annotations

from typing import Any

from planner.library.config_keys import Config, NotCovered, card, first, flag, items, whole, window
from planner.library.decoder_families import qwen3


def mixtral(config: Config) -> dict[str, Any]:
    """Return the card of Mixtral: experts in every layer."""
    return card(config, **_experts(config), **window(config, 1.0))


def qwen2_moe(config: Config) -> dict[str, Any]:
    """Return the card of Qwen1.5-MoE and Qwen2-MoE: biased queries, a gated shared expert."""
    return {**card(config, qkv_bias=flag(config, "qkv_bias", True)), **_qwen_experts(config)}


def qwen3_moe(config: Config) -> dict[str, Any]:
    """Return the card of Qwen3-MoE."""
    return {**qwen3(config), **_qwen_experts(config)}


def qwen3_5(config: Config) -> dict[str, Any]:
    """Return the text part of Qwen3.5: three of four layers have linear attention, queries carry a gate."""
    return {**qwen3(config), "query_gate": True, **_linear_attention(config)}


def qwen3_next(config: Config) -> dict[str, Any]:
    """Return Qwen3-Next and Qwen3.5-MoE: linear attention as in Qwen3.5, and experts."""
    # Qwen3.5's mixtures state no width of a dense layer, for they have none.
    config = {**config, "intermediate_size": whole(config, "intermediate_size", whole(config, "moe_intermediate_size"))}
    return {**qwen3_5(config), **_qwen_experts(config)}


def deepseek_v3(config: Config) -> dict[str, Any]:
    """Return the card of DeepSeek-V3: latent attention, leading dense layers, a router with a correction per expert."""
    if flag(config, "attention_bias"):
        raise NotCovered("attention_bias", "biases of latent attention are not supported", "give false, as released")
    rotated = whole(config, "qk_rope_head_dim", 64)
    latent = {
        "head_dim": whole(config, "qk_nope_head_dim", 128) + rotated,
        "q_lora_rank": whole(config, "q_lora_rank", 1536) if config.get("q_lora_rank", 1536) else 0,
        "kv_lora_rank": whole(config, "kv_lora_rank", 512),
        "rope_head_dim": rotated,
        "value_head_dim": whole(config, "v_head_dim", 128),
        "kv_heads": whole(config, "num_attention_heads"),
    }
    return {**card(config), **latent, **_leading_dense(config, first_dense=3)}


def glm4_moe(config: Config) -> dict[str, Any]:
    """Return the card of GLM-4.5 and later; the layer for multi-token prediction is left out, as in Transformers."""
    bias, norm = flag(config, "attention_bias"), flag(config, "use_qk_norm")
    return {**card(config, qkv_bias=bias, qk_norm=norm), **_leading_dense(config, first_dense=1)}


def gpt_oss(config: Config) -> dict[str, Any]:
    """Return the card of gpt-oss: biases everywhere, a learned sink per head; every second layer slides."""
    biases = dict.fromkeys(("qkv_bias", "output_bias"), flag(config, "attention_bias", True))
    more: dict[str, Any] = {**biases, **_experts(config), **window(config, 0.5)}
    return card(config, ffn_bias=True, router_bias=True, attention_sinks=True, **more)


def llama4(config: Config) -> dict[str, Any]:
    """Return the text part of Llama 4: a shared expert, dense layers in between, attention within chunks.

    A chunk counts as a window of its length: an over-estimate, since a token meets half a chunk on average.
    """
    layers, step = whole(config, "num_hidden_layers"), whole(config, "interleave_moe_layer_step", 1)
    sparse = len(items(config, "moe_layers")) or layers // step
    bias = flag(config, "attention_bias")
    found = card(config, qkv_bias=bias, output_bias=bias, shared_experts=1, **_experts(config))
    if sparse < layers:
        found |= {"dense_layers": layers - sparse, "dense_ffn": whole(config, "intermediate_size_mlp")}
    kinds = items(config, "layer_types")
    interval = whole(config, "no_rope_layer_interval", 4)
    whole_layers = kinds.count("full_attention") if kinds else layers // interval
    if config.get("attention_chunk_size") and whole_layers < layers:
        chunk = whole(config, "attention_chunk_size")
        found |= {"sliding_window": chunk, "sliding_layer_share": 1 - whole_layers / layers}
    return found


def _experts(config: Config) -> dict[str, Any]:
    key = first(config, "num_local_experts", "n_routed_experts", "num_experts")
    return {"experts": whole(config, key), "experts_per_token": whole(config, "num_experts_per_tok")}


def _qwen_experts(config: Config) -> dict[str, Any]:
    """Return experts in every `decoder_sparse_step`-th layer but those of `mlp_only_layers`, and the shared expert."""
    layers, step = whole(config, "num_hidden_layers"), whole(config, "decoder_sparse_step", 1)
    plain = {index for index in range(layers) if (index + 1) % step} | set(items(config, "mlp_only_layers"))
    width = whole(config, "moe_intermediate_size")
    found: dict[str, Any] = {"ffn": width, **_experts(config)}
    if plain:
        found |= {"dense_layers": len(plain), "dense_ffn": whole(config, "intermediate_size")}
    shared = config.get("shared_expert_intermediate_size")
    if shared:
        if whole(config, "shared_expert_intermediate_size") % width:
            what = f"a shared expert of {shared} is no whole number of experts of {width}"
            raise NotCovered("shared_expert_intermediate_size", what, "give a multiple of moe_intermediate_size")
        found |= {"shared_experts": shared // width, "shared_expert_gate": True}
    return found


def _leading_dense(config: Config, first_dense: int) -> dict[str, Any]:
    """Return routed and shared experts behind `first_k_dense_replace` dense layers, as DeepSeek and GLM have them."""
    dense = config.get("first_k_dense_replace", first_dense)
    found: dict[str, Any] = {"ffn": whole(config, "moe_intermediate_size"), **_experts(config), "router_bias": True}
    if config.get("n_shared_experts", 1):
        found["shared_experts"] = whole(config, "n_shared_experts", 1)
    if dense:
        dense_layers = whole(config, "first_k_dense_replace", first_dense)
        found |= {"dense_layers": dense_layers, "dense_ffn": whole(config, "intermediate_size")}
    return found


def _linear_attention(config: Config) -> dict[str, Any]:
    """Return the layers with a gated delta rule in place of attention, and their dimensions."""
    layers, every = whole(config, "num_hidden_layers"), whole(config, "full_attention_interval", 4)
    kinds = items(config, "layer_types")
    linear = kinds.count("linear_attention") if kinds else layers - layers // every
    if not linear:
        return {}
    return {
        "linear_layers": linear,
        "linear_key_heads": whole(config, "linear_num_key_heads", 16),
        "linear_value_heads": whole(config, "linear_num_value_heads", 32),
        "linear_key_dim": whole(config, "linear_key_head_dim", 128),
        "linear_value_dim": whole(config, "linear_value_head_dim", 128),
        "linear_kernel": whole(config, "linear_conv_kernel_dim", 4),
    }
