"""Hugging Face `config.json` to the content of an architecture card, without the transformers package.

Covers the decoder families at the end of this file.
A key that a file leaves out means the default of that family's configuration class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from planner.documents.quantities import format_value
from planner.errors import Fault, LibraryError
from planner.estimates.parameters import Dimensions, active_parameters, count_parameters

Config = Mapping[str, Any]
_DIMENSIONS = frozenset(field.name for field in fields(Dimensions))
MAX_DIMENSION, MAX_PARAMETERS = 10**8, 10**15
"""Largest width, depth or length, and most weights: far above any model."""


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
        raise _fault(name, "model_type", f"unsupported model type {format_value(family)}", fix)
    try:
        card = _READERS[family](config)
    except KeyError as missing:
        raise _fault(name, str(missing.args[0]), "missing", f"add it: a {family} config.json has it") from missing
    except _NotCovered as refused:
        raise _fault(name, *refused.args) from refused
    try:
        dimensions = Dimensions(**{key: value for key, value in card.items() if key in _DIMENSIONS})
    except ValueError as error:
        raise _fault(name, "", str(error), "correct one of the two") from error
    if count_parameters(dimensions) > MAX_PARAMETERS:
        what = f"{count_parameters(dimensions):.3g} parameters"
        raise _fault(name, "", what, f"correct the dimensions: at most {MAX_PARAMETERS:.0e}")
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
    """A file of a known family that this reader would count wrongly; its arguments are key, what and fix."""


def _fault(name: str, where: str, what: str, fix: str) -> LibraryError:
    return LibraryError([Fault(name, 0, where, what, fix)])


def _whole(config: Config, key: str, default: int | None = None) -> int:
    """Return a positive whole number; `default` where the file has none, or 0 or null; KeyError without either."""
    value = config[key] if default is None else config.get(key) or default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_DIMENSION:
        fix = f"give a whole number of 1 to {MAX_DIMENSION:,}"
        raise _NotCovered(key, f"{format_value(value)} is out of range or no number", fix)
    return value


def _card(
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
    width, count = _whole(config, hidden), _whole(config, heads)
    return {
        "layers": _whole(config, layers),
        "hidden": width,
        "heads": count,
        "kv_heads": _whole(config, "num_key_value_heads", count),
        "head_dim": _whole(config, "head_dim", max(width // count, 1)),
        "ffn": _whole(config, "intermediate_size") if ffn is None else ffn,
        "vocab": _whole(config, "vocab_size"),
        "max_sequence": _whole(config, positions),
        "tied_embeddings": bool(config.get("tie_word_embeddings", tied)),
        **extra,
    }


def _window(config: Config, share: float, used: bool = True) -> dict[str, Any]:
    """Files say null or `use_sliding_window: false` for none; newer ones list each layer, else `share` slide."""
    window, kinds = config.get("sliding_window"), config.get("layer_types")
    if kinds and not isinstance(kinds, list):
        raise _NotCovered("layer_types", f"{format_value(kinds)} is not a list", "list the kind of each layer")
    if kinds:
        share = sum(kind == "sliding_attention" for kind in kinds) / len(kinds)
    if not window or not share or not config.get("use_sliding_window", used):
        return {}
    return {"sliding_window": _whole(config, "sliding_window"), "sliding_layer_share": share}


def _llama(config: Config) -> dict[str, Any]:
    attention_bias = bool(config.get("attention_bias", False))
    ffn_bias = bool(config.get("mlp_bias", False))
    return _card(config, qkv_bias=attention_bias, output_bias=attention_bias, ffn_bias=ffn_bias)


def _mistral(config: Config) -> dict[str, Any]:
    return _card(config, **_window(config, 1.0))


def _mixtral(config: Config) -> dict[str, Any]:
    experts = _experts(config, "num_local_experts")
    return _card(config, **experts, **_window(config, 1.0))


def _qwen2(config: Config) -> dict[str, Any]:
    # The window starts at layer `max_window_layers`, in released files the last one, and is off unless they say so.
    layers, full = _whole(config, "num_hidden_layers"), config.get("max_window_layers")
    sliding = max(layers - (0 if full == 0 else _whole(config, "max_window_layers", 28)), 0) / layers
    return _card(config, qkv_bias=True, **_window(config, sliding, used=False))


def _qwen3(config: Config) -> dict[str, Any]:
    bias = bool(config.get("attention_bias", False))
    return _card(config, qk_norm=True, qkv_bias=bias, output_bias=bias)


def _qwen3_moe(config: Config) -> dict[str, Any]:
    if config.get("decoder_sparse_step", 1) != 1 or config.get("mlp_only_layers"):
        what = "layers without experts in between are not supported"
        raise _NotCovered("decoder_sparse_step", what, "give the dimensions in a file of models/architectures")
    card = _qwen3(config)
    return {**card, "ffn": _whole(config, "moe_intermediate_size"), **_experts(config, "num_experts")}


def _experts(config: Config, key: str) -> dict[str, Any]:
    return {"experts": _whole(config, key), "experts_per_token": _whole(config, "num_experts_per_tok")}


def _gemma2(config: Config) -> dict[str, Any]:
    # Gemma ties its embeddings; every second layer slides.
    return _card(config, tied=True, norms_per_layer=4, **_window(config, 0.5))


def _gemma3(config: Config) -> dict[str, Any]:
    # Multimodal releases leave out what their configuration class defaults to. Five layers slide for one that does not.
    usual = {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "max_position_embeddings": 131072,
        "sliding_window": 4096,
    }  # fmt: skip
    config = {**usual, **config}
    layers, every = _whole(config, "num_hidden_layers"), _whole(config, "sliding_window_pattern", 6)
    window = _window(config, 1 - layers // every / layers)
    return _card(config, tied=True, norms_per_layer=4, qk_norm=True, **window)


def _older(config: Config, *, bias: bool = True, **extra: Any) -> dict[str, Any]:
    """Return the keys of an older family: LayerNorm, linears with biases unless `bias` is false, and no gate."""
    biases = dict.fromkeys(("qkv_bias", "output_bias", "ffn_bias"), bias)
    return _card(config, **{"gated": False, "norm": "layernorm", "norm_bias": True, **biases, **extra})


def _gpt2(config: Config) -> dict[str, Any]:
    names: dict[str, Any] = {"layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "positions": "n_positions"}
    ffn, positions = _whole(config, "n_inner", 4 * _whole(config, "n_embd")), _whole(config, "n_positions")
    return _older(config, ffn=ffn, learned_positions=positions, rope=False, tied=True, **names)


def _gpt_neox(config: Config) -> dict[str, Any]:
    bias = bool(config.get("attention_bias", True))
    parallel = bool(config.get("use_parallel_residual", True))
    return _older(config, parallel_residual=parallel, qkv_bias=bias, output_bias=bias)


def _first(config: Config, *keys: str) -> str:
    """Return the first key that has a value, else the last: files of several ages name the same thing differently."""
    return next((key for key in keys if config.get(key)), keys[-1])


def _falcon(config: Config) -> dict[str, Any]:
    config = {**config, "max_position_embeddings": _whole(config, "max_position_embeddings", 2048)}
    heads = _first(config, "num_attention_heads", "n_head")
    new_decoder = bool(config.get("new_decoder_architecture", False))
    kv_heads = 1 if config.get("multi_query", True) else _whole(config, heads)
    if new_decoder:
        kv_heads = _whole(config, "num_kv_heads", _whole(config, heads))
    parallel = bool(config.get("parallel_attn", True)) or new_decoder
    two_norms = _whole(config, "num_ln_in_parallel_attn", 2 if new_decoder else 1)
    return _older(
        config,
        layers=_first(config, "num_hidden_layers", "n_layer"),
        heads=heads,
        ffn=_whole(config, "ffn_hidden_size", 4 * _whole(config, "hidden_size")),
        kv_heads=kv_heads,
        rope=not config.get("alibi", False),
        parallel_residual=parallel,
        norms_per_layer=two_norms if parallel else 2,
        tied=True,
        bias=bool(config.get("bias", False)),
    )


def _bloom(config: Config) -> dict[str, Any]:
    # ALiBi has no table to read a length from; `seq_length` is what it was trained with.
    config = {**config, "seq_length": _whole(config, "seq_length", 2048)}
    hidden, heads = _first(config, "hidden_size", "n_embed"), _first(config, "n_head", "num_attention_heads")
    names: dict[str, Any] = {"layers": "n_layer", "hidden": hidden, "heads": heads, "positions": "seq_length"}
    return _older(config, ffn=4 * _whole(config, hidden), rope=False, embedding_norm=True, tied=True, **names)


def _opt(config: Config) -> dict[str, Any]:
    if config.get("word_embed_proj_dim", config["hidden_size"]) != config["hidden_size"]:
        what = "projected embeddings (OPT-350M) are not supported"
        raise _NotCovered("word_embed_proj_dim", what, "choose another size of the family")
    bias, rows = bool(config.get("enable_bias", True)), _whole(config, "max_position_embeddings") + 2  # for padding
    return _older(config, ffn=_whole(config, "ffn_dim"), learned_positions=rows, rope=False, tied=True, bias=bias)


def _mpt(config: Config) -> dict[str, Any]:
    names: dict[str, Any] = {"layers": "n_layers", "hidden": "d_model", "heads": "n_heads", "positions": "max_seq_len"}
    bias, ffn = not config.get("no_bias", True), _whole(config, "expansion_ratio", 4) * _whole(config, "d_model")
    return _older(config, ffn=ffn, rope=False, tied=True, norm_bias=bias, bias=bias, **names)


_READERS: dict[str, Callable[[Config], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi3": _mistral,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "falcon": _falcon,
    "bloom": _bloom,
    "opt": _opt,
    "mpt": _mpt,
}
