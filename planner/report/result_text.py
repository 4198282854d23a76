"""The text of any result, as its command prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import generation, open_choices, reinforcement
from planner.report import words
from planner.report.catalog_text import render_market
from planner.report.estimate_text import render_estimate
from planner.report.explanation_text import render as render_explanation
from planner.report.frontier_text import render_frontier
from planner.report.plan_answer import render_answer
from planner.report.plan_sections import render as render_technique
from planner.report.plan_text import render as render_details
from planner.report.run_text import render_calibration, render_probe, render_tracking
from planner.report.simulation_text import render_simulation
from planner.report.sweep_text import render_sweep, render_variants
from planner.report.what_if_text import render_tornado, render_what_if
from planner.results.chosen_model import LossCalibration, LossFrontier
from planner.results.estimate import Estimate
from planner.results.explanation import Explanation, TechniqueAnswer
from planner.results.frontier import Frontier
from planner.results.inference import InferenceEstimate
from planner.results.market_results import MarketFit
from planner.results.plan import Plan
from planner.results.result_tables import Result
from planner.results.run_results import CalibrationResult, ProbeVerdict, Tracking
from planner.results.service_results import SHOWN_BY_SUBJECTS
from planner.results.simulation import Simulation
from planner.results.what_if import ManyVariants, Sweep, Tornado, WhatIf
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Callable


def _text_of_subject(result: Result) -> str:
    subject = shown_by(result)
    assert subject is not None
    return subject.text(result)


TEXTS: dict[type[Result], Callable[[Any], str]] = {
    Plan: render_answer,
    Frontier: render_frontier,
    LossCalibration: lambda found: open_choices.render_loss_calibration(found),
    LossFrontier: lambda found: open_choices.render_loss_frontier(found),
    Simulation: render_simulation,
    WhatIf: render_what_if,
    Sweep: render_sweep,
    Tornado: render_tornado,
    ManyVariants: render_variants,
    Estimate: render_estimate,
    reinforcement.PreferenceEstimate: lambda found: reinforcement.render_preference(found),
    reinforcement.RlEstimate: lambda found: reinforcement.render_rl(found),
    InferenceEstimate: lambda found: generation.render_inference(found),
    Explanation: render_explanation,
    TechniqueAnswer: render_technique,
    MarketFit: render_market,
    CalibrationResult: render_calibration,
    Tracking: render_tracking,
    ProbeVerdict: render_probe,
    **dict.fromkeys(SHOWN_BY_SUBJECTS, _text_of_subject),
}
"""What writes the text of each result."""


def render_result(result: Result) -> str:
    """Return the text of a result in lines as wide as the terminal."""
    return TEXTS[type(result)](result)


def text(result: Result, width: int = words.WIDTH, *, details: bool = False) -> str:
    """Return the text of a result as its command prints it, in lines of `width` columns; `str(result)` is the same.

    `details`: of a plan everything that there is to say, as `solve --details` prints it.

    >>> text(planner.estimate("mistral-7b", "A10G", weight_bits=4)).splitlines()[0]
    'mistral-7b on 1 x A10G: fits, ...'
    """
    with words.text_width(width):
        if details and isinstance(result, Plan):
            return render_details(result)
        return render_result(result)
