"""Logs of a run of reinforcement learning against its plan: what its steps correct, when it will end, what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.analysis.calibrate_question import CALIBRATE_COMMAND
from planner.analysis.logged_steps import fault
from planner.analysis.rl_logs import (
    SCORES,
    TIMED_PHASES,
    MeasuredSteps,
    RlLog,
    RlLogStep,
    attempts_of,
    measured_steps,
    read_rl_logs,
)
from planner.analysis.run_progress import UNRESOLVED_NOISE, budget_note, weighted_pace
from planner.analysis.track_question import (
    LEAST_HOURS,
    Stated,
    elapsed_hours,
    own_offers_note,
    rank_choice,
    read_with_offers,
    stated_moment,
)
from planner.arrays import Floats
from planner.documents.validation import MOST_NAMES, Source, meant_name
from planner.errors import Fault, InputError
from planner.estimates.uncertainty import (
    confidence_factor,
    factors_of_tail,
    is_implausible_speed,
    student_2_quantile,
    tail_of_68_percent,
)
from planner.evaluation.evaluated_hours import probability_within
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.reinforcement.evaluated_rl import (
    EvaluatedRl,
    NamedRl,
    evaluate_rl,
    predicted_phases,
    run_factors,
    spread_of,
)
from planner.reinforcement.rl_chain import in_order
from planner.reinforcement.rl_step import OF_REWARD_MODELS, RlPhases, measured_factors
from planner.results.explanation import describe_job_differences
from planner.results.plan import Plan
from planner.results.plan_parts import Hours, Spread
from planner.results.run_results import (
    CalibrationResult,
    Cause,
    ChainEnd,
    Choice,
    KeptDeadline,
    MeasuredAnswers,
    ObservedProgress,
    PhaseSeconds,
    PlannedProgress,
    PlanSummary,
    ProjectedEnd,
    SettingValue,
    StepTimes,
    Tracking,
)
from planner.results.subject_runs import RL_PHASE_NAMES, RlPool, RlRun
from planner.scenario.job import MAX_CONFIDENCE
from planner.scenario.offer import offer_data
from planner.scenario.rl_job import TRAINER_DEGREES, MeasuredRl, RlJob
from planner.scenario.scenario import Scenario, SolveOptions, ends_before, scenario_data
from planner.solving.solve import solve
from planner.units import GB, HOUR, round_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.library.schema import Library
    from planner.results.plan_parts import BillItem
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits

WAITED_SHARE = 0.05
"""Share of a step that a trainer waits for answers beyond which the rollout is the longer side."""
ONE_STEP_NOISE = 0.15
"""Spread of the pace where a single step is timed: a guess."""
LEAST_CLOCKED, MOST_BETWEEN = 4, 3.0
"""Steps with a clock from which what is between steps is read, and the most times that it makes a step as long."""
ROUNDED = 1.02
"""Times its steps that the phases of a log may take by rounding."""
GROWTH = 1.1
"""Growth of the mean length of answers over a log beyond which a reader is warned."""


# What a log says in the terms of a plan.


def phase_seconds(log: RlLog, seen: MeasuredSteps, planned: RlPhases | None = None) -> dict[str, float]:
    """Return the measured seconds of the phases of a step; those of a reward model where the planned step has one.

    Where the log has the seconds that the trainer waited for answers, the rollout took as long as the trainer and the
    wait; where it hardly waited, the rollout is not known: it was the shorter side.
    """
    phases = dict(seen.phases)
    scores = phases.pop(SCORES, None)
    place = next((name for name in OF_REWARD_MODELS if planned is not None and getattr(planned, name) > 0), None)
    if scores is not None and place is not None:
        phases[place] = scores
    if log.waits and (wait := phases.pop("rollout", None)) is not None and wait > WAITED_SHARE * seen.seconds:
        phases["rollout"] = phases.get("log_probabilities", 0.0) + phases.get("training", 0.0) + wait
    return {name: seconds for name, seconds in phases.items() if seconds > 0}


def _compared(
    planned: RlPhases | None, measured: Mapping[str, float], factors: RlPhases | None, overlapped: bool = False
) -> tuple[PhaseSeconds, ...]:
    """Return the phases, planned and measured; without a plan those that were measured."""
    if planned is None or factors is None:
        return tuple(PhaseSeconds(phase=name, planned=None, measured=measured[name], factor=None) for name in measured)
    is_whole = all(name in measured for name in TIMED_PHASES)  # what is left of the step is the last phase
    rest = {"fixed": planned.fixed * factors.fixed} if is_whole and not overlapped else {}
    known = {**measured, **rest}
    return tuple(
        PhaseSeconds(phase=name, planned=seconds, measured=known.get(name), factor=getattr(factors, name))
        for name, seconds in planned.by_name.items()
    )


def _answers(seen: MeasuredSteps, mean: float | None, longest: float | None) -> MeasuredAnswers | None:
    if seen.mean is None:
        return None
    return MeasuredAnswers(mean=seen.mean, longest=seen.longest, planned_mean=mean, planned_longest=longest)


def _log_notes(log: RlLog, seen: MeasuredSteps, measured: Mapping[str, float]) -> list[str]:
    """Return what a reader must know of a log: what is not in it, and what changes over it."""
    notes = list(log.remarks)
    missing = [RL_PHASE_NAMES[name] for name in TIMED_PHASES if name not in measured]
    if len(missing) == len(TIMED_PHASES):
        where = " (TRL times phases in Weights & Biases alone)" if log.tool.counts_updates else ""
        notes.append(f"the log times whole steps alone{where}: all phases have the same factor")
    elif missing:
        notes.append(f"not in the log: {', '.join(missing)}")
    if not log.waits and math.fsum(measured.values()) > ROUNDED * seen.seconds:
        notes.append("the phases in the log take longer than its steps: they overlap, or are of other steps")
    if not seen.warm_up_steps:
        notes.append("only the first step is timed, in which engines start: a second one says more")
    if seen.growth is not None and not 1 / GROWTH <= seen.growth <= GROWTH:
        change = f"{seen.growth:.2f} times as long at the end of the log as at its beginning"
        notes.append(f"answers are {change}: later steps may take {'longer' if seen.growth > 1 else 'less'}")
    if seen.mean is None:
        notes.append(f"no lengths of answers are in the log: {' or '.join(log.tool.mean)}")
    return notes


# `track`: how far a run is, when it will end, what it will cost.


@dataclass(frozen=True)
class RlProgress:
    """A run of a plan and its log."""

    run: RlRun
    job: RlJob
    made: EvaluatedRl
    log: RlLog
    seen: MeasuredSteps
    steps: int
    """Steps of the plan that are done."""
    each: int
    """Logged steps that make one of the plan."""

    @property
    def left(self) -> int:
        """Steps that are left."""
        return max(0, self.run.steps - self.steps)

    @property
    def pace_seconds(self) -> float:
        """Seconds from one step of the plan to the next, with what the log does not time but its clock shows.

        Validation and checkpoints are between the steps; a gap of more than two steps on average is a standstill.
        """
        last = [step for step in attempts_of(self.log)[-1][1:] if step.clock is not None]
        if len(last) < LEAST_CLOCKED:
            return self.seen.seconds
        wall = self.each * ((last[-1].clock or 0.0) - (last[0].clock or 0.0)) / (last[-1].step - last[0].step)
        return wall if self.seen.seconds < wall < MOST_BETWEEN * self.seen.seconds else self.seen.seconds

    @property
    def repeated(self) -> int:
        """Steps that were done again after restarts."""
        pairs = pairwise(attempts_of(self.log))
        return sum(max(0, before[-1].step - after[0].step + 1) for before, after in pairs) // self.each

    @property
    def run_hours(self) -> float:
        """Hours from the start of the first logged step to the last one."""
        clocks = [step.clock for step in self.log.steps if step.clock is not None]
        first = self.log.steps[0]
        if len(clocks) > 1 and first.clock is not None:
            return (max(clocks) - first.clock + _spans([first])[0] * (first.seconds or 0.0)) / HOUR
        attempts = attempts_of(self.log)
        return math.fsum(
            span * (step.seconds or self.seen.seconds / self.each)
            for attempt in attempts
            for step, span in zip(attempt, _spans(attempt), strict=True)
        ) / HOUR  # fmt: skip


def _spans(attempt: Sequence[RlLogStep]) -> list[int]:
    """Return the steps that each entry of an attempt is the mean of: those since the entry before."""
    later = [after.step - before.step for before, after in pairwise(attempt)]
    return [min(attempt[0].step, later[0]) if later else 1, *later]


def track_rl(
    plan: Plan,
    scenario: Scenario,
    logs: Sequence[str],
    name: str | None,
    stated: Stated,
    market: Scenario | None,
    options: SolveOptions | None,
) -> Tracking:
    """Return a run of reinforcement learning of a plan against what was planned.

    Raises `InputError` for logs of another tool or without a step, and for those that cannot be of this run.
    """
    run, job = _run_of(plan, scenario, name)
    progress = _progress(run, job, scenario, _since(read_rl_logs(logs), run, job))
    notes = [*_log_notes(progress.log, progress.seen, phase_seconds(progress.log, progress.seen)), *_doubts(progress)]
    start = progress.made.start_hours
    last = max((step.clock for step in progress.log.steps if step.clock is not None), default=None)
    elapsed = elapsed_hours(start, progress.run_hours, last, progress.log.file, stated, notes)
    single = ONE_STEP_NOISE if progress.seen.spread is None else progress.seen.spread / math.sqrt(progress.seen.steps)
    noise = math.hypot(single, UNRESOLVED_NOISE)  # answers change their length while the policy learns
    pace, sigma = weighted_pace(run.step_seconds, tail_of_68_percent(run.sigma), progress.pace_seconds, noise)
    left = progress.left * pace / HOUR
    spent = stated.spent_usd if stated.spent_usd is not None else _spent_usd(progress, elapsed - start)
    left_usd = max(0.0, progress.made.usd(run_hours=elapsed - start + left) - _spent_usd(progress, elapsed - start))
    before_usd = _paid_before(plan, _after(scenario, run.name), run.name)
    ahead = Ahead(_began(run, plan, stated, notes), elapsed, left, sigma, spent, left_usd, before_usd)
    end, chain = _end(progress, ahead), _chain_end(progress, ahead, plan, scenario)
    if chain is None:
        sure = float(confidence_factor(sigma, scenario.limits.budget_confidence))
        notes += budget_note(scenario.limits, spent + left_usd, spent + left_usd * sure)
    else:
        notes += budget_note(scenario.limits, chain.cost.expected, chain.cost_at_confidence)
    kept = [(end.deadline_probability, job.confidence)]
    kept += [(deadline.probability, deadline.confidence) for deadline in (chain.deadlines if chain else ())]
    if market is None and any(chance is not None and chance < sure for chance, sure in kept):
        notes.append("the deadline is at risk: --replan --scenario FILE says whether other machines would keep it")
    tracked = Tracking(
        scenario=plan.scenario,
        job=run.name,
        logs=tuple(f"{file} ({progress.log.kind})" for file in progress.log.file.split(", ")),
        observed=_observed(progress, elapsed, spent, stated.spent_usd is not None),
        planned=_planned(run, job, scenario, ahead.began),
        projected=end,
        causes=_causes(progress, pace, end),
        phases=_phases(progress),
        answers=_answers(progress.seen, run.output_tokens, run.longest_output),
        notes=tuple(dict.fromkeys(notes)),
        chain=chain,
    )
    return tracked if market is None else _replanned(tracked, progress, market, ahead, plan, options)


@dataclass(frozen=True)
class Ahead:
    """What a run has taken, and what is left of it."""

    began: float
    """Hours from the start of the plan to the order of its machines."""
    elapsed: float
    """Hours since then."""
    left: float
    """Hours that are left."""
    sigma: float
    """Spread of their ln."""
    spent_usd: float
    left_usd: float
    before_usd: float
    """Of the jobs before it, and of what is reserved, as planned."""


def _paid_before(plan: Plan, later: Sequence[Job], name: str) -> float:
    """Return the dollars of a plan without a run and those after it."""
    moving = {name, *(job.name for job in later)}
    paid = math.fsum(reservation.usd for reservation in plan.reservations)
    return paid + math.fsum(part.cost_usd for part in plan.parts_that_end if part.name not in moving)


def _began(run: RlRun, plan: Plan, stated: Stated, notes: list[str]) -> float:
    """Return the hours from the start of the plan to that of a run, and add to the notes where that is assumed."""
    if len(plan.parts_that_end) < 2:
        return run.start_at_hours
    if plan.now and stated.started is not None:
        return (stated_moment(stated.started, "--started") - stated_moment(plan.now, "now")) / HOUR
    if run.start_at_hours:
        when = f"{run.start_at_hours:.1f} h after the start of the plan"
        fix = "--started says otherwise" if plan.now else "a scenario with `now` and --started say otherwise"
        notes.append(f"{run.name} is assumed to have started as planned, {when}: {fix}")
    return run.start_at_hours


def _run_of(plan: Plan, scenario: Scenario, name: str | None) -> tuple[RlRun, RlJob]:
    """Return the run of a plan that is meant and its job; `InputError` where it is not clear which."""
    names = [run.name for run in plan.reinforcement]
    name = name if name is None else meant_name(name, names, "--job", "the plan has no run")
    runs = [run for run in plan.reinforcement if name in (None, run.name)]
    if len(runs) != 1:
        fix = f"name one, such as {' or '.join(names[:MOST_NAMES])}"
        raise InputError([Fault("--job", 0, "", f"{len(runs)} runs", fix)])
    job = next((job for job in scenario.jobs if job.name == runs[0].name), None)
    if not isinstance(job, RlJob):
        raise InputError([Fault("plan", 0, "inputs", f"the scenario has no job {runs[0].name}", "solve it again")])
    return runs[0], job


def _since(log: RlLog, run: RlRun, job: RlJob) -> RlLog:
    """Return the log of the steps after those that were done before the plan, counted from there."""
    before = run.steps_before * (job.work.updates if log.tool.counts_updates else 1)
    if not before:
        return log
    steps = tuple(replace(step, step=step.step - before) for step in log.steps if step.step > before)
    if not steps:
        problem = f"ends at step {log.steps[-1].step:,}, but the plan begins after step {before:,}"
        raise fault(log.file, log.steps[-1].line, problem, "give the log of the run that went on")
    return replace(log, steps=steps, total_steps=log.total_steps - before if log.total_steps else None)


def _progress(run: RlRun, job: RlJob, scenario: Scenario, log: RlLog) -> RlProgress:
    """Return the run with its log; `InputError` where the log has more steps than the plan."""
    updates = job.work.updates if log.tool.counts_updates else 1
    steps = log.steps[-1].step // updates
    if steps > run.steps:
        problem = f"step {log.steps[-1].step:,}, but the plan has {run.steps * updates:,}"
        raise fault(log.file, log.steps[-1].line, problem, "give the log of this job, or its own plan")
    made = _evaluated(run, job, scenario, read_library([each_job.architecture for each_job in scenario.jobs]))
    return RlProgress(run, job, made, log, measured_steps(log, job.work.updates), steps, updates)


def _evaluated(run: RlRun, job: RlJob, scenario: Scenario, library: Library) -> EvaluatedRl:
    """Return a run of a plan with everything behind its names; `InputError` where the scenario lacks its offers."""
    offers = dict(scenario.labelled_offers())
    if unknown := run.offers_named - offers.keys():
        problem = f"the scenario has no offer {', '.join(sorted(unknown))}"
        raise InputError([Fault("plan", 0, run.name, problem, "give the scenario of the plan")])
    return evaluate_rl(NamedRl.of(run), job, scenario, offers, library)


def _doubts(progress: RlProgress) -> list[str]:
    """Return what is different from the plan, or speaks against a log being of this run."""
    run, log, notes = progress.run, progress.log, list[str]()
    if log.total_steps is not None and log.total_steps != run.steps * progress.each:
        doubt = f"the log is of a run of {log.total_steps:,} steps, the plan has {run.steps * progress.each:,}"
        notes.append(f"{doubt}: is it this job?")
    if log.waits and not run.overlapped:
        notes.append("in the log the engines sample while the trainer works, in the plan they do not: is it this job?")
    if run.overlapped and not log.waits and "rollout" in progress.seen.phases:
        notes.append("in the plan the engines sample while the trainer works, in the log they do not: is it this job?")
    if is_implausible_speed(run.step_seconds, progress.seen.seconds):
        notes.append(f"a step takes {progress.seen.seconds / run.step_seconds:.2g} times its plan: is it this job?")
    ratio = (progress.seen.mean or run.output_tokens) / run.output_tokens
    if not 1 / GROWTH <= ratio <= GROWTH:
        notes.append(f"answers are {ratio:.2f} times as long as planned, which changes rollout and training")
    if progress.seen.longest is not None and progress.seen.longest > run.longest_output:
        doubt = f"answers of {progress.seen.longest:,.0f} tokens, cut at {run.longest_output:,} in the plan"
        notes.append(f"{doubt}: is it this job?")
    return notes


_PER_STEP = ("new weights, ", "judge by API")
"""How lines of a bill begin that grow with the steps."""


def _spent_usd(progress: RlProgress, run_hours: float) -> float:
    """Return the dollars for so many hours of the run at the prices of the plan, without what follows the last step."""
    share = progress.steps / progress.run.steps

    def part(line: BillItem) -> float:
        if line.item.startswith(_PER_STEP):
            return share * line.usd
        return 0.0 if line.item.startswith("GB out") and progress.left else line.usd

    return math.fsum(part(line) for line in progress.made.bill(run_hours=max(run_hours, 0.0)))


def _end(progress: RlProgress, ahead: Ahead) -> ProjectedEnd:
    """Return the end of a run that has run for some hours."""
    low, high = (float(factor) for factor in factors_of_tail(ahead.sigma))
    elapsed, left, spent, left_usd = ahead.elapsed, ahead.left, ahead.spent_usd, ahead.left_usd
    late = left * float(confidence_factor(ahead.sigma, progress.job.confidence))
    chance: float | None = None
    if progress.run.deadline_hours is not None:
        room = progress.run.deadline_hours - ahead.began - elapsed
        chance = float(room >= 0) if not left or room <= 0 else None
        chance = probability_within(room, left, late, progress.job.confidence) if chance is None else chance
    return ProjectedEnd(
        hours=Spread(expected=elapsed + left, low=elapsed + left * low, high=elapsed + left * high),
        cost=Spread(expected=spent + left_usd, low=spent + left_usd * low, high=spent + left_usd * high),
        deadline_probability=chance,
        left_hours=left,
    )


# The chain of a run: the jobs before it are paid, those after it move with its end.
#
# Hours and dollars at a confidence add up along a chain, as in its plan: one error of the speed for all jobs.


RANKS: Floats = (np.arange(2_000) + 0.5) / 2_000
"""Ranks of the error of the speed at which a chain is followed."""


def _at_ranks(expected: float, late: float, confidence: float) -> Floats:
    """Return a figure (ranks,) that stays within `late` with the chance `confidence`, as in `probability_within`."""
    if late <= expected or expected <= 0 or confidence == 0.5:
        return np.full(RANKS.size, expected)
    scale = math.log(late / expected) / float(student_2_quantile(confidence))
    return np.asarray(expected * np.exp(scale * student_2_quantile(RANKS)))


def _after(scenario: Scenario, name: str) -> list[Job]:
    """Return the jobs that wait for one of a scenario, directly or for others that do, in the order of their starts."""
    return [job for job in in_order(scenario) if name in ends_before(scenario, job.name)]


def ends_of_chain(
    first: Mapping[str, Floats], jobs: Sequence[Job], plan: Plan, limits: Limits
) -> tuple[dict[str, Floats], Floats]:
    """Return the ends (ranks,) of jobs of a plan in hours from its start, and the dollars (ranks,) of all of them.

    `first` has the ends of jobs before them that are known. None starts before its planned start.
    """
    parts, ends, usd = {part.name: part for part in plan.parts_that_end}, dict(first), np.zeros(RANKS.size)
    for job in jobs:
        part = parts[job.name]
        waits = [ends[wait.job] + wait.lag_hours for wait in job.after if wait.job in ends]
        start = np.maximum.reduce([np.full(RANKS.size, part.delay_hours), *waits])
        ends[job.name] = start + _at_ranks(part.hours.expected, part.hours.at_confidence, job.confidence)
        usd = usd + _at_ranks(part.cost_usd, part.cost_at_confidence, limits.budget_confidence)
    return ends, usd


def kept_deadlines(jobs: Sequence[Job], ends: Mapping[str, Floats]) -> tuple[KeptDeadline, ...]:
    """Return how surely each job that has a deadline keeps it."""
    deadlines = []
    for job in jobs:
        if (deadline := job.planned_deadline_hours) is not None:
            share = float(np.mean(ends[job.name] <= deadline * (1.0 + timetable.SAME_DEADLINE)))
            chance = {"probability": min(MAX_CONFIDENCE, share), "confidence": job.confidence}
            deadlines.append(KeptDeadline(job=job.name, deadline_hours=deadline, **chance))
    return tuple(deadlines)


def _chain_end(progress: RlProgress, ahead: Ahead, plan: Plan, scenario: Scenario) -> ChainEnd | None:
    """Return what becomes of all jobs of a chain of which a run is tracked; None for a run alone."""
    if len(plan.parts_that_end) < 2:
        return None
    limits, later = scenario.limits, _after(scenario, progress.run.name)
    factors = np.asarray(confidence_factor(ahead.sigma, RANKS))
    own = ahead.began + ahead.elapsed + ahead.left * factors
    ends, usd = ends_of_chain({progress.run.name: own}, later, plan, limits)
    usd = usd + ahead.left_usd * factors + ahead.spent_usd + ahead.before_usd
    last = np.maximum.reduce([*ends.values()])
    (final,) = later[-1:] or (progress.job,)

    def at(values: Floats, rank: float) -> float:
        return float(np.interp(rank, RANKS, values))

    chance = None if limits.budget_usd is None else min(MAX_CONFIDENCE, float(np.mean(usd <= limits.budget_usd)))
    return ChainEnd(
        hours=Hours(
            expected=at(last, 0.5), low=at(last, 0.1), high=at(last, 0.9), at_confidence=at(last, final.confidence)
        ),
        cost=Spread(expected=at(usd, 0.5), low=at(usd, 0.1), high=at(usd, 0.9)),
        cost_at_confidence=at(usd, limits.budget_confidence),
        budget_confidence=limits.budget_confidence,
        budget_usd=limits.budget_usd,
        budget_probability=chance,
        deadlines=kept_deadlines([progress.job, *later], ends),
    )


def _phases(progress: RlProgress) -> tuple[PhaseSeconds, ...]:
    planned = RlPhases(**progress.run.phases)
    measured = phase_seconds(progress.log, progress.seen, planned)
    factors = measured_factors(planned, progress.seen.seconds, measured, progress.run.overlapped)
    return _compared(planned, measured, factors, progress.run.overlapped)


def _causes(progress: RlProgress, pace: float, end: ProjectedEnd) -> tuple[Cause, ...]:
    """Return the parts of the difference between projected and planned hours; they add up."""
    run, seconds = progress.run, progress.seen.seconds
    slower = (progress.steps * (seconds - run.step_seconds) + progress.left * (pace - run.step_seconds)) / HOUR
    parts = {"slower steps" if slower >= 0 else "faster steps": slower}
    measured = [phase for phase in _phases(progress) if phase.measured is not None and not run.overlapped]
    if measured and not math.isclose(seconds, run.step_seconds):
        # each phase has its share of what the steps are slower
        share = slower / (seconds - run.step_seconds)
        parts = {
            RL_PHASE_NAMES[seen_phase.phase]: share * ((seen_phase.measured or 0.0) - (seen_phase.planned or 0.0))
            for seen_phase in measured
        }
        parts["other phases"] = slower - math.fsum(parts.values())
    parts["steps done again after restarts"] = progress.repeated * seconds / HOUR
    rest = end.hours.expected - run.hours.expected - math.fsum(parts.values())
    parts["start, warm-up, between the steps"] = rest
    return tuple(Cause(what=cause, hours=hours) for cause, hours in parts.items())


def _observed(progress: RlProgress, elapsed: float, spent: float, is_given: bool) -> ObservedProgress:
    run, seen = progress.run, progress.seen
    tokens = run.sequences * ((seen.prompt or run.input_tokens) + (seen.mean or run.output_tokens))
    standing = max(0.0, progress.run_hours - (progress.steps + progress.repeated) * seen.seconds / HOUR)
    return ObservedProgress(
        steps=progress.steps,
        share_done=progress.steps / run.steps,
        step_seconds=seen.seconds,
        step_spread=seen.spread,
        timed_steps=seen.steps,
        warm_up_steps=seen.warm_up_steps,
        tokens_per_second=tokens / seen.seconds,
        elapsed_hours=elapsed,
        standing_hours=standing if len(attempts_of(progress.log)) > 1 else 0.0,
        restarts=len(attempts_of(progress.log)) - 1,
        repeated_steps=progress.repeated,
        peak_vram_gib=None,
        peak_kind=None,
        free_vram_gib=None,
        gpu_utilisation=None,
        last_loss=None,
        spent_usd=spent,
        spent_is_given=is_given,
    )


def _planned(run: RlRun, job: RlJob, scenario: Scenario, began: float) -> PlannedProgress:
    """Return the figures of the plan; the deadline counts from the order of the machines, as all hours do."""
    deadline = None if run.deadline_hours is None else run.deadline_hours - began
    memory = next(phase for phase in run.memory if phase.phase == "training")
    late = run.hours.at_confidence
    chance = None
    if run.deadline_hours is not None:
        chance = probability_within(run.deadline_hours - run.start_at_hours, run.hours.expected, late, job.confidence)
    return PlannedProgress(
        steps=run.steps,
        step_seconds=run.step_seconds,
        tokens_per_second=run.sequences * (run.input_tokens + run.output_tokens) / run.step_seconds,
        unit="tokens",
        hours=run.hours,
        cost=run.cost,
        peak_vram_gib=memory.peak,
        usable_vram_gib=memory.usable,
        deadline_hours=deadline,
        deadline_probability=chance,
        confidence=job.confidence,
        budget_usd=scenario.limits.budget_usd,
    )


# What to do with what is left: stay, or move to machines of the plan of what is left.


def _replanned(
    tracked: Tracking, progress: RlProgress, market: Scenario, ahead: Ahead, plan: Plan, options: SolveOptions | None
) -> Tracking:
    """Return the tracked run with what could be done now, the best first; of a chain for all jobs that are left."""
    later = _after(market, progress.run.name)
    if not progress.left:
        said = "all steps are done: nothing is left to plan" + (f" of {progress.run.name}" if later else "")
        return tracked.model_copy(update={"notes": (*tracked.notes, said)})
    data = _left_data(tracked, progress, market, ahead.began, ahead.before_usd)
    choices: list[tuple[Choice, Plan | None]] = [(_staying(tracked, progress, ahead, plan, later), None)]
    notes = list(tracked.notes)
    left = _with_market(data, market)
    new = solve(left, options)
    if new.planned:
        choices.append((_moving(progress, new, left), new))
    else:
        notes.append(f"no machines to move to: {new.status}")
    if later:
        planned = [part for part in plan.parts_that_end if part.name in {job.name for job in later}]
        others = _moving_others(progress, ahead, left, data, market, options)
        choices += [other for other in others if describe_job_differences(planned, other[1].parts_that_end)]
        notes.append(f"hours and dollars of a choice are those of this run and of {len(later)} after it")
    notes += own_offers_note(market, progress.run.offers_named)
    tie = market.near_tie_usd(choices[0][0].cost_usd)
    choices.sort(key=lambda choice: rank_choice(choice[0], progress.job.confidence, tie))
    if choices[0][1] is None:
        notes.append("the run stays where it is: there is no new plan")
    chosen = {"choices": tuple(choice for choice, _ in choices), "replan": choices[0][1]}
    return tracked.model_copy(update={**chosen, "notes": tuple(notes)})


def _staying(tracked: Tracking, progress: RlProgress, ahead: Ahead, plan: Plan, later: Sequence[Job]) -> Choice:
    """Return what is left where the run stays, and where the jobs after it run as planned."""
    hours, passed, chance = tracked.projected.hours, ahead.elapsed, tracked.projected.deadline_probability
    parts = {part.name: part for part in plan.parts_that_end}
    if tracked.chain is not None:
        hours, passed, chance = tracked.chain.hours, ahead.began + passed, _least(tracked.chain.deadlines)
    return Choice(
        what="stay",
        **_machines(progress.run.pools),
        cost_usd=ahead.left_usd + math.fsum(parts[job.name].cost_usd for job in later),
        hours=Spread(**{key: getattr(hours, key) - passed for key in Spread.model_fields}),
        deadline_probability=chance,
    )


def _moving(progress: RlProgress, new: Plan, left: Scenario) -> Choice:
    """Return what is left where the run, and the jobs after it, take the machines of a new plan."""
    run = next(run for run in new.reinforcement if run.name == progress.run.name)
    is_same = [pool.offer for pool in run.pools] == [pool.offer for pool in progress.run.pools]
    assert new.cost is not None and new.hours is not None
    late = run.hours.at_confidence
    chance = probability_within(run.deadline_hours, run.hours.expected, late, progress.job.confidence)
    if len(left.jobs) > 1:
        chance = _least(kept_deadlines(left.jobs, ends_of_chain({}, in_order(left), new, left.limits)[0]))
    return Choice(
        what="restart" if is_same and run.training_gpus == progress.run.training_gpus else "move",
        **_machines(run.pools),
        cost_usd=new.cost.expected,
        hours=Spread(expected=new.hours.expected, low=new.hours.low, high=new.hours.high),
        deadline_probability=chance,
    )


def _moving_others(
    progress: RlProgress, ahead: Ahead, left: Scenario, data: dict[str, Any], market: Scenario,
    options: SolveOptions | None,
) -> Iterator[tuple[Choice, Plan]]:  # fmt: skip
    """Yield what is left where the run stays, and the jobs after it are planned anew from its end on, if they can be.

    Its end is that at its confidence, from which the hours of the new plan count; its dollars are those at the
    confidence of the budget.
    """
    name, limits = progress.run.name, dict(data.get("limits", {}))
    late = ahead.left * float(confidence_factor(ahead.sigma, progress.job.confidence))
    lag = max((wait.lag_hours for job in left.jobs for wait in job.after if wait.job == name), default=0.0)
    jobs = [dict(job) for job in data["jobs"] if job["name"] != name]
    for job in jobs:
        job["after"] = [wait for wait in job["after"] if wait["job"] != name]
        if (
            deadline := next(left_job.deadline_hours for left_job in left.jobs if left_job.name == job["name"])
        ) is not None:
            job["deadline"] = f"{max(LEAST_HOURS, deadline - late - lag)}h"
    if limits.get("budget_usd") is not None:
        sure = float(confidence_factor(ahead.sigma, left.limits.budget_confidence))
        limits["budget_usd"] = max(0.01, limits["budget_usd"] - ahead.left_usd * sure)
    plan = solve(_with_market({**data, "jobs": jobs, "limits": limits}, market), options)
    if plan.cost is None or plan.hours is None:
        return
    # Seen from that end, the run ends earlier or later at each rank of the error.
    own = ahead.left * np.asarray(confidence_factor(ahead.sigma, RANKS)) - late - lag
    rest = [job for job in in_order(left) if job.name != name]
    ends, _ = ends_of_chain({name: own}, rest, plan, left.limits)
    kept = kept_deadlines(left.jobs, {job: at + late + lag for job, at in ends.items()})
    last = np.maximum.reduce([*ends.values()]) + late + lag
    expected, low, high = (float(np.interp(rank, RANKS, last)) for rank in (0.5, 0.1, 0.9))
    choice = Choice(
        what="stay, others move",
        **_machines(progress.run.pools),
        cost_usd=ahead.left_usd + plan.cost.expected,
        hours=Spread(expected=expected, low=low, high=high),
        deadline_probability=_least(kept),
    )
    yield choice, plan


def _least(deadlines: Sequence[KeptDeadline]) -> float | None:
    """Return the least probability of deadlines; None without one."""
    return min((deadline.probability for deadline in deadlines), default=None)


def _machines(pools: Sequence[RlPool]) -> dict[str, Any]:
    """Return machines and providers of pools, as a choice names them."""
    return {
        "machines": " + ".join(f"{pool.gpus} x {pool.gpu}" for pool in pools),
        "provider": " + ".join(dict.fromkeys(pool.provider for pool in pools)),
    }


def _left_data(
    tracked: Tracking, progress: RlProgress, market: Scenario, began: float = 0.0, before_usd: float = 0.0
) -> dict[str, Any]:
    """Return the scenario of steps, jobs, hours and dollars that are left as data, with the run as an observed one.

    `began`: hours from the start of the plan to that of the run; `before_usd`: dollars of the jobs before it.
    """
    data = scenario_data(market)
    for key in ("inventory", "now"):
        data.pop(key, None)
    later, passed = [job.name for job in _after(market, progress.run.name)], began + tracked.observed.elapsed_hours
    data["jobs"] = [job for job in data["jobs"] if job["name"] in (progress.run.name, *later)]
    own: dict[str, Any] = next(job for job in data["jobs"] if job["name"] == progress.run.name)
    work = {**own["work"], "steps": progress.left, "steps_before": progress.run.steps_before + progress.steps}
    mean = progress.seen.mean
    if mean is not None and mean <= progress.run.longest_output:
        work = {key: value for key, value in work.items() if key != "lengths"}
        work |= {"output_tokens": round_digits(mean), "longest_output": progress.run.longest_output}
        work |= {"output_cv": round_digits(spread_of(progress.job.work))}
    own |= {
        "work": work,
        "measured": [*own.get("measured", []), _entry(progress.job, progress.log, progress.seen, progress.made)],
    }
    own.pop("after", None)
    jobs = {job.name: job for job in market.jobs}
    for job in data["jobs"]:
        asked = jobs[job["name"]]
        if asked.deadline_hours is not None:
            job["deadline"] = f"{max(LEAST_HOURS, asked.deadline_hours - passed)}h"
        if job is not own:  # those that the run waited for have ended
            kept = [wait for wait in asked.after if wait.job in (progress.run.name, *later)]
            job["after"] = [wait.model_dump(mode="json", by_alias=True) for wait in kept]
    limits = data.get("limits", {})
    if limits.get("budget_usd") is not None:
        limits["budget_usd"] = max(0.01, limits["budget_usd"] - tracked.observed.spent_usd - before_usd)
    return data


def _with_market(data: dict[str, Any], market: Scenario) -> Scenario:
    """Return a scenario given as data on the offers of another one."""
    return read_with_offers(data, list(map(offer_data, market.offers)))


# `calibrate`: the entry for `measured`, and what it changes.


def _entry(job: RlJob | None, log: RlLog, seen: MeasuredSteps, run: EvaluatedRl | Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of `measured` for a log: the seconds, the work of the run, and how it was set up.

    The rollout of engines on spot is stated without the losses that the plan has.
    """
    measured, seconds = phase_seconds(log, seen), seen.seconds
    if isinstance(run, EvaluatedRl):
        entry = _set_up(run)
        if (with_losses := measured.get("rollout")) is not None:
            rollout = with_losses * run.sampling_seconds(run.step) / run.phases.rollout
            trainer = measured.get("log_probabilities", 0.0) + measured.get("training", 0.0)
            seconds -= with_losses - (max(rollout, trainer) if run.named.overlapped else rollout)
            measured["rollout"] = rollout
    else:
        entry = dict(run)
    entry |= {"step_seconds": round_digits(seconds)}
    entry |= {f"{name}_seconds": round_digits(measured[name]) for name in TIMED_PHASES if name in measured}
    work = None if job is None else job.work
    if work is not None:
        entry |= {"prompts": work.prompts, "answers": work.answers, "updates": work.updates}
        entry |= {
            "input_tokens": work.input_tokens,
            "output_tokens": work.mean_output,
            "output_cv": round_digits(spread_of(work)),
        }
    entry |= {"input_tokens": round_digits(seen.prompt)} if seen.prompt else {}
    entry |= {"output_tokens": round_digits(seen.mean)} if seen.mean else {}
    longest = (work.cut_at if work is not None else None) or seen.longest
    if longest is not None and seen.mean is not None:
        entry["longest_output"] = math.ceil(max(longest, seen.mean))
    return entry


