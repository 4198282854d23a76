"""Keys of a `config.json`: numbers, switches and lists with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import format_value

Config = Mapping[str, Any]
MAX_DIMENSION, MAX_PARAMETERS = 10**8, 10**15
"""Largest width, depth or length, and most weights: far above any model."""

KEY_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "num_query_groups", "multi_query_group_num"),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim"),
    "value_dim": ("v_head_dim",),
    "ffn": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "block_ff_dim"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "positions": (
        *("max_position_embeddings", "n_positions", "model_max_length", "max_seq_len", "seq_length"),
        *("max_sequence_length", "max_length"),
    ),
    "tied": ("tie_word_embeddings", "tie_embedding", "tie_embeddings"),
    "window": ("sliding_window", "sliding_window_size", "attention_window_size"),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts", "num_routed_experts"),
    "experts_per_token": (
        *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "moe_top_k"),
    ),
    "expert_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_ffn": (
        *("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"),
    ),
    "leading_dense": ("first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped"),
    "kv_rank": ("kv_lora_rank",),
    "q_rank": ("q_lora_rank",),
    "kinds": ("layer_types", "layers_block_type"),
    "ffn_kinds": ("mlp_layer_types",),
    "per_layer": ("per_layer_config",),
}
"""What is read -> the keys that files have for it; of several the first that a file has."""


class NotCovered(Exception):
    """A file of a known family that would be counted wrongly; its arguments are key, what and fix."""


class NoWholeNumber(NotCovered):
    """A key that is missing or has no number in range; with another value the rest of the file can be read."""


class Keys:
    """The keys of a file, which remembers those that were asked for.

    `defaults` are those of the family's configuration class, for keys that the file leaves out; a key that is null has
    no default. `complete`: the file leaves out none of the main dimensions, as the part of a multimodal model may.
    """

    def __init__(self, config: Config, defaults: Config, names: Mapping[str, tuple[str, ...]], complete: bool) -> None:
        self.config, self.defaults, self._names, self._complete = config, defaults, KEY_NAMES | dict(names), complete
        self.asked: set[str] = set()

    def over(self, changed: Config) -> Keys:
        """Return the keys of one layer, of which some differ."""
        keys = Keys({**self.config, **changed}, self.defaults, self._names, self._complete)
        keys.asked = self.asked
        return keys

    def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the keys that files have for a name of `KEY_NAMES`, or the key itself."""
        return self._names.get(name, (name,))

    def has(self, name: str) -> bool:
        """Return whether the file or its class has a value that is not null."""
        return self.value(name) is not None

    def value(self, name: str) -> Any:
        """Return what the file has under a key, else the default of the class; None where neither has any."""
        keys = self.keys_of(name)
        self.asked.update(keys)
        stated = [key for key in keys if key in self.config]
        for key in stated:
            if self.config[key] is not None:
                return self.config[key]
        return None if stated else next((self.defaults[key] for key in keys if key in self.defaults), None)

    def stated(self, name: str) -> str:
        """Return the key that the file has for a name, else the first that it may have."""
        keys = self.keys_of(name)
        return next((key for key in keys if self.config.get(key) is not None), keys[0])

    def number(self, name: str, default: int | None = None, least: int = 1) -> int:
        """Return a whole number; `default` where there is none or 0; NoWholeNumber without either."""
        value = self.value(name)
        if isinstance(value, list) and len(value) == self.value("layers") and len(set(map(str, value))) == 1:
            value = value[0]  # Hunyuan lists one for each layer
        if value is None or (value == 0 and least == 1 and default is not None):
            if default is None:
                raise NoWholeNumber(self.stated(name), "missing", "")  # the family names the fix
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_DIMENSION:
            fix = f"give a whole number of {least} to {MAX_DIMENSION:,}"
            raise NoWholeNumber(self.stated(name), f"{format_value(value)} is out of range or no number", fix)
        return value

    def main(self, name: str) -> int:
        """Return a main dimension, which the file itself has unless it is part of another one."""
        if self._complete and not any(key in self.config for key in self.keys_of(name)):
            self.asked.update(self.keys_of(name))
            raise NoWholeNumber(self.stated(name), "missing", "")
        return self.number(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a switch; `default` where there is none or null."""
        value = self.value(name)
        return default if value is None else bool(value)

    def switch(self, said: bool | str) -> bool:
        """Return what a row of a family says: yes, no, or the key of the file that says it."""
        return self.flag(said) if isinstance(said, str) else said

    def items(self, name: str) -> list[Any]:
        """Return a list, empty where the file has none."""
        value = self.value(name)
        if value and not isinstance(value, (list, tuple)):
            raise NotCovered(self.stated(name), f"{format_value(value)} is not a list", "list one entry per layer")
        return list(value or ())
