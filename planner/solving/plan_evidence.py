"""What the figures of a plan rest on, and the best plan that rests on no guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Flags, Integers
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.preference import Evidence
from planner.candidates.screening import screen
from planner.candidates.spot_search import BEST
from planner.configurations.memory_peaks import find_observed_run, memory_setting
from planner.configurations.recipe import framework_of
from planner.library.engines import read_engines
from planner.library.schema import Library
from planner.results.plan_parts import Option, PlanEvidence
from planner.solving.alternatives import option_at
from planner.solving.prepare import CandidateObjective, PreparedScenario

if TYPE_CHECKING:
    from planner.results.plan import Assignment
    from planner.results.plan_parts import EvidenceWord


SPEED_WORDS: dict[int, EvidenceWord] = {
    Evidence.OWN_RUN: "measured",
    Evidence.PUBLISHED_RUNS: "fitted",
    Evidence.PRIOR: "prior",
}


def find_evidence(
    prepared: PreparedScenario, index: int, made: Assignment, row: int, compares: bool = True
) -> PlanEvidence:
    """Return what speed, memory, price and spot market of a job rest on; `row` is that of its screened table.

    `compares`: whether a plan whose speed is a prior also names the best one whose speed is none.
    """
    candidates, library = prepared.candidates[index], prepared.library
    uncut = int(prepared.screened[index].rows[row])
    offer = prepared.market.offers[int(candidates.table.offer[uncut])]
    rests = candidates.run_hours.evidence
    managed = bool(candidates.is_managed_service[uncut])
    speed = Evidence.PRIOR if managed else Evidence(rests[candidates.configuration[uncut]])
    on_spot = made.spot is not None or made.spot_share > 0
    return PlanEvidence(
        speed=SPEED_WORDS[speed],
        memory="prior" if managed else _memory(candidates, uncut, library),
        price="measured" if made.price_date else "prior",
        spot=("measured" if offer.spot is not None else "prior") if on_spot else None,
        known=best_known(prepared, index, rests) if compares and speed == Evidence.PRIOR else None,
    )


def best_known(prepared: PreparedScenario, index: int, rests: Integers) -> Option | None:
    """Return the best candidate within the limits of the job whose speed is no prior; None where there is none."""
    candidates, market = prepared.candidates[index], prepared.market
    known: Flags = ~candidates.is_managed_service
    known[known] = rests[candidates.configuration[known]] != Evidence.PRIOR
    if not known.any():
        return None
    objective = CandidateObjective.of(prepared.scenario)
    limits, waiting_usd = prepared.scenario.limits, objective.waiting_usd
    screened = screen(candidates.rows(known), market, limits, prepared.library, True, waiting_usd, BEST)
    value, share = objective.best(screened.table)
    if not np.isfinite(value).any():
        return None
    best = int(np.argmin(value))
    return option_at("", candidates, market, (screened.table, best, float(share[best])))


def _memory(candidates: JobCandidates, row: int, library: Library) -> EvidenceWord:
    """Return what the memory of a row of the uncut table rests on.

    Measured is a peak of this very setting, on this GPU, of a run as large. Peaks of other batches and lengths of the
    setting correct its estimate, which is fitted then.
    """
    job, physics, learned = candidates.job, candidates.physics, candidates.physics.learned
    recipe = candidates.recipes[int(candidates.table.recipe[row])]
    if not job.trains:
        return "fitted" if read_engines().engines[recipe.framework].releases else "prior"
    machine = physics.ways.machines[int(physics.ways.machine[candidates.configuration[row]])]
    whole = find_observed_run(job, machine)
    peaks = whole is not None and whole.peak_vram_gib is not None
    if peaks or learned.has_run(recipe, machine, *candidates.batch(row), physics.shape.sequence):
        return "measured"
    is_corrected = memory_setting(recipe, machine.gpus) in learned.probed
    return "fitted" if is_corrected or framework_of(library, recipe.framework).profiled else "prior"
