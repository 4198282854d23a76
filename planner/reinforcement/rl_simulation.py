"""A plan of kind rl replayed step by step: answers of drawn lengths, engines on spot that are lost and come back.

Nothing of the formulas of a rollout and of spot is used: answers are decoded on engines in small stretches of time, and
each machine has a market of its own. What is shared are the seconds of one token and of the trainer.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.analysis.market_paths import SimulationSettings
from planner.analysis.simulate_question import (
    JobOutcome,
    PlanReplays,
    build_prediction,
    check_plan,
    combine_jobs,
    distribution,
    draw_ranks,
    histogram,
    notes_of_jobs,
    replay_jobs,
    replays_of_job,
    summarise_outcome,
    without_runs,
)
from planner.candidates.market import market_of_nodes, spot_markets
from planner.errors import Fault, ScenarioError
from planner.estimates.billing import round_up_hours
from planner.estimates.generation import decode_step_seconds, prompt_seconds, seen_tokens
from planner.estimates.stage_seconds import NodeGroupCoefficients
from planner.estimates.uncertainty import confidence_factor, student_2_deviations, tail_of_68_percent
from planner.reinforcement.evaluated_rl import EvaluatedRl, NamedRl, evaluate_rl
from planner.reinforcement.rl_chain import jobs_of_chain, runs_of
from planner.reinforcement.rl_estimate import step_sigma
from planner.results.simulation import PLANNED, JobReplays, PlanPrediction, ReplayMarket, Simulation, StepReplays
from planner.solving.prepare import prepare
from planner.solving.solve import solve
from planner.spot.states import LENGTH_BIAS_POOL_SIZE, SpotStates, ages_draw
from planner.units import HOUR
from planner.watch import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.random import Generator, SeedSequence

    from planner.analysis.market_paths import SimulationArguments
    from planner.arrays import Flags, Floats, Integers
    from planner.library.schema import Library
    from planner.results.plan import Assignment, Plan
    from planner.results.subject_runs import RlRun
    from planner.scenario.scenario import Scenario, SolveOptions


# Answers on engines that are always there, one by one.


STRETCHES = 150
"""Stretches of time in which the rollout of a step is followed; 50 where batches of answers follow one another."""
DRAWN_ROLLOUTS = 24
"""Rollouts that are drawn; where batches follow one another, series of them."""
SERIES_OF_BATCHES = 4


@dataclass
class Sampling:
    """Batches of answers on engines, several series (S,) next to each other: a seat that is free takes the next answer.

    A batch begins when as many before it are finished as may be in flight. An engine takes its share of each batch;
    a share that is no whole number of answers is rounded.
    """

    made: EvaluatedRl
    series: int
    batches: int
    in_flight: int
    rng: Generator

    def __post_init__(self) -> None:
        """Draw all answers, and begin with empty engines."""
        step = self.made.step
        setup, self.step = step.engine.setup, step
        self.engine = (setup.model, setup.hardware, setup.stack)
        self.engines = min(step.engine.engines, max(int(step.sampled), 1))
        self.each = max(round(step.sampled / self.engines), 1)
        seats = min(setup.seats, self.in_flight * self.each)
        shape = (self.series, self.engines, seats)
        self.queue = self._lengths((self.series, self.engines, self.batches * self.each))
        self.left, self.had = np.zeros(shape), np.zeros(shape)
        self.batch = np.zeros(shape, dtype=np.int64)
        self.taken = np.zeros(shape[:2], dtype=np.int64)  # answers that an engine has begun
        self.busy = np.zeros(shape[:2])  # seconds that it still takes prompts in
        self.unfinished = np.full((self.series, self.batches), self.engines * self.each)

    def _lengths(self, shape: tuple[int, ...]) -> Floats:
        """Return tokens of answers: of the table of a log, else lognormal, cut at the longest."""
        rows, lengths = self.made.job.work.lengths, self.step.lengths
        if rows:
            count = np.asarray([float(row.count) for row in rows])
            drawn = self.rng.choice(np.asarray([float(row.tokens) for row in rows]), shape, p=count / count.sum())
        else:
            drawn = np.exp(self.rng.normal(lengths.scale, lengths.sigma, shape))
        cut: Floats = np.minimum(drawn, lengths.longest)
        return cut

    def finished(self, stretch: float) -> Floats:
        """Return the seconds (S, batches) at which each batch has ended, followed in stretches of so many seconds."""
        done, clock = np.full(self.unfinished.shape, np.nan), 0.0
        while np.isnan(done).any():
            self._take()
            self._decode(stretch)
            clock += stretch
            done[np.isnan(done) & (self.unfinished == 0)] = clock - stretch / 2.0
        return done

    def _take(self) -> None:
        """Give the next answers to the seats that are free."""
        begun = np.minimum((self.unfinished == 0).sum(axis=1) + self.in_flight, self.batches)
        free = self.left <= 0.0
        rank = np.cumsum(free, axis=2) - 1
        taken = free & (rank < (begun[:, None] * self.each - self.taken)[:, :, None])
        where = np.nonzero(taken)
        number = self.taken[where[:2]] + rank[where]
        # What the answer before it has overrun of its last stretch is the beginning of the next one.
        self.had[where] = np.maximum(-self.left[where], 0.0)
        self.left[where] = np.maximum(self.queue[(*where[:2], number)] + self.left[where], 1e-9)
        self.batch[where] = number // self.each
        self.left[free & ~taken] = 0.0
        count = taken.sum(axis=2)
        self.taken += count
        model, hardware, stack = self.engine
        asked = self.step.asked
        seconds = prompt_seconds(model, hardware, asked.input) / asked.answers + stack.request_seconds
        self.busy += count * float(np.ravel(seconds)[0])

    def _decode(self, stretch: float) -> None:
        """Let each engine decode for a stretch of time, less what prompts take."""
        running = self.left > 0.0
        alive = running.sum(axis=2)
        model, hardware, stack = self.engine
        mean = (self.had * running).sum(axis=2) / np.maximum(alive, 1)
        context = seen_tokens(model, self.step.asked.input + mean)
        seconds = decode_step_seconds(model, hardware, stack, np.maximum(alive, 1.0), context)
        spent = np.minimum(self.busy, stretch)
        self.busy -= spent
        tokens = ((stretch - spent) / seconds)[:, :, None]
        self.left = np.where(running, self.left - tokens, self.left)
        self.had += tokens
        ended = np.nonzero(running & (self.left <= 0.0))
        np.subtract.at(self.unfinished, (ended[0], self.batch[ended]), 1)


def draw_rollouts(made: EvaluatedRl, rng: Generator) -> Floats:
    """Return seconds (n,) from one finished batch of answers to the next one, with engines that are always there."""
    planned, several = made.sampling_seconds(made.step), made.job.staleness if made.named.overlapped else 1
    predicted = planned / made.step.factors.rollout
    if several < 2:
        seconds = Sampling(made, DRAWN_ROLLOUTS, 1, 1, rng).finished(predicted / STRETCHES)
    else:
        # The first batches find empty engines, the last ones are not followed by others.
        ends = Sampling(made, SERIES_OF_BATCHES, 4 * several + 8, several, rng).finished(predicted / (STRETCHES / 3.0))
        seconds = np.diff(np.maximum.accumulate(ends, axis=1)[:, several:-several], axis=1)
    return np.asarray(seconds.ravel() * made.step.factors.rollout)


# Machines with engines: on spot each has a market of its own.


@dataclass
class EngineMachines:
    """Machines (runs, machines) with engines on spot; seconds count from the order of all machines of the run."""

    states: SpotStates
    start: Floats  # (runs, 1) seconds from a machine to a loaded engine
    machines: int
    rng: Generator
    up: Flags = field(init=False)
    change: Floats = field(init=False)  # when each is lost, or there again
    ready: Floats = field(init=False)  # from when its engine samples
    rented: Floats = field(init=False)  # seconds until `since`
    since: Floats = field(init=False)
    losses: Integers = field(init=False)  # (runs,)
    wasted: Floats = field(init=False)  # (runs,) machine-seconds of starts after a loss, and of answers that were lost

    def __post_init__(self) -> None:
        """Meet each machine at a random moment of its market: what lasts long is met more often."""
        runs = len(self.start)
        shape = (runs, self.machines)
        count = runs * self.machines
        self.up = self.rng.random(shape) < self.states.availability()
        rest = [self._met(draw, count).reshape(shape) for draw in (self._stays, self._outages)]
        self.change = np.where(self.up, *rest)
        self.ready = np.broadcast_to(self.start, shape).copy()
        self.rented, self.since = np.zeros(shape), np.zeros(shape)
        self.losses, self.wasted = np.zeros(runs, dtype=np.int64), np.zeros(runs)
        self.next_event, self.working = np.zeros(runs), np.zeros(runs)
        self._count(np.arange(runs), np.zeros(runs))

    def _stays(self, count: int) -> Floats:
        return ages_draw(self.states.up)(self.rng, count) * HOUR

    def _outages(self, count: int) -> Floats:
        hours = ages_draw(self.states.down)(self.rng, count)
        return np.where(self.rng.random(count) < self.states.instant, 0.0, hours) * HOUR

    def _met(self, draw: Callable[[int], Floats], count: int) -> Floats:
        pool = draw(LENGTH_BIAS_POOL_SIZE)
        return self.rng.choice(pool, count, p=pool / pool.sum()) * self.rng.random(count)

    def _count(self, at: Integers, now: Floats) -> None:
        """Note how many machines of runs `at` sample now, and when that changes next."""
        waits = self.up[at] & (self.ready[at] > now[:, None])
        self.working[at] = (self.up[at] & ~waits).sum(axis=1)
        self.next_event[at] = np.minimum(self.change[at], np.where(waits, self.ready[at], np.inf)).min(axis=1)

    def sample(self, begin: Floats, seconds: Floats) -> Floats:
        """Return when batches (runs,) that begin so have ended; `seconds` are those with all machines there.

        A lost machine loses all that it did for the batch; the others take it over.
        """
        work = seconds * self.machines
        end = begin + self._over(work, self.working)
        late = np.flatnonzero((end > self.next_event) | (begin >= self.next_event))
        if late.size:
            end[late] = self._with_events(late, begin[late], work[late])
        return end

    @staticmethod
    def _over(work: Floats, machines: Floats) -> Floats:
        """Return the seconds that machines take for machine-seconds of work; for ever where there is none."""
        seconds: Floats = np.divide(work, machines, out=np.full(work.shape, np.inf), where=machines > 0)
        return seconds

    def _with_events(self, at: Integers, now: Floats, work: Floats) -> Floats:
        """Return the ends of batches of runs `at` in which machines come or go, one change of each run at a time."""
        done, end = np.zeros((at.size, self.machines)), np.full(at.size, np.nan)
        self._change(at, now, done)
        while (going := np.flatnonzero(np.isnan(end))).size:
            runs = at[going]
            works = self.up[runs] & (self.ready[runs] <= now[going, None])
            ends = now[going] + self._over(work[going] - done[going].sum(axis=1), works.sum(axis=1))
            until = np.minimum(ends, self.next_event[runs])
            done[going] += works * (until - now[going])[:, None]
            now[going] = until
            finished = ends <= self.next_event[runs]
            end[going[finished]] = ends[finished]
            rest = going[~finished]
            own = done[rest]
            self._change(at[rest], now[rest], own)
            done[rest] = own
        return end

    def _change(self, at: Integers, now: Floats, done: Floats) -> None:
        """Let machines of runs `at` come and go up to now; `done` (runs, machines) of what is lost becomes nothing."""
        while (due := self.change[at] <= now[:, None]).any():
            row, machine = np.nonzero(due)
            where = (at[row], machine)
            when, was_up = self.change[where], self.up[where]
            self.rented[where] += np.where(was_up, when - self.since[where], 0.0)
            self.since[where] = when
            np.add.at(self.losses, where[0][was_up], 1)
            np.add.at(self.wasted, where[0][was_up], done[row, machine][was_up])
            done[row[was_up], machine[was_up]] = 0.0
            begun = np.broadcast_to(self.start, self.ready.shape)[where]
            self.ready[where] = np.where(was_up, np.inf, when + begun)
            np.add.at(self.wasted, where[0][~was_up], begun[~was_up])
            self.up[where] = ~was_up
            count = len(when)
            self.change[where] = when + np.where(was_up, self._outages(count), self._stays(count))
        self._count(at, now)

    def rented_seconds(self, end: Floats) -> Floats:
        """Return the machine-seconds (runs,) that are paid until the end."""
        self._change(np.arange(len(end)), end, np.zeros_like(self.rented))
        return np.asarray((self.rented + np.where(self.up, end[:, None] - self.since, 0.0)).sum(axis=1))


# The whole run: steps one after the other, over many runs at a time.


@dataclass(frozen=True)
class RunReplays:
    """What runs (n,) take and cost."""

    hours: Floats
    usd: Floats
    step_seconds: Floats  # mean of a run
    losses: Floats
    wasted_hours: Floats


def replay_run(made: EvaluatedRl, rollouts: Floats, slow: Floats, rng: Generator) -> RunReplays:
    """Return the run of a plan at speeds `slow` (n,) with rollouts drawn from `rollouts`."""
    phases, pool, runs = made.step.phases, made.engines_pool, len(slow)
    trainer, rest = phases.trainer * slow, (phases.new_weights + phases.fixed) * slow
    start = np.asarray(made.start_hours * HOUR * slow)
    machines: EngineMachines | None = None
    if pool.named.on_spot:
        own = (pool.start_hours * HOUR * slow)[:, None]
        machines = EngineMachines(states_of(made), own, pool.named.instances, rng)

    def sampled(begin: Floats) -> Floats:
        seconds = rng.choice(rollouts, runs) * slow
        end = begin + seconds if machines is None else machines.sample(begin, seconds)
        return end + phases.own_reward * slow

    most, mean = made.job.staleness if made.named.overlapped else 0, float(rollouts.mean()) * slow
    batch = sampled(start)
    updates = [start] * (most + 1)  # ends of the last updates, the newest last
    for step in range(made.job.work.steps):
        ended = np.maximum(batch, updates[-1]) + trainer + rest
        if not most:
            batch = sampled(ended)
        elif step + 1 < made.job.work.steps:
            # A batch waits for the policy that is so many steps older than its own; with several in flight it begins
            # before the last one has ended. Engines stop for new weights.
            allowed = updates[-most]
            begin = np.maximum(batch, allowed) if most == 1 else batch
            batch = np.maximum(sampled(begin) + rest, allowed + most * (mean + rest) if most > 1 else 0.0)
        updates = [*updates[1:], ended]
        tell("steps", step + 1, made.job.work.steps)
    end = updates[-1]
    rented = None if machines is None else machines.rented_seconds(end) / HOUR
    none = np.zeros(runs)
    return RunReplays(
        hours=end / HOUR,
        usd=run_usd(made, (end - start) / HOUR, slow, rented),
        step_seconds=(end - start) / made.job.work.steps / slow,
        losses=none if machines is None else machines.losses.astype(float),
        wasted_hours=none if machines is None else machines.wasted / HOUR,
    )


def states_of(made: EvaluatedRl) -> SpotStates:
    """Return the market of one machine with engines."""
    offer, library = made.engines_pool.offer, made.library
    (spot,) = spot_markets([offer], library)
    coefficients = NodeGroupCoefficients.of(library.calibrations["stages"].values)
    return market_of_nodes(offer, spot, 1, coefficients, library)


SPOT_LINES = ("gpu spot, rollout", "start and load, rollout")
"""Lines of the bill that depend on how long machines on spot are there."""


def run_usd(made: EvaluatedRl, run_hours: Floats, slow: Floats, rented_hours: Floats | None) -> Floats:
    """Return the dollars (n,) of runs of so many hours after the start, and of machine-hours on spot.

    All lines are linear in the hours of the run and of the start, but those of rounding up.
    """

    def lines(run: float, factor: float) -> float:
        bill = [line for line in made.bill(factor, run / factor) if not line.item.startswith("rounded up")]
        return math.fsum(line.usd for line in bill if rented_hours is None or line.item not in SPOT_LINES)

    whole = made.run_hours
    least = lines(whole, 1.0)
    per_hour, per_start = (lines(2.0 * whole, 1.0) - least) / whole, lines(whole, 2.0) - least
    usd = least + per_hour * (run_hours - whole) + per_start * (slow - 1.0)
    for pool in made.pools:
        hours, billing = run_hours + pool.start_hours * slow, pool.offer.billing
        more = round_up_hours(hours, billing.step_seconds / HOUR, billing.minimum_hours) - hours
        usd = usd + more * pool.billed_machines * pool.price
    if rented_hours is not None:
        usd = usd + rented_hours * made.engines_pool.price
    return np.asarray(usd)


# The answer.


def simulate_rl(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library,
    progress: Callable[[int, int], None] | None,
    arguments: SimulationArguments,
) -> Simulation:
    """Return the replays of a plan, or of the one that `solve` finds; of a chain job after job."""
    started = perf_counter()
    if arguments.get("traces"):
        problem, fix = (
            "recorded markets are not replayed for kind: rl",
            "leave it out: each machine has the market stated",
        )
        raise ScenarioError([Fault("simulate", 0, "--trace", problem, fix)])
    settings = SimulationSettings.of(**arguments)
    if plan is None:
        plan = solve(scenario, options, library)
    else:
        check_plan(plan, scenario, library)
    if not plan.reinforcement:
        return without_runs(plan, settings, perf_counter() - started)
    offers, asked_jobs = dict(scenario.labelled_offers()), {job.name: job for job in runs_of(scenario)}
    several = [
        evaluate_rl(NamedRl.of(run), asked_jobs[run.name], scenario, offers, library) for run in plan.reinforcement
    ]
    # The first run has the numbers that a run alone has.
    first, *seeds = np.random.SeedSequence(settings.seed).spawn(1 + 2 * len(several))
    others, ranks = None, draw_ranks(settings.runs, np.random.default_rng(first))
    if plan.jobs:
        rest, asked = jobs_of_chain(plan, scenario)
        others = replay_jobs(prepare(asked, library), rest, settings, progress)
        ranks = others.ranks  # one error of the speed for all jobs
    replays = [
        ReplayedRun.of(made, run, ranks, settings, seeds[2 * at : 2 * at + 2])
        for at, (made, run) in enumerate(zip(several, plan.reinforcement, strict=True))
    ]
    if progress is not None:
        progress(settings.runs, settings.runs)
    if len(plan.parts_that_end) > 1:
        simulation = _simulation_of_chain(replays, plan, scenario, others, settings, library)
    else:
        simulation = _simulation(replays[0], plan, settings)
    return simulation.model_copy(update={"seconds": perf_counter() - started})


@dataclass(frozen=True)
class ReplayedRun:
    """A run of a plan over all replays, as if it waited for nothing."""

    made: EvaluatedRl
    run: RlRun
    rollouts: Floats
    replays: RunReplays

    @classmethod
    def of(
        cls, made: EvaluatedRl, run: RlRun, ranks: Floats, settings: SimulationSettings, seeds: Sequence[SeedSequence]
    ) -> ReplayedRun:
        """Return a run replayed at ranks (n,) of the error of its speed."""
        slow = np.ones(settings.runs)
        if not settings.exact_speed:
            slow = confidence_factor(tail_of_68_percent(step_sigma(made.step)), ranks)
        drawing, replaying = map(np.random.default_rng, seeds)
        rollouts = draw_rollouts(made, drawing)
        return cls(made, run, rollouts, replay_run(made, rollouts, slow, replaying))

    @property
    def on_spot(self) -> bool:
        """Whether its engines are on spot."""
        return self.made.engines_pool.named.on_spot

    @property
    def outcome(self) -> JobOutcome:
        """Its dollars, hours and losses as those of any job."""
        replays, none = self.replays, np.zeros(self.replays.hours.size)
        done = np.ones(none.size, dtype=bool)
        return JobOutcome(replays.usd, replays.hours, none, replays.losses, replays.wasted_hours, none, done)


def _figures(replayed: ReplayedRun) -> dict[str, Any]:
    """Return what the run takes and costs by itself."""
    hours, deadline = replayed.replays.hours, replayed.run.deadline_hours
    return {
        "cost_usd": distribution(replayed.replays.usd),
        "hours": distribution(hours),
        "deadline_hit_rate": None if deadline is None else float(np.mean(hours <= deadline * (1.0 + 1e-9))),
        "interruptions": float(replayed.replays.losses.mean()) if replayed.on_spot else None,
        "wasted_hours": float(replayed.replays.wasted_hours.mean()) if replayed.on_spot else None,
    }


def _job_replays(replayed_run: ReplayedRun, predicted: PlanPrediction) -> JobReplays:
    """Return the run over all replays, as if it waited for nothing."""
    made, run, replayed = replayed_run.made, replayed_run.run, replayed_run.replays
    return JobReplays(
        name=run.name, gpu=run.gpu, gpus=run.gpus, provider=run.pools[0].provider, kind="rl",
        deadline_hours=run.deadline_hours, predicted=predicted, policies={},
        market=_market(made) if replayed_run.on_spot else None, unfinished=0.0, told=None,
        steps=StepReplays(
            step_seconds=distribution(replayed.step_seconds), planned_step_seconds=made.run_hours * HOUR / run.steps,
            rollout_seconds=distribution(replayed_run.rollouts),
            planned_rollout_seconds=made.sampling_seconds(made.step),
            within_hours=float(np.mean(replayed.hours <= run.hours.at_confidence)), planned_within=made.job.confidence,
        ),
        **_figures(replayed_run),
    )  # fmt: skip


def _simulation_of_chain(
    runs: Sequence[ReplayedRun], plan: Plan, scenario: Scenario, others: PlanReplays | None,
    settings: SimulationSettings, library: Library,
) -> Simulation:  # fmt: skip
    """Return the replays of a chain: a late job moves those that wait for it; the order of the plan holds."""
    first = [] if others is None else [job_replays.outcomes[PLANNED] for job_replays in others.jobs]
    shifted = timetable.shift_timetable(plan, scenario, library, [*first, *(replayed.outcome for replayed in runs)])
    asked = {job.name: job.planned_deadline_hours for job in scenario.jobs}  # others end earlier for the runs alone
    parts = [part.model_copy(update={"deadline_hours": asked[part.name]}) for part in plan.parts_that_end]
    paid = math.fsum(reservation.usd for reservation in plan.reservations)
    (whole,) = combine_jobs(parts, {PLANNED: [moved.outcome for moved in shifted]}, paid).values()
    jobs, notes = list[JobReplays](), list[str]()
    if others is not None:
        notes += notes_of_jobs(others.job_runs, settings)
        every = zip(others.job_runs, others.sources, others.jobs, shifted[: len(first)], strict=True)
        for job_run, source, outcome, moved in every:
            job = job_run.job.model_copy(update={"deadline_hours": asked[job_run.job.name]})
            jobs.append(replays_of_job(replace(job_run, job=job), source, outcome, moved))
    for replayed, part, moved in zip(runs, parts[len(first) :], shifted[len(first) :], strict=True):
        jobs.append(_moved_run(replayed, part, moved))
        notes += _notes(replayed.made, replayed.on_spot)
    budget, usd = plan.budget_usd, math.fsum(replayed.run.cost_usd for replayed in runs)
    core = build_prediction(plan.jobs, paid) if plan.jobs else predict(runs[0].made, runs[0].run)
    expected = plan.hours.expected if plan.hours is not None else core.hours
    sums = {"cost_usd": usd + (core.cost_usd if plan.jobs else 0.0), "hours": expected, "deadline_probability": None}
    return Simulation(
        scenario=plan.scenario, status=plan.status, runs=settings.runs, seed=settings.seed,
        exact_speed=settings.exact_speed, budget_usd=budget,
        budget_hit_rate=None if budget is None else float(np.mean(whole.usd <= budget * (1.0 + 1e-9))),
        predicted=core.model_copy(update=sums), jobs=tuple(jobs),
        cost_histogram=histogram(whole.usd), hours_histogram=histogram(whole.hours), seconds=0.0,
        as_of=plan.as_of or datetime.date.today().isoformat(), notes=tuple(dict.fromkeys(notes)), plan=plan,
        **summarise_outcome(whole),
    )  # fmt: skip


def _moved_run(replayed: ReplayedRun, part: Assignment | RlRun, moved: timetable.ShiftedJob) -> JobReplays:
    """Return a run of a chain over all replays, moved by the jobs that it waits for; `part` has its own deadline."""
    run, ends = replayed.run, moved.outcome.hours
    replays = _job_replays(replayed, predict(replayed.made, run.model_copy(update={"deadline_hours": None})))
    assert replays.steps is not None
    within = float(np.mean(ends <= run.finish_hours * (1.0 + 1e-9)))
    (met,) = combine_jobs([part], {PLANNED: [moved.outcome]}).values()
    in_turn = {
        "start_at_hours": distribution(moved.starts),
        "end_at_hours": distribution(ends),
        "deadline_hit_rate": None if met.met is None else float(np.mean(met.met)),
        "outlasts_machines": 0.0,
        "deadline_hours": part.deadline_hours,
        "steps": replays.steps.model_copy(update={"within_hours": within}),
    }
    return replays.model_copy(update=in_turn)


def _simulation(replayed_run: ReplayedRun, plan: Plan, settings: SimulationSettings) -> Simulation:
    budget, predicted, replayed = plan.budget_usd, predict(replayed_run.made, replayed_run.run), replayed_run.replays
    return Simulation(
        scenario=plan.scenario,
        status=plan.status,
        runs=settings.runs,
        seed=settings.seed,
        exact_speed=settings.exact_speed,
        budget_usd=budget,
        budget_hit_rate=None if budget is None else float(np.mean(replayed.usd <= budget * (1.0 + 1e-9))),
        predicted=predicted,
        jobs=(_job_replays(replayed_run, predicted),),
        cost_histogram=histogram(replayed.usd),
        hours_histogram=histogram(replayed.hours),
        seconds=0.0,
        as_of=plan.as_of or datetime.date.today().isoformat(),
        notes=tuple(_notes(replayed_run.made, replayed_run.on_spot)),
        plan=plan,
        **_figures(replayed_run),
    )


def predict(made: EvaluatedRl, run: RlRun) -> PlanPrediction:
    """Return what the plan says of its dollars, hours, deadline and losses."""
    chance, pool = None, made.engines_pool
    if run.deadline_hours is not None:
        late = math.log(run.deadline_hours / run.hours.expected)
        chance = float(student_2_deviations(tail_of_68_percent(made.sigma), late))
    losses = pool.named.instances * pool.availability * made.run_hours / pool.mean_up_hours
    return PlanPrediction(
        cost_usd=run.cost_usd, hours=run.hours.expected, deadline_probability=chance, at_least=False, spot_share=0.0,
        interruptions=losses if pool.named.on_spot else None, wasted_hours=None, waiting_hours=None,
    )  # fmt: skip


def _market(made: EvaluatedRl) -> ReplayMarket:
    states = states_of(made)
    return ReplayMarket(
        source="states", instances=1, availability=states.availability(), mean_up_hours=states.up.mean(),
        mean_outage_hours=states.down.mean(), tick_hours=None,
    )  # fmt: skip


def _notes(made: EvaluatedRl, on_spot: bool) -> list[str]:
    """Return what the figures do not show."""
    notes = ["answers have the lengths of the job's distribution; seconds of a token and of the trainer are estimates"]
    if on_spot:
        notes.append(
            "machines on spot come and go independently of one another: where a zone is lost as a whole, "
            "the run waits longer"
        )
    if made.named.overlapped:
        notes.append("the first answers are sampled before any training, which the plan does not count")
    return notes
