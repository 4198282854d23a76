"""Speed and memory of one configuration in plain floats: work, seconds per step, bytes on one GPU, spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from planner.configurations.coefficients import network_of, recipe_coefficients
from planner.configurations.grid import coefficients
from planner.configurations.hardware import efficiency_of, hardware_numbers
from planner.estimates.inputs import Layout
from planner.estimates.memory.fit import fit_probability
from planner.estimates.memory.peak import PHASES, MemoryCoefficients, estimate_memory
from planner.estimates.time.coefficients import TimeCoefficients
from planner.estimates.time.stages import fed_step_seconds
from planner.estimates.time.step import step_time
from planner.estimates.uncertainty import UncertaintyClasses, class_sigmas, memory_tail, time_sigmas
from planner.estimates.work import PACKED_FILL, processed_length, step_count
from planner.results.plan import Vram
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.configurations.coefficients import RecipeCoefficients
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.estimates.inputs import Hardware, Network
    from planner.estimates.memory.peak import MemoryEstimate
    from planner.estimates.uncertainty import Sigmas
    from planner.library.schema import Architecture, Library
    from planner.results.plan import ObservedRun
    from planner.scenario.scenario import Job


@dataclass(frozen=True)
class Workload:
    """A job in the units of the estimates; an image counts as one sequence of equivalent tokens."""

    sequence: int  # tokens per sequence, the cap where lengths differ
    longest: float  # tokens that set the memory peak
    mean_length: float  # tokens per sample
    real_per_sequence: float  # tokens (images) that one sequence counts as
    real: float = 0.0  # tokens (images) in all
    steps: float = 0.0
    ingested: float = 0.0  # token ids that preparing the data makes; none of images
    evaluated: float = 0.0  # tokens (images) that one run evaluates


def sequence_lengths(job: Job, architecture: Architecture) -> Workload:
    """Return the lengths alone."""
    image, work = architecture.image, job.work
    if image is not None:
        resolution = work.resolution or image.resolution
        tokens = image.tokens(resolution)
        return Workload(round(tokens), image.memory_tokens(resolution), tokens, 1.0)
    sequence = job.sequence_length or min(2048, architecture.max_sequence)
    mean = min(work.tokens_per_sample or sequence, sequence)
    return Workload(sequence, sequence, mean, PACKED_FILL * sequence if job.packing == "packed" else mean)


def recompute_work(context: AuditContext) -> Workload:
    """Return steps and tokens of the job, from what the user said of the work and of the stages around it."""
    job, work, stages = context.job, context.job.work, context.job.stages
    lengths = sequence_lengths(job, context.architecture)
    if context.architecture.image is not None:
        real = float(work.images * work.epochs if work.images else (work.steps or 0) * job.global_batch)
        steps = float(math.ceil(real / job.global_batch))
    elif work.steps is not None:
        real, steps = work.steps * job.global_batch * lengths.real_per_sequence, float(work.steps)
    else:
        samples = work.samples * work.epochs if work.samples is not None else (work.tokens or 0) / lengths.mean_length
        real = work.tokens if work.tokens is not None else samples * lengths.mean_length
        steps = float(step_count(job.packing, real, samples, lengths.sequence, job.global_batch))
    ingested = evaluated = 0.0
    if stages.ingest is not None and context.architecture.image is None:
        ingested = float(stages.ingest.tokens or 0) or real / work.epochs
    if stages.evaluation is not None:
        evaluated = float(stages.evaluation.tokens or 0) or (stages.evaluation.share or 0.0) * real
    return replace(lengths, real=real, steps=steps, ingested=ingested, evaluated=evaluated)


@dataclass(frozen=True)
class TrainingSetup:
    """One recipe with one batch on one machine, as the estimates take it: scalars."""

    job: Job
    recipe: Recipe
    machine: Machine
    network: Network
    parts: RecipeCoefficients
    hardware: Hardware
    layout: Layout
    lengths: Workload
    time: TimeCoefficients
    bytes: MemoryCoefficients

    @classmethod
    def of(
        cls, job: Job, recipe: Recipe, machine: Machine, architecture: Architecture, library: Library
    ) -> TrainingSetup:
        """Return the setup at a micro-batch of one."""
        lengths, network = sequence_lengths(job, architecture), network_of(architecture)
        gpu = library.gpu(machine.gpu)
        setup = cls(
            job=job,
            recipe=recipe,
            machine=machine,
            network=network,
            parts=recipe_coefficients(recipe, job, network, library),
            hardware=hardware_numbers(gpu, machine.link, machine.network_gbps, recipe.precision, library),
            layout=Layout(
                micro_batch=1,
                accumulation=1,
                sequence=lengths.sequence,
                longest_sequence=lengths.longest,
                gpus=machine.gpus,
                gpus_per_node=machine.gpus_per_instance,
                tensor=recipe.tensor_parallel,
                pipeline=recipe.pipeline_parallel,
                zero_stage=recipe.zero_stage,
                hybrid=int(recipe.sharding == "hsdp"),
                variable_length=int(job.packing == "padded"),
            ),
            lengths=lengths,
            time=TimeCoefficients(**coefficients(library, "time", TimeCoefficients)),
            bytes=MemoryCoefficients(**coefficients(library, "memory", MemoryCoefficients)),
        )
        return setup.with_batch(1, 1)

    def with_batch(self, micro_batch: int, accumulation: int) -> TrainingSetup:
        """Return the setup with another batch; padding depends on the micro-batch."""
        job, lengths = self.job, self.lengths
        length = processed_length(job.packing, lengths.sequence, lengths.mean_length, job.length_cv, micro_batch)
        layout = replace(self.layout, micro_batch=micro_batch, accumulation=accumulation, sequence=float(length))
        return replace(self, layout=layout)

    def with_memory(self, scale: float | None = None, **stack: float) -> TrainingSetup:
        """Return the setup with a factor on bytes that grow with the batch, and other margins of the fit rule."""
        parts = replace(self.parts, stack=replace(self.parts.stack, **stack))
        if scale is not None:
            parts = replace(parts, activations=replace(parts.activations, scale=scale))
        return replace(self, parts=parts)

    def step_seconds(self) -> float:
        """Return seconds of one optimizer step, of which storage and the job's own factor know nothing."""
        parts = (self.parts.states, self.parts.activations, self.parts.kernels, self.hardware, self.time)
        return float(step_time(self.network, self.layout, *parts).seconds)

    def memory(self) -> MemoryEstimate:
        """Return bytes on the fullest GPU."""
        parts = (self.parts.states, self.parts.activations, self.parts.stack, self.bytes, self.hardware.usable_bytes)
        return estimate_memory(self.network, self.layout, *parts)


