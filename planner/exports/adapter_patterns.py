"""Target modules of adapters as PEFT reads them: a string is a regular expression over the names of all modules.

PEFT 0.21.2, `tuners_utils.check_target_module_exists`: a string has to match the whole name, such as
`model.layers.0.self_attn.q_proj`; an entry of a list is the name or its end after a dot. A pattern is tried on the
names of every family of `models/techniques/linears.yaml`, because a file may be read before its model is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.library.technique_tables import read_techniques

if TYPE_CHECKING:
    from collections.abc import Collection

ROOTS = (
    "model.layers.{}.",
    "model.language_model.layers.{}.",
    "language_model.model.layers.{}.",
    "model.text_model.layers.{}.",
    "model.decoder.layers.{}.",
    "transformer.h.{}.",
    "transformer.blocks.{}.",
    "gpt_neox.layers.{}.",
)
"""What precedes the path of a module in a layer, in classes of Transformers."""
TOWERS = (
    "vision_tower.vision_model.encoder.layers.1.",
    "vision_tower.encoder.layers.1.",
    "vision_tower.transformer.layers.1.",
    "vision_tower.timm_model.blocks.1.",
    "vision_model.encoder.layers.1.",
    "vision_model.transformer.layers.1.",
    "visual.blocks.1.",
    "audio_tower.layers.1.",
    "img_processor.vision_model.encoder.layers.1.",
)
"""What precedes a module of the towers of images and sound in classes of Transformers, perhaps after `model.`."""
OF_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "qkv", "proj")
OF_MLP = ("fc1", "fc2", "gate_proj", "up_proj", "down_proj", "linear_fc1", "linear_fc2")
OF_TOWERS = (
    *(f"{block}.{name}" for block in ("self_attn", "attn", "attention") for name in OF_ATTENTION),
    *(f"{block}.{name}" for block in ("mlp", "feed_forward") for name in OF_MLP),
)
"""Linear layers of such a tower."""
LAYERS = range(32)
"""Layers that a pattern is tried on."""


def is_pattern(text: str) -> bool:
    """Return whether a string is a regular expression: it has a sign that no name of a module and no list has."""
    return re.search(r"[\\*+?|()\[\]^$]", text) is not None


def matched_modules(pattern: str) -> tuple[list[str], bool]:
    """Return the paths of the modules in a layer that a pattern matches, and whether it leaves layers of one out.

    Example: `model.layers.[0-9]+.(self_attn|mlp).(q|down)_proj` gives mlp.down_proj and self_attn.q_proj, False.
    Raises re.error for what is no regular expression.
    """
    compiled = re.compile(pattern)
    found: list[str] = []
    leaves_out = False
    for path in sorted(read_techniques().linears.paths):
        matched = max(
            sum(compiled.fullmatch(root.format(layer) + path) is not None for layer in LAYERS) for root in ROOTS
        )
        if matched:
            found.append(path)
            leaves_out |= matched < len(LAYERS)
    return found, leaves_out


def reaches_towers(pattern: str) -> bool:
    """Return whether a pattern matches linear layers of a tower of images or sound, as `.*_proj` does.

    Raises re.error for what is no regular expression.
    """
    compiled = re.compile(pattern)
    names = (before + tower + path for before in ("", "model.") for tower in TOWERS for path in OF_TOWERS)
    return any(compiled.fullmatch(name) for name in names)


def names_towers(pattern: str) -> bool:
    """Return whether a pattern asks for such a tower by its name, outside of what it rules out."""
    asked = re.sub(r"\(\?[!<]!?[^()]*(?:\([^()]*\))?[^()]*\)", "", pattern)
    return re.search("vision|visual|audio|image|img", asked) is not None


def is_all(paths: Collection[str]) -> bool:
    """Return whether these are all modules of all families: such a pattern means all linear layers."""
    return set(paths) == read_techniques().linears.paths
