"""Axolotl 0.19.0 and LLaMA-Factory 0.9.5: the same decisions under other names, and other things that they lack."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import planner
from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import choose_job, export_all
from planner.exports.facts import Wishes, technique_facts
from planner.exports.field_map import field_maps
from planner.library.reading import read_library
from tests.helpers.exported_plans import INSTALL, WISHES, changed, settings, solved, texts

pytestmark = pytest.mark.slow


def whole(techniques: dict[str, Any] | None = None) -> Any:
    """Return the plan of the quickstart with full checkpointing, which both tools have."""
    return changed(solved("quickstart"), {"activation_checkpointing": "full", **(techniques or {})})


def test_axolotl_says_every_decision_of_a_qlora_run() -> None:
    """Its own kernels are switched off, because the profile of the plan does not have them."""
    plan = whole()
    job = plan.jobs[0]
    assert settings(plan, "axolotl") == {
        "base_model": "mistralai/Mistral-7B-v0.1",
        "datasets": [{"path": "my/data", "type": "chat_template"}],
        "output_dir": "out/quickstart",
        "sequence_len": 2048,
        "max_steps": job.steps,
        "micro_batch_size": job.techniques.micro_batch,
        "gradient_accumulation_steps": job.techniques.accumulation_steps,
        "include_tokens_per_second": True,
        "adapter": "qlora",
        "lora_r": 16,
        "lora_alpha": 32,
        "lora_target_linear": True,
        "load_in_4bit": True,
        "bnb_config_kwargs": {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False},
        "bf16": True,
        "tf32": False,
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "attn_implementation": "flash_attention_2",
        "optimizer": "adamw_torch",
        "sample_packing": True,
        "pad_to_sequence_len": True,
        "plugins": ["axolotl.integrations.liger.LigerPlugin"],
        "liger_rope": True,
        "liger_rms_norm": True,
        "liger_glu_activation": True,
        "liger_fused_linear_cross_entropy": True,
        "lora_mlp_kernel": False,
        "lora_qkv_kernel": False,
        "lora_o_kernel": False,
        "save_strategy": "steps",
        "save_steps": job.steps // 3,
        "save_total_limit": 1,
        "save_only_model": False,
    }


def test_axolotl_shards_with_fsdp_2_and_inside_machines() -> None:
    """What TRL leaves to variables of Accelerate is two sizes here."""
    found = settings(solved("fsdp"), "axolotl")
    assert found["fsdp_version"] == 2 and found["fsdp_config"]["activation_checkpointing"] is True
    assert found["gradient_checkpointing"] is False and "adapter" not in found
    assert found["fsdp_config"]["final_state_dict_type"] == "FULL_STATE_DICT", "a result that can be loaded"
    two = changed(solved("fsdp"), {"sharding": "hsdp"}, gpus=16, instances=2)
    hybrid = settings(two, "axolotl")
    assert (hybrid["dp_shard_size"], hybrid["dp_replicate_size"]) == (8, 2)


def test_llamafactory_says_every_decision_of_a_qlora_run() -> None:
    """Its template and the entry of its list of data are the user's."""
    plan = whole()
    job = plan.jobs[0]
    text = texts(plan, "llamafactory")["llamafactory.yaml"]
    assert "# template:  # required" in text
    assert yaml.safe_load(text) == {
        "stage": "sft",
        "do_train": True,
        "model_name_or_path": "mistralai/Mistral-7B-v0.1",
        "dataset": "my/data",
        "output_dir": "out/quickstart",
        "cutoff_len": 2048,
        "max_steps": job.steps,
        "per_device_train_batch_size": job.techniques.micro_batch,
        "gradient_accumulation_steps": job.techniques.accumulation_steps,
        "include_num_input_tokens_seen": True,
        "finetuning_type": "lora",
        "lora_rank": 16,
        "lora_alpha": 32,
        "logging_steps": 10,
        "lora_target": "all",
        "quantization_bit": 4,
        "quantization_method": "bnb",
        "quantization_type": "nf4",
        "double_quantization": False,
        "bf16": True,
        "pure_bf16": False,
        "disable_gradient_checkpointing": False,
        "flash_attn": "sdpa",
        "optim": "adamw_torch",
        "packing": True,
        "neat_packing": True,
        "enable_liger_kernel": True,
        "save_strategy": "steps",
        "save_steps": job.steps // 3,
        "save_total_limit": 1,
        "save_only_model": False,
    }
    some = settings(whole({"lora_targets": ("q", "v")}), "llamafactory")
    assert some["lora_target"] == "q_proj,v_proj"


