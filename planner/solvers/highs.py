"""HiGHS through its own package, which prints nothing and leaves the streams of the process alone."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.errors import SolverError
from planner.formulation.program import Program
from planner.solvers.base import Limit, SolveResult, Termination, build_result
from planner.watch import canceller, keep_going

if TYPE_CHECKING:
    from collections.abc import Iterator

PRESOLVE_SIZE = 1_000
"""Variables above which HiGHS runs without its presolve.

Its search for dominated columns is quadratic and does not look at the clock: 30,000 columns under one
row took 14 s, and 0.15 s without it (HiGHS 1.12). Dominance is removed before the program is built.
"""

_TERMINATIONS = {
    "kOptimal": Termination.OPTIMAL,
    "kModelEmpty": Termination.OPTIMAL,
    "kInfeasible": Termination.INFEASIBLE,
    "kUnbounded": Termination.UNBOUNDED,
    "kUnboundedOrInfeasible": Termination.INFEASIBLE_OR_UNBOUNDED,
}
_LIMITS = {
    "kTimeLimit": Limit.TIME,
    "kIterationLimit": Limit.OTHER,
    "kSolutionLimit": Limit.OTHER,
    "kMemoryLimit": Limit.OTHER,
    "kInterrupt": Limit.OTHER,
}
_ROWWISE, _MINIMISE = 2, 1  # MatrixFormat and ObjSense of the array interface
_FEASIBLE = 2  # a point that keeps every row: SolutionStatus of HighsInfo


def version() -> str:
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
        for name, value in _options(program, time_limit_seconds, relative_gap):
            if model.setOptionValue(name, value) == highspy.HighsStatus.kError:
                raise SolverError(f"highs refuses {name}={value}")
        if _pass(model, program) == highspy.HighsStatus.kError:
            raise SolverError("highs refuses the program")
        _let_cancel(model, highspy)
        model.run()
        keep_going()
        return _result(model, program, perf_counter() - started)


def _options(program: Program, time_limit_seconds: float | None, relative_gap: float) -> Iterator[tuple[str, Any]]:
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


def _result(model: Any, program: Program, seconds: float) -> SolveResult:
    status, info = model.getModelStatus().name, model.getInfo()
    limit, has_solution = _LIMITS.get(status), info.primal_solution_status == _FEASIBLE
    termination = _TERMINATIONS.get(status, Termination.ERROR)
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
