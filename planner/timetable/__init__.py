"""Jobs over time: the door of their timetable, its program, its plan, its text and what is asked of it.

Others import this package alone, and take names from it: `timetable.without_reservations`. A module is
loaded when a name of it is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import on_first_use

if TYPE_CHECKING:
    from planner.timetable.modes import BuiltTimetable as BuiltTimetable
    from planner.timetable.modes import build_timetable as build_timetable
    from planner.timetable.modes import least_objective as least_objective
    from planner.timetable.modes import screens_of_job as screens_of_job
    from planner.timetable.modes import without_reservations as without_reservations
    from planner.timetable.timetable_problem import UNITS_PER_USD as UNITS_PER_USD
    from planner.timetable.timetable_questions import SAME_DEADLINE as SAME_DEADLINE
    from planner.timetable.timetable_questions import SLOPE_HOURS as SLOPE_HOURS
    from planner.timetable.timetable_questions import ShiftedJob as ShiftedJob
    from planner.timetable.timetable_questions import TurnProgram as TurnProgram
    from planner.timetable.timetable_questions import explain_over_time as explain_over_time
    from planner.timetable.timetable_questions import explain_timetable as explain_timetable
    from planner.timetable.timetable_questions import shared_limit_costs as shared_limit_costs
    from planner.timetable.timetable_questions import shift_timetable as shift_timetable
    from planner.timetable.timetable_result import MOST_JOBS as MOST_JOBS
    from planner.timetable.timetable_result import ReportedPlan as ReportedPlan
    from planner.timetable.timetable_result import TimetablePlan as TimetablePlan
    from planner.timetable.timetable_result import as_solved as as_solved
    from planner.timetable.timetable_result import may_cost_less_in_turn as may_cost_less_in_turn
    from planner.timetable.timetable_result import solve_as_asked as solve_as_asked
    from planner.timetable.timetable_result import solve_built_schedule as solve_built_schedule
    from planner.timetable.timetable_result import timetable_plan as timetable_plan
    from planner.timetable.timetable_text import end_text as end_text
    from planner.timetable.timetable_text import moment_text as moment_text
    from planner.timetable.timetable_text import render_timetable as render_timetable
    from planner.timetable.timetable_text import timetable_sections as timetable_sections

_NAMES_BY_MODULE = {
    "planner.timetable.modes": (
        "BuiltTimetable",
        "build_timetable",
        "least_objective",
        "screens_of_job",
        "without_reservations",
    ),
    "planner.timetable.timetable_problem": ("UNITS_PER_USD",),
    "planner.timetable.timetable_result": (
        "MOST_JOBS",
        "ReportedPlan",
        "TimetablePlan",
        "as_solved",
        "may_cost_less_in_turn",
        "solve_as_asked",
        "solve_built_schedule",
        "timetable_plan",
    ),
    "planner.timetable.timetable_questions": (
        "SAME_DEADLINE",
        "SLOPE_HOURS",
        "ShiftedJob",
        "TurnProgram",
        "explain_over_time",
        "explain_timetable",
        "shared_limit_costs",
        "shift_timetable",
    ),
    "planner.timetable.timetable_text": ("end_text", "moment_text", "render_timetable", "timetable_sections"),
}

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)
