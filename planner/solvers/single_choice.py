"""Programs that take exactly one of their 0/1 variables: the best of them is found by comparing all, without a solver.

One job with fixed spot shares is such a program. Each solution sets one variable to 1, so that all of them can be
looked at: the least objective among those that keep every row is the optimum, and is its own bound.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.solvers.base import SolveResult, Termination, build_result

if TYPE_CHECKING:
    from planner.arrays import Flags
    from planner.formulation.program import Program, Rows

ROW_TOLERANCE = 1e-6
"""How far a row may miss its bounds: the feasibility tolerance of the solvers."""


def solve_single_choice(program: Program, solver: str) -> SolveResult | None:
    """Return the optimum of a program that takes exactly one of its variables; None where the program is another.

    `solver` is the name of the solver that would have been asked.
    """
    started = perf_counter()
    if not _takes_one(program):
        return None
    allowed = np.ones(program.size, dtype=bool)
    for rows in program.rows:
        allowed &= _allowed(rows, program.size)
    if not allowed.any():
        return SolveResult(Termination.INFEASIBLE, solver, perf_counter() - started)
    values = np.zeros(program.size)
    values[int(np.argmin(np.where(allowed, program.cost, np.inf)))] = 1.0
    bound = program.objective(values)
    return build_result(program, values, Termination.OPTIMAL, solver, perf_counter() - started, bound=bound)


def _takes_one(program: Program) -> bool:
    """Return whether all variables are 0 or 1 and a row says that they sum to 1."""
    if not (program.size and program.integer.all() and not program.lower.any() and (program.upper == 1.0).all()):
        return False
    return any(
        np.array_equal(row.columns, np.arange(program.size)) and bool((row.coefficients == 1.0).all())
        for rows in program.rows
        for row in rows
        if row.lower == row.upper == 1.0
    )


def _allowed(rows: Rows, size: int) -> Flags:
    """Return the variables (size,) that keep every row of a family when they alone are 1."""
    low, high, row = rows.lower - ROW_TOLERANCE, rows.upper + ROW_TOLERANCE, rows.row_of_entry()
    without = (low > 0) | (high < 0)
    # Of the rows that 0 misses, those stay missed in which the variable has no coefficient.
    missed = (rows.coefficients < low[row]) | (rows.coefficients > high[row])
    change = missed.astype(np.int64) - without[row]
    return np.asarray(int(np.sum(without)) + np.bincount(rows.columns, weights=change, minlength=size) < 0.5)
