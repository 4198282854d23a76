"""From the words of a row to the recipe it was trained with; a blank word means what the row's framework does."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.networks import Incomplete, NotExpressible
from planner.configurations.recipe import GpuClass, Recipe
from planner.estimates.inputs import Network
from planner.library.schema import Library
from planner.library.technique_tables import read_techniques

CHECKPOINTING_BY_DEFAULT = {
    "torchtitan": "selective",
    "compiled": "selective",
    "torchtune": "full",
    "llama-factory": "full",
    "llamafactory": "full",
    "ms-swift": "full",
    "swift": "full",
    "xtuner": "full",  # xtuner/model/sft.py: use_activation_checkpointing=True
    "unsloth": "full",
    "deepspeed": "full",
    "litgpt": "none",
    "megatron": "none",
    "megatron-deepspeed": "none",
    "nemo": "none",  # attention is fused, and its selective checkpointing is of attention alone
    "internevo": "none",
    "maxtext": "full",  # base.yml of MaxText: remat_policy: full
    "optimum-habana": "none",  # its baselines name it where they switch it on
    "neuronx": "full",
}
"""What a framework does where its user says nothing; where it is the user's choice a blank leaves it open."""

CHECKPOINTING_OF_REPOSITORIES = {"hiyouga/llama-factory": "full", "modelscope/ms-swift": "full"}
"""What trainers do by default whose own repository published the row; the column names the classes that they wrap.

LLaMA-Factory checkpoints unless `disable_gradient_checkpointing` is set, ms-swift's `gradient_checkpointing` is true
(both documentations, arguments of training)."""

PREPARES_ITSELF = ("hiyouga/llama-factory",)
"""Trainers whose own preparation of a 4-bit base leaves embedding and head in 16 bit, and which quantise the scales.

LLaMA-Factory, `prepare_model_for_training`: norms and logits in fp32 only where `upcast_layernorm` and
`upcast_lmhead_output` are set; `double_quantization` is true."""

FUSES_ADAPTERS = ("foundation-model-stack/fms-acceleration",)
"""Repositories whose fused kernels include those of adapters, on a quantised base of a gated network.

fms-acceleration, framework_plugin_fast_kernels.py (fused_lora only required for quant-peft): unsloth's LoRA kernels, of
attention and gated feed-forwards; `fast_kernels`, for all else, replaces norms, rotation and loss alone."""

FRAMEWORK_NAMES = {
    "llama-factory": "hf",
    "llamafactory": "hf",
    "ms-swift": "hf",
    "swift": "hf",
    "axolotl": "hf",
    "xtuner": "hf",
    "trl": "hf",
    "peft": "hf",
    "megatron-lm": "megatron",
    "megatron-core": "megatron",
    "flagscale": "megatron",
    "megatron-bridge": "nemo",
    "nemo-rocm (mlperf)": "nemo",
    "primus (megatron-rocm)": "nemo",
    "llmboost (mlperf)": "nemo",
    "optimum-habana (mlperf)": "optimum-habana",
}
"""Names of trainers whose steps are those of another profile: they wrap Transformers' Trainer or Megatron-core.
FlagScale is based on Megatron-LM (its README)."""

RECIPE_DECIDES = ("nemo",)
"""Frameworks whose published recipes each choose their checkpointing: a blank is too little to judge a fit by."""

SHARDING_BY_DEFAULT = {"maxtext": "zero3", "neuronx": "zero1", "nemo-rocm (mlperf)": "ddp", "llmboost (mlperf)": "ddp"}
"""How frameworks of accelerators spread a network where the column is blank and no degree is open.

MaxText: base.yml, ici_fsdp_parallelism -1, the rest 1; Neuron: ZeRO-1 of its tutorials; MLPerf LoRA on AMD: its
configuration with tensor, pipeline and context parallelism of 1 keeps a copy of the network on each GPU."""

