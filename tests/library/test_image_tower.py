"""How image towers cut images: cases worked by hand, and the image processors of Transformers."""

import importlib
import random
from typing import Any

import pytest

from planner.library.image_models import ImageLimits, ImageTower

SHAPE = {"layers": 2, "hidden": 8, "ffn": 16, "heads": 2}
TILES = {"tile_tokens": 256, "tile_patches": 1024, "tile_pixels": 448**2}
QWEN = ImageTower(cuts="resize", patch=14, merge=2, min_pixels=3136, max_pixels=12_845_056, frame_group=2, **SHAPE)
GEMMA4 = ImageTower(cuts="fill", patch=16, merge=3, max_pixels=645_120, frame_group=1, **SHAPE)
MISTRAL = ImageTower(cuts="rows", patch=14, merge=2, longest_edge=1540, **SHAPE)
GEMMA = ImageTower(cuts="crops", tile_tokens=256, tile_patches=4096, tile_pixels=896**2, **SHAPE)
INTERNVL = ImageTower(cuts="canvas", max_tiles=12, frame_group=1, **TILES, **SHAPE)
LLAMA = ImageTower(cuts="fit", tile_tokens=144, tile_patches=576, tile_pixels=336**2, max_tiles=16, **SHAPE)
SMOL = ImageTower(cuts="grid", tile_tokens=64, tile_patches=1024, tile_pixels=512**2, max_tiles=4, **SHAPE)


@pytest.mark.parametrize(
    ("tower", "size", "limits", "expected"),
    [
        # 1,280 / 28 = 45.7 and 784 / 28 = 28: 46 x 28 squares, of four patches each.
        (QWEN, (1280, 784), {}, (1288, 1, 5152)),
        # At most 1,003,520 pixels: 1,920 x 1,080 shrink by 1.4375 to 1,335.6 x 751.3, which are 47 x 26 whole squares.
        (QWEN, (1920, 1080), {"max_pixels": 1_003_520}, (1222, 1, 4888)),
        # 20 x 20 pixels grow to 56 x 56.
        (QWEN, (20, 20), {}, (4, 1, 16)),
        # 16 frames are 8 pairs, each of 768 tokens at most: 1,080 pixels shrink to 20 squares, 1,920 to 36.
        (QWEN, (1920, 1080), {"frames": 16}, (8 * 20 * 36, 8, 4 * 20 * 36)),
        # 280 squares of 48 pixels: 1,280 x 720 shrink by 1.195 to 1,070.9 x 602.4, 22 x 12 squares and two marks.
        (GEMMA4, (1280, 720), {}, (22 * 12 + 2, 1, 280 * 9)),
        (GEMMA4, (1280, 720), {"max_pixels": 70 * 48**2}, (11 * 6 + 2, 1, 70 * 9)),
        (GEMMA4, (1280, 720), {"frames": 8}, (8 * 68, 8, 70 * 9)),
        # 2,000 x 1,000 shrink to 1,540 x 770, 55 x 27.5 squares: 28 rows with a mark each.
        (MISTRAL, (2000, 1000), {}, (28 * 56, 1, 28 * 55 * 4)),
        (GEMMA, (1920, 1080), {}, (256, 1, 4096)),
        # 16:9 is 1.78, so two crops and the whole image.
        (GEMMA, (1920, 1080), {"max_tiles": 4}, (3 * 256, 3, 4096)),
        # 4:3 is as near to 4 x 3 tiles as can be: 12, and the whole image.
        (INTERNVL, (1600, 1200), {}, (2 + 13 * 256, 13, 1024)),
        (INTERNVL, (1600, 1200), {"max_tiles": 1}, (2 + 256, 1, 1024)),
        (INTERNVL, (1600, 1200), {"frames": 8}, (8 * 256, 8, 1024)),
        # 600 x 600 fit into 2 x 2 tiles of 336, enlarged by 1.12: five tiles, a mark after four of them, three more.
        (LLAMA, (600, 600), {}, (4 * 145 + 144 + 3, 5, 576)),
        (LLAMA, (300, 300), {}, (147, 1, 576)),
        # 1,024 x 768 become 2,048 x 1,536: 3 rows of 4 tiles, (64 + 2) each, a mark per row; and 64 + 3 for the whole.
        (SMOL, (1024, 768), {}, (12 * 66 + 3 + 67, 13, 1024)),
        (SMOL, (1024, 768), {"max_tiles": 1}, (67, 1, 1024)),
    ],
)
def test_an_image_has_the_tokens_of_its_processor(
    tower: ImageTower, size: tuple[int, int], limits: dict[str, int], expected: tuple[int, int, int]
) -> None:
    view = tower.view(*size, ImageLimits(**limits))
    assert (view.tokens, view.tiles, view.patches) == expected


@pytest.mark.parametrize("tower", [QWEN, GEMMA4, MISTRAL, GEMMA, INTERNVL, LLAMA, SMOL], ids=lambda tower: tower.cuts)
def test_an_image_on_its_side_has_as_many_patches(tower: ImageTower) -> None:
    one, other = tower.view(1600, 900), tower.view(900, 1600)
    assert one.all_patches == other.all_patches > 0


