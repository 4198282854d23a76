"""Dollars of a job that follows a policy, over speeds and markets: their quantile is what a budget has to pay.

    usd_i = fixed + slow_i * (rented outside the run + separate stages) + usd of the run_i

The speed of run i errs by `slow_i`, on all hours alike; its market is drawn. A run that is expected to stop early is
taken in full. Its guarantee grows with its work, up to the hours at the confidence of the job, where the deadline lies.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats
from planner.estimates.uncertainty import confidence_factor
from planner.hazards import LUCKS, SPEEDS
from planner.records import record
from planner.spot.market.states import SpotStates
from planner.spot.policy.luck import RUNS, Luck, LuckRequest, draw_lucks, quantile, speed_ranks
from planner.spot.policy.run import SpotRun
from planner.spot.policy.spot_only import SpotOnlyHours, spot_only_hours

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_KNOWN = 1024
"""Policies whose dollars are kept, 16 KB each."""
_DRAWN: dict[PolicyCosts, Floats] = {}
"""Dollars of the policies that were drawn last, the oldest first."""

Cases = tuple[tuple[float, ...], ...]
"""Equally likely figures: a row for each speed, from fast to slow, in it by size."""


@record(frozen=True)
class PolicyCosts:
    """What the dollars of a job depend on, expected unless the name says otherwise."""

    run: SpotRun
    states: SpotStates
    guaranteed_hours: float
    sigma: float  # spread of ln(time), for budgets
    stretch: float  # the run without early stopping over the expected one
    late_hours: float  # of the whole job, at its confidence
    outside_hours: float  # before and after the run, at the expected speed
    outside_usd: float  # of these hours, stages on separate machines included
    storage_usd_per_hour: float
    fixed_usd: float

    def request(self) -> LuckRequest:
        """Return the runs whose luck the dollars depend on."""
        slow = _slowness(self.sigma)
        longer = slow * self.stretch
        deadlines = np.minimum(longer * self.guaranteed_hours, self.late_hours - slow * self.outside_hours)
        return LuckRequest(self.run, self.states, longer * self.run.work_hours, deadlines)

    def usd_of(self, luck: Luck) -> Floats:
        """Return the dollars (runs,) of runs that had this luck."""
        return self.fixed_usd + _slowness(self.sigma) * self.outside_usd + luck.usd(self.run, self.storage_usd_per_hour)


def draw_dollars(costs: Sequence[PolicyCosts]) -> list[Floats]:
    """Return the dollars (runs,) of each, of runs by rising speed error, all on the same markets.

    What was drawn lately is known: a solve compares the same policies under several limits and then tells one of them.
    Many take two fifths of the time of one after the other.
    """
    missing = [cost for cost in dict.fromkeys(costs) if cost not in _DRAWN]
    lucks = draw_lucks([policy.request() for policy in missing])
    found = {cost: _DRAWN.pop(cost) for cost in costs if cost in _DRAWN}
    found.update((policy, policy.usd_of(luck)) for policy, luck in zip(missing, lucks, strict=True))
    _DRAWN.update(found)
    while len(_DRAWN) > MOST_KNOWN:
        del _DRAWN[next(iter(_DRAWN))]
    return [found[cost] for cost in costs]


def late_dollars(costs: Sequence[PolicyCosts], confidence: float) -> list[float]:
    """Return the dollars that jobs on policies stay within with this probability, each."""
    return [quantile(usd, confidence) for usd in draw_dollars(costs)]


@record(frozen=True)
class SpotOnlyCosts:
    """What hours and dollars of a job depend on that has spot machines and no others, or none up to some hour."""

    run: SpotRun
    states: SpotStates
    sigma: float
    stretch: float
    outside_hours: float  # before and after the run, at the expected speed, without the first start
    late_outside_hours: float  # the same where the run does not stop early
    outside_usd: float  # of these hours, the run in full
    usd_per_hour: float  # of all machines, as far as they are used
    storage_usd_per_hour: float
    fixed_usd: float
    on_demand_usd_per_hour: float = 0.0  # of all machines, as far as they are used
    switch_hours: float = math.inf  # from the order of the first machines to on demand; inf: never

    def expected_hours(self) -> float:
        """Return the mean hours at the expected speed; inf where a run may never end."""
        return self.outside_hours + _mean_wall_hours(self.run, self.states)

    def draw(self) -> tuple[Floats, Floats]:
        """Return the hours and the dollars (runs,) of runs by rising speed error, each on its market, in full."""
        slow = _slowness(self.sigma)
        found = _drawn_hours(self.run, self.states, self.sigma, self.stretch, self.switch_hours)
        usd = self.fixed_usd + slow * self.outside_usd + found.on_demand * self.on_demand_usd_per_hour
        usd = usd + found.paid * self.usd_per_hour + found.wall * self.storage_usd_per_hour
        return slow * self.late_outside_hours + found.wall, usd


@lru_cache(maxsize=64)  # candidates that differ only in where their other stages are done have the same run
def _drawn_hours(run: SpotRun, states: SpotStates, sigma: float, stretch: float, switch_hours: float) -> SpotOnlyHours:
    """Return the hours of runs by rising speed error, each on its market, in full."""
    return spot_only_hours(run, states, _slowness(sigma) * stretch * run.work_hours, switch_hours)


@lru_cache(maxsize=64)
def _mean_wall_hours(run: SpotRun, states: SpotStates) -> float:
    """Return the mean hours of a run at the expected speed; inf where it may never end."""
    return float(np.mean(spot_only_hours(run, states, np.full(RUNS, run.work_hours)).wall))


@lru_cache(maxsize=64)
def _slowness(sigma: float) -> Floats:
    """Return the hours of each run over the expected ones (runs,), by rising speed error."""
    return np.asarray(confidence_factor(sigma, speed_ranks()), dtype=float)


def told_of_runs(usd: Floats, confidence: float) -> tuple[float, Cases]:
    """Return the dollars that runs (runs,) stay within with this probability, and the cases that a plan states."""
    return quantile(usd, confidence), cases_of_runs(usd)


def cases_of_runs(figures: Floats) -> Cases:
    """Return figures (runs,) by rising speed error as means of equally many runs: by speed, then by size."""
    by_speed = np.sort(figures.reshape(SPEEDS, -1), axis=1)
    means = by_speed.reshape(SPEEDS, LUCKS, -1).mean(axis=2)
    return tuple(tuple(row) for row in means.tolist())
