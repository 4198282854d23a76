"""Audit of what observed runs teach: each is compared again, one configuration at a time, and the sums done over.

The order of trial is the planner's own business: here every recipe and batch that a run leaves open is tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from planner.audit_ground import Ground, Tolerance, Violation, apart, unequal
from planner.estimates.coefficients import TimeCoefficients
from planner.estimates.memory import MemoryCoefficients, estimate_memory
from planner.estimates.pilot import fit_sigma_after, log_memory_scale, log_speed_correction, sigmas_after
from planner.estimates.setup import Layout
from planner.estimates.throughput import step_time
from planner.estimates.uncertainty import Sigmas
from planner.estimates.work import PACKED_FILL, processed_length
from planner.hardware import hardware_numbers
from planner.library import GpuSpec
from planner.plan import ObservedRun
from planner.recipes import CardClass, Recipe, allowed, enumerate_recipes, opened_recipes, refusal
from planner.scenario import Job, Measured
from planner.setups import RecipeSetup, recipe_setup
from planner.units import GIB

KINDS = {"allocated": "allocated", "reserved": "reserved_uncapped", "device": "device_used"}


@dataclass(frozen=True)
class Compared:
    """An observed run, the configuration that it is compared with, and what was predicted for it."""

    run: Measured
    card: GpuSpec
    instances: int
    recipe: Recipe
    setup: RecipeSetup
    layout: Layout
    predicted: float  # tokens (images) per second
    predicted_gib: float | None
    scale: float | None  # of the bytes that grow with the batch
    context_gib: float


@dataclass(frozen=True)
class Lesson:
    """What the runs of a job teach its estimates."""

    runs: tuple[Compared, ...]
    speed_factor: float
    like: tuple[Compared, ...]  # those of the plan's own setting whose peak was seen
    memory_scale: float

    @property
    def timed(self) -> tuple[Compared, ...]:
        """The runs whose speed was seen."""
        return tuple(one for one in self.runs if one.run.tokens_per_second is not None)


def lesson_of(ground: Ground) -> Lesson:
    """All runs of the job compared again."""
    runs = tuple(
        found for run in ground.job.measured if run.hours is None and (found := _compared(ground, run)) is not None
    )
    pilot = ground.values("pilot")
    ratios = [
        math.log(one.run.tokens_per_second / one.predicted) for one in runs if one.run.tokens_per_second is not None
    ]
    like = tuple(
        one
        for one in runs
        if one.scale is not None and one.recipe == ground.recipe and one.run.gpus == ground.plan.gpus
    )
    scales = [math.log(one.scale) for one in like if one.scale is not None]
    return Lesson(
        runs,
        math.exp(log_speed_correction(ratios, pilot["speed_half"])),
        like,
        math.exp(log_memory_scale(scales, pilot["memory_half"])),
    )


def with_lesson(setup: RecipeSetup, lesson: Lesson, ground: Ground) -> RecipeSetup:
    """The setup of the plan's configuration as its observed peaks have it; the margin of a headroom comes later."""
    if not lesson.like:
        return setup
    memory = ground.values("memory")
    stack = _stack_after(setup, lesson, memory["margin_probed"], memory["phi_probed"])
    margins = [
        _passing_margin(one, replace(setup, stack=stack), lesson, ground)
        for one in lesson.like
        if one.card.name == ground.gpu.name
    ]
    return RecipeSetup(
        setup.states,
        replace(setup.activations, scale=lesson.memory_scale),
        replace(stack, margin=min([stack.margin, *margins])),
        setup.kernels,
    )


def _stack_after(setup: RecipeSetup, lesson: Lesson, margin: float, phi: float) -> Any:
    beside = max(one.context_gib for one in lesson.like)
    return replace(setup.stack, context_gib=setup.stack.context_gib + beside, margin=margin, phi=phi)


