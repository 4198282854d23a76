"""A replica whose requests arrive one by one: places, queues, the spread of its latency, how full it may be.

Requests come at random (a Poisson stream of `rate` per second), join the steps of those in flight, and leave after
`output` steps. How many are in flight follows from the balance of arrivals and answers, below. What follows linearises
how a request is slowed by these movements, and is checked by simulation. All times are seconds.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from planner.arrays import Floats
from planner.estimates.inputs import Numbers
from planner.estimates.latency import QUANTILE_HALVINGS
from planner.records import record

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


@record(frozen=True)
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


@record(frozen=True)
class Present:
    """Requests at a replica as a Poisson stream meets them; columns (n,)."""

    waits: Floats  # share of the requests that find all places taken
    use: Floats  # rate over the greatest rate
    flight: Floats  # mean number that has a place
    met: Floats  # mean number in flight while a request is, itself among them
    variance: Floats  # of that number


@record(frozen=True)
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
    one, two, three = (seconds**power @ share for power in (1, 2, 3))
    mean, square = two / (2.0 * one * number), three / (3.0 * one * np.square(number))
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
