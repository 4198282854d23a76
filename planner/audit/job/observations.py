"""Audit of what observed runs teach: the sums done over, for the one setting that the plan names."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from planner.audit.job.context import AuditContext, Tolerance, Violation, check_close, check_equal
from planner.audit.job.observed_comparison import RecomputedRun, memory_values, recompute_run, sequence_lengths
from planner.configurations.coefficients import RecipeCoefficients
from planner.configurations.recipe import Recipe
from planner.estimates.memory.peak import estimate_memory
from planner.estimates.observed_runs import (
    corrected_fit_sigma,
    corrected_sigmas,
    log_memory_scale,
    log_speed_correction,
    memory_half_weight_runs,
)
from planner.estimates.uncertainty import Sigmas, memory_tail
from planner.units import GIB

if TYPE_CHECKING:
    from planner.results.plan import ObservedRun


@dataclass(frozen=True)
class RecomputedCorrection:
    """What the runs of a job teach its estimates."""

    runs: tuple[RecomputedRun, ...]
    speed_factor: float
    comparable_runs: tuple[RecomputedRun, ...]  # those of the plan's own setting whose peak was seen
    memory_scale: float
    floor_gib: float  # what a run at most as large as the plan was seen to take

    @property
    def timed_runs(self) -> tuple[RecomputedRun, ...]:
        """The runs whose speed was seen."""
        return tuple(one for one in self.runs if one.run.tokens_per_second is not None)


def recompute_correction(ground: AuditContext) -> RecomputedCorrection:
    """All runs of the job compared again."""
    runs = tuple(
        found for run in ground.job.measured if run.hours is None and (found := recompute_run(ground, run)) is not None
    )
    pilot = ground.values("pilot")
    like = tuple(
        one
        for one in runs
        if one.scale is not None and one.recipe == ground.recipe and one.run.gpus == ground.plan.gpus
    )
    half = memory_half_weight_runs(_sigma(ground), pilot["sigma_probed"])
    scale = math.exp(log_memory_scale([math.log(one.scale) for one in like if one.scale is not None], half))
    return RecomputedCorrection(
        runs,
        math.exp(log_speed_correction(_log_ratios(runs), pilot["speed_half"])),
        like,
        scale,
        max((_peak_with_context_gib(one) for one in like if _is_no_larger(one, ground)), default=0.0),
    )


def _log_ratios(runs: tuple[RecomputedRun, ...]) -> list[float]:
    """ln(measured / predicted) of the speeds that were seen."""
    speeds = [(one.run.tokens_per_second, one.predicted) for one in runs]
    return [math.log(seen / predicted) for seen, predicted in speeds if seen is not None]


def _is_no_larger(one: RecomputedRun, ground: AuditContext) -> bool:
    longest = sequence_lengths(ground, ground.job)[1]
    said = ground.plan.techniques
    return bool(one.layout.micro_batch <= said.micro_batch and one.layout.longest_sequence <= longest)


def _peak_with_context_gib(one: RecomputedRun) -> float:
    """An observed peak with the context that its kind leaves out; at most the card, because it did run."""
    stack = one.setup.stack
    context = 0.0 if one.run.peak_kind == "device" else float(stack.context_gib)
    if one.run.gpus > 1 and one.run.peak_kind != "device":
        context += float(stack.fit_nccl_gib)
    return min((one.run.peak_vram_gib or 0.0) + context, one.card.usable_gib)


def _sigma(ground: AuditContext) -> float:
    return memory_tail(ground.values("memory"), ground.job.framework, ground.framework.profiled)


def apply_correction(
    setup: RecipeCoefficients, lesson: RecomputedCorrection, ground: AuditContext
) -> RecipeCoefficients:
    """The setup of the plan's configuration as its observed peaks have it; the margin of a headroom comes later."""
    if not lesson.comparable_runs:
        return setup
    memory = ground.values("memory")
    stack = replace(setup.stack, margin=memory["margin_probed"], phi=memory["phi_probed"])
    margins = [
        _passing_margin(one, replace(setup, stack=stack), lesson, ground)
        for one in lesson.comparable_runs
        if one.card.name == ground.gpu.name
    ]
    return RecipeCoefficients(
        setup.states,
        replace(setup.activations, scale=lesson.memory_scale),
        replace(stack, margin=min([stack.margin, *margins])),
        setup.kernels,
    )


