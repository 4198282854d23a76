"""Observed runs and peaks of memory compared with the estimate of their configuration; corrections that follow.

A run that does not say how it was set up is compared with the fastest configuration that the job's techniques allow
on that hardware. An observed run did fit, so neither the margin of the fit rule nor the offers matter here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, first_least
from planner.configurations.coefficients import fastest_precision, peaks_of, recipe_spread
from planner.configurations.grid import Configurations, JobShape, grid_inputs, possible_cells, proper_divisors, shape_of
from planner.configurations.recipe import (
    GpuClass,
    Machine,
    Recipe,
    enumerate_recipes,
    expand_parallel_degrees,
    find_incompatibility,
    frameworks_of,
    is_allowed,
)
from planner.estimates.device import TimeCoefficients, stack_parameters
from planner.estimates.inputs import TimedSetup
from planner.estimates.memory_fit import confidence_margin, estimate_memory, memory_lines, with_paging
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.step_time import step_seconds
from planner.estimates.uncertainty import (
    MemorySpread,
    Sigmas,
    corrected_fit_sigma,
    corrected_sigmas,
    log_memory_scale,
    log_own_speed_correction,
    log_speed_correction,
    memory_half_weight_runs,
)
from planner.estimates.weights import training_flops
from planner.estimates.work import PACKED_FILL, processed_length
from planner.library.schema import Architecture, GpuSpec, Library
from planner.scenario.job import Job, Measured
from planner.units import GIB, HOUR, TERA

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


GPUS_PER_MACHINE = 8
"""GPUs of one machine at most, where a run does not give its machines."""


@dataclass(frozen=True)
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
    fitting, kind = _fastest_fit(own, run, shape, recipes, machine, library), GpuClass.of(card)
    if (fitting is None or not fitting.fits) and (opened := expand_parallel_degrees(own, recipes, kind, library)):
        fitting = _faster_fit(fitting, _fastest_fit(own, run, shape, opened, machine, library))
    if fitting is None:
        return "its global batch does not divide over the GPUs: give micro_batch and accumulation_steps"
    peak = None
    if run.peak_vram_gib is not None:
        inputs = grid_inputs(own, shape, [fitting.recipe], [machine], library)
        peak = ObservedPeak(machine.gpu, inputs, fitting.batch, run.peak_vram_gib, run.peak_kind or "allocated")
    return ComparedRun(run, machine, fitting.recipe, *fitting.batch, shape.sequence, fitting.rate, peak)


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


def _faster_fit(current: _Configuration | None, other: _Configuration | None) -> _Configuration | None:
    return other if current is None or (other is not None and other.fits) else current


def machine_of(run: Measured, card: GpuSpec) -> Machine:
    """Return the hardware of a run; where it does not say, as few machines of up to 8 GPUs as it takes."""
    least = -(-run.gpus // GPUS_PER_MACHINE)
    instances = run.instances or next(n for n in range(least, run.gpus + 1) if run.gpus % n == 0)
    gpus = run.gpus // instances
    link = run.interconnect or ("nvlink" if card.nvlink_by_default else "pcie")
    return Machine(
        card.name, gpus, instances, link if gpus > 1 else "pcie", run.network_gbps if instances > 1 else None
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
    whole &= (steps == 1) | np.asarray([[recipe.accumulates] for recipe in recipes])
    possible = whole & possible_cells(recipes, inputs.layout, local[:, :1], 1)
    return np.maximum(micro, 1.0), np.maximum(np.floor(steps), 1.0), possible


def real_units(job: Job, shape: JobShape) -> float:
    """Return the real tokens of one sample, padding and unfilled positions left out; 1 of an image."""
    if shape.unit == "images":
        return 1.0
    return job.answers * (PACKED_FILL * shape.sequence if job.packing == "packed" else shape.mean_length)


def _fastest_fit(
    job: Job, run: Measured, shape: JobShape, recipes: Sequence[Recipe], machine: Machine, library: Library
) -> _Configuration | None:
    """Return the fastest configuration that fits, else the one that needs least memory; None if no batch divides."""
    inputs = grid_inputs(job, shape, recipes, [machine], library)
    micro, accumulation, possible = _batches(job, run, recipes, inputs)
    if not possible.any():
        return None
    length = processed_length(
        *(job.packing, shape.sequence, shape.mean_length, shape.length_cv), *(micro * job.answers, job.sequence_lengths)
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


# Corrections of a job's estimates by its observed runs: a factor on speed, memory by setting, and their spread.


@dataclass(frozen=True)
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
            own = np.asarray([recipe == seen.recipe for recipe in ways.recipes], dtype=bool)[ways.recipe]
            own &= np.asarray([seen.is_on(machine) for machine in ways.machines], dtype=bool)[ways.machine]
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
        alike = {kind[:2] for kind in same}
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
            np.broadcast_to(np.asarray(column, dtype=float), shape).copy()
            for column in (inputs.stack.margin, inputs.stack.known_margin, inputs.stack.phi)
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

    def fit_spread(self, before: MemorySpread, recipe: Recipe, gpus: int, library: Library) -> MemorySpread:
        """Return the spread of the memory of a recipe on so many GPUs: own peaks are evidence of its own."""
        probed = self.probed.get(memory_setting(recipe, gpus))
        if probed is None:
            return before
        sigma = corrected_fit_sigma(before.sigma, library.calibrations["pilot"].value("sigma_probed"), probed.runs)
        return before._replace(sigma=sigma, most=1.0)

    def doubt_of_memory(self, recipe: Recipe, gpus: int, job: Job, library: Library) -> str | None:
        """Return why a recipe fits on no GPU with the confidence that a job asks for; None where it may."""
        most = self.fit_spread(recipe_spread(recipe, library), recipe, gpus, library).most
        if job.memory_confidence <= most:
            return None
        why = (
            f"a fit with {recipe.framework} has at most {most * 100:.3g} % probability, as its memory was not measured"
        )
        return f"{why}; confidence.memory asks for {job.memory_confidence * 100:.3g} %"


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
    corrections = {}
    for setting, several in peaks.items():
        spread = recipe_spread(setting[0], library)
        corrections[setting] = learn_memory_correction(several, spread, job.memory_confidence, library)
    return corrections
