"""The timetable of a scenario: its jobs as tasks, each with its modes and what they hold and cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import ON_DEMAND, CandidateTable, Flags, Floats, Integers
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.errors import Fault, ScenarioError, raise_faults
from planner.formulation.constraints import find_undominated, undominated_columns
from planner.formulation.program import SharedLimits, TypicalPeak
from planner.scenario.job import Job
from planner.scenario.limits import max_run_hours
from planner.scenario.scenario import Scenario
from planner.solving.prepare import PreparedScenario, shared_peaks
from planner.timetable.timetable_problem import (
    UNITS_PER_USD,
    Mode,
    SharedThings,
    Task,
    Timetable,
    latest_start,
    minutes_down,
    minutes_up,
    open_times,
    pause_cost,
    paused_modes,
    shared_things,
    usd_units,
    usd_units_up,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MOMENT_HOURS = 1e-6
"""A run is never shorter: what it spends per hour stays a number."""
SHORTER_GUARANTEES = (0.75, 0.5, 0.25)
"""Parts of the time that a job has for which policies on spot are made too: a shorter one leaves room for others.

A further part is that of a job's fastest run in those of all jobs: with it jobs of different lengths fit in turn. Each
is rounded down to whole minutes. Rounded up, two halves would be longer than the whole. Any part is allowed, so what
these cost at least is no bound: `least_objective` and `planner.timetable.timetable_search` are."""

MOST_PAUSES = 1000
"""More pauses of a run are counted as so many where ties are decided: a night each of three years."""


Guarantees = tuple[int, ...]
"""Minutes that a job has in all for a run on spot, those that it keeps for finding a machine included."""

KeepRows = Callable[[int, ScreenedCandidates], ScreenedCandidates]
"""What leaves some of the candidates of a job (by its place): those that a question asks for."""


@dataclass(frozen=True)
class ModeSource:
    """The candidate behind a mode: a row of screened candidates at a spot share, and the lot that pays for it."""

    screened: ScreenedCandidates
    row: int
    share: float
    lot: int | None  # resource
    pauses: tuple[tuple[int, int], ...] = ()  # minutes in which the run stands still


@dataclass(frozen=True)
class JobModes:
    """The modes of one job, and the candidate behind each; those that a tie alone may take are the last ones."""

    modes: tuple[Mode, ...]
    sources: tuple[ModeSource, ...]
    needed: int  # of the first ones is the least objective made

    @property
    def of_least_objective(self) -> tuple[Mode, ...]:
        """Return the modes that a timetable of least objective may need."""
        return self.modes[: self.needed]


def job_modes(
    prepared: PreparedScenario,
    index: int,
    shared: SharedThings,
    horizon: int,
    keep: KeepRows | None = None,
    further: Guarantees = (),
) -> JobModes:
    """Return the undominated modes of one job, of the candidates that `keep` leaves, with `further` guarantees."""
    tables = screens_of_job(prepared, index, further)
    if keep is not None:
        tables = [keep(index, table) for table in tables]
    keeps_ties, pairs = has_near_ties(prepared.scenario), list[tuple[Mode, ModeSource]]()
    for screened in tables:
        pairs += _modes_of_rows(
            prepared, screened, _useful_rows(prepared, screened, shared, keeps_ties), shared, horizon
        )
    # Of equal modes the first stays.
    pairs.sort(key=lambda pair: int(pair[1].screened.table.lossiness[pair[1].row]))
    pairs = _with_ranks(prepared, pairs)
    deadline = prepared.scenario.jobs[index].planned_deadline_hours
    by = None if deadline is None else 60 * deadline
    kept, needed = split_modes([mode for mode, _ in pairs], keeps_ties, by)
    return JobModes(tuple(pairs[place][0] for place in kept), tuple(pairs[place][1] for place in kept), needed)


def has_near_ties(scenario: Scenario) -> bool:
    """Return whether the order of ties may choose a timetable that costs more than the least cost."""
    return scenario.objective_kind == "cost" and scenario.near_tie_usd(1.0) > 0


def _with_ranks(prepared: PreparedScenario, pairs: list[tuple[Mode, ModeSource]]) -> list[tuple[Mode, ModeSource]]:
    """Return the modes with their number in the order of ties: by preference, then by machines, then by pauses.

    No sum over the jobs of a later step outweighs one of an earlier step, so that sums of these numbers compare step
    by step.
    """
    machines = 1 + sum(int(candidates.table.instances.max(initial=0)) for candidates in prepared.candidates)
    pauses = 1 + len(prepared.candidates) * MOST_PAUSES

    def rank(source: ModeSource) -> int:
        table, row, paused = source.screened.table, source.row, min(len(source.pauses), MOST_PAUSES)
        return (int(table.preference[row]) * machines + int(table.instances[row])) * pauses + paused

    return [(replace(mode, rank=rank(source)), source) for mode, source in pairs]


def screens_of_job(prepared: PreparedScenario, index: int, further: Guarantees = ()) -> list[ScreenedCandidates]:
    """Return the candidates within the time that a job has after its release, then with shorter guarantees on spot."""
    (_, first), *others = guarantees_of_job(prepared, index, further)
    on_spot = [other.select(np.isin(np.arange(len(other.rows)), list(other.spot))) for _, other in others if other.spot]
    return [first, *on_spot]


def guarantees_of_job(
    prepared: PreparedScenario, index: int, further: Guarantees = ()
) -> list[tuple[float, ScreenedCandidates]]:
    """Return the hours that a job has after its release with its candidates, then less and less where it may use spot.

    Without a deadline those are the longest run that the limits allow.
    """
    job, candidates, limits = prepared.scenario.jobs[index], prepared.candidates[index], prepared.scenario.limits
    waiting = CandidateObjective.of(prepared.scenario).waiting_usd

    def within(hours: float) -> ScreenedCandidates:
        known = prepared.within_hours  # a timetable is made again and again with a few more guarantees
        if (index, hours) not in known:
            shorter = replace(candidates, job=job.model_copy(update={"deadline_hours": hours}))
            known[index, hours] = screen(shorter, prepared.market, limits, prepared.library, waiting_usd=waiting)
        return known[index, hours]

    first = prepared.screened[index]
    room = max_run_hours(job, limits)
    if job.deadline_hours is not None:
        left = job.deadline_hours - job.release_hours
        first = within(left) if job.release_hours else first
        room = min(room, left)
    if not first.spot:
        return [(room, first)]
    parts = dict.fromkeys((*SHORTER_GUARANTEES, _own_part(prepared, index)))
    lengths = {
        *(minutes_down(room * part) for part in parts),
        *(length for length in further if 0 < length < 60 * room),
    }
    return [(room, first), *((minutes / 60, within(minutes / 60)) for minutes in sorted(lengths, reverse=True))]


def _own_part(prepared: PreparedScenario, index: int) -> float:
    """Return the part of a job's fastest run in those of all jobs."""
    fastest = [float(np.min(screened.table.late_hours(screened.table.share_low))) for screened in prepared.screened]
    return fastest[index] / max(sum(fastest), MOMENT_HOURS)


