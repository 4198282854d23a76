"""What to switch on if a run is out of memory after all: a smaller micro-batch, or more checkpointing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.configurations.memory_margin import MIN_MEMORY_SAVING
from planner.configurations.micro_batch import proper_divisors
from planner.configurations.recipe import GpuClass, find_incompatibility
from planner.decode.memory_breakdown import MemoryEvaluator, as_scalar
from planner.estimates.memory.paging import with_paging
from planner.estimates.time.coefficients import TimeCoefficients
from planner.estimates.time.step import step_seconds
from planner.estimates.work import processed_length
from planner.results.plan_parts import Fallback

if TYPE_CHECKING:
    from planner.configurations.recipe import Recipe
    from planner.decode.chosen import ChosenCandidate
    from planner.library.schema import Library
    from planner.scenario.limits import Limits


def find_fallback(chosen: ChosenCandidate, training_hours: float, limits: Limits, library: Library) -> Fallback | None:
    """Return the change that costs least time among those that need less memory; None where there is none.

    Its hours and dollars follow from the seconds of a step: training takes that much longer on the same machines.
    """
    key, kept = ("fallback", chosen.configuration, limits.vram_headroom), chosen.candidates.kept
    if key not in kept:  # the plans of a frontier mostly differ in their hours alone
        kept[key] = _least_slowdown(chosen, limits, library)
    if kept[key] is None:
        return None
    slowdown, without_time = kept[key]
    hours = training_hours * max(slowdown - 1, 0.0)
    run_usd, run_hours = float(chosen.figures.cost_usd(chosen.share)[0]), float(chosen.figures.hours(chosen.share)[0])
    fixed = float(chosen.figures.fixed_usd[0])
    return Fallback(**without_time, hours=hours, usd=hours * (run_usd - fixed) / run_hours)


def _least_slowdown(chosen: ChosenCandidate, limits: Limits, library: Library) -> tuple[float, dict[str, Any]] | None:
    """Return the seconds of a step over those of the plan, and what changes, for the change that costs least time."""
    now = _Run(chosen, chosen.recipe, *chosen.candidates.batch(chosen.row), limits, library)
    need_gib = now.need_gib
    smaller = [
        (run.seconds, change, run)
        for change, run in _smaller_runs(now)
        if run.need_gib < need_gib * (1 - MIN_MEMORY_SAVING)
    ]
    if not smaller:
        return None
    seconds, change, run = min(smaller, key=lambda one: one[0])
    return seconds / now.seconds, {
        "change": change,
        "micro_batch": run.micro_batch,
        "accumulation_steps": run.accumulation,
        "activation_checkpointing": run.recipe.activation_checkpointing,
        "fit_probability": run.fit_probability,
    }


class _Run:
    """One recipe and batch on the machine of the plan."""

    def __init__(
        self,
        chosen: ChosenCandidate,
        recipe: Recipe,
        micro_batch: int,
        accumulation: int,
        limits: Limits,
        library: Library,
    ) -> None:
        self.chosen, self.recipe, self.limits, self.library = chosen, recipe, limits, library
        self.micro_batch, self.accumulation = micro_batch, accumulation
        physics = chosen.candidates.physics
        self.evaluator = MemoryEvaluator.of(
            chosen.job, physics.shape, recipe, chosen.machine, limits.vram_headroom, library, physics.learned
        )

    def changed(self, recipe: Recipe, micro_batch: int, accumulation: int) -> _Run:
        """Return another recipe or batch."""
        return _Run(self.chosen, recipe, micro_batch, accumulation, self.limits, self.library)

    @property
    def need_gib(self) -> float:
        """The need of the fit rule."""
        return self.evaluator.need_gib(self.micro_batch, self.accumulation)

    @property
    def fit_probability(self) -> float:
        """The probability that it fits."""
        return self.evaluator.vram(self.evaluator.at(self.micro_batch, self.accumulation)).fit_probability

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        job, shape = self.chosen.job, self.chosen.candidates.physics.shape
        sequence = processed_length(
            job.packing, shape.sequence, shape.mean_length, job.length_cv, self.micro_batch, job.work.sample_lengths
        )
        inputs = self.evaluator.inputs
        layout = replace(inputs.layout, micro_batch=self.micro_batch, accumulation=self.accumulation, sequence=sequence)
        time = TimeCoefficients.of(self.library.calibrations["time"].values)
        setup = with_paging(replace(inputs, layout=layout), self.evaluator.coefficients)
        return as_scalar(step_seconds(setup, time))


def _smaller_runs(now: _Run) -> list[tuple[str, _Run]]:
    """Return the next smaller micro-batch, and more checkpointing, each with its words."""
    found = []
    local = now.micro_batch * now.accumulation
    if len(smaller := [int(size) for size in proper_divisors(local) if size < now.micro_batch]):
        size = smaller[-1]
        found.append((f"micro-batch {size} x {local // size} steps", now.changed(now.recipe, size, local // size)))
    table = now.library.techniques
    every = table.allowed("activation_checkpointing")  # from the most memory to the least
    allowed = now.chosen.job.techniques.activation_checkpointing or table.tried("activation_checkpointing")
    card, network = GpuClass.of(now.library.gpu(now.chosen.machine.gpu)), now.chosen.candidates.architecture
    for more in every[every.index(now.recipe.activation_checkpointing) + 1 :]:
        recipe = replace(now.recipe, activation_checkpointing=more)
        if more in allowed and find_incompatibility(recipe, card, now.library, network) is None:
            found.append((f"{more} checkpointing", now.changed(recipe, now.micro_batch, now.accumulation)))
    return found
