"""Timetables with CP-SAT: the search, its limits, and what it found."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from planner.errors import SolverError
from planner.records import record
from planner.solvers.base import Termination
from planner.solvers.timetable_model import TimetableModel

if TYPE_CHECKING:
    from planner.formulation.timetable_problem import Schedule, Timetable

WORKERS = 8
"""Threads: each has another strategy, so that more of them than cores still find better plans and bounds."""


@record(frozen=True)
class TimetableResult:
    """What CP-SAT found; `bound` is a proven lower bound on the objective in the units of the timetable."""

    termination: Termination
    seconds: float
    schedule: Schedule | None
    objective: int | None
    bound: float


@record(frozen=True)
class SearchLimits:
    """When the search may stop, and what it starts from."""

    time_limit_seconds: float | None = None
    relative_gap: float = 0.0
    hint: Schedule | None = None
    least: int | None = None  # a lower bound on the objective that is proven elsewhere
    most: int | None = None  # the objective must not be above it: the value of an earlier pass
    by_rank: bool = False  # with `most`: the sum of the ranks of the modes is minimised
    most_rank: int | None = None  # with `most`: that sum must not be above it


def solve_timetable(problem: Timetable, limits: SearchLimits | None = None) -> TimetableResult:
    """Return the best timetable that CP-SAT finds.

    With `limits.most` the objective is bounded by it and the ranks of modes or the sum of the ends is minimised, tasks
    in their order.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise SolverError(f"a timetable needs the package ortools: {error}") from error
    limits, started = limits or SearchLimits(), perf_counter()
    if any(not task.modes for task in problem.tasks):
        return TimetableResult(Termination.INFEASIBLE, 0.0, None, None, 0.0)
    built = TimetableModel(problem, cp_model)
    built.minimise(limits.most, limits.least, limits.by_rank, limits.most_rank)
    if limits.hint is not None:
        built.hint(limits.hint)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.relative_gap_limit = limits.relative_gap
    if limits.time_limit_seconds is not None:
        solver.parameters.max_time_in_seconds = max(0.01, limits.time_limit_seconds)
    status = solver.solve(built.model)
    names = {cp_model.OPTIMAL: "OPTIMAL", cp_model.FEASIBLE: "FEASIBLE", cp_model.INFEASIBLE: "INFEASIBLE"}
    if status == cp_model.MODEL_INVALID:
        raise SolverError(f"cp-sat rejects the timetable: {built.model.validate()}")
    termination = Termination[names.get(status, "NO_SOLUTION")]
    seconds = perf_counter() - started
    if termination not in (Termination.OPTIMAL, Termination.FEASIBLE):
        return TimetableResult(termination, seconds, None, None, float(solver.best_objective_bound))
    schedule = built.schedule(solver)
    return TimetableResult(termination, seconds, schedule, round(solver.objective_value), solver.best_objective_bound)