def _passing_margin(one: Compared, setup: RecipeSetup, lesson: Lesson, ground: Ground) -> float:
    """The margin with which the fit rule lets the run pass that did fit."""
    usable = one.card.usable_gib * GIB
    activations = replace(setup.activations, scale=lesson.memory_scale)
    told = estimate_memory(
        ground.network, one.layout, setup.states, activations, setup.stack, _memory_values(ground), usable
    )
    over = float(told.need) - usable
    margin = float(setup.stack.margin)
    return margin - (over / float(told.allocated) + 1e-9) if over > 0 else margin


def spread_after(before: tuple[float, float], lesson: Lesson, ground: Ground) -> tuple[float, float]:
    """sigma and sigma_tail of the plan's speed, given the runs that were seen."""
    if not lesson.timed:
        return before
    several, method = ground.plan.instances > 1, ground.recipe.method
    alike = [one for one in lesson.timed if one.recipe.method == method and (one.instances > 1) == several]
    kind = "other_source"
    if alike:
        kind = "same_card" if any(one.card.name == ground.gpu.name for one in alike) else "other_card"
    values, pilot = ground.values("uncertainty"), ground.values("pilot")
    after = sigmas_after(
        Sigmas(*before),
        values[f"difference.{kind}"],
        values["difference.other_source"],
        pilot["tail"],
        len(lesson.timed),
        pilot["speed_half"],
    )
    return float(after.display), float(after.tail)


def fit_spread_after(before: float, lesson: Lesson, ground: Ground) -> float:
    """Spread of the plan's memory, given the peaks that were seen at its setting."""
    pilot = ground.values("pilot")
    runs = len(lesson.like)
    return fit_sigma_after(before, pilot["sigma_probed"], runs, pilot["memory_half"]) if runs else before


def did_run(lesson: Lesson, ground: Ground, longest: float) -> bool:
    """Whether a run at least as large as the plan was seen to fit on its card."""
    said = ground.plan.techniques
    return any(
        one.card.name == ground.gpu.name
        and said.micro_batch <= one.layout.micro_batch
        and (one.layout.accumulation > 1 or said.accumulation_steps == 1)
        and longest <= one.layout.longest_sequence
        for one in lesson.like
    )


def observations_are_told(ground: Ground, lesson: Lesson, tolerance: Tolerance) -> list[Violation]:
    """Factors, and every run with its configuration and prediction, are what comes out again."""
    plan, name = ground.plan, ground.plan.name
    found = apart(name, "speed_factor", lesson.speed_factor, plan.speed_factor, tolerance.hours)
    found += apart(name, "memory_factor", lesson.memory_scale, plan.memory_factor, tolerance.gib)
    found += unequal(name, "observed runs", len(lesson.runs), len(plan.observed_runs))
    for number, (one, said) in enumerate(zip(lesson.runs, plan.observed_runs, strict=False)):
        found += _run_is_told(name, f"observed_runs[{number}]", one, said, tolerance)
    return found


def _run_is_told(name: str, where: str, one: Compared, said: ObservedRun, tolerance: Tolerance) -> list[Violation]:
    run, told = one.run, said.techniques
    found = []
    for what, wanted, is_ in (
        ("gpu", run.gpu, said.gpu),
        ("gpus", run.gpus, said.gpus),
        ("peak_kind", (run.peak_kind or "allocated") if run.peak_vram_gib else None, said.peak_kind),
        ("micro_batch", float(one.layout.micro_batch), float(told.micro_batch)),
        ("accumulation_steps", float(one.layout.accumulation), float(told.accumulation_steps)),
        *((key.name, getattr(one.recipe, key.name), getattr(told, key.name)) for key in fields(Recipe)),
    ):
        found += unequal(name, f"{where}.{what}", wanted, is_)
    for what, expected, figure in (
        ("tokens_per_second", run.tokens_per_second, said.tokens_per_second),
        ("predicted_tokens_per_second", one.predicted, said.predicted_tokens_per_second),
        ("peak_vram_gib", run.peak_vram_gib, said.peak_vram_gib),
        ("predicted_peak_vram_gib", one.predicted_gib, said.predicted_peak_vram_gib),
    ):
        if expected is None:
            found += unequal(name, f"{where}.{what}", None, figure)
        else:
            found += apart(name, f"{where}.{what}", expected, figure, tolerance.hours)
    return found