def _set_up(made: EvaluatedRl) -> dict[str, Any]:
    """Return how a run of a plan is set up, as an entry of `measured` without what was observed."""
    named, trainer, engines = made.named, made.trainer, made.engines_pool
    setup: dict[str, Any] = {"gpu": trainer.card.name, "gpus": made.training_gpus}
    setup["tensor_parallel"] = named.gpus_per_engine
    if named.rollout_weight_bits != made.job.rollout.weight_bits[0]:
        setup["rollout_weight_bits"] = named.rollout_weight_bits
    setup |= {name: value for name, value in _machines_of_trainer(made).items() if value is not None}
    if named.placement != "colocated":
        setup["rollout_gpus"] = named.rollout_gpus
        setup |= {"rollout_gpu": engines.card.name} if engines.card.name != trainer.card.name else {}
        setup |= {"shares_machine": True} if named.placement == "one machine" else {}
        setup |= {"overlapped": True} if named.overlapped else {}
    if made.rollout is not None and made.step.between:
        setup["weights_gbps"] = round_digits(made.step.between * 8.0 / GB)
    for name in ("method", "activation_checkpointing", "optimizer", "micro_batch"):
        setup[name] = getattr(named, name)
    degrees = {("trainer_" * (name == "tensor_parallel")) + name: getattr(named, name) for name in TRAINER_DEGREES}
    setup |= {name: degree for name, degree in degrees.items() if degree > 1}
    setup |= {"framework": named.framework} if named.framework != made.job.framework[0] else {}
    setup |= {"sharding": named.sharding} if made.training_gpus > 1 else {}
    return setup | ({"weight_bits": named.weight_bits, "lora_rank": named.lora_rank} if named.method != "full" else {})


