"""Models of a family between two sizes, and the formats in which weights are published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.documents.files import data_folder, read_shipped
from planner.errors import format_value
from planner.library.decoder_keys import NotCovered
from planner.library.engines import Engine, read_engines
from planner.library.schema import Architecture
from planner.units import GIB

# Shapes that follow the rules of a family, and the models of a family between two sizes.
#
# A generated shape is called `llama-24x3072`: 24 layers of width 3,072. Its name says all of it, so that every command
# understands it.


VOCABULARY = 32_768
"""Rows of the embedding of a generated shape."""
HEAD_DIM = 128
"""Width of a head, as in LLaMA 7B to 65B (Touvron et al. 2023, arXiv:2302.13971, table 2)."""
FFN_MULTIPLE = 256
"""LLaMA rounds 8/3 of the width up to a multiple of this (`multiple_of` in its release)."""
CONTEXT = 4096
LADDER_LAYERS = range(4, 65, 2)
"""Layers of the ladder; the width is 128 times as much, as LLaMA 7B (32 x 4,096) and 13B (40 x 5,120) have it."""
MOST_LAYERS, MOST_HIDDEN = 200, 32_768
GENERATED_FAMILIES = ("llama",)
"""Families with a rule for shapes; of the others only the shipped models take part."""

_NAME = re.compile(r"llama-(\d{1,3})x(\d{3,5})", re.IGNORECASE)


def generated_name(layers: int, hidden: int) -> str:
    """Return the name of a generated shape."""
    return f"llama-{layers}x{hidden}"


def find_generated(wanted: str) -> str | None:
    """Return the name of the generated shape that a text names; None where it is none that frameworks take."""
    found = _NAME.fullmatch(wanted.strip())
    if found is None:
        return None
    layers, hidden = int(found[1]), int(found[2])
    if not 1 <= layers <= MOST_LAYERS or hidden % HEAD_DIM or not HEAD_DIM <= hidden <= MOST_HIDDEN:
        return None
    return generated_name(layers, hidden)


def describe_misfit(wanted: str) -> str | None:
    """Return why a text of the form of a generated shape names none; None where it does, or has another form."""
    if _NAME.fullmatch(wanted.strip()) is None or find_generated(wanted):
        return None
    return f"1 to {MOST_LAYERS} layers, and a width that {HEAD_DIM} divides, such as llama-24x3072"


def generate(name: str) -> Architecture:
    """Return a generated shape by its name: heads of 128, gated feed-forward of 8/3 of the width, untied head."""
    layers, hidden = (int(part) for part in name.removeprefix("llama-").split("x"))
    ffn = -(-8 * hidden // 3 // FFN_MULTIPLE) * FFN_MULTIPLE
    each = 4 * hidden**2 + 3 * hidden * ffn + 2 * hidden
    parameters = 2 * VOCABULARY * hidden + layers * each + hidden
    return Architecture(
        name=name,
        family="llama",
        parameters=parameters,
        active_parameters=parameters,
        parameters_basis="computed",
        layers=layers,
        hidden=hidden,
        heads=hidden // HEAD_DIM,
        kv_heads=hidden // HEAD_DIM,
        head_dim=HEAD_DIM,
        ffn=ffn,
        vocab=VOCABULARY,
        max_sequence=CONTEXT,
        source="made from the rules of LLaMA (arXiv:2302.13971)",
    )


def families() -> dict[str, int]:
    """Return the families of shipped models that are trained on tokens without experts, with their number."""
    counts: dict[str, int] = {}
    for name, family, _ in _dense_models():
        del name
        counts[family] = counts.get(family, 0) + 1
    return counts


def members(family: str, least: float, most: float) -> tuple[str, ...]:
    """Return the names of the family's models with `least` to `most` parameters, smallest first."""
    found = [(size, name) for name, its, size in _dense_models() if its == family]
    if family in GENERATED_FAMILIES:
        made = (generate(generated_name(layers, HEAD_DIM * layers)) for layers in LADDER_LAYERS)
        found += [(model.parameters, model.name) for model in made]
    return tuple(name for size, name in sorted(found) if least <= size <= most)


def _dense_models() -> list[tuple[str, str, int]]:
    """Return name, family and parameters of the shipped decoders without experts that a job may leave open."""
    folder = data_folder("models") / "architectures"
    cards = (read_shipped(path).data for path in sorted(folder.glob("*.yaml")))
    return [
        (card["name"], card["family"], int(card["parameters"]))
        for card in cards
        if card.get("kind", "decoder") == "decoder" and not card.get("experts") and not card.get("named_only")
    ]


