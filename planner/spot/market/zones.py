"""Recorded counts of machines, and one market out of several zones, of which something or nothing is known.

The best zone is the one with the longest expected rest of its up-time per dollar. Its age is known, and what has
lasted will last, so a zone that has been up for long is preferred to one that has just come up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.errors import Fault, raise_faults
from planner.records import record
from planner.spot.market.states import Ages, SpotStates
from planner.units import DAY_HOURS, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence


# Recorded spot markets: counts of available machines at even steps, and the up-times and outages between them.


class MarketDurations(NamedTuple):
    """Up-times and outages in hours, in order; censored where one end lies outside of the trace.

    The first run of a trace began before it and the last one continues after it: both lasted at least as long.
    """

    up_hours: Floats
    up_censored: Flags
    down_hours: Floats
    down_censored: Flags


@record(frozen=True, eq=False)
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


@record(frozen=True, eq=False)
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
            what = f"a step of {trace.gap_seconds:g} s, but {first.name} has one of {first.gap_seconds:g} s"
            faults.append(Fault(trace.name, 0, "", what, "give zones that were observed at the same times"))
        elif trace.available.size != first.available.size:
            what = f"{trace.available.size:,} steps, but {first.name} has {first.available.size:,}"
            fix = "cut both to the time that they share: zones fail together, so their times must agree"
            faults.append(Fault(trace.name, 0, "", what, fix))
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
