"""The spread of a memory figure: classes that decide it, and its display and tail spread."""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.accuracy.configurations import Configuration
from benchmarks.accuracy.measurements import Row
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK

USUAL_FRAMEWORKS = ("hf", "hf-fused")
"""The byte accounting of Transformers is known best: its classes are what was measured, not names."""


def memory_classes(row: Row, found: Configuration) -> tuple[str, str, str]:
    """Return what decides the spread of a row's memory: whose accounting it is, the GPUs, and the method."""
    accounting = found.framework
    if found.framework in USUAL_FRAMEWORKS:
        accounting = "allocated" if row.peak_kind == "allocated" else "reserved"
    elif found.framework != UNKNOWN_FRAMEWORK and not found.profiled:
        accounting = "documented"
    adapters = "lora" if found.recipe.method == "lora" else "full"
    method = "quantised" if found.states.quantised else adapters
    return accounting, "one_gpu" if found.layout.gpus == 1 else "several_gpus", method


def memory_sigmas(values: Mapping[str, float], row: Row, found: Configuration) -> tuple[float, float]:
    """Return display and tail spread of uncertain bytes from `values` of models/calibration/memory.yaml by key.

    The spread of the accounting, times a factor of the number of GPUs and one of the method (1 where none is listed).
    Transformers, one GPU, LoRA: `sigma_allocated` 0.08 x `sigma_one_gpu` 0.75 x `sigma_lora` 0.9 = 0.054.
    Tails are no lighter than a normal's, as in speed, so that the 95 % range always holds that of 68 %.
    """
    accounting, *factors = memory_classes(row, found)
    display, tail = (
        math.prod((values.get(f"{kind}_{name}", 1.0) for name in factors), start=values[f"{kind}_{accounting}"])
        for kind in ("sigma", "sigma_tail")
    )
    return display, max(display, tail)
