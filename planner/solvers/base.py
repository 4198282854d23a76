"""The vocabulary of results, and the one way to run a solver: a `Program` in, a `SolveResult` out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from planner.errors import NoPlanError, SolverError

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.program import Program

DEFAULT_GAP = 1e-7
"""Relative gap at which a solver may stop: far below half a cent on any bill, so that plans agree."""

ROW_TOLERANCE = 1e-6
"""How far a row without terms may miss its bounds: the feasibility tolerance of the solvers."""


class Termination(Enum):
    """Why a solver stopped, in terms of what the caller may rely on."""

    OPTIMAL = "optimal"  # a solution, proven best within the gap asked for
    FEASIBLE = "feasible"  # a solution, no proof: stopped at a limit
    INFEASIBLE = "infeasible"  # proven: no solution exists
    UNBOUNDED = "unbounded"  # proven: no best solution exists
    INFEASIBLE_OR_UNBOUNDED = "infeasible or unbounded"  # proven to be one of the two
    NO_SOLUTION = "no solution found"  # stopped at a limit with nothing in hand, nothing proven
    ERROR = "error"  # the solver gave up; nothing may be relied on


class Limit(Enum):
    """What made a solver stop early; a limit is not a termination."""

    TIME = "time"
    NODES = "nodes"
    OTHER = "other"


@dataclass(frozen=True, eq=False)
class SolveResult:
    """What a solver found; `bound` is a proven lower bound on the objective, or None where it gave none."""

    termination: Termination
    solver: str
    seconds: float
    limit: Limit | None = None
    solution: Floats | None = None  # (variables,), integers exact
    objective: float | None = None
    bound: float | None = None

    @property
    def has_solution(self) -> bool:
        """Whether `values` may be asked for."""
        return self.solution is not None

    @property
    def is_proven(self) -> bool:
        """Whether the solution is proven best within the gap asked for."""
        return self.termination is Termination.OPTIMAL

    @property
    def values(self) -> Floats:
        """Value of every variable; raises NoPlanError where the solver has no solution."""
        if self.solution is None:
            raise NoPlanError(f"no plan: {self.solver} stopped with '{self.termination.value}'")
        return self.solution

    @property
    def gap(self) -> float | None:
        """(objective - bound) / |objective|, at least 0; None where either is unknown."""
        if self.objective is None or self.bound is None:
            return None
        distance = max(0.0, self.objective - self.bound)
        return 0.0 if distance == 0.0 else distance / max(abs(self.objective), 1e-9)


class Solver(Protocol):
    """What an adapter offers."""

    name: str

    def solve(self, program: Program, *, time_limit_seconds: float | None, relative_gap: float) -> SolveResult:
        """Solves; raises SolverError where the solver breaks down."""
        ...


SOLVERS = ("highs", "cbc", "scip", "cp-sat")
"""Names that `get_solver` knows; the first is the default."""


def get_solver(name: str = SOLVERS[0]) -> Solver:
    """The adapter of that name; its package is imported when it solves. Raises SolverError where unknown."""
    if name == "cbc":
        from planner.solvers.pulp_cbc import CbcSolver

        return CbcSolver()
    if name in SOLVERS:
        from planner.solvers.mathopt import MathOptSolver

        return MathOptSolver(name)
    raise SolverError(f"unknown solver '{name}'; known are {', '.join(SOLVERS)}")


def run(
    program: Program,
    solver: str = SOLVERS[0],
    *,
    time_limit_seconds: float | None = None,
    relative_gap: float = DEFAULT_GAP,
) -> SolveResult:
    """Solves a program with the named solver.

    The program is checked first, because foreign error paths are not to be relied on. Raises SolverError
    for a program that holds nan or an infinite coefficient, an unknown solver, or a solver that breaks.
    """
    adapter = get_solver(name=solver)
    started = perf_counter()
    _check(program)
    if _has_infeasible_row(program):
        return SolveResult(Termination.INFEASIBLE, solver, perf_counter() - started)
    return adapter.solve(program, time_limit_seconds=time_limit_seconds, relative_gap=relative_gap)


def build_result(
    program: Program,
    values: Floats,
    termination: Termination,
    solver: str,
    seconds: float,
    *,
    limit: Limit | None = None,
    bound: float | None = None,
) -> SolveResult:
    """A result with a solution: integers rounded, the objective computed from the values themselves."""
    values = np.where(program.integer, np.round(values), np.clip(values, program.lower, program.upper))
    objective = program.objective(values)
    if bound is not None and not np.isfinite(bound):
        bound = None
    return SolveResult(termination, solver, seconds, limit, values, objective, bound)


def _check(program: Program) -> None:
    numbers = [program.cost, np.array([program.offset]), *(rows.coefficients for rows in program.rows)]
    if not all(np.isfinite(array).all() for array in numbers):
        raise SolverError("the program holds a coefficient that is not a finite number")
    ends = [program.lower, program.upper, *(end for rows in program.rows for end in (rows.lower, rows.upper))]
    if any(np.isnan(array).any() for array in ends):
        raise SolverError("the program holds a bound that is not a number")


def _has_infeasible_row(program: Program) -> bool:
    """A row without terms that excludes 0 (a job without candidates), or crossed bounds: solvers differ."""
    if bool(np.any(program.lower > program.upper)):
        return True
    for rows in program.rows:
        empty = np.diff(rows.starts) == 0
        misses = (rows.lower > ROW_TOLERANCE) | (rows.upper < -ROW_TOLERANCE)
        if bool(np.any(empty & misses)) or bool(np.any(rows.lower > rows.upper)):
            return True
    return False
