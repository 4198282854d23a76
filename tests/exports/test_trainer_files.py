"""What a configuration file says of the plan: every decision, under the names of the tool.

The values are those that TRL 1.16.0 with Transformers 5.23.0, Accelerate 1.15.0 and DeepSpeed 0.19.8 read
(`test_ecosystem.py` asks the tools themselves).
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
import yaml

from planner.cli.plan_commands import TARGETS
from planner.errors import InputError
from planner.exports.facts import Wishes
from planner.library.technique_tables import read_techniques
from planner.results.plan import ExportedResult
from tests.helpers.exported_plans import changed, settings, solved, texts

pytestmark = pytest.mark.slow


def test_trl_of_the_quickstart_says_every_decision() -> None:
    """QLoRA over plain data parallelism: the whole file."""
    job = solved("quickstart").jobs[0]
    assert job.techniques.quant == "nf4" and job.techniques.sharding == "ddp" and job.framework == "hf-fused"
    assert settings(solved("quickstart"), "trl") == {
        "model_name_or_path": "mistralai/Mistral-7B-v0.1",
        "dataset_name": "my/data",
        "output_dir": "out/quickstart",
        "max_length": 2048,
        "max_steps": job.steps,
        "per_device_train_batch_size": job.techniques.micro_batch,
        "gradient_accumulation_steps": job.techniques.accumulation_steps,
        "include_num_input_tokens_seen": True,
        "loss_type": "nll",
        "use_peft": True,
        "lora_r": 16,
        "lora_alpha": 32,
        "lora_target_modules": ["all-linear"],
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "use_bnb_nested_quant": False,
        "dtype": "bfloat16",
        "bf16": True,
        "fp16": False,
        "activation_checkpointing": True,
        "activation_checkpointing_kwargs": {"selective": True, "use_reentrant": False},
        "attn_implementation": "flash_attention_2",
        "optim": "adamw_torch",
        "ddp_find_unused_parameters": False,
        "packing": True,
        "packing_strategy": "bfd_split",
        "use_liger_kernel": True,
        "save_strategy": "steps",
        "save_steps": job.steps // 3,
        "save_total_limit": 1,
        "save_only_model": False,
        "enable_jit_checkpoint": True,
    }


def test_a_run_that_goes_on_counts_the_steps_behind_it() -> None:
    """A trainer that resumes counts from the beginning: 300 steps done and 700 left are `max_steps` 1,000."""
    plan = solved("quickstart")
    (job,) = plan.jobs
    resumed = plan.model_copy(update={"jobs": (job.model_copy(update={"steps_before": 300, "steps": 700}),)})
    assert settings(resumed, "trl")["max_steps"] == 1000


def test_of_a_long_sample_tools_train_on_what_the_plan_pays_for() -> None:
    """By default TRL would train on the rest too, and Axolotl would leave out the sample as a whole."""
    plan = changed(solved("cut"), {"activation_checkpointing": "full"})
    assert plan.cut
    assert settings(plan, "trl")["packing_strategy"] == "bfd"
    assert settings(plan, "axolotl")["excess_length_strategy"] == "truncate"


def test_the_batch_of_every_export_is_that_of_the_plan() -> None:
    """Micro-batch, accumulation and GPUs multiply to the global batch, in each file that says them."""
    for name in ("quickstart", "fsdp", "spot"):
        plan = solved(name)
        found = settings(plan, "trl")
        each = found["per_device_train_batch_size"] * found["gradient_accumulation_steps"]
        launched = settings(plan, "accelerate")
        assert each * launched["num_processes"] == plan.jobs[0].global_batch
        alone = plan.jobs[0].techniques.sharding == "none"
        assert (launched["distributed_type"] == "NO") == alone


def test_full_training_under_fsdp_keeps_fp32_weights_and_checkpoints_inside_fsdp() -> None:
    """FSDP 2 shards what the estimate holds in fp32; the training argument would gather the weights twice."""
    found = settings(solved("fsdp"), "trl")
    assert found["use_peft"] is False and found["dtype"] == "float32" and found["bf16"] is True
    assert found["activation_checkpointing"] is False and "activation_checkpointing_kwargs" not in found
    assert found["fsdp"] is True
    assert found["save_strategy"] == "steps" and "enable_jit_checkpoint" not in found, "processes would wait for ever"
    assert found["fsdp_config"] == {
        "version": 2,
        "reshard_after_forward": True,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "cpu_offload": False,
        "activation_checkpointing": True,
        "state_dict_type": "FULL_STATE_DICT",
    }
    launched = settings(solved("fsdp"), "accelerate")
    assert (launched["distributed_type"], launched["mixed_precision"]) == ("FSDP", "bf16")
    assert launched["fsdp_config"]["fsdp_version"] == 2
    assert launched["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert launched["fsdp_config"]["fsdp_state_dict_type"] == "FULL_STATE_DICT", "else nothing loads the result"
    assert (
        "Run: accelerate launch --config_file accelerate.yaml train.py\n"
        in texts(solved("fsdp"), "accelerate")["accelerate.yaml"]
    )


def test_no_machine_of_several_is_machine_0_in_silence() -> None:
    """The file is the same on every machine: the launcher refuses its rank, and a note has the command."""
    plan = changed(solved("fsdp"), instances=2, gpus=16, gpus_per_instance=8)
    found = settings(plan, "accelerate")
    assert (found["num_machines"], found["num_processes"]) == (2, 16)
    rank = found["machine_rank"]
    with pytest.raises(ValueError, match="machine_rank"):
        int(rank)
    said = " ".join(texts(plan, "accelerate")["accelerate.yaml"].replace("#", "").split())
    flags = "--machine_rank K --main_process_ip IP_OF_MACHINE_0 --main_process_port 29500"
    command = f"accelerate launch --config_file accelerate.yaml {flags} train.py"
    assert f"on each of 2 machines, K from 0: {command}" in said
    hybrid = settings(changed(plan, {"sharding": "hsdp"}), "accelerate")["parallelism_config"]
    sizes = {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 8}
    assert hybrid == sizes, "shards inside of a machine"
    assert settings(changed(plan, instances=1, gpus=8), "accelerate")["machine_rank"] == 0


def test_zero_stages_are_those_of_deepspeed_in_all_three_files() -> None:
    """ZeRO-2 is in the file of DeepSpeed, inside that of TRL, and in that of Accelerate."""
    plan = solved("zero2")
    (text,) = texts(plan, "deepspeed").values()
    alone = json.loads(text)
    assert alone.pop("_comment")[0].startswith("Job llama-2-7b-full-vs-lora")
    assert alone == settings(plan, "trl")["deepspeed"]
    assert alone["train_batch_size"] == plan.jobs[0].global_batch
    assert alone["zero_optimization"]["stage"] == 2 and alone["bf16"] == {"enabled": True}
    assert settings(plan, "accelerate")["deepspeed_config"]["zero_stage"] == 2
    job = plan.jobs[0]
    assert alone["train_micro_batch_size_per_gpu"] == job.techniques.micro_batch
    assert alone["gradient_accumulation_steps"] == job.techniques.accumulation_steps
    two = {"micro_batch": 1, "accumulation_steps": 3}
    assert settings(changed(plan, two), "deepspeed")["gradient_accumulation_steps"] == 3
    assert settings(changed(plan, {"sharding": "zero1"}), "deepspeed")["zero_optimization"]["stage"] == 1
    third = settings(
        changed(plan, {"sharding": "zero3", "framework": "deepspeed"}, framework="deepspeed"), "accelerate"
    )
    assert third["deepspeed_config"]["zero3_save_16bit_model"] is True, "else nothing loads the result"


def test_an_optimizer_in_host_memory_is_offloaded_by_deepspeed_with_the_rate_of_the_trainer() -> None:
    """Without `auto` DeepSpeed would take a learning rate of its own."""
    plan = changed(solved("zero2"), {"offload": "optimizer"})
    found = settings(plan, "deepspeed")
    assert found["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert found["optimizer"]["params"]["lr"] == "auto"
    alone = changed(plan, {"sharding": "none"}, gpus=1, gpus_per_instance=1)
    assert settings(alone, "deepspeed")["zero_optimization"]["stage"] == 2
    assert settings(alone, "accelerate")["deepspeed_config"]["offload_optimizer_device"] == "cpu"


def test_four_bit_weights_under_fsdp_are_stored_in_the_type_that_is_gathered() -> None:
    """FSDP shards only parameters of a floating type."""
    plan = changed(solved("quickstart"), {"sharding": "zero3", "activation_checkpointing": "full"})
    assert settings(plan, "trl")["bnb_4bit_quant_storage"] == "bfloat16"
    assert "bnb_4bit_quant_storage" not in settings(solved("quickstart"), "trl")


@pytest.mark.parametrize(
    ("precision", "method", "expected"),
    [
        ("bf16_mixed", "full", ("float32", True, False)),
        ("fp16_mixed", "full", ("float32", False, True)),
        ("bf16_mixed", "lora", ("bfloat16", True, False)),
        ("fp16_mixed", "lora", ("float16", False, True)),
        ("bf16", "full", ("bfloat16", False, False)),
        ("fp32", "full", ("float32", False, False)),
        ("tf32", "full", ("float32", False, False)),
    ],
)
def test_weights_are_loaded_in_the_type_that_the_estimate_counts(
    precision: str, method: str, expected: tuple[str, bool, bool]
) -> None:
    """Autocast over fp32 weights in full training, a 16-bit base below adapters."""
    plan = solved("spot" if method == "lora" else "fsdp")
    found = settings(changed(plan, {"precision": precision}), "trl")
    assert (found["dtype"], found["bf16"], found["fp16"]) == expected


def test_every_value_of_a_technique_is_expressed_or_refused_by_name() -> None:
    """A field map lists no value that the planner does not know."""
    from planner.exports.field_map import field_maps

    table = read_techniques()
    for tool in field_maps().values():
        for name, values in tool.techniques.items():
            if name.endswith("_parallel") or name == "packing":
                continue
            known = {*map(str, table.allowed(name)), *({"none", "int8"} if name == "quant" else ())}
            assert set(values) <= known, (tool.target, name)
        assert set(tool.frameworks) <= set(table.frameworks)


def test_adapters_on_some_modules_have_the_names_of_the_family() -> None:
    """`attention` of a Llama is q, k, v and o; where a last part is not enough, the path says which."""
    plan = changed(solved("spot"), {"lora_targets": "attention"})
    assert settings(plan, "trl")["lora_target_modules"] == ["q_proj", "k_proj", "v_proj", "o_proj"]
    linears = read_techniques().linears
    assert linears.chosen("gpt2", "attention") == ("c_attn", "attn.c_proj")
    assert linears.chosen("llama", ("q", "down_proj")) == ("q_proj", "down_proj")


def test_packing_without_flash_attention_cuts_and_says_so() -> None:
    """Packed samples could not be told apart by other kernels."""
    plan = changed(solved("quickstart"), {"attention": "mem_efficient"})
    assert settings(plan, "trl")["packing_strategy"] == "wrapped"
    assert "attend to one another" in " ".join(texts(plan, "trl")["sft.yaml"].replace("#", "").split())


def test_a_file_of_data_goes_to_the_loader_of_its_kind() -> None:
    """A name of the Hub is one field, a file is another."""
    found = settings(solved("quickstart"), "trl", Wishes("me/model", "data/train.JSONL"))
    assert found["model_name_or_path"] == "me/model" and "dataset_name" not in found
    assert found["datasets"] == [{"path": "json", "data_files": ["data/train.JSONL"]}]


def test_the_header_names_plan_version_hours_memory_and_dollars() -> None:
    """What was planned stands above what runs; what was not planned stands below, as comments."""
    plan = solved("quickstart")
    text = texts(plan, "trl", wishes=Wishes())["sft.yaml"]
    comment = [line for line in text.splitlines() if line.startswith("#")]
    job = plan.jobs[0]
    assert "quickstart" in comment[0] and "TRL 1.16" in comment[0]
    said = " ".join(comment)
    assert f"planner {plan.inputs.versions['planner'] if plan.inputs else ''}" in said
    assert f"{job.hours.expected:.1f} h" in said and f"${job.cost.expected:,.2f}" in said
    assert f"{job.vram_gib.peak:.1f} of {job.vram_gib.usable:.1f} GiB" in said
    assert "# dataset_name:  # required: --dataset" in comment
    assert any(line.startswith("# learning_rate") for line in comment)
    assert max(map(len, comment)) <= 120 and "learning_rate" not in yaml.safe_load(text)


def flat(settings: Any) -> dict[str, Any]:
    """Return the fields of nested settings by their last name."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value) if isinstance(value, dict) else {key.removeprefix("fsdp_"): value}
    return found


