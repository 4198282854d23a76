"""What a tie between plans is decided by, before machines and hours: the one definition of the order.

Candidates whose dollars are a tie (`solve.ties`) are compared by these steps in turn, and less is better in each:

    own        0 on an own machine, 1 on any other, 2 where a machine or a term is paid at once
    host       0 on the provider's machine, 1 on that of a private host
    evidence   0 where the job has a run of its own on that GPU, 1 where published runs or products were measured, 2
               for a prior
    stock      0 where the offer says how much there is, 1 where that is unknown

Then fewer machines win, then fewer hours: both are columns of every table already. A timetable counts its pauses
between these two, and its hours are the ends of its runs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Integers, distinct_names
from planner.configurations.coefficients import efficiency_of
from planner.configurations.fitting_cells import JobConfigurations
from planner.configurations.uncertainty_columns import technique_sigma
from planner.library.schema import Library
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.job import Job


class Evidence(IntEnum):
    """What a speed rests on, the best first."""

    OWN_RUN = 0
    PUBLISHED_RUNS = 1
    PRIOR = 2


MEASURED = ("measured", "kernels")
"""What of a GPU's efficiency is no prior: published training runs, and matrix products that were timed on it."""


def offer_steps(offers: Sequence[Offer]) -> Integers:
    """Return the steps (offers, 3) that an offer decides: own, host, stock."""
    steps = [
        (
            2 if offer.outlay_usd else offer.tier != "own",
            offer.tier == "community",
            offer.stock is None and offer.stock_status is None,
        )
        for offer in offers
    ]
    return np.asarray(steps, dtype=np.int64).reshape(len(offers), 3)


def tie_steps(offers: Integers, evidence: Integers) -> Integers:
    """Return the steps (n, 4) of candidates in their order, of those of their offers (n, 3) and their evidence (n,)."""
    return np.column_stack([offers[:, 0], offers[:, 1], evidence, offers[:, 2]])


def training_evidence(job: Job, physics: JobConfigurations, library: Library) -> Integers:
    """Return what the speed of every configuration (n,) of training rests on, as numbers of `Evidence`.

    A run of the job on that GPU counts for all of its techniques; without one a technique that is a prior makes it one,
    and so does preference tuning: no published run stands behind the speed of pairs and their reference.
    """
    ways, speeds = physics.ways, library.calibrations["gpu_efficiency"]
    timed = {seen.run.gpu for seen in physics.learned.timed}
    methods, method = distinct_names([recipe.method for recipe in ways.recipes])
    found = np.full((len(ways.machines), len(methods)), int(Evidence.PUBLISHED_RUNS))
    for place, machine in enumerate(ways.machines):
        card = library.gpu(machine.gpu)
        if machine.gpu in timed:
            found[place] = Evidence.OWN_RUN
        elif efficiency_of(card, speeds)[1] not in MEASURED:
            found[place] = Evidence.PRIOR
        elif card.chip is not None:
            unknown = [card.chip.unmeasured(method, machine.gpus) is not None for method in methods]
            found[place, unknown] = Evidence.PRIOR
    guessed = [technique_sigma(recipe, physics.shape.network.experts, library) > 0.0 for recipe in ways.recipes]
    estimated = found[ways.machine, method[ways.recipe]]
    guess = np.asarray(guessed, dtype=bool)[ways.recipe] | (job.tuning != "sft")
    is_guess = guess & (estimated != Evidence.OWN_RUN)
    estimated = np.where(is_guess, int(Evidence.PRIOR), estimated)
    return np.where(np.isnan(ways.observed_hours), estimated, int(Evidence.OWN_RUN))
