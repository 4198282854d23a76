"""A decoder of known parts: what a `config.json` says of its layers, read with the row of its family.

A row of `models/families.yaml` says what a file does not: norms, biases, which parts the kinds of layers are, and the
defaults of the configuration class. A part that no row and no key names is refused by its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Literal

from pydantic import Field

from planner.documents.files import data_folder, read_shipped
from planner.documents.validation import Row
from planner.errors import format_value
from planner.estimates.parts import (
    Attention,
    DeltaNet,
    Experts,
    FeedForward,
    LatentAttention,
    Lightning,
    Mamba,
    Mamba2,
    Part,
    ShortConvolution,
    is_mixer,
)
from planner.estimates.weights import Dimensions, parts_of
from planner.library.decoder_keys import KEY_NAMES, Config, Keys, NotCovered

Gate = Literal["", "query", "width", "head"]
Norm = Literal["", "head", "width", "heads"]


class Family(Row):
    """What a family has that its files do not say; a text in place of yes or no is the key of the file that says it."""

    source: str = ""
    defaults: dict[str, Any] = Field(default_factory=dict)  # of the configuration class in Transformers
    names: dict[str, tuple[str, ...]] = Field(
        default_factory=dict
    )  # keys that this family has for a name of `KEY_NAMES`
    ignores: tuple[str, ...] = ()  # keys without effect on its weights
    norm: Literal["rms", "layer", "layer_no_bias", "none"] = "rms"
    norms: tuple[int, int] = (1, 1)  # of the hidden width, around mixer and feed-forward
    norms_if: str = ""  # the key that says so; else one each
    embedding_norm: bool = False
    parallel: bool | str = False  # attention and feed-forward side by side, behind one norm
    qkv_bias: bool | str = "attention_bias"
    output_bias: bool | str = "attention_bias"
    ffn_bias: bool | str = "mlp_bias"
    expert_bias: bool | str = False
    shared_bias: bool | str = False
    router_bias: bool | str = False
    head_bias: bool | str = False
    qk_norm: Norm = ""
    qk_norm_if: str = ""  # the key that switches it
    qk_norm_bias: bool = True  # where norms have biases
    gate: Gate = ""
    gate_if: str = ""
    gate_else: Gate = ""  # where that key is false
    one_head_if: str = ""  # the key that says that all queries share one key and value
    never_tied: bool = False
    other: str = ""  # kind of the layers that a file does not list as full
    sinks: Literal["", "all", "sliding"] = ""
    inner_norm: bool = False
    gated: bool = True
    attention_vectors: tuple[int, int] = (0, 0)  # other weights of a layer: per head dimension, and alone
    ffn_vectors: int = 0
    ffn_factor: int = 0  # width of the feed-forward over the hidden width, where the file has none
    learned_positions: bool = False
    index: bool = False  # an indexer chooses the tokens to attend to
    attention: Literal["attention", "latent"] = "attention"
    linear: Literal["", "delta", "kda", "lightning", "mamba2", "mamba"] = ""
    pattern: tuple[str, ...] = ("full_attention",)  # kinds of layers, repeated, where the file has no list
    pattern_key: str = ""  # one full layer in so many
    first: str = ""  # kind of the first layer, where it is another
    last_full: bool = False
    some_full: bool = False  # the last layer is full where no other is
    kinds: dict[str, str] = Field(default_factory=dict)  # other names of kinds of layers
    experts: bool = False
    expert_ffn: str = "expert_ffn"
    dense_ffn: str = "ffn"
    shared: Literal["", "count", "width", "one", "stated"] = ""  # stated: a count and the width of one, which agree
    shared_gate: bool = False
    expert_norms: int = 0  # more of them around experts
    shared_in_dense: bool = False  # a shared feed-forward also where there are no experts
    sparse: Literal["all", "leading", "step", "interval", "period", "interleave", "list"] = "all"
    reads: str = ""  # a function of `_EXTRA` that reads what only this family has


@cache
def families() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of `models/families.yaml` by model type."""
    rows: dict[str, Mapping[str, Any]] = read_shipped(data_folder("models") / "families.yaml").data["families"]
    return rows


@cache
def family(name: str) -> Family:
    """Return the row of a model type, with what it has from the family that it is `like`."""
    return Family.model_validate(_merged(name))


def _merged(name: str) -> dict[str, Any]:
    row = dict(families()[name])
    like = row.pop("like", None)
    if like is None:
        return row
    return {**_merged(like), **row}


