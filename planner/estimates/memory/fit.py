"""The fit rule: the memory need of a configuration as lines in the micro-batch, with a margin.

Each phase of a training step needs `fixed + slope * micro_batch` bytes.
The need of the fit rule is a maximum of such lines, so the largest micro-batch is a division.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.memory.activations import ActivationTerms, activation_terms
from planner.estimates.memory.states import MemoryCoefficients, StaticTerms, static_terms
from planner.units import GIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.arrays import Floats
    from planner.estimates.inputs import Activations, Layout, Network, Numbers, Stack, States

TIGHT_SHARE = 0.8
"""Share of the usable memory above which `TIGHT_PHI` applies to a stage-3 plan."""

TIGHT_PHI = 0.5
"""Weight of fragmentation of a tight stage-3 plan: such runs failed (70B QLoRA on two GPUs at 85 %)."""

LARGEST_MICRO_BATCH = 2**31
"""The largest micro-batch where nothing grows with it."""


@dataclass(frozen=True)
class MemoryLines:
    """The phases of one step as lines in the micro-batch: `fixed` bytes and bytes per sequence.

    Phases 0..4: end of forward, start of backward, end of backward, optimizer step, load.
    All arrays broadcast with the arguments they were built from.
    """

    fixed: tuple[Numbers, Numbers, Numbers, Numbers, Numbers]
    slopes: tuple[Numbers, Numbers, Numbers]  # the last two phases do not depend on the micro-batch
    together_fixed: Numbers
    together_slope: Numbers
    fragments_slope: Numbers
    rho: float
    stage_three: NDArray[np.bool_]
    margin: Numbers
    phi: Numbers
    context_bytes: Numbers
    loads_whole: bool  # False: phase 4 is zero everywhere

    def allocated(self, micro_batch: Numbers) -> Floats:
        """Return the peak of the bytes in live tensors, per GPU; shape of the broadcast setup."""
        peak = np.maximum(self.fixed[0] + self.slopes[0] * micro_batch, self.fixed[3])
        for fixed, slope in zip(self.fixed[1:3], self.slopes[1:3], strict=True):
            peak = np.maximum(peak, fixed + slope * micro_batch)
        return np.asarray(np.maximum(peak, self.fixed[4]) if self.loads_whole else peak)

    def together(self, micro_batch: Numbers) -> Floats:
        """Sum of all phases, as if nothing were freed between them."""
        total = self.together_fixed + self.together_slope * micro_batch
        return np.asarray(np.maximum(total, self.fixed[4]) if self.loads_whole else total)

    def cached(self, micro_batch: Numbers, allocated: Numbers) -> Floats:
        """Return reserved minus allocated bytes, before any cap: the allocator's cache and fragmentation."""
        overlap = self.rho * (self.together(micro_batch) - allocated)
        return np.asarray(overlap + self.fragments_slope * micro_batch)

    def need(self, micro_batch: Numbers, usable_bytes: Numbers = math.inf) -> Floats:
        """Return the bytes of the fit rule: allocated * (1 + m) + phi * (reserved - allocated) + context.

        Fits where this is at most `usable_bytes`. Under stage 3, a need above `TIGHT_SHARE` of
        `usable_bytes` is judged again with `TIGHT_PHI`.
        """
        allocated = self.allocated(micro_batch)
        cached = self.cached(micro_batch, allocated)
        base = allocated * np.add(1.0, self.margin) + self.context_bytes
        need = base + self.phi * cached
        if not np.any(self.stage_three):
            return np.asarray(need)
        tight = self.stage_three & (need > np.multiply(TIGHT_SHARE, usable_bytes))
        return np.where(tight, base + np.maximum(self.phi, TIGHT_PHI) * cached, need)

    def largest_micro_batch(self, usable_bytes: Numbers) -> NDArray[np.int64]:
        """Return the largest micro-batch whose `need` is at most `usable_bytes`; 0 where one sequence does not fit."""
        if np.any(self.stage_three):
            # A stage-3 plan fits when it is not tight, or fits with the heavier fragmentation.
            tight_phi = np.where(self.stage_three, np.maximum(self.phi, TIGHT_PHI), self.phi)
            loose = self._crossing(np.multiply(TIGHT_SHARE, usable_bytes), self.phi)
            largest = np.maximum(self._crossing(usable_bytes, tight_phi), loose)
        else:
            largest = self._crossing(usable_bytes, self.phi)
        return np.asarray(np.floor(np.clip(largest, 0.0, LARGEST_MICRO_BATCH)), dtype=np.int64)

    def _crossing(self, usable_bytes: Numbers, phi: Numbers) -> Floats:
        """Return the micro-batch (real) at which the need of the fit rule reaches `usable_bytes`.

        With w = 1 + m - phi * rho the need is
        w * max_i phase_i(b) + phi * (rho * together(b) + fragments(b)) + context.
        """
        overlap = phi * self.rho
        weight = np.add(1.0, self.margin) - overlap
        room = (usable_bytes - self.context_bytes - overlap * self.together_fixed) / weight
        shared = (overlap * self.together_slope + phi * self.fragments_slope) / weight
        with np.errstate(divide="ignore", invalid="ignore"):
            # fmin drops the nan of 0 / 0: a phase that just fits and does not grow.
            crossing = np.divide(room - self.fixed[3], shared)
            for fixed, slope in zip(self.fixed[:3], self.slopes, strict=True):
                crossing = np.fmin(crossing, (room - fixed) / (slope + shared))
            if self.loads_whole:
                crossing = np.fmin(crossing, np.divide(room - self.fixed[4], shared))
                beyond = np.add(1.0, self.margin) * self.fixed[4] + self.context_bytes
                spare = np.subtract(usable_bytes, beyond)
                crossing = np.fmin(crossing, np.divide(spare, phi * self.fragments_slope))
        return np.asarray(np.where(np.isnan(crossing), LARGEST_MICRO_BATCH, crossing))


