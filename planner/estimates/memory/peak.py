"""Memory of one GPU while training: peak, limiting phase, breakdown, what the driver shows, what must fit.

The peak is the maximum over the phases of a step, not their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.memory.activations import ActivationTerms, activation_terms
from planner.estimates.memory.fit import MemoryLines, build_memory_lines
from planner.estimates.memory.states import MemoryCoefficients, StaticTerms, static_terms
from planner.units import GIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.arrays import Floats
    from planner.estimates.inputs import Activations, Layout, Network, Numbers, Stack, States

PHASES = ("end of forward (logits)", "start of backward", "end of backward", "optimizer step", "load")
"""Names of the codes of `MemoryEstimate.phase`."""

_FORWARD, _BACKWARD, _BACKWARD_END, _STEP, _LOAD = range(5)

# The allocator leaves the driver this much of the usable memory (a convention of the formula).
_UNRESERVED_BYTES = 0.5 * GIB


@dataclass(frozen=True)
class MemoryBreakdown:
    """Bytes of every part that is alive in the limiting phase; one shape."""

    weights: Floats
    adapters: Floats
    optimizer: Floats
    gradients: Floats
    step_temporary: Floats  # of a non-fused optimizer step
    cast_weights: Floats  # 16-bit copies under autocast
    gathered_weights: Floats  # unsharded under stage 3
    gathered_gradients: Floats
    dequantised: Floats
    stored_activations: Floats
    working_set: Floats
    logits: Floats

    def total(self) -> Floats:
        """Sum of the parts, left to right."""
        total = np.zeros_like(self.weights)
        for part in fields(self):
            total = total + getattr(self, part.name)
        return total


@dataclass(frozen=True)
class MemoryEstimate:
    """One configuration per element; bytes per GPU."""

    allocated: Floats  # peak of live tensors = breakdown.total()
    phase: NDArray[np.int64]  # index into PHASES
    phases: Floats  # (5, ...) bytes of every phase
    reserved: Floats  # allocator, capped by the usable memory
    reserved_uncapped: Floats
    device_used: Floats  # what the driver shows
    need: Floats  # left side of the fit rule
    breakdown: MemoryBreakdown


def estimate_memory(
    network: Network,
    layout: Layout,
    states: States,
    activations: Activations,
    stack: Stack,
    coefficients: MemoryCoefficients,
    usable_bytes: Numbers = math.inf,
) -> MemoryEstimate:
    """Return the whole answer for display; `MemoryLines.need` is the cheap path for many candidates.

    `usable_bytes` caps `reserved` and decides which stage-3 plans are tight; without it neither happens.
    """
    static = static_terms(network, layout, states, coefficients)
    moving = activation_terms(network, layout, states, activations, coefficients)
    lines = build_memory_lines(static, moving, layout, states, stack, coefficients)
    batch = layout.micro_batch
    need = lines.need(batch, usable_bytes)
    phases = _phases(lines, batch, need.shape)
    phase = phases.argmax(axis=0)
    breakdown = _breakdown(static, moving, batch, phase)
    allocated = breakdown.total()
    uncapped = allocated + lines.cached(batch, allocated)
    room = np.subtract(usable_bytes, _UNRESERVED_BYTES)
    reserved = np.minimum(uncapped, np.maximum(allocated, room))
    megatron = np.not_equal(stack.megatron_context, 0)
    several = np.greater(layout.gpus, 1) & ~megatron
    context = (stack.context_gib + np.where(several, stack.nccl_gib, 0.0)) * float(GIB)
    return MemoryEstimate(
        allocated=allocated,
        phase=phase,
        phases=phases,
        reserved=reserved,
        reserved_uncapped=uncapped,
        device_used=np.where(megatron, allocated, reserved) + context,
        need=need,
        breakdown=breakdown,
    )


def _phases(lines: MemoryLines, micro_batch: Numbers, shape: tuple[int, ...]) -> Floats:
    """Return the bytes of the five phases, shape (5, ...)."""
    moving = [fixed + slope * micro_batch for fixed, slope in zip(lines.fixed[:3], lines.slopes, strict=True)]
    everything = [*moving, *lines.fixed[3:]]
    return np.stack([np.broadcast_to(np.asarray(values, dtype=float), shape) for values in everything])


def _breakdown(
    static: StaticTerms, moving: ActivationTerms, micro_batch: Numbers, phase: NDArray[np.int64]
) -> MemoryBreakdown:
    """Return the parts alive in the limiting phase of each element; a part that is not alive is 0."""
    forward, backward, backward_end = phase == _FORWARD, phase == _BACKWARD, phase == _BACKWARD_END
    step, load = phase == _STEP, phase == _LOAD
    computing = forward | backward | backward_end
    differentiating = backward | backward_end
    stored = np.maximum(moving.stored_first, moving.stored_last)
    gradients = np.where(forward | backward, static.early_gradients, static.gradients)
    gathered = np.where(forward, static.gathered_root, static.gathered_weights)
    stored_here = np.where(forward, moving.stored_last, np.where(backward, stored, 0.0))
    return MemoryBreakdown(
        weights=np.where(load, static.load, static.weights),
        adapters=np.where(load, 0.0, static.adapters),
        optimizer=np.where(load, 0.0, static.optimizer),
        gradients=np.where(load, 0.0, gradients),
        step_temporary=np.where(step, static.step_temporary, 0.0),
        cast_weights=np.where(computing, static.cast_weights, 0.0),
        gathered_weights=np.where(computing, gathered, 0.0),
        gathered_gradients=np.where(differentiating, static.gathered_gradients, 0.0),
        dequantised=np.where(backward, static.dequantised, 0.0),
        stored_activations=stored_here * micro_batch,
        working_set=np.where(differentiating, moving.working_set, 0.0) * micro_batch,
        logits=np.where(forward, moving.logits, 0.0) * micro_batch,
    )
