"""Measure memory and speed of training steps on one NVIDIA GPU, as rows that estimates can be judged by.

Models have the dimensions of public ones and random weights, made on the device, so nothing is downloaded.
Each configuration trains in a process of its own: running out of memory harms no other one.
README.md beside this file explains how to run it and what the columns mean.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the usual check starts CUDA, and no fork could use it afterwards
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import torch
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.llama.modeling_llama import LlamaRMSNorm

Row = dict[str, Any]
Report = Callable[[list[Row]], None]
Operation = tuple[str, Callable[[], Any], float, float]  # name, call, floating-point operations, bytes moved
STARTED = time.monotonic()
GIB = 2**30
LONG_S = 5.0  # of a longer step no other one is taken by phases: those of the first must do
CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
HAS = {name for name in ("peft", "bitsandbytes", "liger_kernel", "triton") if find_spec(name)}
if "peft" in HAS and "bitsandbytes" not in HAS:  # peft imports bitsandbytes, which may start CUDA in the parent
    import peft  # noqa: F401

TIED = {"tie_word_embeddings": True}
# class, billions of active parameters, hidden, ffn, layers, heads, kv heads, vocabulary, further settings
MODELS: dict[str, tuple[Any, ...]] = {
    "Qwen2.5-0.5B": ("Qwen2Config", 0.494, 896, 4864, 24, 14, 2, 151936, TIED),
    "Llama-3.2-1B": ("LlamaConfig", 1.236, 2048, 8192, 16, 32, 8, 128256, TIED),
    "Llama-3.2-3B": ("LlamaConfig", 3.213, 3072, 8192, 28, 24, 8, 128256, TIED),
    "Llama-3.1-8B": ("LlamaConfig", 8.030, 4096, 14336, 32, 32, 8, 128256, {}),
    "TinyLlama-1.1B": ("LlamaConfig", 1.100, 2048, 5632, 22, 32, 4, 32000, {}),
    "Mistral-7B-v0.3": ("MistralConfig", 7.248, 4096, 14336, 32, 32, 8, 32768, {"sliding_window": None}),
    "Qwen3-8B": ("Qwen3Config", 8.191, 4096, 12288, 36, 32, 8, 151936, {"head_dim": 128}),
    "Qwen3-14B": ("Qwen3Config", 14.768, 5120, 17408, 40, 40, 8, 151936, {"head_dim": 128}),
    "Gemma-3-1B": ("Gemma3TextConfig", 1.000, 1152, 6912, 26, 4, 1, 262144, TIED | {
        "head_dim": 256, "sliding_window": 512}),
    "OLMoE-1B-7B": ("OlmoeConfig", 1.282, 2048, 1024, 16, 16, 16, 50304, {"num_experts": 64, "num_experts_per_tok": 8}),
    "Qwen3-30B-A3B": ("Qwen3MoeConfig", 3.353, 2048, 6144, 48, 32, 4, 151936, {
        "head_dim": 128, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
        "norm_topk_prob": True}),
    "gpt-oss-20b": ("GptOssConfig", 3.610, 2880, 2880, 24, 64, 8, 201088, {
        "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128}),
    "tiny-llama": ("LlamaConfig", 0.001, 64, 128, 2, 4, 2, 512, TIED),
    "tiny-qwen3": ("Qwen3Config", 0.001, 64, 128, 2, 4, 2, 512, {"head_dim": 16}),
    "tiny-moe": ("Qwen3MoeConfig", 0.001, 64, 128, 2, 4, 2, 512, {
        "head_dim": 16, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}),
}  # fmt: skip
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
         "vocab_size")  # fmt: skip

# Model : method, rank and targets : length x micro-batch : flags. By value: a stop at any time leaves the best rows.
PLAN = """
Llama-3.1-8B:lora16:2048x1:ckpt            Llama-3.2-1B:full:2048x4               Llama-3.2-1B:full:2048x4:ckpt
Llama-3.1-8B:lora16:2048x2                 Llama-3.1-8B:full:2048x1:ckpt:pure     Qwen3-8B:lora16:8192x1:ckpt
Llama-3.2-1B:lora16:32768x1:ckpt           Qwen2.5-0.5B:full:512x16               Llama-3.2-3B:full:2048x2:ckpt
OLMoE-1B-7B:lora16attn:2048x4:ckpt         Mistral-7B-v0.3:lora16:8192x1:ckpt     Llama-3.2-3B:full:2048x2:autocast
micro                                      Qwen3-14B:lora16:2048x1:ckpt           Llama-3.1-8B:lora16:8192x1:ckpt:liger
Llama-3.1-8B:qlora16:2048x4:ckpt           Llama-3.1-8B:lora64:2048x4:ckpt        Llama-3.1-8B:lora16attn:2048x4:ckpt
Llama-3.2-1B:full:2048x4:liger             Llama-3.2-1B:full:2048x4:ckpt:accum4   Qwen2.5-0.5B:lora16:512x1
Llama-3.1-8B:lora16:512x16:ckpt            limit:Llama-3.2-1B:full:2048x12:ckpt   Qwen3-30B-A3B:lora16attn:2048x1:ckpt
Llama-3.2-1B:lora16:65536x1:ckpt:liger     Mistral-7B-v0.3:lora16attn:2048x2      Llama-3.2-1B:full:2048x1:eager
gpt-oss-20b:lora16attn:2048x1:ckpt:eager   Llama-3.2-3B:full:2048x2:ckpt:pure     Gemma-3-1B:full:2048x2:ckpt
limit:Qwen2.5-0.5B:full:2048x8             TinyLlama-1.1B:full:2048x16:ckpt       Llama-3.1-8B:lora16:2048x2:dropout0.05
Llama-3.1-8B:lora16:2048x1:ckpt:pure       Llama-3.2-1B:full:2048x4:ckpt:foreach  Llama-3.1-8B:lora16:32768x1:ckpt:liger
Llama-3.2-1B:full:2048x4:compile   Llama-3.2-1B:lora16:131072x1:ckpt:liger     limit:Llama-3.1-8B:lora16:2048x16:ckpt
Llama-3.2-3B:lora16:8192x2:ckpt            Qwen3-14B:qlora16:2048x2:ckpt          Llama-3.1-8B:lora16:2048x8:ckpt
TinyLlama-1.1B:lora16:32768x1:ckpt         Qwen3-8B:lora16:2048x1:ckpt:accum4     Qwen2.5-0.5B:lora16:2048x8:compile
""".split()  # noqa: SIM905
CPU_PLAN = ["tiny-llama:full:64x2:eager", "tiny-qwen3:lora4:64x2:ckpt:accum2", "tiny-moe:lora4attn:32x1:ckpt:pure",
            "micro", "limit:tiny-llama:full:32x2:fails-above-5"]  # fmt: skip
FLAGS = {"ckpt", "autocast", "pure", "accum", "dropout", "eager", "foreach", "liger", "compile", "fails-above"}


def parse(text: str) -> SimpleNamespace:
    """Return the configuration that an id says, such as `Llama-3.2-1B:lora16attn:2048x4:ckpt:accum4`."""
    model, method, shape, *flags = text.removeprefix("limit:").split(":")
    kind, rank, attn = re.fullmatch(r"(full|q?lora)(\d*)(attn)?", method).groups()
    seq, micro_batch = (int(part) for part in shape.split("x"))
    valued = dict(re.fullmatch(r"([a-z-]*[a-z])-?([\d.]*)", flag).groups() for flag in flags)
    if model not in MODELS or set(valued) - FLAGS:
        raise ValueError(text)
    needs = {"peft": rank, "liger_kernel": "liger" in flags, "bitsandbytes": kind == "qlora"}
    return SimpleNamespace(
        model=model, method=kind, rank=int(rank or 0), seq=seq, micro_batch=micro_batch, ckpt="ckpt" in flags,
        targets="" if kind == "full" else "q_proj,k_proj,v_proj,o_proj" if attn else "all linear",
        precision=next((flag for flag in flags if flag in ("autocast", "pure")), "mixed"),
        accum=int(valued.get("accum", 1)), dropout=float(valued.get("dropout", 0)), liger="liger" in flags,
        attention="eager" if "eager" in flags else "sdpa", optimizer="foreach" if "foreach" in flags else "fused",
        compile="compile" in flags, fails_above=int(valued.get("fails-above", 0)),
        lacks=[package for package, needed in needs.items() if needed and package not in HAS])  # fmt: skip


def estimated_s(name: str, timed_s: float) -> float:
    """Return rough seconds of a task, its steps at 350 TFLOP/s or bound by launches: enough to plan with."""
    if name == "micro":
        return 50.0
    config = parse(name)
    _, active, hidden, _, layers, heads, _, _, more = MODELS[config.model]
    passes, width = (3 if config.method == "full" else 2) + config.ckpt, heads * more.get("head_dim", hidden // heads)
    attention_flop = 2 * config.seq * width * layers * (3.5 + config.ckpt)
    flop = config.micro_batch * config.seq * (2e9 * active * passes + attention_flop)
    step = config.accum * max(flop / 3.5e14, layers * 7e-4 * passes)
    if name.startswith("limit:"):
        return 5 * (4 + 2 * step)
    return 4 + active / 10 + 3 * step + max(timed_s, step) + 60 * config.compile


def gib(figure: str) -> float | None:
    """Return a figure of torch's allocator, or what the driver says is used, in GiB."""
    if not CUDA:
        return None
    free, total = torch.cuda.mem_get_info()
    return round((total - free if figure == "device_used" else getattr(torch.cuda, figure)()) / GIB, 4)


def seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of a call on the clock and on the device."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * CUDA)]
    if CUDA:
        torch.cuda.synchronize()
        events[0].record()
    started = time.perf_counter()
    run()
    if CUDA:
        events[1].record()
        torch.cuda.synchronize()
    wall = time.perf_counter() - started
    return wall, events[0].elapsed_time(events[1]) / 1e3 if CUDA else wall


def quantise(model: torch.nn.Module) -> None:
    """Replace each linear layer but the head by its NF4 form, as loading with load_in_4bit does."""
    import bitsandbytes as bnb

    for name, linear in list(model.named_modules()):
        if type(linear) is torch.nn.Linear and not name.endswith("lm_head"):
            new = bnb.nn.Linear4bit(linear.in_features, linear.out_features, bias=linear.bias is not None,
                                    compute_dtype=torch.bfloat16, quant_type="nf4", device="meta")  # fmt: skip
            weight = bnb.nn.Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4", module=new)
            new.weight, new.bias = weight.to(DEVICE), linear.bias  # the move quantises
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, new)
    model.is_loaded_in_4bit = True


def build(config: SimpleNamespace) -> tuple[torch.nn.Module, Row]:
    """Return the model, ready to train, and what is known of it."""
    kind, _, *sizes, more = MODELS[config.model]
    settings = {"max_position_embeddings": 131072, "tie_word_embeddings": False} | more
    settings |= dict(zip(SIZES, sizes, strict=True))
    dtype = torch.float32 if config.method == "full" and config.precision == "mixed" else torch.bfloat16
    with torch.device(DEVICE):
        model = transformers.AutoModelForCausalLM.from_config(
            getattr(transformers, kind)(**settings), dtype=dtype, attn_implementation=config.attention)  # fmt: skip
    model.config.use_cache = False  # as the Trainer sets it
    facts = {"params_b": round(sum(p.numel() for p in model.parameters()) / 1e9, 6),
             "weights_dtype": "fp32" if dtype is torch.float32 else "bf16",
             "experts_implementation": getattr(model.config, "_experts_implementation", None)}  # fmt: skip
    checkpointing = {"gradient_checkpointing_kwargs": {"use_reentrant": False}}
    if config.rank:
        import peft

        if config.method == "qlora":
            quantise(model)
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=config.ckpt, **checkpointing)
        targets = "all-linear" if config.targets == "all linear" else config.targets.split(",")
        adapters = peft.LoraConfig(r=config.rank, lora_alpha=2 * config.rank, lora_dropout=config.dropout,
                                   target_modules=targets, task_type="CAUSAL_LM")  # fmt: skip
        with torch.device(DEVICE):
            model = peft.get_peft_model(model, adapters)
    if config.liger:
        from liger_kernel.transformers import _apply_liger_kernel_to_instance

        _apply_liger_kernel_to_instance(model=model.get_base_model() if config.rank else model)
    if config.ckpt:
        model.gradient_checkpointing_enable(**checkpointing)
    trained = [p for p in model.parameters() if p.requires_grad]
    facts |= {"trainable_params": sum(p.numel() for p in trained), "trained_dtype": str(trained[0].dtype)[6:]}
    return model.train(), facts


