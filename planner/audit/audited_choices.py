"""Check of what a plan chose and of its other ways: open models and batches, further ways, purchase."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from pydantic import ValidationError

from planner.estimates import loss_laws
from planner.evaluation.comparison import Broken, Tolerance, Violation
from planner.library.schema import Architecture, Library
from planner.results.chosen_model import BatchChoice, ModelChoice
from planner.results.plan import Assignment, Plan, plan_figures
from planner.results.plan_parts import FurtherWay, Purchase
from planner.scenario.fees import fee_items, fee_rate
from planner.scenario.job import Job
from planner.scenario.offer import Offer
from planner.scenario.open_job import OpenJob, OwnLaw
from planner.scenario.scenario import Scenario, architectures_of, decide, decide_scenario, open_jobs
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Check of the other ways that a plan names: further ways if its machines cannot be had, and their purchase.
#
# A further way is a plan of the scenario without the machines of the plan and of the ways before it, so it is audited
# as such a plan: its figures, its limits, and that it is at another provider or on another card.


_WASTED = {"lost on spot", "move to on demand", "starts on demand", "starts and losses", "rounded up"}
_WASTED |= fee_items("machine hours")  # of hours that another line has


class AuditPlan(Protocol):
    """The audit of the jobs and limits of a plan, whose objective is not claimed."""

    def __call__(self, plan: Plan, scenario: Scenario, /) -> list[Violation]:
        """Return what its jobs break, each by itself and together."""
        ...


def ways_of_plan(plan: Plan, scenario: Scenario, tolerance: Tolerance, audit_jobs: AuditPlan) -> Iterator[Violation]:
    """Yield what the further ways and purchases of a plan break; `audit_jobs` audits the jobs of one way."""
    wanted = scenario.limits.fallbacks
    free = scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"fallbacks": 0})})
    for job in plan.jobs:
        if len(job.fallbacks) != wanted:
            yield Violation(job.name, "limits.fallbacks", f"{wanted} further ways", len(job.fallbacks))
        taken = [(job.provider, job.gpu)]
        for number, way in enumerate(job.fallbacks, 1):
            what = f"fallbacks[{number}]"
            reduced = free.model_copy(update={"offers": _others(free.offers, taken), "offers_inline": ()})
            yield from _way(what, job, way, plan, reduced, tolerance, audit_jobs)
            taken.append((way.provider, way.gpu))
        if job.purchase is not None:
            yield from (
                Violation(job.name, *broken) for broken in _purchase(job.purchase, job, scenario.for_sale, tolerance)
            )


def _others(offers: Sequence[Offer], taken: Sequence[tuple[str, str]]) -> tuple[Offer, ...]:
    """Return the offers of other providers, or with other cards."""
    return tuple(
        offer for offer in offers if (offer.provider, "managed" if offer.is_managed else offer.card) not in taken
    )


def _way(
    what: str,
    job: Assignment,
    way: FurtherWay,
    plan: Plan,
    reduced: Scenario,
    tolerance: Tolerance,
    audit_jobs: AuditPlan,
) -> Iterator[Violation]:
    """Yield what one further way of a job breaks, and where its summary is not that of its jobs."""
    try:
        jobs = tuple(Assignment.model_validate(stated) for stated in way.jobs)
    except ValidationError:
        yield Violation(job.name, f"{what}.jobs", "jobs as in the plan", "something else")
        return
    mine = next((way_job for way_job in jobs if way_job.name == job.name), None)
    if mine is None:
        yield Violation(job.name, f"{what}.jobs", f"the job {job.name}", None)
        return
    figures = plan_figures(jobs, way.reservations)
    other = plan.model_copy(update={**figures, "baseline": None, "faster": (), "infeasible": None})
    for found in audit_jobs(other, reduced):
        yield Violation(found.job or job.name, f"{what}: {found.what}", found.expected, found.found)
    for name in ("provider", "gpu", "gpus", "runs_at_once"):
        if getattr(way, name) != getattr(mine, name):
            yield Violation(job.name, f"{what}.{name}", getattr(mine, name), getattr(way, name))
    more = figures["cost_usd"].expected - (plan.cost_usd.expected if plan.cost_usd else 0.0)
    hours = mine.delay_hours + mine.hours.expected
    for name, expected, room in (
        ("cost_usd", mine.cost_usd, tolerance.usd),
        ("more_usd", more, tolerance.usd * (1 + len(jobs))),
        ("hours", hours, tolerance.hours * hours),
    ):
        if not abs(getattr(way, name) - expected) <= room:
            yield Violation(job.name, f"{what}.{name}", expected, getattr(way, name))


def _purchase(one: Purchase, job: Assignment, for_sale: Sequence[Offer], tolerance: Tolerance) -> Iterator[Broken]:
    """Yield where the purchase contradicts the bill of the job, or the offer where that is at hand."""
    machines = job.instances * job.runs_at_once
    paid = [line for line in job.bill if line.unit == "h" and not line.item.rpartition(" at ")[1]]
    worked = math.fsum(line.quantity or 0.0 for line in paid if line.item not in _WASTED)
    hours = worked / machines + (job.start_hours if job.spot else 0.0)
    rent = math.fsum(line.usd for line in paid) / hours
    same = (offer for offer in for_sale if (offer.gpu, offer.gpus) == (job.gpu, job.gpus_per_instance))
    offer = next(same, None)
    if offer is None or offer.buy is None:
        yield "purchase", None, one.offer
        return
    buy = offer.buy
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    worst, best = buy.residual_range or (buy.residual_share, buy.residual_share)
    kilowatts = machines * (buy.power_watts or 0.0) / 1000
    running = kilowatts * buy.pue * buy.usd_per_kwh + machines * buy.idle_usd_per_month / MONTH_HOURS
    running += machines * (fee_rate(offer.fees, "machine hours") or 0.0)
    saved = rent - running
    lost = (buy.purchase_usd * (1 - buy.residual_share), low * (1 - best), high * (1 - worst))
    pays = [machines * each / saved if saved > 0 else None for each in lost]
    told: dict[str, str | float | None] = {
        "offer": offer.label,
        "date": offer.date_text,
        "source": offer.source,
        "machines": machines,
        "hours": hours,
        "rent_usd_per_hour": rent,
        "running_usd_per_hour": running,
        "usd": machines * buy.purchase_usd,
        "low_usd": machines * low,
        "high_usd": machines * high,
        "pays_from_hours": pays[0],
        "pays_from_hours_low": pays[1],
        "pays_from_hours_high": pays[2],
    }
    for name, value in told.items():
        found = getattr(one, name)
        if isinstance(value, float) and isinstance(found, float):
            if abs(found - value) <= tolerance.hours * max(1.0, abs(value)):
                continue
        elif found == value:
            continue
        yield f"purchase.{name}", value, found


# Check what a plan chose of a job that left its model, its tokens or its batch open.


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
    found += _loss(chosen, job, architecture)
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
    if isinstance(job.work.tokens, int) and chosen.tokens_at_reference != job.work.tokens:
        yield "model.tokens_at_reference", job.work.tokens, chosen.tokens_at_reference


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


def _loss(chosen: ModelChoice, job: OpenJob, architecture: Architecture) -> list[Violation]:
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
    given = job.loss_law
    law = loss_laws.LossLaw(given.e, given.a, given.b, given.alpha, given.beta) if isinstance(given, OwnLaw) else None
    law = law or loss_laws.LAWS[str(given)]
    size = architecture.parameters - (0 if architecture.tied_embeddings else architecture.vocab * architecture.hidden)
    found = []
    worth = loss_laws.new_tokens(chosen.tokens_at_reference, job.unique_tokens)
    loss = law.e + law.a / size**law.alpha + law.b / worth**law.beta
    spread = loss_laws.loss_spread()
    figures = {
        "law_parameters": (size, chosen.law_parameters),
        "loss.value": (loss, chosen.loss.value),
        "loss.low": (loss - spread, chosen.loss.low),
        "loss.high": (loss + spread, chosen.loss.high),
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
