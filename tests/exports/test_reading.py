"""`planner solve --from FILE`: configurations of training tools, read by the maps that write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.errors import InputError
from planner.exports.read_configs import ToolFile, describe, read_tool_file
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques
from planner.loading.scenario_file import parse_scenario
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
        "framework": ["hf", "deepspeed"],
    }


def test_what_is_not_modelled_is_said_in_words_and_what_has_no_effect_apart(tmp_path: Path) -> None:
    """No field of the file is dropped in silence."""
    found = read(
        tmp_path, "axolotl.yml", AXOLOTL.replace("flash_attention: true", "attn_implementation: flex_attention")
    )
    assert found.without_effect == ["learning_rate", "lora_dropout"]
    assert found.unmodelled["evals_per_epoch 4"] == "evaluation is stages.evaluation in a scenario"
    assert "no field of the map" in found.unmodelled["neat 3"]
    assert "chosen from flash, mem_efficient, " in found.unmodelled["attn_implementation flex_attention"]
    assert ("techniques", "attention") not in found.held
    said = "\n".join(describe(found))
    for field in ("flex_attention", "evals_per_epoch", "neat", "learning_rate", "global_batch 8 (micro_batch_size)"):
        assert field in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("adamw_bnb_8bit", "lion_8bit", "lion_8bit: no optimizer of a plan is this; a plan has adamw_torch, "),
        ("gradient_checkpointing: true", "gradient_checkpointing: offload_disk", "lie on the GPU or in host memory"),
    ],
)
def test_what_takes_other_memory_than_a_plan_has_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    """States of another optimizer are not those of a chosen one: the file is not planned without them."""
    (told,) = faults(tmp_path, "a.yml", AXOLOTL.replace(old, new))
    assert said in told


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
        # PyTorch's attention runs in LLaMA-Factory in place of flash, and the header says so.
        written = "mem_efficient" if (target, technique) == ("llamafactory", "attention") else getattr(used, technique)
        assert written in found[f"techniques.{technique}"], technique  # type: ignore[operator]
    assert found["framework"] == "hf-fused" and found["packing"] == "packed"
    if used.method == "lora":
        assert found["lora.rank"] == used.lora_rank
        assert found["techniques.weight_bits"] == [{"nf4": 4, "nf4_dq": 4, "int8": 8}[str(used.quant)]]
    else:
        assert not {"lora.rank", "techniques.weight_bits", "techniques.quant"} & found.keys()


def test_every_fault_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    """Counts that are none."""
    text = (
        "base_model: a/b\nadapter: lora\nmicro_batch_size: many\ngradient_accumulation_steps: 0\nlora_r: 1.5\n"
        "num_epochs: -1\nsequence_len: true\n"
    )
    assert [one.partition("; ")[0] for one in faults(tmp_path, "a.yml", text)] == [
        "a.yml:3: micro_batch_size: 'many' is not a whole number",
        "a.yml:4: gradient_accumulation_steps: 0 is not positive",
        "a.yml:5: lora_r: 1.5 is not a whole number",
        "a.yml:6: num_epochs: -1 is not a number of epochs",
        "a.yml:7: sequence_len: True is not a whole number",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "foo: 1\n", "a.yaml:1: has no field by which a tool"),
        ("a.yaml", "- a\n", "a.yaml:1: the top of the file is a list"),
        ("a.yaml", "a: [1\n", "a.yaml:2: not YAML"),
        ("a.yaml", "stage: sft\nstage: pt\ntemplate: x\n", "a.yaml:2: stage: is repeated, first on line 1, which "),
        ("a.yaml", "stage: train\nseed: 1\nlearning_rate: 1e-4\n", "a.yaml:1: has no field by which a tool"),
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


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("resources: {accelerators: H100:8}\nnum_nodes: 2\nrun: python train.py\n", "SkyPilot"),
        ("type: task\ncommands: [python train.py]\nresources: {gpu: 24GB}\n", "dstack"),
        ("name: tests\non: push\njobs:\n  build:\n    runs-on: ubuntu\n    steps: [{run: make}]\n", "GitHub Actions"),
        ("train_loader: {name: text}\nmax_duration: 1ep\nprecision: amp_bf16\n", "llm-foundry"),
        ("model_type: llama\nhidden_size: 64\nvocab_size: 100\n", "planner solve --model config.json"),
        ("jobs: [{name: a}]\nbase_model: a/b\n", "planner solve FILE"),
    ],
)
def test_a_file_of_another_tool_is_refused_by_its_name(text: str, what: str, tmp_path: Path) -> None:
    """A key that tools share does not make the file of one the file of another."""
    (said,) = faults(tmp_path, "a.yaml", text)
    assert said.startswith("a.yaml:1: is a") or said.startswith("a.yaml:1: is the configuration of a model")
    assert what in said and "which is not read here" in said


def test_of_a_repeated_key_the_value_counts_that_the_tool_takes(tmp_path: Path) -> None:
    """PyYAML, which reads the files of Axolotl and TRL, takes the last; the note names the line of the other."""
    text = "base_model: a/b\nadapter: lora\nlora_r: 8\nmicro_batch_size: 4\nlora_r: 16\nadapter: lora\n"
    found = read(tmp_path, "a.yml", text)
    assert held(found)["lora.rank"] == 16
    assert found.unmodelled["lora_r of line 3"] == "the key is repeated on line 5, and Axolotl takes the last"
    assert found.held["lora", "rank"].line == 5


def test_a_file_with_few_fields_of_a_tool_is_none_of_that_tool(tmp_path: Path) -> None:
    """The share that is known is told; fields with sub-fields of known ones count as known."""
    text = "base_model: a/b\n" + "".join(f"own_{index}: 1\n" for index in range(3))
    (said,) = faults(tmp_path, "a.yml", text)
    assert said.startswith("a.yml:1: looks most like a file of Axolotl, which has 25% of its 4 fields")


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("a.yml", "base_model: a/b\nrl: grpo\nmicro_batch_size: 1\n", "rl: grpo"),
        ("a.yml", "base_model: a/b\nprocess_reward_model: true\nmicro_batch_size: 1\n", "process_reward_model: True"),
        ("a.yaml", "model_name_or_path: a/b\nstage: ppo\nfinetuning_type: lora\n", "stage: ppo"),
        ("a.yaml", "model_name_or_path: a/b\nstage: sft\ndo_predict: true\n", "do_predict: True"),
    ],
)
def test_training_that_no_plan_has_is_refused_by_its_field(name: str, text: str, field: str, tmp_path: Path) -> None:
    """A reference or reward model takes memory: such a file is not planned as supervised fine-tuning under a note."""
    (said,) = faults(tmp_path, name, text)
    assert f": {field}: " in said and ("supervised fine-tuning" in said or "--rl grpo" in said)


def test_a_field_that_lacks_another_one_is_refused_with_that_one(tmp_path: Path) -> None:
    """To take `adapter` out of the file would plan full training."""
    (said,) = faults(tmp_path, "a.yml", "base_model: a/b\nadapter: qlora\nsequence_len: 2048\nmicro_batch_size: 1\n")
    assert ": adapter: qlora: " in said and said.endswith("; add load_in_4bit: true")


def test_a_technique_that_no_plan_has_is_refused_with_the_way_to_plan_without_it(tmp_path: Path) -> None:
    """The job is the same without it, so the advice is no other file."""
    (said,) = faults(tmp_path, "a.yml", "base_model: a/b\ntiled_mlp: true\nsequence_len: 2048\nmicro_batch_size: 1\n")
    assert ": tiled_mlp: " in said and said.endswith("take it out of a copy of the file or give it another value")


def test_counts_with_underscores_are_numbers_as_the_tools_read_them(tmp_path: Path) -> None:
    """YAML 1.1, which the tools use, reads 500_000 as a number."""
    found = read(tmp_path, "a.yml", "base_model: a/b\nmax_steps: 500_000\nmicro_batch_size: 1\nnum_epochs: 1\n")
    assert held(found)["work.steps"] == 500_000


def test_accumulation_without_a_micro_batch_is_said_and_not_held(tmp_path: Path) -> None:
    """Accelerate's file leaves the micro-batch to the script."""
    text = "distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_accumulation_steps: 4, zero_stage: 2}\n"
    found = read(tmp_path, "a.yaml", text)
    assert "global_batch" not in held(found) and held(found)["techniques.sharding"] == ["zero2"]
    assert "jobs.0.global_batch=" in found.unmodelled["deepspeed_config.gradient_accumulation_steps 4"]