def without_reservations(
    table: CandidateTable, prepared: PreparedScenario, rows: Flags | bool = True
) -> CandidateTable:
    """Return the table without the dollars of reservations, which are bought apart from the jobs, and without leads.

    Before a machine is there, it is not held. Other rows than `rows` (n,) stay as they are.
    """
    lead = np.asarray([offer.lead_hours for offer in prepared.market.offers], dtype=float)[table.offer] * rows
    term_usd = np.where(np.reshape(rows, (-1, 1)), table.term_usd, 0.0)
    run_usd, late_usd = table.run_usd.copy(), table.late_usd.copy()
    run_usd[:, ON_DEMAND] -= term_usd[:, 1]
    late_usd[:, ON_DEMAND] -= term_usd[:, 2]
    return replace(
        table,
        fixed_usd=table.fixed_usd - term_usd[:, 0],
        run_usd=run_usd,
        late_usd=late_usd,
        term_usd=np.where(np.reshape(rows, (-1, 1)), 0.0, table.term_usd),
        start_h=table.start_h - lead,
        late_start_h=table.late_start_h - lead,
    )


def _useful_rows(
    prepared: PreparedScenario, screened: ScreenedCandidates, shared: SharedThings, keeps_ties: bool
) -> list[int]:
    """Return the rows that dominance leaves; an offer that is finite or has windows dominates only itself."""
    table = without_reservations(screened.table, prepared)
    if shared.limits_spending or shared.periods:
        return list(range(len(table)))  # a mode that costs more in all may cost less per hour
    market, limits = prepared.market, prepared.scenario.limits
    apart = {
        *shared.stock,
        *shared.lots,
        *(p for p, offer in enumerate(market.offers) if offer.available or offer.lead_hours),
    }
    rows = SharedLimits(
        budget_usd=limits.budget_usd,
        peaks=(*shared_peaks(limits, market), *(peak for peak, _ in shared.typical)),
        quota=limits.quota,
        stock={market.labels[place]: market.offers[place].stock or 10**6 for place in apart},
        committed={market.labels[place]: 0.0 for place in shared.hours_left},
        objective=prepared.scenario.objective_kind,
        value_of_time_usd_per_hour=prepared.scenario.value_of_time_usd_per_hour,
    )
    keep: list[int] = np.flatnonzero(find_undominated(table, rows, keeps_ties)).tolist()
    return keep


