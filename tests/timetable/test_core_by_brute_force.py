"""The timetable against enumeration: every order and every mode of small cases, and laws that any timetable keeps."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.formulation.solvers import Termination
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.time_index import periods_together
from planner.timetable.timetable_problem import (
    Mode,
    Period,
    Pool,
    Resource,
    Schedule,
    Task,
    Timetable,
    objective_value,
    period_spend,
    time_bounds,
    violations,
)
from planner.timetable.timetable_search import ORDERS, best_greedy, greedy_timetable, linear_relaxation

HORIZON = 40


@st.composite
def problems(draw: st.DrawFn, most: int = 4) -> Timetable:
    """Draw up to four tasks with up to three modes on two machines, with lateness, precedence and a budget."""
    count = draw(st.integers(2, most))
    tasks = []
    for index in range(count):
        modes = tuple(
            Mode(
                f"m{place}",
                draw(st.integers(1, 6)),
                draw(st.integers(0, 20)),
                needs=draw(st.sampled_from([(), ((0, 1),), ((1, 1),), ((0, 1), (1, 1))])),
                uses=((0, draw(st.integers(0, 5))),),
                unused=draw(st.sampled_from([0.0, 0.25, 0.75])),
            )
            for place in range(draw(st.integers(1, 3)))
        )
        after = ((draw(st.integers(0, index - 1)), draw(st.integers(0, 2))),) if index and draw(st.booleans()) else ()
        tasks.append(
            Task(
                f"t{index}",
                modes,
                release=draw(st.integers(0, 4)),
                deadline=draw(st.one_of(st.none(), st.integers(12, 40).map(lambda halves: halves / 2))),
                due=draw(st.integers(2, 12)),
                late=draw(st.integers(0, 3)),
                after=after,
            )
        )
    resources = (Resource("a", 1), Resource("b", 2))
    return Timetable(tuple(tasks), resources, (Pool("budget", draw(st.integers(3, 20))),), horizon=HORIZON)


def earliest_starts(problem: Timetable, order: tuple[int, ...], modes: tuple[int, ...]) -> Schedule | None:
    """Place tasks in an order, each as early as it can be without moving the others; None where one does not fit."""
    starts: dict[int, int] = {}
    for index in order:
        task, mode = problem.tasks[index], problem.tasks[index].modes[modes[index]]
        if any(other not in starts for other, _ in task.after):
            return None
        ready = max(
            [task.release, *(starts[i] + problem.tasks[i].modes[modes[i]].minutes + lag for i, lag in task.after)]
        )
        for start in range(ready, HORIZON):
            busy = [
                sum(
                    need
                    for i, at in starts.items()
                    for which, need in problem.tasks[i].modes[modes[i]].needs
                    if which == resource and at <= minute < at + problem.tasks[i].modes[modes[i]].minutes
                )
                + amount
                <= problem.resources[resource].capacity
                for resource, amount in mode.needs
                for minute in range(start, start + mode.minutes)
            ]
            if all(busy):
                starts[index] = start
                break
        else:
            return None
    return Schedule(modes, tuple(starts[index] for index in range(len(problem.tasks))), (0,) * len(problem.resources))


def enumerate_best(problem: Timetable) -> int | None:
    """Return the least cost over all orders and modes: a regular objective has an optimum of earliest starts."""
    costs = []
    for modes in product(*(range(len(task.modes)) for task in problem.tasks)):
        for order in permutations(range(len(problem.tasks))):
            schedule = earliest_starts(problem, order, modes)
            if schedule and not violations(problem, schedule):
                costs.append(objective_value(problem, schedule))
    return min(costs, default=None)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems())
def test_agrees_with_every_order_and_mode(problem: Timetable) -> None:
    """The program finds the least cost that enumeration finds, and a schedule that keeps every rule."""
    result, best = solve_timetable(problem), enumerate_best(problem)
    if best is None:
        assert result.termination is Termination.INFEASIBLE
        return
    assert result.termination is Termination.OPTIMAL
    assert result.objective == best
    assert result.schedule is not None
    assert violations(problem, result.schedule) == []
    assert objective_value(problem, result.schedule) == best


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems(), st.data())
def test_relaxing_never_costs_more(problem: Timetable, data: st.DataObject) -> None:
    """A later deadline, another machine, a dropped precedence never cost more; the order of the tasks is free."""
    before = solve_timetable(problem)
    if before.objective is None:
        return
    place = data.draw(st.integers(0, len(problem.tasks) - 1))
    task = problem.tasks[place]

    def changed(**values: object) -> Timetable:
        tasks = [replace(one, **values) if one is task else one for one in problem.tasks]  # type: ignore[arg-type]
        return replace(problem, tasks=tuple(tasks))

    easier = [
        changed(deadline=None),
        changed(after=()),
        replace(problem, resources=(replace(problem.resources[0], capacity=2), problem.resources[1])),
    ]
    for one in easier:
        after = solve_timetable(one)
        assert after.objective is not None
        assert after.objective <= before.objective
    turned = {old: new for new, old in enumerate(reversed(range(len(problem.tasks))))}
    tasks = tuple(
        replace(one, after=tuple((turned[i], lag) for i, lag in one.after)) for one in reversed(problem.tasks)
    )
    assert solve_timetable(replace(problem, tasks=tasks)).objective == before.objective


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems())
def test_the_linear_program_never_exceeds_the_optimum(problem: Timetable) -> None:
    """Both bounds hold: the linear program's is at most the optimum that the search proves."""
    result = solve_timetable(problem)
    if result.objective is None:
        return
    for incumbent in (None, result.schedule):
        found = linear_relaxation(problem, incumbent, 10.0)
        assert found.bound <= result.objective
        if (
            rounded := found.schedule
        ) is not None:  # what is made of its solution keeps every rule, so it is no better than the best
            assert violations(problem, rounded) == []
            assert objective_value(problem, rounded) >= result.objective
    assert solve_timetable(problem, SearchLimits(least=result.objective)).objective == result.objective


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems(), st.sampled_from(ORDERS))
def test_greedy_timetables_keep_every_rule(problem: Timetable, order: str) -> None:
    """What the greedy places is feasible, so it is never cheaper than the program."""
    schedule = greedy_timetable(problem, order)  # type: ignore[arg-type]
    if schedule is not None:
        assert violations(problem, schedule) == []
        result = solve_timetable(problem, SearchLimits(hint=schedule))
        assert result.objective is not None
        assert result.objective <= objective_value(problem, schedule)


