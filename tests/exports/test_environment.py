"""The environment of a run: image and PyTorch by the GPU; jobs of Hugging Face; the script of Unsloth."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.cli.options import scenario_of
from planner.errors import InputError, plan_with
from planner.exports.export import choose_job, export_all
from planner.exports.facts import Wishes
from planner.exports.script_parts import image_of
from planner.library.reading import read_library
from tests.helpers.exported_plans import changed, on_hugging_face, solved, texts, unsloth_plan


@pytest.mark.parametrize(
    ("gpu", "cuda", "torch"),
    [
        ("P100", "12.6", "2.8.0"),
        ("V100-32GB", "12.6", "2.8.0"),
        ("T4", "12.8", "2.11.0"),
        ("H100-80GB", "12.8", "2.11.0"),
        ("B200", "12.8", "2.11.0"),
        ("B300", "12.8", "2.11.0"),
        ("RTX5090", "12.8", "2.11.0"),
        ("MI300X", "", ""),
    ],
)
def test_the_image_has_code_for_the_gpu(gpu: str, cuda: str, torch: str) -> None:
    """Volta left the wheels after CUDA 12.6, Blackwell came with CUDA 12.8, AMD has an image of its own."""
    found = image_of(gpu)
    assert (found.cuda, found.torch) == (cuda, torch)
    assert found.image.startswith("rocm/" if gpu == "MI300X" else f"pytorch/pytorch:{torch}-cuda{cuda}-")
    assert (found.driver >= 570) == (gpu in ("B200", "B300", "RTX5090"))


def test_every_gpu_of_the_library_has_an_image_but_those_that_cuda_dropped() -> None:
    """Compute capability 3.7 left the wheels years ago, and no plan uses it."""
    without = []
    for gpu in read_library([]).gpus:
        try:
            image_of(gpu)
        except InputError as error:
            without.append(gpu)
            assert "no image has code for" in str(error)
    others = [card.name for card in read_library([]).gpus.values() if card.vendor not in ("NVIDIA", "AMD")]
    assert sorted(without) == sorted(["K80", *others])


@pytest.mark.slow
def test_every_launcher_gets_the_image_and_the_wheels_of_the_gpu() -> None:
    """On a V100, whose code the wheels of CUDA 12.8 lack."""
    old = changed(solved("quickstart"), {"precision": "fp16_mixed", "attention": "mem_efficient"}, gpu="V100-32GB")
    job = next(iter(yaml.safe_load_all(texts(old, "kubernetes", "trl")["job.yaml"])))
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].startswith("pytorch/pytorch:2.8.0-cuda12.6")
    with pytest.raises(InputError, match=r"Axolotl: needs PyTorch 2\.11, and this GPU is older"):
        texts(changed(old, {"activation_checkpointing": "full"}), "axolotl")
    amd = changed(solved("quickstart"), gpu="MI300X")
    text = texts(amd, "kubernetes", "trl")["job.yaml"]
    assert "amd.com/gpu" in text and "rocm/pytorch" in text and "nvidia.com" not in text


@pytest.mark.slow
def test_a_job_of_hugging_face_has_flavor_time_image_and_bucket(tmp_path: Path) -> None:
    """The flavor is that of GPU and number; the deadline is the limit; bash reads the script."""
    text = texts(on_hugging_face(solved("quickstart"), "A100-80GB", 4), "huggingface", "trl")["hf_job.sh"]
    words = " ".join(text.replace("\\\n", " ").split())
    assert "hf jobs run --name quickstart --flavor a100x4 --timeout 36h --secrets HF_TOKEN" in words
    assert "hf://buckets/${BUCKET:?OWNER/NAME of a bucket}:/checkpoints" in words
    assert (
        "pytorch/pytorch:2.11.0-cuda12.8-cudnn9-devel bash -c 'mkdir -p /workspace && cp -r /job/. /workspace/" in words
    )
    (tmp_path / "hf_job.sh").write_text(text)
    subprocess.run(["bash", "-n", str(tmp_path / "hf_job.sh")], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ({"gpu": "A100-80GB", "count": 2}, "1 x 2 A100-80GB; plan with --set limits.max_gpus=1 (it has 1, 4, 8)"),
        ({"gpu": "H200", "count": 8, "instances": 2}, "no job on 2 x 8 H200"),
        ({"gpu": "B200", "count": 1}, "has no name for B200"),
    ],
)
def test_what_hugging_face_does_not_rent_is_refused(machines: dict[str, Any], said: str) -> None:
    """Each with what would be right."""
    with pytest.raises(InputError) as error:
        texts(on_hugging_face(solved("quickstart"), **machines), "huggingface", "trl")
    assert said in str(error.value)


@pytest.mark.slow
def test_a_plan_elsewhere_is_no_job_of_hugging_face() -> None:
    """The provider is that of the plan."""
    with pytest.raises(InputError, match="Hugging Face Jobs rents nothing from runpod-community"):
        texts(solved("quickstart"), "huggingface", "trl")


def constants(text: str) -> dict[str, Any]:
    """Return the constants of a script."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


