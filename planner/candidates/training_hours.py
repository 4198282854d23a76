"""Hours of the configurations of a training job, one array element each, and the uncertainty of their seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import generation
from planner.arrays import Flags, Floats, Integers, distinct_names
from planner.candidates.run_hours import Evidence, RunHours
from planner.configurations.coefficients import (
    PCIE_BYTES_PER_SECOND,
    RecipeCoefficients,
    cached_bytes,
    efficiency_of,
    latent_gb,
    latent_seconds,
    recipe_coefficients,
)
from planner.configurations.grid import evaluated_tokens, export_gb, stage_checkpoint_bytes, trained_gb
from planner.configurations.recipe import Machine, Recipe, framework_of, has_unmeasured_loops
from planner.estimates.stage_seconds import (
    NodeGroupCoefficients,
    StageCoefficients,
    asynchronous_stall_seconds,
    checkpoint_bytes,
    checkpoint_seconds,
    checkpoint_stall_seconds,
    compilations,
    evaluation_seconds,
    fed_step_seconds,
    goodput_factor,
    load_seconds,
    wall_quantile_factor,
)
from planner.estimates.uncertainty import Sigmas, class_sigmas, confidence_factor, efficiency_sigma, time_sigmas
from planner.estimates.work import trial_work
from planner.library.schema import Architecture, GpuSpec, Library
from planner.scenario.job import DEFAULT_CONFIDENCE, Job
from planner.scenario.scenario import token_sigma
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.configurations.fitting_cells import JobConfigurations


def configuration_sigmas(
    recipes: Sequence[Recipe],
    architecture: Architecture,
    machines: Sequence[Machine],
    machine: Integers,
    tokens_per_micro_batch: Floats | float,
    library: Library,
    unmeasured: Floats | float = 0.0,
) -> Sigmas:
    """Return the spread of ln(time) of configurations on `machines[machine]`, of the shape of `machine`.

    `recipes`: that of each configuration; `unmeasured`: what `chip_sigma` adds to each.
    """
    values = library.calibrations["uncertainty"].values
    names, index = distinct_names([recipe.framework for recipe in recipes])
    hosted = {id(recipe): float(recipe.offloads) for recipe in {id(recipe): recipe for recipe in recipes}.values()}
    rows = [framework_of(library, name) for name in names]
    profiles = [class_sigmas(values, "unknown" if row.unknown else row.kernels) for row in rows]
    profile = Sigmas(
        *(np.asarray(side, dtype=float)[index] for side in zip(*profiles, strict=True)) if profiles else (0.0, 0.0)
    )
    cards = [library.gpu(host.gpu) for host in machines]
    classes = [class_sigmas(values, card.name) for card in cards]
    speeds = library.calibrations["gpu_efficiency"]

    def column(of_machines: Sequence[Any]) -> Floats:
        return np.asarray(of_machines, dtype=float)[machine]

    return time_sigmas(
        values,
        profile,
        Sigmas(column([sigmas.display for sigmas in classes]), column([sigmas.tail for sigmas in classes])),
        column([host.gpus for host in machines]),
        column([host.instances for host in machines]),
        tokens_per_micro_batch,
        mixture=int(architecture.experts > 0),
        offload=np.asarray([hosted[id(recipe)] for recipe in recipes]),
        efficiency=np.hypot(
            column([efficiency_sigma(values, efficiency_of(card, speeds)[1]) for card in cards]), unmeasured
        ),
        network_unknown=column([host.network_gbps is None for host in machines]),
    )


def chip_sigma(card: GpuSpec, method: str, precision: str, chips: int, values: Mapping[str, float]) -> float:
    """Return the spread that a chip other than NVIDIA's adds where its published runs are of another kind, ln.

    Another method, or fewer chips than any of its runs had, and another precision add as squares.
    """
    if card.chip is None:
        return 0.0
    kind = values["unmeasured_kind"] if card.chip.unmeasured(method, chips) else 0.0
    # Of a method without measurements no precision is known.
    known = any(measurement.method == method for measurement in card.chip.measured)
    other = known and not card.chip.has_precision(method, precision)
    return math.hypot(kind, values["unmeasured_precision"] if other else 0.0)


def precision_sigma(precision: str, library: Library) -> float:
    """Return the spread of a precision whose speed is a prior, ln: that of one in which a chip was not measured."""
    is_prior = bool(library.techniques.values.precision.values[precision].prior)
    return library.calibrations["uncertainty"].value("unmeasured_precision") if is_prior else 0.0


def technique_sigma(recipe: Recipe, experts: int, library: Library) -> float:
    """Return the spread of techniques whose speed is a prior, ln; 0 where none is.

    Precision, DoRA, all activations in host memory, tools without measured speeds, and loops over more `experts` of a
    layer than were measured.
    """
    values = library.calibrations["uncertainty"].values
    own = values["prior_technique"] if recipe.has_prior_speed else 0.0
    loops = values["looped_experts"] if has_unmeasured_loops(recipe, experts, library) else 0.0
    return math.hypot(precision_sigma(recipe.precision, library), own, loops)


def unmeasured_sigma(recipe: Recipe, machine: Machine, experts: int, library: Library) -> float:
    """Return the spread of what was not measured of a recipe on a machine, ln: its chip's kind, its techniques."""
    card, values = library.gpu(machine.gpu), library.calibrations["uncertainty"].values
    of_chip = chip_sigma(card, recipe.method, recipe.precision, machine.gpus, values)
    return math.hypot(of_chip, technique_sigma(recipe, experts, library))


