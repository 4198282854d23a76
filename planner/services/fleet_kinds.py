"""Kinds of machines that may serve, their dollars, and what a replica carries within the limits of latency."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import Flags, Floats, Integers
from planner.candidates.market import Market, SpotMarket, download_rate, fee_usd, market_of_nodes, spot_markets
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.fitting_cells import DOES_NOT_FIT
from planner.estimates.generation import CHUNK_TOKENS, decode_step_seconds, prompt_seconds
from planner.estimates.latency import (
    MOST_BUSY,
    BatchMeans,
    FirstTokens,
    Lengths,
    Places,
    Present,
    PromptMix,
    TokenTimes,
    batch_means,
    columns,
    gamma_quantile,
    mean_cycle_seconds,
    rows,
    token_seconds_quantile,
    wait_moments,
    wait_points,
)
from planner.estimates.stage_seconds import (
    NodeGroupCoefficients,
    StageCoefficients,
    boot_seconds,
    load_seconds,
    transfer_seconds,
)
from planner.estimates.uncertainty import class_sigmas, confidence_factor, tail_of_68_percent
from planner.evaluation.evaluate import usd_of_terms
from planner.library.schema import Architecture, Library
from planner.scenario.inference_job import ReplicaBounds, ServeJob
from planner.scenario.limits import Limits
from planner.scenario.offer import Offer
from planner.services.evaluated_fleet import BEYOND, CAPACITY_HALVINGS, LEAST_USE, grouped_lengths
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Traffic:
    """Requests of many lengths on every recipe: what the limits read, columns (n,) or (n, c) by length."""

    job: ServeJob
    speeds: generation.ReplicaSpeeds
    slow: Floats
    lengths: Lengths
    means: BatchMeans
    prompts: PromptMix
    places: Floats  # requests in flight that memory and engine allow, in the mean

    @classmethod
    def of(
        cls, job: ServeJob, speeds: generation.ReplicaSpeeds, slow: Floats, lengths: Lengths | None = None
    ) -> Traffic:
        """Return requests, by default those of the job, on recipes that take `slow` (n,) times as long as estimated."""
        lengths = grouped_lengths(generation.lengths_of(job)) if lengths is None else lengths
        model, hardware, stack = speeds.inputs
        means = batch_means(model, hardware, stack, lengths)
        means = replace(means, prompt_seconds=np.broadcast_to(means.prompt_seconds, slow.shape))
        own = np.asarray(lengths.prompt, dtype=float) - lengths.prefix
        taken_in = prompt_seconds(columns(model), columns(hardware), own[None, :], lengths.prefix)
        seconds = (taken_in + columns(stack).request_seconds) * slow[:, None]
        parts = np.ceil(np.maximum(own, 1.0) / CHUNK_TOKENS)
        share = np.asarray(lengths.count, dtype=float) / lengths.requests
        most = (seconds @ share) / float(np.maximum(own, 1.0) @ share) * CHUNK_TOKENS
        cache = np.asarray([replica.cache for replica in speeds.memory])
        held = np.clip(np.floor(cache / (means.cached_tokens * speeds.token_bytes)), 1.0, speeds.most)
        return cls(
            job, speeds, slow, lengths, means, PromptMix(share, seconds, parts, most),
            np.where(speeds.flight > 0, held, 0.0),
        )  # fmt: skip

    def choosing(self, which: Integers) -> Traffic:
        """Return some of the recipes."""
        places = which.tolist()
        model, hardware, stack = self.speeds.inputs
        speeds = replace(self.speeds, inputs=(rows(model, places), rows(hardware, places), rows(stack, places)))
        prompts = replace(self.prompts, seconds=self.prompts.seconds[which], most=self.prompts.most[which])
        return Traffic(
            self.job, speeds, self.slow[which], self.lengths, rows(self.means, places), prompts, self.places[which],
        )  # fmt: skip

    def hold(self, flight: Floats) -> Floats:
        """Return the mean seconds for which a request has a place among so many in flight, itself one of them."""
        column = flight if flight.ndim == 2 else flight[:, None]
        seconds = mean_cycle_seconds(*self.speeds.inputs, self.means, column) * self.slow[:, None]
        seconds = np.asarray(seconds, dtype=float) - self.arrival[:, None]
        return seconds if flight.ndim == 2 else seconds[:, 0]

    def step(self, flight: Floats) -> Floats:
        """Return the seconds of a decode step."""
        model, hardware, stack = self.speeds.inputs
        context = np.broadcast_to(self.means.context, flight.shape)[:, None]
        seconds = decode_step_seconds(columns(model), columns(hardware), columns(stack), flight[:, None], context)
        return np.asarray(np.broadcast_to(seconds, (len(flight), 1))[:, 0] * self.slow, dtype=float)

    @property
    def arrival(self) -> Floats:
        """Seconds from sending a request to its turn, in which others go on."""
        stack = self.speeds.inputs[2]
        return np.broadcast_to(np.asarray(stack.arrival_seconds, dtype=float), self.slow.shape) * self.slow

    @cached_property
    def queue(self) -> Places:
        """The places, and what a request takes while so many are taken."""
        number = np.maximum(self.places, 1.0)
        count = np.arange(1.0, np.max(number, initial=1.0) + 1.0)
        return Places.of(number, self.hold(np.broadcast_to(count, (len(number), len(count)))))

    @cached_property
    def greatest(self) -> Floats:
        """Requests per second of a saturated replica."""
        return np.where(self.places > 0, self.queue.greatest, 0.0)

    def flight(self, rate: Floats) -> Floats:
        """Return the mean number of requests that have a place at a rate."""
        return self.queue.present(rate).flight

    def passing(self, present: Present) -> Floats:
        """Return the requests per second whose prompts a request in flight meets: those of the others with a place."""
        return (present.met - 1.0) / self.hold(present.met)

    def tpot(self, rate: Floats) -> Floats:
        """Return the time per token that the asked share stays below. The prompt of a request is before its own."""
        present, mean = self.queue.present(rate), self.prompts.mean
        met, output, width = present.met, self.means.output, np.maximum(0.05 * present.met, 0.05)
        inside = self.hold(met)
        slope = (self.hold(met + width) - inside) / width
        times = TokenTimes(
            share=self.prompts.share,
            output=np.asarray(self.lengths.output, dtype=float),
            rate=self.passing(present),
            others=met - 1.0,
            variance=present.variance,
            token=(inside - mean) / output,
            alone=(self.hold(np.ones_like(met)) - mean) / output,
            slope=np.maximum(slope - mean, 0.0) / output,
            prompt=mean,
            prompt_square=self.prompts.mean_square,
        )
        return np.asarray(token_seconds_quantile(self.job.latency.share, times))

    def first_tokens(self, rate: Floats) -> FirstAnswers:
        """Return when requests have their first token."""
        present, share = self.queue.present(rate), self.job.latency.share
        most = gamma_quantile(share, present.flight, np.maximum(present.variance, 1e-12))
        step = self.step(np.minimum(most, self.queue.number))
        tokens = FirstTokens.of(self.prompts, self.passing(present), step)
        token = (self.queue.full - self.prompts.mean) / self.means.output
        seconds = self.prompts.seconds + token[:, None] * np.asarray(self.lengths.output, dtype=float)
        moments = wait_moments(self.queue.number, present.use, seconds, self.prompts.share)
        return FirstAnswers(tokens, *wait_points(present, *moments))

    def ttft(self, rate: Floats) -> Floats:
        """Return the time to the first token that the asked share stays below."""
        answers = self.first_tokens(rate)
        return answers.tokens.quantile(self.job.latency.share, answers.waits, answers.weights) + self.arrival

    def in_time(self, rate: Floats, limit: float, waits: bool = True) -> Floats:
        """Return the share of the requests that have their first token within a limit; without `waits` for a place."""
        answers, none = self.first_tokens(rate), np.zeros((len(rate), 1))
        places = (answers.waits, answers.weights) if waits else (none, none + 1.0)
        return answers.tokens.within(limit - self.arrival, *places)


class FirstAnswers(NamedTuple):
    """First tokens of requests that have a place, and the waits (n, p) for it of shares (n, p) of them."""

    tokens: FirstTokens
    waits: Floats
    weights: Floats


# The greatest load at which a replica keeps its latency, for requests of many lengths that arrive one by one.
#
# It is the greatest rate at which the time to the first token and the time per token each hold for the asked share of
# all requests, a wait for a place among them, and which is far enough from saturation.


HELD_BY = ("TPOT", "TTFT", "KV", "compute")
"""What may hold the capacity: a limit on latency, the wait for a place in cache or engine, or near saturation."""


@dataclass(frozen=True)
class Capacities:
    """Columns (n,): the greatest load of one replica; 0 where no load keeps the latency."""

    rate: Floats  # requests per second
    flight: Floats  # requests in flight at that rate, in the mean
    tpot_seconds: Floats  # at that rate, that the asked share stays below
    binds: Integers  # place in HELD_BY
    slow: Floats  # factor on all times, at the confidence
    greatest: Floats  # requests per second of a saturated replica


def slow_factor(job: ServeJob, speeds: generation.ReplicaSpeeds, library: Library) -> Floats:
    """Return the factor (n,) on all times that holds with the confidence of the job.

    A recipe that the job measured on its GPU is as uncertain as what was observed.
    """
    coefficients = library.calibrations["inference"].coefficients
    adapters = job.adapter is not None and job.adapter.served is not None
    seen = class_sigmas(library.calibrations["uncertainty"].values, "observed").tail
    tails = []
    for served_gpu in speeds.which:
        recipe = served_gpu.recipe
        prior = generation.prior_parts(
            coefficients, recipe.framework, recipe.engine.label, served_gpu.gpu, recipe.quant
        )
        sigma = generation.speed_sigma(coefficients, recipe.framework, bool(prior) or adapters)
        tails.append(seen if generation.is_measured(job, recipe, served_gpu.gpu) else float(tail_of_68_percent(sigma)))
    certain = np.asarray(confidence_factor(np.asarray(tails, dtype=float), job.confidence), dtype=float)
    return certain * expected_factor(job, speeds)


def expected_factor(job: ServeJob, speeds: generation.ReplicaSpeeds) -> Floats:
    """Return the factor (n,) on all times that the job's efficiency and its own measurements make."""
    return np.asarray(1.0 / (job.efficiency * speeds.factor), dtype=float)


