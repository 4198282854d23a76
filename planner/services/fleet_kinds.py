"""Kinds of machines that may serve: what a replica carries within the limits of latency, and its dollars."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from planner import generation
from planner.candidates.market import Market, SpotMarket, download_rate, fee_usd, market_of_nodes, spot_markets
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.fitting_cells import DOES_NOT_FIT
from planner.estimates.preemption import NodeGroupCoefficients
from planner.estimates.time.stage_seconds import StageCoefficients, boot_seconds, load_seconds, transfer_seconds
from planner.evaluation.evaluated_bill import usd_of_terms
from planner.library.schema import Architecture, Library
from planner.records import record
from planner.scenario.limits import Limits
from planner.scenario.offer import Offer
from planner.scenario.service_load import ServeJob
from planner.services.replica_traffic import HELD_BY, Capacities, replica_capacities
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
    speeds: generation.ReplicaSpeeds
    capacities: Capacities
    kinds: tuple[ReplicaKind, ...]
    rejected: Counter[str]
    made: int

    def recipe(self, kind: ReplicaKind) -> generation.ServingRecipe:
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
    recipes: dict[tuple[str, int], list[generation.ServingRecipe]] = {}
    for index in allowed:
        card, each = market.cards[index], market.offers[index].gpus
        if card is None or (card.name, each) in recipes:
            continue
        found = list(generation.serving_recipes(job, architecture, card, each))
        rejected.update(reason for reason in found if isinstance(reason, str))
        bits = job.techniques.weight_bits
        recipes[card.name, each] = [
            recipe for recipe in found if isinstance(recipe, generation.ServingRecipe) and recipe.weight_bits in bits
        ]
    which = tuple(
        dict.fromkeys(generation.ServedGpu(gpu, recipe) for (gpu, _), several in recipes.items() for recipe in several)
    )
    headroom = limits.vram_headroom
    speeds = generation.replica_speeds(job, architecture, which, library, headroom)
    capacities = replica_capacities(job, speeds, library)
    able = capacities.rate if job.load.concurrent is None else capacities.flight
    sure = (speeds.fit_probability >= job.memory_confidence) | (headroom is not None)
    fits = (speeds.flight >= 1) & sure
    place = {one: index for index, one in enumerate(which)}
    spots = spot_markets(market.offers, library)
    kinds: list[ReplicaKind] = []
    made = 0
    in_zones = {(offer.provider, offer.card) for offer in (market.offers[index] for index in allowed) if offer.zones}
    for index in allowed:
        offer, card = market.offers[index], market.cards[index]
        on_spot = not market.is_outlier[index] and bool(offer.zones) == ((offer.provider, offer.card) in in_zones)
        for recipe in recipes[card.name, offer.gpus] if card else ():
            at = place[generation.ServedGpu(card.name if card else "", recipe)]
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
                for priced in _markets(offer, market.after_term[index], spots[index], on_spot, job, limits, library)
            ]
    return ServedKinds(job, speeds, capacities, tuple(kinds), rejected, made)


def _markets(
    offer: Offer, after: Offer | None, spot: SpotMarket, on_spot: bool, job: ServeJob, limits: Limits, library: Library
) -> Iterator[_Priced]:
    """Yield the ways to pay for a machine of an offer; `on_spot`: whether spot may be one of them.

    `after` bills it by the hour once the terms of a commitment are over.

    An hour costs its price and the fees that are due in it, which a commitment does not cover.
    """
    fees = fee_usd(offer, "machine hours")
    if offer.commitment is not None:
        usd = usd_of_terms(offer, after, job.for_hours)
        yield _Priced("committed", usd / job.for_hours + fees, 1.0, float("inf"))
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
