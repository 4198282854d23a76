"""Files of tools that train networks of images: as jobs of images, and never as those of language models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from planner.cli.options import scenario_of
from planner.documents.files import parse_document
from planner.errors import InputError
from planner.exports.export import choose_job, export, probe_files
from planner.exports.field_map import field_maps
from planner.exports.read_configs import read_tool_file
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques
from tests.helpers.costs import plan_of
from tests.helpers.exported_plans import IMAGE_RUNS, WISHES, image_files, image_run

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
    assert found["techniques.quant"] == ["fp8_weights"] and found["framework"] == ["musubi-tuner"]
    assert found["techniques.latents"] == ["cached"]


def test_swapped_blocks_are_held_as_the_nearest_share_that_a_plan_may_have(tmp_path: Path) -> None:
    """A command of the documentation swaps 18 of FLUX.1's 38 blocks; of 45 of 60 the smaller share needs more."""
    command = "accelerate launch flux_train_network.py --network_dim 16 --max_train_steps 100 --mixed_precision bf16"
    found = held(tmp_path, "train.sh", f"{command} --gradient_checkpointing --cache_latents --blocks_to_swap=18\n")
    assert found["techniques.offload"] == ["block_swap_50"] and found["framework"] == ["kohya"]
    script = "accelerate launch src/musubi_tuner/qwen_image_train_network.py --network_dim 16 --max_train_steps 100"
    (tmp_path / "a.sh").write_text(f"{script} --gradient_checkpointing --mixed_precision bf16 --blocks_to_swap 45\n")
    file = read_tool_file(tmp_path / "a.sh")
    assert file.held["techniques", "offload"].value == ["block_swap_70"]
    assert "planned as 70 % of the blocks, with --block_swap_h2d_only" in file.unmodelled["blocks_to_swap 45 of 60"]
    (tmp_path / "c.sh").write_text(f"{command} --blocks_to_swap 36\n")
    with pytest.raises(InputError, match="36 of 38 blocks: the tool swaps at most 35"):
        read_tool_file(tmp_path / "c.sh")
    (tmp_path / "b.sh").write_text(f"{command.replace('flux_', 'sdxl_')} --blocks_to_swap 18\n")
    with pytest.raises(InputError, match="blocks of this network are not counted"):
        read_tool_file(tmp_path / "b.sh")


def test_videos_are_called_videos(tmp_path: Path) -> None:
    """In the notes on steps and batch, and one is one video."""
    (tmp_path / "a.mp4").touch()
    data = f'[[datasets]]\nvideo_directory = "{tmp_path}"\ntarget_frames = [25]\nbatch_size = 1\n'
    (tmp_path / "data.toml").write_text(data)
    script = "accelerate launch src/musubi_tuner/wan_train_network.py --task t2v-1.3B --dataset_config data.toml"
    (tmp_path / "train.sh").write_text(f"{script} --network_dim 32 --max_train_epochs 16 --mixed_precision bf16\n")
    said = " ".join(read_tool_file(tmp_path / "train.sh").unmodelled.values())
    assert "1 x 1 = 1 video per step is held, that of one GPU" in said and "1 clip of the videos" in said
    assert "image" not in said


