"""`config.json` of a diffusion transformer, in the form of diffusers, to the content of an architecture card.

The classes are rows of `models/diffusers.yaml`: what blocks they have, and which weights a token of the image, and one
of the caption, meets in them. Those that are not rows are refused by their name.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from typing import TYPE_CHECKING, Any

from planner.documents.files import data_folder, read_shipped
from planner.documents.validation import suggest_names
from planner.errors import Fault, LibraryError, format_value
from planner.library.decoder_keys import MAX_DIMENSION, MAX_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CLASS_KEY = "_class_name"
"""Key of a file of diffusers that names the class of its network; files of Transformers have `model_type`."""
_RESOLUTION, _VIDEO_RESOLUTION = 1024, 480
"""Pixels of a side where a job gives none."""


def is_diffusion(config: Mapping[str, Any]) -> bool:
    """Return whether a `config.json` is that of a diffusion network, as diffusers writes it."""
    return isinstance(config.get(CLASS_KEY), str) and "model_type" not in config


def diffusion_card(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the keys of an `Architecture` card for a diffusion transformer, counts included.

    FLUX.1-dev has 19 blocks with two sets of weights and 38 with one: 11.9e9 weights, of which a token of the image
    meets 57 * 12 * 3072^2 = 6.5e9, because modulation works on one vector of a sample.
    Raises LibraryError with the class that is not modelled, or with the key that is missing or wrong.
    """
    row = _row_of(config, name)
    words = _words(row, {**row["defaults"], **config}, name)

    def value(expression: object) -> float:
        return evaluate_expression(str(expression), words)

    stacks = [
        {"n": value(stack["n"]), **{part: _met(stack, part, value) for part in ("image", "text")}, "stack": stack}
        for stack in row["stacks"]
    ]
    image = sum(stack["n"] * stack["image"] for stack in stacks)
    parameters = sum(stack["n"] * _weights(stack, value) for stack in stacks) + value(row["outside"])
    if not image or parameters > MAX_PARAMETERS:
        what = f"it has {parameters:.3g} weights" if image else "it has no layers"
        raise _fault(name, "", what, "give the config.json as it was released")
    layers = max(round(image / _plain_layer(words, bool(row.get("gated", False)))), 1)
    return {
        "name": name,
        "family": re.sub(r"Transformer[23]DModel$", "", str(config[CLASS_KEY])),
        "kind": "diffusion",
        "parameters": round(parameters),
        "active_parameters": round(image),
        "parameters_basis": "computed",
        "layers": layers,
        "hidden": round(words["h"]),
        "heads": round(value(row["heads"])),
        "kv_heads": round(words["kv"] / words["d"]),
        "head_dim": round(words["d"]),
        "ffn": round(words["f"]),
        "vocab": 0,
        "max_sequence": 2**20,
        "gated": bool(row.get("gated", False)),
        "adapters": _adapters(row, stacks, value),
        "image": _tokens(row, stacks, layers, value) | {"linears": _linears(stacks, words)},
        "unread": _unread(row, config, words),
        "source": f"config.json of {config.get('_name_or_path') or name}",
    }


