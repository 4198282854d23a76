"""The cards under models/: complete, consistent, sourced, and found by the names people use."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from planner.estimates.weights import Dimensions, active_parameters, count_parameters
from planner.library.schema import Architecture, Calibration, Coefficient, GpuSpec, ImageSize, ImageWork, Library

MODELS = Path(__file__).parents[2] / "models"


def _documents(folder: str) -> dict[str, dict[str, Any]]:
    paths = sorted((MODELS / folder).glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


ARCHITECTURES = {stem: Architecture.model_validate(card) for stem, card in _documents("architectures").items()}
GPUS = {stem: GpuSpec.model_validate(card) for stem, card in _documents("gpus").items()}
LIBRARY = Library(architectures=ARCHITECTURES, gpus=GPUS)
DECODERS = sorted(name for name, card in ARCHITECTURES.items() if card.kind == "decoder")
GEFORCE = sorted(name for name, card in GPUS.items() if any("GeForce" in alias for alias in card.aliases))


def _counted(card: Architecture) -> Dimensions:
    return Dimensions(**{field.name: getattr(card, field.name) for field in fields(Dimensions)})


def test_enough_cards_to_plan_with() -> None:
    """The library covers the networks and GPUs that people fine-tune with."""
    assert len(ARCHITECTURES) >= 40
    assert len(GPUS) >= 36


@pytest.mark.parametrize("cards", [ARCHITECTURES, GPUS], ids=["architectures", "gpus"])
def test_names_and_aliases_are_unique(cards: dict[str, Architecture] | dict[str, GpuSpec]) -> None:
    """No two cards answer to one name, in any case, and a card is named as its file."""
    owner: dict[str, str] = {}
    for stem, card in cards.items():
        assert card.name == stem
        for label in (card.name, *card.aliases):
            assert owner.setdefault(label.casefold(), stem) == stem, label
        assert len({label.casefold() for label in (card.name, *card.aliases)}) == 1 + len(card.aliases)


@pytest.mark.parametrize("name", DECODERS)
def test_dimensions_give_the_stated_count(name: str) -> None:
    """The count of weights on a card is what its dimensions add up to, in all and per token."""
    card = ARCHITECTURES[name]
    assert count_parameters(_counted(card)) == card.parameters
    assert active_parameters(_counted(card)) == card.active_parameters


@pytest.mark.parametrize("name", DECODERS)
def test_architecture_source_names_its_file(name: str) -> None:
    """Every decoder says which release's config.json, or which paper, its dimensions are from."""
    source = ARCHITECTURES[name].source
    assert source.startswith("config.json of ") or "arXiv:" in source


U_NETS = sorted(name for name, card in ARCHITECTURES.items() if isinstance(card.image, ImageWork))


@pytest.mark.parametrize("name", U_NETS)
def test_diffusion_cards_follow_from_their_flop(name: str) -> None:
    """Equivalent tokens follow from counted FLOP and scale with pixels; the card says that it is coarse."""
    card = ARCHITECTURES[name]
    assert isinstance(card.image, ImageWork)
    flop = (card.image.forward_gflop + card.image.encoder_gflop / 3) * 1e9
    assert card.image.tokens_per_image == pytest.approx(flop / (2 * card.parameters), rel=1e-3)
    usual = card.image.size(None, None)
    assert card.image.tokens(ImageSize(2 * usual.resolution)) == pytest.approx(4 * card.image.tokens_per_image)
    assert card.image.memory_tokens(usual) == card.image.memory_tokens_per_image
    assert card.parameters_basis == "estimate"
    assert card.image.basis == "assumption"
    assert 12 * card.layers * card.hidden**2 == pytest.approx(card.parameters, rel=0.02)


def test_download_counts_frozen_parts() -> None:
    """A checkpoint in 16 bit is two bytes per weight, text encoder and autoencoder included."""
    assert LIBRARY.architecture("llama-2-70b").download_gb == pytest.approx(137.95, abs=0.01)
    assert LIBRARY.architecture("sdxl").download_gb == pytest.approx(2 * (2.5675 + 0.9014), abs=0.01)


# worked: the safetensors of gemma-3-4b-pt have 4,300,079,472 weights, those of Llama-4-Scout 108,641,793,536. In 8 bit
# the language part has one byte per weight, and the tower two.
def test_download_counts_image_towers() -> None:
    """They are released in 16 bit, whatever the format of the language part."""
    gemma, llama = LIBRARY.architecture("gemma-3-4b"), LIBRARY.architecture("llama-4-scout")
    assert gemma.download_gb == gemma.release_gb == 2 * 4_300_079_472 / 1e9
    assert llama.download_gb == 2 * 108_641_793_536 / 1e9
    language = 2 * (108_641_793_536 - 871_932_416) / 1e9
    assert llama.download_gb - llama.released_in("fp8").release_gb == pytest.approx(language / 2, rel=0.02)  # scales


@pytest.mark.parametrize("name", sorted(GPUS))
def test_peaks_are_ordered(name: str) -> None:
    """Narrower formats are never slower, and only the generations that have fp8 and bf16 claim them."""
    card = GPUS[name]
    peaks = [card.fp32_tflops, card.tf32_tflops, card.tensor16_tflops, card.fp8_tflops]
    known = [peak for peak in peaks if peak is not None]
    assert known == sorted(known)
    if card.chip is not None and card.vendor != "AMD":
        assert card.bf16
        assert (card.fp8_tflops is not None) == (name in {"TPU7x", "Gaudi2", "Gaudi3"})
        return
    assert (card.fp8_tflops is not None) == (card.generation in {"Ada", "Hopper", "Blackwell", "CDNA3", "CDNA4"})
    assert card.bf16 == (card.generation in {"Ampere", "Ada", "Hopper", "Blackwell", "CDNA3", "CDNA4"})
    assert (card.tensor16_tflops is None) == (card.generation in {"Kepler", "Pascal"})
    assert card.matmul16_tflops >= card.fp32_tflops