@pytest.mark.parametrize(
    ("keys", "frames", "steps"),
    [
        ("target_frames = [1, 25, 26, 45]", 45, 2 * 3),
        ("target_frames = [24]\nframe_extraction = 'uniform'\nframe_sample = 4", 21, 2 * 4),
        ("frame_extraction = 'full'\nmax_frames = 46", 45, 2),
        ("", 1, 2),
        ("target_frames = [25]\nframe_extraction = 'chunk'", 25, None),
    ],
)
def test_clips_of_videos_are_those_that_musubi_tuner_takes(
    tmp_path: Path, keys: str, frames: int, steps: int | None
) -> None:
    """Of two videos each one or several, of 1 and a multiple of 4 frames; where lengths decide, none is counted."""
    (tmp_path / "clips").mkdir()
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / "clips" / name).touch()
    (tmp_path / "data.toml").write_text(f'[[datasets]]\nvideo_directory = "{tmp_path}/clips"\nbatch_size = 1\n{keys}\n')
    script = "accelerate launch src/musubi_tuner/wan_train_network.py --task t2v-1.3B --dataset_config data.toml"
    command = f"{script} --network_dim 32 --mixed_precision bf16"
    found = held(tmp_path, "steps.sh", f"{command} --max_train_steps 7\n")
    assert (found["work.frames"], found["work.steps"]) == (frames, 7)
    if steps:
        assert held(tmp_path, "epochs.sh", f"{command} --max_train_epochs 1\n")["work.steps"] == steps
        return
    (tmp_path / "epochs.sh").write_text(f"{command} --max_train_epochs 1\n")
    with pytest.raises(InputError, match="frame_extraction chunk: the clips of a video follow from its length"):
        read_tool_file(tmp_path / "epochs.sh")


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
      datasets: [{folder_path: x, cache_latents_to_disk: true, cache_text_embeddings: true, resolution: [512, 1024]}]
      train: {batch_size: 1, steps: 2000, dtype: bf16, optimizer: adamw8bit}
      model: {name_or_path: black-forest-labs/FLUX.1-dev, quantize: true}
