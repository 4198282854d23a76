"""What is known before a program is made: candidates of every job on the market, screened by the job's own limits."""

from __future__ import annotations

from dataclasses import dataclass

from planner.candidates import JobCandidates, Market, enumerate_candidates, market_of
from planner.formulation.question import Question
from planner.library import Library
from planner.loading import read_library
from planner.scenario import Scenario
from planner.screening import Screened, screen


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before a program is made; a changed limit needs `screen` again and no more."""

    scenario: Scenario
    library: Library
    market: Market
    candidates: tuple[JobCandidates, ...]
    screened: tuple[Screened, ...]


def prepare(scenario: Scenario, library: Library | None = None, before: Prepared | None = None) -> Prepared:
    """Candidates of every job on the scenario's market, screened by the job's own limits.

    What `before` (an earlier question) has in common with this one is taken from it instead of computed again.
    """
    library = library or read_library([job.architecture for job in scenario.jobs])
    market = market_of(scenario, library)
    names = [job.name for job in scenario.jobs]
    candidates = tuple(
        enumerate_candidates(
            job, library.architecture(job.architecture), market, names, library, scenario.limits.vram_headroom
        )
        for job in scenario.jobs
    )
    screened = tuple(screen(one, market, scenario.limits, library) for one in candidates)
    return Prepared(scenario, library, market, candidates, screened)


def question_of(scenario: Scenario, market: Market) -> Question:
    """What the jobs share: a limit that concerns one job alone was a filter already."""
    several = len(scenario.jobs) > 1
    limits = scenario.limits
    return Question(
        budget_usd=limits.budget_usd,
        max_gpus=limits.max_gpus if several else None,
        quota=limits.quota if several else {},
        stock={
            label: offer.stock
            for label, offer in zip(market.labels, market.offers, strict=True)
            if offer.stock is not None
        }
        if several
        else {},
        objective=scenario.objective_kind,
        value_of_time_usd_per_hour=scenario.value_of_time_usd_per_hour,
    )
