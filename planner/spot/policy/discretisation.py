"""The grid on which a switching policy is computed: ticks of time, points of slack, parts of very long runs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Floats
from planner.records import record
from planner.spot.market.states import SpotStates
from planner.spot.policy.markov_chain import MarkovChain, build_markov_chain, fastest_rate
from planner.spot.policy.run import SpotRun

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TICKS = 1600
"""Bound on the ticks of one pass; longer runs are computed as several shorter ones."""
MAX_RATE_PER_HOUR = 12.0
"""States that last less than five minutes on average are resolved only as far as ticks allow."""
CHANCE_PER_TICK = 1.0
"""Highest chance that the market leaves a state within one tick: beyond it a tick does not resolve the states."""
SLACK_POINTS = 96
"""Points of an axis that is dense near 0; with 256 ticks, within half a percent of a much finer grid (see tests)."""
WORKS_IN_TICKS = 9.0
"""A time of more works than this has more ticks, by the square root: the work is divided less finely, but enough."""
EVEN_FROM = 1.5
"""Works of slack from which the cells of the slack axis are as long as a tick."""
MOST_EVEN_TICKS = 512
"""Where a fast market needs more ticks, so many even cells would take too long, and matter less."""
EVEN_CELLS = 0.04
"""Cells and ticks differ by less, as a share, where they count as equally long."""
SLACK_CURVATURE = 0.5
"""Points of the slack axis are dense near 0 and thin out from this share of its length on."""
SAME_FIGURE = 1e-9
"""Relative: figures closer than this are one figure."""
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
        return self.guaranteed_hours * resolved_rate(self.states)

    @cached_property
    def part(self) -> CurveRequest:
        """Return one of the equal parts."""
        hours = self.run.work_hours / self.parts
        return CurveRequest(replace(self.run, work_hours=hours), self.states, self.guaranteed_hours / self.parts)


class Grid(NamedTuple):
    """How finely a pass is computed."""

    ticks: int
    points: int  # of the slack axis


class Fineness(NamedTuple):
    """Which grids a kind of passes has."""

    ticks: int  # of a time with little slack
    long_ticks: int  # with much, on even cells
    points: int = SLACK_POINTS  # of the slack axis, where its cells are not even
    most_ticks: int = MAX_TICKS  # from which on no more are taken


def grid_of(part: CurveRequest, fineness: Fineness, asked_ticks: float = math.inf) -> Grid:
    """Return the grid of a pass; short work and fast markets take more ticks.

    `asked_ticks` bounds those that a fast market does not need. The grid depends on the request alone: runs that are
    computed together must not move each other's figures. The numbers are few, because runs on one grid can be computed
    together: ticks by powers of sqrt(2), cells by a 32nd of them.
    0.5 h of work within 16.6 h, of which 0.1 h is a restart, are 33 works: 181 ticks become 362, which are 11 for the
    work, and the slack of 16 h beyond the restart has 349 cells, rounded to 352.
    """
    hours, run, most = part.guaranteed_hours, part.run, fineness.most_ticks / math.sqrt(2)
    beyond = part.slack_hours - run.restart_hours
    long = beyond >= EVEN_FROM * run.work_hours
    by_work = float(fineness.long_ticks if long else fineness.ticks)
    finer = math.sqrt((hours - run.restart_hours) / run.work_hours / WORKS_IN_TICKS) * by_work
    while long and by_work < finer * (1 - SAME_FIGURE) and by_work <= most:
        by_work *= math.sqrt(2)
    found = by_work = min(by_work, asked_ticks)
    while found < min(part.resolving_ticks * (1 - SAME_FIGURE), fineness.most_ticks):
        found *= math.sqrt(2)
    if not long or found > max(by_work, MOST_EVEN_TICKS):
        return Grid(round(found), fineness.points)
    step = max(1, round(found / 32))
    cells = max(1, round(found * beyond / hours / step)) * step
    return Grid(round(found), cells + len(_start_of_axis(run.restart_hours, part.slack_hours)) + 1)


def resolved_rate(states: SpotStates) -> float:
    """Return the ticks per hour that resolve the states of a market; 0 for one that never changes."""
    return min(fastest_rate(states), MAX_RATE_PER_HOUR) / CHANCE_PER_TICK


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


def build_chain_for(requests: Sequence[CurveRequest], grid: Grid) -> MarkovChain:
    """Return the chain of several runs, each with its guaranteed time divided into the ticks of the grid."""
    hours = np.array([request.guaranteed_hours for request in requests])
    slack = np.array([slack_axis(request, grid) for request in requests])
    return build_markov_chain(
        [request.run for request in requests], [request.states for request in requests], hours / grid.ticks, slack
    )


def slack_axis(request: CurveRequest, grid: Grid) -> Floats:
    """Return the slack axis of a pass for a request, hours, shape (points,)."""
    # The points of an axis must differ, even where the time allows on demand only.
    restart = request.run.restart_hours
    most = max(request.slack_hours, restart + 1e-6 * request.guaranteed_hours)
    return slack_points(restart, most, grid.points, request.guaranteed_hours / grid.ticks)


def slack_points(restart_hours: float, most_hours: float, points: int, tick_hours: float) -> Floats:
    """Return slack in hours, rising from 0, shape (points,), with a point at the restart.

    Even cells beyond it where they are as long as a tick: then a tick of waiting leads from point to point. Between two
    points the dollars are interpolated, tick after tick, and over a long wait such errors add up (0.97 h of
    work within 24 h, outages of 14.5 h: 22 % of the dollars). Other axes are dense near the guard.
    The last point is `most_hours`, to the last bit.
    """
    first = _start_of_axis(restart_hours, most_hours)
    cells = points - len(first) - 1
    even = abs((most_hours - restart_hours) / (cells * tick_hours) - 1) < EVEN_CELLS
    shares = np.arange(cells + 1) / cells if even else _axis_shares(cells + 1)
    rest = restart_hours + (most_hours - restart_hours) * shares
    return np.array([*first, *rest[:-1], most_hours])


def _start_of_axis(restart_hours: float, most_hours: float) -> list[float]:
    """Return the points of an axis before the restart: 0, if that is another one."""
    return [0.0] if restart_hours > SAME_FIGURE * most_hours else []  # two points must differ


@lru_cache
def _axis_shares(points: int) -> Floats:
    """Return the shares of an axis, from 0 to exactly 1, shape (points,): the same on every machine.

    The last bit of a hyperbolic sine depends on the processor. On an axis that ends a bit too early some work seems to
    be left at its last point, and a tie between two actions ends the other way.
    """
    rest = SLACK_CURVATURE * np.sinh(np.linspace(0.0, math.asinh(1 / SLACK_CURVATURE), points))
    return np.asarray(np.rint(rest / rest[-1] * AXIS_STEPS) / AXIS_STEPS, dtype=float)