@dataclass(frozen=True)
class Lesson:
    """What the observed runs of a job teach about the plan's configuration."""

    runs: tuple[ObservedRun, ...]  # as a plan reports them
    setup: TrainingSetup  # the plan's, with its memory as observed peaks have it
    speed_factor: float
    memory_factor: float
    sigmas: Sigmas  # of ln(time)
    fit_sigma: float  # of ln(allocated bytes)
    floor_gib: float  # what a run at most as large was seen to take
    is_proven: bool  # a run at least as large was seen to fit on this card


@dataclass(frozen=True)
class RecomputedPhysics:
    """What the recipe takes on the offer's machines."""

    setup: TrainingSetup
    step_seconds: float  # per optimizer step, as fed by storage and with the job's own factor on speed
    is_fed_by_storage: bool  # whether storage sets that pace
    rate: float  # real tokens (images) per second
    sigmas: Sigmas
    vram: Vram


def plan_setup(context: AuditContext) -> TrainingSetup:
    """Return the setup of the configuration that the plan names."""
    asked = context.plan.techniques
    setup = TrainingSetup.of(context.job, context.recipe, context.machine, context.architecture, context.library)
    return setup.with_batch(asked.micro_batch, asked.accumulation_steps)


def recompute_physics(context: AuditContext, work: Workload, lesson: Lesson) -> RecomputedPhysics:
    """Return speed and memory of the plan's configuration, given what observed runs teach."""
    job, run, setup = context.job, context.observed, lesson.setup
    computed = setup.step_seconds() / lesson.speed_factor / job.efficiency
    image = context.architecture.image
    resolution = (job.work.resolution or image.resolution) if image else 0
    per_step = job.global_batch * (1 if image else work.sequence)
    # Storage delivers no faster what a step works on: token ids, or images.
    fed = float(fed_step_seconds(computed, per_step, job.storage_gb_per_second * GB, context.stages, resolution))
    seconds = run.hours * HOUR / work.steps if run and run.hours else fed
    return RecomputedPhysics(
        setup=setup,
        step_seconds=seconds,
        is_fed_by_storage=run is None and fed > computed * (1 + 1e-9),
        rate=work.real / (work.steps * seconds),
        sigmas=lesson.sigmas,
        vram=_vram(context, lesson),
    )


def _vram(context: AuditContext, lesson: Lesson) -> Vram:
    """Return the need of the fit rule, its parts, and the chance that it fits."""
    run, usable_gib, setup = context.observed, context.gpu.usable_gib, lesson.setup
    if context.limits.vram_headroom is not None:
        setup = setup.with_memory(margin=context.limits.vram_headroom)
    stack, told = setup.parts.stack, setup.memory()
    # What the fit rule sets aside, not the larger context that a monitor shows.
    context_gib = float(stack.context_gib) + (float(stack.fit_nccl_gib) if context.machine.gpus > 1 else 0.0)
    need = max(float(told.need) / GIB, lesson.floor_gib)
    if run:  # it did fit: what was seen, else at most the card
        need = run.peak_vram_gib or min(need, usable_gib)
    room, is_certain = (usable_gib - context_gib) * GIB, run is not None or lesson.is_proven
    return Vram(
        peak=need,
        allocated=float(told.allocated) / GIB,
        usable=usable_gib,
        fit_probability=1.0 if is_certain else float(fit_probability(told.allocated, room, lesson.fit_sigma)),
        phase=PHASES[int(told.phase)],
        parts={one.name: float(getattr(told.breakdown, one.name)) / GIB for one in fields(told.breakdown)},
    )


def unlearned_sigmas(context: AuditContext, setup: TrainingSetup) -> Sigmas:
    """Return the spread of the speed without observations: profile, card, size, mixture, few tokens, unknown facts."""
    values, layout, machine = context.values("uncertainty"), setup.layout, context.machine
    profile = "unknown" if context.framework.get("unknown") else context.framework["kernels"]
    return time_sigmas(
        UncertaintyClasses.of(values),
        class_sigmas(values, profile),
        class_sigmas(values, context.gpu.name),
        machine.gpus,
        machine.instances,
        float(layout.micro_batch * layout.sequence),
        # A U-Net is no stack of equal layers: as uncertain as a mixture of experts.
        mixture=int(setup.network.experts > 0 or context.architecture.image is not None),
        efficiency_is_prior=int(not efficiency_of(context.gpu, context.library.calibrations["gpu_efficiency"])[1]),
        network_unknown=int(machine.network_gbps is None),
    )


def unlearned_fit_sigma(context: AuditContext) -> float:
    """Return the spread of ln(allocated bytes) without observations."""
    return memory_tail(context.values("memory"), context.job.framework, bool(context.framework["profiled"]))
