"""Models of images: how the tower of a vision-language model and a diffusion transformer see an image or a video.

Towers see tiles, patches and tokens. Their rules restate the image processors of Transformers 5.24.0;
tests/library/test_image_tower.py compares them. `models/towers.yaml` says which model type has which.

The `config.json` of a diffusion transformer, in the form of diffusers, gives the content of an architecture card. The
classes are rows of `models/diffusers.yaml`: what blocks they have, and which weights a token of the image, and one of
the caption, meets in them. Those that are not rows are refused by their name.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from planner.documents.files import data_folder, read_shipped
from planner.documents.validation import suggest_names
from planner.errors import Fault, LibraryError, format_value
from planner.library.decoder_keys import MAX_DIMENSION, MAX_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_FRAME_TOKENS = 768
"""Tokens of a frame of a video at most, where a job gives no pixels: `VIDEO_MAX_TOKEN_NUM` of qwen-vl-utils 0.0.14,
`max_video_tokens` of Transformers' Qwen3VLVideoProcessor."""
LARGEST_GRID_EDGE = 4096
"""Pixels of an image at most before Idefics 3 cuts it (`MAX_IMAGE_SIZE` of its image processor)."""
FILLED_TOKENS = (70, 140, 280, 560, 1120)
"""Tokens of an image that Gemma 4's processor takes as `max_soft_tokens`; the first is that of a frame of a video."""
CROP_PIXELS, CROP_RATIO = 256, 1.2
"""Gemma 3 crops images of at least this ratio, into crops of at least so many pixels (image_processing_gemma3.py)."""


@dataclass(frozen=True)
class ImageLimits:
    """What a job says of its images; None: as the released processor has it."""

    max_pixels: int | None = None
    max_tiles: int | None = None
    frames: int | None = None


@dataclass(frozen=True)
class ImageView:
    """One image or video as tower and language model see it."""

    tokens: int  # of the language model, with the marks that the processor puts between tiles and rows
    tiles: int  # sequences of the tower: no patch attends to another tile or frame
    patches: int  # of one tile

    @property
    def all_patches(self) -> int:
        """Patches of all tiles."""
        return self.tiles * self.patches