DEEPSPEED_ON_ONE_GPU = {"qwenlm/qwen": ("full", "qlora")}
"""Methods that a repository's own scripts train with DeepSpeed's ZeRO-2 on one GPU, too, where no column says so.

Qwen: finetune_qlora_single_gpu.sh and finetune_ds.sh name finetune/ds_config_zero2.json, finetune_lora_single_gpu.sh
names none."""

_BLOOM_NETWORKS = ("gpt-176b", "gpt-178b", "gpt-184b", "gpt-203b")
BF16_NETWORKS = {"bigscience-workshop/bigscience:train/tr11-176B-ml/chronicles-prequel.md": _BLOOM_NETWORKS}
"""Networks that a document trained in bf16, with fp32 sums of gradients; all others of the same document in fp16.

Its columns name both; its text says from which table on ("Rebalancing layers") the optimizer is that of bf16."""

CORES_PER_CHIP = {"neuronx": 2}
"""Frameworks whose degrees of parallelism count cores, not chips."""

FP32_BY_DEFAULT = ("megatron", "megatron-deepspeed")
"""Frameworks that train in fp32 unless a flag says otherwise: a row that states no precision may be of either kind."""

SINGLE_GPU_OPTIMIZERS = {"torchtune": "paged adamw 8bit (optimizer step into backward)"}
"""Optimizer of a framework's own recipes for full training on one GPU (torchtune: `full_finetune_single_device`
configs of 7B and 8B networks, PagedAdamW8bit with `optimizer_in_bwd`)."""

OWN_PRECISIONS = ("fp16_unscaled", "fp8_torchao", "fp8_te", "bf16_qat", "bf16_mixed_qat")
"""Precisions that rows of probes have under the names of a scenario: published tables have no word for them."""
_PARTIAL = re.compile(r"partial \((\d+) of (\d+) layers\)")
_LINEARS = {"query": "q", "key": "k", "value": "v", "projection": "o", "head": "", "default": ""}
"""Words of tables that no release uses for a module; an empty one is no linear layer of a block."""
EMBEDDINGS_TOO = "+ trainable embedding and output layer"
"""Said of runs that train embedding and output layer in full beside the adapters."""


def framework_of_row(row: Row, library: Library, as_unknown: bool = False) -> str:
    """Return the profile: the row's framework where it has one; else, or `as_unknown`, that of an unknown one."""
    named = FRAMEWORK_NAMES.get(row.text("framework"), row.text("framework"))
    return named if named in library.techniques.frameworks and not as_unknown else "unknown"


def stated_kernels(row: Row) -> str | None:
    """Return the framework whose kernels a row of an unknown one states in other columns; None where it states none.

    Transformer Engine and Megatron's softmax are named with the attention, a compiler and a fused loss have columns.
    """
    attention, loss = row.text("attention"), row.text("loss_kernel")
    if "(te)" in attention:
        return "nemo"
    if "megatron" in attention:
        return "megatron"
    if row.text("compile") == "yes":
        return "compiled"
    return "hf-fused" if loss.startswith(("liger", "fused")) else None


def recipe_of_row(row: Row, card: GpuClass | None, framework: str) -> Recipe:
    """Return the recipe; Incomplete or NotExpressible say why there is none."""
    method = row.text("method")
    if not method:
        raise Incomplete("the method")
    if method == "adapter":
        raise NotExpressible("an adapter other than LoRA")
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
        optimizer=_optimizer(optimizer_of_row(row)),
        tensor_parallel=degree(row, "tp"),
        pipeline_parallel=2 if "layer split" in row.text("sharding") else degree(row, "pp"),
        framework=framework,
        dora=row.text("dora") == "yes",
        adapt_head=row.text("adapt_head") == "yes",
        experts_16_bit=row.text("experts_16_bit") == "yes",
    )


def _optimizer(text: str) -> str:
    """Return the optimizer of a plan that a text of the column names; `optimizer_bytes` knows the others."""
    if "muon" in text:
        return "muon"
    return "adamw_8bit" if re.search(r"8-?bit", text) else "adamw"


