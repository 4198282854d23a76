"""What shared limits of a timetable cost, and why a job does not run otherwise or earlier."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner.analysis.explain.why_not import in_market, match_rows
from planner.analysis.explain.why_not_query import WhyNotQuery, named_offers
from planner.candidates.screening import ScreenedCandidates
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import Binding, Explanation, WhyNot
from planner.results.plan import Plan
from planner.results.plan_parts import jobs_text
from planner.scenario.peak_limits import given_peaks
from planner.scenario.scenario import SolveOptions
from planner.solving.prepare import CandidateObjective, PreparedScenario, prepare
from planner.solving.solve import solve_built
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.modes import BuiltTimetable, build_timetable
from planner.timetable.shared_over_time import minutes_down
from planner.timetable.timetable_problem import UNITS_PER_USD, Timetable, time_bounds
from planner.timetable.timetable_relaxations import MIN_SAVING_USD, explain_timetable, relaxed_timetables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# Explain a timetable: what each shared limit, deadline or precedence costs, and what another choice would cost.


ROUNDED_HOURS = 1 / 60
"""Timetables are in whole minutes."""
QUESTION_SECONDS = 5.0
"""Time limit of each question that is solved again."""


def explain_over_time(prepared: PreparedScenario, query: WhyNotQuery | None, options: SolveOptions) -> Explanation:
    """Return what binds a timetable, each limit left out alone, or the answer to a query, or why there is no plan."""
    started, scenario = perf_counter(), prepared.scenario
    built = build_timetable(prepared)
    plan = solve_built(prepared, built, options, started, explains=False)  # the limits that bind are found below
    found = Explanation(
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
        return found.model_copy(update={"why_not": _why_not(prepared, plan, query)})
    if plan.status == "infeasible":
        return found.model_copy(update=dict(explain_timetable(prepared, built)))
    return found.model_copy(update={"binding": tuple(_binding(_relaxed(prepared, built), plan))})


def _describe(plan: Plan) -> str:
    """Return how many jobs there are on which machines."""
    machines = dict.fromkeys(f"{job.gpus} x {job.gpu} at {job.provider}" for job in plan.jobs)
    return f"{jobs_text(len(plan.jobs))} on {', '.join(machines)}" if plan.jobs else ""


def _relaxed(prepared: PreparedScenario, built: BuiltTimetable) -> dict[str, tuple[float | str, Timetable]]:
    """Return the timetable without each limit, by the name of the limit, with its present value.

    A limit on what is used at one time may keep candidates out of the timetable because they exceed it alone: they
    take part in the timetable without it.
    """
    found = {name: (current, without) for name, current, without in relaxed_timetables(built.problem)}
    for limit, value in given_peaks(prepared.scenario.limits):
        if not limit.is_of_dollars and any(candidates.rejected[limit.exceeded] for candidates in prepared.screened):
            lifted = change_scenario(prepared.scenario, [f"{limit.path}=null"])
            found[limit.path] = value, build_timetable(prepare(lifted, prepared.library, prepared)).problem
    return found


def _binding(relaxed: Mapping[str, tuple[float | str, Timetable]], plan: Plan) -> Iterator[Binding]:
    """Yield every limit without which the timetable is better, the largest saving first."""
    found = []
    for name, (current, without) in relaxed.items():
        unit = 60 if without.objective == "last" else UNITS_PER_USD
        result = solve_timetable(without, SearchLimits(QUESTION_SECONDS))
        if result.objective is None or result.schedule is None or plan.objective is None:
            continue
        saving = plan.objective - result.objective / unit
        if saving < MIN_SAVING_USD:
            continue
        last = max(result.schedule.end(without, index) for index in range(len(without.tasks))) / 60
        hours = (plan.hours.at_confidence if plan.hours else last) - last
        usd = saving if without.objective == "cost" else None
        found.append(Binding(limit=name, current=current, saving=saving, saving_usd=usd, saving_hours=hours))
    yield from sorted(found, key=lambda binding: -binding.saving)


def _why_not(prepared: PreparedScenario, plan: Plan, query: WhyNotQuery) -> WhyNot:
    """Return what the timetable costs where one job runs as the query asks; the others are free to move."""
    offers = named_offers(prepared, query)

    def keep(index: int, screened: ScreenedCandidates) -> ScreenedCandidates:
        if index != query.job:
            return screened
        rows = match_rows(prepared.candidates[index], screened.table, offers, query)
        one = screened.select(rows)
        return replace(one, table=in_market(one.table, query))

    options = SolveOptions(time_limit_seconds=2 * QUESTION_SECONDS)
    built = build_timetable(prepared, keep).changed(lambda problem: _by(problem, query))
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
    one, other = plan.jobs[query.job], forced.jobs[query.job]
    hours = {"start": one.start_at_hours, "end": one.end_at_hours}
    if any((hours[key] or 0.0) > latest + ROUNDED_HOURS for key, latest in query.times.items()):
        return False
    return (one.offer, one.gpus, one.techniques.method) == (other.offer, other.gpus, other.techniques.method)
