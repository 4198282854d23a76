"""One replica of a service whose requests arrive one by one: its latency at a load, and its greatest load.

One configuration at a time: arrays have one row, which is the replica, or a place for each length of the requests.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner import generation
from planner.arrays import Floats
from planner.estimates.generation import CHUNK_TOKENS, decode_step_seconds, prompt_seconds
from planner.estimates.latency import BatchMeans, FirstTokens, Lengths, PromptMix, batch_means, mean_cycle_seconds
from planner.estimates.request_arrivals import (
    MOST_BUSY,
    Places,
    Present,
    TokenTimes,
    gamma_quantile,
    token_seconds_quantile,
    wait_moments,
    wait_points,
)
from planner.estimates.uncertainty import confidence_factor
from planner.records import record
from planner.scenario.service_load import ServeJob
from planner.services.queue_limits import BEYOND, CAPACITY_HALVINGS, LEAST_USE, grouped_lengths

if TYPE_CHECKING:
    from collections.abc import Callable


@record(frozen=True)
class ReplicaQueue:
    """Requests of a service at one replica; all times are seconds at the confidence of the job."""

    replica: generation.Replica
    job: ServeJob

    @cached_property
    def slow(self) -> float:
        """Factor on all estimated times."""
        certain = float(confidence_factor(self.replica.sigmas.tail, self.job.confidence))
        return certain / (self.job.efficiency * self.replica.factor)

    @cached_property
    def lengths(self) -> Lengths:
        """Requests by length (c,), neighbours joined where there are many."""
        return grouped_lengths(generation.lengths_of(self.job))

    @cached_property
    def means(self) -> BatchMeans:
        """What a request needs in the mean."""
        model, hardware, stack = self.replica.inputs
        return batch_means(model, hardware, stack, self.lengths)

    @cached_property
    def prompts(self) -> PromptMix:
        """Prompts by length, and the seconds of them that fit into one step."""
        (model, hardware, stack), lengths = self.replica.inputs, self.lengths
        own, share = lengths.prompt - lengths.prefix, lengths.count / lengths.requests
        seconds = (prompt_seconds(model, hardware, own, lengths.prefix) + stack.request_seconds) * self.slow
        tokens = np.maximum(own, 1.0)
        most = float(seconds @ share) / float(tokens @ share) * CHUNK_TOKENS
        return PromptMix(share, seconds[None, :], np.ceil(tokens / CHUNK_TOKENS), np.array([most]))

    @cached_property
    def arrival(self) -> float:
        """Seconds from sending a request to its turn, in which others go on."""
        return float(self.replica.inputs[2].arrival_seconds[0]) * self.slow

    def hold(self, flight: Floats) -> Floats:
        """Return the mean seconds (k,) for which a request has a place among `flight` (k,), itself one of them."""
        model, hardware, stack = self.replica.inputs
        seconds = mean_cycle_seconds(model, hardware, stack, self.means, flight[None, :])
        return np.asarray(seconds[0] * self.slow - self.arrival, dtype=float)

    def step(self, flight: Floats) -> Floats:
        """Return the seconds (1,) of a step without prompts."""
        model, hardware, stack = self.replica.inputs
        seconds = decode_step_seconds(model, hardware, stack, flight, self.means.context)
        return np.asarray(seconds * self.slow, dtype=float)

    @cached_property
    def places(self) -> float:
        """Requests in flight that memory and engine allow in the mean; ValueError where the longest does not fit."""
        if not self.replica.fitting:
            raise ValueError("the longest request does not fit")
        tokens = float(self.means.cached_tokens[0])
        most = self.replica.most
        return float(min(max(math.floor(self.replica.memory["cache"] / (tokens * self.replica.token_bytes)), 1), most))

    @cached_property
    def queue(self) -> Places:
        """The places, and what a request takes while so many are taken."""
        return Places.of(np.array([self.places]), self.hold(np.arange(1.0, self.places + 1.0))[None, :])

    @property
    def greatest(self) -> float:
        """Requests per second of a saturated replica."""
        return float(self.queue.greatest[0])

    def present(self, rate: float) -> Present:
        """Return the requests that are there at a rate, in requests per second as all rates here."""
        return self.queue.present(np.array([rate]))

    def flight(self, rate: float) -> float:
        """Return the mean number of requests that have a place."""
        return float(self.present(rate).flight[0])

    def tpot(self, rate: float) -> float:
        """Return the time per token that the asked share stays below. The prompt of a request is before its own."""
        present, mean, output = self.present(rate), self.prompts.mean, self.means.output
        met, width = present.met, np.maximum(0.05 * present.met, 0.05)
        alone, inside, beyond = self.hold(np.concatenate([np.ones(1), met, met + width]))
        times = TokenTimes(
            share=self.prompts.share,
            output=np.asarray(self.lengths.output, dtype=float),
            rate=(met - 1.0) / inside,
            others=met - 1.0,
            variance=present.variance,
            token=(inside - mean) / output,
            alone=(alone - mean) / output,
            slope=np.maximum((beyond - inside) / width - mean, 0.0) / output,
            prompt=mean,
            prompt_square=self.prompts.mean_square,
        )
        return float(token_seconds_quantile(self.job.latency.share, times)[0])

    def first_tokens(self, rate: float) -> FirstTokens:
        """Return when requests that have a place have their first token, arrival left out."""
        present = self.present(rate)
        many = gamma_quantile(self.job.latency.share, present.flight, np.maximum(present.variance, 1e-12))
        passing = (present.met - 1.0) / self.hold(present.met)
        return FirstTokens.of(self.prompts, passing, self.step(np.minimum(many, self.places)))

    def waits(self, rate: float) -> tuple[Floats, Floats]:
        """Return waits (1, p) for a place, and the shares (1, p) of the requests that wait so long."""
        present = self.present(rate)
        token = (self.queue.full - self.prompts.mean) / self.means.output
        seconds = self.prompts.seconds + token * self.lengths.output
        return wait_points(present, *wait_moments(self.queue.number, present.use, seconds, self.prompts.share))

    def ttft(self, rate: float) -> float:
        """Return the time to the first token that the asked share stays below."""
        quantile = self.first_tokens(rate).quantile(self.job.latency.share, *self.waits(rate))
        return float(quantile[0]) + self.arrival

    def in_time(self, rate: float, limit: float, waits: bool = True) -> float:
        """Return the share of the requests with a first token within a limit; without `waits` for a place."""
        places = self.waits(rate) if waits else (np.zeros((1, 1)), np.ones((1, 1)))
        return float(self.first_tokens(rate).within(np.array([limit - self.arrival]), *places)[0])

    @cached_property
    def capacity(self) -> tuple[float, str]:
        """Greatest requests per second within all limits, 0 where none is of use, and the limit that holds them.

        A wait for a place holds them where requests that have one would be in time.
        """
        limits, rate, binds = self.job.latency, MOST_BUSY * self.greatest, "compute"
        each, first = limits.tpot_seconds, limits.ttft_seconds
        if each is not None:
            kept = greatest_rate(lambda at: self.tpot(at) <= each, rate)
            rate, binds = kept, "TPOT" if kept < rate else binds
        if first is not None:
            kept = greatest_rate(lambda at: self.in_time(at, first) >= limits.share, rate)
            if kept < rate:
                rate, placed = kept, self.in_time(kept * BEYOND, first, waits=False) >= limits.share
                binds = "KV" if placed else "TTFT"
        return (rate, binds) if rate > LEAST_USE * self.greatest else (0.0, binds)


def greatest_rate(keeps: Callable[[float], bool], most: float) -> float:
    """Return the greatest rate up to `most` that keeps a limit."""
    if keeps(most):
        return most
    low, high = 0.0, most
    for _ in range(CAPACITY_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
