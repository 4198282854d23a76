"""Spot markets: states whose chance to end depends on their age, several zones as one market, random paths.

The best zone is the one with the longest expected rest of its up-time per dollar. Its age is known, and what has
lasted will last, so a zone that has been up for long is preferred to one that has just come up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.random import Generator

from planner.arrays import Flags, Floats, Integers
from planner.errors import Fault, raise_faults
from planner.units import DAY_HOURS, HOUR, mean_hours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike


@dataclass(frozen=True)  # a key that is looked up thousands of times
class Ages:
    """A duration that ends with `rates[i]` per hour once it is `begins[i]` hours old (first 0, rising).

    Falling rates give a heavy tail: what has lasted will last. With a last rate of 0 what reaches it never ends.
    ValueError where the bands do not begin at 0 and rise, or a rate is negative or not finite.
    """

    begins: tuple[float, ...]  # hours
    rates: tuple[float, ...]  # per hour

    def __post_init__(self) -> None:
        if not self.begins or len(self.begins) != len(self.rates):
            raise ValueError(f"each age band has one rate: {len(self.begins)} bands, {len(self.rates)} rates")
        if self.begins[0] != 0 or any(b <= a for a, b in zip(self.begins, self.begins[1:], strict=False)):
            raise ValueError(f"age bands begin at 0 and rise, not {self.begins}")
        if not all(math.isfinite(value) and value >= 0 for value in (*self.begins, *self.rates)):
            raise ValueError(f"ages and rates are finite and not negative, not {self.begins} and {self.rates}")

    def mean(self) -> float:
        """Return the mean duration in hours; inf where some never end."""
        return mean_hours(self.begins, self.rates)

    def second_moment(self) -> float:
        """Return the mean square of the duration in hours; inf where some never end."""
        total, alive = 0.0, 1.0
        for begin, end, rate in zip(self.begins, (*self.begins[1:], math.inf), self.rates, strict=True):
            if rate == 0:
                total += alive * (end**2 - begin**2)
                continue
            # Twice the integral of t * exp(-rate * (t - begin)).
            after = 0.0 if math.isinf(end) else math.exp(-rate * (end - begin)) * (end / rate + 1.0 / rate**2)
            total += 2.0 * alive * (begin / rate + 1.0 / rate**2 - after)
            alive *= math.exp(-rate * (end - begin))
        return total

    def survival(self, hours: ArrayLike) -> Floats:
        """Return the chance to last longer than `hours`; the shape of `hours`."""
        asked = np.asarray(hours, float)
        hazard = np.zeros(asked.shape)
        ends = (*self.begins[1:], math.inf)
        for begin, end, rate in zip(self.begins, ends, self.rates, strict=True):
            hazard = hazard + rate * (np.clip(asked, begin, end) - begin)
        return np.asarray(np.exp(-hazard))

    def mean_up_to(self, hours: float) -> float:
        """Return the mean of min(duration, `hours`)."""
        if hours <= 0:
            return 0.0
        begins = tuple(begin for begin in self.begins if begin < hours)
        total, alive = 0.0, 1.0
        for begin, end, rate in zip(begins, (*begins[1:], hours), self.rates, strict=False):
            width = end - begin
            total += alive * (width if rate == 0 else -math.expm1(-rate * width) / rate)
            alive *= math.exp(-rate * width)
        return total


@dataclass(frozen=True)  # a key that is looked up thousands of times
class SpotStates:
    """An alternating market: up-times and outages of the machines that one run needs, all of them together.

    In a group of zones an up-time is a stay in one zone. With chance `instant` another zone is up when it ends: the
    next up-time begins at once, and machines that ran are lost all the same.
    ValueError where an outage can last for ever.
    """

    up: Ages
    down: Ages
    instant: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.instant < 1:
            raise ValueError(f"the chance of another zone is at least 0 and below 1, not {self.instant:g}")
        if not math.isfinite(self.down.mean()):
            raise ValueError("an outage must end: the last rate of `down` must be positive")

    def availability(self) -> float:
        """Return the share of time that the market is up, 0 to 1."""
        up = self.up.mean()
        return 1.0 if math.isinf(up) else up / (up + self.outage_hours_per_loss())

    def outage_hours_per_loss(self) -> float:
        """Return the mean hours from the end of an up-time to the next one, where another zone may be up at once."""
        return (1 - self.instant) * self.down.mean()

    def shares(self) -> tuple[Floats, Floats]:
        """Return the share of time in each band of `up` and of `down`, shapes (bands,); all sum to 1."""
        if math.isinf(self.up.mean()):
            forever = np.zeros(len(self.up.rates))
            forever[-1] = 1.0
            return forever, np.zeros(len(self.down.rates))
        cycle = self.up.mean() + self.outage_hours_per_loss()
        down = (1 - self.instant) * _band_hours(self.down)
        return np.asarray(_band_hours(self.up) / cycle), np.asarray(down / cycle)


def _band_hours(ages: Ages) -> Floats:
    """Return the mean hours that a duration spends in each band; shape (bands,)."""
    ends = (*ages.begins[1:], math.inf)
    passed = [0.0 if begin == 0 else ages.mean_up_to(begin) for begin in ages.begins]
    until = [ages.mean() if math.isinf(end) else ages.mean_up_to(end) for end in ends]
    return np.array([end - begin for begin, end in zip(passed, until, strict=True)])


# States of a market from its mean up-time and mean outage: durations in the shape that recorded markets have.


MIN_OUTAGE_HOURS = 1 / 60
"""Shortest mean outage: a run that waits for machines does not ask more often."""


@dataclass(frozen=True)
class DurationShape:
    """How durations spread around their mean; values: models/calibration/spot.yaml.

    `young_share` of them end before the age `young_hours` x mean ^ `young_exponent` (in hours).
    """

    young_hours: float
    young_exponent: float
    young_share: float

    def __post_init__(self) -> None:
        if not (self.young_hours > 0 and 0 <= self.young_share < 1):
            raise ValueError(f"unknown shape of durations: {self}")

    @classmethod
    def of(cls, values: Mapping[str, float]) -> DurationShape:
        """Return the shape from the values of `models/calibration/spot.yaml` by key."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def ages_from_mean(mean_hours: float, shape: DurationShape) -> Ages:
    """Return durations of this mean in two age bands, young and old; ValueError unless the mean is positive.

    A young duration ends at rate x / t with x = -ln(1 - young share) and t the age at which the old band begins. It
    grows old with chance exp(-x), and then ends at the rate that gives the mean. The tail is never lighter than the
    exponential: t is at most x mean, where both rates are equal, as for means of minutes. An infinite mean never ends.
    """
    if not mean_hours > 0:
        raise ValueError(f"a mean duration must be positive, not {mean_hours:g} h")
    if math.isinf(mean_hours):
        return Ages((0.0,), (0.0,))
    hazard = -math.log1p(-shape.young_share)
    if hazard < 1e-12:
        return Ages((0.0,), (1 / mean_hours,))
    age = min(shape.young_hours * mean_hours**shape.young_exponent, hazard * mean_hours)
    young = hazard / age
    old = (1 - shape.young_share) / (mean_hours - shape.young_share / young)
    return Ages((0.0, age), (young, old))