def test_two_tasks_in_turn_on_an_own_machine() -> None:
    """Two jobs of 3 h wait for one free machine instead of renting another."""
    modes = (Mode("own", 200, 10, needs=((0, 1),)), Mode("cloud", 100, 700))
    problem = Timetable(
        (Task("a", modes, deadline=500), Task("b", modes, deadline=500)), (Resource("own", 1),), horizon=500
    )
    result = solve_timetable(problem)
    assert result.objective == 20
    assert result.schedule is not None
    assert sorted(result.schedule.starts)[1] >= 200
    tight = replace(problem, tasks=tuple(replace(task, deadline=300) for task in problem.tasks))
    assert solve_timetable(tight).objective == 710


@pytest.mark.parametrize(("jobs", "expected"), [(2, 200), (3, 250), (6, 250)])
def test_a_reservation_is_bought_when_it_pays(jobs: int, expected: int) -> None:
    """A lot at 250 replaces jobs at 100 each from the third on."""
    modes = (Mode("lot", 10, 0, needs=((0, 1),), latest=90), Mode("cloud", 10, 100))
    problem = Timetable(tuple(Task(f"t{i}", modes) for i in range(jobs)), (Resource("lot", 1, price=250),), horizon=100)
    result = solve_timetable(problem)
    assert result.objective == expected
    assert result.schedule is not None
    assert result.schedule.bought == (int(jobs > 2),)
    hint = best_greedy(problem)
    assert hint is not None
    assert objective_value(problem, hint) == expected


def test_a_period_budget_moves_work_into_the_next_month() -> None:
    """Two jobs that spend 100 each start so that no period has more than 110 of it."""
    modes = (Mode("cloud", 10, 100, spend=100),)
    periods = (Period(0, 20, 110), Period(20, 40, 110))
    problem = Timetable((Task("a", modes, wait=1), Task("b", modes, wait=1)), periods=periods, horizon=40)
    result, greedy = solve_timetable(problem), greedy_timetable(problem)
    assert result.schedule is not None
    assert greedy is not None
    assert sorted(result.schedule.starts) == sorted(greedy.starts) == [0, 19]
    assert violations(problem, result.schedule) == []


