"""Audit of memory and speed: the need of the fit rule, its parts, seconds per step, steps, spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from planner.audit.job.configuration import link_of
from planner.audit.job.context import (
    AssignmentContext,
    AuditContext,
    Tolerance,
    Violation,
    check_at_most,
    check_close,
    check_equal,
)
from planner.audit.job.observations import (
    RecomputedCorrection,
    apply_correction,
    is_proven_by_run,
    recompute_correction,
    shrink_fit_spread,
    shrink_spread,
)
from planner.configurations.coefficients import RecipeCoefficients, recipe_coefficients
from planner.configurations.hardware import hardware_numbers
from planner.estimates.inputs import Layout
from planner.estimates.memory.fit import fit_probability
from planner.estimates.memory.peak import PHASES, estimate_memory
from planner.estimates.memory.states import MemoryCoefficients
from planner.estimates.time.coefficients import TimeCoefficients
from planner.estimates.time.stages import StageCoefficients, fed_step_seconds
from planner.estimates.time.step import step_time
from planner.estimates.uncertainty import UncertaintyClasses, class_sigmas, memory_tail, time_sigmas
from planner.estimates.work import PACKED_FILL, processed_length, step_count
from planner.units import GB, GIB, HOUR


@dataclass(frozen=True)
class Workload:
    """A job in the units of the estimates; an image counts as one sequence of equivalent tokens."""

    sequence: int  # tokens per sequence, the cap where lengths differ
    longest: float  # tokens that set the memory peak
    mean_length: float  # tokens per sample
    real: float  # tokens (or images) in all
    steps: float
    ingested: float = 0.0  # token ids that preparing the data makes; none of images
    evaluated: float = 0.0  # tokens (or images) that one run evaluates


@dataclass(frozen=True)
class Memory:
    """What one GPU has to hold, in GiB."""

    need_gib: float  # by the fit rule
    allocated_gib: float
    phase: str
    parts_gib: dict[str, float]
    usable_gib: float
    fit_probability: float


@dataclass(frozen=True)
class RecomputedPhysics:
    """What the recipe takes on the offer's machines."""

    memory: Memory
    step_seconds: float  # per optimizer step, as fed by storage and with the job's own factor on speed
    fed_by_storage: bool  # whether storage sets that pace
    sigma: float
    sigma_tail: float
    trainable: float  # parameters
    frozen: float  # 1 where the network itself is not trained
    checkpointing: int  # code of the activations that are computed again
    adapter_bytes: float  # per adapter weight as kept and exported
    pcie_bytes_per_second: float
    correction: RecomputedCorrection  # of observed runs


def recompute_workload(ground: AssignmentContext) -> Workload:
    """Steps and tokens of the job, from what the user said of the work and of the stages around it."""
    stages, trained = ground.job.stages, _recompute_training_work(ground)
    ingested = evaluated = 0.0
    if stages.ingest is not None and ground.architecture.image is None:
        ingested = float(stages.ingest.tokens or 0) or trained.real / ground.job.work.epochs
    if stages.evaluation is not None:
        evaluated = float(stages.evaluation.tokens or 0) or (stages.evaluation.share or 0.0) * trained.real
    return replace(trained, ingested=ingested, evaluated=evaluated)


def _recompute_training_work(ground: AssignmentContext) -> Workload:
    job, work, image = ground.job, ground.job.work, ground.architecture.image
    if image is not None:
        resolution = work.resolution or image.resolution
        tokens = image.tokens(resolution)
        images = work.images * work.epochs if work.images else (work.steps or 0) * job.global_batch
        steps_of_images = math.ceil(images / job.global_batch)
        return Workload(round(tokens), image.memory_tokens(resolution), tokens, images, steps_of_images)
    sequence = job.sequence_length or min(2048, ground.architecture.max_sequence)
    mean = min(work.tokens_per_sample or sequence, sequence)
    if work.steps is not None:
        per_step = PACKED_FILL * sequence if job.packing == "packed" else mean
        return Workload(sequence, sequence, mean, work.steps * job.global_batch * per_step, work.steps)
    samples = work.samples * work.epochs if work.samples is not None else (work.tokens or 0) / mean
    tokens = work.tokens if work.tokens is not None else samples * mean
    steps = float(step_count(job.packing, tokens, samples, sequence, job.global_batch))
    return Workload(sequence, sequence, mean, tokens, steps)


