"""One market, observed and then used: the planned policy, simple rules and the offline optimum."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.arrays import Flags, Floats
from planner.spot.market_fit import fit_ages
from planner.spot.replayed_runs import Greedy, UniformProgress, optimum_usd, replay
from planner.spot.run import SpotRun
from planner.spot.states import MarketDurations, SpotStates
from planner.spot.switching_policy import best_policy

SLACKS = (1.08, 1.25, 1.5, 1.92)
"""Deadline over work."""
POLICIES = ("planned", "greedy", "uniform progress")


@dataclass(frozen=True)
class Windows:
    """Windows of one market in which a run may take place, and the states fitted to the time before them."""

    name: str
    states: SpotStates
    up: Flags  # (windows, ticks)
    age_hours: Floats  # (windows,): of the state that each begins in
    tick_hours: float


@dataclass(frozen=True)
class Costs:
    """Costs on one market at one deadline; arrays of shape (windows,), in dollars."""

    on_demand: Floats
    optimum: Floats
    by_policy: dict[str, Floats]
    late: dict[str, int]


def job(work_hours: float, restart_hours: float = 1 / 6) -> SpotRun:
    """Return a run on spot at a third of on demand, with notice for a last checkpoint and free checkpoints.

    An interruption costs a restart and the wait, as in the trials that the targets come from.
    """
    return SpotRun(
        work_hours=work_hours,
        restart_hours=restart_hours,
        stall_hours=0.0,
        interval_hours=0.0,
        spot_usd_per_hour=1.0,
        on_demand_usd_per_hour=3.0,
        last_checkpoint=True,
    )


def states_of(runs: list[MarketDurations], step_hours: float) -> SpotStates:
    """Fit the market to up-times and outages of traces with one step; ValueError without an hour of both."""
    up, up_censored, down, down_censored = (np.concatenate(each) for each in zip(*runs, strict=True))
    return SpotStates(
        fit_ages(up, up_censored, step_hours=step_hours), fit_ages(down, down_censored, step_hours=step_hours)
    )


def deadline_of(run: SpotRun, slack: float, tick_hours: float) -> float:
    """Return the deadline in hours, whole ticks, so that the optimum is exact."""
    return math.ceil(run.work_hours * slack / tick_hours - 1e-9) * tick_hours


def ages_before(up: Flags, starts: list[int], tick_hours: float) -> Floats:
    """Return how many hours one path, shape (ticks,), has been in its state at each start; shape (starts,)."""
    changes = np.flatnonzero(np.diff(up)) + 1
    since = np.concatenate([[0], changes])
    begun = since[np.searchsorted(since, starts, side="right") - 1]
    return np.asarray((np.array(starts) - begun) * tick_hours)


def planned(windows: Windows, run: SpotRun) -> dict[float, tuple[Floats, int, Floats]]:
    """Return by deadline over work: dollars of the planned policy, runs late, dollars of the optimum."""
    found = {}
    for slack in SLACKS:
        tick = windows.tick_hours
        deadline = deadline_of(run, slack, tick)
        policy = best_policy(run, windows.states, deadline, tick_hours=tick)
        result = replay(policy, run, windows.up, tick, deadline, age_hours=windows.age_hours)
        found[slack] = result.usd, int((~result.met).sum()), optimum_usd(run, windows.up, tick, deadline)
    return found


def judge(markets: list[Windows], run: SpotRun, processes: int = 1) -> list[dict[float, Costs]]:
    """Return what each policy costs in each window of each market; all windows have one tick and one length."""
    with ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool:
        found = list((pool.map if pool else map)(planned, markets, [run] * len(markets)))
    up = np.concatenate([market.up for market in markets])
    ends = np.cumsum([len(market.up) for market in markets])[:-1]
    tick = markets[0].tick_hours
    costs: list[dict[float, Costs]] = [{} for _ in markets]
    for slack in SLACKS:
        deadline = deadline_of(run, slack, tick)
        rules = [
            replay(policy, run, up, tick, deadline)
            for policy in (Greedy(run, tick), UniformProgress(run, tick, deadline))
        ]
        on_demand_usd = (run.work_hours + run.restart_hours) * run.on_demand_usd_per_hour
        usd = [np.split(rule.usd, ends) for rule in rules]
        late = [np.split(~rule.met, ends) for rule in rules]
        for number, each in enumerate(found):
            own, own_late, optimum = each[slack]
            costs[number][slack] = Costs(
                on_demand=np.full(optimum.size, on_demand_usd),
                optimum=optimum,
                by_policy=dict(zip(POLICIES, (own, *(one[number] for one in usd)), strict=True)),
                late=dict(zip(POLICIES, (own_late, *(int(one[number].sum()) for one in late)), strict=True)),
            )
    return costs


def summary(markets: list[dict[float, Costs]]) -> list[dict[str, Any]]:
    """Return a row per deadline: mean cost over on-demand cost and over the optimum, with its standard error.

    All windows of all markets weigh the same; the error is that of a ratio of means over markets drawn at random.
    """
    rows = []
    for slack in SLACKS:
        costs = [market[slack] for market in markets]
        demand, optimum = (np.array([getattr(one, name).sum() for one in costs]) for name in ("on_demand", "optimum"))
        row: dict[str, Any] = {
            "deadline_over_work": slack,
            "markets": len(costs),
            "windows": sum(one.optimum.size for one in costs),
            "optimum_percent_of_on_demand": float(100 * optimum.sum() / demand.sum()),
        }
        for name in POLICIES:
            usd = np.array([one.by_policy[name].sum() for one in costs])
            ratio = usd.sum() / optimum.sum()
            error = math.sqrt(np.sum((usd - ratio * optimum) ** 2)) / optimum.sum()
            row[name] = {
                "percent_of_on_demand": float(100 * usd.sum() / demand.sum()),
                "percent_above_optimum": float(100 * (ratio - 1)),
                "standard_error": float(100 * error),
                "late": sum(one.late[name] for one in costs),
            }
        rows.append(row)
    return rows
