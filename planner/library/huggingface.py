"""Hugging Face `config.json` to the content of an architecture card and back, without the transformers package.

Later decoders are read by their parts (decoder_parts.py). A key that a file leaves out means the default of that
family's configuration class.

Most families are rows of `models/families.yaml`, image towers of `models/towers.yaml`; families that are refused stand
at the end of this file with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any

from planner.documents.files import data_folder, read_shipped
from planner.documents.validation import suggest_names
from planner.errors import Fault, LibraryError, format_value, raise_faults
from planner.estimates.parts import Experts, activation_stand_ins, attention_stand_ins
from planner.estimates.weights import Dimensions, active_parameters, count_parameters, parts_of
from planner.library.decoder_keys import KEY_NAMES, MAX_DIMENSION, MAX_PARAMETERS, Config, NotCovered, NoWholeNumber
from planner.library.decoder_parts import families, family, read_decoder, read_stated, stated_family
from planner.library.engines import formats_of_config, read_engines
from planner.library.image_models import ImageTower, diffusion_card, evaluate_expression, is_diffusion
from planner.library.schema import Architecture, describe_tower


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


_DIMENSIONS = frozenset(field.name for field in fields(Dimensions))


_LANGUAGE_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which files of multimodal models have their decoder."""
_ENCODERS = ("vision_config", "audio_config")
_TOWER_KEYS = {
    "tower_parameters": "parameters",
    "tower_tokens": "tokens_per_image",
    "tower_token_pixels": "pixels_per_token",
}
"""Keys of a card that describe an image tower, by the terms of `models/towers.yaml`."""


def language_path(config: Config) -> tuple[str, ...]:
    """Return the keys that lead to the decoder of a multimodal model; nothing where the file is that of a decoder."""
    for key in _LANGUAGE_PARTS:
        if isinstance(config.get(key), Mapping):
            return (key, *language_path(config[key]))
    return ()


def architecture_from_config(config: Config, name: str) -> dict[str, Any]:
    """Return the keys of an `Architecture` card for `config`, counts included; the caller validates them.

    Multimodal files nest the decoder under `text_config` or the like; that part is read, and the notes say so.
    Raises LibraryError when the family is unknown or refused, with every key that is missing or no positive whole
    number, and with the name of a part that is not known.
    """
    if is_diffusion(config):
        return diffusion_card(config, name)
    whole, path = config, language_path(config)
    config = {key: value for key, value in config.items() if key not in _projector_keys(config)}
    for part in path:
        config = {**config, **config[part]}
    if path and whole.get("tie_word_embeddings") is not None:  # the head is that of the whole model
        config = {**config, "tie_word_embeddings": whole["tie_word_embeddings"]}
    stated = config.get("model_type")
    family = family_of(config)
    if isinstance(stated, str) and (why := _REFUSED.get(family or stated) or _REFUSED.get(stated)):
        what = f"{format_value(stated)} cannot be planned: {why}"
        raise _fault(name, "model_type", what, "choose a decoder whose layers are known")
    card = _read_stated(config, name, not path) if family is None else _read_family(family, config, name, not path)
    family = family or str(stated)
    try:
        dimensions = Dimensions(**{key: value for key, value in card.items() if key in _DIMENSIONS})
    except ValueError as error:
        raise _fault(name, "", str(error), "correct one of the two") from error
    if count_parameters(dimensions) > MAX_PARAMETERS:
        what = f"{count_parameters(dimensions):.3g} parameters"
        raise _fault(name, "", what, f"correct the dimensions: at most {MAX_PARAMETERS:.0e}")
    tower = _tower(whole, name, dimensions.hidden)
    notes = "; ".join(filter(None, [_encoders(whole, bool(path), tower), _notes(config, dimensions, family)]))
    return {
        "name": name,
        "family": family,
        "parameters": count_parameters(dimensions),
        "active_parameters": active_parameters(dimensions),
        "parameters_basis": "computed",
        **_published(config, name),
        "source": f"config.json of {config.get('_name_or_path') or name}",
        **card,
        **tower,
        **({"notes": notes} if notes else {}),
    }


