"""How close to the optimum over all zones any policy can come that does not know the future.

Two bounds, for each half that is used:

- *Guarantee*: what the best schedule costs that knows the future and keeps the deadline safe at every moment
  (`benchmarks/spot/guarded.py`), above the optimum, which needs no reserve. It holds on the recorded paths, for every
  policy that never misses a deadline.
- *Future*: how far the best policy is above the optimum in the market of the model, on paths drawn from states that
  are fitted to the used half itself. There its statistics and its states are exact, so no policy does better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.spot.groups import (
    SPOT_USD,
    WINDOWS,
    Half,
    cost_of,
    halves,
    in_order,
    standard_error,
    starts_of,
    windows_of,
    zone_job,
)
from benchmarks.spot.guarded import guarded_usd
from benchmarks.spot.judge import SLACKS, deadline_of
from benchmarks.spot.one_path import one_path
from benchmarks.spot.zones import SEED
from planner.spot.market_fit import fit_zones
from planner.spot.replayed_runs import optimum_of_zones_usd
from planner.spot.states import ZoneGroup, ages_on, follow, sample_states, worth_of

SLACK = min(SLACKS)
"""Deadline over work of the bounds: with more slack the distances are small."""
PATHS = 400
"""Paths that are drawn from the states of a half."""
FIGURES = ("sticky", "planned", "guarantee", "future", "optimum")


@dataclass(frozen=True)
class BoundRun:
    """One job, and the windows of each half."""

    jobs: tuple[tuple[float, float], ...]
    windows: int = WINDOWS


def bound_half(half: Half, asked: BoundRun) -> dict[tuple[float, float], list[float]]:
    """Return each of `FIGURES` over on demand, by hours of work and of a restart; the two bounds above the optimum."""
    known, used, tick = half.known, half.used, half.used.gap_hours
    fit, own = fit_zones(known), fit_zones(used).states
    worth = worth_of(used, fit.stays)
    found = {}
    for work, restart in asked.jobs:
        run = zone_job(work, restart)
        deadline = deadline_of(run, SLACK, tick)
        # The windows of the table, whose deadlines are longer.
        length = round(deadline_of(run, max(SLACKS), tick) / tick)
        starts = starts_of(used, length, asked.windows)
        cost = partial(cost_of, run, tick=tick, deadline=deadline)
        up, path = windows_of(used, starts, length), follow(worth, starts, length)
        sticky = one_path(known, used, starts, length)

        def best(zones: Any, run: Any = run, deadline: float = deadline) -> float:
            usd = optimum_of_zones_usd(run, zones, tick, deadline, [SPOT_USD] * len(zones)) / run.on_demand_usd
            return float(np.minimum(usd, 1.0).mean())

        optimum = best(up)
        guarded = float(np.minimum(guarded_usd(run, up, tick, deadline) / run.on_demand_usd, 1.0).mean())
        drawn = sample_states(own, PATHS, round(deadline / tick), tick, np.random.default_rng([SEED, 9]))
        labels = np.asarray(drawn.up, dtype=np.int64)
        there = np.stack([labels == zone for zone in range(1, max(2, int(labels.max())) + 1)])
        future = cost(own, labels, drawn.age_hours)[0] - best(there)
        planned = cost(fit.states, path, ages_on(path, used, starts))[0]
        alone = cost(sticky.states, sticky.up, sticky.age_hours)[0]
        found[work, restart] = [alone, planned, guarded - optimum, future, optimum]
    return found


def bound_rows(
    groups: Sequence[tuple[int, ZoneGroup]], asked: BoundRun, processes: int, progress: bool = False
) -> list[dict[str, Any]]:
    """Return a row per size and job: figures in percent of on demand, n, standard errors, and the closest one can be.

    `closable`: the share of the distance of sticky to the optimum that is left by each of the two bounds.
    """
    directions = [(size, half) for size, group in groups for half in halves(group)]
    judged = partial(bound_half, asked=asked)
    found = in_order(judged, [half for _, half in directions], processes, "bounds" if progress else "")
    rows = []
    for size in dict.fromkeys(size for size, _ in directions):
        mine = [one for (its, _), one in zip(directions, found, strict=True) if its == size]
        for work, restart in mine[0]:
            percent = 100 * np.array([one[work, restart] for one in mine])
            above = np.column_stack([percent[:, :2] - percent[:, -1:], percent[:, 2:4]])
            mean = dict(zip(FIGURES, percent.mean(axis=0).tolist(), strict=True))
            distance = mean["sticky"] - mean["optimum"]
            rows.append(
                {
                    "zones": size,
                    "work_hours": work,
                    "restart_hours": restart,
                    "deadline_over_work": SLACK,
                    "n": len(mine),
                    "percent_of_on_demand": mean,
                    "points_above_optimum": dict(zip(FIGURES, above.mean(axis=0).tolist(), strict=False)),
                    "standard_error": dict(zip(FIGURES, standard_error(above).tolist(), strict=False)),
                    "closed": (mean["sticky"] - mean["planned"]) / distance if distance > 0 else 0.0,
                    "closable": {
                        name: 1 - mean[name] / distance if distance > 0 else 0.0 for name in ("guarantee", "future")
                    },
                }
            )
    return rows


def bound_text(title: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return the bounds as text, in points of the cost on demand above the optimum."""
    lines = [f"{title}; points above the optimum (+- standard error), deadline {SLACK:g} x work"]
    lines += [
        "zones  work restart   n          sticky         planned       guarantee          future  closed, at most"
    ]
    for row in rows:
        above, error = row["points_above_optimum"], row["standard_error"]
        cells = "".join(f"{above[name]:9.1f} +- {error[name]:<3.1f}" for name in FIGURES[:-1])
        least = 100 * min(row["closable"].values())
        head = f"{row['zones']:5d}{row['work_hours']:6.0f}{row['restart_hours']:8.1f}{row['n']:4d}"
        lines.append(f"{head}{cells}{100 * row['closed']:6.0f} %{least:8.0f} %")
    return [*lines, ""]
