"""Candidates of every job on the market, screened by the job's own limits: all that is known before a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.enumeration import Margins, enumerate_candidates
from planner.candidates.market import Market, build_market, has_comparable_prices, needs_separate_machines
from planner.candidates.screening import ENDS_AFTER_DEADLINE, OUTLASTS_COMMITMENT, ScreenedCandidates, screen
from planner.candidates.stage_placement import no_machine_fault
from planner.configurations.observed.comparison import impossibility_reason
from planner.errors import Fault, ScenarioError, raise_faults
from planner.formulation.shared_limits import SharedLimits
from planner.library.reading import read_library
from planner.scenario.scenario import MAX_OFFERS
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidates.job_candidates import JobCandidates
    from planner.library.schema import Library
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
    scenario: Scenario,
    library: Library | None = None,
    before: PreparedScenario | None = None,
    with_policies: bool = True,
) -> PreparedScenario:
    """Return the candidates of every job on the scenario's market, screened by the job's own limits.

    What an earlier scenario (`before`) has in common with this one is reused instead of computed again: the market
    if offers and prices are the same, a job's candidates if only its deadline changed, screened candidates if no
    limit that filters them changed. `with_policies` False leaves spot to mixes of two markets, where the policies of
    one deadline are not needed.

    Raises
    ------
    ScenarioError
        For more than `MAX_OFFERS`, observed runs that are impossible on their GPU, data that no machine has the memory
        to prepare, and commitments that end before the job does and leave no other candidate.
    """
    if (count := len(scenario.offers)) > MAX_OFFERS:
        fix = f"keep at most {MAX_OFFERS:,}, such as those of the GPUs and regions in question"
        raise ScenarioError([Fault(scenario.name, 0, "offers", f"{count:,} offers are too many", fix)])
    architectures = [job.architecture for job in scenario.jobs]
    if library is None and before and {job.architecture for job in before.scenario.jobs}.issuperset(architectures):
        library = before.library
    library = library or read_library(architectures)
    _check_observations(scenario, library)
    if before is not None and before.library is not library:
        before = None
    same_market = before is not None and _market_inputs(before.scenario) == _market_inputs(scenario)
    market = before.market if before and same_market else build_market(scenario, library)
    same_jobs = before is not None and len(before.candidates) == len(scenario.jobs)
    candidates = tuple(
        _candidates(scenario, index, market, library, before if same_jobs else None)
        for index in range(len(scenario.jobs))
    )
    waiting_usd = CandidateObjective.of(scenario).waiting_usd if with_policies else None
    screened = tuple(
        before.screened[index]
        if before and same_jobs and one is before.candidates[index] and _filters(before.scenario) == _filters(scenario)
        else screen(one, market, scenario.limits, library, waiting_usd=waiting_usd)
        for index, one in enumerate(candidates)
    )
    faults = [no_machine_fault(one.job, "ingest") for one in candidates if len(one.table) and one.lacks_ram().all()]
    raise_faults(faults, ScenarioError)
    _check_terms(scenario.name, candidates, screened, market)
    return PreparedScenario(scenario, library, market, candidates, screened)


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
    raise_faults(faults, ScenarioError)


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
    raise_faults(faults, ScenarioError)


def _market_inputs(scenario: Scenario) -> tuple[object, ...]:
    """Return what the market reads of a scenario: offers, prices, regions, and what stages need."""
    limits = scenario.limits
    are_separate = [needs_separate_machines(job) for job in scenario.jobs]
    data_regions = [job.stages.transfer.region if job.stages.transfer else None for job in scenario.jobs]
    comparable = has_comparable_prices(scenario)
    # Stages on separate machines may rent what the lists allow.
    lists = (limits.providers, limits.gpus, limits.tiers) if any(are_separate) else ()
    age = limits.max_price_age_hours
    return scenario.offers, age, scenario.adjust, limits.regions, are_separate, data_regions, lists, comparable


NON_FILTER_LIMITS = {"budget_usd": None, "vram_headroom": None}
"""Limits that no filter on single rows reads: a row of the program, and the margin of the fit rule."""


def _filters(scenario: Scenario) -> tuple[object, ...]:
    """Return all that screening reads of a scenario apart from the jobs; of the budget only that there is one."""
    limits = scenario.limits
    waiting_usd = CandidateObjective.of(scenario).waiting_usd
    return limits.model_copy(update=NON_FILTER_LIMITS), limits.budget_usd is None, waiting_usd


def _candidates(
    scenario: Scenario, index: int, market: Market, library: Library, before: PreparedScenario | None
) -> JobCandidates:
    """Return the candidates of one job, those of `before` if nothing that they depend on has changed."""
    job, names, headroom = scenario.jobs[index], [one.name for one in scenario.jobs], scenario.limits.vram_headroom
    sure = scenario.limits.budget_confidence
    earlier = before.candidates[index] if before else None
    same_limits = earlier and earlier.headroom == headroom and earlier.run_hours.budget_confidence == sure
    if before and earlier and same_limits and before.market is market:
        late = {"deadline_hours": None}
        if earlier.table.jobs == tuple(names) and earlier.job.model_copy(update=late) == job.model_copy(update=late):
            return replace(earlier, job=job) if earlier.job != job else earlier  # only the screening reads a deadline
    architecture = library.architecture(job.architecture)
    return enumerate_candidates(job, architecture, market, names, library, Margins(headroom, sure), earlier)


def limits_of_offers(market: Market) -> SharedLimits:
    """Return what offers have left, of machines and of hours paid for, which all jobs share."""
    offers = list(zip(market.labels, market.offers, strict=True))
    return SharedLimits(
        stock={label: offer.stock for label, offer in offers if offer.stock is not None},
        committed={label: offer.committed_hours for label, offer in offers if offer.committed_hours is not None},
    )


def build_shared_limits(scenario: Scenario, market: Market) -> SharedLimits:
    """Return the limits that become rows: those that jobs share, and the budget, which is a row for one job too."""
    limits = scenario.limits
    shared = SharedLimits()
    if len(scenario.jobs) > 1:
        shared = replace(limits_of_offers(market), max_gpus=limits.max_gpus, quota=limits.quota)
    return replace(
        shared,
        budget_usd=limits.budget_usd,
        objective=scenario.objective_kind,
        value_of_time_usd_per_hour=scenario.value_of_time_usd_per_hour,
    )
