"""A program of one choice: all solutions compared, against the solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.formulation.program import Program, single_row
from planner.formulation.solvers import Termination, run, solve_single_choice

WHOLE = st.integers(-8, 8).map(float)


def choice(cost: list[float], limits: list[tuple[list[float], float, float]], least: float = 0.0) -> Program:
    """Return the program that takes one of the costs under rows (coefficients, lower, upper)."""
    size = len(cost)
    rows = [single_row("choose", np.ones(size), 1.0, 1.0)]
    rows += [single_row("limit", np.array(one), lower, upper) for one, lower, upper in limits]
    return Program(
        lower=np.full(size, least),
        upper=np.ones(size),
        integer=np.ones(size, dtype=bool),
        cost=np.array(cost),
        rows=tuple(rows),
        variable_name=str,
        offset=2.0,
    )


@st.composite
def choices(draw: st.DrawFn) -> Program:
    """Return a program of up to 6 candidates under up to 3 rows, which may leave none."""
    size = draw(st.integers(1, 6))
    numbers = st.lists(WHOLE, min_size=size, max_size=size)
    bounds = st.tuples(st.integers(-9, 3).map(float), st.integers(-3, 9).map(float)).map(sorted)
    limits = draw(st.lists(st.tuples(numbers, bounds), max_size=3))
    return choice(draw(numbers), [(row, lower, upper) for row, (lower, upper) in limits])


@settings(deadline=None, max_examples=60)
@given(program=choices())
def test_comparison_finds_what_the_solver_finds(program: Program) -> None:
    """Comparing all candidates ends as the solver does, with the same objective and a bound that meets it."""
    found, solved = solve_single_choice(program, "highs"), run(program)
    assert found is not None
    assert found.termination is solved.termination
    if found.has_solution:
        assert found.objective == pytest.approx(solved.objective)
        assert found.bound == found.objective
        assert program.violation(found.values) == 0


def test_row_without_the_variable_still_holds() -> None:
    """Worked by hand: 3 + 2 = 5 is the least cost, but a row of at least 1 holds only for the second, 7 + 2 = 9."""
    free = solve_single_choice(choice([3.0, 7.0], []), "highs")
    bound = solve_single_choice(choice([3.0, 7.0], [([0.0, 1.0], 1.0, np.inf)]), "highs")
    nothing = solve_single_choice(choice([3.0, 7.0], [([0.0, 0.0], 1.0, np.inf)]), "highs")
    assert free is not None and free.objective == 5.0
    assert bound is not None and bound.objective == 9.0
    assert nothing is not None and nothing.termination is Termination.INFEASIBLE


@pytest.mark.parametrize("case", ["a share", "two choices", "a fixed variable", "nothing"])
def test_other_programs_are_left_to_a_solver(case: str) -> None:
    """A continuous variable, two jobs, a variable that must be 1 or no variable at all: none is compared."""
    one = choice([3.0, 7.0], [])
    if case == "a share":
        one = Program(one.lower, one.upper, np.array([True, False]), one.cost, one.rows, str)
    elif case == "two choices":
        rows = tuple(single_row("choose", np.eye(2)[job], 1.0, 1.0) for job in range(2))
        one = Program(one.lower, one.upper, one.integer, one.cost, rows, str)
    elif case == "a fixed variable":
        one = choice([3.0, 7.0], [], least=1.0)
    else:
        one = choice([], [])
    assert solve_single_choice(one, "highs") is None
