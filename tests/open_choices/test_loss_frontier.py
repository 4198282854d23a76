"""Loss against dollars: falling, no worse than the plan of each budget, drawn and printed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.open_choices.model_choice_text import render_loss_frontier
from planner.open_choices.open_solve import loss_frontier, note_on_missed
from planner.report.any_result import draw_file
from planner.results.subject_runs import LossFrontier
from planner.solving.solve import solve
from tests.helpers.open_scenarios import BATCH, OPEN


@cache
def frontier_of_open() -> LossFrontier:
    return loss_frontier(parse_scenario(OPEN), points=5)


@pytest.mark.slow
def test_more_dollars_buy_a_lower_loss() -> None:
    """Points rise in dollars and fall in loss, and end at the budget of the scenario."""
    points = frontier_of_open().points
    assert len(points) == 4, "the least of five budgets pays for no run that the law has seen"
    assert [one.budget_usd for one in points] == sorted(one.budget_usd for one in points)
    assert [one.loss for one in points] == sorted((one.loss for one in points), reverse=True)
    assert points[-1].budget_usd == pytest.approx(100)


@pytest.mark.slow
def test_a_point_is_the_plan_of_its_budget() -> None:
    """Solved alone, the same model and tokens are found."""
    point = frontier_of_open().points[2]
    plan = solve(parse_scenario(OPEN.replace("budget_usd: 100", f"budget_usd: {point.budget_usd}")))
    model = plan.jobs[0].model
    assert model is not None and model.loss is not None
    assert model.loss.value == pytest.approx(point.loss, abs=1e-3)


@pytest.mark.slow
def test_the_frontier_is_printed_and_drawn(tmp_path: Path) -> None:
    """A row per budget in 80 columns, and a picture."""
    found = frontier_of_open()
    text = render_loss_frontier(found)
    assert len([line for line in text.splitlines() if "H100-80GB" in line]) == len(found.points)
    assert max(map(len, text.splitlines())) <= 80
    draw_file(found, tmp_path / "loss.svg", text.splitlines())
    drawn = (tmp_path / "loss.svg").read_text(encoding="utf-8")
    assert drawn.count("<circle") >= len(found.points) and "loss, nats per token" in drawn
    assert all(one.architecture in drawn for one in found.points)


@pytest.mark.parametrize("text", [BATCH, OPEN.replace("limits: {budget_usd: 100}", "limits: {max_gpus: 8}")])
def test_a_frontier_of_loss_needs_a_budget_and_a_model_to_choose(text: str) -> None:
    """The fault names the key."""
    if "best" in text:
        text = text.replace("kind: pretrain", "kind: pretrain\n    deadline: 1d")
    with pytest.raises(ScenarioError, match=r"objective|limits\.budget_usd"):
        loss_frontier(parse_scenario(text))


def test_a_budget_without_a_point_is_named() -> None:
    """Not only left out: whoever asked for it sees that it has no plan."""
    assert note_on_missed([]) == ()
    (note,) = note_on_missed([400.0, 12.5])
    assert note.startswith("no point for $12.50, $400.00:")
