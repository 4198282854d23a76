"""The report, the pictures and the page of a plan of kind rl."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import planner
from planner.analysis.overview import overview
from planner.cli import main
from planner.drawing.scene import Rect
from planner.reinforcement.rl_page import step_figure
from planner.report.report_page import render_page
from planner.scenario.scenario import SolveOptions
from planner.web.workers import Engine
from tests.reinforcement.test_rl_solve import LIBRARY, run_of, scenario, solved

if TYPE_CHECKING:
    from pathlib import Path

    from planner.results.subject_runs import RlRun
    from planner.scenario.scenario import Scenario


def _small(**job: Any) -> Scenario:
    return scenario({"max_gpus": 4}, deadline="4h", **job)


@pytest.mark.long
def test_a_report_has_the_first_line_step_ways_frontier_bill_and_what_binds() -> None:
    """All analyses but the tornado, each with its figure; every amount of the bill has its row."""
    found = overview(_small(), library=LIBRARY, runs=100)
    page = render_page(found)
    run = run_of(found.plan)
    assert set(found.skipped) == {"tornado"}
    for key in ("step", "ways", "frontier", "bill", "memory", "changes", "cost-runs", "hours-runs"):
        assert f'id="figure-{key}"' in page
    assert str(found.plan).partition("\n")[0].partition(": ")[2][:40] in page
    assert "Binds" in page
    amounts = re.findall(r"<td>math</td>.*?</tr>", page)
    assert len([row for row in amounts if "$" in row]) >= len([line for line in run.bill if line.usd >= 0.005])
    assert "planner what-if --tornado" in page


@pytest.mark.slow
def test_a_report_of_a_scenario_without_a_plan_has_the_least_changes() -> None:
    """As of any job: why there is none, and the settings."""
    found = overview(scenario({"max_gpus": 4}, deadline="30m"), library=LIBRARY)
    assert not found.plan.planned
    assert "--set jobs.math.deadline=" in render_page(found)


@pytest.mark.slow
def test_the_command_writes_the_step_alone_as_a_picture(tmp_path: Path) -> None:
    """The timetable of such a plan is its step; `solve --plot` draws it too."""
    saved, drawn = tmp_path / "plan.json", tmp_path / "step.svg"
    saved.write_text(solved(_small()).model_dump_json())
    said = CliRunner().invoke(main, ["report", str(saved), "--figure", "timetable", "-o", str(drawn)])
    assert said.exit_code == 0, said.output
    assert "training" in drawn.read_text()


def _rects(run: RlRun) -> list[tuple[str, float]]:
    """Return notes and widths of the stretches of the step of a run."""
    draw = step_figure(run).draw
    assert draw is not None
    return [(shape.note, shape.width) for shape in draw(840.0).shapes if isinstance(shape, Rect) and ":" in shape.note]


@pytest.mark.slow
def test_stretches_of_a_step_are_as_long_as_their_phases() -> None:
    """In turn on all GPUs one lane; two sides overlapped, one that waits."""
    run = run_of(solved(scenario({"max_gpus": 2})))
    widths = dict(_rects(run))
    rollout, training = (
        next(width for note, width in widths.items() if note.startswith(name)) for name in ("rollout", "training")
    )
    assert rollout / training == pytest.approx(run.phases["rollout"] / run.phases["training"], rel=0.1)
    apart = run.model_copy(update={"placement": "apart", "overlapped": False})
    assert sum(note.startswith("new weights") for note, _ in _rects(apart)) == 2


@pytest.mark.long
def test_the_page_shows_a_plan_its_changes_and_its_curve() -> None:
    """Every request of the page is answered: nothing of an internal error, a new deadline changes the rows."""
    engine = Engine(_small(), SolveOptions(as_of=datetime.date(2026, 11, 21)))
    asked = {"task": "plan", "reference": [], "settings": [], "width": 700.0}
    first = engine.answer({**asked, "brief": True})
    assert first["headline"].endswith("h")
    assert first["figures"][0]["key"] == "step"
    assert engine.answer({**asked, "settings": ["jobs.0.work.steps=400"], "brief": True}) == {"later": True}
    changed = engine.answer({**asked, "settings": ["jobs.0.work.steps=400"]})
    cost = next(row for row in changed["change"]["rows"] if row[0] == "cost")
    assert cost[1] != cost[2]
    assert engine.answer({"task": "frontier", "settings": [], "width": 700.0})["data"]["points"]
    assert engine.answer({"task": "others", "settings": []}) == {"rows": []}
    assert "placement" in engine.answer({"task": "why", "settings": [], "query": "placement=colocated"})["text"]
    assert planner.Plan.from_json(engine.answer({"task": "file", "settings": [], "file": "plan"})["text"]).reinforcement
