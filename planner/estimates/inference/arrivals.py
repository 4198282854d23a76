"""A replica whose requests arrive one by one: how its latency spreads, and how full it may be.

Requests come at random (a Poisson stream of `rate` per second), join the steps of those in flight, and leave after
`output` steps. How many are in flight follows from `planner.estimates.inference.places`. What follows linearises how
a request is slowed by these movements, and is checked by simulation. All times are seconds.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.inference.prompt_work import QUANTILE_HALVINGS
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.estimates.inputs import Numbers

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
