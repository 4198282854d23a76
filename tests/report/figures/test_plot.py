"""`planner.plot`: a picture of every result, as a notebook shows it and as a file."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import NoPlanError, ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.open_choices.open_solve import loss_frontier
from planner.report.any_result import SCENES, Picture, plot
from planner.results.plan import Plan
from planner.results.run_results import Estimate
from planner.services.service_changes import service_frontier
from tests.helpers import run_logs
from tests.helpers.open_scenarios import OPEN
from tests.helpers.record import PICTURES, ROOT
from tests.helpers.scenarios_what_if import OPTIONS, SMALL, TWO, small
from tests.helpers.services import SERVICE_FILE

COLUMN_POINTS = 80 / 25.4 * 72
"""Width of a column of 80 mm."""
LEAST_POINTS = 5.0
"""Height of letters that are still read in print."""


def _explained(_: Path) -> Any:
    return planner.explain(small(), options=OPTIONS)


def _market(folder: Path) -> Any:
    trace = folder / "trace.json"
    counts = [up for stay in range(1, 61) for up in [1] * (20 + 7 * stay % 60) + [0] * (3 + stay % 9)]
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": counts}), encoding="utf-8")
    return planner.market_fit(trace)


def _calibrated(folder: Path) -> Any:
    log = folder / "log.txt"
    log.write_text(run_logs.torchtitan(range(10, 301, 10), 16.0), encoding="utf-8")
    text = SMALL.replace("techniques: {method: lora}", "global_batch: 64\n    techniques: {method: lora}")
    return planner.calibrate([str(log)], "RTX3090", scenario=parse_scenario(text), options=OPTIONS, method="lora")


def _tracked(folder: Path) -> Any:
    plan = planner.solve(small(), OPTIONS)
    log = folder / "log.txt"
    log.write_text(run_logs.torchtitan(range(10, 101, 10), 20.0), encoding="utf-8")
    return planner.track(plan, small(), [str(log)], options=OPTIONS)


RESULTS: dict[str, Callable[[Path], Any]] = {
    "Plan": lambda _: planner.solve(small(), OPTIONS),
    "Frontier": lambda _: planner.frontier(small(), OPTIONS),
    "LossFrontier": lambda _: loss_frontier(parse_scenario(OPEN), points=4),
    "ServiceFrontier": lambda _: service_frontier(parse_scenario(SERVICE_FILE), OPTIONS, points=3),
    "ServiceSimulation": lambda _: planner.simulate_service(parse_scenario(SERVICE_FILE), options=OPTIONS, runs=50),
    "Simulation": lambda _: planner.simulate(small(), options=OPTIONS, runs=50),
    "WhatIf": lambda _: planner.what_if(small(), ["jobs.bot.deadline=5h"], OPTIONS),
    "Sweep": lambda _: planner.sweep(small(), ["jobs.bot.deadline=[5h, 20h]"], options=OPTIONS),
    "Tornado": lambda _: planner.tornado(small(), OPTIONS),
    "Estimate": lambda _: planner.estimate("tinyllama-1.1b", "RTX3090", method="lora"),
    "InferenceEstimate": lambda _: _inference(),
    "Explanation": _explained,
    "MarketFit": _market,
    "CalibrationResult": _calibrated,
    "Tracking": _tracked,
    "ManyVariants": lambda folder: planner.run_sweep(
        small(), ["jobs.bot.deadline=[5h, 20h]"], str(folder / "rows.jsonl"), options=OPTIONS, workers=1
    ),
}
"""A result of every type that has a picture."""


def _inference() -> Any:
    from planner.generation.generation_estimate import estimate_inference

    return estimate_inference("tinyllama-1.1b", "RTX3090", input=500, output=100)


def texts(svg: str) -> str:
    return " ".join(part.strip() for part in ET.fromstring(svg).itertext() if part.strip())


def test_every_drawable_type_has_a_result_here() -> None:
    """A new picture joins the cases below."""
    assert set(RESULTS) == {one.__name__ for one in SCENES}


HEAVY = {"Tornado", "Simulation", "ServiceSimulation", "ServiceFrontier", "CalibrationResult"}
"""Results that take over 2 s."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.long) if one in HEAVY else one for one in RESULTS]
)
def test_a_result_is_a_picture_in_a_notebook_and_as_a_file(name: str, tmp_path: Path) -> None:
    """SVG that is well formed, has words in it, and equals the file's; every other format too."""
    result = RESULTS[name](tmp_path)
    assert type(result).__name__ == name
    picture = plot(result)
    assert isinstance(picture, Picture)
    assert picture._repr_svg_() == picture.svg and len(texts(picture.svg)) > 20
    assert plot(result, tmp_path / "picture.svg") is None
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == picture.svg
    for suffix, start in {"png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!doctype html>"}.items():
        plot(result, tmp_path / f"picture.{suffix}")
        assert (tmp_path / f"picture.{suffix}").read_bytes().startswith(start)