def test_what_a_trainer_does_by_default_is_held_with_the_default_named(tmp_path: Path) -> None:
    """Silence of a TRL file means TRL's defaults: length, epochs, padding, optimizer, the batch of one GPU."""
    found = read(
        tmp_path, "a.yaml", "model_name_or_path: a/b\nuse_peft: true\ndtype: bfloat16\nlearning_rate: 2.0e-4\n"
    )
    assert held(found) == {
        "architecture": "a/b",
        "sequence_length": 1024,
        "work.epochs": 3,
        "lora.rank": 16,
        "techniques.method": ["lora"],
        "techniques.weight_bits": [16],
        "techniques.precision": ["bf16_mixed"],
        "techniques.activation_checkpointing": ["full"],
        "techniques.optimizer": ["adamw"],
        "packing": "padded",
        "global_batch": 8,
        "framework": ["hf", "deepspeed"],
    }
    assert {one.field for one in found.held.values()} == {"by default", "model_name_or_path", "use_peft"}


def test_the_name_of_a_quantised_release_says_its_bits(tmp_path: Path) -> None:
    """A tool that quantises nothing by itself trains on the weights as they are."""
    found = held(read(tmp_path, "a.yml", "base_model: TheBloke/Llama-2-7B-GPTQ\nadapter: lora\nmicro_batch_size: 2\n"))
    assert not {"techniques.weight_bits", "techniques.quant"} & found.keys()


