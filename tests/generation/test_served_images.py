"""Image towers of served models: their weights, the largest image, and the images of a prompt."""

from typing import Any

import pytest

import planner
from planner.errors import InputError
from planner.generation.engine_recipes import largest_image_bytes, served_model
from planner.library.engines import read_engines
from planner.library.reading import read_library

CARD = read_library(["qwen3-vl-8b"]).architecture("qwen3-vl-8b")
PROMPT: dict[str, Any] = {"input": 200, "output": 100}


@pytest.mark.parametrize("form", ["bf16", "fp8"])
def test_a_tower_is_stored_in_16_bit_and_not_read_to_write_text(form: str) -> None:
    weights = read_engines().formats[form]
    whole, alone = (served_model(card, weights) for card in (CARD, CARD.model_copy(update={"tower_parameters": 0})))
    more = (whole.stored_weights - alone.stored_weights) * weights.bytes
    assert more == pytest.approx(2 * CARD.tower_parameters)
    assert (whole.dense_weights, whole.met_weights) == (alone.dense_weights, alone.met_weights)


def test_an_engine_tries_the_largest_image_at_its_start() -> None:
    """16,777,216 pixels are 65,536 patches of 16: each 4 * 1,152 + 2 * 4,304 values of 2 bytes."""
    assert largest_image_bytes(CARD, 1) == 65_536 * (4 * 1152 + 2 * 4304) * 2
    assert largest_image_bytes(CARD.model_copy(update={"tower": None}), 1) == 0
    made = planner.estimate_inference("qwen3-vl-8b", "L40S", **PROMPT)
    assert made.memory_gib.parts["activations"] * 2**30 >= largest_image_bytes(CARD, 1)


def test_images_of_a_prompt_are_tokens_and_seconds() -> None:
    """880 tokens each; the pass of the tower comes on top of what as many tokens of text take."""
    images = planner.estimate_inference(
        "qwen3-vl-8b", "L40S", image_size="1280x720", images_per_sample=2, concurrency=1, **PROMPT
    )
    text = planner.estimate_inference("qwen3-vl-8b", "L40S", input=200 + 2 * 880, output=100, concurrency=1)
    assert images.input_tokens == text.input_tokens == 1960
    assert 0.02 < images.ttft_seconds.expected - text.ttft_seconds.expected < 0.2
    assert "880 tokens each" in " ".join(images.notes)


def test_images_of_a_model_that_reads_none_are_refused() -> None:
    with pytest.raises(InputError, match="no image tower"):
        planner.estimate_inference("qwen3-8b", "L40S", image_size=448, **PROMPT)
    with pytest.raises(InputError, match="cuts no tiles"):
        planner.estimate_inference("qwen3-vl-8b", "L40S", image_size=448, max_tiles=3, **PROMPT)