def _tower(config: Config, name: str, text: int) -> dict[str, Any]:
    """Return the keys of a card that describe the image tower of a multimodal model; none where it is not known.

    `text` is the width of the language model, to which the projector leads. Qwen2.5-VL-7B has 676,550,144 weights in
    both, and a token for each square of 28 pixels. Raises LibraryError with a key whose value cannot be used.
    """
    vision, row = config.get("vision_config"), _towers().get(str(config.get("model_type")))
    if row is None or not isinstance(vision, Mapping) or not vision or not _is_as_in(row, config, vision):
        return {}
    words: dict[str, Any] = {"text": text}
    for word, (key, usual) in row.get("equal", {}).items():
        words[word] = vision.get(key, usual) == usual
    for given, defaults in ((vision, row["vision"]), (config, row.get("whole", {}))):
        for key, default in defaults.items():
            words[key] = default if given.get(key) is None else given[key]
            if not _is_width(words[key]):
                what = f"{key}: {format_value(words[key])} is no number of 0 to {MAX_DIMENSION:,}"
                raise _fault(name, "vision_config", what, "correct it")
    try:
        counts = {key: round(evaluate_expression(row[term], words)) for key, term in _TOWER_KEYS.items() if term in row}
        shape = {key: round(evaluate_expression(str(term), words)) for key, term in row["tower"].items()}
        tower = ImageTower.model_validate({"cuts": row["cuts"], **shape, **row["limits"]})
        return {**counts, "tower": tower.model_dump(exclude_defaults=True)}
    except (ArithmeticError, LookupError, TypeError, ValueError) as wrong:
        what = "a patch has no pixels, or a list stands where a number is read"
        raise _fault(name, "vision_config", what, "give the config.json as it was released") from wrong


def _is_as_in(row: Mapping[str, Any], config: Config, vision: Config) -> bool:
    """Return whether the tower is of the class of its row, and gives the projector one of its layers."""
    stated, layers = vision.get("model_type"), config.get("vision_feature_layer")
    known = row.get("class", stated)
    usual = (known,) if row.get("states_class") else (None, known)
    return stated in usual and not (isinstance(layers, list) and len(layers) > 1)


def _is_width(given: object) -> bool:
    """Return whether a value is a number or switch of a tower, or a list of them."""
    if isinstance(given, list):
        return all(_is_width(side) for side in given)
    return isinstance(given, int | float) and 0 <= given <= MAX_DIMENSION


def _projector_keys(config: Config) -> Collection[str]:
    """Return the keys of a multimodal file that shape its projector, not its decoder."""
    keys: Collection[str] = _towers().get(str(config.get("model_type")), {}).get("whole", ())
    return keys


@functools.cache
def _towers() -> dict[str, Any]:
    towers: dict[str, Any] = read_shipped(data_folder("models") / "towers.yaml").data["towers"]
    return towers


def _encoders(config: Config, nested: bool, tower: Mapping[str, int]) -> str:
    """Return what is counted of the encoders of a multimodal model; nothing of a decoder alone."""
    if tower:
        said = describe_tower(*(tower.get(key, 0) for key in _TOWER_KEYS))
        return f"{said}; {_NO_SOUND}" if config.get("audio_config") is not None else said
    return _LANGUAGE_ONLY if nested or any(config.get(key) is not None for key in _ENCODERS) else ""


def _read_stated(config: Config, name: str, complete: bool) -> dict[str, Any]:
    """Return the card of an unknown family whose file states every part; LibraryError with what it leaves open."""
    stated = config.get("model_type")
    what = f"unsupported model type {format_value(stated)}{_unknown(config)}" if stated else "no model_type is given"
    row, left_open = stated_family(config)
    if not isinstance(stated, str) or row is None:
        told = (
            f"; the file leaves open {' and '.join(left_open)}" if isinstance(stated, str) and len(config) > 2 else ""
        )
        raise _fault(name, "model_type", f"{what}{told}", _fix(config))
    try:
        return read_stated(config, row, complete)
    except NotCovered as refused:
        key, why, fix = map(str, refused.args)
        raise _fault(name, key, f"{what}: {why}", fix or _fix(config)) from refused


