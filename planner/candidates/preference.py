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

from planner.arrays import Integers
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence


class Evidence(IntEnum):
    """What a speed rests on, the best first."""

    OWN_RUN = 0
    PUBLISHED_RUNS = 1
    PRIOR = 2


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
