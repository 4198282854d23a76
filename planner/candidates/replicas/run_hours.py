"""Hours of replicas: answering all requests, loading the model, and what a lost machine costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import distinct_names
from planner.candidates.preference import Evidence
from planner.candidates.run_hours import RunHours
from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.configurations.replicas.adapters import served_priors
from planner.configurations.replicas.evidence import prior_parts, speed_sigma
from planner.configurations.replicas.measured import is_measured
from planner.configurations.replicas.recipes import ServingRecipe
from planner.estimates.preemption import NodeGroupCoefficients, wall_quantile_factor
from planner.estimates.time.stages import StageCoefficients, load_seconds
from planner.estimates.trials import trial_work
from planner.estimates.uncertainty import Sigmas, class_sigmas, confidence_factor, tail_of_68_percent
from planner.records import record
from planner.spot.policy.checkpointing import last_checkpoint_fits
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.configurations.enumeration import JobConfigurations
    from planner.estimates.inputs import Numbers
    from planner.library.schema import Architecture, Library
    from planner.scenario.inference import InferenceJob
    from planner.spot.market.states import SpotStates

TEXT_BYTES_PER_TOKEN = 4.0
"""Bytes of an answer per token: about four letters of English (tokenizer documentation of OpenAI)."""


@record(frozen=True)
class ReplicaHours(RunHours):
    """Columns (configurations,): the same where machines do not need one another, and nothing is checkpointed."""

    cycle_hours: Floats  # of one request among those in flight: a lost machine loses half of it in the mean

    def gang(self, nodes: Any) -> Any:
        """Return that every machine is lost by itself."""
        return np.ones_like(np.asarray(nodes))

    def exposure_hours(self, configuration: Integers) -> Floats:
        """Return the hours (n,) of a request in flight."""
        return np.asarray(self.cycle_hours[configuration], dtype=float)

    def lost_hours(self, restart: Numbers, configuration: Integers | int) -> Any:
        """Return a restart, with one load, and half of the requests in flight."""
        return np.asarray(restart) + self.cycle_hours[configuration] / 2.0

    def write_seconds(self, configuration: Integers | int, nodes: Numbers) -> Any:
        """Return 0: nothing is written where machines are lost or pause."""
        del configuration
        return np.zeros_like(np.asarray(nodes, dtype=float))

    def checkpoints(
        self, configuration: int, nodes: int, states: SpotStates, notice_seconds: float
    ) -> tuple[float, float, bool]:
        """Return the hours of a request in flight, no write, and whether requests end within the notice."""
        del nodes, states
        cycle = float(self.cycle_hours[configuration])
        return cycle, 0.0, last_checkpoint_fits(notice_seconds, cycle * HOUR)


def result_gb(job: InferenceJob) -> float:
    """Return the GB of all answers: as stated, else 4 bytes per output token."""
    wanted = job.stages.export
    if wanted is not None and wanted.gb is not None:
        return wanted.gb
    return job.work.total_output_tokens * TEXT_BYTES_PER_TOKEN / GB


def _spreads(
    job: InferenceJob, recipes: list[ServingRecipe], physics: JobConfigurations, library: Library
) -> tuple[Floats, Floats]:
    """Return the 68 % spread and that of the tail (n,) of the seconds of every configuration."""
    ways = physics.ways
    gpus_by_name, gpu = distinct_names([one.gpu for one in ways.machines])
    of_gpu = [[_sigmas(job, one, name, library) for name in gpus_by_name] for one in recipes]
    shape = (len(recipes), len(gpus_by_name), 2)  # also where there is no machine at all
    spreads = np.asarray(of_gpu, dtype=float).reshape(shape)[ways.recipe, gpu[ways.machine]]
    return spreads[:, 0], spreads[:, 1]


def compute_replica_hours(
    job: InferenceJob,
    architecture: Architecture,
    physics: JobConfigurations,
    library: Library,
    budget_confidence: float,
) -> ReplicaHours:
    """Return the hours of every configuration of a job of generation, for all its trials."""
    values, ways = library.calibrations["stages"].values, physics.ways
    stages = StageCoefficients.of(values)
    spread = library.calibrations["uncertainty"].value("wall_spread")
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    none = np.zeros(len(ways))
    recipes = [one for one in ways.recipes if isinstance(one, ServingRecipe)]
    step_seconds = ways.step_seconds / job.efficiency
    hours = physics.shape.steps * step_seconds / HOUR
    sigma, tail = _spreads(job, recipes, physics, library)
    together = np.asarray([one.tensor_parallel * one.pipeline_parallel for one in recipes], dtype=float)
    gpus = np.asarray([one.gpus for one in ways.machines], dtype=float)
    replicas = gpus[ways.machine] / together[ways.recipe]
    rounds = np.maximum(1.0, np.ceil(physics.shape.steps / replicas) / np.maximum(ways.micro_batch, 1))
    pcie = np.asarray([PCIE_BYTES_PER_SECOND[library.gpu(one.gpu).pcie_gen] for one in ways.machines], dtype=float)
    disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
    size = architecture.release_gb * GB
    loaded = load_seconds(size, together[ways.recipe], disk, pcie[ways.machine], stages, 0, 1)
    load = np.asarray(loaded, dtype=float)
    return ReplicaHours(
        training_hours=hours * trials.wall,
        evaluation_hours=none,
        checkpoint_hours=none,
        reload_hours=load / HOUR * trials.reloads_wall,
        reload_share=trials.reloads / trials.reloads_wall if trials.reloads_wall else 1.0,
        observed=np.zeros(len(ways), dtype=bool),
        evidence=_evidence(job, recipes, physics, library),
        step_seconds=step_seconds,
        load_seconds=load,
        sigma=sigma,
        sigma_tail=tail,
        confidence_factor=np.asarray(confidence_factor(tail, job.confidence), dtype=float),
        budget_factor=np.asarray(confidence_factor(tail, budget_confidence), dtype=float),
        stall_seconds=none,
        saved_bytes=none,
        disk_bytes_per_second=job.storage_gb_per_second * GB,
        trained_gb=(result_gb(job),) * len(recipes),
        export_gb=(result_gb(job),) * len(recipes),
        latent_hours=none,
        latent_gb=(0.0,) * len(recipes),
        kept_gb=(0.0,) * len(recipes),
        adapts=(False,) * len(recipes),
        weights_gb=architecture.release_gb,
        stages=stages,
        node_group=NodeGroupCoefficients.of(values),
        outage_cv=values["spot_outage_cv"],
        wall_factor=wall_quantile_factor(job.confidence, spread),
        budget_wall_factor=wall_quantile_factor(budget_confidence, spread),
        budget_confidence=budget_confidence,
        cycle_hours=hours / rounds,
    )


def _evidence(
    job: InferenceJob, recipes: list[ServingRecipe], physics: JobConfigurations, library: Library
) -> Integers:
    """Return what the speed of every configuration (n,) rests on, as numbers of `Evidence`."""
    ways, coefficients = physics.ways, library.calibrations["inference"].coefficients
    gpus, place = distinct_names([one.gpu for one in ways.machines])

    def of(recipe: ServingRecipe, gpu: str) -> Evidence:
        if is_measured(job, recipe, gpu):
            return Evidence.OWN_RUN
        priors = prior_parts(coefficients, recipe.framework, recipe.engine.label, gpu, recipe.quant)
        return Evidence.PRIOR if priors + served_priors(job) else Evidence.PUBLISHED_RUNS

    found = np.asarray([[of(recipe, gpu) for gpu in gpus] for recipe in recipes], dtype=np.int64)
    return np.asarray(found.reshape(len(recipes), len(gpus))[ways.recipe, place[ways.machine]])


def _sigmas(job: InferenceJob, recipe: ServingRecipe, gpu: str, library: Library) -> Sigmas:
    """Return the standard deviations of ln(speed): of an observed run where engine, GPU and formats were measured."""
    if is_measured(job, recipe, gpu):
        return class_sigmas(library.calibrations["uncertainty"].values, "observed")
    coefficients = library.calibrations["inference"].coefficients
    priors = prior_parts(coefficients, recipe.framework, recipe.engine.label, gpu, recipe.quant)
    sigma = speed_sigma(coefficients, recipe.framework, bool(priors + served_priors(job)))
    return Sigmas(sigma, float(tail_of_68_percent(sigma)))
