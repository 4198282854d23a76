"""Figures that are worked out by hand at the top of a shipped scenario, and those of its plan.

A line such as `# worked: bill["gpu on demand"] = 8 * 3 * 2.00 = 48.00` holds a figure of the plan's JSON, the
arithmetic (in which names are figures of the same job), and the result with as many decimals as are claimed.
"""

from __future__ import annotations

import ast
import operator
import re
from typing import Any

import pytest

WORKED = re.compile(r"^# worked: (?P<figure>[^=]+?) = (?P<by_hand>.+) = (?P<result>-?[\d.]+)$", re.MULTILINE)
OPERATIONS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def value(node: ast.AST, figures: Any) -> Any:
    """The value of arithmetic over numbers and figures of the plan; nothing else is understood."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return figures[node.id]
    if isinstance(node, ast.Attribute):
        return value(node.value, figures)[node.attr]
    if isinstance(node, ast.Subscript):
        return value(node.value, figures)[value(node.slice, figures)]
    if isinstance(node, ast.BinOp):
        return OPERATIONS[type(node.op)](value(node.left, figures), value(node.right, figures))
    raise ValueError(f"no arithmetic: {ast.dump(node)}")


def evaluated(text: str, figures: Any) -> float:
    """The number of an expression in a `worked` line."""
    return float(value(ast.parse(text, mode="eval").body, figures))


def check_worked(text: str, figures: Any) -> None:
    """Check every such line of a file: the arithmetic gives the result that is claimed, and so does the plan."""
    for figure, by_hand, result in WORKED.findall(text):
        half = 0.5 * 10.0 ** -len(result.partition(".")[2]) * (1 + 1e-6)
        assert evaluated(by_hand, figures) == pytest.approx(float(result), abs=half), figure
        assert evaluated(figure, figures) == pytest.approx(float(result), abs=half), figure
