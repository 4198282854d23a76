"""Latency of requests: their first and next tokens, alone, in a finite batch, and where they arrive one by one.

A step computes the prompts that arrived during the one before, up to what fits into one step, and takes the longer for
it, so that more arrive meanwhile. The work of prompts that lies before a step, in seconds, is kept on a lattice of
LATTICE points; each request adds the seconds of its own prompt. All times are seconds; columns (n,) are configurations,
(n, c) requests by length.

Requests come at random (a Poisson stream of `rate` per second), join the steps of those in flight, and leave after
`output` steps. How many are in flight follows from the balance of arrivals and answers, below. What follows linearises
how a request is slowed by these movements, and is checked by simulation. All times are seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from statistics import NormalDist
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

if TYPE_CHECKING:
    from collections.abc import Sequence


# A finite batch of requests of many lengths on one replica: what one of them takes in the mean, and all of them.


_Inputs = TypeVar("_Inputs", ServedModel, ServingHardware, ServingStack, "BatchMeans")


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def columns(inputs: _Inputs) -> _Inputs:
    """Return the same inputs with columns (n, 1)."""
    values: dict[str, Any] = {
        field.name: np.asarray(getattr(inputs, field.name))[..., None] for field in fields(inputs)
    }
    return replace(inputs, **values)


def rows(inputs: _Inputs, which: Sequence[int]) -> _Inputs:
    """Return the inputs of some configurations."""
    values = {field.name: np.asarray(getattr(inputs, field.name)) for field in fields(inputs)}
    picked: dict[str, Any] = {name: value[which] for name, value in values.items() if value.ndim}
    return replace(inputs, **picked)


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


@dataclass(frozen=True)
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
    shares = np.zeros((len(width), LATTICE))
    row = np.arange(len(width))[:, None]
    np.add.at(shares, (row, below), (1.0 - (place - below)) * mix.share)
    np.add.at(shares, (row, below + 1), (place - below) * mix.share)
    return shares


def compound_poisson(mean: Floats, sizes: Floats) -> Floats:
    """Return the shares (n, m, LATTICE) of sums of a Poisson number of sizes; the last takes all beyond.

    Panjer's recursion (1981): with f the shares of sizes, g[0] = exp(-mean (1 - f[0])) and
    g[k] = mean / k * sum of j f[j] g[k - j]. `mean` (n, m) numbers, `sizes` (n, LATTICE).
    Example: mean 1 of size 1: 0.37, 0.37, 0.18...
    """
    weighted = sizes * np.arange(LATTICE)
    shares = np.zeros((*mean.shape, LATTICE))
    shares[..., 0] = np.exp(-mean * (1.0 - sizes[:, :1]))
    for k in range(1, LATTICE):
        shares[..., k] = mean / k * np.einsum("nj,nmj->nm", weighted[:, 1 : k + 1], shares[..., k - 1 :: -1][..., :k])
    shares[..., -1] += np.maximum(1.0 - np.sum(shares, axis=-1), 0.0)
    return np.asarray(shares / np.sum(shares, axis=-1, keepdims=True))


@dataclass(frozen=True)
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
    distribution = compound_poisson((rate * step / (1.0 - busy))[:, None], sizes)[:, 0]
    for _ in range(CHAIN_SQUARES):
        chain = chain @ chain
    distribution = np.einsum("nk,nkj->nj", distribution, chain)
    return StepWork(distribution, seconds, left, arriving, width)


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


@dataclass(frozen=True)
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


MOST_BUSY = 0.85
"""Share of the greatest rate up to which a latency is predicted: near saturation an error of the capacity of a few
percent changes waits by orders of magnitude (a published simulator whose capacity was 22 % too high was wrong 2,000
times over, inference-sim PR 480)."""
SUREST_SHARE = 0.999
"""Share of the requests from which on a normal tail says nothing."""


def normal_quantile(share: float) -> float:
    """Return the standard deviations below which a share of a normal variable lies: 1.645 for 0.95."""
    return NormalDist().inv_cdf(min(max(share, 1.0 - SUREST_SHARE), SUREST_SHARE))


def busy_share(flight: Numbers, cycle: Numbers, slope: Numbers) -> Any:
    """Return the share of a request's time that grows with the requests in flight: n * slope / cycle, below 1.

    `slope`: seconds by which a request takes longer for one more in flight. Example: 20 in flight, 4 s each, 0.05 s
    per request more: 0.25.
    """
    share = np.asarray(flight, dtype=float) * slope / cycle
    return np.clip(share, 0.0, 1.0 - 1e-9)


def window_factor(past: Numbers) -> Any:
    """Return by what the variance falls when the number in flight is averaged over a time `past` times its memory.

    With x the time over that in which the number forgets its past, the mean keeps 2/x (1 - (1 - exp(-x))/x) of the
    variance. The number forgets in cycle / (1 - busy): over one cycle x = 1 - busy, and 0.74 is kept of an idle
    replica's, towards 1 of a busy one's.
    """
    x = np.maximum(np.asarray(past, dtype=float), 1e-6)
    return 2.0 / x * (1.0 + np.expm1(-x) / x)


@dataclass(frozen=True)
class TokenTimes:
    """What the time per token (TPOT) of the requests of a replica spreads with; columns (n,), of lengths (c,)."""

    share: Floats  # of the requests
    output: Floats  # tokens
    rate: Floats  # requests per second whose prompts pass
    others: Floats  # mean number in flight beside a request
    variance: Floats  # of that number
    token: Floats  # mean seconds per token, the prompts that pass meanwhile among them
    alone: Floats  # seconds per token of a request alone
    slope: Floats  # seconds per token that one more in flight adds, without its prompt
    prompt: Floats  # mean seconds of a prompt
    prompt_square: Floats  # mean of their squares

    @property
    def busy(self) -> Any:
        """Return the share of a request's time that grows with those in flight."""
        share = busy_share(self.others, self.token, self.slope) + self.rate * self.prompt
        return np.minimum(share, 1.0 - 1e-9)

    def spread(self) -> tuple[Any, Any]:
        """Return mean (n, 1) and variance (n, c) of the seconds per token beyond those of a request alone.

        A request meets more or fewer others than the mean: of the number in flight its average over its life
        (`window_factor`), and of the prompts that pass meanwhile a Poisson number. Each prompt lets more arrive: at
        once by its own seconds, within the mean stay of a place by all that it slows.
        """
        busy, output = self.busy, np.asarray(self.output, dtype=float)
        stay = float(np.sum(self.share * output * output) / np.sum(self.share * output))  # of a place, in tokens
        past = (1.0 - busy)[:, None] * output / stay
        others = (np.square(self.slope) * self.variance)[:, None] * window_factor(past)
        fast = np.minimum(self.rate * self.prompt, busy)
        grows = fast[:, None] + (busy - fast)[:, None] * np.minimum(output / stay, 1.0)
        passing = (self.prompt_square * self.rate * self.token)[:, None] / output / np.square(1.0 - grows)
        return np.maximum(self.token - self.alone, 1e-12)[:, None], others + passing


