"""One replay told: what the market did, what ran, how far the work was."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from planner.results.simulation import Timeline, TimelineSegment
from planner.spot.policy.run import Action, Policy
from planner.spot.policy.switching_policy import SwitchingPolicy
from planner.spot.replay.replay import replay

if TYPE_CHECKING:
    from planner.analysis.simulation.job_replay import RepresentativeRun
    from planner.analysis.simulation.job_runs import JobRun
    from planner.arrays import Flags, Floats, Integers

RUNNING = {Action.WAIT: "nothing", Action.SPOT: "spot", Action.ON_DEMAND: "on demand"}
MOST_POINTS = 300
"""Points of the line of progress, besides those at which something changes."""


@dataclass
class RecordingPolicy:
    """A policy that is listened to: (hours of work left, market up, action) at each tick of a single run."""

    policy: Policy
    heard: list[tuple[float, bool, int]] = field(default_factory=list)
    name: str = "heard"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """As the policy does."""
        action = self.policy.decide(work_left, hours_left, up, age_hours, running)
        self.heard.append((float(work_left[0]), bool(up[0]), int(action[0])))
        return action


def build_timeline(course: JobRun, policy: Policy, one: RepresentativeRun, tick_hours: float) -> Timeline:
    """The replay of one run, tick by tick."""
    listener = RecordingPolicy(policy)
    ticks = one.up.size if math.isinf(one.deadline_hours) else math.ceil(one.deadline_hours / tick_hours - 1e-9)
    up = one.up[None, :ticks]
    found = replay(listener, course.run, up, tick_hours, one.deadline_hours, one.slowness, one.age_hours)
    work, heard = one.slowness * course.run.work_hours, listener.heard
    end = float(found.hours[0]) if np.isfinite(found.hours[0]) else len(heard) * tick_hours
    begins = [i for i in range(len(heard)) if i == 0 or heard[i][1:] != heard[i - 1][1:]]
    ends = [*begins[1:], len(heard)]
    stretches = [
        TimelineSegment(
            from_hours=i * tick_hours,
            to_hours=min(j * tick_hours, end),
            market_up=heard[i][1],
            running=RUNNING[heard[i][2]],
        )
        for i, j in zip(begins, ends, strict=True)
    ]
    if end > len(heard) * tick_hours + 1e-9:  # the policy has no say after its deadline: on demand until done
        begun = len(heard) * tick_hours
        stretches.append(
            TimelineSegment(from_hours=begun, to_hours=end, market_up=heard[-1][1], running=RUNNING[Action.ON_DEMAND])
        )
    every = max(1, len(heard) // MOST_POINTS)
    shown = sorted({*range(0, len(heard), every), *begins})
    progress = [(i * tick_hours, 1.0 - heard[i][0] / work) for i in shown]
    last = 1.0 if np.isfinite(found.hours[0]) else progress[-1][1]
    return Timeline(
        stretches=tuple(stretches),
        progress=(*progress, (end, last)),
        ends_by_hours=one.deadline_hours if math.isfinite(one.deadline_hours) else course.latest_hours,
        guard=_guard(policy, one.deadline_hours, work),
        usd=one.usd,
        interruptions=one.interruptions,
        speed=1.0 / one.slowness,
    )


def _guard(
    policy: Policy, deadline_hours: float, work_hours: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The latest moments at which nothing may run yet, from no work done to all of it."""
    if not isinstance(policy, SwitchingPolicy):
        return None
    end = deadline_hours - policy.guard.wait
    return ((end - work_hours, 0.0), (end, 1.0))
