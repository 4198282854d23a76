"""What the class of a network and the words of a row mean for types: loss, weights, k-bit preparation."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from benchmarks.accuracy.configurations import configuration_of
from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.predictions import Predictor
from planner.estimates.inputs import Activations, States
from planner.library.reading import read_library
from planner.library.schema import Library

# SantaCoder-1.1B (GPT-2's lineage: plain feed-forward, learned positions) in pure bf16 on one A100-80.
SANTACODER = {
    "source": "fms", "model": "SantaCoder-1.1B", "params_b": "1.124", "layers": "24", "hidden": "2048", "heads": "16",
    "kv_heads": "1", "ffn": "8192", "vocab": "49280", "method": "full", "precision": "bf16 pure",
    "weights_dtype": "bf16", "framework": "hf", "loss_kernel": "hf", "gpu": "A100", "gpu_mem_gb": "80",
    "num_gpus": "1", "sharding": "none", "act_ckpt": "full", "attention": "flash2", "micro_batch": "4",
    "grad_accum": "1", "seq_len": "2048", "packed": "yes", "status": "ok", "quality": "A",
}  # fmt: skip


@cache
def library() -> Library:
    """The shipped library, read once."""
    return read_library()


def set_up(**cells: str) -> tuple[States, Activations]:
    """States and activations of the row above with other cells; an empty one is unknown."""
    found: Any = configuration_of(Row(2, {k: v for k, v in {**SANTACODER, **cells}.items() if v}), library())
    return found.states, found.settings[0].activations


@pytest.mark.parametrize(
    ("cells", "logit_bytes"),
    [
        ({}, 8),
        ({"precision": "bf16 autocast"}, 14),
        ({"loss_kernel": "liger"}, 0.3),
        ({"model": "Mistral-7B", "params_b": "", "layers": "", "hidden": "", "vocab": ""}, 14),
    ],
)
def test_plain_classes_in_pure_16_bit_keep_their_loss_there(cells: dict[str, str], logit_bytes: float) -> None:
    """Four copies of two bytes where neither the class nor autocast casts the logits to fp32."""
    assert set_up(**cells)[1].logit_bytes == logit_bytes


def test_mixed_precision_of_litgpt_keeps_frozen_weights_in_fp32_with_16_bit_copies() -> None:
    """Lightning's autocast over fp32 weights: four bytes, and two more that the backward pass waits for."""
    adapters = {"method": "lora", "lora_rank": "8", "framework": "litgpt", "loss_kernel": "", "act_ckpt": "none"}
    mixed = set_up(**adapters, precision="bf16 mixed", weights_dtype="")[0]
    pure = set_up(**adapters, precision="bf16 pure", weights_dtype="")[0]
    assert (mixed.weight_bytes, mixed.cast_bytes) == (4.0, 2.0)
    assert (pure.weight_bytes, pure.cast_bytes) == (2.0, 0.0)


def test_an_8_bit_gptq_base_is_not_prepared_as_bitsandbytes_is() -> None:
    """Embedding, head and residual stream stay in 16 bit, and so the loss casts once."""
    quantised = {"method": "qlora", "lora_rank": "8", "precision": "bf16", "weights_dtype": ""}
    gptq, int8 = (set_up(**quantised, weight_quant=name) for name in ("int8-gptq", "int8"))
    assert (gptq[0].embedding_bytes, gptq[1].residual_bytes, gptq[1].logit_bytes) == (2.0, 2.0, 14)
    assert (int8[0].embedding_bytes, int8[1].residual_bytes, int8[1].logit_bytes) == (4.0, 4.0, 16)


@pytest.mark.parametrize(
    ("precision", "fp32"), [("fp16 compute, fp32 adapter", 1), ("fp16 mixed", 0), ("bf16 autocast, bf16 compute", 0)]
)
def test_a_prepared_base_without_autocast_spreads_its_fp32(precision: str, fp32: int) -> None:
    """Where a source names only the type that the quantised linears compute in, all else follows the prepared base."""
    quantised = {"method": "qlora", "lora_rank": "8", "weight_quant": "nf4", "weights_dtype": "", "gpu": "T4"}
    assert set_up(**quantised, gpu_mem_gb="16", precision=precision)[1].fp32_paths == fp32


@pytest.mark.parametrize(
    ("words", "sharding", "held"),
    [
        ("yes (params)", "fsdp", (1, 1)),
        ("optimizer+params", "zero3", (1, 1)),
        ("optimizer", "zero3", (0, 1)),
        ("optimizer", "fsdp", (1, 1)),  # FSDP moves the sharded weights, and all that hangs on them
        ("activations", "fsdp", (0, 0)),
        ("no", "fsdp", (0, 0)),
    ],
)
def test_what_lies_in_host_memory_is_read_from_its_words(words: str, sharding: str, held: tuple[int, int]) -> None:
    """Weights in host memory take the optimizer with them."""
    states = set_up(num_gpus="2", sharding=sharding, cpu_offload=words)[0]
    assert (states.host_weights, states.host_optimizer) == held


