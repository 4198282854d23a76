"""Observed peaks of memory and observed runs of the whole job: what they replace and correct in the estimate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.grid import Configurations, JobShape, Machine
from planner.configurations.recipe import Recipe, is_allowed
from planner.estimates.inputs import TimedSetup
from planner.estimates.memory.memory_fit import confidence_margin, estimate_memory, memory_lines
from planner.estimates.memory.memory_states import MemoryCoefficients
from planner.estimates.uncertainty import MemorySpread, corrected_fit_sigma, log_memory_scale, memory_half_weight_runs
from planner.library.schema import Library
from planner.records import record
from planner.scenario.job import Job
from planner.scenario.observed_run import Measured
from planner.units import GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


BISECTION_STEPS = 60
"""Halvings of the search: a factor between its bounds to the last digit."""
KINDS = {"allocated": "allocated", "reserved": "reserved_uncapped", "device": "device_used"}
"""The figure of the estimate that a kind of peak is compared with."""
ROUNDING = 1e-9
"""Share by which the margin is lowered further, so that rounding rejects no batch that ran."""

Setting = tuple[Recipe, int]


def memory_setting(recipe: Recipe, gpus: int) -> Setting:
    """Return what the memory of a configuration depends on besides batch and lengths."""
    return recipe, gpus


@record(frozen=True)
class ObservedPeak:
    """An observed peak with the run that it was observed in."""

    gpu: str
    inputs: TimedSetup  # of one recipe on one machine
    batch: tuple[int, int]  # micro-batch and accumulation steps
    observed_gib: float
    kind: str

    def predicted_gib(self, library: Library, scale: float = 1.0) -> float:
        """Return the estimate of the same kind, with what grows with the batch scaled."""
        setup = replace(
            self.inputs,
            layout=replace(self.inputs.layout, micro_batch=float(self.batch[0]), accumulation=float(self.batch[1])),
            activations=replace(self.inputs.activations, scale=scale),
        )
        made = estimate_memory(setup, MemoryCoefficients.of(library.calibrations["memory"].values))
        return float(getattr(made, KINDS[self.kind]).reshape(-1)[0]) / GIB

    @property
    def occupied_gib(self) -> float:
        """The peak with the context that its kind leaves out; at most the card, because it did run."""
        inputs, usable = self.inputs, self.inputs.hardware.usable_bytes / GIB
        several = np.greater(inputs.layout.gpus, 1)
        context = inputs.stack.context_gib + np.where(several, inputs.stack.fit_nccl_gib, 0.0)
        unseen = 0.0 if self.kind == "device" else context
        return float(np.minimum(self.observed_gib + unseen, usable).reshape(-1)[0])

    def scale(self, library: Library) -> float:
        """Return the factor that explains the peak, between its bounds; by bisection, as the peak grows with it."""
        pilot = library.calibrations["pilot"]
        low, high = pilot.value("memory_scale_low"), pilot.value("memory_scale_high")
        for _ in range(BISECTION_STEPS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.predicted_gib(library, middle) < self.observed_gib else (low, middle)
        return high


@record(frozen=True)
class MemoryCorrection:
    """Correction of the memory of one setting at other batches and lengths."""

    scale: float
    phi: float
    margin: float
    margins: Mapping[str, float]  # by card: lower, where a run that the fit rule would reject did fit
    known_share: float  # of the margin, for states
    floors: tuple[tuple[int, float, float], ...]  # micro-batch, tokens of the longest sequence, GiB that it took
    runs: int

    def floor_gib(self, micro_batch: float, longest: float) -> float:
        """Return the memory that a run at most as large took, in terms of the fit rule; 0 where there was none."""
        return max(
            (gib for batch, tokens, gib in self.floors if batch <= micro_batch and tokens <= longest), default=0.0
        )

    def margin_on(self, gpu: str) -> float:
        """Return the margin of the fit rule on a GPU."""
        return self.margins.get(gpu, self.margin)


def learn_memory_correction(
    peaks: Sequence[ObservedPeak], before: MemorySpread, confidence: float, library: Library
) -> MemoryCorrection:
    """Return the correction by the peaks of one setting.

    `before` is the spread of the memory estimate without them, `confidence` the probability with which others must fit.
    """
    pilot, memory = library.calibrations["pilot"], library.calibrations["memory"]
    spread = corrected_fit_sigma(before.sigma, pilot.value("sigma_probed"), len(peaks))
    half = memory_half_weight_runs(before.sigma, pilot.value("sigma_probed"))
    scale = math.exp(log_memory_scale([math.log(peak.scale(library)) for peak in peaks], half))
    probed = MemoryCorrection(
        scale=scale,
        phi=memory.value("phi_probed"),
        margin=confidence_margin(spread, confidence),
        margins={},
        known_share=before.known_share,
        floors=tuple((peak.batch[0], float(peak.inputs.layout.longest_sequence), peak.occupied_gib) for peak in peaks),
        runs=len(peaks),
    )
    margins: dict[str, float] = {}
    for peak in peaks:
        margins[peak.gpu] = min(margins.get(peak.gpu, probed.margin), _margin_that_fits(peak, probed, library))
    return replace(probed, margins=margins)


def _margin_that_fits(peak: ObservedPeak, probed: MemoryCorrection, library: Library) -> float:
    """Return the margin at which the batch that ran passes the fit rule on its GPU."""
    inputs = peak.inputs
    setup = replace(
        inputs,
        layout=replace(inputs.layout, accumulation=float(peak.batch[1])),
        activations=replace(inputs.activations, scale=probed.scale),
        stack=replace(inputs.stack, phi=probed.phi),
    )
    lines = memory_lines(setup, MemoryCoefficients.of(library.calibrations["memory"].values))
    usable = inputs.hardware.usable_bytes
    widest = float(lines.widest_margin(float(peak.batch[0]), usable, probed.known_share).reshape(-1)[0])
    return min(probed.margin, widest - ROUNDING)


# Observed runs of the whole job, which replace the estimate on their hardware.
#
# An observation names a GPU and their number, not the techniques: on that hardware every configuration that the job
# allows has the observed hours, start included, and counts as fitting.


def find_observed_run(job: Job, machine: Machine) -> Measured | None:
    """Return the run of the whole job on as many GPUs of this kind, whatever links them."""
    for run in job.measured:
        if run.hours is not None and (run.gpu, run.gpus) == (machine.gpu, machine.gpus):
            return run
    return None


def apply_observed_hours(ways: Configurations, job: Job, shape: JobShape) -> Configurations:
    """Return the configurations with observed hours, and the seconds per step that follow, where there was a run.

    Configurations there that the job does not allow are left out: nothing was observed of them.
    Memory is the observed peak; without one the estimate, at most what the GPU has, because it did run.
    """
    runs = [find_observed_run(job, machine) for machine in ways.machines]
    if not any(runs):
        return ways
    seen = np.asarray([run is not None for run in runs])
    permitted = np.asarray([is_allowed(recipe, job) for recipe in ways.recipes], dtype=bool)
    ways = ways.rows(~seen[ways.machine] | permitted[ways.recipe])
    hours = np.asarray([run.hours if run else np.nan for run in runs], dtype=float)[ways.machine]
    peaks = np.asarray([run.peak_vram_gib if run else np.nan for run in runs], dtype=float)[ways.machine]
    here = seen[ways.machine]
    need = np.where(np.isnan(peaks), np.minimum(ways.fit_gib, ways.usable_gib), peaks)
    return replace(
        ways,
        observed_hours=hours,
        step_seconds=np.where(here, hours * HOUR / shape.steps, ways.step_seconds),
        fit_gib=np.where(here, need, ways.fit_gib),
    )
