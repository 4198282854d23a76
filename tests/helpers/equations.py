"""The equations of the program: what the docstrings say, and the table of them in the documents."""

from __future__ import annotations

import importlib
import inspect
import re

from planner.candidates.run_hours import max_spot_share

TABLE = "docs/equations.md"
"""The document that holds the table."""

ROW = re.compile(r"^(\| [a-z ]+ \| `)([^`]+)(` \| `([\w./]+)` \|)$", re.MULTILINE)
DEADLINE = "planner/candidates/run_hours.py"
"""The module of the equation of the deadline, at `max_spot_share`: a filter of candidates, and no row."""


def known_equations() -> dict[str, str]:
    """Return the equation of the deadline, by file, and of every constraint family and objective, by function.

    The equation is the second paragraph of the docstring of a function.
    """
    found = {DEADLINE: (inspect.getdoc(max_spot_share) or "").splitlines()[2]}
    for file, ending in (("constraints", "_rows"), ("program", "_objective")):
        module = importlib.import_module(f"planner.formulation.{file}")
        for name, function in vars(module).items():
            if name.endswith(ending) and not name.startswith("_") and function.__module__ == module.__name__:
                found[name] = " ".join(inspect.getdoc(function).splitlines()[2].split())
    return found


def shown_equations(text: str) -> dict[str, str]:
    """Return the equations in the table of a document, by function."""
    return {row[4]: row[2] for row in ROW.finditer(text)}


def with_equations(text: str) -> str:
    """Return a document whose table holds the equations of the docstrings; unknown functions stay as they are."""
    known = known_equations()
    return ROW.sub(lambda row: row[1] + known.get(row[4], row[2]) + row[3], text)
