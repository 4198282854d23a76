"""What every solver returns, and programs that need none: the best of single choices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Protocol

import numpy as np

from planner.arrays import Flags, Floats
from planner.errors import NoPlanError
from planner.formulation.program import Program, Rows

# What every solver returns: why it stopped, its solution and its bound.


class Termination(Enum):
    """Why a solver stopped, in terms of what the caller may rely on."""

    OPTIMAL = "optimal"  # a solution, proven best within the requested gap
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
    """What a solver found; `bound` is a proven lower bound on the objective, or None if the solver gives none."""

    termination: Termination
    solver: str
    seconds: float
    limit: Limit | None = None
    solution: Floats | None = None  # (variables,), integers exact
    objective: float | None = None
    bound: float | None = None
    reduced_costs: Floats | None = None  # (variables,), of a linear program that is proven optimal

    @property
    def has_solution(self) -> bool:
        """Whether `values` may be read."""
        return self.solution is not None

    @property
    def is_proven(self) -> bool:
        """Whether the solution is proven best within the requested gap."""
        return self.termination is Termination.OPTIMAL

    @property
    def is_infeasible(self) -> bool:
        """Whether no solution exists; an unbounded program is none of ours."""
        return self.termination in (Termination.INFEASIBLE, Termination.INFEASIBLE_OR_UNBOUNDED)

    @property
    def values(self) -> Floats:
        """Value of every variable; raises NoPlanError if the solver has no solution."""
        if self.solution is None:
            raise NoPlanError(f"no plan: {self.solver} stopped with '{self.termination.value}'")
        return self.solution

    @property
    def gap(self) -> float | None:
        """(objective - bound) / |objective|, at least 0; None if either is unknown."""
        if self.objective is None or self.bound is None:
            return None
        distance = max(0.0, self.objective - self.bound)
        return 0.0 if distance == 0.0 else distance / max(abs(self.objective), 1e-9)


class Solver(Protocol):
    """What an adapter to a solver package offers."""

    name: str

    def solve(self, program: Program, *, time_limit_seconds: float | None, relative_gap: float) -> SolveResult:
        """Solve a program; raise SolverError where the solver breaks down."""
        ...


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
    """Return a result with a solution: integers rounded, the objective computed from `values` (variables,).

    A bound that is not finite becomes None.
    """
    values = np.where(program.integer, np.round(values), np.clip(values, program.lower, program.upper))
    objective = program.objective(values)
    if bound is not None and not np.isfinite(bound):
        bound = None
    return SolveResult(termination, solver, seconds, limit, values, objective, bound)


# Programs that take exactly one of their 0/1 variables: the best of them is found by comparing all, without a solver.
#
# One job with fixed spot shares is such a program. Each solution sets one variable to 1, so that all of them can be
# looked at: the least objective among those that keep every row is the optimum, and is its own bound.


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
