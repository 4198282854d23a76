"""The envelope of line segments: exact, sorted, none dominated, held to trying every row at many shares."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.lower_envelope import (
    EnvelopePiece,
    Knee,
    Segments,
    build_segments,
    clip_to_caps,
    convex_hull,
    evaluate_envelope,
    find_knee,
    lower_envelope,
    sum_envelopes,
)
from planner.arrays import CandidateTable
from tests.helpers.candidate_tables import make_table, random_table

LAW = settings(max_examples=40, deadline=None, derandomize=True)
GRID = np.linspace(0.0, 1.0, 41)

tables = st.builds(
    random_table, seed=st.integers(0, 10**6), rows=st.integers(1, 25), step=st.sampled_from([0.0, 0.0, 0.5])
)
budgets = st.none() | st.floats(1.0, 12.0)


def envelope_of(table: CandidateTable, budget: float | None = None) -> tuple[EnvelopePiece, ...]:
    return lower_envelope(build_segments(table, budget))


def sampled(table: CandidateTable, budget: float | None = None) -> np.ndarray:
    """Late hours and dollars (k, 2) of every row at many shares, those over the budget left out."""
    found = []
    for part in GRID:
        share = table.share_low + part * (table.share_high - table.share_low)
        ok = np.ones(len(table), dtype=bool) if budget is None else table.late_cost_usd(share) <= budget
        found.append(np.column_stack([table.late_hours(share), table.cost_usd(share)])[ok])
    return np.concatenate(found)


@pytest.mark.slow
@LAW
@given(tables, budgets)
def test_no_row_at_any_share_lies_below_the_envelope(table: CandidateTable, budget: float | None) -> None:
    """Every sampled point within the budget costs at least what the envelope says for its hours."""
    pieces = envelope_of(table, budget)
    for hours, usd in sampled(table, budget):
        assert evaluate_envelope(pieces, hours + 1e-9) <= usd + 1e-6


@LAW
@given(tables, budgets)
def test_every_point_of_the_envelope_is_a_row_at_its_share(table: CandidateTable, budget: float | None) -> None:
    """Both ends of a piece have the hours and dollars of its row there, within floor, cap and budget."""
    for piece in envelope_of(table, budget):
        one = table.rows(np.asarray([piece.row]))
        for share, hours, usd in (
            (piece.share_from, piece.hours_from, piece.usd_from),
            (piece.share_to, piece.hours_to, piece.usd_to),
        ):
            assert one.share_low[0] - 1e-9 <= share <= one.share_high[0] + 1e-9
            assert float(one.late_hours(share)[0]) == pytest.approx(hours, abs=1e-6)
            assert float(one.cost_usd(share)[0]) == pytest.approx(usd, abs=1e-6)
            assert budget is None or float(one.late_cost_usd(share)[0]) <= budget + 1e-6


@LAW
@given(tables)
def test_pieces_are_sorted_fall_and_meet_as_they_say(table: CandidateTable) -> None:
    """Hours never go back, dollars only fall, and an open end is undercut or equalled by its neighbour."""
    pieces = envelope_of(table)
    assert pieces[0].from_included
    for piece in pieces:
        assert piece.hours_from <= piece.hours_to
        assert piece.usd_to < piece.usd_from or piece.hours_from == piece.hours_to
    for left, right in itertools.pairwise(pieces):
        assert left.hours_to <= right.hours_from
        assert right.usd_from <= left.usd_to + 1e-6
        if not left.to_included:
            assert right.hours_from == left.hours_to
            assert right.usd_from < left.usd_to
        if not right.from_included:
            assert right.usd_from == pytest.approx(left.usd_to, abs=1e-6)


@LAW
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(table: CandidateTable, chance: object) -> None:
    """The same curve whichever row comes first."""
    order = list(range(len(table)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    one, other = envelope_of(table), envelope_of(table.rows(np.asarray(order)))
    assert np.asarray([piece[3:] for piece in one]) == pytest.approx(
        np.asarray([piece[3:] for piece in other]), abs=1e-9
    )


@LAW
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.5]))
def test_several_jobs_cost_the_sum_of_each(seed: int, jobs: int, step: float) -> None:
    """F(T) is the sum of the f_j(T) at and between all breakpoints, and no stop of F is dominated."""
    envelopes = [envelope_of(random_table(seed + j, 12, step=step)) for j in range(jobs)]
    stops, stretches = sum_envelopes(envelopes)
    assert [stop.hours for stop in stops] == sorted({stop.hours for stop in stops})
    for left, right in itertools.pairwise(stops):
        assert right.usd < left.usd
    for stop in stops:
        assert stop.usd == pytest.approx(sum(evaluate_envelope(one, stop.hours) for one in envelopes), abs=1e-9)
    for hours in np.linspace(stops[0].hours, stops[-1].hours + 1, 60):
        running = [s for s in stretches if s.hours_from < hours < s.hours_to]
        if running:
            (one,) = running
            part = (hours - one.hours_from) / (one.hours_to - one.hours_from)
            usd = one.usd_from + part * (one.usd_to - one.usd_from)
        else:
            usd = min(stop.usd for stop in stops if stop.hours <= hours)
        assert usd == pytest.approx(sum(evaluate_envelope(one, float(hours)) for one in envelopes), abs=1e-6)


@LAW
@given(tables, st.floats(1.0, 12.0))
def test_cutting_at_hours_keeps_just_the_shares_in_time(table: CandidateTable, hours: float) -> None:
    """Both ends of what is left are in time, and a row that is gone is late at every share."""
    rows, cut = clip_to_caps(table, hours=hours)
    for share in (cut.share_low, cut.share_high):
        assert (cut.late_hours(share) <= hours + 1e-6).all()
    gone = np.setdiff1d(np.arange(len(table)), rows)
    for part in GRID:
        share = table.share_low + part * (table.share_high - table.share_low)
        assert (table.late_hours(share)[gone] > hours).all()


def test_no_rows_have_no_envelope() -> None:
    """An empty table is no error."""
    table = random_table(1, 3)
    assert envelope_of(table.rows(np.zeros(0, dtype=int))) == ()
    assert envelope_of(table, budget=1e-6) == ()
    assert sum_envelopes([envelope_of(table), ()]) == ((), ())


def test_a_jump_a_crossing_and_a_level_are_told_apart() -> None:
    """By hand: a falling line, undercut by a point, then crossed from a level by another line."""
    table = make_table(
        [
            {"run_h": (1.0, 5.0), "run_usd": (10.0, 6.0)},  # falls by a dollar an hour from (1, 10)
            {"run_h": (3.0, float("nan")), "run_usd": (7.0, float("nan"))},  # undercuts it at 3 h: 7 instead of 8
            {"run_h": (4.0, 8.0), "run_usd": (8.0, 4.0)},  # comes through 7 dollars at 5 h
        ]
    )
    pieces = envelope_of(table)
    assert [(p.row, p.hours_from, p.hours_to) for p in pieces] == [(0, 1, 3), (1, 3, 3), (0, 4, 5), (2, 6, 8)]
    assert [(p.from_included, p.to_included) for p in pieces] == [
        (True, False),
        (True, True),
        (False, True),
        (False, True),
    ]
    assert pieces[0].share_to == pytest.approx(0.5)
    (stops, _) = sum_envelopes([pieces])
    assert [(stop.hours, stop.usd) for stop in stops] == [(1, 10), (3, 7), (5, 6), (8, 4)]
    assert [bool(stop.before) for stop in stops] == [False, True, False, False]


def test_a_steep_piece_that_ends_gives_way_to_the_next_one() -> None:
    """Pieces of a curve that grow less steep are followed one after the other, each to its end."""
    columns = {
        "hours_from": np.array([1.0, 2.0, 3.0]),
        "hours_to": np.array([2.0, 3.0, 5.0]),
        "usd_from": np.array([9.0, 4.0, 2.0]),
        "usd_to": np.array([4.0, 2.0, 1.0]),
    }
    number = np.arange(3)
    segments = Segments(row=number, share_from=np.zeros(3), share_to=np.ones(3), rank=number, **columns)
    assert [(one.row, one.hours_from, one.hours_to) for one in lower_envelope(segments)] == [
        (0, 1.0, 2.0),
        (1, 2.0, 3.0),
        (2, 3.0, 5.0),
    ]


def test_of_equal_ways_the_one_with_more_free_memory_wins_then_the_first_name() -> None:
    """Ties are broken like those of solve, so the same question has the same answer."""
    plain = {"run_h": (2.0, float("nan")), "run_usd": (5.0, float("nan"))}
    roomy = make_table([plain, {**plain, "fit_gib": 5.0}])
    assert [piece.row for piece in envelope_of(roomy)] == [1]
    named = make_table([{**plain, "offer": "c"}, {**plain, "offer": "b"}])
    assert [piece.row for piece in envelope_of(named)] == [1]


def test_the_knee_lies_where_waiting_stops_paying_more_than_on_average() -> None:
    """By hand: 10 dollars an hour, then 1 dollar an hour."""
    hours, usd = np.asarray([1.0, 3.0, 4.0, 13.0]), np.asarray([40.0, 20.0, 19.5, 10.0])
    assert convex_hull(hours, usd) == [0, 1, 3]
    assert find_knee(hours, usd) == Knee(1, 10.0, 1.0)
    assert find_knee(hours[:2], usd[:2]) is None
    assert find_knee(np.asarray([1.0, 2.0, 3.0]), np.asarray([10.0, 9.5, 1.0])) is None


@LAW
@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=3, max_size=12),
    st.sampled_from([0.5, 2.0, 8.0]),
    st.sampled_from([0.25, 4.0]),
)
def test_the_knee_does_not_depend_on_the_units(steps: list[tuple[float, float]], minutes: float, cents: float) -> None:
    """Stretching either axis leaves the knee where it is, and no wait after it saves more than reported."""
    hours = np.cumsum([step[0] for step in steps])
    usd = np.cumsum([step[1] for step in steps])[::-1].copy()
    knee, other = find_knee(hours, usd), find_knee(hours * minutes, usd * cents)
    assert (knee is None) == (other is None)
    if knee is not None and other is not None:
        assert other.vertex == knee.vertex
        later = (usd[knee.vertex] - usd[knee.vertex + 1 :]) / (hours[knee.vertex + 1 :] - hours[knee.vertex])
        assert later.max() <= knee.saved_after + 1e-9
        assert 0 < knee.saved_after < knee.saved_before
