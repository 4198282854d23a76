"""Images next to text: their tokens, the work of the tower, and what it holds."""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.configurations.grid import network_of, shape_of
from planner.configurations.recipe import length_faults, length_spread, mean_tokens
from planner.errors import InputError
from planner.library.reading import read_library
from planner.results.run_results import Estimate
from planner.scenario.job import Job

LIBRARY = read_library(["qwen3-vl-8b", "qwen2.5-vl-7b"])
CARD = LIBRARY.architecture("qwen3-vl-8b")
IMAGE = {"image_size": "1280x720", "packing": "padded", "micro_batch": 2, "sequence_length": 4096}


def job(card: str = "qwen3-vl-8b", packing: str = "padded", **images: Any) -> Job:
    work = {"samples": 1000, "tokens_per_sample": 256, "image_input": {"size": "1280x720", **images}}
    return Job.model_validate({"name": "j", "architecture": card, "work": work, "packing": packing})


def estimated(model: str = "qwen3-vl-8b", gpu: str = "H100-80GB", **settings: Any) -> Estimate:
    return planner.estimate(model, gpu, **{"method": "lora", **IMAGE, **settings})


def test_a_sample_has_the_tokens_of_its_text_and_its_images() -> None:
    """1,280 x 720 pixels are 40 x 22 squares of 32: 880 tokens. Their number does not vary, that of the text does."""
    assert mean_tokens(job(), CARD) == 256 + 880
    assert mean_tokens(job(count=3), CARD) == 256 + 3 * 880
    assert length_spread(job(), CARD) == pytest.approx(0.8 * 256 / 1136)
    assert shape_of(job(), CARD).sequence == 2048


def test_sequences_that_cut_inside_an_image_are_refused() -> None:
    """880 tokens of an image: 1,000 cut the end of the text, 512 what the tower made."""
    assert estimated(sequence_length=1000).vram_gib.fits
    for packing in ("padded", "packed"):
        with pytest.raises(InputError, match="a sequence of 512 cuts inside the images of a sample, 880 tokens"):
            estimated(sequence_length=512, packing=packing)
    work = {"samples": 100, "tokens_per_sample": 200, "image_input": {"size": "1280x720", "count": 2}}
    asked = {"name": "j", "architecture": CARD.name, "work": work, "sequence_length": 1024}
    (fault,) = length_faults(Job.model_validate(asked), CARD)
    assert fault.what == "a sequence of 1,024 cuts inside the images of a sample, 1,760 tokens"


def test_a_packed_sequence_has_the_images_of_the_samples_that_fill_it() -> None:
    """1,136 tokens a sample, 2,048 a sequence, of which 97 % are filled: 1.75 images."""
    packed, padded = (shape_of(job(packing=how), CARD).network.tower for how in ("packed", "padded"))
    assert packed and padded
    assert packed.tiles == pytest.approx(0.97 * 2048 / 1136)
    assert (padded.tiles, padded.patches) == (1.0, 40 * 22 * 4)


def test_without_images_a_network_is_what_it_was() -> None:
    plain = Job.model_validate({"name": "j", "architecture": CARD.name, "work": {"tokens": "1M"}})
    assert shape_of(plain, CARD).network == network_of(CARD)


def test_a_patch_meets_the_layers_and_its_part_of_the_projector() -> None:
    """27 layers of 4 * 1,152^2 + 2 * 1,152 * 4,304 weights: 411 million; one patch in four meets the rest."""
    tower = shape_of(job(), CARD).network.tower
    assert tower
    layers = 27 * (4 * 1152**2 + 2 * 1152 * 4304)
    assert tower.network.active_parameters == pytest.approx(layers + (CARD.tower_parameters - layers) / 4)


def test_the_forward_pass_of_a_frozen_tower_takes_its_flop() -> None:
    """Two images of 3,520 patches: 2 * 3,520 * 2 * 452e6 and 4 * 3,520^2 * 1,152 * 27 FLOP each are 9.5e12 in all.

    An H100 does 989e12 a second at its best, and some 40 % of that in layers so narrow.
    """
    seconds = estimated().step_seconds.parts["image_tower"]
    assert 9.5e12 / 989e12 < seconds < 9.5e12 / (0.2 * 989e12)


def test_tower_seconds_grow_with_images_and_with_what_is_trained() -> None:
    one, three = (estimated(images_per_sample=count).step_seconds.parts["image_tower"] for count in (1, 3))
    assert three == pytest.approx(3 * one, rel=0.15)
    runs = [estimated(tower=state) for state in ("frozen", "lora", "trained")]
    frozen, *others = (run.step_seconds.parts["image_tower"] for run in runs)
    assert all(frozen < 0.6 * one for one in others)
    assert runs[0].vram_gib.peak < runs[1].vram_gib.peak < runs[2].vram_gib.peak


def test_gradients_pass_through_a_frozen_tower_whose_inputs_ask_for_them() -> None:
    """Checkpointed adapters of Transformers' classes hook the patch embedding: twice the forward pass more, at least.

    Nothing asks for these gradients without checkpointing, in full training, in Megatron's classes and in Qwen3-VL's.
    """
    passed = estimated("qwen2.5-vl-7b", activation_checkpointing="full")
    alone = [
        estimated("qwen2.5-vl-7b", activation_checkpointing="full", framework="nemo"),
        estimated("qwen2.5-vl-7b", activation_checkpointing="none"),
        estimated("qwen2.5-vl-7b", method="full", gpus=8),
    ]
    seconds, *less = (run.step_seconds.parts["image_tower"] for run in (passed, *alone))
    assert all(seconds > 2.5 * one for one in less)
    assert passed.trainable_parameters == alone[1].trainable_parameters
    kept = 32 * 2 * 4784 * 1280 * 2 / 2**30  # inputs of 32 layers, of two images of 26 x 46 tokens
    assert passed.vram_gib.parts["image_tower"] == pytest.approx(kept, rel=0.05)
    seconds, stored = (estimated(activation_checkpointing=one).step_seconds.parts["image_tower"]
                       for one in ("full", "none"))  # fmt: skip
    assert seconds == pytest.approx(stored)


