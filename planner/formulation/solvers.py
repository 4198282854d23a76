"""The run of a program with the solver of a given name: results, adapters to packages, and single choices without any.

HiGHS is used through its own package, which prints nothing and leaves the streams of the process alone; SCIP and CP-SAT
through MathOpt of OR-Tools; CBC through PuLP. PuLP calls a time-limited incumbent "Optimal" and hands out values of
infeasible programs, so the solution status decides here, and the bound is read from the log of CBC. Variables are
found by our index, never by name.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from planner.arrays import Flags, Floats
from planner.errors import NoPlanError, SolverError
from planner.formulation.program import Program, Rows
from planner.watch import canceller, keep_going, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


# The adapters to the packages of solvers.


PRESOLVE_SIZE = 1_000
"""Variables above which HiGHS runs without its presolve.

Its search for dominated columns is quadratic and does not look at the clock: 30,000 columns under one
row took 14 s, and 0.15 s without it (HiGHS 1.12). Dominance is removed before the program is built.
"""

_HIGHS_TERMINATIONS = {
    "kOptimal": Termination.OPTIMAL,
    "kModelEmpty": Termination.OPTIMAL,
    "kInfeasible": Termination.INFEASIBLE,
    "kUnbounded": Termination.UNBOUNDED,
    "kUnboundedOrInfeasible": Termination.INFEASIBLE_OR_UNBOUNDED,
}
_HIGHS_LIMITS = {
    "kTimeLimit": Limit.TIME,
    "kIterationLimit": Limit.OTHER,
    "kSolutionLimit": Limit.OTHER,
    "kMemoryLimit": Limit.OTHER,
    "kInterrupt": Limit.OTHER,
}
_ROWWISE, _MINIMISE = 2, 1  # MatrixFormat and ObjSense of the array interface
_FEASIBLE = 2  # a point that keeps every row: SolutionStatus of HighsInfo


def highs_version() -> str:
    """Return the release of HiGHS."""
    import highspy

    return f"{highspy.HIGHS_VERSION_MAJOR}.{highspy.HIGHS_VERSION_MINOR}.{highspy.HIGHS_VERSION_PATCH}"


class HighsSolver:
    """The default solver."""

    name = "highs"

    def solve(self, program: Program, *, time_limit_seconds: float | None, relative_gap: float) -> SolveResult:
        """Solve a program; raise SolverError where the package is missing or gives up."""
        try:
            import highspy
        except ImportError as error:
            raise SolverError(f"highs needs the package highspy: {error}") from error
        started = perf_counter()
        model = highspy._core._Highs()  # the class around it, Highs, writes a banner to standard output
        for name, value in _highs_options(program, time_limit_seconds, relative_gap):
            if model.setOptionValue(name, value) == highspy.HighsStatus.kError:
                raise SolverError(f"highs refuses {name}={value}")
        if _pass(model, program) == highspy.HighsStatus.kError:
            raise SolverError("highs refuses the program")
        _let_cancel(model, highspy)
        model.run()
        keep_going()
        return _highs_result(model, program, perf_counter() - started)


def _highs_options(
    program: Program, time_limit_seconds: float | None, relative_gap: float
) -> Iterator[tuple[str, Any]]:
    yield "output_flag", False
    # HiGHS keeps its threads for the next program. A process that forks later hands none of them to its child, which
    # waits for them for ever.
    yield "threads", 1
    yield "mip_rel_gap", relative_gap
    if time_limit_seconds is not None:
        yield "time_limit", max(time_limit_seconds, 0.0)
    if program.is_tight or program.size > PRESOLVE_SIZE:
        yield "presolve", "off"
    if program.is_tight:
        # A search for a first solution that takes 7 ms whatever the size of the program. A program that presolve has
        # nothing to do for is small, and solved by thousands, each in half a millisecond without that search.
        yield "mip_heuristic_run_feasibility_jump", False


def _let_cancel(model: Any, highspy: Any) -> None:
    """Let HiGHS ask as it works whether the call is cancelled."""
    is_cancelled = canceller()
    if is_cancelled is None:
        return

    def ask(kind: Any, message: str, told: Any, answer: Any, user: Any) -> None:
        del kind, message, told, user
        answer.user_interrupt = is_cancelled()

    model.setCallback(ask, None)
    for kind in (
        highspy.cb.HighsCallbackType.kCallbackMipInterrupt,
        highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt,
    ):
        model.startCallback(kind)


def _pass(model: Any, program: Program) -> Any:
    """Hand the program over as whole arrays, its families of rows one after another, and without names."""
    lower, upper = _joined(program, "lower"), _joined(program, "upper")
    columns, coefficients = _joined(program, "columns"), _joined(program, "coefficients")
    starts, entries = [np.zeros(1, dtype=np.int32)], 0
    for rows in program.rows:
        starts.append((rows.starts[1:] + entries).astype(np.int32))
        entries += len(rows.columns)
    return model.passModel(
        *(program.size, len(lower), len(columns), _ROWWISE, _MINIMISE, float(program.offset)),
        *(program.cost, program.lower, program.upper, lower, upper),
        np.concatenate(starts)[:-1],
        columns.astype(np.int32),
        coefficients,
        program.integer.astype(np.int32),
    )


def _joined(program: Program, field: str) -> np.ndarray[Any, Any]:
    parts = [getattr(rows, field) for rows in program.rows]
    return np.concatenate(parts) if parts else np.zeros(0)


def _highs_result(model: Any, program: Program, seconds: float) -> SolveResult:
    status, info = model.getModelStatus().name, model.getInfo()
    limit, has_solution = _HIGHS_LIMITS.get(status), info.primal_solution_status == _FEASIBLE
    termination = _HIGHS_TERMINATIONS.get(status, Termination.ERROR)
    if limit is not None:
        termination = Termination.FEASIBLE if has_solution else Termination.NO_SOLUTION
    is_mixed = bool(program.integer.any())
    bound = info.mip_dual_bound if is_mixed else info.objective_function_value
    if termination not in (Termination.OPTIMAL, Termination.FEASIBLE):
        known = bound if termination is Termination.NO_SOLUTION and is_mixed and np.isfinite(bound) else None
        return SolveResult(termination, "highs", seconds, limit, bound=known)
    solution = model.getSolution()
    if not is_mixed and termination is Termination.FEASIBLE:
        bound = float("nan")  # of a linear program that was stopped nothing is proven
    values = np.asarray(solution.col_value, dtype=float)
    result = build_result(program, values, termination, "highs", seconds, limit=limit, bound=bound)
    if termination is not Termination.OPTIMAL or is_mixed or not len(solution.col_dual):
        return result
    return replace(result, reduced_costs=np.asarray(solution.col_dual, dtype=float))


SOLVER_TYPES = {"scip": "SOLVER_TYPE_GSCIP", "cp-sat": "SOLVER_TYPE_CP_SAT"}

CP_SAT_STEPS = 2.0**20
"""CP-SAT knows integers only: continuous variables become multiples of 1/CP_SAT_STEPS (about a millionth).

