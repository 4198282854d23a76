"""Hugging Face `config.json` to the content of an architecture card, without the transformers package.

Most families are rows of `models/families.yaml`; those that are refused stand at the end of this file with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from planner.documents.validation import suggest_names
from planner.errors import Fault, LibraryError, format_value, raise_faults
from planner.estimates.parts import Experts, activation_stand_ins, attention_stand_ins
from planner.estimates.weights import Dimensions, active_parameters, count_parameters, parts_of
from planner.library import decoder_families
from planner.library.decoder_keys import MAX_PARAMETERS, Config, NotCovered, NoWholeNumber
from planner.library.decoder_parts import families, read_decoder, read_stated, stated_family
from planner.library.diffusers_config import diffusion_card, is_diffusion
from planner.library.engines import read_engines
from planner.library.model_ladder import formats_of_config

_DIMENSIONS = frozenset(field.name for field in fields(Dimensions))


_LANGUAGE_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which files of multimodal models have their decoder."""
_ENCODERS = ("vision_config", "audio_config")


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
    notes = _notes(config, dimensions, bool(path) or any(whole.get(key) is not None for key in _ENCODERS), family)
    return {
        "name": name,
        "family": family,
        "parameters": count_parameters(dimensions),
        "active_parameters": active_parameters(dimensions),
        "parameters_basis": "computed",
        **_published(config, name),
        "source": f"config.json of {config.get('_name_or_path') or name}",
        **card,
        **({"notes": notes} if notes else {}),
    }


def _read_stated(config: Config, name: str, complete: bool) -> dict[str, Any]:
    """Return the card of an unknown family whose file states every part; LibraryError with what it leaves open."""
    stated = config.get("model_type")
    what = f"unsupported model type {format_value(stated)}{_unknown(config)}"
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
    found = _SAME_LAYERS.get(stated, stated) if isinstance(stated, str) else None
    if found in _READERS or found in families():
        return found
    if found in _REFUSED:
        return None
    classes = config.get("architectures")
    named = str(classes[0]) if isinstance(classes, list) and classes else ""
    plain = named.removesuffix("ForCausalLM").casefold()
    return next((row for row in families() if plain and row.replace("_", "") == plain), None)


def _notes(config: Config, dimensions: Dimensions, multimodal: bool, family: str) -> str:
    """Return what the count leaves out, and what is estimated by a stand-in."""
    stated = config.get("model_type")
    said = []
    if multimodal:
        said.append(_LANGUAGE_ONLY)
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


def _unknown(config: Config) -> str:
    """Return the parts of an unknown family that its keys name, and for which it may need a term in the estimates."""
    told = " and ".join(f"{term} (key {key})" for term, key in _parts_named(config).items())
    return f", which has {told}" if told else ""


def _parts_named(config: Config) -> dict[str, str]:
    """Return the parts of layers that the keys of a file name, each with the key."""
    has = [key for key, value in config.items() if value not in (None, False, 0, [], {})]
    found = {term: key for term, words in _TERMS_BY_KEY.items() for key in has if any(word in key for word in words)}
    return found | ({"an encoder": "is_encoder_decoder"} if config.get("is_encoder_decoder") else {})


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
    "gpt2": decoder_families.gpt2,
    "gpt_neox": decoder_families.gpt_neox,
    "falcon": decoder_families.falcon,
    "bloom": decoder_families.bloom,
    "opt": decoder_families.opt,
    "mpt": decoder_families.mpt,
}
"""Families that are read by a function of their own; the others are rows of `models/families.yaml`."""

_SAME_LAYERS: dict[str, str] = {
    **dict.fromkeys(
        ("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text", "internvl"), "qwen2"
    ),
    **dict.fromkeys(("qwen3_vl_text", "qwen3_vl"), "qwen3"),
    **dict.fromkeys(("qwen3_vl_moe_text", "qwen3_vl_moe", "qwen3_omni_moe_text"), "qwen3_moe"),
    **dict.fromkeys(("llava", "llava_next", "aya_vision_text"), "llama"),
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
