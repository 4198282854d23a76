"""The greatest load at which a replica keeps its latency, for requests of many lengths that arrive one by one.

It is the greatest rate at which the time to the first token and the time per token each hold for the asked share of all
requests, at which almost none waits for a place, and which is far enough from saturation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.replicas.enumeration import lengths_of
from planner.configurations.replicas.evidence import prior_parts, speed_sigma
from planner.configurations.replicas.measured import is_measured
from planner.estimates.inference import arrivals
from planner.estimates.inference.activations import CHUNK_TOKENS
from planner.estimates.inference.bulk import Lengths, batch_means, columns, mean_cycle_seconds, rows
from planner.estimates.inference.decode import decode_step_seconds
from planner.estimates.inference.kv_cache import blocks_of, seen_tokens
from planner.estimates.inference.prefill import prompt_seconds
from planner.estimates.inference.prompt_work import PromptMix, first_token_quantile
from planner.estimates.uncertainty import class_sigmas, confidence_factor, tail_of_68_percent

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.configurations.replicas.enumeration import ReplicaSpeeds
    from planner.estimates.inference.bulk import BatchMeans
    from planner.library.schema import Library
    from planner.scenario.serving.job import ServeJob

HELD_BY = ("TPOT", "TTFT", "KV", "compute")
"""What may hold the capacity: a limit on latency, places in the cache, or that the replica is nearly saturated."""
MOST_LENGTHS = 24
"""Lengths that are distinguished; a longer table is joined into as many groups of neighbours."""
CAPACITY_HALVINGS = 30
TTFT_HALVINGS = 20
LEAST_FLIGHT = 1e-5
"""Share of its places below which a replica is of no use."""
PLACE_SHARE = 0.1
"""Of the requests that may miss a limit, those that may wait for a place."""


@dataclass(frozen=True)
class Capacities:
    """Columns (n,): the greatest load of one replica, and its latency there; 0 where no load keeps the latency."""

    rate: Floats  # requests per second
    flight: Floats  # requests in flight at that rate, in the mean
    ttft_seconds: Floats  # that the asked share stays below
    tpot_seconds: Floats
    binds: Integers  # place in HELD_BY
    slow: Floats  # factor on all times, at the confidence
    greatest: Floats  # requests per second of a saturated replica


def slow_factor(job: ServeJob, speeds: ReplicaSpeeds, library: Library) -> Floats:
    """Return the factor (n,) on all times that holds with the confidence of the job.

    A recipe that the job measured on its GPU is as uncertain as what was observed.
    """
    coefficients = library.calibrations["inference"].coefficients
    adapters = job.adapter is not None and job.adapter.served is not None
    seen = class_sigmas(library.calibrations["uncertainty"].values, "observed").tail
    tails = []
    for one in speeds.which:
        recipe = one.recipe
        prior = prior_parts(coefficients, recipe.framework, recipe.engine.label, one.gpu, recipe.quant)
        sigma = speed_sigma(coefficients, recipe.framework, bool(prior) or adapters)
        tails.append(seen if is_measured(job, recipe, one.gpu) else float(tail_of_68_percent(sigma)))
    certain = np.asarray(confidence_factor(np.asarray(tails, dtype=float), job.confidence), dtype=float)
    return certain * expected_factor(job, speeds)


def expected_factor(job: ServeJob, speeds: ReplicaSpeeds) -> Floats:
    """Return the factor (n,) on all times that the job's efficiency and its own measurements make."""
    return np.asarray(1.0 / (job.efficiency * speeds.factor), dtype=float)


def grouped_lengths(lengths: Lengths) -> Lengths:
    """Return the lengths, at most MOST_LENGTHS of them: neighbours in total length are joined at their mean."""
    count = np.asarray(lengths.count, dtype=float)
    if len(count) <= MOST_LENGTHS:
        return lengths
    order = np.lexsort((lengths.prompt, lengths.prompt + lengths.output))
    group = np.minimum((np.cumsum(count[order]) - count[order] / 2.0) / np.sum(count) * MOST_LENGTHS, MOST_LENGTHS - 1)
    group = group.astype(int)
    whole = np.bincount(group, weights=count[order])
    prompt, output = (
        np.bincount(group, weights=one[order] * count[order]) / np.maximum(whole, 1e-300)
        for one in (lengths.prompt, lengths.output)
    )
    some = whole > 0
    return Lengths(prompt[some], output[some], whole[some], lengths.prefix)


def length_rates(job: ServeJob, speeds: ReplicaSpeeds, library: Library) -> tuple[Floats, Floats]:
    """Return the share (lengths,) of each length, and the greatest rate (lengths, n) of each length alone."""
    lengths, slow = grouped_lengths(lengths_of(job)), slow_factor(job, speeds, library)
    prompt, output, count = (np.asarray(one, dtype=float) for one in (lengths.prompt, lengths.output, lengths.count))
    each = [
        Lengths(prompt[place : place + 1], output[place : place + 1], count[place : place + 1], lengths.prefix)
        for place in range(len(count))
    ]
    rates = [_capacities(Traffic.of(job, speeds, slow, one)).rate for one in each]
    return count / lengths.requests, np.stack(rates)


