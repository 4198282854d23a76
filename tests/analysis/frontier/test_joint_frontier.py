"""Several jobs that share limits: the program at a common deadline, held to trying every combination."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.frontier_trace import JointProgram, pick_evenly, proven_gap, remove_dominated, satisfies_limits
from planner.analysis.lower_envelope import (
    Breakpoint,
    RowChoice,
    build_segments,
    clip_to_caps,
    evaluate_envelope,
    lower_envelope,
)
from planner.arrays import CandidateTable
from planner.formulation.program import SharedLimits
from planner.scenario.scenario import SolveOptions
from tests.helpers.candidate_tables import brute_force, limits_hold, small_cases

LAW = settings(max_examples=40, deadline=None, derandomize=True)


def by_job(table: CandidateTable) -> list[CandidateTable]:
    return [table.rows(table.job == job) for job in range(len(table.jobs))]


@LAW
@given(small_cases(), st.floats(2.0, 14.0))
def test_solved_at_a_deadline_is_the_least_of_all_combinations(
    case: tuple[CandidateTable, SharedLimits], hours: float
) -> None:
    """Cost, limits, hours and bound of one solved point, penalties and the value of time left out."""
    table, limits = case
    table = replace(table, penalty_usd=np.zeros(len(table)))
    limits = replace(limits, value_of_time_usd_per_hour=0.0)
    tables = by_job(table)
    envelopes = [lower_envelope(build_segments(one, limits.budget_usd)) for one in tables]
    found = JointProgram(tables, envelopes, limits, SolveOptions()).solve_at(hours)
    _, cut = clip_to_caps(table, hours=hours)
    least = brute_force(cut, limits) if len(np.unique(cut.job)) == len(tables) else None
    assert (found is None) == (least is None)
    if found is not None and least is not None:
        assert found.usd == pytest.approx(least, abs=0.006)
        assert found.hours <= hours + 1e-6
        assert found.bound <= least + 1e-4
        assert found.gap == 0.0
        assert sum(evaluate_envelope(one, hours + 1e-9) for one in envelopes) <= found.usd + 1e-6
        assert satisfies_limits(tables, found.choices, replace(limits, budget_usd=(limits.budget_usd or 1e9) + 1e-3))


@pytest.mark.long
@LAW
@given(small_cases())
def test_the_fastest_common_end_is_the_least_of_all_combinations(case: tuple[CandidateTable, SharedLimits]) -> None:
    """Before it nothing keeps the limits."""
    table, limits = case
    tables = by_job(table)
    envelopes = [lower_envelope(build_segments(one, limits.budget_usd)) for one in tables]
    found = JointProgram(tables, envelopes, limits, SolveOptions()).fastest_hours()
    least = brute_force(table, replace(limits, objective="time"))
    assert (found is None) == (least is None)
    if found is not None and least is not None:
        assert found == pytest.approx(least, abs=0.0015)


@LAW
@given(small_cases())
def test_what_keeps_the_limits_is_judged_as_by_counting(case: tuple[CandidateTable, SharedLimits]) -> None:
    """GPUs, quota and stock as in the brute force of the tests, and late dollars against the budget."""
    table, limits = case
    members = [np.flatnonzero(table.job == job) for job in range(len(table.jobs))]
    rows = [int(one[0]) for one in members]
    choices = [RowChoice(0, float(table.share_low[row])) for row in rows]
    late = sum(float(table.late_cost_usd(table.share_low)[row]) for row in rows)
    expected = limits_hold(table, limits, rows) and (limits.budget_usd is None or late <= limits.budget_usd)
    assert satisfies_limits(by_job(table), choices, limits) == expected


def test_points_that_an_earlier_one_undercuts_are_dropped() -> None:
    """Of equal cost the earlier stays; half a cent is what ties may cost."""
    points = [Breakpoint(h, usd, (), usd) for h, usd in ((3.0, 5.0), (1.0, 9.0), (2.0, 9.5), (4.0, 4.999), (5.0, 1.0))]
    assert [point.hours for point in remove_dominated(points)] == [1.0, 3.0, 5.0]


def test_of_plans_of_cents_half_a_cent_is_no_tie() -> None:
    """It is 3 % of 16 cents: a tenth of a per cent is what they may differ by."""
    points = [Breakpoint(h, usd, (), usd) for h, usd in ((3.03, 0.16294), (3.2, 0.16054), (3.3, 0.1605))]
    assert [point.hours for point in remove_dominated(points)] == [3.03, 3.2]


def test_a_gap_is_that_of_its_bound() -> None:
    """A bound that differs in its last digits alone, or lies above, is the cost."""
    assert proven_gap(0.12, 0.09) == (0.09, pytest.approx(0.25))
    assert proven_gap(0.12, 0.12 * (1 - 1e-15)) == proven_gap(0.12, 0.13) == (0.12, 0.0)


def test_hours_to_solve_at_are_spread_with_both_ends() -> None:
    """Few are all taken; of many the first and the last stay."""
    assert pick_evenly([1.0, 2.0], 5) == [1.0, 2.0]
    assert pick_evenly([float(i) for i in range(101)], 5) == [0.0, 25.0, 50.0, 75.0, 100.0]
