"""Shapes that follow the rules of a family, and the models of a family between two sizes.

A generated shape is called `llama-24x3072`: 24 layers of width 3,072. Its name says all of it, so that every command
understands it.
"""

from __future__ import annotations

import re

from planner.documents.files import data_folder
from planner.documents.strict_yaml import read_shipped
from planner.library.schema import Architecture

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
        found += [(one.parameters, one.name) for one in made]
    return tuple(name for size, name in sorted(found) if least <= size <= most)


def _dense_models() -> list[tuple[str, str, int]]:
    """Return name, family and parameters of the shipped decoders without experts."""
    folder = data_folder("models") / "architectures"
    cards = (read_shipped(path).data for path in sorted(folder.glob("*.yaml")))
    return [
        (card["name"], card["family"], int(card["parameters"]))
        for card in cards
        if card.get("kind", "decoder") == "decoder" and not card.get("experts")
    ]
