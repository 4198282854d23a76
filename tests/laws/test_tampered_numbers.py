"""No number of a plan can be changed unseen, whatever options the scenario has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from tests.helpers.bare_plans import plan_if_any
from tests.helpers.stage_scenarios import library, read
from tests.helpers.tampered_plans import Path, audited_leaves, evaluate_once, with_value
from tests.laws.test_pairs_of_options import FACTORS, OPTIONS, Row, scenario_data

PLANS = 3


def drawn_plans(seed: int, count: int) -> list[tuple[Scenario, Plan]]:
    """Scenarios of a few options each, with their plans."""
    chance, found = random.Random(seed), list[tuple[Scenario, Plan]]()
    while len(found) < count:
        row: Row = {}
        for name, values in FACTORS.items():
            row[name] = chance.randrange(len(values)) if chance.random() < 0.2 or name[1] == "paid" else 0
        try:
            asked = read(scenario_data(row))
            plan = plan_if_any(asked, OPTIONS, library())
        except ScenarioError:
            continue
        if plan.jobs:
            found.append((asked, plan))
    return found


def numbers(plan: Plan) -> list[tuple[Path, float]]:
    """Every number of a plan that the audit has to know, with its path."""
    data, found = plan.model_dump(), []
    for path in audited_leaves(plan):
        value: Any = data
        for key in path:
            value = value[key]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append((path, value))
    return found


def changed(plan: Plan, path: Path, value: float) -> Plan | None:
    """The plan with another number at a path; None where its types refuse that already."""
    try:
        return Plan.model_validate(with_value(plan.model_dump(), path, value))
    except ValueError:
        return None


def missed(asked: Scenario, plan: Plan, first: int) -> list[str]:
    """The numbers that may be changed by two percent and a little without a word of the audit.

    They go up and down in turn; those that their types refuse to change so go the other way.
    """
    found = []
    for place, (path, value) in enumerate(numbers(plan), first):
        step = (1 if isinstance(value, int) else 0.02 * abs(value) + 0.02) * (-1) ** place
        tries = ((other, changed(plan, path, other)) for other in (value + step, value - step))
        other, wrong = next((one for one in tries if one[1] is not None), (value, None))
        if wrong is not None and not audit(wrong, asked, library()):
            found.append(f"{'.'.join(map(str, path))}: {value} -> {other}")
    return found


@pytest.mark.long
def test_every_number_that_is_changed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fallbacks, waiting rules and steps before a plan among them."""
    plans = drawn_plans(seed=3, count=PLANS)
    evaluate_once(monkeypatch)
    assert [missed(asked, plan, number) for number, (asked, plan) in enumerate(plans)] == [[] for _ in plans]
