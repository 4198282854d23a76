"""Cost curves on horizons that depend on the run alone, so that every request for a guaranteed time gets the same.

A plan that is solved for one deadline and a frontier over all of them must not report two costs for one policy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.spot.market.states import SpotStates
from planner.spot.policy.cost_curve import Curve, CurvePoint, compute_curves
from planner.spot.policy.discretisation import SLACK_POINTS, CurveRequest, check_run
from planner.spot.policy.run import SpotRun

if TYPE_CHECKING:
    from collections.abc import Sequence

CURVE_TICKS = 128
"""Ticks of a curve where many candidates are compared: within one percent, two at twice the time of the work."""
RUNS_PER_PASS = 8
"""Runs that are computed together: their arrays stay in the processor's cache."""
FIRST_SLACK = 0.25
"""Slack of the shortest horizon over the work; each further one has twice as much."""
MAX_STORED_POINTS = 80
"""Points of a curve: closer ones differ by less than the grid errs."""
MAX_DOUBLINGS = 5
"""Slack beyond 8 times the work saves almost nothing more: the longest horizon serves all times beyond it."""

Key = tuple[SpotRun, SpotStates, float]
"""A run, its market, and a horizon of it."""


def horizon_of(run: SpotRun, guaranteed_hours: float) -> float:
    """Return the horizon of a guaranteed time: work + restart + work/4 x 2^i, the first that reaches it."""
    needed = run.work_hours + run.restart_hours
    slack = FIRST_SLACK * run.work_hours
    for _ in range(MAX_DOUBLINGS):
        if needed + slack >= guaranteed_hours:
            break
        slack *= 2
    return needed + slack


def horizons_up_to(run: SpotRun, longest_hours: float) -> list[float]:
    """Return all horizons up to the one of `longest_hours`."""
    last = horizon_of(run, longest_hours)
    horizons = [horizon_of(run, run.work_hours + run.restart_hours)]
    while horizons[-1] < last * (1 - 1e-12):
        horizons.append(horizon_of(run, horizons[-1] * (1 + 1e-9) + 1e-9))
    return horizons


class CurveCache:
    """Curves that were computed once: a changed budget or deadline mostly needs no new one."""

    def __init__(self) -> None:
        self._known: dict[Key, Curve] = {}

    def of(self, keys: Sequence[Key]) -> tuple[Curve, ...]:
        """Return the curve of each (run, market, horizon); unknown ones are computed together, in blocks.

        ValueError where on-demand machines are not sold or do not meet the horizon.
        """
        missing = list(dict.fromkeys(key for key in keys if key not in self._known))
        requests = [CurveRequest(*key) for key in missing]
        for request in requests:
            check_run(request.run, request.guaranteed_hours)
        by_ticks: dict[int, list[int]] = {}
        for number, request in enumerate(requests):
            by_ticks.setdefault(tick_count_of(request), []).append(number)
        for ticks, numbers in by_ticks.items():
            every = max(1, ticks // MAX_STORED_POINTS)
            for first in range(0, len(numbers), RUNS_PER_PASS):
                block = numbers[first : first + RUNS_PER_PASS]
                curves = compute_curves([requests[i] for i in block], ticks, SLACK_POINTS, every)
                self._known.update((missing[number], curve) for number, curve in zip(block, curves, strict=True))
        return tuple(self._known[key] for key in keys)

    def points(self, run: SpotRun, states: SpotStates, longest_hours: float) -> list[CurvePoint]:
        """Return the points within each time up to `longest_hours`, by rising hours.

        Each horizon contributes the part that it is responsible for. ValueError where even on demand takes longer.
        """
        horizons = horizons_up_to(run, longest_hours)
        points: list[CurvePoint] = []
        curves = self.of([(run, states, horizon) for horizon in horizons])
        for before, curve in zip((0.0, *horizons), curves, strict=False):
            points += curve.points(before, longest_hours)
        return points

    def latest_points(self, keys: Sequence[Key]) -> list[list[CurvePoint]]:
        """Return those of `points` that may be the best within each guaranteed time: the last two horizons'."""
        by_run: list[list[Key]] = []
        for run, states, hours in keys:
            by_run.append([(run, states, horizon) for horizon in horizons_up_to(run, hours)[-2:]])
        self.of([key for several in by_run for key in several])
        found = []
        for (run, _, hours), several in zip(keys, by_run, strict=True):
            first = horizons_up_to(run, hours)[-3:-2] or [0.0]
            begins = [*first, *(key[2] for key in several)]
            curves = self.of(several)
            found.append([p for begin, c in zip(begins, curves, strict=False) for p in c.points(begin, hours)])
        return found


def tick_count_of(request: CurveRequest) -> int:
    """Return the ticks of a curve: `CURVE_TICKS` times the first power of sqrt(2) that resolves its market's states.

    They depend on the request alone: runs that are computed together must not move each other's points.
    """
    ticks = float(CURVE_TICKS)
    while ticks < request.part.resolving_ticks * (1 - 1e-9):
        ticks *= math.sqrt(2)
    return round(ticks)
