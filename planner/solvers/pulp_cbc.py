"""CBC through PuLP.

PuLP calls a time-limited incumbent "Optimal" and hands out values of infeasible programs, so the
solution status decides here, and the bound is read from CBC's own log. Variables are found by our
index, never by name.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from planner.errors import SolverError
from planner.formulation.program import Program
from planner.solvers.base import Limit, SolveResult, Termination, build_result

LOG_ROUNDING = 5e-4
"""CBC prints its bound with three decimals."""


class CbcSolver:
    """The CBC that is part of PuLP (before PuLP 4)."""

    name = "cbc"

    def solve(self, program: Program, *, time_limit_seconds: float | None, relative_gap: float) -> SolveResult:
        """Solve a program; raise SolverError whatever breaks underneath."""
        import tempfile  # late, like pulp: the other solvers need neither

        try:
            import pulp
        except ImportError as error:
            raise SolverError(f"cbc needs the package pulp: {error}") from error
        started = perf_counter()
        try:
            with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
                warnings.simplefilter("ignore")  # PuLP 3 deprecates the only interface that it has
                log = Path(folder) / "cbc.log"
                problem, variables = _problem(pulp, program)
                command = pulp.PULP_CBC_CMD(
                    msg=False, timeLimit=time_limit_seconds, gapRel=relative_gap, logPath=str(log)
                )
                command.tmpDir = folder
                problem.solve(command)
                text = log.read_text(errors="replace")
            return _result(pulp, program, problem, variables, text, relative_gap, perf_counter() - started)
        except Exception as error:
            raise SolverError(f"cbc broke down: {type(error).__name__}: {error}") from error


def _problem(pulp: Any, program: Program) -> tuple[Any, list[Any]]:
    """Return the program in PuLP's terms, and its variables in our order."""
    problem = pulp.LpProblem("program", pulp.LpMinimize)
    columns = zip(program.lower.tolist(), program.upper.tolist(), program.integer.tolist(), strict=True)
    variables = [
        pulp.LpVariable(
            f"x{i}",
            lower if np.isfinite(lower) else None,
            upper if np.isfinite(upper) else None,
            pulp.LpInteger if integer else pulp.LpContinuous,
        )
        for i, (lower, upper, integer) in enumerate(columns)
    ]
    priced = np.flatnonzero(program.cost)
    problem += pulp.LpAffineExpression(
        [(variables[i], value) for i, value in zip(priced, program.cost[priced].tolist(), strict=True)]
    )
    for rows in program.rows:
        for row in rows:
            if len(row.columns) == 0:  # bounds around 0, checked before
                continue
            terms = zip(row.columns.tolist(), row.coefficients.tolist(), strict=True)
            expression = pulp.LpAffineExpression([(variables[i], value) for i, value in terms])
            if row.lower == row.upper:
                problem += expression == row.lower
                continue
            if np.isfinite(row.lower):
                problem += expression >= row.lower
            if np.isfinite(row.upper):
                problem += expression <= row.upper
    return problem, variables


def _result(
    pulp: Any, program: Program, problem: Any, variables: list[Any], log: str, relative_gap: float, seconds: float
) -> SolveResult:
    status = problem.sol_status
    bound = _bound(log, program.offset)
    limit = _limit(log)
    # "Integer infeasible" reaches only the other of PuLP's two statuses.
    if pulp.LpSolutionInfeasible == status or problem.status == pulp.LpStatusInfeasible:
        # PuLP says "infeasible" of a run that was stopped before it found anything, too.
        if limit is not None:
            return SolveResult(Termination.NO_SOLUTION, "cbc", seconds, limit, bound=bound)
        return SolveResult(Termination.INFEASIBLE, "cbc", seconds)
    if status == pulp.LpSolutionUnbounded:
        return SolveResult(Termination.UNBOUNDED, "cbc", seconds)
    if status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return SolveResult(Termination.NO_SOLUTION, "cbc", seconds, limit or Limit.OTHER, bound=bound)
    # A variable in no row and not in the objective never reaches CBC; any value in its bounds will do.
    idle = np.clip(0.0, program.lower, program.upper)
    values = np.array(
        [idle[i] if variable.varValue is None else variable.varValue for i, variable in enumerate(variables)],
        dtype=float,
    )
    if status == pulp.LpSolutionIntegerFeasible:
        limit = limit or Limit.OTHER
        return build_result(program, values, Termination.FEASIBLE, "cbc", seconds, limit=limit, bound=bound)
    if bound is None:  # finished: it proved the relative gap that was requested
        objective = program.objective(values)
        bound = objective - relative_gap * abs(objective)
    return build_result(program, values, Termination.OPTIMAL, "cbc", seconds, bound=bound)


def _bound(log: str, offset: float) -> float | None:
    """Return the last proven bound in the log, None where it holds none (as after a complete search)."""
    found = re.findall(r"^Lower bound:\s+(\S+)", log, flags=re.MULTILINE)
    if not found:
        return None
    bound = float(found[-1])
    return bound + offset - LOG_ROUNDING if abs(bound) < 1e49 else None


def _limit(log: str) -> Limit | None:
    if "Stopped on time" in log or "Exiting on maximum time" in log:
        return Limit.TIME
    if "Stopped on node" in log or "Exiting on maximum nodes" in log:
        return Limit.NODES
    return None
