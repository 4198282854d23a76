"""Candidates that no optimal plan needs, found before the program is built."""

from __future__ import annotations

import numpy as np

from planner.formulation.program import Flags, Floats, Integers
from planner.formulation.question import Question
from planner.table import ON_DEMAND, SPOT, CandidateTable

PEELS = 48
"""Strong candidates that are compared with everything first; they drop most of a market table."""

BLOCK = 512
"""Candidates compared with the front at a time: keeps the comparison inside the processor's cache."""

FRONT = 3000
"""Most members of the front that later candidates are compared with; a pair not compared only keeps more."""


def undominated(table: CandidateTable, question: Question) -> Flags:
    """Mask (n,) of the candidates that the program needs; dropping the others never changes its optimum.

    c dominates c' of the same job if, at every spot share that c' may have, c may have it too and takes no
    more expected hours, late hours, expected dollars with penalty and late dollars; if it takes no more
    GPUs; and if every stock or quota row that holds c holds c' with at least the same coefficient.
    Replacing c' by c at the same share then keeps every row and raises neither objective. Each quantity is
    linear in the share, so it is compared at share 0 and at share 1 (a market that c' does not use counts
    as infinite): implied by, and so wider than, comparing start and markets one by one. Penalties are
    compared as dollars in the objective, which is where alone techniques meet the program once filters
    have run. Of two that dominate each other, the one with more free VRAM, then the first name, stays.
    """
    keep = np.zeros(len(table), dtype=bool)
    values = _values(table)
    bound = _Bound(table, question)
    for job in range(len(table.jobs)):
        members = np.flatnonzero(table.job == job)
        if len(members):
            keep[_front_of(values, bound, _ordered(table, values, members))] = True
    return keep


class _Bound:
    """Which candidates stand in stock or quota rows, and whom they may therefore replace."""

    def __init__(self, table: CandidateTable, question: Question):
        stocked = np.array([offer in question.stock for offer in table.offers], dtype=bool)
        limited = np.array([provider in question.quota for provider in table.providers], dtype=bool)
        self.offer = np.where(stocked[table.offer], table.offer, -1)
        self.provider = np.where(limited[table.provider], table.provider, -1)
        self.instances = table.instances

    def may_replace(self, c: Integers, other: Integers) -> Flags:
        """Whether each c stands only in rows that hold `other` too (broadcasts)."""
        same_offer = (self.offer[c] == self.offer[other]) & (self.instances[c] <= self.instances[other])
        same_provider = self.provider[c] == self.provider[other]
        allowed = ((self.offer[c] < 0) | same_offer) & ((self.provider[c] < 0) | same_provider)
        return np.asarray(allowed)


def _values(table: CandidateTable) -> list[Floats]:
    """Columns (n,) that a dominating candidate must not exceed."""
    unused = {ON_DEMAND: table.share_low >= 1.0, SPOT: table.share_high <= 0.0}
    columns = [table.gpus.astype(float), table.share_low, -table.share_high]
    for fixed, per_market in (
        (table.fixed_usd + table.penalty_usd, table.run_usd),
        (table.start_h, table.run_h),
        (table.fixed_usd, table.late_usd),
        (table.late_start_h, table.late_h),
    ):
        for market in (ON_DEMAND, SPOT):
            total = fixed + per_market[:, market]
            columns.append(np.where(unused[market] | np.isnan(total), np.inf, total))
    return columns[3:] + columns[:3]


def _ordered(table: CandidateTable, values: list[Floats], members: Integers) -> Integers:
    """The members such that nobody is dominated by a later one, save its equals, which come by preference.

    The score is a sum of the columns, each increasing, so a dominating candidate never scores higher.
    """
    score = np.zeros(len(members))
    for column in values:
        chosen = column[members]
        finite = chosen[np.isfinite(chosen)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        score += np.where(np.isfinite(chosen), (chosen - low) / ((high - low) or 1.0), 2.0)
    names = np.empty(len(table.offers), dtype=np.int64)
    names[np.argsort(np.array(table.offers))] = np.arange(len(table.offers))
    order = np.argsort(score, kind="stable")
    # Preference only matters among equal scores; sorting all keys of all rows would cost more than the rest.
    ranked = score[order]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] = ranked[1:] == ranked[:-1]
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    rows = members[order[places]]
    free = table.usable_gib[rows] - table.fit_gib[rows]
    order[places] = order[places][np.lexsort((rows, names[table.offer[rows]], -free, ranked[places]))]
    return np.asarray(members[order])


def _front_of(values: list[Floats], bound: _Bound, rows: Integers) -> Integers:
    """The rows (best score first) that no earlier row dominates."""
    kept: list[Integers] = []
    for _ in range(PEELS):
        if len(rows) == 0:
            break
        kept.append(rows[:1])
        rows = rows[1:][~_dominated(values, bound, rows[:1], rows[1:])]
    front: Integers = np.empty(0, dtype=np.int64)
    while len(rows):
        block, rows = rows[:BLOCK], rows[BLOCK:]
        block = block[~_dominated(values, bound, front, block)]
        block = block[~_dominated_inside(values, bound, block)]
        kept.append(block)
        if len(front) < FRONT:
            front = np.concatenate([front, block])
    return np.concatenate(kept) if kept else rows


def _dominated(values: list[Floats], bound: _Bound, front: Integers, rows: Integers) -> Flags:
    """Mask (rows,) of those that some member of the front dominates."""
    worse = np.zeros(len(rows), dtype=bool)
    if len(front) == 0 or len(rows) == 0:
        return worse
    if len(front) == 1:  # column by column on what is left: most rows are out after two comparisons
        left = np.arange(len(rows))
        for column in values:
            left = left[column[front[0]] <= column[rows[left]]]
        worse[left[bound.may_replace(front, rows[left])]] = True
        return worse
    first, second = _pairs(values, front, rows)
    worse[second[bound.may_replace(front[first], rows[second])]] = True
    return worse


def _dominated_inside(values: list[Floats], bound: _Bound, block: Integers) -> Flags:
    """Mask of those that an earlier row of the same block dominates."""
    worse = np.zeros(len(block), dtype=bool)
    first, second = _pairs(values, block, block)
    earlier = first < second
    first, second = first[earlier], second[earlier]
    worse[second[bound.may_replace(block[first], block[second])]] = True
    return worse


def _pairs(values: list[Floats], front: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Positions (front, rows) of the pairs in which the first is nowhere above the second."""
    below = np.ones((len(front), len(rows)), dtype=bool)
    for column in values:
        below &= column[front][:, None] <= column[rows][None, :]
    first, second = np.nonzero(below)
    return first, second
