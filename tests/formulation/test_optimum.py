"""The first pass against brute force, by two solvers of different families."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

from planner.arrays import CandidateTable
from planner.formulation.constraints import build_program, find_undominated
from planner.formulation.program import SharedLimits, VariableLayout
from planner.formulation.solvers import Termination, run
from planner.solving.optimise_choice import solve_lexicographic
from tests.helpers.candidate_tables import brute_force, small_cases

TOLERANCE = 2e-5
"""$ or h: what solvers may leave rows by (1e-6), times the dearest coefficient of these tables."""


def check(table: CandidateTable, question: SharedLimits, solver: str) -> None:
    """The program's optimum is the best of all combinations, and infeasible only where there is none."""
    expected = brute_force(table, question)
    result = run(build_program(VariableLayout(table, question)), solver)
    if expected is None:
        assert result.termination is Termination.INFEASIBLE
        return
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.slow
@settings(derandomize=True, max_examples=25, deadline=None)
@given(small_cases(objective=None))
def test_highs_finds_what_trying_everything_finds(case: tuple[CandidateTable, SharedLimits]) -> None:
    """Budget, stock, quota, GPUs and shares in any mix."""
    check(*case, "highs")


@pytest.mark.slow
@settings(derandomize=True, max_examples=25, deadline=None)
@given(small_cases(objective=None))
def test_cbc_finds_what_trying_everything_finds(case: tuple[CandidateTable, SharedLimits]) -> None:
    """The same through another solver and another package."""
    check(*case, "cbc")


@pytest.mark.slow
@settings(derandomize=True, max_examples=25, deadline=None)
@given(small_cases(objective=None))
def test_passes_keep_every_limit_and_the_optimum(case: tuple[CandidateTable, SharedLimits]) -> None:
    """The plan after all passes, recomputed from the table alone, fits and is as good as the optimum."""
    table, question = case
    expected = brute_force(table, question)
    choice = solve_lexicographic(table, question, partial(run, solver="highs"))
    if expected is None:
        assert choice.first.termination is Termination.INFEASIBLE
        return
    plan, share = table.rows(choice.rows), choice.spot_share
    assert plan.job.tolist() == list(range(len(table.jobs)))
    assert np.all((plan.share_low <= share) & (share <= plan.share_high))
    late_usd = plan.late_cost_usd(share).sum()
    assert question.budget_usd is None or late_usd <= question.budget_usd + 1e-4
    assert all(plan.gpus.sum() <= one.most for one in question.peaks)
    for offer, stock in question.stock.items():
        assert plan.instances[plan.offer == table.offers.index(offer)].sum() <= stock
    for offer, left in question.committed.items():
        assert plan.rented_h[plan.offer == table.offers.index(offer)].sum() <= left + 1e-6
    for provider, quota in question.quota.items():
        assert plan.gpus[plan.provider == table.providers.index(provider)].sum() <= quota
    if question.objective == "time":
        assert plan.late_hours(share).max() <= expected + 0.001 + TOLERANCE
    else:
        hours = question.value_of_time_usd_per_hour * plan.hours(share).sum()
        cost = plan.cost_usd(share).sum() + plan.penalty_usd.sum() + hours
        assert cost <= expected + 0.005 + 1e-4


@pytest.mark.long
@settings(derandomize=True, max_examples=25, deadline=None)
@given(small_cases(objective=None, step=0.5))
def test_dominance_never_changes_the_optimum(case: tuple[CandidateTable, SharedLimits]) -> None:
    """Trying everything finds the same least objective with and without dominated candidates."""
    table, question = case
    keep = find_undominated(table, question)
    expected, reduced = brute_force(table, question), brute_force(table.rows(keep), question)
    assert (expected is None) == (reduced is None)
    if expected is not None:
        assert reduced == pytest.approx(expected, abs=1e-9)
