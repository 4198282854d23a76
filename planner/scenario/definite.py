"""A job that leaves something open, with that decided: an ordinary job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.documents.quantities import NotNegative
from planner.library.model_ladder import members
from planner.scenario.job import Job
from planner.scenario.job_work import Work
from planner.scenario.open_job import BEST_TOKENS, Family, OpenJob
from planner.scenario.service_load import ServeJob

if TYPE_CHECKING:
    from planner.scenario.scenario import Scenario, ScenarioFile


class DefiniteJob(Job, defer_build=True):
    """A job whose tokens follow from a law, which adds to the uncertainty of its hours."""

    token_sigma: NotNegative = 0.0  # standard deviation of the logarithm of its tokens


def token_sigma(job: Job) -> float:
    """Return the standard deviation of the logarithm of a job's tokens; 0 where they are given."""
    return job.token_sigma if isinstance(job, DefiniteJob) else 0.0


def with_token_sigmas(scenario: Scenario, before: Scenario) -> Scenario:
    """Return a changed scenario in which the tokens of jobs are as uncertain as before: no key of a file says that."""
    sigmas = {job.name: token_sigma(job) for job in before.jobs if token_sigma(job)}
    if not sigmas:
        return scenario
    jobs = []
    for job in scenario.jobs:
        fields = {name: getattr(job, name) for name in Job.model_fields if name in job.model_fields_set}
        sigma = sigmas.get(job.name)
        jobs.append(job if sigma is None else DefiniteJob.model_construct(**fields, token_sigma=sigma))
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def open_job(scenario: Scenario | ScenarioFile) -> OpenJob | None:
    """Return the first job of a scenario that leaves something open; None where none does."""
    return next(iter(open_jobs(scenario)), None)


def open_jobs(scenario: Scenario | ScenarioFile) -> tuple[OpenJob, ...]:
    """Return the jobs of a scenario that leave something open."""
    return tuple(job for job in scenario.jobs if isinstance(job, OpenJob))


def architectures_of(job: Job) -> tuple[str, ...]:
    """Return the models that a job may train."""
    if not isinstance(job, OpenJob):
        return (job.architecture,)
    asked = job.models
    if isinstance(asked, Family):
        return members(asked.family, asked.parameters.least, asked.parameters.most)
    return asked


def decide(job: OpenJob, architecture: str, batch: int, tokens: int | None, sigma: float = 0.0) -> Job:
    """Return the job with its model, its batch in sequences and its tokens; None keeps the work that is given."""
    fields = {name: getattr(job, name) for name in Job.model_fields if name in job.model_fields_set}
    if tokens is None:
        given = {name: getattr(job.work, name) for name in Work.model_fields if name in job.work.model_fields_set}
        work = Work.model_construct(**given)
    else:
        work = Work(tokens=tokens)
    decided = {"architecture": architecture, "global_batch": batch, "work": work, "token_sigma": sigma}
    return DefiniteJob.model_construct(**{**fields, **decided})


def decide_scenario(scenario: Scenario, *decided: Job) -> Scenario:
    """Return the scenario with definite jobs in place of the open ones of their names; of the least loss, dollars."""
    by_name = {job.name: job for job in decided}
    jobs = tuple(by_name.get(one.name, one) for one in scenario.jobs)
    objective = "cost" if scenario.objective == "loss" else scenario.objective
    return scenario.model_copy(update={"jobs": jobs, "objective": objective})


def choice_faults(scenario: Scenario | ScenarioFile) -> list[tuple[str, str, str]]:
    """Return place, fault and remedy of what the open job of a scenario and the rest of it contradict."""
    jobs, found = open_jobs(scenario), []
    least_loss = bool(jobs) and all(job.wants_least_loss for job in jobs)
    if jobs and len(scenario.jobs) > 1:
        if not least_loss:
            job = next(one for one in jobs if not one.wants_least_loss)
            what = f"{job.name} leaves its model or its batch open, and there are other jobs"
            fix = f"plan it alone, give its share of the budget, or ask for tokens: {BEST_TOKENS}"
            found.append(("jobs", what, fix))
        elif any(isinstance(job, ServeJob) for job in scenario.jobs):
            what = f"{jobs[0].name} leaves its tokens open, and there is a service"
            found.append(("jobs", what, "plan it alone, and give its share of the budget"))
    if scenario.objective == "loss" and not least_loss:
        fix = f"give the job work: {{tokens: {BEST_TOKENS}}}, or minimise cost or time"
        found.append(("objective", "the least loss of work that is given", fix))
    if least_loss and scenario.objective != "loss":
        found.append(("objective", f"tokens: {BEST_TOKENS} asks for the least loss", "add objective: loss"))
    if least_loss and scenario.limits.budget_usd is None and any(job.deadline_hours is None for job in jobs):
        fix = "add limits.budget_usd: 200, or a deadline"
        found.append(("limits", "without a budget or a deadline more tokens are always better", fix))
    return found
