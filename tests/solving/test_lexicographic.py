"""What decides between plans of one cost, and that every solver decides alike."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

from planner.arrays import CandidateTable
from planner.formulation.program import Program, SharedLimits
from planner.formulation.solvers import ADAPTERS, Limit, SolveResult, Termination, run
from planner.solving.optimise_choice import potentially_optimal_rows, solve_lexicographic
from tests.helpers.candidate_tables import NAN, limits_hold, make_table, small_cases


def row(usd: float, hours: float, **more: object) -> dict[str, object]:
    """An on-demand candidate."""
    return {"run_usd": (usd, NAN), "run_h": (hours, NAN), **more}


def chosen(table: CandidateTable, solver: str = "highs", **question: object) -> list[int]:
    """Rows of the plan."""
    return solve_lexicographic(table, SharedLimits(**question), partial(run, solver=solver)).rows.tolist()


@pytest.mark.parametrize("solver", ADAPTERS)
def test_within_a_millionth_the_faster_wins(solver: str) -> None:
    """0.000004 $ of 5 $ more and an hour faster is taken; 0.00001 $ more is not."""
    table = make_table([row(5.0, 9.0), row(5.000004, 8.0), row(5.00001, 2.0)])
    assert chosen(table, solver) == [1]


@pytest.mark.parametrize("solver", ADAPTERS)
def test_at_equal_cost_and_hours_what_does_not_round_wins_over_free_memory(solver: str) -> None:
    """4 bits save 0.000003 $ and 10 GiB, and no time: 16 bits are taken; where they save an hour, 4 bits are."""
    exact = row(4.000003, 4.0, fit_gib=15.0)
    assert chosen(make_table([row(4.0, 4.0, fit_gib=5.0, lossiness=2), exact]), solver) == [1]
    assert chosen(make_table([row(4.0, 3.0, fit_gib=5.0, lossiness=2), exact]), solver) == [0]


@pytest.mark.parametrize("solver", ADAPTERS)
def test_at_equal_cost_and_hours_more_free_memory_wins_then_the_name(solver: str) -> None:
    """Rows 1 to 3 have 15 GiB free; of them offer b comes first, and of its two rows the earlier."""
    table = make_table(
        [
            row(5.0, 4.0, offer="a"),
            row(5.0, 4.0, offer="c", fit_gib=5.0),
            row(5.0, 4.0, offer="b", fit_gib=5.0),
            row(5.0, 4.0, offer="b", fit_gib=5.0),
        ]
    )
    assert chosen(table, solver) == [2]


@pytest.mark.parametrize("solver", ADAPTERS)
def test_two_equal_jobs_that_share_a_stock_are_placed_alike_by_every_solver(solver: str) -> None:
    """Either could take the one instance of offer a; the later job's weight decides for it."""
    rows = [row(5.0, 4.0, job=job, offer=offer) for job in ("x", "y") for offer in ("a", "b")]
    table = make_table(rows, jobs=("x", "y"))
    assert chosen(table, solver, stock={"a": 1, "b": 1}) == [1, 2]


def test_the_share_ends_at_its_cap_where_spot_is_cheaper() -> None:
    """A millionth above the optimum of 7 $ buys back 7e-6 / 6 of the share, which is none."""
    table = make_table([{"run_h": (4.0, 5.0), "run_usd": (10.0, 4.0), "share_high": 0.5}])
    choice = solve_lexicographic(table, SharedLimits(), run)
    assert choice.first.objective == pytest.approx(7.0)
    assert choice.spot_share[0] == pytest.approx(0.5, abs=1e-5)


def test_a_budget_below_the_cheapest_on_demand_pushes_the_work_to_spot() -> None:
    """Late dollars 12 - 8 * share <= 8 although expected dollars favour on demand: share 0.5."""
    table = make_table([{"run_h": (4.0, 5.0), "run_usd": (10.0, 11.0), "late_usd": (12.0, 4.0), "share_high": 0.8}])
    assert solve_lexicographic(table, SharedLimits(budget_usd=8.0), run).spot_share[0] == pytest.approx(0.5, abs=1e-5)


def test_rows_beyond_the_budget_rule_out_no_row_within_it() -> None:
    """$4 expected is the least, but may become $9, above the budget of $8: the row of $6 is the plan."""
    table = make_table([row(4.0, 5.0, late_usd=(9.0, NAN)), row(6.0, 5.0)])
    assert potentially_optimal_rows(table, SharedLimits(budget_usd=8.0)).tolist() == [0, 1]
    assert chosen(table, budget_usd=8.0) == [1]


def test_a_row_that_is_cheap_at_the_cap_of_its_share_only_may_be_the_plan() -> None:
    """$10 on demand, $4 at the cap of its share: below the $7 of the other row."""
    both = {"run_h": (4.0, 5.0), "run_usd": (10.0, 4.0)}
    table = make_table([row(7.0, 4.0), both])
    assert 1 in potentially_optimal_rows(table, SharedLimits())
    assert chosen(table) == [1]