def token_seconds_quantile(share: float, times: TokenTimes) -> Any:
    """Return the time per token (n,) that a share of all requests stays below.

    Each length has a gamma variable of its own beyond the time alone; answers of one token have no time per token.
    """
    some = np.asarray(times.output) > 1
    if not bool(np.any(some)):
        return np.zeros_like(times.token)
    weight = np.asarray(times.share)[some] / np.sum(np.asarray(times.share)[some])
    mean, variance = times.spread()
    variance = variance[:, some]
    low, high = np.zeros_like(times.token), np.max(gamma_quantile(SUREST_SHARE, mean, variance), axis=1)
    for _ in range(QUANTILE_HALVINGS):
        middle = (low + high) / 2.0
        below = gamma_share(middle[:, None], mean, variance) @ weight
        low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
    return times.alone + high


def gamma_quantile(share: float, mean: Numbers, variance: Numbers) -> Any:
    """Return the quantile of a gamma variable of given mean and variance, by Wilson and Hilferty (1931).

    Example: mean 1, variance 1 (exponential), 95 %: 2.97 against -ln 0.05 = 3.00.
    """
    mean = np.asarray(mean, dtype=float)
    ninth = np.asarray(variance) / np.square(np.maximum(mean, 1e-300)) / 9.0
    return mean * np.maximum(1.0 - ninth + normal_quantile(share) * np.sqrt(ninth), 0.0) ** 3


