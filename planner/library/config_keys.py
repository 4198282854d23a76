"""Keys of a Hugging Face `config.json`: reading and checking the ones that families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.documents.quantities import format_value

Config = Mapping[str, Any]
MAX_DIMENSION, MAX_PARAMETERS = 10**8, 10**15
"""Largest width, depth or length, and most weights: far above any model."""


class NotCovered(Exception):
    """A file of a known family that would be counted wrongly; its arguments are key, what and fix."""


class NoWholeNumber(NotCovered):
    """A key that is missing or has no number in range; with another value the rest of the file can be read."""


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


def items(config: Config, key: str) -> list[Any]:
    """Return a list, empty where the file has none."""
    value = config.get(key)
    if value and not isinstance(value, list):
        raise NotCovered(key, f"{format_value(value)} is not a list", "list one entry per layer")
    return value or []


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


def window(config: Config, share: float, used: bool = True) -> dict[str, Any]:
    """Files say null or `use_sliding_window: false` for none; newer ones list each layer, else `share` slide."""
    kinds = items(config, "layer_types")
    if kinds:
        share = sum(kind == "sliding_attention" for kind in kinds) / len(kinds)
    if not config.get("sliding_window") or not share or not flag(config, "use_sliding_window", used):
        return {}
    return {"sliding_window": whole(config, "sliding_window"), "sliding_layer_share": share}