@pytest.mark.parametrize("techniques", [{}, {"method": "lora", "lora_rank": 8, "lora_targets": "all-linear"}])
def test_the_result_of_a_sharded_run_is_whole(techniques: dict[str, Any]) -> None:
    """A model that is saved in shards has no weights that can be loaded; checkpoints alone may be sharded."""
    plan = changed(solved("fsdp"), techniques)
    for target in ("trl", "accelerate", "axolotl"):
        found = flat(settings(plan, target))
        assert found.get("final_state_dict_type", found.get("state_dict_type")) == "FULL_STATE_DICT", target
    for name, given in (("fsdp", changed(plan, framework="deepspeed")), ("zero2", solved("zero2"))):
        zero = settings(changed(given, {"framework": given.jobs[0].framework}), "trl")["deepspeed"]["zero_optimization"]
        assert zero["stage"] < 3 or zero["stage3_gather_16bit_weights_on_model_save"], name


def test_the_memory_of_saving_a_sharded_run_as_a_whole_is_said() -> None:
    """6.7 billion weights in fp32 are 27 GB, their two moments twice as much; adapters gather a 16-bit base."""
    for target, name in (("trl", "sft.yaml"), ("accelerate", "accelerate.yaml")):
        said = " ".join(texts(solved("fsdp"), target)[name].replace("#", "").split())
        assert "machine 0 gathers weights and then optimizer states in host memory: up to 54 GB" in said
    lora = changed(solved("fsdp"), {"method": "lora", "lora_rank": 8, "lora_targets": "all-linear"})
    assert "up to 14 GB" in " ".join(texts(lora, "trl")["sft.yaml"].replace("#", "").split())