def test_budgets_that_are_far_too_small_are_refuted_at_once() -> None:
    """Four runs of 200 dollars in two months of 2.50 dollars: the budgets together say no, whatever the order."""
    modes = (Mode("cloud", 6000, 200 * 6000, spend=200 * 6000),)
    periods = (Period(0, 14_000, 15_000), Period(14_000, 58_000, 15_000), Period(58_000, 90_000, 15_000))
    tasks = tuple(Task(f"run-{name}", modes, deadline=86_400) for name in "abcd")
    problem = Timetable(tasks, periods=periods, horizon=86_400)
    (row,) = periods_together(problem, *time_bounds(problem))
    assert row == (frozenset(range(4)), 45_000)
    assert solve_timetable(problem, SearchLimits(5.0)).termination is Termination.INFEASIBLE
    relaxed = linear_relaxation(problem, None, 10.0)
    assert (relaxed.bound, relaxed.schedule) == (math.inf, None)


def test_the_least_lateness_under_budgets_by_month_is_proven_at_once() -> None:
    """Two runs of $400 fit into two months of $500; of the third $236 are left for the third month: 59 hours late.

    Run-b takes $36 (9 h). $1,236 less the $1,000 of two months is $236: at $4 an hour 59 h after the month's end at
    1,460 h. The deadline is 1,440 h, so that one run ends 79 h late. Without literals the bound stays at 0.
    """
    month = 730 * 60
    periods = tuple(Period(k * month, (k + 1) * month, 500 * 6000) for k in range(4))
    tasks = tuple(
        Task(f"run-{name}", (Mode("cloud", 60 * hours, 0, spend=400 * 60 * hours),), due=86_400, late=400 + index)
        for index, (name, hours) in enumerate(zip("abcd", (100, 9, 100, 100), strict=True))
    )
    result = solve_timetable(Timetable(tasks, periods=periods, horizon=4 * month), SearchLimits(5.0))
    assert result.termination is Termination.OPTIMAL
    assert result.objective == 400 * 79 * 60


@settings(max_examples=20)
@given(
    tasks=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=4),
    ends=st.lists(st.integers(1, 30), min_size=1, max_size=3, unique=True),
)
def test_no_timetable_within_its_budgets_breaks_their_sums(tasks: list[tuple[int, int, int]], ends: list[int]) -> None:
    """Periods that a timetable just keeps are kept by the sums over consecutive periods."""
    ends.sort()
    plan = tuple(Task(f"t{k}", (Mode("m", minutes, spend=spend),)) for k, (_, minutes, spend) in enumerate(tasks))
    starts = tuple(start for start, *_ in tasks)
    open_periods = [Period(begin, end, 0) for begin, end in zip([0, *ends], ends, strict=False)]
    spent = [
        sum(period_spend(task.modes[0], start, period) for task, start in zip(plan, starts, strict=True))
        for period in open_periods
    ]
    periods = tuple(replace(period, amount=amount) for period, amount in zip(open_periods, spent, strict=True))
    problem = Timetable(plan, periods=periods, horizon=20)
    assert violations(problem, Schedule((0,) * len(plan), starts, ())) == []
    for inside, amount in periods_together(problem, *time_bounds(problem)):
        assert sum(plan[k].modes[0].spend for k in inside) <= amount


def test_the_linear_bound_is_exact_where_a_machine_is_full() -> None:
    """Three jobs of 10 minutes, a machine that is free for 20: one has to rent, and both bounds say so."""
    modes = (Mode("own", 10, 10 * 6000, needs=((0, 1),)), Mode("cloud", 10, 100 * 6000))
    problem = Timetable(tuple(Task(f"t{i}", modes, deadline=20) for i in range(3)), (Resource("own", 1),), horizon=20)
    assert solve_timetable(problem).objective == 120 * 6000
    relaxed = linear_relaxation(problem, None, 10.0)
    assert relaxed.bound == pytest.approx(120 * 6000, rel=1e-5)
    assert relaxed.schedule is not None and objective_value(problem, relaxed.schedule) == 120 * 6000


def test_an_impossible_timetable_is_proven() -> None:
    """Two jobs that need the only machine at the same time have no timetable."""
    modes = (Mode("own", 10, needs=((0, 1),)),)
    problem = Timetable((Task("a", modes), Task("b", modes)), (Resource("own", 1),), horizon=15)
    assert solve_timetable(problem).termination is Termination.INFEASIBLE
    assert greedy_timetable(problem) is None


def test_a_later_pass_ends_earlier_at_the_same_cost() -> None:
    """Without lateness any start costs the same; the second pass takes the earliest ends."""
    modes = (Mode("own", 10, 5, needs=((0, 1),)),)
    problem = Timetable((Task("a", modes), Task("b", modes)), (Resource("own", 1),), horizon=90)
    first = solve_timetable(problem)
    second = solve_timetable(problem, SearchLimits(most=first.objective, hint=first.schedule))
    assert second.schedule is not None
    assert second.schedule.starts == (0, 10)
