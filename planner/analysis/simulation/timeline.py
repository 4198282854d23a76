"""The timeline of one replay: the market, what ran, and the progress of the work."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from planner.results.simulation import Timeline, TimelineSegment, ZoneTimes
from planner.spot.policy.run import Action, Policy
from planner.spot.policy.switching_policy import SwitchingPolicy
from planner.spot.replay.replay import replay

if TYPE_CHECKING:
    from planner.analysis.simulation.job_runs import JobRun
    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.sampling import Paths

RUNNING_WORDS: dict[int, str] = {Action.WAIT: "nothing", Action.SPOT: "spot", Action.ON_DEMAND: "on demand"}
MAX_PROGRESS_POINTS = 300
"""Points of the progress line, besides those at which something changes."""


@dataclass
class RecordingPolicy:
    """A policy whose (hours of work left, zone that is up, action) are recorded at each tick of a single run."""

    policy: Policy
    path: Integers  # (ticks,) the number of the zone that is up; without zones 1 and 0
    recorded: list[tuple[float, int, int]] = field(default_factory=list)
    name: str = "recorded"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the action of the policy and record it."""
        action = self.policy.decide(work_left, hours_left, up, age_hours, running)
        self.recorded.append((float(work_left[0]), int(self.path[len(self.recorded)]), int(action[0])))
        return action


def build_timeline(
    job_run: JobRun, policy: Policy, path: Paths, tick_hours: float, deadline_hours: float, slowness: float
) -> Timeline:
    """Replay one run on its path and return its timeline; the deadline is that of the run."""
    ticks = path.up.shape[1] if math.isinf(deadline_hours) else math.ceil(deadline_hours / tick_hours - 1e-9)
    up = path.up[:, :ticks]
    recorder = RecordingPolicy(policy, up[0].astype(np.int64))
    replayed = replay(recorder, job_run.run, up, tick_hours, deadline_hours, slowness, path.age_hours)
    work, recorded = slowness * job_run.run.work_hours, recorder.recorded
    is_done = math.isfinite(replayed.hours[0])
    end = float(replayed.hours[0]) if is_done else len(recorded) * tick_hours
    begins = [i for i in range(len(recorded)) if i == 0 or recorded[i][1:] != recorded[i - 1][1:]]
    ends = [*begins[1:], len(recorded)]
    stretches = [
        TimelineSegment(
            from_hours=i * tick_hours,
            to_hours=min(j * tick_hours, end),
            market_up=recorded[i][1] > 0,
            running=RUNNING_WORDS[recorded[i][2]],
            zone=path.names[recorded[i][1] - 1] if path.names and recorded[i][2] == Action.SPOT else "",
        )
        for i, j in zip(begins, ends, strict=True)
    ]
    if end > len(recorded) * tick_hours + 1e-9:  # after its deadline the policy does not decide: on demand until done
        begun, running = len(recorded) * tick_hours, RUNNING_WORDS[Action.ON_DEMAND]
        stretches.append(
            TimelineSegment(from_hours=begun, to_hours=end, market_up=recorded[-1][1] > 0, running=running)
        )
    every = max(1, len(recorded) // MAX_PROGRESS_POINTS)
    shown = sorted({*range(0, len(recorded), every), *begins})
    progress = [(i * tick_hours, 1.0 - recorded[i][0] / work) for i in shown]
    guard = None
    if isinstance(policy, SwitchingPolicy):  # the latest times at which nothing may run yet, from no work done to all
        latest = deadline_hours - policy.guard.wait
        guard = ((latest - work, 0.0), (latest, 1.0))
    paid_hours = (replayed.on_demand_hours, replayed.spot_hours)
    return Timeline(
        stretches=tuple(stretches),
        progress=(*progress, (end, 1.0 if is_done else progress[-1][1])),
        ends_by_hours=deadline_hours if math.isfinite(deadline_hours) else job_run.latest_hours,
        guard=guard,
        usd=float(job_run.usd(np.asarray([slowness]), *paid_hours, np.asarray([end]))[0])
        + int(replayed.interruptions[0]) * job_run.run.hop_usd,
        interruptions=int(replayed.interruptions[0]),
        speed=1.0 / slowness,
        zones=_zone_times(path, tick_hours, end),
    )


def _zone_times(path: Paths, tick_hours: float, end_hours: float) -> tuple[ZoneTimes, ...]:
    """Return when each recorded zone had machines, until the run ended; none where there was one market."""
    if path.zones_up is None:
        return ()
    found = []
    for name, flags in zip(path.names, path.zones_up[:, 0], strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]))) * tick_hours
        spans = ((float(a), min(float(b), end_hours)) for a, b in edges.reshape(-1, 2) if a < end_hours)
        found.append(ZoneTimes(zone=name, up=tuple(spans)))
    return tuple(found)
