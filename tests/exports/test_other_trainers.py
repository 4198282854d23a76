"""Axolotl 0.19.0 and LLaMA-Factory 0.9.5: the same decisions under other names, and other things that they lack."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from planner.errors import InputError
from planner.exports.facts import Wishes
from tests.helpers.exported_plans import INSTALL, changed, settings, solved, texts

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
    """What TRL cannot say is two sizes here."""
    found = settings(solved("fsdp"), "axolotl")
    assert found["fsdp_version"] == 2 and found["fsdp_config"]["activation_checkpointing"] is True
    assert found["gradient_checkpointing"] is False and "adapter" not in found
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
        "flash_attn": "fa2",
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


@pytest.mark.parametrize("target", ["axolotl", "llamafactory"])
def test_selective_checkpointing_is_refused_by_the_name_of_the_tool_that_has_it(target: str) -> None:
    """The quickstart as planned runs in TRL alone."""
    with pytest.raises(InputError, match="has no activation_checkpointing selective; trl can, or plan with --set"):
        texts(solved("quickstart"), target)


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
