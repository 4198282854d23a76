"""Requests of many lengths that arrive one by one at replicas of every recipe: what they meet at a rate."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.configurations.replicas.enumeration import lengths_of
from planner.estimates.inference import arrivals
from planner.estimates.inference.activations import CHUNK_TOKENS
from planner.estimates.inference.bulk import Lengths, batch_means, columns, mean_cycle_seconds, rows
from planner.estimates.inference.decode import decode_step_seconds
from planner.estimates.inference.places import Places, Present, wait_moments, wait_points
from planner.estimates.inference.prefill import prompt_seconds
from planner.estimates.inference.prompt_work import FirstTokens, PromptMix
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.configurations.replicas.enumeration import ReplicaSpeeds
    from planner.estimates.inference.bulk import BatchMeans
    from planner.scenario.serving.job import ServeJob

MOST_LENGTHS = 24
"""Lengths that are distinguished; a longer table is joined into as many groups of neighbours."""


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


@record(frozen=True)
class Traffic:
    """Requests of many lengths on every recipe: what the limits read, columns (n,) or (n, c) by length."""

    job: ServeJob
    speeds: ReplicaSpeeds
    slow: Floats
    lengths: Lengths
    means: BatchMeans
    prompts: PromptMix
    places: Floats  # requests in flight that memory and engine allow, in the mean

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
        found = mean_cycle_seconds(*self.speeds.inputs, self.means, column) * self.slow[:, None]
        found = np.asarray(found, dtype=float) - self.arrival[:, None]
        return found if flight.ndim == 2 else found[:, 0]

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
        times = arrivals.TokenTimes(
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
        return np.asarray(arrivals.token_seconds_quantile(self.job.latency.share, times))

    def first_tokens(self, rate: Floats) -> FirstAnswers:
        """Return when requests have their first token."""
        present, share = self.queue.present(rate), self.job.latency.share
        most = arrivals.gamma_quantile(share, present.flight, np.maximum(present.variance, 1e-12))
        step = self.step(np.minimum(most, self.queue.number))
        found = FirstTokens.of(self.prompts, self.passing(present), step)
        token = (self.queue.full - self.prompts.mean) / self.means.output
        seconds = self.prompts.seconds + token[:, None] * np.asarray(self.lengths.output, dtype=float)
        moments = wait_moments(self.queue.number, present.use, seconds, self.prompts.share)
        return FirstAnswers(found, *wait_points(present, *moments))

    def ttft(self, rate: Floats) -> Floats:
        """Return the time to the first token that the asked share stays below."""
        found = self.first_tokens(rate)
        return found.tokens.quantile(self.job.latency.share, found.waits, found.weights) + self.arrival

    def in_time(self, rate: Floats, limit: float, waits: bool = True) -> Floats:
        """Return the share of the requests that have their first token within a limit; without `waits` for a place."""
        found, none = self.first_tokens(rate), np.zeros((len(rate), 1))
        places = (found.waits, found.weights) if waits else (none, none + 1.0)
        return found.tokens.within(limit - self.arrival, *places)


class FirstAnswers(NamedTuple):
    """First tokens of requests that have a place, and the waits (n, p) for it of shares (n, p) of them."""

    tokens: FirstTokens
    waits: Floats
    weights: Floats
