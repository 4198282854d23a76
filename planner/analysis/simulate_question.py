"""Simulation of a plan: its jobs replayed on many markets and at many speeds, one replay event by event, statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from planner import timetable
from planner.analysis.job_runs import JobRun, RunKind, build_job_runs
from planner.analysis.market_paths import (
    PathSource,
    RecordedWindows,
    SampledPaths,
    SimulationArguments,
    SimulationSettings,
    build_recorded_windows,
    choose_tick_hours,
    rarely_available,
)
from planner.arrays import Flags, Floats, Integers
from planner.errors import Fault, ScenarioError, raise_faults
from planner.estimates.uncertainty import confidence_factor
from planner.evaluation.audit import audit
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.results.plan import Assignment, Plan, require_plan
from planner.results.simulation import (
    GREEDY,
    ON_DEMAND_ONLY,
    OPTIMUM,
    PLANNED,
    UNIFORM,
    Distribution,
    Histogram,
    JobReplays,
    PlanPrediction,
    PolicyFigures,
    ReplayMarket,
    Simulation,
    Timeline,
    TimelineSegment,
    ZoneTimes,
)
from planner.results.subject_runs import RlRun
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.notes import SPOT_ONLY_NOTE
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared
from planner.spot.replayed_runs import (
    RUNS_PER_BLOCK,
    Greedy,
    Replays,
    SpotOnly,
    UniformProgress,
    apply_safety_net,
    optimum_of_zones_usd,
    optimum_usd,
    replay,
)
from planner.spot.run import Action, Policy, SpotRun
from planner.spot.states import Paths
from planner.spot.switching_policy import SwitchingPolicy
from planner.subjects import subject_of
from planner.units import SPEED_RANK_BOUNDS
from planner.watch import tell

if TYPE_CHECKING:
    from collections.abc import Mapping


SPOT_ONLY_PATHS = 3.0
"""Hours of a path on spot alone, over those of the plan at its confidence."""

IN_TURN_NOTE = (
    "a job that is late moves those that wait for it or for its machines; the order of the plan holds, and nothing "
    "starts before its planned start"
)
"""A note of every simulation of a timetable."""

ProgressCallback = Callable[[int, int], None]
"""`progress(done, all)`: runs of all jobs."""


def simulate(
    scenario: Asked,
    plan: Plan | None = None,
    *,
    options: SolveOptions | None = None,
    library: Library | None = None,
    progress: ProgressCallback | None = None,
    **arguments: Unpack[SimulationArguments],
) -> Simulation:
    """Replay the plan of a scenario on many markets and at many speeds.

    Parameters
    ----------
    plan
        Replayed as it is, after an audit against the scenario; without one the scenario is solved. Services next to the
        jobs are simulated too, as `simulate_service` does.
    progress
        Receives the finished runs and all runs, of all jobs.
    **arguments
        `traces`: files or folders of recorded markets (`planner.spot.trace_formats`); windows of them, evenly
        spread over all moments and at most `runs`, replace markets drawn from the plan's own.
        `together`: the traces are zones of the same times, among which a run moves; else each is a market of its own.
        `preempted`: in the traces 1 means that the machine was taken away.
        `runs`: number of markets and speeds, 10,000 unless given. `seed`: the same seed gives the same answer.
        `exact_speed`: every run is as fast as expected; else its speed is drawn from the error of the estimate, one
        draw for all jobs, as for the probability of the budget.

    Raises
    ------
    InputError
        For runs, traces or a plan that cannot be used, and what `solve` raises. An infeasible scenario is a Simulation
        with that status.

    Examples
    --------
    >>> planner.simulate("quickstart", runs=100, seed=1).runs
    100
    """
    scenario = as_scenario(scenario)
    if plan is not None:
        require_plan(plan)
    if (subject := subject_of(scenario)) is not None:
        return subject.simulate(scenario, plan, options, library, progress, arguments)
    started = perf_counter()
    settings = SimulationSettings.of(**arguments)
    options = options or SolveOptions()
    scenario = scenario.on_day(options.as_of)
    prepared = prepare(scenario, library)
    if plan is None:
        plan = solve_prepared(prepared, options)
    else:
        check_plan(plan, scenario, prepared.library)
    if not plan.jobs:
        return without_runs(plan, settings, perf_counter() - started)
    return _simulation(prepared, plan, settings, progress, started)


def without_runs(plan: Plan, settings: SimulationSettings, seconds: float) -> Simulation:
    """Return the simulation of a scenario that has no plan."""
    return Simulation(
        scenario=plan.scenario,
        status=plan.status,
        runs=settings.runs,
        seed=settings.seed,
        exact_speed=settings.exact_speed,
        seconds=seconds,
        as_of=plan.as_of,
        infeasible=plan.infeasible,
        plan=plan,
    )


def check_plan(plan: Plan, scenario: Scenario, library: Library) -> None:
    """Refuse a plan of another scenario, or one that was changed by hand."""
    faults = [
        Fault(
            "plan",
            0,
            f"{violation.job}: {violation.what}".removeprefix(": "),
            f"expected {violation.expected}, found {violation.found}",
            "planner check PLAN SCENARIO lists all",
        )
        for violation in audit(plan, scenario, library)[:5]
    ]
    raise_faults(faults, ScenarioError)


@dataclass(frozen=True)
class PlanReplays:
    """All runs of the jobs that the core planned, one after the other."""

    job_runs: Sequence[JobRun]
    sources: list[PathSource | None]
    jobs: list[ReplayedJob]
    ranks: Floats  # (runs,) of the error of the speed, one draw for all jobs

    @property
    def notes(self) -> list[str]:
        """What recorded markets say."""
        return [note for source in self.sources if isinstance(source, RecordedWindows) for note in source.notes]


def replay_jobs(
    prepared: PreparedScenario, plan: Plan, settings: SimulationSettings, progress: ProgressCallback | None
) -> PlanReplays:
    """Return the runs of each job of a plan by itself."""
    job_runs = build_job_runs(prepared, plan)
    seeds = np.random.SeedSequence(settings.seed).spawn(len(job_runs) + 1)
    drawn_by = zip(job_runs, seeds[1:], strict=True)
    sources = [_source(job_run, settings, np.random.default_rng(seed)) for job_run, seed in drawn_by]
    recorded_ones = [source for source in sources if isinstance(source, RecordedWindows)]
    # A repeated window is no second market: there are no more runs than windows.
    runs = min(settings.runs, max((recorded_one.windows for recorded_one in recorded_ones), default=settings.runs))
    for recorded_one in recorded_ones:
        recorded_one.spread_evenly(runs)
    ranks = draw_ranks(runs, np.random.default_rng(seeds[0]))
    count = _counter(runs * sum(source is not None for source in sources), progress)
    replayed = []
    for job_run, source in zip(job_runs, sources, strict=True):
        slow = np.ones(runs) if settings.exact_speed else confidence_factor(job_run.sigma, ranks)
        replayed.append(
            replay_without_spot(job_run, slow) if source is None else replay_job(job_run, source, slow, count)
        )
    return PlanReplays(job_runs, sources, replayed, ranks)


def _simulation(
    prepared: PreparedScenario,
    plan: Plan,
    settings: SimulationSettings,
    progress: ProgressCallback | None,
    started: float,
) -> Simulation:
    replays = replay_jobs(prepared, plan, settings, progress)
    job_runs, sources, replayed, runs = replays.job_runs, replays.sources, replays.jobs, replays.ranks.size
    drawing = sum(source is not None for source in sources)
    shift = partial(timetable.shift_timetable, plan, prepared.scenario, prepared.library)
    shifted = {name: shift(outcomes) for name, outcomes in outcomes_by_policy(replayed).items()}
    reserved_usd = math.fsum(reservation.usd for reservation in plan.reservations)
    whole = combine_jobs(plan.jobs, {k: [m.outcome for m in v] for k, v in shifted.items()}, reserved_usd)
    spent = math.fsum(replay.seconds for replay, source in zip(replayed, sources, strict=True) if source is not None)
    budget = plan.budget_usd
    return Simulation(
        scenario=plan.scenario,
        status=plan.status,
        runs=runs,
        seed=settings.seed,
        exact_speed=settings.exact_speed,
        **summarise_outcome(whole[PLANNED]),
        budget_usd=budget,
        budget_hit_rate=None if budget is None else float(np.mean(whole[PLANNED].usd <= budget * (1 + 1e-9))),
        policies=compare_policies(job_runs, replayed, whole),
        predicted=build_prediction(plan.jobs, reserved_usd),
        jobs=tuple(
            replays_of_job(job_run, source, replay, moved if plan.is_timetable else None)
            for job_run, source, replay, moved in zip(job_runs, sources, replayed, shifted[PLANNED], strict=True)
        ),
        cost_histogram=histogram(whole[PLANNED].usd),
        hours_histogram=histogram(whole[PLANNED].hours),
        seconds=perf_counter() - started,
        runs_per_second=runs * drawing / spent if drawing else None,
        as_of=plan.as_of,
        notes=tuple(dict.fromkeys([*replays.notes, *notes_of_jobs(job_runs, settings)])),
        plan=plan,
    )


def _counter(runs: int, progress: ProgressCallback | None) -> Callable[[int], None]:
    """Return what takes how many more of all runs are done, and says how many are."""
    done = 0

    def count(added: int) -> None:
        nonlocal done
        done += added
        tell("runs", done, runs)
        if progress is not None:
            progress(done, runs)

    return count


def draw_ranks(runs: int, rng: np.random.Generator) -> Floats:
    """Return a rank of the speed error for each run, stratified: no sample is slow as a whole."""
    return np.clip((rng.permutation(runs) + rng.random(runs)) / runs, *SPEED_RANK_BOUNDS)


def _source(job_run: JobRun, settings: SimulationSettings, rng: np.random.Generator) -> PathSource | None:
    """Return the source of a job's markets; None where it needs none."""
    if job_run.states is None:
        return None
    bounds = np.asarray(SPEED_RANK_BOUNDS)
    fast, slow = (1.0, 1.0) if settings.exact_speed else confidence_factor(job_run.sigma, bounds).tolist()
    # The run that is just slow enough for its guarantee to reach the deadline has the most hours.
    latest = min(max(job_run.latest_hours / (job_run.target_hours + job_run.outside_run_hours), fast), slow)
    hours = float(run_deadlines(job_run, np.asarray([latest]))[0])
    if job_run.kind == RunKind.SPOT:
        hours = job_run.job.hours.at_confidence * (1.0 if settings.traces else SPOT_ONLY_PATHS)
    if not settings.traces:
        tick = choose_tick_hours(job_run.run, job_run.states, job_run.target_hours)
        return SampledPaths(job_run.states, math.ceil(hours / tick - 1e-9), tick, rng)
    return build_recorded_windows(settings.traces, job_run.job.name, job_run.instances, hours, settings.together)


