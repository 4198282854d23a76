"""Files of training tools for images next to text."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import planner
from planner.errors import InputError
from planner.exports.export import choose_job, export, probe_files
from planner.exports.facts import Given, Wishes
from planner.exports.read_configs import read_tool_file
from planner.loading.question import Question, load_held
from tests.library.test_huggingface import TOWERS

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


def fields(run: Given, tool: str = "llamafactory") -> dict[str, Any]:
    (text,) = export(run, [tool], Wishes(), "plan").values()
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
        ({}, "axolotl", "no file for images next to text is written, llamafactory and trl have one"),
        ({"max_pixels": 500_000}, "trl", "no field for the pixels of an image"),
        ({"frames": 4}, "trl", "reads images alone"),
        ({"tower": "lora"}, "trl", "a tower that is lora"),
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


def test_trl_adapts_the_language_model_alone() -> None:
    """Layers of towers have the same names, so that one pattern names the stack; PEFT compares it with whole paths."""
    (pattern,) = fields(given(), "trl")["lora_target_modules"]
    assert re.fullmatch(pattern, "model.language_model.layers.3.mlp.down_proj")
    assert not re.fullmatch(pattern, "model.visual.blocks.3.mlp.down_proj")
    trained = fields(given(tower="trained"), "trl")
    assert trained["use_peft"] is False and "lora_target_modules" not in trained


@pytest.mark.ecosystem
def test_trl_parses_the_file_and_its_pattern_matches_no_layer_of_a_tower(tmp_path: Path) -> None:
    """Of a built Qwen2.5-VL, whose tower has gate_proj, up_proj and down_proj, too: seven layers of each of two."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    trl = pytest.importorskip("trl")
    path = tmp_path / "sft.yaml"
    path.write_text(export(given(), ["trl"], Wishes(dataset="me/images"), "plan")["sft.yaml"], encoding="utf-8")
    kinds = (trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig, trl.DatasetMixtureConfig)
    parsed = trl.TrlParser(kinds).parse_args_and_config(["--config", str(path), "--use_cpu", "--bf16", "false"])
    found = trl.get_peft_config(parsed[2]).target_modules
    config = dict(next(case["config"] for case in TOWERS if case["config"]["model_type"] == "qwen2_5_vl"))
    kind = transformers.CONFIG_MAPPING[config.pop("model_type")]
    with torch.device("meta"):
        built = transformers.AutoModelForImageTextToText.from_config(kind(**config))
    matched = [name for name, _ in built.named_modules() if re.fullmatch(found, name)]
    assert len(matched) == 7 * config["text_config"]["num_hidden_layers"]
    assert all("language_model" in name for name in matched)


VISION_FILE = """\
model_name_or_path: Qwen/Qwen2.5-VL-7B-Instruct
image_max_pixels: 262144
stage: sft
do_train: true
finetuning_type: lora
dataset: mllm_demo
template: qwen2_vl
"""


@pytest.mark.parametrize(
    ("more", "images"),
    [
        ("", {"size": 512}),
        ("freeze_vision_tower: true\n", {"size": 512}),
        ("freeze_vision_tower: false\n", {"size": 512, "tower": "lora"}),
    ],
)
def test_a_file_with_images_is_planned_with_them(more: str, images: dict[str, Any], tmp_path: Path) -> None:
    """As large as the tool lets them be; a job of another amount keeps them, and its text needs a length."""
    path = tmp_path / "sft.yaml"
    path.write_text(VISION_FILE + more, encoding="utf-8")
    read = read_tool_file(path)
    assert read.held["work", "image_input"].value == images
    assert "one image of 262,144 pixels in each sample" in read.unmodelled["images"]
    held = {place: (one.value, one.field) for place, one in read.held.items()}
    loaded, _ = load_held(Question(samples="1000", tokens_per_sample="200"), held, "sft.yaml")
    given = loaded.scenario.jobs[0].work.image_input
    assert given is not None and given.edges == (512, 512)
    with pytest.raises(InputError, match="text of unknown length"):
        load_held(Question(tokens="1M"), held, "sft.yaml")


def test_a_file_of_a_model_that_reads_images_says_where_none_are_counted(tmp_path: Path) -> None:
    """A file of TRL names a data set, not whether it has a column of images."""
    path = tmp_path / "sft.yaml"
    for model, said in (("Qwen/Qwen3-VL-8B-Instruct", True), ("Qwen/Qwen3-8B", False)):
        path.write_text(f"model_name_or_path: {model}\ndataset_name: a/b\nuse_peft: true\ndtype: bfloat16\n")
        assert ("images" in read_tool_file(path).unmodelled) == said