@pytest.mark.parametrize("name", sorted(GPUS))
def test_usable_memory_is_a_little_under_nominal(name: str) -> None:
    """Usable memory is 90 to 99.5 % of the nominal size and says how we know."""
    card = GPUS[name]
    assert 0.90 <= card.usable_gib / card.vram_gib <= 0.995
    assert card.usable_source.split(":")[0] in {"documented", "prior", "guess"}


@pytest.mark.parametrize("name", GEFORCE)
def test_geforce_runs_at_half_of_the_advertised_rate(name: str) -> None:
    """With fp32 accumulation a GeForce reaches about twice its fp32 rate, four times on Turing."""
    card = GPUS[name]
    assert card.tensor16_tflops is not None
    ratio = 4 if card.generation == "Turing" else 2
    assert card.tensor16_tflops == pytest.approx(ratio * card.fp32_tflops, rel=0.02)


@pytest.mark.parametrize(
    ("name", "usable", "tensor16", "bandwidth"),
    [
        ("RTX3090", 23.6, 71, 936),
        ("RTX4090", 23.6, 165.2, 1008),
        ("T4", 14.7, 65, 320),
        ("V100", 15.8, 125, 900),
        ("A10G", 22.5, 70, 600),
        ("L40S", 44.5, 362, 864),
        ("RTX A6000", 47.5, 154.8, 768),
        ("A100-80GB", 79.2, 312, 2039),
        ("H100 SXM", 79.2, 989.4, 3350),
        ("H200", 140, 989.4, 4800),
    ],
)
def test_sheet_figures(name: str, usable: float, tensor16: float, bandwidth: float) -> None:
    """The figures that move plans most: vendor sheets, and usable memory from published fitting runs."""
    card = LIBRARY.gpu(name)
    assert (card.usable_gib, card.tensor16_tflops, card.memory_bandwidth_gb_s) == (usable, tensor16, bandwidth)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("A100", "A100-40GB"),  # SkyPilot
        ("H100", "H100-80GB"),  # SkyPilot, gpuhunt
        ("RTXA6000", "A6000"),  # SkyPilot
        ("RTX6000-Ada", "RTX6000Ada"),  # SkyPilot
        ("H100NVL", "H100-NVL-94GB"),  # gpuhunt
        ("nvidia geforce rtx 3090", "RTX3090"),  # nvidia-smi, in another case
        ("Tesla V100-SXM2-16GB", "V100-16GB"),  # nvidia-smi
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),  # nvidia-smi
    ],
)
def test_gpus_are_found_by_the_names_of_catalogs(spelling: str, name: str) -> None:
    """Catalog and driver spellings lead to one card."""
    assert LIBRARY.gpu(spelling).name == name


def test_unknown_names_raise_and_list_what_is_known() -> None:
    """A name that no card has is a KeyError that names the cards."""
    with pytest.raises(KeyError, match="RTX3090"):
        LIBRARY.gpu("RTX9090")
    with pytest.raises(KeyError, match="llama-2-7b"):
        LIBRARY.architecture("llama-7")
    assert LIBRARY.architecture("meta-llama/llama-2-7b-HF").name == "llama-2-7b"


def test_only_linked_forms_have_nvlink_by_default() -> None:
    """SXM cards are linked, a bridge of a PCIe card is not taken for granted."""
    assert LIBRARY.gpu("A100-80GB").nvlink_by_default
    assert not LIBRARY.gpu("A100-PCIe-80GB").nvlink_by_default
    assert not LIBRARY.gpu("RTX3090").nvlink_by_default


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"active_parameters": 10**12},
        {"kv_heads": 5},
        {"experts": 8},
        {"dense_layers": 3},
        {"sliding_window": 4096},
        {"kind": "diffusion"},
        {"hiden": 1},
        {"source": ""},
    ],
    ids=lambda change: next(iter(change)),
)
def test_contradictory_architectures_are_refused(change: dict[str, Any]) -> None:
    """A card that contradicts itself, misspells a key or has no source does not load."""
    card = _documents("architectures")["llama-3-8b"]
    with pytest.raises(ValidationError):
        Architecture.model_validate({**card, **change})


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"usable_gib": 25}, {"tensor16_tflops": None}, {"source": ""}, {"vram_gb": 24}])
def test_contradictory_gpus_are_refused(change: dict[str, Any]) -> None:
    """More usable than nominal memory, bf16 without tensor cores, no source, a misspelt key: refused."""
    card = _documents("gpus")["RTX3090"]
    with pytest.raises(ValidationError):
        GpuSpec.model_validate({**card, **change})


def test_coefficients_lie_in_their_range_and_are_found_by_key() -> None:
    """A coefficient outside its own range is refused, and an unknown key names the calibration."""
    number = Coefficient(value=0.5, low=0.4, high=0.6, basis="prior", source="a table")
    calibration = Calibration(name="memory", description="", coefficients={"k_ws": number})
    assert calibration.value("k_ws") == 0.5
    with pytest.raises(KeyError, match="memory"):
        calibration.value("k_x")
    for bound in ({"low": 0.6}, {"high": 0.4}):
        with pytest.raises(ValidationError):
            Coefficient(value=0.5, basis="prior", source="a table", **bound)