def test_selective_checkpointing_is_refused_by_the_names_of_the_tools_that_have_it() -> None:
    """The quickstart as planned runs in TRL and Axolotl."""
    said = "has no activation_checkpointing selective; axolotl, trl can, or plan with --set"
    with pytest.raises(InputError, match=said):
        texts(solved("quickstart"), "llamafactory")


def test_hybrid_shards_with_selective_checkpointing_have_a_trainer() -> None:
    """Axolotl has both: shards inside machines, and attention that is kept; the wrapper of FSDP would keep nothing."""
    selective = {"sharding": "hsdp", "activation_checkpointing": "selective"}
    plan = changed(solved("fsdp"), selective, gpus=16, instances=2)
    found = settings(plan, "axolotl")
    assert (found["dp_shard_size"], found["dp_replicate_size"]) == (8, 2)
    assert found["selective_checkpointing"] == {"save": ["attention"], "save_sliding_window": True}
    assert found["gradient_checkpointing"] is True and found["gradient_checkpointing_kwargs"] == {
        "use_reentrant": False
    }
    assert "activation_checkpointing" not in found["fsdp_config"]


@pytest.mark.parametrize("precision", ["bf16", "bf16_mixed", "fp32"])
def test_trl_shards_inside_of_machines_by_the_variables_of_accelerate(precision: str) -> None:
    """Its file says that it shards; in pure bf16 no other trainer does, because Axolotl keeps fp32 masters."""
    plan = changed(solved("fsdp"), {"sharding": "hsdp", "precision": precision}, gpus=16, instances=2)
    assert settings(plan, "trl")["fsdp_config"]["version"] == 2
    files, _ = export_all(choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None), WISHES)
    sizes = "PARALLELISM_CONFIG_DP_REPLICATE_SIZE=2 PARALLELISM_CONFIG_DP_SHARD_SIZE=8 trl sft --config sft.yaml "
    assert f" env ACCELERATE_USE_PARALLELISM_CONFIG=true {sizes}" in files["run.sh"]
    whole, _ = export_all(
        choose_job(solved("fsdp"), scenario_of(solved("fsdp"), "plan.json"), "plan.json", None), WISHES
    )
    assert "PARALLELISM" not in whole["run.sh"] and "env trl sft --config sft.yaml " in whole["run.sh"]
    if precision == "bf16":
        with pytest.raises(InputError, match="16-bit weights get fp32 masters under FSDP there"):
            texts(plan, "axolotl")


_MEET = '--node_rank "$NODE_RANK" --master_addr "$HEAD_IP" --master_port 29500'
_RESUME = '"${LATEST:+resume_from_checkpoint=}${LATEST:-overwrite_output_dir=true}"'


@pytest.mark.parametrize(
    ("target", "alone", "together"),
    [
        (
            "llamafactory",
            f"FORCE_TORCHRUN=1 NPROC_PER_NODE=4 llamafactory-cli train llamafactory.yaml {_RESUME}",
            'FORCE_TORCHRUN=1 NPROC_PER_NODE=4 NNODES=2 NODE_RANK="$NODE_RANK" MASTER_ADDR="$HEAD_IP" '
            f"MASTER_PORT=29500 llamafactory-cli train llamafactory.yaml {_RESUME}",
        ),
        (
            "axolotl",
            'axolotl train axolotl.yml ${LATEST:+--resume-from-checkpoint "$LATEST"} --launcher torchrun -- '
            "--nproc_per_node 4",
            'axolotl train axolotl.yml ${LATEST:+--resume-from-checkpoint "$LATEST"} --launcher torchrun -- '
            f"--nproc_per_node 4 --nnodes 2 {_MEET}",
        ),
    ],
)
def test_each_machine_starts_its_own_processes_under_its_own_number(target: str, alone: str, together: str) -> None:
    """Four GPUs on each of two machines, and on one; the checkpoint is that of the script, not the newest in sight."""
    for machines, command in (({}, alone), ({"instances": 2, "gpus_per_instance": 4, "gpus": 8}, together)):
        plan = changed(solved("quickstart"), {"activation_checkpointing": "full"}, **machines)
        assert plan.jobs[0].gpus_per_instance == 4
        given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
        lines = export_all(given, WISHES, trainers=(target,))[0]["run.sh"].splitlines()
        (line,) = (line for line in lines if line.startswith("run_to_its_end "))
        assert line.partition(" env ")[2] == command