def decoder(config: Config, row: Family, complete: bool) -> tuple[dict[str, Any], set[str]]:
    """Return the keys of a card that `Dimensions` has, parts included, and the keys of the file that were read.

    `complete`: the file has all main dimensions itself.
    """
    keys = Keys(config, row.defaults, row.names, complete)
    kinds = layer_kinds(keys, row)
    hidden, layers = keys.main("hidden"), len(kinds)
    parts: list[Part] = []
    for index, kind in enumerate(kinds):
        parts += _layer(keys, row, kind, index, layers)
    outside: dict[str, Any] = {
        "layers": layers,
        "hidden": hidden,
        "vocab": keys.main("vocab"),
        "max_sequence": keys.main("positions"),
        "tied_embeddings": keys.flag("tied") and not row.never_tied,
        "embedding_norm": row.embedding_norm,
        "norm": "layernorm" if row.norm in ("layer", "layer_no_bias") else "rmsnorm",
        "norm_bias": row.norm == "layer",
        "norm_scale": row.norm != "none",
        "head_bias": keys.switch(row.head_bias),
        "parallel_residual": keys.switch(row.parallel),
        "learned_positions": keys.number("positions") if row.learned_positions else 0,
        "parts": gathered(parts),
    }
    if row.reads:
        outside |= _EXTRA[row.reads](keys, outside)
    return outside, keys.asked


def gathered(parts: list[Part]) -> tuple[Part, ...]:
    """Return the parts with equal ones as one, mixers first, in the order in which they come."""
    counted: Counter[Part] = Counter()
    for part in sorted(parts, key=is_mixer, reverse=True):
        counted[replace(part, layers=1)] += part.layers
    return tuple(replace(part, layers=count) for part, count in counted.items())


def read_decoder(config: Config, name: str, complete: bool) -> dict[str, Any]:
    """Return the keys of a card for a file of a family that has a row: plain dimensions where they say all, else parts.

    NotCovered with the name of a part that the file has and the family does not.
    """
    row = family(name)
    if row.attention == "latent" and config.get("use_mla") is False:
        raise NotCovered("use_mla", f"attention without a latent, which {name} does not have", "choose another release")
    shape, asked = decoder(config, row, complete)
    for part, words in _foreign_parts(row).items():
        none = (None, False, 0, [], {}, *((1,) if part == "experts" else ()))  # one expert is a plain feed-forward
        for key in words:
            if key in config and key not in asked and config[key] not in none:
                what = f"{part}, which {name} does not have in Transformers"
                raise NotCovered(key, what, "correct model_type, or remove the key")
    known = asked.union(*KEY_NAMES.values())
    wrong = {
        key: value
        for key, value in config.items()
        if key not in known and isinstance(value, int) and value > 1 and _is_dimension(key) and value != shape["hidden"]
    }
    if wrong:
        said = ", ".join(f"{key} {value}" for key, value in wrong.items())
        what = f"{name} has no such dimension in Transformers ({said}), and weights may depend on it"
        raise NotCovered(next(iter(wrong)), what, "remove the key if no weight depends on it, else correct model_type")
    return _card(shape)


def _is_dimension(key: str) -> bool:
    """Whether a key names a width, a depth or a number of parts that weights may depend on, such as experts."""
    return bool(_DIMENSION.search(key)) and not _NEUTRAL.search(key) and not _DERIVED.search(key)