# Formats in which the weights of a model are published, what its name says of them, and who can use them.
#
# A model is released in one format, the first of `Architecture.published`. Of a release in 16 bits any other format can
# be made. Of one that is quantised already (gpt-oss in MXFP4, DeepSeek-V3 in FP8) only the formats that are published
# exist. A name such as `Qwen/Qwen2.5-7B-Instruct-AWQ` means the model `qwen2.5-7b-awq`, which has that format alone.


def is_16_bit(architecture: Architecture) -> bool:
    """Return whether the release is in 16 bits (or 32), so that every other format can be made of it."""
    return read_engines().formats[architecture.published[0]].bits >= 16


def servable_formats(engine: Engine, architecture: Architecture) -> tuple[str, ...]:
    """Return the formats in which an engine can serve a model, those that are meant first before others.

    Of a release in 16 bits all that the engine loads, of a quantised one those of them that are published.
    """
    if is_16_bit(architecture):
        table, own = read_engines(), architecture.published
        # Of two alike the one that can be downloaded is meant.
        kinds = [table.fitted_as(form) for form in engine.formats]
        return tuple(sorted(engine.formats, key=lambda form: (kinds.index(table.fitted_as(form)), form not in own)))
    return tuple(form for form in architecture.published if form in engine.formats)


def release_bits(published: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the bits of weights that are meant where none are given: those of a quantised release, else None."""
    bits = read_engines().formats[published[0]].bits
    return None if bits >= 16 else (bits,)


def describe_published(architecture: Architecture) -> str:
    """Return a clause such as `gpt-oss-20b is published in mxfp4 and bf16`."""
    *most, last = architecture.published
    return f"{architecture.name} is published in {', '.join(most)}{' and ' if most else ''}{last}"


WHOLE_SHARE = 0.8
"""Share of the memory that weights in 16 bits may take where an engine quantises them while it loads them."""


def conversion(architecture: Architecture, form: str, engine: Engine, own: bool, usable_gib: float) -> str | None:
    """Return what a user must do to have weights in a format; None where they are the release or the engine makes them.

    `own`: the weights are the user's own, in 16 bits, such as merged adapters. `usable_gib`: of the GPUs of a replica,
    which hold the weights in 16 bits where the engine quantises them.
    """
    formats, published = read_engines().formats, architecture.published
    from_16_bit = own or is_16_bit(architecture)
    if (form == published[0] and not own) or (formats[form].bits >= 16 and from_16_bit):
        return None
    if form in engine.makes and from_16_bit and architecture.parameters * 2 / GIB < WHOLE_SHARE * usable_gib:
        return None
    if form in published and not own:
        return f"needs a copy in {form}: it is published, and the release is in {published[0]}"
    release = "merged weights are in bf16" if own else f"the release is in {published[0]}"
    return f"needs weights that you convert to {form} with {formats[form].maker}: {release}"


FUSED_EXPERTS = frozenset({"gpt_oss", "llama4_text"})
"""Families whose experts are one tensor, not linear layers: bitsandbytes leaves them in 16 bits (linears.yaml; issue
1849 of bitsandbytes, pull request 1965 of 2026-06). Unsloth's own loading holds them as linear layers."""


def training_refusal(
    architecture: Architecture, method: str, bits: int, quant: str, framework: str, whole_experts: bool = False
) -> str | None:
    """Return why a model cannot be trained so from the weights that are published; None where it can.

    Weights in fp8, mxfp4 and GGUF are dequantised to 16 bits when they are loaded (Transformers documentation:
    FineGrainedFP8, MXFP4, GGUF), and all methods follow. Others stay frozen as they are. `whole_experts`: experts keep
    16 bits whatever the others have.
    """
    form = architecture.published[0]
    kept = read_engines().formats[form].trained
    if kept == "none":
        return f"{architecture.name} holds {form} weights, which no framework trains: name its 16-bit release"
    if kept == "16 bit":
        if bits < 16 and architecture.family in FUSED_EXPERTS and framework != "unsloth" and not whole_experts:
            return f"the experts of {architecture.name} are no linear layers, which alone are quantised here"
        return None
    if method != "lora" or quant.partition("_")[0] != kept:  # nf4_dq: the same blocks
        return f"{architecture.name} holds {form} weights: they are trained as they are (lora, quant {kept})"
    return None


def held_quant(architecture: Architecture) -> str | None:
    """Return the quantisation in which a base stays frozen because its weights are published so; None where none."""
    kept = read_engines().formats[architecture.published[0]].trained
    return None if kept in ("16 bit", "none") else kept


def training_conversion(architecture: Architecture, bits: int) -> str | None:
    """Return what frameworks make of a quantised release to train it; None where they take it as it is."""
    form = architecture.published[0]
    row = read_engines().formats[form]
    if row.bits >= 16 or row.trained != "16 bit":
        return None
    then = "" if bits >= 16 else f", then quantised to {bits} bits"
    return f"trains {form} weights dequantised to bf16{then} (the release is in {form})"


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
