"""A scenario with a service and other jobs taken apart: what each of both is planned with alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.scenario.service_load import ServeJob

if TYPE_CHECKING:
    from planner.scenario.scenario import Scenario


def without_services(scenario: Scenario, spent_usd: float) -> Scenario:
    """Return the scenario without its services; what these cost is taken off the budget."""
    budget = scenario.limits.budget_usd
    limits = scenario.limits.model_copy(update={"budget_usd": None if budget is None else budget - spent_usd})
    jobs = tuple(job for job in scenario.jobs if not isinstance(job, ServeJob))
    written = tuple(job for job in scenario.jobs_written if not isinstance(job, ServeJob))
    return scenario.model_copy(update={"jobs": jobs, "jobs_written": written, "limits": limits})


def ends_before(scenario: Scenario, name: str) -> set[str]:
    """Return the jobs that have ended when a job starts: those that it waits for, and those that these wait for."""
    waits = {job.name: {one.job for one in job.after} for job in scenario.jobs}
    found, open_ = set[str](), [*waits[name]]
    while open_:
        job = open_.pop()
        if job not in found:
            found.add(job)
            open_ += waits[job]
    return found


def services_alone(scenario: Scenario) -> Scenario:
    """Return the scenario with its services alone, which wait for nothing."""
    jobs = (job.model_copy(update={"after": ()}) for job in scenario.jobs if isinstance(job, ServeJob))
    return scenario.model_copy(update={"jobs": tuple(jobs), "jobs_written": ()})


def service_alone(scenario: Scenario, name: str) -> Scenario:
    """Return the scenario with one of its services alone, which waits for nothing."""
    alone = services_alone(scenario)
    return alone.model_copy(update={"jobs": tuple(job for job in alone.jobs if job.name == name)})
