"""How the least dollars of a model rise with its tokens: a bound from one number of tokens on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np

from planner.candidates.spot_candidates import policy_rows
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.candidate_table import CandidateTable
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.screening import ScreenedCandidates


SLOPE_MARGIN = 0.97
"""What the slopes of lines are multiplied by: no policy takes more than about nine times its work, so a longer run has
more time to wait for spot. On the shipped markets dollars rise at most 2.4 % slower for it."""
LINE_MARGIN = 0.999
"""What lines and known dollars are multiplied by: grids of policies, and quantiles of drawn markets, move dollars by
less from one number of tokens to the next."""


def least_late_usd(table: CandidateTable) -> float:
    """Return the least dollars, at the confidence of the budget, of the rows of a table; infinite without any."""
    ends = [table.late_cost_usd(share) for share in (table.share_low, table.share_high)]
    return min((float(one.min()) for one in ends if len(one)), default=math.inf)


@record(frozen=True)
class Rise:
    """The least dollars at a number of tokens, and lines of which the lowest bounds those at more tokens.

    A candidate that is feasible with more tokens is so with fewer. More tokens are more hours of training, each paid
    at the spot price at least; a policy that stops after the first tokens is one for these. So a candidate costs no
    less than its dollars here plus the least price of the hours between. Billing in whole steps may hide up to one
    step of that: such a candidate starts from its dollars before rounding.
    """

    usd: float
    start_usd: Floats  # (lines,), rising
    usd_per_token: Floats  # (lines,), falling

    @classmethod
    def of(cls, candidates: JobCandidates, screened: ScreenedCandidates, tokens: int) -> Self:
        """Return the rise from the screened candidates at a number of tokens."""
        least = least_late_usd(screened.table)
        fixed = np.ones(len(screened.rows), dtype=bool)
        fixed[list(screened.pieces)] = False
        rows, table = screened.rows[fixed], screened.table.rows(fixed)
        slope = _usd_per_token(candidates, rows, tokens)
        uncut = candidates.table.rows(rows)
        ends = [uncut.late_cost_usd(share) for share in (table.share_low, table.share_high)]
        start = np.minimum(*ends)
        # A policy costs no less than what was found; with whole billing steps here, it may be one only further on.
        follows = policy_rows(candidates, rows)
        start = np.where(follows, np.minimum(start, slope * tokens), start)
        start = np.where(screened.rounded[fixed], start, np.maximum(start, least))
        order = np.lexsort((slope, start))
        start, slope = start[order], slope[order]
        lowest = slope < np.concatenate([[np.inf], np.minimum.accumulate(slope)[:-1]])
        return cls(least, start[lowest], slope[lowest])

    def along(self, more_tokens: Floats) -> Floats:
        """Return dollars (n,) below which no run of that many more tokens stays."""
        lines = self.start_usd[:, None] + self.usd_per_token[:, None] * more_tokens
        return np.asarray(LINE_MARGIN * np.maximum(self.usd, lines.min(axis=0, initial=np.inf)), dtype=float)


def _usd_per_token(candidates: JobCandidates, rows: Integers, tokens: int) -> Floats:
    """Return the least dollars (n,) of a further token, of some rows at the confidence of the budget."""
    machines = ~candidates.is_managed_service[rows]
    configuration, offer = np.where(machines, candidates.configuration[rows], 0), candidates.table.offer[rows]
    hours, columns = candidates.hours.rows(rows), candidates.columns
    rent = np.fmin(columns.on_demand_usd[offer], columns.spot_usd[offer]) * candidates.table.instances[rows]
    price = rent + columns.storage_usd_per_hour(offer, hours.stored_gb)
    each = candidates.run_hours.training_hours[configuration] / tokens
    return np.asarray(np.where(machines, SLOPE_MARGIN * price * each * hours.budget_factor, 0.0), dtype=float)