def first_flash_share(row: Row, framework: str) -> float:
    """Return the share of a run's attention that its first release computed: the mean where the row leaves it open.

    Rows of the second release say so (`flash2`). llm-foundry's runs are from before it.
    """
    if not re.fullmatch(r"flash( \(.*\))?", row.text("attention")):
        return 0.0
    return 1.0 if framework == "llm-foundry" else 0.5


def degree(row: Row, column: str) -> int:
    """Return a degree of parallelism: blank is 1, unless the sharding names that kind of parallelism."""
    value = row.count(column)
    if value is None and re.search(rf"\b{column}\b", row.text("sharding")):
        raise Incomplete(f"the degree of {column}")
    cores = CORES_PER_CHIP.get(row.text("framework"), 1) if column == "tp" else 1
    return max((value or 1) // cores, 1)


def lora_targets(row: Row) -> str | tuple[str, ...]:
    """Return the adapted layers, in the words of a scenario; all linear layers where they are not stated."""
    text = row.text("lora_targets")
    if not text or "all linear" in text or text == "default":
        return "all-linear"
    if "qkv" in text or text in ("default (c_attn)", "c_attn"):
        return ("q", "k", "v")
    known = read_techniques().linears.names | {"q", "k", "v", "o", "gate", "up", "down"}
    words = [_LINEARS.get(word, word) for word in re.split(r"[\s,]+", text.removesuffix(EMBEDDINGS_TOO)) if word]
    if "mlp" in words:
        words += ["gate", "up", "down"]
    found = tuple(dict.fromkeys(word for word in words if word in known))
    if not found:
        raise NotExpressible(f"adapters on {text}")
    return found


def trains_embeddings(row: Row) -> bool:
    """Return whether embedding and output layer are trained in full beside the adapters."""
    return row.text("lora_targets").endswith(EMBEDDINGS_TOO) or row.text("train_embeddings") == "yes"


def checkpointing_known(row: Row) -> bool:
    """Return whether a blank in the column leaves open what a fit depends on."""
    return bool(row.text("act_ckpt")) or not (checkpointing_open(row) or row.text("framework") in RECIPE_DECIDES)


def checkpointing_open(row: Row) -> bool:
    """Return whether the column is blank and the framework leaves it to its user: then both are averaged."""
    return not row.text("act_ckpt") and _usual_checkpointing(row) is None


def _usual_checkpointing(row: Row) -> str | None:
    """Return what the framework of a row does where its user says nothing; None where it is the user's choice.

    A framework that the estimate is made to forget still did what it does.
    """
    named = row.text("framework")
    if named == "litgpt" and "fsdp" in row.text("sharding"):
        return "full"
    if row.text("method") == "qlora" and FRAMEWORK_NAMES.get(named, named) in ("hf", "hf-fused"):
        return "full"  # the k-bit preparation turns it on
    return CHECKPOINTING_OF_REPOSITORIES.get(_repository(row), CHECKPOINTING_BY_DEFAULT.get(named))


def _repository(row: Row) -> str:
    """Return the repository that published a row, in lower case."""
    return row.source.split()[0].partition(":")[0].casefold() if row.source else ""


def keeps_16bit(row: Row) -> bool:
    """Return whether the trainer of a row leaves embedding and head of a 4-bit base in 16 bit."""
    return _repository(row) in PREPARES_ITSELF


def fuses_adapters(row: Row, network: Network) -> bool:
    """Return whether the fused kernels of a row include those of its adapters."""
    fused = row.text("loss_kernel").startswith(("fused", "liger")) and _quant(row) != "none"
    return fused and network.gated and _repository(row) in FUSES_ADAPTERS


def precision_known(row: Row) -> bool:
    """Return whether a row of full training says how many bytes its weights take, or its framework decides it."""
    open_to_user = row.text("framework") not in (*FP32_BY_DEFAULT, "nemo", "internevo", "deepspeed")
    full = row.text("method") in ("full", "pretrain")
    return bool(row.text("precision") or row.text("weights_dtype")) or not (full and open_to_user)


def precisions_of_row(row: Row) -> tuple[Row, ...]:
    """Return a row once for each precision that it allows, equally likely: fp32 and 16 bit where a flag decides."""
    if not precision_open(row):
        return (row,)
    return tuple(replace(row, cells={**row.cells, "precision": text}) for text in ("fp32", "fp16 mixed"))


def precision_open(row: Row) -> bool:
    """Return whether a row states no precision, and a flag of its framework decides between fp32 and 16 bit."""
    return row.text("framework") in FP32_BY_DEFAULT and not (row.text("precision") or row.text("weights_dtype"))


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
    """Return whether a Transformers class evaluated its loss on 16-bit logits, as far as dimensions and name tell.

    Up to 4.45 the classes with gated feed-forwards (Llama, Mistral, Gemma, Qwen2, Phi-3 ...) and none of the plain ones
    (GPT-2, GPTBigCode, GPT-NeoX, OPT, BLOOM, Falcon) cast logits to fp32, nor does the first Qwen (its
    modeling_qwen.py). Autocast does it for all; DeepSpeed computes without autocast.
    """
    casts = network.gated and not row.text("model").startswith("qwen-")
    return not casts and ("pure" in row.text("precision") or "zero" in _sharding(row))


def _quant(row: Row) -> str:
    text = row.text("weight_quant")
    for word, name in (("gptq", "gptq"), ("awq", "gptq"), ("int8", "int8"), ("dq", "nf4_dq"), ("nf4", "nf4")):
        if word in text:
            return "int8" if "int8" in text else name
    if text not in ("", "none"):
        raise NotExpressible(f"weights quantised as {text}")
    return "nf4" if row.text("method") == "qlora" else "none"


def _half_of_document(row: Row) -> str:
    """Return the 16-bit format that a row's document states next to its tables; an empty word where it does not."""
    if row.source not in BF16_NETWORKS:
        return ""
    return "bf16 mixed" if row.text("model") in BF16_NETWORKS[row.source] else "fp16 mixed"


def _precision(row: Row, card: GpuClass | None, lora: bool) -> str:
    text, weights = _half_of_document(row) or row.text("precision"), weights_dtype(row)
    if text == "fp32 (no tf32)" or text in OWN_PRECISIONS:
        return text.partition(" ")[0]
    if text.startswith("fp32"):
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
    """Return the kind, as the column says or the framework does; none where it is blank and the user's choice."""
    text = row.text("act_ckpt")
    if text == "none" or _PARTIAL.search(text):
        return "none"
    if text.startswith("full"):
        return "full"
    if text.startswith("selective"):
        return "selective"
    if text in ("offloaded", "all_offloaded"):
        return text
    if text:
        raise NotExpressible(f"activation checkpointing {text!r}")
    return _usual_checkpointing(row) or "none"


def _sharding(row: Row) -> str:
    text = row.text("sharding")
    gpus = row.count("num_gpus")
    if gpus is None:
        raise Incomplete("the number of GPUs")
    if gpus == 1:
        return "zero2" if row.text("method") in DEEPSPEED_ON_ONE_GPU.get(_repository(row), ()) else "none"
    usual = usual_sharding(row)
    if not text and usual is not None:
        return usual
    if not text:
        raise Incomplete("how the network is spread over its GPUs")
    if re.search(r"\bep\b", text) or (row.count("ep") or 1) > 1:
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


def usual_sharding(row: Row) -> str | None:
    """Return how the framework of a row spreads a network where its column is blank; None where that is open.

    Runs on more GPUs than a batch has sequences split sequences or layers, by degrees that a blank does not say.
    """
    gpus, batch = row.count("num_gpus") or 1, row.count("global_batch")
    splits = batch is not None and batch < gpus and not (row.count("tp") or row.count("cp"))
    return None if splits else SHARDING_BY_DEFAULT.get(row.text("framework"))


def _attention(row: Row, card: GpuClass | None, framework: str) -> str:
    text = row.text("attention")
    best = read_techniques().tried("attention", **vars(card))[0] if card is not None else "flash"
    if text.startswith("eager") or (not text and framework == "megatron-deepspeed"):
        return "eager"
    if named := re.match(r"flash([34])\b", text):
        return f"flash_{named[1]}"
    return "mem_efficient" if best == "flash" and "memory-efficient" in text else best


def weights_dtype(row: Row) -> str:
    """Return the type of the weights; where it is blank, litgpt's mixed precision means fp32 (Lightning)."""
    mixed = row.text("framework") == "litgpt" and "mixed" in row.text("precision")
    return row.text("weights_dtype") or ("fp32" if mixed else "")


def casts_each_product(row: Row) -> bool:
    """Return whether weights stay fp32 in the units that FSDP gathers, and autocast converts them for each product.

    FSDP with a policy of its own gathers 16-bit units instead; sources of that kind say that it upcasts the shards.
    """
    words = row.text("precision")
    sharded = "fsdp" in row.text("sharding") and "autocast" in words and "upcast" not in words
    return sharded and weights_dtype(row) == "fp32"


def zero_group(row: Row) -> int | None:
    """Return the ranks that share the states of a row, where it states them; they share a node."""
    found = re.search(r"\(group (\d+)\)", row.text("sharding"))
    return int(found[1]) if found else None


def optimizer_of_row(row: Row) -> str:
    """Return the optimizer in the words of the column; where it is blank, that of the framework's recipes."""
    alone = row.count("num_gpus") == 1 and row.text("method") == "full"
    stated, usual = row.text("optimizer"), SINGLE_GPU_OPTIMIZERS.get(row.text("framework"))
    if usual is None or not alone:
        return stated
    # The same recipes step inside the backward pass, whatever pages they use.
    return f"{stated} (optimizer step into backward)" if stated.startswith("paged") else stated or usual


def in_host_memory(row: Row, zero_stage: int) -> dict[str, Any]:
    """Return what a row keeps in host memory, as changes of `States`."""
    text = row.text("cpu_offload")
    if text in ("", "no", "activations", "activations to host"):
        if "offload" in row.text("sharding"):
            raise Incomplete("what lies in host memory")
        return {}
    weights, optimizer = "param" in text, "optimizer" in text
    if optimizer and "fsdp" in row.text("sharding"):
        weights = True  # PyTorch's CPU offload of FSDP moves the sharded weights, and with them all else
    if not weights and not optimizer:
        raise Incomplete("what lies in host memory")
    if weights and zero_stage < 3:
        raise NotExpressible("weights that are not sharded in host memory")
    return {"host_weights": int(weights), "host_optimizer": int(weights or optimizer)}


def optimizer_bytes(row: Row) -> dict[str, Any]:
    """Return the bytes of optimizers that a scenario cannot name, as changes of `States`, per trained parameter."""
    text = optimizer_of_row(row)
    changes: dict[str, Any] = {}
    if re.search(r"4-?bit", text):
        changes = {"optimizer_bytes": 1.06, "step_bytes": 0.0}
    elif "adafactor" in text:
        changes = {"optimizer_bytes": 0.02}
    elif "sgd" in text:
        changes = {"optimizer_bytes": 0.0}
    if re.search(r"in(to)? backward", text):
        changes |= {"step_bytes": 0.0, "steps_in_backward": 1}
    elif "fused" in text or row.text("adamw") == "fused":  # PyTorch's own column: fused kernels have no temporary
        changes |= {"step_bytes": 0.0}
    if "paged" in text:
        changes |= {"paged_optimizer": 1}
    return changes
