"""What observed runs teach the plan's configuration: each run is compared again, one setup at a time.

The order of trial is the planner's own business: here every recipe and batch that a run leaves open is tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.physics import Lesson, TrainingSetup, plan_setup, unlearned_fit_sigma, unlearned_sigmas
from planner.configurations.observed.comparison import ASSUMABLE, job_of_run, machine_of
from planner.configurations.recipe import (
    HYBRID_ABOVE_GPUS,
    GpuClass,
    enumerate_recipes,
    expand_parallel_degrees,
    find_incompatibility,
    is_allowed,
)
from planner.estimates.observed_runs import (
    corrected_fit_sigma,
    corrected_sigmas,
    log_memory_scale,
    log_speed_correction,
    memory_half_weight_runs,
)
from planner.estimates.uncertainty import class_sigmas
from planner.results.plan import ObservedRun, Techniques
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.audit.context import AuditContext
    from planner.configurations.recipe import Recipe
    from planner.estimates.uncertainty import Sigmas
    from planner.scenario.scenario import Job, Measured

_PEAKS = {"allocated": "allocated", "reserved": "reserved_uncapped", "device": "device_used"}
"""The figure of the memory estimate that a kind of peak is compared with."""


@dataclass(frozen=True)
class RecomputedRun:
    """An observed run and the setup that it is compared with."""

    run: Measured
    setup: TrainingSetup

    @property
    def predicted(self) -> float:
        """Tokens (images) per second."""
        layout, lengths = self.setup.layout, self.setup.lengths
        batch = float(layout.micro_batch * layout.accumulation * layout.data_parallel)
        return batch * lengths.real_per_sequence / self.setup.step_seconds()

    @property
    def kind(self) -> str:
        """Of the peak."""
        return self.run.peak_kind or "allocated"

    def peak_gib(self, scale: float = 1.0) -> float:
        """Return the estimate of the kind that was observed, what grows with the batch scaled."""
        return float(getattr(self.setup.with_memory(scale).memory(), _PEAKS[self.kind])) / GIB

    def scale(self, low: float, high: float) -> float:
        """Return the factor on bytes that grow with the batch which explains the peak, between two bounds."""
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.peak_gib(middle) < (self.run.peak_vram_gib or 0.0) else (low, middle)
        return high

    def occupied_gib(self) -> float:
        """Return the peak with the context that its kind leaves out; at most the card, because it did run."""
        stack = self.setup.parts.stack
        context = float(stack.context_gib) + (float(stack.fit_nccl_gib) if self.run.gpus > 1 else 0.0)
        beside = 0.0 if self.kind == "device" else context
        return min((self.run.peak_vram_gib or 0.0) + beside, float(self.setup.hardware.usable_bytes) / GIB)


def learn(context: AuditContext) -> Lesson:
    """Return what all runs of the job teach about the plan's configuration."""
    setup, pilot = plan_setup(context), context.values("pilot")
    runs = [found for run in context.job.measured if run.hours is None and (found := _compare(context, run))]
    timed = [one for one in runs if one.run.tokens_per_second is not None]
    log_ratios = [math.log((one.run.tokens_per_second or 0.0) / one.predicted) for one in timed]
    alike = [
        one
        for one in runs
        if one.run.peak_vram_gib is not None
        and (one.setup.recipe, one.run.gpus) == (context.recipe, context.machine.gpus)
    ]
    before = unlearned_fit_sigma(context)
    half = memory_half_weight_runs(before, pilot["sigma_probed"])
    bounds = (pilot["memory_scale_low"], pilot["memory_scale_high"])
    scale = math.exp(log_memory_scale([math.log(one.scale(*bounds)) for one in alike], half))
    layout = setup.layout
    smaller = [
        one
        for one in alike
        if one.setup.layout.micro_batch <= layout.micro_batch
        and one.setup.layout.longest_sequence <= layout.longest_sequence
    ]
    return Lesson(
        runs=tuple(_report(one) for one in runs),
        setup=_correct_memory(context, setup, alike, scale) if alike else setup,
        speed_factor=math.exp(log_speed_correction(log_ratios, pilot["speed_half"])),
        memory_factor=scale,
        sigmas=_sigmas(context, setup, timed, log_ratios),
        fit_sigma=corrected_fit_sigma(before, pilot["sigma_probed"], len(alike)) if alike else before,
        floor_gib=max((one.occupied_gib() for one in smaller), default=0.0),
        is_proven=any(_proves(one, setup) for one in alike),
    )


def _compare(context: AuditContext, run: Measured) -> RecomputedRun | None:
    """Return the run with the setup of those that it leaves open: the fastest that fits, else the smallest."""
    library, job = context.library, job_of_run(context.job, run)
    kind = GpuClass.of(library.gpu(run.gpu))
    recipes = [
        one
        for one in enumerate_recipes(job, kind, run.gpus > 1, library)
        if is_allowed(one, job) and find_incompatibility(one, kind, job.framework, library) is None
    ]
    best, fits = _best(_setups(context, job, run, recipes), run)
    if not fits and recipes and (opened := expand_parallel_degrees(job, recipes, library)):
        other, fits = _best(_setups(context, job, run, opened), run)
        best = other if fits or best is None else best
    return best


