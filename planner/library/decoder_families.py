"""Readers of `config.json`: one function per family of dense, mixture and linear-attention decoders.

A key that a file leaves out means the default of that family's configuration class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.documents.quantities import format_value

# Keys of a Hugging Face `config.json`: reading and checking the ones that families share.


Config = Mapping[str, Any]
MAX_DIMENSION, MAX_PARAMETERS = 10**8, 10**15
"""Largest width, depth or length, and most weights: far above any model."""


class NotCovered(Exception):
    """A file of a known family that would be counted wrongly; its arguments are key, what and fix."""


class NoWholeNumber(NotCovered):
    """A key that is missing or has no number in range; with another value the rest of the file can be read."""


def whole(config: Config, key: str, default: int | None = None) -> int:
    """Return a positive whole number; `default` where the file has none, or 0 or null; NoWholeNumber without either."""
    if default is None and key not in config:
        raise NoWholeNumber(key, "missing", "")  # the family names the fix
    value = config[key] if default is None else config.get(key) or default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_DIMENSION:
        fix = f"give a whole number of 1 to {MAX_DIMENSION:,}"
        raise NoWholeNumber(key, f"{format_value(value)} is out of range or no number", fix)
    return value


def first(config: Config, *keys: str) -> str:
    """Return the first key that has a value, else the last: files of several ages name the same thing differently."""
    return next((key for key in keys if config.get(key)), keys[-1])


def flag(config: Config, key: str, default: bool = False) -> bool:
    """Return a switch; null is `default`."""
    value = config.get(key)
    return default if value is None else bool(value)


def items(config: Config, key: str) -> list[Any]:
    """Return a list, empty where the file has none."""
    value = config.get(key)
    if value and not isinstance(value, list):
        raise NotCovered(key, f"{format_value(value)} is not a list", "list one entry per layer")
    return value or []


def card(
    config: Config,
    *,
    layers: str = "num_hidden_layers",
    hidden: str = "hidden_size",
    heads: str = "num_attention_heads",
    positions: str = "max_position_embeddings",
    ffn: int | None = None,
    tied: bool = False,
    **extra: Any,
) -> dict[str, Any]:
    """Return the keys that all families have, read under the names that this family gives them.

    `ffn` is the width of the feed-forward where it has no key of its own; `tied` is the family's default.
    """
    width, count = whole(config, hidden), whole(config, heads)
    return {
        "layers": whole(config, layers),
        "hidden": width,
        "heads": count,
        "kv_heads": whole(config, "num_key_value_heads", count),
        "head_dim": whole(config, "head_dim", max(width // count, 1)),
        "ffn": whole(config, "intermediate_size") if ffn is None else ffn,
        "vocab": whole(config, "vocab_size"),
        "max_sequence": whole(config, positions),
        "tied_embeddings": flag(config, "tie_word_embeddings", tied),
        **extra,
    }


def window(config: Config, share: float, used: bool = True) -> dict[str, Any]:
    """Files say null or `use_sliding_window: false` for none; newer ones list each layer, else `share` slide."""
    kinds = items(config, "layer_types")
    if kinds:
        share = sum(kind == "sliding_attention" for kind in kinds) / len(kinds)
    if not config.get("sliding_window") or not share or not flag(config, "use_sliding_window", used):
        return {}
    return {"sliding_window": whole(config, "sliding_window"), "sliding_layer_share": share}


def llama(config: Config) -> dict[str, Any]:
    """Return the card of Llama and its like."""
    attention_bias = flag(config, "attention_bias")
    ffn_bias = flag(config, "mlp_bias")
    return card(config, qkv_bias=attention_bias, output_bias=attention_bias, ffn_bias=ffn_bias)


def smollm3(config: Config) -> dict[str, Any]:
    """Return SmolLM3: Llama with tied embeddings; a quarter of its layers do not rotate, which changes no weight."""
    return {**llama(config), "tied_embeddings": flag(config, "tie_word_embeddings", True), **window(config, 0.0, False)}


def olmo2(config: Config) -> dict[str, Any]:
    """Return OLMo 2 and 3: one norm over all queries and one over all keys; three of four layers of OLMo 3 slide."""
    bias = flag(config, "attention_bias")
    slides = window(config, 0.75) if config["model_type"] == "olmo3" else {}
    return card(config, qk_norm=True, qk_norm_all_heads=True, qkv_bias=bias, output_bias=bias, **slides)


def mistral(config: Config) -> dict[str, Any]:
    """Return the card of Mistral and Phi-3: every layer slides where a window is given."""
    return card(config, **window(config, 1.0))


def qwen2(config: Config) -> dict[str, Any]:
    """Return the card of Qwen2 and 2.5: biased queries, keys and values."""
    # The window starts at layer `max_window_layers`, in released files the last one, and is off unless they say so.
    layers, full = whole(config, "num_hidden_layers"), config.get("max_window_layers")
    sliding = max(layers - (0 if full == 0 else whole(config, "max_window_layers", 28)), 0) / layers
    return card(config, qkv_bias=True, **window(config, sliding, used=False))


def qwen3(config: Config) -> dict[str, Any]:
    """Return the card of Qwen3: norms of queries and keys."""
    bias = flag(config, "attention_bias")
    return card(config, qk_norm=True, qkv_bias=bias, output_bias=bias)


def gemma(config: Config) -> dict[str, Any]:
    """Return the card of Gemma 1: two norms per layer, wide heads, tied embeddings."""
    return card(config, tied=True)


def gemma2(config: Config) -> dict[str, Any]:
    """Return the card of Gemma 2."""
    # Gemma ties its embeddings; every second layer slides.
    return card(config, tied=True, norms_per_layer=4, **window(config, 0.5))


def gemma3(config: Config) -> dict[str, Any]:
    """Return the text part of Gemma 3."""
    # Multimodal releases leave out what their configuration class defaults to. Five layers slide for one that does not.
    usual = {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "max_position_embeddings": 131072,
        "sliding_window": 4096,
    }  # fmt: skip
    config = {**usual, **config}
    layers, every = whole(config, "num_hidden_layers"), whole(config, "sliding_window_pattern", 6)
    slides = window(config, 1 - layers // every / layers)
    return card(config, tied=True, norms_per_layer=4, qk_norm=True, **slides)


def _older(config: Config, *, bias: bool = True, **extra: Any) -> dict[str, Any]:
    """Return the keys of an older family: LayerNorm, linears with biases unless `bias` is false, and no gate."""
    biases = dict.fromkeys(("qkv_bias", "output_bias", "ffn_bias"), bias)
    return card(config, **{"gated": False, "norm": "layernorm", "norm_bias": True, **biases, **extra})


def gpt2(config: Config) -> dict[str, Any]:
    """Return the card of GPT-2."""
    names: dict[str, Any] = {"layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "positions": "n_positions"}
    ffn, positions = whole(config, "n_inner", 4 * whole(config, "n_embd")), whole(config, "n_positions")
    return _older(config, ffn=ffn, learned_positions=positions, rope=False, tied=True, **names)


def gpt_neox(config: Config) -> dict[str, Any]:
    """Return the card of GPT-NeoX and Pythia."""
    bias = bool(config.get("attention_bias", True))
    parallel = bool(config.get("use_parallel_residual", True))
    return _older(config, parallel_residual=parallel, qkv_bias=bias, output_bias=bias)


def falcon(config: Config) -> dict[str, Any]:
    """Return the card of Falcon."""
    config = {**config, "max_position_embeddings": whole(config, "max_position_embeddings", 2048)}
    heads = first(config, "num_attention_heads", "n_head")
    new_decoder = bool(config.get("new_decoder_architecture", False))
    kv_heads = 1 if config.get("multi_query", True) else whole(config, heads)
    if new_decoder:
        kv_heads = whole(config, "num_kv_heads", whole(config, heads))
    parallel = bool(config.get("parallel_attn", True)) or new_decoder
    two_norms = whole(config, "num_ln_in_parallel_attn", 2 if new_decoder else 1)
    return _older(
        config,
        layers=first(config, "num_hidden_layers", "n_layer"),
        heads=heads,
        ffn=whole(config, "ffn_hidden_size", 4 * whole(config, "hidden_size")),
        kv_heads=kv_heads,
        rope=not config.get("alibi", False),
        parallel_residual=parallel,
        norms_per_layer=two_norms if parallel else 2,
        tied=True,
        bias=bool(config.get("bias", False)),
    )


def bloom(config: Config) -> dict[str, Any]:
    """Return the card of BLOOM."""
    # ALiBi has no table to read a length from; `seq_length` is what it was trained with.
    config = {**config, "seq_length": whole(config, "seq_length", 2048)}
    hidden, heads = first(config, "hidden_size", "n_embed"), first(config, "n_head", "num_attention_heads")
    names: dict[str, Any] = {"layers": "n_layer", "hidden": hidden, "heads": heads, "positions": "seq_length"}
    return _older(config, ffn=4 * whole(config, hidden), rope=False, embedding_norm=True, tied=True, **names)


def opt(config: Config) -> dict[str, Any]:
    """Return the card of OPT."""
    if config.get("word_embed_proj_dim", config["hidden_size"]) != config["hidden_size"]:
        what = "projected embeddings (OPT-350M) are not supported"
        raise NotCovered("word_embed_proj_dim", what, "choose another size of the family")
    bias, rows = bool(config.get("enable_bias", True)), whole(config, "max_position_embeddings") + 2  # for padding
    return _older(config, ffn=whole(config, "ffn_dim"), learned_positions=rows, rope=False, tied=True, bias=bias)


def mpt(config: Config) -> dict[str, Any]:
    """Return the card of MPT."""
    names: dict[str, Any] = {"layers": "n_layers", "hidden": "d_model", "heads": "n_heads", "positions": "max_seq_len"}
    bias, ffn = not config.get("no_bias", True), whole(config, "expansion_ratio", 4) * whole(config, "d_model")
    return _older(config, ffn=ffn, rope=False, tied=True, norm_bias=bias, bias=bias, **names)


# Readers of `config.json` for mixtures of experts and for decoders with linear attention: one function per family.
#
# A key that a file leaves out means the default of that family's configuration class.
# Transformers 5 writes `num_local_experts` for every mixture, whatever the release called it.


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