def _unmeasured_sigmas(physics: JobConfigurations, library: Library) -> Floats | float:
    """Return what `chip_sigma` and `technique_sigma` add to every configuration."""
    ways, experts = physics.ways, physics.shape.network.experts
    guessed = np.asarray([technique_sigma(recipe, experts, library) for recipe in ways.recipes], dtype=float)
    of_chips = _chip_sigmas(physics, library)
    return np.hypot(of_chips, guessed[ways.recipe]) if guessed.any() else of_chips


def _chip_sigmas(physics: JobConfigurations, library: Library) -> Floats | float:
    """Return what `chip_sigma` adds to every configuration."""
    ways, values = physics.ways, library.calibrations["uncertainty"].values
    cards = [library.gpu(machine.gpu) for machine in ways.machines]
    if all(card.chip is None for card in cards):
        return 0.0
    kinds = list(
        dict.fromkeys((recipe.method, recipe.precision) for recipe in ways.recipes)
    )  # few, of hundreds of recipes
    sigmas = np.zeros((len(cards), len(kinds)))
    for place, (card, machine) in enumerate(zip(cards, ways.machines, strict=True)):
        if card.chip is not None:
            sigmas[place] = [chip_sigma(card, *kind, machine.gpus, values) for kind in kinds]
    kind_of = np.asarray([kinds.index((recipe.method, recipe.precision)) for recipe in ways.recipes])
    return np.asarray(sigmas[ways.machine, kind_of[ways.recipe]], dtype=float)


def spread_of(
    job: Job, architecture: Architecture, physics: JobConfigurations, library: Library
) -> tuple[Floats, Floats]:
    """Return the standard deviations of ln(time) of every configuration: for display, and for deadline and budget.

    What is not known of the tokens themselves, where a law decides them, is independent of the speed.
    """
    ways = physics.ways
    tokens = ways.micro_batch * job.answers * ways.sequence
    recipes = [ways.recipes[index] for index in ways.recipe]
    unmeasured = _unmeasured_sigmas(physics, library)
    estimated = configuration_sigmas(recipes, architecture, ways.machines, ways.machine, tokens, library, unmeasured)
    cards = [m.gpu for m in ways.machines]
    several = np.asarray([m.instances > 1 for m in ways.machines], dtype=bool)[ways.machine]
    methods = [r.method for r in ways.recipes]
    estimated = physics.learned.spread(
        estimated, [cards[i] for i in ways.machine], [methods[i] for i in ways.recipe], several, library
    )
    again = class_sigmas(library.calibrations["uncertainty"].values, "observed")
    observed = ~np.isnan(ways.observed_hours)
    work = token_sigma(job)
    display, tail = np.where(observed, again.display, estimated.display), np.where(observed, again.tail, estimated.tail)
    return (np.hypot(display, work), np.hypot(tail, work)) if work else (display, tail)


MEASURED = ("measured", "kernels")
"""What of a GPU's efficiency is no prior: published training runs, and matrix products that were timed on it."""


