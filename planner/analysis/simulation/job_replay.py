"""One job of a plan over many runs: its own policy and the others, on the same markets at the same speeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.simulation.job_runs import MIX, POLICY, JobRun
from planner.results.simulation import GREEDY, ON_DEMAND_ONLY, PLANNED, UNIFORM
from planner.spot.policy.baseline_policies import Greedy, SpotOnly, UniformProgress, apply_safety_net
from planner.spot.policy.switching_policy import best_policy
from planner.spot.replay.offline_optimum import optimum_usd
from planner.spot.replay.replay import RUNS_PER_BLOCK, Replays, replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.analysis.simulation.market_paths import PathSource
    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.sampling import Paths
    from planner.spot.policy.run import Policy, SpotRun

MAX_OPTIMUM_TICKS = 1_200_000
"""Runs times ticks that the all-knowing optimum is computed for: it is much slower than a replay."""
FEWEST_OPTIMA, MOST_OPTIMA = 64, 1000


@dataclass(frozen=True)
class JobOutcome:
    """What came of each run of a whole job; arrays of shape (runs,)."""

    usd: Floats
    hours: Floats  # for runs that were not done: until their path ended
    spot_share: Floats
    interruptions: Floats
    wasted_hours: Floats
    waiting_hours: Floats
    done: Flags

    @classmethod
    def joined(cls, parts: list[JobOutcome]) -> JobOutcome:
        """Blocks of runs, in order."""
        return cls(**{one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)})


@dataclass(frozen=True)
class RepresentativeRun:
    """One run that can be told: its path and speed; `deadline_hours` of the run."""

    up: Flags  # (ticks,)
    age_hours: float
    slowness: float
    deadline_hours: float
    usd: float
    interruptions: int


@dataclass(frozen=True)
class ReplayedJob:
    """All runs of one job."""

    outcomes: dict[str, JobOutcome]  # by policy, the planned one first
    optimum: Floats | None  # (first runs,) least of what the plan minimises; None where there is nothing to compare
    representative: RepresentativeRun | None
    policy: Policy | None
    seconds: float  # of one core for the planned policy, its market drawn


@dataclass(frozen=True)
class DeadlinePolicy:
    """A policy whose runs have different deadlines: the replay's is the last of them.

    For the runs of one block of a replay, which are all decided on at once.
    """

    policy: Policy
    early_hours: Floats  # (runs,) by which each deadline comes before the replay's
    name: str = "aimed"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """As the policy does, by each run's own deadline."""
        return self.policy.decide(work_left, hours_left - self.early_hours, up, age_hours, running)


@dataclass(frozen=True)
class DeadlineUniformProgress:
    """Uniform progress towards different deadlines of different amounts of work, the safety net in true hours."""

    rule: UniformProgress
    early_hours: Floats
    deadlines: Floats
    slowness: Floats
    name: str = "uniform progress"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """The rule knows one amount of work and one deadline: hours are shown to it in their proportion."""
        left = hours_left - self.early_hours
        pace = self.rule.deadline_hours / self.deadlines
        asked = self.rule.decide(work_left / self.slowness, left * pace, up, age_hours, running)
        return apply_safety_net(self.rule.run, self.rule.tick_hours, asked, left - work_left, running)


def planned_policy(course: JobRun, tick_hours: float) -> Policy:
    """The policy that a plan follows: its table, or spot and nothing else."""
    if course.kind == POLICY and course.states is not None:
        return best_policy(course.run, course.states, course.target_hours, tick_hours=tick_hours)
    return SpotOnly(name=PLANNED)


def run_deadlines(course: JobRun, slowness: Floats) -> Floats:
    """Hours within which each run shall end: as guaranteed, in proportion to its length, and by the deadline."""
    latest = course.latest_hours - slowness * course.outside_run_hours
    return np.asarray(np.minimum(slowness * course.target_hours, latest))


def replay_without_spot(course: JobRun, slowness: Floats) -> ReplayedJob:
    """A job without spot: hours and what hangs on them grow with the error of the speed."""
    started = process_time()
    hours = slowness * course.run.work_hours
    outcome = _outcome(course, slowness, hours, hours)
    return ReplayedJob({PLANNED: outcome}, None, None, None, process_time() - started)


def replay_job(course: JobRun, source: PathSource, slowness: Floats, progress: Callable[[int], None]) -> ReplayedJob:
    """A job that spot has a part in, and the same work under the other policies.

    `progress` is told how many runs have been added.
    """
    policy = planned_policy(course, source.tick_hours)
    parts: list[dict[str, JobOutcome]] = []
    optimum, specimen, seconds = None, None, 0.0
    for first in range(0, slowness.size, RUNS_PER_BLOCK):
        numbers = np.arange(first, min(first + RUNS_PER_BLOCK, slowness.size))
        slow = slowness[numbers]
        started = process_time()
        paths = source.paths(numbers)
        found = _replay_planned(course, policy, paths, source.tick_hours, slow)
        parts.append({PLANNED: _job_outcome(course, slow, found, paths, source.tick_hours)})
        seconds += process_time() - started
        if not first:
            specimen = _representative_run(course, paths, slow, parts[0][PLANNED])
        if math.isfinite(course.run.on_demand_usd_per_hour):
            parts[-1] |= _replay_baselines(course, paths, source.tick_hours, slow)
            if not first:
                optimum = _offline_optimum(course, paths, source.tick_hours, slow)
        progress(numbers.size)
    outcomes = {name: JobOutcome.joined([part[name] for part in parts]) for name in parts[0]}
    return ReplayedJob(outcomes, optimum, specimen, policy, seconds)


