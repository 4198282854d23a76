"""Portfolios of very many jobs: of each job only what the program needs is kept, so that memory holds them all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.dominance import find_undominated

if TYPE_CHECKING:
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.candidates.screening import ScreenedCandidates
    from planner.formulation.shared_limits import SharedLimits
    from planner.scenario.scenario import Scenario

MANY_JOBS = 100
"""More jobs than these are kept slim: each takes about 9 MB otherwise, on the shipped market."""


def is_large(scenario: Scenario) -> bool:
    """Return whether a scenario has so many jobs that only what the program needs is kept.

    Jobs over time need other candidates too: dominance is another one there.
    """
    return len(scenario.jobs) > MANY_JOBS and not scenario.needs_timetable


def starts_at_once(scenario: Scenario, market: Market, limits: SharedLimits) -> bool:
    """Return whether nothing that jobs share makes one wait for another."""
    if scenario.schedule == "side_by_side":
        return True
    reserved = any(one.is_reservation for one in market.offers)
    return not (limits.stock or limits.quota or reserved or limits.max_gpus is not None)


def slim(
    candidates: JobCandidates, screened: ScreenedCandidates, shared: SharedLimits
) -> tuple[JobCandidates, ScreenedCandidates]:
    """Return both with the rows that the program of all jobs needs; unchanged where no row is within the limits."""
    if not len(screened.table):
        return candidates, screened
    found = screened.select(find_undominated(screened.table, shared))
    rows, places = np.unique(found.rows, return_inverse=True)
    return candidates.rows(rows), replace(
        found,
        rows=places.astype(np.int64),
        lateness=found.lateness[rows],
        dropped=len(candidates.table) - len(rows),
        dominated=len(screened.table) - len(found.table),
    )
