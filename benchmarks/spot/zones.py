"""Synthetic zones: up-times and outages drawn from published quantiles, times a random factor."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from benchmarks.spot.judge import SLACKS, Costs, Windows, ages_before, deadline_of, job, judge, states_of
from benchmarks.spot.samplers import quantile_draw
from planner.spot.states import Draw, Trace, sample_paths
from planner.units import DAY_HOURS, HOUR

TABLE = Path(__file__).with_name("durations.csv")
SEED = 20261121
TICK_HOURS = 1 / 12
WORK_HOURS = 48.0
DAYS = 45.0
"""Length of a path, as of the longest published traces; half is for fitting, half for judging."""
FACTOR_SPREAD = 0.3
"""Standard deviation of ln(factor) on all up-times, and on all outages, of a zone."""
QUANTILE_COLUMNS = ("p05_s", "p10_s", "p25_s", "p50_s", "p75_s", "p90_s", "p95_s", "p99_s")


SETS = {"one V100": ("probes 2023-02-15", "held 2023-04-22"), "older traces": ("probes 2022-10-26",)}
"""Published zones; the older ones are of K80 and V100, one and eight, and their time step is in doubt: the text that
comes with them speaks of half as many days as their steps make."""


def published(kind: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Return the rows of up-times and of outages, a pair per published zone of a set."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["trace"] in SETS[kind]]
    ups, downs = ([row for row in rows if row["run"] == run] for run in ("up", "down"))
    return list(zip(ups, downs, strict=True))


def draw_of(row: dict[str, str], factor: float) -> Draw:
    """Return a sampler of the durations of a row of the table in hours, times a factor."""
    scale = factor / HOUR
    quantiles = [float(row[name]) * scale for name in QUANTILE_COLUMNS]
    return quantile_draw(float(row["mean_s"]) * scale, quantiles, float(row["max_s"]) * scale)


def zone(kind: str, number: int) -> Windows:
    """Return a zone by its number: a random published one, its up-times and its outages each times a factor."""
    rng = np.random.default_rng([SEED, number])
    pairs = published(kind)
    up, down = (draw_of(row, float(np.exp(rng.normal(0, FACTOR_SPREAD)))) for row in pairs[rng.integers(len(pairs))])
    ticks = round(DAYS * DAY_HOURS / TICK_HOURS)
    path = sample_paths(up, down, 1, ticks, TICK_HOURS, rng).up[0]
    trace = Trace(f"zone {number}", TICK_HOURS * HOUR, path.astype(np.int64))
    return cut(trace, WORK_HOURS, instances=1, most_windows=5)


def cut(trace: Trace, work_hours: float, instances: int, most_windows: int, forward: bool = True) -> Windows:
    """Return the states fitted to one half of a trace, and windows spread evenly over the other.

    `forward`: the fitted half comes first. ValueError where it shows only one of up and down, or where the other half
    is shorter than the longest deadline.
    """
    tick = trace.gap_hours
    steps = trace.available.size
    half = steps // 2
    length = round(deadline_of(job(work_hours), max(SLACKS), tick) / tick)
    first, last = (half, steps - length) if forward else (0, half - length)
    if last < first:
        raise ValueError(f"half of {trace.hours:.0f} h is shorter than a deadline of {length * tick:.1f} h")
    known = trace.part(0, half) if forward else trace.part(half, steps)
    states = states_of([known.runs(instances, with_first=False)], known.gap_hours)
    count = min(most_windows, (last - first) // max(length // 2, 1) + 1)
    starts = [round(start) for start in np.linspace(first, last, count)] if count > 1 else [first]
    up = trace.up(instances)
    windows = np.array([up[start : start + length] for start in starts])
    return Windows(trace.name, states, windows, ages_before(up, starts, tick), tick)


def judge_zones(kind: str, zones: int, processes: int) -> list[dict[float, Costs]]:
    """Return what policies cost in each of `zones` zones."""
    return judge([zone(kind, number) for number in range(zones)], job(WORK_HOURS), processes)
