"""Readers of `config.json` for dense decoders: one function per family returns the keys of its card.

A key that a file leaves out means the default of that family's configuration class.
"""

from __future__ import annotations

from typing import Any

from planner.library.config_keys import Config, NotCovered, card, first, flag, whole, window


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