def replays_of_job(
    job_run: JobRun, source: PathSource | None, replayed: ReplayedJob, moved: timetable.ShiftedJob | None
) -> JobReplays:
    """Return the figures of one job; of a timetable its deadline counts from the start of the plan."""
    job = job_run.job
    alone = combine_jobs([job], {name: [outcome] for name, outcome in replayed.outcomes.items()})
    in_turn = {} if moved is None else _in_turn(job_run, moved)
    return JobReplays(
        name=job.name,
        gpu=job.gpu,
        gpus=job.gpus,
        provider=job.provider,
        kind=job_run.kind.value,
        deadline_hours=job.deadline_hours,
        **(summarise_outcome(alone[PLANNED]) | in_turn),
        predicted=build_prediction([job]),
        policies=compare_policies([job_run], [replayed], alone),
        market=_market(job_run, source),
        unfinished=float(np.mean(~replayed.outcomes[PLANNED].done)),
        told=replayed.timeline,
    )


def _in_turn(job_run: JobRun, moved: timetable.ShiftedJob) -> dict[str, Any]:
    """Return when a job of a timetable starts and ends, whether it ends in time, and whether its machines are there."""
    (whole,) = combine_jobs([job_run.job], {PLANNED: [moved.outcome]}).values()
    return {
        "start_at_hours": distribution(moved.starts),
        "end_at_hours": distribution(moved.outcome.hours),
        "deadline_hit_rate": None if whole.met is None else float(np.mean(whole.met)),
        "outlasts_machines": float(np.mean(moved.outlasts)),
    }


