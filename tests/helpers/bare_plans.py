"""Plans without alternatives and reasons, for tests that compare dollars: what a plan says takes longer than itself."""

from __future__ import annotations

from dataclasses import replace

from planner.library.schema import Library
from planner.results.plan import Plan
from planner.scenario.inference_job import ServeJob
from planner.scenario.scenario import Scenario, SolveOptions, open_job
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared


def bare_plan(scenario: Scenario, options: SolveOptions | None = None, library: Library | None = None) -> Plan:
    """Return the strict optimum, audited: the objective of `solve`, without order inside a tie.

    It has neither alternatives nor binding limits, and where there is no plan no explanation. Services and open jobs
    have those that their own search makes.
    """
    return _plan(scenario, options, library, is_bare=True)


def plan_if_any(scenario: Scenario, options: SolveOptions | None = None, library: Library | None = None) -> Plan:
    """Return the plan of `solve` with all that it says; where there is none, without the explanation of that."""
    return _plan(scenario, options, library, is_bare=False)


def _plan(scenario: Scenario, options: SolveOptions | None, library: Library | None, is_bare: bool) -> Plan:
    if open_job(scenario) is not None or any(isinstance(job, ServeJob) for job in scenario.jobs):
        return solve(scenario, options, library, explains=False)
    prepared = prepare(scenario.on_day(options.as_of if options else None), library)
    plan = solve_prepared(replace(prepared, is_slim=is_bare or prepared.is_slim), options, explains=False)
    says_more = not is_bare and plan.jobs and plan.solver == "cp-sat"  # a timetable: what the shared limits cost
    return solve_prepared(prepared, options) if says_more else plan