def recompute_physics(ground: AuditContext, work: Workload) -> RecomputedPhysics:
    """Memory, speed and spread of the one configuration that the plan names."""
    setup = recipe_coefficients(ground.recipe, ground.job, ground.network, ground.library)
    hardware = hardware_numbers(
        ground.gpu,
        link_of(ground),
        ground.offer.network_gbps if ground.plan.instances > 1 else None,
        ground.recipe.precision,
        ground.library,
    )
    layout = _layout(ground, work)
    speeds = ground.values("time")
    coefficients = TimeCoefficients(**{one.name: speeds[one.name] for one in fields(TimeCoefficients)})
    run = ground.observed
    timed = step_time(ground.network, layout, setup.states, setup.activations, setup.kernels, hardware, coefficients)
    lesson = recompute_correction(ground)
    computed = float(timed.seconds) / lesson.speed_factor / ground.job.efficiency
    fed = _storage_bound_seconds(ground, work, computed)
    seconds = run.hours * HOUR / work.steps if run and run.hours else fed
    spread = _spread(ground, float(layout.micro_batch * layout.sequence), lesson)
    return RecomputedPhysics(
        memory=_memory(ground, apply_correction(setup, lesson, ground), layout, lesson),
        step_seconds=seconds,
        fed_by_storage=run is None and fed > computed * (1 + 1e-9),
        sigma=spread[0],
        sigma_tail=spread[1],
        trainable=float(setup.states.trainable),
        frozen=float(setup.states.frozen),
        checkpointing=int(setup.activations.checkpointing),
        adapter_bytes=ground.library.techniques.bytes.adapters[ground.framework.adapters].adapter_bytes,
        pcie_bytes_per_second=float(hardware.pcie),
        correction=lesson,
    )


def _storage_bound_seconds(ground: AuditContext, work: Workload, computed: float) -> float:
    """Seconds per step no faster than storage delivers what it works on: token ids, or images."""
    job, image = ground.job, ground.architecture.image
    resolution = (job.work.resolution or image.resolution) if image else 0
    per_step = job.global_batch * (1 if image else work.sequence)
    coefficients = StageCoefficients.of(ground.values("stages"))
    return float(fed_step_seconds(computed, per_step, job.storage_gb_per_second * GB, coefficients, resolution))


def _memory(ground: AuditContext, setup: RecipeCoefficients, layout: Layout, lesson: RecomputedCorrection) -> Memory:
    values = ground.values("memory")
    stack = setup.stack
    if ground.limits.vram_headroom is not None:
        stack = replace(stack, margin=ground.limits.vram_headroom)
    told = estimate_memory(
        ground.network,
        layout,
        setup.states,
        setup.activations,
        stack,
        MemoryCoefficients(**{one.name: values[one.name] for one in fields(MemoryCoefficients)}),
        ground.gpu.usable_gib * GIB,
    )
    # What the fit rule sets aside, not the larger context that a monitor shows.
    context = float(stack.context_gib) + (float(stack.fit_nccl_gib) if ground.plan.gpus > 1 else 0.0)
    room = (ground.gpu.usable_gib - context) * GIB
    spread = memory_tail(values, ground.job.framework, ground.framework.profiled)
    spread = shrink_fit_spread(spread, lesson, ground)
    parts, need, run = told.breakdown, float(told.need) / GIB, ground.observed
    certain = run is not None or is_proven_by_run(lesson, ground, float(layout.longest_sequence))
    need = max(need, lesson.floor_gib)
    if run:  # it did fit: what was seen, else at most the card
        need = run.peak_vram_gib or min(need, ground.gpu.usable_gib)
    return Memory(
        need_gib=need,
        allocated_gib=float(told.allocated) / GIB,
        phase=PHASES[int(told.phase)],
        parts_gib={one.name: float(getattr(parts, one.name)) / GIB for one in fields(parts)},
        usable_gib=ground.gpu.usable_gib,
        fit_probability=1.0 if certain else float(fit_probability(told.allocated, room, spread)),
    )


def _layout(ground: AuditContext, work: Workload) -> Layout:
    plan, said, job = ground.plan, ground.plan.techniques, ground.job
    processed = processed_length(job.packing, work.sequence, work.mean_length, job.length_cv, said.micro_batch)
    return Layout(
        micro_batch=said.micro_batch,
        accumulation=said.accumulation_steps,
        sequence=float(processed),
        longest_sequence=work.longest,
        gpus=plan.gpus,
        gpus_per_node=plan.gpus_per_instance,
        tensor=said.tensor_parallel,
        pipeline=said.pipeline_parallel,
        zero_stage=ground.recipe.zero_stage,
        hybrid=int(said.sharding == "hsdp"),
        variable_length=int(job.packing == "padded"),
    )