def mixture_rates(job: ServeJob, speeds: generation.ReplicaSpeeds, library: Library, mixtures: Floats) -> Floats:
    """Return the greatest rate (mixtures, n) of requests of which each length has a weight (mixtures, lengths).

    Lengths are those of `grouped_lengths`; each limit holds for the asked share of all requests of a mixture.
    """
    lengths, slow = grouped_lengths(generation.lengths_of(job)), slow_factor(job, speeds, library)
    prompt, output = np.asarray(lengths.prompt, dtype=float), np.asarray(lengths.output, dtype=float)
    parts = [
        Lengths(prompt[mixture > 0], output[mixture > 0], mixture[mixture > 0], lengths.prefix) for mixture in mixtures
    ]
    return np.stack([_capacities(Traffic.of(job, speeds, slow, mixture)).rate for mixture in parts])


def replica_capacities(job: ServeJob, speeds: generation.ReplicaSpeeds, library: Library) -> Capacities:
    """Return the capacity of each recipe on its GPU at the confidence of the job."""
    return _capacities(Traffic.of(job, speeds, slow_factor(job, speeds, library)))


def _capacities(traffic: Traffic) -> Capacities:
    """Return the capacity of each recipe for some requests."""
    limits, share, greatest = traffic.job.latency, traffic.job.latency.share, traffic.greatest
    rate = MOST_BUSY * greatest
    binds = np.full(rate.shape, HELD_BY.index("compute"))
    some = np.flatnonzero(greatest > 0)
    if limits.tpot_seconds is not None:
        seconds = limits.tpot_seconds
        _held(traffic, rate, some, lambda some_traffic, at: some_traffic.tpot(at) <= seconds, binds, "TPOT")
    if limits.ttft_seconds is not None:
        first = limits.ttft_seconds
        _held(traffic, rate, some, lambda some_traffic, at: some_traffic.in_time(at, first) >= share, binds, "TTFT")
        late = np.flatnonzero(binds == HELD_BY.index("TTFT"))
        placed = traffic.choosing(late).in_time(rate[late] * BEYOND, first, waits=False) >= share
        binds[late[placed]] = HELD_BY.index("KV")
    holds = rate > LEAST_USE * greatest
    rate = np.where(holds, rate, 0.0)
    return Capacities(
        rate=rate,
        flight=np.where(holds, traffic.flight(rate), 0.0),
        tpot_seconds=traffic.tpot(rate),
        binds=binds,
        slow=traffic.slow,
        greatest=greatest,
    )