def _replay_planned(course: JobRun, policy: Policy, paths: Paths, tick: float, slow: Floats) -> Replays:
    if course.kind == POLICY:
        return _replay_to_deadlines(policy, course.run, paths, tick, run_deadlines(course, slow), slow)
    return replay(policy, course.run, paths.up, tick, _latest_switch_hours(course, slow), slow, paths.age_hours)


def _replay_to_deadlines(
    policy: Policy, run: SpotRun, paths: Paths, tick: float, deadlines: Floats, slow: Floats
) -> Replays:
    """Replays of runs that each have their own deadline."""
    last = float(deadlines.max())
    if isinstance(policy, UniformProgress):
        policy = DeadlineUniformProgress(policy, last - deadlines, deadlines, slow)
    elif np.ptp(deadlines) > 0:
        policy = DeadlinePolicy(policy, last - deadlines)
    up = paths.up[:, : math.ceil(last / tick - 1e-9)]
    return replay(policy, run, up, tick, last, slow, paths.age_hours)


def _replay_baselines(course: JobRun, paths: Paths, tick: float, slow: Floats) -> dict[str, JobOutcome]:
    """The policies to compare with: the same work, deadlines, paths and speeds."""
    run, deadlines = course.run, run_deadlines(course, slow)
    alone = run.restart_hours + slow * run.work_hours
    found = {ON_DEMAND_ONLY: _outcome(course, slow, alone, alone, wasted=np.full(slow.size, run.restart_hours))}
    for name, rule in ((GREEDY, Greedy(run, tick)), (UNIFORM, UniformProgress(run, tick, course.target_hours))):
        replays = _replay_to_deadlines(rule, run, paths, tick, deadlines, slow)
        found[name] = _job_outcome(course, slow, replays, paths, tick)
    return found


def _offline_optimum(course: JobRun, paths: Paths, tick: float, slow: Floats) -> Floats:
    """What an all-knowing renter pays, hours of waiting counted at their worth; the first runs of a block.

    Computed at the expected speed and taken in proportion to the length of the run, as its deadline is.
    """
    run, ticks = course.run, math.ceil(course.target_hours / tick - 1e-9)
    most = min(MOST_OPTIMA, max(FEWEST_OPTIMA, MAX_OPTIMUM_TICKS // ticks))
    up, slow = paths.up[:most, :ticks], slow[:most]
    usd = optimum_usd(run, up, tick, course.target_hours)
    alone = (run.work_hours + run.restart_hours) * (run.on_demand_usd_per_hour + run.standing_usd_per_hour)
    none = np.zeros(slow.size)
    beside = course.usd(slow, none, none, none) + course.worth_usd * slow * course.outside_run_hours
    return np.asarray(beside + slow * np.minimum(usd, alone))


def _job_outcome(course: JobRun, slow: Floats, replays: Replays, paths: Paths, tick: float) -> JobOutcome:
    """The whole job; a run that was not done is told as it was when its path ended."""
    done = np.isfinite(replays.hours)
    hours = np.where(done, replays.hours, paths.up.shape[1] * tick)
    return JobOutcome(
        usd=course.usd(slow, replays.on_demand_hours, replays.spot_hours, hours),
        hours=hours + slow * course.outside_run_hours,
        spot_share=replays.spot_share,
        interruptions=replays.interruptions.astype(float),
        wasted_hours=replays.wasted_hours,
        waiting_hours=replays.waiting_hours,
        done=done,
    )


def _outcome(course: JobRun, slow: Floats, hours: Floats, demand: Floats, wasted: Floats | None = None) -> JobOutcome:
    """Runs on demand alone."""
    none = np.zeros(slow.size)
    return JobOutcome(
        usd=course.usd(slow, demand, none, hours),
        hours=hours + slow * course.outside_run_hours,
        spot_share=none,
        interruptions=none,
        wasted_hours=none if wasted is None else wasted,
        waiting_hours=none,
        done=np.ones(slow.size, dtype=bool),
    )


def _representative_run(course: JobRun, paths: Paths, slow: Floats, outcome: JobOutcome) -> RepresentativeRun:
    """A run as most are: of those with the usual number of interruptions, that with the cost nearest to the median."""
    usual = outcome.interruptions == np.percentile(outcome.interruptions, 50, method="lower")
    at = int(np.argmin(np.where(usual, np.abs(outcome.usd - np.median(outcome.usd)), np.inf)))
    return RepresentativeRun(
        up=paths.up[at],
        age_hours=float(paths.age_hours[at]),
        slowness=float(slow[at]),
        deadline_hours=float(run_deadlines(course, slow)[at])
        if course.kind == POLICY
        else _latest_switch_hours(course, slow),
        usd=float(outcome.usd[at]),
        interruptions=int(outcome.interruptions[at]),
    )


def _latest_switch_hours(course: JobRun, slow: Floats) -> float:
    """Hours after which a mix goes on demand, as a replay does after its deadline; inf where that is not sold."""
    return math.inf if course.kind != MIX else min(course.switch_hours, float(run_deadlines(course, slow).max()))
