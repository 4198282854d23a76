"""Readers of `config.json`: one function per older family, whose files name the same things in ways of their own.

Later decoders are read by their parts (decoder_parts.py). A key that a file leaves out means the default of that
family's configuration class.
"""

from __future__ import annotations

from typing import Any

from planner.errors import format_value
from planner.library.decoder_keys import MAX_DIMENSION, Config, NotCovered, NoWholeNumber


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
    if config.get("do_layer_norm_before") is False:
        what = "norms after each layer, without one at the end (OPT-350M), are not supported"
        raise NotCovered("do_layer_norm_before", what, "choose another size of the family")
    if config.get("layer_norm_elementwise_affine") is False:
        what = "norms without weights are not supported"
        raise NotCovered("layer_norm_elementwise_affine", what, "choose another size of the family")
    bias, rows = bool(config.get("enable_bias", True)), whole(config, "max_position_embeddings") + 2  # for padding
    return _older(config, ffn=whole(config, "ffn_dim"), learned_positions=rows, rope=False, tied=True, bias=bias)


def mpt(config: Config) -> dict[str, Any]:
    """Return the card of MPT."""
    names: dict[str, Any] = {"layers": "n_layers", "hidden": "d_model", "heads": "n_heads", "positions": "max_seq_len"}
    bias, ffn = not config.get("no_bias", True), whole(config, "expansion_ratio", 4) * whole(config, "d_model")
    return _older(config, ffn=ffn, rope=False, tied=True, norm_bias=bias, bias=bias, **names)
