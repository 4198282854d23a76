"""From the words of a row to the recipe it was trained with; a blank word means what the row's framework does."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.networks import Incomplete, NotExpressible
from planner.configurations.recipe import GpuClass, Recipe
from planner.estimates.inputs import Network
from planner.library.schema import Library
from planner.library.techniques import read_techniques

CHECKPOINTING_BY_DEFAULT = {
    "torchtitan": "selective",
    "compiled": "selective",
    "torchtune": "full",
    "unsloth": "full",
    "deepspeed": "full",
    "litgpt": "none",
    "megatron": "none",
    "megatron-deepspeed": "none",
    "nemo": "none",  # attention is fused, and its selective checkpointing is of attention alone
    "internevo": "none",
}
"""What a framework does where its user says nothing; where it is the user's choice a blank leaves it open."""

RECIPE_DECIDES = ("nemo",)
"""Frameworks whose published recipes each choose their checkpointing: a blank is too little to judge a fit by."""

FP32_BY_DEFAULT = ("megatron", "megatron-deepspeed")
"""Frameworks that train in fp32 unless a flag says otherwise."""

_PARTIAL = re.compile(r"partial \((\d+) of (\d+) layers\)")
_LINEARS = {
    "q_proj": "q", "query": "q", "k_proj": "k", "key": "k", "v_proj": "v", "value": "v", "o_proj": "o",
    "projection": "o", "gate_proj": "gate", "up_proj": "up", "down_proj": "down",
}  # fmt: skip


def framework_of_row(row: Row, library: Library) -> str:
    """Return the profile: the row's framework where it has one, else `unknown`."""
    known = library.techniques.frameworks
    return row.text("framework") if row.text("framework") in known else "unknown"


def recipe_of_row(row: Row, card: GpuClass | None, framework: str) -> Recipe:
    """Return the recipe; Incomplete or NotExpressible say why there is none."""
    method = row.text("method")
    if not method:
        raise Incomplete("the method")
    if method == "adapter":
        raise NotExpressible("an adapter of unnamed kind")
    if method not in ("full", "pretrain", "lora", "qlora"):
        raise NotExpressible(f"the method {method!r}")
    lora = method in ("lora", "qlora")
    quant = _quant(row) if lora else "none"
    return Recipe(
        method="lora" if lora else "full",
        weight_bits={"none": 16, "int8": 8}.get(quant, 4),
        quant=quant,
        precision=_precision(row, card, lora),
        activation_checkpointing=checkpointing_of_row(row),
        sharding=_sharding(row),
        attention=_attention(row, card, framework),
        optimizer="adamw_8bit" if re.search(r"8-?bit", row.text("optimizer")) else "adamw",
        tensor_parallel=degree(row, "tp"),
        pipeline_parallel=2 if "layer split" in row.text("sharding") else degree(row, "pp"),
        framework=framework,
    )


def degree(row: Row, column: str) -> int:
    """Return a degree of parallelism: blank is 1, unless the sharding names that kind of parallelism."""
    value = row.count(column)
    if value is None and re.search(rf"\b{column}\b", row.text("sharding")):
        raise Incomplete(f"the degree of {column}")
    return value or 1


def lora_targets(row: Row) -> str | tuple[str, ...]:
    """Return the adapted layers, in the words of a scenario; all linear layers where they are not stated."""
    text = row.text("lora_targets")
    if not text or "all linear" in text or text == "default":
        return "all-linear"
    if "qkv" in text or text in ("default (c_attn)", "c_attn"):
        return ("q", "k", "v")
    words = [word for word in re.split(r"[\s,]+", text) if word]
    known = {"q", "k", "v", "o", "gate", "up", "down"}
    found = tuple(dict.fromkeys(_LINEARS.get(word, word) for word in words if _LINEARS.get(word, word) in known))
    if "mlp" in words:
        found = tuple(dict.fromkeys((*found, "gate", "up", "down")))
    if not found:
        raise NotExpressible(f"adapters on {text}")
    return found


def checkpointing_known(row: Row) -> bool:
    """Return whether a blank in the column leaves open what a fit depends on."""
    return bool(row.text("act_ckpt")) or row.text("framework") not in RECIPE_DECIDES


def partial_share(row: Row) -> float | None:
    """Return the share of the layers that are checkpointed, where a row says how many of how many."""
    found = _PARTIAL.search(row.text("act_ckpt"))
    if found is None:
        return None
    some, all_of_them = int(found[1]), int(found[2])
    if not 0 <= some <= all_of_them or all_of_them == 0:
        raise Incomplete("which layers are checkpointed")
    return some / all_of_them


def loss_stays_16bit(row: Row, network: Network) -> bool:
    """Return whether a Transformers class evaluated its loss on 16-bit logits, as far as the dimensions tell.

    Up to 4.45 the classes with gated feed-forwards (Llama, Mistral, Gemma, Qwen2, Phi-3 ...) and none of the plain ones
    (GPT-2, GPTBigCode, GPT-NeoX, OPT, BLOOM, Falcon) cast logits to fp32; autocast does it for all.
    """
    return not network.gated and "pure" in row.text("precision")