@dataclass(frozen=True)
class _RunTimes:
    """Seconds and hours of one run, without trials and early stopping; columns (configurations,)."""

    job: Job
    architecture: Architecture
    physics: JobConfigurations
    library: Library
    stages: StageCoefficients

    def of_machine(self, values: Sequence[float]) -> Floats:
        """Return the value of the machine of each configuration."""
        return np.asarray(values, dtype=float)[self.physics.ways.machine]

    def of_recipe(self, values: Sequence[float]) -> Floats:
        """Return the value of the recipe of each configuration."""
        return np.asarray(values, dtype=float)[self.physics.ways.recipe]

    @cached_property
    def coefficients(self) -> list[RecipeCoefficients]:
        """Return the coefficients of each recipe; recipes repeat, once for every class of GPU."""
        recipes, network = self.physics.ways.recipes, self.physics.shape.network
        known = dict(self.physics.coefficients)
        for recipe in recipes:
            if recipe not in known:  # that of an observed run
                known[recipe] = recipe_coefficients(recipe, self.job, network, self.library)
        return [known[recipe] for recipe in recipes]

    @cached_property
    def nodes(self) -> Floats:
        """Return the instances of one node group."""
        return self.of_machine([machine.instances for machine in self.physics.ways.machines])

    @cached_property
    def gpus(self) -> Floats:
        """Return the GPUs of one node group."""
        return self.of_machine([machine.gpus for machine in self.physics.ways.machines])

    @cached_property
    def pcie(self) -> Floats:
        """Return the bytes per second of the slot of a GPU."""
        machines = self.physics.ways.machines
        return self.of_machine([PCIE_BYTES_PER_SECOND[self.library.gpu(machine.gpu).pcie_gen] for machine in machines])

    @cached_property
    def observed(self) -> Flags:
        """Return the configurations whose hours are those of an observed run."""
        return ~np.isnan(self.physics.ways.observed_hours)

    @cached_property
    def trained(self) -> Floats:
        """Return the trainable parameters."""
        return self.of_recipe([float(coefficient.states.trainable) for coefficient in self.coefficients])

    @cached_property
    def step_seconds(self) -> Floats:
        """Return the seconds of a step, no faster than storage feeds it; as observed where it was."""
        job, image, seconds = self.job, self.architecture.image, self.physics.ways.step_seconds
        side = image.size(*job.work.image_size).side if image else 0.0
        per_step = job.global_batch * (1 if side else job.answers * self.physics.shape.sequence)
        storage = job.storage_gb_per_second * GB
        fed = fed_step_seconds(
            seconds / job.efficiency, per_step, storage, self.stages, side, self.cached, job.image_bytes
        )
        return np.where(self.observed, seconds, fed)

    @cached_property
    def cached(self) -> Floats:
        """Return the bytes of one image whose latents are cached; 0 where they are not."""
        return self.of_recipe(cached_bytes(self.job, self.architecture, self.physics.ways.recipes))

    @cached_property
    def load_seconds(self) -> Floats:
        """Return the seconds to load the model from disk into the GPUs, compilation included."""
        job, stages, ways = self.job, self.stages, self.physics.ways
        parameters = self.physics.shape.network.parameters
        quantised = self.of_recipe([float(parameters * (recipe.weight_bits < 16)) for recipe in ways.recipes])
        profiles = [framework_of(self.library, recipe.framework) for recipe in ways.recipes]
        compiled = self.of_recipe([compilations(profile.compiles, stages) for profile in profiles])
        disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
        weights, pcie = self.architecture.download_gb * GB, self.pcie
        return np.asarray(load_seconds(weights, self.gpus, disk, pcie, stages, quantised, compiled), dtype=float)

    def training_hours(self) -> Floats:
        """Return the hours of training with goodput, or those of the observed run."""
        hours = self.physics.shape.steps * self.step_seconds / HOUR
        goodput = goodput_factor(hours, self.nodes, 0, self.stages)
        return np.where(self.observed, self.physics.ways.observed_hours, hours * goodput)

    def evaluation_hours(self) -> Floats:
        """Return the hours of evaluation on the training machine."""
        shape = self.physics.shape
        if self.job.stages.answers_prompts:
            generated = generation.generation_hours(
                self.job, self.architecture, self.physics.ways.machines, self.library
            )
            return self.of_machine(generated) / self.job.early_stopping  # which leaves out no prompt
        frozen = self.of_recipe([float(coefficient.states.frozen) for coefficient in self.coefficients])
        recomputing = self.of_recipe(
            [float(coefficient.activations.checkpointing) for coefficient in self.coefficients]
        )
        rate, tokens = shape.tokens / (shape.steps * self.step_seconds), evaluated_tokens(self.job, shape)
        return np.asarray(evaluation_seconds(tokens, rate, frozen, recomputing, self.stages) / HOUR, dtype=float)

    def checkpoint_hours(self, training_hours: Floats, saved_bytes: Floats) -> Floats:
        """Return the hours that the checkpoints of the job stop training; `saved_bytes` per recipe."""
        wanted = self.job.stages.checkpoints
        if wanted is None:
            return np.zeros(len(training_hours))
        stored = saved_bytes[self.physics.ways.recipe]
        full = checkpoint_seconds(stored, self.nodes, self.job.storage_gb_per_second * GB, np.inf, self.stages)
        interval = training_hours * HOUR / wanted.count
        stall = checkpoint_stall_seconds(full, self.stall_seconds(stored), interval, wanted.asynchronous)
        return np.asarray(wanted.count * stall / HOUR, dtype=float)

    def stall_seconds(self, saved_bytes: Floats) -> Floats:
        """Return the seconds that training waits while a checkpoint is copied out of the GPUs."""
        copied = asynchronous_stall_seconds(saved_bytes, self.gpus, self.pcie, self.stages)
        return np.asarray(copied, dtype=float) + self.stages.checkpoint_fixed_seconds


