"""What every solver returns: why it stopped, its solution and its bound."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from planner.errors import NoPlanError
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.program import Program


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


@record(frozen=True, eq=False)
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