def latency_at_use(
    job: ServeJob, speeds: generation.ReplicaSpeeds, library: Library, use: Floats, known: Capacities | None = None
) -> tuple[Floats, Floats]:
    """Return TTFT and TPOT (n,) that the asked share stays below where a replica has `use` (n,) of its capacity.

    `known` capacities are not computed again.
    """
    capacities = known or replica_capacities(job, speeds, library)
    traffic = Traffic.of(job, speeds, capacities.slow)
    return traffic.ttft(use * capacities.rate), traffic.tpot(use * capacities.rate)


def _held(
    traffic: Traffic, rate: Floats, which: Integers, keeps: Callable[[Traffic, Floats], Flags], binds: Integers, by: str
) -> None:
    """Lower the rates (n,) of some recipes to what keeps a limit, and write what holds them (n,)."""
    broken = which[~keeps(traffic.choosing(which), rate[which])]
    binds[broken] = HELD_BY.index(by)
    chosen, low, high = traffic.choosing(broken), np.zeros(len(broken)), rate[broken]
    for _ in range(CAPACITY_HALVINGS):
        middle = (low + high) / 2.0
        kept = keeps(chosen, middle)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    rate[broken] = low


MarketName = Literal["on demand", "spot", "committed"]
TOO_SLOW = "misses the latency at any load"
PAID_BEFORE = "hours paid in advance, which services do not use"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def _same_capacities(job: ServeJob, speeds: generation.ReplicaSpeeds, known: ServedKinds | None) -> Capacities | None:
    """Return the capacities of recipes from known kinds; None where those lack one, or answer other requests."""
    if known is None or _answered_alike(job) != _answered_alike(known.job):
        return None
    place = {known_row: index for index, known_row in enumerate(known.speeds.which)}
    if not place.keys() >= set(speeds.which):
        return None
    places = [place[row] for row in speeds.which]
    if [known.speeds.memory[at] for at in places] != list(speeds.memory):  # another headroom of memory
        return None
    return Capacities(*(getattr(known.capacities, column.name)[places] for column in fields(Capacities)))