def family_of(config: Config) -> str | None:
    """Return the family whose layers a file has, by its model type or the class that it names; None where unknown."""
    stated = config.get("model_type")
    known = _SAME_LAYERS.get(stated, stated) if isinstance(stated, str) else None
    if known in _READERS or known in families():
        return known
    if known in _REFUSED:
        return None
    classes = config.get("architectures")
    named = str(classes[0]) if isinstance(classes, list) and classes else ""
    plain = named.removesuffix("ForCausalLM").casefold()
    return next((row for row in families() if plain and row.replace("_", "") == plain), None)


def _notes(config: Config, dimensions: Dimensions, family: str) -> str:
    """Return what the count of a decoder leaves out, and what is estimated by a stand-in."""
    stated = config.get("model_type")
    said = []
    if family not in families() and family not in _READERS:
        said.append(f"{family} is no family that is known: its layers are those that its file states")
    elif stated != family and stated not in _SAME_LAYERS:
        said.append(f"model type {stated} is read as {family}, whose class it names")
    corrections = sum(
        part.layers * part.experts for part in parts_of(dimensions) if isinstance(part, Experts) and part.router_bias
    )
    if corrections:
        said.append(f"{corrections:,} of the weights are biases or corrections of routers, buffers in some releases")
    if config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers"):
        said.append("layers for multi-token prediction are not counted")
    parts = dimensions.parts
    return "; ".join([*said, *attention_stand_ins(parts), *activation_stand_ins(parts)])


def _published(config: Config, name: str) -> dict[str, Any]:
    """Return the key of a card that says in which format the weights are, where that is not 16 bits."""
    try:
        formats = formats_of_config(config)
    except NotCovered as refused:
        raise _fault(name, *refused.args) from refused
    if formats == (read_engines().release,):
        return {}
    return {"published": formats, "published_source": "quantization_config"}


def _read_family(family: str, config: Config, name: str, complete: bool) -> dict[str, Any]:
    """Return the card that the family's reader makes of a file; LibraryError with every number that it cannot use.

    A number that cannot be used is replaced by 1 to find the next. What else is refused after that may follow from the
    replacement, so it is reported only if it is the first fault.
    """
    faults: list[Fault] = []
    add = f"add it: a {family} config.json has it"
    while True:
        try:
            card = _READERS[family](config) if family in _READERS else read_decoder(config, family, complete)
            break
        except NoWholeNumber as wrong:
            key, what, fix = map(str, wrong.args)
            if key in (fault.where for fault in faults):  # read from a part of the file
                break
            faults.append(Fault(name, 0, key, what, fix or add))
            config = {**config, key: 1}
        except KeyError as missing:
            if not faults:
                raise _fault(name, str(missing.args[0]), "missing", add) from missing
            break
        except NotCovered as refused:
            if not faults:
                raise _fault(name, *refused.args) from refused
            break
    raise_faults(faults, LibraryError)
    return card


def count_of_card(card: Mapping[str, Any]) -> int:
    """Return the weights that the dimensions of a card give; ValueError where they contradict each other."""
    return count_parameters(Dimensions(**{key: value for key, value in card.items() if key in _DIMENSIONS}))


_LANGUAGE_ONLY = "the language part of a multimodal model: encoders of images and sound are not counted"
_NO_SOUND = "encoders of sound are not counted"


def _unknown(config: Config) -> str:
    """Return the parts of an unknown family that its keys name, and for which it may need a term in the estimates."""
    told = " and ".join(f"{term} (key {key})" for term, key in _parts_named(config).items())
    return f", which has {told}" if told else ""


