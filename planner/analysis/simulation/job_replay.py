"""Replays of one job: its own policy and the baselines on the same markets, and the timeline of one replay."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.simulation.job_runs import JobRun, RunKind
from planner.analysis.simulation.market_paths import PathSource
from planner.arrays import Flags, Floats, Integers
from planner.records import record
from planner.results.simulation import GREEDY, ON_DEMAND_ONLY, PLANNED, UNIFORM, Timeline, TimelineSegment, ZoneTimes
from planner.spot.lagrangian_bound import optimum_of_zones_usd, optimum_usd
from planner.spot.market.sampling import Paths
from planner.spot.policy.run import Action, Policy, SpotRun
from planner.spot.policy.switching_policy import SwitchingPolicy
from planner.spot.replayed_runs import (
    RUNS_PER_BLOCK,
    Greedy,
    Replays,
    SpotOnly,
    UniformProgress,
    apply_safety_net,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Callable


# The timeline of one replay: the market, what ran, and the progress of the work.


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


MAX_OPTIMUM_TICKS = 1_200_000
"""Runs times ticks for which the offline optimum is computed: it is much slower than a replay."""
MIN_OPTIMA, MAX_OPTIMA = 64, 1000


@record(frozen=True)
class JobOutcome:
    """The outcome of each run of a whole job; arrays of shape (runs,)."""

    usd: Floats
    hours: Floats  # for runs that were not done: until their path ended
    spot_share: Floats
    interruptions: Floats
    wasted_hours: Floats
    waiting_hours: Floats
    done: Flags

    @classmethod
    def joined(cls, parts: list[JobOutcome]) -> JobOutcome:
        """Return the blocks of runs as one, in order."""
        return cls(
            **{column.name: np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)}
        )


@record(frozen=True)
class ReplayedJob:
    """All runs of one job."""

    outcomes: dict[str, JobOutcome]  # by policy, the planned one first
    optimum: Floats | None  # (first runs,) least value of the objective; None where there is nothing to compare
    timeline: Timeline | None  # of a typical run under the planned policy
    seconds: float  # of one core for the planned policy, its market drawn


@record(frozen=True)
class DeadlinePolicy:
    """A policy whose runs have different deadlines, the last of which is that of the replay.

    For the runs of one block of a replay, which are decided on together.
    """

    policy: Policy
    early_hours: Floats  # (runs,) by which each deadline comes before the replay's

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the action of the policy by each run's own deadline."""
        return self.policy.decide(work_left, hours_left - self.early_hours, up, age_hours, running)


