"""LitGPT: what its configuration says, what LitGPT does by itself, what it cannot do; `-m ecosystem` trains too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import choose_job, default_trainer, export_all
from planner.exports.facts import Wishes
from tests.helpers import tool_checks
from tests.helpers.exported_plans import changed, settings, solved, texts

if TYPE_CHECKING:
    from planner.results.plan import Plan

ONE = {"framework": "litgpt", "gpus": 1, "gpus_per_instance": 1, "instances": 1}
TECHNIQUES = {"framework": "litgpt", "quant": "none", "weight_bits": 16, "activation_checkpointing": "none"}
SHARDED = {"activation_checkpointing": "full", "sharding": "zero3"}
FILE = Wishes(dataset="chats.jsonl")


def litgpt_plan(techniques: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """Return the quickstart as LitGPT would run it: one GPU, a base in 16 bit, every activation kept."""
    plan = changed(solved("quickstart"), {**TECHNIQUES, "sharding": "none", **(techniques or {})}, **{**ONE, **changes})
    job = plan.jobs[0]
    samples = job.techniques.micro_batch * job.techniques.accumulation_steps * job.gpus
    return changed(plan, global_batch=samples)


@pytest.mark.slow
def test_the_configuration_says_every_decision() -> None:
    """The base and its adapters are in bf16; steps end the run, and validation is as good as off."""
    plan = litgpt_plan()
    job = plan.jobs[0]
    assert settings_of(plan) == {
        "checkpoint_dir": "mistralai/Mistral-7B-v0.1",
        "out_dir": "out/quickstart",
        "devices": 1,
        "num_nodes": 1,
        "train": {
            "global_batch_size": job.techniques.micro_batch * job.techniques.accumulation_steps,
            "micro_batch_size": job.techniques.micro_batch,
            "max_steps": job.steps,
            "max_seq_length": 2048,
            "epochs": 1000000,
            "save_interval": job.steps // 3,
        },
        "eval": {
            "interval": 1000000000,
            "max_iters": 1,
            "max_new_tokens": 1,
            "initial_validation": False,
            "final_validation": False,
        },
        "logger_name": "csv",
        "lora_r": 16,
        "lora_alpha": 32,
        "precision": "bf16-true",
        "optimizer": "torch.optim.AdamW",
        "lora_query": True,
        "lora_key": True,
        "lora_value": True,
        "lora_projection": True,
        "lora_mlp": True,
        "lora_head": False,
        "data": {
            "class_path": "litgpt_packed.PackedJSON",
            "init_args": {"json_path": "chats.jsonl", "val_split_fraction": 0.01},
        },
    }


def settings_of(plan: Plan, wishes: Wishes = FILE) -> dict[str, Any]:
    """Return the content of the configuration, which a module may accompany."""
    found: dict[str, Any] = yaml.safe_load(texts(plan, "litgpt", wishes=wishes)["litgpt.yaml"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quant", "written"), [("nf4", "bnb.nf4"), ("nf4_dq", "bnb.nf4-dq"), ("int8", "bnb.int8-training")]
)
def test_a_quantised_base_is_that_of_bitsandbytes(quant: str, written: str) -> None:
    """Its optimizer is the paged one, which a note says."""
    plan = litgpt_plan({"quant": quant, "weight_bits": 8 if quant == "int8" else 4})
    found = settings_of(plan)
    assert (found["quantize"], found["precision"]) == (written, "bf16-true")
    assert "paged AdamW" in texts(plan, "litgpt")["litgpt.yaml"]


@pytest.mark.slow
def test_packing_is_a_module_of_its_own_and_padding_is_what_litgpt_does() -> None:
    """Data of the Hub are files that the user writes; without data the file says what is missing."""
    assert set(texts(litgpt_plan(), "litgpt")) == {"litgpt.yaml", "litgpt_packed.py"}
    for packing in ("padded", "fixed"):
        plan = litgpt_plan(packing=packing)
        assert set(texts(plan, "litgpt")) == {"litgpt.yaml"}
        assert settings(plan, "litgpt")["data"] == {
            "class_path": "litgpt.data.JSON",
            "init_args": {"json_path": "data"},
        }
    assert "# data:  # required: --dataset" in texts(litgpt_plan(), "litgpt", wishes=Wishes())["litgpt.yaml"]


@pytest.mark.slow
def test_full_training_goes_on_from_its_checkpoint_and_adapters_cannot() -> None:
    """Weights under autocast are in fp32, as the plan counts them."""
    full = litgpt_plan({"method": "full", "lora_rank": None, "lora_targets": None}, spot_share=0.5)
    found = settings_of(full)
    assert found["precision"] == "bf16-mixed" and "resume" not in found and "lora_r" not in found
    assert "litgpt finetune_full --config litgpt.yaml" in texts(full, "litgpt")["litgpt.yaml"]
    given = choose_job(full, scenario_of(full, "plan.json"), "plan.json", None)
    script = export_all(given, FILE)[0]["run.sh"]
    assert "'step-*' lit_model.pth" in script and '${LATEST:+--resume "$LATEST/lit_model.pth"}' in script
    with pytest.raises(InputError, match=r"when a spot machine is lost; plan with --set limits\.spot=false"):
        texts(litgpt_plan(spot_share=0.5), "litgpt")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "on"),
    [(("q", "v"), {"query", "value"}), (("o", "gate", "up", "down"), {"projection", "mlp"}), (("k",), {"key"})],
)
def test_adapters_are_switched_on_by_matrix(targets: tuple[str, ...], on: set[str]) -> None:
    """The MLP is one switch."""
    found = settings_of(litgpt_plan({"lora_targets": targets}))
    names = ("query", "key", "value", "projection", "mlp", "head")
    assert {name for name in names if found[f"lora_{name}"]} == on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("techniques", "changes", "said"),
    [
        ({"activation_checkpointing": "full"}, {}, "on one GPU it checkpoints no activations; plan with"),
        ({"sharding": "zero3"}, {"gpus": 4, "gpus_per_instance": 4}, "on several GPUs it checkpoints every block"),
        ({"quant": "nf4", **SHARDED}, {"gpus": 4, "gpus_per_instance": 4}, "a quantised base on one GPU alone"),
        ({"activation_checkpointing": "selective"}, {}, "has no activation_checkpointing selective; axolotl, trl can"),
        ({"sharding": "ddp"}, {}, "has no sharding ddp; "),
        ({"attention": "eager"}, {}, "has no attention eager; "),
        ({"quant": "int8", "optimizer": "adamw_8bit"}, {}, "takes the paged AdamW"),
        ({"precision": "fp16_mixed"}, {}, "keeps the base in fp32"),
        ({"lora_targets": ("q", "up")}, {}, "on all of its matrices or on none"),
        ({}, {"unit": "images"}, "trains language models only"),
    ],
)
def test_what_litgpt_cannot_do_is_refused(techniques: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    """Each would start with another memory or speed than the plan's, or fail."""
    with pytest.raises(InputError, match=said):
        texts(litgpt_plan(techniques, **changes), "litgpt")