def _modes_of_rows(
    prepared: PreparedScenario, screened: ScreenedCandidates, rows: list[int], shared: SharedThings, horizon: int
) -> Iterator[tuple[Mode, ModeSource]]:
    """Yield a mode for each end of the spot share, each lot and each window in which one of the rows may run."""
    table = without_reservations(screened.table.rows(np.asarray(rows, dtype=np.int64)), prepared)
    ends = [(share, modes_of(prepared, table, share, shared)) for share in (table.share_low, table.share_high)]
    for at, row in enumerate(rows):
        bases = {float(share[at]): modes[at] for share, modes in ends}  # one where both ends are the same
        yield from _placed(prepared, screened, row, bases, shared, horizon)


def _placed(
    prepared: PreparedScenario,
    screened: ScreenedCandidates,
    row: int,
    bases: Mapping[float, Mode],
    shared: SharedThings,
    horizon: int,
) -> Iterator[tuple[Mode, ModeSource]]:
    """Yield the modes of a row, given by its spot shares, in each lot and each window, and with pauses."""
    place, held = int(screened.table.offer[row]), int(screened.table.instances[row])
    for share, base in bases.items():
        lots = shared.lots.get(place)
        if lots is None:
            options: list[tuple[Mode, int | None]] = [(base, None)]
        else:
            options = [
                (
                    replace(
                        base,
                        needs=(*base.needs, (lot.resource, held)),
                        earliest=max(lot.start, base.earliest),
                        latest=lot.end - base.minutes,
                    ),
                    lot.resource,
                )
                for lot in lots
                if lot.end - max(lot.start, base.earliest) >= base.minutes
                and held <= shared.resources[lot.resource].capacity
            ]
        for mode, lot in options:
            for placed in _in_windows(mode, prepared, place, horizon):
                yield placed, ModeSource(screened, row, share, lot)
        cost = pause_cost(prepared, screened, row, share, shared)
        if lots is None and cost is not None:
            windows = open_times(prepared.market.offers[place].available, horizon)
            for paused, pauses in paused_modes(base, cost, windows):
                yield paused, ModeSource(screened, row, share, None, pauses)


