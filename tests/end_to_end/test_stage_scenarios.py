"""One shipped scenario per stage, fee and way to pay: what is worked out by hand at its top is what the plan says.

A line such as `# worked: bill["gpu on demand"] = 8 * 3 * 2.00 = 48.00` holds a figure of the plan's JSON, the
arithmetic (in which names are figures of the same job), and the result with as many decimals as are claimed.
"""

from __future__ import annotations

import ast
import operator
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.documents.files import data_folder
from tests.helpers.costs import plan_of

FOLDER = data_folder("scenarios") / "whole-job"
WORKED = re.compile(r"^# worked: (?P<figure>[^=]+?) = (?P<by_hand>.+) = (?P<result>-?[\d.]+)$", re.MULTILINE)
FILES = sorted(path for path in FOLDER.glob("*.yaml") if "# worked:" in path.read_text(encoding="utf-8"))
LINES = [
    (path.stem, *found.group("figure", "by_hand", "result"))
    for path in FILES
    for found in WORKED.finditer(path.read_text(encoding="utf-8"))
]
OPERATIONS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
SUBJECTS = {
    "stages": (
        "stage-ingest", "stage-transfer", "stage-load-quantised", "stage-evaluation-one-gpu", "stage-evaluation-cpu",
        "stage-checkpoints", "stage-export", "export-gguf", "stage-retention", "stage-slow-storage",
    ),
    "trials": ("trials-sequential", "trials-side-by-side", "trials-halving", "early-stopping"),
    "fees": ("fee-egress", "fee-ingress", "fee-storage", "fee-minimum-hours", "fee-billing-step"),
    "payments": (
        "pay-commitment", "pay-commitment-upfront", "pay-hours-left", "pay-own-machine", "pay-managed-tokens",
        "pay-managed-run", "pay-community-and-secure",
    ),
    "confidence": ("confidence-budget", "confidence-deadline"),
}  # fmt: skip


@cache
def answer(name: str) -> dict[str, Any]:
    """The plan's JSON: figures of the one job at the top, next to `jobs`; its bill by item."""
    plan = plan_of(name).model_dump(mode="json", by_alias=True)
    for job in plan["jobs"]:
        job["bill"] = {line["item"]: line["usd"] for line in job["bill"]}
    return {**plan["jobs"][0], "jobs": plan["jobs"]}


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


@pytest.mark.parametrize(("name", "figure", "by_hand", "result"), LINES, ids=[f"{n}: {f}" for n, f, _, _ in LINES])
def test_the_plan_says_what_was_worked_out_by_hand(name: str, figure: str, by_hand: str, result: str) -> None:
    """The arithmetic gives the result that is claimed, and so does the plan, to the last decimal that is written."""
    figures = answer(name)
    half = 0.5 * 10.0 ** -len(result.partition(".")[2]) * (1 + 1e-6)
    assert evaluated(by_hand, figures) == pytest.approx(float(result), abs=half)
    assert evaluated(figure, figures) == pytest.approx(float(result), abs=half)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_worked_line_is_understood(path: Path) -> None:
    """A line that the pattern misses would be a figure that is not compared; dollars have cents, hours two decimals."""
    text = path.read_text(encoding="utf-8")
    lines = WORKED.findall(text)
    assert len(lines) == text.count("# worked")
    assert all(len(result.partition(".")[2]) >= 2 for _, _, result in lines)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_stage_fee_and_way_to_pay_has_its_scenario(subject: str) -> None:
    """The list of what the whole bill holds, and a hand-worked figure for each entry."""
    worked = {name for name, *_ in LINES}
    assert worked >= set(SUBJECTS[subject])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_invented_price_is_called_one(path: Path) -> None:
    """An invented price is marked as one; a real one has its date."""
    below = path.read_text(encoding="utf-8").partition("offers:")[2]
    offers = re.findall(r"^  - (?:\{.*\}|.*(?:\n    .*)*)", below, re.MULTILINE)
    assert offers
    for offer in offers:
        assert ("illustration, not a price" in offer) != ("date:" in offer), offer