def _best(setups: Iterator[TrainingSetup], run: Measured) -> tuple[RecomputedRun | None, bool]:
    """Return the fastest setup that fits; without one the smallest, and False."""
    fastest: tuple[float, RecomputedRun] | None = None
    smallest: tuple[float, RecomputedRun] | None = None
    for setup in setups:
        one = RecomputedRun(run, setup)
        rate = one.predicted
        if fastest is not None and rate <= fastest[0]:
            continue
        need = float(setup.memory().need)
        if need <= float(setup.hardware.usable_bytes):
            fastest = (rate, one)
        elif smallest is None or need < smallest[0]:
            smallest = (need, one)
    best = fastest or smallest
    return best[1] if best else None, fastest is not None


def _setups(context: AuditContext, job: Job, run: Measured, recipes: Sequence[Recipe]) -> Iterator[TrainingSetup]:
    """Yield every recipe with every batch that a run leaves open."""
    machine = machine_of(run, context.library.gpu(run.gpu))
    spans = machine.gpus > HYBRID_ABOVE_GPUS and machine.instances > 1
    for recipe in recipes:
        degrees = recipe.tensor_parallel * recipe.pipeline_parallel
        is_odd = machine.gpus % degrees or recipe.tensor_parallel > machine.gpus_per_instance
        if is_odd or (recipe.sharding == "hsdp" and not spans):
            continue
        setup = TrainingSetup.of(job, recipe, machine, context.architecture, context.library)
        for batch in _open_batches(job, run, machine.gpus // degrees):
            yield setup.with_batch(*batch)


def _open_batches(job: Job, run: Measured, ranks: int) -> Iterator[tuple[int, int]]:
    """Yield micro-batch and accumulation steps that a run leaves open."""
    if run.micro_batch and run.accumulation_steps and run.global_batch is None:
        yield run.micro_batch, run.accumulation_steps
    elif job.global_batch % ranks == 0:
        local = job.global_batch // ranks
        for micro in range(1, local + 1):
            is_open = run.micro_batch in (None, micro) and run.accumulation_steps in (None, local // micro)
            if local % micro == 0 and is_open:
                yield micro, local // micro


def _correct_memory(
    context: AuditContext, setup: TrainingSetup, alike: Sequence[RecomputedRun], scale: float
) -> TrainingSetup:
    """Return the plan's setup as peaks of its own setting have it, with the margin that lets runs pass which fitted."""
    memory = context.values("memory")
    margins = [memory["margin_probed"]]
    learned = {"scale": scale, "phi": memory["phi_probed"]}
    for one in alike:
        if one.setup.machine.gpu == context.gpu.name:
            told = one.setup.with_memory(margin=margins[0], **learned).memory()
            over = float(told.need) - float(one.setup.hardware.usable_bytes)
            margins.append(margins[0] - (over / float(told.allocated) + 1e-9) if over > 0 else margins[0])
    return setup.with_memory(margin=min(margins), **learned)


def _sigmas(
    context: AuditContext, setup: TrainingSetup, timed: Sequence[RecomputedRun], log_ratios: Sequence[float]
) -> Sigmas:
    """Return the spread of the plan's speed, given the runs that were timed; that of observed hours is a class."""
    values, pilot = context.values("uncertainty"), context.values("pilot")
    if context.observed:
        return class_sigmas(values, "observed")
    before = unlearned_sigmas(context, setup)
    if not timed:
        return before
    own = (context.recipe.method, context.machine.instances > 1)
    alike = [one.setup for one in timed if (one.setup.recipe.method, one.setup.machine.instances > 1) == own]
    on_card = any(one.machine.gpu == context.gpu.name for one in alike)
    kind = "same_card" if on_card else "other_card" if alike else "other_source"
    return corrected_sigmas(
        before,
        values[f"difference.{kind}"],
        values["difference.other_source"],
        pilot["tail"],
        len(timed),
        pilot["speed_half"],
        log_ratios,
    )


def _proves(one: RecomputedRun, setup: TrainingSetup) -> bool:
    """Return whether a run at least as large as the plan was seen to fit on its card."""
    ran, planned = one.setup.layout, setup.layout
    return bool(
        one.setup.machine.gpu == setup.machine.gpu
        and planned.micro_batch <= ran.micro_batch
        and (ran.accumulation > 1 or planned.accumulation == 1)
        and planned.longest_sequence <= ran.longest_sequence
    )


def _report(one: RecomputedRun) -> ObservedRun:
    """Return a run as a plan reports it."""
    run, layout, job = one.run, one.setup.layout, one.setup.job
    peak_was_seen = run.peak_vram_gib is not None
    return ObservedRun(
        gpu=run.gpu,
        gpus=run.gpus,
        techniques=techniques_of(one.setup.recipe, job, int(layout.micro_batch), int(layout.accumulation)),
        assumed=tuple(name for name in ASSUMABLE if getattr(run, name) is None),
        tokens_per_second=run.tokens_per_second,
        predicted_tokens_per_second=one.predicted,
        peak_vram_gib=run.peak_vram_gib,
        predicted_peak_vram_gib=one.peak_gib() if peak_was_seen else None,
        peak_kind=one.kind if peak_was_seen else None,
    )


def techniques_of(recipe: Recipe, job: Job, micro_batch: int, accumulation: int) -> Techniques:
    """Return a recipe and its batch as a plan reports them; adapters only where there are any."""
    adapts = recipe.method == "lora"
    return Techniques(
        **vars(recipe),
        micro_batch=micro_batch,
        accumulation_steps=accumulation,
        lora_rank=job.lora.rank if adapts else None,
        lora_targets=job.lora.targets if adapts else None,
    )
