"""One small scenario for each decision that a plan takes by default, and what the plan is without it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from planner.documents.files import data_folder
from planner.loading.scenario_file import read_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.costs import AS_OF

FILES = {path.stem: path for path in sorted((data_folder("scenarios") / "decisions").glob("*.yaml"))}
CHANGED = re.compile(r"^# changed by: (?P<setting>\S+=.*?): (?P<what>[a-z_ ,]+)$", re.MULTILINE)
LINES = [
    (name, *found.group("setting", "what"))
    for name, path in FILES.items()
    for found in CHANGED.finditer(path.read_text(encoding="utf-8"))
]
SUBJECTS = {
    "memory-confidence", "budget-confidence", "framework-default", "price-age", "near-tie", "spot-waiting",
    "optimizer-default", "interconnect-unknown", "deadline-as-date", "spot-zones",
    "buy-or-rent", "two-fallbacks",
}  # fmt: skip
NOTICEABLE = 1e-3
"""Share by which figures differ at least, and below which they are the same."""


@cache
def plan_of(path: Path, *settings: str) -> Plan:
    """Return the plan of a scenario under some settings."""
    return solve(read_scenario(path, settings), SolveOptions(as_of=AS_OF))


def figure(plan: Plan, name: str) -> float:
    found = getattr(plan, name)
    assert found is not None
    return float(found if isinstance(found, float) else found.expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting", "what"), LINES, ids=[f"{name}: {setting}" for name, setting, _ in LINES])
def test_a_decision_shows_in_the_plan(name: str, setting: str, what: str) -> None:
    """What the file says of a setting holds: dollars and hours are less, more, no less or the same under it."""
    by_default, changed = plan_of(FILES[name]), plan_of(FILES[name], setting)
    assert by_default.status == "optimal"
    if what == "infeasible":
        assert changed.status == "infeasible"
        return
    for part in what.split(", "):
        figure_name, _, relation = part.partition(" ")
        ratio = figure(changed, figure_name) / figure(by_default, figure_name)
        holds = {
            "less": ratio < 1 - NOTICEABLE,
            "more": ratio > 1 + NOTICEABLE,
            "no less": ratio > 1 - 1e-9,
            "same": abs(ratio - 1) < 1e-9,
        }
        assert holds[relation], f"{figure_name} is {ratio:.4f} times that of the plan"


def test_every_decision_has_its_scenario_and_every_line_is_understood() -> None:
    """A line that the pattern misses would be compared by nobody."""
    assert {name for name, *_ in LINES} == SUBJECTS == set(FILES)
    assert len(LINES) == sum(path.read_text(encoding="utf-8").count("# changed by") for path in FILES.values())


@pytest.mark.slow
def test_plans_name_what_was_decided() -> None:
    """The riskier plan with its setting, the price that is too old, the link that was assumed, the least cost."""
    assert plan_of(FILES["memory-confidence"]).jobs[0].cheaper_at_risk
    assert any("2026-04" in note for note in plan_of(FILES["price-age"]).jobs[0].notes)
    assert any("PCIe assumed" in note for note in plan_of(FILES["interconnect-unknown"]).jobs[0].notes)
    tie = plan_of(FILES["near-tie"])
    assert tie.least_cost_usd is not None
    assert tie.least_cost_usd < figure(tie, "cost_usd")
    spot = plan_of(FILES["spot-waiting"]).jobs[0].spot
    assert spot is not None
    assert spot.waiting_usd_per_hour > 0
