"""Latency: how long a request waits for its first token and its next ones, alone and in a finite batch.

A step computes the prompts that arrived during the one before, up to what fits into one step, and takes the longer for
it, so that more arrive meanwhile. The work of prompts that lies before a step, in seconds, is kept on a lattice of
LATTICE points; each request adds the seconds of its own prompt. All times are seconds; columns (n,) are configurations,
(n, c) requests by length.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner.arrays import Floats
from planner.estimates.generation import (
    ServedModel,
    ServingHardware,
    ServingStack,
    blocks_of,
    joined_cycle_seconds,
    mean_seen_tokens,
    prompt_seconds,
    seen_tokens,
)
from planner.estimates.inputs import Numbers
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence


# A finite batch of requests of many lengths on one replica: what one of them takes in the mean, and all of them.


_Inputs = TypeVar("_Inputs", ServedModel, ServingHardware, ServingStack, "BatchMeans")


@record(frozen=True)
class Lengths:
    """Requests by length, columns (k,): tokens of prompt and answer, how many; tokens that all prompts share."""

    prompt: Any
    output: Any
    count: Any
    prefix: float = 0.0

    @property
    def requests(self) -> float:
        """Return the number of all requests."""
        return float(np.sum(self.count))

    @property
    def mean_output(self) -> float:
        """Return the mean tokens of an answer."""
        return float(np.average(self.output, weights=self.count))

    @property
    def seat_share(self) -> Any:
        """Return the share (k,) of the places in flight that each length takes: each stays for its answer's tokens."""
        return np.asarray(self.output, dtype=float) * self.count / np.sum(np.multiply(self.output, self.count))


@record(frozen=True)
class BatchMeans:
    """What the requests of a batch need in the mean, columns (n,) of configurations."""

    context: Any  # tokens that a layer reads per sequence in flight and step
    prompt_seconds: Any  # of taking in one request among others
    output: float  # tokens
    cached_tokens: Any  # whole blocks of the cache that one sequence in flight takes
    longest_tokens: Any  # the same at the end of the longest request


def batch_means(model: ServedModel, hardware: ServingHardware, stack: ServingStack, lengths: Lengths) -> BatchMeans:
    """Return the means over the requests; the columns of model, hardware and stack are (n,).

    The time of a step is a straight line in the context, so that the mean context of the places in flight gives the
    mean time of all requests exactly. Example: 100 requests of 900 + 150 tokens and 100 of 100 + 50: three quarters of
    the places belong to the long ones, whose mean context is 975 tokens, so that the mean is 762.5.
    """
    model, hardware, stack = columns(model), columns(hardware), columns(stack)
    prompt, output = np.asarray(lengths.prompt, dtype=float), np.asarray(lengths.output, dtype=float)
    seats, weight = lengths.seat_share, np.asarray(lengths.count, dtype=float) / lengths.requests
    taken_in = prompt_seconds(model, hardware, prompt - lengths.prefix, lengths.prefix) + stack.request_seconds
    ends = blocks_of(seen_tokens(model, prompt + output))
    return BatchMeans(
        context=np.sum(mean_seen_tokens(model, prompt, output) * seats, axis=-1),
        prompt_seconds=np.sum(taken_in * weight, axis=-1),
        output=lengths.mean_output,
        cached_tokens=np.sum(blocks_of(seen_tokens(model, prompt + output * stack.held_share)) * seats, axis=-1),
        longest_tokens=np.max(np.broadcast_to(ends, (*ends.shape[:-1], len(output))), axis=-1),
    )


def mean_cycle_seconds(
    model: ServedModel, hardware: ServingHardware, stack: ServingStack, means: BatchMeans, sequences: Numbers
) -> Any:
    """Return the mean seconds (n, m) of one request with `sequences` (n, m) in flight; the other columns are (n,)."""
    context, taken_in = (np.asarray(column, dtype=float)[:, None] for column in (means.context, means.prompt_seconds))
    model, hardware, stack = columns(model), columns(hardware), columns(stack)
    return joined_cycle_seconds(model, hardware, stack, sequences, context, taken_in, means.output)


def columns(one: _Inputs) -> _Inputs:
    """Return the same inputs with columns (n, 1)."""
    values: dict[str, Any] = {field.name: np.asarray(getattr(one, field.name))[..., None] for field in fields(one)}
    return replace(one, **values)


def rows(one: _Inputs, which: Sequence[int]) -> _Inputs:
    """Return the inputs of some configurations."""
    values = {field.name: np.asarray(getattr(one, field.name)) for field in fields(one)}
    picked: dict[str, Any] = {name: value[which] for name, value in values.items() if value.ndim}
    return replace(one, **picked)


# Latency: the time to the first token, and the time per token after it.