@record(frozen=True)
class DeadlineUniformProgress:
    """Uniform progress towards different deadlines of different amounts of work, the safety net in true hours."""

    rule: UniformProgress
    deadlines: Floats
    slowness: Floats

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the action of the rule, with work and hours scaled to its one amount of work and one deadline."""
        pace = self.rule.deadline_hours / self.deadlines
        asked = self.rule.decide(work_left / self.slowness, hours_left * pace, up, age_hours, running)
        return apply_safety_net(self.rule.run, self.rule.tick_hours, asked, hours_left - work_left, running)


def planned_policy(job_run: JobRun, tick_hours: float) -> Policy:
    """Return the policy that a plan follows: its table, or spot and nothing else."""
    if job_run.kind == RunKind.POLICY and job_run.states is not None:
        return job_run.policy(tick_hours)
    return SpotOnly()


def run_deadlines(job_run: JobRun, slowness: Floats) -> Floats:
    """Return the hours within which each run must end: its guarantee in proportion, and the deadline."""
    latest = job_run.latest_hours - slowness * job_run.outside_run_hours
    return np.asarray(np.minimum(slowness * job_run.target_hours, latest))


def replay_without_spot(job_run: JobRun, slowness: Floats) -> ReplayedJob:
    """Replay a job without spot: hours, and costs that depend on them, grow with the error of the speed."""
    started = process_time()
    outcome = _on_demand_outcome(job_run, slowness)
    return ReplayedJob({PLANNED: outcome}, None, None, process_time() - started)


def replay_job(job_run: JobRun, source: PathSource, slowness: Floats, progress: Callable[[int], None]) -> ReplayedJob:
    """Replay a job that uses spot, and the same work under the baseline policies.

    `progress` receives the number of added runs.
    """
    policy, tick = planned_policy(job_run, source.tick_hours), source.tick_hours
    parts: list[dict[str, JobOutcome]] = []
    optimum, timeline, seconds = None, None, 0.0
    for first in range(0, slowness.size, RUNS_PER_BLOCK):
        numbers = np.arange(first, min(first + RUNS_PER_BLOCK, slowness.size))
        slow = slowness[numbers]
        started = process_time()
        paths = source.paths(numbers)
        found = _replay_to_deadlines(policy, job_run.run, paths, tick, _planned_deadlines(job_run, slow), slow)
        planned = _job_outcome(job_run, slow, found, paths, tick)
        seconds += process_time() - started
        parts.append({PLANNED: planned})
        if not first:
            timeline = _typical_timeline(job_run, policy, paths, tick, slow, planned)
        if math.isfinite(job_run.run.on_demand_usd_per_hour):
            parts[-1] |= _replay_baselines(job_run, paths, tick, slow)
            if not first:
                optimum = _offline_optimum(job_run, paths, tick, slow)
        progress(numbers.size)
    outcomes = {name: JobOutcome.joined([part[name] for part in parts]) for name in parts[0]}
    return ReplayedJob(outcomes, optimum, timeline, seconds)


def _planned_deadlines(job_run: JobRun, slow: Floats) -> Floats:
    """Return the hours (runs,) after which the planned policy goes on demand; inf where that is not sold."""
    guaranteed = run_deadlines(job_run, slow)
    if job_run.kind == RunKind.POLICY:
        return guaranteed
    is_mix = job_run.kind == RunKind.MIX
    return np.full(slow.size, min(job_run.switch_hours, float(guaranteed.max())) if is_mix else math.inf)


def _replay_to_deadlines(
    policy: Policy, run: SpotRun, paths: Paths, tick: float, deadlines: Floats, slow: Floats
) -> Replays:
    """Replay runs that each have their own deadline."""
    last = float(deadlines.max())
    if isinstance(policy, UniformProgress):
        policy = DeadlineUniformProgress(policy, deadlines, slow)
    if deadlines.min() < last:
        policy = DeadlinePolicy(policy, last - deadlines)
    up = paths.up[:, : math.ceil(last / tick - 1e-9)] if math.isfinite(last) else paths.up
    return replay(policy, run, up, tick, last, slow, paths.age_hours)


def _replay_baselines(job_run: JobRun, paths: Paths, tick: float, slow: Floats) -> dict[str, JobOutcome]:
    """Replay the baseline policies with the same work, deadlines, paths and speeds."""
    run, deadlines = job_run.run, run_deadlines(job_run, slow)
    found = {ON_DEMAND_ONLY: _on_demand_outcome(job_run, slow)}
    for name, rule in ((GREEDY, Greedy(run, tick)), (UNIFORM, UniformProgress(run, tick, job_run.target_hours))):
        replays = _replay_to_deadlines(rule, run, paths, tick, deadlines, slow)
        found[name] = _job_outcome(job_run, slow, replays, paths, tick)
    return found


def _offline_optimum(job_run: JobRun, paths: Paths, tick: float, slow: Floats) -> Floats:
    """Return the offline optimum of the objective, the value of waiting included, for the first runs of a block.

    Computed at the expected speed and scaled with the length of the run, as its deadline is.
    """
    run, ticks = job_run.run, math.ceil(job_run.target_hours / tick - 1e-9)
    most = min(MAX_OPTIMA, max(MIN_OPTIMA, MAX_OPTIMUM_TICKS // ticks))
    slow = slow[:most]
    usd = _optimum_usd(run, paths, most, ticks, tick, job_run.target_hours)
    alone = (run.work_hours + run.restart_hours) * (run.on_demand_usd_per_hour + run.standing_usd_per_hour)
    none = np.zeros(slow.size)
    outside = job_run.usd(slow, none, none, none) + job_run.waiting_usd * slow * job_run.outside_run_hours
    return np.asarray(outside + slow * np.minimum(usd, alone))


def _optimum_usd(run: SpotRun, paths: Paths, most: int, ticks: int, tick: float, hours: float) -> Floats:
    """Return the offline optimum of the first `most` paths, over all zones where there are several."""
    up = paths.up[:most, :ticks]
    zones = paths.zones_up[:, :most, :ticks] if paths.zones_up is not None else None
    if zones is None and up.dtype != np.bool_:  # drawn: stays in turn in zone 1 and in zone 2
        zones = np.stack([up == zone for zone in (1, 2)])
    if zones is not None:
        return optimum_of_zones_usd(run, zones, tick, hours, [run.spot_usd_per_hour] * len(zones))
    return optimum_usd(run, up != 0, tick, hours)


def _job_outcome(job_run: JobRun, slow: Floats, replays: Replays, paths: Paths, tick: float) -> JobOutcome:
    """Return the outcome of the whole job; an unfinished run counts as it was when its path ended."""
    done = np.isfinite(replays.hours)
    hours = np.where(done, replays.hours, paths.up.shape[1] * tick)
    return JobOutcome(
        usd=job_run.usd(slow, replays.on_demand_hours, replays.spot_hours, hours)
        + replays.interruptions * job_run.run.hop_usd,
        hours=hours + slow * job_run.outside_run_hours,
        spot_share=replays.spot_share,
        interruptions=replays.interruptions.astype(float),
        wasted_hours=replays.wasted_hours,
        waiting_hours=replays.waiting_hours,
        done=done,
    )


def _on_demand_outcome(job_run: JobRun, slow: Floats) -> JobOutcome:
    """Return the outcome of runs on demand alone."""
    none, restart = np.zeros(slow.size), job_run.run.restart_hours
    hours = restart + slow * job_run.run.work_hours
    return JobOutcome(
        usd=job_run.usd(slow, hours, none, hours),
        hours=hours + slow * job_run.outside_run_hours,
        spot_share=none,
        interruptions=none,
        wasted_hours=none + restart,
        waiting_hours=none,
        done=np.ones(slow.size, dtype=bool),
    )


def _typical_timeline(
    job_run: JobRun, policy: Policy, paths: Paths, tick: float, slow: Floats, outcome: JobOutcome
) -> Timeline:
    """Return the timeline of a run with the median interruptions, and then the cost nearest to the median."""
    usual = outcome.interruptions == np.percentile(outcome.interruptions, 50, method="lower")
    at = int(np.argmin(np.where(usual, np.abs(outcome.usd - np.median(outcome.usd)), np.inf)))
    zones = None if paths.zones_up is None else paths.zones_up[:, [at]]
    deadline = float(_planned_deadlines(job_run, slow)[at])
    one = Paths(paths.up[[at]], paths.age_hours[[at]], zones, paths.names)
    return build_timeline(job_run, policy, one, tick, deadline, float(slow[at]))
