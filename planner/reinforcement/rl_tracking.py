"""The log of a run of reinforcement learning against its plan, `track`: its end, its cost, and what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.analysis.logged_steps import fault
from planner.analysis.rl_logs import MeasuredSteps, RlLog, RlLogStep, attempts_of, measured_steps, read_rl_logs
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
from planner.estimates.uncertainty import (
    confidence_factor,
    factors_of_tail,
    is_implausible_speed,
    student_2_quantile,
    tail_of_68_percent,
)
from planner.evaluation.evaluated_hours import probability_within
from planner.library.reading import read_library
from planner.reinforcement.evaluated_rl import EvaluatedRl, spread_of
from planner.reinforcement.rl_calibration import (
    GROWTH,
    compared_phases,
    evaluated_run,
    log_notes,
    measured_answers,
    measured_entry,
    phase_seconds,
    run_of_log,
    steps_of_plan,
)
from planner.reinforcement.rl_chain import in_order
from planner.reinforcement.rl_step import RlPhases, measured_factors
from planner.results.explanation import describe_job_differences
from planner.results.plan import Plan
from planner.results.plan_parts import Hours, Spread
from planner.results.run_results import (
    Cause,
    ChainEnd,
    Choice,
    KeptDeadline,
    ObservedProgress,
    PhaseSeconds,
    PlannedProgress,
    ProjectedEnd,
    Tracking,
)
from planner.results.subject_runs import RL_PHASE_NAMES, RlPool, RlRun
from planner.scenario.job import MAX_CONFIDENCE
from planner.scenario.offer import offer_data
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import Scenario, SolveOptions, ends_before, scenario_data
from planner.solving.solve import solve
from planner.units import HOUR, round_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.results.plan_parts import BillItem
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits

ONE_STEP_NOISE = 0.15
"""Spread of the pace where a single step is timed: a guess."""
LEAST_CLOCKED, MOST_BETWEEN = 4, 3.0
"""Steps with a clock from which what is between steps is read, and the most times that it makes a step as long."""


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
    run, job = run_of_log(plan, scenario, name)
    progress = _progress(run, job, scenario, steps_of_plan(read_rl_logs(logs), run, job))
    notes = [*log_notes(progress.log, progress.seen, phase_seconds(progress.log, progress.seen)), *_doubts(progress)]
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
        answers=measured_answers(progress.seen, run.output_tokens, run.longest_output),
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


def _progress(run: RlRun, job: RlJob, scenario: Scenario, log: RlLog) -> RlProgress:
    """Return the run with its log; `InputError` where the log has more steps than the plan."""
    updates = job.work.updates if log.tool.counts_updates else 1
    steps = log.steps[-1].step // updates
    if steps > run.steps:
        problem = f"step {log.steps[-1].step:,}, but the plan has {run.steps * updates:,}"
        raise fault(log.file, log.steps[-1].line, problem, "give the log of this job, or its own plan")
    made = evaluated_run(run, job, scenario, read_library([each_job.architecture for each_job in scenario.jobs]))
    return RlProgress(run, job, made, log, measured_steps(log, job.work.updates), steps, updates)


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
    return compared_phases(planned, measured, factors, progress.run.overlapped)


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
        "measured": [
            *own.get("measured", []),
            measured_entry(progress.job, progress.log, progress.seen, progress.made),
        ],
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