class AttentionKernels(TorchDispatchMode):
    """Notes the kernels that PyTorch chooses for scaled dot-product attention; its unfused form leaves none."""

    found: ClassVar[set[str]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "scaled_dot_product" in func.name() and not func.name().endswith("backward"):
            self.found.add(func.name().removeprefix("aten::_scaled_dot_product_"))
        return func(*args, **(kwargs or {}))


def make_step(config: SimpleNamespace, model: torch.nn.Module) -> Callable[..., float]:
    """Return a training step as transformers' Trainer takes it, without data loader, scheduler and logs."""
    parameters = list(model.parameters())
    fused = True if config.optimizer == "fused" else None  # the Trainer's adamw_torch_fused and adamw_torch
    optimizer = torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=1e-5, weight_decay=0.0, fused=fused)
    accelerator = Accelerator(mixed_precision="no" if config.precision == "pure" else "bf16", cpu=not CUDA,
                              dynamo_backend="inductor" if config.compile else None)  # fmt: skip
    # runs the forward pass under autocast and converts its outputs, logits too, to fp32
    prepared = accelerator.prepare_model(model, device_placement=False)
    shape, vocab = (config.micro_batch, config.seq), MODELS[config.model][7]
    items = torch.tensor(config.accum * config.micro_batch * config.seq, device=DEVICE)

    def step(mark: Callable[[str], None] = lambda _: None) -> float:
        for _ in range(config.accum):
            ids = torch.randint(0, vocab, shape, device=DEVICE)
            loss = prepared(input_ids=ids, labels=ids.clone(), num_items_in_batch=items).loss
            mark("forward")
            accelerator.backward(loss)
            value = float(loss.detach())  # the Trainer waits for each loss too, since it looks for nan
            mark("backward")
        accelerator.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mark("optimizer")
        return value

    return step


