"""Memory of one recipe on one machine: GiB by part, the limiting phase, and the probability that it fits."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace

import numpy as np

from planner.configurations.coefficients import recipe_spread
from planner.configurations.compared_runs import NO_CORRECTION, Correction
from planner.configurations.grid import JobShape, Machine, grid_inputs
from planner.configurations.recipe import Recipe
from planner.estimates.inputs import Layout, TimedSetup
from planner.estimates.memory_fit import (
    PHASES,
    MemoryEstimate,
    MemoryLines,
    estimate_memory,
    fit_probability,
    host_bytes,
    memory_lines,
    with_paging,
)
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.uncertainty import MemorySpread
from planner.library.schema import ImageSize, ImageTokens, ImageWork, Library
from planner.results.plan_parts import HostMemory, Vram
from planner.scenario.job import Job
from planner.units import GB, GIB

MOST_PIXELS, UNET_MULTIPLE = 16_384, 64
"""Pixels per side beyond which no larger image is looked for, and of which sides of a U-Net are multiples."""


@dataclass(frozen=True)
class MemoryEvaluator:
    """Memory of one recipe on one machine at any batch and sequence length."""

    inputs: TimedSetup
    coefficients: MemoryCoefficients
    usable_gib: float
    several_gpus: bool
    spread: MemorySpread  # of what is uncertain, as observed peaks leave it

    @classmethod
    def of(
        cls,
        job: Job,
        shape: JobShape,
        recipe: Recipe,
        machine: Machine,
        headroom: float | None,
        library: Library,
        learned: Correction = NO_CORRECTION,
    ) -> MemoryEvaluator:
        """Return the evaluator.

        `headroom` (a share) replaces the margin of the fit rule, `learned` are corrections from observed peaks.
        """
        inputs = learned.correct_memory(grid_inputs(job, shape, [recipe], [machine], library), [recipe], [machine])
        if headroom is not None:
            inputs = replace(inputs, stack=inputs.stack.with_margin(headroom))
        before = recipe_spread(recipe, library)
        spread = learned.fit_spread(before, recipe, machine.gpus, library)
        return cls(
            inputs,
            MemoryCoefficients.of(library.calibrations["memory"].values),
            as_scalar(inputs.hardware.usable_bytes) / GIB,
            machine.gpus > 1,
            spread,
        )

    def at(self, micro_batch: float, accumulation: float, sequence: float | None = None) -> MemoryEstimate:
        """Return the bytes of a batch; `sequence` (tokens) replaces the longest sequence of the job."""
        layout = replace(self._layout(accumulation, sequence), micro_batch=float(micro_batch))
        return estimate_memory(replace(self.inputs, layout=layout), self.coefficients, self.usable_gib * GIB)

    def need_gib(self, micro_batch: float, accumulation: float, sequence: float | None = None) -> float:
        """Return the left side of the fit rule in GiB."""
        return as_scalar(self._lines(accumulation, sequence).need(micro_batch, self.usable_gib * GIB)) / GIB

    def fits(self, micro_batch: float, accumulation: float, sequence: float | None = None) -> bool:
        """Return whether the need is at most the usable memory of the GPU."""
        return self.need_gib(micro_batch, accumulation, sequence) <= self.usable_gib

    def largest_micro_batch(self, accumulation: float) -> int:
        """Return the largest micro-batch that fits; 0 where one sequence does not."""
        return int(as_scalar(self._lines(accumulation, None).largest_micro_batch(self.usable_gib * GIB)))

    def evaluation_sequences(self, sequence_bytes: float) -> int:
        """Return the sequences of a batch of evaluation that fit, `sequence_bytes` of logits each."""
        lines = self._lines(1, None)
        return int(as_scalar(lines.evaluation_sequences(self.usable_gib * GIB, sequence_bytes)))

    def longest_sequence(self, micro_batch: float, accumulation: float, most: int = 2**24) -> int:
        """Return the tokens of the longest sequence that fits, at most `most`; 0 where one token does not.

        By bisection: the need never falls as the sequence grows.
        """
        low, high = 0, 1
        while high <= most and self.fits(micro_batch, accumulation, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(micro_batch, accumulation, middle) else (low, middle)
        return min(low, most)

    @property
    def encoders_gib(self) -> float:
        """Memory of the text encoders and the autoencoder of a network of images; 0 where their outputs are cached."""
        return as_scalar(self.inputs.stack.encoders_gib)

    def largest_resolution(self, image: ImageTokens | ImageWork, size: ImageSize) -> int:
        """Return the pixels per side of the largest images, or videos of as many frames, that fit one by one.

        0 where none does; `MOST_PIXELS` where all do. Sides are whole tokens of the network, of a U-Net multiples of
        `UNET_MULTIPLE`.
        """
        longest = self.longest_sequence(1, 1)
        step = image.pixels_per_token if isinstance(image, ImageTokens) else UNET_MULTIPLE
        sides = range(step, MOST_PIXELS + 1, step)
        sized = bisect.bisect_right(
            sides, float(longest), key=lambda side: image.memory_tokens(replace(size, resolution=side))
        )
        return sides[sized - 1] if sized else 0

    def vram(self, estimate: MemoryEstimate) -> Vram:
        """Return an estimate as a plan states it."""
        allocated, need = as_scalar(estimate.allocated), as_scalar(estimate.need)
        widest = as_scalar(estimate.widest_margin(self.spread.known_share))
        return Vram(
            peak=need / GIB,
            allocated=allocated / GIB,
            usable=self.usable_gib,
            fit_probability=as_scalar(fit_probability(widest, self.spread.sigma, self.spread.most)),
            phase=PHASES[int(as_scalar(estimate.phase))],
            parts={name: as_scalar(part) / GIB for name, part in estimate.breakdown.items()},
            set_aside=self.inputs.stack.encoders,
        )

    def host_memory(self, micro_batch: float, accumulation: float, machine: Machine) -> HostMemory | None:
        """Return what states take of the memory of a host: offloaded ones, and pages that leave the card, else None."""
        layout = replace(self._layout(accumulation, None), micro_batch=float(micro_batch))
        inputs = with_paging(replace(self.inputs, layout=layout), self.coefficients)
        each = host_bytes(inputs, self.coefficients)
        taken_gb = as_scalar(each) * as_scalar(inputs.layout.gpus_per_node) / GB
        if not taken_gb or machine.ram_gb is None:
            return None
        return HostMemory(taken_gb=taken_gb, total_gb=machine.ram_gb, assumed=machine.assumes_ram)

    @property
    def context_gib(self) -> float:
        """Return the context of the fit rule, not the larger one that a monitor shows."""
        stack = self.inputs.stack
        return as_scalar(stack.context_gib) + (as_scalar(stack.fit_nccl_gib) if self.several_gpus else 0.0)

    def _lines(self, accumulation: float, sequence: float | None) -> MemoryLines:
        """Return the memory as linear functions of the micro-batch."""
        return memory_lines(replace(self.inputs, layout=self._layout(accumulation, sequence)), self.coefficients)

    def _layout(self, accumulation: float, sequence: float | None) -> Layout:
        """Return the layout with other accumulation steps and, if given, another sequence length."""
        layout = replace(self.inputs.layout, accumulation=float(accumulation))
        return layout if sequence is None else replace(layout, longest_sequence=float(sequence))


def as_scalar(values: object) -> float:
    """Return the only element of an array, or the scalar itself."""
    return float(np.asarray(values, dtype=float).reshape(-1)[0])
