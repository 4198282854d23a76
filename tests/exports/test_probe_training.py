"""The files of a probe train a tiny random network on the CPU: run with `-m ecosystem`, and TRL (tests/README.md).

Nothing is downloaded. There is no GPU, so the bytes of one are put in before the result is judged.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import planner
from benchmarks.loop.tiny_model import CONFIG
from planner.cli.plan_commands import write_probe
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from tests.helpers.probes import write_probe_file

pytestmark = pytest.mark.ecosystem
SCENARIO = """
schema: 2
name: tiny
offers: [{provider: b, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1}]
jobs:
  - name: tiny
    architecture: config.json
    work: {steps: 300, tokens_per_sample: 40}
    sequence_length: 64
    global_batch: 4
    packing: PACKING
    deadline: 2h
    framework: hf
    techniques:
      method: [METHOD]
      weight_bits: [16]
      precision: [fp32]
      attention: [mem_efficient]
      activation_checkpointing: [full]
      optimizer: [adamw]
"""
STEPS = 6


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if importlib.util.find_spec("trl") is None or importlib.util.find_spec("axolotl") is not None:
        pytest.skip("this environment was not made for TRL")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def plan_of(folder: Path, method: str, packing: str) -> Plan:
    text = SCENARIO.replace("METHOD", method).replace("PACKING", packing)
    plan: Plan = planner.solve(parse_scenario(text, folder=folder), SolveOptions(as_of=datetime.date(2026, 11, 21)))
    write_probe(plan, "plan.json", None, folder / "probe", STEPS)
    return plan


def run(folder: Path, part: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a part of the program in one process, without any network or GPU."""
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "CUDA_VISIBLE_DEVICES": "",
        "ACCELERATE_USE_CPU": "true",
    }  # fmt: skip
    command = [sys.executable, str(folder / "probe" / "probe.py"), part, *more]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("method", "packing"), [("full", "fixed"), ("lora", "packed"), ("lora", "padded")])
def test_a_probe_runs_the_planned_step_and_is_kept_where_it_measures_what_was_planned(
    method: str, packing: str, tiny: Path
) -> None:
    plan = plan_of(tiny, method, packing)
    for part, more in (("make", ()), ("train", ("--use_cpu", "true")), ("sum", ())):
        done = run(tiny, part, *more)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads((tiny / "probe" / "probe.json").read_text())
    job = plan.jobs[0]
    assert found["status"] == "ok" and len(found["steps"]) == STEPS
    assert found["step_seconds"] > 0 and found["gpu_name"] == "CPU"
    assert found["host_gib"] > 0 and found["allocated_gib"] is None
    assert {"torch", "trl", "transformers", "python"} <= found["versions"].keys()
    if packing != "padded":
        assert found["tokens_per_step"] == pytest.approx(job.global_batch * job.sequence_length, rel=0.1)
    assert not (tiny / "probe" / "out").exists() or not list((tiny / "probe" / "out").rglob("*.safetensors"))
    assert os.uname().nodename not in json.dumps(found) and str(tiny) not in json.dumps(found)
    scenario = planner.plan_scenario(plan)
    with pytest.raises(planner.InputError, match="was measured without a GPU"):
        planner.judge_probe(plan, scenario, str(tiny / "probe" / "probe.json"))
    peak = job.vram_gib.allocated
    found |= {"gpu_name": "NVIDIA GeForce RTX 3060", "gpu_gib": 11.8, "allocated_gib": peak, "driver_gib": peak + 0.5}
    as_planned = write_probe_file(tiny, found | {"step_seconds": job.step_seconds})
    assert planner.judge_probe(plan, scenario, as_planned).verdict == "keep"
    slow = planner.judge_probe(plan, scenario, write_probe_file(tiny, found | {"step_seconds": 99 * job.step_seconds}))
    assert slow.choices[0].cost_usd > plan.jobs[0].cost_usd


DECODER = {name: value for name, value in CONFIG.items() if name != "architectures"}
OF_IMAGES = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {}}


@pytest.mark.parametrize(
    "config",
    [DECODER, OF_IMAGES | {"tie_word_embeddings": True, "text_config": DECODER | {"model_type": "qwen2_5_vl_text"}}],
    ids=["no class", "multimodal"],
)
def test_files_that_do_not_name_the_class_of_a_decoder_are_run(config: dict[str, Any], tiny: Path) -> None:
    """What is made of a card has no class, and that of a multimodal file is of the whole model."""
    (tiny / "config.json").write_text(json.dumps(config))
    plan = plan_of(tiny, "lora", "fixed")
    for part, more in (("make", ()), ("train", ("--use_cpu", "true")), ("sum", ("0",))):
        done = run(tiny, part, *more)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    weights = json.loads((tiny / "probe" / "model" / "model.safetensors.index.json").read_text())["weight_map"]
    assert sum("self_attn.q_proj.weight" in name for name in weights) == CONFIG["num_hidden_layers"]
    assert not any("visual" in name for name in weights) and plan.jobs[0].step_seconds > 0


def test_to_run_out_of_memory_is_a_result(tiny: Path) -> None:
    """The trainer is replaced by a program that asks torch for more than any machine has."""
    plan_of(tiny, "lora", "fixed")
    (tiny / "probe" / "greedy.py").write_text("import torch\ntorch.empty(1 << 60)\n")
    planned = tiny / "probe" / "planned.json"
    planned.write_text(json.dumps({**json.loads(planned.read_text()), "entry": "greedy"}))
    assert run(tiny, "train").returncode == 1
    assert run(tiny, "sum").returncode == 0
    found = json.loads((tiny / "probe" / "probe.json").read_text())
    assert (found["status"], found["reached"], found["step_seconds"]) == ("oom", "loading", None)