def test_adapters_and_weights_of_a_tower_are_trained_weights() -> None:
    """Rank 16 on 27 layers: queries, keys and values as one (4,608), the output (2,304), two of 1,152 + 4,304."""
    frozen, adapted, trained = (estimated(tower=state).trainable_parameters for state in ("frozen", "lora", "trained"))
    assert adapted - frozen == 16 * 27 * (4 * 1152 + 2 * 1152 + 2 * (1152 + 4304))
    assert trained - frozen == CARD.tower_parameters
    whole = [estimated(gpus=8, method="full", tower=state).trainable_parameters for state in ("frozen", "trained")]
    assert whole[1] - whole[0] == CARD.tower_parameters


def test_a_trained_tower_is_sharded_with_the_model() -> None:
    """576 million weights of 16 bytes are 8.6 GiB: on one of 8 GPUs at stage 3 about an eighth of them."""
    how: dict[str, Any] = {
        "method": "full",
        "gpus": 8,
        "sharding": "zero3",
        "precision": "bf16_mixed",
        "micro_batch": 1,
    }
    more = estimated(tower="trained", **how).vram_gib.peak - estimated(**how).vram_gib.peak
    assert more < 4


def test_a_window_saves_attention_of_a_tower() -> None:
    """Four of 32 layers of Qwen2.5-VL see a whole image, 28 see windows of 64 patches."""
    card = LIBRARY.architecture("qwen2.5-vl-7b")
    assert card.tower
    wide = card.model_copy(update={"tower": card.tower.model_copy(update={"window": 0})})
    cut, whole = (shape_of(job("qwen2.5-vl-7b", size="1600x1600"), one).network.tower for one in (card, wide))
    assert cut and whole
    assert sum(part.share for part in cut.network.attended if not part.window) == pytest.approx(2 * 4 / 32)
    assert sum(part.share for part in whole.network.attended) == 2


def test_a_table_of_estimates_has_the_same_towers() -> None:
    rows = [{"architecture": "qwen3-vl-8b", "gpu": "H100-80GB", "method": "lora", **IMAGE, "images_per_sample": count}
            for count in (1, 2)]  # fmt: skip
    found = planner.estimate_many(rows).column("step_seconds")
    assert found == pytest.approx([estimated(images_per_sample=count).step_seconds.total for count in (1, 2)])


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        ("qwen3-8b", {}, "no image tower that is known"),
        ("gemma-3-4b", {"max_pixels": 1_000_000}, "limits no pixels"),
        ("qwen3-vl-8b", {"max_tiles": 4}, "cuts no tiles"),
        ("gemma-3-4b", {"frames": 8}, "reads no videos"),
        ("qwen3-vl-8b", {"method": "full", "tower": "lora"}, "adapters in the tower"),
        ("qwen3-vl-8b", {"image_size": None, "packing": "packed", "max_pixels": 1_000_000}, "whose size is not given"),
        ("qwen3-vl-8b", {"image_size": "wide"}, "is no size of an image"),
        ("qwen3-vl-8b", {"image_size": "30000x10"}, "too narrow"),
    ],
)
def test_images_that_a_model_does_not_read_are_refused(model: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        estimated(model, **settings)


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({"samples": 10, "image_input": {"size": 448}}, "text of unknown length"),
        ({"images": 10, "image_input": {"size": 448}}, "no other images"),
        ({"lengths": [{"tokens": 10}], "image_input": {"size": 448}}, "has its images in it"),
    ],
)
def test_work_that_does_not_agree_with_images_is_refused(work: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Job.model_validate({"name": "j", "architecture": "qwen3-vl-8b", "work": work})


def test_a_video_is_a_tile_for_each_pair_of_frames() -> None:
    tower = shape_of(job(frames=16), CARD).network.tower
    assert tower
    assert (tower.tiles, tower.patches) == (8, 4 * 36 * 20)


@pytest.mark.parametrize(("batch", "gib"), [(16, 7.426), (64, 20.503), (256, 72.814)])
def test_memory_of_a_trained_tower_is_that_of_a_published_run(batch: int, gib: float, tmp_path: Path) -> None:
    """nanoVLM 222M trains all of SigLIP-B/16 and SmolLM2-135M in autocast, 128 tokens with one image of 224 pixels.

    Peaks of its measure_vram.py on an H100: README.md of huggingface/nanoVLM at 4e0c096.
    """
    text: dict[str, Any] = {
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    }
    text |= {"model_type": "llama", "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 8192}
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision |= {"image_size": 224, "patch_size": 16}
    whole = {"model_type": "smolvlm", "scale_factor": 2, "text_config": text, "vision_config": vision}
    (tmp_path / "config.json").write_text(json.dumps({**whole, "tie_word_embeddings": True}))
    found = planner.estimate(
        str(tmp_path / "config.json"), "H100-80GB", method="full", precision="bf16_mixed", tower="trained",
        activation_checkpointing="none", micro_batch=batch, packing="fixed", sequence_length=128,
        image_size=224, max_tiles=1, tokens_per_sample=76,
    )  # fmt: skip
    assert found.vram_gib.reserved == pytest.approx(gib, rel=0.15)
