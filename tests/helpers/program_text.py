"""A mixed-integer program as text like an LP file."""

from __future__ import annotations

import math

import numpy as np

from planner.arrays import Floats, Integers
from planner.formulation.program import Program


def program_text(program: Program) -> str:
    """Return the program as text like an LP file, one row or bound a line, for reading and for golden tests."""
    names = [program.variable_name(i) for i in range(program.size)]
    everything = np.arange(program.size)
    lines = ["minimise", f"  {_sum(names, everything, program.cost, program.offset)}", "subject to"]
    for rows in program.rows:
        for row in rows:
            body = _sum(names, row.columns, row.coefficients)
            lines.append(f"  {row.name}: {_between(row.lower, body, row.upper)}")
    lines.append("bounds")
    lines += [
        f"  {_between(float(lower), name, float(upper))}"
        for name, lower, upper, integer in zip(names, program.lower, program.upper, program.integer, strict=True)
        if not integer or (lower, upper) != (0.0, 1.0)
    ]
    lines.append("integer")
    lines += [f"  {name}" for name, integer in zip(names, program.integer, strict=True) if integer]
    return "\n".join(lines) + "\n"


def _sum(names: list[str], columns: Integers, coefficients: Floats, offset: float = 0.0) -> str:
    terms = [
        f"{'-' if value < 0 else '+'} {abs(value):.9g} {names[column]}"
        for column, value in zip(columns, coefficients, strict=True)
        if value
    ]
    if offset:
        terms.append(f"{'-' if offset < 0 else '+'} {abs(offset):.9g}")
    return " ".join(terms).removeprefix("+ ") or "0"


def _between(lower: float, body: str, upper: float) -> str:
    if lower == upper:
        return f"{body} = {lower:.9g}"
    left = f"{lower:.9g} <= " if lower > -math.inf else ""
    right = f" <= {upper:.9g}" if upper < math.inf else ""
    return f"{left}{body}{right}" if left or right else f"{body} free"
