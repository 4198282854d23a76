"""The timetable in which every job on spot may have any guarantee, at no less than its dollars: a bound.

A timetable has modes for some guarantees of a job, and any other is allowed. Between two of them, of 2 h and of 4 h, a
run lasts at least 2 h, and costs no less than with 4 h: no guarantee costs less than a longer one. A mode that lasts
2 h at the dollars of 4 h stands for all of them. It takes nothing from budgets, whose dollars are not in order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats
from planner.candidates.screening import ScreenedCandidates
from planner.records import record
from planner.solving.prepare import PreparedScenario
from planner.timetable.modes import (
    BuiltTimetable,
    Guarantees,
    guarantees_of_job,
    mode_of,
    undominated_modes,
    without_reservations,
)
from planner.timetable.shared_over_time import minutes_down, minutes_up
from planner.timetable.timetable_problem import SAME_MINUTE, Mode, Schedule, Timetable
from planner.timetable.timetable_search import TimetableSearch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Span = tuple[float, float]
"""Minutes: longer than the first, and at most the second."""


@record(frozen=True)
class AnyGuarantee:
    """What no timetable stays below, and per job the spans in which guarantees might cost less than those of modes."""

    bound: float  # in units of the objective
    spans: tuple[Span | None, ...]


def bound_of_any_guarantee(
    prepared: PreparedScenario, built: BuiltTimetable, seconds: float, gap: float
) -> AnyGuarantee:
    """Return what no timetable stays below, whatever its guarantees: in units of the objective, by the time limit.

    It is at least what each job costs with all limits to itself.
    """
    assert built.least is not None
    nowhere = (None,) * len(built.problem.tasks)
    if built.problem.objective != "cost":
        return AnyGuarantee(built.least, nowhere)
    problem, spans = with_any_guarantee(prepared, built)
    search = TimetableSearch(problem, None, gap)
    search.improve(seconds)
    bound = max(built.least, search.bound) if math.isfinite(search.bound) else built.least
    if search.schedule is None:
        return AnyGuarantee(bound, nowhere)
    chosen = zip(spans, search.schedule.modes, strict=True)
    return AnyGuarantee(bound, tuple(of_modes[mode] for of_modes, mode in chosen))


def with_any_guarantee(prepared: PreparedScenario, built: BuiltTimetable) -> tuple[Timetable, list[list[Span | None]]]:
    """Return the timetable with modes that stand for every guarantee that a job may have, and the span of each mode."""
    tasks, spans = [], []
    for index, task in enumerate(built.problem.tasks):
        pairs: list[tuple[Mode, Span | None]] = [(replace(mode, rank=0), None) for mode in task.modes]
        pairs += _modes_between(prepared, built, index)
        kept = undominated_modes([mode for mode, _ in pairs], deadline=task.deadline)
        tasks.append(replace(task, modes=tuple(pairs[at][0] for at in kept)))
        spans.append([pairs[at][1] for at in kept])
    return replace(built.problem, tasks=tuple(tasks)), spans


def further_guarantees(
    prepared: PreparedScenario, built: BuiltTimetable, schedule: Schedule, spans: Sequence[Span | None]
) -> tuple[Guarantees, ...]:
    """Return per job the guarantees that were added, and those that may cost less than a schedule of the modes.

    A job on spot may take what the others leave it before and after its run; and the middle of a span is tried.
    """
    found = []
    for index, (job, span) in enumerate(zip(prepared.scenario.jobs, spans, strict=True)):
        more = set(built.further[index])
        source = built.jobs[index].sources[schedule.modes[index]]
        if source.row in source.screened.spot:
            before, after = _room(built.problem, schedule, index)
            more.add(math.floor(after - before + SAME_MINUTE) + minutes_down(job.start_slack_hours))
        if span is not None:
            more.add(math.floor(sum(span) / 2))
        found.append(tuple(sorted(more)))
    return tuple(found)


def _room(problem: Timetable, schedule: Schedule, index: int) -> tuple[int, float]:
    """Return from when to when a task could hold what it holds, where the others stay."""
    task, mode, start = problem.tasks[index], schedule.mode(problem, index), schedule.starts[index]
    first = max([task.release, mode.earliest, *(schedule.end(problem, other) + lag for other, lag in task.after)])
    last = float(problem.horizon) if task.deadline is None else task.deadline
    for other, its in enumerate(problem.tasks):
        lags = [lag for waits_for, lag in its.after if waits_for == index]
        last = min([last, *(schedule.starts[other] - lag for lag in lags)])
        held = dict(schedule.mode(problem, other).needs)
        resources = problem.resources
        if other == index or all(held.get(at, 0) + amount <= resources[at].capacity for at, amount in mode.needs):
            continue
        if schedule.starts[other] < start:
            first = max(first, schedule.end(problem, other))
        else:
            last = min(last, schedule.starts[other])
    return first, last


def _modes_between(prepared: PreparedScenario, built: BuiltTimetable, index: int) -> Iterator[tuple[Mode, Span | None]]:
    """Yield for each guarantee of a job, and each of its rows, a mode for all guarantees down to the next shorter one.

    Where an unlimited offer costs no more on as few GPUs, other offers have no policy for the same guarantee. With a
    shorter one they may, so that such a row stands for theirs, too.
    """
    job, offers = prepared.scenario.jobs[index], prepared.market.offers
    levels = guarantees_of_job(prepared, index, built.further[index])
    shortest = [_shortest_minutes(prepared, index, screened) for _, screened in levels]
    of_job = min((float(minutes.min()) for minutes in shortest if len(minutes)), default=0.0)
    shorter = [60 * hours for hours, _ in levels[1:]]
    for (hours, screened), fastest, below in zip(levels, shortest, [*shorter, 0.0], strict=True):
        table = without_reservations(screened.table, prepared)
        for row in range(len(table)):
            offer = offers[int(table.offer[row])]
            is_free = offer.stock is None and offer.committed_hours is None
            is_free &= offer.provider not in prepared.scenario.limits.quota
            varies = row in screened.spot or bool(table.share_low[row] < table.share_high[row])
            if varies or is_free:
                room = below - minutes_up(offer.lead_hours + job.start_slack_hours)
                least = max(room, of_job if is_free else float(fastest[row]))
                span = (max(below, least), 60 * hours) if screened.spot else None
                yield _mode_between(prepared, built, screened, row, least), span


def _shortest_minutes(prepared: PreparedScenario, index: int, screened: ScreenedCandidates) -> Floats:
    """Return the minutes (n,) of each row on demand, or of its least share on spot: no guarantee makes it faster."""
    uncut = without_reservations(prepared.candidates[index].table.rows(screened.rows), prepared)
    with np.errstate(invalid="ignore"):
        hours = np.fmin(uncut.late_hours(np.zeros(len(uncut))), uncut.late_hours(uncut.share_low))
    return np.asarray(60 * np.nan_to_num(hours), dtype=float)


def _mode_between(
    prepared: PreparedScenario, built: BuiltTimetable, screened: ScreenedCandidates, row: int, least_minutes: float
) -> Mode:
    """Return a row as a mode that lasts and costs no more than any of its shares and guarantees down to some minutes.

    It holds no dollars, and neither waits for windows nor holds what may be closed at times. Who reserves its machine
    pays all of it, as in the comparison that leaves out other rows.
    """
    one = screened.table.rows(np.asarray([row]))
    offer = prepared.market.offers[int(one.offer[0])]
    one = one if offer.is_reservation else without_reservations(one, prepared)
    ends = [mode_of(prepared, one, float(share), built.shared) for share in (one.share_low[0], one.share_high[0])]
    minutes = min([least_minutes, *(mode.minutes - mode.unused for mode in ends)])
    dollars = {resource for limit, resource in built.shared.peaks if limit.is_of_dollars}
    fixed = [dict(mode.needs) for mode in ends]
    needs = (
        ()
        if offer.available or offer.is_reservation
        else tuple((what, min(held.get(what, 0) for held in fixed)) for what in fixed[0] if what not in dollars)
    )
    return Mode(
        ends[0].label,
        max(1, math.floor(minutes)),
        min(mode.cost for mode in ends),
        needs,
        earliest=0 if offer.available or offer.is_reservation else min(mode.earliest for mode in ends),
        unused=0.0 if minutes >= 1 else 1.0,
    )
