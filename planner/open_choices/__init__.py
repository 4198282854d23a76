"""Jobs that leave their model, tokens or batch open: the door of what is chosen for them, and of its text.

Others import this package alone, and take names from it: `open_choices.loss_frontier`. A module is
loaded when a name of it is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import on_first_use

if TYPE_CHECKING:
    from planner.open_choices.decision import decided_scenario as decided_scenario
    from planner.open_choices.model_choice_text import answer_lines as answer_lines
    from planner.open_choices.model_choice_text import batch_lines as batch_lines
    from planner.open_choices.model_choice_text import loss_picture as loss_picture
    from planner.open_choices.model_choice_text import model_lines as model_lines
    from planner.open_choices.model_choice_text import render_loss_calibration as render_loss_calibration
    from planner.open_choices.model_choice_text import render_loss_frontier as render_loss_frontier
    from planner.open_choices.open_questions import OPEN_CHOICES as OPEN_CHOICES
    from planner.open_choices.open_questions import calibrate_losses as calibrate_losses
    from planner.open_choices.open_solve import fix_choice as fix_choice
    from planner.open_choices.open_solve import loss_frontier as loss_frontier
    from planner.open_choices.open_solve import scenario_as_chosen as scenario_as_chosen

_NAMES_BY_MODULE = {
    "planner.open_choices.open_questions": ("OPEN_CHOICES", "calibrate_losses"),
    "planner.open_choices.decision": ("decided_scenario",),
    "planner.open_choices.open_solve": ("fix_choice", "loss_frontier", "scenario_as_chosen"),
    "planner.open_choices.model_choice_text": (
        "answer_lines",
        "batch_lines",
        "loss_picture",
        "model_lines",
        "render_loss_calibration",
        "render_loss_frontier",
    ),
}

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)