def replica_capacities(job: ServeJob, speeds: ReplicaSpeeds, library: Library) -> Capacities:
    """Return the capacity of each recipe on its GPU at the confidence of the job."""
    return _capacities(Traffic.of(job, speeds, slow_factor(job, speeds, library)))


def _capacities(traffic: Traffic) -> Capacities:
    """Return the capacity of each recipe for some requests."""
    places, limits = traffic.places, traffic.job.latency
    low, high = np.zeros_like(places), places.copy()
    for _ in range(CAPACITY_HALVINGS):
        middle = (low + high) / 2.0
        keeps = ~np.any(_broken(traffic, middle), axis=0)
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    binds = _BINDS[np.argmax(_broken(traffic, high), axis=0)]
    ttft = np.full_like(low, np.inf)
    some = np.flatnonzero(places > 0)
    ttft[some] = traffic.choosing(some).ttft(low[some])
    if limits.ttft_seconds is not None:
        late = some[ttft[some] > limits.ttft_seconds]
        low[late] = _in_time(traffic.choosing(late), low[late], limits.ttft_seconds)
        ttft[late] = traffic.choosing(late).ttft(low[late])
        binds[late] = HELD_BY.index("TTFT")
    holds = low > LEAST_FLIGHT * np.maximum(places, 1.0)
    return Capacities(
        rate=np.where(holds, traffic.rate(low), 0.0),
        flight=np.where(holds, low, 0.0),
        ttft_seconds=ttft,
        tpot_seconds=traffic.tpot(low),
        binds=binds,
        slow=traffic.slow,
        greatest=traffic.greatest,
    )


def latency_at_use(job: ServeJob, speeds: ReplicaSpeeds, library: Library, use: Floats) -> tuple[Floats, Floats]:
    """Return TTFT and TPOT (n,) that the asked share stays below where a replica has `use` (n,) of its capacity."""
    found = replica_capacities(job, speeds, library)
    traffic = Traffic.of(job, speeds, found.slow)
    flight = traffic.flight_at(use * found.rate, found.flight)
    return traffic.ttft(flight), traffic.tpot(flight)


