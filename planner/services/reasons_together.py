"""Explain jobs and a service in one scenario: each as if it were alone, and the limits of both solved for both."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

from planner.analysis.what_if_sweep import difference
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, NoPlanError, ScenarioError
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import Binding, Explanation, LimitSensitivity
from planner.results.plan import Plan
from planner.results.plan_parts import describe_machines
from planner.results.service_results import describe_kinds, services_usd
from planner.scenario.open_job import AnyJob
from planner.scenario.scenario import Scenario, SolveOptions, services_alone, services_of, without_services
from planner.services.service_reasons import explain_service
from planner.solving.infeasibility.relaxations import BUDGET
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable


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
        if _asked(scenario, why_not).is_service:
            return explain_service(services_alone(scenario), why_not, options, library)
        served = solve(services_alone(scenario), options, library, explains=False)
        return explain(without_services(scenario, services_usd(served)), why_not, options, library)
    plan = solve(scenario, options, library)
    if plan.status == "no_plan":
        raise NoPlanError(f"no plan: {options.solver} stopped at a limit")
    if plan.cost is None or plan.hours is None:
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
