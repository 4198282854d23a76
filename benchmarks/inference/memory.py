"""Memory of generation against published peaks, of engines that take what they need and no pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.accuracy import scores
from benchmarks.accuracy.measurements import Row
from benchmarks.inference.rows import Measured, Unpredictable, measured
from planner.configurations.replicas.memory import widest_values
from planner.estimates.inference.activations import activation_bytes
from planner.estimates.inference.kv_cache import kv_bytes_per_token
from planner.library.schema import Architecture, Library
from planner.units import GB, GIB

KINDS = {"allocated": GIB, "reserved": GB, "nvidia-smi": GIB}
"""How a peak was read -> bytes of its unit: tensors, the pool of PyTorch's allocator, the whole GPU."""
WHOLE_GPU = "nvidia-smi"
FUSED_BESIDE, SCORED = ("autoawq",), ("autoawq",)
"""Engines that keep the projections to queries, keys and values beside their fused copy, and engines that write out the
scores of a prompt's attention (AutoAWQ 0.1: fused blocks, attention without a fused kernel)."""
SCORE_BYTES = 8.0
"""Of one score at the peak: in 16 bit, its softmax in 32 bit, and that in 16 bit again."""
FUSED_FAMILIES = ("falcon", "mpt", "bloom", "gpt_neox", "gpt2")
"""Families whose releases hold queries, keys and values as one matrix."""
WHOLE_CACHE = ("exllamav2",)
"""Engines that take the cache of the model's longest text at once, unless they are told another length."""
POOLS = ("deepspeed-mii", "optimum-nvidia")
"""Engines outside the table of engines that fill the GPU: blocks of DeepSpeed-FastGen, and TensorRT-LLM."""


class Peak(NamedTuple):
    """One row with its peak on one GPU, in bytes."""

    row: Measured
    kind: str
    measured: float
    predicted: float


def peak_bytes(row: Measured, architecture: Architecture, overhead: float) -> float:
    """Return the bytes on one GPU at the peak of a batch that is answered together.

    Weights, `overhead`, and the larger of two moments: the pass over the prompts with their cache, and the last token
    with the cache of the whole texts. Example: Mistral 7B of AutoAWQ, 8 prompts of 2,048 tokens on one GPU: weights
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
    begin, end = max(row.prompt, taken), max(row.prompt + row.output, taken)
    return weights + overhead + max(token * begin + activations, token * end)


def collect_peaks(rows: Sequence[Row], library: Library) -> tuple[list[Peak], dict[str, int]]:
    """Return the peaks that can be predicted, and how many cannot by reason; rows without a peak are none of them."""
    found: list[Peak] = []
    reasons: Counter[str] = Counter()
    overhead = library.calibrations["inference"].values.get("overhead_bytes", 0.0)
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
            more = overhead if kind == WHOLE_GPU else 0.0
            found.append(Peak(one, kind, stated * KINDS[kind], peak_bytes(one, architecture, more)))
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
