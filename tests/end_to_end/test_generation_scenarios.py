"""Shipped scenarios of generation: what is worked out by hand at their top is what the plan on frozen prices says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from planner.documents.files import data_folder
from tests.end_to_end.test_stage_scenarios import WORKED, evaluated
from tests.helpers.costs import plan_of

pytestmark = pytest.mark.long

FILES = sorted((data_folder("scenarios") / "generation").glob("*.yaml"))
LINES = [(path.stem, *found.groups()) for path in FILES for found in WORKED.finditer(path.read_text(encoding="utf-8"))]


@cache
def answer(name: str) -> dict[str, Any]:
    """The plan's JSON: figures of the first job at the top, next to `jobs`."""
    plan = plan_of(name).model_dump(mode="json", by_alias=True)
    return {**plan["jobs"][0], "jobs": plan["jobs"]}


@pytest.mark.parametrize(("name", "figure", "by_hand", "result"), LINES, ids=[f"{n}: {f}" for n, f, _, _ in LINES])
def test_the_plan_says_what_was_worked_out_by_hand(name: str, figure: str, by_hand: str, result: str) -> None:
    """The arithmetic gives the result that is claimed, and so does the plan, to the last decimal that is written."""
    half = 0.5 * 10.0 ** -len(result.partition(".")[2]) * (1 + 1e-6)
    assert evaluated(by_hand, {}) == pytest.approx(float(result), abs=half)
    assert evaluated(figure, answer(name)) == pytest.approx(float(result), abs=half)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_scenario_has_a_figure_and_every_line_is_understood(path: Any) -> None:
    """A line that the pattern misses would be a figure that is not compared."""
    text = path.read_text(encoding="utf-8")
    assert 0 < len(WORKED.findall(text)) == text.count("# worked")