def states_from_means(mean_up_hours: float, mean_outage_hours: float, shape: DurationShape) -> SpotStates:
    """Return the market with these means, up-times and outages in the same shape.

    `mean_up_hours` may be infinite: machines are never taken. An outage below a minute counts as one minute.
    """
    return SpotStates(
        ages_from_mean(mean_up_hours, shape), ages_from_mean(max(mean_outage_hours, MIN_OUTAGE_HOURS), shape)
    )


Draw = Callable[[Generator, int], Floats]
"""`draw(rng, n)`: n durations in hours, of any distribution."""

LENGTH_BIAS_POOL_SIZE: Final = 20_000
"""Durations from which the first one of each path is drawn, in proportion to its length."""


@dataclass(frozen=True)
class Paths:
    """Paths of a stationary market: each starts at a random moment of a process without beginning."""

    up: Flags | Integers  # (runs, ticks); of several zones the number of the zone, 0 for none
    age_hours: Floats  # (runs,): age of the state in which each path starts; or (runs, ticks), see `replay`
    zones_up: Flags | None = None  # (zones, runs, ticks), where several zones were recorded
    names: tuple[str, ...] = ()  # of these zones


def sample_paths(up: Draw, down: Draw, runs: int, ticks: int, tick_hours: float, rng: Generator) -> Paths:
    """Draw paths of alternating up-times and outages, all independent.

    Durations last whole ticks, at least one, and are rounded up or down at random so that their mean is kept. Looking
    up the state at each tick instead would lose the interruptions between two ticks.
    """
    pool_up, pool_down = up(rng, LENGTH_BIAS_POOL_SIZE), down(rng, LENGTH_BIAS_POOL_SIZE)
    availability = pool_up.mean() / (pool_up.mean() + pool_down.mean())
    starts_up = rng.random(runs) < availability
    first = np.where(starts_up, _length_biased(pool_up, runs, rng), _length_biased(pool_down, runs, rng))
    age = rng.random(runs) * first
    toggles = np.zeros((runs, ticks), bool)
    at = round_to_ticks(first - age, tick_hours, rng)
    is_up = starts_up.copy()
    while (inside := at < ticks).any():
        rows = np.flatnonzero(inside)
        toggles[rows, at[rows]] = True
        is_up = ~is_up
        durations = np.where(is_up, up(rng, runs), down(rng, runs))
        at = at + round_to_ticks(durations, tick_hours, rng)
    toggled = np.logical_xor.accumulate(toggles, axis=1)
    return Paths(toggled ^ starts_up[:, None], age)