def _parts_named(config: Config) -> dict[str, str]:
    """Return the parts of layers that the keys of a file name, each with the key."""
    has = [key for key, value in config.items() if value not in (None, False, 0, [], {})]
    terms = {term: key for term, words in _TERMS_BY_KEY.items() for key in has if any(word in key for word in words)}
    return terms | ({"an encoder": "is_encoder_decoder"} if config.get("is_encoder_decoder") else {})


def _fix(config: Config) -> str:
    """Return the families whose names are close to a model type that is not known, and that may have these layers."""
    stated = config.get("model_type")
    close = suggest_names(stated, sorted({*_READERS, *families(), *_SAME_LAYERS})) if isinstance(stated, str) else ""
    takes = " or ".join(name for name in close.split(" or ") if name and _may_be(name, config))
    if any(part in _NO_TERM for part in _parts_named(config)):
        return "choose a decoder whose layers are known"
    same = "if its layers are those of a family that is read, such as llama or qwen3_moe, write that as model_type"
    return f"did you mean {takes}? Else, {same}" if takes else same


def _may_be(name: str, config: Config) -> bool:
    """Return whether a family has every part that the keys of a file name; numbers may be missing."""
    family = _SAME_LAYERS.get(name, name)
    try:
        _READERS[family](config) if family in _READERS else read_decoder(config, family, False)
    except (NoWholeNumber, KeyError):
        return True
    except NotCovered:
        return False
    return True


def _fault(name: str, where: str, what: str, fix: str) -> LibraryError:
    return LibraryError([Fault(name, 0, where, what, fix)])


_READERS: dict[str, Callable[[Config], dict[str, Any]]] = {
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "falcon": falcon,
    "bloom": bloom,
    "opt": opt,
    "mpt": mpt,
}
"""Families that are read by a function of their own; the others are rows of `models/families.yaml`."""

_SAME_LAYERS: dict[str, str] = {
    **dict.fromkeys(
        ("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text", "internvl"), "qwen2"
    ),
    **dict.fromkeys(("qwen3_vl_text", "qwen3_vl"), "qwen3"),
    **dict.fromkeys(("qwen3_vl_moe_text", "qwen3_vl_moe", "qwen3_omni_moe_text"), "qwen3_moe"),
    **dict.fromkeys(("llava", "llava_next", "aya_vision_text", "smolvlm", "idefics3"), "llama"),
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "llama4": "llama4_text",
    "paligemma": "gemma",
    "mistral3": "mistral",
    "glm4v_moe_text": "glm4_moe",
    "glm4v_text": "glm4",
    "ernie4_5_vl_moe_text": "ernie4_5_moe",
    "exaone4_5_text": "exaone4",
}
"""Model types of language parts by the family whose layers they have."""

_TERMS_BY_KEY: dict[str, tuple[str, ...]] = {
    "state-space layers": ("mamba", "ssm_", "state_size", "d_state"),
    "convolution layers": ("conv_L_cache", "conv_bias"),
    "sparse attention": ("index_topk", "indexer"),
    "block-sparse attention": ("block_sparse", "sparse_attention"),
    "latent attention": ("kv_lora_rank",),
    "linear attention": ("linear_attn", "linear_num_", "lightning"),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_"),
    "cross-attention": ("cross_attention",),
    "loops over layers": ("loop_num", "num_loops", "total_ut_steps", "num_recurrences"),
}
"""Parts of keys that name the layers of a family."""
_NO_TERM = ("block-sparse attention", "cross-attention", "loops over layers", "an encoder")
"""Parts that no family that is read has: under another model type they would be left out."""

