"""Hugging Face `config.json` to the content of an architecture card, without the transformers package.

Covers the decoder families at the end of this file.
A key that a file leaves out means the default of that family's configuration class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from planner.errors import Fault, LibraryError
from planner.estimates.parameters import Dimensions, active_parameters, count_parameters

Config = Mapping[str, Any]
_DIMENSIONS = frozenset(field.name for field in fields(Dimensions))


def architecture_from_config(config: Config, name: str) -> dict[str, Any]:
    """Return the keys of an `Architecture` card for `config`, counts included; the caller validates them.

    Multimodal files nest the decoder under `text_config`; that part is read.
    Raises LibraryError when the family is unknown or a key is missing or no positive whole number.
    """
    if isinstance(config.get("text_config"), Mapping):
        config = {**config, **config["text_config"]}
    family = config.get("model_type")
    if not isinstance(family, str) or family not in _READERS:
        fix = f"expected one of {', '.join(sorted(_READERS))}"
        raise _fault(name, "model_type", f"{family!r} is no family that can be read", fix)
    try:
        card = _READERS[family](config)
    except KeyError as missing:
        raise _fault(name, str(missing.args[0]), f"missing; a {family} config.json has it") from missing
    except _NotCovered as refused:
        raise _fault(name, refused.key, refused.reason) from refused
    for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_sequence"):
        if not isinstance(card[key], int) or isinstance(card[key], bool) or card[key] < 1:
            raise _fault(name, key, f"{card[key]!r} is not a positive whole number")
    try:
        dimensions = Dimensions(**{key: value for key, value in card.items() if key in _DIMENSIONS})
    except ValueError as error:
        raise _fault(name, "", str(error)) from error
    return {
        "name": name,
        "family": family,
        "parameters": count_parameters(dimensions),
        "active_parameters": active_parameters(dimensions),
        "parameters_basis": "computed",
        "source": f"config.json of {config.get('_name_or_path') or name}",
        **card,
    }


class _NotCovered(Exception):
    """A file of a known family that this reader would count wrongly."""

    def __init__(self, key: str, reason: str):
        self.key, self.reason = key, reason
        super().__init__(reason)


def _fault(name: str, where: str, what: str, fix: str = "") -> LibraryError:
    return LibraryError([Fault(name, 0, where, what, fix)])


def _llama_like(config: Config, *, tied: bool = False, **extra: Any) -> dict[str, Any]:
    """Keys that llama, mistral, qwen, gemma and phi files share."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    return {
        "layers": config["num_hidden_layers"],
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": config.get("head_dim") or hidden // heads,
        "ffn": config["intermediate_size"],
        "vocab": config["vocab_size"],
        "max_sequence": config["max_position_embeddings"],
        "tied_embeddings": bool(config.get("tie_word_embeddings", tied)),
        **extra,
    }


def _window(config: Config, share: float, used: bool = True) -> dict[str, Any]:
    """Files say null or `use_sliding_window: false` for none; newer ones list each layer, else `share` slide."""
    window, kinds = config.get("sliding_window"), config.get("layer_types")
    if kinds:
        share = sum(kind == "sliding_attention" for kind in kinds) / len(kinds)
    if not window or not share or not config.get("use_sliding_window", used):
        return {}
    return {"sliding_window": window, "sliding_layer_share": share}


def _llama(config: Config) -> dict[str, Any]:
    attention_bias = bool(config.get("attention_bias", False))
    ffn_bias = bool(config.get("mlp_bias", False))
    return _llama_like(config, qkv_bias=attention_bias, output_bias=attention_bias, ffn_bias=ffn_bias)


def _mistral(config: Config) -> dict[str, Any]:
    return _llama_like(config, **_window(config, 1.0))


def _mixtral(config: Config) -> dict[str, Any]:
    experts = {"experts": config["num_local_experts"], "experts_per_token": config["num_experts_per_tok"]}
    return _llama_like(config, **experts, **_window(config, 1.0))


def _qwen2(config: Config) -> dict[str, Any]:
    # The window starts at layer `max_window_layers`, in released files the last one, and is off unless they say so.
    layers = config["num_hidden_layers"]
    sliding = max(layers - int(config.get("max_window_layers", 28)), 0) / layers if isinstance(layers, int) else 0.0
    return _llama_like(config, qkv_bias=True, **_window(config, sliding, used=False))


def _qwen3(config: Config) -> dict[str, Any]:
    bias = bool(config.get("attention_bias", False))
    return _llama_like(config, qk_norm=True, qkv_bias=bias, output_bias=bias)


def _qwen3_moe(config: Config) -> dict[str, Any]:
    if config.get("decoder_sparse_step", 1) != 1 or config.get("mlp_only_layers"):
        raise _NotCovered("decoder_sparse_step", "layers without experts in between are not covered")
    card = _qwen3(config)
    experts = {"experts": config["num_experts"], "experts_per_token": config["num_experts_per_tok"]}
    return {**card, "ffn": config["moe_intermediate_size"], **experts}


def _gemma2(config: Config) -> dict[str, Any]:
    # Gemma ties its embeddings; every second layer slides.
    return _llama_like(config, tied=True, norms_per_layer=4, **_window(config, 0.5))


