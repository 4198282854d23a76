"""A plan as a SkyPilot task; the structure is that which SkyPilot 0.14.1 reads (`test_ecosystem.py`)."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import checklist, choose_job, export
from planner.exports.facts import Given, Wishes
from planner.exports.field_map import launch_maps
from planner.exports.script_parts import image_of
from planner.library.reading import read_library
from tests.helpers.exported_plans import INSTALL, changed, settings, solved, texts

pytestmark = pytest.mark.slow


def task(plan: Any) -> dict[str, Any]:
    """Return the task of a plan that is exported with its trainer."""
    found: dict[str, Any] = yaml.safe_load(texts(plan, "skypilot", "trl")["task.yaml"])
    return found


def test_an_edited_plan_whose_offer_is_gone_is_refused() -> None:
    """Without a price there is no highest price to write."""
    with pytest.raises(InputError, match="the plan has no priced offer of V100-32GB at "):
        texts(changed(solved("secure"), {"attention": "mem_efficient"}, gpu="V100-32GB", provider="aws"), "skypilot")


def test_the_task_of_the_quickstart_on_secure_machines_is_complete() -> None:
    """On demand, one place: the whole file."""
    plan = solved("secure")
    job = plan.jobs[0]
    offer = next(one for one in (plan.inputs.offers if plan.inputs else ()) if one["instance"] == job.instance)
    found = task(plan)
    tool = launch_maps()["skypilot"]
    name = tool.providers[job.provider].gpus.get(job.gpu) or tool.gpus[job.gpu]
    assert found.pop("resources") == {
        "accelerators": f"{name}:{job.gpus_per_instance}",
        "image_id": "docker:pytorch/pytorch:2.11.0-cuda12.8-cudnn9-devel",  # machines of RunPod are containers
        "infra": found_infra(plan),
        "use_spot": False,
        "max_hourly_cost": round(1.1 * offer["usd_per_hour"], 2),
        "autostop": {"idle_minutes": 10, "down": True},
    }
    run = found.pop("run").splitlines()
    flags = f"--num_processes {job.gpus} --multi_gpu"
    assert run[0] == "set -e"
    assert "OUT=/checkpoints/quickstart" in run and "enter_environment quickstart" in run
    assert "LATEST=$(newest_checkpoint \"$OUT\" 'checkpoint-*' trainer_state.json || true)" in run
    assert run[-5:] == [
        f'python -m accelerate.commands.launch {flags} "$WORLD" {job.gpus} "$LATEST"',
        'echo "starts from ${LATEST:-the beginning}"',
        f'run_to_its_end "$OUT"/checkpoint-{job.steps} env trl sft --config sft.yaml {flags} '
        '${LATEST:+--resume_from_checkpoint "$LATEST"}',
        '[ "${NODE_RANK:-0}" != 0 ] || touch "$OUT/finished.txt"',
        "fi",
    ]
    assert f"\nenter_environment quickstart\n{INSTALL} trl==1.16.0 transformers==5.23.0" in found.pop("setup")
    (mounted,) = found.pop("file_mounts").values()
    assert mounted["mode"] == "MOUNT_CACHED"
    assert re.fullmatch("checkpoints-quickstart-[0-9a-f]{8}", mounted["name"])
    assert found == {"name": "quickstart", "workdir": ".", "num_nodes": job.instances, "secrets": {"HF_TOKEN": None}}


def test_the_result_outlives_the_machines_also_without_checkpoints() -> None:
    """The bucket is mounted in any case, and what a user must see to and fill in is listed."""
    plan = changed(solved("fsdp"), spot_share=0.0, spot=None)
    name = task(plan)["file_mounts"]["/checkpoints"]["name"]
    assert name.startswith("checkpoints-llama-2-7b-full-vs-lora-")
    moved, other = changed(plan, gpus=8), changed(plan, steps=plan.jobs[0].steps + 1)
    names = [task(one)["file_mounts"]["/checkpoints"]["name"] for one in (moved, other)]
    assert names[0] == name != names[1], "of the same run on other machines, and not of another run"
    asked, folders = scenario_of(plan, "plan.json"), {plan.jobs[0].name: ""}
    found = checklist(plan, asked, "plan.json", Wishes(dataset="my/data"), folders, ["task.yaml", "axolotl.yml"])
    lines = found.see_to
    assert any("which keeps checkpoints and the result" in line for line in lines)
    assert any(line.startswith("axolotl.yml: learning_rate") for line in lines)


def test_a_token_is_asked_for_where_the_model_is_gated() -> None:
    """Llama and Mistral are, Qwen is not; the repository that is named counts."""
    plan = solved("secure")
    assert task(plan)["secrets"] == {"HF_TOKEN": None}
    assert "HF_TOKEN" in texts(plan, "kubernetes", "trl")["job.yaml"]
    open_model = texts(plan, "skypilot", "trl", wishes=Wishes("Qwen/Qwen3-8B", "my/data"))["task.yaml"]
    assert "HF_TOKEN" not in open_model


@pytest.mark.parametrize(
    ("name", "techniques", "has_image", "said"),
    [
        ("secure", {}, True, "image pytorch/pytorch:2.11.0"),
        ("on lambda", {}, False, "no image is named (loading one takes minutes, and the run needs none)"),
        ("on lambda", {"offload": "optimizer"}, True, "image pytorch/pytorch:2.11.0"),
        ("on verda", {}, False, "no image is named (verda starts none, and the run needs none)"),
        ("on verda", {"offload": "optimizer"}, False, "DeepSpeed's AdamW of the CPUs needs a C++ compiler"),
    ],
)
def test_an_image_is_named_where_it_is_the_machine_or_the_run_needs_it(
    name: str, techniques: dict[str, Any], has_image: bool, said: str
) -> None:
    """Containers of RunPod have no PyTorch; a machine of a cloud takes minutes to load one; Verda starts none."""
    plan = solved(name)
    image = f"image {image_of(plan.jobs[0].gpu).image}".split("-")[0]
    text = texts(changed(plan, techniques), "skypilot", "trl")["task.yaml"]
    assert ("image_id" in yaml.safe_load(text)["resources"]) == has_image
    head = " ".join(text.split("\nname:")[0].replace("#", "").split())
    assert said.replace("image pytorch/pytorch:2.11.0", image) in head and image in head


def test_a_gpu_that_needs_the_pytorch_of_an_image_is_refused_where_none_is_started() -> None:
    """Packages of PyPI would bring PyTorch for CUDA to a GPU of AMD."""
    plan = solved("on verda")
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    offers = tuple(
        offer.model_copy(update={"gpu": "MI300X"}) if offer.gpu == given.job.gpu else offer
        for offer in given.scenario.offers
    )
    moved = Given(plan, given.scenario.model_copy(update={"offers": offers}), changed(plan, gpu="MI300X").jobs[0])
    with pytest.raises(InputError, match="SkyPilot starts no image at verda, and MI300X needs the PyTorch of one"):
        export(moved, ("skypilot", "trl"), Wishes(dataset="my/data"), "plan.json")


def test_what_a_run_compiles_is_tried_before_anything_is_downloaded() -> None:
    """Triton's launcher for Liger, DeepSpeed's AdamW for an optimizer in host memory; else the GPU alone."""
    plan = solved("secure")
    setups = {
        name: task(changed(plan, techniques, framework=framework))["setup"]
        for name, framework, techniques in (
            ("liger", "hf-fused", {"framework": "hf-fused"}),
            ("plain", "hf", {"framework": "hf"}),
            ("host", "hf", {"framework": "hf", "offload": "optimizer"}),
            ("torchao", "hf", {"framework": "hf", "optimizer": "adamw_4bit"}),
        )
    }
    triton, adam = "python -c 'from triton.runtime import driver; driver.active'", "CPUAdamBuilder().load()'"
    assert {name for name, text in setups.items() if triton in text} == {"liger", "torchao"}
    assert {name for name, text in setups.items() if adam in text} == {"host"}
    for text in setups.values():
        assert text.index("pip install") < text.index("python -c 'import torch; torch.ones(1, device=")


def found_infra(plan: Any) -> str:
    """Return provider and region of a plan as SkyPilot spells them."""
    job = plan.jobs[0]
    provider = launch_maps()["skypilot"].providers[job.provider]
    return f"{provider.name}/{job.region}" if provider.regions and job.region != "any" else provider.name


def test_a_spot_plan_tries_every_region_on_spot_before_any_on_demand() -> None:
    """Spot share is a share of time: a synchronous run is on one market as a whole."""
    plan = solved("spot")
    found = task(plan)["resources"]
    assert plan.jobs[0].region == "any of 3 regions" and len(found["any_of"]) == 6
    assert [one["use_spot"] for one in found["any_of"]] == [True] * 3 + [False] * 3
    assert len({one["infra"] for one in found["any_of"]}) == 3
    prices = {one["use_spot"]: one["max_hourly_cost"] for one in found["any_of"]}
    assert prices[True] < prices[False]
    assert found["job_recovery"] == {"strategy": "EAGER_NEXT_REGION"}
    text = texts(plan, "skypilot", "trl")["task.yaml"]
    assert "# Run: sky jobs launch task.yaml" in text
    assert f"until hour {plan.jobs[0].switch_to_on_demand_at_hours:.1f}" in " ".join(text.replace("#", "").split())


def test_checkpoints_go_to_the_bucket_as_often_as_the_policy_assumes() -> None:
    """The trainer's file is written for the task that mounts the bucket."""
    plan = solved("spot")
    job = plan.jobs[0]
    found: dict[str, Any] = yaml.safe_load(texts(plan, "skypilot", "trl")["sft.yaml"])
    assert found["output_dir"] == "/checkpoints/spot-heavy" and found["save_total_limit"] == 2
    assert job.spot is not None
    between = found["save_steps"] * job.step_seconds / 3600
    assert between <= job.spot.checkpoint_interval_hours < between + 2 * job.step_seconds / 3600
    assert settings(plan, "trl")["output_dir"] == "out/spot-heavy"