def _market(job_run: JobRun, source: PathSource | None) -> ReplayMarket | None:
    if source is None or job_run.states is None:
        return None
    recorded, up = source if isinstance(source, RecordedWindows) else None, job_run.states.up.mean()
    return ReplayMarket(
        source="traces" if recorded else "states",
        instances=job_run.instances,
        availability=recorded.availability if recorded else job_run.states.availability(),
        mean_up_hours=up if math.isfinite(up) and not recorded else None,
        mean_outage_hours=None if recorded else job_run.states.down.mean(),
        tick_hours=source.tick_hours,
        traces=recorded.names if recorded else (),
        windows=recorded.windows if recorded else None,
    )


def notes_of_jobs(job_runs: Sequence[JobRun], settings: SimulationSettings) -> list[str]:
    """Return notes on what the figures do not show."""
    drawing = [job_run for job_run in job_runs if job_run.states is not None]
    has_prior = any(job_run.job.spot and job_run.job.spot.basis for job_run in drawing)
    notes = {
        "no job of this plan runs on spot: the traces are not used": settings.traces and not drawing,
        "the market is a prior, not measured for the offer: first fit recorded traces (planner market fit TRACE) and "
        "paste the block into the offer, or replay the traces": (has_prior and not settings.traces),
        "each job has its own market, drawn independently of the others": len(drawing) > 1 and not settings.traces,
        "over optimum: in the objective of the plan, dollars plus the value of waiting hours": any(
            job_run.waiting_usd for job_run in drawing
        ),
        SPOT_ONLY_NOTE: any(job_run.kind == RunKind.SPOT for job_run in job_runs),
        "concurrent trials share one market and are interrupted together": any(
            job_run.job.trials > 1 for job_run in drawing
        ),
        IN_TURN_NOTE: any(job_run.job.end_at_hours is not None for job_run in job_runs),
    }
    shares = [(trace.name, float((trace.available > 0).mean())) for trace in settings.traces]
    return [*rarely_available(shares), *(note for note, holds in notes.items() if holds)]


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
    times = []
    for name, flags in zip(path.names, path.zones_up[:, 0], strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]))) * tick_hours
        spans = ((float(a), min(float(b), end_hours)) for a, b in edges.reshape(-1, 2) if a < end_hours)
        times.append(ZoneTimes(zone=name, up=tuple(spans)))
    return tuple(times)


