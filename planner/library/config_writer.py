"""An architecture card back to the `config.json` of its family, where the card says all that such a file must say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import Fault, LibraryError
from planner.library.decoder_keys import KEY_NAMES, NotCovered
from planner.library.decoder_parts import families, family
from planner.library.huggingface import architecture_from_config, family_of, language_path
from planner.library.schema import Architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAYS_NO_SHAPE = {
    *("name", "aliases", "parameters_basis", "published", "published_source", "base", "named_only", "image", "source"),
    *("notes", "licence"),
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
                found = architecture_from_config(config, card.name)
            except (LibraryError, NotCovered):
                continue
            if _shape(Architecture.model_validate(found)) == _shape(card):
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
    found = dict(config)
    for key in language_path(config):
        found = dict(found[key])
    family = family_of({**config, **found})
    if found == config and family in (None, config.get("model_type")):
        return found
    kept = {name: value for name, value in found.items() if name not in _OF_THE_WHOLE}
    tied = config.get("tie_word_embeddings")  # the head is that of the whole model
    return {
        **kept,
        "model_type": family or found.get("model_type"),
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
    found = [plain, {**plain, "use_sliding_window": True}]
    found += [{**plain, "layer_types": kinds} for kinds in listed] if slide else []
    return [*found, {**full, "sliding_window": None}, {**full, "use_sliding_window": False}]


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
    found: dict[str, Any] = {}
    for name, value in values.items():
        keys = row.names.get(name, KEY_NAMES[name])
        known = next((key for key in keys if key in defaults), None)
        if value is not None and (known is not None or name in _MAIN):
            found[known or keys[0]] = value
    if card.kv_lora_rank:
        found |= {"qk_rope_head_dim": card.rope_head_dim, "qk_nope_head_dim": card.head_dim - card.rope_head_dim}
    if card.linear_layers:
        found |= {"linear_num_key_heads": card.linear_key_heads, "linear_num_value_heads": card.linear_value_heads}
        found |= {"linear_key_head_dim": card.linear_key_dim, "linear_value_head_dim": card.linear_value_dim}
        found |= {"linear_conv_kernel_dim": card.linear_kernel}
    return found


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