def test_what_cuts_the_data_is_said(tmp_path: Path) -> None:
    """LLaMA-Factory's max_samples and val_size change how much is trained on."""
    text = "model_name_or_path: a/b\nstage: sft\ntemplate: x\nmax_samples: 500\nval_size: 0.1\n"
    told = read(tmp_path, "a.yaml", text).unmodelled
    assert "--samples" in told["max_samples 500"] and "--samples" in told["val_size 0.1"]


def test_a_path_is_looked_for_where_the_tool_looks_then_next_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools start in the folder of the project, and their configurations lie below it."""
    below = tmp_path / "configs"
    below.mkdir()
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 1}}))
    monkeypatch.chdir(tmp_path)
    text = "base_model: a/b\nmicro_batch_size: 1\ndeepspeed: ds.json\n"
    assert held(read(below, "a.yml", text))["techniques.sharding"] == ["zero1"]
    (below / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}}))
    monkeypatch.chdir(below.parent.parent)
    assert held(read(below, "a.yml", text))["techniques.sharding"] == ["zero2"]


def test_the_name_of_a_missing_deepspeed_file_says_its_stage_in_a_note(tmp_path: Path) -> None:
    """The file may lie on another machine: the stage of its name is held, and said."""
    text = "base_model: a/b\nmicro_batch_size: 1\ndeepspeed: deepspeed_configs/{}.json\n"
    found = read(tmp_path, "a.yml", text.format("zero3_bf16_cpuoffload_params"))
    assert held(found)["techniques.sharding"] == ["zero3"]
    (said,) = (why for name, why in found.unmodelled.items() if name.startswith("deepspeed"))
    assert said == (
        "no such file here or next to this one: stage 3 is assumed from its name, its other settings are chosen"
    )
    assert "techniques.sharding" not in held(read(tmp_path, "b.yml", text.format("mine")))


ATTENTION_AND_MLP = ["mlp.down_proj", "mlp.up_proj", "self_attn.q_proj"]


@pytest.mark.parametrize(
    ("pattern", "targets"),
    [
        (r"model.layers.[\d]+.(self_attn|mlp).(q|up|down)_proj", ATTENTION_AND_MLP),
        (r"model.language_model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|down|q)_proj", ATTENTION_AND_MLP),
        (r".*\.self_attn\.(q|v)_proj", ["self_attn.q_proj", "self_attn.v_proj"]),
        (".*", "all-linear"),
    ],
)
def test_a_string_of_target_modules_is_a_regular_expression(pattern: str, targets: object, tmp_path: Path) -> None:
    """PEFT matches it with the whole name of a module, in whatever class of Transformers the layers lie."""
    text = f"base_model: a/b\nadapter: lora\nlora_r: 8\nlora_target_modules: '{pattern}'\n"
    assert held(read(tmp_path, "a.yml", text))["lora.targets"] == targets


def test_a_pattern_for_some_layers_is_held_for_all_with_a_note(tmp_path: Path) -> None:
    """Only every fourth layer of a hybrid model has attention: its pattern numbers them."""
    text = "base_model: a/b\nadapter: lora\nlora_target_modules: '.*layers.(3|7).self_attn.q_proj'\n"
    found = read(tmp_path, "a.yml", text)
    assert held(found)["lora.targets"] == ["self_attn.q_proj"]
    assert "adapters of a plan lie in every layer that has such a module" in found.unmodelled.values()
    for wrong, said in ((".*(q_proj", "is no regular expression"), (".*nothing", "matches no linear layer")):
        (told,) = faults(tmp_path, "b.yml", text.replace(".*layers.(3|7).self_attn.q_proj", wrong))
        assert told.startswith(f"b.yml:3: lora_target_modules: {'' if 'no reg' in said else '.*nothing '}{said}")


@pytest.mark.parametrize(
    "pattern",
    [
        "model.vision_tower.vision_model.encoder.layers.[0-9]+.(self_attn|mlp).(q_proj|fc1)",
        ".*(language_model|vision_tower).*(q|v)_proj",
        "model.visual.blocks.[0-9]+.attn.qkv",
    ],
)
def test_adapters_in_a_tower_of_images_are_refused(pattern: str, tmp_path: Path) -> None:
    """A plan counts language layers; a pattern that names another tower is not planned without it."""
    text = f"base_model: a/b\nadapter: lora\nlora_target_modules: '{pattern}'\n"
    (told,) = faults(tmp_path, "a.yml", text)
    assert "adapters in an encoder of images or sound are not planned; name the language layers alone" in told


def test_a_pattern_that_would_match_a_tower_too_says_so(tmp_path: Path) -> None:
    """Whether the model has one is not known while a file is read; one that rules it out needs no note."""
    text = "base_model: a/b\nadapter: lora\nlora_target_modules: '{}'\n"
    whys = read(tmp_path, "a.yml", text.format(".*[.](q|v)_proj")).unmodelled.values()
    assert any("encoder of images or sound, which it matches too, are not counted" in why for why in whys)
    for pattern in ("(?!.*vision_tower).*language_model.*[.](q|v)_proj", "model.layers.[0-9]+.self_attn.(q|v)_proj"):
        found = read(tmp_path, "a.yml", text.format(pattern))
        targets = held(found)["lora.targets"]  # of every family, as the model is not known while a file is read
        assert isinstance(targets, list) and {"self_attn.q_proj", "self_attn.v_proj"} <= set(targets)
        assert all(target.endswith((".q_proj", ".v_proj")) for target in targets)
        assert not any("encoder" in why for why in found.unmodelled.values())


def test_a_module_may_be_named_by_the_end_of_its_path() -> None:
    """`self_attn.q_proj` extends what `q` extends, where no other module ends so."""
    network = read_library(["llama-3.1-8b"]).architecture("llama-3.1-8b")
    known = read_techniques().linears
    assert known.chosen(network.family, ("self_attn.q_proj", "mlp.up_proj")) == known.chosen(
        network.family, ("q", "up")
    )
    job = "{name: a, architecture: llama-3.1-8b, work: {tokens: 1M}, lora: {targets: [self_attn.q_proj]}}"
    offer = "offers: [{provider: x, gpu: H100-80GB, gpus: 1, usd_per_hour: 3}]\n"
    assert parse_scenario(f"schema: 2\njobs: [{job}]\n{offer}").jobs[0].lora.targets == ("self_attn.q_proj",)


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


def test_the_options_of_fsdp_are_read_one_by_one(tmp_path: Path) -> None:
    """As Transformers reads its words: offload is held, and sharding of gradients alone is refused."""
    text = "model_name_or_path: Qwen/Qwen2.5-7B\ndtype: bfloat16\nbf16: true\nmax_length: 2048\nfsdp: {}\n"
    found = held(read(tmp_path, "a.yaml", text.format('"full_shard auto_wrap offload"')))
    assert found["techniques.offload"] in ("optimizer_and_weights", ["optimizer_and_weights"])
    with pytest.raises(InputError, match="shards the weights too"):
        read(tmp_path, "b.yaml", text.format('"shard_grad_op auto_wrap"'))


def test_the_older_word_of_deepspeed_for_offload_is_known(tmp_path: Path) -> None:
    """`cpu_offload: true` of stage 2 is the optimizer in host memory."""
    text = '{"zero_optimization": {"stage": 2, "cpu_offload": true}, "train_micro_batch_size_per_gpu": 1}'
    found = held(read(tmp_path, "ds.json", text))
    assert found["techniques.offload"] in ("optimizer", ["optimizer"])


@pytest.mark.parametrize("sharding", ["deepspeed: zero2.json", "fsdp: [full_shard, auto_wrap]", "fsdp_version: 2"])
def test_16_bit_weights_that_the_file_shards_have_fp32_masters(sharding: str, tmp_path: Path) -> None:
    """Under FSDP and DeepSpeed 7B weights take 28 GB of masters more, which a plan of pure bf16 has no memory for."""
    plain = "base_model: a/b\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n"
    assert read(tmp_path, "a.yml", plain).held["techniques", "precision"].value == ["bf16", "bf16_mixed"]
    held = read(tmp_path, "a.yml", plain + sharding + "\n").held
    assert held["techniques", "precision"].value == ["bf16_mixed"]


@pytest.mark.parametrize(
    ("name", "text", "frameworks"),
    [
        ("a.yaml", "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n", ["deepspeed"]),
        ("a.yaml", "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n", []),
        ("a.json", '{"zero_optimization": {"stage": 2}, "train_batch_size": 8}', ["deepspeed"]),
    ],
)
def test_a_launcher_starts_the_frameworks_that_take_its_file(
    name: str, text: str, frameworks: list[str], tmp_path: Path
) -> None:
    """LitGPT takes neither file, so that no plan of it is an answer; FSDP is not DeepSpeed's."""
    assert read(tmp_path, name, text).held["framework",].value == ["hf", "hf-fused", *frameworks]


