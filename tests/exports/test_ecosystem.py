"""Exported files read by the tools that they are for; each test runs where its tool is installed (tests/README.md).

Checked in November 2026 with trl 1.16.0, transformers 5.23.0, peft 0.21.2, accelerate 1.15.0, skypilot 0.14.1,
dstack 0.22.5, kubernetes-validate 1.37.0, deepspeed 0.19.8, axolotl 0.19.0, llamafactory 0.9.5 and huggingface_hub
2.4.0. SkyPilot and dstack accept any name of a GPU, and Accelerate any
precision, so the maps list what is known. Run with `-m ecosystem`.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import InputError
from planner.results.plan import Plan
from tests.helpers import tool_checks
from tests.helpers.exported_plans import SETTINGS, changed, on_hugging_face, solved, texts, unsloth_plan

pytestmark = pytest.mark.ecosystem

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SETTINGS},
    "8-bit weights": ("quickstart", {"weight_bits": 8, "quant": "int8"}),
    "nested quantisation": ("quickstart", {"quant": "nf4_dq"}),
    "8-bit optimizer": ("quickstart", {"optimizer": "adamw_8bit"}),
    "4-bit optimizer": ("quickstart", {"optimizer": "adamw_4bit"}),
    "Adafactor": ("quickstart", {"optimizer": "adafactor"}),
    "paged AdamW": ("quickstart", {"optimizer": "adamw_paged"}),
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
    """The batch is the product of micro-batch, accumulation and processes, which it counts."""
    pytest.importorskip("deepspeed")
    tool_checks.deepspeed(write(solved("zero2"), tmp_path, "deepspeed"))


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


def able(plan: Plan, target: str) -> Plan:
    """Return a plan that the target can express: the two that lack selective checkpointing get the full one."""
    if plan.jobs[0].techniques.activation_checkpointing == "selective":
        plan = changed(plan, {"activation_checkpointing": "full"})
    try:
        texts(plan, target)
    except InputError as error:
        pytest.skip(f"refused: {error.faults[0].what}")
    return plan


def test_axolotl_validates_every_field(plan: Plan, tmp_path: Path) -> None:
    """It accepts unknown keys, so that the keys are compared with those of its schema; values come back as written."""
    pytest.importorskip("axolotl")
    from axolotl.cli.config import prepare_plugins
    from axolotl.utils.config import merge_input_args, validate_config
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.schemas.config import AxolotlInputConfig

    path = write(able(plan, "axolotl"), tmp_path, "axolotl")
    written = yaml.safe_load(path.read_text()) | {"learning_rate": 1e-4}
    asked = DictDefault(written)
    prepare_plugins(asked)
    schema = merge_input_args()[1] if written.get("plugins") else AxolotlInputConfig
    assert set(written) <= set(schema.model_fields)
    found = validate_config(asked)
    for key in set(written) - {"datasets", "deepspeed", "gradient_checkpointing_kwargs", "plugins"}:
        said = found[key].to_dict() if isinstance(found[key], DictDefault) else found[key]
        if isinstance(written[key], dict):
            assert written[key].items() <= said.items(), key
        else:
            assert str(said).lower() == str(written[key]).lower(), key


def test_llamafactory_parses_every_field(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown keys are errors of its parser; without a GPU it refuses 16-bit weights, whatever the file says."""
    pytest.importorskip("llamafactory")
    from llamafactory.hparams import get_train_args

    plan = able(plan, "llamafactory")
    job, used = plan.jobs[0], plan.jobs[0].techniques
    if used.precision == "bf16":
        pytest.skip("pure_bf16 asks for a GPU")
    path = write(plan, tmp_path, "llamafactory")
    monkeypatch.chdir(tmp_path)
    written = yaml.safe_load(path.read_text()) | {"template": "default", "use_cpu": True}
    if "deepspeed" in written:
        pytest.importorskip("deepspeed")
    model, data, arguments, finetuning, _ = get_train_args(written)
    assert arguments.max_steps == job.steps
    assert data.cutoff_len + int(data.packing) == job.sequence_length, "packed samples are cut one shorter and padded"
    assert arguments.per_device_train_batch_size == used.micro_batch
    assert finetuning.finetuning_type == used.method
    assert model.disable_gradient_checkpointing == (used.activation_checkpointing == "none")
    assert (model.quantization_bit or 16) == {"none": 16, "int8": 8}.get(str(used.quant), 4)


def test_a_job_of_hugging_face_is_read_by_its_own_program(tmp_path: Path) -> None:
    """`hf jobs run --dry-run` checks options and flavor, and submits nothing."""
    if importlib.metadata.version("huggingface_hub") < "2.4":
        pytest.skip("needs --dry-run")
    plan = on_hugging_face(solved("quickstart"), "A100-80GB", 4)
    path = write(plan, tmp_path, "huggingface", "trl")
    script = path.read_text().replace("hf jobs run", f"{Path(sys.executable).parent}/hf jobs run --dry-run")
    path.write_text(script)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BUCKET": "me/checkpoints", "HF_TOKEN": "hf_none"}
    done = subprocess.run(
        ["bash", str(path)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    said = {line[0]: line[1] for line in lines if len(line) > 1}
    assert said["flavor"] == "a100x4" and said["timeout"] == "36h"
    assert "me/checkpoints:/checkpoints" in done.stdout


def test_the_arguments_of_the_unsloth_script_are_those_of_the_package(tmp_path: Path) -> None:
    """Read in its sources, because it cannot be imported without a GPU."""
    package = importlib.util.find_spec("unsloth")
    if package is None or package.origin is None:
        pytest.skip("needs unsloth (pip install --no-deps unsloth==2026.10.9)")
    known: dict[str, set[str]] = {}
    for module in ("loader", "llama"):
        tree = ast.parse((Path(package.origin).parent / "models" / f"{module}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                known.setdefault(node.name, set()).update(one.arg for one in node.args.args)
    text = write(unsloth_plan(), tmp_path, "unsloth").read_text()
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert constants["LOAD"].keys() <= known["from_pretrained"]
    assert constants["ADAPTERS"].keys() <= known["get_peft_model"]