def test_a_file_says_what_makes_a_result_in_another_form() -> None:
    """It is not the trainer; adapters that leave as they are need no word."""
    plan = solved("quickstart")
    plain = ExportedResult(format="adapters", bits=None, gb=0.1, ram_gb=0.0, offer=None, ram_known=True)
    quantised = ExportedResult(format="gguf", bits=4, gb=4.0, ram_gb=20.0, offer=None, ram_known=True)
    (with_adapters,), (with_gguf,) = (texts(changed(plan, export=each), "trl").values() for each in (plain, quantised))
    said = "Result: gguf of 4 bits: made by run.sh and tasks with llama.cpp"
    assert said in " ".join(with_gguf.replace("#", "").split()) and "Result: " not in with_adapters


def test_the_rest_of_a_run_saves_checkpoints_as_the_run_did() -> None:
    """Also on demand without a stage for them: it goes on from one."""
    plan = solved("quickstart")
    assert plan.inputs is not None
    scenario = {**plan.inputs.scenario}
    scenario["jobs"] = [{name: value for name, value in job.items() if name != "stages"} for job in scenario["jobs"]]
    bare = plan.model_copy(update={"inputs": plan.inputs.model_copy(update={"scenario": scenario})})
    assert settings(bare, "trl")["save_strategy"] == "no"
    rest = settings(changed(bare, steps_before=100), "trl")
    assert (rest["save_strategy"], rest["save_steps"]) == ("steps", 100)