def gamma_share(value: Numbers, mean: Numbers, variance: Numbers) -> Any:
    """Return the share of a gamma variable below a value: the inverse of `gamma_quantile`."""
    mean = np.asarray(mean, dtype=float)
    ninth = np.maximum(np.asarray(variance) / np.square(np.maximum(mean, 1e-300)) / 9.0, 1e-12)
    return normal_share((np.cbrt(np.asarray(value) / mean) - 1.0 + ninth) / np.sqrt(ninth))


def normal_share(deviations: Numbers) -> Any:
    """Return the share of a normal variable below so many standard deviations, to 1e-7: 0.95 for 1.645.

    Abramowitz and Stegun (1964), 26.2.17.
    """
    size = np.abs(np.asarray(deviations, dtype=float))
    t = 1.0 / (1.0 + 0.2316419 * size)
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    beyond = np.exp(-size * size / 2.0) / math.sqrt(2.0 * math.pi) * series
    return np.where(np.asarray(deviations) > 0, 1.0 - beyond, beyond)


# Requests that wait for a place: a replica answers a few at one time, and the next ones queue for it.
#
# The number present moves one up with each arrival (a Poisson stream) and one down with each answer. Of k present, the
# first `places` are in flight, and one takes `hold[k]` seconds, the more the more there are. With equal seconds for all
# k this is Erlang's delay system (1917). All times are seconds; columns (n,) are replicas.


WAIT_PARTS = 24
"""Parts of the requests that wait, each of which is taken to wait equally long."""
EMPTIEST, FULLEST = 1e-9, 1.0 - 1e-9
"""Shares of the greatest rate that are computed at least and at most: at 1 the queue has no end."""


@dataclass(frozen=True)
class Present:
    """Requests at a replica as a Poisson stream meets them; columns (n,)."""

    waits: Floats  # share of the requests that find all places taken
    use: Floats  # rate over the greatest rate
    flight: Floats  # mean number that has a place
    met: Floats  # mean number in flight while a request is, itself among them
    variance: Floats  # of that number


@dataclass(frozen=True)
class Places:
    """Replicas by what a request takes among so many: `log_hold` (n, m + 1), the sum of log(seconds / number)."""

    number: Floats  # (n,) places, at least one
    full: Floats  # (n,) seconds of a request while all places are taken
    log_hold: Floats  # minus infinity beyond the places

    @classmethod
    def of(cls, number: Floats, hold: Floats) -> Places:
        """Return replicas with so many places (n,), given the seconds (n, m) of a request among 1 to m."""
        count = np.arange(1, hold.shape[1] + 1)
        steps = np.where(count <= number[:, None], np.log(hold / count), 0.0)
        logs = np.concatenate([np.zeros((len(number), 1)), np.cumsum(steps, axis=1)], axis=1)
        full = hold[np.arange(len(number)), number.astype(int) - 1]
        return cls(number, full, np.where(np.arange(hold.shape[1] + 1) <= number[:, None], logs, -np.inf))

    @property
    def greatest(self) -> Floats:
        """Return the requests per second (n,) of a saturated replica."""
        return self.number / self.full

    def present(self, rate: Floats) -> Present:
        """Return the requests that are there at a rate (n,), from the balance of arrivals and answers.

        p[k] is in proportion to rate^k * product of hold[i] / i up to the places m, and p[m + j] = p[m] * use^j.
        A request that has a place counts each number in proportion to it.
        Example: 2 places, 1 s each, 1 request/s: p = 1/3, 1/3, 1/6..., so that 1/3 wait, and
        a request meets 5/3, itself among them.
        """
        use = np.clip(rate / self.greatest, EMPTIEST, FULLEST)
        count = np.arange(self.log_hold.shape[1], dtype=float)
        logs = self.log_hold + count * np.log(use * self.greatest)[:, None]
        share = np.exp(logs - np.max(logs, axis=1, keepdims=True))
        row, last = np.arange(len(use)), self.number.astype(int)
        share[row, last] /= 1.0 - use
        share /= np.sum(share, axis=1, keepdims=True)
        mean, square, cube = (share @ count**power for power in (1, 2, 3))
        met = square / mean
        return Present(share[row, last], use, mean, met, np.maximum(cube / mean - met * met, 0.0))