def _row_of(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the row of the class that a file names; LibraryError with what of it is not modelled."""
    table, stated = _table()["classes"], str(config[CLASS_KEY])
    if stated not in table:
        close = suggest_names(stated, sorted(table))
        fix = f"did you mean {close}?" if close else f"classes that are modelled: {', '.join(sorted(table))}"
        raise _fault(name, CLASS_KEY, f"{stated} is not modelled", fix)
    row: Mapping[str, Any] = table[stated]
    for key, why in row.get("refused", {}).items():
        if config.get(key):
            raise _fault(name, key, why, "choose a network that reads text alone")
    return row


def _tokens(
    row: Mapping[str, Any], stacks: list[dict[str, Any]], layers: int, value: Callable[[object], float]
) -> dict[str, Any]:
    """Return the keys of `ImageTokens`: how the network sees an image, and what a token costs."""
    caption, frames = row["text"], row.get("frames_per_token")
    image, text = (sum(stack["n"] * stack[part] for stack in stacks) for part in ("image", "text"))
    return {
        "resolution": _RESOLUTION if frames is None else _VIDEO_RESOLUTION,
        "frames": 1 if frames is None else 10 * frames + 1,
        "pixels_per_token": round(value(row["pixels_per_token"])),
        "frames_per_token": frames,
        "text_tokens": caption["tokens"],
        "text_share": min(text / image, 1.0),
        "text_width": round(value(caption["width"])),
        "latent_channels": round(value(row["latent_channels"])),
        "latent_pixels": round(value(row.get("latent_pixels", 8))),
        "encoder_gflop_per_token": value(row["encoder_gflop_per_token"]),
        "text_gflop": caption["gflop"],
        "frozen_parameters": round(value(row["frozen"])),
        "token_gflop": 2 * image / 1e9,
        "kept_bytes": _passes(stacks, "kept", 0.0) / layers,
        **{f"{name}_bytes": _passes(stacks, name, 0.0) / layers for name in ("moved", "freed", "masks")},
        "attentions": round(_passes(stacks, "attentions", 1)),
        "blocks": round(sum(stack["n"] for stack in stacks if stack["image"])),
        "masked": bool(row.get("masked", False)),
        "cross_attentions": round(_passes(stacks, "cross", False)),
        "basis": "prior",
        "source": "models/diffusers.yaml",
    }


def _unread(row: Mapping[str, Any], config: Mapping[str, Any], words: Mapping[str, Any]) -> list[str]:
    """Return the keys of a file that the counts do not take into account although they may matter."""
    table, widths = _table(), (None, False, words["h"], config.get("in_channels"))
    read = {*row["defaults"], *row.get("refused", ()), *table["without_effect"]}
    values = {name: value for name, value in config.items() if name not in read and name[:1] != "_"}
    return [name for name, value in values.items() if value not in (*widths, *table["counted_with"].get(name, ()))]


def _adapters(
    row: Mapping[str, Any], stacks: list[dict[str, Any]], value: Callable[[object], float]
) -> list[list[Any]]:
    """Return letter, sum of d_in and sum of d_out of the linear layers that adapters extend, of all blocks together."""
    table = _table()["linears"]
    blocks = [(stack["n"], table[name]) for stack in stacks for name in stack["stack"]["linears"]]
    found: dict[str, list[float]] = {}
    for count, linears in [*blocks, (1, row.get("outside_linears", {}))]:
        for letter, widths in linears.items():
            sums = found.setdefault(letter, [0.0, 0.0])
            found[letter] = [total + count * value(width) for total, width in zip(sums, widths, strict=True)]
    return [[letter, *map(round, sums)] for letter, sums in found.items()]


def _plain_layer(words: Mapping[str, Any], gated: bool) -> float:
    """Return the matrices of a layer with one attention and one feed-forward; blocks count as so many layers.

    A block that also attends to the caption has 6 h^2 + 2 h f where f = 4 h, so it is 14/12 of a layer.
    """
    h, f, kv = words["h"], words["f"], words["kv"]
    return float(2 * h * h + 2 * h * kv + (3 if gated else 2) * h * f)


def _linears(stacks: list[dict[str, Any]], words: Mapping[str, Any]) -> float:
    """Return the linear layers of all blocks: where all widths are 1, a matrix counts 1 (4 h^2 + 2 h f is 6).

    Layers of modulation are left out: the classes of diffusers have 2 to 20 % more.
    """
    ones = dict.fromkeys(words, 1)
    parts = [(each["n"], each["stack"].get(part, "0")) for each in stacks for part in ("image", "text")]
    return float(sum(n * evaluate_expression(str(stated), ones) for n, stated in parts if stated != "same"))


def _passes(stacks: list[dict[str, Any]], key: str, usual: float) -> float:
    return sum(float(stack["n"] * stack["stack"].get(key, usual)) for stack in stacks if stack["image"])


def _met(stack: Mapping[str, Any], part: str, value: Callable[[object], float]) -> float:
    stated = stack.get(part, 0)
    return value(stack["image"] if stated == "same" else stated)


def _weights(stack: Mapping[str, Any], value: Callable[[object], float]) -> float:
    """Return the weights of one block: those that tokens meet, counted once where both meet the same, and the rest."""
    shared = stack["stack"].get("text") == "same"
    return float(stack["image"] + (0.0 if shared else stack["text"]) + value(stack["stack"]["rest"]))


def _words(row: Mapping[str, Any], keys: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the words that the expressions of a row may use: keys of the file, and widths h, f, d and kv."""
    words: dict[str, Any] = {}
    for key, default in row["defaults"].items():
        given = keys[key]
        if isinstance(default, list) and not isinstance(given, list):
            raise _fault(name, key, f"{format_value(given)} is no list", "correct it")
        if default is not None and not all(map(_fits(default), given if isinstance(default, list) else [given])):
            kind = "number" if isinstance(default, float) else "whole number"
            fix = "give the config.json as it was released"
            raise _fault(name, key, f"{format_value(given)} is no {kind} of 0 to {MAX_DIMENSION:,}", fix)
        words[key] = given
    words["d"] = evaluate_expression(str(row["d"]), words)
    words["h"] = words["d"] * evaluate_expression(str(row["heads"]), words)
    words["kv"] = evaluate_expression(str(row.get("kv", "h")), words)
    words["f"] = evaluate_expression(str(row["f"]), words)
    if not all(words[width] >= 1 for width in ("d", "h", "kv", "f")):
        raise _fault(name, "", "a width of its layers is 0", "give the config.json as it was released")
    return words


def _fits(default: object) -> Callable[[object], bool]:
    """Return what tells whether a value may replace a default: a number of its kind, not beyond any network."""

    def fits(given: object) -> bool:
        whole = isinstance(default, float) or isinstance(given, int) or (isinstance(given, float) and given % 1 == 0)
        return isinstance(given, int | float) and 0 <= given <= MAX_DIMENSION and whole

    return fits


def evaluate_expression(expression: str, words: Mapping[str, Any]) -> float:
    """Return the value of an expression of a table: names, numbers, + - * //, and the functions of `_FUNCTIONS`."""
    return float(_evaluate(ast.parse(expression, mode="eval").body, words))


def _pair(side: Any) -> list[Any]:
    """Return height and width: a square has one number for both."""
    return side if isinstance(side, list) else [side, side]


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "up": lambda number, multiple: math.ceil(number / multiple) * multiple,
    "count": lambda items: float(len(items)),
    "sum": lambda items: float(sum(items)),
    "flag": lambda item: float(bool(item)),
    "area": lambda side: float(operator.mul(*_pair(side))),
    "patches": lambda image, patch: float(operator.mul(*map(operator.floordiv, _pair(image), _pair(patch)))),
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
}


def _evaluate(node: ast.expr, words: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=word):
            return words[word]
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_evaluate(left, words), _evaluate(right, words))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _FUNCTIONS[function](*(_evaluate(argument, words) for argument in arguments))
    raise ValueError(f"{ast.unparse(node)} is no part of an expression")  # pragma: no cover


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_shipped(data_folder("models") / "diffusers.yaml").data
    return table


def _fault(name: str, key: str, what: str, fix: str) -> LibraryError:
    return LibraryError([Fault(name, 0, key, what, fix)])
