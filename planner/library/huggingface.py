"""Hugging Face `config.json` to the content of an architecture card, without the transformers package.

The families that are read stand at the end of this file, and those that are refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from planner.documents.quantities import format_value
from planner.errors import Fault, LibraryError
from planner.estimates.parameters import Dimensions, active_parameters, count_parameters
from planner.library import decoder_families as dense
from planner.library import mixture_families as mixture
from planner.library.config_keys import MAX_PARAMETERS, Config, NotCovered

_DIMENSIONS = frozenset(field.name for field in fields(Dimensions))


def architecture_from_config(config: Config, name: str) -> dict[str, Any]:
    """Return the keys of an `Architecture` card for `config`, counts included; the caller validates them.

    Multimodal files nest the decoder under `text_config`; that part is read.
    Raises LibraryError when the family is unknown or refused, or a key is missing or no positive whole number.
    """
    if isinstance(config.get("text_config"), Mapping):
        config = {**config, **config["text_config"]}
    family = config.get("model_type")
    if isinstance(family, str) and family in _REFUSED:
        what = f"{format_value(family)} cannot be planned: {_REFUSED[family]}"
        raise _fault(name, "model_type", what, "choose a decoder with attention in every layer")
    if not isinstance(family, str) or family not in _READERS:
        fix = f"expected one of {', '.join(sorted(_READERS))}"
        raise _fault(name, "model_type", f"unsupported model type {format_value(family)}", fix)
    try:
        card = _READERS[family](config)
    except KeyError as missing:
        raise _fault(name, str(missing.args[0]), "missing", f"add it: a {family} config.json has it") from missing
    except NotCovered as refused:
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


def _fault(name: str, where: str, what: str, fix: str) -> LibraryError:
    return LibraryError([Fault(name, 0, where, what, fix)])


_READERS: dict[str, Callable[[Config], dict[str, Any]]] = {
    "llama": dense.llama,
    "mistral": dense.mistral,
    "mixtral": mixture.mixtral,
    "qwen2": dense.qwen2,
    "qwen3": dense.qwen3,
    "qwen3_5_text": mixture.qwen3_5,
    "qwen2_moe": mixture.qwen2_moe,
    "qwen3_moe": mixture.qwen3_moe,
    "qwen3_next": mixture.qwen3_next,
    "qwen3_5_moe_text": mixture.qwen3_next,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3,
    "phi3": dense.mistral,
    "granite": dense.llama,
    "smollm3": dense.smollm3,
    "olmo2": dense.olmo2,
    "olmo3": dense.olmo2,
    "deepseek_v3": mixture.deepseek_v3,
    "glm4_moe": mixture.glm4_moe,
    "gpt_oss": mixture.gpt_oss,
    "llama4_text": mixture.llama4,
    "gpt2": dense.gpt2,
    "gpt_neox": dense.gpt_neox,
    "falcon": dense.falcon,
    "bloom": dense.bloom,
    "opt": dense.opt,
    "mpt": dense.mpt,
}

_STATE_SPACE = "its state-space layers have no term in the estimates"
_ENCODER = "it is no causal decoder"
_REFUSED: dict[str, str] = {
    "gemma3n": "weights and streams per layer (per-layer embeddings, AltUp, Laurel) have no term in the estimates",
    "gemma3n_text": "weights and streams per layer (per-layer embeddings, AltUp, Laurel) have no term in the estimates",
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "falcon_h1", "jamba", "bamba", "zamba2"), _STATE_SPACE),
    **dict.fromkeys(("granitemoehybrid", "nemotron_h", "recurrent_gemma", "rwkv"), _STATE_SPACE),
    **dict.fromkeys(("bert", "roberta", "modernbert", "t5", "mt5", "bart", "whisper", "vit", "clip"), _ENCODER),
    "lfm2": "its convolution layers have no term in the estimates",
    "deepseek_v32": "its sparse attention with an indexer has no term in the estimates",
}
"""Families by model type with the reason why no estimate is made; others are merely unknown."""
