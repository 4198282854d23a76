"""A service solved again, alone or next to jobs: changes, frontiers, reasons and replays of both together.

Next to jobs each is asked as if it were alone, the jobs on what the service leaves of the budget.
"""

from __future__ import annotations

import datetime
import itertools
import math
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.analysis.market_paths import SimulationArguments
from planner.analysis.simulate_question import simulate
from planner.analysis.what_if_question import (
    compare_jobs,
    difference,
    mean_of,
    rest_of,
    separable_settings,
    what_it_would_take,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, NoPlanError, ScenarioError
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import Binding, Explanation, LimitSensitivity
from planner.results.fleet import Service
from planner.results.frontier import Frontier
from planner.results.plan import Plan
from planner.results.plan_parts import describe_machines
from planner.results.service_results import (
    ServiceDelta,
    ServiceFrontier,
    ServicePoint,
    compare_services,
    describe_kinds,
    jobs_alone,
    services_usd,
)
from planner.results.simulation import Simulation
from planner.results.what_if import Delta, Effect, WhatIf
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import PEAK_LIMITS
from planner.scenario.scenario import AnyJob, Scenario, SolveOptions
from planner.services.fleet_kinds import latency_at_use
from planner.services.fleet_optimise import WANTED_GAP
from planner.services.fleet_problem import services_alone, services_of, without_services
from planner.services.service_reasons import (
    ROOM,
    ServiceTrial,
    explain_service,
    milliseconds,
    rounded_up,
    service_of,
    try_service,
    with_latency,
)
from planner.services.service_simulation import simulate_service
from planner.solving.limit_changes import BUDGET
from planner.solving.prepare import prepare
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.results.frontier import GroupBy

SERVICE_POINTS = 10
"""Limits that are solved."""
LEAST_POINT_SAVING = 0.005
"""Share of the dollars that a looser limit saves at the least to be a point of its own."""
NEAR_LIMITS = 1.06
"""Factor between two limits that are not divided further."""
NO_LOAD = 1e-6
"""Use of a replica that is idle but for one request."""


def service_frontier(
    scenario: Asked,
    options: SolveOptions | None = None,
    library: Library | None = None,
    points: int = SERVICE_POINTS,
    known: dict[float | None, ServiceTrial] | None = None,
) -> ServiceFrontier:
    """Return the dollars of a month at limits on the time per token, each solved with its own bound.

    The first limits are a little above the least that any kind reaches, that of the scenario, and the one above which
    nothing is gained. Then the interval is divided, in logarithms, across which most dollars are saved per point of
    the curve. A fleet of a tighter limit keeps a looser one, and a bound of a looser limit holds for a tighter one.
    Without a plan for the scenario's own limit the others are shown all the same.

    `known` keeps the fleets that were solved, by their limit: the same call with more points goes on from there.

    Raises ScenarioError for other jobs next to the service, and for answers of one token, which have no such time.

    >>> found = planner.service_frontier(planner.read_scenario("many-adapters"), points=2)
    >>> found.points[0].usd_per_month >= found.points[-1].usd_per_month
    True
    """
    started, scenario, options = perf_counter(), as_scenario(scenario), options or SolveOptions()
    job = service_of(scenario, "frontier")
    library = library or read_library([job.architecture])
    asked = job.latency.tpot_seconds
    kept: dict[float | None, ServiceTrial] = {} if known is None else known

    def solved(limit: float | None) -> ServiceTrial:
        if limit not in kept:
            job_within, gap = with_latency(job, tpot_seconds=limit), _pair_gap(limit, asked, options)
            kept[limit] = try_service(scenario, library, options, job_within, pair_gap=gap)
        return kept[limit]

    free = solved(None)
    least = _least_seconds(job, free, library)
    ends: list[float] = []
    if free.is_feasible and least is not None:
        most = rounded_up(max(_at_capacity(free), ROOM * least))
        ends = sorted({rounded_up(ROOM * least), most})
    limits = sorted({*ends, *([asked] if asked is not None and free.is_feasible else [])})
    trials = {limit: solved(limit) for limit in (*limits, *kept) if limit is not None}
    while len(trials) < max(3, points) and (between := _widest(trials)) is not None:
        trials[between] = solved(between)
    points_found = _points(trials, job)
    infeasible = None if points_found else solve(scenario, options, library).infeasible
    proven = all(point.gap <= 1e-6 for point in points_found)
    status = "infeasible" if not points_found else "optimal" if proven else "feasible"
    return ServiceFrontier(
        scenario=scenario.name,
        status=status,
        points=points_found,
        share=job.latency.share,
        ttft_seconds=job.latency.ttft_seconds,
        load=max(job.load.hourly),
        unit=job.load.unit,
        least_tpot_seconds=least,
        solved=len(trials),
        seconds=perf_counter() - started,
        as_of=(options.as_of or datetime.date.today()).isoformat(),
        infeasible=infeasible,
        notes=_notes(job, trials),
    )


def _pair_gap(limit: float | None, asked: float | None, options: SolveOptions) -> float | None:
    """Return the gap that suffices at a limit: any without one, which is no point; that of the plan at its own."""
    if limit is None:
        return math.inf
    return None if limit == asked else max(options.gap, WANTED_GAP)


def _least_seconds(job: ServeJob, free: ServiceTrial, library: Library) -> float | None:
    """Return the least time per token that a kind reaches at no load and within the other limits."""
    if not free.served.kinds:
        return None
    which = sorted({kind.which for kind in free.served.kinds})
    _, per_token = latency_at_use(
        with_latency(job, ttft_seconds=None, tpot_seconds=None), free.served.speeds, library,
        np.full(len(free.served.speeds.which), NO_LOAD),
    )  # fmt: skip
    if float(np.max(per_token)) <= 0:
        problem, fix = "answers of one token have no time per token", "vary the time to the first token: what-if --vary"
        raise ScenarioError([Fault(job.name, 0, f"jobs.{job.name}.load.output_tokens", problem, fix)])
    return float(np.min(per_token[which]))


def _at_capacity(free: ServiceTrial) -> float:
    """Return the time per token at full capacity of the slowest kind of the fleet without a limit."""
    return max(float(free.served.capacities.tpot_seconds[free.served.kinds[kind].which]) for kind in free.used)


def _widest(known: dict[float, ServiceTrial]) -> float | None:
    """Return a limit within the interval across which most may be saved; None where all are narrow or flat."""
    limits = sorted(known)
    best, place = LEAST_POINT_SAVING * math.log(NEAR_LIMITS), None
    for low, high in itertools.pairwise(limits):
        if high <= NEAR_LIMITS * low or not known[high].is_feasible:
            continue
        usd, less = known[low].usd_per_month, known[high].usd_per_month
        fall = 1.0 if math.isinf(usd) else max(0.0, 1.0 - less / usd)
        weight, middle = fall * math.log(high / low), rounded_up(math.sqrt(low * high))
        if weight > best and low < middle < high:
            best, place = weight, middle
    return place


def _points(known: dict[float, ServiceTrial], job: ServeJob) -> tuple[ServicePoint, ...]:
    """Return the points that no tighter limit undercuts; the scenario's own limit is always one."""
    limits = [limit for limit in sorted(known) if known[limit].is_feasible]
    bounds: dict[float, float] = {}
    bound = 0.0
    for limit in reversed(limits):
        bound = bounds[limit] = max(bound, known[limit].bound_usd_per_month)
    points: list[ServicePoint] = []
    best: ServiceTrial | None = None
    for limit in limits:
        solved, asked = known[limit], limit == job.latency.tpot_seconds
        better = best is None or solved.usd_per_month < best.usd_per_month * (1.0 - LEAST_POINT_SAVING)
        best = solved if best is None or solved.usd_per_month < best.usd_per_month else best
        if not (better or asked):
            continue
        usd = best.usd_per_month
        least, most = best.replicas
        points.append(
            ServicePoint(
                tpot_seconds=limit,
                usd_per_month=usd,
                bound_usd_per_month=min(usd, bounds[limit]),
                gap=max(0.0, usd - bounds[limit]) / max(usd, 1e-9),
                least_replicas=least,
                most_replicas=most,
                machines=best.machines,
                binds=best.binds,
                asked=asked,
                setting=f"jobs.{job.name}.latency.tpot={milliseconds(limit)}",
            )
        )
    return tuple(points)


def _notes(job: ServeJob, known: dict[float, ServiceTrial]) -> tuple[str, ...]:
    """Return what holds at every point."""
    asked = job.latency.tpot_seconds
    notes = ["a limit between two points costs at most as much as the tighter one"]
    if asked is not None and asked in known and not known[asked].is_feasible:
        notes.append(f"the limit of the scenario, {milliseconds(asked)}, cannot be kept")
    return tuple(notes)


# What a change does to services, and to the jobs next to them.


ALSO_OF_SERVICES = (*(limit.path for limit in PEAK_LIMITS), "limits.quota")
"""Limits of which the machines of services take a part that the figures of jobs do not have."""


def what_if_of_services(
    scenario: Scenario, changed: Scenario, settings: tuple[str, ...], options: SolveOptions | None, library: Library
) -> WhatIf:
    """Return the plans of `solve` before and after settings, and what each did to them, to services and to jobs."""

    def solved(given: Sequence[str]) -> Plan:
        return solve(change_scenario(scenario, given) if given else scenario, options, library)

    before, after = solved(()), solved(settings)
    answer = compare_services_solved(before, after, settings)
    groups = separable_settings(scenario, settings)
    effects: tuple[Effect, ...] = ()
    if groups:
        alone = [solved(group) for group in groups]
        rests = [[setting for other in groups if other is not group for setting in other] for group in groups]
        without = alone[::-1] if len(groups) == 2 else [solved(rest) for rest in rests]
        plans = zip(groups, alone, without, strict=True)
        effects = tuple(_effect(", ".join(group), before, plan, rest, after) for group, plan, rest in plans)
    answer = answer.model_copy(update={"effects": effects, "together": rest_of(answer.delta, effects)})
    return _with_jobs(answer, scenario, changed, library)


def _with_jobs(answer: WhatIf, scenario: Scenario, changed: Scenario, library: Library) -> WhatIf:
    """Return the comparison of plans with services, with that of the jobs next to them."""
    before, after = answer.before, answer.after
    if not (before.jobs and after.jobs):
        return answer
    base = prepare(without_services(scenario, services_usd(before)), library)
    other = prepare(without_services(changed, services_usd(after)), library, base)
    answer = answer.model_copy(update={"jobs": compare_jobs(base, other, before, after)})
    if not answer.unchanged:
        return answer
    own = [setting for setting in answer.settings if not setting.startswith(ALSO_OF_SERVICES)]
    return answer.model_copy(update={"it_would_take": what_it_would_take(before, own, base)})


def compare_services_solved(before: Plan, after: Plan, settings: tuple[str, ...]) -> WhatIf:
    """Return the comparison of two plans that are solved already, without the effect of each single setting."""
    return WhatIf(
        scenario=before.scenario,
        settings=settings,
        better="cheaper",
        before=before,
        after=after,
        delta=difference(before, after),
        services=_services(before, after),
    )


def _effect(setting: str, before: Plan, alone: Plan, rest: Plan, after: Plan) -> Effect:
    """Return what a setting does alone, and as the last of all."""
    first, last = difference(before, alone), difference(rest, after)
    return Effect(
        setting=setting,
        alone_status=alone.status,
        alone=first,
        last=last,
        share=Delta(cost_usd=mean_of(first.cost_usd, last.cost_usd), hours=mean_of(first.hours, last.hours)),
    )


def _services(before: Plan, after: Plan) -> tuple[ServiceDelta, ...]:
    """Return one entry for every service that both plans have."""
    later = {service.name: service for service in after.services}
    return tuple(
        ServiceDelta(
            name=service.name,
            usd_per_month=later[service.name].fleet.usd_per_month - service.fleet.usd_per_month,
            proven_usd_per_month=_proven(service.gap * service.fleet.usd_per_month, later[service.name]),
            changes=compare_services(service, later[service.name]),
        )
        for service in before.services
        if service.name in later
    )


def _proven(open_usd: float, after: Service) -> float:
    """Return the dollars of a month by which either plan may lie above the least one."""
    return max(open_usd, after.gap * after.fleet.usd_per_month)


# Frontiers: that of the jobs, and that of the service.


def frontier_next_to_services(
    scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
) -> Frontier:
    """Return the frontier of the jobs next to a service, on what the service leaves of the budget.

    The least dollars of the service hold for every finish of the jobs: they are given once, and are part of no point.
    """
    library = library or read_library([job.architecture for job in scenario.jobs])
    served = solve(services_alone(scenario), options, library, explains=False)
    usd = services_usd(served)
    jobs = without_services(scenario, usd)
    frontier = frontier_of_jobs(jobs, options, library, by, points)
    if not frontier.points or not served.services:
        plan = solve(scenario, options, library)
        return frontier.model_copy(
            update={"status": plan.status, "infeasible": plan.infeasible, "budget_usd": scenario.limits.budget_usd,
                    **dict.fromkeys(("points", "segments", "separate", "curves", "beyond"), ()), "knee": None}
        )  # fmt: skip
    names = ", ".join(service.name for service in served.services)
    left = "" if frontier.budget_usd is None else f" and leaves ${frontier.budget_usd:,.2f} of the budget"
    note = f"the jobs alone: {names} costs ${usd:,.2f} at every point{left}; its own frontier: --job {names}"
    frontier = frontier.with_plan(solve(jobs, options, library, explains=False))
    return frontier.model_copy(update={"services_usd": usd, "notes": (note, *frontier.notes)})


def frontier_of_service(
    scenario: Scenario,
    options: SolveOptions | None = None,
    library: Library | None = None,
    points: int = SERVICE_POINTS,
) -> ServiceFrontier:
    """Return the frontier of the service next to jobs, on what these leave of the budget; raises as for one alone.

    The jobs stay as they are planned with the service, or alone where the scenario has no plan.
    """
    options = options or SolveOptions()
    library = library or read_library([job.architecture for job in scenario.jobs])
    alone, budget = services_alone(scenario), scenario.limits.budget_usd
    if budget is None:
        return service_frontier(alone, options, library, points)
    plan = solve(scenario, options, library)
    jobs = jobs_alone(plan) if plan.jobs else solve(without_services(scenario, 0.0), options, library)
    late = budget if jobs.cost_at_confidence is None else jobs.cost_at_confidence
    limits = alone.limits.model_copy(update={"budget_usd": budget - late})
    frontier = service_frontier(alone.model_copy(update={"limits": limits}), options, library, points)
    if not frontier.points:
        return frontier.model_copy(update={"infeasible": plan.infeasible})
    names = ", ".join(job.name for job in scenario.jobs if job.ends)
    note = f"within the ${budget - late:,.2f} of the budget that {names} as planned leaves at its confidence"
    return frontier.model_copy(update={"notes": (note, *frontier.notes)})


# Replays: the jobs on many markets, the service request by request.


RECORDED_NOTE = "traces are those of the jobs; losses of the service follow the spot market of its offers"


def simulate_together(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions | None,
    library: Library | None,
    progress: Callable[[int, int], None] | None,
    arguments: SimulationArguments,
) -> Simulation:
    """Return the replays of the jobs with the simulation of the services.

    Raises ScenarioError for a scenario of services alone, and what the two simulations raise.
    """
    if len(services_of(scenario)) == len(scenario.jobs):
        raise ScenarioError([Fault(scenario.name, 0, "jobs", "has services alone", "use simulate_service")])
    own = {name: arguments[name] for name in ("runs", "seed", "exact_speed") if name in arguments}
    served = simulate_service(scenario, plan, options=options, library=library, **own)  # type: ignore[arg-type]
    if not served.services:
        facts = {name: getattr(served, name) for name in ("scenario", "status", "runs", "seed", "exact_speed", "as_of")}
        return Simulation(**facts, seconds=served.seconds, infeasible=served.infeasible, plan=served.plan)
    usd = services_usd(served.plan)
    rest, of_rest = without_services(scenario, usd), jobs_alone(served.plan)
    simulation = simulate(rest, of_rest, options=options, library=library, progress=progress, **arguments)
    recorded = (RECORDED_NOTE,) if arguments.get("traces") else ()
    update = {
        "services": served.services,
        "services_usd": usd,
        "seconds": simulation.seconds + served.seconds,
        "notes": (*simulation.notes, *served.notes, *recorded),
    }
    return simulation.model_copy(update=update)


# Reasons: of each alone, and the limits of both solved for both.


OF_ALL = "limits."
"""First letters of the limits that hold for jobs and service alike."""
LEAST_SHARED_SAVING = 0.005
"""Dollars below which a relaxed limit of both saves nothing."""


def explain_together(
    scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
) -> Explanation:
    """Return why the plan of jobs and a service is as it is, or why there is none; raises like `explain`.

    They share nothing but limits: each is explained alone, the jobs on what the service leaves of the budget. What a
    limit of the scenario saves where it is relaxed is solved for both. A query is answered for the part it names.
    """
    started, options = perf_counter(), options or SolveOptions()
    library = library or read_library([job.architecture for job in scenario.jobs])
    if why_not is not None:
        if not _asked(scenario, why_not).ends:
            return explain_service(services_alone(scenario), why_not, options, library)
        served = solve(services_alone(scenario), options, library, explains=False)
        return explain(without_services(scenario, services_usd(served)), why_not, options, library)
    plan = solve(scenario, options, library)
    if plan.status == "no_plan":
        raise NoPlanError(f"no plan: {options.solver} stopped at a limit")
    if plan.cost is None or plan.hours is None:
        details = dict(plan.infeasible) if plan.infeasible else {}
        together = Explanation(scenario=scenario.name, status=plan.status, **details)
        return together.model_copy(update={"seconds": perf_counter() - started})
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
        cost_usd=plan.cost.expected,
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
    meant = find_name(asked, [scenario_job.name for scenario_job in scenario.jobs])
    job = next((job for job in scenario.jobs if job.name == meant), None)
    if job is None:
        names = [scenario_job.name for scenario_job in scenario.jobs]
        problem = "is missing, but the scenario has several jobs" if asked is None else f"unknown job {asked!r}"
        fix = f"job={names[0]}, or another" if asked is None else name_fix(asked, names)
        raise ScenarioError([Fault(f"--why-not {why_not[:80]}", 0, "job", problem, fix)])
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


def _whole_budget(binding: Binding, scenario: Scenario) -> Binding:
    """Return a limit that binds; the budget as the scenario gives it, for jobs and service together."""
    budget = scenario.limits.budget_usd
    return binding.model_copy(update={"current": budget}) if binding.limit == BUDGET and budget is not None else binding


def _shared_steps(
    scenario: Scenario, plan: Plan, steps: tuple[LimitSensitivity, ...], options: SolveOptions, library: Library
) -> tuple[LimitSensitivity, ...]:
    """Return what each limit of the scenario saves where it is relaxed, solved for jobs and service together.

    The steps are those that pay for either. A limit that pays for neither has no effect on both.
    """
    shared = [_of_both(step, plan) for step in steps if step.limit.startswith(OF_ALL)]
    paying = {step.setting: step for step in shared if step.change_to is not None and step.setting}
    solved_steps = [_solved(scenario, plan, step, options, library) for step in paying.values()]
    named = {step.limit for step in solved_steps}
    idle = {step.limit: step for step in shared if step.limit not in named}
    return (*sorted(solved_steps, key=lambda step: (step.change_to is None, step.delta_usd or 0.0)), *idle.values())


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
    if after.cost is None or after.hours is None or (saved.cost_usd or 0.0) < LEAST_SHARED_SAVING:
        note = f"no gain at {step.change_to}"
        return LimitSensitivity(worth=step.worth, limit=step.limit, **{"from": step.change_from, "to": None}, note=note)
    return step.model_copy(
        update={
            "plan": _machines(after),
            "cost_usd": after.cost.expected,
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