def first_token_seconds(stack: ServingStack, alone: Numbers, step: Numbers, prompt: Numbers, others: Numbers) -> Any:
    """Return the mean time to the first token (TTFT).

    `alone`: seconds of the prefill with nothing else; `step`: seconds of the decode step that is under way, half of
    which is waited for where there are others; `prompt`: seconds that each of `others` prompts adds. All prompts at
    once wait for half of the others in the mean, evenly spread ones for few: `wait_share` says which.
    """
    others = np.asarray(others, dtype=float)
    return alone + np.where(others > 0, step / 2.0, 0.0) + stack.wait_share * others * prompt


def seconds_per_token(cycle: Numbers, first_token: Numbers, output: Numbers) -> Any:
    """Return the mean time per token after the first (TPOT): (end - first token) / (output - 1).

    nan for a single token, which has no next one.
    """
    output = np.asarray(output, dtype=float)
    return np.where(output > 1, (cycle - first_token) / np.where(output > 1, output - 1.0, 1.0), np.nan)


LATTICE = 24
"""Points of work. Its range covers the longest prompt and RANGE_SIGMAS deviations of the work of a step."""
RANGE_SIGMAS = 5.0
CHAIN_SQUARES = 6
"""Times that the chain is squared: 64 steps. It forgets by rate * prompt, below 0.85, with each."""
MOST_OF_STEPS = 0.95
"""Share of the time for prompts up to which the range of the lattice follows their work."""
WAITS = 48
"""Points at which the distribution of the wait is computed."""
QUANTILE_HALVINGS = 30


@record(frozen=True)
class PromptMix:
    """Requests by length: their share, the seconds of their prompts, and over how many steps one is spread."""

    share: Floats  # (c,)
    seconds: Floats  # (n, c)
    parts: Floats  # (c,)
    most: Floats  # (n,), of prompts in one step

    @property
    def mean(self) -> Floats:
        """Return the mean seconds (n,) of a prompt."""
        return np.asarray(self.seconds @ self.share)

    @property
    def mean_square(self) -> Floats:
        """Return the mean (n,) of the squares."""
        return np.asarray(np.square(self.seconds) @ self.share)


def lattice_width(mix: PromptMix, rate: Numbers, step: Numbers) -> Any:
    """Return the seconds (n,) between two points.

    The work of a step has the mean m = rate * p * step / (1 - rate * p) and the variance
    rate * p2 * (step + m) / (1 - (rate * p)^2), p2 the mean square of the prompts. What fills steps pays one more step
    for each of them.
    """
    busy = np.minimum(rate * mix.mean * (1.0 + step / mix.most), MOST_OF_STEPS)
    mean = busy * step / (1.0 - busy)
    variance = rate * mix.mean_square * (step + mean) / (1.0 - busy * busy)
    return (np.max(mix.seconds, axis=1) + mean + RANGE_SIGMAS * np.sqrt(variance)) / (LATTICE - 1)


def on_lattice(mix: PromptMix, width: Floats) -> Floats:
    """Return the shares (n, LATTICE) of prompts by their work; one between two points is shared so that means stay."""
    place = np.minimum(mix.seconds / width[:, None], LATTICE - 1.0)
    below = np.minimum(place.astype(int), LATTICE - 2)
    found = np.zeros((len(width), LATTICE))
    row = np.arange(len(width))[:, None]
    np.add.at(found, (row, below), (1.0 - (place - below)) * mix.share)
    np.add.at(found, (row, below + 1), (place - below) * mix.share)
    return found


def compound_poisson(mean: Floats, sizes: Floats) -> Floats:
    """Return the shares (n, m, LATTICE) of sums of a Poisson number of sizes; the last takes all beyond.

    Panjer's recursion (1981): with f the shares of sizes, g[0] = exp(-mean (1 - f[0])) and
    g[k] = mean / k * sum of j f[j] g[k - j]. `mean` (n, m) numbers, `sizes` (n, LATTICE).
    Example: mean 1 of size 1: 0.37, 0.37, 0.18...
    """
    weighted = sizes * np.arange(LATTICE)
    found = np.zeros((*mean.shape, LATTICE))
    found[..., 0] = np.exp(-mean * (1.0 - sizes[:, :1]))
    for k in range(1, LATTICE):
        found[..., k] = mean / k * np.einsum("nj,nmj->nm", weighted[:, 1 : k + 1], found[..., k - 1 :: -1][..., :k])
    found[..., -1] += np.maximum(1.0 - np.sum(found, axis=-1), 0.0)
    return np.asarray(found / np.sum(found, axis=-1, keepdims=True))


@record(frozen=True)
class StepWork:
    """The stationary chain; columns (n, LATTICE) of the work before a step."""

    share: Floats  # of the steps
    seconds: Floats  # of the step
    left: Floats  # seconds of work that it does not reach
    arriving: Floats  # (n, LATTICE, LATTICE): shares of the work that arrives meanwhile
    width: Floats  # (n,)


