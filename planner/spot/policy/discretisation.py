"""How finely a spot market is computed: ticks of time, points of slack, and what to do with very long runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.markov_chain import MarkovChain, build_markov_chain, fastest_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.run import SpotRun

MAX_TICKS = 800
"""Bound on the ticks of one pass; longer runs are computed as several shorter ones."""
MAX_RATE_PER_HOUR = 12.0
"""Per hour: states that last less than five minutes on average are told apart only as far as ticks go."""
CHANCE_PER_TICK = 1.0
"""Highest chance that the market leaves a state within one tick: beyond it a tick no longer tells states apart."""
SLACK_CURVATURE = 0.5
"""Points of the slack axis are dense near 0 and thin out from this share of its length on."""


@dataclass(frozen=True)
class CurveRequest:
    """A run that must end within `guaranteed_hours`, and how it is computed."""

    run: SpotRun
    states: SpotStates
    guaranteed_hours: float

    @cached_property
    def slack_hours(self) -> float:
        """What is left of the guaranteed time where the work is done without a pause."""
        return self.guaranteed_hours - self.run.work_hours

    @cached_property
    def parts(self) -> float:
        """In how many equal parts it is computed, 1 for all but very long runs.

        A run that is cut into parts, each with its own deadline and the last one's state of the market forgotten, is
        one way to do the whole run: hours and dollars of the whole are at most those of the parts together.
        """
        return max(1.0, self.resolving_ticks / MAX_TICKS)

    @cached_property
    def resolving_ticks(self) -> float:
        """Ticks that tell the states of the market apart."""
        return self.guaranteed_hours * min(fastest_rate(self.states), MAX_RATE_PER_HOUR) / CHANCE_PER_TICK

    @cached_property
    def part(self) -> CurveRequest:
        """One of the equal parts."""
        hours = self.run.work_hours / self.parts
        return CurveRequest(replace(self.run, work_hours=hours), self.states, self.guaranteed_hours / self.parts)


def check_run(run: SpotRun, longest_hours: float) -> None:
    """ValueError where nothing can be promised: no on-demand machines, no work, or too little time for them."""
    if not math.isfinite(run.on_demand_usd_per_hour):
        raise ValueError("no deadline can be promised where machines are not sold on demand")
    if not (run.work_hours > 0 and math.isfinite(run.work_hours)):
        raise ValueError(f"hours of work must be positive, not {run.work_hours:g}")
    if run.restart_hours < 0 or run.stall_hours < 0 or run.interval_hours < 0:
        raise ValueError("hours of restarts, stalls and intervals must not be negative")
    if run.interval_hours == 0 and run.stall_hours > 0:
        raise ValueError("a run that writes checkpoints all the time, and stalls for each, never ends")
    needed = run.work_hours + run.restart_hours
    if not longest_hours >= needed * (1 - 1e-12):
        raise ValueError(f"{longest_hours:g} h are less than the {needed:g} h that the work takes on demand")


def build_chain_for(questions: Sequence[CurveRequest], ticks: int, points: int) -> MarkovChain:
    """The chain whose last tick is the first hour of each question."""
    hours = np.array([question.guaranteed_hours for question in questions])
    slack = np.array([slack_points(question.run.restart_hours, question.slack_hours, points) for question in questions])
    return build_markov_chain(
        [question.run for question in questions], [question.states for question in questions], hours / ticks, slack
    )


def slack_points(restart_hours: float, most_hours: float, points: int) -> Floats:
    """Slack in hours, rising from 0: dense where the guard is near, its restart a point of its own; shape (points,)."""
    first = [0.0] if restart_hours > 1e-9 * most_hours else []  # two points must differ
    rest = np.linspace(0.0, math.asinh(1 / SLACK_CURVATURE), points - len(first))
    return np.array([*first, *(restart_hours + (most_hours - restart_hours) * SLACK_CURVATURE * np.sinh(rest))])
