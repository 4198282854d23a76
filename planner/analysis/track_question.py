"""A running job against its plan: what its logs say, when it will end, and why that differs."""

from __future__ import annotations

import datetime
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.analysis.calibration.trainer_state import read_history
from planner.analysis.run_progress import Progress, join_logs, read_progress
from planner.analysis.run_projection import (
    BEFORE_STAGES,
    causes_of,
    end_of,
    hourly_usd,
    observed_step_seconds,
    paid_share,
    planned_step_seconds,
    project,
)
from planner.documents.quantities import parse_instant
from planner.documents.validation import MOST_NAMES, meant_name
from planner.errors import Fault, InputError
from planner.evaluation.evaluated_bill import FIXED
from planner.records import record
from planner.results.tracking import ObservedProgress, PlannedProgress, Tracking
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.calibration.line_logs import LogHistory
    from planner.analysis.run_projection import Projection
    from planner.results.plan import Assignment, Plan
    from planner.scenario.job import Job
    from planner.scenario.scenario import Scenario, SolveOptions

TOKENS_SLACK = 1.05
"""Ratio of logged to planned tokens of a step beyond which the log is of another run: counts may include padding."""


@record(frozen=True)
class Stated:
    """What only the user knows of a run."""

    started: str | None = None
    """Day and time at which the machines were ordered; without it the start takes as long as planned."""
    spent_usd: float | None = None
    """Without it the prices of the plan hold."""
    now: str | None = None
    """Day and time up to which the hours count; without it they count up to the last logged step."""


def track(
    plan: Plan,
    scenario: Scenario,
    logs: Sequence[str],
    job: str | None = None,
    stated: Stated | None = None,
    market: Scenario | None = None,
    options: SolveOptions | None = None,
) -> Tracking:
    """Return a running job of a plan against what was planned.

    `scenario`: what the plan was made from. `logs`: paths of the logs of one run, of all of its attempts.
    `market`: plan what is left anew, on the offers of this scenario; without it nothing is planned.
    Raises `InputError` for logs that say nothing that can be used, or that cannot be of this job.
    """
    stated = stated or Stated()
    chosen, asked = _job_of(plan, scenario, job)
    read = [read_history(path) for path in logs]
    log = _since(join_logs(read), chosen.steps_before)
    progress = read_progress(log)
    notes = [*progress.remarks, *_doubts(log, chosen, progress)]
    elapsed = _elapsed_hours(chosen, progress, log, stated, notes)
    found = project(chosen, progress)
    spent = _spent_usd(chosen, progress, elapsed) if stated.spent_usd is None else stated.spent_usd
    end = end_of(chosen, found, elapsed, spent, asked.confidence)
    observed = _observed(chosen, progress, read, elapsed, spent).model_copy(
        update={"spent_is_given": stated.spent_usd is not None}
    )
    notes += _remarks(chosen, asked, scenario, progress, observed, found)
    tracked = Tracking(
        scenario=plan.scenario,
        job=chosen.name,
        logs=tuple(f"{one.file} ({one.kind})" for one in read),
        observed=observed,
        planned=_planned(chosen, asked, scenario),
        projected=end,
        causes=causes_of(chosen, progress, found, elapsed, end),
        notes=tuple(dict.fromkeys(notes)),
    )
    if market is None:
        return tracked
    from planner.analysis.replan import replan  # loads the solvers

    return replan(tracked, chosen, market, progress, found, options)