def _length_biased(durations: Floats, n: int, rng: Generator) -> Floats:
    """Draw durations as a random moment meets them: in proportion to their length."""
    return rng.choice(durations, size=n, p=durations / durations.sum())


def round_to_ticks(hours: Floats, tick_hours: float, rng: Generator) -> Integers:
    """Return whole ticks, at least one, with the same mean for durations longer than a tick."""
    return np.maximum(np.floor(hours / tick_hours + rng.random(hours.size)), 1).astype(np.int64)


def sample_states(states: SpotStates, runs: int, ticks: int, tick_hours: float, rng: Generator) -> Paths:
    """Draw paths of a market of known states; where it has several zones, stays in turn in zone 1 and in zone 2."""
    if states.instant:
        return _sample_zones(states, runs, ticks, tick_hours, rng)
    return sample_paths(ages_draw(states.up), ages_draw(states.down), runs, ticks, tick_hours, rng)


def _sample_zones(states: SpotStates, runs: int, ticks: int, tick_hours: float, rng: Generator) -> Paths:
    """Draw paths on which another stay follows at once with chance `states.instant`; as `sample_paths`."""
    up, down = ages_draw(states.up), ages_draw(states.down)
    is_up = rng.random(runs) < states.availability()
    pools = up(rng, LENGTH_BIAS_POOL_SIZE), down(rng, LENGTH_BIAS_POOL_SIZE)
    first = np.where(is_up, *(_length_biased(pool, runs, rng) for pool in pools))
    age = rng.random(runs) * first
    label = np.ones(runs, dtype=np.int64)
    marks = np.full((runs, ticks), -1, dtype=np.int64)
    marks[:, 0] = is_up
    at = round_to_ticks(first - age, tick_hours, rng)
    while (inside := at < ticks).any():
        rows = np.flatnonzero(inside)
        is_up = ~is_up | (rng.random(runs) < states.instant)
        label = np.where(is_up, 3 - label, label)
        marks[rows, at[rows]] = np.where(is_up, label, 0)[rows]
        at = at + round_to_ticks(np.where(is_up, up(rng, runs), down(rng, runs)), tick_hours, rng)
    known = np.maximum.accumulate(np.where(marks >= 0, np.arange(ticks), 0), axis=1)
    return Paths(np.take_along_axis(marks, known, axis=1), age)


