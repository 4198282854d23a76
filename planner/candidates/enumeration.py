"""Every candidate of a job: its configurations joined with the offers of the market, and the managed services."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.candidate_table import concatenate
from planner.candidates.job_candidates import JobCandidates, kept_undominated
from planner.candidates.machine_candidates import join_placements
from planner.candidates.managed_service import find_services
from planner.candidates.offer_columns import OfferColumns
from planner.candidates.offer_terms import spot_markets
from planner.candidates.pricing import are_of, hours_and_table, of_job
from planner.candidates.run_hours import RunHours, compute_run_hours
from planner.candidates.shipping.placement import place_exports
from planner.candidates.stage_placement import Placement, enumerate_placements
from planner.configurations.enumeration import JobConfigurations, enumerate_configurations
from planner.configurations.recipe import allows_full
from planner.scenario.inference import InferenceJob
from planner.scenario.job import DEFAULT_CONFIDENCE
from planner.scenario.stages import Stages, Trials
from planner.spot.policy.policy_cache import PolicyCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidates.market import Market
    from planner.configurations.grid import Machine
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job

IGNORED_FIELDS = {
    "name": "",
    "deadline_hours": None,
    "efficiency": 1.0,
    "storage_gb_per_second": 1.0,
    "load_efficiency": 1.0,
    "data_gb": 0.0,
    "trials": Trials(),
    "early_stopping": 1.0,
    "stages": Stages(),
}
"""Fields of a job that its memory and step time do not depend on, with the value that comparisons put in.

Neither does the confidence of the deadline, while that of memory decides what fits.
"""
TIMING_FIELDS = (
    "confidence",
    "efficiency",
    "storage_gb_per_second",
    "load_efficiency",
    "trials",
    "early_stopping",
    "stages",
)
"""Those of such fields that hours depend on."""


class Margins(NamedTuple):
    """How sure memory and dollars are: what replaces the margin of the fit rule, and the confidence of the budget."""

    headroom: float | None = None  # share of memory
    budget_confidence: float = DEFAULT_CONFIDENCE


DEFAULT_MARGINS = Margins()
"""Those of a scenario that says nothing of either."""


def enumerate_candidates(
    job: Job,
    architecture: Architecture,
    market: Market,
    jobs: Sequence[str],
    library: Library,
    margins: Margins = DEFAULT_MARGINS,
    before: JobCandidates | None = None,
) -> JobCandidates:
    """Return every candidate of the job on every offer of the market; `screen` applies limits and deadline.

    Raises ScenarioError for a stage that no offer can run.

    Parameters
    ----------
    jobs
        Names of all jobs of the scenario, so that the tables of several jobs can be concatenated.
    margins
        What replaces the margin of the fit rule, and the probability with which the late dollars are kept.
    before
        Earlier candidates of the job; what still applies is not computed again.
    """
    if isinstance(job, InferenceJob):
        from planner.candidates.replicas.market import market_of  # late: what only generation needs

        market = market_of(job, market)
    physics, run_hours = _reuse_or_compute(job, architecture, market.distinct_machines, library, margins, before)
    earlier = enumerate_placements(job, architecture, physics.shape, market, library)
    placements = (*place_exports(earlier, job, architecture, run_hours, market, library), Placement())
    same_rows = before and before.offers is market.offers and before.placements == placements
    if before and same_rows and before.run_hours is run_hours and are_of(before, job, jobs):
        return of_job(before, job)
    spot = spot_markets(market.offers, library)
    columns = OfferColumns.of(market, job, spot, library)
    kept = before.kept if before is not None and run_hours is before.run_hours else {}
    which = kept_undominated(kept, job, physics.ways, run_hours)
    machines = join_placements(job, physics, run_hours, columns, placements, market, which)
    services = find_services(job, architecture, physics.shape, market, library)
    hours, table = hours_and_table(machines, market, jobs, before)
    if count := len(services.offer):
        table = concatenate([table, services.table(market, jobs, len(physics.ways.recipes))])
        hours = hours.joined(services.hours())
    return JobCandidates(
        job,
        architecture,
        physics,
        table,
        np.append(machines.configuration, np.full(count, -1)),
        np.append(machines.placement, np.full(count, len(placements) - 1)),
        hours,
        run_hours,
        placements,
        spot,
        columns,
        margins.headroom,
        services,
        before.policies if before is not None else PolicyCache(),
        kept,
        market.offers,
    )


def _reuse_or_compute(
    job: Job,
    architecture: Architecture,
    machines: tuple[Machine, ...],
    library: Library,
    margins: Margins,
    before: JobCandidates | None,
) -> tuple[JobConfigurations, RunHours]:
    """Return the configurations of the job and their hours, from `before` as far as the job has not changed."""
    run_hours = None
    same_margin = before is not None and before.headroom == margins.headroom
    if before is not None and same_margin and _same_physics(before, job, architecture, machines):
        physics = before.physics
        has_same = before.run_hours.budget_confidence == margins.budget_confidence and _has_same_hours(before.job, job)
        run_hours = before.run_hours if has_same else None
    else:
        physics = _configurations(job, architecture, machines, library, margins.headroom)
    return physics, run_hours or _hours(job, architecture, physics, library, margins.budget_confidence)


def _configurations(
    job: Job, architecture: Architecture, machines: Sequence[Machine], library: Library, headroom: float | None
) -> JobConfigurations:
    """Return the configurations of a job of either form."""
    if isinstance(job, InferenceJob):
        from planner.configurations.replicas.enumeration import enumerate_replicas  # late: what only generation needs

        return enumerate_replicas(job, architecture, machines, library, headroom)
    return enumerate_configurations(job, architecture, machines, library, headroom)


def _hours(
    job: Job, architecture: Architecture, physics: JobConfigurations, library: Library, budget_confidence: float
) -> RunHours:
    """Return the hours of the configurations of a job of either form."""
    if isinstance(job, InferenceJob):
        from planner.candidates.replicas.run_hours import compute_replica_hours  # late: what only generation needs

        return compute_replica_hours(job, architecture, physics, library, budget_confidence)
    return compute_run_hours(job, architecture, physics, library, budget_confidence)


def _same_physics(before: JobCandidates, job: Job, architecture: Architecture, machines: tuple[Machine, ...]) -> bool:
    """Return whether memory and step times of the configurations are those of `before`."""
    if before.architecture != architecture or before.physics.machines != machines:
        return False
    # Observed runs replace the allowed configurations; without them every method is enumerated anyway.
    open_ = {} if job.measured or before.job.measured else {"method": None, "weight_bits": None}

    def essence(one: Job) -> Job:
        """Return the job with the same value in all fields that do not matter."""
        techniques = one.techniques.model_copy(update={"penalty_usd": {}, **open_})
        if open_ and allows_full(one):  # pages are enumerated only where full training is allowed
            techniques = techniques.model_copy(update={"method": ("full",)})
        confidence = one.confidence_given.model_copy(update={"deadline": 0.5})
        return one.model_copy(update={**IGNORED_FIELDS, "confidence_given": confidence, "techniques": techniques})

    return essence(before.job) == essence(job)


def _has_same_hours(before: Job, job: Job) -> bool:
    """Return whether hours of the configurations are those of `before`."""
    return all(getattr(before, field) == getattr(job, field) for field in TIMING_FIELDS)
