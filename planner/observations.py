"""Observed speed and memory of a job: what a run says beside what was predicted for it, and what all ways learn.

A run that does not say how it was set up is compared with the fastest way that the job's techniques allow on that
hardware. Where a run was observed it did fit, so neither the fit rule's margin nor the market's offers matter here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from planner.batches import possible_cells, proper_divisors
from planner.estimates.coefficients import TimeCoefficients
from planner.estimates.fit import memory_lines
from planner.estimates.memory_states import MemoryCoefficients
from planner.estimates.pilot import fit_sigma_after, log_speed_correction, sigmas_after
from planner.estimates.throughput import step_seconds
from planner.estimates.uncertainty import Sigmas
from planner.estimates.work import PACKED_FILL, processed_length
from planner.grid import GridInputs, JobShape, Machine, coefficients, grid_inputs, shape_of
from planner.library import Architecture, GpuSpec, Library
from planner.peaks import Peak, PeakScale, Probed, Setting, probed_by, scale_of_peak, setting_of
from planner.recipes import CardClass, Recipe, allowed, enumerate_recipes, opened_recipes, refusal
from planner.scenario import Job, Measured
from planner.table import Flags, Floats

GPUS_PER_MACHINE = 8
"""GPUs of one machine at most, where a run does not say in how many it stood."""


@dataclass(frozen=True)
class Seen:
    """An observed run and the configuration that it is compared with."""

    run: Measured
    machine: Machine
    recipe: Recipe
    micro_batch: int
    accumulation: int
    sequence: int  # tokens
    predicted: float  # real tokens (images) per second over all cards
    peak: PeakScale | None  # None where no peak was observed

    @property
    def assumed(self) -> tuple[str, ...]:
        """Settings that the run does not say."""
        return tuple(name for name in ASSUMABLE if getattr(self.run, name) is None)


ASSUMABLE = ("method", "weight_bits", "activation_checkpointing", "micro_batch")
"""Settings of a run that matter much and that only the run can say."""


@dataclass(frozen=True)
class Learned:
    """What the observed runs of a job teach its estimates; without runs nothing changes."""

    runs: tuple[Seen, ...] = ()
    unused: tuple[tuple[Measured, str], ...] = ()  # with the reason
    probed: Mapping[Setting, Probed] = field(default_factory=dict)  # what peaks say of their settings

    @property
    def timed(self) -> tuple[Seen, ...]:
        """The runs whose speed was observed."""
        return tuple(seen for seen in self.runs if seen.run.tokens_per_second is not None)

    def speed_factor(self, library: Library) -> float:
        """Factor on the predicted speed of every way."""
        speeds = [(seen.run.tokens_per_second, seen.predicted) for seen in self.runs]
        ratios = [math.log(measured / predicted) for measured, predicted in speeds if measured is not None]
        return math.exp(log_speed_correction(ratios, library.calibrations["pilot"].value("speed_half")))

    def spread(
        self, before: Sigmas, gpu: Sequence[str], method: Sequence[str], several: Flags, library: Library
    ) -> Sigmas:
        """Spread of ln(time) of ways (n,), given their card, method and whether they span machines."""
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
        return sigmas_after(
            before,
            np.asarray([difference[key] for key in keys], dtype=float),
            difference["other_source"],
            pilot.value("tail"),
            len(runs),
            pilot.value("speed_half"),
        )

    def on_memory(
        self, inputs: GridInputs, recipes: Sequence[Recipe], machines: Sequence[Machine], library: Library
    ) -> GridInputs:
        """The inputs of a grid (R, 1) x (H,), with what observed peaks say of its cells."""
        cells = {
            (row, column): self.probed[setting]
            for row, recipe in enumerate(recipes if self.probed else ())
            for column, machine in enumerate(machines)
            if (setting := setting_of(recipe, machine.gpus)) in self.probed
        }
        if not cells:
            return inputs
        shape = (len(recipes), len(machines))
        scale = np.ones(shape)
        context, margin, phi = (
            np.broadcast_to(np.asarray(one, dtype=float), shape).copy()
            for one in (inputs.stack.context_gib, inputs.stack.margin, inputs.stack.phi)
        )
        for cell, probed in cells.items():
            scale[cell], phi[cell] = probed.scale, probed.phi
            context[cell] += probed.context_gib
            margin[cell] = probed.margin_on(machines[cell[1]].gpu)
        return replace(
            inputs,
            activations=replace(inputs.activations, scale=scale),
            stack=replace(inputs.stack, context_gib=context, margin=margin, phi=phi),
        )

    def did_run(self, recipe: Recipe, machine: Machine, micro_batch: int, accumulation: int, sequence: int) -> bool:
        """Whether a peak was observed on this card of a run of the same setting that was at least as large."""
        return any(
            seen.peak is not None
            and seen.machine.gpu == machine.gpu
            and setting_of(seen.recipe, seen.machine.gpus) == setting_of(recipe, machine.gpus)
            and micro_batch <= seen.micro_batch
            and (seen.accumulation > 1 or accumulation == 1)
            and sequence <= seen.sequence
            for seen in self.runs
        )

    def fit_sigma(self, before: float, recipe: Recipe, gpus: int, library: Library) -> float:
        """Spread of ln(measured / predicted) of the memory of a recipe on so many cards."""
        probed = self.probed.get(setting_of(recipe, gpus))
        if probed is None:
            return before
        pilot = library.calibrations["pilot"]
        return fit_sigma_after(before, pilot.value("sigma_probed"), probed.runs, pilot.value("memory_half"))


NOTHING = Learned()
"""No run was observed."""


def learn(job: Job, architecture: Architecture, library: Library) -> Learned:
    """What the runs of the job say that are not whole jobs; those stand for their hardware by themselves."""
    runs, unused = [], []
    for run in job.measured:
        if run.hours is not None:
            continue
        seen = compared(job, run, architecture, library)
        if isinstance(seen, Seen):
            runs.append(seen)
        else:
            unused.append((run, seen))
    if not runs and not unused:
        return NOTHING
    return Learned(tuple(runs), tuple(unused), _probed(job, runs, architecture, library))


def _probed(job: Job, runs: Sequence[Seen], architecture: Architecture, library: Library) -> dict[Setting, Probed]:
    """What the peaks among the runs say, by setting."""
    peaks: dict[Setting, list[Peak]] = {}
    for seen in runs:
        if seen.peak is not None:
            own = job_of_run(job, seen.run)
            inputs = grid_inputs(own, shape_of(own, architecture), [seen.recipe], [seen.machine], library)
            batch = (seen.micro_batch, seen.accumulation)
            at = setting_of(seen.recipe, seen.machine.gpus)
            peaks.setdefault(at, []).append(Peak(seen.machine.gpu, inputs, batch, seen.peak))
    return {setting: probed_by(several, library) for setting, several in peaks.items()}


def compared(job: Job, run: Measured, architecture: Architecture, library: Library) -> Seen | str:
    """A run beside the estimate of the same configuration; else why there is none."""
    card = library.gpu(run.gpu)
    machine = machine_of(run, card)
    own = job_of_run(job, run)
    recipes = [
        recipe
        for recipe in enumerate_recipes(own, CardClass.of(card), machine.gpus > 1, library)
        if allowed(recipe, own) and refusal(recipe, CardClass.of(card), own.framework, library) is None
    ]
    if not recipes:
        return f"framework {own.framework} and the job's techniques allow no such run"
    shape = shape_of(own, architecture)
    found = _fastest(own, run, shape, recipes, machine, library)
    if (found is None or not found.fits) and (opened := opened_recipes(own, recipes, library)):
        found = _better(found, _fastest(own, run, shape, opened, machine, library))
    if found is None:
        return "its global batch does not divide over the GPUs: say micro_batch and accumulation_steps"
    peak = None
    if run.peak_vram_gib is not None:
        peak = scale_of_peak(run, grid_inputs(own, shape, [found.recipe], [machine], library), found.batch, library)
    return Seen(
        run, machine, found.recipe, *found.batch, shape.sequence, found.rate, peak
    )


class _Way(NamedTuple):
    recipe: Recipe
    batch: tuple[int, int]  # micro-batch and accumulation steps
    rate: float  # real tokens (images) per second
    fits: bool


def _better(one: _Way | None, other: _Way | None) -> _Way | None:
    return other if one is None or (other is not None and other.fits) else one


def machine_of(run: Measured, card: GpuSpec) -> Machine:
    """The hardware of a run; what it does not say is as few machines of up to 8 cards as it takes."""
    least = -(-run.gpus // GPUS_PER_MACHINE)
    instances = run.instances or next(n for n in range(least, run.gpus + 1) if run.gpus % n == 0)
    each = run.gpus // instances
    link = run.interconnect or ("nvlink" if card.nvlink_by_default else "pcie")
    return Machine(
        card.name, each, instances, link if each > 1 else "pcie", run.network_gbps if instances > 1 else None
    )


def job_of_run(job: Job, run: Measured) -> Job:
    """The job as the run was set up: what the run says in place of what the job allows."""
    said = {name: (value,) for name, value in run.settings.items() if name in type(job.techniques).model_fields}
    if run.quant is not None and run.weight_bits is None:
        said["weight_bits"] = (4,)
    return job.model_copy(
        update={
            "measured": (),
            "techniques": job.techniques.model_copy(update=said),
            "sequence_length": run.sequence_length or job.sequence_length,
            "global_batch": run.global_batch or job.global_batch,
        }
    )


def _batches(job: Job, run: Measured, recipes: Sequence[Recipe], inputs: GridInputs) -> tuple[Floats, Floats, Flags]:
    """Micro-batches, accumulation steps and which of them are possible: (R, D), D batches in question."""
    ranks = np.broadcast_to(np.asarray(inputs.layout.data_parallel, dtype=float), (len(recipes), 1))
    local = job.global_batch / ranks
    if run.micro_batch is not None and run.accumulation_steps is not None and run.global_batch is None:
        local = np.full_like(ranks, run.micro_batch * run.accumulation_steps)
    if run.micro_batch is not None:
        micro = np.asarray([[float(run.micro_batch)]])
    elif run.accumulation_steps is not None:
        micro = local / run.accumulation_steps
    else:
        micro = np.asarray([[*proper_divisors(job.global_batch), job.global_batch]], dtype=float)
    micro, local = np.broadcast_arrays(micro, local)
    steps = local / micro
    whole = (steps >= 1) & (steps == np.floor(steps)) & (micro == np.floor(micro)) & (micro >= 1)
    possible = whole & possible_cells(recipes, inputs.layout, local[:, :1], 1)
    return np.maximum(micro, 1.0), np.maximum(np.floor(steps), 1.0), possible


def real_units(job: Job, shape: JobShape) -> float:
    """Real tokens of one sequence, padding and unfilled positions left out; 1 of an image."""
    if shape.unit == "images":
        return 1.0
    return PACKED_FILL * shape.sequence if job.packing == "packed" else shape.mean_length


def _fastest(
    job: Job, run: Measured, shape: JobShape, recipes: Sequence[Recipe], machine: Machine, library: Library
) -> _Way | None:
    """The fastest way that fits; where none does although it ran, the one that needs least. None: none divides."""
    inputs = grid_inputs(job, shape, recipes, [machine], library)
    micro, accumulation, possible = _batches(job, run, recipes, inputs)
    if not possible.any():
        return None
    length = processed_length(job.packing, shape.sequence, shape.mean_length, job.length_cv, micro)
    layout = replace(inputs.layout, micro_batch=micro, accumulation=accumulation, sequence=length)
    setup = (inputs.network, layout, inputs.states, inputs.activations)
    time = TimeCoefficients(**coefficients(library, "time", TimeCoefficients))
    memory = MemoryCoefficients(**coefficients(library, "memory", MemoryCoefficients))
    batch = micro * accumulation * np.asarray(layout.data_parallel, dtype=float)
    rate = batch * real_units(job, shape) / step_seconds(*setup, inputs.kernels, inputs.hardware, time)
    usable: Any = inputs.hardware.usable_bytes
    need = np.broadcast_to(memory_lines(*setup, inputs.stack, memory).need(micro, usable), rate.shape)
    fits = possible & (need <= usable)
    score = np.where(fits, rate, -np.inf) if fits.any() else np.where(possible, -need, -np.inf)
    row, column = np.unravel_index(int(np.argmax(score)), rate.shape)
    at = (int(row), int(column))
    return _Way(recipes[at[0]], (int(micro[at]), int(accumulation[at])), float(rate[at]), bool(fits[at]))
