"""Candidates of every job on the market, screened by the job's own limits: all that is known before a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.enumeration import enumerate_candidates
from planner.candidates.market import Market, build_market, needs_separate_machines
from planner.candidates.screening import ENDS_AFTER_DEADLINE, OUTLASTS_COMMITMENT, ScreenedCandidates, screen
from planner.candidates.stage_placement import no_machine_fault
from planner.configurations.observed.comparison import impossibility_reason
from planner.errors import Fault, ScenarioError
from planner.formulation.shared_limits import SharedLimits
from planner.loading.scenario_file import read_library
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidates.job_candidates import JobCandidates
    from planner.library.schema import Library
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits
    from planner.scenario.scenario import Scenario


@dataclass(frozen=True)
class PreparedScenario:
    """Everything that is known before a program is built; a changed limit needs `screen` again and no more."""

    scenario: Scenario
    library: Library
    market: Market
    candidates: tuple[JobCandidates, ...]
    screened: tuple[ScreenedCandidates, ...]


def prepare(
    scenario: Scenario, library: Library | None = None, before: PreparedScenario | None = None
) -> PreparedScenario:
    """Return the candidates of every job on the scenario's market, screened by the job's own limits.

    What an earlier scenario (`before`) has in common with this one is reused instead of computed again: the market
    if offers and prices are the same, a job's candidates if only its deadline changed, screened candidates if no
    limit that filters them changed.

    Raises
    ------
    ScenarioError
        For observed runs that are impossible on their GPU, data that no machine has the memory to prepare, and
        commitments that end before the job does and leave no other candidate.
    """
    library = library or (before.library if before and _can_reuse(before, scenario) else None)
    library = library or read_library([job.architecture for job in scenario.jobs])
    _check_observations(scenario, library)
    if before is not None and before.library is not library:
        before = None
    market = before.market if before and _same_market(before.scenario, scenario) else build_market(scenario, library)
    names = [job.name for job in scenario.jobs]
    earlier = before.candidates if before and len(before.candidates) == len(names) else (None,) * len(names)
    candidates = tuple(
        _candidates(job, market, names, library, scenario, one, before)
        for job, one in zip(scenario.jobs, earlier, strict=True)
    )
    screened = tuple(
        before.screened[index]
        if before
        and index < len(before.candidates)
        and one is before.candidates[index]
        and _same_filters(before.scenario.limits, scenario.limits)
        and CandidateObjective.of(before.scenario).waiting_usd == CandidateObjective.of(scenario).waiting_usd
        else screen(one, market, scenario.limits, library, waiting_usd=CandidateObjective.of(scenario).waiting_usd)
        for index, one in enumerate(candidates)
    )
    _check_memory(candidates)
    _check_terms(scenario.name, candidates, screened, market)
    return PreparedScenario(scenario, library, market, candidates, screened)


def _check_memory(candidates: Sequence[JobCandidates]) -> None:
    """Raise ScenarioError for data that no machine has the memory to prepare."""
    faults = [no_machine_fault(one.job, "ingest") for one in candidates if len(one.table) and one.lacks_ram().all()]
    if faults:
        raise ScenarioError(faults)


def _check_terms(
    scenario: str, candidates: Sequence[JobCandidates], screened: Sequence[ScreenedCandidates], market: Market
) -> None:
    """Raise ScenarioError for commitments that end before the job does and leave no other candidate."""
    faults = []
    for one, left in zip(candidates, screened, strict=True):
        if len(left.table) or not left.rejected[OUTLASTS_COMMITMENT] or left.rejected[ENDS_AFTER_DEADLINE]:
            continue
        short = one.hours_rented() > one.columns.term_hours[one.table.offer]
        for place in dict.fromkeys(one.table.offer[short].tolist()):
            offer = market.offers[place]
            least = float(np.min(one.hours_rented()[one.table.offer == place]))
            if offer.commitment is None or least <= offer.term_hours:
                continue
            months = offer.commitment.months
            term = f"{months} month{'s' if months > 1 else ''} ({offer.term_hours:,.0f} h)"
            what = f"a commitment of {term} ends before {one.job.name} does"
            fix = f"it takes at least {least:,.0f} h there: use a longer term, or machines by the hour"
            faults.append(Fault(scenario, 0, f"offers.{market.labels[place]}.commitment.months", what, fix))
    if faults:
        raise ScenarioError(faults)


def _can_reuse(before: PreparedScenario, scenario: Scenario) -> bool:
    return {job.architecture for job in scenario.jobs} <= {job.architecture for job in before.scenario.jobs}


def _check_observations(scenario: Scenario, library: Library) -> None:
    """Raise ScenarioError for impossible observations: they would make every figure of the plan wrong."""
    faults = []
    for job in scenario.jobs:
        for number, run in enumerate(job.measured):
            what = impossibility_reason(job, run, library.architecture(job.architecture), library)
            if what is not None:
                figure = "hours" if run.hours is not None else "tokens_per_second"
                units = "are they those of the whole job?" if run.hours is not None else "are unit and GPU count right?"
                where = f"jobs.{job.name}.measured.{number}.{figure}"
                faults.append(Fault(scenario.name, 0, where, what, units))
    if faults:
        raise ScenarioError(faults)


def _same_market(before: Scenario, scenario: Scenario) -> bool:
    """Return whether both scenarios have the same offers at the same prices, with regions distinguished alike."""
    same = (
        before.offers == scenario.offers
        and before.adjust == scenario.adjust
        and before.limits.regions == scenario.limits.regions
        and _places(before) == _places(scenario)
    )
    # Stages on separate machines may rent what the lists allow.
    lists = ("providers", "gpus", "tiers")
    has_separate_stages = any(needs_separate_machines(job) for job in scenario.jobs)
    return same and (
        not has_separate_stages or all(getattr(before.limits, n) == getattr(scenario.limits, n) for n in lists)
    )


def _places(scenario: Scenario) -> list[tuple[bool, str | None]]:
    """Return what the market reads of the jobs: whether stages have separate machines, and the region of the data."""
    return [
        (needs_separate_machines(job), job.stages.transfer.region if job.stages.transfer else None)
        for job in scenario.jobs
    ]


NON_FILTER_LIMITS = {"budget_usd": None, "vram_headroom": None}
"""Limits that no filter on single rows reads: a row of the program, and the margin of the fit rule."""


def _same_filters(before: Limits, limits: Limits) -> bool:
    return before.model_copy(update=NON_FILTER_LIMITS) == limits.model_copy(update=NON_FILTER_LIMITS)


def _candidates(
    job: Job,
    market: Market,
    names: Sequence[str],
    library: Library,
    scenario: Scenario,
    earlier: JobCandidates | None,
    before: PreparedScenario | None,
) -> JobCandidates:
    """Return the candidates of one job, those of `before` if nothing that they depend on has changed."""
    headroom = scenario.limits.vram_headroom
    if earlier is not None and before is not None:
        known = before.market is market and earlier.table.jobs == tuple(names) and earlier.headroom == headroom
        if known and earlier.job == job:
            return earlier
        late = {"deadline_hours": None}
        if known and earlier.job.model_copy(update=late) == job.model_copy(update=late):
            return replace(earlier, job=job)  # only the screening reads a deadline
    architecture = library.architecture(job.architecture)
    return enumerate_candidates(job, architecture, market, names, library, headroom, earlier)


def build_shared_limits(scenario: Scenario, market: Market) -> SharedLimits:
    """Return the limits that become rows: those that jobs share, and the budget, which is a row for one job too."""
    limits = scenario.limits
    shared = SharedLimits(
        budget_usd=limits.budget_usd,
        objective=scenario.objective_kind,
        value_of_time_usd_per_hour=scenario.value_of_time_usd_per_hour,
    )
    if len(scenario.jobs) == 1:
        return shared
    offers = list(zip(market.labels, market.offers, strict=True))
    return replace(
        shared,
        max_gpus=limits.max_gpus,
        quota=limits.quota,
        stock={label: offer.stock for label, offer in offers if offer.stock is not None},
        committed={label: offer.committed_hours for label, offer in offers if offer.committed_hours is not None},
    )
