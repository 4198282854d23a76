"""An exported configuration trains a tiny random Llama on the CPU, resumes, and `planner track` reads the run.

For TRL, Axolotl and LLaMA-Factory; each needs torch and the planner in its environment, and nothing is downloaded
(tests/README.md, `-m ecosystem`).
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import planner
from benchmarks.loop.tiny_model import make_model
from planner.analysis.track_question import Stated
from planner.cli.options import scenario_of
from planner.exports.export import choose_job, export
from planner.exports.facts import Wishes
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions

pytestmark = pytest.mark.ecosystem
STEPS = 3
SCENARIO = f"""
schema: 2
name: tiny
offers: [{{provider: b, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1}}]
jobs:
  - name: tiny
    architecture: model/config.json
    work: {{steps: {STEPS}}}
    sequence_length: 64
    global_batch: 4
    packing: PACKING
    deadline: 2h
    framework: hf
    stages: {{checkpoints: {{count: {STEPS}, keep: 2}}}}
    techniques:
      method: [METHOD]
      weight_bits: [16]
      precision: [fp32]
      attention: [mem_efficient]
      activation_checkpointing: [none]
      optimizer: [adamw]
"""


@dataclass(frozen=True)
class Tool:
    """How a tool is started in one process on the CPU, and on what data."""

    package: str
    file: str
    command: tuple[str, ...]
    more: tuple[str, ...]
    data: str
    resume: str
    packing: str = "fixed"


TOOLS = {
    "trl": Tool(
        "trl",
        "sft.yaml",
        ("-m", "trl.scripts.sft", "--config", "sft.yaml", "--use_cpu", "true"),
        ("--logging_steps", "1", "--report_to", "none"),
        "data.jsonl",
        "--resume_from_checkpoint {}",
        "packed",
    ),
    "axolotl": Tool(
        "axolotl",
        "axolotl.yml",
        ("-m", "axolotl.cli.train", "axolotl.yml"),
        ("--learning_rate", "0.0001", "--logging_steps", "1"),
        "chats.jsonl",
        "--resume_from_checkpoint {}",
    ),
    "llamafactory": Tool(
        "llamafactory",
        "llamafactory.yaml",
        ("-c", "from llamafactory.train.tuner import run_exp; run_exp()", "llamafactory.yaml"),
        ("use_cpu=true", "logging_steps=1", "report_to=none", "template=empty", "overwrite_output_dir=true"),
        "pairs",
        "resume_from_checkpoint={}",
    ),
}


def train(folder: Path, tool: Tool, *options: str) -> str:
    """Run a tool on the exported file, in one process and without any network."""
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1", "ACCELERATE_USE_CPU": "true", "AXOLOTL_DO_NOT_TRACK": "1", "WANDB_MODE": "disabled",
    }  # fmt: skip
    command = [sys.executable, *tool.command, *tool.more, *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def _is_own(tool: Tool) -> bool:
    """Return whether TRL is there for its own sake: Axolotl and LLaMA-Factory bring an older release of it."""
    others = (importlib.util.find_spec(one.package) for one in TOOLS.values() if one.package != "trl")
    return tool.package != "trl" or not any(others)


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("target", sorted(TOOLS))
def test_an_exported_configuration_trains_resumes_and_is_tracked(
    method: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three steps, then the last one again from the checkpoint before it; every figure of the plan is the run's."""
    tool = TOOLS[target]
    if importlib.util.find_spec(tool.package) is None or not _is_own(tool):
        pytest.skip(f"{tool.package} is not what this environment was made for")
    make_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    scenario = parse_scenario(SCENARIO.replace("METHOD", method).replace("PACKING", tool.packing), folder=tmp_path)
    plan: Plan = planner.solve(scenario, SolveOptions(as_of=datetime.date(2026, 11, 21)))
    job = plan.jobs[0]
    assert job.steps == STEPS and job.techniques.method == method
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    wishes = Wishes(
        model_id=str(tmp_path / "model"),
        dataset=str(tmp_path / tool.data) if tool.data.endswith("jsonl") else tool.data,
    )
    for name, text in export(given, [target], wishes).items():
        (tmp_path / name).write_text(text)
    started = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    console = train(tmp_path, tool)
    out = tmp_path / "out" / "tiny"
    kept = sorted(path.name for path in out.glob("checkpoint-*"))
    assert kept == ["checkpoint-2", "checkpoint-3"], "as many as the plan keeps"
    train(tmp_path, tool, *tool.resume.format(out / "checkpoint-2").split(" "))
    state_file = out / "checkpoint-3" / "trainer_state.json"
    state = json.loads(state_file.read_text())
    assert (state["global_step"], state["max_steps"]) == (STEPS, STEPS)
    assert state["train_batch_size"] == job.techniques.micro_batch
    if tool.packing == "packed":
        assert state["num_input_tokens_seen"] == STEPS * job.global_batch * job.sequence_length, "packed rows are full"
    found = planner.track(plan, scenario, [str(state_file)], stated=Stated(started=started))
    assert found.observed.steps == STEPS and found.observed.share_done == 1.0
    assert found.observed.restarts == 1, "the time since the start of the process went back"
    assert not any("is it this job?" in note for note in found.notes)
    assert 0 < found.observed.elapsed_hours < 0.5
    (tmp_path / "console.log").write_text(console)
    read = planner.track(plan, scenario, [str(tmp_path / "console.log")], stated=Stated(started=started))
    assert read.observed.steps == STEPS and read.observed.last_loss is not None
