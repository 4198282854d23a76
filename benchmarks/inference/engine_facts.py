"""What engines are known to do that no column states: formats behind bare labels, caches, windows, earlier generations.

Facts of documentation and source code, each with its source; nothing here is fitted.
"""

from __future__ import annotations

import re
from dataclasses import replace

from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.configurations.serving import Serving
from planner.library.schema import GpuSpec

RENEWED = {"vllm": ((0, 8), "2025-03")}
"""First version of the present generation of an engine, and its month where a row names no version: the rewritten core
of vLLM (V1) became the default (release notes of 0.8.0)."""
OF_A_GENERATION = ("step_seconds", "sequence_seconds", "request_seconds")
"""What an older generation has a factor of its own for."""
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
}
"""Engines without a profile that launch kernels as one with a profile does: AutoGPTQ replaces the linear layers of
Transformers' models (its README); LitGPT runs PyTorch without compiling or graphs, and ONNX Runtime one operator after
another (compilation and CUDA graphs are options, off by default: their documentation); vllm-tpu is vLLM, ctransformers
binds llama.cpp, and optimum-nvidia builds engines of TensorRT-LLM (their READMEs)."""
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
_VERSION = re.compile(r"(\d{1,2})\.(\d+)")


def as_run(serving: Serving, engine: str, version: str, gpu: GpuSpec) -> Serving:
    """Return a configuration as an engine, named as in the table, ran it: without windows, weights through the slot."""
    if engine in STREAMED:
        return replace(serving, base={**serving.base, "bandwidth": PCIE_BYTES_PER_SECOND[gpu.pcie_gen]})
    stated = version_of(version)
    if engine in UNWINDOWED and stated is not None and stated < UNWINDOWED[engine]:
        return replace(serving, model=replace(serving.model, window=0, window_share=0.0))
    return serving


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