@pytest.mark.slow
def test_tables_of_data_and_other_frameworks_are_refused() -> None:
    """Both say what would be right."""
    with pytest.raises(InputError, match=r"\.json or \.jsonl files"):
        texts(litgpt_plan(), "litgpt", wishes=Wishes(dataset="chats.parquet"))
    with pytest.raises(InputError, match="TRL does not run litgpt; litgpt can"):
        texts(litgpt_plan(), "trl")
    with pytest.raises(InputError, match="LitGPT does not run hf-fused; axolotl, llamafactory, trl can"):
        texts(solved("quickstart"), "litgpt")


@pytest.mark.slow
def test_a_folder_has_the_module_and_a_script_that_downloads_for_litgpt() -> None:
    """LitGPT stores weights in a form of its own."""
    plan = litgpt_plan()
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    assert default_trainer(given, "plan.json") == "litgpt"
    found, _ = export_all(given, Wishes(dataset="my/data"))
    assert {"litgpt.yaml", "litgpt_packed.py", "run.sh"} <= set(found)
    assert "litgpt download mistralai/Mistral-7B-v0.1\nhf download --repo-type dataset my/data\n" in found["run.sh"]
    assert "PYTHONPATH=. litgpt finetune_lora --config litgpt.yaml" in found["run.sh"]
    assert "litgpt[extra]==0.5.13" in found["requirements.txt"]


@pytest.mark.slow
def test_several_machines_start_it_with_torchrun() -> None:
    """Every machine runs as many processes as it has GPUs."""
    plan = litgpt_plan(SHARDED, gpus=8, gpus_per_instance=4, instances=2)
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    assert settings_of(plan)["devices"] == 4 and settings_of(plan)["num_nodes"] == 2
    assert "torchrun --nnodes 2 --nproc-per-node 4" in export_all(given, FILE)[0]["run.sh"]