def _card(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a card that differ from their defaults."""
    plain = _flat(shape)
    card = {**shape, "parts": (), **plain} if plain else {**shape, **_representative(shape)}
    usual = {field.name: field.default for field in fields(Dimensions)} | {"norm": "rmsnorm"}
    return {key: value for key, value in card.items() if usual.get(key, _ABSENT) != value}


def _foreign_parts(row: Family) -> dict[str, tuple[str, ...]]:
    """Return the parts that a family never has, with the keys that would say so."""
    linear = {"mamba2": "state-space layers", "mamba": "state-space layers"}.get(row.linear, "linear attention")
    has = {
        linear: bool(row.linear),
        "convolution layers": "conv" in (row.other, *row.pattern),
        "embeddings per layer": row.reads == "gemma4",
        "experts": row.experts or row.reads == "gemma4",
        "a shared expert": bool(row.shared),
        "an indexer of sparse attention": row.index,
        "latent attention": row.attention == "latent",
        "low-rank queries": row.attention == "latent",
    }
    own = set(row.ignores)
    keys = {part: words for part, words in _PARTS_BY_KEY.items() if not has.get(part, False)}
    return {part: tuple(word for word in words if word not in own) for part, words in keys.items()}


_ABSENT = object()
_PARTS_BY_KEY = {
    "experts": KEY_NAMES["experts"],
    "a shared expert": (*KEY_NAMES["shared_experts"], *KEY_NAMES["shared_ffn"]),
    "latent attention": KEY_NAMES["kv_rank"],
    "an indexer of sparse attention": ("index_topk", "index_n_heads"),
    "state-space layers": ("mamba_d_state", "mamba_num_heads", "mamba_n_heads", "ssm_state_size"),
    "linear attention": ("linear_num_value_heads", "linear_num_key_heads", "linear_attn_config"),
    "convolution layers": ("conv_L_cache",),
    "embeddings per layer": ("hidden_size_per_layer_input",),
    "layers that differ in width": ("block_configs", "num_attention_heads_per_layer"),
    "low-rank queries": KEY_NAMES["q_rank"],
    "cross-attention": ("cross_attention_layers",),
    "block-sparse attention": ("sparse_attention_config",),
}
"""Parts by the keys that say that a decoder has them."""


# Families without a row: read only where the file itself states every part.


_STATED: dict[str, tuple[str, ...]] = {
    "biases of attention": ("attention_bias", "qkv_bias", "use_qkv_bias", "use_bias", "add_qkv_bias"),
    "norms of queries and keys": ("use_qk_norm", "qk_norm", "qk_layernorm", "use_qk_layernorm"),
    "the kind of norm": ("rms_norm_eps",),
    "whether the head is tied": KEY_NAMES["tied"],
}
_ROUTER_BIAS = ("use_expert_bias", "moe_router_enable_expert_bias", "use_routing_bias", "topk_method")
_ONE_NORM = ("use_rmsnorm", "use_rms_norm")
_PRESENT = (*_ROUTER_BIAS[:3], *_ONE_NORM, "moe_router_enable_shared_expert")
"""Switches that are read here, or of parts whose widths are other keys; one that is false is checked by its part."""
_GATED = ("silu", "swish", "swiglu")
_NEUTRAL = re.compile(
    r"_ids?$|dropout|pdrop|rope|rotary|_eps$|epsilon|loss|init|dtype|version|^use_cache$|auto_map|architectures|model_type|act$"
    r"|^activation(_function)?$|_scal(e|ing)(_factor)?$|temperature|softcap|multiplier|jitter|n_group$|topk_group|group_by"
    r"|norm_topk|scoring|aux|pretraining_tp|implementation|yarn"
    r"|theta|window|label|quantization|_name_or_path|^return_|^output_|torch|problem_type|nextn|mtp|ep_size|pad|prompt"
    r"|generation|limit|time_step|language|tokenizer|router_(aux|dtype|jitter)|output_router|max_position|position_ids"
    r"|^(quantization|vision|audio|generation)_config$|gradient|clip|use_flash|fp32|^_"
)
"""Keys without effect on the number of weights."""


_DIMENSION = re.compile(r"_(size|dim|rank|width|heads|experts|layers)$")
_DERIVED = re.compile(r"chunk|^block_size$|^qk_head_dim$|every_n_layers$|batch|pooler|projection|prefill|sink")
"""Of those: what a scan takes at a time, the sum of two other widths, how often a kind of layer comes."""


def stated_family(config: Config) -> tuple[Family | None, list[str]]:
    """Return the row of a family that has none from what its file states, and the parts that it leaves open."""
    open_parts = [f"{part} ({keys[0]})" for part, keys in _STATED.items() if not any(key in config for key in keys)]
    latent = any(config.get(key) for key in KEY_NAMES["kv_rank"])
    experts = any(config.get(key) for key in KEY_NAMES["experts"])
    if latent:
        open_parts = [part for part in open_parts if not part.startswith("norms of")]
    if str(config.get("hidden_act")).casefold() not in _GATED:
        open_parts.append("whether the feed-forward has a gate (hidden_act)")
    if experts and not any(key in config for key in _ROUTER_BIAS):
        open_parts.append("a bias of the router (use_expert_bias)")
    if open_parts:
        return None, open_parts
    bias = next(key for key in _STATED["biases of attention"] if key in config)
    counted = any(config.get(key) for key in KEY_NAMES["shared_experts"])
    topk = config.get("topk_method")
    corrected = topk == "noaux_tc" or any(config.get(key) for key in _ROUTER_BIAS if key != "topk_method")
    return Family(
        qkv_bias=bias,
        output_bias=False if "qkv" in bias else bias,
        qk_norm="head",
        qk_norm_if=next((key for key in _STATED["norms of queries and keys"] if key in config), "use_qk_norm"),
        attention="latent" if latent else "attention",
        index=latent and bool(config.get("index_topk")),
        experts=experts,
        router_bias=corrected,
        shared="stated" if counted else "width" if any(config.get(key) for key in KEY_NAMES["shared_ffn"]) else "",
        sparse="leading",
    ), []


def read_stated(config: Config, row: Family, complete: bool) -> dict[str, Any]:
    """Return the keys of a card of a family without a row; NotCovered with a key whose effect is not known."""
    shape, asked = decoder(config, row, complete)
    for part, words in _foreign_parts(row).items():
        for key in words:
            if config.get(key) not in (None, False, 0, [], {}, ""):
                raise NotCovered(key, f"{part}, which a family that is not known does not have", "")
    for key, value in config.items():
        names_a_part = key != "model_type" and re.search(r"_type$|pattern|enum|layers", key)
        harmless = value in (None, False, 0, [], {}, "") or (isinstance(value, str) and not names_a_part)
        if key not in asked and not harmless and key not in _PRESENT and not _NEUTRAL.search(key):
            raise NotCovered(key, f"a part that is not known: {format_value(value)}", "")
    return _card(shape)


def _flat(shape: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the dimensions of a decoder whose parts they describe completely; None where they do not."""
    parts: tuple[Part, ...] = shape["parts"]
    windows = {part.window: 0 for part in parts if isinstance(part, Attention) and part.window}
    slide = sum(part.layers for part in parts if isinstance(part, Attention) and part.window)
    alike = gathered([replace(part, window=0) if isinstance(part, Attention) else part for part in parts])
    if len(windows) > 1 or len({type(part) for part in alike}) < len(alike):
        return None
    by_kind: dict[str, Any] = {part.kind: part for part in alike}
    if (slide and "delta" in by_kind) or not by_kind.keys() & {"attention", "latent"}:
        return None
    plain = _plain_mixer(by_kind) | _plain_feed_forward(by_kind)
    of_layer = sum(max((part.norms for part in alike if is_mixer(part) is mixes), default=0) for mixes in (True, False))
    plain |= {"norms_per_layer": of_layer}
    names = {field.name for field in fields(Dimensions)}
    try:
        dimensions = Dimensions(**{k: v for k, v in shape.items() if k in names and k != "parts"} | plain)
    except ValueError:
        return None
    if set(parts_of(dimensions)) != set(alike):
        return None
    return plain | ({"sliding_window": max(windows), "sliding_layer_share": slide / shape["layers"]} if slide else {})


def _plain_mixer(by_kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dimensions of attention, latent attention and a gated delta rule."""
    keys: dict[str, Any] = {}
    if "attention" in by_kind:
        part: Attention = by_kind["attention"]
        keys = {"heads": part.heads, "kv_heads": part.kv_heads, "head_dim": part.head_dim, "qkv_bias": part.qkv_bias}
        keys |= {"output_bias": part.output_bias, "qk_norm": bool(part.qk_norm), "attention_sinks": part.sinks}
        keys |= {"qk_norm_all_heads": part.qk_norm == "width", "query_gate": part.gate == "query"}
    else:
        latent: LatentAttention = by_kind["latent"]
        keys = {"heads": latent.heads, "kv_heads": latent.heads, "head_dim": latent.plain_dim + latent.rope_dim}
        keys |= {"q_lora_rank": latent.q_rank, "kv_lora_rank": latent.kv_rank}
        keys |= {"rope_head_dim": latent.rope_dim, "value_head_dim": latent.value_dim}
    if "delta" in by_kind:
        delta: DeltaNet = by_kind["delta"]
        keys |= {"linear_layers": delta.layers, "linear_key_heads": delta.key_heads, "linear_kernel": delta.kernel}
        keys |= {"linear_value_heads": delta.value_heads, "linear_key_dim": delta.key_dim}
        keys |= {"linear_value_dim": delta.value_dim}
    return keys


def _plain_feed_forward(by_kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dimensions of feed-forwards and experts."""
    dense: FeedForward | None = by_kind.get("feed_forward")
    mixed: Experts | None = by_kind.get("experts")
    if mixed is None:
        return {"ffn": dense.width, "gated": dense.gated, "ffn_bias": dense.bias} if dense else {"ffn": 1}
    keys = {"ffn": mixed.width, "gated": mixed.gated, "ffn_bias": mixed.bias, "router_bias": mixed.router_bias}
    keys |= {"experts": mixed.experts, "experts_per_token": mixed.per_token}
    keys |= {"shared_experts": mixed.shared_width // mixed.width, "shared_expert_gate": mixed.shared_gate}
    if dense:
        keys |= {"dense_layers": dense.layers, "dense_ffn": dense.width}
    return keys


def _representative(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dimensions of the most frequent attention and feed-forward of a decoder given by its parts."""
    most: dict[str, Part] = {}
    for part in sorted(shape["parts"], key=lambda part: part.layers):
        most[part.kind] = part
    if not most.keys() & {"attention", "latent"}:
        raise NotCovered("layer_types", "no layer has attention", "choose a decoder with attention in some layers")
    own = _plain_mixer({kind: part for kind, part in most.items() if kind != "delta"})
    return {**own, **_plain_feed_forward(most)}


# Which kind each layer is.


_KINDS = {
    "attention": "full_attention",
    "global_attention": "full_attention",
    "global": "full_attention",
    "full": "full_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "local": "sliding_attention",
    "mamba": "linear_attention",
    "mamba2": "linear_attention",
    "short_conv": "conv",
    "M": "linear_attention",
    "*": "full_attention",
    "-": "mlp",
    "E": "moe",
}
"""Names of kinds of layers in older files, and the letters of Nemotron-H's pattern."""


def layer_kinds(keys: Keys, row: Family) -> list[str]:
    """Return the kind of each layer under the names of Transformers 5: the file's list, else the family's pattern."""
    listed = keys.items("kinds") or list(keys.value("hybrid_override_pattern") or ())
    if not listed and (cycle := keys.items("block_types")):
        listed = [cycle[index % len(cycle)] for index in range(keys.main("layers"))]
    if listed:
        layers = keys.number("layers", len(listed))
        if layers != len(listed) and not keys.has("hybrid_override_pattern") and row.reads != "mixer_per_layer":
            what = f"{layers} layers, and {len(listed)} kinds of them are listed"
            raise NotCovered(keys.stated("kinds"), what, "list one kind per layer")
    else:
        listed = _placed(keys, row, keys.main("layers"))
    names = _KINDS | row.kinds
    return [names.get(kind, kind) if isinstance(kind, str) else format_value(kind) for kind in listed]


def _placed(keys: Keys, row: Family, layers: int) -> list[str]:
    """Return the kinds of layers of a file that has no list of them."""
    other = row.other or next((kind for kind in row.pattern if kind != "full_attention"), "sliding_attention")
    full = _full_layers(keys, layers)
    if full is not None:
        return ["full_attention" if index in full else other for index in range(layers)]
    if row.pattern_key == "max_window_layers":  # Qwen: layers from this one on slide
        first = keys.number("max_window_layers", layers, least=0)
        return ["full_attention" if index < first else other for index in range(layers)]
    kinds = [row.pattern[index % len(row.pattern)] for index in range(layers)]
    if row.pattern_key and keys.has(row.pattern_key):
        said = keys.value(row.pattern_key)
        if isinstance(said, str):  # EXAONE 4: LLLG
            kinds = ["full_attention" if said[index % len(said)] == "G" else other for index in range(layers)]
        else:
            every = keys.number(row.pattern_key, layers + 1)
            kinds = [other if (index + 1) % every else "full_attention" for index in range(layers)]
    if row.first:
        kinds[0] = row.first
    last = row.last_full or (row.some_full and "full_attention" not in kinds)
    return [*kinds[:-1], "full_attention"] if last else kinds


def _full_layers(keys: Keys, layers: int) -> set[int] | None:
    """Return the layers with full attention that a file lists by their numbers or a period; None where it does not."""
    for key in ("full_attn_idxs", "attn_layer_indices"):
        if keys.has(key):
            return {int(index) for index in keys.items(key)}
    linear = keys.value("linear_attn_config")
    if isinstance(linear, Mapping) and linear.get("full_attn_layers"):
        return {int(index) - 1 for index in linear["full_attn_layers"]}
    for key, value in (("attn_type_list", 1), ("hybrid_layer_pattern", 0)):  # MiniMax-Text-01; MiMo-V2-Flash
        if keys.has(key):
            return {index for index, kind in enumerate(keys.items(key)) if kind == value}
    if keys.has("attn_layer_period"):
        period, offset = keys.number("attn_layer_period"), keys.number("attn_layer_offset", 0, least=0)
        return {index for index in range(layers) if index % period == offset}
    return None


def _is_sparse(keys: Keys, row: Family, index: int, layers: int) -> bool:
    """Return whether a layer has experts."""
    listed = keys.items("ffn_kinds")
    if listed and index < len(listed):
        return listed[index] in ("sparse", "moe")
    if row.sparse == "leading":
        step = keys.value("moe_layer_freq")
        if isinstance(step, list):
            return bool(step[index])
        # DeepSeek-V3's own code: experts in every `moe_layer_freq`-th layer behind the first ones.
        return index >= keys.number("leading_dense", 0, least=0) and index % (step or 1) == 0
    if row.sparse == "step":
        step = keys.number("decoder_sparse_step", 1)
        return index not in keys.items("mlp_only_layers") and (index + 1) % step == 0
    if row.sparse == "interval":
        start, end = keys.number("moe_layer_start_index", 0, least=0), keys.value("moe_layer_end_index")
        last = layers - 1 if end in (None, -1) else int(end)
        return start <= index <= last and (index + 1) % keys.number("moe_layer_interval", 1) == 0
    if row.sparse == "period":
        turn = index % keys.number("expert_layer_period") == keys.number("expert_layer_offset", 0, least=0)
        return turn and keys.number("experts") > 1
    if row.sparse == "interleave":
        chosen, step = keys.items("moe_layers"), keys.number("interleave_moe_layer_step", 1)
        return index in chosen if chosen else (index + 1) % step == 0
    return True


# The parts of one layer.


def _layer(keys: Keys, row: Family, kind: str, index: int, layers: int) -> list[Part]:
    """Return the parts of one layer, each with one layer."""
    changed = _of_layer(keys, index)
    keys = keys.over(changed) if changed else keys
    if kind == "mlp":
        return [_feed_forward(keys, row, index)]
    if kind == "moe":
        return [_experts(keys, row)]
    mixer = _mixer(keys, row, kind, index)
    if row.reads == "mixer_per_layer":
        return [mixer]
    both = [_linear(keys, row)] if kind == "hybrid" and row.linear else []
    if row.experts and keys.value("experts") and _is_sparse(keys, row, index, layers):
        return [mixer, *both, _experts(keys, row)]
    return [mixer, *both, _feed_forward(keys, row, index)]


def _of_layer(keys: Keys, index: int) -> dict[str, Any]:
    """Return the keys that have another value in one layer: `per_layer_config` of Transformers 5, heads of Laguna."""
    heads = keys.items("num_attention_heads_per_layer")
    if index < len(heads):
        return {"num_attention_heads": heads[index]}
    stated = keys.value("per_layer")
    if not isinstance(stated, Mapping):
        return {}
    return next(
        (dict(changed) for layer, changed in stated.items() if str(layer).isdigit() and int(layer) == index), {}
    )


def _mixer(keys: Keys, row: Family, kind: str, index: int) -> Part:
    if kind in ("linear_attention", "conv"):
        return _convolution(keys, row) if kind == "conv" else _linear(keys, row)
    if kind not in ("full_attention", "sliding_attention", "chunked_attention", "indexed_attention", "hybrid"):
        known = "full, sliding, chunked, indexed and linear attention, conv, mlp and moe"
        raise NotCovered(keys.stated("kinds"), f"unknown kind of layer {format_value(kind)}", f"known are {known}")
    if row.attention == "latent":
        return _latent(keys, row, index)
    return _attention(keys, row, kind)


def _norms(keys: Keys, row: Family) -> tuple[int, int]:
    """Return the norms around the mixer and around the feed-forward: one for both where they are side by side."""
    if keys.switch(row.parallel):
        return 1, 0
    return row.norms if not row.norms_if or keys.flag(row.norms_if) else (1, 1)


def _attention(keys: Keys, row: Family, kind: str) -> Attention:
    hidden, heads = keys.main("hidden"), keys.main("heads")
    head_dim = keys.number("head_dim", max(hidden // heads, 1))
    sliding = kind == "sliding_attention"
    window = keys.value("window") if sliding and keys.flag("use_sliding_window", True) else 0
    if kind == "chunked_attention":
        window = keys.value("attention_chunk_size")
    per_dim, alone = row.attention_vectors
    has_norm = row.qk_norm and (not row.qk_norm_if or keys.flag(row.qk_norm_if))
    gate = row.gate if not row.gate_if or keys.flag(row.gate_if) else row.gate_else
    kv_heads = keys.number("kv_heads", heads)
    if row.one_head_if:
        kv_heads = 1 if keys.flag(row.one_head_if) else heads
    return Attention(
        "attention",
        1,
        heads,
        kv_heads,
        head_dim,
        value_dim=_other_width(keys.number("value_dim", head_dim), head_dim),
        window=_window(window),
        qkv_bias=keys.switch(row.qkv_bias),
        output_bias=keys.switch(row.output_bias),
        qk_norm=row.qk_norm if has_norm else "",
        norm_bias=bool(has_norm) and row.norm == "layer" and row.qk_norm_bias,
        gate=gate,
        sinks=row.sinks == "all" or (row.sinks == "sliding" and sliding),
        inner_norm=row.inner_norm,
        vectors=per_dim * head_dim + alone,
        norms=_norms(keys, row)[0],
    )


def _other_width(width: int, usual: int) -> int:
    return 0 if width == usual else width


def _window(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _latent(keys: Keys, row: Family, index: int) -> LatentAttention:
    shares = keys.items("indexer_types")
    indexed = row.index and not (index < len(shares) and shares[index] == "shared")
    gate: Any = row.gate if row.gate in ("width", "head") and (not row.gate_if or keys.flag(row.gate_if)) else ""
    return LatentAttention(
        "latent",
        1,
        keys.main("heads"),
        keys.number("kv_rank"),
        keys.number("qk_nope_head_dim"),
        keys.number("qk_rope_head_dim"),
        keys.number("v_head_dim", max(keys.main("hidden") // keys.main("heads"), 1)),
        q_rank=keys.number("q_rank", 0, least=0),
        bias=keys.switch(row.qkv_bias),
        gate=gate,
        index_heads=keys.number("index_n_heads") if indexed else 0,
        index_dim=keys.number("index_head_dim") if indexed else 0,
        index_tokens=keys.number("index_topk") if indexed else 0,
        norms=_norms(keys, row)[0],
    )


def _linear(keys: Keys, row: Family) -> Part:
    if not row.linear:
        raise NotCovered(keys.stated("kinds"), "linear attention in a family that has none", "correct model_type")
    return _LINEAR[row.linear](keys, row)


def _delta(keys: Keys, row: Family) -> Part:
    heads = keys.main("heads")
    key_heads = keys.number("linear_num_key_heads", heads)
    key_dim = keys.number("linear_key_head_dim", max(3 * keys.main("hidden") // (4 * key_heads), 1))
    return DeltaNet(
        "delta",
        1,
        key_heads,
        keys.number("linear_num_value_heads", heads),
        key_dim,
        keys.number("linear_value_head_dim", 2 * key_dim),
        keys.number("linear_conv_kernel_dim"),
        norms=_norms(keys, row)[0],
    )


def _kda(keys: Keys, row: Family) -> Part:
    """Return Kimi Delta Attention, whose dimensions are in a mapping of its own in the release."""
    own = keys.value("linear_attn_config")
    inner = keys.over({f"linear_{key}": value for key, value in own.items()} if isinstance(own, Mapping) else {})
    heads, width = inner.number("linear_num_heads"), inner.number("linear_head_dim")
    kernel = inner.number("linear_short_conv_kernel_size", inner.number("linear_conv_kernel_dim", 4))
    return DeltaNet("delta", 1, heads, heads, width, width, kernel, gate_rank=width, norms=_norms(keys, row)[0])


def _lightning(keys: Keys, row: Family) -> Part:
    heads = keys.main("heads")
    return Lightning(
        "lightning", 1, heads, keys.number("head_dim", keys.main("hidden") // heads), norms=_norms(keys, row)[0]
    )


def _mamba2(keys: Keys, row: Family) -> Part:
    """Return a Mamba-2 mixer under the keys of Bamba, Granite 4 and Falcon-H1, or those of Nemotron-H."""
    own = {key: value for key, value in _MAMBA_NAMES.items() if keys.has(value)}
    name = {**{key: key for key in _MAMBA_NAMES}, **own}
    heads, bias = keys.number(name["mamba_n_heads"]), keys.flag(name["mamba_proj_bias"])
    width = keys.value(name["mamba_d_head"])
    if width in (None, "auto"):
        inner = keys.number("mamba_d_ssm", keys.number(name["mamba_expand"], 2) * keys.main("hidden"))
        width = inner // heads
    return Mamba2(
        "mamba2",
        1,
        heads,
        int(width),
        keys.number(name["mamba_n_groups"], 1),
        keys.number(name["mamba_d_state"]),
        keys.number(name["mamba_d_conv"]),
        bias=bias,
        out_bias=keys.flag("projectors_bias") if keys.has("projectors_bias") else bias,
        conv_bias=keys.flag(name["mamba_conv_bias"], True),
        inner_norm=keys.flag("mamba_rms_norm", True),
        norms=0 if row.pattern[0] == "hybrid" else _norms(keys, row)[0],
    )


_MAMBA_NAMES = {
    "mamba_n_heads": "mamba_num_heads",
    "mamba_d_head": "mamba_head_dim",
    "mamba_n_groups": "n_groups",
    "mamba_d_state": "ssm_state_size",
    "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias",
    "mamba_proj_bias": "use_bias",
    "mamba_expand": "expand",
}


def _mamba(keys: Keys, row: Family) -> Part:
    """Return a Mamba mixer with the norms of Jamba."""
    hidden, rank = keys.main("hidden"), keys.value("mamba_dt_rank")
    return Mamba(
        "mamba",
        1,
        keys.number("mamba_expand", 2) * hidden,
        keys.number("mamba_d_state"),
        -(-hidden // 16) if rank in (None, "auto") else int(rank),
        keys.number("mamba_d_conv"),
        bias=keys.flag("mamba_proj_bias"),
        conv_bias=keys.flag("mamba_conv_bias", True),
        inner_norm=True,
        norms=_norms(keys, row)[0],
    )


_LINEAR: dict[str, Callable[[Keys, Family], Part]] = {
    "delta": _delta,
    "kda": _kda,
    "lightning": _lightning,
    "mamba2": _mamba2,
    "mamba": _mamba,
}


def _convolution(keys: Keys, row: Family) -> Part:
    return ShortConvolution(
        "convolution", 1, keys.number("conv_L_cache"), bias=keys.flag("conv_bias"), norms=_norms(keys, row)[0]
    )


def _feed_forward(keys: Keys, row: Family, index: int) -> Part:
    stated = keys.value(row.dense_ffn)
    if row.ffn_factor and stated is None:
        width = row.ffn_factor * keys.main("hidden")
    elif row.dense_ffn != "ffn":
        width = keys.number(row.dense_ffn, keys.main("ffn"))
    else:
        width = int(stated[index]) if isinstance(stated, list) and index < len(stated) else keys.main("ffn")
    if row.reads == "lfm2" and keys.flag("block_auto_adjust_ff_dim"):
        width = _adjusted(keys, width)
    if row.shared_in_dense:
        width = keys.number("shared_ffn", width)
    return FeedForward(
        "feed_forward",
        1,
        width,
        gated=row.gated,
        bias=keys.switch(row.ffn_bias),
        inner_norm=row.inner_norm,
        vectors=row.ffn_vectors,
        norms=_norms(keys, row)[1],
    )


def _adjusted(keys: Keys, width: int) -> int:
    """Return the width of LFM2's feed-forward: two thirds, times a factor, rounded up to a multiple."""
    width = int(2 * width / 3)
    factor, multiple = keys.value("block_ffn_dim_multiplier"), keys.number("block_multiple_of", 256)
    if factor is None:
        return width
    return multiple * -(-int(factor * width) // multiple)


def _experts(keys: Keys, row: Family) -> Part:
    width = keys.number(row.expert_ffn, keys.number("ffn", 1)) if row.expert_ffn == "expert_ffn" else keys.main("ffn")
    experts, met = keys.number("experts"), keys.number("experts_per_token")
    if met > experts:
        key = keys.stated("experts_per_token")
        raise NotCovered(key, f"{met} of {experts} experts (experts_per_token)", f"give 1 to {experts}")
    shared = 0
    if row.shared == "count":
        shared = keys.number("shared_experts", 0, least=0) * width
    elif row.shared == "stated":
        shared = _stated_shared_width(keys, width)
    elif row.shared:
        shared = width if row.shared == "one" else keys.number("shared_ffn", 0, least=0)
    bias = keys.switch(row.expert_bias)
    return Experts(
        "experts",
        1,
        experts,
        met,
        width,
        shared_width=shared,
        shared_gate=row.shared_gate and shared > 0,
        gated=row.gated,
        bias=bias,
        shared_bias=keys.switch(row.shared_bias) and shared > 0,
        router_bias=keys.switch(row.router_bias),
        latent=keys.number("moe_latent_size", 0, least=0),
        norms=_norms(keys, row)[1] + row.expert_norms,
    )


def _stated_shared_width(keys: Keys, width: int) -> int:
    """Return the width of all shared experts; NotCovered where a file's width may be that of one or of all."""
    count = keys.number("shared_experts", 0, least=0)
    stated = keys.number("shared_ffn", width, least=0)
    if count > 1 and stated not in (width, count * width):
        key, what = keys.stated("shared_ffn"), f"{stated} for {count} shared experts, which may be one's width or all's"
        raise NotCovered(key, what, "leave the key out of a copy if each is as wide as a routed expert")
    return stated if count == 1 else count * width


# What only one family has.


def _gemma4(keys: Keys, outside: dict[str, Any]) -> dict[str, Any]:
    """Return Gemma 4: wider heads in full layers, shared keys in the last layers, embeddings per layer."""
    del outside
    kinds, hidden = layer_kinds(keys, family("gemma4_text")), keys.main("hidden")
    layers, shared = len(kinds), keys.number("num_kv_shared_layers", 0, least=0)
    as_values, row = keys.flag("attention_k_eq_v"), family("gemma4_text")
    parts: list[Part] = []
    for index, kind in enumerate(kinds):
        full, last = kind == "full_attention", index >= layers - shared > 0
        mixer = _attention(keys.over(_of_layer(keys, index)), row, kind)
        if full and not keys.has("per_layer"):
            heads = keys.number("num_global_key_value_heads", mixer.kv_heads) if as_values else mixer.kv_heads
            mixer = replace(mixer, head_dim=keys.number("global_head_dim", mixer.head_dim), kv_heads=heads)
        shares: Any = "shared" if last else "as_values" if full and as_values else "own"
        parts.append(replace(mixer, keys=shares, vectors=1))  # a learned scale of the layer
        dense = _feed_forward(keys, row, index)
        assert isinstance(dense, FeedForward)
        parts.append(
            replace(dense, width=dense.width * 2 if last and keys.flag("use_double_wide_mlp") else dense.width)
        )
        if keys.flag("enable_moe_block"):
            experts = _experts(keys, row)
            assert isinstance(experts, Experts)
            parts.append(replace(experts, router_bias=True, vectors=hidden, norms=3))
    shape: dict[str, Any] = {"parts": gathered(parts)}
    width = keys.number("hidden_size_per_layer_input", 0, least=0)
    if width:
        shape |= {"layer_embedding": width, "layer_embedding_vocab": keys.number("vocab_size_per_layer_input")}
    return shape


def _mimo_v2(keys: Keys, outside: dict[str, Any]) -> dict[str, Any]:
    """Return MiMo-V2-Flash: sliding layers have heads of their own, by default twice the key-value heads."""
    parts: list[Part] = []
    for part in outside["parts"]:
        if isinstance(part, Attention) and part.window:
            width = keys.number("swa_head_dim", part.head_dim)
            part = replace(
                part,
                heads=keys.number("swa_num_attention_heads", part.heads),
                kv_heads=keys.number("swa_num_key_value_heads", 2 * part.kv_heads),
                head_dim=width,
                value_dim=_other_width(keys.number("swa_v_head_dim", part.values), width),
            )
        parts.append(part)
    return {"parts": tuple(parts)}


def _no_more(keys: Keys, outside: dict[str, Any]) -> dict[str, Any]:
    del keys, outside
    return {}


_EXTRA: dict[str, Callable[[Keys, dict[str, Any]], dict[str, Any]]] = {
    "gemma4": _gemma4,
    "mimo_v2": _mimo_v2,
    "lfm2": _no_more,
    "mixer_per_layer": _no_more,
}
