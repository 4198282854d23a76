"""The equations of the program: what the docstrings say, and the table of them in the documents."""

from __future__ import annotations

import importlib
import inspect
import re

from planner.candidates import deadline

TABLE = "docs/equations.md"
"""The document that holds the table."""

ROW = re.compile(r"^(\| [a-z ]+ \| `)([^`]+)(` \| `([\w./]+)` \|)$", re.MULTILINE)
DEADLINE = "planner/candidates/deadline.py"
"""The module whose first line is the equation of the deadline: a filter of candidates, and no row."""


def known_equations() -> dict[str, str]:
    """Return the equation of the deadline, by file, and of every constraint family and objective, by function.

    The equation is the second paragraph of the docstring of a function; that of the deadline is the first line of its
    module.
    """
    found = {DEADLINE: (deadline.__doc__ or "").splitlines()[0].removesuffix(".")}
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