def modes_of(prepared: PreparedScenario, table: CandidateTable, share: Floats, shared: SharedThings) -> list[Mode]:
    """Return rows (n,) at spot shares (n,) as modes that may start at any time."""
    market, usd_per_hour = prepared.market, prepared.scenario.value_of_time_usd_per_hour
    late_hours, late_usd = table.late_hours(share), np.fmax(0.0, table.late_cost_usd(share))
    usd = table.cost_usd(share) + table.penalty_usd + usd_per_hour * table.hours(share)
    peaks = []
    for limit, resource in shared.peaks:
        if limit.is_of_dollars:
            used = late_usd / np.maximum(late_hours, MOMENT_HOURS)
        else:
            used = market.use_of(limit)[table.offer] * table.instances
        peaks.append((resource, limit, used.tolist()))
    typical = [(resource, peak.used(table).tolist()) for peak, resource in shared.typical]
    columns = (table.offer, table.provider, table.gpus, table.instances, table.recipe, table.rented_h)
    rows = zip(*(column.tolist() for column in (late_hours, late_usd, usd, *columns)), strict=True)
    modes = []
    for row, (hours, most_usd, paid, place, provider, gpus, instances, recipe, rented) in enumerate(rows):
        minutes = max(1, minutes_up(hours))
        needs = [(resource, limit.need(used[row])) for resource, limit, used in peaks if used[row]]
        needs += [(resource, int(used[row])) for resource, used in typical if used[row]]
        if provider in shared.quota and gpus:
            needs.append((shared.quota[provider], gpus))
        if place in shared.stock:
            needs.append((shared.stock[place], max(1, instances)))
        uses = []
        if shared.budget is not None:
            uses.append((shared.budget, usd_units_up(most_usd)))
        if place in shared.hours_left:
            uses.append((shared.hours_left[place], minutes_up(rented)))
        modes.append(
            Mode(
                f"{table.offers[place]}#{recipe}",
                minutes,
                usd_units(paid),
                tuple(needs),
                tuple(uses),
                usd_units_up(most_usd) if shared.periods else 0,
                earliest=minutes_up(market.offers[place].lead_hours),
                unused=max(0.0, minutes - 60 * hours),
            )
        )
    return modes


def _in_windows(mode: Mode, prepared: PreparedScenario, place: int, horizon: int) -> Iterator[Mode]:
    """Yield the mode for each window that is long enough; unchanged where the machine is always there."""
    offer = prepared.market.offers[place]
    if not offer.available:
        yield mode
        return
    for first, last in open_times(offer.available, horizon):
        earliest, latest = max(first, mode.earliest), last - mode.minutes
        latest = latest if mode.latest is None else min(latest, mode.latest)
        if earliest <= latest:
            yield replace(mode, earliest=earliest, latest=latest)


def split_modes(modes: list[Mode], keeps_ties: bool, deadline: float | None = None) -> tuple[list[int], int]:
    """Return the places of the modes of one task that are kept, and how many of the first ones an optimum may need.

    With `keeps_ties` those follow that only a near tie may take.
    """
    needed = undominated_modes(modes, deadline=deadline)
    others = set(undominated_modes(modes, True, deadline)).difference(needed) if keeps_ties else set()
    return [*needed, *sorted(others)], len(needed)


def undominated_modes(modes: list[Mode], keeps_ties: bool = False, deadline: float | None = None) -> list[int]:
    """Return the places of the modes of one task that an optimal timetable may need.

    A mode dominates another if it costs, lasts, holds, uses and spends no more, and may start whenever the other may.
    Replacing the other by it at the same start then keeps every rule and raises no cost. Of equal ones the first stays.
    At equal cost it dominates none of a better rank, and with `keeps_ties` at no cost.
    """
    order = sorted(
        range(len(modes)), key=lambda place: (modes[place].cost, modes[place].minutes, modes[place].rank, place)
    )
    kept = undominated_columns(_amounts([modes[place] for place in order], keeps_ties, deadline))
    return [order[place] for place in kept.tolist()]