@dataclass(frozen=True)
class Traffic:
    """Requests of many lengths on every recipe: what the limits read, columns (n,) or (n, c) by length."""

    job: ServeJob
    speeds: ReplicaSpeeds
    slow: Floats
    lengths: Lengths
    means: BatchMeans
    prompts: PromptMix
    places: Floats  # requests in flight that memory and engine allow, in the mean
    varied: Floats  # variance of the cache that a request takes, over the square of its mean

    @classmethod
    def of(cls, job: ServeJob, speeds: ReplicaSpeeds, slow: Floats, lengths: Lengths | None = None) -> Traffic:
        """Return requests, by default those of the job, on recipes that take `slow` (n,) times as long as estimated."""
        lengths = grouped_lengths(lengths_of(job)) if lengths is None else lengths
        model, hardware, stack = speeds.inputs
        means = batch_means(model, hardware, stack, lengths)
        means = replace(means, prompt_seconds=np.broadcast_to(means.prompt_seconds, slow.shape))
        own = np.asarray(lengths.prompt, dtype=float) - lengths.prefix
        taken_in = prompt_seconds(columns(model), columns(hardware), own[None, :], lengths.prefix)
        seconds = (taken_in + columns(stack).request_seconds) * slow[:, None]
        parts = np.ceil(np.maximum(own, 1.0) / CHUNK_TOKENS)
        share = np.asarray(lengths.count, dtype=float) / lengths.requests
        most = (seconds @ share) / float(np.maximum(own, 1.0) @ share) * CHUNK_TOKENS
        cache = np.asarray([one.cache for one in speeds.memory])
        engine = np.asarray([one.recipe.engine.sequences for one in speeds.which], dtype=float)
        held = np.clip(np.floor(cache / (means.cached_tokens * speeds.token_bytes)), 1.0, engine)
        middle = blocks_of(seen_tokens(columns(model), lengths.prompt + np.asarray(lengths.output) / 2.0))
        squares = np.sum(np.square(middle) * lengths.seat_share, axis=-1)
        return cls(
            job, speeds, slow, lengths, means, PromptMix(share, seconds, parts, most),
            np.where(speeds.flight > 0, held, 0.0),
            np.maximum(np.broadcast_to(squares, slow.shape) / np.square(means.cached_tokens) - 1.0, 0.0),
        )  # fmt: skip

    def choosing(self, which: Integers) -> Traffic:
        """Return some of the recipes."""
        places = which.tolist()
        model, hardware, stack = self.speeds.inputs
        speeds = replace(self.speeds, inputs=(rows(model, places), rows(hardware, places), rows(stack, places)))
        prompts = replace(self.prompts, seconds=self.prompts.seconds[which], most=self.prompts.most[which])
        return Traffic(
            self.job, speeds, self.slow[which], self.lengths, rows(self.means, places), prompts, self.places[which],
            self.varied[which],
        )  # fmt: skip

    def cycle(self, flight: Floats) -> Floats:
        """Return the mean seconds of a request among so many in flight."""
        found = mean_cycle_seconds(*self.speeds.inputs, self.means, flight[:, None])
        return np.asarray(found[:, 0] * self.slow, dtype=float)

    def step(self, flight: Floats) -> Floats:
        """Return the seconds of a decode step."""
        model, hardware, stack = self.speeds.inputs
        context = np.broadcast_to(self.means.context, flight.shape)[:, None]
        found = decode_step_seconds(columns(model), columns(hardware), columns(stack), flight[:, None], context)
        return np.asarray(np.broadcast_to(found, (len(flight), 1))[:, 0] * self.slow, dtype=float)

    @property
    def arrival(self) -> Floats:
        """Seconds from sending a request to its turn, in which others go on."""
        stack = self.speeds.inputs[2]
        return np.broadcast_to(np.asarray(stack.arrival_seconds, dtype=float), self.slow.shape) * self.slow

    @cached_property
    def greatest(self) -> Floats:
        """Requests per second of a saturated replica."""
        return self.places / self.cycle(np.maximum(self.places, 1.0))

    def rate(self, flight: Floats) -> Floats:
        """Return the requests per second with so many in flight in the mean: a request meets them, and is one more."""
        return flight / self.cycle(flight + 1.0)

    def times(self, flight: Floats) -> arrivals.TokenTimes:
        """Return what the time per token spreads with. The prompt of a request is before its own first token."""
        output, width = self.means.output, np.maximum(0.05 * flight, 0.05)
        mean, inside = self.prompts.mean, self.cycle(flight + 1.0) - self.arrival
        slope = (self.cycle(flight + 1.0 + width) - self.cycle(flight + 1.0)) / width
        return arrivals.TokenTimes(
            share=self.prompts.share,
            output=np.asarray(self.lengths.output, dtype=float),
            rate=self.rate(flight),
            flight=flight,
            token=(inside - mean) / output,
            alone=(self.cycle(np.ones_like(flight)) - self.arrival - mean) / output,
            slope=np.maximum(slope - mean, 0.0) / output,
            prompt=mean,
            prompt_square=self.prompts.mean_square,
        )

    def variance(self, flight: Floats) -> Floats:
        """Return the variance of the number in flight."""
        return np.asarray(arrivals.flight_variance(flight, self.times(flight).busy))

    def tpot(self, flight: Floats) -> Floats:
        """Return the time per token that the asked share stays below."""
        return np.asarray(arrivals.token_seconds_quantile(self.job.latency.share, self.times(flight)))

    def ttft(self, flight: Floats) -> Floats:
        """Return the time to the first token that the asked share stays below."""
        share, mean = self.job.latency.share, np.maximum(flight, 1e-9)
        many = self.step(np.maximum(arrivals.gamma_quantile(share, mean, self.variance(flight)), 1.0))
        return first_token_quantile(share, self.prompts, self.rate(flight), many) + self.arrival

    def needed(self, flight: Floats) -> Floats:
        """Return the places that suffice for nearly all requests, of the mean size in the cache."""
        share, mean = 1.0 - PLACE_SHARE * (1.0 - self.job.latency.share), np.maximum(flight, 1e-9)
        return np.asarray(arrivals.gamma_quantile(share, mean, self.variance(flight) + flight * self.varied) + 1.0)

    def flight_at(self, rate: Floats, most: Floats) -> Floats:
        """Return the requests in flight, at most `most`, at a rate."""
        low, high = np.zeros_like(most), np.maximum(most, 1e-9)
        for _ in range(CAPACITY_HALVINGS):
            middle = (low + high) / 2.0
            below = self.rate(middle) <= rate
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high


_BINDS = np.asarray([HELD_BY.index("TPOT"), HELD_BY.index("KV"), HELD_BY.index("compute")])


def _broken(traffic: Traffic, flight: Floats) -> Flags:
    """Return which conditions (3, n) but that on TTFT a mean in flight breaks."""
    limit = traffic.job.latency.tpot_seconds
    slow = np.zeros(flight.shape, dtype=bool) if limit is None else traffic.tpot(flight) > limit
    full = traffic.needed(flight) > traffic.places
    return np.stack([slow, full, traffic.rate(flight) > arrivals.MOST_BUSY * traffic.greatest])


def _in_time(traffic: Traffic, most: Floats, limit: float) -> Floats:
    """Return the greatest number in flight, at most `most`, whose TTFT keeps the limit."""
    low, high = np.zeros_like(most), most.copy()
    for _ in range(TTFT_HALVINGS):
        middle = (low + high) / 2.0
        keeps = traffic.ttft(middle) <= limit
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    return low
