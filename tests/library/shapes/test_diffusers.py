"""Diffusion transformers: their weights as the classes of diffusers count them, their tokens, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from planner.configurations.grid import network_of
from planner.errors import LibraryError
from planner.estimates.weights import lora_parameters
from planner.library.image_models import diffusion_card
from planner.library.reading import read_library
from planner.library.schema import Architecture, ImageSize, ImageTokens

# Configurations with the number of weights of the class, made by diffusers 0.42.1 on the meta device.
COUNTED = json.loads((Path(__file__).parents[2] / "data" / "diffusers_counts.json").read_text(encoding="utf-8"))


def card_of(stated: str, **keys: object) -> Architecture:
    return Architecture.model_validate(diffusion_card({"_class_name": stated, **keys}, "mine"))


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: f"{case['config']['_class_name']}-{case['parameters']}")
def test_weights_are_those_that_the_class_of_diffusers_has(case: dict[str, object]) -> None:
    assert diffusion_card(case["config"], "mine")["parameters"] == case["parameters"]


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: f"{case['config']['_class_name']}-{case['parameters']}")
@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_adapters_are_those_that_peft_makes_of_the_exported_names(case: dict[str, Any], targets: str) -> None:
    """Of rank 1, the matrices of the caption among them; PEFT 0.21.2 counted them (tests/library/test_ecosystem.py)."""
    card = Architecture.model_validate(diffusion_card(case["config"], "mine"))
    assert lora_parameters(network_of(card), 1, targets).trainable == case["adapters"][targets]


# worked: 19 blocks with 16 x 3,072 + 4 x 15,360 and 38 with 6 x 3,072 + 15,360 + 18,432, and the last layer: 4,088,896.
def test_adapters_of_flux_of_rank_16_are_65_million_weights() -> None:
    assert lora_parameters(network_of(read_library().architecture("flux.1-dev")), 16).trainable == 16 * 4_088_896


def test_every_shipped_diffusion_network_has_its_adapters() -> None:
    shipped = [card for card in read_library().architectures.values() if card.image is not None]
    assert [card.name for card in shipped if not card.adapters] == []


# worked: width 3,072; a double block has 2 x (4 + 2 x 4) x 3072^2 = 226.5e6 in matrices that tokens meet, of which a
# token of the image meets half; 19 of those and 38 single ones with 12 x 3072^2: 57 x 12 x 3072^2 = 6,455,033,856.
def test_a_token_of_flux_meets_half_of_its_double_blocks() -> None:
    card = card_of("FluxTransformer2DModel", guidance_embeds=True)
    assert card.active_parameters == 57 * 12 * 3072**2
    assert card.layers == 57
    assert card.parameters == 11_901_408_320


# worked: 1,024 pixels in tokens of 16 are 64 x 64 = 4,096; with a caption of 512 that meets as many weights, 4,608.
def test_an_image_is_its_patches_and_its_caption() -> None:
    image = card_of("FluxTransformer2DModel").image
    assert isinstance(image, ImageTokens)
    assert image.image_tokens(ImageSize(1024)) == 4096
    assert image.memory_tokens(ImageSize(1024)) == 4608
    assert image.cached_bytes(ImageSize(1024)) == 2 * (128 * 128 * 16 + 512 * 4096)


# worked: 81 frames are the first and 20 groups of four: 21 x (480 / 16)^2 = 18,900 tokens.
def test_frames_of_a_video_are_read_in_groups() -> None:
    image = card_of("WanTransformer3DModel").image
    assert isinstance(image, ImageTokens)
    assert image.image_tokens(ImageSize(480, 81)) == 18_900
    assert image.makes_videos


# worked: Wan's caption meets keys and values of one attention, 2 of 6 + 2 x 8960 / 1536 = 17.67 squares of the width.
def test_a_caption_that_is_only_attended_to_meets_few_weights() -> None:
    image = card_of("WanTransformer3DModel", num_attention_heads=12, num_layers=30, ffn_dim=8960).image
    assert isinstance(image, ImageTokens)
    assert image.text_share == pytest.approx(2 / (6 + 2 * 8960 / 1536))


# worked: 704 pixels are 22 x 22 tokens of 32, where Wan 2.1 has 44 x 44 of 16; 121 frames are 31 groups in both.
def test_wan_2_2_of_48_channels_has_tokens_of_32_pixels() -> None:
    large, small = (card_of("WanTransformer3DModel", in_channels=n, out_channels=n).image for n in (48, 16))
    assert isinstance(large, ImageTokens) and isinstance(small, ImageTokens)
    assert large.image_tokens(ImageSize(704, 121)) == 31 * 22**2
    assert small.image_tokens(ImageSize(704, 121)) == 31 * 44**2
    assert large.cached_bytes(ImageSize(704, 121)) == 2 * (31 * 44**2 * 48 + 512 * 4096)
    first = card_of("WanTransformer3DModel", in_channels=36).image
    assert isinstance(first, ImageTokens) and first.pixels_per_token == 16  # the first frame comes in channels


def test_a_class_that_is_not_modelled_is_refused_by_its_name() -> None:
    with pytest.raises(LibraryError, match="UNet3DConditionModel is not modelled"):
        card_of("UNet3DConditionModel")
    with pytest.raises(LibraryError, match="image encoder of Wan's image-to-video networks"):
        card_of("WanTransformer3DModel", image_dim=1280)


@pytest.mark.parametrize(
    ("stated", "keys", "said"),
    [
        ("FluxTransformer2DModel", {"num_layers": "many"}, "num_layers: 'many' is no whole number"),
        ("FluxTransformer2DModel", {"num_layers": 10**9}, "num_layers: 1000000000 is no whole number of 0 to"),
        ("FluxTransformer2DModel", {"num_layers": 10**8}, r"it has 3\.4e\+16 weights"),
        ("FluxTransformer2DModel", {"num_layers": 0, "num_single_layers": 0}, "it has no layers"),
        ("PixArtTransformer2DModel", {"patch_size": 3.5}, r"patch_size: 3\.5 is no whole number"),
        ("WanTransformer3DModel", {"patch_size": [1, 2.5, 2]}, "patch_size: .* is no whole number"),
        ("WanTransformer3DModel", {"patch_size": 2}, "patch_size: 2 is no list"),
    ],
)
def test_keys_of_no_network_are_refused(stated: str, keys: dict[str, object], said: str) -> None:
    with pytest.raises(LibraryError, match=said):
        card_of(stated, **keys)


def test_keys_that_no_count_takes_into_account_are_named() -> None:
    """Those of the released files have no effect, or the value that is counted."""
    assert [case["config"] for case in COUNTED if diffusion_card(case["config"], "mine")["unread"]] == []
    sparse = {"attention_type": "nabla", "attention_window": 3, "rope_theta": 1e4, "_diffusers_version": "0.42"}
    card = card_of("Kandinsky5Transformer3DModel", **sparse)
    assert card.unread == ("attention_type", "attention_window")


BY_RELEASE = ("resolution", "references", "experts", "text_tokens", "text_gflop")
"""What a file of a network does not say: a release has another size, or reads an image with its caption."""


def test_shipped_cards_are_what_their_class_says() -> None:
    shipped = [card for card in read_library().architectures.values() if isinstance(card.image, ImageTokens)]
    assert len(shipped) >= 17
    for card in shipped:
        assert card.parameters > card.active_parameters > 0
        assert card.image is not None
        assert card.image.frozen_parameters > 0
    by_class = {case["parameters"]: diffusion_card(case["config"], "mine") for case in COUNTED}
    counted = [card for card in shipped if card.parameters in by_class]
    assert len(counted) >= 15
    for card in counted:
        read = Architecture.model_validate(by_class[card.parameters])
        assert (card.layers, card.adapters) == (read.layers, read.adapters), card.name
        stated, expected = (
            each.image.model_dump(exclude={"source", "basis", *BY_RELEASE}, exclude_none=True)
            for each in (card, read)
            if each.image
        )
        assert stated == pytest.approx(expected, rel=1e-4), card.name


def test_shipped_networks_have_the_size_that_their_name_states() -> None:
    """A card of the defaults of a class has other widths than the released network."""
    shipped = [card for card in read_library().architectures.values() if isinstance(card.image, ImageTokens)]
    stated = {card.name: re.search(r"-([\d.]+)b$", card.name) for card in shipped}
    billions = {name: float(found[1]) for name, found in stated.items() if found}
    assert len(billions) >= 4
    sizes = {card.name: card.parameters / 1e9 for card in shipped if card.name in billions}
    assert sizes == pytest.approx(billions, rel=0.15)