def _machines_of_trainer(made: EvaluatedRl) -> dict[str, Any]:
    """Return machines, link and network of the trainer where there are several machines or GPUs."""
    offer, count = made.trainer.offer, made.named.trainer.instances
    links = {"nvlink", "nvswitch", "pcie"}
    return {
        "instances": count if count > 1 else None,
        "interconnect": offer.interconnect if offer.gpus > 1 and offer.interconnect in links else None,
        "network_gbps": offer.network_gbps if count > 1 else None,
    }


def calibrate_rl(
    logs: Sequence[str], scenario: Scenario, name: str, run: dict[str, Any], options: SolveOptions | None
) -> CalibrationResult:
    """Return the entry of `measured` for the logs of a run, and the plan of its job before and after.

    `run` has how the run was set up, in the names of the entry, or a plan under `plan`.
    Raises `InputError` for logs that say too little, and for a set-up that cannot be estimated.
    """
    job = next(other for other in scenario.jobs if other.name == name)
    assert isinstance(job, RlJob)
    plan = run.get("plan")
    planned = None if plan is None else _run_of(plan, scenario, name)[0]
    log = read_rl_logs(logs)
    log = log if planned is None else _since(log, planned, job)
    if planned is None and log.waits and "rollout_gpus" not in run:
        problem = "the engines sampled while the trainer worked, on GPUs that the log does not say"
        raise fault(log.file, 1, problem, "give the plan of the run: --plan plan.json")
    seen = measured_steps(log, job.work.updates)
    library = read_library([other.architecture for other in scenario.jobs])
    made = None if planned is None else _evaluated(planned, job, scenario, library)
    entry = _entry(job, log, seen, run if made is None else made)
    observed = Source(CALIBRATE_COMMAND).validate(MeasuredRl, dict(entry))
    architecture = library.architecture(job.architecture)
    predicted = predicted_phases(job, observed, architecture, library)
    factors = run_factors(job, observed, architecture, library)
    notes = _log_notes(log, seen, observed.phase_seconds)
    whole = predicted.step_seconds(observed.overlapped)
    if is_implausible_speed(whole, seen.seconds):
        notes.append(
            f"a step takes {seen.seconds / whole:.2g} times its estimate: check GPU, number of GPUs and lengths"
        )
    mean = job.work.mean_output
    if seen.mean is not None and not 1 / GROWTH <= seen.mean / mean <= GROWTH:
        place = f"jobs.{[other.name for other in scenario.jobs].index(name)}.work.output_tokens"
        notes.append(f"answers have another length than the job says: --set {place}={seen.mean:.0f}")
    if planned is not None and any(pool.market == "spot" for pool in planned.pools):
        notes.append("engines are on spot: what the plan loses with them is not counted as rollout")
    text = ", ".join(f"{key}: {_yaml(value)}" for key, value in entry.items())
    changed = change_scenario(scenario, [f"jobs.{name}.measured.{len(job.measured)}={{{text}}}"])
    return CalibrationResult(
        logs=tuple(f"{file} ({log.kind})" for file in log.file.split(", ")),
        step_times=_step_times(seen),
        measured=entry,
        unit="tokens",
        scenario=scenario.name,
        job=name,
        phases=_compared(predicted, observed.phase_seconds, factors, observed.overlapped),
        answers=_answers(seen, mean, job.work.cut_at),
        before=_outcome(plan if plan is not None else solve(scenario, options), name),
        after=_outcome(solve(changed, options), name),
        notes=tuple(notes),
    )


