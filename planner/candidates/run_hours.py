"""Hours of a job's ways: start, training, spot, and how sure they are.

One array element per way, or per (way, offer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.coefficients import RecipeCoefficients, recipe_coefficients
from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.configurations.recipe import Recipe, framework_of
from planner.configurations.uncertainty import configuration_sigmas
from planner.estimates.preemption import (
    InterruptedRun,
    NodeGroupCoefficients,
    interrupted_run,
    node_group_market,
    wall_quantile_factor,
)
from planner.estimates.time.stages import (
    StageCoefficients,
    asynchronous_stall_seconds,
    checkpoint_bytes,
    checkpoint_seconds,
    checkpoint_stall_seconds,
    evaluation_seconds,
    fed_step_seconds,
    goodput_factor,
    kept_checkpoint_bytes,
    load_seconds,
)
from planner.estimates.trials import trial_work
from planner.estimates.uncertainty import class_sigmas, confidence_factor
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.configurations.enumeration import JobConfigurations
    from planner.configurations.grid import JobShape
    from planner.estimates.inputs import Numbers
    from planner.library.schema import Architecture, Library
    from planner.scenario.scenario import Job


@dataclass(frozen=True)
class RunHours:
    """Columns (ways,): hours on demand by what they are spent on, and what a machine needs to start.

    Hours are those of the longest chain of trials (of the one run, without trials), early stopping counted in.
    `export_gb` and `kept_gb` are per recipe.
    """

    training_hours: Floats  # goodput in; as observed where the whole job was
    evaluation_hours: Floats  # where the training machine does it
    checkpoint_hours: Floats  # those that the job asks for
    reload_hours: Floats  # loads of the network between trials
    reload_share: float  # loads of all gangs over those of the longest chain
    observed: Flags  # hours are those of an observed run, its start among them
    step_seconds: Floats  # no faster than storage feeds them
    load_seconds: Floats
    sigma: Floats
    sigma_tail: Floats
    confidence_factor: Floats
    stall_seconds: Floats  # per checkpoint
    saved_bytes: Floats  # of a checkpoint that training can go on from
    export_gb: tuple[float, ...]
    kept_gb: tuple[float, ...]  # checkpoints that stay, per gang
    adapts: tuple[bool, ...]  # trains adapters
    weights_gb: float  # that every instance downloads
    stages: StageCoefficients
    pull: tuple[float, float]  # bytes per second: data-centre clouds, community hosts
    gang: NodeGroupCoefficients
    outage_cv: float
    wall_factor: float

    def interrupt(
        self,
        run_hours: Numbers,
        way: Integers | int,
        nodes: Numbers,
        restart: Numbers,
        mean_up_hours: Numbers,
        availability: Numbers,
    ) -> InterruptedRun:
        """A chain of `run_hours` on spot: gangs of `nodes` instances, `restart` hours lost after each interruption.

        All arguments broadcast; the market is that of one instance. No start in the hours returned.
        """
        market = node_group_market(mean_up_hours, availability, nodes, self.gang)
        stall = self.stall_seconds[way] / HOUR
        return interrupted_run(run_hours, restart, stall, market, self.gang, self.outage_cv)


def compute_run_hours(job: Job, architecture: Architecture, physics: JobConfigurations, library: Library) -> RunHours:
    """Hours of every way of a job on machines of its own, and what hangs on the recipe alone."""
    ways, shape = physics.ways, physics.shape
    values = calibration_values(library, "stages")
    stages = StageCoefficients.of(values)
    machines = ways.machines
    nodes = per_machine([m.instances for m in machines])[ways.machine]
    gpus = per_machine([m.gpus for m in machines])[ways.machine]
    pcie = per_machine([PCIE_BYTES_PER_SECOND[library.gpu(m.gpu).pcie_gen] for m in machines])[ways.machine]
    quantised = np.asarray([shape.network.parameters * (r.weight_bits < 16) for r in ways.recipes], dtype=float)
    compiled = int(framework_of(library, job.framework).compiled)
    # The same recipe stands once for every class of card.
    known = {r: recipe_coefficients(r, job, shape.network, library) for r in dict.fromkeys(ways.recipes)}
    setups = [known[r] for r in ways.recipes]
    trained = np.asarray([s.states.trainable for s in setups], dtype=float)[ways.recipe]
    observed = ~np.isnan(ways.observed_hours)
    resolution = architecture.image and (job.work.resolution or architecture.image.resolution)
    per_step = job.global_batch * (1 if resolution else shape.sequence)
    storage = job.storage_gb_per_second * GB
    fed = fed_step_seconds(ways.step_seconds / job.efficiency, per_step, storage, stages, resolution or 0)
    step = np.where(observed, ways.step_seconds, fed)  # as it was seen, whatever slowed it
    load = load_seconds(
        architecture.download_gb * GB,
        gpus,
        np.inf,
        job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency,
        pcie,
        stages,
        quantised[ways.recipe],
        compiled,
    )
    stall = asynchronous_stall_seconds(checkpoint_bytes(trained, stages), gpus, pcie, stages)
    stall = np.asarray(stall, dtype=float) + stages.checkpoint_fixed_seconds
    sigma, tail = sigmas(job, architecture, physics, library)
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    once = shape.steps * step / HOUR
    training = np.where(observed, ways.observed_hours, once * goodput_factor(once, nodes, 0, stages))
    frozen, recomputing = (
        np.asarray(column, dtype=float)[ways.recipe]
        for column in ([s.states.frozen for s in setups], [s.activations.checkpointing for s in setups])
    )
    evaluated = evaluation_seconds(
        evaluated_tokens(job, shape), shape.tokens / (shape.steps * step), frozen, recomputing, stages
    )
    saving = checkpoint_bytes_of(job, setups, stages)
    written = 0.0
    if (wanted := job.stages.checkpoints) is not None:
        stored = saving[ways.recipe]
        full = checkpoint_seconds(stored, nodes, storage, np.inf, stages)
        copied = asynchronous_stall_seconds(stored, gpus, pcie, stages) + stages.checkpoint_fixed_seconds
        apart = training * HOUR / wanted.count
        written = wanted.count * checkpoint_stall_seconds(full, copied, apart, wanted.asynchronous)
    chain = trials.wall * job.early_stopping
    return RunHours(
        training_hours=training * np.where(observed, trials.wall, chain),
        evaluation_hours=np.where(observed, 0.0, evaluated / HOUR * chain),
        checkpoint_hours=np.where(observed, 0.0, written / HOUR * chain),
        reload_hours=np.where(observed, 0.0, load / HOUR * trials.reloads_wall),
        reload_share=trials.reloads / trials.reloads_wall if trials.reloads_wall else 1.0,
        observed=observed,
        step_seconds=step,
        load_seconds=np.asarray(load, dtype=float),
        sigma=sigma,
        sigma_tail=tail,
        confidence_factor=np.asarray(confidence_factor(tail, job.confidence), dtype=float),
        stall_seconds=stall,
        saved_bytes=np.asarray(checkpoint_bytes(trained, stages), dtype=float),
        export_gb=tuple(export_gb(r, known[r], architecture, job) for r in ways.recipes),
        kept_gb=tuple(saving * (wanted.keep if wanted else 0.0) / GB),
        adapts=tuple(r.method == "lora" for r in ways.recipes),
        weights_gb=architecture.download_gb,
        stages=stages,
        pull=(values["pull_bytes_per_second"], values["community_pull_bytes_per_second"]),
        gang=NodeGroupCoefficients.of(values),
        outage_cv=values["spot_outage_cv"],
        wall_factor=wall_quantile_factor(job.confidence, library.calibrations["uncertainty"].value("wall_spread")),
    )


def evaluated_tokens(job: Job, shape: JobShape) -> float:
    """Tokens (or equivalent ones) that one run evaluates; 0 without that stage."""
    wanted = job.stages.evaluation
    if wanted is None:
        return 0.0
    return float(wanted.tokens) if wanted.tokens is not None else (wanted.share or 0.0) * shape.tokens


def checkpoint_bytes_of(job: Job, setups: Sequence[RecipeCoefficients], stages: StageCoefficients) -> Floats:
    """Bytes of one checkpoint that the job asks for, per recipe; 0 where it asks for none."""
    wanted = job.stages.checkpoints
    if wanted is None:
        return np.zeros(len(setups))
    trained, weight = (
        np.asarray(column, dtype=float)
        for column in (
            [s.states.trainable for s in setups],
            [s.states.adapter_bytes if s.states.frozen else stages.weight_bytes_per_parameter for s in setups],
        )
    )
    return np.asarray(kept_checkpoint_bytes(trained, weight, wanted.contents == "resume", stages), dtype=float)


def export_gb(recipe: Recipe, setup: RecipeCoefficients, architecture: Architecture, job: Job) -> float:
    """GB of the result: the adapters, or all weights in 16 bit."""
    merged = job.stages.export is not None and job.stages.export.merged
    if recipe.method == "lora" and not merged:
        return float(setup.states.trainable) * float(setup.states.adapter_bytes) / GB
    return architecture.download_gb


def sigmas(job: Job, architecture: Architecture, physics: JobConfigurations, library: Library) -> tuple[Floats, Floats]:
    """Spread of ln(time) of every way: for display, and for deadline and budget."""
    ways = physics.ways
    tokens = ways.micro_batch * ways.sequence
    found = configuration_sigmas(job.framework, architecture, ways.machines, ways.machine, tokens, library)
    cards = [m.gpu for m in ways.machines]
    several = np.asarray([m.instances > 1 for m in ways.machines], dtype=bool)[ways.machine]
    methods = [r.method for r in ways.recipes]
    found = physics.learned.spread(
        found, [cards[i] for i in ways.machine], [methods[i] for i in ways.recipe], several, library
    )
    again = class_sigmas(calibration_values(library, "uncertainty"), "observed")
    observed = ~np.isnan(ways.observed_hours)
    return np.where(observed, again.display, found.display), np.where(observed, again.tail, found.tail)


def per_machine(values: Sequence[float] | Floats) -> Floats:
    """A column of machines as floats, usable as a look-up even when empty."""
    return np.asarray(values, dtype=float)


def calibration_values(library: Library, name: str) -> dict[str, float]:
    """The plain values of a calibration by key."""
    return {key: entry.value for key, entry in library.calibrations[name].coefficients.items()}


__all__ = ["RunHours", "calibration_values", "compute_run_hours", "evaluated_tokens", "export_gb", "sigmas"]
