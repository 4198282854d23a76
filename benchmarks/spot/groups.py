"""Groups of zones: one zone, the best-known one, the stay of one path, the planned use of all, and the optimum."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.spot.judge import SLACKS, ages_before, deadline_of, states_of
from benchmarks.spot.one_path import one_path
from benchmarks.spot.zones import DAYS, SEED, TICK_HOURS, draw_of, published
from planner.arrays import Flags, Floats, Integers
from planner.spot.market_fit import fit_zones
from planner.spot.replayed_runs import optimum_of_zones_usd, replay
from planner.spot.run import SpotRun
from planner.spot.states import SpotStates, Trace, ZoneGroup, ages_on, follow, sample_paths, worth_of
from planner.spot.switching_policy import best_policy
from planner.units import DAY_HOURS, HOUR

COLUMNS = ("mean zone", "best known", "sticky", "planned", "optimum")
SIZES = (2, 4, 8)
JOBS = ((24.0, 0.1), (24.0, 0.3), (8.0, 0.1), (8.0, 0.3))
"""Hours of work and of a restart."""
WINDOWS = 12
MADE_ZONES = 4
REGION_COUPLING = 0.43
"""Correlation of the states of two zones of one region: the mean over the ten pairs of the recorded V100 zones."""
COUPLING_HOURS = 24.0
"""Mean time for which a zone goes with its region, or not."""
SPOT_USD = 0.3
"""An hour on spot where an hour on demand costs 1."""


@dataclass(frozen=True)
class Half:
    """A group of zones, observed in one half of its time and used in the other."""

    known: ZoneGroup
    used: ZoneGroup


def halves(group: ZoneGroup) -> tuple[Half, Half]:
    """Return both directions: either half is known once and used once."""
    steps = group.up.shape[1]
    early, late = group.part(0, steps // 2), group.part(steps // 2, steps)
    return Half(early, late), Half(late, early)


def zone_job(work_hours: float, restart_hours: float) -> SpotRun:
    """Return a run with free checkpoints and enough notice, whose hops and interruptions each cost a restart."""
    return SpotRun(work_hours, restart_hours, 0.0, 0.0, SPOT_USD, 1.0, last_checkpoint=True)


@dataclass(frozen=True)
class Cells:
    """What is judged: jobs, deadlines over work, and windows of each half."""

    jobs: tuple[tuple[float, float], ...] = JOBS
    slacks: tuple[float, ...] = SLACKS
    windows: int = WINDOWS


def judge_half(half: Half, cells: Cells) -> dict[tuple[float, float, float], list[float]]:
    """Return the cost over on demand of each of `COLUMNS`, and the runs of the planned policy that are late.

    By hours of work, restart and deadline over work; means over windows spread evenly over the used half.
    """
    known, used, tick = half.known, half.used, half.used.gap_hours
    fit = fit_zones(known)
    each = [(before.tobytes(), after.tobytes()) for before, after in zip(known.up, used.up, strict=True)]
    worth = worth_of(used, fit.stays)
    found = {}
    for work, restart in cells.jobs:
        run = zone_job(work, restart)
        length = round(deadline_of(run, max(SLACKS), tick) / tick)
        starts = starts_of(used, length, cells.windows)
        path = follow(worth, starts, length)
        told = ages_on(path, used, starts)
        sticky = one_path(known, used, starts, length)
        up = windows_of(used, starts, length)
        for slack in cells.slacks:
            deadline = deadline_of(run, slack, tick)
            cost = partial(cost_of, run, tick=tick, deadline=deadline)
            alone = [_cost_alone(run, *both, tick, slack, cells.windows) for both in each]
            best_known = min(alone, key=lambda costs: costs[1])[0]
            optimum = optimum_of_zones_usd(run, up, tick, deadline, [SPOT_USD] * len(each)) / run.on_demand_usd
            simple = cost(sticky.states, sticky.up, sticky.age_hours)[0]
            planned, late = cost(fit.states, path, told)
            values = [float(np.mean([costs[0] for costs in alone])), best_known, simple, planned]
            found[work, restart, slack] = [*values, float(np.minimum(optimum, 1.0).mean()), float(late)]
    return found


@lru_cache(maxsize=4096)
def _cost_alone(
    run: SpotRun, known: bytes, used: bytes, tick: float, slack: float, windows: int
) -> tuple[float, float]:
    """Return the cost over on demand of a zone alone, in the used half and in the known one; it is in many groups.

    The halves are those of `ZoneGroup.up`, as bytes, which a cache can hold.
    """
    halves_up = [np.frombuffer(half, dtype=bool) for half in (known, used)]
    states = states_of([Trace("", tick * HOUR, halves_up[0].astype(np.int64)).runs(1, with_first=False)], tick)
    deadline, length = deadline_of(run, slack, tick), round(deadline_of(run, max(SLACKS), tick) / tick)
    found = []
    for up, is_used in zip(halves_up, (False, True), strict=True):
        starts = _spread(up.size, length, windows)
        ages = ages_before(up, starts, tick) if is_used else 0.0
        paths = np.array([up[start : start + length] for start in starts])
        found.append(cost_of(run, states, paths, ages, tick, deadline)[0])
    return found[1], found[0]


def cost_of(
    run: SpotRun, states: SpotStates, up: Flags | Integers, ages: Floats | float, tick: float, deadline: float
) -> tuple[float, int]:
    """Return the mean cost of the planned policy over that of on demand, and how many runs are late."""
    policy = _policy(run, states, deadline, tick)
    result = replay(policy, run, up, tick, deadline, age_hours=ages)
    return float(result.usd.mean()) / run.on_demand_usd, int((~result.met).sum())


@lru_cache(maxsize=512)
def _policy(run: SpotRun, states: SpotStates, deadline: float, tick: float) -> Any:
    """Return the policy, computed once: a recorded zone is in many groups."""
    return best_policy(run, states, deadline, tick_hours=tick)


def starts_of(group: ZoneGroup, length: int, count: int = WINDOWS) -> list[int]:
    """Return the first steps of windows of a length, spread evenly over the time of a group."""
    return _spread(group.up.shape[1], length, count)


def _spread(steps: int, length: int, count: int) -> list[int]:
    if steps < length:
        raise ValueError(f"{steps} steps are shorter than a deadline of {length}")
    return [round(start) for start in np.linspace(0, steps - length, count)]


def windows_of(group: ZoneGroup, starts: Sequence[int], length: int) -> Flags:
    """Return windows of every zone; shape (zones, windows, ticks)."""
    return np.stack([group.up[:, start : start + length] for start in starts], axis=1)


def made_group(number: int) -> ZoneGroup:
    """Return a group of four zones by its number, of regions with published zones, whose zones fail together.

    A zone follows the path of its region for a share sqrt(`REGION_COUPLING`) of the time, in stretches, and else its
    own, so that two of one region have that correlation; both are drawn from published quantiles of the region.
    """
    rng = np.random.default_rng([SEED, 7, number])
    pairs = published("one V100")
    regions: dict[str, list[Any]] = {}
    for pair in pairs:
        regions.setdefault(pair[0]["zone"].rstrip("abcdef"), []).append(pair)
    ticks = round(DAYS * DAY_HOURS / TICK_HOURS)

    def path(region: str) -> Flags:
        rows = regions[region][rng.integers(len(regions[region]))]
        up, down = (draw_of(row, 1.0) for row in rows)
        return np.asarray(sample_paths(up, down, 1, ticks, TICK_HOURS, rng).up[0])

    shared = {region: path(region) for region in sorted(regions)}
    share = math.sqrt(REGION_COUPLING)
    up, names = [], []
    for zone in range(MADE_ZONES):
        region = sorted(regions)[rng.integers(len(regions))]

        def stay(mean: float) -> Any:
            return lambda random, n: random.exponential(mean, n)

        together = sample_paths(
            stay(COUPLING_HOURS), stay(COUPLING_HOURS * (1 - share) / share), 1, ticks, TICK_HOURS, rng
        ).up[0]
        up.append(np.where(together, shared[region], path(region)))
        names.append(f"{region}-{zone}")
    return ZoneGroup(tuple(names), TICK_HOURS, np.array(up), np.ones(MADE_ZONES))


def recorded_groups(
    group: ZoneGroup, count: int, sizes: Sequence[int] = SIZES, seed: int = SEED
) -> Iterator[tuple[int, ZoneGroup]]:
    """Yield the size and members of random groups of recorded zones, all different, `count` of each size at most."""
    rng = np.random.default_rng([seed, 8])
    for size in SIZES:
        every = list(combinations(range(len(group.names)), size))
        chosen = sorted(rng.permutation(len(every))[:count])
        for index in chosen if size in sizes else ():
            yield size, group.some(every[index])


def judge_groups(
    groups: Sequence[tuple[int, ZoneGroup]],
    jobs: Sequence[tuple[float, float]],
    processes: int = 1,
    cells: Cells = Cells(),
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Return a row per size, job and deadline: percent of on demand for each of `COLUMNS`, n and standard errors.

    `progress`: a line on standard error for each half that is judged.
    """
    directions = [(size, half) for size, group in groups for half in halves(group)]
    judged = partial(judge_half, cells=replace(cells, jobs=tuple(jobs)))
    found = in_order(judged, [half for _, half in directions], processes, "halves" if progress else "")
    rows = []
    for size in dict.fromkeys(size for size, _ in directions):
        mine = [one for (its, _), one in zip(directions, found, strict=True) if its == size]
        for work, restart, slack in mine[0]:
            head = {"zones": size, "work_hours": work, "restart_hours": restart, "deadline_over_work": slack}
            rows.append({**head, **_row(np.array([one[work, restart, slack] for one in mine]))})
    return rows


