"""What engines are known to do that no column states: formats behind bare labels, caches, windows, earlier generations.

Facts of documentation and source code, each with its source; nothing here is fitted.
"""

from __future__ import annotations

import re
from dataclasses import replace

from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.estimates.generation import ServedModel
from planner.generation.engine_recipes import Serving
from planner.library.schema import Architecture, GpuSpec

RENEWED = {"vllm": ((0, 8), "2025-03")}
"""First version of the present generation of an engine, and its month where a row names no version: the rewritten core
of vLLM (V1) became the default (release notes of 0.8.0)."""
OF_A_GENERATION = ("step_seconds", "sequence_seconds", "request_seconds")
"""What an older generation has a factor of its own for."""
OF_AN_OLDER_AMD = {
    "bandwidth": "memory",
    "cache_bandwidth": "memory",
    "flops": "products",
    "attention_flops": "attention_flops",
}
"""What such a generation on AMD's GPUs has another factor for, quantity to the beginning of its key: kernels of ROCm
were tuned afterwards, so that a row of 2024 says little of a plan of today."""
BARE_LABELS = {
    ("gpt-fast", "int8"): "int8-weights",
    ("hf", "int8"): "bnb-int8",
    ("litgpt", "int8"): "bnb-int8",
    ("torchao (gpt-fast style)", "int8dq"): "int8-widened",
    ("torchao (gpt-fast style)", "uintx-4-64-hqq"): "int4-unpacked",
}
"""What a label without a method means to an engine: gpt-fast rounds the weights alone (its README, int8 weight-only);
`load_in_8bit` of Transformers and `bnb.int8` of LitGPT are LLM.int8() (their documentation of quantization); the
dynamic 8-bit products of torchao need more than 16 rows, with fewer its fallback turns the weights into 32-bit integers
(`safe_int_mm` of torchao/kernel/intmm.py); its packed bits of any width have no kernel of their own and are unpacked to
16 bits first (torchao/dtypes/uintx)."""
LIKE = {
    "autogptq": "hf",
    "litgpt": "hf",
    "onnxruntime": "hf",
    "vllm-tpu": "vllm",
    "ctransformers": "llama.cpp",
    "optimum-nvidia": "trt-llm",
    "fastertransformer": "trt-llm",
}
"""Engines without a profile that launch kernels as one with a profile does: AutoGPTQ replaces the linear layers of
Transformers' models (its README); LitGPT runs PyTorch without compiling or graphs, and ONNX Runtime one operator after
another (compilation and CUDA graphs are options, off by default: their documentation); vllm-tpu is vLLM, ctransformers
binds llama.cpp, optimum-nvidia builds engines of TensorRT-LLM, and FasterTransformer, "on top of CUDA, cuBLAS,
cuBLASLt and C++", is what NVIDIA went on from to TensorRT-LLM (their READMEs)."""
STREAMED = ("deepspeed-zero-inference",)
"""Engines that keep the weights in host memory and read them through the slot in each step (documentation of
ZeRO-Inference)."""
UNWINDOWED = {"trt-llm": (1, 0)}
"""First version from which an engine follows a model's sliding windows by itself: the TensorRT backend of TensorRT-LLM
has one window for all layers, set at run time, by default the longest text (its documentation of attention: sliding
window, `max_attention_window_size`)."""
CACHES_8_BIT = (("trt-llm", "fp8"), ("trt-llm", "nvfp4"))
"""Engines and weights whose cache has 8 bits where a row does not say: the checkpoints that NVIDIA publishes in these
formats set an FP8 cache (`kv_cache_quant_algo` of hf_quant_config.json), which TensorRT-LLM follows, and its table of
speeds names them (docs/source/performance/perf-overview.md)."""
KEPT_IN_16_BIT = (("vllm", "llama-3.1-405b", "fp8", "NVIDIA"),)
"""Engine, model, format and vendor whose released checkpoint keeps attention and the first and last layer in 16 bit:
Meta's FP8 weights of its largest model (arXiv:2407.21783, section 6.2). They weigh 61 GB on each of eight GPUs (log of
vLLM in dstackai/benchmarks, gpu-usage.md: 56.77 GiB); AMD publishes one with all layers in 8 bit."""
WHOLE_PROMPTS = ("vllm",)
"""Engines whose earlier generation tries its longest text in one pass and gives the cache what is left. vLLM cut
prompts into chunks by itself only on NVIDIA's GPUs and for models of more than 32,768 tokens (`EngineArgs`, 0.6), and
its script for batches switched that off by default (`benchmark_throughput.py`, 0.6)."""
CHUNKED_FROM = 32_768.0
"""Tokens of the longest text beyond which it did."""
_VERSION = re.compile(r"(\d{1,2})\.(\d+)")


def as_run(serving: Serving, engine: str, version: str, gpu: GpuSpec) -> Serving:
    """Return a configuration as an engine, named as in the table, ran it: without windows, weights through the slot."""
    if engine in STREAMED:
        return replace(serving, base={**serving.base, "bandwidth": PCIE_BYTES_PER_SECOND[gpu.pcie_gen]})
    stated = version_of(version)
    if engine in UNWINDOWED and stated is not None and stated < UNWINDOWED[engine]:
        return replace(serving, model=replace(serving.model, window=0, window_share=0.0))
    return serving


def kept_in_16_bit(architecture: Architecture, model: ServedModel, weight_bytes: float) -> ServedModel:
    """Return a model whose attention and whose first and last layers weigh 16 bit, in weights of `weight_bytes`.

    Example: 126 layers of 570 million weights of attention and two of 2.6 thousand million: 77 GB more at 8 bit.
    """
    a = architecture
    attention = 2.0 * a.hidden * (a.heads + a.kv_heads) * a.head_dim
    more = (a.layers * attention + 2.0 * 3.0 * a.hidden * a.ffn) * (2.0 / weight_bytes - 1.0)
    return replace(model, dense_weights=model.dense_weights + more, stored_weights=model.stored_weights + more)


def tries_whole_prompts(engine: str, older: bool, mode: str, gpu: GpuSpec, longest: float) -> bool:
    """Return whether the engine's trial pass before it sizes the cache takes in its longest text at once."""
    chunked = gpu.vendor == "NVIDIA" and longest > CHUNKED_FROM and mode != "fixed-batch"
    return engine in WHOLE_PROMPTS and older and not chunked


def trial_bytes(each: float, cached: float, room: float, longest: float) -> float:
    """Return the bytes on one GPU of a trial pass over the longest text, given those of one token in the pass.

    Where memory does not hold that text's pass and its cache (`cached` bytes a token), the longest text is shortened
    until it does: the engine refuses to start otherwise. Example: 13 GB of room, 171 and 65 kB a token: 56,000 tokens,
    whose pass takes 9.5 GB.
    """
    return each * min(longest, max(room, 0.0) / (each + cached))


def version_of(text: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version; None where a text has none."""
    stated = _VERSION.match(text)
    return (int(stated[1]), int(stated[2])) if stated else None


def is_older(engine: str, version: str, date: str) -> bool:
    """Return whether a run used a generation of its engine before the present one; what is not stated is none."""
    if engine not in RENEWED:
        return False
    first, month = RENEWED[engine]
    stated = version_of(version)
    return stated < first if stated is not None else "" < date < month