def step_work(mix: PromptMix, rate: Floats, step: Floats) -> StepWork:
    """Return the work of prompts before the steps of a replica; `step` seconds are those without prompts."""
    width = lattice_width(mix, rate, step)
    work = width[:, None] * np.arange(LATTICE)
    done = np.minimum(work, mix.most[:, None])
    seconds, left = step[:, None] + done, work - done
    sizes = on_lattice(mix, width)
    arriving = compound_poisson(rate[:, None] * seconds, sizes)
    place = left / width[:, None]
    moved = place.astype(int)
    chain = np.zeros_like(arriving)
    row = np.arange(len(width))[:, None]
    number = np.arange(LATTICE)[None, :]
    for j in range(LATTICE):
        part = place - moved
        np.add.at(chain, (row, number, np.minimum(moved + j, LATTICE - 1)), (1.0 - part) * arriving[..., j])
        np.add.at(chain, (row, number, np.minimum(moved + j + 1, LATTICE - 1)), part * arriving[..., j])
    busy = np.minimum(rate * mix.mean, MOST_OF_STEPS)
    found = compound_poisson((rate * step / (1.0 - busy))[:, None], sizes)[:, 0]
    for _ in range(CHAIN_SQUARES):
        chain = chain @ chain
    found = np.einsum("nk,nkj->nj", found, chain)
    return StepWork(found, seconds, left, arriving, width)


def waited_share(work: StepWork, mix: PromptMix, step: Floats, waited: Floats) -> Floats:
    """Return the share (n,) of requests that wait at most `waited` (n,) for others before and in their own step.

    A request waits for the end of the step under way, which is a long one more likely than a short one; for the work
    that this step leaves, a further step for each time that it fills one; and for all prompts that arrive with it.
    """
    seen = work.share * work.seconds
    seen = seen / np.sum(seen, axis=1, keepdims=True)
    behind = work.left * (1.0 + step[:, None] / mix.most[:, None])
    others = behind[..., None] + (work.width[:, None] * np.arange(LATTICE))[:, None, :]
    inside = np.clip((waited[:, None, None] - others) / work.seconds[..., None], 0.0, 1.0)
    return np.asarray(np.einsum("nk,nkj,nkj->n", seen, work.arriving, inside))


@record(frozen=True)
class FirstTokens:
    """When requests have their first token (TTFT): shares (n, WAITS) that wait at most a multiple of `spread` (n,)."""

    shares: Floats
    spread: Floats
    own: Floats  # (n, c) seconds of the steps that compute a prompt
    length: Floats  # (c,) shares of the requests by length

    @classmethod
    def of(cls, mix: PromptMix, rate: Floats, step: Floats) -> FirstTokens:
        """Return the requests that meet prompts of others at a rate (n,), once they have a place.

        A request waits (`waited_share`), and has its own prompt computed in `parts` steps.
        """
        work = step_work(mix, rate, step)
        longest = work.seconds[:, -1] + (work.left[:, -1]) * (1.0 + step / mix.most) + work.width * (LATTICE - 1)
        spread = longest / (WAITS - 1)
        shares = np.stack([waited_share(work, mix, step, spread * wait) for wait in range(WAITS)], axis=1)
        return cls(shares, spread, mix.seconds + step[:, None] * mix.parts, mix.share)

    def within(self, seconds: Floats, waits: Floats, weights: Floats) -> Floats:
        """Return the share (n,) of the requests with a first token within `seconds` (n,).

        `waits` (n, p) for a place have the shares `weights` (n, p) of the requests.
        """
        left = seconds[:, None, None] - waits[:, None, :] - self.own[:, :, None]
        place = np.clip(left / self.spread[:, None, None], -1e-9, WAITS - 1.0)
        at = np.clip(place.astype(int), 0, WAITS - 2)
        row, part = np.arange(len(seconds))[:, None, None], place - at
        below = np.where(place < 0, 0.0, self.shares[row, at] * (1.0 - part) + self.shares[row, at + 1] * part)
        return np.asarray(np.einsum("ncp,np,c->n", below, weights, self.length))

    def quantile(self, share: float, waits: Floats, weights: Floats) -> Floats:
        """Return the seconds (n,) within which a share of all requests has its first token."""
        low = np.zeros(len(self.spread))
        high = self.spread * (WAITS - 1) + np.max(self.own, axis=1) + np.max(waits, axis=1)
        for _ in range(QUANTILE_HALVINGS):
            middle = (low + high) / 2.0
            below = self.within(middle, waits, weights)
            low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
        return np.asarray(high)


def first_token_quantile(share: float, mix: PromptMix, rate: Floats, step: Floats) -> Floats:
    """Return the time to the first token (n,) that a share of requests stays below; none waits for a place."""
    nothing = np.zeros((len(rate), 1))
    return FirstTokens.of(mix, rate, step).quantile(share, nothing, nothing + 1.0)
