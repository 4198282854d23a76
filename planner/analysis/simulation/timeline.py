"""The timeline of one replay: the market, what ran, and the progress of the work."""

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

RUNNING_WORDS: dict[int, str] = {Action.WAIT: "nothing", Action.SPOT: "spot", Action.ON_DEMAND: "on demand"}
MAX_PROGRESS_POINTS = 300
"""Points of the progress line, besides those at which something changes."""


@dataclass
class RecordingPolicy:
    """A policy whose (hours of work left, market up, action) are recorded at each tick of a single run."""

    policy: Policy
    recorded: list[tuple[float, bool, int]] = field(default_factory=list)
    name: str = "recorded"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the action of the policy and record it."""
        action = self.policy.decide(work_left, hours_left, up, age_hours, running)
        self.recorded.append((float(work_left[0]), bool(up[0]), int(action[0])))
        return action


def build_timeline(job_run: JobRun, policy: Policy, one: RepresentativeRun, tick_hours: float) -> Timeline:
    """Replay one run and return its timeline."""
    recorder = RecordingPolicy(policy)
    ticks = one.up.size if math.isinf(one.deadline_hours) else math.ceil(one.deadline_hours / tick_hours - 1e-9)
    up = one.up[None, :ticks]
    replayed = replay(recorder, job_run.run, up, tick_hours, one.deadline_hours, one.slowness, one.age_hours)
    work, recorded = one.slowness * job_run.run.work_hours, recorder.recorded
    end = float(replayed.hours[0]) if np.isfinite(replayed.hours[0]) else len(recorded) * tick_hours
    begins = [i for i in range(len(recorded)) if i == 0 or recorded[i][1:] != recorded[i - 1][1:]]
    ends = [*begins[1:], len(recorded)]
    stretches = [
        TimelineSegment(
            from_hours=i * tick_hours,
            to_hours=min(j * tick_hours, end),
            market_up=recorded[i][1],
            running=RUNNING_WORDS[recorded[i][2]],
        )
        for i, j in zip(begins, ends, strict=True)
    ]
    if end > len(recorded) * tick_hours + 1e-9:  # after its deadline the policy does not decide: on demand until done
        begun = len(recorded) * tick_hours
        stretches.append(
            TimelineSegment(
                from_hours=begun, to_hours=end, market_up=recorded[-1][1], running=RUNNING_WORDS[Action.ON_DEMAND]
            )
        )
    every = max(1, len(recorded) // MAX_PROGRESS_POINTS)
    shown = sorted({*range(0, len(recorded), every), *begins})
    progress = [(i * tick_hours, 1.0 - recorded[i][0] / work) for i in shown]
    last = 1.0 if np.isfinite(replayed.hours[0]) else progress[-1][1]
    return Timeline(
        stretches=tuple(stretches),
        progress=(*progress, (end, last)),
        ends_by_hours=one.deadline_hours if math.isfinite(one.deadline_hours) else job_run.latest_hours,
        guard=_guard(policy, one.deadline_hours, work),
        usd=one.usd,
        interruptions=one.interruptions,
        speed=1.0 / one.slowness,
    )


def _guard(
    policy: Policy, deadline_hours: float, work_hours: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return the latest times at which nothing may run yet, from no work done to all of it."""
    if not isinstance(policy, SwitchingPolicy):
        return None
    end = deadline_hours - policy.guard.wait
    return ((end - work_hours, 0.0), (end, 1.0))
