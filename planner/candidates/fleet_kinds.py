"""Kinds of machines that may serve, the market as generation sees it, and the hours of replicas."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from planner.arrays import Floats, Integers, distinct_names
from planner.candidates.market import (
    Market,
    SpotMarket,
    download_rate,
    fee_usd,
    interconnect_of,
    market_of_nodes,
    spot_markets,
)
from planner.candidates.preference import Evidence
from planner.candidates.run_hours import RunHours
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.fitting_cells import DOES_NOT_FIT, JobConfigurations
from planner.configurations.grid import Machine
from planner.configurations.replica_enumeration import (
    ReplicaSpeeds,
    ServedGpu,
    is_measured,
    replica_speeds,
    served_priors,
)
from planner.configurations.replica_traffic import HELD_BY, Capacities, prior_parts, replica_capacities, speed_sigma
from planner.configurations.serving_recipes import ServingRecipe, serving_recipes
from planner.estimates.inputs import Numbers
from planner.estimates.preemption import NodeGroupCoefficients, wall_quantile_factor
from planner.estimates.time.stage_seconds import StageCoefficients, boot_seconds, load_seconds, transfer_seconds
from planner.estimates.uncertainty import Sigmas, class_sigmas, confidence_factor, tail_of_68_percent
from planner.estimates.work import trial_work
from planner.library.schema import Architecture, Library
from planner.records import record
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.scenario.limits import Limits
from planner.scenario.offer import Offer
from planner.scenario.service_load import ServeJob
from planner.spot.market.states import SpotStates
from planner.spot.policy.run import last_checkpoint_fits
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator


MarketName = Literal["on demand", "spot", "committed"]
TOO_SLOW = "misses the latency at any load"
PAID_BEFORE = "hours paid in advance, which services do not use"


@record(frozen=True)
class ReplicaKind:
    """One machine of an offer with its replicas."""

    offer: int  # place in the market
    market: MarketName
    which: int  # place in the speeds
    replicas: int
    capacity: float  # of the machine, in the unit of the load
    usd_per_hour: float  # of a machine that is wanted for an hour
    start_hours: float
    start_usd: float
    availability: float = 1.0
    mean_up_hours: float = float("inf")
    group: str = ""  # machines on spot that are lost together

    @property
    def answering_share(self) -> float:
        """Share of the time that a machine is there and has started: availability * exp(-start / mean stay).

        Example: there 90 % of the time in stays of 10 h, started in 0.1 h: 89.1 %.
        """
        return self.availability * math.exp(-self.start_hours / self.mean_up_hours)


class _Priced(NamedTuple):
    market: MarketName
    usd: float
    availability: float
    up_hours: float


@record(frozen=True)
class ServedKinds:
    """Every kind that keeps the latency, and why others are none."""

    job: ServeJob
    speeds: ReplicaSpeeds
    capacities: Capacities
    kinds: tuple[ReplicaKind, ...]
    rejected: Counter[str]
    made: int

    def recipe(self, kind: ReplicaKind) -> ServingRecipe:
        """Return engine, format and division of a kind."""
        return self.speeds.which[kind.which].recipe

    def binding(self, kind: ReplicaKind) -> str:
        """Return what holds the capacity of a kind."""
        return HELD_BY[int(self.capacities.binds[kind.which])]


def start_hours(job: ServeJob, architecture: Architecture, offer: Offer, together: int, library: Library) -> float:
    """Return the hours from ordering a machine to its first answer: as given, else boot, image, weights and load.

    Example: 16 GB of weights at 0.25 GB/s take 64 s, next to two minutes of compilation and the boot.
    """
    if job.cold_start_hours is not None:
        return job.cold_start_hours
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    pull, size = download_rate(offer, library), architecture.release_gb * GB
    disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
    pcie = PCIE_BYTES_PER_SECOND[library.gpu(offer.card).pcie_gen]
    loaded = load_seconds(size, together, disk, pcie, stages, 0, 1)
    return float(boot_seconds(pull, stages) + transfer_seconds(size, pull) + loaded) / HOUR


def served_kinds(
    job: ServeJob, architecture: Architecture, market: Market, limits: Limits, library: Library
) -> ServedKinds:
    """Return the kinds of a job on a market, at the latency and the confidence of the job.

    Where a provider has a card in a group of zones, machines of one zone are not on spot: both would be lost together.
    """
    rejected: Counter[str] = Counter()
    known = market.is_known(limits)
    allowed = [
        index
        for index, offer in enumerate(market.offers)
        if market.cards[index] is not None and limits.permits(offer) and not market.is_outdated[index] and known[index]
    ]
    recipes: dict[tuple[str, int], list[ServingRecipe]] = {}
    for index in allowed:
        card, each = market.cards[index], market.offers[index].gpus
        if card is None or (card.name, each) in recipes:
            continue
        found = list(serving_recipes(job, architecture, card, each))
        rejected.update(one for one in found if isinstance(one, str))
        bits = job.techniques.weight_bits
        recipes[card.name, each] = [one for one in found if isinstance(one, ServingRecipe) and one.weight_bits in bits]
    which = tuple(dict.fromkeys(ServedGpu(gpu, one) for (gpu, _), several in recipes.items() for one in several))
    headroom = limits.vram_headroom
    speeds = replica_speeds(job, architecture, which, library, headroom)
    capacities = replica_capacities(job, speeds, library)
    able = capacities.rate if job.load.concurrent is None else capacities.flight
    sure = (speeds.fit_probability >= job.memory_confidence) | (headroom is not None)
    fits = (speeds.flight >= 1) & sure
    place = {one: index for index, one in enumerate(which)}
    spots = spot_markets(market.offers, library)
    kinds: list[ReplicaKind] = []
    made = 0
    in_zones = {(one.provider, one.card) for one in (market.offers[index] for index in allowed) if one.zones}
    for index in allowed:
        offer, card = market.offers[index], market.cards[index]
        on_spot = not market.is_outlier[index] and bool(offer.zones) == ((offer.provider, offer.card) in in_zones)
        for recipe in recipes[card.name, offer.gpus] if card else ():
            at = place[ServedGpu(card.name if card else "", recipe)]
            made += 1
            if not fits[at] or able[at] <= 0:
                rejected[DOES_NOT_FIT if not fits[at] else TOO_SLOW] += 1
                continue
            together = recipe.tensor_parallel * recipe.pipeline_parallel
            if offer.block is not None or offer.committed_hours is not None:
                rejected[PAID_BEFORE] += 1
                continue
            started = start_hours(job, architecture, offer, together, library)
            kinds += [
                _kind(index, offer, priced, at, offer.gpus // together, float(able[at]), started)
                for priced in _markets(offer, spots[index], on_spot, job, limits, library)
            ]
    return ServedKinds(job, speeds, capacities, tuple(kinds), rejected, made)


def _markets(
    offer: Offer, spot: SpotMarket, on_spot: bool, job: ServeJob, limits: Limits, library: Library
) -> Iterator[_Priced]:
    """Yield the ways to pay for a machine of an offer; `on_spot`: whether spot may be one of them.

    An hour costs its price and the fees that are due in it, which a commitment does not cover.
    """
    fees = fee_usd(offer, "machine hours")
    if offer.commitment is not None:
        terms = np.ceil(job.for_hours / offer.term_hours)
        yield _Priced("committed", offer.committed_usd * float(terms) / job.for_hours + fees, 1.0, float("inf"))
    elif offer.usd_per_hour is not None and offer.block is None and offer.committed_hours is None:
        yield _Priced("on demand", offer.usd_per_hour + fees, 1.0, float("inf"))
    if offer.has_spot and on_spot and limits.spot_share.max > 0 and offer.spot_usd_per_hour is not None:
        coefficients = NodeGroupCoefficients.of(library.calibrations["stages"].values)
        states = market_of_nodes(offer, spot, 1, coefficients, library)
        yield _Priced("spot", offer.spot_usd_per_hour + fees, float(states.availability()), spot.mean_up_hours)


def _kind(
    index: int, offer: Offer, priced: _Priced, which: int, replicas: int, each: float, started: float
) -> ReplicaKind:
    """Return a kind; a machine on spot is paid while it is there, and starts again after each loss."""
    again = 0.0 if np.isinf(priced.up_hours) else started / priced.up_hours
    usd = priced.usd * priced.availability * (1.0 + again)
    least = max(0.0, offer.billing.minimum_hours - 1.0)
    group = f"{offer.provider}/{offer.card}" if priced.market == "spot" else ""
    start_billed = 0.0 if priced.market == "committed" else started + least
    return ReplicaKind(
        offer=index,
        market=priced.market,
        which=which,
        replicas=replicas,
        capacity=each * replicas,
        usd_per_hour=usd,
        start_hours=started,
        start_usd=priced.usd * start_billed,
        availability=priced.availability,
        mean_up_hours=priced.up_hours,
        group=group,
    )


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


def market_of(job: Job, market: Market) -> Market:
    """Return the market with the machines that a job may rent: for generation any number of each offer."""
    if not isinstance(job, InferenceJob):
        return market
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


# Hours of replicas: answering all requests, loading the model, and what a lost machine costs.


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