def test_objective_time_takes_the_earliest_last_finish_then_the_least_cost() -> None:
    """Job y cannot end before 6, so job x takes its cheap way of 6 hours, not its fast one of 2."""
    rows = [row(9.0, 2.0, job="x"), row(3.0, 6.0, job="x"), row(1.0, 9.0, job="x"), row(4.0, 6.0, job="y")]
    assert chosen(make_table(rows, jobs=("x", "y")), objective="time") == [1, 3]


def test_a_penalty_counts_in_the_objective_but_not_in_the_budget() -> None:
    """4 $ and a penalty of 2 loses against 5 $, unless the budget is 4.5 $."""
    table = make_table([row(4.0, 2.0, penalty_usd=2.0), row(5.0, 2.0)])
    assert chosen(table) == [1]
    assert chosen(table, budget_usd=4.5) == [0]


def test_a_job_without_candidates_has_no_plan() -> None:
    """The first pass says infeasible."""
    choice = solve_lexicographic(make_table([row(1.0, 1.0, job="x")], jobs=("x", "y")), SharedLimits(), run)
    assert choice.first.termination is Termination.INFEASIBLE
    assert choice.first.is_infeasible and not len(choice.rows)


def test_an_unproven_first_pass_is_reported_and_ties_are_left_alone() -> None:
    """Stopped at a limit, the plan still gets its second pass, and keeps the first one's status and bound."""
    programs: list[Program] = []

    def limited(program: Program) -> SolveResult:
        programs.append(program)
        return replace(run(program), termination=Termination.FEASIBLE, limit=Limit.TIME, bound=1.0)

    table = make_table([row(5.0, 9.0), row(5.0, 8.0, offer="b"), row(5.0, 8.0, offer="a")])
    choice = solve_lexicographic(table, SharedLimits(), limited)
    assert len(programs) == 2
    assert choice.rows.tolist() in ([1], [2])
    assert choice.first.termination is Termination.FEASIBLE
    assert choice.first.gap == pytest.approx(0.8)


@pytest.mark.slow
@settings(derandomize=True, max_examples=25, deadline=None)
@given(small_cases(step=1.0))
def test_the_plan_is_the_first_in_the_stated_order(case: tuple[CandidateTable, SharedLimits]) -> None:
    """With fixed shares and no budget: least cost, then hours, lossiness, free GiB over all combinations."""
    table, question = case
    table = replace(table, share_high=table.share_low)
    question = replace(question, budget_usd=None)
    value = table.hours(table.share_low) * question.value_of_time_usd_per_hour
    value = value + table.cost_usd(table.share_low) + table.penalty_usd
    key = np.column_stack([value, table.hours(table.share_low), table.lossiness, table.fit_gib - table.usable_gib])
    members = [np.flatnonzero(table.job == job) for job in range(len(table.jobs))]
    fitting = [list(rows) for rows in itertools.product(*members) if limits_hold(table, question, rows)]
    choice = solve_lexicographic(table, question, run)
    if not fitting:
        assert not choice.first.has_solution
        return
    best = min(tuple(np.round(key[rows].sum(axis=0), 6)) for rows in fitting)
    assert key[choice.rows].sum(axis=0) == pytest.approx(best, abs=1e-6)


@pytest.mark.slow
@settings(derandomize=True, max_examples=25, deadline=None)
@given(small_cases(objective=None, step=1.0))
def test_every_solver_makes_the_same_plan(case: tuple[CandidateTable, SharedLimits]) -> None:
    """Tables of whole numbers are full of ties; HiGHS, CBC and SCIP choose the same rows and shares."""
    table, question = case
    plans = [solve_lexicographic(table, question, partial(run, solver=name)) for name in ("highs", "cbc", "scip")]
    if not plans[0].first.has_solution:
        assert not any(plan.first.has_solution for plan in plans)
        return
    for plan in plans[1:]:
        assert plan.rows.tolist() == plans[0].rows.tolist()
        assert plan.spot_share == pytest.approx(plans[0].spot_share, abs=1e-4)


@pytest.mark.parametrize("budget_usd", [None, 50.0])
def test_near_ties_choose_between_candidates_and_move_no_share(budget_usd: float | None) -> None:
    """A mix that costs $5 on spot and $9 on demand stays on spot: dollars of a tie buy another candidate, no share."""
    mix = {"run_usd": (9.0, 5.0), "run_h": (4.0, 8.0), "share_low": 0.0, "share_high": 1.0}
    shared = SharedLimits(budget_usd=budget_usd)
    for rows, expected, share in (([mix], 0, 1.0), ([mix, row(5.4, 7.0)], 1, 0.0), ([mix, row(5.4, 9.0)], 0, 1.0)):
        found = solve_lexicographic(make_table(rows), shared, partial(run, solver="highs"), lambda _: 0.5)
        assert found.rows.tolist() == [expected]
        # Half a cent, which breaks a tie by hours, moves a share by 0.005 / 4.
        assert found.spot_share.tolist() == pytest.approx([share], abs=0.002)