def residue_moments(number: Floats, seconds: Floats, share: Floats) -> tuple[Any, Any]:
    """Return mean and mean square (n,) of the time until the first of all places is free.

    Of a request of S seconds that an arrival finds, at least t are left with the chance E[max(S - t, 0)] / E[S]; of all
    places with its power. `seconds` (n, c) by length. Example: 3 places, 1 s each: 1/4 and 1/10.
    """
    order = np.argsort(seconds, axis=1)
    ends = np.concatenate([np.zeros((len(number), 1)), np.take_along_axis(seconds, order, axis=1)], axis=1)
    longer = 1.0 - np.cumsum(share[order], axis=1) + share[order]  # requests at least as long as each length
    slope, wide = longer / (seconds @ share)[:, None], np.diff(ends, axis=1)
    after = np.cumsum((slope * wide)[:, ::-1], axis=1)[:, ::-1]  # chance at the start of each piece, a straight line
    high, low, power = after, after - slope * wide, number[:, None] + 1.0
    low = np.maximum(low, 0.0)
    area = (high**power - low**power) / power / slope
    inside = high * (high**power - low**power) / power - (high ** (power + 1.0) - low ** (power + 1.0)) / (power + 1.0)
    return np.sum(area, axis=1), 2.0 * np.sum(ends[:, :-1] * area + inside / np.square(slope), axis=1)


def wait_moments(number: Floats, use: Floats, seconds: Floats, share: Floats) -> tuple[Any, Any]:
    """Return mean and variance (n,) of the wait for a place of a request that waits at all.

    Tijms, van Hoorn and Federgruen (1981): until the first place is free (`residue_moments`), and then as in a queue
    before one place that is `number` times as fast: as many more residues as a geometric variable of ratio `use`.
    For one place the mean is that of Pollaczek and Khinchine, and the variance exact.
    Example: one place, 1 s each, use 0.5: a residue has the mean 1/2 and the variance 1/12, one more comes in the
    mean: 1.0 and 2/12 + 2/4 = 0.667.
    """
    first, first_square = residue_moments(number, seconds, share)
    mean_seconds, mean_square, mean_cube = (seconds**power @ share for power in (1, 2, 3))
    mean, square = mean_square / (2.0 * mean_seconds * number), mean_cube / (3.0 * mean_seconds * np.square(number))
    more = use / (1.0 - use)
    variance = first_square - np.square(first) + more * (square - np.square(mean))
    return first + more * mean, variance + np.square(mean) * more / (1.0 - use)


def wait_points(present: Present, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the wait for a place as points (n, p) and their shares (n, p) of all requests.

    The first point has those that do not wait. The others stand for parts of a gamma variable of the moments of those
    that do, finer towards its end.
    """
    ends = 1.0 - (1.0 - np.arange(WAIT_PARTS + 1) / WAIT_PARTS) ** 3
    middle = (ends[1:] + ends[:-1]) / 2.0
    points = [np.zeros_like(mean), *(gamma_quantile(probability, mean, variance) for probability in middle.tolist())]
    shares = present.waits[:, None] * np.diff(ends)
    return np.stack(points, axis=1), np.concatenate([1.0 - present.waits[:, None], shares], axis=1)
