"""What shared limits cost: those of a timetable, and those of jobs and a service in one scenario."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner.analysis.explain.service_reasons import explain_service
from planner.analysis.explain.why_not import in_market, match_rows
from planner.analysis.explain.why_not_query import WhyNotQuery, named_offers
from planner.analysis.what_if_sweep import difference
from planner.candidates.screening import ScreenedCandidates
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, NoPlanError, ScenarioError
from planner.formulation.timetable_problem import UNITS_PER_USD, Timetable, time_bounds
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.differences import describe_kinds, services_usd
from planner.results.explanation import Binding, Explanation, LimitSensitivity, WhyNot
from planner.results.plan import Plan
from planner.results.plan_parts import describe_machines
from planner.scenario.open_job import AnyJob
from planner.scenario.peak_limits import given_peaks
from planner.scenario.scenario import Scenario, SolveOptions, services_alone, services_of, without_services
from planner.scenario.service_load import ServeJob
from planner.solvers.cp_sat_timetable import SearchLimits, solve_timetable
from planner.solving.infeasibility.relaxations import BUDGET
from planner.solving.prepare import CandidateObjective, PreparedScenario, prepare
from planner.solving.solve import solve, solve_built
from planner.solving.timetable.modes import BuiltTimetable, build_timetable
from planner.solving.timetable.shared_over_time import minutes_down
from planner.solving.timetable.timetable_relaxations import MIN_SAVING_USD, explain_timetable, relaxed_timetables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


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
        cost_usd=plan.cost_usd.expected if plan.cost_usd else None,
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
    return f"{len(plan.jobs)} jobs on {', '.join(machines)}" if plan.jobs else ""


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
    built = build_timetable(prepared, keep)
    built = replace(built, problem=_by(built.problem, query))
    forced = solve_built(prepared, built, options, perf_counter(), explains=False)
    if forced.cost_usd is None or forced.hours is None:
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
    before = plan.cost_usd.expected if plan.cost_usd else None
    same = plan.objective is not None and forced.objective is not None
    same = same and abs((plan.objective or 0.0) - (forced.objective or 0.0)) < MIN_SAVING_USD
    return WhyNot(
        asked=query.text,
        status="chosen" if same and _runs_so(plan, forced, query) else "possible",
        plan=_describe(forced),
        cost_usd=forced.cost_usd.expected,
        hours=forced.hours.expected,
        times=forced.cost_usd.expected / before if before else None,
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
        task = replace(task, deadline=min(last, minutes_down(end)))
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


# Explain jobs and a service in one scenario: each as if it were alone, and the limits of both solved for both.


OF_ALL = "limits."
"""First letters of the limits that hold for jobs and service alike."""
LEAST_SHARED_SAVING = 0.005
"""Dollars below which a relaxed limit of both saves nothing."""


def explain_together(
    scenario: Scenario,
    why_not: str | None,
    options: SolveOptions | None,
    library: Library | None,
    explain: Callable[..., Explanation],
) -> Explanation:
    """Return why the plan of jobs and a service is as it is, or why there is none; raises like `explain`.

    They share nothing but limits: each is explained alone, the jobs on what the service leaves of the budget. What a
    limit of the scenario saves where it is relaxed is solved for both. A query is answered for the part it names.
    `explain` is that of jobs.
    """
    started, options = perf_counter(), options or SolveOptions()
    library = library or read_library([job.architecture for job in scenario.jobs])
    if why_not is not None:
        if isinstance(_asked(scenario, why_not), ServeJob):
            return explain_service(services_alone(scenario), why_not, options, library)
        served = solve(services_alone(scenario), options, library, explains=False)
        return explain(without_services(scenario, services_usd(served)), why_not, options, library)
    plan = solve(scenario, options, library)
    if plan.status == "no_plan":
        raise NoPlanError(f"no plan: {options.solver} stopped at a limit")
    if plan.cost_usd is None or plan.hours is None:
        details = dict(plan.infeasible) if plan.infeasible else {}
        found = Explanation(scenario=scenario.name, status=plan.status, **details)
        return found.model_copy(update={"seconds": perf_counter() - started})
    usd = services_usd(plan)
    of_jobs = explain(without_services(scenario, usd), options=options, library=library)
    binding = tuple(_whole_budget(binding, scenario) for binding in of_jobs.binding)
    of_jobs = of_jobs.model_copy(update={"binding": binding})
    of_service = explain_service(services_alone(scenario), options=options, library=library)
    shared = _shared_steps(scenario, plan, (*of_jobs.next_steps, *of_service.next_steps), options, library)
    parts = tuple(
        _own(explanation, name) for explanation, name in zip((of_jobs, of_service), _names(scenario), strict=True)
    )
    return Explanation(
        scenario=scenario.name,
        status=plan.status,
        compared_by=of_jobs.compared_by,
        plan=f"{of_jobs.plan}; {of_service.plan}",
        cost_usd=plan.cost_usd.expected,
        hours=plan.hours.expected,
        notes=of_jobs.notes,
        binding=binding,
        next_steps=(*(step for part in parts for step in part.next_steps), *shared),
        alternatives=(*of_jobs.alternatives, *of_service.alternatives),
        past_costs=of_jobs.past_costs,
        service=of_service.service,
        parts=parts,
        seconds=perf_counter() - started,
    )


def _asked(scenario: Scenario, why_not: str) -> AnyJob:
    """Return the job or service that a query names."""
    pairs = [[piece.strip() for piece in part.partition("=")[::2]] for part in why_not.split(",")]
    asked = next((value for key, value in pairs if key == "job"), None)
    meant = find_name(asked, [job.name for job in scenario.jobs])
    job = next((job for job in scenario.jobs if job.name == meant), None)
    if job is None:
        names = [job.name for job in scenario.jobs]
        what = "is missing, but the scenario has several jobs" if asked is None else f"unknown job {asked!r}"
        fix = f"job={names[0]}, or another" if asked is None else name_fix(asked, names)
        raise ScenarioError([Fault(f"--why-not {why_not[:80]}", 0, "job", what, fix)])
    return job


def _names(scenario: Scenario) -> tuple[str, str]:
    """Return the names of the jobs' part and of the service's: that of the only job, or that of the scenario."""
    services = [job.name for job in services_of(scenario)]
    jobs = [job.name for job in scenario.jobs if job.name not in services]
    return jobs[0] if len(jobs) == 1 else scenario.name, services[0] if len(services) == 1 else scenario.name


def _own(part: Explanation, name: str) -> Explanation:
    """Return the explanation of a part under its name, with the relaxations of its own limits alone."""
    own = tuple(step for step in part.next_steps if not step.limit.startswith(OF_ALL))
    return part.model_copy(update={"scenario": name, "next_steps": own})


def _whole_budget(one: Binding, scenario: Scenario) -> Binding:
    """Return a limit that binds; the budget as the scenario gives it, for jobs and service together."""
    budget = scenario.limits.budget_usd
    return one.model_copy(update={"current": budget}) if one.limit == BUDGET and budget is not None else one


def _shared_steps(
    scenario: Scenario, plan: Plan, steps: tuple[LimitSensitivity, ...], options: SolveOptions, library: Library
) -> tuple[LimitSensitivity, ...]:
    """Return what each limit of the scenario saves where it is relaxed, solved for jobs and service together.

    The steps are those that pay for either. A limit that pays for neither has no effect on both.
    """
    shared = [_of_both(step, plan) for step in steps if step.limit.startswith(OF_ALL)]
    paying = {step.setting: step for step in shared if step.change_to is not None and step.setting}
    found = [_solved(scenario, plan, step, options, library) for step in paying.values()]
    named = {step.limit for step in found}
    idle = {step.limit: step for step in shared if step.limit not in named}
    return (*sorted(found, key=lambda step: (step.change_to is None, step.delta_usd or 0.0)), *idle.values())


def _of_both(step: LimitSensitivity, plan: Plan) -> LimitSensitivity:
    """Return a step of a part for the whole scenario: to a budget of the jobs the dollars of the service are added."""
    if step.limit != BUDGET or plan.budget_usd is None:
        return step
    update: dict[str, object] = {"change_from": plan.budget_usd}
    if isinstance(step.change_to, float):
        more = math.ceil((step.change_to + services_usd(plan)) * 100) / 100  # a cent more rather than less
        update |= {"change_to": more, "setting": f"{BUDGET}={more:.2f}"}
    return step.model_copy(update=update)


def _solved(
    scenario: Scenario, plan: Plan, step: LimitSensitivity, options: SolveOptions, library: Library
) -> LimitSensitivity:
    """Return what a setting does to the plan of both."""
    after = solve(change_scenario(scenario, [step.setting]), options, library, explains=False)
    saved = difference(after, plan)
    if after.cost_usd is None or after.hours is None or (saved.cost_usd or 0.0) < LEAST_SHARED_SAVING:
        note = f"no gain at {step.change_to}"
        return LimitSensitivity(worth=step.worth, limit=step.limit, **{"from": step.change_from, "to": None}, note=note)
    return step.model_copy(
        update={
            "plan": _machines(after),
            "cost_usd": after.cost_usd.expected,
            "hours": after.hours.expected,
            "delta_usd": -(saved.cost_usd or 0.0),
            "delta_hours": -(saved.hours or 0.0),
            "gain": saved.cost_usd,
            "note": "",
        }
    )


def _machines(plan: Plan) -> str:
    """Return the machines of the jobs, then those of the services."""
    jobs = [f"{describe_machines(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}" for job in plan.jobs]
    return "; ".join([*jobs, *(kind for service in plan.services for kind in describe_kinds(service.fleet))])
