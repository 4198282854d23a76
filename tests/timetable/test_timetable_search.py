"""The search for a timetable: what it leaves out beforehand is in no timetable that is as good as a known one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.formulation.solvers import Termination
from planner.timetable.cp_sat_timetable import solve_timetable
from planner.timetable.time_index import reduce_by_columns, reduce_timetable
from planner.timetable.timetable_problem import Mode, Resource, Schedule, Task, Timetable, objective_value, violations
from planner.timetable.timetable_search import TimetableSearch, best_greedy, linear_relaxation
from tests.timetable.test_core_by_brute_force import problems

CLOUD = Mode("cloud", 10, 100)


@st.composite
def problems_with_lots(draw: st.DrawFn) -> Timetable:
    """Draw up to four tasks on two machines, the first of which may have to be bought; budgets in half of the cases."""
    problem = draw(problems())
    first, second = problem.resources
    if draw(st.booleans()):
        first = replace(first, capacity=2, price=draw(st.integers(0, 40)))
    if draw(st.booleans()):
        tasks = tuple(
            replace(
                task, modes=tuple(replace(mode, uses=()) for mode in task.modes), late=draw(st.sampled_from([0, 2]))
            )
            for task in problem.tasks
        )
        problem = replace(problem, tasks=tasks, pools=())
    return replace(problem, resources=(first, second))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems_with_lots())
def test_what_is_left_out_is_in_no_optimum(problem: Timetable) -> None:
    """The optimum stays with every rule: by prices, by modes that hold nothing, by reduced costs."""
    best = solve_timetable(problem).objective
    for known in (None, best_greedy(problem)):
        reduced = reduce_timetable(problem, known)
        found = solve_timetable(reduced.problem)
        assert found.objective == best
        if found.schedule is None:
            continue
        assert violations(problem, reduced.restored(found.schedule)) == []
        assert objective_value(problem, reduced.restored(found.schedule)) == best
        relaxed = linear_relaxation(reduced.problem, found.schedule, 10.0)
        room = (found.objective or 0) - relaxed.bound + 1.0
        fewer = reduce_by_columns(reduced.problem, relaxed.columns, (relaxed.reduced_costs <= room).tolist())
        assert solve_timetable(fewer.problem).objective == best
        assert fewer.reduced(found.schedule) is not None


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems_with_lots())
def test_the_search_proves_what_one_program_proves(problem: Timetable) -> None:
    """With and without a known timetable the answer is that of the whole program, an impossible one included."""
    best = solve_timetable(problem)
    for known in (None, best_greedy(problem)):
        search = TimetableSearch(problem, known, 0.0)
        search.improve(10.0)
        assert search.termination is best.termination
        if search.schedule is not None:
            assert objective_value(problem, search.schedule) == best.objective
            assert search.bound <= (best.objective or 0) + 1e-6


def test_a_lot_that_costs_more_than_the_known_timetable_is_left_out() -> None:
    """Two jobs rent for 100 each: a machine for 150 may pay, one for 201 cannot, and its modes go."""
    for price, modes in ((150, 2), (200, 2), (201, 1)):
        lot = Mode("lot", 10, needs=((0, 1),))
        tasks = tuple(Task(name, (CLOUD, lot), deadline=20) for name in "ab")
        problem = Timetable(tasks, (Resource("lot", 1, price=price),), horizon=20)
        reduced = reduce_timetable(problem, Schedule((0, 0), (0, 0), (0,)))
        assert [len(task.modes) for task in reduced.problem.tasks] == [modes, modes]
        assert reduced.problem.resources[0].capacity == modes - 1


def test_a_mode_that_holds_a_machine_and_costs_more_than_one_that_holds_nothing_is_left_out() -> None:
    """The own machine at 101 never pays beside the cloud at 100, except where another job waits for this one."""
    own = Mode("own", 5, 101, needs=((0, 1),))
    alone = Task("a", (own, CLOUD), deadline=20)
    problem = Timetable((alone,), (Resource("own", 1),), horizon=30)
    assert reduce_timetable(problem, None).kept == ((1,),)
    followed = Timetable((alone, Task("b", (CLOUD,), after=((0, 0),))), (Resource("own", 1),), horizon=30)
    assert reduce_timetable(followed, None).kept == ((0, 1), (0,))


def test_lateness_counts_against_a_mode_that_holds_nothing() -> None:
    """The cloud ends 5 late at 2 each: 110 in all, so that an own machine at 105 stays and one at 111 goes."""
    for usd, kept in ((105, (0, 1)), (111, (1,))):
        own = Mode("own", 5, usd, needs=((0, 1),))
        problem = Timetable((Task("a", (own, CLOUD), due=5, late=2),), (Resource("own", 1),), horizon=30)
        assert reduce_timetable(problem, None).kept == (kept,)


def test_reductions_follow_one_another() -> None:
    """Places count in the whole timetable: of three modes the first goes, then the second of the two that are left."""
    modes = (Mode("a", 9, 9), Mode("b", 9, 9), Mode("c", 9, 9))
    problem = Timetable((Task("t", modes),), horizon=20)
    first = reduce_by_columns(problem, linear_relaxation(problem, None, 5.0).columns, [False, True, True])
    both = first.then(
        reduce_by_columns(first.problem, linear_relaxation(first.problem, None, 5.0).columns, [False, True])
    )
    assert both.kept == ((2,),)
    assert both.restored(Schedule((0,), (3,), ())) == Schedule((2,), (3,), ())
    assert both.reduced(Schedule((2,), (3,), ())) == Schedule((0,), (3,), ())
    assert both.reduced(Schedule((1,), (3,), ())) is None


def test_an_impossible_timetable_ends_the_search() -> None:
    """Two jobs that need the only machine at the same time: nothing more is tried."""
    modes = (Mode("own", 10, needs=((0, 1),)),)
    problem = Timetable((Task("a", modes), Task("b", modes)), (Resource("own", 1),), horizon=15)
    search = TimetableSearch(problem, None, 0.0)
    search.improve(60.0)
    assert search.termination is Termination.INFEASIBLE
