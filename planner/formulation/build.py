"""Build the mixed-integer program of a candidate table: every family of rows and the objective."""

from __future__ import annotations

from planner.formulation.constraints import FAMILIES
from planner.formulation.objective import cost_objective, time_objective
from planner.formulation.program import Program, VariableLayout


def build_program(columns: VariableLayout) -> Program:
    """Return the program of the first pass: every family of rows, and the objective of the scenario."""
    lower, upper, integer = columns.bounds()
    objective = time_objective if columns.shared.objective == "time" else cost_objective
    return Program(
        lower=lower,
        upper=upper,
        integer=integer,
        cost=objective(columns),
        rows=tuple(rows for family in FAMILIES for rows in family(columns)),
        variable_name=columns.name,
    )