class ImageTower(BaseModel):
    """The shape of a tower, and the rule by which its processor cuts an image.

    resize: sides are multiples of a merged patch, pixels are within two limits (Qwen). fill: as large as a number of
    tokens allows, padded to it (Gemma 4). rows: the longer edge is
    limited, each row of tokens ends with a mark (Pixtral). crops: one square, crops only where they are asked for
    (Gemma 3). canvas: the grid of tiles with the closest ratio, and the whole image once more (InternVL). fit: the grid
    that needs the least rescaling (Llama 4). grid: tiles of an image whose longer edge is fixed (Idefics 3, SmolVLM).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cuts: Literal["resize", "fill", "rows", "crops", "canvas", "fit", "grid"]
    layers: PositiveInt
    hidden: PositiveInt
    ffn: PositiveInt
    heads: PositiveInt
    gated: bool = False
    input_hook: bool = True  # Transformers finds its patch embedding, and asks for gradients of what it returns
    outputs: PositiveInt = 1  # vectors of the language model for each token: Qwen3-VL has some for deeper layers
    fused_qkv: bool = False  # one linear layer makes queries, keys and values
    window: NonNegativeInt = 0  # patches of a window of attention; 0: all see all of their tile
    full_layers: NonNegativeInt = 0  # that see all of it nevertheless
    patch: NonNegativeInt = 0  # pixels per side; resize and rows, and patches per side of a token
    merge: PositiveInt = 1
    tile_tokens: NonNegativeInt = 0  # of one tile; the others
    tile_patches: NonNegativeInt = 0
    tile_pixels: NonNegativeInt = 0  # of the area of a tile
    frame_group: NonNegativeInt = 0  # frames of a video that are read as one; 0: it reads no videos
    min_pixels: NonNegativeInt = 0
    max_pixels: NonNegativeInt = 0
    longest_edge: NonNegativeInt = 0
    max_tiles: NonNegativeInt = 0  # of a grid those of its longer edge

    @property
    def matrices(self) -> int:
        """Weights of the matrices of all layers, which each patch meets."""
        return self.layers * (4 * self.hidden**2 + (3 if self.gated else 2) * self.hidden * self.ffn)

    @property
    def patches_per_token(self) -> float:
        """Patches that the projector makes one token of."""
        return self.tile_patches / self.tile_tokens if self.tile_tokens else float(self.merge**2)

    @property
    def adapter_widths(self) -> int:
        """Inputs and outputs of all linear layers of the blocks, which adapters of rank 1 have as weights."""
        attention = 6 * self.hidden if self.fused_qkv else 8 * self.hidden
        return self.layers * (attention + (3 if self.gated else 2) * (self.hidden + self.ffn))

    def faults(self, limits: ImageLimits) -> Iterator[tuple[str, str, str]]:
        """Yield key, fault and mend of limits that its processor does not have."""
        if limits.max_pixels is not None and self.cuts not in ("resize", "fill"):
            yield "max_pixels", "its processor limits no pixels", "leave it out" + self._other_limit
        if limits.max_tiles is not None and self.cuts in ("resize", "fill", "rows"):
            yield "max_tiles", "its processor cuts no tiles", "leave it out, or give max_pixels"
        if limits.frames is not None and not self.frame_group:
            yield "frames", "its processor reads no videos", "give the frames as images: count"
        least = (FILLED_TOKENS[0] if self.cuts == "fill" else 1) * (self.patch * self.merge) ** 2
        if limits.max_pixels is not None and limits.max_pixels < least:
            yield "max_pixels", f"{limits.max_pixels:,} pixels are less than it takes", f"at least {least:,}"

    @property
    def _other_limit(self) -> str:
        return "" if self.cuts == "rows" else ", or give max_tiles"

    @property
    def most_patches(self) -> int:
        """Patches of the largest image that the released processor lets through."""
        if self.cuts in ("resize", "fill"):
            return self.max_pixels // self.patch**2
        if self.cuts == "rows":
            return (self.longest_edge // self.patch) ** 2
        tiles = self.max_tiles**2 if self.cuts == "grid" else self.max_tiles
        return (tiles + 1) * self.tile_patches

    @property
    def most_tokens(self) -> float:
        """Tokens of the largest image that the released processor lets through, without marks."""
        return self.most_patches / self.patches_per_token

    def view(self, width: int, height: int, limits: ImageLimits = ImageLimits()) -> ImageView:
        """Return tokens, tiles and patches of one image of so many pixels, or of a video of such frames."""
        if limits.frames is not None:
            return self._video(width, height, limits)
        return _RULES[self.cuts](self, width, height, limits)

    def _video(self, width: int, height: int, limits: ImageLimits) -> ImageView:
        """Return the view of a video: a tile for each group of frames; marks and time stamps of frames do not count."""
        groups = math.ceil((limits.frames or 1) / max(self.frame_group, 1))
        if self.cuts == "fill":
            least = FILLED_TOKENS[0] * (self.patch * self.merge) ** 2
            frame = _filled(self, width, height, ImageLimits(max_pixels=limits.max_pixels or least))
            return ImageView(groups * frame.tokens, groups, frame.patches)
        if self.cuts != "resize":
            return ImageView(groups * self.tile_tokens, groups, self.tile_patches)
        most = limits.max_pixels or MAX_FRAME_TOKENS * (self.patch * self.merge) ** 2
        frame = _resized(self, width, height, ImageLimits(max_pixels=most))
        return ImageView(groups * frame.tokens, groups, frame.patches)

    @property
    def edge(self) -> int:
        """Pixels of an edge of a tile."""
        return math.isqrt(self.tile_pixels)


def _resized(tower: ImageTower, width: int, height: int, limits: ImageLimits) -> ImageView:
    """Return the view of `smart_resize` (image_processing_qwen2_vl.py): 1,280 x 784 in squares of 28 are 46 x 28."""
    side, least, most = tower.patch * tower.merge, tower.min_pixels, limits.max_pixels or tower.max_pixels
    rows, columns = round(height / side), round(width / side)
    if rows * columns * side**2 > most:
        by = math.sqrt(height * width / most)
        rows, columns = (max(1, math.floor(edge / by / side)) for edge in (height, width))
    elif rows * columns * side**2 < least:
        by = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(edge * by / side) for edge in (height, width))
    return ImageView(rows * columns, 1, rows * columns * tower.merge**2)


def _filled(tower: ImageTower, width: int, height: int, limits: ImageLimits) -> ImageView:
    """Return the view of Gemma 4 (image_processing_gemma4.py): 1,280 x 720 fill 280 squares of 48 pixels with 22 x 12.

    Small images are enlarged. The tower runs over the padded number of patches. Two marks enclose the tokens.
    """
    side = tower.patch * tower.merge
    most = max(budget for budget in FILLED_TOKENS if budget * side**2 <= (limits.max_pixels or tower.max_pixels))
    by = math.sqrt(most * side**2 / (height * width))
    rows, columns = (math.floor(edge * by / side) for edge in (height, width))
    if not rows or not columns:
        long = min(max(width, height) // min(width, height), most)
        rows, columns = (1, long) if width > height else (long, 1)
    return ImageView(rows * columns + 2, 1, most * tower.merge**2)


def _rows(tower: ImageTower, width: int, height: int, _limits: ImageLimits) -> ImageView:
    """Return the view of Pixtral: 1,024 x 768 in patches of 16 are 48 rows of 64 tokens, each with a mark: 3,120."""
    side, ratio = tower.patch * tower.merge, max(height, width) / tower.longest_edge
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    rows, columns = (max(edge - 1, 0) // side + 1 for edge in (height, width))
    return ImageView(rows * (columns + 1), 1, rows * columns * tower.merge**2)


def _crops(tower: ImageTower, width: int, height: int, limits: ImageLimits) -> ImageView:
    """Return the view of Gemma 3: one square, with "pan and scan" the crops along the longer edge, too."""
    most = tower.max_tiles if limits.max_tiles is None else limits.max_tiles
    long, short = max(width, height), min(width, height)
    crops = min(most, max(2, min(long // CROP_PIXELS, math.floor(long / short + 0.5))))
    too_small = crops > 0 and min(math.ceil(long / crops), short) < CROP_PIXELS
    tiles = 1 if most < 1 or long / short < CROP_RATIO or too_small else 1 + crops
    return ImageView(tiles * tower.tile_tokens, tiles, tower.tile_patches)


def _canvas(tower: ImageTower, width: int, height: int, limits: ImageLimits) -> ImageView:
    """Return the view of InternVL: the grid of the closest ratio (`get_optimal_tiled_canvas` of GotOcr2).

    Of grids with one ratio the largest whose area is less than twice the image's. More than one tile come with the
    whole image as one more. Two marks enclose the tokens.
    """
    most, best, least = limits.max_tiles or tower.max_tiles, (1, 1), math.inf
    grids = [(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if c * r <= most]
    for columns, rows in sorted(grids, key=math.prod):
        away = abs(width / height - columns / rows)
        fills = width * height > 0.5 * tower.tile_pixels * columns * rows
        if away < least or (away == least and fills):
            best, least = (columns, rows), away
    tiles = math.prod(best) + (math.prod(best) > 1)
    return ImageView(2 + tiles * tower.tile_tokens, tiles, tower.tile_patches)


def _fit(tower: ImageTower, width: int, height: int, limits: ImageLimits) -> ImageView:
    """Return the view of Llama 4: the canvas that enlarges least, else shrinks least, of those the smallest.

    `get_best_fit` of image_processing_llama4.py and `_prompt_split_image` of processing_llama4.py: a mark follows each
    tile, three are around the whole image.
    """
    most, edge = limits.max_tiles or tower.max_tiles, tower.edge
    grids = [(rows, chunks // rows) for chunks in range(1, most + 1) for rows in range(1, chunks + 1)
             if chunks % rows == 0]  # fmt: skip
    scales = {grid: min(grid[0] * edge / height, grid[1] * edge / width) for grid in grids}
    larger = [scale for scale in scales.values() if scale >= 1]
    chosen = min(larger) if larger else max(scales.values())
    tiles = min(math.prod(grid) for grid, scale in scales.items() if scale == chosen)
    cut = tiles > 1
    tokens = cut * tiles * (tower.tile_tokens + 1) + tower.tile_tokens + 3
    return ImageView(tokens, 1 + cut * tiles, tower.tile_patches)


def _grid(tower: ImageTower, width: int, height: int, limits: ImageLimits) -> ImageView:
    """Return the view of Idefics 3 and SmolVLM: the longer edge is set, then cut into tiles, with the whole image.

    `_get_num_multimodal_tokens` of processing_idefics3.py: two marks a tile, one a row, three around the image.
    """
    edge = tower.edge
    longest = min((limits.max_tiles or tower.max_tiles) * edge, LARGEST_GRID_EDGE)
    short = int(longest / (max(width, height) / min(width, height)))
    rows, columns = math.ceil((short + short % 2) / edge), math.ceil(longest / edge)
    tiles = rows * columns if longest > edge else 0
    tokens = tower.tile_tokens + 3
    if tiles:
        down = columns if height > width else rows
        tokens += tiles * (tower.tile_tokens + 2) + down
    return ImageView(tokens, tiles + 1, tower.tile_patches)


_RULES: dict[str, Callable[[ImageTower, int, int, ImageLimits], ImageView]] = {
    "resize": _resized,
    "fill": _filled,
    "rows": _rows,
    "crops": _crops,
    "canvas": _canvas,
    "fit": _fit,
    "grid": _grid,
}


# Diffusion transformers.


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
    sums_by_letter: dict[str, list[float]] = {}
    for count, linears in [*blocks, (1, row.get("outside_linears", {}))]:
        for letter, widths in linears.items():
            sums = sums_by_letter.setdefault(letter, [0.0, 0.0])
            sums_by_letter[letter] = [total + count * value(width) for total, width in zip(sums, widths, strict=True)]
    return [[letter, *map(round, sums)] for letter, sums in sums_by_letter.items()]


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
    parts = [(stack["n"], stack["stack"].get(part, "0")) for stack in stacks for part in ("image", "text")]
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
