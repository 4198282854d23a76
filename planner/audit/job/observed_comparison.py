"""Audit of observed runs: each is compared again, one configuration at a time, in plain arithmetic.

The order of trial is the planner's own business: here every recipe and batch that a run leaves open is tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from planner.configurations.coefficients import RecipeCoefficients, recipe_coefficients
from planner.configurations.hardware import hardware_numbers
from planner.configurations.recipe import (
    GpuClass,
    Recipe,
    enumerate_recipes,
    expand_parallel_degrees,
    find_incompatibility,
    is_allowed,
)
from planner.estimates.inputs import Layout
from planner.estimates.memory.peak import estimate_memory
from planner.estimates.memory.states import MemoryCoefficients
from planner.estimates.time.coefficients import TimeCoefficients
from planner.estimates.time.step import step_time
from planner.estimates.work import PACKED_FILL, processed_length
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.audit.job.context import AuditContext
    from planner.library.schema import GpuSpec
    from planner.scenario.scenario import Job, Measured

KINDS = {"allocated": "allocated", "reserved": "reserved_uncapped", "device": "device_used"}


@dataclass(frozen=True)
class RecomputedRun:
    """An observed run, the configuration that it is compared with, and what was predicted for it."""

    run: Measured
    card: GpuSpec
    instances: int
    recipe: Recipe
    setup: RecipeCoefficients
    layout: Layout
    predicted: float  # tokens (images) per second
    predicted_gib: float | None = None
    scale: float | None = None  # of the bytes that grow with the batch, to explain the peak


def recompute_run(ground: AuditContext, run: Measured) -> RecomputedRun | None:
    """The configuration of a run: of those that it leaves open the fastest that fits, else the smallest."""
    job, card = _job_of(ground.job, run), ground.library.gpu(run.gpu)
    kind = GpuClass.of(card)
    recipes = [
        one
        for one in enumerate_recipes(job, kind, run.gpus > 1, ground.library)
        if is_allowed(one, job) and find_incompatibility(one, kind, job.framework, ground.library) is None
    ]
    best, fits = _best(ground, job, run, card, recipes)
    if not fits and recipes and (opened := expand_parallel_degrees(job, recipes, ground.library)):
        other, fits = _best(ground, job, run, card, opened)
        best = other if fits or best is None else best
    return None if best is None else _with_peak(best, ground)


def _best(
    ground: AuditContext, job: Job, run: Measured, card: GpuSpec, recipes: list[Recipe]
) -> tuple[RecomputedRun | None, bool]:
    fastest: RecomputedRun | None = None
    smallest: tuple[float, RecomputedRun] | None = None
    for one in _configurations(ground, job, run, card, recipes):
        if fastest is not None and one.predicted <= fastest.predicted:
            continue
        memory = estimate_memory(
            ground.network,
            one.layout,
            one.setup.states,
            one.setup.activations,
            one.setup.stack,
            memory_values(ground),
            card.usable_gib * GIB,
        )
        need = float(memory.need) / GIB
        if need <= card.usable_gib:
            fastest = one
        elif smallest is None or need < smallest[0]:
            smallest = (need, one)
    return (fastest, True) if fastest is not None else (smallest[1] if smallest else None, False)


def _configurations(
    ground: AuditContext, job: Job, run: Measured, card: GpuSpec, recipes: list[Recipe]
) -> Iterator[RecomputedRun]:
    """Every recipe with every batch that a run leaves open, with its speed."""
    least = math.ceil(run.gpus / 8)
    instances = run.instances or next(n for n in range(least, run.gpus + 1) if run.gpus % n == 0)
    each = run.gpus // instances
    link = "pcie" if each == 1 else run.interconnect or ("nvlink" if card.nvlink_by_default else "pcie")
    network_gbps = run.network_gbps if instances > 1 else None
    sequence, longest, mean, unit = sequence_lengths(ground, job)
    speeds = ground.values("time")
    coefficients = TimeCoefficients(**{one.name: speeds[one.name] for one in fields(TimeCoefficients)})
    for recipe in recipes:
        degrees = recipe.tensor_parallel * recipe.pipeline_parallel
        spans = run.gpus > 16 and instances > 1
        if run.gpus % degrees or recipe.tensor_parallel > each or (recipe.sharding == "hsdp" and not spans):
            continue
        ranks = run.gpus // degrees
        setup = recipe_coefficients(recipe, job, ground.network, ground.library)
        hardware = hardware_numbers(card, link, network_gbps, recipe.precision, ground.library)
        for micro, steps in _open_batches(job, run, ranks):
            layout = Layout(
                micro_batch=micro,
                accumulation=steps,
                sequence=float(processed_length(job.packing, sequence, mean, job.length_cv, micro)),
                longest_sequence=longest,
                gpus=run.gpus,
                gpus_per_node=each,
                tensor=recipe.tensor_parallel,
                pipeline=recipe.pipeline_parallel,
                zero_stage=recipe.zero_stage,
                hybrid=int(recipe.sharding == "hsdp"),
                variable_length=int(job.packing == "padded"),
            )
            parts = (setup.states, setup.activations, setup.kernels, hardware, coefficients)
            seconds = float(step_time(ground.network, layout, *parts).seconds)
            rate = micro * steps * ranks * unit / seconds
            yield RecomputedRun(run, card, instances, recipe, setup, layout, rate)


def _open_batches(job: Job, run: Measured, ranks: int) -> Iterator[tuple[int, int]]:
    """Micro-batch and accumulation steps that a run leaves open."""
    if run.micro_batch and run.accumulation_steps and run.global_batch is None:
        yield run.micro_batch, run.accumulation_steps
        return
    if job.global_batch % ranks:
        return
    local = job.global_batch // ranks
    for micro in range(1, local + 1):
        steps = local // micro
        if local % micro or run.micro_batch not in (None, micro):
            continue
        if run.accumulation_steps in (None, steps):
            yield micro, steps


def sequence_lengths(ground: AuditContext, job: Job) -> tuple[int, float, float, float]:
    """Tokens per sequence, of the longest, of a sample, and real tokens (images) that one sequence counts as."""
    image, work = ground.architecture.image, job.work
    if image is not None:
        resolution = work.resolution or image.resolution
        tokens = image.tokens(resolution)
        return round(tokens), image.memory_tokens(resolution), tokens, 1.0
    sequence = job.sequence_length or min(2048, ground.architecture.max_sequence)
    mean = min(work.tokens_per_sample or sequence, sequence)
    return sequence, sequence, mean, PACKED_FILL * sequence if job.packing == "packed" else mean


def _job_of(job: Job, run: Measured) -> Job:
    """The job with what the run says in place of what the job leaves open."""
    known = type(job.techniques).model_fields
    said: dict[str, Any] = {name: (value,) for name, value in run.settings.items() if name in known}
    if run.quant and not run.weight_bits:
        said["weight_bits"] = (4,)
    changes = {
        "sequence_length": run.sequence_length or job.sequence_length,
        "global_batch": run.global_batch or job.global_batch,
        "techniques": job.techniques.model_copy(update=said),
    }
    return job.model_copy(update=changes)


def _with_peak(one: RecomputedRun, ground: AuditContext) -> RecomputedRun:
    """With the factor on growing bytes that explains the observed peak."""
    observed = one.run.peak_vram_gib
    if observed is None:
        return one
    pilot = ground.values("pilot")
    low, high = pilot["memory_scale_low"], pilot["memory_scale_high"]
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if peak_gib(one, middle, ground) < observed else (low, middle)
    return replace(one, predicted_gib=peak_gib(one, 1.0, ground), scale=high)


def peak_gib(one: RecomputedRun, scale: float, ground: AuditContext) -> float:
    """The estimate of a run's peak, of the kind that was observed, what grows with the batch scaled."""
    activations = replace(one.setup.activations, scale=scale)
    told = estimate_memory(
        ground.network, one.layout, one.setup.states, activations, one.setup.stack, memory_values(ground)
    )
    return float(getattr(told, KINDS[one.run.peak_kind or "allocated"])) / GIB


def memory_values(ground: AuditContext) -> MemoryCoefficients:
    values = ground.values("memory")
    return MemoryCoefficients(**{one.name: values[one.name] for one in fields(MemoryCoefficients)})
