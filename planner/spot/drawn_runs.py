"""Hours and dollars of many runs: those that take spot whenever there is some, and those that follow a policy.

A run that begins at a random moment of its market alternates between up-times and outages. Of an up-time it uses what a
start leaves, and keeps what its checkpoints hold. So the end of its work lies in the first up-time that is long enough
for the rest. Up-times and outages are drawn once for a market; the work may differ from run to run.
A run of fixed shares goes on demand at its hour, one more start away, with all that is done by then: leaving spot
machines of its own will loses it nothing.

    usd_i = fixed + slow_i * (rented outside the run + separate stages) + usd of the run_i

The speed of run i errs by `slow_i`, on all hours alike; its market is drawn. A run that is expected to stop early is
taken in full. Its guarantee grows with its work, up to the hours at the confidence of the job, where the deadline lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Floats, Integers
from planner.estimates.uncertainty import confidence_factor
from planner.spot.luck import (
    LOOKED_AT_EVERY_HOURS,
    RUNS,
    Luck,
    LuckRequest,
    age_in_band,
    draw_lucks,
    even_numbers,
    quantile,
    speed_ranks,
)
from planner.spot.policy_cache import CurvePoint, PolicyCache
from planner.spot.run import ROUNDING_HOURS, SpotRun, work_in
from planner.spot.states import SpotStates, durations
from planner.units import LUCKS, SPEEDS

if TYPE_CHECKING:
    from collections.abc import Sequence


FIRST_CYCLES, MOST_CYCLES = 16, 4096
"""Up-times that are drawn for each run: four times as many until all runs end, up to the most."""
EARLY_CYCLES = 4
"""Up-times that are looked at first, then four times as many, of the runs that have not ended in these."""


class SpotOnlyHours(NamedTuple):
    """Hours of each run (runs,), from the order of the first machines: to its end, and paid; inf if it never ends."""

    wall: Floats
    paid: Floats  # on spot
    on_demand: Floats  # paid there


def spot_only_hours(
    run: SpotRun, states: SpotStates, work_hours: Floats, switch_hours: float = math.inf
) -> SpotOnlyHours:
    """Return when runs of some work (RUNS,) end that have no other machines than spot up to `switch_hours`.

    These count from the order of the first machines. What is left when the run next looks is done on demand.
    """
    if math.isfinite(switch_hours):
        switch_hours = math.ceil(switch_hours / LOOKED_AT_EVERY_HOURS - 1e-6) * LOOKED_AT_EVERY_HOURS
    of_any_work, cycles = _of_any_work(run), FIRST_CYCLES
    while True:
        hours, left, seen = SpotOnlyHours(*np.full((3, RUNS), np.inf)), np.arange(RUNS), EARLY_CYCLES
        while len(left) and seen <= cycles:
            times = _up_times_of(left, of_any_work, states, cycles, seen)
            ends = _ends(run, times, work_hours[left], switch_hours)
            for all_runs, these in zip(hours, ends, strict=True):
                all_runs[left] = these
            left, seen = left[~np.isfinite(ends.wall)], 4 * seen
        if cycles >= MOST_CYCLES or not len(left):
            return hours
        cycles *= 4


class _UpTimes(NamedTuple):
    """Up-times of runs, (runs, cycles): what does not depend on how much work there is."""

    lasts: Floats  # hours
    begins: Floats  # hours from the order of the first machines
    paid: Floats  # hours before it
    whole: Floats  # hours of work that fit into it
    kept: Floats  # hours of work that were kept before it


def _of_any_work(run: SpotRun) -> SpotRun:
    """Return what a run does in its up-times, whatever they cost; an interval that changes nothing is 0."""
    is_free = run.last_checkpoint and run.stall_hours == 0
    return replace(
        run,
        work_hours=0.0,
        interval_hours=0.0 if is_free else run.interval_hours,
        spot_usd_per_hour=0.0,
        on_demand_usd_per_hour=0.0,
        standing_usd_per_hour=0.0,
        hop_usd=0.0,
    )


def _up_times_of(which: Integers, run: SpotRun, states: SpotStates, cycles: int, seen: int) -> _UpTimes:
    """Return the first of so many up-times of some runs, and what a run does in them."""
    if 2 * len(which) < RUNS:  # few: it is quicker to look at these alone
        return _worked(run, *(market_hour[which, :seen] for market_hour in _market_hours(states, cycles)))
    times = _up_times(run, states, cycles, seen)
    return times if len(which) == RUNS else _UpTimes(*(time[which] for time in times))


@lru_cache(maxsize=4)  # expected and late hours of one run ask for it, one after the other
def _up_times(run: SpotRun, states: SpotStates, cycles: int, seen: int) -> _UpTimes:
    """Return the first of so many up-times of all runs."""
    return _worked(run, *(market_hour[:, :seen] for market_hour in _market_hours(states, cycles)))


def _worked(run: SpotRun, ups: Floats, begins: Floats, paid: Floats) -> _UpTimes:
    """Return up-times (runs, cycles) with the work that a run does in them."""
    whole, kept = work_in(run, np.maximum(ups - run.restart_hours, 0.0))
    saved = np.maximum(kept - run.hop_hours, 0.0)
    return _UpTimes(ups, begins, paid, whole, np.cumsum(saved, axis=1) - saved)


@lru_cache(maxsize=8)
def _market_hours(states: SpotStates, cycles: int) -> tuple[Floats, Floats, Floats]:
    """Return how long up-times last, when they begin, and the hours that are paid before (RUNS, cycles)."""
    waits, ups = _market(states, cycles)
    ended = np.cumsum(ups, axis=1)
    return ups, np.cumsum(waits, axis=1) + ended - ups, ended - ups


def _ends(run: SpotRun, times: _UpTimes, work_hours: Floats, switch_hours: float) -> SpotOnlyHours:
    """Return the ends of runs of some work (runs,) within their up-times, or on demand after the switch."""
    left = work_hours[:, None] - times.kept
    ends = (left <= times.whole + ROUNDING_HOURS) & (times.lasts > run.restart_hours)
    first = np.argmax(ends, axis=1)
    at = np.arange(len(work_hours)), first
    rest = run.restart_hours + _hours_for(run, np.maximum(left[at], 0.0))
    done = ends.any(axis=1)
    wall, paid = (np.where(done, column[at] + rest, np.inf) for column in (times.begins, times.paid))
    on_demand = np.where(done, 0.0, np.inf)
    if math.isinf(switch_hours):
        return SpotOnlyHours(wall, paid, on_demand)
    # An up-time that lasts beyond the last one seen may still hold the switch; one that ended before it holds none.
    moves = (wall > switch_hours) & (times.begins[:, -1] + times.lasts[:, -1] > switch_hours)
    used, worked = _until(run, times, switch_hours)
    rest = run.restart_hours + np.maximum(work_hours - worked, 0.0)
    moved, kept = (switch_hours + rest, used, rest), (wall, paid, on_demand)
    return SpotOnlyHours(*(np.where(moves, with_move, without) for with_move, without in zip(moved, kept, strict=True)))


def _until(run: SpotRun, times: _UpTimes, switch_hours: float) -> tuple[Floats, Floats]:
    """Return the paid hours (runs,) of runs that leave spot at some hour, and the hours of work they have done."""
    begun = times.begins <= switch_hours
    at = np.arange(len(begun)), np.maximum(begun.sum(axis=1) - 1, 0)
    here = np.where(begun[:, 0], np.clip(switch_hours - times.begins[at], 0.0, times.lasts[at]), 0.0)
    is_lost = here >= times.lasts[at]
    worked, kept = work_in(run, np.maximum(here - run.restart_hours, 0.0))
    last = np.where(is_lost, np.maximum(kept - run.hop_hours, 0.0), worked)
    return times.paid[at] + here, times.kept[at] + last


def _hours_for(run: SpotRun, work: Floats) -> Floats:
    """Return the hours that work takes after a start if no machine is lost; the end needs no checkpoint."""
    if run.interval_hours == 0 or math.isinf(run.interval_hours):
        return work
    stalls = np.maximum(np.ceil(work / run.interval_hours - ROUNDING_HOURS) - 1, 0)
    return np.asarray(work + stalls * run.stall_hours)


@lru_cache(maxsize=16)
def _market(states: SpotStates, cycles: int) -> tuple[Floats, Floats]:
    """Return the hours before each up-time and the up-times, (RUNS, cycles), from a random moment of the market on.

    What a moment meets of a duration is drawn from its equilibrium: in proportion to the chance to last as long. A run
    sees a market that comes back when it next looks at it.
    """
    rng = np.random.default_rng([9, 40])
    starts_up = even_numbers(rng, 1)[0] < states.availability()
    if math.isinf(states.up.mean()):
        return np.zeros((RUNS, 1)), np.full((RUNS, 1), 1e9)
    numbers = (even_numbers(rng, cycles).T for _ in range(4))
    ups, downs = (durations(ages, -np.log1p(-next(numbers))) for ages in (states.up, states.down))
    downs = np.where(next(numbers) < states.instant, 0.0, downs)
    ups[:, 0] = np.where(starts_up, _rest(states.up.begins, states.up.rates, rng), ups[:, 0])
    downs[:, 0] = np.where(starts_up, 0.0, _rest(states.down.begins, states.down.rates, rng))
    unseen = np.where(downs > 0, np.minimum(LOOKED_AT_EVERY_HOURS * next(numbers), ups), 0.0)
    return downs + unseen, ups - unseen


def _rest(begins: tuple[float, ...], rates: tuple[float, ...], rng: np.random.Generator) -> Floats:
    """Return what is left of a duration at a random moment, (RUNS,): its chance to exceed h falls as survival does."""
    ends = (*begins[1:], math.inf)
    alive, weights = 1.0, []
    for begin, end, rate in zip(begins, ends, rates, strict=True):
        width = end - begin
        weights.append(alive * (width if rate == 0 else -math.expm1(-rate * width) / rate))
        alive *= math.exp(-rate * width)
    # The rest at a random moment has the density survival(h) / mean: a band by its share, and a place in it.
    which, share = even_numbers(rng, 2)
    band = np.searchsorted(np.cumsum(weights) / sum(weights), which, side="right")
    band = np.minimum(band, len(rates) - 1)
    leaves, widths = np.asarray(rates)[band], np.asarray(ends)[band] - np.asarray(begins)[band]
    return np.asarray(np.asarray(begins)[band] + age_in_band(leaves, widths, share))


# Waiting for spot machines: the price of an hour that makes a policy wait less.


WAITING_SHARE = 0.02
"""Largest price of an hour of waiting for spot machines, over that of the same machines on demand."""
WAITING_COST_SHARE = 0.01
"""Share of the dollars of the best policy that one with less waiting may cost more."""
HALVINGS = 6
"""Times that the range of prices is halved where the largest costs too many dollars; a higher one costs no fewer."""


def max_waiting_price(run: SpotRun) -> float:
    """Return the largest price of an hour of waiting that nobody has to ask for."""
    return WAITING_SHARE * run.on_demand_usd_per_hour


def least_wait(
    policies: PolicyCache,
    run: SpotRun,
    states: SpotStates,
    best: CurvePoint,
    most_usd: float = math.inf,
    low_share: float = 0.0,
) -> tuple[SpotRun, CurvePoint, float] | None:
    """Return the policy with the fewest expected hours among those of nearly the dollars of the best one.

    The candidates are the best policies where an hour of waiting has a price, which is on no bill.

    Parameters
    ----------
    best
        The best policy of `run` without that price.
    most_usd
        Dollars that the policy may cost at most.
    low_share
        Least share of the work on spot.

    Returns
    -------
    tuple or None
        The run with the price in its standing costs, its policy, and the price in dollars an hour; None where no
        policy ends earlier within the dollars.
    """
    if not (best.waiting_hours > 0 and math.isfinite(run.on_demand_usd_per_hour)):
        return None
    room = min(most_usd, best.usd * (1 + WAITING_COST_SHARE))

    largest = max_waiting_price(run)
    low, high, price, least = 0.0, largest, largest, None
    for _ in range(1 + HALVINGS):
        priced = replace(run, standing_usd_per_hour=run.standing_usd_per_hour + price)
        # The largest price mostly stays: all figures of its policy are wanted then.
        look_up = policies.best_points if price == largest else policies.figures
        (point,) = look_up([(priced, states, best.hours)])
        is_allowed = point.spot_hours > 0 and point.spot_share >= low_share
        if is_allowed and point.usd - price * point.finish_hours <= room:
            if point.finish_hours < (best if least is None else least[1]).finish_hours:
                least = (priced, point, price)
            low = price
        else:
            high = price
        if low == largest:
            break
        price = (low + high) / 2
    return least


MOST_KNOWN = 1024
"""Policies whose dollars are kept, 16 KB each."""
_DRAWN: dict[PolicyCosts, Floats] = {}
"""Dollars of the policies that were drawn last, the oldest first."""

Cases = tuple[tuple[float, ...], ...]
"""Equally likely figures: a row for each speed, from fast to slow, in it by size."""


@dataclass(frozen=True)
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
    drawn = {cost: _DRAWN.pop(cost) for cost in costs if cost in _DRAWN}
    drawn.update((policy, policy.usd_of(luck)) for policy, luck in zip(missing, lucks, strict=True))
    _DRAWN.update(drawn)
    while len(_DRAWN) > MOST_KNOWN:
        del _DRAWN[next(iter(_DRAWN))]
    return [drawn[cost] for cost in costs]


def late_dollars(costs: Sequence[PolicyCosts], confidence: float) -> list[float]:
    """Return the dollars that jobs on policies stay within with this probability, each."""
    return [quantile(usd, confidence) for usd in draw_dollars(costs)]


@dataclass(frozen=True)
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
        drawn = _drawn_hours(self.run, self.states, self.sigma, self.stretch, self.switch_hours)
        usd = self.fixed_usd + slow * self.outside_usd + drawn.on_demand * self.on_demand_usd_per_hour
        usd = usd + drawn.paid * self.usd_per_hour + drawn.wall * self.storage_usd_per_hour
        return slow * self.late_outside_hours + drawn.wall, usd


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