TRL = """
model_name_or_path: meta-llama/Llama-3.1-8B
max_length: 1024
dtype: bfloat16
use_peft: true
lora_target_modules: [q_proj, v_proj]
"""


def test_a_path_of_the_cache_is_the_repository_that_it_names(tmp_path: Path) -> None:
    """The file was written on another machine, whose cache is not here; what lies here stays a path."""
    name = "models--meta-llama--Llama-3.1-8B"
    cached = AXOLOTL.replace("meta-llama/Llama-3.1-8B", f"$HUB/{name}/snapshots/0123abcd")
    assert held(read(tmp_path, "axolotl.yml", cached))["architecture"] == "meta-llama/Llama-3.1-8B"
    (tmp_path / name).mkdir()
    here = AXOLOTL.replace("meta-llama/Llama-3.1-8B", str(tmp_path / name))
    assert held(read(tmp_path, "axolotl.yml", here))["architecture"] == str(tmp_path / name)


@pytest.mark.parametrize(("text", "field"), [(AXOLOTL, "lora_modules_to_save"), (TRL, "lora_modules_to_save")])
def test_adapters_in_the_embeddings_are_refused_with_the_field_that_trains_them(
    tmp_path: Path, text: str, field: str
) -> None:
    """Lists of targets name the embedding where users want new tokens to be learned."""
    lines = [line for line in text.splitlines() if "lora_target" not in line]
    (told,) = faults(tmp_path, "a.yml", "\n".join([*lines, "lora_target_modules: [q_proj, embed_tokens, lm_head]"]))
    assert "embed_tokens: a plan has no adapters there" in told and f"list them under {field}" in told


