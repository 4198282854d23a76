"""A spot market, or a group of zones, fitted to its traces: availability, up-times, outages, with intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.errors import Fault, InputError
from planner.hazards import mean_hours
from planner.records import record
from planner.spot.market.hazard_fit import (
    MIN_ENDS,
    PRIOR_ENDS,
    count_ends,
    fit_ages,
    fit_stays,
    log_likelihood,
    shrink_old,
)
from planner.spot.market.states import Ages, SpotStates
from planner.spot.market.zones import MarketDurations, Trace, ZoneGroup, follow, hops, worth_of
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence


MIN_ENDS_TO_FIT = 5
"""Up-times, and outages, whose end must be observed: with fewer a mean is not known within a factor of two."""
SUFFICIENT_ENDS = 20
"""Ends with which a mean is known to about 30 %."""
MIN_ENDS_TO_TEST = 10
"""Fewest ends in a held-out half for a comparison."""
MIN_EXPOSURE_HOURS = 1e-9
"""In place of no hours at all in a band, whose rate is then not known."""
RESAMPLES = 400
CONFIDENCE = 0.8
"""Share of cases that an interval covers."""


@record(frozen=True)
class IntervalEstimate:
    """A figure with the interval that covers it in `CONFIDENCE` of cases."""

    value: float
    low: float
    high: float


@record(frozen=True)
class DurationFit:
    """Up-times, or outages, of a market."""

    ages: Ages
    mean_hours: IntervalEstimate
    cv: float | None  # standard deviation over mean of those that ended; None for fewer than two
    ends: int  # ends and hours that the fit is based on
    hours: float
    rates: tuple[IntervalEstimate, ...]  # per hour, one per band


@record(frozen=True)
class ObservedTrace:
    """What one trace shows of `instances` machines together; means are None where no end was observed."""

    name: str
    hours: float
    gap_seconds: float
    most_machines: int  # at one time
    availability: float
    interruptions: int
    mean_up_hours: float | None
    mean_outage_hours: float | None
    machine_hours: float
    machine_losses: int


@record(frozen=True)
class HeldOutTest:
    """Bands of ages compared with one constant rate, each fitted on one half of the time and scored on the other."""

    gain_per_end: float  # nats of log likelihood; above 0 the bands predict better
    ends: int


@record(frozen=True)
class MarketFit:
    """The interruption process of `instances` machines together, from all traces pooled."""

    instances: int
    availability: IntervalEstimate
    up: DurationFit
    down: DurationFit
    held_out: HeldOutTest | None  # None where a half is too short
    traces: tuple[ObservedTrace, ...]
    instant: float = 0.0  # chance of another zone at the end of an up-time

    @property
    def states(self) -> SpotStates:
        """Return the market as the planner uses it."""
        return SpotStates(self.up.ages, self.down.ages, self.instant)


def fit_market(traces: Sequence[Trace], instances: int = 1, prior_outage: Ages | None = None) -> MarketFit:
    """Fit the market of `instances` machines together; every run of every trace has the same weight.

    Outages that have lasted are drawn towards `prior_outage` where the traces are of one zone (`shrink_old`).
    The run in which a trace begins is left out of the fit (`Trace.runs`), and the one in which it ends is censored.
    That loses more of long outages than of short ones, so both means are moved until the availability is the recorded
    one.
    Raises `InputError` where the traces show too few interruptions or outages.
    """
    observed = tuple(summarise_trace(trace, instances) for trace in traces)
    runs = pool_runs(traces, instances)
    _check(observed, runs, instances)
    step = max(trace.gap_hours for trace in traces)
    ups, downs = (runs.up_hours, runs.up_censored), (runs.down_hours, runs.down_censored)
    own = fit_ages(*downs, step_hours=step)
    outage = own if prior_outage is None else shrink_old(own, *downs, prior_outage)
    up, down = fit_durations(*ups, step), fit_durations(*downs, step, outage)
    kept = keep_availability(up.ages, down.ages, recorded_availability(observed))
    up, down = (_moved(*pair) for pair in zip((up, down), kept, strict=True))
    return MarketFit(
        instances=instances,
        availability=availability_of(up.mean_hours, down.mean_hours),
        up=up,
        down=down,
        held_out=_held_out_test(traces, instances),
        traces=observed,
    )


def recorded_availability(traces: Sequence[ObservedTrace]) -> float:
    """Return the share of all recorded time at which the machines were there."""
    return sum(trace.availability * trace.hours for trace in traces) / sum(trace.hours for trace in traces)


def keep_availability(up: Ages, outage: Ages, share: float) -> tuple[Ages, Ages]:
    """Return up-times and outages with which the market is up for a share of the time, both means moved by one factor.

    6 h and 2 h are up for 75 %. For 60 %, odds of 1.5 instead of 3, the means become 6 / sqrt(2) and 2 sqrt(2) h.
    Unchanged where the share is 0 or 1, or a mean is infinite.
    """
    if not 0 < share < 1 or math.isinf(up.mean()):
        return up, outage
    factor = math.sqrt(share / (1 - share) * outage.mean() / up.mean())
    return with_mean(up, up.mean() * factor), with_mean(outage, outage.mean() / factor)


def with_mean(ages: Ages, hours: float) -> Ages:
    """Return durations of a mean: the rate of the last band gives it, of which fewest ends are known.

    Where no such rate is within a factor of four, all durations grow alike.
    """
    begin, alive = ages.begins[-1], float(ages.survival(ages.begins[-1]))
    rest = (hours - ages.mean_up_to(begin)) / alive if alive > 0 else 0.0
    if 0.25 < rest * ages.rates[-1] < 4:
        return Ages(ages.begins, (*ages.rates[:-1], 1 / rest))
    factor = hours / ages.mean()
    return Ages(tuple(band_begin * factor for band_begin in ages.begins), tuple(rate / factor for rate in ages.rates))


def pool_runs(traces: Sequence[Trace], instances: int) -> MarketDurations:
    """Return the runs of all traces whose beginning was observed."""
    each = [trace.runs(instances, with_first=False) for trace in traces]
    return MarketDurations(*(np.concatenate(column) for column in zip(*each, strict=True)))


def poisson_quantile(ends: float, probability: float) -> float:
    """Return a quantile of the mean number of ends where `ends` were observed.

    The quantile of Gamma(ends + 1/2) in the approximation of Wilson and Hilferty.
    """
    shape = ends + PRIOR_ENDS
    z = NormalDist().inv_cdf(probability)
    return shape * max(0.0, 1 - 1 / (9 * shape) + z / (3 * math.sqrt(shape))) ** 3


def summarise_trace(trace: Trace, instances: int) -> ObservedTrace:
    """Return what a trace shows of `instances` machines together."""
    up = trace.up(instances)
    losses = int((up[:-1] & ~up[1:]).sum())
    returns = int((~up[:-1] & up[1:]).sum())
    up_hours = float(up.sum()) * trace.gap_hours
    return ObservedTrace(
        name=trace.name,
        hours=trace.hours,
        gap_seconds=trace.gap_seconds,
        most_machines=int(trace.available.max(initial=0)),
        availability=up_hours / trace.hours,
        interruptions=losses,
        mean_up_hours=up_hours / losses if losses else None,
        mean_outage_hours=(trace.hours - up_hours) / returns if returns else None,
        machine_hours=float(trace.available.sum()) * trace.gap_hours,
        # One that is replaced within a step is not observed.
        machine_losses=int(-np.minimum(np.diff(trace.available), 0).sum()),
    )


def fit_durations(hours: Floats, censored: Flags, step_hours: float, ages: Ages | None = None) -> DurationFit:
    """Return the fit of durations with its intervals; with `ages` given, those intervals around them."""
    ages = ages or fit_ages(hours, censored, step_hours=step_hours)
    ended, spent = count_ends(ages, hours, censored)
    ends, exposed = ended.sum(axis=0), np.maximum(spent.sum(axis=0), MIN_EXPOSURE_HOURS)
    margin = (1 - CONFIDENCE) / 2
    rates = tuple(
        IntervalEstimate(rate, poisson_quantile(count, margin) / time, poisson_quantile(count, 1 - margin) / time)
        for rate, count, time in zip(ages.rates, ends, exposed, strict=True)
    )
    complete = np.asarray(hours)[~np.asarray(censored)]
    cv = float(complete.std(ddof=1) / complete.mean()) if complete.size > 1 else None
    return DurationFit(ages, _mean(ages, ended, spent), cv, int(ends.sum()), float(exposed.sum()), rates)


def _moved(fit: DurationFit, ages: Ages) -> DurationFit:
    """Return a fit with other rates and their mean; its intervals are widened where they do not hold these."""

    def around(value: float, one: IntervalEstimate) -> IntervalEstimate:
        return IntervalEstimate(value, min(one.low, value), max(one.high, value))

    rates = tuple(around(*pair) for pair in zip(ages.rates, fit.rates, strict=True))
    return replace(fit, ages=ages, mean_hours=around(ages.mean(), fit.mean_hours), rates=rates)


def _mean(ages: Ages, ended: Floats, spent: Floats) -> IntervalEstimate:
    """Return the mean of the fit with the wider of a bootstrap interval and an exact one.

    The bootstrap reflects the heavy tail but is too narrow for few runs; the exact interval of exponential durations
    is the opposite. Most resamples lack the rare long runs, so the bootstrap interval is mirrored on a log scale
    (basic bootstrap): the truth lies above the fit as far as resamples lie below it.
    """
    value = mean_hours(ages.begins, ages.rates)
    random, runs = np.random.default_rng(0), len(ended)
    means = []
    for _ in range(RESAMPLES):
        weights = random.multinomial(runs, np.full(runs, 1 / runs))
        rates = np.maximum(weights @ ended, PRIOR_ENDS) / np.maximum(weights @ spent, 1e-9)
        means.append(mean_hours(ages.begins, rates.tolist()))
    margin, ends = (1 - CONFIDENCE) / 2, float(ended.sum())
    low, high = np.quantile(means, [margin, 1 - margin])
    least, most = (value * ends / poisson_quantile(ends, share) for share in (1 - margin, margin))
    return IntervalEstimate(value, min(value * value / float(high), least), max(value * value / float(low), most))


def availability_of(up: IntervalEstimate, down: IntervalEstimate) -> IntervalEstimate:
    """Return up / (up + down); the errors of the two means are independent, so squares of logarithms add."""

    def share(odds: float) -> float:
        return odds / (1 + odds)

    odds = up.value / down.value
    worse = math.hypot(math.log(up.value / up.low), math.log(down.high / down.value))
    better = math.hypot(math.log(up.high / up.value), math.log(down.value / down.low))
    return IntervalEstimate(share(odds), share(odds * math.exp(-worse)), share(odds * math.exp(better)))


def _held_out_test(traces: Sequence[Trace], instances: int) -> HeldOutTest | None:
    """Score either half of the time by the fit of the other half; None where there is too little data."""
    middles = [trace.available.size // 2 for trace in traces]
    halves = (
        pool_runs([trace.part(0, middle) for trace, middle in zip(traces, middles, strict=True)], instances),
        pool_runs([trace.part(m, trace.available.size) for trace, m in zip(traces, middles, strict=True)], instances),
    )
    gain, ends, banded = 0.0, 0, False
    step = max(trace.gap_hours for trace in traces)
    for known, held_out in (halves, halves[::-1]):
        for fitted, scored in ((known[:2], held_out[:2]), (known[2:], held_out[2:])):
            if not fitted[0].sum() > 0 or not scored[0].sum() > 0:
                return None
            bands = fit_ages(*fitted, step_hours=step)
            banded |= len(bands.rates) > 1
            gain += log_likelihood(bands, *scored) - log_likelihood(fit_ages(*fitted, most_bands=1), *scored)
            ends += int((~scored[1]).sum())
    return HeldOutTest(gain / ends, ends) if banded and ends >= MIN_ENDS_TO_TEST else None


def _check(observed: Sequence[ObservedTrace], runs: MarketDurations, instances: int) -> None:
    """Raise `InputError` where there is too little data, with how much would be enough."""
    name = observed[0].name if len(observed) == 1 else f"{len(observed)} traces"
    hours, most = sum(trace.hours for trace in observed), max((trace.most_machines for trace in observed), default=0)
    machines = "1 machine was" if instances == 1 else f"{instances} machines were"
    if instances > most:
        what = f"{machines} never available together, at most {most}" if most else "no machine was ever available"
        raise InputError([Fault(name, 0, "", what, "fit fewer instances" if most else "give other traces")])
    ups, outages = int((~runs.up_censored).sum()), int((~runs.down_censored).sum())
    if min(ups, outages) >= MIN_ENDS_TO_FIT:
        return
    wanted = hours * SUFFICIENT_ENDS / max(min(ups, outages), PRIOR_ENDS)
    long = f"{wanted / DAY_HOURS:.0f} days" if wanted > 2 * DAY_HOURS else f"{wanted:.0f} h"
    fix = f"about {long} would show {SUFFICIENT_ENDS} of each"
    losses = sum(trace.machine_losses for trace in observed)
    if most > instances == 1 and losses:
        stay = sum(trace.machine_hours for trace in observed) / losses
        fix += f"; or give mean_up_hours: {stay:.3g}, the mean of single machines, and an availability"
    elif most > instances:
        fix += f"; or fit more instances, of which up to {most} were available"
    what = f"{machines} available {sum(trace.availability * trace.hours for trace in observed):.1f} of {hours:.1f} h"
    counts = f"{_count(ups, 'up-time')} and {_count(outages, 'outage')}"
    what += f", with {counts} observed from beginning to end: too few for a fit"
    raise InputError([Fault(name, 0, "", what, fix)])


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


# The market of a group of zones fitted to what was observed of them: stays, outages of all zones, chance to move on.
#
# Few outages of all zones are seen: in half of the recorded V100 traces eight zones were all down two to twenty times.
# What is seen of them is therefore weighed against the outages of the single zones, which are longer: a group that was
# lucky while it was observed is not expected to be lucky for ever.


POOL_WEIGHT = MIN_ENDS
"""Ends that the outages of the single zones count as in each band: as many as a band needs for a rate of its own."""


@record(frozen=True)
class ZoneFit:
    """A group of zones as one market."""

    group: ZoneGroup
    runs: MarketDurations  # of a run that stays in a zone until it is lost
    stays: tuple[Ages, ...]  # up-times of each zone: where to go
    states: SpotStates  # of a run that stays in a zone until it is lost
    losses: int  # ends of a stay that were observed
    hops: int  # those after which another zone was up at once
    mean_usd_per_hour: float  # of the zones by the time spent in them

    def as_market(self) -> MarketFit:
        """Return the fit with its intervals, as one of a single market.

        The intervals of outages rest on those of all zones together where there were any, else of single zones.
        """
        step, runs = self.group.gap_hours, self.runs
        up = fit_durations(runs.up_hours, runs.up_censored, step)
        downs = (runs.down_hours, runs.down_censored)
        if not runs.down_hours.sum() > 0:
            downs = _single_outages(self.group)
        down = fit_durations(*downs, step, self.states.down)
        share, mean = 1 - self.states.instant, down.mean_hours
        lost = IntervalEstimate(share * mean.value, share * mean.low, share * mean.high)
        return MarketFit(
            instances=1,
            availability=availability_of(up.mean_hours, lost),
            up=up,
            down=down,
            held_out=None,
            traces=tuple(summarise_trace(self.group.trace(zone), 1) for zone in range(len(self.group.names))),
            instant=self.states.instant,
        )


def fit_zones(group: ZoneGroup) -> ZoneFit:
    """Fit the market that a run meets which stays in a zone until it is lost, and takes the best one that is up.

    `InputError` for fewer than two zones, or where no stay or no loss was observed.
    """
    if len(group.names) < 2:
        raise InputError([Fault(", ".join(group.names), 0, "", "is one zone", "name two or more to use them together")])
    stays = fit_stays(group)
    zone = follow(worth_of(group, stays), [0], group.up.shape[1])[0]
    runs = stay_runs(zone, group.gap_hours)
    moves = int(hops(zone).sum())
    losses = moves + int(((zone[:-1] > 0) & (zone[1:] == 0)).sum())
    if not runs.up_hours.sum() > 0 or not losses:
        what = f"{losses} losses of machines were observed in {group.up.shape[1] * group.gap_hours:.0f} h: too few"
        raise InputError([Fault(" + ".join(group.names), 0, "", what, "give longer traces")])
    up = fit_ages(runs.up_hours, runs.up_censored, step_hours=group.gap_hours)
    instant = min(moves, losses - PRIOR_ENDS) / losses  # an outage of all zones is possible, seen or not
    spent = np.bincount(zone, minlength=len(group.names) + 1)[1:]
    usd = float(np.average(group.usd_per_hour, weights=spent))
    return ZoneFit(group, runs, stays, SpotStates(up, _fit_outages(group, runs), instant), losses, moves, usd)


def stay_runs(zone: Integers, gap_hours: float) -> MarketDurations:
    """Return the stays in a zone and the outages of all zones of one path (steps,); the first of either is left out."""
    begins = np.flatnonzero(np.diff(zone, prepend=-1))
    lengths = np.diff(begins, append=zone.size) * gap_hours
    kinds: Flags = zone[begins] > 0
    cut = np.zeros(begins.size, dtype=bool)
    cut[-1:] = True
    lengths, kinds, cut = lengths[1:], kinds[1:], cut[1:]
    return MarketDurations(lengths[kinds], cut[kinds], lengths[~kinds], cut[~kinds])


def _fit_outages(group: ZoneGroup, runs: MarketDurations) -> Ages:
    """Return the outages of all zones, those of single zones added to them with the weight of `POOL_WEIGHT` ends.

    Per band (ends + w) / (hours + w / rate of the single zones), the mean of a Gamma posterior.
    """
    hours, censored = _single_outages(group)
    step = group.gap_hours
    if not hours.sum() > 0:  # no zone was ever seen to go down and stay down
        return Ages((0.0,), (1 / step,))
    begins = fit_ages(hours, censored, most_bands=2, step_hours=step).begins
    if runs.down_hours.sum() > 0:
        own = fit_ages(runs.down_hours, runs.down_censored, step_hours=step).begins
        begins = own if len(own) > 1 else begins
    bands = Ages(begins, (1.0,) * len(begins))
    pooled, spent = (count_end.sum(axis=0) for count_end in count_ends(bands, hours, censored))
    rates = np.maximum(pooled, PRIOR_ENDS) / np.maximum(spent, step)
    ended, known = (count_end.sum(axis=0) for count_end in count_ends(bands, runs.down_hours, runs.down_censored))
    return Ages(begins, tuple(((ended + POOL_WEIGHT) / (known + POOL_WEIGHT / rates)).tolist()))


def _single_outages(group: ZoneGroup) -> tuple[Floats, Flags]:
    """Return the hours of the outages of every zone, and which of them are censored."""
    each = [group.trace(zone).runs(1, with_first=False) for zone in range(len(group.names))]
    return np.concatenate([runs.down_hours for runs in each]), np.concatenate([runs.down_censored for runs in each])
