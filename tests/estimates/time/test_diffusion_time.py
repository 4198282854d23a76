"""Times and memory of diffusion networks: launches by block, attention among all tokens, and masks."""

import pytest

import planner
from planner.errors import PlannerError


def seconds(model: str, gpu: str = "H100", **settings: object) -> planner.Estimate:
    asked = {"latents": "cached", "micro_batch": 1, "activation_checkpointing": "none", **settings}
    return planner.estimate(model, gpu, **asked)


def test_one_small_image_takes_as_long_on_a_faster_card() -> None:
    """A step that waits for launches is no shorter on an H100 than its launches take."""
    slow, fast = (seconds("z-image", gpu, resolution=256).step_seconds.total for gpu in ("L40S", "H100"))
    assert fast > 0.7 * slow


def test_four_times_the_pixels_take_more_than_four_times_the_attention() -> None:
    """(4,096 + 512)^2 / (1,024 + 512)^2 = 9 times, since every token meets every other."""
    small, large = (seconds("flux.1-schnell", resolution=side).step_seconds.parts for side in (512, 1024))
    assert large["attention"] / small["attention"] > 8


def test_checkpointing_keeps_the_input_of_each_block() -> None:
    """57 blocks of FLUX keep 4,608 tokens x 3,072 x 2 bytes each: 1.5 GiB of one image."""
    found = seconds("flux.1-schnell", activation_checkpointing="full").vram_gib.parts["stored_activations"]
    assert found == pytest.approx(57 * 4608 * 3072 * 2 / 2**30, rel=0.01)


def test_frames_are_for_networks_that_make_videos() -> None:
    assert seconds("wan-2.1-1.3b", resolution=480, frames=81, activation_checkpointing="full").frames == 81
    with pytest.raises(PlannerError, match=r"flux\.1-schnell makes no videos"):
        seconds("flux.1-schnell", frames=81)


def test_frameworks_of_text_and_of_images_are_told_apart() -> None:
    with pytest.raises(PlannerError, match=r"hf does not train flux\.1-schnell"):
        seconds("flux.1-schnell", framework="hf")
    with pytest.raises(PlannerError, match=r"simpletuner does not train qwen2\.5-7b"):
        planner.estimate("qwen2.5-7b", "H100", framework="simpletuner")