@pytest.mark.parametrize(
    ("text", "field"),
    [(AXOLOTL, "lora_modules_to_save"), (TRL, "lora_modules_to_save"), (LLAMAFACTORY, "additional_target")],
)
def test_other_modules_than_embeddings_are_not_read_as_these(tmp_path: Path, text: str, field: str) -> None:
    """Norms and heads of classes that a file trains in full are named, and no embedding is planned for them."""
    (tmp_path / "ds.json").write_text(json.dumps(ZERO2))
    found = read(tmp_path, "a.yml", f"{text}{field}: [norm]\n")
    assert ("lora", "train_embeddings") not in found.held
    assert any(field in name for name in found.unmodelled)
    both = read(tmp_path, "b.yml", f"{text}{field}: [embed_tokens, lm_head]\n")
    assert both.held["lora", "train_embeddings"].value is True


def test_the_older_name_of_liger_is_read_and_spectrum_refused(tmp_path: Path) -> None:
    """`use_liger` became `use_liger_kernel`; Spectrum trains some of the layers, as `spectrum_top_fraction` does."""
    old, new = (held(read(tmp_path, "a.yml", f"{TRL}{name}: true\n")) for name in ("use_liger", "use_liger_kernel"))
    assert old == new and old["framework"] == "hf-fused"
    (told,) = faults(tmp_path, "b.yml", f"{TRL}spectrum_config_path: snr.yaml\n")
    assert "spectrum_config_path: snr.yaml: a plan trains all layers or adapters" in told


def test_a_stage_of_deepspeed_is_named_by_its_field(tmp_path: Path) -> None:
    """Not by one of the settings that a plan writes with it."""
    for stage in (2, 3):
        sharded = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
        found = read(tmp_path, "ds.json", json.dumps({"bf16": {"enabled": True}, "zero_optimization": sharded}))
        assert found.held["techniques", "sharding"].field == "zero_optimization.stage"


def test_a_note_on_a_value_goes_with_the_value_that_an_option_replaces(tmp_path: Path) -> None:
    """Steps that are not held are not said to be."""
    text = """
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 2048}
model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_attn_modules: [q_proj, v_proj], lora_rank: 8}
checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer, checkpoint_dir: /tmp/Llama-3.1-8B}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
epochs: 2
max_steps_per_epoch: 256
batch_size: 2
gradient_accumulation_steps: 8
"""
    found = read(tmp_path, "tune.yaml", text)
    assert any("512 steps of all epochs are held" in line for line in describe(found))
    replaced = describe(found, {("work", "steps")})
    assert any("an option says otherwise: max_steps_per_epoch" in line for line in replaced)
    assert not any("steps of all epochs" in line for line in replaced)