def _compared(ground: Ground, run: Measured) -> Compared | None:
    """The configuration of a run: of those that it leaves open the fastest that fits, else the smallest."""
    job, card = _job_of(ground.job, run), ground.library.gpu(run.gpu)
    kind = CardClass.of(card)
    recipes = [
        one
        for one in enumerate_recipes(job, kind, run.gpus > 1, ground.library)
        if allowed(one, job) and refusal(one, kind, job.framework, ground.library) is None
    ]
    best, fits = _best(ground, job, run, card, recipes)
    if not fits and recipes and (opened := opened_recipes(job, recipes, ground.library)):
        other, fits = _best(ground, job, run, card, opened)
        best = other if fits or best is None else best
    return None if best is None else _with_peak(best, ground)


def _best(
    ground: Ground, job: Job, run: Measured, card: GpuSpec, recipes: list[Recipe]
) -> tuple[Compared | None, bool]:
    fastest: Compared | None = None
    smallest: tuple[float, Compared] | None = None
    for one in _configurations(ground, job, run, card, recipes):
        if fastest is not None and one.predicted <= fastest.predicted:
            continue
        memory = estimate_memory(
            ground.network,
            one.layout,
            one.setup.states,
            one.setup.activations,
            one.setup.stack,
            _memory_values(ground),
            card.usable_gib * GIB,
        )
        need = float(memory.need) / GIB
        if need <= card.usable_gib:
            fastest = one
        elif smallest is None or need < smallest[0]:
            smallest = (need, one)
    return (fastest, True) if fastest is not None else (smallest[1] if smallest else None, False)


def _configurations(
    ground: Ground, job: Job, run: Measured, card: GpuSpec, recipes: list[Recipe]
) -> Iterator[Compared]:
    """Every recipe with every batch that a run leaves open, with its speed."""
    least = math.ceil(run.gpus / 8)
    instances = run.instances or next(n for n in range(least, run.gpus + 1) if run.gpus % n == 0)
    each = run.gpus // instances
    link = "pcie" if each == 1 else run.interconnect or ("nvlink" if card.nvlink_by_default else "pcie")
    network_gbps = run.network_gbps if instances > 1 else None
    sequence, longest, mean, unit = _lengths(ground, job)
    speeds = ground.values("time")
    coefficients = TimeCoefficients(**{one.name: speeds[one.name] for one in fields(TimeCoefficients)})
    for recipe in recipes:
        degrees = recipe.tensor_parallel * recipe.pipeline_parallel
        spans = run.gpus > 16 and instances > 1
        if run.gpus % degrees or recipe.tensor_parallel > each or (recipe.sharding == "hsdp" and not spans):
            continue
        ranks = run.gpus // degrees
        setup = recipe_setup(recipe, job, ground.network, ground.library)
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
            yield Compared(run, card, instances, recipe, setup, layout, rate, None, None, 0.0)


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


def _lengths(ground: Ground, job: Job) -> tuple[int, float, float, float]:
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


def _with_peak(one: Compared, ground: Ground) -> Compared:
    """The factor on growing bytes that explains the observed peak, and what no factor explains."""
    observed = one.run.peak_vram_gib
    if observed is None:
        return one
    kind = KINDS[one.run.peak_kind or "allocated"]

    def peak(scale: float) -> float:
        activations = replace(one.setup.activations, scale=scale)
        told = estimate_memory(
            ground.network, one.layout, one.setup.states, activations, one.setup.stack, _memory_values(ground)
        )
        return float(getattr(told, kind)) / GIB

    pilot = ground.values("pilot")
    low, high = pilot["memory_scale_low"], pilot["memory_scale_high"]
    beside = max(0.0, observed - peak(high))
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if peak(middle) < observed else (low, middle)
    return replace(one, predicted_gib=peak(1.0), scale=high, context_gib=beside)


def _memory_values(ground: Ground) -> MemoryCoefficients:
    values = ground.values("memory")
    return MemoryCoefficients(**{one.name: values[one.name] for one in fields(MemoryCoefficients)})
