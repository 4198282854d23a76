"""Memory of generation against published peaks, of engines that take what they need and no pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from benchmarks.accuracy import scores
from benchmarks.accuracy.measurements import Row
from benchmarks.inference.rows import Measured, Unpredictable, measured
from planner.estimates.generation import activation_bytes, kv_bytes_per_token
from planner.generation.engine_recipes import widest_values
from planner.library.schema import Architecture, Library
from planner.units import GB, GIB, MEGA, MIB

KINDS = {"allocated": GIB, "reserved": GB, "nvidia-smi": 1024 * MEGA}
"""How a peak was read -> bytes of its unit: tensors, the pool of PyTorch's allocator, the whole GPU. The tracker behind
the last prints MB of 10^6 bytes (premAI-io/benchmarks, common/memory_tracker.py), and the table has them over 1,024."""
WHOLE_GPU, POOL = "nvidia-smi", "reserved"
CONTEXT_BYTES = 1343.0 * MIB
"""What kernels take once a first tensor is on a GPU (documentation of Transformers: model training anatomy). None of
the engines that are read so captures graphs."""
EARLIER_RUNS = {
    ("autogptq", "gptq-int4 (compute fp32)"): {"weight_format": "gptq-int4 (compute fp16)"},
    ("litgpt", "fp32"): {"weight_format": "fp16", "weight_bits": "16"},
    ("exllamav2", "int8"): {"weight_format": "int4", "weight_bits": "4"},
}
"""Engine and weights whose whole-GPU reading contains a run before it -> cells of that run. One process ran both, and
held the first model until the second was loaded (premAI-io/benchmarks: `make_report` of common/utils.py, and the order
in bench.py of each engine; Transformers and AutoAWQ drop the model first, CTranslate2 and llama.cpp give it back). The
8 bits of LitGPT, third in that order, read less than its 16 bits, so that they were run by themselves."""
ARENAS = ("onnxruntime",)
"""Engines whose arena grows to powers of two (ONNX Runtime: `arena_extend_strategy` is kNextPowerOfTwo by default)."""
ROUNDED_ON_GPU = ("torchao (gpt-fast style)",)
"""Engines that load 16 bits, round one matrix after another on the GPU and keep the space in PyTorch's pool, where the
pass over a prompt, which is not compiled, widens weights again (generate.py of torchao)."""
WIDENED_BYTES = {"float8wo": 6.0, "uintx-4-64-hqq": 9.0}
"""Formats whose widening takes more than the 16 bits of a weight: a product of 16 bits with a 32-bit scale; a byte and
two 32-bit integers (`dequantize_affine` of torchao/quantization/quant_primitives.py)."""
TUNED = ("gpt-fast", "torchao (gpt-fast style)")
TUNING_BYTES = 256e6
"""Engines that try variants of compiled kernels (`coordinate_descent_tuning`), and what Triton fills to empty the cache
of the GPU before each try (`do_bench` of triton/testing.py)."""
FUSED_BESIDE, SCORED = ("autoawq",), ("autoawq",)
"""Engines that keep the projections to queries, keys and values next to their fused copy, and those that write out the
scores of a prompt's attention (AutoAWQ 0.1: fused blocks, attention without a fused kernel)."""
SCORE_BYTES = 8.0
"""Of one score at the peak: in 16 bit, its softmax in 32 bit, and that in 16 bit again."""
FUSED_FAMILIES = ("falcon", "mpt", "bloom", "gpt_neox", "gpt2")
"""Families whose releases hold queries, keys and values as one matrix."""
WHOLE_CACHE = ("exllamav2",)
"""Engines that take the cache of the model's longest text at once, unless they are told another length."""
DEFAULT_CACHE = {"autoawq": 2048.0}
"""Engines that take a cache of so many tokens at once where a row names no lengths (`max_seq_len` of AutoAWQ)."""
POOLS = ("deepspeed-mii", "optimum-nvidia")
"""Engines outside the table of engines that fill the GPU: blocks of DeepSpeed-FastGen, and TensorRT-LLM."""


class Peak(NamedTuple):
    """One row with its peak on one GPU, in bytes."""

    row: Measured
    kind: str
    measured: float
    predicted: float