"""
    found = held(tmp_path, "run.yaml", text)
    assert found["techniques.quant"] == ["fp8_weights"] and found["framework"] == ["ai-toolkit"]
    found = held(tmp_path, "run.yaml", text.replace("quantize: true", "layer_offloading: true"))
    assert found["techniques.offload"] == ["frozen_weights"] and found["techniques.weight_bits"] == [16]
    assert not any("layer" in name for name in read_tool_file(tmp_path / "run.yaml").unmodelled)
    found = held(tmp_path, "run.yaml", text.replace("quantize: true", "quantize: true, qtype: int8"))
    assert found["techniques.weight_bits"] == [8] and "techniques.quant" not in found
    assert found["work.resolution"] == 1024 and found["work.steps"] == 2000 and found["lora.rank"] == 16
    assert found["techniques.optimizer"] == ["adamw_8bit"] and found["techniques.latents"] == ["cached"]
    held(tmp_path, "edit.yaml", text.replace("folder_path: x", "folder_path: x, control_path: y"))
    assert "images that are edited" in read_tool_file(tmp_path / "edit.yaml").unmodelled
    assert held(tmp_path, "a.yaml", text.replace("cache_text_embeddings: true, ", ""))["techniques.latents"] == [
        "online"
    ]
    unloaded = text.replace("cache_text_embeddings: true, ", "").replace("steps:", "unload_text_encoder: true, steps:")
    assert held(tmp_path, "b.yaml", unloaded)["techniques.latents"] == ["cached"]


@pytest.mark.parametrize(
    ("fields", "latents"),
    [({}, "cached"), ({"text_cache_disable": True}, "online"), ({"vae_cache_disable": True}, "online")],
)
def test_encoders_that_simpletuner_keeps_on_the_gpu_are_planned_there(
    tmp_path: Path, fields: dict[str, bool], latents: str
) -> None:
    """Outputs of text encoders and latents are cached one by one; a plan frees both or none."""
    assert held(tmp_path, "a.json", json.dumps({**SIMPLETUNER, **fields}))["techniques.latents"] == [latents]


@pytest.mark.parametrize(
    ("options", "latents"),
    [
        ("--cache_latents --cache_text_encoder_outputs --network_train_unet_only", "cached"),
        ("--cache_latents_to_disk", "online"),
        ("", "online"),
    ],
)
def test_encoders_that_sd_scripts_keeps_on_the_gpu_are_planned_there(
    tmp_path: Path, options: str, latents: str
) -> None:
    """Its adapters of text encoders, which it trains by default, are named as left out."""
    command = f"accelerate launch sdxl_train_network.py {options} --network_dim 8 --max_train_steps 9\n"
    assert held(tmp_path, "run.sh", command)["techniques.latents"] == [latents]
    assert ("adapters of text encoders" in read_tool_file(tmp_path / "run.sh").unmodelled) == (
        "unet_only" not in options
    )


@pytest.mark.parametrize(
    ("script", "options", "latents"),
    [
        ("flux", "", "cached"),
        ("flux", " --caption_column text", None),
        ("qwen_image", " --caption_column text", "cached"),
    ],
)
def test_encoders_of_captions_stay_where_the_script_encodes_each(
    tmp_path: Path, script: str, options: str, latents: str | None
) -> None:
    """The scripts of FLUX, SD 3 and Lumina 2 keep them for captions of their own; others encode those once."""
    models = {"flux": "black-forest-labs/FLUX.1-dev", "qwen_image": "Qwen/Qwen-Image"}
    command = f"accelerate launch train_dreambooth_lora_{script}.py --pretrained_model_name_or_path {models[script]}"
    found = held(tmp_path, "run.sh", f"{command} --max_train_steps 50 --cache_latents{options}\n")
    assert found["techniques.latents"] == [latents or "online"]


@pytest.mark.parametrize(
    ("target", "adapted"), [(None, "attention"), ("all", "attention"), ("all+ffs", "all-linear"), ("nano", None)]
)
def test_layers_of_flux_lora_target_are_those_that_simpletuner_adapts(
    tmp_path: Path, target: str | None, adapted: str | None
) -> None:
    text = json.dumps({**SIMPLETUNER, **({"flux_lora_target": target} if target else {})}, indent=1)
    if adapted:
        assert held(tmp_path, "a.json", text)["lora.targets"] == adapted
        return
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match="flux_lora_target: adapters on the layers of nano are not modelled"):
        read_tool_file(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("data.json", '[{"instance_data_dir": "x"}]', "data file of SimpleTuner"),
        ("data.toml", "[general]\nresolution = 512\n", "data file of kohya"),
        ("a.sh", "python train_controlnet.py --rank 4", "no script of images"),
        ("b.json", json.dumps({**SIMPLETUNER, "musubi_blocks_to_swap": 4}), "blocks in host memory"),
        (
            "d.yaml",
            "config:\n  process: [{type: sd_trainer, network: {linear: 8}, train: {steps: 9},\n"
            "  model: {name_or_path: flux, layer_offloading: true, layer_offloading_transformer_percent: 0.5}}]\n",
            "a part of the layers in host memory",
        ),
        ("c.json", json.dumps({**SIMPLETUNER, "--max_train_steps": 0}), "steps are not known"),
    ],
)
def test_what_no_plan_has_is_refused_by_its_name(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read_tool_file(tmp_path / name)


@pytest.mark.parametrize(
    ("family", "fields", "blocks"),
    [
        ("flux", {}, "full"),
        ("flux", {"gradient_checkpointing_interval": 1}, "full"),
        ("flux", {"gradient_checkpointing_interval": 2}, "paired_blocks"),
        ("flux", {"gradient_checkpointing_interval": 2, "gradient_checkpointing_segment_stride": 4}, "every_2nd"),
        ("qwen_image", {"gradient_checkpointing_interval": 2}, "every_2nd"),
        ("sdxl", {"gradient_checkpointing_interval": 2}, "full"),
        ("flux", {"gradient_checkpointing_offload_attention": True}, "attention_offloaded"),
        ("flux", {"gradient_checkpointing_offload_attention": False}, "full"),
        (
            "sd3",
            {
                "gradient_checkpointing_offload_attention": True,
                "gradient_checkpointing_interval": 2,
                "gradient_checkpointing_segment_stride": 4,
            },
            "every_2nd_attention_offloaded",
        ),
    ],
)
def test_an_interval_is_read_as_the_network_takes_it(
    family: str, fields: dict[str, int], blocks: str, tmp_path: Path
) -> None:
    """Some networks of SimpleTuner group so many blocks, others take every so many-th, U-Nets ignore it."""
    found = held(tmp_path, "config.json", json.dumps({**SIMPLETUNER, "--model_family": family, **fields}))
    assert found["techniques.activation_checkpointing"] == [blocks]


def test_weights_in_fp8_are_read_as_such_and_never_as_int8(tmp_path: Path) -> None:
    found = held(tmp_path, "a.json", json.dumps({**SIMPLETUNER, "--base_model_precision": "fp8wo-torchao"}))
    assert found["techniques.quant"] == ["fp8_weights"] and found["techniques.weight_bits"] == [8]
    found = held(tmp_path, "b.json", json.dumps({**SIMPLETUNER, "--base_model_precision": "fp8-torchao"}))
    assert found["techniques.quant"] == ["fp8_dynamic"] and found["techniques.weight_bits"] == [8]
    (tmp_path / "c.json").write_text(json.dumps({**SIMPLETUNER, "--base_model_precision": "fp8-quanto"}))
    with pytest.raises(InputError, match="fp8-quanto: no quant of a plan is this"):
        read_tool_file(tmp_path / "c.json")


RAMTORCH = {**SIMPLETUNER, "--base_model_precision": "no_change", "ramtorch": True}


@pytest.mark.parametrize(
    ("fields", "offload"),
    [
        ({}, ["frozen_weights"]),
        ({"ramtorch": False}, ["none"]),
        ({"ramtorch_transformer_percent": 0}, ["none"]),
        ({"ramtorch_transformer_percent": 100, "ramtorch_target_modules": "*"}, ["frozen_weights"]),
        ({"--model_family": "wan", "ramtorch_target_modules": "blocks.*"}, ["frozen_weights"]),
        ({"ramtorch_text_encoder": True}, ["frozen_weights"]),
    ],
)
def test_weights_of_ramtorch_are_read_as_those_in_host_memory(
    fields: dict[str, object], offload: list[str], tmp_path: Path
) -> None:
    """Encoders leave the GPU once their outputs are cached, wherever they were."""
    assert held(tmp_path, "config.json", json.dumps({**RAMTORCH, **fields}))["techniques.offload"] == offload


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ramtorch_transformer_percent": 50}, "or none"),
        ({"ramtorch_target_modules": "transformer_blocks.*"}, "or none"),
        ({"ramtorch_text_encoder": True, "vae_cache_disable": True}, "text encoders in host memory"),
        ({"gradient_checkpointing": False, "gradient_checkpointing_offload_attention": True}, "all blocks run again"),
        ({"gradient_checkpointing_interval": 2, "gradient_checkpointing_offload_attention": True}, "or two of four"),
    ],
)
def test_other_parts_of_weights_or_attention_in_host_memory_are_refused(
    fields: dict[str, object], said: str, tmp_path: Path
) -> None:
    """FLUX has single blocks next to those of that name."""
    (tmp_path / "a.json").write_text(json.dumps({**RAMTORCH, **fields}))
    with pytest.raises(InputError, match=said):
        read_tool_file(tmp_path / "a.json")


OPTIONS = json.loads((Path(__file__).parents[1] / "data" / "diffusers_options.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_commands_have_options_alone_that_their_example_script_takes() -> None:
    found = image_files("diffusers")
    for files in found.values():
        text = files["train_images.sh"]
        (script,) = re.findall(r"/examples/(\S+[.]py)", text)
        options = re.findall(r"^  --(\w+)", text, re.MULTILINE)
        assert set(options) <= {*OPTIONS["all"], *OPTIONS[script]}
        assert len(options) > 15
    assert {name.split(" ")[0] for name in found} >= {"flux.1-schnell", "qwen-image", "stable-diffusion-xl", "z-image"}


def test_files_of_simpletuner_say_what_the_plan_decided() -> None:
    files = export(image_run("flux.1-dev", "simpletuner", **IMAGE_RUNS["fp8"]), ["simpletuner"], WISHES, "plan")
    config = json.loads(files["config.json"])
    modules = config.pop("peft_lora_target_modules")
    assert {"to_q", "add_q_proj", "ff_context.net.2", "proj_mlp", "proj_out"} <= set(modules)
    assert config == {
        **{"pretrained_model_name_or_path": "black-forest-labs/FLUX.1-dev", "model_family": "flux"},
        **{"model_flavour": "dev", "data_backend_config": "multidatabackend.json", "output_dir": "out/style"},
        **{"resolution": 1024, "resolution_type": "pixel_area", "train_batch_size": 1},
        **{"gradient_accumulation_steps": 1, "max_train_steps": 2000, "num_train_epochs": 0},
        **{"resume_from_checkpoint": "latest", "allow_dataset_oversubscription": True, "validation_disable": True},
        **{"report_to": "none", "seed": 42, "lr_scheduler": "constant", "learning_rate": 1e-4, "model_type": "lora"},
        **{"lora_type": "standard", "lora_rank": 16, "lora_alpha": 32, "base_model_precision": "fp8wo-torchao"},
        **{"quantize_via": "accelerator", "mixed_precision": "bf16", "gradient_checkpointing": True},
        **{"attention_mechanism": "diffusers", "optimizer": "torch-adamw", "vae_cache_disable": True},
        **{"text_cache_disable": True, "checkpoint_step_interval": 2000, "checkpoints_total_limit": 1},
    }
    images, captions = json.loads(files["multidatabackend.json"])
    assert (images["dataset_name"], images["resolution"], images["type"]) == ("my/data", 1024, "huggingface")
    assert (captions["dataset_type"], captions["default"]) == ("text_embeds", True)


def test_files_of_simpletuner_name_dynamic_fp8_and_ramtorch() -> None:
    """Of a U-Net convolutions lie in host memory, too, which RamTorch alone leaves on the GPU."""
    found = {}
    for network in ("flux.1-dev", "stable-diffusion-xl"):
        for name in ("plain", "dynamic fp8", "ramtorch"):
            run = image_run(network, "simpletuner", **IMAGE_RUNS[name])
            found[network, name] = json.loads(export(run, ["simpletuner"], WISHES, "plan")["config.json"])
    fp8, plain = (found["flux.1-dev", name] for name in ("dynamic fp8", "plain"))
    changed = {key: value for key, value in fp8.items() if plain.get(key) != value}
    assert changed == {"base_model_precision": "fp8-torchao", "quantize_via": "accelerator"}
    hosted = {run: [key for key in config if key.startswith("ramtorch")] for run, config in found.items()}
    assert hosted.pop(("flux.1-dev", "ramtorch")) == ["ramtorch"]
    assert hosted.pop(("stable-diffusion-xl", "ramtorch")) == ["ramtorch", "ramtorch_disable_extensions"]
    assert not any(hosted.values())
    assert found["flux.1-dev", "ramtorch"]["ramtorch"] is True
    assert found["stable-diffusion-xl", "ramtorch"]["ramtorch_disable_extensions"] is False


TOOLS = json.loads((Path(__file__).parents[1] / "data" / "image_tool_options.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_commands_of_kohyas_tools_have_options_alone_that_their_scripts_take() -> None:
    """Those that cache latents and text before the training of musubi-tuner, too."""
    found = image_files("kohya", runs=("plain", "cached", "swapped"))
    for files in found.values():
        commands = files["train_network.sh"].replace("\\\n", " ")
        called = re.findall(
            r"^(?:python|accelerate launch) .*?(sd-scripts|musubi-tuner)/\S*?(\w+[.]py) (.*)", commands, re.M
        )
        assert len(called) in (1, 3)
        for tool, script, words in called:
            options = set(re.findall(r"--(\w+)", words))
            known = {*(TOOLS[tool]["all"] if "train" in script else ()), *TOOLS[tool][script]}
            assert options <= known, (script, options - known)
    assert {name.split(" ")[0] for name in found} >= {
        "flux.1-schnell",
        "qwen-image",
        "wan-2.1-14b",
        "stable-diffusion-xl",
    }


@pytest.mark.slow
def test_files_of_ai_toolkit_have_keys_alone_that_it_reads() -> None:
    found = image_files("ai-toolkit", runs=("plain", "cached"))
    parts = {"save": "SaveConfig", "network": "NetworkConfig", "train": "TrainConfig", "model": "ModelConfig"}
    for files in found.values():
        (run,) = parse_document(files["ai-toolkit.yaml"], "ai-toolkit.yaml").data["config"]["process"]
        for part, name in parts.items():
            assert run[part].keys() <= set(TOOLS["ai-toolkit"][name])
        assert run["datasets"][0].keys() <= set(TOOLS["ai-toolkit"]["DatasetConfig"])
    assert len(found) == 2 * len(field_maps()["ai-toolkit"].networks)


def test_a_plan_of_swapped_blocks_says_how_many_in_the_words_of_each_tool() -> None:
    """Half of FLUX.1's 38 blocks, exchanged; nine tenths of Qwen-Image's 60, copied one way; else none."""
    asked = {"weight_bits": 8, "quant": "fp8_weights", "latents": "cached"}
    run = image_run("flux.1-dev", "kohya", offload="block_swap_50", **asked)
    text = export(run, ["kohya"], WISHES, "plan")["train_network.sh"]
    assert "--blocks_to_swap=19" in text and "h2d_only" not in text and "--fp8_base" in text
    run = image_run("qwen-image", "musubi-tuner", offload="block_swap_90", **asked)
    text = export(run, ["kohya"], WISHES, "plan")["train_network.sh"]
    assert "--blocks_to_swap=54" in text and "--block_swap_h2d_only" in text and "--fp8_scaled" in text
    text = export(image_run("flux.1-dev", "kohya"), ["kohya"], WISHES, "plan")["train_network.sh"]
    assert "swap" not in text and "--cache_latents" not in text


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("simpletuner", "config.json"),
        ("diffusers", "train_images.sh"),
        ("kohya", "train_network.sh"),
        ("ai-toolkit", "ai-toolkit.yaml"),
    ],
)
def test_an_exported_file_is_read_as_the_plan_that_it_comes_from(tool: str, name: str, tmp_path: Path) -> None:
    """Every run of FLUX.2, whose single blocks are named one by one; a fresh folder for each."""
    runs = image_files(tool, "flux.2-dev")
    assert len(runs) >= 3
    for run, files in runs.items():
        asked = {"lora_targets": "all-linear", **IMAGE_RUNS[run.partition(" ")[2]]}
        folder = tmp_path / run
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text)
        found = held(folder, name, files[name])
        assert (found["work.steps"], found["lora.rank"], found["lora.targets"]) == (2000, 16, asked.pop("lora_targets"))
        for technique, value in {"weight_bits": 16, "activation_checkpointing": "full", **asked}.items():
            given = found.get(f"techniques.{technique}", [value])
            assert isinstance(given, list) and value in given, (run, technique)


@pytest.mark.parametrize(
    ("fields", "where"),
    [({"use_ema": True}, "host"), ({"use_ema": True, "ema_device": "accelerator"}, "gpu"), ({"use_ema": False}, None)],
)
def test_an_average_of_the_weights_is_read_with_its_place(
    fields: dict[str, object], where: str | None, tmp_path: Path
) -> None:
    """SimpleTuner keeps it in host memory where nothing is said (ema_device: cpu)."""
    assert held(tmp_path, "a.json", json.dumps({**SIMPLETUNER, **fields})).get("ema") == where


def test_a_probe_of_images_says_how_to_measure_instead() -> None:
    """It has no `--to`, which the refusal of its trainer would name."""
    with pytest.raises(InputError, match=r"this job trains on images; run its export .* jobs\.\S+\.measured"):
        probe_files(image_run("flux.2-dev", "simpletuner"), "plan")


@pytest.mark.parametrize(
    ("network", "framework", "tool", "said"),
    [
        ("flux.1-kontext-dev", "simpletuner", "simpletuner", "reference_images to 0"),
        ("flux.1-kontext-dev", "diffusers", "diffusers", "reference_images to 0"),
        ("flux.1-kontext-dev", "ai-toolkit", "ai-toolkit", "control_path"),
        ("qwen-image-edit", "musubi-tuner", "kohya", "control_directory"),
    ],
)
def test_images_that_are_edited_are_not_written_as_plain_ones(
    network: str, framework: str, tool: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        export(image_run(network, framework), [tool], WISHES, "plan")


@pytest.mark.parametrize(
    ("options", "network"),
    [
        ("--model_version edit", "qwen-image-edit"),
        ("--edit_plus", "qwen-image-edit-2509"),
        ("--model_version original --edit", "qwen-image"),
        ("--model_version layered", "Qwen-Image layered"),
    ],
)
def test_the_version_of_qwen_image_says_which_network_is_trained(tmp_path: Path, options: str, network: str) -> None:
    """No plan knows that of layers, so that it is refused by this name; a note says how many images are edited."""
    script = "accelerate launch src/musubi_tuner/qwen_image_train_network.py --network_dim 16 --max_train_steps 100"
    found = held(tmp_path, "train.sh", f"{script} {options}\n")
    assert found["architecture"] == network
    said = read_tool_file(tmp_path / "train.sh").unmodelled
    assert ("images that are edited" in said) == network.startswith("qwen-image-edit")
    assert not any(option in name for name in said for option in ("edit_plus", "model_version"))


def test_wan_2_2_has_an_architecture_of_its_own_in_ai_toolkit() -> None:
    text = export(image_run("wan-2.2-ti2v-5b", "ai-toolkit"), ["ai-toolkit"], WISHES, "plan")["ai-toolkit.yaml"]
    assert "arch: wan22_5b" in text


def test_a_network_that_is_planned_with_a_tool_has_a_training_in_its_export() -> None:
    """Of kohya's tools and ai-toolkit, which have an own training for each network."""
    networks = [card for card in read_library().architectures.values() if card.image is not None]
    tools = {"kohya": "kohya", "musubi-tuner": "kohya", "ai-toolkit": "ai-toolkit"}
    for framework, tool in tools.items():
        taken, known = read_techniques().frameworks[framework], field_maps()[tool].networks
        missing = [
            card.name
            for card in networks
            if taken.takes_network(card.name, card.family, True) and not {card.name, card.family} & known.keys()
        ]
        assert not missing, framework


