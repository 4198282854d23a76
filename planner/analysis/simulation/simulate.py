"""A plan replayed: many markets and speeds, and what came of them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.market_fit import read_traces_of
from planner.analysis.simulation.job_replay import ReplayedJob, replay_job, replay_without_spot, run_deadlines
from planner.analysis.simulation.job_runs import SPOT_ONLY, JobRun, build_job_runs
from planner.analysis.simulation.market_paths import (
    PathSource,
    RecordedWindows,
    SampledPaths,
    build_recorded_windows,
    choose_tick_hours,
)
from planner.analysis.simulation.statistics import (
    build_prediction,
    combine_jobs,
    compare_policies,
    histogram,
    share_within_budget,
    summarise_outcome,
)
from planner.analysis.simulation.timeline import build_timeline
from planner.audit.audit import audit
from planner.errors import Fault, ScenarioError
from planner.estimates.uncertainty import confidence_factor
from planner.results.simulation import PLANNED, JobReplays, ReplayMarket, Simulation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared

if TYPE_CHECKING:
    from pathlib import Path

    from planner.arrays import Floats
    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.spot.market.trace import Trace

RUNS = 10_000
MAX_RUNS = 1_000_000
SPEED_RANK_BOUNDS = (0.025, 0.975)
"""Speeds are drawn between these ranks and held there beyond: no data tell how far the tails of the estimate go."""
SPOT_ONLY_PATHS = 3.0
"""Hours that a path on spot alone has, over those that the plan has at its confidence."""

ProgressCallback = Callable[[int, int], None]
"""`progress(done, all)`: runs of all jobs."""


@dataclass(frozen=True)
class SimulationSettings:
    """How a plan is replayed."""

    runs: int  # at most
    seed: int
    traces: tuple[Trace, ...]
    exact_speed: bool


def simulate(
    scenario: Scenario,
    plan: Plan | None = None,
    *,
    traces: Sequence[str | Path] = (),
    runs: int = RUNS,
    seed: int = 0,
    exact_speed: bool = False,
    options: SolveOptions | None = None,
    library: Library | None = None,
    progress: ProgressCallback | None = None,
) -> Simulation:
    """The plan of a scenario under `runs` markets and speeds: cost, end, chance to meet the deadline, other policies.

    `plan`: replayed as it is, after an audit against the scenario; without one the scenario is solved.
    `traces`: files or folders of recorded markets (`planner.spot.market.trace_files`); windows of them take the place
    of markets drawn from the plan's own, spread evenly over all moments, at most `runs`.
    `exact_speed`: every run is as fast as expected; else its speed is drawn from the error of the estimate, one draw
    for all jobs, as the chance of a budget is told. The same seed gives the same answer.

    Raises InputError for runs, traces or a plan that cannot be used, and what `solve` raises; an infeasible scenario
    is a Simulation with that status.
    """
    started = perf_counter()
    if not 1 <= runs <= MAX_RUNS:
        what, fix = f"{runs:,} runs cannot be simulated", f"1 to {MAX_RUNS:,}"
        raise ScenarioError([Fault("simulate", 0, "runs", what, fix)])
    if seed < 0:
        raise ScenarioError([Fault("simulate", 0, "seed", f"{seed} is no seed", "0 or more")])
    read = tuple(read_traces_of(traces)) if traces else ()
    options = options or SolveOptions()
    prepared = prepare(scenario, library)
    if plan is None:
        plan = solve_prepared(prepared, options)
    else:
        _check_plan(plan, prepared)
    if not plan.jobs:
        return Simulation(
            scenario=scenario.name,
            status=plan.status,
            runs=runs,
            seed=seed,
            exact_speed=exact_speed,
            seconds=perf_counter() - started,
            as_of=(options.as_of or datetime.date.today()).isoformat(),
            infeasible=plan.infeasible,
            plan=plan,
        )
    return _simulation(prepared, plan, SimulationSettings(runs, seed, read, exact_speed), progress, started)


def _check_plan(plan: Plan, prepared: PreparedScenario) -> None:
    """A plan of another scenario, or one that was changed by hand, is refused."""
    violations = audit(plan, prepared.scenario, prepared.library)
    if violations:
        faults = [
            Fault("plan", 0, f"{one.job}: {one.what}" if one.job else one.what,
                  f"expected {one.expected}, found {one.found}", "planner check PLAN SCENARIO lists all")
            for one in violations[:5]
        ]  # fmt: skip
        raise ScenarioError(faults)


def _simulation(
    prepared: PreparedScenario, plan: Plan, asked: SimulationSettings, progress: ProgressCallback | None, started: float
) -> Simulation:
    courses = build_job_runs(prepared, plan)
    seeds = np.random.SeedSequence(asked.seed).spawn(len(courses) + 1)
    made = [_source(one, asked, np.random.default_rng(seed)) for one, seed in zip(courses, seeds[1:], strict=True)]
    sources = [source for source, _ in made]
    recorded_ones = [one for one in sources if isinstance(one, RecordedWindows)]
    # A window twice is no second market: there are no more runs than the traces have room for.
    runs = min(asked.runs, max((one.windows for one in recorded_ones), default=asked.runs))
    for one in recorded_ones:
        one.spread_evenly(runs)
    ranks = _ranks(runs, np.random.default_rng(seeds[0]))
    drawing, done = sum(one is not None for one in sources), 0

    def count(added: int) -> None:
        nonlocal done
        done += added
        if progress is not None:
            progress(done, runs * drawing)

    played = []
    for course, source in zip(courses, sources, strict=True):
        slow = np.ones(runs) if asked.exact_speed else confidence_factor(course.sigma, ranks)
        played.append(replay_without_spot(course, slow) if source is None else replay_job(course, source, slow, count))
    whole = combine_jobs(courses, [one.outcomes for one in played])
    spent = math.fsum(one.seconds for one, source in zip(played, sources, strict=True) if source is not None)
    notes = [note for _, said in made for note in said]
    return Simulation(
        scenario=plan.scenario,
        status=plan.status,
        runs=runs,
        seed=asked.seed,
        exact_speed=asked.exact_speed,
        **summarise_outcome(whole[PLANNED]),
        budget_usd=plan.budget_usd,
        budget_hit_rate=share_within_budget(whole[PLANNED], plan.budget_usd),
        policies=compare_policies(courses, played, whole),
        predicted=build_prediction(plan.jobs),
        jobs=tuple(_job(course, source, one) for course, source, one in zip(courses, sources, played, strict=True)),
        cost_histogram=histogram(whole[PLANNED].usd),
        hours_histogram=histogram(whole[PLANNED].hours),
        seconds=perf_counter() - started,
        runs_per_second=runs * drawing / spent if drawing else None,
        as_of=plan.as_of,
        notes=tuple(dict.fromkeys([*notes, *_notes(courses, asked)])),
        plan=plan,
    )


def _ranks(runs: int, rng: np.random.Generator) -> Floats:
    """A rank of the speed error for each run, evenly spread: chance shall not make the whole sample slow."""
    return np.clip((rng.permutation(runs) + rng.random(runs)) / runs, *SPEED_RANK_BOUNDS)


def _source(course: JobRun, asked: SimulationSettings, rng: np.random.Generator) -> tuple[PathSource | None, list[str]]:
    """Where the markets of a job come from, None for one that needs none; what is to be said of it."""
    if course.states is None:
        return None, []
    fast, slow = (
        (1.0, 1.0) if asked.exact_speed else confidence_factor(course.sigma, np.asarray(SPEED_RANK_BOUNDS)).tolist()
    )
    # Most hours are left to the run that is just slow enough for its guarantee to reach the deadline.
    latest = min(max(course.latest_hours / (course.target_hours + course.outside_run_hours), fast), slow)
    hours = float(run_deadlines(course, np.asarray([latest]))[0])
    if course.kind == SPOT_ONLY:
        hours = course.job.hours.at_confidence * (1.0 if asked.traces else SPOT_ONLY_PATHS)
    if not asked.traces:
        tick = choose_tick_hours(course.run, course.states, course.target_hours)
        return SampledPaths(course.states, math.ceil(hours / tick), tick, rng), []
    windows, short = build_recorded_windows(asked.traces, course.job.name, course.instances, hours)
    said = []
    if short:
        which = f"{len(short)} trace{'s' if len(short) > 1 else ''} of {len(asked.traces)}"
        said.append(f"{which} left out: shorter than the {hours:.1f} h that {course.job.name} may take")
    most = max(int(trace.available.max()) for trace in asked.traces)
    if most > course.instances:
        said.append(
            f"up to {most} machines were recorded: the market of {course.job.name} counts as up while any "
            f"{course.instances} of them {'are' if course.instances > 1 else 'is'} there"
        )
    return windows, said


def _job(course: JobRun, source: PathSource | None, played: ReplayedJob) -> JobReplays:
    one = course.job
    alone = combine_jobs([course], [played.outcomes])
    example = None
    if source is not None and played.policy is not None and played.representative is not None:
        example = build_timeline(course, played.policy, played.representative, source.tick_hours)
    return JobReplays(
        name=one.name,
        gpu=one.gpu,
        gpus=one.gpus,
        provider=one.provider,
        kind=course.kind,
        deadline_hours=one.deadline_hours,
        **summarise_outcome(alone[PLANNED]),
        predicted=build_prediction([one]),
        policies=compare_policies([course], [played], alone),
        market=_market(course, source),
        unfinished=float(np.mean(~played.outcomes[PLANNED].done)),
        told=example,
    )


def _market(course: JobRun, source: PathSource | None) -> ReplayMarket | None:
    if source is None or course.states is None:
        return None
    if isinstance(source, RecordedWindows):
        return ReplayMarket(
            source="traces",
            instances=course.instances,
            availability=source.availability,
            mean_up_hours=None,
            mean_outage_hours=None,
            tick_hours=source.tick_hours,
            traces=source.names,
            windows=source.windows,
        )
    up = course.states.up.mean()
    return ReplayMarket(
        source="states",
        instances=course.instances,
        availability=course.states.availability(),
        mean_up_hours=up if math.isfinite(up) else None,
        mean_outage_hours=course.states.down.mean(),
        tick_hours=source.tick_hours,
    )


def _notes(courses: Sequence[JobRun], asked: SimulationSettings) -> list[str]:
    """What a reader may take for more than it is."""
    notes = []
    drawing = [one for one in courses if one.states is not None]
    if asked.traces and not drawing:
        notes.append("no job of this plan runs on spot: the traces say nothing of it")
    basis = {one.job.spot.basis for one in drawing if one.job.spot and one.job.spot.basis}
    if basis and not asked.traces:
        notes.append("the market is a prior, not that of the offer: replay recorded ones with --trace")
    if len(drawing) > 1 and not asked.traces:
        notes.append("each job has a market of its own, drawn without regard to the others")
    if any(one.worth_usd for one in drawing):
        notes.append("over optimum: in what the plan minimises, dollars and what an hour of waiting is worth")
    if any(one.kind == SPOT_ONLY for one in courses):
        notes.append("spot alone keeps no deadline: nothing is rented on demand where it does not come")
    if any(one.job.trials > 1 for one in drawing):
        notes.append("trials side by side share one market, and are interrupted together")
    return notes
