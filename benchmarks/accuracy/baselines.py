"""Rules of thumb that other calculators use, on the same rows: what our estimates have to beat."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.accuracy.configurations import Configuration
from planner.estimates.device import stack_parameters
from planner.units import GB

CONSTANT_MFU = 0.45
HARDWARE_UTILISATION = 0.5
_OVERHEAD = 1.2


def _shards(found: Configuration) -> float:
    """Return the GPUs that share the weights: tensor and pipeline ranks, and all replicas under stage 3."""
    recipe = found.recipe
    ranks = found.layout.data_parallel * found.layout.context if recipe.zero_stage == 3 else 1
    return float(recipe.tensor_parallel * recipe.pipeline_parallel * ranks)


def _load_bytes(found: Configuration) -> float:
    """Return the bytes per parameter of the weights as loaded: 0.5, 1, 2 or 4."""
    if found.recipe.weight_bits < 16:
        return found.recipe.weight_bits / 8
    return 4.0 if found.recipe.precision in ("fp32", "tf32") else 2.0


def _naive(found: Configuration) -> float:
    """Return 16 bytes per parameter trained in full, 2 under LoRA, 0.5 under QLoRA, and 20 % on top."""
    per_parameter = 16.0 if found.recipe.method == "full" else 2.0 * found.recipe.weight_bits / 16
    return _OVERHEAD * per_parameter * found.network.parameters


def _four_times(found: Configuration) -> float:
    """Return four times the size of the weights as loaded (weights, gradients, two moments)."""
    return 4.0 * _load_bytes(found) * found.network.parameters


def _weights(found: Configuration) -> float:
    return _load_bytes(found) * found.network.parameters


def _zero(found: Configuration) -> float:
    """Return the bytes of the ZeRO paper's stages for 16-bit training with Adam; N counts every GPU."""
    parameters, gpus = found.network.parameters, float(found.layout.gpus)
    if found.recipe.zero_stage == 3:
        return 4.0 * parameters / found.network.layers + 18.0 * parameters / gpus
    return 4.0 * parameters + 16.0 * parameters / gpus


MEMORY: dict[str, Callable[[Configuration], float]] = {
    "16/2/0.5 bytes per parameter + 20 %, divided by shards": lambda found: _naive(found) / _shards(found),
    "16/2/0.5 bytes per parameter + 20 %": _naive,
    "4 x weights as loaded, divided by shards": lambda found: _four_times(found) / _shards(found),
    "4 x weights as loaded": _four_times,
    "ZeRO-2 and ZeRO-3 formulas": _zero,
    "weights only, divided by shards": lambda found: _weights(found) / _shards(found),
}
"""Bytes per GPU by the rule's name."""


def _mfu(found: Configuration) -> float:
    """Return the speed at a constant MFU on 6 FLOP per active parameter and token, whatever is trained."""
    assert found.host is not None
    sheet = found.host.gpu.matmul16_tflops * 1e3 * GB
    return CONSTANT_MFU * sheet * float(found.layout.gpus) / (6.0 * found.network.active_parameters)


def _utilisation(found: Configuration) -> float:
    """Return the speed at a constant share of the hardware's FLOP: LoRA's saving and recomputation included."""
    assert found.host is not None
    sheet = found.host.gpu.matmul16_tflops * 1e3 * GB
    passes = 2.0 if found.recipe.method == "lora" else 3.0
    recomputed = 1.0 if found.recipe.activation_checkpointing == "full" else 0.0
    head = found.network.vocab * found.network.hidden
    flop = 2.0 * stack_parameters(found.network) * (passes + recomputed) + 2.0 * head * passes
    scores = 2.0 * found.network.layers * found.network.query_width * float(found.layout.sequence)  # causal half
    flop += scores * (passes + recomputed)
    return HARDWARE_UTILISATION * sheet * float(found.layout.gpus) / flop


THROUGHPUT: dict[str, Callable[[Configuration], float]] = {
    "constant MFU 0.45": _mfu,
    "constant HFU 0.5 on exact FLOP": _utilisation,
}
"""Tokens per second over all GPUs by the rule's name."""