def test_the_single_blocks_of_flux_2_are_named_one_by_one() -> None:
    """PEFT refuses the list of modules of that name in its double blocks."""
    text = export(image_run("flux.2-dev", "diffusers"), ["diffusers"], WISHES, "plan")["train_images.sh"]
    assert "single_transformer_blocks.47.attn.to_out" in text and ",attn.to_out," not in text


@pytest.mark.parametrize(
    ("network", "blocks", "said"),
    [
        ("qwen-image", "paired_blocks", "groups no blocks"),
        ("stable-diffusion-xl", "every_2nd", "every block of a U-Net"),
    ],
)
def test_groups_of_blocks_that_a_network_does_not_have_are_refused(network: str, blocks: str, said: str) -> None:
    run = image_run(network, "simpletuner", activation_checkpointing=blocks)
    with pytest.raises(InputError, match=said):
        export(run, ["simpletuner"], WISHES, "plan")


def test_four_tools_train_images() -> None:
    tools = {name for name, tool in field_maps().items() if tool.unit == "images"}
    assert tools == {"simpletuner", "diffusers", "kohya", "ai-toolkit"}
    runs = {name for tool in tools for name in field_maps()[tool].frameworks}
    assert runs == {name for name, profile in read_techniques().frameworks.items() if profile.images}


def test_what_is_planned_in_full_is_what_simpletuner_trains() -> None:
    """All weights in 16 bits: it has no copy in 32 bits."""
    plan = plan_of("images-pixart-full")
    assert plan.jobs[0].techniques.precision == "bf16"
    files = export(choose_job(plan, scenario_of(plan, "plan"), "plan", None), ["simpletuner"], WISHES, "plan")
    assert json.loads(files["config.json"])["model_type"] == "full"


@pytest.mark.parametrize(("name", "frames"), [("images-wan-video-lora", 81), ("images-hunyuanvideo-lora", 61)])
def test_plans_of_videos_are_exported_to_tools_of_images(name: str, frames: int) -> None:
    """Speeds of these plans are in videos; tools have no such unit."""
    plan = plan_of(name)
    assert plan.jobs[0].unit == "videos"
    files = export(choose_job(plan, scenario_of(plan, "plan"), "plan", None), ["simpletuner"], WISHES, "plan")
    clips, _ = json.loads(files["multidatabackend.json"])
    assert (clips["dataset_type"], clips["video"]) == ("video", {"num_frames": frames})