def test_the_file_of_deepspeed_says_how_a_script_is_started_with_it() -> None:
    """On one machine, and on several without a shell of one on another, which rented machines do not have."""
    two = changed(solved("zero2"), instances=2, gpus_per_instance=4, gpus=8)
    on_two = (
        "start on each of 2 machines, K from 0: deepspeed --hostfile hosts.txt --no_ssh --node_rank K "
        "--master_addr IP_OF_MACHINE_0 train.py, with a line NAME slots=4 for each"
    )
    for plan, command in ((solved("zero2"), "deepspeed --num_gpus 8 train.py"), (two, on_two)):
        (text,) = texts(plan, "deepspeed").values()
        assert command in " ".join(" ".join(json.loads(text)["_comment"]).split())


@pytest.mark.parametrize(
    ("target", "plan"), [("accelerate", "quickstart"), ("accelerate", "fsdp"), ("deepspeed", "zero2")]
)
def test_a_file_for_a_script_of_ones_own_says_all_that_the_script_sets(target: str, plan: str) -> None:
    """What no field of it has: of adapters their alpha too, length and packing of rows, steps, and checkpoints."""
    job = solved(plan).jobs[0]
    (text,) = texts(solved(plan), target).values()
    is_json = target == "deepspeed"
    lines = json.loads(text)["_comment"] if is_json else [line[1:] for line in text.splitlines() if line[:1] == "#"]
    said = " ".join(" ".join(lines).split())
    wanted = [f"sequence_length {job.sequence_length}", f"packing {job.packing}", f"steps {job.steps}"]
    if job.techniques.method == "lora":
        wanted += [f"lora_rank {job.techniques.lora_rank}", f"lora_alpha {2 * (job.techniques.lora_rank or 0)}"]
    if target == "accelerate":
        wanted += [
            f"micro_batch {job.techniques.micro_batch}",
            f"accumulation_steps {job.techniques.accumulation_steps}",
        ]
    assert all(f"{setting}" in said.partition("must set what this file cannot: ")[2] for setting in wanted), said
    saving = settings(solved(plan), "trl")
    assert (f"save_steps {saving.get('save_steps')}" in said) == (saving["save_strategy"] == "steps")


