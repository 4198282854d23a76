"""The market as a job of generation sees it, the hours of its replicas, and what their speed rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Floats, Integers, distinct_names
from planner.candidates.market import Market, interconnect_of
from planner.candidates.preference import Evidence
from planner.candidates.run_hours import RunHours
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.fitting_cells import JobConfigurations
from planner.configurations.grid import Machine
from planner.estimates.inputs import Numbers
from planner.estimates.preemption import NodeGroupCoefficients, wall_quantile_factor
from planner.estimates.stage_seconds import StageCoefficients, load_seconds
from planner.estimates.uncertainty import Sigmas, class_sigmas, confidence_factor, tail_of_68_percent
from planner.estimates.work import trial_work
from planner.generation.engine_recipes import ServingRecipe
from planner.generation.replica_enumeration import is_measured, served_priors
from planner.library.engines import read_engines
from planner.library.schema import Architecture, Coefficient, Library
from planner.scenario.inference_job import InferenceJob
from planner.spot.run import last_checkpoint_fits
from planner.spot.states import SpotStates
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping


ROUGH_BATCHES = (
    "many requests in flight: most measurements are of engines of 2024, so real ones may be faster; measure first"
)


def coefficient_or(coefficients: Mapping[str, Coefficient], key: str, otherwise: float) -> float:
    """Return a coefficient's value, or another where there is none."""
    entry = coefficients.get(key)
    return entry.value if entry else otherwise


def prior_parts(
    coefficients: Mapping[str, Coefficient], engine: str, label: str, gpu: str, weights: str
) -> tuple[str, ...]:
    """Return what no published measurement informs: engine (by its `label`), GPU, format."""
    keys = {
        f"engine {label}": f"spread.{engine}",
        f"GPU {gpu}": f"memory.{gpu}",
        f"format {weights}": f"reading.{read_engines().fitted_as(weights)}",
    }
    entries = {what: coefficients.get(key) for what, key in keys.items()}
    return tuple(what for what, entry in entries.items() if entry is None or entry.basis != "measured")


def speed_sigma(coefficients: Mapping[str, Coefficient], engine: str, is_prior: bool) -> float:
    """Return the standard deviation of ln(speed): the engine's, else that of all; wider where a part is a prior."""
    own = coefficient_or(coefficients, f"spread.{engine}", coefficient_or(coefficients, "spread", 0.4))
    return math.hypot(own, coefficient_or(coefficients, "spread.prior", 0.2) if is_prior else 0.0)


# The market as a job of generation sees it: any number of machines of an offer, which need no common network.


MOST_MACHINES = 1024
"""Machines of one job at the most."""
ALL_COUNTS_UP_TO = 32
"""Numbers of machines up to which each is tried; above, sixteen to every doubling."""


@lru_cache(maxsize=1)
def machine_counts() -> tuple[int, ...]:
    """Return the numbers of machines that are tried."""
    found, step = list(range(1, ALL_COUNTS_UP_TO + 1)), 1
    while found[-1] < MOST_MACHINES:
        step *= 2
        found += range(found[-1] + step, min(2 * found[-1], MOST_MACHINES) + 1, step)
    return tuple(found)


def market_of(market: Market) -> Market:
    """Return the market with the machines that a job of generation may rent: any number of each offer."""
    made: dict[tuple[object, ...], tuple[Machine, ...]] = {}
    machines: list[tuple[Machine, ...]] = []
    for offer, card in zip(market.offers, market.cards, strict=True):
        if card is None:
            machines.append(())
            continue
        link, most = interconnect_of(offer), offer.stock
        kind = card.name, offer.gpus, link, None if most is None else min(most, MOST_MACHINES)
        if kind not in made:
            counts = (n for n in machine_counts() if most is None or n <= most)
            made[kind] = tuple(Machine(card.name, offer.gpus, n, link, None) for n in counts)
        machines.append(made[kind])
    distinct = tuple(dict.fromkeys(machine for several in made.values() for machine in several))
    return replace(market, machines=tuple(machines), distinct_machines=distinct)


TEXT_BYTES_PER_TOKEN = 4.0
"""Bytes of an answer per token: about four letters of English (tokenizer documentation of OpenAI)."""


@dataclass(frozen=True)
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
    gpus_by_name, gpu = distinct_names([machine.gpu for machine in ways.machines])
    of_gpu = [[_sigmas(job, recipe, name, library) for name in gpus_by_name] for recipe in recipes]
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
    recipes = [recipe for recipe in ways.recipes if isinstance(recipe, ServingRecipe)]
    step_seconds = ways.step_seconds / job.efficiency
    hours = physics.shape.steps * step_seconds / HOUR
    sigma, tail = _spreads(job, recipes, physics, library)
    together = np.asarray([recipe.tensor_parallel * recipe.pipeline_parallel for recipe in recipes], dtype=float)
    gpus = np.asarray([machine.gpus for machine in ways.machines], dtype=float)
    replicas = gpus[ways.machine] / together[ways.recipe]
    rounds = np.maximum(1.0, np.ceil(physics.shape.steps / replicas) / np.maximum(ways.micro_batch, 1))
    pcie = np.asarray(
        [PCIE_BYTES_PER_SECOND[library.gpu(machine.gpu).pcie_gen] for machine in ways.machines], dtype=float
    )
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
    gpus, place = distinct_names([machine.gpu for machine in ways.machines])

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
