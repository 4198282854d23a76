"""Memory of one GPU of a replica: weights, the widest pass, the engine's own, and what is left for the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planner.estimates.inference.activations import CHUNK_TOKENS, activation_bytes
from planner.estimates.inference.kv_cache import cache_bytes
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.configurations.serving import Serving
    from planner.library.inference.engines import Engine
    from planner.library.schema import Architecture, Coefficient, GpuSpec

MOST_PROMPTS_AT_ONCE = 64
"""Prompts that one pass takes in at most, however short they are."""


class ReplicaMemory(NamedTuple):
    """Bytes on one GPU."""

    usable: float  # what the engine may take
    weights: float
    cache: float
    activations: float
    overhead: float

    @property
    def fixed(self) -> float:
        """All but the cache."""
        return self.weights + self.activations + self.overhead

    @property
    def parts(self) -> dict[str, float]:
        """The parts by name; they sum to what is used."""
        return {
            "weights": self.weights,
            "kv_cache": self.cache,
            "activations": self.activations,
            "overhead": self.overhead,
        }


def replica_memory(
    serving: Serving,
    architecture: Architecture,
    gpu: GpuSpec,
    engine: Engine,
    prompt: float,
    coefficients: Mapping[str, Coefficient],
    headroom: float | None = None,
) -> ReplicaMemory:
    """Return the memory of one GPU where prompts have `prompt` tokens at most.

    `headroom`: a share of the GPU that stays free, where that is more than the engine leaves by itself.
    """
    gpus = serving.tensor * serving.pipeline
    usable = gpu.usable_gib * GIB * min(engine.share, 1.0 - (headroom or 0.0))
    weights = float(serving.model.stored_weights) * serving.weight_bytes / gpus
    a = architecture
    chunk = min(CHUNK_TOKENS, max(prompt, 1) * min(engine.sequences, MOST_PROMPTS_AT_ONCE))
    activations = float(activation_bytes(a.hidden, widest_values(a), chunk, a.vocab, engine.sequences, serving.tensor))
    entry = coefficients.get("overhead_bytes")
    overhead = entry.value if entry else 0.0
    cache = float(cache_bytes(usable, weights, activations, overhead))
    return ReplicaMemory(usable, weights, cache, activations, overhead)


def widest_values(architecture: Architecture) -> int:
    """Return the values per token that go in and out of the widest product: those of the MLP of a layer."""
    a = architecture
    return (3 if a.gated else 2) * (a.ffn * max(1, a.experts_per_token) if a.experts else a.ffn)
