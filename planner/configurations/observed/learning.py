"""Corrections of a job's estimates by its observed runs: a factor on speed, memory by setting, and their spread."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.memory_margin import framework_spread
from planner.configurations.observed.comparison import ComparedRun, compare_run
from planner.configurations.observed.memory_peaks import (
    MemoryCorrection,
    ObservedPeak,
    Setting,
    learn_memory_correction,
    memory_setting,
)
from planner.estimates.observed_runs import (
    corrected_fit_sigma,
    corrected_sigmas,
    log_own_speed_correction,
    log_speed_correction,
)
from planner.records import record
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.arrays import Flags, Floats
    from planner.configurations.configuration_table import Configurations
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.estimates.inputs import TimedSetup
    from planner.estimates.uncertainty import Sigmas
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job
    from planner.scenario.observed_run import Measured


@record(frozen=True)
class Correction:
    """Corrections of the estimates of a job by its observed runs; without runs nothing changes."""

    runs: tuple[ComparedRun, ...] = ()
    unused: tuple[tuple[Measured, str], ...] = ()  # with the reason
    probed: Mapping[Setting, MemoryCorrection] = field(default_factory=dict)  # what peaks say of their settings

    @property
    def timed(self) -> tuple[ComparedRun, ...]:
        """The runs whose speed was observed."""
        return tuple(seen for seen in self.runs if seen.run.tokens_per_second is not None)

    @property
    def log_ratios(self) -> list[float]:
        """ln(measured / predicted) of the speed of each run that was timed."""
        speeds = [(seen.run.tokens_per_second, seen.predicted) for seen in self.runs]
        return [math.log(measured / predicted) for measured, predicted in speeds if measured is not None]

    def speed_factor(self, library: Library) -> float:
        """Return the factor on the predicted speed of every configuration."""
        return math.exp(log_speed_correction(self.log_ratios, library.calibrations["pilot"].value("speed_half")))

    def own_speed_factor(
        self, recipe: Recipe, machine: Machine, batch: tuple[int, int], sequence: int, library: Library
    ) -> float:
        """Return the factor on the predicted speed of one configuration: closer to its own runs, where it has any."""
        own = [
            log_ratio
            for seen, log_ratio in zip(self.timed, self.log_ratios, strict=True)
            if seen.is_of(recipe, machine, batch, sequence)
        ]
        values = library.calibrations["uncertainty"]
        general = math.log(self.speed_factor(library))
        difference, noise = values.value("difference.same_card"), values.value("observed.sigma")
        return math.exp(log_own_speed_correction(general, own, difference, noise))

    def speed_factors(self, ways: Configurations, sequence: int, library: Library) -> Floats | float:
        """Return the factor on the predicted speed of every configuration (n,) of a job with sequences of a length.

        The length is the job's, not the one that padding leaves of it: that of a run is the job's too.
        """
        general = self.speed_factor(library)
        if not self.timed:
            return general
        factors = np.full(len(ways), general)
        for seen in self.timed:
            own = np.asarray([one == seen.recipe for one in ways.recipes], dtype=bool)[ways.recipe]
            own &= np.asarray([seen.is_on(one) for one in ways.machines], dtype=bool)[ways.machine]
            own &= (ways.micro_batch == seen.micro_batch) & (ways.accumulation == seen.accumulation)
            own &= sequence == seen.sequence
            batch = (seen.micro_batch, seen.accumulation)
            factors[own] = self.own_speed_factor(seen.recipe, seen.machine, batch, seen.sequence, library)
        return factors

    def spread(
        self, before: Sigmas, gpu: Sequence[str], method: Sequence[str], several: Flags, library: Library
    ) -> Sigmas:
        """Return the spread of ln(time) of configurations (n,): by GPU, method and whether they span machines."""
        runs = self.timed
        if not runs:
            return before
        pilot, spreads = library.calibrations["pilot"], library.calibrations["uncertainty"]
        same = {(seen.recipe.method, seen.machine.instances > 1, seen.machine.gpu) for seen in runs}
        alike = {one[:2] for one in same}
        keys = [
            "same_card" if (m, s, g) in same else "other_card" if (m, s) in alike else "other_source"
            for m, s, g in zip(method, np.asarray(several).tolist(), gpu, strict=True)
        ]
        difference = {key: spreads.value(f"difference.{key}") for key in ("same_card", "other_card", "other_source")}
        return corrected_sigmas(
            before,
            np.asarray([difference[key] for key in keys], dtype=float),
            difference["other_source"],
            pilot.value("tail"),
            len(runs),
            pilot.value("speed_half"),
            self.log_ratios,
        )

    def correct_memory(self, inputs: TimedSetup, recipes: Sequence[Recipe], machines: Sequence[Machine]) -> TimedSetup:
        """Return the inputs of a grid (R, 1) x (H,), corrected by observed peaks in the cells that have one."""
        cells = {
            (row, column): self.probed[setting]
            for row, recipe in enumerate(recipes if self.probed else ())
            for column, machine in enumerate(machines)
            if (setting := memory_setting(recipe, machine.gpus)) in self.probed
        }
        if not cells:
            return inputs
        shape = (len(recipes), len(machines))
        scale = np.ones(shape)
        margin, known_margin, phi = (
            np.broadcast_to(np.asarray(one, dtype=float), shape).copy()
            for one in (inputs.stack.margin, inputs.stack.known_margin, inputs.stack.phi)
        )
        for cell, probed in cells.items():
            scale[cell], phi[cell] = probed.scale, probed.phi
            margin[cell] = probed.margin_on(machines[cell[1]].gpu)
            known_margin[cell] = probed.known_share * margin[cell]
        return replace(
            inputs,
            activations=replace(inputs.activations, scale=scale),
            stack=replace(inputs.stack, margin=margin, known_margin=known_margin, phi=phi),
        )

    def floors(self, recipes: Sequence[Recipe], machines: Sequence[Machine], micro: Floats, longest: float) -> Floats:
        """Return the bytes that a run at most as large took, (R, H); 0 where there was none."""
        taken = np.zeros(micro.shape)
        for row, recipe in enumerate(recipes if self.probed else ()):
            for column, machine in enumerate(machines):
                probed = self.probed.get(memory_setting(recipe, machine.gpus))
                if probed is not None:
                    taken[row, column] = probed.floor_gib(float(micro[row, column]), longest) * GIB
        return taken

    def has_run(self, recipe: Recipe, machine: Machine, micro_batch: int, accumulation: int, sequence: int) -> bool:
        """Whether a peak was observed on this GPU of a run of the same setting that was at least as large."""
        return any(
            seen.peak is not None
            and seen.machine.gpu == machine.gpu
            and memory_setting(seen.recipe, seen.machine.gpus) == memory_setting(recipe, machine.gpus)
            and micro_batch <= seen.micro_batch
            and (seen.accumulation > 1 or accumulation == 1)
            and sequence <= seen.sequence
            for seen in self.runs
        )

    def fit_sigma(self, before: float, recipe: Recipe, gpus: int, library: Library) -> float:
        """Return the spread of ln(measured / predicted) of the memory of a recipe on so many GPUs."""
        probed = self.probed.get(memory_setting(recipe, gpus))
        if probed is None:
            return before
        return corrected_fit_sigma(before, library.calibrations["pilot"].value("sigma_probed"), probed.runs)


NO_CORRECTION = Correction()
"""No run was observed."""


def learn_correction(job: Job, architecture: Architecture, library: Library) -> Correction:
    """Return the correction by the runs of the job that are not whole jobs; whole jobs replace the estimate."""
    runs, unused = [], []
    for run in job.measured:
        if run.hours is not None:
            continue
        seen = compare_run(job, run, architecture, library)
        if isinstance(seen, ComparedRun):
            runs.append(seen)
        else:
            unused.append((run, seen))
    if not runs and not unused:
        return NO_CORRECTION
    return Correction(tuple(runs), tuple(unused), _memory_corrections(job, runs, library))


def _memory_corrections(job: Job, runs: Sequence[ComparedRun], library: Library) -> dict[Setting, MemoryCorrection]:
    """Return the corrections by the peaks among the runs, by setting."""
    peaks: dict[Setting, list[ObservedPeak]] = {}
    for seen in runs:
        if seen.peak is not None:
            peaks.setdefault(memory_setting(seen.recipe, seen.machine.gpus), []).append(seen.peak)
    found = {}
    for setting, several in peaks.items():
        spread = framework_spread(setting[0].framework, library)
        found[setting] = learn_memory_correction(several, spread, job.memory_confidence, library)
    return found