MAX_OPTIMUM_TICKS = 1_200_000
"""Runs times ticks for which the offline optimum is computed: it is much slower than a replay."""
MIN_OPTIMA, MAX_OPTIMA = 64, 1000


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class ReplayedJob:
    """All runs of one job."""

    outcomes: dict[str, JobOutcome]  # by policy, the planned one first
    optimum: Floats | None  # (first runs,) least value of the objective; None where there is nothing to compare
    timeline: Timeline | None  # of a typical run under the planned policy
    seconds: float  # of one core for the planned policy, its market drawn


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        replays = _replay_to_deadlines(policy, job_run.run, paths, tick, _planned_deadlines(job_run, slow), slow)
        planned = _job_outcome(job_run, slow, replays, paths, tick)
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
    outcomes = {ON_DEMAND_ONLY: _on_demand_outcome(job_run, slow)}
    for name, rule in ((GREEDY, Greedy(run, tick)), (UNIFORM, UniformProgress(run, tick, job_run.target_hours))):
        replays = _replay_to_deadlines(rule, run, paths, tick, deadlines, slow)
        outcomes[name] = _job_outcome(job_run, slow, replays, paths, tick)
    return outcomes


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
    path = Paths(paths.up[[at]], paths.age_hours[[at]], zones, paths.names)
    return build_timeline(job_run, policy, path, tick, deadline, float(slow[at]))


