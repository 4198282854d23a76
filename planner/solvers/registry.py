"""Run a program with the solver of a given name."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from planner.errors import SolverError
from planner.formulation.program import Program
from planner.solvers import highs, mathopt
from planner.solvers.base import ROW_TOLERANCE, Solver, SolveResult, Termination
from planner.watch import keep_going, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable


def _cbc() -> Solver:
    from planner.solvers.pulp_cbc import CbcSolver  # late: it needs what no other solver does

    return CbcSolver()


ADAPTERS: dict[str, Callable[[], Solver]] = {
    "highs": highs.HighsSolver,
    "cbc": _cbc,
    "scip": partial(mathopt.MathOptSolver, "scip"),
    "cp-sat": partial(mathopt.MathOptSolver, "cp-sat"),
}
"""What makes the adapter of each name; a new solver is one file and one line here."""
DEFAULT_SOLVER = "highs"
DEFAULT_GAP = 1e-7
"""Relative gap at which a solver may stop: far below half a cent on any bill, so that plans agree."""


def solver_versions() -> dict[str, str]:
    """Return the versions of the solver packages, on which a plan depends."""
    return {"highspy": highs.version(), "ortools": mathopt.version()}


def get_solver(name: str = DEFAULT_SOLVER) -> Solver:
    """Return the adapter of that name, whose package is imported when it solves; SolverError where unknown."""
    if name not in ADAPTERS:
        raise SolverError(f"unknown solver '{name}'; known are {', '.join(ADAPTERS)}")
    return ADAPTERS[name]()


def run(
    program: Program,
    solver: str = DEFAULT_SOLVER,
    *,
    time_limit_seconds: float | None = None,
    relative_gap: float = DEFAULT_GAP,
) -> SolveResult:
    """Solve a program with the named solver.

    The program is checked first, because the packages report such faults in unreliable ways.

    Raises
    ------
    SolverError
        For a program that holds nan or an infinite coefficient, an unknown solver, or a solver that breaks down.
    """
    adapter = get_solver(solver)
    started = perf_counter()
    keep_going()
    check_numbers(program)
    if _has_infeasible_row(program):
        return SolveResult(Termination.INFEASIBLE, solver, perf_counter() - started)
    left = seconds_left(most=time_limit_seconds)
    return adapter.solve(program, time_limit_seconds=left, relative_gap=relative_gap)


def check_numbers(program: Program) -> None:
    """Raise SolverError where a program holds nan or an infinite coefficient."""
    numbers = [program.cost, np.array([program.offset]), *(rows.coefficients for rows in program.rows)]
    if not all(np.isfinite(array).all() for array in numbers):
        raise SolverError("the program holds a coefficient that is not a finite number")
    ends = [program.lower, program.upper, *(end for rows in program.rows for end in (rows.lower, rows.upper))]
    if any(np.isnan(array).any() for array in ends):
        raise SolverError("the program holds a bound that is not a number")


def _has_infeasible_row(program: Program) -> bool:
    """Return whether bounds cross or a row without terms (a job without candidates) excludes 0: solvers differ."""
    if bool(np.any(program.lower > program.upper)):
        return True
    for rows in program.rows:
        is_empty = np.diff(rows.starts) == 0
        misses = (rows.lower > ROW_TOLERANCE) | (rows.upper < -ROW_TOLERANCE)
        if bool(np.any(is_empty & misses)) or bool(np.any(rows.lower > rows.upper)):
            return True
    return False