def test_several_machines_meet_at_the_first_one() -> None:
    """`NODE_RANK` and `HEAD_IP` are what SkyPilot calls them."""
    plan = changed(solved("fsdp"), gpus=16, instances=2)
    found = task(plan)
    assert found["num_nodes"] == 2 and found["resources"]["accelerators"] == "H100:8"
    assert 'NODE_RANK="$SKYPILOT_NODE_RANK"' in found["run"]
    assert "--num_processes 16 --num_machines 2" in found["run"]
    assert '--machine_rank "$NODE_RANK" --main_process_ip "$HEAD_IP"' in found["run"]
    (line,) = (line for line in found["run"].splitlines() if line.startswith("HEAD_IP="))
    nodes = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    said = f'{line}; echo "$HEAD_IP"'
    meeting = subprocess.run(["bash", "-c", said], env=nodes, capture_output=True, text=True, check=True)
    assert meeting.stdout == "10.0.0.1\n"


@pytest.mark.parametrize(("changes", "said"), [({"provider": "scaleway"}, "scaleway"), ({"gpu": "RTX3070"}, "RTX3070")])
def test_a_provider_or_gpu_that_skypilot_lacks_is_refused(changes: dict[str, str], said: str) -> None:
    """SkyPilot itself would accept any name and fail on launch."""
    with pytest.raises(InputError, match=re.escape(said)):
        texts(changed(solved("secure"), **changes), "skypilot")


def test_runpods_community_cloud_is_refused() -> None:
    """SkyPilot rents RunPod's secure machines alone, which cost more than the plan says."""
    with pytest.raises(InputError, match="SkyPilot rents nothing from runpod-community"):
        texts(changed(solved("quickstart"), provider="runpod-community"), "skypilot")


def test_every_gpu_of_a_launcher_is_one_of_the_library() -> None:
    """A misspelt name would be refused for ever."""
    known = set(read_library([]).gpus)
    for tool in launch_maps().values():
        assert set(tool.gpus) <= known
        assert all(set(one.gpus) <= known for one in tool.providers.values())