def _gemma3(config: Config) -> dict[str, Any]:
    # Multimodal releases leave out what their configuration class defaults to. Five layers slide for one that does not.
    usual = {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "max_position_embeddings": 131072,
        "sliding_window": 4096,
    }  # fmt: skip
    config = {**usual, **config}
    layers, every = config["num_hidden_layers"], int(config.get("sliding_window_pattern") or 6)
    sliding = 1 - layers // every / layers if isinstance(layers, int) and layers else 0.0
    return _llama_like(config, tied=True, norms_per_layer=4, qk_norm=True, **_window(config, sliding))


def _phi3(config: Config) -> dict[str, Any]:
    return _llama_like(config, **_window(config, 1.0))


def _plain(layers: int, hidden: int, heads: int, ffn: int, **extra: Any) -> dict[str, Any]:
    """Return what the older families share: every head its own keys, LayerNorm and linears with biases."""
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": hidden // heads,
        "ffn": ffn,
        "gated": False,
        "norm": "layernorm",
        "norm_bias": True,
        "qkv_bias": True,
        "output_bias": True,
        "ffn_bias": True,
        **extra,
    }


def _gpt2(config: Config) -> dict[str, Any]:
    hidden, positions = config["n_embd"], config["n_positions"]
    return _plain(
        config["n_layer"],
        hidden,
        config["n_head"],
        config.get("n_inner") or 4 * hidden,
        vocab=config["vocab_size"],
        max_sequence=positions,
        learned_positions=positions,
        rope=False,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
    )


def _gpt_neox(config: Config) -> dict[str, Any]:
    attention_bias = bool(config.get("attention_bias", True))
    return _plain(
        config["num_hidden_layers"],
        config["hidden_size"],
        config["num_attention_heads"],
        config["intermediate_size"],
        vocab=config["vocab_size"],
        max_sequence=config["max_position_embeddings"],
        parallel_residual=bool(config.get("use_parallel_residual", True)),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=attention_bias,
        output_bias=attention_bias,
    )


def _falcon(config: Config) -> dict[str, Any]:
    hidden, heads = config["hidden_size"], config.get("num_attention_heads") or config["n_head"]
    new_decoder = bool(config.get("new_decoder_architecture", False))
    kv_heads = 1 if config.get("multi_query", True) else heads
    if new_decoder:
        kv_heads = config.get("num_kv_heads") or heads
    parallel, bias = bool(config.get("parallel_attn", True)), bool(config.get("bias", False))
    two_norms = config.get("num_ln_in_parallel_attn") or (2 if new_decoder else 1)
    return _plain(
        config.get("num_hidden_layers") or config["n_layer"],
        hidden,
        heads,
        config.get("ffn_hidden_size") or 4 * hidden,
        kv_heads=kv_heads,
        vocab=config["vocab_size"],
        max_sequence=config.get("max_position_embeddings") or 2048,
        rope=not config.get("alibi", False),
        parallel_residual=parallel or new_decoder,
        norms_per_layer=two_norms if new_decoder or parallel else 2,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
        qkv_bias=bias,
        output_bias=bias,
        ffn_bias=bias,
    )


def _bloom(config: Config) -> dict[str, Any]:
    hidden = config.get("hidden_size") or config["n_embed"]
    return _plain(
        config["n_layer"],
        hidden,
        config.get("n_head") or config["num_attention_heads"],
        4 * hidden,
        vocab=config["vocab_size"],
        # ALiBi has no table to read a length from; `seq_length` is what it was trained with.
        max_sequence=config.get("seq_length") or 2048,
        rope=False,
        embedding_norm=True,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
    )


def _opt(config: Config) -> dict[str, Any]:
    if config.get("word_embed_proj_dim", config["hidden_size"]) != config["hidden_size"]:
        raise _NotCovered("word_embed_proj_dim", "projected embeddings (OPT-350M) are not covered")
    bias = bool(config.get("enable_bias", True))
    return _plain(
        config["num_hidden_layers"],
        config["hidden_size"],
        config["num_attention_heads"],
        config["ffn_dim"],
        vocab=config["vocab_size"],
        max_sequence=config["max_position_embeddings"],
        # The table begins with two rows for padding.
        learned_positions=config["max_position_embeddings"] + 2,
        rope=False,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
        qkv_bias=bias,
        output_bias=bias,
        ffn_bias=bias,
    )


def _mpt(config: Config) -> dict[str, Any]:
    bias = not config.get("no_bias", True)
    return _plain(
        config["n_layers"],
        config["d_model"],
        config["n_heads"],
        int(config.get("expansion_ratio", 4)) * config["d_model"],
        vocab=config["vocab_size"],
        max_sequence=config["max_seq_len"],
        rope=False,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
        norm_bias=bias,
        qkv_bias=bias,
        output_bias=bias,
        ffn_bias=bias,
    )


_READERS: dict[str, Callable[[Config], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi3": _phi3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "falcon": _falcon,
    "bloom": _bloom,
    "opt": _opt,
    "mpt": _mpt,
}
