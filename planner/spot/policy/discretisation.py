"""The grid on which a switching policy is computed: ticks of time, points of slack, parts of very long runs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.spot.policy.markov_chain import MarkovChain, build_markov_chain, fastest_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.run import SpotRun

MAX_TICKS = 1600
"""Bound on the ticks of one pass; longer runs are computed as several shorter ones."""
MAX_RATE_PER_HOUR = 12.0
"""States that last less than five minutes on average are resolved only as far as ticks allow."""
CHANCE_PER_TICK = 1.0
"""Highest chance that the market leaves a state within one tick: beyond it a tick does not resolve the states."""
SLACK_POINTS = 96
"""Points of the slack axis; with `POLICY_TICKS` of time, within half a percent of a much finer grid (see tests)."""
SLACK_CURVATURE = 0.5
"""Points of the slack axis are dense near 0 and thin out from this share of its length on."""
AXIS_STEPS = 2.0**40
"""Shares of the slack axis are whole multiples of one over this: coarser than what processors disagree about."""


@record(frozen=True)
class CurveRequest:
    """A run that must end within `guaranteed_hours`, and how finely it is computed."""

    run: SpotRun
    states: SpotStates
    guaranteed_hours: float

    @cached_property
    def slack_hours(self) -> float:
        """Return the guaranteed time minus the work."""
        return self.guaranteed_hours - self.run.work_hours

    @cached_property
    def parts(self) -> float:
        """Return the number of equal parts in which it is computed, 1 for all but very long runs.

        A run cut into parts, each with its own deadline and without memory of the market, is one policy for the
        whole run: hours and dollars of the best one are at most those of the parts together.
        """
        return max(1.0, self.resolving_ticks / MAX_TICKS)

    @cached_property
    def resolving_ticks(self) -> float:
        """Return the ticks that resolve the states of the market."""
        return self.guaranteed_hours * min(fastest_rate(self.states), MAX_RATE_PER_HOUR) / CHANCE_PER_TICK

    @cached_property
    def part(self) -> CurveRequest:
        """Return one of the equal parts."""
        hours = self.run.work_hours / self.parts
        return CurveRequest(replace(self.run, work_hours=hours), self.states, self.guaranteed_hours / self.parts)


def check_run(run: SpotRun, longest_hours: float) -> None:
    """Raise ValueError where nothing can be guaranteed: no on-demand machines, no work, or too little time for it."""
    if not math.isfinite(run.on_demand_usd_per_hour):
        raise ValueError("no deadline can be guaranteed without on-demand machines")
    if not (run.work_hours > 0 and math.isfinite(run.work_hours)):
        raise ValueError(f"hours of work must be positive, not {run.work_hours:g}")
    if run.restart_hours < 0 or run.stall_hours < 0 or run.interval_hours < 0:
        raise ValueError("hours of restarts, stalls and intervals must not be negative")
    if run.interval_hours == 0 and run.stall_hours > 0:
        raise ValueError("checkpoints that stall need a positive interval between them")
    needed = run.work_hours + run.restart_hours
    if not longest_hours >= needed * (1 - 1e-12):
        raise ValueError(f"{longest_hours:g} h are less than the {needed:g} h that the work takes on demand")


def build_chain_for(requests: Sequence[CurveRequest], ticks: int, points: int) -> MarkovChain:
    """Return the chain of several runs, each with its guaranteed time divided into `ticks`."""
    hours = np.array([request.guaranteed_hours for request in requests])
    slack = np.array([slack_axis(request, points) for request in requests])
    return build_markov_chain(
        [request.run for request in requests], [request.states for request in requests], hours / ticks, slack
    )


def slack_axis(request: CurveRequest, points: int) -> Floats:
    """Return the slack axis of a pass for a request, hours, shape (points,)."""
    # The points of an axis must differ, even where the time allows on demand only.
    restart = request.run.restart_hours
    return slack_points(restart, max(request.slack_hours, restart + 1e-6 * request.guaranteed_hours), points)


def slack_points(restart_hours: float, most_hours: float, points: int) -> Floats:
    """Return slack in hours, rising from 0, shape (points,): dense near the guard, with a point at the restart.

    The last point is `most_hours`, to the last bit.
    """
    first = [0.0] if restart_hours > 1e-9 * most_hours else []  # two points must differ
    rest = restart_hours + (most_hours - restart_hours) * _axis_shares(points - len(first))
    return np.array([*first, *rest[:-1], most_hours])


@lru_cache
def _axis_shares(points: int) -> Floats:
    """Return the shares of an axis, from 0 to exactly 1, shape (points,): the same on every machine.

    The last bit of a hyperbolic sine depends on the processor. On an axis that ends a bit too early some work seems to
    be left at its last point, and a tie between two actions ends the other way.
    """
    rest = SLACK_CURVATURE * np.sinh(np.linspace(0.0, math.asinh(1 / SLACK_CURVATURE), points))
    return np.asarray(np.rint(rest / rest[-1] * AXIS_STEPS) / AXIS_STEPS, dtype=float)