def test_litgpt_holds_a_head_of_its_own() -> None:
    """Llama-3.2-3B ties 128,256 x 3,072 weights that litgpt holds twice: 0.79 GB more in 16 bit."""
    same = {"model": "Llama-3.2-3B", "params_b": "", "layers": "", "hidden": "", "vocab": "", "loss_kernel": ""}
    one, two = (
        configuration_of(Row(2, {k: v for k, v in {**SANTACODER, **same, "framework": name}.items() if v}), library())
        for name in ("hf", "litgpt")
    )
    assert (one.network.tied, two.network.tied) == (True, False)
    assert two.network.parameters - one.network.parameters == 128_256 * 3_072


def test_a_blank_precision_leaves_a_fit_open_where_it_decides() -> None:
    """8 billion weights on two GPUs of 80 GB: 16-bit weights fit and fp32 masters do not."""
    cells = {
        **{"model": "Llama-3-8B", "method": "full", "gpu": "A100-SXM", "gpu_mem_gb": "80", "num_gpus": "2"},
        **{"sharding": "fsdp", "act_ckpt": "full", "micro_batch": "2", "seq_len": "2048", "status": "ok"},
        **{"framework": "hf", "loss_kernel": "hf", "quality": "B", "source": "s", "attention": "flash2"},
    }
    predictor = Predictor(read_library())
    blank = predictor.one(Row(2, cells))
    assert blank.need_bytes is None
    assert ("fit", "the precision") in blank.missing
    assert predictor.one(Row(2, {**cells, "precision": "bf16 pure", "weights_dtype": "bf16"})).fits
    assert not predictor.one(Row(2, {**cells, "precision": "bf16 mixed"})).fits


NF4 = {"method": "qlora", "weight_quant": "nf4", "precision": "", "weights_dtype": "", "optimizer": "adamw"}


def test_llama_factory_leaves_embedding_and_head_in_16_bit() -> None:
    """Its own preparation casts neither, so a 4-bit base has 2 bytes there, no fp32 residuals and a plain loss."""
    states, activations = set_up(**NF4, source="somebody/else:README.md")
    assert (states.embedding_bytes, activations.residual_bytes, activations.logit_bytes) == (4.0, 4.0, 16.0)
    states, activations = set_up(**NF4, source="hiyouga/LLaMA-Factory wiki")
    assert (states.embedding_bytes, activations.residual_bytes, activations.logit_bytes) == (2.0, 2.0, 14.0)
    assert states.weight_bytes == pytest.approx(0.5159)


def test_a_frozen_bitsandbytes_base_keeps_inputs_whoever_trains_it() -> None:
    """Its kernels save them (MatMul4Bit); torchao's, which torchtune quantises with, do not."""
    kept = [
        set_up(**NF4, act_ckpt="none", framework=name)[1].quantised_no_checkpoint_factor
        for name in ("hf", "litgpt", "", "torchtune")
    ]
    assert kept == [1, 1, 1, 0]


@pytest.mark.parametrize(("method", "bytes_per_logit"), [("qlora", 8.0), ("full", 8.0), ("lora", 14.0)])
def test_scripts_of_qwen_with_deepspeed_have_no_autocast(method: str, bytes_per_logit: float) -> None:
    """Its class casts no logits, and only the script for LoRA on one GPU runs without DeepSpeed."""
    cells = {"model": "Qwen-7B", "params_b": "7.721", "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "32"}
    cells |= {"ffn": "11008", "vocab": "151936", "method": method, "precision": "bf16 mixed", "weights_dtype": ""}
    cells |= {"weight_quant": "int4-gptq" if method == "qlora" else "none"}
    assert set_up(**cells, source="QwenLM/Qwen:README.md")[1].logit_bytes == bytes_per_logit
    assert set_up(**cells, source="somebody/else:README.md")[1].logit_bytes == 14.0


def test_adapters_of_a_run_in_pure_16_bit_are_of_16_bit() -> None:
    """Where no framework says otherwise: PEFT keeps them in fp32."""
    lora = {"method": "lora", "precision": "bf16 pure"}
    assert set_up(**lora, framework="")[0].adapter_bytes == 2.0
    assert set_up(**lora, framework="hf")[0].adapter_bytes == 4.0


def test_an_open_number_format_is_averaged() -> None:
    """Megatron trains in fp32 unless a flag says otherwise, so a blank may be either."""
    cells = {"framework": "megatron-deepspeed", "precision": "", "weights_dtype": "", "loss_kernel": "megatron"}
    row = Row(2, {k: v for k, v in {**SANTACODER, **cells}.items() if v})
    found = configuration_of(row, library())
    assert [(one.share, one.activations.element_bytes) for one in found.settings] == [(0.5, 4), (0.5, 2)]
    assert len(configuration_of(Row(2, {**row.cells, "precision": "bf16"}), library()).settings) == 1


@pytest.mark.parametrize(("model", "sums"), [("GPT-181B", 0.0), ("GPT-176B", 4.0)])
def test_a_document_says_which_of_its_networks_trained_in_bf16(model: str, sums: float) -> None:
    """The preparation of BLOOM names both formats in its column, and in its text from which table on it was bf16."""
    source = "bigscience-workshop/bigscience:train/tr11-176B-ml/chronicles-prequel.md"
    cells = {"framework": "megatron-deepspeed", "precision": "fp16/bf16 mixed", "weights_dtype": "", "model": model}
    cells |= {"source": source, "sharding": "zero1", "num_gpus": "2", "loss_kernel": "megatron"}
    row = Row(2, {k: v for k, v in {**SANTACODER, **cells}.items() if v})
    assert configuration_of(row, library()).states.extra_gradient_bytes == sums
