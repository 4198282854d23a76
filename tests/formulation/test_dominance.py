"""Which candidates may leave the program, and which may not although they look worse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import CandidateTable
from planner.formulation.constraints import find_undominated
from planner.formulation.program import SharedLimits
from tests.helpers.candidate_tables import NAN, make_table, random_table, small_cases


def row(usd: float, hours: float, **more: object) -> dict[str, object]:
    """An on-demand candidate."""
    return {"run_usd": (usd, NAN), "run_h": (hours, NAN), **more}


def kept(rows: list[dict[str, object]], **question: object) -> list[bool]:
    """The mask of a table of those rows."""
    return find_undominated(make_table(rows), SharedLimits(**question)).tolist()


def test_dearer_and_slower_is_dropped_and_a_trade_off_stays() -> None:
    """The third costs more than the first and takes longer; the second buys hours with dollars."""
    assert kept([row(4.0, 8.0), row(6.0, 5.0), row(5.0, 9.0)]) == [True, True, False]


@pytest.mark.parametrize(
    "better",
    [
        {"gpus": 2},  # more GPUs
        {"penalty_usd": 2.0},  # a dearer technique
        {"late_usd": (9.0, NAN)},  # heavier on the budget
        {"late_h": (19.0, NAN)},  # later at the confidence asked for
        {"start_h": 3.0},  # more hours in all
    ],
)
def test_being_cheaper_is_not_enough(better: dict[str, object]) -> None:
    """The first is a dollar cheaper but worse in one thing, so the second stays."""
    assert kept([row(4.0, 8.0, **better), row(5.0, 8.0)]) == [True, True]


def test_a_stocked_offer_replaces_only_its_own_candidates() -> None:
    """A stocked candidate may be sold out when b's is needed; without a stock it may replace it."""
    rows = [row(4.0, 8.0, offer="a"), row(5.0, 9.0, offer="b"), row(5.0, 9.0, offer="a")]
    assert kept(rows) == [True, False, False]
    assert kept(rows, stock={"a": 1}) == [True, True, False]
    assert kept(rows, stock={"b": 1}) == [True, False, False]


def test_machine_hours_paid_for_keep_what_takes_fewer_of_them() -> None:
    """The first is a dollar cheaper and takes 16 of the machine hours that are left, the second 8."""
    rows = [row(4.0, 8.0, rented_h=16.0), row(5.0, 8.0, rented_h=8.0)]
    assert kept(rows) == [True, False]
    assert kept(rows, committed={"a": 10.0}) == [True, True]
    assert kept(rows, committed={"b": 10.0}) == [True, False]


def test_a_quota_binds_the_provider_that_has_it() -> None:
    """The cheaper candidate stands in a row that the dearer does not, and the other way round."""
    rows = [row(4.0, 8.0, provider="p"), row(5.0, 9.0, provider="q")]
    assert kept(rows, quota={"p": 4}) == [True, True]
    assert kept(rows, quota={"q": 4}) == [True, False]


def test_a_candidate_needs_every_share_that_it_replaces() -> None:
    """A floor of 0.5 cannot stand for a share of 0; a wider interval can stand for a narrower one."""
    spot = {"run_usd": (4.0, 3.0), "run_h": (8.0, 8.0)}
    dearer = {"run_usd": (5.0, 4.0), "run_h": (9.0, 9.0)}
    assert kept([{**spot, "share_low": 0.5, "share_high": 0.8}, {**dearer, "share_high": 0.8}]) == [True, True]
    assert kept([{**spot, "share_high": 0.8}, {**dearer, "share_low": 0.2, "share_high": 0.5}]) == [True, False]
    assert kept([row(4.0, 8.0), dearer]) == [True, True]
    assert kept([{**spot, "share_high": 0.8}, row(5.0, 8.5)]) == [True, False]


def test_of_equals_the_one_with_more_free_memory_then_the_first_name_stays() -> None:
    """Whatever the order of the rows."""
    rows = [row(4.0, 8.0, offer="a"), row(4.0, 8.0, offer="c", fit_gib=5.0), row(4.0, 8.0, offer="b", fit_gib=5.0)]
    assert kept(rows) == [False, False, True]
    assert kept(rows[::-1]) == [True, False, False]


def test_jobs_do_not_dominate_each_other() -> None:
    """Each job needs a candidate of its own."""
    table = make_table([row(4.0, 8.0, job="x"), row(5.0, 9.0, job="y")], jobs=("x", "y"))
    assert find_undominated(table, SharedLimits()).all()


def pairwise(table: CandidateTable, question: SharedLimits) -> list[bool]:
    """The definition, pair by pair and in words as plain as possible."""
    worst = np.zeros(len(table), dtype=bool)
    for other in range(len(table)):
        for c in range(len(table)):
            if c != other and replaces(table, question, c, other):
                mutual = replaces(table, question, other, c)
                worst[other] |= not mutual or preference(table, c) < preference(table, other)
    return (~worst).tolist()


def preference(table: CandidateTable, c: int) -> tuple[float, str, int]:
    """What the last tie-break sorts by."""
    return (table.fit_gib[c] - table.usable_gib[c], table.offers[table.offer[c]], c)


def replaces(table: CandidateTable, question: SharedLimits, c: int, other: int) -> bool:
    """Whether c can stand in for `other` at every share that it may have, in every row."""
    offer, provider = table.offers[table.offer[c]], table.providers[table.provider[c]]
    limited = offer in question.stock or offer in question.committed
    if limited and table.offer[c] != table.offer[other]:
        return False
    if offer in question.committed and table.rented_h[c] > table.rented_h[other]:
        return False
    if provider in question.quota and table.provider[c] != table.provider[other]:
        return False
    if table.job[c] != table.job[other] or table.gpus[c] > table.gpus[other]:
        return False
    if table.share_low[c] > table.share_low[other] or table.share_high[c] < table.share_high[other]:
        return False
    markets = [m for m, used in ((0, table.share_low[other] < 1), (1, table.share_high[other] > 0)) if used]
    sums = (
        (table.fixed_usd + table.penalty_usd, table.run_usd),
        (table.start_h, table.run_h),
        (table.fixed_usd, table.late_usd),
        (table.late_start_h, table.late_h),
    )
    return all(
        fixed[c] + per_market[c, m] <= fixed[other] + per_market[other, m]
        for fixed, per_market in sums
        for m in markets
    )


@pytest.mark.slow
@settings(derandomize=True, max_examples=40, deadline=None)
@given(small_cases(objective=None, step=2.0))
def test_the_fast_answer_is_the_definition(case: tuple[CandidateTable, SharedLimits]) -> None:
    """Coarse tables, full of equals and of domination in both directions."""
    table, question = case
    assert find_undominated(table, question).tolist() == pairwise(table, question)


@settings(derandomize=True, max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_every_dropped_candidate_has_a_kept_one_that_replaces_it(seed: int, stocked: bool) -> None:
    """On tables that are large enough for the peeling and the blocks."""
    table = random_table(seed, 3000, jobs=2, offers=6, step=0.5)
    question = SharedLimits(stock={"offer1": 2, "offer2": 3} if stocked else {}, quota={"q": 9} if stocked else {})
    keep = find_undominated(table, question)
    kept_rows = np.flatnonzero(keep)
    for other in np.flatnonzero(~keep)[::50]:
        assert any(replaces(table, question, int(c), int(other)) for c in kept_rows)
