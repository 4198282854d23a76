"""Hugging Face `config.json` to the content of an architecture card, without the transformers package.

The families that are read stand at the end of this file, and those that are refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from planner.documents.quantities import format_value
from planner.errors import Fault, LibraryError, raise_faults
from planner.estimates.weights import Dimensions, active_parameters, count_parameters
from planner.library import decoder_families
from planner.library.decoder_families import MAX_PARAMETERS, Config, NotCovered, NoWholeNumber
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
    Raises LibraryError when the family is unknown or refused, and with every key that is missing or no positive whole
    number.
    """
    whole, path = config, language_path(config)
    for part in path:
        config = {**config, **config[part]}
    if path and whole.get("tie_word_embeddings") is not None:  # the head is that of the whole model
        config = {**config, "tie_word_embeddings": whole["tie_word_embeddings"]}
    family = config.get("model_type")
    family = _SAME_LAYERS.get(family, family) if isinstance(family, str) else family
    if isinstance(family, str) and family in _REFUSED:
        what = f"{format_value(family)} cannot be planned: {_REFUSED[family]}"
        raise _fault(name, "model_type", what, "choose a decoder with attention in every layer")
    if not isinstance(family, str) or family not in _READERS:
        fix = f"expected one of {', '.join(sorted(_READERS))}"
        raise _fault(name, "model_type", f"unsupported model type {format_value(family)}{_unknown(config)}", fix)
    card = _read_family(family, config, name)
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
        **_published(config, name),
        "source": f"config.json of {config.get('_name_or_path') or name}",
        **card,
        **({"notes": _LANGUAGE_ONLY} if path or any(whole.get(key) is not None for key in _ENCODERS) else {}),
    }


def _published(config: Config, name: str) -> dict[str, Any]:
    """Return the key of a card that says in which format the weights are, where that is not 16 bits."""
    try:
        formats = formats_of_config(config)
    except NotCovered as refused:
        raise _fault(name, *refused.args) from refused
    if formats == (read_engines().release,):
        return {}
    return {"published": formats, "published_source": "quantization_config"}


def _read_family(family: str, config: Config, name: str) -> dict[str, Any]:
    """Return the card that the family's reader makes of a file; LibraryError with every number that it cannot use.

    A number that cannot be used is replaced by 1 to find the next. What else is refused after that may follow from the
    replacement, so it is reported only if it is the first fault.
    """
    faults: list[Fault] = []
    add = f"add it: a {family} config.json has it"
    while True:
        try:
            card = _READERS[family](config)
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
    found = {term: key for term, words in _TERMS_BY_KEY.items() for key in config if any(word in key for word in words)}
    if config.get("is_encoder_decoder"):
        found["an encoder"] = "is_encoder_decoder"
    told = " and ".join(f"{term} (key {key})" for term, key in found.items())
    return f", which has {told}" if told else ""


def _fault(name: str, where: str, what: str, fix: str) -> LibraryError:
    return LibraryError([Fault(name, 0, where, what, fix)])


_READERS: dict[str, Callable[[Config], dict[str, Any]]] = {
    "llama": decoder_families.llama,
    "mistral": decoder_families.mistral,
    "mixtral": decoder_families.mixtral,
    "qwen2": decoder_families.qwen2,
    "qwen3": decoder_families.qwen3,
    "qwen3_5_text": decoder_families.qwen3_5,
    "qwen2_moe": decoder_families.qwen2_moe,
    "qwen3_moe": decoder_families.qwen3_moe,
    "qwen3_next": decoder_families.qwen3_next,
    "qwen3_5_moe_text": decoder_families.qwen3_next,
    "gemma": decoder_families.gemma,
    "gemma2": decoder_families.gemma2,
    "gemma3_text": decoder_families.gemma3,
    "phi3": decoder_families.mistral,
    "granite": decoder_families.llama,
    "smollm3": decoder_families.smollm3,
    "olmo2": decoder_families.olmo2,
    "olmo3": decoder_families.olmo2,
    "deepseek_v3": decoder_families.deepseek_v3,
    "glm4_moe": decoder_families.glm4_moe,
    "gpt_oss": decoder_families.gpt_oss,
    "llama4_text": decoder_families.llama4,
    "gpt2": decoder_families.gpt2,
    "gpt_neox": decoder_families.gpt_neox,
    "falcon": decoder_families.falcon,
    "bloom": decoder_families.bloom,
    "opt": decoder_families.opt,
    "mpt": decoder_families.mpt,
}

_SAME_LAYERS: dict[str, str] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), "qwen2"),
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""Model types of language parts by the family whose layers they have."""

_TERMS_BY_KEY: dict[str, tuple[str, ...]] = {
    "state-space layers": ("mamba", "ssm_", "state_size", "d_state"),
    "convolution layers": ("conv_L_cache", "conv_bias"),
    "sparse attention": ("index_topk", "indexer", "block_sparse"),
    "latent attention": ("kv_lora_rank",),
    "linear attention": ("linear_attn", "linear_num_", "lightning"),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_"),
    "cross-attention": ("cross_attention",),
}
"""Parts of keys that name the layers of a family."""

_STATE_SPACE = "its state-space layers have no term in the estimates"
_ENCODER = "it is no causal decoder"
_REFUSED: dict[str, str] = {
    "gemma3n": "weights and streams per layer (per-layer embeddings, AltUp, Laurel) have no term in the estimates",
    "gemma3n_text": "weights and streams per layer (per-layer embeddings, AltUp, Laurel) have no term in the estimates",
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "falcon_h1", "jamba", "bamba", "zamba2"), _STATE_SPACE),
    **dict.fromkeys(("granitemoehybrid", "nemotron_h", "recurrent_gemma", "rwkv"), _STATE_SPACE),
    **dict.fromkeys(("bert", "roberta", "modernbert", "t5", "mt5", "bart", "whisper", "vit", "clip"), _ENCODER),
    **dict.fromkeys(("mllama", "mllama_text_model"), "its cross-attention to images has no term in the estimates"),
    "lfm2": "its convolution layers have no term in the estimates",
    "deepseek_v32": "its sparse attention with an indexer has no term in the estimates",
}
"""Families by model type with the reason why no estimate is made; others are merely unknown."""