HISTOGRAM_BINS = 60
HISTOGRAM_TAIL_PERCENT = 0.5
"""Percent of the runs at either end that the first and last bin of a histogram take in."""
DEADLINE_TOLERANCE_HOURS = 1e-6
"""Hours that rounding may make of a run that ends at its deadline."""


@dataclass(frozen=True)
class PlanOutcome(JobOutcome):
    """All jobs of a plan together; `met`: (runs,) whether each deadline was, None where there is none."""

    met: Flags | None


def combine_jobs(
    jobs: Sequence[Assignment | RlRun], outcomes: Mapping[str, Sequence[JobOutcome]], fixed_usd: float = 0.0
) -> dict[str, PlanOutcome]:
    """Return the whole plan by policy: dollars and interruptions add up, the last end is the end.

    `fixed_usd` is paid next to the jobs, for reservations.
    """
    combined = {name: _combine_policy(jobs, several) for name, several in outcomes.items()}
    return {name: replace(outcome, usd=outcome.usd + fixed_usd) for name, outcome in combined.items()}


def outcomes_by_policy(replayed: Sequence[ReplayedJob]) -> dict[str, list[JobOutcome]]:
    """Return the outcomes of all jobs by policy; a job to which a policy does not apply stays as planned."""
    names = dict.fromkeys(name for job in replayed for name in job.outcomes)
    return {name: [job.outcomes.get(name, job.outcomes[PLANNED]) for job in replayed] for name in names}


def _combine_policy(jobs: Sequence[Assignment | RlRun], several: Sequence[JobOutcome]) -> PlanOutcome:
    weights = np.asarray([max(1, job.gpus) * job.runs_at_once * job.hours.expected for job in jobs])
    on_time = [
        outcome.done & (outcome.hours <= job.deadline_hours + DEADLINE_TOLERANCE_HOURS)
        for job, outcome in zip(jobs, several, strict=True)
        if job.deadline_hours is not None
    ]
    added = ("usd", "interruptions", "wasted_hours", "waiting_hours")
    return PlanOutcome(
        **{name: np.sum([getattr(outcome, name) for outcome in several], axis=0) for name in added},
        hours=np.max([outcome.hours for outcome in several], axis=0),
        spot_share=np.average([outcome.spot_share for outcome in several], axis=0, weights=weights),
        done=np.all([outcome.done for outcome in several], axis=0),
        met=np.all(on_time, axis=0) if on_time else None,
    )


def summarise_outcome(whole: PlanOutcome) -> dict[str, Any]:
    """Return the fields of `Figures`."""
    means = ("spot_share", "interruptions", "wasted_hours", "waiting_hours")
    return {
        "cost_usd": distribution(whole.usd),
        "hours": distribution(whole.hours),
        "deadline_hit_rate": None if whole.met is None else float(np.mean(whole.met)),
        **{name: float(np.mean(getattr(whole, name))) for name in means},
    }