def measurements(logs: Sequence[str], run: dict[str, SettingValue]) -> CalibrationResult:
    """Return the entry of `measured` for the logs of a run without a scenario, which nothing is compared with."""
    log = read_rl_logs(logs)
    seen = measured_steps(log)
    measured = phase_seconds(log, seen)
    notes = _log_notes(log, seen, measured)
    notes.append("compared with nothing: give --plan of the run, or --scenario with its job")
    return CalibrationResult(
        logs=tuple(f"{file} ({log.kind})" for file in log.file.split(", ")),
        step_times=_step_times(seen),
        measured=_entry(None, log, seen, run),
        unit="tokens",
        phases=_compared(None, measured, None),
        answers=_answers(seen, None, None),
        notes=tuple(notes),
    )


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _step_times(seen: MeasuredSteps) -> StepTimes:
    return StepTimes(seconds=seen.seconds, spread=None, steps=seen.steps, dropped=seen.warm_up_steps)


def _outcome(plan: Plan, name: str) -> PlanSummary:
    run = next((run for run in plan.reinforcement if run.name == name), None)
    if run is None:
        return PlanSummary(status=plan.status)
    return PlanSummary(
        status=plan.status,
        gpu=" + ".join(dict.fromkeys(pool.gpu for pool in run.pools)),
        gpus=sum(pool.gpus for pool in run.pools),
        provider=" + ".join(dict.fromkeys(pool.provider for pool in run.pools)),
        method=run.method,
        hours=run.hours.expected,
        hours_low=run.hours.low,
        hours_high=run.hours.high,
        cost_usd=run.cost_usd,
        tokens_per_second=run.sequences * (run.input_tokens + run.output_tokens) / run.step_seconds,
    )
