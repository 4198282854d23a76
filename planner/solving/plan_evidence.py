"""What the figures of a plan rest on, and the best plan that rests on no guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner import generation
from planner.arrays import Flags, Integers
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.preference import Evidence
from planner.candidates.screening import screen
from planner.candidates.spot_search import BEST
from planner.configurations.recipe import framework_of
from planner.library.engines import read_engines
from planner.library.schema import Library
from planner.results.plan_parts import Option, PlanEvidence
from planner.scenario.inference_job import InferenceJob
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
    rests = evidence_of(candidates, library)
    managed = bool(candidates.is_managed_service[uncut])
    speed = Evidence.PRIOR if managed else Evidence(rests[candidates.configuration[uncut]])
    on_spot = made.spot is not None or made.spot_share > 0
    return PlanEvidence(
        speed=SPEED_WORDS[speed],
        memory=_memory(made, library),
        price="measured" if made.price_date else "prior",
        spot=("measured" if offer.spot is not None else "prior") if on_spot else None,
        known=best_known(prepared, index, rests) if compares and speed == Evidence.PRIOR else None,
    )


def evidence_of(candidates: JobCandidates, library: Library) -> Integers:
    """Return what the speed of every configuration (n,) rests on: of generation its engine, GPU and format."""
    job, ways = candidates.job, candidates.physics.ways
    if not isinstance(job, InferenceJob):
        return np.asarray(candidates.run_hours.evidence)
    known = library.calibrations["inference"].coefficients
    found = np.empty((len(ways.machines), len(ways.recipes)), dtype=np.int64)
    for place, machine in enumerate(ways.machines):
        for number, recipe in enumerate(ways.recipes):
            label = read_engines().engines[recipe.framework].label
            priors = generation.prior_parts(known, recipe.framework, label, machine.gpu, recipe.quant)
            found[place, number] = Evidence.PRIOR if priors else Evidence.PUBLISHED_RUNS
            if isinstance(recipe, generation.ServingRecipe) and generation.is_measured(job, recipe, machine.gpu):
                found[place, number] = Evidence.OWN_RUN
    return found[ways.machine, ways.recipe]


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


def _memory(made: Assignment, library: Library) -> EvidenceWord:
    """Return what the memory of a job rests on."""
    if made.inference is not None:
        return "fitted" if read_engines().engines[made.inference.engine].releases else "prior"
    if made.observed_hours is not None or any(run.peak_vram_gib is not None for run in made.observed_runs):
        return "measured"
    profiled = made.framework in library.techniques.frameworks and framework_of(library, made.framework).profiled
    return "fitted" if profiled else "prior"