def by_phases(step: Callable[..., float], row: Row, prefix: str) -> None:
    """Train one step that waits after each phase; note its seconds, its peak and what stays allocated."""
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    last = time.perf_counter()

    def mark(phase: str) -> None:
        nonlocal last
        if CUDA:
            torch.cuda.synchronize()
            peak = f"{prefix}peak_{phase}_gib"
            row[peak] = max(row.get(peak, 0.0), gib("max_memory_allocated"))
            row.setdefault(f"{prefix}after_{phase}_gib", gib("memory_allocated"))
            torch.cuda.reset_peak_memory_stats()
        row[f"{prefix}{phase}_s"] = row.get(f"{prefix}{phase}_s", 0.0) + time.perf_counter() - last
        row["reached"], last = f"{prefix}{phase}", time.perf_counter()

    row["loss"] = step(mark)


def note_peaks(row: Row) -> None:
    """Note what was needed since the model was loaded; the first step has reset the peaks after each phase."""
    if CUDA:
        peaks = [gib("max_memory_allocated"), *(row[name] for name in row if name.startswith("first_peak_"))]
        row |= {
            "peak_mem_gb_per_gpu": max(peaks),
            "mem_unit": "GiB",
            "mem_kind": "torch max_memory_allocated",
            "alt_mem": gib("max_memory_reserved"),
            "alt_mem_kind": "torch max_memory_reserved",
            "device_used_gib": gib("device_used"),
            "alloc_retries": torch.cuda.memory_stats()["num_alloc_retries"],
        }


def time_steps(step: Callable[..., float], row: Row, timed_s: float, report: Report) -> None:
    """Train the second step and, as long as there are seconds, more; note what they took and needed."""
    pairs: list[tuple[float, float]] = []
    began = time.perf_counter()
    while not pairs or (time.perf_counter() - began < timed_s and len(pairs) < 300):
        pairs.append(seconds(step))
        if len(pairs) == 1:  # the first step with the states of the optimizer from its start
            note_peaks(row)
            row |= {"status": "ok", "reached": "second step"}
            report([row])
    walls, steps = zip(*(pairs[1:] or pairs), strict=True)
    middle = statistics.median(steps)
    row |= {"steps": len(steps), "step_time_s": middle, "step_wall_s": statistics.median(walls),
            "step_min_s": min(steps), "step_max_s": max(steps), "step_stdev_s": statistics.pstdev(steps),
            "samples_per_s": row["samples"] / middle, "tokens_per_s_total": row["tokens"] / middle,
            "tokens_per_s_per_gpu": row["tokens"] / middle}  # fmt: skip
    note_peaks(row)
    report([row])


