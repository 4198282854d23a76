"""`planner solve --from FILE`: configurations of training tools, read by the maps that write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.errors import InputError
from planner.exports.read_configs import ToolFile, describe, read_tool_file
from tests.helpers.exported_plans import changed, solved, texts

AXOLOTL = """
base_model: meta-llama/Llama-3.1-8B
adapter: qlora
load_in_4bit: true
lora_r: 32
lora_target_linear: true
lora_dropout: 0.05
sequence_len: 4096
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 3
optimizer: adamw_bnb_8bit
learning_rate: 2e-4
bf16: auto
gradient_checkpointing: true
flash_attention: true
evals_per_epoch: 4
neat: 3
"""
LLAMAFACTORY = """
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: lora
lora_rank: 8
lora_target: q_proj,v_proj
deepspeed: ds.json
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
"""
ZERO2 = {
    "train_batch_size": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "overlap_comm": False, "reduce_bucket_size": 5e8},
}


def read(folder: Path, name: str, text: str) -> ToolFile:
    (folder / name).write_text(text)
    return read_tool_file(folder / name)


def held(found: ToolFile) -> dict[str, object]:
    return {".".join(map(str, place)): one.value for place, one in found.held.items()}


def faults(folder: Path, name: str, text: str) -> list[str]:
    with pytest.raises(InputError) as error:
        read(folder, name, text)
    return [str(one).removeprefix(f"{folder}/") for one in error.value.faults]


def test_an_axolotl_file_holds_what_a_plan_decides(tmp_path: Path) -> None:
    """Nested quantisation is the default of its loader; 2 x 4 sequences are a step of one GPU."""
    assert held(read(tmp_path, "axolotl.yml", AXOLOTL)) == {
        "architecture": "meta-llama/Llama-3.1-8B",
        "sequence_length": 4096,
        "lora.rank": 32,
        "lora.targets": "all-linear",
        "work.epochs": 3,
        "techniques.method": ["lora"],
        "techniques.weight_bits": [4],
        "techniques.quant": ["nf4_dq"],
        "techniques.precision": ["bf16_mixed"],
        "techniques.activation_checkpointing": ["full"],
        "techniques.attention": ["flash"],
        "techniques.optimizer": ["adamw_8bit"],
        "packing": "packed",
        "global_batch": 8,
    }


def test_what_is_not_modelled_is_said_in_words_and_what_has_no_effect_apart(tmp_path: Path) -> None:
    """No field of the file is dropped in silence."""
    found = read(tmp_path, "axolotl.yml", AXOLOTL.replace("adamw_bnb_8bit", "lion_8bit"))
    assert found.without_effect == ["learning_rate", "lora_dropout"]
    assert found.unmodelled["evals_per_epoch 4"] == "evaluation is stages.evaluation in a scenario"
    assert "no field of the map" in found.unmodelled["neat 3"]
    assert "chosen from adamw, adamw_8bit, " in found.unmodelled["optimizer lion_8bit"]
    assert ("techniques", "optimizer") not in found.held
    said = "\n".join(describe(found))
    for field in ("lion_8bit", "evals_per_epoch", "neat", "learning_rate", "global_batch 8 (micro_batch_size)"):
        assert field in said


def test_a_file_that_names_the_one_of_deepspeed_holds_both(tmp_path: Path) -> None:
    """The path starts at the folder of the file; `auto` says nothing; LoRA without bits is on 16-bit weights."""
    (tmp_path / "ds.json").write_text(json.dumps(ZERO2))
    found = held(read(tmp_path, "llamafactory.yaml", LLAMAFACTORY))
    assert found["techniques.sharding"] == ["zero2"] and found["techniques.offload"] == ["none"]
    assert found["lora.targets"] == ["q_proj", "v_proj"] and found["techniques.weight_bits"] == [16]
    assert found["techniques.activation_checkpointing"] == ["full"], "its default"
    inline = LLAMAFACTORY.replace("ds.json", json.dumps(ZERO2))
    assert held(read(tmp_path, "inline.yaml", inline)) == found


def test_the_batch_of_deepspeed_over_all_gpus_goes_before_that_of_one_gpu(tmp_path: Path) -> None:
    """An exported file with such a block is read as the batch of its plan, not as that of one of its GPUs."""
    found = read(tmp_path, "llamafactory.yaml", LLAMAFACTORY.replace("ds.json", '{"train_batch_size": 64}'))
    assert held(found)["global_batch"] == 64
    assert not any("those of one GPU" in why for why in found.unmodelled.values())


def test_a_deepspeed_file_alone_holds_its_stage_and_batch(tmp_path: Path) -> None:
    """Stage 3 is that of DeepSpeed, whose masters differ from those of FSDP."""
    zero3 = {"train_batch_size": 32, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    assert held(read(tmp_path, "ds.json", json.dumps(zero3))) == {
        "global_batch": 32,
        "framework": "deepspeed",
        "techniques.sharding": ["zero3"],
        "techniques.offload": ["optimizer"],
    }


@pytest.mark.parametrize("name", [pytest.param("quickstart", marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", ["trl", "axolotl", "llamafactory"])
@pytest.mark.parametrize(
    "techniques",
    [
        {},
        {"quant": "nf4_dq"},
        {"weight_bits": 8, "quant": "int8"},
        {"optimizer": "adamw_8bit"},
        {"optimizer": "adafactor"},
        {"activation_checkpointing": "none"},
        {"lora_targets": ("q", "v")},
        {"method": "full", "quant": "none", "precision": "bf16", "lora_rank": None, "lora_targets": None},
        {"precision": "fp16_mixed"},
    ],
    ids=str,
)
def test_an_exported_file_is_read_as_the_plan_that_wrote_it(
    name: str, target: str, techniques: dict[str, object], tmp_path: Path
) -> None:
    """Every decision that both directions of the map know comes back."""
    plan = changed(solved(name), {"activation_checkpointing": "full", **techniques})
    job, (file, text) = plan.jobs[0], next(iter(texts(plan, target).items()))
    found = held(read(tmp_path, file, text))
    used = job.techniques
    assert found["work.steps"] == job.steps and found["sequence_length"] == job.sequence_length
    assert found["global_batch"] == (used.micro_batch or 0) * (used.accumulation_steps or 0)
    for technique in ("method", "precision", "activation_checkpointing", "attention", "optimizer"):
        assert getattr(used, technique) in found[f"techniques.{technique}"], technique  # type: ignore[operator]
    assert found["framework"] == "hf-fused" and found["packing"] == "packed"
    if used.method == "lora":
        assert found["lora.rank"] == used.lora_rank
        assert found["techniques.weight_bits"] == [{"nf4": 4, "nf4_dq": 4, "int8": 8}[str(used.quant)]]
    else:
        assert not {"lora.rank", "techniques.weight_bits", "techniques.quant"} & found.keys()


def test_every_fault_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    """Counts that are none, and a file that is not there."""
    text = (
        "base_model: a/b\nadapter: lora\nmicro_batch_size: many\ngradient_accumulation_steps: 0\nlora_r: 1.5\n"
        "num_epochs: -1\nsequence_len: true\ndeepspeed: missing.json\n"
    )
    assert [one.partition("; ")[0] for one in faults(tmp_path, "a.yml", text)] == [
        "a.yml:3: micro_batch_size: 'many' is not a whole number",
        "a.yml:4: gradient_accumulation_steps: 0 is not positive",
        "a.yml:5: lora_r: 1.5 is not a whole number",
        "a.yml:6: num_epochs: -1 is not a number of epochs",
        "a.yml:7: sequence_len: True is not a whole number",
        f"a.yml:8: deepspeed: '{tmp_path}/missing.json' does not exist",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "foo: 1\n", "a.yaml:1: has no field of a tool"),
        ("a.yaml", "- a\n", "a.yaml:1: the top of the file is a list"),
        ("a.yaml", "a: [1\n", "a.yaml:2: not YAML"),
        ("a.yaml", "bf16: true\nbf16: false\n", "a.yaml:2: bf16"),
        ("a.json", "[1]", "a.json:1: is no mapping"),
        ("a.json", "{", "a.json:1: not JSON"),
        ("a.yaml", "base_model: [1]\nbase_model_config: []\nadapter: {}\ndeepspeed: []\n", "a.yaml:1: "),
    ],
)
def test_a_file_that_is_none_of_these_is_one_clear_line(name: str, text: str, said: str, tmp_path: Path) -> None:
    """With the line, and what would be right."""
    if said.endswith("1: "):
        read(tmp_path, name, text)  # a list of names is a field that says nothing of a plan
    else:
        assert any(one.startswith(said) for one in faults(tmp_path, name, text))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("solve", *arguments, "--as-of", "2026-11-21"))


@pytest.mark.slow
def test_solve_holds_the_file_and_chooses_the_rest(tmp_path: Path) -> None:
    """What was read stands above the plan; with --json on standard error, and the document alone on the other."""
    (tmp_path / "axolotl.yml").write_text(AXOLOTL)
    asked = ("--from", str(tmp_path / "axolotl.yml"), "--tokens", "8M")
    text = run(*asked)
    assert text.exit_code == 0, text.output
    assert text.stdout.startswith("From ") and "Not modelled: neat 3" in " ".join(text.stdout.split())
    document = run(*asked, "--json")
    (job,) = json.loads(document.stdout)["jobs"]
    used = job["techniques"]
    assert (used["method"], used["quant"], used["lora_rank"]) == ("lora", "nf4_dq", 32)
    assert (used["activation_checkpointing"], used["optimizer"]) == ("full", "adamw_8bit")
    assert job["sequence_length"] == 4096 and job["global_batch"] == 8
    assert "Not modelled" in document.stderr


@pytest.mark.slow
def test_an_option_is_preferred_to_the_file_and_a_setting_to_both(tmp_path: Path) -> None:
    """And the text says which field is not held."""
    (tmp_path / "axolotl.yml").write_text(AXOLOTL)
    asked = ("--from", str(tmp_path / "axolotl.yml"), "--tokens", "8M", "--method", "full")
    found = run(*asked, "--set", "jobs.0.global_batch=16", "--json")
    (job,) = json.loads(found.stdout)["jobs"]
    assert job["techniques"]["method"] == "full" and job["global_batch"] == 16
    assert "an option says otherwise: num_epochs, " in " ".join(found.stderr.split())


def test_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    """The model, the amount of work, and a scenario and a file at once; a fault of a value names its field."""
    (tmp_path / "ds.json").write_text(json.dumps(ZERO2))
    assert "the model is missing; give --model" in run("--from", str(tmp_path / "ds.json"), "--tokens", "1M").stderr
    (tmp_path / "a.yml").write_text(AXOLOTL.replace("meta-llama/Llama-3.1-8B", "nobody/none"))
    work = run("--from", str(tmp_path / "a.yml"))
    assert work.exit_code == 2 and "the amount of work is missing; give --tokens" in work.stderr
    unknown = run("--from", str(tmp_path / "a.yml"), "--tokens", "1M")
    assert unknown.exit_code == 2 and "a.yml:2: base_model: unknown architecture 'nobody/none'" in unknown.stderr
    assert "give SCENARIO or --from, not both" in run("quickstart", "--from", str(tmp_path / "a.yml")).stderr
