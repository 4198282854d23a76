"""A spot market, or a group of zones, fitted to its traces: availability, up-times, outages, with intervals.

The hazard is constant within a band of ages. Its maximum-likelihood value is the number of runs that ended in the band
over the hours that runs spent in it; a run whose end was not observed adds hours and no end (piecewise exponential
survival with right censoring, as in Friedman 1982).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.errors import Fault, InputError
from planner.spot.states import Ages, MarketDurations, SpotStates, Trace, ZoneGroup, follow, hops, worth_of
from planner.units import DAY_HOURS, mean_hours

if TYPE_CHECKING:
    from collections.abc import Sequence


MIN_ENDS = 5
"""Observed ends that a band needs for a rate of its own."""
MAX_BANDS = 4
MAX_BAND_EDGES = 16
"""Ages that are tried as the edge between two bands."""
MIN_STEPS_PER_BAND = 4
"""Steps of a trace that a band spans at least: the age at which a run ends is known to one step only."""
PRIOR_ENDS = 0.5
"""Replaces zero ends, so that a band without an observed end does not last for ever (Jeffreys' prior)."""


def fit_ages(hours: Floats, censored: Flags, most_bands: int = MAX_BANDS, step_hours: float = 0.0) -> Ages:
    """Fit bands of ages and their rates by maximum likelihood; arrays of shape (runs,), `hours` of each run.

    A censored run lasted at least as long. One band below `2 * MIN_ENDS` ends, else two (young and old); further ones,
    up to `most_bands`, only where the Bayesian information criterion justifies their edges and rates.
    Edges lie between observed lengths, with at least `MIN_ENDS` ends in every band, which is several times as wide as
    `step_hours`, the step of the trace. ValueError without any hours.
    """
    lengths, ended = np.asarray(hours, dtype=float), ~np.asarray(censored, dtype=bool)
    if not lengths.sum() > 0:
        raise ValueError("no observed hours to fit")
    ends = int(ended.sum())
    edges = _candidate_edges(lengths[ended])
    least_hours = MIN_STEPS_PER_BAND * step_hours
    edges = edges[edges >= least_hours]
    # Ends by each edge, and hours spent up to it: the figures of a band are differences of these.
    limits = np.concatenate(([0.0], edges, [math.inf]))
    ended_by = (lengths[ended, None] <= limits).sum(axis=0)
    spent_by = np.minimum(lengths[:, None], limits).sum(axis=0)
    best, best_gain = np.array([0, limits.size - 1]), -math.inf
    for bands in range(2, most_bands + 1):
        inner = [
            borders
            for borders in combinations(range(1, limits.size - 1), bands - 1)
            if (np.diff(limits[list(borders)]) >= least_hours).all()
        ]
        better = _maximise_likelihood(inner, ended_by, spent_by)
        if better is None:
            break
        chosen, gain = better
        if bands > 2 and gain - best_gain <= math.log(ends):  # another band costs an edge and a rate
            break
        best, best_gain = chosen, gain
    rates = np.maximum(np.diff(ended_by[best]), PRIOR_ENDS) / np.diff(spent_by[best])
    return Ages(tuple(limits[best[:-1]].tolist()), tuple(rates.tolist()))


def shrink_old(ages: Ages, hours: Floats, censored: Flags, towards: Ages) -> Ages:
    """Return bands whose rates beyond the first are drawn towards others, which count as `MIN_ENDS` ends in each.

    Few durations reach an old band, and its rate decides what a run expects of an outage that has lasted. Per band
    (ends + w) / (hours + w / other rate), the mean of a Gamma posterior; 2 ends in 40 h and 0.4 an hour elsewhere:
    (2 + 5) / (40 + 12.5) = 0.133 instead of 0.05.
    """
    ended, spent = (count_end.sum(axis=0) for count_end in count_ends(ages, hours, censored))
    begins = np.array(towards.begins)
    other = np.array(towards.rates)[np.searchsorted(begins, np.array(ages.begins), side="right") - 1]
    shrunk = (ended + MIN_ENDS) / (spent + MIN_ENDS / other)
    return Ages(ages.begins, (ages.rates[0], *shrunk[1:].tolist()))


def count_ends(ages: Ages, hours: Floats, censored: Flags) -> tuple[Floats, Floats]:
    """Return per run and band 1 where the run ended in it, and the hours spent in it; shapes (runs, bands)."""
    begins = np.array(ages.begins)
    ends = np.append(begins[1:], math.inf)
    lengths = np.asarray(hours, dtype=float)[:, None]
    ended = (lengths > begins) & (lengths <= ends) & ~np.asarray(censored, dtype=bool)[:, None]
    return ended.astype(float), np.clip(lengths - begins, 0.0, ends - begins)


def log_likelihood(ages: Ages, hours: Floats, censored: Flags) -> float:
    """Return the log likelihood of runs in nats: sum over bands of ends * ln(rate) - rate * hours."""
    ended, spent = (count_end.sum(axis=0) for count_end in count_ends(ages, hours, censored))
    rates = np.array(ages.rates)
    return float((ended * np.log(rates) - rates * spent).sum())


def _maximise_likelihood(
    inner: Sequence[tuple[int, ...]], ended_by: Integers, spent_by: Floats
) -> tuple[Integers, float] | None:
    """Return limits of the likeliest bands and their log likelihood (up to a constant); None for too few ends.

    `inner`: the limits between bands, as places in `ended_by` and `spent_by`.
    """
    if not inner:
        return None
    limits = np.array([(0, *borders, ended_by.size - 1) for borders in inner])
    ended, spent = np.diff(ended_by[limits]), np.diff(spent_by[limits])
    limits, ended, spent = (column[ended.min(axis=1) >= MIN_ENDS] for column in (limits, ended, spent))
    if not limits.size:
        return None
    gains = (ended * np.log(ended / spent)).sum(axis=1)
    return limits[gains.argmax()], float(gains.max())


def _candidate_edges(ended: Floats) -> Floats:
    """Return ages between two observed lengths, evenly over the ends, rounded to three digits where possible."""
    lengths = np.unique(ended)
    if lengths.size < 2:
        return np.zeros(0)
    wanted = np.quantile(ended, np.arange(1, MAX_BAND_EDGES + 1) / (MAX_BAND_EDGES + 1), method="lower")
    below = np.unique(np.searchsorted(lengths, wanted))
    below = below[below < lengths.size - 1]
    edges = []
    for low, high in zip(lengths[below], lengths[below + 1], strict=True):
        middle = (low + high) / 2
        short = float(f"{middle:.3g}")
        edges.append(short if low <= short < high else middle)
    return np.array(edges)


# How long machines stay in each zone of a group: one shape for all zones, and a factor for each.
#
# What has lasted will last, at every age that was ever observed: the rate at which an up-time ends falls as
#
#     k / (b + age),  # noqa: ERA001
#
# so that it outlives t hours with chance (b / (b + t)) ^ k (Lomax 1954). The scale b and the mean k are those of the
# up-times of all zones; the factor of a zone is the mean of a Gamma posterior around k. With few bands of ages per
# zone, as a single market has them, all zones that are older than the last band look alike, and few ends decide between
# them.


ZONE_WEIGHT = MIN_ENDS
"""Ends that all zones together count as in the factor of one."""
SCALES = 40
"""Scales that are tried, evenly in their logarithm."""
MAX_SCALE_HOURS = 24.0


class UpTimes(NamedTuple):
    """Up-times of one zone; shapes (runs,)."""

    hours: Floats
    censored: Flags


class FallingRate(NamedTuple):
    """The rate `factor` / (`scale_hours` + age) per hour."""

    scale_hours: float
    factor: float


def fit_stays(group: ZoneGroup) -> tuple[Ages, ...]:
    """Return how long each zone stays up, in bands in which the age plus the scale doubles."""
    runs = [_up_times(group, zone) for zone in range(len(group.names))]
    shape = fit_falling_rate(runs, group.gap_hours)
    longest = max(float(run.hours.max(initial=0.0)) for run in runs)
    return tuple(doubling_bands(FallingRate(shape.scale_hours, zone_factor(run, shape)), longest) for run in runs)


def fit_falling_rate(runs: Sequence[UpTimes], gap_hours: float) -> FallingRate:
    """Return the rate of maximum likelihood for the up-times of all zones; without any, one of few losses.

    For a scale b the factor is ends / sum(ln(1 + hours / b)), and the log likelihood up to a constant
    ends ln(factor) - sum over ends of ln(b + hours).
    """
    hours = np.concatenate([run.hours for run in runs])
    ended = ~np.concatenate([run.censored for run in runs])
    if not hours.sum() > 0:
        return FallingRate(MAX_SCALE_HOURS, PRIOR_ENDS)
    scales = np.geomspace(gap_hours, max(MAX_SCALE_HOURS, gap_hours), SCALES)
    exposed = np.array([np.log1p(hours / scale).sum() for scale in scales])
    ends = max(float(ended.sum()), PRIOR_ENDS)
    factors = ends / exposed
    likelihood = ends * np.log(factors) - np.array([np.log(hours[ended] + scale).sum() for scale in scales])
    best = int(likelihood.argmax())
    return FallingRate(float(scales[best]), float(factors[best]))


def zone_factor(zone: UpTimes, shape: FallingRate) -> float:
    """Return the factor of one zone, drawn towards that of all with the weight of `ZONE_WEIGHT` ends.

    10 ends where 20 were expected by a factor of 1: (10 + 5) / (20 + 5) = 0.6.
    """
    exposed = float(np.log1p(zone.hours / shape.scale_hours).sum())
    ends = float((~zone.censored).sum())
    return (ends + ZONE_WEIGHT) / (exposed + ZONE_WEIGHT / shape.factor)


def doubling_bands(rate: FallingRate, longest_hours: float) -> Ages:
    """Return a falling rate as bands up to an age that nothing outlived: the mean of each, k ln 2 / (b 2^i).

    The bands begin at b (2^i - 1).
    """
    doublings = max(1, math.ceil(math.log2(longest_hours / rate.scale_hours + 1)))
    powers = 2.0 ** np.arange(doublings + 1)
    begins, rates = rate.scale_hours * (powers - 1), rate.factor * math.log(2) / (rate.scale_hours * powers)
    return Ages(tuple(begins.tolist()), tuple(rates.tolist()))


def _up_times(group: ZoneGroup, zone: int) -> UpTimes:
    """Return the up-times whose beginning was observed; where there are none, what was seen of the first one."""
    trace = group.trace(zone)
    runs = trace.runs(1, with_first=False)
    if not runs.up_hours.sum() > 0:
        runs = trace.runs(1)
    return UpTimes(runs.up_hours, runs.up_censored)


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


@dataclass(frozen=True)
class IntervalEstimate:
    """A figure with the interval that covers it in `CONFIDENCE` of cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DurationFit:
    """Up-times, or outages, of a market."""

    ages: Ages
    mean_hours: IntervalEstimate
    cv: float | None  # standard deviation over mean of those that ended; None for fewer than two
    ends: int  # ends and hours that the fit is based on
    hours: float
    rates: tuple[IntervalEstimate, ...]  # per hour, one per band


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class HeldOutTest:
    """Bands of ages compared with one constant rate, each fitted on one half of the time and scored on the other."""

    gain_per_end: float  # nats of log likelihood; above 0 the bands predict better
    ends: int


@dataclass(frozen=True)
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
    runs = [trace.runs(instances, with_first=False) for trace in traces]
    return MarketDurations(*(np.concatenate(column) for column in zip(*runs, strict=True)))


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

    def around(value: float, estimate: IntervalEstimate) -> IntervalEstimate:
        return IntervalEstimate(value, min(estimate.low, value), max(estimate.high, value))

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
        wrong = f"{machines} never available together, at most {most}" if most else "no machine was ever available"
        raise InputError([Fault(name, 0, "", wrong, "fit fewer instances" if most else "give other traces")])
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
    wrong = f"{machines} available {sum(trace.availability * trace.hours for trace in observed):.1f} of {hours:.1f} h"
    counts = f"{_count(ups, 'up-time')} and {_count(outages, 'outage')}"
    wrong += f", with {counts} observed from beginning to end: too few for a fit"
    raise InputError([Fault(name, 0, "", wrong, fix)])


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


# The market of a group of zones fitted to what was observed of them: stays, outages of all zones, chance to move on.
#
# Few outages of all zones are seen: in half of the recorded V100 traces eight zones were all down two to twenty times.
# What is seen of them is therefore weighed against the outages of the single zones, which are longer: a group that was
# lucky while it was observed is not expected to be lucky for ever.


POOL_WEIGHT = MIN_ENDS
"""Ends that the outages of the single zones count as in each band: as many as a band needs for a rate of its own."""


@dataclass(frozen=True)
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
        wrong = f"{losses} losses of machines were observed in {group.up.shape[1] * group.gap_hours:.0f} h: too few"
        raise InputError([Fault(" + ".join(group.names), 0, "", wrong, "give longer traces")])
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
    zone_runs = [group.trace(zone).runs(1, with_first=False) for zone in range(len(group.names))]
    return np.concatenate([runs.down_hours for runs in zone_runs]), np.concatenate(
        [runs.down_censored for runs in zone_runs]
    )
