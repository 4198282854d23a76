"""Recorded markets: zones with one machine, and fleets of which a node group is a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.spot.judge import SLACKS, Costs, Windows, ages_before, deadline_of, job, judge, states_of, summary
from benchmarks.spot.zones import SEED, WORK_HOURS, cut
from planner.arrays import Flags
from planner.spot.states import MarketDurations, Trace
from planner.spot.trace_formats import read_traces
from planner.units import HOUR

FLEET = 4
"""Machines at one time from which a trace counts as a fleet on which node groups are judged."""
GANG_SIZES = (4, 8)
GANG_WORK_HOURS = 4.0
DRAWS = 20
"""Node groups that are followed through one fleet: which of its machines are ours is not recorded."""
WINDOWS = 6

Case = tuple[str, Callable[..., Windows]]
"""A name, and what cuts the windows for a direction (`forward`); ValueError where it cannot."""


@dataclass(frozen=True)
class Recorded:
    """Costs by case, and the cases that could not be judged, with the reason."""

    tables: dict[str, list[dict[str, Any]]]
    left_out: tuple[str, ...]


def judge_recorded(paths: Sequence[str | Path]) -> Recorded:
    """Return the costs of zones with jobs of 48 h on one machine, and of fleets with jobs of 4 h on node groups.

    Each half of a trace is used once for fitting and once for judging, because there are few traces.
    """
    traces = [trace for path in paths for trace in read_traces(path)]
    left_out: list[str] = []
    tables = {}
    single = [trace for trace in traces if trace.available.max() < FLEET]
    cases: list[Case] = [(trace.name, partial(cut, trace, WORK_HOURS, 1, WINDOWS)) for trace in single]
    found = _judged(cases, WORK_HOURS, left_out)
    if found:
        tables["recorded zones, one machine, 48 h of work"] = summary(found)
    fleets = [trace for trace in traces if trace.available.max() >= FLEET]
    for size in GANG_SIZES:
        cases = [
            (f"{trace.name}, gang of {size}", partial(gang_windows, trace, size, number))
            for number, trace in enumerate(fleets)
        ]
        found = _judged(cases, GANG_WORK_HOURS, left_out)
        if found:
            tables[f"recorded fleets, gangs of {size}, 4 h of work"] = summary(found)
    return Recorded(tables, tuple(left_out))


def _judged(cases: list[Case], work_hours: float, left_out: list[str]) -> list[dict[float, Costs]]:
    """Return the costs per case and direction; a case that cannot be judged adds its reason to `left_out`."""
    found = []
    for name, windows in cases:
        try:
            both = [windows(forward=forward) for forward in (True, False)]
        except ValueError as error:
            left_out.append(f"{name}: {error}")
        else:
            found += [costs for one in both for costs in judge([one], job(work_hours))]
    return found


def gang_windows(fleet: Trace, size: int, number: int, forward: bool) -> Windows:
    """Return windows of node groups, an hour apart, in one half of a fleet, and the states fitted to the other."""
    paths = gang_paths(fleet, size, DRAWS, np.random.default_rng([SEED, number, size]))
    tick = fleet.gap_hours
    steps = paths.shape[1]
    half = steps // 2
    length = round(deadline_of(job(GANG_WORK_HOURS), max(SLACKS), tick) / tick)
    first, last = (half, steps - length) if forward else (0, half - length)
    if last < first:
        raise ValueError(f"half of {steps * tick:.0f} h is shorter than a deadline of {length * tick:.1f} h")
    known = paths[:, :half] if forward else paths[:, half:]
    states = states_of([_runs(path, tick) for path in known], tick)
    starts = list(range(first, last + 1, max(round(1 / tick), 1)))
    windows = np.array([path[start : start + length] for path in paths for start in starts])
    ages = np.concatenate([ages_before(path, starts, tick) for path in paths])
    return Windows(fleet.name, states, windows, ages, tick)


def gang_paths(fleet: Trace, size: int, draws: int, rng: Generator) -> Flags:
    """Return whether a node group within a fleet is complete; shape (draws, steps).

    Which machines were lost is not recorded: all of those available are equally likely. What a group has lost is
    replaced before others get new machines.
    """
    members = np.full(draws, min(size, int(fleet.available[0])))
    paths = np.empty((draws, fleet.available.size), bool)
    before = int(fleet.available[0])
    for step, count in enumerate(fleet.available.tolist()):
        if count < before:
            members = members - rng.hypergeometric(members, before - members, before - count)
        elif count > before:
            members = np.minimum(members + count - before, size)
        paths[:, step] = members == size
        before = count
    return paths


def _runs(path: Flags, tick_hours: float) -> MarketDurations:
    """Return the up-times and outages of one path."""
    return Trace("gang", tick_hours * HOUR, path.astype(np.int64)).runs(1, with_first=False)
