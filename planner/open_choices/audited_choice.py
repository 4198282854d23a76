"""Check what a plan chose of a job that left its model, its tokens or its batch open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.estimates import loss_laws
from planner.evaluation.comparison import Broken, Violation
from planner.library.schema import Architecture, Library
from planner.open_choices.choice_alternatives import given_price, law_of, level_spread
from planner.results.chosen_model import BatchChoice, ModelChoice
from planner.results.plan import Assignment, Plan
from planner.scenario.job import Job
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import Scenario, architectures_of, decide, decide_scenario, open_jobs
from planner.units import MEGA

if TYPE_CHECKING:
    from collections.abc import Iterator


_ROUNDING = 0.6
"""Tokens by which a rounded number may differ."""


def decided_scenario(plan: Plan, scenario: Scenario, library: Library) -> tuple[Scenario | None, list[Violation]]:
    """Return the scenario with what the plan chose in place of what was open, and what is wrong with the choices.

    A scenario that leaves nothing open is returned as it is; None where the plan does not say what it chose.
    """
    jobs = {job.name: job for job in open_jobs(scenario)}
    found = [
        Violation(job.name, "model", None, "a choice that was not left open")
        for job in plan.jobs
        if job.model is not None and job.name not in jobs
    ]
    if not jobs or not plan.jobs:
        return scenario, found
    decided = []
    for job in jobs.values():
        definite, wrong = _decided(plan, job, library)
        found += wrong
        if definite is None:
            return None, found
        decided.append(definite)
    found += _together(plan, scenario)
    return decide_scenario(scenario, *decided), found


def _decided(plan: Plan, job: OpenJob, library: Library) -> tuple[Job | None, list[Violation]]:
    """Return an open job with what the plan chose of it, and what is wrong with the choice; None without one."""
    assignment = next((planned_job for planned_job in plan.jobs if planned_job.name == job.name), None)
    if assignment is None:
        return None, [Violation(job.name, "job", "an assignment", None)]
    chosen = assignment.model
    if chosen is None:
        return None, [Violation(job.name, "model", "what was chosen", None)]
    if chosen.architecture not in architectures_of(job):
        allowed = ", ".join(architectures_of(job))
        return None, [Violation(job.name, "model.architecture", f"one of {allowed}", chosen.architecture)]
    try:
        architecture = library.architecture(chosen.architecture)
    except KeyError as error:
        return None, [Violation(job.name, "model.architecture", "a model of the library", str(error.args[0]))]
    batch, sigma = _batch(chosen, job)
    given = not job.uses_law and not job.opens_batch
    found = [Violation(job.name, *broken) for broken in _choice(chosen, job, architecture, assignment)]
    found += _loss(chosen, job, architecture, assignment.sequence_length)
    return decide(job, architecture.name, batch, None if given else chosen.tokens, sigma), found


def _together(plan: Plan, scenario: Scenario) -> list[Violation]:
    """Return where a plan of several jobs does not say, once for all, how far its losses may be above the least."""
    stated = {job.model.above_least for job in plan.jobs if job.model is not None}
    several = len(scenario.jobs) > 1
    wrong = [share for share in stated if (share is None) == several or (share is not None and share < 0)]
    if not wrong and len(stated) == 1:
        return []
    expected = "one number of at least 0" if several else None
    return [Violation(scenario.name, "model.above_least", expected, ", ".join(map(str, stated)))]


def _batch(chosen: ModelChoice, job: OpenJob) -> tuple[int, float]:
    """Return the batch of a choice in sequences, and the uncertainty that it adds."""
    if chosen.batch is None or not job.opens_batch:
        return job.batches[0], 0.0
    sequence = chosen.batch.tokens / max(chosen.batch.sequences, 1)
    reference = job.batches[0] * sequence
    sigma = loss_laws.batch_sigma(chosen.tokens_at_reference, chosen.batch.tokens, reference)
    return chosen.batch.sequences, sigma


def _choice(chosen: ModelChoice, job: OpenJob, architecture: Architecture, assignment: Assignment) -> Iterator[Broken]:
    """Yield what of model, tokens and batch was not left open, or does not follow from the law of the batch."""
    if chosen.parameters != architecture.parameters:
        yield "model.parameters", architecture.parameters, chosen.parameters
    if (chosen.batch is None) == job.opens_batch:
        yield (
            "model.batch",
            "one of the range" if chosen.batch is None else None,
            None if chosen.batch is None else "a batch",
        )
    factor = 1.0
    if chosen.batch is not None:
        yield from _batch_figures(chosen.batch, chosen, job, assignment)
        reference = job.batches[0] * assignment.sequence_length
        at_batch = chosen.batch.sequences * assignment.sequence_length
        wanted = loss_laws.batch_tokens(chosen.tokens_at_reference, at_batch, reference)
        factor = wanted / chosen.tokens_at_reference
    if abs(chosen.tokens - factor * chosen.tokens_at_reference) > _ROUNDING + 1e-9 * chosen.tokens:
        yield "model.tokens", round(factor * chosen.tokens_at_reference), chosen.tokens
    yield from _serving(chosen, job)
    if isinstance(job.work.tokens, int) and chosen.tokens_at_reference != job.work.tokens:
        yield "model.tokens_at_reference", job.work.tokens, chosen.tokens_at_reference


def _serving(chosen: ModelChoice, job: OpenJob) -> Iterator[Broken]:
    """Yield what of the dollars of serving does not follow from its tokens and from what was given."""
    cost = chosen.serving
    if (cost is None) != (job.serve_tokens is None):
        yield "model.serving", job.serve_tokens, None if cost is None else cost.tokens
    if cost is None:
        return
    if cost.tokens != job.serve_tokens:
        yield "model.serving.tokens", job.serve_tokens, cost.tokens
    given, price = job.serve_usd_per_million_tokens, cost.usd_per_million_tokens
    if given is not None and not math.isclose(given_price(given, chosen.parameters), price, rel_tol=1e-9):
        yield "model.serving.usd_per_million_tokens", given_price(given, chosen.parameters), price
    if not math.isclose(cost.usd, cost.tokens * price / MEGA, rel_tol=1e-9):
        yield "model.serving.usd", cost.tokens * price / MEGA, cost.usd


def _batch_figures(batch: BatchChoice, chosen: ModelChoice, job: OpenJob, assignment: Assignment) -> Iterator[Broken]:
    """Yield what of the batch's figures is not that of the law."""
    if batch.sequences not in job.batches:
        yield "model.batch.sequences", " or ".join(map(str, job.batches)), batch.sequences
    tokens, first = batch.sequences * assignment.sequence_length, job.batches[0] * assignment.sequence_length
    critical = loss_laws.critical_batch(chosen.tokens_at_reference)
    expected = {
        "tokens": tokens,
        "reference_sequences": job.batches[0],
        "critical_tokens": critical,
        "token_factor": chosen.tokens / chosen.tokens_at_reference,
        "step_factor": chosen.tokens / chosen.tokens_at_reference * first / tokens,
        "learning_rate_factor": math.sqrt(tokens / first),
        "sigma": loss_laws.batch_sigma(chosen.tokens_at_reference, tokens, first),
    }
    for name, value in expected.items():
        if not math.isclose(value, getattr(batch, name), rel_tol=1e-6, abs_tol=1e-9):
            yield f"model.batch.{name}", value, getattr(batch, name)