What it then proves, optimality and infeasibility included, holds on that grid; so with continuous
variables no bound is reported.
"""

CP_SAT_TOLERANCE = 1e-7
"""Relative accuracy to which CP-SAT scales coefficients to integers; its own default of 1e-6 moves cents."""

_MATHOPT_TERMINATIONS = {**Termination.__members__, "NO_SOLUTION_FOUND": Termination.NO_SOLUTION}
_MATHOPT_LIMITS = {"TIME": Limit.TIME, "NODE": Limit.NODES}


def ortools_version() -> str:
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
        termination = _MATHOPT_TERMINATIONS.get(reason, Termination.ERROR)
        limit = None
        if ended.limit:
            limit = _MATHOPT_LIMITS.get(result_pb2.LimitProto.Name(ended.limit).removeprefix("LIMIT_"), Limit.OTHER)
        bound = ended.objective_bounds.dual_bound
        if self.name == "cp-sat" and not program.integer.all():
            bound = float("nan")  # it holds only on CP-SAT's grid of shares: no bound of this program
        if termination not in (Termination.OPTIMAL, Termination.FEASIBLE):
            known = bound if termination is Termination.NO_SOLUTION and np.isfinite(bound) else None
            return SolveResult(termination, self.name, seconds, limit, bound=known)
        variables = answer.solutions[0].primal_solution.variable_values  # the best one comes first
        values = np.zeros(program.size)
        values[list(variables.ids)] = list(variables.values)
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
                problem, variables = _pulp_problem(pulp, program)
                command = pulp.PULP_CBC_CMD(
                    msg=False, timeLimit=time_limit_seconds, gapRel=relative_gap, logPath=str(log)
                )
                command.tmpDir = folder
                problem.solve(command)
                text = log.read_text(errors="replace")
            return _cbc_result(pulp, program, problem, variables, text, relative_gap, perf_counter() - started)
        except Exception as error:
            raise SolverError(f"cbc broke down: {type(error).__name__}: {error}") from error


def _pulp_problem(pulp: Any, program: Program) -> tuple[Any, list[Any]]:
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


def _cbc_result(
    pulp: Any, program: Program, problem: Any, variables: list[Any], log: str, relative_gap: float, seconds: float
) -> SolveResult:
    status = problem.sol_status
    bound = _cbc_bound(log, program.offset)
    limit = _cbc_limit(log)
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


def _cbc_bound(log: str, offset: float) -> float | None:
    """Return the last proven bound in the log, None where it holds none (as after a complete search)."""
    bounds = re.findall(r"^Lower bound:\s+(\S+)", log, flags=re.MULTILINE)
    if not bounds:
        return None
    bound = float(bounds[-1])
    return bound + offset - LOG_ROUNDING if abs(bound) < 1e49 else None


def _cbc_limit(log: str) -> Limit | None:
    if "Stopped on time" in log or "Exiting on maximum time" in log:
        return Limit.TIME
    if "Stopped on node" in log or "Exiting on maximum nodes" in log:
        return Limit.NODES
    return None


ADAPTERS: dict[str, Callable[[], Solver]] = {
    "highs": HighsSolver,
    "cbc": CbcSolver,
    "scip": partial(MathOptSolver, "scip"),
    "cp-sat": partial(MathOptSolver, "cp-sat"),
}
"""What makes the adapter of each name; a new solver is one class and one line here."""
DEFAULT_SOLVER = "highs"
DEFAULT_GAP = 1e-7
"""Relative gap at which a solver may stop: far below half a cent on any bill, so that plans agree."""


def solver_versions() -> dict[str, str]:
    """Return the versions of the solver packages, on which a plan depends."""
    return {"highspy": highs_version(), "ortools": ortools_version()}


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