def ages_draw(ages: Ages) -> Draw:
    """Return a sampler of durations with these hazards."""

    def draw(rng: Generator, n: int) -> Floats:
        return durations(ages, rng.exponential(size=n))

    return draw


def durations(ages: Ages, hazard: Floats) -> Floats:
    """Return how long a duration (any shape) lasts that ends once it has met so much hazard, exponential of mean 1."""
    begins, rates = np.asarray(ages.begins), np.asarray(ages.rates)
    reached = np.concatenate([[0.0], np.cumsum(np.diff(begins) * rates[:-1])])  # cumulative hazard where bands begin
    band = np.searchsorted(reached, hazard, side="right") - 1
    return np.asarray(begins[band] + (hazard - reached[band]) / rates[band])


# Recorded spot markets: counts of available machines at even steps, and the up-times and outages between them.


class MarketDurations(NamedTuple):
    """Up-times and outages in hours, in order; censored where one end lies outside of the trace.

    The first run of a trace began before it and the last one continues after it: both lasted at least as long.
    """

    up_hours: Floats
    up_censored: Flags
    down_hours: Floats
    down_censored: Flags


@dataclass(frozen=True, eq=False)
class Trace:
    """Counts of available machines, one per step."""

    name: str
    gap_seconds: float
    available: Integers  # (steps,)

    @property
    def gap_hours(self) -> float:
        """Return the hours from one count to the next; a count holds until the next one."""
        return self.gap_seconds / HOUR

    @property
    def hours(self) -> float:
        """Return how long the market was observed."""
        return self.available.size * self.gap_hours

    def up(self, k: int) -> Flags:
        """Return whether at least `k` machines were available; shape (steps,)."""
        flags: Flags = self.available >= k
        return flags

    def runs(self, k: int, with_first: bool = True) -> MarketDurations:
        """Return the up-times and outages of at least `k` machines.

        `with_first=False` leaves out the run in which the trace begins: its age is not known, and long runs are
        likelier to be met, so the chance to end at a given age is learned from the others.
        """
        up = self.up(k)
        begins = np.flatnonzero(np.diff(up, prepend=~up[:1])) if up.size else np.zeros(0, dtype=np.int64)
        lengths = np.diff(begins, append=up.size) * self.gap_hours
        kinds = up[begins]
        cut = np.zeros(begins.size, dtype=bool)
        cut[:1] = cut[-1:] = True
        if not with_first:
            lengths, kinds, cut = lengths[1:], kinds[1:], cut[1:]
        return MarketDurations(lengths[kinds], cut[kinds], lengths[~kinds], cut[~kinds])

    def part(self, begin: int, end: int) -> Trace:
        """Return the steps from `begin` up to `end`, as a trace of the same name."""
        return Trace(self.name, self.gap_seconds, self.available[begin:end])


MAX_STEP_DIFFERENCE = 1e-6
"""Relative difference between the steps of traces that count as equal."""


@dataclass(frozen=True, eq=False)
class ZoneGroup:
    """Zones that were observed at the same times, any of which a run may use."""

    names: tuple[str, ...]
    gap_hours: float
    up: Flags  # (zones, steps)
    usd_per_hour: Floats  # (zones,) of one machine; only ratios matter

    def part(self, begin: int, end: int) -> ZoneGroup:
        """Return the steps from `begin` up to `end`."""
        return ZoneGroup(self.names, self.gap_hours, self.up[:, begin:end], self.usd_per_hour)

    def some(self, zones: Sequence[int]) -> ZoneGroup:
        """Return the group of some of the zones, by their places."""
        which = list(zones)
        return ZoneGroup(tuple(self.names[i] for i in which), self.gap_hours, self.up[which], self.usd_per_hour[which])

    def trace(self, zone: int) -> Trace:
        """Return one zone as a trace of one machine."""
        return Trace(self.names[zone], self.gap_hours * HOUR, self.up[zone].astype(np.int64))