_STATE_SPACE = "its state-space layers have no term in the estimates"
_LOOPS = "its loops over layers have no term in the estimates"
_ENCODER = "it is no causal decoder"
_STREAMS = "weights and streams per layer (per-layer embeddings, AltUp, Laurel) have no term in the estimates"
_REFUSED: dict[str, str] = {
    **dict.fromkeys(("gemma3n", "gemma3n_text"), _STREAMS),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"), _STATE_SPACE),
    **dict.fromkeys(("zamba", "zamba2"), "its layers share one attention block, which has no term in the estimates"),
    "recurrent_gemma": "its recurrent layers (RG-LRU) have no term in the estimates",
    **dict.fromkeys(("bert", "roberta", "modernbert", "t5", "mt5", "bart", "whisper", "vit", "clip"), _ENCODER),
    **dict.fromkeys(("electra", "deberta", "deberta-v2", "xlm-roberta", "distilbert", "albert", "mpnet"), _ENCODER),
    **dict.fromkeys(("mllama", "mllama_text_model"), "its cross-attention to images has no term in the estimates"),
    "deepseek_v4": "its compressed attention and hyper-connections have no term in the estimates",
    "jetmoe": "its experts of attention have no term in the estimates",
    "longcat_flash": "its experts that do nothing and its two attentions per layer have no term in the estimates",
    "zaya": "its convolutions inside attention and its router network have no term in the estimates",
    "doge": "its dynamic mask attention and learned residuals have no term in the estimates",
    **dict.fromkeys(
        ("inkling_text", "inkling2_text"), "its convolutions inside attention have no term in the estimates"
    ),
    "hy_v4": "its hyper-connections have no term in the estimates",
    **dict.fromkeys(("step3p5", "step3p7"), "its sliding layers, which have more heads than the others, are not read"),
    **dict.fromkeys(("dory", "hrm_text", "iquestloopcoder", "ouro"), _LOOPS),
    **dict.fromkeys(("dots3_note", "dots3_note_text"), "its two kinds of latent attention are not read"),
    "axk2": "its gated norms and gated latent attention are not read",
    "bailing_hybrid": "its Kimi Delta Attention with gates of full rank is not read",
    **dict.fromkeys(("minimax_m3_vl", "minimax_m3_vl_text"), "its block-sparse attention has no term in the estimates"),
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), "its block-compressed indexer has no term in the estimates"),
    "modernbert-decoder": "the layers of its own that its head has are not read",
    "phi4_multimodal": "its decoder carries adapters of its encoders, which are not read",
    "openelm": "layers of different widths are not read from its multipliers",
    "dbrx": "its configuration nests attention and experts in keys that are not read",
    "nemotron-nas": "its layers differ in width and in what they leave out (block_configs), which is not read",
    "deci": "its layers differ in width and in what they leave out (block_configs), which is not read",
}
"""Families by model type with the reason why no estimate is made; others are merely unknown."""


_SAYS_NO_SHAPE = {
    *("name", "aliases", "parameters_basis", "published", "published_source", "base", "named_only", "image", "source"),
    *("notes", "licence", "licence_source", "tower", *_TOWER_KEYS),
}
"""Keys of a card that do not say what network it is."""


def config_of(card: Architecture) -> dict[str, Any]:
    """Return the content of a `config.json` that has the shape of a card; `LibraryError` where no such file is known.

    What a card does not say, such as the base of rotary positions, is left to the defaults of the family's class. The
    file is read back before it is returned: each width, each count and the number of weights are those of the card.
    """
    if card.family in families():
        for config in _candidates(card):
            try:
                read = architecture_from_config(config, card.name)
            except (LibraryError, NotCovered):
                continue
            if _shape(Architecture.model_validate(read)) == _shape(card):
                return config
    what = f"the config.json of {card.name} cannot be written from what is known of it"
    raise LibraryError([Fault(card.name, 0, "", what, "give its own file as the architecture of the job")])


_OF_THE_WHOLE = {"architectures", "auto_map", "rope_scaling", "rope_parameters", "vision_config", "audio_config"}
"""Keys that a decoder does not have, and the rotation of positions in images, which takes the same memory and time."""


