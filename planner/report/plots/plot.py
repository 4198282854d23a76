"""A picture of any result, for notebooks and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import write_bytes_atomically
from planner.errors import Fault, NoPlanError, ScenarioError
from planner.records import record
from planner.report.html.plan_figures import timetable_figure
from planner.report.plots.frontier import draw_frontier
from planner.report.plots.loss_frontier import draw_loss_frontier
from planner.report.plots.scene import check_drawable, draw_scene
from planner.report.plots.scenes import (
    SCENE_WIDTH,
    calibration_scene,
    estimate_scene,
    explanation_scene,
    inference_scene,
    market_scene,
    service_simulation_scene,
    tracking_scene,
    variants_scene,
)
from planner.report.plots.service import draw_service_frontier, draw_services
from planner.report.plots.simulation import draw_simulation
from planner.report.plots.timetable import draw_timetable
from planner.report.plots.what_if import draw
from planner.results.calibration import CalibrationResult
from planner.results.choices.model import LossFrontier
from planner.results.estimate import Estimate
from planner.results.explanation import Explanation
from planner.results.frontier import Frontier
from planner.results.inference import InferenceEstimate
from planner.results.market_fit import MarketFit
from planner.results.plan import Plan
from planner.results.report.scene import framed, to_svg
from planner.results.report.sketch import picture_id
from planner.results.serving.frontier import ServiceFrontier
from planner.results.serving.simulation import ServiceSimulation
from planner.results.simulation import Simulation
from planner.results.sweep import ManyVariants
from planner.results.tracking import Tracking
from planner.results.what_if import Sweep, Tornado, WhatIf

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.results.report.scene import Scene

SCENES: dict[type, Callable[[Any], Scene | None]] = {
    Estimate: estimate_scene,
    InferenceEstimate: inference_scene,
    Explanation: explanation_scene,
    MarketFit: market_scene,
    CalibrationResult: calibration_scene,
    Tracking: tracking_scene,
    ManyVariants: variants_scene,
    ServiceSimulation: service_simulation_scene,
}
"""Results that are drawn as bars, without Matplotlib where the picture is SVG."""
DRAWN: dict[type, Callable[..., None]] = {
    Frontier: draw_frontier,
    LossFrontier: draw_loss_frontier,
    ServiceFrontier: draw_service_frontier,
    Simulation: draw_simulation,
    WhatIf: draw,
    Sweep: draw,
    Tornado: draw,
}
"""Results with the picture of `--plot`."""
PICTURE_FORMATS = (".svg", ".png", ".pdf")
"""Files of a picture of bars."""


@record(frozen=True)
class Picture:
    """A picture as SVG, which a notebook shows."""

    svg: str

    def _repr_svg_(self) -> str:
        """Return the picture for a notebook."""
        return self.svg


def plot(result: Any, path: str | Path | None = None) -> Picture | None:
    """Draw a result: return it as a picture that a notebook shows, or write it into a file.

    A frontier, a simulation and what `what_if`, `sweep` and `tornado` return have the picture of `--plot`. A plan is
    drawn as its timetable, a service as its machines by the hour, an estimate as the memory of one GPU, an explanation
    as the cost on each GPU, a calibration, a market fit and a tracked run as bars of what was observed and expected,
    and the simulation of a service as the share of its requests within each limit.

    Parameters
    ----------
    result
        What a public function of the package returned.
    path
        A file that ends in `.svg` or `.png`, or also in `.html` or `.pdf` where the result allows it.

    Raises
    ------
    TypeError
        The object is no result that has a picture.
    NoPlanError
        There is nothing to draw, such as in an infeasible plan.
    ScenarioError
        The suffix is not supported, or the extra `plot` is missing.
    """
    draw_file = _drawing_of(result)
    if draw_file is not None:
        if path is not None:
            draw_file(result, path, [])
            return None
        stream = io.BytesIO()
        draw_file(result, stream, [])
        return Picture(stream.getvalue().decode("utf-8"))
    scene = _scene_of(result)
    if scene is None:
        raise NoPlanError("nothing to draw: the result has no plan or no figures")
    if path is None:
        return Picture(to_svg(framed(scene), picture_id(scene), standalone=True))
    _write_scene(framed(scene), Path(path))
    return None


def _drawing_of(result: Any) -> Callable[..., None] | None:
    """Return the function that draws a result with Matplotlib; None for a result drawn as bars or lanes."""
    if isinstance(result, Plan):
        if result.services and not result.jobs:
            return draw_services
        return draw_timetable if result.is_timetable and result.jobs else None
    if isinstance(result, Frontier | LossFrontier) and not result.points:
        raise NoPlanError("nothing to draw: no plan meets the limits")
    if isinstance(result, Simulation) and not result.jobs:
        raise NoPlanError("nothing to draw: no plan meets the limits")
    return DRAWN.get(type(result))


def _scene_of(result: Any) -> Scene | None:
    """Return a result as bars or lanes; None where it has no figures."""
    if isinstance(result, Plan):
        chart = timetable_figure(result).draw if result.jobs else None
        return chart(SCENE_WIDTH) if chart is not None else None
    if type(result) not in SCENES:
        known = sorted(one.__name__ for one in (Plan, *DRAWN, *SCENES))
        raise TypeError(f"{type(result).__name__} has no picture; results with one: {', '.join(known)}")
    return SCENES[type(result)](result)


def _write_scene(scene: Scene, path: Path) -> None:
    kind = path.suffix.lower()
    if kind not in PICTURE_FORMATS:
        what = f"{kind or 'no suffix'} is not a supported picture format"
        raise ScenarioError([Fault(str(path), 0, "", what, f"use one of {', '.join(PICTURE_FORMATS)}")])
    if kind == ".svg":
        content = to_svg(scene, picture_id(scene), standalone=True).encode()
    else:
        check_drawable(str(path))
        content = draw_scene(scene, kind[1:])
    write_bytes_atomically(path, content)