def _quant(row: Row) -> str:
    text = row.text("weight_quant")
    for word, name in (("gptq", "gptq"), ("awq", "gptq"), ("int8", "int8"), ("dq", "nf4_dq"), ("nf4", "nf4")):
        if word in text:
            return "int8" if "int8" in text else name
    if text not in ("", "none"):
        raise NotExpressible(f"weights quantised as {text}")
    return "nf4" if row.text("method") == "qlora" else "none"


def _precision(row: Row, card: GpuClass | None, lora: bool) -> str:
    text, weights = row.text("precision"), weights_dtype(row)
    if text.startswith("fp32") or (not text and row.text("framework") in FP32_BY_DEFAULT):
        return "tf32" if card is not None and card.bf16 else "fp32"
    half = "fp16_mixed" if ("fp16" in text and "bf16" not in text) or (card and not card.bf16) else "bf16_mixed"
    if lora:
        return half
    if weights in ("bf16", "fp16"):
        return "bf16"  # pure 16 bit: the bytes are the same for both
    if weights == "fp32" or not text or "mixed" in text or "fp8" in text or "autocast" in text:
        return half
    return "bf16"


def checkpointing_of_row(row: Row) -> str:
    """Return the kind, as the column says or the framework does; Incomplete where it is blank and the user's choice."""
    text = row.text("act_ckpt")
    if text == "none" or _PARTIAL.search(text):
        return "none"
    if text.startswith("full"):
        return "full"
    if text.startswith("selective"):
        return "selective"
    if text:
        raise NotExpressible(f"activation checkpointing {text!r}")
    named = row.text("framework")  # a framework that the estimate is made to forget still did what it does
    if named == "litgpt" and "fsdp" in row.text("sharding"):
        return "full"
    if row.text("method") == "qlora" and named in ("hf", "hf-fused"):
        return "full"  # the k-bit preparation turns it on
    if named not in CHECKPOINTING_BY_DEFAULT:
        raise Incomplete("whether activations are checkpointed")
    return CHECKPOINTING_BY_DEFAULT[named]


def _sharding(row: Row) -> str:
    text = row.text("sharding")
    gpus = row.count("num_gpus")
    if gpus is None:
        raise Incomplete("the number of GPUs")
    if gpus == 1:
        return "none"
    if not text:
        raise Incomplete("how the network is spread over its GPUs")
    if re.search(r"\bep\b", text):
        raise NotExpressible("expert parallelism")
    for words, name in (
        (("zero2", "shard_grad_op"), "zero2"),
        (("hsdp",), "hsdp"),
        (("fsdp", "zero3"), "zero3"),
        (("zero1", "distributed optimizer"), "zero1"),
    ):
        if any(word in text for word in words):
            return name
    if text == "none":
        return "ddp"
    if not re.search(r"\b(ddp|dp|tp|pp|zero0|layer split)\b", text):
        raise NotExpressible(f"the sharding {text!r}")
    return "ddp"


def _attention(row: Row, card: GpuClass | None, framework: str) -> str:
    text = row.text("attention")
    best = read_techniques().tried("attention", **vars(card))[0] if card is not None else "flash"
    if text.startswith("eager") or (not text and framework == "megatron-deepspeed"):
        return "eager"
    return "mem_efficient" if best == "flash" and "memory-efficient" in text else best


def weights_dtype(row: Row) -> str:
    """Return the type of the weights; where it is blank, litgpt's mixed precision means fp32 (Lightning)."""
    mixed = row.text("framework") == "litgpt" and "mixed" in row.text("precision")
    return row.text("weights_dtype") or ("fp32" if mixed else "")


def zero_group(row: Row) -> int | None:
    """Return the ranks that share the states of a row, where it states them; they share a node."""
    found = re.search(r"\(group (\d+)\)", row.text("sharding"))
    return int(found[1]) if found else None


def in_host_memory(row: Row, zero_stage: int) -> dict[str, Any]:
    """Return what a row keeps in host memory, as changes of `States`."""
    text = row.text("cpu_offload")
    if text in ("", "no"):
        if "offload" in row.text("sharding"):
            raise Incomplete("what lies in host memory")
        return {}
    weights, optimizer = "param" in text, "optimizer" in text
    if not weights and not optimizer:
        raise Incomplete("what lies in host memory")
    if weights and zero_stage < 3:
        raise NotExpressible("weights that are not sharded in host memory")
    return {"host_weights": int(weights), "host_optimizer": int(weights or optimizer)}


def optimizer_bytes(row: Row) -> dict[str, Any]:
    """Return the bytes of optimizers that a scenario cannot name, as changes of `States`, per trained parameter."""
    text = row.text("optimizer")
    changes: dict[str, Any] = {}
    if re.search(r"4-?bit", text):
        changes = {"optimizer_bytes": 1.06, "step_bytes": 0.0}
    elif "adafactor" in text:
        changes = {"optimizer_bytes": 0.02}
    elif "sgd" in text:
        changes = {"optimizer_bytes": 0.0}
    if "into backward" in text:
        changes |= {"gradient_bytes": 0.0, "step_bytes": 0.0}
    elif "fused" in text:
        changes |= {"step_bytes": 0.0}
    return changes