def decoder_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `config.json` of the decoder that a plan counts: of a multimodal model its language model.

    It has the model type of the family whose layers it has, because Transformers has no class for the language model
    of some (`qwen2_5_vl_text`, whose layers are those of `qwen2`). That of a decoder is returned as it is.
    """
    decoder = dict(config)
    for key in language_path(config):
        decoder = dict(decoder[key])
    family = family_of({**config, **decoder})
    if decoder == config and family in (None, config.get("model_type")):
        return decoder
    kept = {name: value for name, value in decoder.items() if name not in _OF_THE_WHOLE}
    tied = config.get("tie_word_embeddings")  # the head is that of the whole model
    return {
        **kept,
        "model_type": family or decoder.get("model_type"),
        **({} if tied is None else {"tie_word_embeddings": tied}),
    }


def _shape(card: Architecture) -> dict[str, Any]:
    return card.model_dump(exclude=_SAYS_NO_SHAPE)


def _candidates(card: Architecture) -> list[dict[str, Any]]:
    """Return the files that may have the shape of a card: with its window in the layers that the family gives one."""
    row = family(card.family)
    plain = {"model_type": card.family, **_dimensions(card, row.defaults), **_switches(card)}
    full = {key: value for key, value in plain.items() if key != "sliding_window"}
    slide = round(card.sliding_layer_share * card.layers)
    listed = [
        ["sliding_attention" if index < slide else "full_attention" for index in range(card.layers)],
        ["full_attention" if index % 2 else "sliding_attention" for index in range(card.layers)],
    ]
    candidates = [plain, {**plain, "use_sliding_window": True}]
    candidates += [{**plain, "layer_types": kinds} for kinds in listed] if slide else []
    return [*candidates, {**full, "sliding_window": None}, {**full, "use_sliding_window": False}]


def _dimensions(card: Architecture, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the widths and counts of a card under the keys of its family."""
    experts = bool(card.experts)
    values = {
        "layers": card.layers,
        "hidden": card.hidden,
        "heads": card.heads,
        "kv_heads": card.kv_heads,
        "head_dim": None if card.kv_lora_rank else card.head_dim,
        "ffn": card.dense_ffn or card.ffn,
        "vocab": card.vocab,
        "positions": card.learned_positions or card.max_sequence,
        "tied": card.tied_embeddings,
        "window": card.sliding_window or None,
        "experts": card.experts if experts else None,
        "experts_per_token": card.experts_per_token if experts else None,
        "expert_ffn": card.ffn if experts else None,
        "shared_experts": card.shared_experts if experts else None,
        "shared_ffn": card.shared_experts * card.ffn if experts else None,
        "leading_dense": card.dense_layers if experts else None,
        "kv_rank": card.kv_lora_rank or None,
        "q_rank": card.q_lora_rank or None,
        "value_dim": card.value_head_dim or None,
    }
    row = family(card.family)
    dimensions: dict[str, Any] = {}
    for name, value in values.items():
        keys = row.names.get(name, KEY_NAMES[name])
        known = next((key for key in keys if key in defaults), None)
        if value is not None and (known is not None or name in _MAIN):
            dimensions[known or keys[0]] = value
    if card.kv_lora_rank:
        dimensions |= {"qk_rope_head_dim": card.rope_head_dim, "qk_nope_head_dim": card.head_dim - card.rope_head_dim}
    if card.linear_layers:
        dimensions |= {"linear_num_key_heads": card.linear_key_heads, "linear_num_value_heads": card.linear_value_heads}
        dimensions |= {"linear_key_head_dim": card.linear_key_dim, "linear_value_head_dim": card.linear_value_dim}
        dimensions |= {"linear_conv_kernel_dim": card.linear_kernel}
    return dimensions


_MAIN = {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "positions", "tied", "window"}


def _switches(card: Architecture) -> dict[str, bool]:
    """Return the keys that switch a bias or a norm, where the family has such keys."""
    row = family(card.family)
    said = {
        row.qkv_bias: card.qkv_bias,
        row.ffn_bias: card.ffn_bias,
        row.router_bias: card.router_bias,
        row.head_bias: card.head_bias,
        row.parallel: card.parallel_residual,
        row.qk_norm_if: card.qk_norm or card.qk_norm_all_heads,
        row.one_head_if: card.kv_heads == 1,
    }
    return {key: value for key, value in said.items() if isinstance(key, str) and key}
