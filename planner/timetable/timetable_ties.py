"""What decides between timetables whose objective is a tie: better ranks, then earlier ends.

    strict   the least objective: of better ranks where that costs nothing
    near     at most a near tie above the least dollars: the least sum of ranks, then the earliest ends

A near tie counts only where both its passes are proven in time: a plan without that proof is the strict one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.solvers.base import Termination
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.modes import ending_by
from planner.timetable.timetable_problem import Schedule, Timetable, objective_value
from planner.timetable.timetable_reduction import reduce_to_cost, reduce_to_rank
from planner.timetable.timetable_search import TimetableSearch, without_spare

if TYPE_CHECKING:
    from collections.abc import Callable


def break_ties(search: TimetableSearch, left: Callable[[], float], gap: float) -> Schedule:
    """Return a schedule with the same objective: cheaper where time was minimised, of better ranks, ending earlier.

    `left` gives the seconds that each pass may take.
    """
    if search.problem.objective == "last":
        assert search.schedule is not None
        problem = ending_by(search.problem, objective_value(search.problem, search.schedule))
        search = TimetableSearch(problem, search.schedule, gap)
        search.improve(left())
    known = search.known
    assert known is not None
    reduced = search.reduced.problem
    most = objective_value(reduced, known)
    if _may_improve_ranks(reduced, known):
        ranked = solve_timetable(reduced, SearchLimits(left(), hint=known, most=most, by_rank=True))
        known = ranked.schedule or known
    limits = SearchLimits(left(), hint=known, most=most, most_rank=_rank(reduced, known))
    return search.reduced.restored(solve_timetable(reduced, limits).schedule or known)


def near_tie(problem: Timetable, strict: Schedule, room: int, left: Callable[[], float]) -> Schedule | None:
    """Return the schedule that ties prefer of those that cost at most `room` units more than the strict optimum.

    None where one of the two passes is not proven in the seconds that `left` gives it.
    """
    most = objective_value(problem, strict) + room
    cheap = reduce_to_cost(problem, most)
    known = cheap.reduced(strict)
    ranked = solve_timetable(cheap.problem, SearchLimits(left(), hint=known, most=most, by_rank=True))
    if ranked.termination is not Termination.OPTIMAL or ranked.schedule is None:
        return None
    least = _rank(cheap.problem, ranked.schedule)
    preferred = cheap.then(reduce_to_rank(cheap.problem, least))
    known = preferred.reduced(cheap.restored(ranked.schedule))
    limits = SearchLimits(left(), hint=known, most=most, most_rank=least)
    found = solve_timetable(preferred.problem, limits)
    if found.termination is not Termination.OPTIMAL or found.schedule is None:
        return None
    return without_spare(problem, preferred.restored(found.schedule))


def _rank(problem: Timetable, schedule: Schedule) -> int:
    """Return the sum of the ranks of the modes of a schedule."""
    return sum(schedule.mode(problem, index).rank for index in range(len(problem.tasks)))


def _may_improve_ranks(problem: Timetable, schedule: Schedule) -> bool:
    """Return whether a task has a mode of better rank that costs no more: without one a search is not worth it."""
    return any(
        other.rank < mode.rank and other.cost <= mode.cost
        for mode, task in ((schedule.mode(problem, index), task) for index, task in enumerate(problem.tasks))
        for other in task.modes
    )