def group_zones(traces: Sequence[Trace], instances: int = 1, usd_per_hour: Sequence[float] | None = None) -> ZoneGroup:
    """Return traces of the same times as one group; `InputError` where their steps or lengths differ.

    Traces carry no date: the first counts are taken to be of the same moment.
    """
    first = traces[0]
    faults = []
    for trace in traces[1:]:
        if abs(trace.gap_seconds - first.gap_seconds) > MAX_STEP_DIFFERENCE * first.gap_seconds:
            wrong = f"a step of {trace.gap_seconds:g} s, but {first.name} has one of {first.gap_seconds:g} s"
            faults.append(Fault(trace.name, 0, "", wrong, "give zones that were observed at the same times"))
        elif trace.available.size != first.available.size:
            wrong = f"{trace.available.size:,} steps, but {first.name} has {first.available.size:,}"
            fix = "cut both to the time that they share: zones fail together, so their times must agree"
            faults.append(Fault(trace.name, 0, "", wrong, fix))
    raise_faults(faults)
    usd = np.ones(len(traces)) if usd_per_hour is None else np.asarray(usd_per_hour, dtype=float)
    return ZoneGroup(
        tuple(trace.name for trace in traces), first.gap_hours, np.array([trace.up(instances) for trace in traces]), usd
    )


def expected_rest(ages: Ages, hours: Floats, within_hours: float = DAY_HOURS) -> Floats:
    """Return the mean of min(rest, `within_hours`) of durations that are `hours` old; any shape.

    Over the bands, the mean hours in each times the chance to reach it. What a zone may last beyond a day decides
    nothing: few up-times show it, and a run seldom needs it.
    """
    asked = np.asarray(hours, dtype=float)
    rest, alive = np.zeros(asked.shape), np.ones(asked.shape)
    for begin, end, rate in zip(ages.begins, (*ages.begins[1:], np.inf), ages.rates, strict=True):
        width = np.clip(np.minimum(end, asked + within_hours) - np.maximum(begin, asked), 0.0, None)
        if rate == 0:
            rest += np.where(width > 0, alive * width, 0.0)
        else:
            ended = -np.expm1(-rate * width)
            rest += alive * ended / rate
            alive *= 1 - ended
    return rest


def worth_of(group: ZoneGroup, stays: Sequence[Ages], within_hours: float = DAY_HOURS) -> Floats:
    """Return the expected rest of the up-time per dollar of each zone at each step, -inf where down; (zones, steps).

    `within_hours`: what is counted of the rest at most.
    A zone that is up at the first step is as old as that step.
    """
    worth = np.full(group.up.shape, -np.inf)
    hours = hours_unchanged(group.up, group.gap_hours)
    for zone, (up, ages) in enumerate(zip(group.up, stays, strict=True)):
        worth[zone, up] = expected_rest(ages, hours[zone, up], within_hours) / group.usd_per_hour[zone]
    return worth


def hours_unchanged(up: Flags, gap_hours: float) -> Floats:
    """Return for how many hours each zone has been up or down at each step, since the first one; shape (.., steps)."""
    steps = np.arange(up.shape[-1])
    changed = np.diff(up, prepend=up[..., :1], axis=-1)
    return np.asarray((steps - np.maximum.accumulate(np.where(changed, steps, 0), axis=-1)) * gap_hours, dtype=float)


def ages_on(zone: Integers, group: ZoneGroup, starts: Sequence[int]) -> Floats:
    """Return for how long the zone of each run has been up at each tick, or all zones down; shape of `zone`.

    `zone` (runs, ticks) are those that `follow` returns for the same `starts`. A zone may have been up for long before
    a run moves to it.
    """
    known = np.concatenate([np.asarray(group.up.any(axis=0))[None], group.up])
    hours = hours_unchanged(known, group.gap_hours)
    steps = np.asarray(starts, dtype=np.int64)[:, None] + np.arange(zone.shape[1])
    return np.asarray(hours[zone, steps])


