"""Files of training tools for images next to text."""

from functools import cache
from typing import Any

import pytest
import yaml

import planner
from planner.errors import InputError
from planner.exports.export import choose_job, export, probe_files
from planner.exports.facts import Given, Wishes

WORK = {"samples": 2000, "tokens_per_sample": 200}
TECHNIQUES = {"method": "lora", "weight_bits": 16, "activation_checkpointing": "full", "sharding": "none"}
OFFER = {"provider": "p", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 1.5}


def given(**images: Any) -> Given:
    return _given(tuple(sorted(images.items())))


@cache
def _given(images: tuple[tuple[str, Any], ...]) -> Given:
    work = {**WORK, "image_input": {"size": "1280x720", **dict(images)}}
    method = "full" if dict(images).get("tower") == "trained" else "lora"
    job = {"name": "j", "architecture": "qwen3-vl-2b", "work": work, "global_batch": 8, "packing": "padded"}
    job |= {"framework": "hf", "techniques": {**TECHNIQUES, "method": method}}
    scenario = planner.build_scenario({"name": "s", "schema": 2, "jobs": [job], "offers": [OFFER], "objective": "cost"})
    return choose_job(planner.solve(scenario), scenario, "plan", None)


def fields(run: Given) -> dict[str, Any]:
    (text,) = export(run, ["llamafactory"], Wishes(), "plan").values()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_llama_factory_is_given_the_state_of_the_tower_and_the_pixels() -> None:
    """Its own limit of 589,824 pixels would shrink what the plan counts with."""
    plain, limited = fields(given()), fields(given(max_pixels=500_000))
    assert (plain["freeze_vision_tower"], plain["image_max_pixels"]) == (True, 16_777_216)
    assert limited["image_max_pixels"] == 500_000
    trained = fields(given(tower="trained"))
    assert (trained["freeze_vision_tower"], trained["freeze_multi_modal_projector"]) == (False, False)


@pytest.mark.parametrize(
    ("images", "tool", "said"),
    [
        ({}, "trl", "no file for images next to text is written, llamafactory has one"),
        ({}, "axolotl", "no file for images next to text is written, llamafactory has one"),
        ({"tower": "lora"}, "llamafactory", "a tower that is lora"),
        ({"frames": 4}, "llamafactory", "videos are not written yet"),
    ],
)
def test_what_a_tool_has_no_field_for_is_refused(images: dict[str, Any], tool: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        export(given(**images), [tool], Wishes(), "plan")


def test_a_probe_makes_up_no_images() -> None:
    with pytest.raises(InputError, match="a probe makes up text"):
        probe_files(given(), "plan")
