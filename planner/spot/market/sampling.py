"""Random paths of a spot market, drawn with a generator that the caller seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.random import Generator

from planner.arrays import Flags, Floats, Integers
from planner.records import record
from planner.spot.market.states import Ages, SpotStates

Draw = Callable[[Generator, int], Floats]
"""`draw(rng, n)`: n durations in hours, of any distribution."""

LENGTH_BIAS_POOL_SIZE: Final = 20_000
"""Durations from which the first one of each path is drawn, in proportion to its length."""


@record(frozen=True)
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