def peak_bytes(row: Measured, architecture: Architecture) -> float:
    """Return the bytes of tensors on one GPU at the peak of a batch that is answered together.

    Weights and the larger of two moments: the pass over the prompts with their cache, and the last token with the
    cache of the whole texts. Example: Mistral 7B of AutoAWQ, 8 prompts of 2,048 tokens on one GPU: weights
    4.15 GB, projections once more 0.42, cache 2.15, activations 0.9, scores 8.6, together 16.2 (measured: 18.1).
    """
    serving, batch = row.serving, 1.0 if row.batch != row.batch else row.batch / row.replicas
    gpus = serving.tensor * serving.pipeline
    weights = float(serving.model.stored_weights) * serving.weight_bytes / gpus
    if row.engine in FUSED_BESIDE and architecture.family not in FUSED_FAMILIES:
        a = architecture
        weights += a.layers * a.hidden * (a.heads + 2 * a.kv_heads) * a.head_dim * serving.weight_bytes / gpus
    token = batch * float(kv_bytes_per_token(serving.model, serving.kv_bytes, serving.tensor, serving.pipeline))
    prompts = max(row.prompt, 1.0) * batch
    hidden, widest = architecture.hidden, widest_values(architecture)
    activations = float(activation_bytes(hidden, widest, prompts, architecture.vocab, batch, serving.tensor))
    if row.engine in SCORED:
        activations += SCORE_BYTES * architecture.heads * prompts * max(row.prompt, 1.0) / serving.tensor
    taken = float(architecture.max_sequence) if row.engine in WHOLE_CACHE else 0.0
    if row.row.positive("input_tokens") is None:
        taken = max(taken, DEFAULT_CACHE.get(row.engine, 0.0))
    begin, end = max(row.prompt, taken), max(row.prompt + row.output, taken)
    return weights + max(token * begin + activations, token * end)


def read_bytes(row: Measured, architecture: Architecture, kind: str, library: Library) -> float:
    """Return what a reading of a kind shows of a run's peak: the whole GPU and pools hold more than its tensors."""
    engine, form = row.row.text("engine"), row.row.text("weight_format")
    tensors = peak_bytes(row, architecture)
    if kind == POOL:
        return tensors + kept_in_pool(row, architecture)
    if kind != WHOLE_GPU:
        return tensors
    if engine in ARENAS:
        tensors = 2.0 ** math.ceil(math.log2(tensors))
    before = EARLIER_RUNS.get((engine, form))
    if before is not None:
        earlier = measured(replace(row.row, cells={**row.row.cells, **before}), library)
        tensors += peak_bytes(earlier, architecture)
    return tensors + CONTEXT_BYTES


def kept_in_pool(row: Measured, architecture: Architecture) -> float:
    """Return the bytes that PyTorch's pool keeps of rounding and tuning.

    Of the largest matrix its 16 bits, or what widening it takes. Example: Llama 3 8B in 4 bits by torchao: the head of
    525 million weights, 1.05 GB, and 0.26 GB of tuning.
    """
    engine, a = row.row.text("engine"), architecture
    largest = float(max(a.vocab * a.hidden, a.ffn * a.hidden))
    rounded = engine in ROUNDED_ON_GPU and row.row.positive("weight_bits") != 16.0
    wide = WIDENED_BYTES.get(row.row.text("weight_format"), 2.0) if rounded else 0.0
    return wide * largest + (TUNING_BYTES if engine in TUNED else 0.0)


def collect_peaks(rows: Sequence[Row], library: Library) -> tuple[list[Peak], dict[str, int]]:
    """Return the peaks that can be predicted, and how many cannot by reason; rows without a peak are none of them."""
    found: list[Peak] = []
    reasons: Counter[str] = Counter()
    for row in rows:
        stated = row.positive("peak_mem_gb")
        if stated is None:
            continue
        kind = row.text("mem_kind")
        try:
            one = measured(row, library)
        except Unpredictable as why:
            reasons[str(why)] += 1
            continue
        if one.pool or row.text("engine") in POOLS:
            reasons["a pool of the engine, whatever is needed"] += 1
        elif kind not in KINDS:
            reasons["how memory was read is not stated"] += 1
        else:
            architecture = library.architecture(row.cells["model"])
            found.append(Peak(one, kind, stated * KINDS[kind], read_bytes(one, architecture, kind, library)))
    return found, dict(reasons.most_common())


def memory_figures(rows: Sequence[Row], library: Library) -> dict[str, Any]:
    """Return the errors of all peaks, by engine and by how they were read, and why others have no prediction."""
    peaks, reasons = collect_peaks(rows, library)
    groups = {"engine": lambda one: one.row.engine, "kind": lambda one: one.kind}
    by = {
        name: {
            label: _errors(members)
            for label, members in sorted(scores.grouped(peaks, key).items(), key=lambda item: -len(item[1]))
        }
        for name, key in groups.items()
    }
    return {**_errors(peaks), "by": by, "skipped": reasons}


def _errors(peaks: Sequence[Peak]) -> dict[str, Any]:
    return scores.errors([one.predicted / one.measured - 1.0 for one in peaks])