def follow(worth: Floats, starts: Sequence[int], ticks: int) -> Integers:
    """Return the zones of runs that begin at some steps of the recorded time and last `ticks`; (runs, ticks).

    Each takes the zone of the most worth (`worth_of`) and stays until it is lost. Numbers begin at 1; 0 is no zone.
    """
    best = worth.argmax(axis=0) + 1
    is_up = np.concatenate([np.zeros((1, worth.shape[1]), dtype=bool), ~np.isneginf(worth)])
    best[~is_up.any(axis=0)] = 0
    begin = np.asarray(starts, dtype=np.int64)
    zone = np.zeros((begin.size, ticks), dtype=np.int64)
    here = np.zeros(begin.size, dtype=np.int64)
    for tick in range(ticks):
        at = begin + tick
        here = np.where(is_up[here, at], here, best[at])
        zone[:, tick] = here
    return zone


def hops(zone: Integers) -> Flags:
    """Return where a zone was lost and another one is up at once; shape of `zone`, (.., ticks)."""
    flags: Flags = np.zeros(zone.shape, dtype=bool)
    flags[..., 1:] = (zone[..., 1:] != zone[..., :-1]) & (zone[..., 1:] > 0) & (zone[..., :-1] > 0)
    return flags


def sticky_trace(group: ZoneGroup, worth: Floats) -> Trace:
    """Return the market of a run that stays in a zone until it is lost as a trace: each hop is an outage of a step."""
    zone = follow(worth, [0], group.up.shape[1])[0]
    return Trace(" + ".join(group.names), group.gap_hours * HOUR, ((zone > 0) & ~hops(zone)).astype(np.int64))


# The market of several zones of which nothing is known but that of one: how often any of them has machines.
#
# Zones fail together, so m of them are worth fewer independent ones, m^0.7: any is up for 1 - (1 - a)^(m^0.7) of the
# time where one is up for a. Of nine recorded V100 zones (a = 0.64) groups of two, four and eight were up 0.82, 0.95
# and 0.99 of the time; the formula gives 0.81, 0.93 and 0.99.


MOST_INSTANT = 0.999
"""Largest chance of another zone: an outage of all zones is possible."""


def any_zone_availability(share: float, zones: int, exponent: float) -> float:
    """Return the share of time at which any of `zones` is up, each for `share` of it: 1 - (1 - a)^(m^e).

    0.6 and four zones at e = 0.7: 1 - 0.4^2.64 = 0.911.
    """
    return float(1.0 - (1.0 - share) ** (zones**exponent))


def states_of_zones(alone: SpotStates, zones: int, exponent: float) -> SpotStates:
    """Return the market of a run that moves among `zones`, each of which is like `alone`.

    With k = m^e the others are as k - 1 zones: at a loss another is up with chance p = 1 - (1 - a)^(k - 1). An outage
    of all lasts D a / A, so that the market is up for A, the share of `any_zone_availability`:
    A = U / (U + (1 - p) D a / A).
    Up 3 h, down 2 h, four zones: p = 0.777, outages of 2 * 0.6 / 0.911 = 1.317 h, and 3 / (3 + 0.223 * 1.317) = 0.911.
    """
    share = alone.availability()
    if zones == 1 or not math.isfinite(alone.up.mean()):
        return alone
    shorter = share / any_zone_availability(share, zones, exponent)
    another = min(float(1.0 - (1.0 - share) ** (zones**exponent - 1.0)), MOST_INSTANT)
    down = Ages(
        tuple(begin * shorter for begin in alone.down.begins), tuple(rate / shorter for rate in alone.down.rates)
    )
    return SpotStates(alone.up, down, another)