def train(config: SimpleNamespace, timed_s: float, report: Report) -> None:
    """Measure a configuration; with no seconds to time, only whether two steps run and what they need."""
    samples = config.accum * config.micro_batch
    row: Row = {"status": "error", "reached": "", "samples": samples, "tokens": samples * config.seq}
    try:
        row["context_gib"] = gib("device_used")
        started = time.perf_counter()
        model, facts = build(config)
        if 0 < config.fails_above < config.micro_batch:
            raise torch.OutOfMemoryError("out of memory, says the CPU test")
        gc.collect()
        if CUDA:
            torch.cuda.empty_cache()
        row |= facts | {"build_s": time.perf_counter() - started, "load_gib": gib("memory_allocated")}
        row["reached"] = "load"
        step = make_step(config, model)
        with nullcontext() if config.compile else AttentionKernels():
            by_phases(step, row, "first_")
        row["attention_kernel"] = "+".join(sorted(AttentionKernels.found)) or ("" if config.compile else "unfused")
        time_steps(step, row, timed_s, report)
        if timed_s:
            row |= smi("clocks.sm,power.draw,temperature.gpu,memory.used")
            if row["step_time_s"] < LONG_S:
                by_phases(step, row, "")
            row["reached"] = "all"
    except Exception as error:
        traceback.print_exc()
        full = isinstance(error, torch.OutOfMemoryError) or re.search("out of memory|ALLOC_FAILED", str(error))
        row |= {"status": "oom" if full else row["status"], "error": f"{type(error).__name__}: {error}"[:400]}
        row["peak_before_error_gib"] = gib("max_memory_allocated")
    report([row])


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return random numbers on the device, with a gradient; zeros would run faster than real data."""
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)


def both(name: str, run: Callable[..., Any], inputs: tuple[Any, ...], work: tuple[float, float]) -> Iterator[Operation]:
    """Yield an operation forward, with its (FLOP, bytes), and backward, with its seconds alone."""
    yield f"{name} forward", partial(run, *inputs), *work
    result, trained = run(*inputs), [x for x in inputs if x.requires_grad]
    backward = partial(torch.autograd.grad, result, trained, torch.rand_like(result), retain_graph=True)
    yield f"{name} backward", backward, 0, 0


def operations(small: bool) -> Iterator[Operation]:
    """Yield what a step is made of, in bf16 as transformers computes it; bytes count each array once."""
    attention = partial(F.scaled_dot_product_attention, is_causal=True)
    for tokens in [16] if small else [4096, 16384, 1024, 65536]:
        for hidden, ffn in [(16, 32)] if small else [(2048, 8192), (4096, 14336), (5120, 27648)]:  # 1B, 7B, 32B
            for k, n in ((hidden, hidden), (hidden, ffn), (ffn, hidden), (hidden, 16)):  # the last as adapters have it
                work = (2 * tokens * k * n, 2 * (tokens * k + k * n + tokens * n))
                yield from both(f"linear {tokens}x{k}x{n}", F.linear, (normal(tokens, k), normal(n, k)), work)
    cases = [(length, dim, 8) for length in (2048, 8192, 32768, 131072) for dim in (128, 64)]
    for length, dim, kv_heads in [(32, 16, 8)] if small else [(8192, 128, 32), *cases]:
        batch = 1 if small else max(1, 8192 // length)
        qkv = tuple(normal(batch, heads, length, dim) for heads in (32, kv_heads, kv_heads))
        run, work = partial(attention, enable_gqa=kv_heads < 32), (64 * batch * length**2 * dim, 0)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION) if CUDA else nullcontext():
            yield from both(f"flash {batch}x{length} dim {dim} heads 32/{kv_heads}", run, qkv, work)
    for tokens, vocab in [(16, 100)] if small else [(4096, 32000), (4096, 128256), (4096, 151936)]:
        target = torch.randint(0, vocab, (tokens,), device=DEVICE)
        loss = lambda logits, target: F.cross_entropy(logits.float(), target)  # noqa: E731
        inputs: tuple[Any, ...] = (normal(tokens, vocab), target)
        yield from both(f"cross-entropy {tokens}x{vocab}", loss, inputs, (0, 2 * tokens * vocab))
    tokens, hidden, ffn = (16, 16, 32) if small else (16384, 4096, 14336)
    norm = LlamaRMSNorm(hidden).to(DEVICE, torch.bfloat16)
    yield from both(f"RMSNorm {tokens}x{hidden}", norm, (normal(tokens, hidden),), (0, 4 * tokens * hidden))
    swiglu, inputs = (lambda gate, up: F.silu(gate) * up), (normal(tokens, ffn), normal(tokens, ffn))
    yield from both(f"SwiGLU {tokens}x{ffn}", swiglu, inputs, (0, 6 * tokens * ffn))
    for vocab, tokens in [(100, 32)] if small else [(128256, 2048), (128256, 16384), (32000, 16384)]:
        inputs = (torch.randint(0, vocab, (tokens,), device=DEVICE), normal(vocab, hidden))
        yield from both(f"embedding {tokens} of {vocab}x{hidden}", F.embedding, inputs, (0, 4 * tokens * hidden))
    one = normal(1024).detach()
    yield "200 small kernels", lambda: [one.add_(1.0) for _ in range(200)], 0, 0
    count, size = (2, 1000) if small else (64, 2**23)
    for kind, dtype in (("fused", torch.float32), ("foreach", torch.float32), ("fused", torch.bfloat16)):
        weights = [normal(size, dtype=dtype) for _ in range(count)]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        step = torch.optim.AdamW(weights, lr=1e-5, **{kind: True}).step
        yield f"AdamW {kind} {str(dtype)[6:]} {count}x{size}", step, 0, 7 * count * size * dtype.itemsize
        del weights, weight, step
    size = 2**12 if small else 2**30
    a, b = (torch.randint(0, 255, (size,), dtype=torch.uint8, device=DEVICE) for _ in range(2))
    host = torch.ones(size, dtype=torch.uint8, pin_memory=CUDA)
    yield f"copy on the device {size}", lambda: a.copy_(b), 0, 2 * size
    yield f"copy host to device {size}", lambda: a.copy_(host, non_blocking=True), 0, size
    yield f"copy device to host {size}", lambda: host.copy_(b, non_blocking=True), 0, size


def micro(small: bool, report: Report) -> None:
    """Time single operations; the rows so far are there whenever it is stopped."""
    rows: list[Row] = []
    for name, run, flop, moved in operations(small):
        row: Row = {"id": "micro", "status": "ok", "operation": name}
        try:
            run()
            repeats = max(3, min(50, int(0.1 / max(seconds(run)[0], 1e-6))))
            took = statistics.median(seconds(run)[1] for _ in range(repeats))
            row |= {"seconds": took, "tflop_per_s": flop / took / 1e12, "gb_per_s": moved / took / 1e9}
        except Exception as error:
            row |= {"status": "error", "error": str(error)[:400]}
        rows.append(row)
        report(rows)


COLUMNS = """id source model params_b layers hidden heads kv_heads ffn vocab method lora_rank lora_targets weight_quant
precision optimizer gpu gpu_mem_gb num_gpus sharding tp pp cp act_ckpt cpu_offload attention compile micro_batch
grad_accum global_batch seq_len packed status peak_mem_gb_per_gpu mem_unit mem_kind alt_mem alt_mem_kind
tokens_per_s_total tokens_per_s_per_gpu samples_per_s step_time_s mfu tflops_per_gpu total_tokens wall_hours gpu_hours
quality notes framework loss_kernel weights_dtype""".split()  # noqa: SIM905
GPUS = {"H200": ("H200-SXM", 141), "H100 80GB HBM3": ("H100-SXM", 80), "H100 PCIe": ("H100-PCIe", 80),
        "A100-SXM4-80GB": ("A100-SXM", 80), "A100 80GB PCIe": ("A100-PCIe", 80), "B200": ("B200-SXM", 180)}  # fmt: skip


def smi(query: str) -> Row:
    """Return what nvidia-smi says; nothing where it fails."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError, IndexError, ValueError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()[0]
        return {f"smi_{name}": value.strip() for name, value in zip(query.split(","), answer.split(","), strict=True)}
    return {}