def _loss(chosen: ModelChoice, job: OpenJob, architecture: Architecture, sequence: int) -> list[Violation]:
    """Return where the loss is not that of the law, misses what was asked, or lies outside what the law has seen."""
    if not job.uses_law or chosen.loss is None:
        wrong = (chosen.loss is None) == job.uses_law
        return (
            [
                Violation(
                    job.name,
                    "model.loss",
                    "a loss" if job.uses_law else None,
                    None if chosen.loss is None else "a loss",
                )
            ]
            if wrong
            else []
        )
    law, level = law_of(job), level_spread(job)
    size = architecture.parameters - (0 if architecture.tied_embeddings else architecture.vocab * architecture.hidden)
    found = []
    loss = law.loss_at_batch(size, chosen.tokens_at_reference, job.unique_tokens, job.batches[0] * sequence)
    low, high = loss_laws.loss_range(loss, chosen.tokens_at_reference, job.unique_tokens, level)
    figures = {
        "law_parameters": (size, chosen.law_parameters),
        "loss.value": (loss, chosen.loss.value),
        "loss.low": (low, chosen.loss.low),
        "loss.high": (high, chosen.loss.high),
    }
    for name, (expected, its) in figures.items():
        if not math.isclose(expected, its, rel_tol=1e-9):
            found.append(Violation(job.name, f"model.{name}", expected, its))
    if job.work.loss is not None and loss > job.work.loss + 1e-9:
        found.append(Violation(job.name, "model.loss", f"at most {job.work.loss}", loss))
    least, most = loss_laws.known_tokens(size)
    if not least * 0.999 <= chosen.tokens_at_reference <= most * 1.001:
        found.append(Violation(job.name, "model.tokens", f"{least:.4g} to {most:.4g}", chosen.tokens_at_reference))
    return found
