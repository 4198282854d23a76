"""Exported files read by the tools that they are for; each test runs where its tool is installed (CONTRIBUTING.md).

Checked in November 2026 with trl 1.16.0, transformers 5.23.0, peft 0.21.2, accelerate 1.15.0, skypilot 0.14.1,
dstack 0.22.5 and kubernetes-validate 1.37.0. SkyPilot and dstack accept any name of a GPU, and Accelerate any
precision, so the maps list what is known. Run with `-m ecosystem`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.results.plan import Plan
from tests.helpers.exported_plans import SETTINGS, changed, solved, texts

pytestmark = pytest.mark.ecosystem

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SETTINGS},
    "8-bit weights": ("quickstart", {"weight_bits": 8, "quant": "int8"}),
    "nested quantisation": ("quickstart", {"quant": "nf4_dq"}),
    "8-bit optimizer": ("quickstart", {"optimizer": "adamw_8bit"}),
    "Adafactor": ("quickstart", {"optimizer": "adafactor"}),
    "no flash attention": ("quickstart", {"attention": "mem_efficient"}),
    "adapters on attention": ("quickstart", {"lora_targets": "attention"}),
    "16-bit weights": ("fsdp", {"precision": "bf16"}),
    "weights in host memory": ("fsdp", {"offload": "optimizer_and_weights"}),
    "optimizer in host memory": ("zero2", {"offload": "optimizer"}),
}
"""Plans, and techniques that no shipped scenario chooses."""


@pytest.fixture(params=sorted(VARIANTS))
def plan(request: pytest.FixtureRequest) -> Plan:
    name, techniques = VARIANTS[request.param]
    return changed(solved(name), techniques)


def write(plan: Plan, folder: Path, *targets: str) -> Path:
    """Write the files of a plan and return the first one."""
    files = texts(plan, *targets)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / next(iter(files))


def test_trl_parses_every_field(plan: Plan, tmp_path: Path) -> None:
    """Unknown keys and values are errors of its parser; what it understood is what the plan decided."""
    trl = pytest.importorskip("trl")
    path = write(plan, tmp_path, "trl")
    kinds = (trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig)
    if "deepspeed:" in path.read_text():
        pytest.importorskip("deepspeed")
    parsed = trl.TrlParser(kinds).parse_args_and_config(args=["--config", str(path), "--use_cpu", "true"])
    job, arguments, model = plan.jobs[0], parsed[1], parsed[2]
    used = job.techniques
    assert arguments.per_device_train_batch_size == used.micro_batch
    assert arguments.max_steps == job.steps and arguments.max_length == job.sequence_length
    checkpointed = used.activation_checkpointing != "none"
    inside = bool(arguments.fsdp_config) and arguments.fsdp_config["activation_checkpointing"]
    assert (arguments.activation_checkpointing or inside) == checkpointed
    peft = trl.get_peft_config(model)
    assert (peft is not None) == (used.method == "lora")
    if peft is not None:
        assert peft.r == used.lora_rank


def test_accelerate_loads_the_configuration_and_knows_every_argument(plan: Plan, tmp_path: Path) -> None:
    """Its loader does not check the keys of a section; they are arguments of `accelerate launch`."""
    pytest.importorskip("accelerate")
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    found = load_config_from_file(str(write(plan, tmp_path, "accelerate")))
    known = {action.dest for action in launch_command_parser()._actions}
    for section in ("fsdp_config", "deepspeed_config", "parallelism_config"):
        assert set(getattr(found, section)) <= known, section
    assert found.num_processes == plan.jobs[0].gpus


def test_deepspeed_reads_its_configuration(tmp_path: Path) -> None:
    """`auto` is resolved by the trainer, so the plan without an offloaded optimizer is the one to read."""
    config = pytest.importorskip("deepspeed.runtime.config")
    found = config.DeepSpeedConfig(json.loads(write(solved("zero2"), tmp_path, "deepspeed").read_text()))
    assert found.zero_optimization_stage == 2


@pytest.mark.parametrize("name", ["secure", "fsdp", "spot"])
def test_skypilot_reads_the_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown keys and places are errors of its schema."""
    monkeypatch.setenv("SKYPILOT_DISABLE_USAGE_COLLECTION", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    sky = pytest.importorskip("sky")
    path = write(solved(name), tmp_path, "skypilot", "trl")
    monkeypatch.chdir(tmp_path)
    task = sky.Task.from_yaml(str(path))
    job = solved(name).jobs[0]
    assert task.num_nodes == job.instances
    assert {one.use_spot for one in task.resources} == ({True, False} if job.spot_share else {False})
    assert all(list(one.accelerators.values()) == [job.gpus_per_instance] for one in task.resources)


@pytest.mark.parametrize("name", ["quickstart", "spot"])
def test_dstack_reads_the_task(name: str, tmp_path: Path) -> None:
    """Unknown keys and values are errors of its model, durations of two units too."""
    configurations = pytest.importorskip("dstack._internal.core.models.configurations")
    plan = solved("quickstart") if name == "quickstart" else changed(solved("spot"), provider="aws")
    path = write(plan, tmp_path, "dstack", "trl")
    found = configurations.parse_run_configuration(yaml.safe_load(path.read_text()))
    job = plan.jobs[0]
    assert found.nodes == job.instances and found.max_duration >= 3600 * job.hours.expected
    assert found.resources.gpu.count.min == job.gpus_per_instance


@pytest.mark.parametrize("machines", [{}, {"instances": 2, "gpus_per_instance": 4, "gpus": 8}])
def test_kubernetes_accepts_the_job(plan: Plan, tmp_path: Path, machines: dict[str, int]) -> None:
    """Unknown keys and wrong types are errors of the schema of that version."""
    validate = pytest.importorskip("kubernetes_validate")
    path = write(changed(plan, **machines), tmp_path, "kubernetes", "accelerate")
    for document in yaml.safe_load_all(path.read_text()):
        validate.validate(document, "1.34", strict=True)