@pytest.mark.slow
def test_the_unsloth_script_says_every_decision() -> None:
    """Loading, adapters, data and training, each by the names of their function."""
    plan = unsloth_plan()
    job = plan.jobs[0]
    found = constants(texts(plan, "unsloth")["train_unsloth.py"])
    assert found["LOAD"] == {
        "model_name": "mistralai/Mistral-7B-v0.1",
        "max_seq_length": 2048,
        "full_finetuning": False,
        "load_in_4bit": True,
        "load_in_8bit": False,
        "use_gradient_checkpointing": "unsloth",
    }
    assert found["ADAPTERS"]["r"] == 16 and "gate_proj" in found["ADAPTERS"]["target_modules"]
    assert found["DATA"] == {"path": "my/data", "split": "train"}
    assert found["TRAIN"]["max_steps"] == job.steps
    assert found["TRAIN"]["per_device_train_batch_size"] == job.techniques.micro_batch
    assert found["TRAIN"]["bf16"] is True and found["TRAIN"]["packing"] is True
    file = constants(texts(plan, "unsloth", wishes=Wishes(dataset="a.jsonl"))["train_unsloth.py"])
    assert file["DATA"] == {"path": "json", "data_files": "a.jsonl", "split": "train"}


@pytest.mark.slow
def test_unsloth_and_the_others_name_each_other() -> None:
    """The framework of the plan decides, and the refusal names the target that runs it."""
    with pytest.raises(InputError, match="TRL does not run unsloth; unsloth can, or plan with --set"):
        texts(unsloth_plan(), "trl")
    with pytest.raises(InputError, match="Unsloth does not run hf-fused; axolotl, llamafactory, trl can"):
        texts(solved("quickstart"), "unsloth")


@pytest.mark.slow
def test_a_run_of_unsloth_goes_on_from_the_checkpoint_of_the_script() -> None:
    """Its program takes it as its only argument."""
    plan = unsloth_plan()
    files, _ = export_all(
        choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None), Wishes(dataset="my/data")
    )
    (line,) = (line for line in files["run.sh"].splitlines() if line.startswith("run_to_its_end "))
    assert line.endswith(' env python train_unsloth.py ${LATEST:+"$LATEST"}')


def test_what_to_plan_with_can_be_pasted() -> None:
    """Also where the shell would read brackets as a pattern."""
    assert plan_with("limits.gpus.forbid", ["TPU-v6e"]) == "plan with --set 'limits.gpus.forbid=[TPU-v6e]'"
    assert plan_with("limits.spot", "false") == "plan with --set limits.spot=false"
    with pytest.raises(InputError, match=r"plan with --set 'limits\.gpus\.forbid=\[TPU-v6e\]'"):
        image_of("TPU-v6e")
