"""The simple use of several zones: a policy for one market on the path of a run that stays until it is lost.

What the planned use is compared with. Each zone has a fit of its own, as a single market has, and the run hops to the
one that is up with the longest expected rest per dollar; each hop is an outage of a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.spot.judge import states_of
from planner.arrays import Floats, Integers
from planner.spot.market_fit import PRIOR_ENDS, fit_ages
from planner.spot.states import Ages, SpotStates, ZoneGroup, ages_on, follow, sticky_trace, worth_of


@dataclass(frozen=True)
class OnePath:
    """The market of the path, and its windows in the half that is used."""

    states: SpotStates
    up: Integers  # (windows, ticks): number of the zone, 0 for none
    age_hours: Floats  # (windows,): of the zone in which each begins


def one_path(known: ZoneGroup, used: ZoneGroup, starts: list[int], ticks: int) -> OnePath:
    """Return the path of a run in the used half, and what the known half tells of it."""
    stays = tuple(_stay(known, zone) for zone in range(len(known.names)))
    trace = sticky_trace(known, worth_of(known, stays, math.inf))
    states = states_of([trace.runs(1, with_first=False)], known.gap_hours)
    path = follow(worth_of(used, stays, math.inf), starts, ticks)
    ages = ages_on(path, used, starts)[:, 0]
    moved = path.copy()
    moved[:, 1:][(path[:, 1:] != path[:, :-1]) & (path[:, :-1] > 0)] = 0  # a hop is an outage of a step
    return OnePath(states, moved, ages)


def _stay(group: ZoneGroup, zone: int) -> Ages:
    """Return how long one zone stays up, by its own up-times alone; half a loss where none began."""
    runs = group.trace(zone).runs(1, with_first=False)
    if runs.up_hours.sum() > 0:
        return fit_ages(runs.up_hours, runs.up_censored, step_hours=group.gap_hours)
    hours = max(float(np.sum(group.up[zone])) * group.gap_hours, group.gap_hours)
    return Ages((0.0,), (PRIOR_ENDS / hours,))
