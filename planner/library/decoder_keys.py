"""Keys of a `config.json`: numbers, switches and lists with their defaults, and the format of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import format_value
from planner.library.engines import read_engines

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
        found = Keys({**self.config, **changed}, self.defaults, self._names, self._complete)
        found.asked = self.asked
        return found

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


# The format of weights.


def formats_of_config(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the format of weights that a config.json says under `quantization_config`; bf16 without it.

    `NotCovered` for what nothing here loads, and for layers of several formats.
    """
    wanted = config.get("quantization_config") or config.get("compression_config")
    if wanted is None:
        return (read_engines().release,)
    if not isinstance(wanted, Mapping):
        raise NotCovered("quantization_config", f"{format_value(wanted)} is no mapping", "leave it out, or correct it")
    found = _formats_of(wanted)
    if len(found) != 1 or None in found:
        what = f"weights of {_stated_format(wanted)} are loaded by no engine here"
        if len(found) > 1:
            what = f"layers of several formats ({_stated_format(wanted)}), where the estimates have one for all"
        raise NotCovered("quantization_config", what, "give the config.json of the release that they were made from")
    return tuple(form for form in found if form is not None)


def _formats_of(wanted: Mapping[str, Any]) -> list[str | None]:
    """Return the formats that the parts of a release have, each once; None for what nothing here loads."""
    table = read_engines()
    algorithm = _algorithm(wanted)
    if algorithm is not None:  # of ModelOpt, whatever quant_method says next to it
        parts = _algorithms_by_layer(wanted) if algorithm.casefold() == MIXED else (algorithm,)
        return list(dict.fromkeys(table.methods["modelopt"].get(part.casefold()) for part in parts)) or [None]
    method = _method(wanted)
    if method in ("compressed-tensors", "quark"):
        groups = wanted.get("config_groups")
        return list(dict.fromkeys(map(_of_group, groups.values()))) if isinstance(groups, Mapping) else [None]
    row = table.methods.get(method, {})
    bits = str(wanted.get("bits", wanted.get("w_bit"))).casefold()
    loaded = (key for key in ("load_in_4bit", "load_in_8bit") if wanted.get(key))
    return [next((row[name] for name in (*loaded, bits, "any") if name in row), None)]


MIXED = "mixed_precision"
"""The algorithm of ModelOpt under which each layer has one of its own."""


def _algorithm(wanted: Mapping[str, Any]) -> str | None:
    """Return the algorithm of ModelOpt, in config.json or in its own file; `NO_QUANT` where the cache alone has one."""
    inner = wanted.get("quantization")
    for part in (wanted, inner if isinstance(inner, Mapping) else {}):
        if part.get("quant_algo") or ("quant_algo" in part and part.get("quant_method") in (None, "modelopt")):
            return str(part["quant_algo"] or "NO_QUANT")
    return None


def _algorithms_by_layer(wanted: Mapping[str, Any]) -> tuple[str, ...]:
    inner = wanted.get("quantization")
    layers = wanted.get("quantized_layers") or (inner.get("quantized_layers") if isinstance(inner, Mapping) else None)
    if not isinstance(layers, Mapping):
        return ()
    named = (str(row["quant_algo"]) for row in layers.values() if isinstance(row, Mapping) and row.get("quant_algo"))
    return tuple(sorted(set(named)))


def _method(wanted: Mapping[str, Any]) -> str:
    return str(wanted.get("quant_method") or wanted.get("quant_type") or "").casefold()


def _of_group(group: Any) -> str | None:
    """Return the format of one group of compressed-tensors: bits and type of weights, and of inputs."""
    if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
        return None
    weights = group["weights"]
    whole, bits = weights.get("type", "int") == "int", weights.get("num_bits")
    if whole:
        return {4: "gptq", 8: "int8" if group.get("input_activations") else "int8-weights"}.get(bits)
    four = "mxfp4" if weights.get("group_size") == 32 else "nvfp4"
    return {4: four, 8: "fp8"}.get(bits)


def _stated_format(wanted: Mapping[str, Any]) -> str:
    """Return what a file says of the format of its weights, such as `quant_method 'gptq' with bits 3`."""
    algorithm, groups = _algorithm(wanted), wanted.get("config_groups")
    if algorithm is not None:
        parts = _algorithms_by_layer(wanted)
        return f"quant_algo {algorithm}{': ' if parts else ''}{' and '.join(parts)}"
    said = f"quant_method {format_value(wanted['quant_method'])}" if "quant_method" in wanted else "no quant_method"
    if isinstance(groups, Mapping):
        weights = [group["weights"] for group in groups.values() if isinstance(group, Mapping) and group.get("weights")]
        kinds = [
            f"{weight.get('num_bits')}-bit {weight.get('type', 'int')}"
            for weight in weights
            if isinstance(weight, Mapping)
        ]
        return f"{said}{': ' if kinds else ''}{' and '.join(dict.fromkeys(kinds))}"
    bits = wanted.get("bits", wanted.get("w_bit"))
    return said if bits is None else f"{said} with bits {format_value(bits)}"