def _job_of(plan: Plan, scenario: Scenario, name: str | None) -> tuple[Assignment, Job]:
    """Return the job that is tracked; `InputError` where it is not clear which, or where there is none to track."""
    names = [one.name for one in plan.jobs]
    if not plan.jobs:
        raise InputError(
            [Fault("plan", 0, "jobs", f"nothing runs: the plan is {plan.status}", "track a plan with jobs")]
        )
    name = name if name is None else meant_name(name, names, "--job", "the plan has no job")
    found = [one for one in plan.jobs if name in (None, one.name)]
    if len(found) != 1:
        fix = f"name one, such as {' or '.join(names[:MOST_NAMES])}"
        raise InputError([Fault("--job", 0, "", f"{len(plan.jobs)} jobs", fix)])
    (job,) = found
    asked = next((one for one in scenario.jobs if one.name == job.name), None)
    where = f"jobs.{job.name}"
    if asked is None:
        raise InputError([Fault("plan", 0, "inputs", f"the scenario has no job {job.name}", "solve it again")])
    if not job.gpus or job.step_seconds <= 0:
        raise InputError([Fault("plan", 0, where, "a managed service trains it: there is no log", "ask the service")])
    if job.trials > 1:
        what = f"the plan has {job.trials} trials of this run"
        raise InputError([Fault("plan", 0, where, what, "track a plan of one run: --set jobs.NAME.trials=1")])
    return job, asked


def _since(log: LogHistory, before: int) -> LogHistory:
    """Return the log of the steps after those that were done before the plan, counted from there."""
    if not before:
        return log
    points = tuple(replace(one, step=one.step - before) for one in log.points if one.step > before)
    if not points:
        what = f"ends at step {log.points[-1].step:,}, but the plan begins after step {before:,}"
        raise InputError([Fault(log.file, log.points[-1].line, "", what, "give the log of the run that went on")])
    return replace(log, points=points, total_steps=log.total_steps - before if log.total_steps else None)


def _doubts(log: LogHistory, job: Assignment, progress: Progress) -> list[str]:
    """Return what speaks against a log being of this job; `InputError` where it cannot be."""
    if progress.steps > job.steps:
        what = f"step {progress.steps:,}, but the plan has {job.steps:,}"
        raise InputError([Fault(log.file, log.points[-1].line, "", what, "give the log of this job, or its own plan")])
    found = []
    if log.total_steps is not None and log.total_steps != job.steps:
        found.append(f"the log is of a run of {log.total_steps:,} steps, the plan has {job.steps:,}")
    if log.micro_batch is not None and log.micro_batch != job.techniques.micro_batch:
        found.append(f"the log has micro-batch {log.micro_batch}, the plan {job.techniques.micro_batch}")
    most = job.global_batch * job.sequence_length
    if job.unit == "tokens" and log.tokens_per_step is not None and log.tokens_per_step > TOKENS_SLACK * most:
        found.append(f"the log counts {log.tokens_per_step:,.0f} tokens per step, the plan at most {most:,}")
    return [f"{one}: is it this job?" for one in found]


def _elapsed_hours(job: Assignment, progress: Progress, log: LogHistory, stated: Stated, notes: list[str]) -> float:
    """Return the hours since the machines were ordered."""
    until = progress.last_clock if stated.now is None else _moment(stated.now, "--now")
    if stated.started is None:
        before = job.start_hours + math.fsum(job.stage_hours.get(name, 0.0) for name in BEFORE_STAGES)
        ran = progress.run_hours
        if ran is None:
            fix = "give --started, the time at which the machines were ordered, or a log that times its steps"
            raise InputError([Fault(log.file, 1, "", "nothing says how long the run took", fix)])
        notes.append("the start is assumed to have taken as long as planned: --started tells it")
        if until is not None and progress.last_clock is not None:
            ran += max(0.0, until - progress.last_clock) / HOUR
        return before + ran
    began = _moment(stated.started, "--started")
    if until is None:
        until = _modified(log.file)
        notes.append("the log has no clock times: its file's own time is that of the last step")
    if until < began:
        what = "the machines were ordered after the last step of the log"
        raise InputError([Fault("--started", 0, "", what, "check the day and the zone: 2026-11-25 09:00 UTC")])
    return (until - began) / HOUR


def _moment(text: str, option: str) -> float:
    from pydantic_core import PydanticCustomError

    try:
        return parse_instant(text).timestamp()
    except PydanticCustomError as error:
        context = error.context or {}
        raise InputError([Fault(option, 0, "", context["what"], context["fix"])]) from None


def _modified(file: str) -> float:
    """Return when a file was written last; now for standard input."""
    try:
        return max(os.path.getmtime(one) for one in file.split(", "))
    except OSError:
        return datetime.datetime.now(datetime.UTC).timestamp()


