"""Requests that wait for a place: a replica answers a few at one time, and the next ones queue for it.

The number present moves one up with each arrival (a Poisson stream) and one down with each answer. Of k present, the
first `places` are in flight, and one takes `hold[k]` seconds, the more the more there are. With equal seconds for all k
this is Erlang's delay system (1917). All times are seconds; columns (n,) are replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.inference.arrivals import gamma_quantile
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats

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
    points = [np.zeros_like(mean), *(gamma_quantile(one, mean, variance) for one in middle.tolist())]
    shares = present.waits[:, None] * np.diff(ends)
    return np.stack(points, axis=1), np.concatenate([1.0 - present.waits[:, None], shares], axis=1)