def _amounts(modes: list[Mode], keeps_ties: bool, deadline: float | None) -> Integers:
    """Return what a mode that dominates another must not exceed, a column for each mode (k, n)."""
    steps = [(mode.cost,) if keeps_ties else (mode.cost, mode.rank) for mode in modes]
    dearer = {step: number for number, step in enumerate(sorted(set(steps)))}  # by cost, then among equals by rank
    latest = [latest_start(mode, deadline) for mode in modes]
    never = 1 + max((minute or 0 for minute in latest), default=0)
    rows = [
        [dearer[step] for step in steps],
        [mode.minutes for mode in modes],
        [mode.spend for mode in modes],
        [mode.earliest for mode in modes],
        [-(never if minute is None else minute) for minute in latest],
    ]
    if keeps_ties:
        rows.append([mode.rank for mode in modes])
    for taken in ([dict(mode.needs) for mode in modes], [dict(mode.uses) for mode in modes]):
        rows += [[amounts.get(thing, 0) for amounts in taken] for thing in sorted(set().union(*taken))]
    return np.array(rows, dtype=np.int64)


# The timetable of a scenario: its jobs as tasks, what they share as resources.


UNITS_PER_MINUTE = 100
"""Units of money per minute in a dollar per hour: 6,000 in a dollar, 60 minutes in an hour."""


@dataclass(frozen=True)
class BuiltTimetable:
    """A timetable with what stands behind its modes and resources.

    The modes of `with_ties` begin with those of `problem`, and go on with those that only a near tie may take.
    """

    problem: Timetable
    with_ties: Timetable
    jobs: tuple[JobModes, ...]
    shared: SharedThings
    least: float | None = None
    """What no timetable stays below, in units of the objective, where the modes are only some of those there are."""
    further: tuple[Guarantees, ...] = ()
    """Per job the guarantees that were added to the parts of its time."""
    keep: KeepRows | None = None
    """What left some of the candidates."""
    typical: tuple[TypicalPeak, ...] = ()
    """The limits of the typical stock that it holds."""

    def changed(self, change: Callable[[Timetable], Timetable]) -> BuiltTimetable:
        """Return the timetable with and without the modes for ties after the same change."""
        return replace(self, problem=change(self.problem), with_ties=change(self.with_ties))


def build_timetable(
    prepared: PreparedScenario,
    keep: KeepRows | None = None,
    further: tuple[Guarantees, ...] = (),
    typical: tuple[TypicalPeak, ...] = (),
) -> BuiltTimetable:
    """Return the timetable of a scenario, of the candidates that `keep` leaves of each job.

    `further` are guarantees per job in addition to the parts of its time, `typical` the limits of the typical stock
    that it holds.

    Raises
    ------
    ScenarioError
        Where every window of the machines is too short for a job that has no other machine.
    """
    scenario = prepared.scenario
    horizon = _horizon(prepared)
    shared = shared_things(scenario, prepared.market, horizon, typical)
    further = further or ((),) * len(scenario.jobs)
    jobs = tuple(job_modes(prepared, index, shared, horizon, keep, more) for index, more in enumerate(further))
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
    least = least_objective(prepared) if keep is None and has_other_guarantees(prepared) else None
    whole = (replace(task, modes=made.modes) for task, made in zip(tasks, jobs, strict=True))
    return BuiltTimetable(problem, replace(problem, tasks=tuple(whole)), jobs, shared, least, further, keep, typical)


def has_other_guarantees(prepared: PreparedScenario) -> bool:
    """Return whether a job may also run with a guarantee, or a share on spot, that is no mode of its timetable."""
    return any(
        bool(screened.spot) or bool((screened.table.share_low < screened.table.share_high).any())
        for screened in prepared.screened
    )