def _passing_margin(
    one: RecomputedRun, setup: RecipeCoefficients, lesson: RecomputedCorrection, ground: AuditContext
) -> float:
    """The margin with which the fit rule lets the run pass that did fit."""
    usable = one.card.usable_gib * GIB
    activations = replace(setup.activations, scale=lesson.memory_scale)
    told = estimate_memory(
        ground.network, one.layout, setup.states, activations, setup.stack, memory_values(ground), usable
    )
    over = float(told.need) - usable
    margin = float(setup.stack.margin)
    return margin - (over / float(told.allocated) + 1e-9) if over > 0 else margin


def shrink_spread(
    before: tuple[float, float], lesson: RecomputedCorrection, ground: AuditContext
) -> tuple[float, float]:
    """Sigma and sigma_tail of the plan's speed, given the runs that were seen."""
    if not lesson.timed_runs:
        return before
    several, method = ground.plan.instances > 1, ground.recipe.method
    alike = [one for one in lesson.timed_runs if one.recipe.method == method and (one.instances > 1) == several]
    kind = "other_source"
    if alike:
        kind = "same_card" if any(one.card.name == ground.gpu.name for one in alike) else "other_card"
    values, pilot = ground.values("uncertainty"), ground.values("pilot")
    after = corrected_sigmas(
        Sigmas(*before),
        values[f"difference.{kind}"],
        values["difference.other_source"],
        pilot["tail"],
        len(lesson.timed_runs),
        pilot["speed_half"],
        _log_ratios(lesson.timed_runs),
    )
    return float(after.display), float(after.tail)


def shrink_fit_spread(before: float, lesson: RecomputedCorrection, ground: AuditContext) -> float:
    """Spread of the plan's memory, given the peaks that were seen at its setting."""
    runs = len(lesson.comparable_runs)
    return corrected_fit_sigma(before, ground.values("pilot")["sigma_probed"], runs) if runs else before


def is_proven_by_run(lesson: RecomputedCorrection, ground: AuditContext, longest: float) -> bool:
    """Whether a run at least as large as the plan was seen to fit on its card."""
    said = ground.plan.techniques
    return any(
        one.card.name == ground.gpu.name
        and said.micro_batch <= one.layout.micro_batch
        and (one.layout.accumulation > 1 or said.accumulation_steps == 1)
        and longest <= one.layout.longest_sequence
        for one in lesson.comparable_runs
    )


def check_observations(ground: AuditContext, lesson: RecomputedCorrection, tolerance: Tolerance) -> list[Violation]:
    """Factors, and every run with its configuration and prediction, are what comes out again."""
    plan, name = ground.plan, ground.plan.name
    found = check_close(name, "speed_factor", lesson.speed_factor, plan.speed_factor, tolerance.hours)
    found += check_close(name, "memory_factor", lesson.memory_scale, plan.memory_factor, tolerance.gib)
    found += check_equal(name, "observed runs", len(lesson.runs), len(plan.observed_runs))
    for number, (one, said) in enumerate(zip(lesson.runs, plan.observed_runs, strict=False)):
        found += _check_run(name, f"observed_runs[{number}]", one, said, tolerance)
    return found


def _check_run(name: str, where: str, one: RecomputedRun, said: ObservedRun, tolerance: Tolerance) -> list[Violation]:
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
        found += check_equal(name, f"{where}.{what}", wanted, is_)
    for what, expected, figure in (
        ("tokens_per_second", run.tokens_per_second, said.tokens_per_second),
        ("predicted_tokens_per_second", one.predicted, said.predicted_tokens_per_second),
        ("peak_vram_gib", run.peak_vram_gib, said.peak_vram_gib),
        ("predicted_peak_vram_gib", one.predicted_gib, said.predicted_peak_vram_gib),
    ):
        if expected is None:
            found += check_equal(name, f"{where}.{what}", None, figure)
        else:
            found += check_close(name, f"{where}.{what}", expected, figure, tolerance.hours)
    return found
