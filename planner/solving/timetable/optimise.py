"""The best timetable: a greedy one as hint and baseline, the search, and a pass for the earliest ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner.errors import SolverError
from planner.formulation.timetable.problem import UNITS_PER_USD, Schedule, Timetable, objective_value, violations
from planner.solvers.base import Termination
from planner.solvers.cp_sat_timetable import SearchLimits, TimetableResult, solve_timetable
from planner.solving.timetable.build import ending_by
from planner.solving.timetable.greedy import baseline, best_greedy

if TYPE_CHECKING:
    from planner.scenario.scenario import SolveOptions

DEFAULT_SECONDS = 60.0
"""Time limit of the search where none is given; a plan that is not proven by then states its gap."""
TIE_SECONDS = 5.0
"""Time limit of the pass that breaks ties: any timetable of the same cost is as good."""
PROVEN_GAP = 1e-7


@dataclass(frozen=True)
class SolvedTimetable:
    """A schedule with its proof; `bound` is in the units of the objective, None where nothing is proven."""

    termination: Termination
    schedule: Schedule | None
    bound: float | None
    baseline: tuple[str, float] | None  # name and dollars of the better timetable by a simple rule


def solve_schedule(problem: Timetable, options: SolveOptions) -> SolvedTimetable:
    """Return the best schedule within the time limit and the gap of the options."""
    seconds = DEFAULT_SECONDS if options.time_limit_seconds is None else options.time_limit_seconds
    stop = perf_counter() + seconds
    if any(not task.modes for task in problem.tasks):
        return SolvedTimetable(Termination.INFEASIBLE, None, None, None)
    simple = baseline(problem)
    named = None if simple is None else (simple[0], _dollars(problem, simple[1]))
    hint = best_greedy(problem)
    first = solve_timetable(problem, SearchLimits(seconds, max(options.gap, PROVEN_GAP), hint))
    schedule, bound = first.schedule, first.bound
    if schedule is None and hint is not None and first.termination is not Termination.INFEASIBLE:
        schedule = hint
    if schedule is None:
        return SolvedTimetable(first.termination, None, None, named)
    if hint is not None and objective_value(problem, hint) < objective_value(problem, schedule):
        schedule = hint
    found = _break_ties(problem, schedule, max(0.1, min(TIE_SECONDS, stop - perf_counter())), options.gap)
    if broken := violations(problem, found):
        raise SolverError("the timetable breaks its own rules: " + "; ".join(broken[:5]))
    return SolvedTimetable(_termination(first), found, bound, named)


def _termination(first: TimetableResult) -> Termination:
    return Termination.OPTIMAL if first.termination is Termination.OPTIMAL else Termination.FEASIBLE


def _break_ties(problem: Timetable, schedule: Schedule, seconds: float, gap: float) -> Schedule:
    """Return a schedule with the same objective that is cheaper where time was minimised, and ends earlier."""
    if problem.objective == "last":
        problem = ending_by(problem, objective_value(problem, schedule))
        cheaper = solve_timetable(problem, SearchLimits(seconds, max(gap, PROVEN_GAP), schedule))
        schedule = cheaper.schedule or schedule
    most = objective_value(problem, schedule)
    earlier = solve_timetable(problem, SearchLimits(seconds, hint=schedule, most=most))
    return earlier.schedule or schedule


def _dollars(problem: Timetable, schedule: Schedule) -> float:
    """Return the cost of a schedule in dollars, whatever is minimised."""
    return objective_value(replace(problem, objective="cost"), schedule) / UNITS_PER_USD
