"""What a plan says of an observed speed: what was measured, what is used for its configuration, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.evaluation.evaluated_physics import techniques_of
from planner.results.plan_parts import ObservedRun
from planner.units import HOUR, figure_text

if TYPE_CHECKING:
    from planner.configurations.observed.comparison import ComparedRun
    from planner.decode.chosen import ChosenCandidate
    from planner.library.schema import Library
    from planner.scenario.job import Job

COMPARED = ("framework", "method_label", "precision", "activation_checkpointing", "sharding", "optimizer", "attention")
"""What a recipe may have other than the observed run, the most telling first."""
MAX_SPEED_DIFFERENCES = 2
"""Differences that a note names."""


def describe_observed_speed(chosen: ChosenCandidate, library: Library) -> list[str]:
    """Return one note: the measured speed nearest to the plan's configuration, the speed used, and why they differ."""
    learned = chosen.candidates.physics.learned
    if not learned.timed:
        return []
    different = [(_differences(seen, chosen), seen) for seen in learned.timed]
    differences, seen = min(different, key=lambda one: len(one[0]))
    unit = "images" if chosen.candidates.physics.shape.unit == "images" else "tokens"
    measured = f"measured {figure_text(seen.run.tokens_per_second or 0.0)} {unit}/s on {seen.run.gpus} x {seen.run.gpu}"
    used = f"used {figure_text(_planned_rate(chosen))} for this plan"
    count = len(learned.timed)
    runs = "1 run" if count == 1 else f"the median of {count} runs"
    batch, sequence = chosen.candidates.batch(chosen.row), chosen.candidates.physics.shape.sequence
    factor = learned.own_speed_factor(chosen.recipe, chosen.machine, batch, sequence, library)
    why = f"its own estimate x {factor:.2f}, from {runs}"
    other = (
        f"which has {' and '.join(differences[:MAX_SPEED_DIFFERENCES])}" if differences else "the same configuration"
    )
    return [f"{measured}; {used}, {other}: {why}"]


def _planned_rate(chosen: ChosenCandidate) -> float:
    """Return tokens or images per second of the plan's configuration."""
    shape, run_hours = chosen.candidates.physics.shape, chosen.candidates.run_hours
    units = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    if run_hours.observed[chosen.configuration]:
        return units / (float(chosen.candidates.physics.ways.observed_hours[chosen.configuration]) * HOUR)
    return units / (shape.steps * float(run_hours.step_seconds[chosen.configuration]))


def _differences(seen: ComparedRun, chosen: ChosenCandidate) -> list[str]:
    """Return in words what the plan has other than an observed run."""
    machine, recipe, (micro_batch, accumulation) = chosen.machine, chosen.recipe, chosen.candidates.batch(chosen.row)
    found = []
    if (seen.machine.gpu, seen.machine.gpus) != (machine.gpu, machine.gpus):
        found.append(f"{machine.gpus} x {machine.gpu}")
    for field in COMPARED:
        value = getattr(recipe, field)
        if getattr(seen.recipe, field) != value:
            found.append(f"{field.removesuffix('_label').replace('_', ' ')} {value}")
    if seen.micro_batch != micro_batch:
        found.append(f"micro-batch {micro_batch} instead of {seen.micro_batch}")
    elif seen.accumulation != accumulation:
        found.append(f"{accumulation} accumulation steps instead of {seen.accumulation}")
    if seen.sequence != chosen.candidates.physics.shape.sequence:
        found.append(f"sequences of {chosen.candidates.physics.shape.sequence:,} tokens")
    return found


def describe_observed_run(seen: ComparedRun, job: Job, library: Library) -> ObservedRun:
    """Return an observed run with its prediction as a plan states it."""
    return ObservedRun(
        gpu=seen.run.gpu,
        gpus=seen.run.gpus,
        techniques=techniques_of(seen.recipe, job, seen.micro_batch, seen.accumulation),
        assumed=seen.assumed,
        tokens_per_second=seen.run.tokens_per_second,
        predicted_tokens_per_second=seen.predicted,
        peak_vram_gib=seen.run.peak_vram_gib,
        predicted_peak_vram_gib=seen.peak.predicted_gib(library) if seen.peak else None,
        peak_kind=seen.peak.kind if seen.peak else None,
    )
