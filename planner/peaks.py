"""Observed peaks of memory: the factor on what grows with the batch that explains them, and what else they teach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.estimates.fit import memory_lines
from planner.estimates.memory import estimate_memory
from planner.estimates.memory_states import MemoryCoefficients
from planner.estimates.pilot import log_memory_scale
from planner.grid import GridInputs, coefficients
from planner.library import Library
from planner.recipes import Recipe
from planner.scenario import Measured
from planner.units import GIB

STEPS = 60
"""Halvings of the search: a factor between its bounds to the last digit."""
KINDS = {"allocated": "allocated", "reserved": "reserved_uncapped", "device": "device_used"}
"""The figure of the estimate that a kind of peak is compared with."""
ROUNDING = 1e-9
"""Share by which the margin is lowered further, so that rounding rejects no batch that ran."""

Setting = tuple[object, ...]


def setting_of(recipe: Recipe, gpus: int) -> Setting:
    """Of a way, all that its memory depends on beside batch and lengths, which the estimate follows well."""
    return (
        recipe.method,
        recipe.weight_bits,
        recipe.precision,
        recipe.activation_checkpointing,
        recipe.sharding,
        recipe.attention,
        recipe.optimizer,
        recipe.tensor_parallel,
        recipe.pipeline_parallel,
        gpus,
    )


@dataclass(frozen=True)
class PeakScale:
    """What makes the estimate of a run equal to its observed peak."""

    predicted_gib: float  # of the same kind, before
    scale: float  # on all bytes that grow with the batch
    context_gib: float  # beside the network, where no plausible factor explains a high peak


@dataclass(frozen=True)
class Peak:
    """An observed peak with the run that it was observed in."""

    gpu: str
    inputs: GridInputs  # of one recipe on one machine
    batch: tuple[int, int]  # micro-batch and accumulation steps
    found: PeakScale


@dataclass(frozen=True)
class Probed:
    """What the peaks of one setting say of its other batches and lengths."""

    scale: float
    context_gib: float  # added
    phi: float
    margin: float
    margins: Mapping[str, float]  # by card: lower, where a run that the fit rule would reject did fit
    runs: int

    def margin_on(self, gpu: str) -> float:
        """Margin of the fit rule on a card."""
        return self.margins.get(gpu, self.margin)


def scale_of_peak(run: Measured, inputs: GridInputs, batch: tuple[int, int], library: Library) -> PeakScale:
    """The factor, by halving: no peak falls as it grows. `inputs` are of one recipe on one machine."""
    layout = replace(inputs.layout, micro_batch=float(batch[0]), accumulation=float(batch[1]))
    memory = MemoryCoefficients(**coefficients(library, "memory", MemoryCoefficients))

    def peak(scale: float) -> float:
        activations = replace(inputs.activations, scale=scale)
        told = estimate_memory(inputs.network, layout, inputs.states, activations, inputs.stack, memory)
        return float(getattr(told, KINDS[run.peak_kind or "allocated"]).reshape(-1)[0]) / GIB

    pilot = library.calibrations["pilot"]
    low, high = pilot.value("memory_scale_low"), pilot.value("memory_scale_high")
    observed, predicted = run.peak_vram_gib or 0.0, peak(1.0)
    if peak(low) >= observed:
        return PeakScale(predicted, low, 0.0)
    if peak(high) <= observed:
        return PeakScale(predicted, high, observed - peak(high))
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if peak(middle) < observed else (low, middle)
    return PeakScale(predicted, high, 0.0)


def probed_by(peaks: Sequence[Peak], library: Library) -> Probed:
    """What the peaks of one setting say together."""
    pilot, memory = library.calibrations["pilot"], library.calibrations["memory"]
    logs = [math.log(peak.found.scale) for peak in peaks]
    probed = Probed(
        scale=math.exp(log_memory_scale(logs, pilot.value("memory_half"))),
        context_gib=max(peak.found.context_gib for peak in peaks),
        phi=memory.value("phi_probed"),
        margin=memory.value("margin_probed"),
        margins={},
        runs=len(peaks),
    )
    margins: dict[str, float] = {}
    for peak in peaks:
        margins[peak.gpu] = min(margins.get(peak.gpu, probed.margin), _margin_that_fits(peak, probed, library))
    return replace(probed, margins=margins)


def _margin_that_fits(peak: Peak, probed: Probed, library: Library) -> float:
    """The margin at which the batch that ran passes the fit rule on its card."""
    inputs = peak.inputs
    stack = replace(
        inputs.stack,
        context_gib=inputs.stack.context_gib + probed.context_gib,
        margin=probed.margin,
        phi=probed.phi,
    )
    activations = replace(inputs.activations, scale=probed.scale)
    layout = replace(inputs.layout, accumulation=float(peak.batch[1]))
    coefficients_ = MemoryCoefficients(**coefficients(library, "memory", MemoryCoefficients))
    lines = memory_lines(inputs.network, layout, inputs.states, activations, stack, coefficients_)
    usable = inputs.hardware.usable_bytes
    over = float((lines.need(float(peak.batch[0]), usable) - usable).reshape(-1)[0])
    allocated = float(lines.allocated(float(peak.batch[0])).reshape(-1)[0])
    return probed.margin - max(0.0, over / allocated + ROUNDING) if over > 0 else probed.margin