FSDP_2 = ("trl", "axolotl", "accelerate")
"""Tools whose files ask for FSDP version 2."""


@pytest.mark.parametrize("optimizer", ["adamw_8bit", "adamw_paged", "adamw_8bit_paged"])
@pytest.mark.parametrize("target", FSDP_2)
def test_optimizers_of_bitsandbytes_are_refused_where_the_file_is_one_for_fsdp_2(target: str, optimizer: str) -> None:
    """They step on shards of version 1 alone; under DDP, and with the AdamW of PyTorch, the same tool has a file."""
    plan = solved("fsdp")
    assert texts(plan, target)
    with pytest.raises(InputError, match=r"work under FSDP version 1 alone \(its issue 1633\)"):
        texts(changed(plan, {"optimizer": optimizer}), target)
    assert texts(changed(solved("quickstart"), {"optimizer": optimizer, "activation_checkpointing": "full"}), target)


def test_every_tool_with_a_file_for_fsdp_refuses_what_its_version_cannot_run() -> None:
    """A tool that gets such a file takes part in the test above; none of them asks for version 1."""
    written = {}
    for target in TARGETS:
        with contextlib.suppress(InputError):
            written[target] = "".join(texts(solved("fsdp"), target).values())
    versions = {target: set(re.findall(r"version\W{1,3}(\d)\b", text)) for target, text in written.items()}
    assert {target for target, found in versions.items() if found} == set(FSDP_2)
    assert all(versions[target] == {"2"} for target in FSDP_2)


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("trl", "--resume_from_checkpoint out/quickstart/checkpoint-300"),
        ("axolotl", "--resume-from-checkpoint out/quickstart/checkpoint-300"),
        ("llamafactory", "resume_from_checkpoint=out/quickstart/checkpoint-300"),
    ],
)
def test_the_command_of_a_plan_of_the_rest_goes_on_from_its_checkpoint(target: str, option: str) -> None:
    """Of a file alone, without the script that looks for the newest one; a whole run names none."""
    wishes = Wishes("mistralai/Mistral-7B-v0.1", "pairs")
    plan = changed(solved("quickstart"), {"activation_checkpointing": "full"})
    (rest,) = texts(changed(plan, steps_before=300), target, wishes=wishes).values()
    (whole,) = texts(plan, target, wishes=wishes).values()
    said = " ".join(line.removeprefix("#").strip() for line in rest.splitlines())
    assert option in said and "LATEST" not in said
    assert "resume_from_checkpoint" not in whole and "resume-from-checkpoint" not in whole


@pytest.mark.parametrize("target", ["trl", "axolotl", "llamafactory", "accelerate"])
def test_a_checkpoint_at_the_notice_is_written_or_the_file_says_that_none_is(target: str) -> None:
    """TRL writes one where processes need not wait for one another; a plan that counts on none needs no word."""
    counted = "the plan counts on a checkpoint within the notice"
    plan = changed(solved("spot"), {"activation_checkpointing": "full"})
    spot = plan.jobs[0].spot
    assert spot is not None
    for warned in (True, False):
        given = changed(plan, spot=spot.model_copy(update={"last_checkpoint": warned}))
        (text,) = texts(given, target).values()
        said = " ".join(text.replace("\n#", "").split())
        writes = "enable_jit_checkpoint: true" in text
        assert writes == (target == "trl")
        assert (counted in said) == (warned and not writes)