def machine_row() -> Row:
    """Return what the machine and its packages are."""
    row: Row = {"status": "ok", "gpu_name": "CPU", "python": sys.version.split()[0], "cpus": os.cpu_count()}
    for package in ("torch", "transformers", "accelerate", *sorted(HAS)):
        with suppress(metadata.PackageNotFoundError):
            row[package] = metadata.version(package)
    if CUDA:
        torch.zeros(1, device=DEVICE)
        card = torch.cuda.get_device_properties(0)
        row |= {"gpu_name": card.name, "memory_gib": card.total_memory / GIB, "gpu_count": torch.cuda.device_count()}
        row |= smi("driver_version,clocks.max.sm,clocks.max.mem,power.limit,pcie.link.gen.max,pcie.link.width.max")
    return row


def as_table(row: Row, machine: Row) -> Row:
    """Return a row of a training run under the columns of tables of published runs, and further ones."""
    config = parse(row["id"])
    known = next((names for part, names in GPUS.items() if part in machine["gpu_name"]), None)
    gpu, memory = known or (machine["gpu_name"], round(machine.get("memory_gib", 0)))
    words = {"mixed": "bf16 mixed", "autocast": "bf16 autocast, weights bfloat16",
             "pure": "bf16 compute, fp32 adapter" if config.rank else "bf16 pure"}  # fmt: skip
    names = ("hidden", "ffn", "layers", "heads", "kv_heads", "vocab")
    sizes = dict(zip(names, MODELS[config.model][2:8], strict=True))
    return dict.fromkeys(COLUMNS) | machine | sizes | {
        "source": "benchmarks/measure", "model": config.model, "method": config.method, "num_gpus": 1,
        "lora_rank": config.rank or None, "lora_targets": config.targets, "lora_dropout": config.dropout,
        "weight_quant": "nf4-dq" if config.method == "qlora" else "none", "precision": words[config.precision],
        "optimizer": "adamw", "adamw": config.optimizer, "gpu": gpu, "gpu_mem_gb": memory, "sharding": "none",
        "cpu_offload": "no", "act_ckpt": "full" if config.ckpt else "none", "attention": config.attention,
        "compile": "yes" if config.compile else "no", "seq_len": config.seq, "micro_batch": config.micro_batch,
        "grad_accum": config.accum, "global_batch": config.micro_batch * config.accum, "quality": "A",
        "framework": "hf", "packed": "yes (synthetic full length)", "loss_kernel": "liger" if config.liger else "hf",
        "notes": "random weights and tokens; steps as of transformers' Trainer"} | row  # fmt: skip


