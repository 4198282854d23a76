"""Audit of what observed runs teach: the sums done over, for the one setting that the plan names."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from planner.audit.job.context import Ground, Tolerance, Violation, apart, unequal
from planner.audit.job.observed_comparison import Compared, compared_again, lengths_of, memory_values
from planner.configurations.coefficients import RecipeSetup
from planner.configurations.recipe import Recipe
from planner.estimates.memory.peak import estimate_memory
from planner.estimates.observed_runs import (
    fit_sigma_after,
    log_memory_scale,
    log_speed_correction,
    memory_half,
    sigmas_after,
)
from planner.estimates.uncertainty import Sigmas, memory_tail
from planner.results.plan import ObservedRun
from planner.units import GIB


@dataclass(frozen=True)
class Lesson:
    """What the runs of a job teach its estimates."""

    runs: tuple[Compared, ...]
    speed_factor: float
    like: tuple[Compared, ...]  # those of the plan's own setting whose peak was seen
    memory_scale: float
    floor_gib: float  # what a run at most as large as the plan was seen to take

    @property
    def timed(self) -> tuple[Compared, ...]:
        """The runs whose speed was seen."""
        return tuple(one for one in self.runs if one.run.tokens_per_second is not None)


def lesson_of(ground: Ground) -> Lesson:
    """All runs of the job compared again."""
    runs = tuple(
        found for run in ground.job.measured if run.hours is None and (found := compared_again(ground, run)) is not None
    )
    pilot = ground.values("pilot")
    like = tuple(
        one
        for one in runs
        if one.scale is not None and one.recipe == ground.recipe and one.run.gpus == ground.plan.gpus
    )
    half = memory_half(_sigma(ground), pilot["sigma_probed"])
    scale = math.exp(log_memory_scale([math.log(one.scale) for one in like if one.scale is not None], half))
    return Lesson(
        runs,
        math.exp(log_speed_correction(_log_ratios(runs), pilot["speed_half"])),
        like,
        scale,
        max((_taken_gib(one) for one in like if _is_no_larger(one, ground)), default=0.0),
    )


def _log_ratios(runs: tuple[Compared, ...]) -> list[float]:
    """ln(measured / predicted) of the speeds that were seen."""
    speeds = [(one.run.tokens_per_second, one.predicted) for one in runs]
    return [math.log(seen / predicted) for seen, predicted in speeds if seen is not None]


def _is_no_larger(one: Compared, ground: Ground) -> bool:
    longest = lengths_of(ground, ground.job)[1]
    said = ground.plan.techniques
    return bool(one.layout.micro_batch <= said.micro_batch and one.layout.longest_sequence <= longest)


def _taken_gib(one: Compared) -> float:
    """An observed peak with the context that its kind leaves out; at most the card, because it did run."""
    stack = one.setup.stack
    context = 0.0 if one.run.peak_kind == "device" else float(stack.context_gib)
    if one.run.gpus > 1 and one.run.peak_kind != "device":
        context += float(stack.fit_nccl_gib)
    return min((one.run.peak_vram_gib or 0.0) + context, one.card.usable_gib)


def _sigma(ground: Ground) -> float:
    return memory_tail(ground.values("memory"), ground.job.framework, bool(ground.framework["profiled"]))


def with_lesson(setup: RecipeSetup, lesson: Lesson, ground: Ground) -> RecipeSetup:
    """The setup of the plan's configuration as its observed peaks have it; the margin of a headroom comes later."""
    if not lesson.like:
        return setup
    memory = ground.values("memory")
    stack = replace(setup.stack, margin=memory["margin_probed"], phi=memory["phi_probed"])
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


def _passing_margin(one: Compared, setup: RecipeSetup, lesson: Lesson, ground: Ground) -> float:
    """The margin with which the fit rule lets the run pass that did fit."""
    usable = one.card.usable_gib * GIB
    activations = replace(setup.activations, scale=lesson.memory_scale)
    told = estimate_memory(
        ground.network, one.layout, setup.states, activations, setup.stack, memory_values(ground), usable
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
        _log_ratios(lesson.timed),
    )
    return float(after.display), float(after.tail)


def fit_spread_after(before: float, lesson: Lesson, ground: Ground) -> float:
    """Spread of the plan's memory, given the peaks that were seen at its setting."""
    runs = len(lesson.like)
    return fit_sigma_after(before, ground.values("pilot")["sigma_probed"], runs) if runs else before


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
