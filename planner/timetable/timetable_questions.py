"""Questions about a timetable: what its limits cost, why not otherwise, what gives a plan, its replays and frontier."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import gcd
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.frontier_trace import CommonDeadlines, SolverLimitError, proven_gap
from planner.analysis.lower_envelope import Breakpoint, EnvelopePiece, evaluate_envelope
from planner.analysis.simulate_question import JobOutcome
from planner.analysis.why_not import WhyNotQuery, keep_matches, rows_in_market
from planner.arrays import Flags, Floats
from planner.candidates.screening import CandidateObjective
from planner.evaluation.audited_limits import amount_of, gpus_of, held_by, machines_of, peak
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import Binding, Explanation, WhyNot
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Infeasible, Relaxation, SharedLimit, jobs_text
from planner.results.subject_runs import RlRun
from planner.scenario.limits import PEAK_LIMITS, PeakLimit, given_peaks, peak_limit_at
from planner.scenario.offer import offer_labels
from planner.scenario.scenario import Scenario, SolveOptions, SolveSettings
from planner.solving.diagnosis import diagnose, settle
from planner.solving.limit_changes import LimitChange
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_built, solve_prepared
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.modes import BuiltTimetable, build_timetable
from planner.timetable.timetable_problem import (
    SAME_MINUTE,
    UNITS_PER_USD,
    Period,
    Schedule,
    Task,
    Timetable,
    minutes_down,
    minutes_up,
    objective_value,
    open_times,
    time_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


# What each limit of a timetable costs: the timetable without it, solved again.


MOST_TASKS = 12
"""Jobs up to which a plan states what each shared limit costs: one more search for each limit."""
SEARCH_WORK = 0.8
"""Work of each of these searches, about 2 s; what is found with it can be had, if perhaps not the most."""
MIN_SAVING_USD = 0.01
"""A limit binds if the plan without it is at least a cent better."""


def shared_limit_costs(problem: Timetable, schedule: Schedule) -> tuple[SharedLimit, ...]:
    """Return every shared limit without which the timetable costs at least a cent less, the largest saving first.

    Two jobs of 10 h by a deadline of 10 h, one own machine and one of 5 $ in the cloud: 5 $ for the stock of 1.
    """
    if problem.objective != "cost" or len(problem.tasks) > MOST_TASKS:
        return ()
    costs, last = [], objective_value(replace(problem, objective="last"), schedule)
    for name, current, without in relaxed_shares(problem):
        result = solve_timetable(without, SearchLimits(hint=schedule, work=SEARCH_WORK))
        if result.objective is None or result.schedule is None:
            continue
        usd = (objective_value(problem, schedule) - result.objective) / UNITS_PER_USD
        if usd >= MIN_SAVING_USD:
            hours = (last - objective_value(replace(without, objective="last"), result.schedule)) / 60
            costs.append(SharedLimit(limit=name, current=current, saving_usd=usd, saving_hours=hours))
    return tuple(sorted(costs, key=lambda limit: -limit.saving_usd))


def relaxed_shares(problem: Timetable) -> Iterator[tuple[str, float, Timetable]]:
    """Yield the timetable without each limit that jobs share: name, present value, and what is left."""
    for number, resource in enumerate(problem.resources):
        if resource.price is None:
            most = sum(
                max((n for mode in task.modes for which, n in mode.needs if which == number), default=0)
                for task in problem.tasks
            )
            if most > resource.capacity:
                resources = list(problem.resources)
                resources[number] = replace(resource, capacity=most)
                limit = peak_limit_at(resource.name)
                current = resource.capacity / (limit.parts if limit else 1)
                yield resource.name, current, replace(problem, resources=tuple(resources))
    for number, pool in enumerate(problem.pools):
        pools = tuple(replace(other, amount=10**15) if k == number else other for k, other in enumerate(problem.pools))
        yield pool.name, pool.amount / UNITS_PER_USD, replace(problem, pools=pools)
    if problem.periods:
        yield "limits.budgets", len(problem.periods), replace(problem, periods=())


def relaxed_timetables(problem: Timetable) -> Iterator[tuple[str, float | str, Timetable]]:
    """Yield the timetable without each limit, deadline and precedence: name, present value, and what is left."""
    yield from relaxed_shares(problem)
    for index, task in enumerate(problem.tasks):
        if task.deadline is not None:
            later = problem.horizon + max(mode.minutes for mode in task.modes)
            changed = _with_task(problem, index, replace(task, deadline=None))
            yield f"deadline of {task.name}", f"{task.deadline / 60:g} h", replace(changed, horizon=later)
        if task.after:
            names = ", ".join(problem.tasks[other].name for other, _ in task.after)
            yield f"{task.name} after {names}", names, _with_task(problem, index, replace(task, after=()))


def _with_task(problem: Timetable, index: int, task: Task) -> Timetable:
    tasks = tuple(task if place == index else other for place, other in enumerate(problem.tasks))
    return replace(problem, tasks=tasks)


RELAXATION_WORK = 3.2
"""Work of each question that is solved again, about 10 s."""
STEP_HOURS = 0.1
"""Deadlines are extended in these steps."""
PRECISION = 0.01
"""Share of a limit to which its least value is found; GPUs and machines are found exactly."""
MAX_WAYS = 4
"""Most ways that are shown; each is solved again."""


@dataclass(frozen=True)
class _Limit:
    """A limit of the scenario in the timetable: its value in whole units, and what it is with another value."""

    path: str
    value: int
    most: int  # what all jobs together can use
    unit: float  # units of the value in one of the setting
    apply: Callable[[Timetable, int], Timetable]

    def change(self, value: int) -> LimitChange:
        """Return the change of the limit to a value, rounded up to cents."""
        after = math.ceil(100 * value / self.unit - 1e-9) / 100
        return LimitChange(self.path, self.value / self.unit, after, f"{self.path}={after:.15g}")


def explain_timetable(prepared: PreparedScenario, built: BuiltTimetable) -> Infeasible:
    """Return the deadlines, or the one limit, whose change makes the timetable feasible; all together if none does."""
    if any(not job.modes for job in built.jobs):
        return diagnose(prepared) or Infeasible()
    limits, problem = _limits(prepared, built), without_costs(built.problem)
    ways = [_verified(prepared, _later_deadlines(prepared, problem))]
    for limit in limits:
        if len([way for way in ways if way]) < MAX_WAYS and (value := _least(problem, limit)) is not None:
            ways.append(_verified(prepared, [limit.change(value)]))
    shown = [way for way in ways if way] or [_verified(prepared, _together(prepared, problem, limits))]
    return Infeasible(
        relax=tuple(relaxation.model_copy(update={"way": k + 1}) for k, way in enumerate(shown) for relaxation in way)
    )


def without_costs(problem: Timetable) -> Timetable:
    """Return the timetable in which nothing but feasibility counts."""
    tasks = tuple(
        replace(task, modes=tuple(replace(mode, cost=0) for mode in task.modes), due=None, late=0, wait=0)
        for task in problem.tasks
    )
    resources = tuple(
        resource if resource.price is None else replace(resource, price=0) for resource in problem.resources
    )
    paid = resources if not problem.periods else problem.resources  # what lots cost counts in periods
    return replace(problem, tasks=tasks, resources=paid, objective="cost")


def _limits(prepared: PreparedScenario, built: BuiltTimetable) -> list[_Limit]:
    """Return what a setting enlarges: GPUs, quotas, stock, dollars per hour, budgets, budgets by period."""
    limits, problem = prepared.scenario.limits, built.problem
    paths = {f"limits.quota.{name}" for name in limits.quota} | {limit.path for limit in PEAK_LIMITS}
    named = [(number, resource.name) for number, resource in enumerate(problem.resources) if resource.name in paths]
    inline = {offer: number for number, offer in enumerate(prepared.scenario.offers_inline)}
    for place, resource in built.shared.stock.items():
        if (number := inline.get(prepared.market.offers[place])) is not None:
            named.append((resource, f"offers.{number}.stock"))
    enlarged = [_resource_limit(problem, number, path) for number, path in named]
    pools = (built.shared.budget, built.shared.outlay)
    enlarged += [_pool_limit(problem, pool) for pool in pools if pool is not None]
    first = 0
    for number, budget in enumerate(limits.budgets):
        count = len(budget.periods(problem.horizon / 60))
        enlarged.append(_period_limit(problem, number, range(first, first + count)))
        first += count
    return enlarged


def _resource_limit(problem: Timetable, number: int, path: str) -> _Limit:
    def apply(problem: Timetable, value: int) -> Timetable:
        resources = list(problem.resources)
        resources[number] = replace(resources[number], capacity=value)
        return replace(problem, resources=tuple(resources))

    most = sum(
        max((amount for mode in task.modes for which, amount in mode.needs if which == number), default=0)
        for task in problem.tasks
    )
    peak = peak_limit_at(path)
    return _Limit(path, problem.resources[number].capacity, most, float(peak.parts) if peak else 1.0, apply)


def _pool_limit(problem: Timetable, number: int) -> _Limit:
    def apply(problem: Timetable, value: int) -> Timetable:
        pools = list(problem.pools)
        pools[number] = replace(pools[number], amount=value)
        return replace(problem, pools=tuple(pools))

    most = sum(
        max((amount for mode in task.modes for which, amount in mode.uses if which == number), default=0)
        for task in problem.tasks
    )
    most += sum(
        amount * resource.capacity
        for resource in problem.resources
        for which, amount in resource.uses
        if which == number
    )
    return _Limit(problem.pools[number].name, problem.pools[number].amount, most, UNITS_PER_USD, apply)


def _period_limit(problem: Timetable, number: int, places: range) -> _Limit:
    def apply(problem: Timetable, value: int) -> Timetable:
        periods = tuple(
            replace(period, amount=value) if k in places else period for k, period in enumerate(problem.periods)
        )
        return replace(problem, periods=periods)

    most = sum(max((mode.spend for mode in task.modes), default=0) for task in problem.tasks)
    most += sum((resource.price or 0) * resource.capacity for resource in problem.resources)
    return _Limit(f"limits.budgets.{number}.usd", problem.periods[places[0]].amount, most, UNITS_PER_USD, apply)


def _least(problem: Timetable, limit: _Limit) -> int | None:
    """Return about the least value of a limit with which there is a timetable; None where there is none."""
    low, high = limit.value, max(limit.most, limit.value)
    if high == low or not _is_feasible(limit.apply(problem, high)):
        return None
    while high - low > max(1, PRECISION * low if limit.unit > 1 else 1):
        middle = (low + high) // 2
        low, high = (low, middle) if _is_feasible(limit.apply(problem, middle)) else (middle, high)
    return high


def _later_deadlines(prepared: PreparedScenario, problem: Timetable) -> list[LimitChange]:
    """Return the deadlines that the timetable with the least lateness in all breaks, with the ends that it has."""
    soft = _with_soft_deadlines(prepared, problem)
    schedule = solve_timetable(soft, SearchLimits(work=RELAXATION_WORK)).schedule
    changes: dict[str, tuple[float, float]] = {}
    for index, task in enumerate(problem.tasks if schedule is not None else ()):
        end = 0.0 if schedule is None else schedule.end(soft, index) - schedule.mode(soft, index).unused
        if task.deadline is not None and end > task.deadline + SAME_MINUTE:
            hours = math.ceil(end / 60 / STEP_HOURS - 1e-9) * STEP_HOURS
            path = f"jobs.{prepared.scenario.written_name(task.name)}.deadline"
            changes[path] = max(changes.get(path, (0.0, 0.0)), (hours, task.deadline / 60))
    return [LimitChange(path, was, round(hours, 1), f"{path}={hours:.1f}h") for path, (hours, was) in changes.items()]


def _with_soft_deadlines(prepared: PreparedScenario, problem: Timetable) -> Timetable:
    """Return the timetable in which each minute after a deadline costs the same, with room for all jobs in turn."""
    budgets = prepared.scenario.limits.budgets
    horizon = problem.horizon + sum(max(mode.minutes for mode in task.modes) for task in problem.tasks)
    horizon += len(problem.tasks) * max((minutes_up(budget.length_hours) for budget in budgets), default=0)
    amounts = [period.amount for period in problem.periods]
    periods, first = [], 0
    for budget in budgets:
        amount = amounts[first]
        first += len(budget.periods(problem.horizon / 60))
        times = budget.periods(horizon / 60)
        periods += [Period(minutes_down(start), minutes_up(end), amount) for start, end in times]
    # Of equal jobs the first is late: the same question has the same answer.
    count = len(problem.tasks)
    tasks = tuple(
        replace(
            task,
            deadline=None,
            due=None if task.deadline is None else math.floor(task.deadline + SAME_MINUTE),
            late=100 * count + index,
        )
        for index, task in enumerate(problem.tasks)
    )
    free = tuple(resource if resource.price is None else replace(resource, price=0) for resource in problem.resources)
    resources = problem.resources if periods else free
    return replace(problem, tasks=tasks, resources=resources, periods=tuple(periods), horizon=horizon)


def _together(prepared: PreparedScenario, problem: Timetable, limits: Sequence[_Limit]) -> list[LimitChange]:
    """Return deadlines and limits to change together, where none of them alone suffices.

    Every limit starts as wide as the jobs can use; one after the other goes back to its value, or as near as it can.
    """
    wide = problem
    for limit in limits:
        wide = limit.apply(wide, max(limit.most, limit.value))
    changes = _later_deadlines(prepared, wide)
    later = {change.limit.split(".")[1]: float(change.new) for change in changes}
    tasks = tuple(
        replace(task, deadline=60 * later[name])
        if (name := prepared.scenario.written_name(task.name)) in later
        else task
        for task in wide.tasks
    )
    horizon = max([problem.horizon, *(minutes_up(hours) for hours in later.values())])
    wide = replace(wide, tasks=tasks, horizon=horizon)
    for limit in limits:
        if _is_feasible(limit.apply(wide, limit.value)):
            wide = limit.apply(wide, limit.value)
        elif (value := _least(wide, limit)) is not None:
            wide = limit.apply(wide, value)
            changes.append(limit.change(value))
    return changes


def _is_feasible(problem: Timetable) -> bool:
    """Return whether there is a timetable, as far as the search finds with its work."""
    return solve_timetable(problem, SearchLimits(work=RELAXATION_WORK)).schedule is not None


def _verified(prepared: PreparedScenario, changes: Sequence[LimitChange]) -> list[Relaxation]:
    """Return the changes as far as they are needed, with the plan that `solve` makes of them; nothing without one."""
    settled = settle(prepared, changes) if changes else None
    if settled is None:
        return []
    plan, kept = settled
    return [
        Relaxation(
            limit=change.limit,
            change_from=change.old,
            change_to=change.new,
            then=f"{plan.description}, ${plan.cost_usd:,.2f}",
            setting=change.setting,
            cost_usd=plan.cost_usd,
            hours=plan.hours,
        )
        for change in kept
    ]


# Explain a timetable: what each shared limit, deadline or precedence costs, and what another choice would cost.


ROUNDED_HOURS = 1 / 60
"""Timetables are in whole minutes."""
QUESTION_WORK, QUESTION_SECONDS = 1.6, 10.0
"""Work of each question that is solved again, about 5 s, and the time limit of a whole plan."""


def explain_over_time(prepared: PreparedScenario, query: WhyNotQuery | None, options: SolveOptions) -> Explanation:
    """Return what binds a timetable, each limit left out alone, or the answer to a query, or why there is no plan."""
    started, scenario = perf_counter(), prepared.scenario
    built = build_timetable(prepared)
    plan = solve_built(prepared, built, options, started, explains=False)  # the limits that bind are found below
    explanation = Explanation(
        scenario=scenario.name,
        cut=plan.cut,
        status=plan.status,
        objective=scenario.objective_kind,
        compared_by=CandidateObjective.of(scenario).formula,
        plan=_describe(plan),
        cost_usd=plan.cost.expected if plan.cost else None,
        hours=plan.hours.expected if plan.hours else None,
    )
    if query is not None:
        return explanation.model_copy(update={"why_not": _why_not(prepared, plan, query)})
    if plan.status == "infeasible":
        return explanation.model_copy(update=dict(explain_timetable(prepared, built)))
    return explanation.model_copy(update={"binding": tuple(_binding(_relaxed(prepared, built), plan))})


def _describe(plan: Plan) -> str:
    """Return how many jobs there are on which machines."""
    machines = dict.fromkeys(f"{job.gpus} x {job.gpu} at {job.provider}" for job in plan.jobs)
    return f"{jobs_text(len(plan.jobs))} on {', '.join(machines)}" if plan.jobs else ""


def _relaxed(prepared: PreparedScenario, built: BuiltTimetable) -> dict[str, tuple[float | str, Timetable]]:
    """Return the timetable without each limit, by the name of the limit, with its present value.

    A limit on what is used at one time may keep candidates out of the timetable because they exceed it alone: they
    take part in the timetable without it.
    """
    timetables = {name: (current, without) for name, current, without in relaxed_timetables(built.problem)}
    for limit, value in given_peaks(prepared.scenario.limits):
        if not limit.is_of_dollars and any(candidates.rejected[limit.exceeded] for candidates in prepared.screened):
            lifted = change_scenario(prepared.scenario, [f"{limit.path}=null"])
            timetables[limit.path] = value, build_timetable(prepare(lifted, prepared.library, prepared)).problem
    return timetables


def _binding(relaxed: Mapping[str, tuple[float | str, Timetable]], plan: Plan) -> Iterator[Binding]:
    """Yield every limit without which the timetable is better, the largest saving first."""
    bindings = []
    for name, (current, without) in relaxed.items():
        unit = 60 if without.objective == "last" else UNITS_PER_USD
        result = solve_timetable(without, SearchLimits(work=QUESTION_WORK))
        if result.objective is None or result.schedule is None or plan.objective is None:
            continue
        saving = plan.objective - result.objective / unit
        if saving < MIN_SAVING_USD:
            continue
        last = max(result.schedule.end(without, index) for index in range(len(without.tasks))) / 60
        hours = (plan.hours.at_confidence if plan.hours else last) - last
        usd = saving if without.objective == "cost" else None
        bindings.append(Binding(limit=name, current=current, saving=saving, saving_usd=usd, saving_hours=hours))
    yield from sorted(bindings, key=lambda binding: -binding.saving)


def _why_not(prepared: PreparedScenario, plan: Plan, query: WhyNotQuery) -> WhyNot:
    """Return what the timetable costs where one job runs as the query asks; the others are free to move."""
    prepared = keep_matches(prepared, query)
    options = SolveOptions(time_limit_seconds=QUESTION_SECONDS)
    built = build_timetable(prepared, rows_in_market(query)).changed(lambda problem: _by(problem, query))
    forced = solve_built(prepared, built, options, perf_counter(), explains=False)
    if forced.cost is None or forced.hours is None:
        reason = "no timetable within the limits runs the job so"
        if query.times and (earliest := _earliest_hours(built.problem, query.job)) is not None:
            start, end = earliest
            reason += f"; it starts at {start:.1f} h and ends at {end:.1f} h at the earliest"
        rejected = prepared.screened[query.job].rejected
        left_out = (
            f"{rejected[limit.exceeded]:,} of its candidates are left out: {limit.exceeded}"
            for limit, _ in given_peaks(prepared.scenario.limits)
            if limit.exceeded and rejected[limit.exceeded]
        )
        return WhyNot(asked=query.text, status="impossible", reasons=(reason, *left_out))
    before = plan.cost.expected if plan.cost else None
    same = plan.objective is not None and forced.objective is not None
    same = same and abs((plan.objective or 0.0) - (forced.objective or 0.0)) < MIN_SAVING_USD
    return WhyNot(
        asked=query.text,
        status="chosen" if same and _runs_so(plan, forced, query) else "possible",
        plan=_describe(forced),
        cost_usd=forced.cost.expected,
        hours=forced.hours.expected,
        times=forced.cost.expected / before if before else None,
    )


def _by(problem: Timetable, query: WhyNotQuery) -> Timetable:
    """Return the timetable with the job started and ended by the hours of the query."""
    if not query.times:
        return problem
    task = problem.tasks[query.job]
    if (start := query.times.get("start")) is not None:
        latest = minutes_down(start)
        modes = (replace(m, latest=latest if m.latest is None else min(m.latest, latest)) for m in task.modes)
        task = replace(task, modes=tuple(modes))
    if (end := query.times.get("end")) is not None:
        last = problem.horizon if task.deadline is None else task.deadline
        task = replace(task, deadline=min(last, 60 * end))
    return replace(problem, tasks=(*problem.tasks[: query.job], task, *problem.tasks[query.job + 1 :]))


def _earliest_hours(problem: Timetable, index: int) -> tuple[float, float] | None:
    """Return the earliest start and end of a job whatever the others do but those it waits for; None without a way."""
    first, task = time_bounds(problem)[0][index], problem.tasks[index]
    if not task.modes:
        return None
    starts = [max(first, mode.earliest) for mode in task.modes]
    return min(starts) / 60, min(at + mode.minutes for at, mode in zip(starts, task.modes, strict=True)) / 60


def _runs_so(plan: Plan, forced: Plan, query: WhyNotQuery) -> bool:
    """Return whether the job runs on the same machines in both, by the hours of the query."""
    job, other = plan.jobs[query.job], forced.jobs[query.job]
    hours = {"start": job.start_at_hours, "end": job.end_at_hours}
    if any((hours[key] or 0.0) > latest + ROUNDED_HOURS for key, latest in query.times.items()):
        return False
    return (job.offer, job.gpus, job.techniques.method) == (other.offer, other.gpus, other.techniques.method)


# The replays of a timetable. The order of the plan holds: a job starts at its planned start, or as soon after it as
# the jobs that it waits for have ended and the machines, GPUs or places of a reservation that it holds are free.


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
    shifted: dict[int, ShiftedJob] = {}
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
        shifted[place] = ShiftedJob(outcome, start, outlasts)
    return [shifted[place] for place in range(len(parts))]


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


# The frontier of a timetable: its plans for common deadlines.


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
