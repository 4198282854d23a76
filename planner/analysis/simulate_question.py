"""Simulation of a plan: replays on many markets and at many speeds, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Unpack

import numpy as np

from planner import timetable
from planner.analysis.job_replay import (
    ReplayedJob,
    build_prediction,
    combine_jobs,
    compare_policies,
    distribution,
    histogram,
    outcomes_by_policy,
    replay_job,
    replay_without_spot,
    run_deadlines,
    summarise_outcome,
)
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
from planner.arrays import Floats
from planner.errors import Fault, ScenarioError, raise_faults
from planner.estimates.uncertainty import confidence_factor
from planner.evaluation.audit import audit
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.results.plan import Plan, require_plan
from planner.results.simulation import PLANNED, JobReplays, ReplayMarket, Simulation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.notes import SPOT_ONLY_NOTE
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared
from planner.subjects import subject_of
from planner.units import SPEED_RANK_BOUNDS
from planner.watch import tell

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
class Replays:
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
) -> Replays:
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
    return Replays(job_runs, sources, replayed, ranks)


def _simulation(
    prepared: PreparedScenario,
    plan: Plan,
    settings: SimulationSettings,
    progress: ProgressCallback | None,
    started: float,
) -> Simulation:
    found = replay_jobs(prepared, plan, settings, progress)
    job_runs, sources, replayed, runs = found.job_runs, found.sources, found.jobs, found.ranks.size
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
        notes=tuple(dict.fromkeys([*found.notes, *notes_of_jobs(job_runs, settings)])),
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
    one = job_run.job
    alone = combine_jobs([one], {name: [outcome] for name, outcome in replayed.outcomes.items()})
    in_turn = {} if moved is None else _in_turn(job_run, moved)
    return JobReplays(
        name=one.name,
        gpu=one.gpu,
        gpus=one.gpus,
        provider=one.provider,
        kind=job_run.kind.value,
        deadline_hours=one.deadline_hours,
        **(summarise_outcome(alone[PLANNED]) | in_turn),
        predicted=build_prediction([one]),
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
