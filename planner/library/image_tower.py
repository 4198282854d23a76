"""Image towers of vision-language models: how they see an image or a video, as tiles, patches and tokens.

The rules restate the image processors of Transformers 5.24.0; tests/library/test_image_tower.py compares them.
`models/towers.yaml` says which model type has which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
            one = _filled(self, width, height, ImageLimits(max_pixels=limits.max_pixels or least))
            return ImageView(groups * one.tokens, groups, one.patches)
        if self.cuts != "resize":
            return ImageView(groups * self.tile_tokens, groups, self.tile_patches)
        most = limits.max_pixels or MAX_FRAME_TOKENS * (self.patch * self.merge) ** 2
        one = _resized(self, width, height, ImageLimits(max_pixels=most))
        return ImageView(groups * one.tokens, groups, one.patches)

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