class Session:
    """Tasks in processes of their own until a deadline, and the files of their rows."""

    def __init__(self, out: Path, budget_s: float, small: bool) -> None:
        self.out, self.deadline, self.small, self.rows = out, STARTED + budget_s, small, []
        out.mkdir(parents=True, exist_ok=True)
        for method in ("fork", "spawn"):  # a fork has all packages at once, but CUDA may refuse to work in it
            self.context = multiprocessing.get_context(method)
            self.machine = self.run("machine")[0] | {"start_method": method}
            if self.machine["status"] == "ok":
                break
        else:
            sys.exit(f"the device cannot be used: see {out / 'log.txt'}")
        self.save([self.machine])

    def run(self, name: str, timed_s: float = 0.0, limit_s: float = 60.0) -> list[Row]:
        """Do a task in a process of its own, and return its rows as far as it came."""
        with tempfile.TemporaryDirectory() as folder:
            path, began = Path(folder) / "rows.json", time.monotonic()
            arguments = (name, timed_s, self.small, path, self.out / "log.txt")
            process = self.context.Process(target=work, args=arguments, daemon=True)
            process.start()
            try:
                process.join(max(1.0, min(limit_s, self.deadline - began)))
                ended = "time limit" if process.is_alive() else f"exit code {process.exitcode}"
            finally:  # also where this process is told to end
                process.kill()
                process.join()
            rows = json.loads(path.read_text()) if path.exists() else [{"status": "error"}]
        return [{"id": name} | row | {"ended": ended, "process_s": time.monotonic() - began} for row in rows]

    def limit(self, name: str) -> list[Row]:
        """Return rows of the largest micro-batch that runs and of the smallest that does not."""
        found: dict[str, Row] = {}
        low, high, micro_batch, share = 0, 0, parse(name).micro_batch, 1.0
        while self.deadline - time.monotonic() > 10 and high - low != 1:
            row = self.run(re.sub(r"x\d+(:|$)", rf"x{micro_batch}\1", name))[0]
            found[row["status"]] = row
            if row["status"] not in ("ok", "oom"):
                break
            if row["status"] == "ok":
                low = micro_batch
            else:
                high, share = micro_batch, 0.98 * share
            micro_batch = (low + high) // 2 if high else 2 * low
            if CUDA and low:  # what a sample adds to the states tells how many fit
                idle, peak = found["ok"]["first_after_optimizer_gib"], found["ok"]["peak_mem_gb_per_gpu"]
                usable = share * (self.machine["memory_gib"] - found["ok"]["context_gib"])
                guess = max(low + 1, int(low * (usable - idle) / (peak - idle)))
                micro_batch = guess if not high or guess < high else micro_batch
        return list(found.values())

    def save(self, rows: list[Row]) -> None:
        """Add rows to rows.jsonl, and write the tables again."""
        self.rows += rows
        with (self.out / "rows.jsonl").open("a") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
        runs = [row for row in self.rows if ":" in row["id"] and row["status"] in ("ok", "oom")]
        tables = {"training.csv": [as_table(row, self.machine) for row in runs],
                  "micro.csv": [row for row in self.rows if "operation" in row]}  # fmt: skip
        for file, table in tables.items():
            with (self.out / file).open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in table for name in row)))
                writer.writeheader()
                for row in table:
                    writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def work(name: str, timed_s: float, small: bool, path: Path, log: Path) -> None:
    """Do one task in a process of its own; the rows so far are always in the file `path`."""
    with log.open("a") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    print(f"---- {name}", flush=True)

    def report(rows: list[Row]) -> None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(rows))
        part.replace(path)

    if name == "machine":
        report([machine_row()])
    elif name == "micro":
        micro(small, report)
    else:
        train(parse(name), timed_s, report)


