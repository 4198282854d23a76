"""Observed runs compared with the estimate of the same configuration.

A run that does not say how it was set up is compared with the fastest configuration that the job's techniques allow
on that hardware. An observed run did fit, so neither the margin of the fit rule nor the offers matter here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.arrays import first_least
from planner.configurations.grid import JobShape, Machine, grid_inputs, shape_of
from planner.configurations.hardware import fastest_precision, peaks_of
from planner.configurations.micro_batch import possible_cells, proper_divisors
from planner.configurations.observed.memory_peaks import ObservedPeak
from planner.configurations.recipe import (
    GpuClass,
    Recipe,
    enumerate_recipes,
    expand_parallel_degrees,
    find_incompatibility,
    frameworks_of,
    is_allowed,
)
from planner.estimates.memory.fit import memory_lines
from planner.estimates.memory.paging import with_paging
from planner.estimates.memory.states import MemoryCoefficients
from planner.estimates.parameters import training_flops
from planner.estimates.time.coefficients import TimeCoefficients
from planner.estimates.time.device import stack_parameters
from planner.estimates.time.step import step_seconds
from planner.estimates.work import PACKED_FILL, processed_length
from planner.records import record
from planner.units import HOUR, TERA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats
    from planner.estimates.inputs import TimedSetup
    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.scenario.job import Job
    from planner.scenario.observed_run import Measured

GPUS_PER_MACHINE = 8
"""GPUs of one machine at most, where a run does not give its machines."""


@record(frozen=True)
class ComparedRun:
    """An observed run and the configuration that it is compared with."""

    run: Measured
    machine: Machine
    recipe: Recipe
    micro_batch: int
    accumulation: int
    sequence: int  # tokens
    predicted: float  # real tokens (images) per second over all cards
    peak: ObservedPeak | None  # None where no peak was observed

    def is_on(self, machine: Machine) -> bool:
        """Whether a machine is that of the run, whatever links its GPUs."""
        mine = self.machine
        return (mine.gpu, mine.gpus, mine.instances) == (machine.gpu, machine.gpus, machine.instances)

    def is_of(self, recipe: Recipe, machine: Machine, batch: tuple[int, int], sequence: int) -> bool:
        """Whether a configuration is that of the run; `batch` is micro-batch and accumulation steps."""
        same = (self.recipe, (self.micro_batch, self.accumulation), self.sequence) == (recipe, batch, sequence)
        return same and self.is_on(machine)

    @property
    def assumed(self) -> tuple[str, ...]:
        """Settings that the run does not say."""
        return tuple(name for name in ASSUMABLE if getattr(self.run, name) is None)


ASSUMABLE = ("method", "weight_bits", "activation_checkpointing", "micro_batch")
"""Settings of a run that matter much and that only the run can say."""


def compare_run(job: Job, run: Measured, architecture: Architecture, library: Library) -> ComparedRun | str:
    """Return a run with the estimate of the same configuration; else why there is none."""
    card = library.gpu(run.gpu)
    machine = machine_of(run, card)
    own = job_of_run(job, run)
    recipes = [
        recipe
        for recipe in enumerate_recipes(own, GpuClass.of(card), machine.gpus > 1, library)
        if is_allowed(recipe, own) and find_incompatibility(recipe, GpuClass.of(card), library, architecture) is None
    ]
    if not recipes:
        names = " or ".join(frameworks_of(own, library))
        return f"framework {names} and the job's techniques allow no such run"
    shape = shape_of(own, architecture)
    found, kind = _fastest_fit(own, run, shape, recipes, machine, library), GpuClass.of(card)
    if (found is None or not found.fits) and (opened := expand_parallel_degrees(own, recipes, kind, library)):
        found = _faster_fit(found, _fastest_fit(own, run, shape, opened, machine, library))
    if found is None:
        return "its global batch does not divide over the GPUs: give micro_batch and accumulation_steps"
    peak = None
    if run.peak_vram_gib is not None:
        one = grid_inputs(own, shape, [found.recipe], [machine], library)
        peak = ObservedPeak(machine.gpu, one, found.batch, run.peak_vram_gib, run.peak_kind or "allocated")
    return ComparedRun(run, machine, found.recipe, *found.batch, shape.sequence, found.rate, peak)


def impossibility_reason(job: Job, run: Measured, architecture: Architecture, library: Library) -> str | None:
    """Return why no GPU can have done what the run says, however it was set up; None where it can.

    Each real token costs at least the products of the layer stack, 2 FLOP per weight that it meets: forward and the
    gradient of the inputs, and in full training that of the weights. Head, attention, padding and recomputation come
    on top, so nothing that can be is called impossible. Cards do no more than the dense peak of their sheet.
    Images are left out: the tokens that stand for them are a guess, and no bound rests on a guess.
    """
    own, shape, card = job_of_run(job, run), shape_of(job, architecture), library.gpu(run.gpu)
    rate = run.tokens_per_second or (shape.tokens / (run.hours * HOUR) if run.hours else None)
    if rate is None or shape.unit == "images":
        return None
    quantised = any(bits != 16 for bits in (run.weight_bits or 16, 4 if run.quant else 16))
    frozen = own.techniques.method != ("full",) or quantised
    flops = training_flops(stack_parameters(shape.network), rate, frozen=frozen)
    precision = run.precision or fastest_precision(card, library)
    if (missing := library.techniques.compute(precision).missing_peak(card.peaks)) is not None:
        return f"{card.name} has no {missing}, the peak of {precision}"
    peak = peaks_of(card, precision, library)[1]
    if flops <= peak * run.gpus:
        return None
    rates = f"at least {flops / TERA:,.0f} TFLOP/s against a peak of {peak * run.gpus / TERA:,.0f}"
    return f"needs more FLOP per second than {run.gpus} x {card.name} can do ({rates})"


class _Configuration(NamedTuple):
    recipe: Recipe
    batch: tuple[int, int]  # micro-batch and accumulation steps
    rate: float  # real tokens (images) per second
    fits: bool


def _faster_fit(one: _Configuration | None, other: _Configuration | None) -> _Configuration | None:
    return other if one is None or (other is not None and other.fits) else one


def machine_of(run: Measured, card: GpuSpec) -> Machine:
    """Return the hardware of a run; where it does not say, as few machines of up to 8 GPUs as it takes."""
    least = -(-run.gpus // GPUS_PER_MACHINE)
    instances = run.instances or next(n for n in range(least, run.gpus + 1) if run.gpus % n == 0)
    each = run.gpus // instances
    link = run.interconnect or ("nvlink" if card.nvlink_by_default else "pcie")
    return Machine(
        card.name, each, instances, link if each > 1 else "pcie", run.network_gbps if instances > 1 else None
    )


def job_of_run(job: Job, run: Measured) -> Job:
    """Return the job as the run was set up: the settings of the run replace those that the job allows."""
    said = {name: (value,) for name, value in run.settings.items() if name in type(job.techniques).model_fields}
    if run.quant is not None and run.weight_bits is None:
        said["weight_bits"] = (4,)
    return job.model_copy(
        update={
            "measured": (),
            "framework": (run.framework,) if run.framework else job.framework,
            "techniques": job.techniques.model_copy(update=said),
            "sequence_length": run.sequence_length or job.sequence_length,
            "global_batch": run.global_batch or job.global_batch,
        }
    )


def _batches(job: Job, run: Measured, recipes: Sequence[Recipe], inputs: TimedSetup) -> tuple[Floats, Floats, Flags]:
    """Return micro-batches, accumulation steps and which of them are possible: (R, D), D batches in question."""
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
    """Return the real tokens of one sequence, padding and unfilled positions left out; 1 of an image."""
    if shape.unit == "images":
        return 1.0
    return PACKED_FILL * shape.sequence if job.packing == "packed" else shape.mean_length


def _fastest_fit(
    job: Job, run: Measured, shape: JobShape, recipes: Sequence[Recipe], machine: Machine, library: Library
) -> _Configuration | None:
    """Return the fastest configuration that fits, else the one that needs least memory; None if no batch divides."""
    inputs = grid_inputs(job, shape, recipes, [machine], library)
    micro, accumulation, possible = _batches(job, run, recipes, inputs)
    if not possible.any():
        return None
    length = processed_length(
        job.packing, shape.sequence, shape.mean_length, job.length_cv, micro, job.work.sample_lengths
    )
    layout = replace(inputs.layout, micro_batch=micro, accumulation=accumulation, sequence=length)
    setup = replace(inputs, layout=layout)
    time = TimeCoefficients.of(library.calibrations["time"].values)
    memory = MemoryCoefficients.of(library.calibrations["memory"].values)
    batch = micro * accumulation * np.asarray(layout.data_parallel, dtype=float)
    rate = batch * real_units(job, shape) / step_seconds(with_paging(setup, memory), time)
    usable: Any = inputs.hardware.usable_bytes
    need = np.broadcast_to(memory_lines(setup, memory).need(micro, usable), rate.shape)
    fits = possible & (need <= usable)
    score = np.where(fits, rate, -np.inf) if fits.any() else np.where(possible, -need, -np.inf)
    row, column = np.unravel_index(int(first_least(-score)), rate.shape)
    at = (int(row), int(column))
    return _Configuration(recipes[at[0]], (int(micro[at]), int(accumulation[at])), float(rate[at]), bool(fits[at]))
