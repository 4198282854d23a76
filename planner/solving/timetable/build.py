"""The timetable of a scenario: its jobs as tasks, what they share as resources."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.errors import Fault, ScenarioError, raise_faults
from planner.formulation.timetable.problem import Task, Timetable
from planner.records import record
from planner.solving.timetable.calendar import minutes_down, minutes_up, open_times
from planner.solving.timetable.modes import JobModes, KeepRows, job_modes
from planner.solving.timetable.shared import SharedThings, shared_things

if TYPE_CHECKING:
    from planner.scenario.job import Job
    from planner.solving.prepare import PreparedScenario

UNITS_PER_MINUTE = 100
"""Units of money per minute in a dollar per hour: 6,000 in a dollar, 60 minutes in an hour."""


@record(frozen=True)
class BuiltTimetable:
    """A timetable with what stands behind its modes and resources."""

    problem: Timetable
    jobs: tuple[JobModes, ...]
    shared: SharedThings


def build_timetable(prepared: PreparedScenario, keep: KeepRows | None = None) -> BuiltTimetable:
    """Return the timetable of a scenario, of the candidates that `keep` leaves of each job.

    Raises
    ------
    ScenarioError
        Where every window of the machines is too short for a job that has no other machine.
    """
    scenario = prepared.scenario
    horizon = _horizon(prepared)
    shared = shared_things(scenario, prepared.market, horizon)
    jobs = tuple(job_modes(prepared, index, shared, horizon, keep) for index in range(len(scenario.jobs)))
    if keep is None:
        _check_windows(prepared, jobs, horizon)
    places = {job.name: index for index, job in enumerate(scenario.jobs)}
    usd_per_hour = scenario.value_of_time_usd_per_hour
    tasks = tuple(_task(job, made, places, usd_per_hour) for job, made in zip(scenario.jobs, jobs, strict=True))
    problem = Timetable(
        tasks,
        tuple(shared.resources),
        tuple(shared.pools),
        tuple(shared.periods),
        horizon,
        "last" if scenario.objective_kind == "time" else "cost",
    )
    return BuiltTimetable(problem, jobs, shared)


def _horizon(prepared: PreparedScenario) -> int:
    """Return the minutes in which all jobs can end: the last deadline, or later where a job has none.

    From the moment on at which all jobs are released and what is there once is over, the jobs without a deadline run
    in turn in the worst case. Each then waits for a window or a budget that returns, and starts anywhere in it.
    """
    scenario, market = prepared.scenario, prepared.market
    jobs = scenario.jobs
    last = max((minutes_down(job.deadline_hours) for job in jobs if job.deadline_hours is not None), default=0)
    open_ended = [index for index, job in enumerate(jobs) if job.deadline_hours is None]
    if not open_ended:
        return last
    windows = [window for offer in market.offers for window in offer.available]
    once = [job.release_hours for job in jobs]
    once += [offer.block.end_hours for offer in market.offers if offer.block]
    once += [window.to_hours for window in windows]
    once += [one.to_hours or one.from_hours or 0.0 for one in scenario.limits.budgets]
    returns = [
        (window.every_hours or 0.0) + math.fsum(abs(one.forward_hours) for one in window.clock_changes)
        for window in windows
    ]
    returns += [one.length_hours for one in scenario.limits.budgets]
    in_turn = sum(_most_minutes(prepared, index) + 2 * minutes_up(max(returns, default=0.0)) for index in open_ended)
    lags = sum(minutes_up(one.lag_hours) for job in jobs for one in job.after)
    return max(last, minutes_up(max(once))) + in_turn + lags


def _most_minutes(prepared: PreparedScenario, index: int) -> int:
    """Return the most minutes that a candidate of a job takes, with pauses where its machine is closed at times.

    A run by night stands still by day, and each pause takes a part of the night.
    """
    screened, candidates = prepared.screened[index], prepared.candidates[index]
    table = screened.table
    hours = np.maximum(table.late_hours(table.share_low), table.late_hours(table.share_high))
    most = float(hours.max(initial=0.0))
    for row in np.flatnonzero([bool(prepared.market.offers[place].available) for place in table.offer]).tolist():
        uncut = int(screened.rows[row])
        if candidates.is_managed_service[uncut]:  # which cannot pause
            continue
        pause = candidates.resume_hours(uncut) * float(candidates.hours.late[uncut])
        for window in prepared.market.offers[int(table.offer[row])].available:
            left = window.to_hours - window.from_hours - pause
            if window.every_hours is not None and left > 0:
                most = max(most, float(hours[row]) * window.every_hours / left)
    return minutes_up(most)


def _task(job: Job, made: JobModes, places: dict[str, int], usd_per_hour: float) -> Task:
    """Return a job as a task."""
    return Task(
        job.name,
        made.modes,
        release=minutes_up(job.release_hours),
        deadline=None if job.planned_deadline_hours is None else minutes_down(job.planned_deadline_hours),
        due=None if job.due_hours is None else minutes_down(job.due_hours),
        late=round(UNITS_PER_MINUTE * job.late_usd_per_hour),
        wait=round(UNITS_PER_MINUTE * usd_per_hour),
        after=tuple((places[one.job], minutes_up(one.lag_hours)) for one in job.after),
    )


def _check_windows(prepared: PreparedScenario, jobs: tuple[JobModes, ...], horizon: int) -> None:
    """Raise ScenarioError for a job that no window of any machine is long enough for."""
    faults, scenario = [], prepared.scenario
    for index, (job, made) in enumerate(zip(scenario.jobs, jobs, strict=True)):
        table = prepared.screened[index].table
        offers = [prepared.market.offers[place] for place in sorted(set(table.offer.tolist()))]
        if made.modes or not len(table) or not all(offer.available for offer in offers):
            continue
        longest = max(
            (last - first for offer in offers for first, last in open_times(offer.available, horizon)), default=0
        )
        needed = float(table.late_hours(table.share_low).min())
        what = f"{job.name} takes {needed:.1f} h at least, and no window is longer than {longest / 60:.1f} h"
        if job.can_resume and not scenario.limits.budgets:
            what += ", nor do several together hold it by the end"
        else:
            why = "budgets by period" if job.can_resume else "checkpoints of weights alone"
            what += f"; with {why} it cannot pause between two"
        fix = "lengthen `available` of its offers, or add a machine that is always there"
        faults.append(Fault(scenario.name, 0, f"jobs.{job.name}.work", what, fix))
    raise_faults(faults, ScenarioError)


def ending_by(problem: Timetable, last: int) -> Timetable:
    """Return the timetable with cost as objective and every task ended by a minute."""
    return replace(problem, objective="cost", horizon=last)