def test_limits_that_a_processor_does_not_have_are_faults() -> None:
    assert [key for key, *_ in GEMMA.faults(ImageLimits(max_pixels=1000, frames=4))] == ["max_pixels", "frames"]
    assert [key for key, *_ in QWEN.faults(ImageLimits(max_pixels=100, max_tiles=3))] == ["max_tiles", "max_pixels"]
    assert [key for key, *_ in GEMMA4.faults(ImageLimits(max_pixels=70 * 48**2 - 1, max_tiles=3))] == [
        "max_tiles",
        "max_pixels",
    ]
    assert not list(QWEN.faults(ImageLimits(max_pixels=1_003_520, frames=4)))


def processor(name: str, kind: str, **settings: Any) -> Any:
    pytest.importorskip("transformers")
    try:
        module = importlib.import_module(f"transformers.models.{name}.image_processing_pil_{name}")
    except ImportError as missing:
        pytest.skip(f"no image processors without another package: {missing}")
    return getattr(module, kind)(**settings) if kind[0].isupper() else getattr(module, kind)


def sizes() -> list[tuple[int, int]]:
    drawn = random.Random(4)
    return [(drawn.randint(60, 2600), drawn.randint(60, 2600)) for _ in range(200)]


@pytest.mark.ecosystem
def test_patches_of_resized_images_are_those_of_transformers() -> None:
    known = processor("qwen2_vl", "Qwen2VLImageProcessorPil")
    least, most = known.size["shortest_edge"], known.size["longest_edge"]
    tower = QWEN.model_copy(update={"min_pixels": least, "max_pixels": most})
    for width, height in sizes():
        assert tower.view(width, height).patches == known.get_number_of_image_patches(height, width)


@pytest.mark.ecosystem
def test_tiles_of_a_canvas_are_those_of_transformers() -> None:
    settings = {"size": {"height": 448, "width": 448}, "crop_to_patches": True}
    known = processor("got_ocr2", "GotOcr2ImageProcessorPil", **settings)
    for width, height in sizes():
        assert INTERNVL.view(width, height).tiles == known.get_number_of_image_patches(height, width, {})


@pytest.mark.ecosystem
def test_tiles_of_a_grid_are_those_of_transformers() -> None:
    settings = {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}
    for known in (
        processor("smolvlm", "SmolVLMImageProcessorPil", **settings),
        processor("idefics3", "Idefics3ImageProcessorPil", **settings),
    ):
        for width, height in sizes():
            tiles, rows, columns = known.get_number_of_image_patches(height, width, {})
            view = SMOL.view(width, height)
            assert (view.tiles, view.tokens) == (max(tiles, 1), 67 + rows * (columns * 66 + 1))


@pytest.mark.ecosystem
def test_rows_of_tokens_are_those_of_transformers() -> None:
    numpy, resized = pytest.importorskip("numpy"), processor("pixtral", "get_resize_output_image_size")
    for width, height in sizes()[:40]:
        image = numpy.zeros((height, width, 3), dtype=numpy.uint8)
        high, wide = resized(image, size=(1540, 1540), patch_size=(28, 28))
        assert MISTRAL.view(width, height).tokens == high // 28 * (wide // 28 + 1)


@pytest.mark.ecosystem
def test_crops_are_those_of_transformers() -> None:
    numpy, known = pytest.importorskip("numpy"), processor("gemma3", "Gemma3ImageProcessorPil")
    for width, height in sizes()[:40]:
        crops = known.pan_and_scan(numpy.zeros((3, height, width), dtype=numpy.uint8), 256, 4, 1.2)
        assert GEMMA.view(width, height, ImageLimits(max_tiles=4)).tiles == 1 + len(crops)


@pytest.mark.ecosystem
def test_the_best_fit_is_that_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    llama4 = pytest.importorskip("transformers.models.llama4.image_processing_llama4")
    image_utils = pytest.importorskip("transformers.image_utils")
    known = torch.tensor(llama4.find_supported_resolutions(16, image_utils.SizeDict(height=336, width=336)))
    for width, height in sizes():
        high, wide = (int(edge) // 336 for edge in llama4.get_best_fit((height, width), known))
        assert LLAMA.view(width, height).tiles == (1 if high * wide == 1 else high * wide + 1)


@pytest.mark.ecosystem
def test_images_that_fill_a_number_of_tokens_are_those_of_transformers() -> None:
    gemma4 = pytest.importorskip("transformers.models.gemma4.image_processing_pil_gemma4")
    for width, height in [*sizes(), (6000, 90), (90, 6000)]:
        for tokens in (70, 280, 1120):
            high, wide = gemma4.get_aspect_ratio_preserving_size(height, width, 16, tokens * 9, 3)
            view = GEMMA4.view(width, height, ImageLimits(max_pixels=tokens * 48**2))
            assert (view.tokens, view.patches) == (high * wide // 48**2 + 2, tokens * 9)
