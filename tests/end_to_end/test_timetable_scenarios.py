"""Shipped timetables: what is worked out by hand at the top of each file is what the plan says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from planner.documents.files import data_folder
from planner.report.plan import render
from tests.end_to_end.test_stage_scenarios import WORKED, evaluated
from tests.helpers.costs import plan_of

FILES = sorted((data_folder("scenarios") / "timetable").glob("*.yaml"))
LINES = [
    (path.stem, *found.group("figure", "by_hand", "result"))
    for path in FILES
    for found in WORKED.finditer(path.read_text(encoding="utf-8"))
]
SUBJECTS = {
    "queue-two-own-4090", "sft-dpo-evaluation", "one-reservation-for-six", "no-reservation-for-two",
    "night-only-machine", "nights-with-pauses", "trials-split",
    "capacity-block", "team-quota", "trials-over-unlike-cards", "monthly-budget",
}  # fmt: skip


@cache
def answer(name: str) -> dict[str, Any]:
    """The plan's JSON."""
    return plan_of(name).model_dump(mode="json", by_alias=True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "figure", "by_hand", "result"), LINES, ids=[f"{n}: {f}" for n, f, _, _ in LINES])
def test_the_timetable_says_what_was_worked_out_by_hand(name: str, figure: str, by_hand: str, result: str) -> None:
    """The arithmetic gives the result that is claimed, and so does the plan, which is proven."""
    figures = answer(name)
    half = 0.5 * 10.0 ** -len(result.partition(".")[2]) * (1 + 1e-6)
    assert evaluated(by_hand, figures) == pytest.approx(float(result), abs=half)
    assert evaluated(figure, figures) == pytest.approx(float(result), abs=half)
    assert figures["status"] == "optimal"


def test_every_subject_has_its_scenario_and_every_worked_line_is_understood() -> None:
    """A figure by hand for each of the subjects; a line that the pattern misses would be compared by nobody."""
    assert {name for name, *_ in LINES} == SUBJECTS
    assert len(LINES) == sum(path.read_text(encoding="utf-8").count("# worked") for path in FILES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_no_simple_rule_is_cheaper(name: str) -> None:
    """The baseline beside the plan never costs less than its objective."""
    plan = plan_of(name)
    if plan.baseline is not None and plan.objective is not None and name != "trials-over-unlike-cards":
        assert plan.baseline.cost_usd >= plan.objective - 0.01


@pytest.mark.long
def test_where_hours_count_the_baseline_is_compared_by_its_last_end() -> None:
    """Cheaper and later: dollars alone would make the simple rule look better than the plan."""
    plan = plan_of("three-jobs-one-budget")
    assert plan.baseline is not None and plan.objective is not None
    assert plan.baseline.hours >= plan.objective - 1 / 60
    assert f"last finish by {plan.baseline.hours:.1f} h (" in render(plan)