def _row(values: Floats) -> dict[str, Any]:
    """Return the figures of a cell from the values of its halves, shape (n, columns + 1)."""
    percent = 100 * values[:, : len(COLUMNS)]
    more = percent[:, COLUMNS.index("planned")] - percent[:, COLUMNS.index("sticky")]
    mean = dict(zip(COLUMNS, percent.mean(axis=0).tolist(), strict=True))
    distance = mean["sticky"] - mean["optimum"]
    return {
        "n": len(values),
        "percent_of_on_demand": mean,
        "standard_error": dict(zip(COLUMNS, standard_error(percent).tolist(), strict=True)),
        "planned_minus_sticky": [float(more.mean()), float(standard_error(more[:, None])[0])],
        "distance_closed": (mean["sticky"] - mean["planned"]) / distance if distance > 0 else 0.0,
        "late": int(values[:, -1].sum()),
    }


def standard_error(values: Floats) -> Floats:
    """Return the standard error of the mean of each column, 0 for one row."""
    if len(values) < 2:
        return np.zeros(values.shape[1])
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(len(values)))


def in_order(function: Any, items: Sequence[Any], processes: int, progress: str = "") -> list[Any]:
    """Return the function of each item, in their order; `progress` names what a line on standard error counts."""
    found = []
    with ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool:
        for one in (pool.map if pool else map)(function, items):
            found.append(one)
            if progress:
                print(f"{len(found)} of {len(items)} {progress}", file=sys.stderr, flush=True)
    return found
