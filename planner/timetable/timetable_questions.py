"""Questions about jobs that take turns: their replays, of which a late one moves others, and their frontier.

The order of the plan holds. A job starts at its planned start, or as soon after it as the jobs that it waits for have
ended and the machines, GPUs or places of a reservation that it holds are free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.frontier_trace import CommonDeadlines, SolverLimitError, proven_gap
from planner.analysis.lower_envelope import Breakpoint, EnvelopePiece, evaluate_envelope
from planner.analysis.simulate_question import JobOutcome
from planner.arrays import Flags, Floats
from planner.evaluation.audited_limits import amount_of, gpus_of, held_by, machines_of, peak
from planner.library.schema import Library
from planner.results.plan import Assignment, Plan
from planner.results.subject_runs import RlRun
from planner.scenario.limits import PeakLimit, given_peaks
from planner.scenario.offer import offer_labels
from planner.scenario.scenario import Scenario, SolveOptions, SolveSettings
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared
from planner.timetable.timetable_problem import minutes_up, open_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


MAX_UNITS = 512
"""Most units of a shared thing that are followed one by one.

A unit is what all its users hold multiples of, or larger where these would be too many."""


SLACK_HOURS = 1e-6
LATER = 5.0
"""How many times later than planned a run with pauses is followed."""


@dataclass(frozen=True)
class ShiftedJob:
    """One job in every run: `outcome.hours` count from the start of the plan, and what outlasts its machines fails."""

    outcome: JobOutcome
    starts: Floats  # (runs,)
    outlasts: Flags  # (runs,) its window or its reservation ends before it


@dataclass(frozen=True)
class _Shared:
    """Something finite: how many units there are, and how many each job holds (by its place)."""

    units: int
    held: dict[int, int]


def shift_timetable(
    plan: Plan, scenario: Scenario, library: Library, outcomes: Sequence[JobOutcome]
) -> list[ShiftedJob]:
    """Return every job of a timetable with its starts and ends; `outcomes` have the hours of each job by itself.

    Next to runs of reinforcement learning, the last of the outcomes, nothing runs: they hold nothing that others need.
    """
    if not plan.is_timetable and not plan.reinforcement:
        never = np.zeros(outcomes[0].hours.size, dtype=bool)
        return [ShiftedJob(outcome, np.zeros(never.size), never) for outcome in outcomes]
    runs = outcomes[0].hours.size
    parts = plan.parts_that_end
    places = {job.name: place for place, job in enumerate(parts)}
    wanted = {job.name: job for job in scenario.jobs}
    shared = [
        (shared_thing, np.zeros((runs, shared_thing.units))) for shared_thing in _shared_things(plan, scenario, library)
    ]
    found: dict[int, ShiftedJob] = {}
    ends: dict[int, Floats] = {}
    for place in sorted(range(len(parts)), key=lambda n: (parts[n].start_at_hours, n)):
        job = parts[place]
        own = [(free, shared_thing.held[place]) for shared_thing, free in shared if place in shared_thing.held]
        start = np.full(runs, job.start_at_hours)
        for other in wanted[job.name].after:
            start = np.maximum(start, ends[places[other.job]] + other.lag_hours)
        for free, count in own:
            start = np.maximum(start, free[:, count - 1])
        end = start + outcomes[place].hours
        resume_hours = 0.0 if isinstance(job, RlRun) else job.resume_hours
        if resume_hours and isinstance(job, Assignment):
            start, end = run_through_windows(start, outcomes[place].hours, _open_hours(scenario, job), resume_hours)
        for free, count in own:
            free[:, :count] = end[:, None]
            free.sort(axis=1)  # the earliest free units first
        ends[place] = end
        closes = np.inf if resume_hours or isinstance(job, RlRun) else _closing_hours(plan, scenario, job)
        outlasts = (end > closes + SLACK_HOURS) | ~np.isfinite(end)
        end = np.where(np.isfinite(end), end, start + outcomes[place].hours)
        outcome = replace(outcomes[place], hours=end, done=outcomes[place].done & ~outlasts)
        found[place] = ShiftedJob(outcome, start, outlasts)
    return [found[place] for place in range(len(parts))]


def _shared_things(plan: Plan, scenario: Scenario, library: Library) -> Iterator[_Shared]:
    """Yield what the jobs of a plan hold in common and cannot all have at once."""
    limits = scenario.limits

    asked: list[tuple[int | None, Callable[[Assignment], int], Callable[[Assignment], bool]]] = []
    offers = dict(scenario.labelled_offers())
    for limit, most in given_peaks(limits):
        if not (limit.is_of_dollars or limit.stays):  # what a run spends per hour moves with it

            def used(job: Assignment, limit: PeakLimit = limit) -> int:
                return limit.need(amount_of(limit.key, held_by(job, offers.get(job.offer)), library))

            asked.append((limit.capacity(most), used, lambda _: True))
    asked += [(count, gpus_of, lambda job, name=name: job.provider == name) for name, count in limits.quota.items()]  # type: ignore[misc]
    for label, offer in zip(offer_labels(scenario.offers), scenario.offers, strict=True):
        if not offer.is_reservation:
            users = [job for job in plan.jobs if job.offer == label]
            there = offer.stock if offer.buy is None else int(peak(users, machines_of))  # as many as are bought
            asked.append((there, machines_of, lambda job, label=label: job.offer == label))  # type: ignore[misc]
    for number, reservation in enumerate(plan.reservations):
        asked.append((reservation.count, machines_of, lambda job, number=number: job.reservation == number))  # type: ignore[misc]
    for capacity, amount, uses in asked:
        held = {place: amount(job) for place, job in enumerate(plan.jobs) if uses(job) and amount(job)}
        if capacity is None or sum(held.values()) <= capacity:
            continue
        # What is held rounds down with the capacity: the plan itself stays within it.
        unit = max(gcd(*held.values()), -(-capacity // MAX_UNITS))
        units = {place: count // unit for place, count in held.items() if count >= unit}
        if units:
            yield _Shared(capacity // unit, units)


def run_through_windows(
    start: Floats, hours: Floats, windows: Sequence[tuple[float, float]], resume_hours: float
) -> tuple[Floats, Floats]:
    """Return when runs (n,) start and end that stand still between windows, and lose `resume_hours` after each.

    A run that no window holds to its end has the end inf.
    """
    left, begun, begins, ends = (
        hours.copy(),
        np.zeros(hours.size, dtype=bool),
        start.copy(),
        np.full(hours.size, np.inf),
    )
    for first, last in windows:
        at = np.maximum(start, first)
        at_work = at + np.where(begun, resume_hours, 0.0)
        room = np.maximum(0.0, last - at_work)
        running = np.isinf(ends) & (room > 0)
        begins = np.where(running & ~begun, at, begins)
        done = running & (left <= room + SLACK_HOURS)
        ends = np.where(done, at_work + left, ends)
        left = np.where(running & ~done, left - room, left)
        begun |= running
    return begins, ends


def _open_hours(scenario: Scenario, job: Assignment) -> list[tuple[float, float]]:
    """Return the windows of the machine of a job, far enough for a run that is much later than planned."""
    offer = dict(zip(offer_labels(scenario.offers), scenario.offers, strict=True))[job.offer]
    every = max((window.every_hours or 0.0 for window in offer.available), default=0.0)
    horizon = minutes_up(max(window.to_hours for window in offer.available) + LATER * job.finish_hours + every)
    return [(first / 60, last / 60) for first, last in open_times(offer.available, horizon)]


def _closing_hours(plan: Plan, scenario: Scenario, job: Assignment) -> float:
    """Return when the machines of a job are no longer there: the end of its window or reservation."""
    if job.reservation is not None:
        return plan.reservations[job.reservation].end_hours
    offer = dict(scenario.labelled_offers())[job.offer]
    if not offer.available:
        return float("inf")
    end = job.start_at_hours if job.end_at_hours is None else job.end_at_hours
    horizon = minutes_up(max(window.to_hours + (window.every_hours or 0.0) for window in offer.available) + end)
    closing = [
        last / 60
        for first, last in open_times(offer.available, horizon)
        if first / 60 <= job.start_at_hours + SLACK_HOURS
    ]
    return max(closing, default=float("inf"))


FEW_JOBS, FEWER_DEADLINES = 4, 9
"""Of more jobs fewer deadlines are solved, at most: each may take up to `POINT_SECONDS`. On spot each takes seconds."""
POINT_SECONDS = 10.0
SLOPE_HOURS = 1.5 / 60
"""On spot every minute more saves some dollars: guarantees are whole minutes."""
SAME_DEADLINE = 1e-9
"""Relative: a deadline at the hours of a plan is met by the plan."""


class TurnProgram(CommonDeadlines):
    """The plans of `solve` for common deadlines, side by side or in turn, of least dollars paid.

    Neither penalties, lateness, waiting nor the value of time are dollars paid. Where there are reservations, a plan
    costs at least the sum of `envelopes`, in which each job pays for its own, or one reservation (`reserved_usd`) and
    the sum of `unreserved`, in which they cost nothing.
    """

    def __init__(
        self,
        scenario: Scenario,
        library: Library,
        envelopes: Sequence[Sequence[EnvelopePiece]],
        options: SolveOptions,
        reserved_usd: float = math.inf,
        unreserved: Sequence[Sequence[EnvelopePiece]] = (),
    ) -> None:
        super().__init__(envelopes)
        self.reserved_usd, self.unreserved = reserved_usd, unreserved
        self.scenario, self.library = _in_dollars(scenario), library
        self.options = options.model_copy(update={"time_limit_seconds": options.time_limit_seconds or POINT_SECONDS})
        self.on_spot = any(offer.spot_usd_per_hour is not None for offer in scenario.offers)
        self.slope_hours = SLOPE_HOURS if self.on_spot else 0.0
        self._prepared: PreparedScenario | None = None

    def most_deadlines(self, points: int) -> int:
        """Return how many deadlines are solved where `points` are asked for."""
        return points if len(self.scenario.jobs) <= FEW_JOBS and not self.on_spot else min(points, FEWER_DEADLINES)

    def fastest_hours(self) -> float | None:
        """Return the least hours in which all jobs can end; None where no plan keeps the limits."""
        plan = self._solve(self.scenario.model_copy(update={"objective": "time"}))
        if plan is None or plan.hours is None:
            return None
        hours = plan.hours.at_confidence
        return hours * (1 + SAME_DEADLINE)

    def latest_hours(self) -> float:
        """Return hours after which later deadlines change nothing: no common deadline at all."""
        return math.inf

    def separate_usd(self, hours: float) -> float:
        """Return the dollars of the jobs within `hours` if each had all limits to itself and some reservation."""
        shared = self.reserved_usd + sum(evaluate_envelope(envelope, hours) for envelope in self.unreserved)
        return min(super().separate_usd(hours), shared)

    def solve_at(self, hours: float) -> Breakpoint | None:
        """Return the cheapest plan whose jobs all end within `hours`; None without one. Raises SolverLimitError.

        It bounds the plans for all earlier deadlines, too.
        """
        jobs = []
        for job in self.scenario.jobs:
            # What the job keeps for finding a machine is no part of its hours.
            deadlines = [job.deadline_hours, None if hours == math.inf else hours + job.start_slack_hours]
            known = [deadline for deadline in deadlines if deadline is not None]
            jobs.append(job.model_copy(update={"deadline_hours": min(known, default=None)}))
            if hours <= job.release_hours:
                return None
        plan = self._solve(self.scenario.model_copy(update={"jobs": tuple(jobs)}))
        if plan is None or plan.cost is None or plan.hours is None:
            return None
        usd, separate = plan.cost.expected, self.separate_usd(hours)
        bound = separate if plan.bound is None else max(plan.bound, separate)
        self.bounds.append((hours, bound))
        bound, gap = proven_gap(usd, bound)
        return Breakpoint(plan.hours.at_confidence, usd, (), bound, gap, separate_usd=min(separate, usd), plan=plan)

    def describe(self, deadlines: int) -> str:
        """Return the note of a frontier that was solved for a number of deadlines."""
        counted = f"{deadlines} deadline{'' if deadlines == 1 else 's'}"
        return f"hours until the last job ends, waiting for machines included; solved for {counted}"

    def _solve(self, scenario: Scenario) -> Plan | None:
        """Return the plan of a scenario that differs from the others in objective and deadlines; None without one."""
        self._prepared = prepare(scenario, self.library, self._prepared)
        plan = solve_prepared(self._prepared, self.options, explains=False)
        if plan.status == "no_plan":
            raise SolverLimitError
        return plan if plan.status != "infeasible" and plan.keeps_typical_stock else None


def _in_dollars(scenario: Scenario) -> Scenario:
    """Return the scenario with the least dollars paid as objective, as the frontier and its audit count them."""
    jobs = []
    for job in scenario.jobs:
        techniques = job.techniques.model_copy(update={"penalty_usd": {}})
        jobs.append(job.model_copy(update={"due_hours": None, "late_usd_per_hour": 0.0, "techniques": techniques}))
    limits = scenario.limits.model_copy(update={"waiting_usd_per_hour": None})
    strict = {"objective": "cost", "jobs": tuple(jobs), "limits": limits, "solve": SolveSettings(ties=0.0)}
    return scenario.model_copy(update=strict)
