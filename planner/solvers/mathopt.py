"""SCIP and CP-SAT through OR-Tools MathOpt."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from time import perf_counter
from typing import Any

import numpy as np

from planner.errors import SolverError
from planner.formulation.program import Program
from planner.solvers.base import Limit, SolveResult, Termination, build_result

SOLVER_TYPES = {"scip": "SOLVER_TYPE_GSCIP", "cp-sat": "SOLVER_TYPE_CP_SAT"}

CP_SAT_STEPS = 2.0**20
"""CP-SAT knows integers only: continuous variables become multiples of 1/CP_SAT_STEPS (about a millionth).

What it then proves, optimality and infeasibility included, holds on that grid; so with continuous
variables no bound is reported.
"""

CP_SAT_TOLERANCE = 1e-7
"""Relative accuracy to which CP-SAT scales coefficients to integers; its own default of 1e-6 moves cents."""

_TERMINATIONS = {**Termination.__members__, "NO_SOLUTION_FOUND": Termination.NO_SOLUTION}
_LIMITS = {"TIME": Limit.TIME, "NODE": Limit.NODES}


def version() -> str:
    """Return the release of OR-Tools."""
    import ortools  # small: its solvers are loaded where they are needed

    return str(ortools.__version__)  # type: ignore[attr-defined]


class MathOptSolver:
    """One of the solvers of `SOLVER_TYPES`; raises SolverError for another name."""

    def __init__(self, name: str):
        if name not in SOLVER_TYPES:
            raise SolverError(f"unknown solver '{name}'; MathOpt has {', '.join(SOLVER_TYPES)}")
        self.name = name

    def solve(self, program: Program, *, time_limit_seconds: float | None, relative_gap: float) -> SolveResult:
        """Solve a program; raise SolverError whatever breaks underneath (MathOpt 9.15 has a broken error path)."""
        try:
            # The core takes protocol buffers; to import the modelling classes around it takes twice as long.
            from ortools.math_opt import callback_pb2, model_parameters_pb2, parameters_pb2
            from ortools.math_opt.core.python import solver
        except ImportError as error:
            raise SolverError(f"{self.name} needs the package ortools: {error}") from error
        started = perf_counter()
        try:
            parameters = self._parameters(parameters_pb2, program, time_limit_seconds, relative_gap)
            answer = solver.solve(
                _proto(program),
                parameters_pb2.SolverTypeProto.Value(SOLVER_TYPES[self.name]),
                parameters_pb2.SolverInitializerProto(),
                parameters,
                model_parameters_pb2.ModelSolveParametersProto(),
                None,
                callback_pb2.CallbackRegistrationProto(),
                None,
                None,
            )
            return self._result(program, answer, perf_counter() - started)
        except Exception as error:
            raise SolverError(f"{self.name} broke down: {type(error).__name__}: {error}") from error

    def _parameters(self, records: Any, program: Program, time_limit_seconds: float | None, relative_gap: float) -> Any:
        parameters = records.SolveParametersProto(relative_gap_tolerance=relative_gap)
        if time_limit_seconds is not None:
            parameters.time_limit.FromTimedelta(timedelta(seconds=time_limit_seconds))
        if self.name == "cp-sat":
            settings = parameters.cp_sat
            settings.mip_wanted_precision = CP_SAT_TOLERANCE
            settings.mip_check_precision = 1e-4
            settings.mip_var_scaling = 1.0 if program.integer.all() else CP_SAT_STEPS
            settings.mip_max_activity_exponent = 60
            settings.absolute_gap_limit = 0.0
        return parameters

    def _result(self, program: Program, answer: Any, seconds: float) -> SolveResult:
        from ortools.math_opt import result_pb2

        ended = answer.termination
        reason = result_pb2.TerminationReasonProto.Name(ended.reason).removeprefix("TERMINATION_REASON_")
        termination = _TERMINATIONS.get(reason, Termination.ERROR)
        limit = None
        if ended.limit:
            limit = _LIMITS.get(result_pb2.LimitProto.Name(ended.limit).removeprefix("LIMIT_"), Limit.OTHER)
        bound = ended.objective_bounds.dual_bound
        if self.name == "cp-sat" and not program.integer.all():
            bound = float("nan")  # it holds only on CP-SAT's grid of shares: no bound of this program
        if termination not in (Termination.OPTIMAL, Termination.FEASIBLE):
            known = bound if termination is Termination.NO_SOLUTION and np.isfinite(bound) else None
            return SolveResult(termination, self.name, seconds, limit, bound=known)
        found = answer.solutions[0].primal_solution.variable_values  # the best one comes first
        values = np.zeros(program.size)
        values[list(found.ids)] = list(found.values)
        result = build_result(program, values, termination, self.name, seconds, limit=limit, bound=bound)
        dual = answer.solutions[0].dual_solution.reduced_costs
        if termination is not Termination.OPTIMAL or program.integer.any() or not dual.ids:
            return result
        reduced = np.zeros(program.size)
        reduced[list(dual.ids)] = list(dual.values)
        return replace(result, reduced_costs=reduced)


def _proto(program: Program) -> Any:
    """Return the program as MathOpt's own record, filled from whole arrays and without names."""
    from ortools.math_opt import model_pb2

    proto = model_pb2.ModelProto()
    ids = np.arange(program.size)
    proto.variables.ids.extend(ids.tolist())
    proto.variables.lower_bounds.extend(program.lower.tolist())
    proto.variables.upper_bounds.extend(program.upper.tolist())
    proto.variables.integers.extend(program.integer.tolist())
    priced = np.flatnonzero(program.cost)
    proto.objective.offset = program.offset
    proto.objective.linear_coefficients.ids.extend(priced.tolist())
    proto.objective.linear_coefficients.values.extend(program.cost[priced].tolist())
    first = 0
    for rows in program.rows:
        proto.linear_constraints.ids.extend(range(first, first + len(rows)))
        proto.linear_constraints.lower_bounds.extend(rows.lower.tolist())
        proto.linear_constraints.upper_bounds.extend(rows.upper.tolist())
        matrix = proto.linear_constraint_matrix
        matrix.row_ids.extend((first + rows.row_of_entry()).tolist())
        matrix.column_ids.extend(rows.columns.tolist())
        matrix.coefficients.extend(rows.coefficients.tolist())
        first += len(rows)
    return proto