def least_objective(prepared: PreparedScenario) -> float:
    """Return the objective, in units of a timetable, if each job had all limits and all its time to itself.

    No guarantee makes a run faster than on demand, and none costs less than that of the whole time. Jobs share what
    they reserve: either none reserves anything, or the cheapest reservation is paid once.
    """
    if prepared.scenario.objective_kind == "time":
        return float(max(_least_minutes(prepared, index) for index in range(len(prepared.screened))))
    paid = np.asarray([offer.committed_usd for offer in prepared.market.offers], dtype=float)
    unreserved, shared, least_paid = 0.0, 0.0, math.inf
    for screened in prepared.screened:
        table = without_reservations(screened.table, prepared)
        objective = CandidateObjective.of(prepared.scenario)
        usd = np.minimum(objective.values(table, table.share_low), objective.values(table, table.share_high))
        usd, reserves = np.maximum(usd, 0.0), paid[table.offer] > 0
        unreserved += float(np.min(usd[~reserves], initial=math.inf))
        shared += float(np.min(usd))
        least_paid = min(least_paid, float(np.min((paid[table.offer] * table.instances)[reserves], initial=math.inf)))
    return UNITS_PER_USD * min(unreserved, least_paid + shared)


def _least_minutes(prepared: PreparedScenario, index: int) -> float:
    """Return the minutes from which on a job can have ended, on demand or wherever it runs."""
    uncut = prepared.candidates[index].table.rows(prepared.screened[index].rows)
    least = min(float(np.nanmin(uncut.late_hours(share))) for share in (np.zeros(len(uncut)), uncut.share_low))
    return 60 * (prepared.scenario.jobs[index].release_hours + least)


def _horizon(prepared: PreparedScenario) -> int:
    """Return the minutes in which all jobs can end: the last deadline, or later where a job has none.

    From the moment on at which all jobs are released and what is there once is over, the jobs without a deadline run
    in turn in the worst case. Each then waits for a window or a budget that returns, and starts anywhere in it.
    """
    scenario, market = prepared.scenario, prepared.market
    jobs = scenario.jobs
    last = max((minutes_up(job.deadline_hours) for job in jobs if job.deadline_hours is not None), default=0)
    open_ended = [index for index, job in enumerate(jobs) if job.deadline_hours is None]
    if not open_ended:
        return last
    windows = [window for offer in market.offers for window in offer.available]
    once = [job.release_hours for job in jobs]
    once += [offer.block.end_hours for offer in market.offers if offer.block]
    once += [window.to_hours for window in windows]
    once += [budget.to_hours or budget.from_hours or 0.0 for budget in scenario.limits.budgets]
    returns = [
        (window.every_hours or 0.0)
        + math.fsum(abs(clock_change.forward_hours) for clock_change in window.clock_changes)
        for window in windows
    ]
    returns += [budget.length_hours for budget in scenario.limits.budgets]
    in_turn = sum(_most_minutes(prepared, index) + 2 * minutes_up(max(returns, default=0.0)) for index in open_ended)
    lags = sum(minutes_up(predecessor.lag_hours) for job in jobs for predecessor in job.after)
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
        made.of_least_objective,
        release=minutes_up(job.release_hours),
        deadline=None if job.planned_deadline_hours is None else 60 * job.planned_deadline_hours,
        due=None if job.due_hours is None else minutes_down(job.due_hours),
        late=round(UNITS_PER_MINUTE * job.late_usd_per_hour),
        wait=round(UNITS_PER_MINUTE * usd_per_hour),
        after=tuple((places[predecessor.job], minutes_up(predecessor.lag_hours)) for predecessor in job.after),
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
        wrong = f"{job.name} takes {needed:.1f} h at least, and no window is longer than {longest / 60:.1f} h"
        if job.can_resume and not scenario.limits.budgets:
            wrong += ", nor do several together hold it by the end"
        else:
            why = "budgets by period" if job.can_resume else "checkpoints of weights alone"
            wrong += f"; with {why} it cannot pause between two"
        fix = "lengthen `available` of its offers, or add a machine that is always there"
        faults.append(Fault(scenario.name, 0, f"jobs.{job.name}.work", wrong, fix))
    raise_faults(faults, ScenarioError)


def ending_by(problem: Timetable, last: int) -> Timetable:
    """Return the timetable with cost as objective and every task ended by a minute."""
    return replace(problem, objective="cost", horizon=last)