def _spent_usd(job: Assignment, progress: Progress, elapsed: float) -> float:
    """Return the dollars spent at the prices of the plan."""
    fixed = math.fsum(line.usd for line in job.bill if line.item in FIXED and line.item != "transfer out")
    if job.spot_share > 0:
        pace = observed_step_seconds(job, progress) or planned_step_seconds(job)
        return fixed + hourly_usd(job) * paid_share(job, (progress.steps + progress.repeated_steps) * pace / HOUR)
    return fixed + hourly_usd(job) * paid_share(job, elapsed)


def _observed(
    job: Assignment, progress: Progress, logs: Sequence[LogHistory], elapsed: float, spent: float
) -> ObservedProgress:
    pace, seconds = progress.pace, observed_step_seconds(job, progress)
    peaks = [(one.peak_gib, one.peak_kind) for one in logs if one.peak_gib is not None]
    peak, kind = max(peaks, default=(None, None))
    busy = [one.utilisation for one in logs if one.utilisation is not None]
    return ObservedProgress(
        steps=progress.steps,
        share_done=progress.steps / job.steps,
        step_seconds=seconds,
        step_spread=pace.spread if pace else None,
        timed_steps=pace.steps if pace else 0,
        warm_up_steps=pace.warm_up_steps if pace else 0,
        tokens_per_second=job.tokens_per_second * job.step_seconds / seconds if seconds else None,
        elapsed_hours=elapsed,
        standing_hours=progress.standing_hours,
        restarts=progress.attempts - 1,
        repeated_steps=progress.repeated_steps,
        peak_vram_gib=peak,
        peak_kind=kind,
        free_vram_gib=job.vram_gib.usable - peak if peak is not None else None,
        gpu_utilisation=math.fsum(busy) / len(busy) if busy else None,
        last_loss=progress.last_loss,
        spent_usd=spent,
        spent_is_given=False,
    )


def _planned(job: Assignment, asked: Job, scenario: Scenario) -> PlannedProgress:
    return PlannedProgress(
        steps=job.steps,
        step_seconds=planned_step_seconds(job),
        tokens_per_second=job.tokens_per_second * job.step_seconds / planned_step_seconds(job),
        unit=job.unit,
        hours=job.hours,
        cost_usd=job.cost,
        peak_vram_gib=job.vram_gib.peak,
        usable_vram_gib=job.vram_gib.usable,
        deadline_hours=job.deadline_hours,
        deadline_probability=job.deadline_probability,
        confidence=asked.confidence,
        budget_usd=scenario.limits.budget_usd,
    )


def _remarks(
    job: Assignment, asked: Job, scenario: Scenario, progress: Progress, observed: ObservedProgress, found: Projection
) -> list[str]:
    """Return what a reader must know of a run and its projection."""
    notes = []
    if progress.diverged_at is not None:
        notes.append(f"the loss is no number since step {progress.diverged_at:,}: the run may have diverged")
    if progress.pace is None:
        notes.append("too few steps are timed: the pace is that of the plan")
    slow = found.pace_seconds / planned_step_seconds(job) - 1.0
    if observed.gpu_utilisation is not None and slow > 0 and 1.0 - observed.gpu_utilisation >= slow / (1.0 + slow):
        idle = 100 * (1.0 - observed.gpu_utilisation)
        notes.append(f"the GPUs are idle {idle:.0f} % of the time, which explains the slower steps: they wait for data")
    if observed.peak_vram_gib is not None and observed.peak_vram_gib > job.vram_gib.peak:
        notes.append(f"memory peaks above the {job.vram_gib.peak:.1f} GiB of the plan")
    if asked.early_stopping < 1:
        notes.append("projected to the last step: without early stopping")
    budget = scenario.limits.budget_usd
    if budget is not None and observed.spent_usd + found.left_usd > budget and len(scenario.jobs) == 1:
        notes.append(f"the projected cost is above the budget of ${budget:,.2f}")
    return notes