def compare_policies(
    job_runs: Sequence[JobRun], replayed: Sequence[ReplayedJob], whole: Mapping[str, PlanOutcome]
) -> dict[str, PolicyFigures]:
    """Return every policy with its cost above the offline optimum, which comes last.

    The optimum is known for the first runs only. There its distance to the plan is taken, whose mean over all runs is
    known (control variate): this errs much less than the mean of the optimum over a few runs.
    """
    pairs = list(zip(job_runs, replayed, strict=True))
    if all(replay.optimum is None for replay in replayed):
        whole_plan = summarise_outcome(whole[PLANNED])
        return {PLANNED: PolicyFigures(**whole_plan, usd_over_optimum=None, share_over_optimum=None)}
    below = math.fsum(  # of the optimum under the plan, in the objective
        float(np.mean(_objective_values(job_run, replay, PLANNED)[: replay.optimum.size] - replay.optimum))
        for job_run, replay in pairs
        if replay.optimum is not None
    )
    means = {name: math.fsum(float(np.mean(_objective_values(*pair, name))) for pair in pairs) for name in whole}
    least = means[PLANNED] - below
    figures = {
        name: PolicyFigures(
            **summarise_outcome(outcome),
            usd_over_optimum=means[name] - least,
            share_over_optimum=(means[name] - least) / least if least > 0 else None,
        )
        for name, outcome in whole.items()
    }
    paid = None if any(job_run.waiting_usd for job_run in job_runs) else _optimum_cost(replayed, least)
    figures[OPTIMUM] = PolicyFigures(cost_usd=paid, usd_over_optimum=0.0, share_over_optimum=0.0)
    return figures


def _objective_values(job_run: JobRun, replayed: ReplayedJob, name: str) -> Floats:
    """Return the objective of the plan, (runs,): dollars plus the value of the hours."""
    outcome = replayed.outcomes.get(name, replayed.outcomes[PLANNED])
    return np.asarray(outcome.usd + job_run.waiting_usd * outcome.hours)


def _optimum_cost(replayed: Sequence[ReplayedJob], mean: float) -> Distribution:
    """Return the dollars of the offline optimum: quantiles of the first runs, with the mean over all."""
    first = min(replay.optimum.size for replay in replayed if replay.optimum is not None)
    usd = np.sum(
        [(replay.outcomes[PLANNED].usd if replay.optimum is None else replay.optimum)[:first] for replay in replayed],
        axis=0,
    )
    return distribution(usd).model_copy(update={"mean": mean})


def distribution(values: Floats) -> Distribution:
    """Return mean and quantiles of (runs,)."""
    p05, p50, p95 = np.percentile(values, (5, 50, 95)).tolist()
    return Distribution(mean=float(np.mean(values)), p05=p05, p50=p50, p95=p95)


def histogram(values: Floats) -> Histogram:
    """Return counts in `HISTOGRAM_BINS` bins of one width; one bin where all values are the same."""
    tail = HISTOGRAM_TAIL_PERCENT
    low, high = np.percentile(values, (tail, 100 - tail)).tolist()
    if high - low <= 1e-9 * abs(high):
        return Histogram(edges=(low, high), counts=(values.size,))
    counts, edges = np.histogram(np.clip(values, low, high), bins=HISTOGRAM_BINS, range=(low, high))
    return Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()))


def build_prediction(jobs: Sequence[Assignment], fixed_usd: float = 0.0) -> PlanPrediction:
    """Return what a plan predicts for its jobs together; `fixed_usd` is paid next to them, for reservations."""
    chances = [job.deadline_probability for job in jobs if job.deadline_probability is not None]
    policies = [job.spot for job in jobs if job.spot is not None]
    known = all(job.spot is not None or job.spot_share <= 0 for job in jobs)
    weights = [max(1, job.gpus) * job.runs_at_once * job.hours.expected for job in jobs]
    sums = {
        name: math.fsum(getattr(policy, name) for policy in policies) if known else None
        for name in ("interruptions", "wasted_hours", "waiting_hours")
    }
    return PlanPrediction(
        cost_usd=fixed_usd + math.fsum(job.cost_usd for job in jobs),
        hours=max(job.delay_hours + job.hours.expected for job in jobs),
        # One error of the speed for all jobs: the least likely deadline is met no more rarely than all of them.
        deadline_probability=min(chances, default=None),
        at_least=bool(policies),
        spot_share=float(np.average([job.spot_share for job in jobs], weights=weights)),
        **sums,
    )