def memory_lines(
    network: Network,
    layout: Layout,
    states: States,
    activations: Activations,
    stack: Stack,
    coefficients: MemoryCoefficients,
) -> MemoryLines:
    """Return the lines of a configuration; `layout.micro_batch` is not read."""
    static = static_terms(network, layout, states, coefficients)
    moving = activation_terms(network, layout, states, activations, coefficients)
    return build_memory_lines(static, moving, layout, states, stack, coefficients)


def build_memory_lines(
    static: StaticTerms,
    moving: ActivationTerms,
    layout: Layout,
    states: States,
    stack: Stack,
    coefficients: MemoryCoefficients,
) -> MemoryLines:
    """Return the phases as lines from the terms that they sum."""
    base = static.weights + static.adapters + static.optimizer
    busy = base + static.cast_weights + static.gathered_weights
    after_forward = base + static.cast_weights + static.gathered_root
    backward = busy + static.gathered_gradients
    stored = np.maximum(moving.stored_first, moving.stored_last)
    held = base + static.gradients
    several = np.greater(layout.gpus, 1) & np.equal(stack.megatron_context, 0)
    context_gib = stack.context_gib + np.where(several, stack.fit_nccl_gib, 0.0)
    return MemoryLines(
        fixed=(
            after_forward + static.early_gradients,
            backward + static.dequantised + static.early_gradients,
            backward + static.gradients,
            held + static.step_temporary,
            static.load,
        ),
        slopes=(moving.stored_last + moving.logits, stored + moving.working_set, moving.working_set),
        together_fixed=backward + static.dequantised + static.gradients + static.step_temporary,
        together_slope=stored + moving.working_set + moving.logits,
        fragments_slope=moving.fragments,
        rho=coefficients.rho,
        stage_three=np.asarray(np.greater_equal(layout.zero_stage, 3)),
        margin=stack.margin,
        phi=stack.phi,
        context_bytes=context_gib * GIB,
        loads_whole=bool(np.any(states.load_whole)),
    )


def fit_probability(predicted_bytes: Numbers, available_bytes: Numbers, sigma: Numbers) -> Floats:
    """Return the probability that the measured peak stays within `available_bytes`, elementwise.

    Measured / predicted is taken as log-normal with median 1;
    `sigma` is the spread of ln(measured / predicted): 0.08 for allocated bytes of a known profile, 0.15 for
    reserved bytes, 0.30 for an unknown profile. `available_bytes` has the context taken off already.
    """
    room = np.maximum(np.asarray(available_bytes, dtype=float), 1.0)
    deviations = np.log(room / np.asarray(predicted_bytes, dtype=float)) / np.asarray(sigma, dtype=float)
    return np.asarray(_error_function_tail(-deviations / math.sqrt(2.0)), dtype=float) * 0.5


_error_function_tail = np.frompyfunc(math.erfc, 1, 1)
