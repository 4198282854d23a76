"""From a candidate table and a question to a program: the table of contents of the mathematics."""

from __future__ import annotations

from planner.candidate_table import CandidateTable
from planner.formulation.constraints import FAMILIES
from planner.formulation.objective import cost_objective, time_objective
from planner.formulation.program import Program
from planner.formulation.shared_limits import Question
from planner.formulation.variables import Columns


def build_program(table: CandidateTable, question: Question) -> Program:
    """The program of the first pass: every family of rows, and the objective that was asked for."""
    return program_of(Columns(table, question))


def program_of(columns: Columns) -> Program:
    """The same from a layout that is already there."""
    lower, upper, integer = columns.bounds()
    objective = time_objective if columns.question.objective == "time" else cost_objective
    return Program(
        lower=lower,
        upper=upper,
        integer=integer,
        cost=objective(columns),
        rows=tuple(rows for family in FAMILIES for rows in family(columns)),
        variable_name=columns.name,
    )