def test_what_cannot_be_drawn_is_refused_in_one_line(tmp_path: Path) -> None:
    """Another object, an infeasible plan, a format that does not exist."""
    with pytest.raises(TypeError, match="str has no picture"):
        plot("a plan")
    with pytest.raises(ScenarioError, match="use simulate_service"):
        planner.simulate(parse_scenario(SERVICE_FILE), options=OPTIONS)
    infeasible = planner.solve(change_scenario(small(), ["limits.budget_usd=0.01"]), OPTIONS)
    with pytest.raises(NoPlanError, match="nothing to draw"):
        plot(infeasible)
    with pytest.raises(ScenarioError, match="use one of"):
        plot(planner.estimate("tinyllama-1.1b", "RTX3090"), tmp_path / "picture.gif")
    assert not list(tmp_path.iterdir())


def test_names_are_text_in_a_picture(tmp_path: Path) -> None:
    """Markup in a name stays a name, in the picture of a notebook and in its table."""
    hostile = '<script>alert("1")</script>'
    plan = planner.solve(parse_scenario(SMALL), OPTIONS)
    renamed = plan.model_copy(update={"jobs": (plan.jobs[0].model_copy(update={"name": hostile}),)})
    for shown in (renamed._repr_html_(), plot(renamed).svg):  # type: ignore[union-attr]
        assert "<script" not in shown
    assert "&lt;script&gt;" in renamed._repr_html_()


@pytest.mark.slow
def test_plan_frontier_and_timetable_show_a_small_picture_in_a_notebook() -> None:
    """A bill for one job, lanes for jobs that take turns, a curve for a frontier; each under 30 kB."""
    frontier = planner.frontier(small(), OPTIONS)
    taking_turns = TWO.replace(
        "    techniques: {method: lora}\noffers", "    after: [bot]\n    techniques: {method: lora}\noffers"
    )
    shown = {
        "Bill": planner.solve(small(), OPTIONS),
        "Timetable": planner.solve(parse_scenario(taking_turns), OPTIONS),
        "Cost against time": frontier,
    }
    for title, result in shown.items():
        page = result._repr_html_()
        (svg,) = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        assert title in texts(svg) and len(svg) < 30_000
        assert "<table>" in page
    assert isinstance(shown["Timetable"], Plan) and shown["Timetable"].is_timetable


@pytest.mark.parametrize("picture", sorted(PICTURES))
def test_recorded_pictures_are_legible_at_80_mm(picture: str) -> None:
    """Reduced to the width of a column, the smallest letters are five points high."""
    svg = (ROOT / picture).read_text(encoding="utf-8")
    width = float(re.search(r'<svg[^>]* width="([\d.]+)"', svg)[1])  # type: ignore[index]
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)]
    assert sizes and min(sizes) * COLUMN_POINTS / width >= LEAST_POINTS


def test_an_estimate_shows_what_fits() -> None:
    """The figures of the memory are those of the estimate."""
    found = planner.estimate("tinyllama-1.1b", "RTX3090", method="lora")
    assert isinstance(found, Estimate)
    shown = texts(plot(found).svg)  # type: ignore[union-attr]
    assert f"{found.vram_gib.peak:.1f} of {found.vram_gib.usable:.1f} GiB" in shown and "fits" in shown