def _answered_alike(job: ServeJob) -> ServeJob:
    """Return the job without what a fleet keeps and one replica does not."""
    return job.model_copy(update={"replicas": ReplicaBounds(), "most_kinds": None, "headroom": 0.0})


def _recipes(
    job: ServeJob, architecture: Architecture, market: Market, allowed: list[int], rejected: Counter[str]
) -> dict[tuple[str, int], list[generation.ServingRecipe]]:
    """Return the recipes of each GPU and number of GPUs of the allowed offers; reasons against others are counted."""
    recipes: dict[tuple[str, int], list[generation.ServingRecipe]] = {}
    for index in allowed:
        card, gpus = market.cards[index], market.offers[index].gpus
        if card is None or (card.name, gpus) in recipes:
            continue
        possible = list(generation.serving_recipes(job, architecture, card, gpus))
        rejected.update(reason for reason in possible if isinstance(reason, str))
        bits = job.techniques.weight_bits
        recipes[card.name, gpus] = [
            recipe for recipe in possible if isinstance(recipe, generation.ServingRecipe) and recipe.weight_bits in bits
        ]
    return recipes


def served_kinds(
    job: ServeJob, architecture: Architecture, market: Market, limits: Limits, library: Library,
    known: ServedKinds | None = None,
) -> ServedKinds:  # fmt: skip
    """Return the kinds of a job on a market, at the latency and the confidence of the job.

    Where a provider has a card in a group of zones, machines of one zone are not on spot: both would be lost together.
    Capacities of `known` kinds that answer the same requests are not computed again.
    """
    rejected: Counter[str] = Counter()
    stated = market.is_known(limits)
    allowed = [
        index
        for index, offer in enumerate(market.offers)
        if market.cards[index] is not None and limits.permits(offer) and not market.is_outdated[index] and stated[index]
    ]
    recipes = _recipes(job, architecture, market, allowed, rejected)
    which = tuple(
        dict.fromkeys(generation.ServedGpu(gpu, recipe) for (gpu, _), several in recipes.items() for recipe in several)
    )
    headroom = limits.vram_headroom
    speeds = generation.replica_speeds(job, architecture, which, library, headroom)
    capacities = _same_capacities(job, speeds, known) or replica_capacities(job, speeds, library)
    able = capacities.rate if job.load.concurrent is None else capacities.flight
    sure = (speeds.fit_probability >= job.memory_confidence) | (headroom is not None)
    fits = (speeds.flight >= 1) & sure
    place = {key: index for index, key in enumerate(which)}
    spots = spot_markets(market.offers, library)
    kinds: list[ReplicaKind] = []
    made = 0
    in_zones = {(offer.provider, offer.card) for offer in (market.offers[index] for index in allowed) if offer.zones}
    for index in allowed:
        offer, card = market.offers[index], market.cards[index]
        on_spot = not market.is_outlier[index] and bool(offer.zones) == ((offer.provider, offer.card) in in_zones)
        # What an hour costs depends on no recipe, and the start on its GPUs alone.
        priced, started = list[_Priced](), dict[int, float]()
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
            if together not in started:
                started[together] = start_hours(job, architecture, offer, together, library)
            after, spot = market.after_term[index], spots[index]
            priced = priced or list(_markets(offer, after, spot, on_spot, job, limits, library))
            kinds += [
                _kind(index, offer, market, at, offer.gpus // together, float(able[at]), started[together])
                for market in priced
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
    index: int, offer: Offer, priced: _Priced, which: int, replicas: int, rate: float, started: float
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
        capacity=rate * replicas,
        usd_per_hour=usd,
        start_hours=started,
        start_usd=priced.usd * start_billed,
        availability=priced.availability,
        mean_up_hours=priced.up_hours,
        group=group,
    )