def written(plan: Plan, folder: Path, wishes: Wishes = FILE) -> Path:
    """Write the files of a plan; return the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts(plan, "litgpt", wishes=wishes).items():
        (folder / name).write_text(text)
    return folder / "litgpt.yaml"


ABLE = {
    "lora": ({}, {}),
    "int8": ({"quant": "int8", "weight_bits": 8}, {}),
    "full": ({"method": "full", "lora_rank": None, "lora_targets": None}, {}),
    "padded": ({"optimizer": "adamw_8bit"}, {"packing": "padded"}),
    "two machines": (SHARDED, {"gpus": 8, "gpus_per_instance": 4, "instances": 2}),
}


@pytest.mark.ecosystem
@pytest.mark.parametrize("name", ABLE)
def test_the_command_line_of_litgpt_reads_the_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and types by its own parser; a key and a value that it does not have are errors."""
    pytest.importorskip("litgpt.finetune.lora")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    techniques, changes = ABLE[name]
    path = written(litgpt_plan(techniques, **changes), tmp_path / "it", Wishes(dataset="my/data"))
    tool_checks.litgpt(path)
    text = path.read_text()
    for wrong in (text + "\nno_such_field: 1\n", text.replace("num_nodes: ", "num_nodes: many")):
        path.write_text(wrong)
        with pytest.raises(SystemExit):
            tool_checks.litgpt(path)


LORA = ("lora_rank", "lora_targets")
TINY = {"steps": 3, "steps_before": 0, "sequence_length": 64, "global_batch": 4, "spot_share": 0}


def make_model(folder: Path) -> None:
    """Save a random Llama in the form of LitGPT, a tokenizer of single characters, and some pairs to learn."""
    import torch
    from litgpt.config import Config
    from litgpt.model import GPT
    from litgpt.utils import save_config
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    model = folder / "model"
    model.mkdir(parents=True)
    config = Config(
        name="tiny", block_size=256, n_layer=2, n_head=4, n_embd=64, n_query_groups=2, vocab_size=128,
        padded_vocab_size=128, intermediate_size=128, mlp_class_name="LLaMAMLP", norm_class_name="RMSNorm",
        bias=False, rotary_percentage=1.0, parallel_residual=False,
    )  # fmt: skip
    torch.manual_seed(0)
    save_config(config, model)
    torch.save(GPT(config).state_dict(), model / "lit_model.pth")
    words = {"<pad>": 0, "</s>": 1, "<unk>": 2, **{chr(code): code for code in range(32, 127)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.save(str(model / "tokenizer.json"))
    (model / "tokenizer_config.json").write_text(
        json.dumps(dict.fromkeys(("bos_token", "eos_token"), "</s>") | {"tokenizer_class": "Tiny"})
    )
    pairs = [{"instruction": "say", "output": f"sample {number} of the text"} for number in range(200)]
    (folder / "chats.jsonl").write_text("\n".join(map(json.dumps, pairs)) + "\n")


@pytest.mark.ecosystem
@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("packing", ["packed", "padded"])
def test_an_exported_configuration_trains_as_many_steps_as_the_plan(method: str, packing: str, tmp_path: Path) -> None:
    """Three steps of full rows on the CPU; full training goes on from a checkpoint."""
    pytest.importorskip("litgpt.finetune.lora")
    make_model(tmp_path)
    adapters = {"lora_rank": 4, "lora_targets": ("q", "v")} if method == "lora" else dict.fromkeys(LORA)
    techniques = {"method": method, "micro_batch": 2, "accumulation_steps": 2, **adapters}
    plan = changed(litgpt_plan(techniques, packing=packing), **TINY)
    written(plan, tmp_path, Wishes(model_id=str(tmp_path / "model"), dataset=str(tmp_path / "chats.jsonl")))
    console = train(tmp_path, method)
    rows = (tmp_path / "out" / "quickstart" / "logs" / "csv" / "version_0" / "metrics.csv").read_text().splitlines()
    column = rows[0].split(",").index("tokens")
    tokens = int(float(rows[-1].split(",")[column]))
    assert "iter 6 step 3 " in console and "iter 7 " not in console, "two rows in each of two parts of a step"
    assert tokens == 3 * 4 * 64 if packing == "packed" else tokens < 3 * 4 * 64 + 1
    assert (tmp_path / "out" / "quickstart" / "final" / "lit_model.pth").exists()
    if method == "full":
        assert "Resuming training from out/quickstart/step-00000" in train(tmp_path, method)


def train(folder: Path, method: str) -> str:
    """Run LitGPT on the exported file as its command does, without a GPU or a network."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": "."}
    done = subprocess.run(
        [sys.executable, "-m", "litgpt", f"finetune_{method}", "--config", "litgpt.yaml"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout
