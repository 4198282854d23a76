"""The best timetable: a greedy one as hint and baseline, the search, and a pass for the earliest ends."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner.errors import SolverError
from planner.formulation.timetable.problem import UNITS_PER_USD, Schedule, Timetable, objective_value, violations
from planner.records import record
from planner.solvers.base import Termination
from planner.solvers.cp_sat_timetable import SearchLimits, solve_timetable
from planner.solving.timetable.build import ending_by
from planner.solving.timetable.greedy import baseline, best_greedy
from planner.solving.timetable.search import TimetableSearch

if TYPE_CHECKING:
    from planner.scenario.scenario import SolveOptions

DEFAULT_SECONDS = 60.0
"""Time limit of the search where none is given; a plan that is not proven by then states its gap."""
TIE_SECONDS = 5.0
"""Time limit of the pass that breaks ties: any timetable of the same cost is as good."""
PROVEN_GAP = 1e-7


@record(frozen=True)
class SolvedTimetable:
    """A schedule with its proof; `bound` is in the units of the objective, None where nothing is proven."""

    termination: Termination
    schedule: Schedule | None
    bound: float | None
    baseline: tuple[str, float, float] | None  # name, dollars and last end (h) of the better timetable by a simple rule


def solve_schedule(problem: Timetable, options: SolveOptions) -> SolvedTimetable:
    """Return the best schedule within the time limit and the gap of the options."""
    seconds = DEFAULT_SECONDS if options.time_limit_seconds is None else options.time_limit_seconds
    stop = perf_counter() + seconds
    if any(not task.modes for task in problem.tasks):
        return SolvedTimetable(Termination.INFEASIBLE, None, None, None)
    simple = baseline(problem)
    named = None if simple is None else (simple[0], _dollars(problem, simple[1]), _last_hours(problem, simple[1]))
    search = TimetableSearch(problem, best_greedy(problem), max(options.gap, PROVEN_GAP))
    search.improve(seconds)
    if search.schedule is None:
        return SolvedTimetable(search.termination, None, None, named)
    found = _break_ties(search, max(0.1, min(TIE_SECONDS, stop - perf_counter())), search.gap)
    if broken := violations(problem, found):
        raise SolverError("the timetable breaks its own rules: " + "; ".join(broken[:5]))
    return SolvedTimetable(search.termination, found, search.bound, named)


def _break_ties(search: TimetableSearch, seconds: float, gap: float) -> Schedule:
    """Return a schedule with the same objective: cheaper where time was minimised, of better ranks, ending earlier."""
    if search.problem.objective == "last":
        assert search.schedule is not None
        problem = ending_by(search.problem, objective_value(search.problem, search.schedule))
        search = TimetableSearch(problem, search.schedule, gap)
        search.improve(seconds)
    known = search.known
    assert known is not None
    reduced = search.reduced.problem
    most = objective_value(reduced, known)
    if _may_improve_ranks(reduced, known):
        ranked = solve_timetable(reduced, SearchLimits(seconds, hint=known, most=most, by_rank=True))
        known = ranked.schedule or known
    limits = SearchLimits(seconds, hint=known, most=most, most_rank=_rank(reduced, known))
    return search.reduced.restored(solve_timetable(reduced, limits).schedule or known)


def _rank(problem: Timetable, schedule: Schedule) -> int:
    """Return the sum of the ranks of the modes of a schedule."""
    return sum(schedule.mode(problem, index).rank for index in range(len(problem.tasks)))


def _may_improve_ranks(problem: Timetable, schedule: Schedule) -> bool:
    """Return whether a task has a mode of better rank that costs no more: without one a search is not worth it."""
    return any(
        other.rank < mode.rank and other.cost <= mode.cost
        for mode, task in ((schedule.mode(problem, index), one) for index, one in enumerate(problem.tasks))
        for other in task.modes
    )


def _dollars(problem: Timetable, schedule: Schedule) -> float:
    """Return the cost of a schedule in dollars, whatever is minimised."""
    return objective_value(replace(problem, objective="cost"), schedule) / UNITS_PER_USD


def _last_hours(problem: Timetable, schedule: Schedule) -> float:
    """Return when the last job of a schedule ends, in hours."""
    return objective_value(replace(problem, objective="last"), schedule) / 60
