"""Files of tools that train networks of images: as jobs of images, and never as those of language models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.exports.field_map import field_maps
from planner.exports.read_configs import read_tool_file

SIMPLETUNER = {
    "--model_family": "flux",
    "--model_type": "lora",
    "--lora_rank": 8,
    "--train_batch_size": "2",
    "--max_train_steps": 500,
    "--optimizer": "bnb-adamw8bit",
    "--base_model_precision": "int8-quanto",
    "--data_backend_config": "data.json",
}


def held(folder: Path, name: str, text: str) -> dict[str, object]:
    (folder / name).write_text(text)
    return {".".join(map(str, place)): entry.value for place, entry in read_tool_file(folder / name).held.items()}


def test_simpletuner_is_read_with_the_size_of_its_data_file(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps([{"id": "a", "resolution": 0.25, "resolution_type": "area"}]))
    found = held(tmp_path, "config.json", json.dumps(SIMPLETUNER))
    assert found["architecture"] == "flux.1-dev" and found["work.resolution"] == 496 and found["work.steps"] == 500
    assert found["lora.rank"] == 8 and found["global_batch"] == 2 and found["techniques.weight_bits"] == [8]
    assert found["techniques.latents"] == ["cached"] and found["framework"] == ["simpletuner"]


def test_a_command_of_musubi_tuner_is_read_with_its_data(tmp_path: Path) -> None:
    data = "[general]\nresolution = [960, 544]\nbatch_size = 2\n"
    data += '[[datasets]]\nvideo_directory = "/x"\ntarget_frames = [1, 25]\n'
    (tmp_path / "data.toml").write_text(data)
    command = "accelerate launch src/musubi_tuner/wan_train_network.py --task t2v-1.3B \\\n  --dataset_config data.toml"
    found = held(
        tmp_path, "train.sh", f"{command} --network_dim 32 --max_train_steps 100 --mixed_precision bf16 --fp8_base\n"
    )
    assert found["architecture"] == "wan-2.1-1.3b" and found["work.frames"] == 25 and found["work.resolution"] == 720
    assert found["lora.rank"] == 32 and found["global_batch"] == 2 and found["techniques.weight_bits"] == [8]


def test_a_command_of_diffusers_is_read(tmp_path: Path) -> None:
    command = "accelerate launch train_dreambooth_lora_sd3.py"
    command += " --pretrained_model_name_or_path=stabilityai/stable-diffusion-3.5-medium"
    found = held(tmp_path, "run.sh", f"{command} --rank=8 --resolution 768 --max_train_steps=50 --cache_latents\n")
    assert found["work.resolution"] == 768 and found["lora.rank"] == 8 and found["lora.targets"] == "attention"
    assert found["techniques.latents"] == ["cached"] and found["techniques.weight_bits"] == [16]


def test_ai_toolkit_is_read_with_its_largest_resolution(tmp_path: Path) -> None:
    text = """
job: extension
config:
  process:
    - type: sd_trainer
      network: {type: lora, linear: 16}
      datasets: [{folder_path: x, cache_latents_to_disk: true, resolution: [512, 1024]}]
      train: {batch_size: 1, steps: 2000, dtype: bf16, optimizer: adamw8bit}
      model: {name_or_path: black-forest-labs/FLUX.1-dev, quantize: true}
"""
    found = held(tmp_path, "run.yaml", text)
    assert found["work.resolution"] == 1024 and found["work.steps"] == 2000 and found["lora.rank"] == 16
    assert found["techniques.optimizer"] == ["adamw_8bit"] and found["techniques.latents"] == ["cached"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("data.json", '[{"instance_data_dir": "x"}]', "data file of SimpleTuner"),
        ("data.toml", "[general]\nresolution = 512\n", "data file of kohya"),
        ("a.sh", "python train_controlnet.py --rank 4", "no script of images"),
        ("b.json", json.dumps({**SIMPLETUNER, "ramtorch": True}), "host memory"),
        ("c.json", json.dumps({**SIMPLETUNER, "--max_train_steps": 0}), "steps are not known"),
    ],
)
def test_what_no_plan_has_is_refused_by_its_name(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read_tool_file(tmp_path / name)


def test_simpletuner_and_diffusers_alone_train_images() -> None:
    assert {name for name, tool in field_maps().items() if tool.unit == "images"} == {"simpletuner", "diffusers"}
