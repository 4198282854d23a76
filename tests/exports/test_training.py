"""An exported TRL configuration trains a tiny random Llama on the CPU, resumes, and `planner track` reads the run.

Needs torch, trl and the planner in one environment; nothing is downloaded (CONTRIBUTING.md, `-m ecosystem`).
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner.analysis.tracking.track import Stated
from planner.cli.plan_file import scenario_of
from planner.exports.export import choose_job, export
from planner.exports.facts import Wishes
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions

pytestmark = pytest.mark.ecosystem
STEPS = 3
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 128,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
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
    packing: packed
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


def make_model(folder: Path) -> None:
    """Save a random Llama with a tokenizer of single characters, and some text."""
    import torch
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder / "model")).save_pretrained(folder / "model")
    words = {"<pad>": 0, "</s>": 1, "<unk>": 2, **{chr(code): code for code in range(32, 127)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", bos_token="</s>"
    )
    fast.save_pretrained(folder / "model")
    rows = [json.dumps({"text": f"sample {number} of the text that is trained on " * 3}) for number in range(200)]
    (folder / "data.jsonl").write_text("\n".join(rows) + "\n")


def train(folder: Path, *options: str) -> str:
    """Run the script behind `trl sft` on the exported file, in one process and without any network."""
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "trl.scripts.sft", "--config", "sft.yaml", "--use_cpu", "true"]
    more = ["--logging_steps", "1", "--report_to", "none", *options]
    done = subprocess.run(
        [*command, *more], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.parametrize("method", ["full", "lora"])
def test_an_exported_configuration_trains_resumes_and_is_tracked(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three steps, then the last one again from the checkpoint before it; every figure of the plan is the run's."""
    pytest.importorskip("trl")
    make_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    scenario = parse_scenario(SCENARIO.replace("METHOD", method), folder=tmp_path)
    plan: Plan = planner.solve(scenario, SolveOptions(as_of=datetime.date(2026, 11, 21)))
    job = plan.jobs[0]
    assert job.steps == STEPS and job.techniques.method == method
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    wishes = Wishes(model_id=str(tmp_path / "model"), dataset=str(tmp_path / "data.jsonl"))
    for name, text in export(given, ["trl"], wishes).items():
        (tmp_path / name).write_text(text)
    started = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    console = train(tmp_path)
    out = tmp_path / "out" / "tiny"
    kept = sorted(path.name for path in out.glob("checkpoint-*"))
    assert kept == ["checkpoint-2", "checkpoint-3"], "as many as the plan keeps"
    train(tmp_path, "--resume_from_checkpoint", str(out / "checkpoint-2"))
    state_file = out / "checkpoint-3" / "trainer_state.json"
    state = json.loads(state_file.read_text())
    assert (state["global_step"], state["max_steps"]) == (STEPS, STEPS)
    assert state["train_batch_size"] == job.techniques.micro_batch
    assert state["num_input_tokens_seen"] == STEPS * job.global_batch * job.sequence_length, "packed rows are full"
    found = planner.track(plan, scenario, [str(state_file)], stated=Stated(started=started))
    assert found.observed.steps == STEPS and found.observed.share_done == 1.0
    assert found.observed.restarts == 1, "the time since the start of the process went back"
    assert not any("is it this job?" in note for note in found.notes)
    assert 0 < found.observed.elapsed_hours < 0.5
    (tmp_path / "console.log").write_text(console)
    read = planner.track(plan, scenario, [str(tmp_path / "console.log")], stated=Stated(started=started))
    assert read.observed.steps == STEPS and read.observed.last_loss is not None
