"""The spread of a memory figure: classes that decide it, and its display and tail spread."""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.accuracy.configurations import Configuration
from benchmarks.accuracy.measurements import Row
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK

USUAL_FRAMEWORKS = ("hf", "hf-fused")
"""The byte accounting of Transformers is known best: it is what the factors of the others are relative to."""
KINDS = ("allocated", "reserved", "device")
"""What was measured: bytes in live tensors, those that PyTorch's allocator holds, all that the driver shows."""


def memory_classes(row: Row, found: Configuration) -> tuple[str, ...]:
    """Return what decides the spread of a row's memory: the kind of figure first, then the classes that are factors.

    Those are whose accounting it is, the GPUs, the method, and whether states lie in host memory.
    """
    adapters = "lora" if found.recipe.method == "lora" else "full"
    classes = [row.peak_kind, "one_gpu" if found.layout.gpus == 1 else "several_gpus"]
    classes += ["quantised" if found.states.quantised else adapters]
    if found.framework == UNKNOWN_FRAMEWORK or found.profiled:
        classes += [] if found.framework in USUAL_FRAMEWORKS else [found.framework]
    else:
        classes.append("documented")
    return (*classes, "offload") if found.states.host_optimizer else tuple(classes)


def memory_sigmas(values: Mapping[str, float], row: Row, found: Configuration) -> tuple[float, float]:
    """Return display and tail spread of uncertain bytes from `values` of models/calibration/memory.yaml by key.

    The spread of the kind of figure, times a factor of each other class (1 where none is listed).
    Transformers, one GPU, LoRA: `sigma_allocated` 0.08 x `sigma_one_gpu` 0.75 x `sigma_lora` 0.9 = 0.054.
    Tails are no lighter than a normal's, as in speed, so that the 95 % range always holds that of 68 %.
    """
    kind, *factors = memory_classes(row, found)
    display, tail = (
        math.prod((values.get(f"{side}_{name}", 1.0) for name in factors), start=values[f"{side}_{kind}"])
        for side in ("sigma", "sigma_tail")
    )
    return display, max(display, tail)