def training_evidence(job: Job, physics: JobConfigurations, library: Library) -> Integers:
    """Return what the speed of every configuration (n,) of training rests on, as numbers of `Evidence`.

    A run of the job on that GPU counts for all of its techniques; without one a technique that is a prior makes it one,
    and so does preference tuning: no published run stands behind the speed of pairs and their reference.
    """
    ways, speeds = physics.ways, library.calibrations["gpu_efficiency"]
    timed = {seen.run.gpu for seen in physics.learned.timed}
    methods, method = distinct_names([recipe.method for recipe in ways.recipes])
    evidence = np.full((len(ways.machines), len(methods)), int(Evidence.PUBLISHED_RUNS))
    for place, machine in enumerate(ways.machines):
        card = library.gpu(machine.gpu)
        if machine.gpu in timed:
            evidence[place] = Evidence.OWN_RUN
        elif efficiency_of(card, speeds)[1] not in MEASURED:
            evidence[place] = Evidence.PRIOR
        elif card.chip is not None:
            unknown = [card.chip.unmeasured(method, machine.gpus) is not None for method in methods]
            evidence[place, unknown] = Evidence.PRIOR
    guessed = [technique_sigma(recipe, physics.shape.network.experts, library) > 0.0 for recipe in ways.recipes]
    estimated = evidence[ways.machine, method[ways.recipe]]
    guess = np.asarray(guessed, dtype=bool)[ways.recipe] | (job.tuning != "sft")
    is_guess = guess & (estimated != Evidence.OWN_RUN)
    estimated = np.where(is_guess, int(Evidence.PRIOR), estimated)
    return np.where(np.isnan(ways.observed_hours), estimated, int(Evidence.OWN_RUN))


def compute_run_hours(
    job: Job,
    architecture: Architecture,
    physics: JobConfigurations,
    library: Library,
    budget_confidence: float = DEFAULT_CONFIDENCE,
) -> RunHours:
    """Return the hours of every configuration of a job, for all its trials."""
    stages = StageCoefficients.of(values := library.calibrations["stages"].values)
    times = _RunTimes(job, architecture, physics, library, stages)
    recipes, observed = physics.ways.recipes, times.observed
    sigma, tail = spread_of(job, architecture, physics, library)
    spread = library.calibrations["uncertainty"].value("wall_spread")
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    training, saved = times.training_hours(), np.asarray(checkpoint_bytes(times.trained, stages), dtype=float)
    encoding = latent_seconds(job, architecture, times.cached, physics.ways.step_seconds / job.efficiency, stages)
    chain, setups = trials.wall * job.early_stopping, tuple(zip(recipes, times.coefficients, strict=True))
    stage_bytes = stage_checkpoint_bytes(job, times.coefficients, stages)
    return RunHours(
        training_hours=training * chain,
        evaluation_hours=np.where(observed, 0.0, times.evaluation_hours() * chain),
        checkpoint_hours=np.where(observed, 0.0, times.checkpoint_hours(training, stage_bytes) * chain),
        reload_hours=np.where(observed, 0.0, times.load_seconds / HOUR * trials.reloads_wall),
        reload_share=trials.reloads / trials.reloads_wall if trials.reloads_wall else 1.0,
        observed=observed,
        evidence=training_evidence(job, physics, library),
        step_seconds=times.step_seconds,
        load_seconds=times.load_seconds,
        sigma=sigma,
        sigma_tail=tail,
        confidence_factor=np.asarray(confidence_factor(tail, job.confidence), dtype=float),
        budget_factor=np.asarray(confidence_factor(tail, budget_confidence), dtype=float),
        stall_seconds=times.stall_seconds(saved),
        saved_bytes=saved,
        disk_bytes_per_second=job.storage_gb_per_second * GB,
        trained_gb=tuple(trained_gb(*setup, architecture) for setup in setups),
        export_gb=tuple(export_gb(*setup, architecture, job, library) for setup in setups),
        latent_hours=np.where(observed, 0.0, encoding / HOUR),
        latent_gb=tuple(latent_gb(recipe, job, architecture) for recipe in recipes),
        kept_gb=tuple(stage_bytes * (job.stages.checkpoints.keep if job.stages.checkpoints else 0.0) / GB),
        adapts=tuple(recipe.method == "lora" for recipe in recipes),
        weights_gb=architecture.download_gb,
        stages=stages,
        node_group=NodeGroupCoefficients.of(values),
        outage_cv=values["spot_outage_cv"],
        wall_factor=wall_quantile_factor(job.confidence, spread),
        budget_wall_factor=wall_quantile_factor(budget_confidence, spread),
        budget_confidence=budget_confidence,
    )