def main() -> None:
    """Run the plan, by value, as far as the budget reaches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", "--list", action="store_true", help="print the plan with estimated seconds")
    parser.add_argument("--only", metavar="ID[,ID]", help="do these instead of the plan; further ids can be made up")
    parser.add_argument("--budget-s", type=float, default=460, metavar="S", help="wall time, less imports (460)")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or "measured"), help="folder of results")
    parser.add_argument("--cpu-test", action="store_true", help="test the script with tiny models on the CPU")
    options = parser.parse_args()
    plan = options.only.split(",") if options.only else CPU_PLAN if options.cpu_test else PLAN
    try:
        fixed_s = sum(estimated_s(name, 0.0) for name in plan)
    except (AttributeError, KeyError, ValueError):
        parser.error(f"ids are MODEL:METHOD:LENGTHxBATCH:FLAG..., of {' '.join(MODELS)} {' '.join(sorted(FLAGS))}")
    timed_s = 0.2 if options.cpu_test else max(3.0, min(8.0, (options.budget_s - fixed_s) / len(plan)))
    expected_s = [estimated_s(name, timed_s) for name in plan]
    if options.dry:
        for name, alone, total in zip(plan, expected_s, accumulate(expected_s), strict=True):
            print(f"{name:44}{alone:5.0f} s, in all{total:5.0f} s")
        return
    if options.cpu_test == CUDA:
        sys.exit("hide the GPU from the CPU test (CUDA_VISIBLE_DEVICES=)" if CUDA else "no GPU; --cpu-test needs none")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    session = Session(options.out, options.budget_s, options.cpu_test)
    for name, expected in zip(plan, expected_s, strict=True):
        lacks = [] if name == "micro" else parse(name).lacks
        if lacks or expected > session.deadline - time.monotonic():
            rows = [{"id": name, "status": "skipped", "error": f"lacks {', '.join(lacks) or 'time'}"}]
        elif name.startswith("limit:"):
            rows = session.limit(name)
        else:
            rows = session.run(name, timed_s, limit_s=60.0 if name == "micro" else max(40.0, 2 * expected))
        session.save(rows)
        for row in rows[-2:]:
            figures = [row.get(name) or "" for name in ("peak_mem_gb_per_gpu", "step_time_s", "error")]
            print(f"{time.monotonic() - STARTED:5.0f} s  {row['id']:44}{row['status']:8}", *figures, flush=True)


if __name__ == "__main__":
    main()
