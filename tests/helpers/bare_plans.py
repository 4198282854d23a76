"""Plans without alternatives and reasons, for tests that compare dollars: what a plan says takes longer than itself."""

from __future__ import annotations

from dataclasses import replace

from planner.library.schema import Library
from planner.results.plan import Plan
from planner.scenario.choices.definite import open_job
from planner.scenario.scenario import Scenario, SolveOptions
from planner.scenario.serving.job import ServeJob
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared


def bare_plan(scenario: Scenario, options: SolveOptions | None = None, library: Library | None = None) -> Plan:
    """Return the strict optimum, audited: the objective of `solve`, without order inside a tie.

    It has neither alternatives nor binding limits, and where there is no plan no explanation. Services and open jobs
    have those that their own search makes.
    """
    if open_job(scenario) is not None or any(isinstance(job, ServeJob) for job in scenario.jobs):
        return solve(scenario, options, library, explains=False)
    prepared = prepare(scenario.on_day(options.as_of if options else None), library)
    return solve_prepared(replace(prepared, is_slim=True), options, explains=False)


def least_usd(scenario: Scenario, options: SolveOptions | None = None, library: Library | None = None) -> float:
    """Return the objective of a scenario; infinite where it has no plan."""
    plan = bare_plan(scenario, options, library)
    return float("inf") if plan.objective is None else plan.objective