def _spread(ground: AuditContext, tokens_per_micro_batch: float, lesson: RecomputedCorrection) -> tuple[float, float]:
    """Sigma and sigma_tail of the speed: profile, card, size, mixture, few tokens, what is not known."""
    values = ground.values("uncertainty")
    if ground.observed:
        again = class_sigmas(values, "observed")
        return again.display, again.tail
    profile = "unknown" if ground.framework.unknown else ground.framework.kernels
    card = ground.library.calibrations["gpu_efficiency"].coefficients[ground.gpu.name]
    sigmas = time_sigmas(
        UncertaintyClasses.of(values),
        class_sigmas(values, profile),
        class_sigmas(values, ground.gpu.name),
        ground.plan.gpus,
        ground.plan.instances,
        tokens_per_micro_batch,
        # A U-Net is no stack of equal layers: as uncertain as a mixture of experts.
        mixture=int(ground.network.experts > 0 or ground.architecture.image is not None),
        efficiency_is_prior=int(card.basis != "measured"),
        network_unknown=int(ground.offer.network_gbps is None),
    )
    return shrink_spread((float(sigmas.display), float(sigmas.tail)), lesson, ground)


def check_memory_fit(ground: AuditContext, physics: RecomputedPhysics, tolerance: Tolerance) -> list[Violation]:
    """The need of the fit rule, recomputed, is at most what the card gives; an observed run fits by itself."""
    if ground.observed:
        return []
    memory = physics.memory
    slack = tolerance.gib * memory.usable_gib
    return check_at_most(ground.plan.name, "VRAM need in GiB", memory.usable_gib, memory.need_gib, slack)


def check_memory(ground: AuditContext, physics: RecomputedPhysics, tolerance: Tolerance) -> list[Violation]:
    """Peak, allocated, usable and every part of the plan are what comes out again, and the parts sum up."""
    name, said, memory = ground.plan.name, ground.plan.vram_gib, physics.memory
    found = check_equal(name, "vram_gib.phase", memory.phase, said.phase)
    for what, expected, told in (
        ("peak", memory.need_gib, said.peak),
        ("allocated", memory.allocated_gib, said.allocated),
        ("usable", memory.usable_gib, said.usable),
        ("fit_probability", memory.fit_probability, said.fit_probability),
        ("sum of parts", said.allocated, math.fsum(said.parts.values())),
    ):
        found += check_close(name, f"vram_gib {what}", expected, told, tolerance.gib)
    for part, expected in memory.parts_gib.items():
        # Parts are not compared by their own size: a tiny one is a difference of large ones.
        room = tolerance.gib * memory.allocated_gib
        found += check_close(name, f"vram_gib.parts.{part}", expected, said.parts.get(part, 0.0), absolute=room)
    strange = sorted(set(said.parts) - set(memory.parts_gib))
    return found + [Violation(name, "vram_gib.parts", "a known part", part) for part in strange]


def check_speed(
    ground: AuditContext, work: Workload, physics: RecomputedPhysics, tolerance: Tolerance
) -> list[Violation]:
    """Steps, sequence length, seconds per step, tokens per second and its interval, both spreads."""
    plan = ground.plan
    rate = work.real / (work.steps * physics.step_seconds)
    reach = math.exp(1.28 * physics.sigma)
    found = check_equal(plan.name, "fed_by_storage", physics.fed_by_storage, plan.fed_by_storage)
    found += check_equal(plan.name, "steps", int(work.steps), plan.steps)
    found += check_equal(plan.name, "sequence_length", int(work.sequence), plan.sequence_length)
    for what, expected, told in (
        ("step_seconds", physics.step_seconds, plan.step_seconds),
        ("tokens_per_second", rate, plan.tokens_per_second),
        ("tokens_per_second_low", rate / reach, plan.tokens_per_second_low),
        ("tokens_per_second_high", rate * reach, plan.tokens_per_second_high),
        ("sigma", physics.sigma, plan.sigma),
        ("sigma_tail", physics.sigma_tail, plan.sigma_tail),
    ):
        found += check_close(plan.name, what, expected, told, tolerance.hours)
    return found