@pytest.mark.parametrize("kind", ["none", "selective", "full"])
@pytest.mark.parametrize("quant", [None, "none", "nf4"])
def test_what_is_tried_with_hybrid_shards_has_a_trainer(kind: str, quant: str | None) -> None:
    """Each checkpointing that the planner tries, with full training (no quant) and with adapters."""
    lora = {"method": "lora", "quant": quant, "lora_rank": 16, "lora_targets": "all-linear"}
    techniques = {"sharding": "hsdp", "activation_checkpointing": kind, **(lora if quant else {})}
    assert settings(changed(solved("fsdp"), techniques, gpus=16, instances=2), "axolotl")["dp_replicate_size"] == 2


def test_selective_checkpointing_with_adapters_under_zero_3_is_refused_by_both() -> None:
    """TRL says that it does not work, and Axolotl does the same."""
    plan = changed(solved("quickstart"), {"sharding": "zero3", "framework": "deepspeed"}, framework="deepspeed")
    for target in ("trl", "axolotl"):
        with pytest.raises(InputError, match="does not work with adapters under DeepSpeed ZeRO-3"):
            texts(plan, target)


def said(text: str) -> str:
    """Return the words of a file without comment signs and line ends."""
    return " ".join(text.replace("#", "").split())


def test_no_run_compiles_flash_attention() -> None:
    """PyPI has the package as source alone: up to an hour on every machine, which no plan counts."""
    for tool in field_maps().values():
        named = [*tool.packages, *(package for row in tool.rows for package in row.packages)]
        assert not [one for one in named if "flash" in one or "--no-build-isolation" in one], tool.target


@pytest.mark.parametrize(
    ("packing", "words"),
    [
        ("packed", "sdpa has no flash kernel: attention takes longer"),
        ("padded", "sdpa runs: PyTorch's own, with flash"),
    ],
)
def test_llamafactory_says_that_pytorchs_attention_runs_in_place_of_flash(packing: str, words: str) -> None:
    """In the field and in the header."""
    plan = changed(whole(), packing=packing)
    assert settings(plan, "llamafactory")["flash_attn"] == "sdpa"
    assert words in said(texts(plan, "llamafactory")["llamafactory.yaml"])


def test_padded_runs_of_llamafactory_count_their_real_tokens() -> None:
    """Its log is read by `planner calibrate`; rows of a pack have no padding to speak of."""
    counted = [
        settings(changed(whole(), packing=packing), "llamafactory")["include_num_input_tokens_seen"]
        for packing in ("padded", "packed")
    ]
    assert counted == ["non_padding", True]


def test_windows_of_attention_are_planned_as_pytorch_computes_them() -> None:
    """A window of 4,096 tokens in rows of 8,192, of which flash kernels skip a part, and in rows of 2,048."""
    (card,) = read_library(["mistral-7b"]).architectures.values()
    scenario = planner.read_scenario("quickstart")
    given = solved("quickstart").jobs[0].techniques.model_dump() | {"activation_checkpointing": "full"}
    refused = []
    for length in (2048, 8192):
        facts = technique_facts(given, scenario.jobs[0], card, "A100-80GB", length)
        refused.append([why for _, why, _ in field_maps()["llamafactory"].refusals(facts)])
    assert refused[0] == []
    assert refused[1] == [
        "LLaMA-Factory: without the package flash-attn windows of attention are computed as a whole; "
        "plan with attention mem_efficient"
    ]


def test_what_only_one_of_them_lacks_is_refused() -> None:
    """FSDP and files of data in LLaMA-Factory; fp32 weights under autocast in Axolotl."""
    with pytest.raises(InputError, match="FSDP is not in its configuration"):
        texts(solved("fsdp"), "llamafactory")
    with pytest.raises(InputError, match=r"dataset_info\.json"):
        texts(whole(), "llamafactory", wishes=Wishes(dataset="train.jsonl"))
    with pytest.raises(InputError, match="loads 16-bit weights"):
        texts(changed(solved("fsdp"), {"sharding": "ddp"}), "axolotl")


def test_a_task_starts_the_trainer_that_is_exported_with_it() -> None:
    """Without one it is TRL."""
    plan = changed(solved("secure"), {"activation_checkpointing": "full"})
    started = yaml.safe_load(texts(plan, "skypilot", "llamafactory")["task.yaml"])
    resume = '"${LATEST:+resume_from_checkpoint=}${LATEST:-overwrite_output_dir=true}"'
    assert f"llamafactory-cli train llamafactory.yaml {resume}\n" in started["run"]
    assert f"\n{INSTALL} llamafactory==0.9.5" in started["setup"]
    assert "trl sft" in yaml.safe_load(texts(plan, "skypilot")["task.yaml"])["run"]
